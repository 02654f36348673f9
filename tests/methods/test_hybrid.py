"""Hybrid selection against brute force: folds, laws, draws, what the proofs use of them, and what is shown."""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import exp, isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.data import Integers, UserData
from privpac.data.engines.wire import pack, unpack
from privpac.errors import ParameterError
from privpac.guarantee import Guarantee
from privpac.methods import HybridSelection, RegretSelection
from privpac.methods.base import profile_of
from privpac.methods.hybrid import hybrid_excess
from privpac.rules import (
    Conjunctions,
    DecisionLists,
    Disjunctions,
    FiniteClass,
    Halfspaces,
    Intervals,
    Parities,
    PathTree,
    Points,
    Rectangles,
    StarTree,
    Stumps,
    Thresholds,
    TreeNodes,
)
from privpac.rules.populations import users_from_codes
from privpac.rules.profile import ClipRule, HybridStatistic, Mean, Profile, Regret, own_clip, own_optimism
from privpac.testing import SeededRng, insecure_randomness

LINE = {"x": Integers(0, 4)}
PLANE = {"a": Integers(0, 1), "b": Integers(0, 1)}
CLASSES: dict[str, tuple[Any, dict[str, Integers]]] = {
    "above": (Thresholds(), LINE),
    "below": (Thresholds(direction="below"), LINE),
    "both": (Thresholds(direction="both"), LINE),
    "points": (Points(), LINE),
    "points and zero": (Points(zero=True), LINE),
    "intervals": (Intervals(), LINE),
    "finite": (FiniteClass([[0, 0, 1, 1, 0], [1, 0, 1, 0, 1], [1, 1, 0, 0, 0]], LINE["x"]), LINE),
    "stumps": (Stumps(), PLANE),
    "rectangles": (Rectangles(PLANE), PLANE),
    "conjunctions": (Conjunctions(PLANE), PLANE),
    "disjunctions": (Disjunctions(PLANE), PLANE),
    "parities": (Parities(PLANE), PLANE),
    "decision lists": (DecisionLists(PLANE, length=2), PLANE),
    "halfspaces": (Halfspaces(PLANE, weights=1, cuts=2), PLANE),
    "nodes of a path": (TreeNodes(PathTree(LINE["x"])), LINE),
    "nodes of a star": (TreeNodes(StarTree(LINE["x"])), LINE),
}


def table(columns: dict[str, Integers], seed: int, sizes: list[int]) -> UserData:
    rng = np.random.default_rng(seed)
    codes = {name: rng.integers(0, domain.size, sum(sizes)) for name, domain in columns.items()}
    lean = np.repeat(rng.random(len(sizes)), sizes)
    return users_from_codes(np.array(sizes), codes, rng.random(sum(sizes)) < lean, dict(columns))


def brute(concept: Any, data: UserData, levels: int) -> tuple[list[int], list[int], int]:
    """C, M and D by the definition, one user and one rule at a time."""
    assert data.labels is not None
    clip, mean, optimism = [0] * concept.size, [0] * concept.size, 0
    said = [concept.predictions(data.codes, h) for h in range(concept.size)]
    for a, b in itertools.pairwise(data.offsets.tolist()):
        m = b - a
        if m == 0:
            continue
        wrong = [int((s[a:b] != data.labels[a:b]).sum()) for s in said]
        least, worst = min(wrong), max(wrong) - min(wrong)
        t = next(k for k in range(1, m + 1) if k * k >= m and 16 * k >= m)
        clip = [c + levels * min(e - least, t) // t for c, e in zip(clip, wrong)]
        mean = [c + levels * (e - least) // m for c, e in zip(mean, wrong)]
        optimism += min(own_optimism(m, least, levels), levels - levels * worst // m)
    return clip, mean, optimism


def folded(concept: Any, data: UserData, levels: int = 840) -> tuple[Any, Profile]:
    bound, users = concept.bind(data)
    return bound, users.fold(bound.kernel(HybridStatistic(levels)))


@pytest.mark.parametrize("name", CLASSES)
def test_one_fold_gives_both_scores_and_the_optimism(name: str) -> None:
    concept, columns = CLASSES[name]
    for seed, sizes in enumerate([[], [0], [1], [0, 1, 2, 3, 9], [40, 17, 5, 5, 4, 0, 64], [700, 16, 3]]):
        for levels in (840, 1, 1 << 31):
            data = table(columns, seed, sizes)
            bound, profile = folded(concept, data, levels)
            clip, mean, optimism = brute(bound, data, levels)
            assert [profile.score(h) for h in range(2 * bound.size)] == [*clip, *mean]
            assert profile.optimism == optimism
            assert all(c >= v for c, v in zip(clip, mean))
            # The scores are what the named statistics fold alone.
            alone = [
                data.fold(bound.kernel(s)).blocks() for s in (Regret(ClipRule(Fraction(0), 0, 1), levels), Mean(levels))
            ]
            assert Profile(profile.steps[: len(profile.steps) // 2]).blocks() == alone[0]
            shifted = [
                (a - bound.size, b - bound.size, s)
                for a, b, s in Profile(profile.steps[len(profile.steps) // 2 :]).blocks()
            ]
            assert shifted == alone[1]


@pytest.mark.parametrize("name", CLASSES)
def test_any_split_of_the_users_gives_the_same_sums(name: str) -> None:
    concept, columns = CLASSES[name]
    data = table(columns, 5, [3, 0, 9, 20, 1, 5, 5])
    bound, whole = folded(concept, data)
    kernel = bound.kernel(HybridStatistic())
    for cut in range(8):
        parts = [kernel.chunk(data.take(np.arange(*ends))) for ends in ((0, cut), (cut, 7))]
        for order in (parts, parts[::-1]):
            found = kernel.merge(kernel.zero(), kernel.merge(*(unpack(pack(part)) for part in order)))
            assert (found.blocks(), found.optimism) == (whole.blocks(), whole.optimism)


def test_wide_domains_and_long_users() -> None:
    """2**64 values, users of 1 to 10**4 records, repeats; only cuts beside a record can differ."""
    rng, domain = np.random.default_rng(3), Integers(0, (1 << 64) - 1)
    sizes = np.array([10_000, 1, 0, 400, 33, 2, 5000])
    x = rng.integers(0, 1 << 64, 500, dtype=np.uint64)[rng.integers(0, 500, sizes.sum())]
    data = users_from_codes(sizes, {"x": x}, rng.random(len(x)) < 0.4, {"x": domain})
    for direction in ("above", "both"):
        bound, profile = folded(Thresholds(direction=direction), data)
        assert data.labels is not None
        cuts = sorted({int(c) + d for c in np.unique(x).tolist()[::25] for d in (0, 1)} | {0, 1 << 64})
        ids = [cut + k * ((1 << 64) + 1) for k in range(len(bound.directions)) for cut in cuts]
        clip, mean, optimism = dict.fromkeys(ids, 0), dict.fromkeys(ids, 0), 0
        alone = [data.fold(bound.kernel(s)) for s in (Regret(own_clip), Mean())]
        for h in ids:
            clip[h], mean[h] = (profile.score(h), profile.score(bound.size + h))
            assert (clip[h], mean[h]) == (alone[0].score(h), alone[1].score(h))
        for u, m in enumerate(sizes.tolist()):
            if m:
                own, records = data.take([u]), data.take([u]).fold(bound.kernel(Mean(m)))
                # In steps of one record the mean score is the regret itself.
                worst = max(int(step.scores.max()) for step in records.steps)
                ones = int(own.labels.sum())  # type: ignore[union-attr]
                least = min(ones, m - ones) if worst == 0 else m - ones - records.score(0)
                optimism += min(own_optimism(m, least), 840 - 840 * worst // m)
        assert profile.optimism == optimism


# Optimism


def optimism_by_search(m: int, b: int, levels: int) -> int:
    """The largest k with ``k <= levels (1 - t/m)**2 min(1, sqrt(b m / (t**2 (m - 2b))) / 2)``, compared exactly."""
    t = own_clip(m)
    share = Fraction(m - t, m) ** 2
    x = Fraction(1) if 2 * b >= m else min(Fraction(1), Fraction(b * m, 4 * t * t * (m - 2 * b)))
    low, high = 0, levels
    while low < high:
        k = (low + high + 1) // 2
        low, high = (k, high) if Fraction(k) ** 2 <= (levels * share) ** 2 * x else (low, k - 1)
    return low


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 10**9).flatmap(lambda m: st.tuples(st.just(m), st.integers(0, m))),
    st.sampled_from([1, 12, 840, 1 << 31]),
)
@example((400, 1), 840)
def test_luck_is_the_definition_rises_with_own_mistakes_and_leaves_the_clip_its_vote(
    pair: tuple[int, int], levels: int
) -> None:
    m, b = pair
    t = own_clip(m)
    assert t == max(isqrt(m - 1) + 1, -(-m // 16))
    found = own_optimism(m, b, levels)
    assert found == optimism_by_search(m, b, levels)
    assert found <= levels - levels * t // m
    assert b == 0 or found >= own_optimism(m, b - 1, levels)
    if b == 0 or t == m:
        assert found == 0


# Laws


def people(users: list[list[tuple[int, int]]]) -> UserData:
    return UserData.from_users(users, features=LINE)


users_lists = st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), max_size=20), max_size=5)


@settings(max_examples=60, deadline=None)
@given(
    users_lists,
    st.sampled_from(["add-remove", "replace"]),
    st.sampled_from(["1/3", "1", "8"]),
    st.sampled_from([1, 7, 840]),
)
def test_the_law_is_one_exponential_law_over_pairs(users: Any, neighbours: str, epsilon: str, levels: int) -> None:
    data, learner = people(users), HybridSelection(Thresholds(), epsilon, neighbours=neighbours, levels=levels)
    theta = Fraction(epsilon) / (1 if neighbours == "add-remove" else 2)
    clip, mean, optimism = brute(Thresholds(LINE["x"], "x"), data, levels)
    cap, always = int(4 * 3 * levels / theta), int(3 * levels / theta)  # 6 cuts, 3 bits
    scores = [*clip, *(v + min(optimism, cap) + always for v in mean)]
    law, rules, eta = learner.law(data), learner.rule_law(data), float(theta / levels)
    least = min(scores)
    weights = [exp(-eta * (s - least)) for s in scores]
    for cut in range(6):
        pair = [weights[cut] / sum(weights), weights[6 + cut] / sum(weights)]
        assert [law.prob_float(cut), law.prob_float(6 + cut)] == pytest.approx(pair, rel=1e-12)
        assert rules.prob_float(cut) == pytest.approx(sum(pair), rel=1e-12)
    assert learner.guarantee == Guarantee(epsilon, unit="user", neighbours=neighbours, rho=Fraction(epsilon) ** 2 / 8)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), max_size=2), max_size=5))
def test_with_at_most_two_records_each_it_is_exactly_the_mean(users: Any) -> None:
    data = people(users)
    two, mean = (
        HybridSelection(Thresholds(), 1).rule_law(data),
        RegretSelection(Thresholds(), 1, statistic="mean").law(data),
    )
    assert two.satisfies(mean, 0)


def test_edge_cases() -> None:
    nothing = HybridSelection(Thresholds(), 0).law(people([[(1, 1), (3, 0), (2, 0)]]))
    assert {nothing.prob_exact(pair) for pair in range(12)} == {Fraction(1, 12)}
    nobody = HybridSelection(Thresholds(), 1).rule_law(people([]))
    assert len({nobody.prob(cut) for cut in range(6)}) == 1
    alone = FiniteClass([[0, 1, 1, 0, 1]], LINE["x"])
    released = HybridSelection(alone, 1).learn(people([[(1, 0)] * 9 + [(2, 1)] * 4]))
    assert released.value.predict([[k] for k in range(5)]).tolist() == [0, 1, 1, 0, 1]


@pytest.mark.parametrize("epsilon", ["1e-30", "1e-12", "1/7", "100"])
@pytest.mark.parametrize("levels", [1, 840, 1 << 31])
def test_no_budget_is_too_small_or_too_large_to_draw(epsilon: str, levels: int) -> None:
    data = people([[(1, 1), (3, 0), (4, 1)] * 3, []])
    released = HybridSelection(Thresholds(), epsilon, levels=levels).learn(data)
    assert released.value.cut in range(6)


@settings(max_examples=40, deadline=None)
@given(users_lists, st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(20)]))
def test_the_error_on_the_users_present_is_near_the_least_for_every_data_set(users: Any, epsilon: Fraction) -> None:
    """Theorem B: the chance of a larger error on these very users is at most beta."""
    held = [user for user in users if user]
    if not held:
        return
    error = [
        sum(Fraction(sum((x >= cut) != bool(y) for x, y in user), len(user)) for user in held) / len(held)
        for cut in range(6)
    ]
    law = HybridSelection(Thresholds(), epsilon).rule_law(people(users))
    for beta in ("1/2", "1/100"):
        most = hybrid_excess(n_users=len(held), size=6, theta=epsilon, beta=beta, levels=840)
        bad = sum(law.prob(cut).hi for cut in range(6) if error[cut] - min(error) > most)
        assert bad <= Fraction(beta)


def test_saturated_users_of_two_opinions_get_the_best_rule() -> None:
    """256 records a user, 60 % of the users of the opposite opinion: constants err .5, the cut .6.  A cut range names
    the cut."""
    excess = {}
    for n in (200, 400):
        x = np.tile(np.repeat([0, 1], 128), n)
        labels = np.concatenate([(np.repeat([0, 1], 128) if i % 5 < 2 else np.repeat([1, 0], 128)) for i in range(n)])
        data = users_from_codes(np.full(n, 256), {"x": x}, labels, {"x": Integers(0, 1)})
        law = HybridSelection(Thresholds(), 1).rule_law(data)
        excess[n] = 0.1 * law.prob_float(1)
    assert excess[200] < 0.002
    assert excess[400] < 0.001


def test_draws_follow_the_law() -> None:
    """600 draws; by Bernstein's bound each count leaves its range with probability below 1e-7."""
    data = people([[(1, 1), (3, 0), (4, 1), (0, 0)], [(2, 1), (0, 0), (2, 0)], [(4, 1)]])
    learner = HybridSelection(Thresholds(), Fraction(4))
    law, rng, n = learner.rule_law(data), SeededRng(11), 600
    with insecure_randomness():
        drawn = [learner.learn(data, rng=rng).value.cut for _ in range(n)]
    for cut in range(6):
        p = law.prob_float(cut)
        assert abs(drawn.count(cut) - n * p) <= 6 * (n * p * (1 - p)) ** 0.5 + 12


# What is shown


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_rule_is_released_and_neither_the_score_nor_a_count(neighbours: str) -> None:
    data = people([[(1, 1), (3, 0)] * 3, [(4, 1)]])
    released = pp.learn(data, Thresholds(), epsilon=1, neighbours=neighbours)
    assert released.learner == "hybrid selection"
    assert set(released.parameters) == {"class", "size", "levels"}
    assert not any(word in str(released).lower() for word in ("noisy", "optimism", "clip", "mean"))
    assert isinstance(pp.HybridSelection(Thresholds(), epsilon=1), HybridSelection)


@pytest.mark.parametrize(
    "bad", [{"levels": 0}, {"levels": 1 << 32}, {"epsilon": -1}, {"neighbours": "both"}, {"unit": "household"}]
)
def test_bad_parameters_are_refused_before_any_data(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        HybridSelection(**({"concept": Thresholds(LINE["x"]), "epsilon": 1} | bad))


def test_by_item_it_is_the_mean_and_nothing_is_bought() -> None:
    item = UserData.from_arrays([[1], [2], [4]], [0, 1, 1], features=LINE)
    learner = HybridSelection(Thresholds(), 1, unit="item")
    assert learner.guarantee.rho == Fraction(1, 8)
    mean = RegretSelection(Thresholds(), 1, unit="item", statistic="mean").law(item)
    assert learner.rule_law(item).satisfies(mean, 0)


def test_scores_are_offset_by_a_constant_of_the_law_only() -> None:
    data = people([[(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)] * 4] * 3)
    learner = HybridSelection(Thresholds(), 1)
    bound = learner.bind(data)
    profile = profile_of(bound, HybridStatistic())
    cap, always = learner.penalty(3)
    scores = learner.scores(bound)
    assert profile.optimism > 0
    assert {scores.score(6 + cut) - profile.score(6 + cut) for cut in range(6)} == {min(profile.optimism, cap) + always}
