"""The first look at the users finds every rule near the best one, with its score, and draws as the whole law does."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Integers, UserData
from privpac.law.sampling import Filter, Part
from privpac.methods.base import Bound, drawn_id
from privpac.rules import Stumps, Thresholds
from privpac.rules.kernels import coarse_pass as module
from privpac.rules.profile import Exceeds, HybridStatistic, Mean, Profile, Regret
from privpac.testing import SeededRng, insecure_randomness

STATISTICS = [HybridStatistic(), HybridStatistic(7), Mean(12), Regret(2, 12), Exceeds(1)]
SIZES = [1 << 64, 1 << 40, 1000, 3]


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of any size, and few cells, so that some hold several records."""
    monkeypatch.setattr(module, "worthwhile", lambda users, sizes: True)
    monkeypatch.setattr("privpac.rules.cuts.worthwhile", lambda users, sizes: True)
    monkeypatch.setattr(module, "_CELLS_BITS", 4)


def people(seed: int, sizes: list[int], most: int, spread: int) -> UserData:
    """Seeded people with clustered codes, ties, and now and then many records or none."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, most + 1, int(rng.integers(1, 30)))
    n = int(counts.sum())
    columns = []
    for size in sizes:
        width = min(size, 1 << spread)
        base = int(rng.integers(0, size - width, endpoint=True, dtype=np.uint64)) if size > width else 0
        columns.append([(base + int(x)) % size for x in rng.integers(0, width, n, dtype=np.uint64, endpoint=False)])
    good = np.array(columns[0], dtype=object) > int(np.median([0, *map(float, columns[0])])) if n else np.zeros(0)
    labels = [int(y) ^ int(rng.random() < 0.2) for y in good]
    rows = list(zip(*columns, labels))
    edges = np.concatenate([[0], np.cumsum(counts)])
    names = {f"x{j}": Integers(0, size - 1) for j, size in enumerate(sizes)}
    return UserData.from_users([rows[a:b] for a, b in pairwise(edges)], features=names)


def near_blocks(parts: list[Part], best: int, reach: int) -> dict[tuple[int, int], int]:
    """Maximal runs of ids near the best, and their scores."""
    out: list[list[int]] = []
    for offset, starts, end, scores, more in parts:
        ends = [*(int(s) for s in starts[1:]), end + 1]
        for start, stop, score in zip(starts.tolist(), ends, scores.tolist()):
            if score + more <= best + reach:
                out.append([offset + start, offset + stop, score + more])
    merged: list[list[int]] = []
    for first, stop, score in sorted(out):
        if merged and merged[-1][1] == first and merged[-1][2] == score:
            merged[-1][1] = stop
        else:
            merged.append([first, stop, score])
    return {(first, stop): score for first, stop, score in merged}


def whole_parts(folded: Profile, size: int, more: tuple[int, ...]) -> list[Part]:
    return [(s.offset, s.starts, s.end, s.scores, more[s.offset // size]) for s in folded.steps]


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=3),
    direction=st.sampled_from(["above", "below", "both"]),
    statistic=st.sampled_from(STATISTICS),
    most=st.sampled_from([1, 4, 60]),
    spread=st.sampled_from([1, 4, 63]),
    reach=st.sampled_from([0, 1, 5, 100, 3000]),
    penalty=st.integers(0, 50),
)
def test_near_rules_are_those_of_the_whole_profile(
    seed: int, sizes: list[int], direction: str, statistic: object, most: int, spread: int, reach: int, penalty: int
) -> None:
    data = people(seed, sizes, most, spread)
    if not data.n_records:
        return
    concept = Thresholds(direction=direction) if len(sizes) == 1 else Stumps(direction=direction)
    filled, users = concept.bind(data)
    more = (0, penalty)[: statistic.n_scores]
    folded = users.fold(filled.kernel(statistic))
    seen = filled.survey(users, statistic)
    assert seen is not None
    assert (seen.optimism, seen.rules) == (folded.optimism, statistic.n_scores * filled.size)
    whole = whole_parts(folded, filled.size, more)
    best = min(int(scores.min()) + extra for *_, scores, extra in whole)
    near = seen.near(reach, more)
    if near is not None:
        assert near_blocks(near, best, reach) == near_blocks(whole, best, reach)


@pytest.mark.parametrize("concept", [Thresholds(), Stumps()])
@pytest.mark.parametrize("fallback", [False, True])
def test_the_draw_is_that_of_the_law(
    concept: Thresholds | Stumps, fallback: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same coins give the same rule, also where the filter cannot tell."""
    if fallback:
        monkeypatch.setattr(Filter, "accept", lambda self, u: None)
    looked = 0
    for seed in range(4 if fallback else 20):
        data = people(seed, [1 << 64] if isinstance(concept, Thresholds) else [1 << 64, 1000], 6, 63)
        bound = Bound.of(concept, data, data.unit, None)
        eta = Fraction(1, 3)
        profile = bound.users.fold(bound.concept.kernel(Mean(840)))
        weights = bound.concept.rule_weights
        assert weights is not None
        law, weighed = profile.law(eta), profile.law(eta, weights=weights)
        seen = bound.concept.survey(bound.users, Mean(840))
        looked += seen is not None and seen.near(300, (0,)) is not None
        with insecure_randomness():
            for coin in range(4):
                assert drawn_id(bound, Mean(840), eta, SeededRng(coin)) == law.sample(SeededRng(coin))
                drawn = drawn_id(bound, Mean(840), eta, SeededRng(coin), weights=weights)
                assert drawn == weighed.sample(SeededRng(coin))
    assert looked


def test_a_smaller_bound_on_cells_would_lose_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refuter: with half of what a record may move, some rule that is near is not found."""
    whole_bound = module.Survey._marked

    def halved(self: module.Survey, cells: Any, added: Any, most: int) -> Any:
        return whole_bound(self, evolve(cells, count=(cells.count + 1) // 2), added, most)

    monkeypatch.setattr(module.Survey, "_marked", halved)
    lost = 0
    for seed in range(200):
        data = people(seed, [1 << 64], 4, 63)
        filled, users = Thresholds().bind(data)
        seen = filled.survey(users, Exceeds(0)) if data.n_records else None
        if seen is None:
            continue
        whole = whole_parts(users.fold(filled.kernel(Exceeds(0))), filled.size, (0,))
        best = min(int(scores.min()) for *_, scores, _ in whole)
        near = seen.near(0, (0,))
        lost += near is not None and near_blocks(near, best, 0) != near_blocks(whole, best, 0)
    assert lost
