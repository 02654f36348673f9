"""Interior points and medians: walks, samplers against laws, accuracy on hard shapes, edge cases."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from privpac.errors import AccuracyWarning, LawError, ParameterError, TooLargeError
from privpac.exact import as_arb, precision
from privpac.law import BOTTOM
from privpac.mechanisms import interior_point as hidden_walk
from privpac.mechanisms.interior_point import (
    InteriorPoint,
    Level,
    PairLevel,
    PrefixInteriorPoint,
    WalkReduction,
    candidates,
    coin,
    interior_score,
    kept_law,
    matchings,
    point_law,
    point_masses,
    step,
    step_ball,
    walk,
)
from privpac.testing import SeededRng, WordRng, insecure_randomness

ALARM = 1e-7
"""False-alarm probability of each statistical test; seeds are fixed."""


# The walk


def literal_walk(values: list[int], bits: int, T: int, goes_left: Callable[[int], bool]) -> list[int]:
    """Node by node, by the definition."""
    depth, prefix, held, fallen = 0, 0, list(values), []
    while len(held) > T and depth < bits:
        right = [x for x in held if x >> (bits - depth - 1) & 1]
        left = [x for x in held if not x >> (bits - depth - 1) & 1]
        taken, other = (left, right) if goes_left(len(left) - len(right)) else (right, left)
        fallen += [depth] * len(other)
        held, depth, prefix = taken, depth + 1, 2 * prefix + (taken is right)
    return fallen + [bits] * len(held) if depth == bits else fallen


def test_the_fast_walk_is_the_literal_walk_with_the_same_coins() -> None:
    inputs = random.Random(51)
    with insecure_randomness():
        for case in range(10_000):
            bits, kappa = inputs.randint(1, 7), inputs.randint(1, 4)
            T = kappa + inputs.randint(0, 2)
            values = sorted(inputs.getrandbits(bits) for _ in range(T + inputs.randint(1, 12)))
            level = Level(kappa, "3/2", T, 1, 2, "1/9", 2)
            kept = len(values) - T
            fast = walk(values, bits, T, coin(level, SeededRng(case)))
            literal = literal_walk(values, bits, T, coin(level, SeededRng(case)))
            # Only at a leaf are the values of the stop listed; they are among the T that are dropped.
            assert fast[:kept] == literal[:kept]
            assert kept <= len(fast) <= len(literal)


@given(st.integers(1, 30), st.integers(-31, 31), st.fractions(Fraction(65, 64), 8))
def test_the_ball_of_a_step_holds_the_step(kappa: int, d: int, r: Fraction) -> None:
    if abs(d) < kappa:
        with precision(128):
            ball = step_ball(d, r, kappa)
            exact = step(d, r, kappa)
            assert abs(float(ball) - float(exact)) <= 1e-15
            assert ball.overlaps(as_arb(exact))


@pytest.mark.parametrize("d", [-2, -1, 0, 1, 2])
def test_a_coin_falls_left_exactly_below_the_step(d: int) -> None:
    """The 64-bit words on both sides of the probability decide differently; certain steps draw no word."""
    level = Level(3, 2, 3, 1, 2, "1/9", 2)
    p = step(d, level.r, level.kappa)
    below = (p.numerator << 64) // p.denominator
    with insecure_randomness():
        assert coin(level, WordRng([below - 1]))(d)
        assert not coin(level, WordRng([below + 1]))(d)
        assert coin(level, WordRng([]))(3)
        assert not coin(level, WordRng([]))(-3)


def test_an_undecided_word_draws_another_one() -> None:
    level = Level(3, 2, 3, 1, 2, "1/9", 2)
    p = step(1, level.r, level.kappa)
    edge = (p.numerator << 64) // p.denominator
    with insecure_randomness():
        low, high = WordRng([edge, 0]), WordRng([edge, (1 << 64) - 1])
        assert coin(level, low)(1)
        assert not coin(level, high)(1)
        assert low.used == high.used == 2


def test_too_many_walks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_walk, "MAX_PATHS", 4)
    with pytest.raises(LawError):
        kept_law(sorted(range(16)), 4, Level(1, 2, 1, 1, 2, "1/9", 2))


# Depth to point


@given(st.lists(st.integers(0, 63), min_size=1, max_size=9), st.integers(0, 6), st.integers(40, 63))
def test_candidates_are_the_ends_and_the_middle_of_a_block(values: list[int], z: int, top: int) -> None:
    prefix = min(values[0], top) >> (6 - z)
    block = [x for x in range(64) if x >> (6 - z) == prefix]
    expected = {block[0], block[len(block) // 2], block[-1]}
    assert candidates(prefix, z, 6, top) == sorted({min(c, top) for c in expected})


@given(st.lists(st.integers(0, 15), min_size=1, max_size=9), st.integers(0, 4))
def test_masses_are_those_of_the_laws_that_are_sampled(values: list[int], z: int) -> None:
    values.sort()
    stage = (Fraction(5, 4), Fraction(1, 100), Fraction(9, 8))
    masses = point_masses(values, 4, 15, z, stage)
    assert sum(masses.values()) == 1
    chosen = Fraction(0)
    prefixes = Counter(x >> (4 - z) for x in values)
    total = 1 + sum(stage[1] / (1 - stage[1]) * (stage[0] ** q - 1) / (stage[0] - 1) for q in prefixes.values())
    assert masses[BOTTOM] == 1 / total
    for prefix, q in prefixes.items():
        w = stage[1] / (1 - stage[1]) * (stage[0] ** q - 1) / (stage[0] - 1)
        chosen += w / total * point_law(values, candidates(prefix, z, 4, 15), stage[2]).prob_exact(values[0])
    assert masses.get(values[0], 0) == chosen
    assert all(
        interior_score(values, c) == min(sum(x <= c for x in values), sum(x >= c for x in values)) for c in range(16)
    )


# Sampler and law


# Large bases, so that a wrong window or order shows.
ONE = WalkReduction([Level(2, 2, 2, 3, 4, "1/2", 4)], 6, 7, 8)
TWO = WalkReduction([Level(2, 2, 2, 2, 4, "1/2", 4), Level(1, 2, 1, 2, 4, "1/2", 4)], 6, 7, 8)
PAIRS = PrefixInteriorPoint([PairLevel(2, 1, 4, "1/2", 4)], 6, 7, 8)
PAIRS_TWICE = PrefixInteriorPoint([PairLevel(1, 2, 4, "1/2", 4), PairLevel(1, 1, 4, "1/2", 4)], 6, 7, 8)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(ONE, id="one", marks=pytest.mark.slow),
        pytest.param(TWO, id="two"),
        pytest.param(PAIRS, id="pairs", marks=pytest.mark.slow),
        pytest.param(PAIRS_TWICE, id="pairs twice"),
    ],
)
def test_the_sampler_follows_the_law(point: WalkReduction | PrefixInteriorPoint) -> None:
    values, draws = [0, 1, 1, 3, 4, 5, 6, 7], 1500
    law = point.law(values)
    with insecure_randomness():
        rng = SeededRng("chi-square")
        seen = Counter(point.sample(values, rng) for _ in range(draws))
    expected = {value: float(law.prob_exact(value)) * draws for value in [*range(8), BOTTOM]}
    assert set(seen) <= {value for value, mass in expected.items() if mass > 0}
    cells = [value for value, mass in expected.items() if mass >= 5]
    rest = draws - sum(seen[v] for v in cells), draws - sum(expected[v] for v in cells)
    statistic = sum((seen[v] - expected[v]) ** 2 / expected[v] for v in cells)
    statistic += (rest[0] - rest[1]) ** 2 / rest[1] if rest[1] > 1 else 0
    assert statistic < chi2.isf(ALARM, len(cells))


@given(st.lists(st.integers(0, 7), min_size=8, max_size=8))
@settings(max_examples=30)
def test_laws_have_mass_one_and_reach_only_the_domain(values: list[int]) -> None:
    for point in (ONE, TWO, PAIRS):
        masses = point.masses(sorted(values))
        assert sum(masses.values()) == 1
        assert all(0 <= value <= 7 for value in masses if isinstance(value, int))


@pytest.mark.parametrize(
    ("A", "B", "kept"), [(2, 2, [1, 2, 3, 4, 5, 6]), (2, 1, [0, 1, 2, 3, 4, 5]), (1, 3, [2, 3, 4, 5, 6, 7])]
)
def test_paired_depths_lose_their_ends_and_stay_even(A: int, B: int, kept: list[int]) -> None:
    point = PrefixInteriorPoint([PairLevel(A, B, 2, "1/9", 2), PairLevel(1, 1, 2, "1/9", 2)], 2, 2**20, 16)
    assert point._window(list(range(8))) == kept


def test_a_given_order_is_one_term_of_the_average() -> None:
    values = [0, 3, 5, 6]
    point = PrefixInteriorPoint([PairLevel(1, 1, "3/2", "1/10", "3/2")], "3/2", 7, 4)
    parts = [point.law(values, given=[[i for pair in pairs for i in pair]]) for pairs in matchings([0, 1, 2, 3])]
    assert len(parts) == 3
    for value in [*range(8), BOTTOM]:
        assert point.law(values).prob_exact(value) == sum(part.prob_exact(value) for part in parts) / 3
    with pytest.raises(ParameterError):
        point.law(values, given=[[0, 1, 2, 2]])


# Accuracy on seven shapes


def caterpillar(bits: int, depths: list[int], source: random.Random) -> list[int]:
    """One long path; values leave it at the given depths."""
    spine = source.getrandbits(bits)
    return [spine ^ 1 << (bits - 1 - depth) if depth < bits else spine for depth in depths]


def shapes(bits: int, n: int) -> dict[str, list[int]]:
    source = random.Random(bits)
    depths = [bits * i // n for i in range(n)]
    inner = caterpillar(bits.bit_length(), [bits.bit_length() * i // n for i in range(n)], source)
    near = source.getrandbits(bits) >> 12 << 12
    half = caterpillar(bits - 1, [(bits - 1) * i // n for i in range(n)], source)
    return {
        "uniform": [source.getrandbits(bits) for _ in range(n)],
        "one point": [source.getrandbits(bits)] * n,
        "two points": [x for x in (source.getrandbits(bits), source.getrandbits(bits)) for _ in range(n)][
            n // 2 : n // 2 + n
        ],
        "caterpillar": caterpillar(bits, depths, source),
        "deep cluster": [near | source.getrandbits(12) for _ in range(n)],
        "two caterpillars": [x | (i % 2) << (bits - 1) for i, x in enumerate(half)],
        "caterpillar of caterpillar depths": caterpillar(bits, [min(d, bits - 1) for d in inner], source),
    }


@pytest.mark.parametrize(("bits", "levels", "draws"), [(65536, 1, 12), (256, 1, 12), (256, 2, 8), (64, 0, 12)])
def test_failures_stay_within_the_certificate_on_seven_shapes(bits: int, levels: int, draws: int) -> None:
    point = InteriorPoint(1, "1e-6", top=2**bits - 1, levels=levels)
    assert point.size is not None
    failures, total = 0, 0
    with insecure_randomness():
        rng = SeededRng(bits)
        for values in shapes(bits, point.size).values():
            assert len(values) == point.size
            for _ in range(draws):
                answer = point.sample(values, rng)
                failures += not (isinstance(answer, int) and min(values) <= answer <= max(values))
                total += 1
    assert failures <= binom.isf(ALARM, total, float(point.failure))


@pytest.mark.parametrize(
    ("engine", "epsilon", "delta", "beta"), [("walk", 12, "1/10", "1/5"), ("pairs", 60, "3/10", "19/20")]
)
def test_exact_failure_is_below_the_certificate(engine: str, epsilon: int, delta: str, beta: str) -> None:
    """Where the law can be written out the failure probability is decided, not estimated."""
    point = InteriorPoint(epsilon, delta, top=2**20 - 1, levels=1, beta=beta, engine=engine)
    assert point.size is not None
    for values in shapes(20, point.size).values():
        law = point.law(values)
        inside = sum((law.prob_exact(v) for v in _between(values, law)), Fraction(0))
        assert 1 - inside <= point.failure


def _between(values: list[int], law: Any) -> set[int]:
    low, high = min(values), max(values)
    return {v for block in law.support() if isinstance(block, range) for v in block if low <= v <= high}


# The mechanism


def test_a_median_lies_in_the_middle() -> None:
    point = InteriorPoint.median(2, "1e-6", top=2**1000 - 1, n_users=2001)
    values = [(i << 900) + 17 for i in range(2001)]
    assert point.reductions == 1
    assert point.size is not None
    assert point.hi == 1 + (2001 - point.size) // 2
    with insecure_randomness():
        rng = SeededRng("median")
        for _ in range(20):
            answer = point.sample(values, rng)
            assert isinstance(answer, int)
            assert abs((answer >> 900) - 1000) <= point.size / 2 + 1


def test_a_median_of_few_users_takes_them_all() -> None:
    with pytest.warns(AccuracyWarning):
        point = InteriorPoint.median(1, top=2**64 - 1, n_users=11)
    assert (point.size, point.hi) == (11, 1)
    with pytest.raises(ParameterError):
        InteriorPoint.median(1, top=9, n_users=5, hi=2)


def test_the_window_is_padded_and_never_complains() -> None:
    point = InteriorPoint(1, top=9, size=4, hi=2)
    assert point.window([3, 8, 5]) == [0, 0, 3, 5]
    assert point.window([]) == [0, 0, 0, 0]
    assert point.window(np.array([-3, 99, 4, 4, 4, 4])) == [4, 4, 4, 4]
    assert sum(point.law([]).prob_exact(z) for z in range(10)) == 1


def test_without_reductions_the_law_is_the_exponential_mechanism() -> None:
    point = InteriorPoint(1, top=9, size=4)
    values, base = [2, 3, 3, 7], point.plan.rz
    weights = [base ** min(sum(v <= c for v in values), sum(v >= c for v in values)) for c in range(10)]
    assert [point.law(values).prob_exact(c) for c in range(10)] == [w / sum(weights) for w in weights]
    assert point.guarantee.rho == Fraction(1, 8)


def test_equal_values_end_at_the_leaf() -> None:
    assert kept_law([5] * 6, 3, Level(2, 2, 3, 1, 2, "1/9", 2)) == {(3, 3, 3): 1}


def test_a_walk_without_active_steps_is_free() -> None:
    level = Level(4, 2, 5, 1, 2, "1/9", 2)
    point = WalkReduction([level], 2, 15, 6)
    assert point.delta == Fraction(1, 9)
    assert point.multiplicative == 2**6


def test_one_value_in_the_domain_costs_nothing() -> None:
    point = InteriorPoint(1, "1e-6", top=0)
    assert point.sample([3, 4]) == 0
    assert point.guarantee.epsilon == point.guarantee.delta == 0
    assert point.law([1]).prob_exact(0) == 1


def test_without_delta_auto_is_the_exponential_mechanism() -> None:
    point = InteriorPoint(1, top=2**1000)
    assert point.reductions == 0
    assert point.guarantee.delta == 0
    with pytest.raises(ParameterError, match="levels >= 1 needs delta > 0"):
        InteriorPoint(1, top=2**1000, levels=1)


def test_domains_of_any_size_can_be_shown() -> None:
    point = InteriorPoint(1, "1e-6", top=2**65536 - 1)
    for shown in (repr(point), repr(point.reduction), str(point.guarantee)):
        assert len(shown) < 1000


def test_large_laws_are_refused_by_public_numbers_and_sampled_anyway() -> None:
    point = InteriorPoint(1, "1e-6", top=2**65536 - 1)
    with pytest.raises(TooLargeError):
        point.law([1, 2, 3])
    assert isinstance(point.sample([2**65000] * 500), int)
    with pytest.raises(TooLargeError):
        WalkReduction((), 2, 2**64, 5).masses([1, 2, 3, 4, 5])
