"""People with few records on a column of few places: the walk of many at a time against counts of every cut."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privpac.data import Domain, Integers, UserData
from privpac.rules import Stumps, Thresholds
from privpac.rules.kernels import cuts as few
from privpac.rules.kernels.events import FEW_PLACES
from privpac.rules.profile import Exceeds, HybridStatistic, Mean, Regret, Statistic, own_clip

STATISTICS: list[Statistic] = [
    Exceeds(0),
    Exceeds({0: 0, 3: 2, 40: 1 << 50}),
    Mean(),
    Mean((1 << 31) - 1),
    Regret(own_clip),
    Regret(7, levels=64),
]


def people(sizes: NDArray[np.int64], places: int, seed: int) -> tuple[UserData, list[NDArray[Any]], NDArray[Any]]:
    """Users of these sizes: two columns, codes at both ends and many that repeat, and labels."""
    rng, n = np.random.default_rng(seed), int(sizes.sum())
    near = np.array([0, 1, places // 2, places - 2, places - 1]) % places
    columns = [np.where(rng.random(n) < 0.4, rng.choice(near, n), rng.integers(0, places, n)) for _ in range(2)]
    y = (rng.random(n) < 0.3) ^ (columns[0] > places // 2)
    domains: dict[str, Domain] = {"a": Integers(0, places - 1), "b": Integers(0, places - 1)}
    ends = np.cumsum(sizes)
    values = list(zip(columns[0].tolist(), columns[1].tolist(), y.astype(int).tolist()))
    users = [values[b - m : b] for m, b in zip(sizes.tolist(), ends.tolist())]
    return UserData.from_users(users, features=domains), columns, y


def mistakes(x: NDArray[Any], y: NDArray[Any], places: int, directions: tuple[str, ...]) -> NDArray[np.int64]:
    """Of every cut, by counting."""
    passed = np.concatenate([[0], np.cumsum(np.bincount(x, np.where(y, 1, -1), places)).astype(np.int64)])
    above = int((~y).sum()) + passed
    return np.concatenate([above if direction == "above" else len(y) - above for direction in directions])


def levels(statistic: Statistic, cap: int, wrong: NDArray[np.int64], least: int, m: int) -> NDArray[np.int64]:
    free = statistic.offset_of(m) + (least if statistic.uses_minimum else 0)
    return statistic.bound * np.clip(wrong - free, 0, cap) // cap


@pytest.mark.parametrize("places", [1, 2, 5, 97, FEW_PLACES - 1, FEW_PLACES, FEW_PLACES + 1])
@pytest.mark.parametrize("direction", ["above", "below", "both"])
@pytest.mark.parametrize("columns", [1, 2])
def test_every_cut_has_the_score_of_its_definition(places: int, direction: str, columns: int) -> None:
    large = places > 97
    sizes = np.array([0, 1, 64, 65, 66, 200, *(range(1, 64, 7) if large else range(2, 64)), 3, 0])
    users, x, y = people(sizes, places, places)
    domain = Integers(0, places - 1)
    concept: Any = (
        Thresholds(domain, feature="a", direction=direction)
        if columns == 1
        else Stumps({"a": domain, "b": domain}, direction=direction)
    )
    ends = np.cumsum(sizes)
    wrong = [
        np.concatenate([mistakes(x[j][b - m : b], y[b - m : b], places, concept.directions) for j in range(columns)])
        for m, b in zip(sizes.tolist(), ends.tolist())
    ]
    held = [(m, e) for m, e in zip(sizes.tolist(), wrong) if m]
    for statistic in STATISTICS:
        expected = sum(levels(statistic, statistic.cap_of(m), e, int(e.min()), m) for m, e in held)
        assert listed(concept.profile(users, statistic)) == np.asarray(expected).tolist()
    both = [[levels(Mean(), cap, e, int(e.min()), m) for cap in (own_clip(m), m)] for m, e in held]
    expected = np.concatenate([sum(one) for one in zip(*both)])
    found = concept.profile(users, HybridStatistic())
    assert listed(found) == expected.tolist()
    own = np.array([[e.min() for _, e in held], [e.max() for _, e in held]])
    assert found.optimism == HybridStatistic().optimism(np.array([m for m, _ in held]), own)


def listed(profile: Any) -> list[int]:
    return [score for first, last, score in profile.blocks() for _ in range(first, last + 1)]


@pytest.mark.parametrize("users", [1, few._LANES - 1, few._LANES, few._LANES + 1, 5 * few._LANES + 3])
def test_whole_and_broken_batches_add_up(users: int) -> None:
    """A class of sizes that fills its batch, and one that does not, beside people with more and with no records."""
    rng = np.random.default_rng(users)
    sizes = rng.choice([0, 1, 4, 5, 8, 9, 33, 64, 70], users, p=[0.1, 0.4, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05])
    data, x, y = people(sizes, 30, users)
    concept = Thresholds(Integers(0, 29), feature="a", direction="both")
    expected = np.zeros(62, np.int64)
    for m, b in zip(sizes.tolist(), np.cumsum(sizes).tolist()):
        e = mistakes(x[0][b - m : b], y[b - m : b], 30, ("above", "below"))
        expected += levels(Mean(), m, e, int(e.min()), m) if m else 0
    assert listed(concept.profile(data, Mean())) == expected.tolist()


def exchanges(rows: int) -> list[tuple[int, int]]:
    pairs = np.zeros((few._PAIRS, 2), np.uint64)
    count = few._network(rows, pairs)
    return [(int(a) // few._LANES, int(b) // few._LANES) for a, b in pairs[:count]]


def test_the_pairs_of_rows_sort_everything() -> None:
    """A network that sorts every 0 and 1 sorts (Knuth, theorem 5.3.4Z): all of them decide up to 12 rows; beyond,
    those that differ in one place from sorted ones, and random ones."""
    rng = np.random.default_rng(0)
    for rows in range(1, few.FEW_RECORDS + 1):
        if rows <= 12:
            columns = np.array(list(itertools.product((0, 1), repeat=rows)), np.int64).reshape(-1, rows).T.copy()
        else:
            steps = np.tril(np.ones((rows, rows), np.int64))
            columns = np.concatenate([steps ^ np.roll(np.eye(rows, dtype=np.int64), k, 0) for k in range(rows)], axis=1)
            columns = np.concatenate([columns, rng.integers(0, 2, (rows, 2000))], axis=1)
        for a, b in exchanges(rows):
            assert a < b < rows
            columns[a], columns[b] = columns[a] & columns[b], columns[a] | columns[b]
        assert (np.diff(columns, axis=0) >= 0).all()
    assert len(exchanges(few.FEW_RECORDS)) == few._PAIRS


@pytest.mark.parametrize("people", [0, 1, 2, 50, 3000])
@pytest.mark.parametrize("most", [1, 40, 1025, 70_000, 10**12])
def test_shapes_are_read_off_for_every_size(people: int, most: int) -> None:
    """A table of small sizes and a sort of large ones say the same as one person at a time."""
    sizes = np.random.default_rng(most).integers(0, most + 1, people)
    for statistic in (Exceeds(lambda m: m // 3), HybridStatistic()):
        offsets, caps = statistic.shape(sizes)
        assert offsets.tolist() == [statistic.offset_of(m) if m else 0 for m in sizes.tolist()]
        assert caps.T.tolist() == [
            list(statistic.caps_of(m)) if m else [1] * statistic.n_scores for m in sizes.tolist()
        ]
