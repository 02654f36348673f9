"""Scores of every rule against counting errors one by one, and the race learner on top."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.device.correlated_sampling import race_indexed, rate
from privpac.device.items import Records
from privpac.device.scores import (
    CutScores,
    IntervalScores,
    ParityScores,
    ParitySolver,
    PointScores,
    RaceLearner,
    RuleScores,
    dense,
    public_basis,
    walsh_hadamard,
)
from privpac.errors import ParameterError, TooLargeError
from privpac.methods.agreement.plurality import plan_race
from privpac.papers.correlated_sampling import TableScores
from privpac.rng import derive

SEED = bytes(range(32))
labels = st.integers(0, 1)

CLASSES: dict[str, RuleScores] = {
    "cuts": CutScores((5, 2, 7)),
    "above": CutScores((5, 2, 7), ("above",)),
    "below": CutScores((5, 2, 7), ("below",)),
    "parities": ParityScores(3),
    "points": PointScores(6),
    "intervals": IntervalScores(7, 7),
    "coarse intervals": IntervalScores(11, 4),
    "table": TableScores(np.random.default_rng(0).integers(0, 2, (9, 6)).tolist()),
}


@pytest.mark.parametrize("name", sorted(CLASSES))
@settings(max_examples=40)
@given(data=st.data())
def test_scores_count_the_errors_of_every_rule(name: str, data: Any) -> None:
    scores = CLASSES[name]
    row = st.tuples(*[st.integers(low, high) for low, high in scores.columns])
    sample = data.draw(st.lists(st.tuples(row, labels), min_size=1, max_size=12))
    x, y = np.array([a for a, _ in sample]), np.array([b for _, b in sample])
    parts = scores.components(Records(x, y))
    assert tuple(part.size for part in parts) == scores.sizes
    found = np.concatenate([dense(part) for part in parts]).tolist()
    assert found == [int((scores.rule(h).predict(x) != y).sum()) for h in range(sum(scores.sizes))]


def test_cuts_at_the_ends_of_2_to_the_64_values() -> None:
    top = 2**64 - 1
    x = np.array([[0], [top], [top - 1]], dtype=np.uint64)
    part = CutScores((1 << 64,), ("above",)).components(Records(x, np.array([0, 1, 0])))[0]
    assert part.starts is not None
    assert part.starts.tolist() == [0, 1, top]
    assert part.scores.tolist() == [2, 1, 0]
    ends = PointScores(1 << 64).components(Records(x, np.array([1, 1, 0])))[0]
    assert ends.starts is not None
    assert ends.starts.tolist() == [0, 1, top - 1, top]
    assert ends.scores.tolist() == [1, 2, 3, 1]


def test_component_numbers_of_stumps_are_twice_the_column_plus_the_sign() -> None:
    records = Records(np.array([[1, 1]]), np.array([1]))
    assert [part.number for part in CutScores((3, 4)).components(records)] == [0, 1, 2, 3]
    assert [part.number for part in CutScores((3, 4), ("below",)).components(records)] == [1, 3]


@given(st.lists(st.integers(2, 9), min_size=1, max_size=6), st.data())
def test_numbers_run_over_components(sizes: list[int], data: Any) -> None:
    number = data.draw(st.integers(0, sum(sizes) - 1))
    found = CutScores(tuple(size - 1 for size in sizes), ("above",)).rule(number)
    assert sum(sizes[: found.column]) + found.cut == number
    assert 0 <= found.cut < sizes[found.column]


@given(st.integers(0, 5), st.integers(0, 10**6))
def test_transform_equals_its_definition(d: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(-9, 9, 2**d)
    expected = [sum(int(v) * (-1) ** (a & x).bit_count() for x, v in enumerate(values)) for a in range(2**d)]
    assert walsh_hadamard(values).tolist() == expected


@pytest.mark.parametrize(
    "build",
    [
        lambda: CutScores(()),
        lambda: CutScores((0,)),
        lambda: CutScores((2**64 + 1,)),
        lambda: CutScores((5,), ("below", "above")),
        lambda: CutScores((5,), ()),
        lambda: PointScores(0),
        lambda: IntervalScores(0, 1),
        lambda: IntervalScores(5, 6),
        lambda: TableScores([]),
        lambda: TableScores([[0, 2]]),
        lambda: TableScores([[0], [0, 1]]),
        lambda: RaceLearner(PointScores(3), -1),
        lambda: RaceLearner(PointScores(3), 1, race="flat"),
        lambda: RaceLearner(PointScores(3), 1, min_records=0),
        lambda: ParitySolver(0),
    ],
)
def test_parameters_are_checked(build: Any) -> None:
    with pytest.raises(ParameterError):
        build()


def test_limits_name_the_alternative() -> None:
    with pytest.raises(TooLargeError, match="learner='solve'"):
        ParityScores(23)
    with pytest.raises(TooLargeError, match="1413"):
        IntervalScores(10**6, 1414)
    with pytest.raises(TooLargeError, match="dyadic"):
        RaceLearner(PointScores(5000), 1, race="indexed")


def test_intervals_over_all_cells_are_numbered_by_first_and_last_cell() -> None:
    scores = IntervalScores(4, 4)
    runs = [(scores.rule(h).low, scores.rule(h).high) for h in range(scores.sizes[0])]
    assert runs == [(0, 0), *((low, high) for low in range(4) for high in range(low + 1, 5))]
    edges = IntervalScores(1000, 7)
    assert [edges.edge(cell) for cell in (0, 1, 7)] == [0, 143, 1000]


# The learner


def test_flat_race_uses_its_own_key() -> None:
    learner = RaceLearner(PointScores(5), rate(3), race="indexed")
    x, y = [0, 1, 2, 3, 4, 1], [0, 1, 0, 0, 0, 1]
    winner = race_indexed(derive(SEED, "race"), [3, 0, 3, 3, 3], 6, rate(3))
    assert winner is not None
    assert learner.item(x, y, SEED) == bytes([winner])


def test_disagreement_falls_with_the_number_of_records_and_stays_below_its_bound() -> None:
    """Thresholds on 15 points, gamma 20: 100 pairs of users each; the bound gamma sqrt(ln(2|H|)/(2m)) per user."""
    learner, random, shares = RaceLearner(CutScores((15,), ("above",)), rate(20)), np.random.default_rng(4), []
    sizes = (50, 800, 12800)
    for m in sizes:
        differ = 0
        for pair in range(100):
            items = []
            for _ in range(2):
                x = random.integers(0, 15, m)
                items.append(learner.item(x, (x >= 7) ^ (random.random(m) < 0.1), derive(SEED, "pair", pair)))
            differ += items[0] != items[1]
        shares.append(differ / 100)
    assert shares[0] > shares[1] > shares[2]
    # Hoeffding: 0.27 above its mean has probability below 1e-6.
    assert all(share <= 2 * 20 * math.sqrt(math.log(32) / (2 * m)) + 0.27 for share, m in zip(shares, sizes))


def test_stumps_find_the_planted_column() -> None:
    random = np.random.default_rng(2)
    learner = RaceLearner(CutScores((100, 100, 100)), rate(100))
    x = random.integers(0, 100, (3000, 3))
    rule = learner.decode(learner.item(x, x[:, 1] < 40, SEED) or b"")
    assert rule is not None
    assert np.mean(rule.predict(x) != (x[:, 1] < 40)) < 0.1


def test_certified_plans_are_the_printed_ones() -> None:
    assert plan_race(16, "0.2", 0.1).records == 735416950
    assert plan_race(1000, 0.1, 0.05).records == 74854248436
    assert abs(plan_race(16, "0.2", 0.1).Gamma / 2**40 * math.log(2) - 68.66933284461882) < 1e-9
    for bad in ((0, "0.2", "0.1"), (16, 0, "0.1"), (16, "0.2", 1)):
        with pytest.raises(ParameterError):
            plan_race(*bad)


# Parities of many columns


@settings(max_examples=30)
@given(st.integers(1, 40), st.integers(0, 10**6))
def test_solver_explains_every_record_of_a_planted_parity(width: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    x, mask = random.integers(0, 2, (30, width)), random.integers(0, 2, width)
    learner = ParitySolver(width)
    item = learner.item(x, x @ mask % 2, SEED)
    assert item is not None
    rule = learner.decode(item)
    assert rule is not None
    assert np.array_equal(rule.predict(x), x @ mask % 2)


def test_solver_users_who_span_everything_agree_and_noise_says_nothing() -> None:
    random, width = np.random.default_rng(8), 30
    mask, learner = random.integers(0, 2, 30), ParitySolver(30)
    samples = [random.integers(0, 2, (60, width)) for _ in range(5)]
    items = {learner.item(x, x @ mask % 2, SEED) for x in samples}
    assert items == {sum(int(bit) << j for j, bit in enumerate(mask)).to_bytes(4, "little")}
    y = samples[0] @ mask % 2
    y[0] ^= 1
    assert learner.item(samples[0], y, SEED) is None


def test_basis_is_independent_and_public() -> None:
    for width in (1, 5, 24, 65):
        basis = public_basis(SEED, width)
        assert basis == public_basis(SEED, width)
        reduced: list[int] = []
        for vector in basis:
            for other in reduced:
                vector = min(vector, vector ^ other)
            assert vector
            reduced.append(vector)
