"""Laws whose values have public weights: the probabilities of the definition, exact draws, and comparisons."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.errors import LawError
from privpac.law import Law
from privpac.law.blocks import BlockLaw, whole_law
from privpac.law.sampling import Filter, sample_steps
from privpac.law.weights import Weights, split_runs
from privpac.testing import SeededRng, insecure_randomness

SIZE = 12


@st.composite
def weighted(draw: Any) -> tuple[list[Any], Weights, list[int], list[int]]:
    """Two scores of the same values: steps, weights, and both value by value."""
    weight = draw(st.lists(st.sampled_from([1, 2, 5, 1 << 70]), min_size=SIZE, max_size=SIZE))
    parts, scores = [], []
    for offset in (0, SIZE):
        starts = [0, *sorted(draw(st.sets(st.integers(1, SIZE - 1), max_size=4)))]
        values = draw(st.lists(st.integers(0, 3), min_size=len(starts), max_size=len(starts)))
        parts.append((offset, np.array(starts, np.uint64), SIZE - 1, np.array(values, np.int64)))
        scores += [values[int(np.searchsorted(starts, i, side="right")) - 1] for i in range(SIZE)]
    return parts, Weights.of(enumerate(weight), SIZE), scores, weight * 2


@settings(max_examples=60, deadline=None)
@given(made=weighted(), base=st.sampled_from(["3/2", "1"]))
def test_the_law_is_weight_times_score(made: Any, base: str) -> None:
    parts, weights, scores, weight = made
    law = Law.from_steps(parts, base=base, weights=weights)
    assert isinstance(law, BlockLaw)
    each = [w / Fraction(base) ** s for w, s in zip(weight, scores)]
    wanted = [one / sum(each) for one in each]
    assert [law.prob_exact(i) for i in range(2 * SIZE)] == wanted
    assert [law.as_finite().prob_exact(i) for i in range(2 * SIZE)] == wanted
    assert sum(law.block_number(i).exact or 0 for i in range(len(law))) == 1
    assert law.mode == wanted.index(max(wanted))
    assert sum(law.levels.totals) == sum(weight)
    assert law.entropy == pytest.approx(-sum(float(p) * np.log(float(p)) for p in wanted))
    assert [weights.weight(i) for i in range(2 * SIZE)] == weight


@settings(max_examples=40, deadline=None)
@given(first=weighted(), second=weighted())
def test_laws_with_weights_are_compared_exactly(first: Any, second: Any) -> None:
    """With the same weights, and with weights that differ."""
    parts, weights, *_ = first
    for other in (weights, second[1]):
        p, q = (Law.from_steps(steps, base="3/2", weights=w) for steps, w in ((parts, weights), (second[0], other)))
        listed = [Law.from_weights({i: law.prob_exact(i) for i in range(2 * SIZE)}) for law in (p, q)]
        for epsilon in (0, "1/2", 2):
            wanted = listed[0].hockey_stick(listed[1], epsilon)
            found = p.hockey_stick(q, epsilon)
            assert found.lo <= wanted.hi
            assert wanted.lo <= found.hi
            assert p.satisfies(q, epsilon) == listed[0].satisfies(listed[1], epsilon)


@pytest.mark.parametrize("fallback", [False, True])
def test_the_same_coins_draw_the_same_value(fallback: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The short way and the whole law, on 2**64 values whose weights go beyond 64 bits too."""
    if fallback:
        monkeypatch.setattr(Filter, "accept", lambda self, u: None)
    size = 1 << 64
    weights = Weights.of([(0, 1 << 66), (1, 1 << 40), (1 << 20, 977), (1 << 63, 1)], size)
    for spread in (1, 40, 100_000):
        rng = np.random.default_rng(spread)
        parts: list[Any] = []
        for more in (0, 7):
            starts = np.unique(np.append(np.uint64(0), rng.integers(0, 1 << 64, 40, dtype=np.uint64)))
            parts.append((size * (more > 0), starts, size - 1, rng.integers(0, spread, len(starts)), more))
        law = whole_law(parts, "1/10", weights)  # type: ignore[arg-type]
        for coin in range(5 if fallback else 60):
            with insecure_randomness():
                drawn = sample_steps(
                    parts,
                    "1/10",
                    SeededRng(coin),
                    lambda p=parts: whole_law(p, "1/10", weights),  # type: ignore[misc]
                    weights,
                )
                assert drawn == law.sample(SeededRng(coin))


def test_draws_follow_the_weights() -> None:
    """Two thousand draws of nine values: each count within six deviations, wrong with probability below 1e-6."""
    parts = [(0, np.array([0, 4], np.uint64), 8, np.array([1, 0], np.int64), 0)]
    weights = Weights.of([(0, 1), (2, 6), (5, 2), (8, 1)], 9)
    law = Law.from_steps([part[:4] for part in parts], 1, weights=weights)
    with insecure_randomness():
        rng = SeededRng(3)
        drawn = [
            sample_steps(parts, 1, rng, lambda: whole_law(parts, Fraction(1), weights), weights) for _ in range(2000)
        ]
    for value in range(9):
        p = law.prob_float(value)
        assert abs(drawn.count(value) - 2000 * p) <= 6 * (2000 * p * (1 - p)) ** 0.5


@settings(max_examples=60, deadline=None)
@given(
    edges=st.sets(st.integers(0, 40), min_size=2, max_size=12),
    cuts=st.sets(st.integers(1, 40), max_size=8),
    seed=st.integers(0, 99),
)
def test_split_keeps_the_values(edges: set[int], cuts: set[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = sorted(edges)
    blocks = [(a, int(rng.integers(a, b))) for a, b in pairwise(places)]
    begins = np.array([0, *sorted(cuts)], np.uint64)
    low, span, source = split_runs(
        np.array([a for a, _ in blocks], np.uint64), np.array([b - a for a, b in blocks], np.uint64), begins
    )
    found = [(x, int(i)) for a, s, i in zip(low.tolist(), span.tolist(), source) for x in range(a, a + s + 1)]
    assert found == [(x, i) for i, (a, b) in enumerate(blocks) for x in range(a, b + 1)]
    assert all(not a < cut <= a + s for a, s in zip(low.tolist(), span.tolist()) for cut in cuts)


@pytest.mark.parametrize(
    "bad", [((1,), (1,), 4), ((0, 0), (1, 1), 4), ((0, 4), (1, 1), 4), ((0,), (0,), 4), ((0,), (), 4)]
)
def test_weights_that_are_none_are_refused(bad: Any) -> None:
    with pytest.raises(LawError):
        Weights(*bad)
