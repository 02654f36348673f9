"""Races draw from the right law, agree as often as the formula says, and do not depend on how they are computed."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.device.correlated_sampling import (
    block_component,
    clock,
    ilog2,
    leaf_component,
    race_dyadic,
    race_indexed,
    race_named,
    race_scores,
    rate,
    word_named,
)
from privpac.errors import ParameterError, TooLargeError
from privpac.papers.correlated_sampling import (
    interval_min,
    race_blocks,
    race_disagreement,
    stream_disagreement,
    stream_sample,
    total_variation,
)
from privpac.rng import derive, word_indexed

SEED = bytes(range(32))
Scores = list[int | None]


@st.composite
def races(draw: st.DrawFn, most: int = 40) -> tuple[bytes, Scores, int, int]:
    m = draw(st.integers(1, 60))
    scores = draw(st.lists(st.none() | st.integers(0, m), min_size=1, max_size=most))
    gamma = draw(st.sampled_from([0, 1, 10, 100, 10**6]))
    return derive(SEED, "test", draw(st.integers(0, 10**6))), scores, m, rate(gamma)


def cost(t: int, s: int, m: int, Gamma: int) -> int:
    return (ilog2(t) >> 16) + Gamma * s // m


# The definition, leaf by leaf


@given(races())
def test_flat_race_is_the_least_cost_clock_index(race: tuple[bytes, Scores, int, int]) -> None:
    key, scores, m, Gamma = race
    keys = [
        (cost(t, s, m, Gamma), t, i)
        for i, s in enumerate(scores)
        if s is not None
        for t in [clock(word_indexed(key, i))]
    ]
    assert race_indexed(key, scores, m, Gamma) == (min(keys)[2] if keys else None)


@given(races(12))
def test_named_race_is_the_least_cost_clock_name_in_any_order(race: tuple[bytes, Scores, int, int]) -> None:
    key, scores, m, Gamma = race
    items = {bytes([i, 7]): s for i, s in enumerate(scores)}
    keys = [
        (cost(t, s, m, Gamma), t, name)
        for name, s in items.items()
        if s is not None
        for t in [clock(word_named(key, name))]
    ]
    assert race_named(key, items, m, Gamma) == (min(keys)[2] if keys else None)
    assert race_named(key, dict(reversed(items.items())), m, Gamma) == race_named(key, items, m, Gamma)


@given(races())
def test_dyadic_race_is_the_leafwise_race(race: tuple[bytes, Scores, int, int]) -> None:
    key, scores, m, Gamma = race
    bits = leaf_component(scores, m).bits
    leaves = [(i, *interval_min(key, 0, bits, i, i)) for i, s in enumerate(scores) if s is not None]
    keys = [(cost(t, scores[i] or 0, m, Gamma), t, 0, i) for i, t, leaf in leaves if leaf == i]
    assert len(keys) == len(leaves)
    assert race_scores(key, scores, m, Gamma) == (min(keys) if keys else None)


@given(races())
def test_blocks_of_any_size_run_like_their_leaves(race: tuple[bytes, Scores, int, int]) -> None:
    """Sizes that are no power of two: leaves beyond the last one never win, also where the last block is long."""
    key, scores, m, Gamma = race
    starts = [i for i, s in enumerate(scores) if i == 0 or s != scores[i - 1]]
    part = block_component(np.array(starts, dtype=np.uint64), [scores[i] for i in starts], len(scores), m)
    assert race_dyadic(key, [part], m, Gamma) == race_scores(key, scores, m, Gamma)
    even = block_component(np.zeros(1, dtype=np.uint64), [0], len(scores), m)
    assert race_dyadic(key, [even], m, Gamma) == race_scores(key, [0] * len(scores), m, Gamma)


@st.composite
def cut_domains(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int | None]], int, int, int]:
    bits = draw(st.integers(1, 64))
    m = draw(st.integers(1, 30))
    cuts = sorted({0, *draw(st.lists(st.integers(0, 2**bits - 1), max_size=9))})
    ends = [c - 1 for c in cuts[1:]] + [2**bits - 1]
    blocks = [(a, b, draw(st.none() | st.integers(0, m))) for a, b in zip(cuts, ends)]
    return bits, blocks, m, rate(draw(st.sampled_from([0, 5, 200]))), draw(st.integers(0, 5))


@settings(max_examples=60)
@given(cut_domains(), st.lists(st.integers(0, 2**64 - 1), max_size=6))
def test_dyadic_race_does_not_depend_on_how_blocks_are_cut(case: Any, more: list[int]) -> None:
    bits, blocks, m, Gamma, number = case
    whole = race_blocks(SEED, blocks, bits, m, Gamma, number)
    finer = []
    for low, high, score in blocks:
        inner = sorted({c % 2**bits for c in more if low < c % 2**bits <= high})
        finer += [(a, b, score) for a, b in zip([low, *inner], [*(c - 1 for c in inner), high])]
    assert race_blocks(SEED, finer, bits, m, Gamma, number) == whole
    for cut in (blocks, finer):
        part = block_component(
            np.array([low for low, _, _ in cut], dtype=np.uint64), [s for *_, s in cut], 1 << bits, m, number
        )
        assert race_dyadic(SEED, [part], m, Gamma) == whole


@settings(max_examples=40)
@given(st.lists(cut_domains(), min_size=2, max_size=4))
def test_race_over_components_is_the_best_of_their_winners(cases: Any) -> None:
    m, Gamma = 30, rate(20)
    parts, winners = [], []
    for number, (bits, blocks, *_) in enumerate(cases):
        starts = np.array([low for low, _, _ in blocks], dtype=np.uint64)
        parts.append(block_component(starts, [s for *_, s in blocks], 1 << bits, m, number))
        winners.append(race_blocks(SEED, blocks, bits, m, Gamma, number))
    running = [winner for winner in winners if winner is not None]
    assert race_dyadic(SEED, parts, m, Gamma) == (min(running) if running else None)


@given(st.integers(1, 6), st.integers(0, 10**6))
def test_minimum_of_an_interval_is_the_least_leaf(bits: int, index: int) -> None:
    key = derive(SEED, "interval", index)
    leaves = [interval_min(key, 3, bits, i, i) for i in range(1 << bits)]
    low, high = sorted((index % (1 << bits), index // 64 % (1 << bits)))
    assert interval_min(key, 3, bits, low, high) == min(leaves[low : high + 1])


def test_equal_scores_and_denominators_always_agree_whatever_the_container() -> None:
    scores = [3, 1, 4, 1, 5]
    assert race_scores(SEED, scores, 9, rate(5)) == race_scores(SEED, np.array(scores), 9, rate(5))
    assert race_indexed(SEED, scores, 9, rate(5)) == race_indexed(SEED, np.array(scores, dtype=np.uint8), 9, rate(5))


# The law


def upper_quantile(freedom: int, tail: float) -> float:
    """An upper bound of the chi-square quantile (Laurent and Massart)."""
    x = math.log(1 / tail)
    return freedom + 2 * math.sqrt(freedom * x) + 2 * x


@pytest.mark.parametrize("kind", ["indexed", "named", "dyadic"])
def test_winners_follow_the_gibbs_law(kind: str) -> None:
    """Chi-square of 1000 seeds against the exact law; false alarm below 1e-6."""
    scores, m, gamma, runs = [0, 3, 5, 5, 10], 10, 3, 1000
    counts = [0] * len(scores)
    for run in range(runs):
        key = derive(SEED, kind, run)
        if kind == "indexed":
            winner = race_indexed(key, scores, m, rate(gamma))
        elif kind == "named":
            name = race_named(key, {bytes([i]): s for i, s in enumerate(scores)}, m, rate(gamma))
            winner = name[0] if name else None
        else:
            found = race_scores(key, scores, m, rate(gamma))
            winner = found.leaf if found else None
        assert winner is not None
        counts[winner] += 1
    weights = [math.exp(-gamma * s / m) for s in scores]
    expected = [runs * w / sum(weights) for w in weights]
    assert sum((c - e) ** 2 / e for c, e in zip(counts, expected)) < upper_quantile(len(scores) - 1, 1e-6)


def test_two_users_disagree_as_often_as_the_formula_says() -> None:
    """1500 seeds; a binomial deviation of 6 standard errors has probability below 1e-6 (Bernstein)."""
    gamma, m, runs = 4, 20, 1500
    scores = ([2, 4, 9, 12], [5, 3, 8, 14])
    laws = []
    for own in scores:
        weights = [Fraction(math.exp(-gamma * s / m)) for s in own]
        laws.append([w / sum(weights) for w in weights])
    expected = float(race_disagreement(*laws))
    differ = 0
    for run in range(runs):
        winners = [race_scores(derive(SEED, "pair", run), own, m, rate(gamma)) for own in scores]
        assert winners[0] is not None
        assert winners[1] is not None
        differ += winners[0].leaf != winners[1].leaf
    assert abs(differ / runs - expected) < 6 * math.sqrt(expected * (1 - expected) / runs)


laws = st.lists(st.integers(0, 9), min_size=2, max_size=5).filter(any).map(lambda w: [Fraction(a, sum(w)) for a in w])


@given(
    st.integers(2, 5).flatmap(
        lambda n: st.tuples(*[st.lists(st.integers(0, 9), min_size=n, max_size=n).filter(any)] * 2)
    )
)
def test_disagreement_stays_below_twice_the_distance(pair: Any) -> None:
    p, q = ([Fraction(a, sum(w)) for a in w] for w in pair)
    tv = total_variation(p, q)
    for differ in (race_disagreement(p, q), stream_disagreement(p, q)):
        assert tv <= differ <= 2 * tv / (1 + tv)


@settings(max_examples=15)
@given(laws, st.randoms(use_true_random=False))
def test_stream_outputs_points_of_the_support(law: list[Fraction], random: Any) -> None:
    points = [(random.randrange(len(law)), Fraction(random.randrange(1000), 1000)) for _ in range(400)]
    try:
        assert law[stream_sample(law, points)] > 0
    except ParameterError:
        assert all(height >= law[w] for w, height in points)


def test_stream_disagreement_by_enumeration() -> None:
    """The stream's first rounds on a grid of heights, exactly."""
    p, q = [Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 4), Fraction(3, 4)]

    def differ(state: tuple[int | None, int | None], depth: int) -> tuple[Fraction, Fraction]:
        if None not in state:
            return Fraction(state[0] != state[1]), Fraction(0)
        if depth == 0:
            return Fraction(0), Fraction(1)
        total, open_ = Fraction(0), Fraction(0)
        for w in (0, 1):
            for step in range(4):
                height = Fraction(step, 4)
                after = [
                    own if own is not None else (w if height < law[w] else None) for own, law in zip(state, (p, q))
                ]
                a, b = differ((after[0], after[1]), depth - 1)
                total, open_ = total + a / 8, open_ + b / 8
        return total, open_

    low, rest = differ((None, None), 5)
    assert low <= stream_disagreement(p, q) <= low + rest


# Hostile input


@pytest.mark.parametrize(("m", "Gamma"), [(0, 1), (-1, 1), (2**31, 1), (5, -1), (5, 2**62)])
def test_races_refuse_numbers_out_of_range(m: int, Gamma: int) -> None:
    for run in (race_indexed, race_scores):
        with pytest.raises(ParameterError):
            run(SEED, [0, 1], m, Gamma)
    with pytest.raises(ParameterError):
        race_named(SEED, {b"a": 0}, m, Gamma)


@pytest.mark.parametrize("scores", [[-1], [6], np.array([[1]]), np.array([2**63], dtype=np.uint64)])
def test_races_refuse_scores_out_of_range(scores: Any) -> None:
    for run in (race_indexed, race_scores):
        with pytest.raises(ParameterError):
            run(SEED, scores, 5, 1)


@pytest.mark.parametrize("scores", [[1.0], ["1"], np.array([1.0]), [True]])
def test_races_refuse_scores_that_are_not_integers(scores: Any) -> None:
    for run in (race_indexed, race_scores):
        with pytest.raises(TypeError):
            run(SEED, scores, 5, 1)


def test_empty_support_gives_nothing() -> None:
    assert race_indexed(SEED, [None, None], 5, 1) is None
    assert race_scores(SEED, [None, None], 5, 1) is None
    assert race_named(SEED, {b"a": None}, 5, 1) is None
    assert race_named(SEED, {}, 5, 1) is None
    assert race_blocks(SEED, [(0, 1, None)], 1, 5, 1) is None


def test_flat_race_names_the_dyadic_one_when_too_large() -> None:
    with pytest.raises(TooLargeError, match="dyadic"):
        race_indexed(SEED, np.zeros(4097, dtype=np.int64), 5, 1)


@pytest.mark.parametrize("starts", [[1], [0, 0], [0, 2, 1], [0, 9]])
def test_blocks_must_increase_from_zero(starts: list[int]) -> None:
    with pytest.raises(ParameterError):
        block_component(np.array(starts, dtype=np.uint64), [0] * len(starts), 8, 5)


def test_intervals_must_lie_in_the_domain() -> None:
    for low, high in ((0, 4), (3, 2), (-1, 2)):
        with pytest.raises(ParameterError):
            interval_min(SEED, 0, 2, low, high)
    with pytest.raises(ParameterError):
        interval_min(SEED, 0, 65, 0, 1)


@settings(max_examples=10)
@given(st.integers(0, 10**6))
def test_many_scores_give_the_leafwise_winner(index: int) -> None:
    """A larger instance: 700 leaves, as indexed scores and as blocks of equal neighbours."""
    scores = np.random.default_rng(index).integers(0, 50, 700) // 7
    key, m, Gamma = derive(SEED, "many", index), 50, rate(30)
    starts = np.flatnonzero(np.append(True, scores[1:] != scores[:-1]))
    part = block_component(starts.astype(np.uint64), scores[starts], 700, m)
    assert race_dyadic(key, [part], m, Gamma) == race_scores(key, scores, m, Gamma)
    flat = [(cost(t, s, m, Gamma), t, i) for i, s in enumerate(scores.tolist()) for t in [clock(word_indexed(key, i))]]
    assert race_indexed(key, scores, m, Gamma) == min(flat)[2]
