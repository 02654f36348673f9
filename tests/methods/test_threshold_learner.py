"""Medians, range minima, the threshold search and its law, and the choice between search and direct selection."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Integers, UserData
from privpac.errors import ParameterError, TooLargeError
from privpac.law import Law
from privpac.papers.pure_agnostic.search import (
    MedianKernel,
    PrivateMedian,
    RangeMinima,
    ThresholdLearner,
    ThresholdSearch,
    branch_scores,
)
from privpac.rules.cuts import Thresholds
from privpac.rules.profile import Exceeds, Profile, Step
from privpac.rules.stumps import Stumps
from privpac.testing import SeededRng, insecure_randomness

N = 7
DOMAIN = Integers(0, N - 1)
WIDE = Integers(0, 2**64 - 1)
USERS = st.lists(st.lists(st.tuples(st.integers(0, N - 1), st.integers(0, 1)), max_size=5), max_size=6)


def people(users: list[Any], domain: Integers = DOMAIN) -> UserData:
    return UserData.from_users(users, features={"x": domain})


# Medians


@settings(deadline=None)
@given(
    USERS,
    st.integers(0, N),
    st.integers(0, N),
    st.sampled_from(["disagreement", "closed"]),
    st.sampled_from(["1", "2/3", "8/27"]),
)
def test_median_scores_equal_their_definition(users: list[Any], a: int, b: int, region: str, level: str) -> None:
    low, high = min(a, b), max(a, b)
    learner = PrivateMedian(Thresholds(), epsilon=1, lower=low, upper=high, level=level, region=region)
    found = learner.profile(people(users))
    for u in range(low, high + 1):
        left = right = 0
        for user in users:
            s, xs = learner.tolerance(len(user)), [x + 1 for x, _ in user]
            first = (low if low else 1) if region == "closed" else low + 1
            last = u + 1 if region == "closed" else u + 2
            left += sum(first <= x <= u - 1 for x in xs) > s
            right += sum(last <= x <= high for x in xs) > s
        expected = 0 if low == high else max(left, right)
        assert found.score(u) == expected


@settings(deadline=None)
@given(USERS, USERS, st.sampled_from(["disagreement", "closed"]))
def test_median_places_of_two_groups_add_up(first: list[Any], second: list[Any], region: str) -> None:
    kernel = MedianKernel("x", 1, N, Fraction(1), Fraction(2, 3), region)
    merged = kernel.merge(kernel.merge(kernel.zero(), kernel.chunk(people(first))), kernel.chunk(people(second)))
    assert kernel.profile(merged).blocks() == kernel.profile(kernel.chunk(people(first + second))).blocks()


@pytest.mark.parametrize("region", ["disagreement", "closed"])
@pytest.mark.parametrize(("low", "high"), [(0, 2**64), (0, 1), (2**64 - 1, 2**64), (2**63, 2**64), (5, 2**64 - 1)])
def test_medians_over_64_bits(region: str, low: int, high: int) -> None:
    users = [[(0, 0)], [(2**64 - 1, 1)], [(2**64 - 2, 1), (0, 0)], [(2**63, 1)] * 3, []]
    learner = PrivateMedian(Thresholds(), epsilon=1, lower=low, upper=high, region=region)
    blocks = learner.profile(people(users, WIDE)).blocks()
    assert (blocks[0][0], blocks[-1][1]) == (low, high)
    assert all(a[1] + 1 == b[0] for a, b in pairwise(blocks))
    law = learner.law(people(users, WIDE))
    assert sum(c.stop - c.start for c in law.support() if isinstance(c, range)) == high - low + 1
    for first, last, score in blocks:
        for u in {first, last}:
            left = right = 0
            for user in users:
                s, xs = learner.tolerance(len(user)), [x + 1 for x, _ in user]
                start = (low if low else 1) if region == "closed" else low + 1
                left += sum(start <= x <= u - 1 for x in xs) > s
                right += sum(u + (1 if region == "closed" else 2) <= x <= high for x in xs) > s
            assert score == max(left, right)


def test_the_median_of_a_crowd_is_in_the_crowd() -> None:
    crowd = people([[(100 + i % 7, 0)] for i in range(60)], Integers(0, 999))
    law = PrivateMedian(Thresholds(), epsilon=2).law(crowd)
    assert sum(law.prob_float(u) for u in range(98, 110)) > 0.99
    assert str(PrivateMedian(Thresholds(), epsilon=2).learn(crowd).guarantee) == "(2, 0)-DP per user, add-remove"


@pytest.mark.parametrize(
    "bad",
    [
        {"level": 0},
        {"level": 2},
        {"theta": "1/2"},
        {"theta": 1},
        {"region": "open"},
        {"lower": -1},
        {"lower": 3, "upper": 2},
    ],
)
def test_bad_medians_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        PrivateMedian(Thresholds(), epsilon=1, **bad)


def test_medians_outside_the_domain_and_of_other_classes_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"cuts 0\.\.7"):
        PrivateMedian(Thresholds(), epsilon=1, upper=8).law(people([]))
    with pytest.raises(ParameterError, match="Thresholds"):
        PrivateMedian(Stumps({"x": DOMAIN}), epsilon=1)
    with pytest.raises(ParameterError, match="direction"):
        PrivateMedian(Thresholds(direction="both"), epsilon=1)


# Range minima


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=40), st.data())
def test_range_minima_equal_brute_force(scores: list[int], data: Any) -> None:
    cut = data.draw(st.integers(1, len(scores)))
    parts = [scores[:cut], scores[cut:]]
    steps, base = [], 0
    for part in parts:
        if part:
            steps.append(
                Step(base, np.arange(len(part), dtype=np.uint64), len(part) - 1, np.array(part, dtype=np.int64))
            )
            base += len(part)
    minima = RangeMinima(Profile(tuple(steps)))
    first = data.draw(st.integers(0, len(scores) - 1))
    last = data.draw(st.integers(first, len(scores) - 1))
    assert minima.least(first, last) == min(scores[first : last + 1])
    with pytest.raises(ParameterError):
        minima.least(len(scores), len(scores) + 1)


def test_range_minima_over_many_groups() -> None:
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 10**6, 10_000)
    minima = RangeMinima(Profile((Step(1, np.arange(10_000, dtype=np.uint64) * np.uint64(2**40), 2**64 - 1, scores),)))
    for a, b in rng.integers(0, 10_000, (300, 2)):
        low, high = int(min(a, b)), int(max(a, b))
        assert minima.least(1 + low * 2**40 + 5, 1 + high * 2**40) == scores[low : high + 1].min()
    assert minima.least(1, 2**64) == scores.min()


def test_empty_sides_are_absent() -> None:
    assert branch_scores(lambda a, b: a + b, 2, 2, 4) == {"mid": 4, "right": 7}
    assert branch_scores(lambda a, b: a + b, 2, 4, 4) == {"mid": 8, "left": 5}


# The search


DATA = people([[(1, 0), (5, 1)], [(2, 0)], [(6, 1), (4, 1), (0, 1)], [], [(3, 1), (3, 0)]])


@pytest.mark.parametrize(
    ("branch", "direction"),
    [
        ("em", "above"),
        ("dlap", "below"),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [("em", "below"), ("dlap", "above")]),
    ],
)
def test_paths_follow_the_law(branch: str, direction: str) -> None:
    learner = ThresholdSearch(Thresholds(direction=direction), epsilon=8, tolerance=0, branch=branch, rounds=3)
    law, bound, runs = learner.law(DATA), learner.bind(DATA), 1200
    seen = [0] * (N + 1)
    with insecure_randomness():
        rng = SeededRng("search")
        for _ in range(runs):
            seen[learner.search(bound, None, rng)] += 1
    # Hoeffding for 8 cuts and four cases: false alarm below 64 e**(-2 * 1200 * 0.09**2) < 1e-6.
    for cut in range(N + 1):
        assert abs(seen[cut] / runs - law.prob_float(cut)) < 0.09


@pytest.mark.parametrize("branch", ["em", "dlap"])
def test_the_law_sums_to_one(branch: str) -> None:
    for rounds in (1, 2, 5):
        law = ThresholdSearch(Thresholds(), epsilon=3, tolerance=0, branch=branch, rounds=rounds).law(DATA)
        total = [law.prob(cut) for cut in range(N + 1)]
        assert sum(ball.lo for ball in total) <= 1 <= sum(ball.hi for ball in total)


@pytest.mark.slow
def test_the_law_of_the_largest_domain_it_is_for() -> None:
    domain = Integers(0, 63)
    learner = ThresholdSearch(Thresholds(), epsilon=100, tolerance=0, rounds=3)
    law = learner.law(people([[(10, 0), (40, 1)], [(38, 0), (39, 1)], [(20, 0), (60, 1)]] * 20, domain))
    assert law.prob_float(39) > 0.5
    with pytest.raises(TooLargeError, match="64"):
        learner.law(people([], Integers(0, 64)))


@pytest.mark.parametrize("users", [[], [[]], [[(3, 1)]]])
@pytest.mark.parametrize("branch", ["em", "dlap"])
def test_the_search_runs_on_next_to_nothing(users: list[Any], branch: str) -> None:
    learner = ThresholdSearch(Thresholds(), epsilon=1, branch=branch, radius="1/4")
    assert 0 <= learner.learn(people(users)).value.cut <= N
    assert 0 <= learner.learn(people(users, WIDE)).value.cut <= 2**64


def test_a_domain_of_one_value() -> None:
    law = ThresholdSearch(Thresholds(), epsilon=20, tolerance=0, rounds=4).law(people([[(0, 1)]] * 30, Integers(0, 0)))
    assert law.prob_float(0) > 0.9


def test_the_search_finds_a_cut_among_2_to_the_64() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2**64, 40_000, dtype=np.uint64)
    y = (x >= np.uint64(2**62)).astype(np.uint8)
    data = UserData.from_arrays(x[:, None], y, np.repeat(np.arange(4000), 10), features={"x": WIDE})
    learner = ThresholdSearch(Thresholds(), epsilon=20, tolerance=0)
    with insecure_randomness():
        cut = learner.learn(data, rng=SeededRng(4)).value.cut
    assert abs(cut - 2**62) < 2**64 // 20


def test_the_search_reads_data_elsewhere_and_declared_sizes() -> None:
    learner = ThresholdSearch(Thresholds(), epsilon=4, tolerance=0, rounds=2, sizes=(0, 1, 2))
    cut = people([[(1, 0), (5, 1)], [(2, 0)], [(6, 1), (4, 1)], [], [(3, 1), (3, 0)]])
    assert float(learner.law(DATA).total_variation(learner.law(cut))) < 1e-30
    learner.learn(DATA)


def test_rounds_and_budget_follow_alpha() -> None:
    learner = ThresholdSearch(Thresholds(), epsilon=1, alpha="1/10", records_per_user=16)
    assert learner.rounds == 8
    assert learner.compared_alpha == Fraction(1, 20)
    assert learner.epsilon_estimate + 4 * 8 * learner.epsilon_step == 1
    em, dlap = learner.guarantee.rho, learner.with_(branch="dlap").guarantee.rho
    assert em is not None
    assert dlap is not None
    assert em < dlap < Fraction(1, 2)


@pytest.mark.parametrize(
    "bad", [{"branch": "max"}, {"theta": "1/2"}, {"theta": 1}, {"rounds": 0}, {"region": "all"}, {"alpha": 2}]
)
def test_bad_searches_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        ThresholdSearch(Thresholds(), epsilon=1, **bad)
    with pytest.raises(ParameterError):
        ThresholdLearner(Thresholds(), epsilon=1, method="search", **bad)


# Choosing


def test_auto_takes_the_direct_selection() -> None:
    learner = ThresholdLearner(Thresholds(WIDE), epsilon=1, records_per_user=16)
    assert learner.chosen(2**64) == "direct"
    assert learner.learner(Thresholds(WIDE, "x")) == learner.direct


def test_auto_takes_the_search_when_it_certifies_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    from privpac.papers.pure_agnostic import search as thresholds

    class Cheap:
        n_users = 1

    monkeypatch.setattr(thresholds, "plan_threshold_search", lambda **_: Cheap)
    learner = ThresholdLearner(Thresholds(), epsilon="123/456", records_per_user=7)
    assert learner.chosen(12345) == "search"
    thresholds._better.cache_clear()


@pytest.mark.parametrize("method", ["direct", "search"])
def test_both_methods_keep_the_promise_they_state(method: str) -> None:
    learner = ThresholdLearner(Thresholds(), epsilon=1, method=method, radius="1/4")
    released = learner.learn(DATA)
    assert released.parameters["method"] == method
    assert released.guarantee == learner.guarantee
    inner = learner.direct if method == "direct" else learner.search
    assert learner.guarantee == inner.guarantee
    assert float(learner.rule_law(DATA).total_variation(inner.rule_law(DATA))) < 1e-30


def test_auto_states_the_weaker_of_the_two_promises() -> None:
    learner = ThresholdLearner(Thresholds(), epsilon=1, radius="1/4", branch="dlap", rounds=1)
    assert learner.guarantee.epsilon == 1
    assert learner.guarantee.rho == max(learner.direct.guarantee.rho, learner.search.guarantee.rho)  # type: ignore[type-var]


def test_direct_equals_the_plain_exponential_law() -> None:
    learner = ThresholdLearner(Thresholds(), epsilon=1, method="direct", tolerance=1)
    plain: Law = Thresholds().profile(DATA, Exceeds(1)).law(1)
    assert learner.law(DATA).satisfies(plain, 0)
    assert learner.tolerance_of(DATA) == 1


def test_both_directions_go_directly() -> None:
    learner = ThresholdLearner(Thresholds(direction="both"), epsilon=1, tolerance=0)
    assert learner.chosen(2**20) == "direct"
    assert learner.learn(DATA).parameters["method"] == "direct"
    with pytest.raises(ParameterError, match="direction"):
        ThresholdLearner(Thresholds(direction="both"), epsilon=1, method="search")


def test_other_classes_and_methods_are_refused() -> None:
    with pytest.raises(ParameterError, match="Thresholds"):
        ThresholdLearner(Stumps({"x": DOMAIN}), epsilon=1)
    with pytest.raises(ParameterError, match="method"):
        ThresholdLearner(Thresholds(), epsilon=1, method="fast")
    with pytest.raises(ParameterError, match="beta"):
        ThresholdLearner(Thresholds(), epsilon=1, beta=0)
