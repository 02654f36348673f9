"""What is sampled is the stated law: sound filters, exact inversion, and frequencies.

Statistical tests use fixed seeds and have a false-alarm probability of 1e-7 each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from flint import arb
from scipy.stats import chi2

from privpac.errors import EntropyError, InsecureRandomnessError
from privpac.exact import as_arb, precision
from privpac.law import BOTTOM, Law
from privpac.law.blocks import BlockLaw
from privpac.law.sampling import Levels, invert
from privpac.testing import SeededRng, WordRng, insecure_randomness

F = Fraction


def random_law(seed: int) -> BlockLaw:
    """Unit and huge multiplicities, narrow and wide scores, slow and fast rates, e and rational bases."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 7, 40, 600]))
    width = int(rng.choice([1, 5, 50, 5000, 2**21, 2**40]))
    scores = rng.integers(0, width, n) - width // 2
    counts = [1, lambda: int(rng.integers(1, 2**63)), lambda: int(rng.integers(1, 2**62)) << int(rng.integers(0, 700))][
        seed % 3
    ]
    rate = (
        {"base": 1 + F(int(rng.integers(1, 100)), 40)}
        if seed % 4 == 0
        else {"eta": F(int(rng.integers(0, 60)), int(rng.integers(1, 3 * width)))}
    )
    law = Law.from_blocks(counts=[counts() if callable(counts) else counts for _ in range(n)], score=scores, **rate)  # type: ignore[arg-type]
    assert isinstance(law, BlockLaw)
    return law


def cumulative(levels: Levels, bits: int) -> list[arb]:
    """W_j / Z, straight from the definition."""
    with precision(bits):
        weights = [levels.rate.arb(gap) * count for gap, count in zip(levels.gaps.tolist(), levels.totals)]
        z = sum(weights, arb(0))
        out, running = [], arb(0)
        for weight in weights:
            running += weight
            out.append(running / z)
        return out


@pytest.mark.parametrize("seed", range(80))
def test_filter_is_within_its_error_of_the_true_quotients(seed: int) -> None:
    law = random_law(seed)
    table = law._filter
    assert table is not None
    assert table.error < 1e-11
    truth = cumulative(law.levels, 300)
    assert table.complete == (len(table.gaps) == len(truth))
    assert table.gaps.tolist() == law.levels.gaps[: len(table.gaps)].tolist()
    with precision(300):
        for quotient, exact in zip(table.quotients.tolist(), truth):
            assert abs(as_arb(F(quotient)) - exact) <= as_arb(F(table.error))


@pytest.mark.parametrize("seed", range(60))
def test_filter_accepts_only_words_whose_whole_cylinder_lies_in_the_level(seed: int) -> None:
    law = random_law(seed)
    table = law._filter
    assert table is not None
    truth = cumulative(law.levels, 400)
    for j in {0, len(table.gaps) // 2, len(table.gaps) - 1}:
        near = int(table.quotients[j] * 2.0**64)
        margin = int(table.error * 2.0**64)
        for u in (
            near - 2 * margin,
            near - margin - 9,
            near - 1,
            near,
            near + margin + 9,
            near + 2 * margin,
            0,
            2**64 - 1,
        ):
            if not 0 <= u < 2**64:
                continue
            level = table.accept(u)
            if level is None:
                continue
            with precision(400):
                assert level == len(truth) - 1 or as_arb(F(u + 1, 2**64)) <= truth[level]
                assert level == 0 or as_arb(F(u, 2**64)) >= truth[level - 1]


def test_filter_is_skipped_when_doubles_cannot_hold_the_counts() -> None:
    law = Law.from_blocks(counts=[2**1200, 1], score=[0, 1], eta=1)
    assert isinstance(law, BlockLaw)
    assert law._filter is None
    block, offset = law.sample_block()
    assert block == 0
    assert 0 <= offset < 2**1200


# Exact inversion


@pytest.mark.parametrize("weights", [[F(1), F(1, 3), F(5)], [F(1), F(1)], [F(1), F(1, 2**40), F(1, 3)]])
def test_enumerating_the_bit_tree_leaves_only_a_null_set(weights: list[Fraction]) -> None:
    """Decided mass lies in [p - undecided, p] for every level, with deliberately coarse balls."""
    z = sum(weights)
    truth = [w / z for w in weights]
    decided = [F(0)] * len(weights)
    open_words = [0]
    for bits in range(1, 57):
        with precision(bits + 4):
            running, balls = arb(0), []
            for weight in weights:
                running += as_arb(weight)
                balls.append(running * arb(1, 2.0 ** -(bits + 2)))
            following = []
            for u in (child for word in open_words for child in (2 * word, 2 * word + 1)):
                level = invert(balls, balls[-1], u, bits)
                if level is None:
                    following.append(u)
                else:
                    decided[level] += F(1, 2**bits)
        open_words = following
        assert len(open_words) <= 6 * len(weights)
    undecided = F(len(open_words), 2**56)
    assert undecided < F(1, 10**15)
    for mass, exact in zip(decided, truth):
        assert exact - undecided <= mass <= exact


def test_truncated_levels_are_never_answered_without_certainty() -> None:
    """Near the top of the unit interval the tail might begin, so the draw asks for more bits."""
    law = Law.from_blocks([0, 1], [0, 1], [0, 2000], 1)
    assert isinstance(law, BlockLaw)
    with insecure_randomness():
        assert law.sample(WordRng([0])) == 0
        assert law.sample(WordRng([2**64 - 1, 0])) == 0
        ones = [2**64 - 1] * 60  # 3840 ones: e**-2000 is about 2**-2885, so the tail is reached
        assert law.sample(WordRng(ones)) == 1
        with pytest.raises(EntropyError):
            law.sample(WordRng([2**64 - 1]))


def test_equal_weights_split_at_dyadic_points() -> None:
    law = Law.from_blocks([0, 1], [0, 1], [0, 1], 0)
    with insecure_randomness():
        assert law.sample(WordRng([2**63 - 1, 0])) == 0
        assert law.sample(WordRng([2**63, 5])) in (0, 1)
        assert {law.sample(WordRng([2**63, 0])), law.sample(WordRng([2**63 - 1, 2**64 - 1]))} == {0, 1}


def test_seeded_generators_need_permission() -> None:
    with pytest.raises(InsecureRandomnessError):
        Law.from_blocks([0], [5], [0], 1).sample(SeededRng(1))


# Frequencies


def chi_square_agrees(law: Law, draw: Callable[[], Any], probability: dict[Any, float], n: int) -> None:
    seen = Counter(draw() for _ in range(n))
    assert set(seen) <= set(probability)
    assert sum(probability.values()) == pytest.approx(1)
    statistic = sum((seen[v] - n * p) ** 2 / (n * p) for v, p in probability.items())
    assert statistic < chi2.isf(1e-7, len(probability) - 1)


LAWS: dict[str, Law] = {
    "value blocks": Law.from_blocks([0, 3, 7], [2, 6, 9], [1, 0, 2], "1/2"),
    "candidates": Law.from_blocks(score=[3, 0, 2, 2, 0, 7], eta="1/2"),
    "labelled": Law.from_blocks(counts=[3, 1, 5], score=[2, 0, 1], eta="1/3"),
    "steps": Law.from_steps([(5, [0, 2], 4, [1, 0]), (100, [0, 1], 2, [0, 3])], base="3/2"),
    "huge values": Law.from_blocks([2**300, 2**300 + 4], [2**300 + 3, 2**300 + 5], [1, 0], base=2),
    "mixture": Law.mixture([("1/4", Law.point(BOTTOM)), ("3/4", Law.from_blocks([0, 2], [1, 5], [0, 1], 1))]),
    "weights": Law.from_weights({"a": 1, 7: F(1, 3), range(10, 13): [(1, -1), (F(1, 2), 1)]}),
}


@pytest.mark.parametrize("name", LAWS)
def test_frequencies_follow_the_law(name: str) -> None:
    law = LAWS[name]
    values = list(law.as_finite().values())
    probability = {value: law.prob_float(value) for value in values}
    rng = SeededRng(f"frequencies of {name}")
    with insecure_randomness():
        chi_square_agrees(law, lambda: law.sample(rng), probability, 8000)


def test_a_forced_wide_band_escalates_often_and_keeps_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    law = Law.from_blocks([0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5], "1/2")
    assert isinstance(law, BlockLaw)
    assert law._filter is not None
    law.__dict__["_filter"] = evolve(law._filter, error=0.05)
    escalations = 0
    plain = Levels.invert

    def counted(self: Levels, u: int, bits: int) -> int | None:
        nonlocal escalations
        escalations += 1
        return plain(self, u, bits)

    monkeypatch.setattr(Levels, "invert", counted)
    rng = SeededRng("wide band")
    with insecure_randomness():
        chi_square_agrees(law, lambda: law.sample(rng), {v: law.prob_float(v) for v in range(6)}, 12000)
    assert 0.1 < escalations / 12000 < 0.9


def test_without_a_filter_the_law_is_the_same() -> None:
    law = Law.from_blocks([0, 1, 2], [0, 1, 2], [0, 1, 5], 1)
    law.__dict__["_filter"] = None
    rng = SeededRng("no filter")
    with insecure_randomness():
        chi_square_agrees(law, lambda: law.sample(rng), {v: law.prob_float(v) for v in range(3)}, 6000)


def test_draws_from_two_to_the_64_cuts_are_spread_over_their_block() -> None:
    law = Law.from_steps([(0, [0, 2**40], 2**64, [0, 1])], "1/100")
    rng = SeededRng("cuts")
    with insecure_randomness():
        top = [law.sample(rng) >> 61 for _ in range(4000)]
    counts = np.bincount(top, minlength=8)[:8]
    assert float(((counts - 500.0) ** 2 / 500.0).sum()) < chi2.isf(1e-7, 7)
