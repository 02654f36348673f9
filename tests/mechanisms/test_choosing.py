"""The choosing mechanism: exact enumeration of neighbours for both laws and both relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import exp
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import dyadic_base
from privpac.law import BOTTOM, Law
from privpac.mechanisms import ChoosingMechanism, choosing_law, choosing_sample
from privpac.papers.two_stage_choosing import TwoStageChoosing
from privpac.testing import SeededRng, WordRng, insecure_randomness

Votes = tuple[int, ...]
Pair = tuple[Votes, Votes]
Setting = tuple[str, str, int, int, int]


def choose(epsilon: Any, delta: Any, growth: Any, neighbours: Any, **more: Any) -> Any:
    kind = {"one-stage": ChoosingMechanism, "two-stage": TwoStageChoosing}[more.pop("law", "one-stage")]
    return kind(epsilon, delta, growth, neighbours, unit="user", **more)


@lru_cache
def pairs(relation: str, growth: int, candidates: int, most: int) -> list[Pair]:
    """All neighbouring vote vectors with counts up to ``most``, one of each kind (renaming candidates renames
    outcomes)."""

    def ballots() -> Iterable[Votes]:
        for size in range(growth + 1):
            for chosen in combinations(range(candidates), size):
                yield tuple(int(c in chosen) for c in range(candidates))

    kinds = set()
    for rest in product(range(most), repeat=candidates):
        for mine in ballots():
            others = list(ballots()) if relation == "replace" else [(0,) * candidates]
            for other in others:
                kind = tuple(sorted((r + a, r + b) for r, a, b in zip(rest, mine, other)))
                kinds.add(min(kind, tuple(sorted((b, a) for a, b in kind))))
    return [(tuple(a for a, _ in kind), tuple(b for _, b in kind)) for kind in sorted(kinds)]


def is_private(laws: Any, neighbouring: list[Pair], epsilon: Any, delta: Any) -> bool:
    made = {votes: laws(votes) for pair in neighbouring for votes in pair}
    return all(made[a].satisfies(made[b], epsilon, delta) for a, b in neighbouring)


def worst_excess(laws: Any, neighbouring: list[Pair], epsilon: Any) -> Fraction:
    """Certified lower bound on the largest hockey stick."""
    made: dict[Votes, Law] = {votes: laws(votes) for pair in neighbouring for votes in pair}
    return max(made[p].hockey_stick(made[q], epsilon).lo for a, b in neighbouring for p, q in ((a, b), (b, a)))


# One-stage

ONE_STAGE = [("1", "1/50", 1, 3, 4), ("1/2", "1/10", 2, 3, 3), ("2", "1/1000", 2, 2, 5)]


@pytest.mark.parametrize("setting", ONE_STAGE)
@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_one_stage_law_is_private_and_attains_delta(relation: str, setting: Setting) -> None:
    epsilon, delta, growth, candidates, most = setting
    mechanism = choose(epsilon, delta, growth, relation)
    neighbouring = pairs(relation, growth, candidates, most)
    assert is_private(mechanism.law, neighbouring, epsilon, delta)
    assert not is_private(mechanism.law, neighbouring, epsilon, Fraction(delta) * (1 - Fraction(1, 10**12)))
    assert float(worst_excess(mechanism.law, neighbouring, epsilon)) == pytest.approx(float(Fraction(delta)), rel=1e-12)
    # Attained exactly: one full ballot where there was none.
    ballot = mechanism.law([1] * growth)
    assert sum(ballot.prob_exact(v) for v in range(growth)) == Fraction(delta)


@pytest.mark.parametrize("setting", [("1", "1/50", 1, 3, 4), ("1/2", "1/100", 2, 2, 14), ("2", "1/1000", 2, 2, 5)])
def test_add_remove_calibration_breaks_the_promise_under_replace(setting: Setting) -> None:
    """The mutation that must fail: the base for add-remove, checked against replace neighbours."""
    epsilon, delta, growth, candidates, most = setting
    careless = choose(epsilon, delta, growth, "add-remove")
    assert not is_private(careless.law, pairs("replace", growth, candidates, most), epsilon, delta)


def test_one_stage_weights_follow_the_recurrence() -> None:
    r, delta, k = Fraction(5, 2), Fraction(1, 9), 2
    delta0 = delta / (k * (1 - delta))
    law = choosing_law({"a": 1, "b": 2, "c": 5, "d": 0}, r, delta, k)
    weight = [Fraction(0)]
    for _ in range(5):
        weight.append(r * weight[-1] + delta0)
    z = 1 + weight[1] + weight[2] + weight[5]
    assert [law.prob_exact(v) for v in ("a", "b", "c", "d", BOTTOM)] == [
        weight[1] / z,
        weight[2] / z,
        weight[5] / z,
        0,
        1 / z,
    ]


@pytest.mark.parametrize(
    ("epsilon", "delta", "growth", "one", "two", "threshold"),
    [(1, "1e-6", 1, 19, 38, 28), ("1/2", "1e-6", 2, 38, 76, 57), (2, "1e-4", 10, 9, 18, 13)],
)
def test_votes_needed_are_the_known_ones(
    epsilon: Any, delta: str, growth: int, one: int, two: int, threshold: int
) -> None:
    single = choose(epsilon, delta, growth, "add-remove")
    double = choose(epsilon, delta, growth, "add-remove", law="two-stage")
    assert single.votes_needed("0.01") == one
    assert double.votes_needed("0.01") <= two
    assert threshold == double.T
    for mechanism in (single, double):
        enough = mechanism.votes_needed("0.01")
        assert (
            mechanism.law({"a": enough}).prob(BOTTOM).hi
            <= Fraction(1, 100)
            < mechanism.law({"a": enough - 1}).prob(BOTTOM).lo
        )


# Two-stage

TWO_STAGE = [("1/2", "1/2", 4, 1, 3, 5), ("1/2", "1", 4, 2, 3, 5), ("1", "1/2", 3, 2, 3, 5), ("1/4", "1/4", 3, 2, 4, 3)]


@pytest.mark.parametrize(("epsilon1", "eta2", "threshold", "growth", "candidates", "most"), TWO_STAGE)
def test_two_stage_law_is_private_at_its_exact_delta(
    epsilon1: str, eta2: str, threshold: int, growth: int, candidates: int, most: int
) -> None:
    epsilon = Fraction(epsilon1) + Fraction(eta2)
    mechanism = choose(
        epsilon, "0.999", growth, "add-remove", law="two-stage", epsilon1=epsilon1, eta2=eta2, T=threshold
    )
    star, neighbouring = mechanism.delta_star(), pairs("add-remove", growth, candidates, most)
    assert is_private(mechanism.law, neighbouring, epsilon, star.hi)
    worst = worst_excess(mechanism.law, neighbouring, epsilon)
    assert worst <= star.hi
    if mechanism.worst_count() == 1:
        assert worst >= star.lo * (1 - Fraction(1, 10**9))  # attained: from no votes to one ballot


def test_two_stage_delta_is_attained_beyond_the_first_vote() -> None:
    """Here the worst top count is larger than 1: one popular candidate and ``growth`` new ones."""
    mechanism = choose(1, "0.999", 8, "add-remove", law="two-stage", T=6)
    m = mechanism.worst_count()
    assert m > 1
    here, there = mechanism.law([m] + [0] * 8), mechanism.law([m] + [1] * 8)
    assert here.satisfies(there, 1, mechanism.delta_star().hi)
    assert float(there.hockey_stick(here, 1)) == pytest.approx(float(mechanism.delta_star()), rel=1e-12)


@pytest.mark.parametrize(("relation", "growth"), [("add-remove", 1), ("add-remove", 2), ("replace", 1), ("replace", 2)])
def test_two_stage_threshold_is_private_and_least(relation: str, growth: int) -> None:
    epsilon, delta = 2, Fraction(1, 20)
    mechanism = choose(epsilon, delta, growth, relation, law="two-stage")
    assert is_private(mechanism.law, pairs(relation, growth, 3, mechanism.T + 1 if growth == 1 else 4), epsilon, delta)
    with pytest.raises(InfeasibleError, match="least threshold"):
        choose(epsilon, delta, growth, relation, law="two-stage", T=mechanism.T - 1)


@pytest.mark.parametrize(
    ("growth", "epsilon1", "eta2"), [(1, "1/2", "1/2"), (7, "1/2", "1/2"), (30, "1/5", "1"), (3, "1", "1/10")]
)
def test_worst_count_is_the_maximum_over_all_counts(growth: int, epsilon1: str, eta2: str) -> None:
    """Bisection on a log-concave sequence against a literal scan."""
    total = Fraction(epsilon1) + Fraction(eta2)
    mechanism = choose(total, "0.999", growth, "add-remove", law="two-stage", epsilon1=epsilon1, eta2=eta2, T=12)

    def risk(m: int) -> float:
        x, gap = exp(-float(Fraction(epsilon1))), 12 - m
        passing = x**gap / (1 + x) if gap >= 1 else 1 - x ** (1 - gap) / (1 + x)
        return passing * (1 if m == 1 else growth / (growth + exp(float(Fraction(eta2)) * (m - 1))))

    assert float(mechanism.delta_star()) == pytest.approx(max(risk(m) for m in range(1, 400)), rel=1e-12)
    assert risk(mechanism.worst_count()) == pytest.approx(float(mechanism.delta_star()), rel=1e-12)


# Both


@pytest.mark.parametrize("law", ["one-stage", "two-stage"])
@pytest.mark.parametrize("votes", [{}, [], {"a": 0}, [0, 0], np.zeros(3, dtype=np.uint8)])
def test_nobody_votes_means_bottom(law: str, votes: Any) -> None:
    mechanism = choose(1, "1e-6", 1, "add-remove", law=law)
    assert mechanism.law(votes).prob_exact(BOTTOM) == 1
    assert mechanism.sample(votes) is BOTTOM


@pytest.mark.parametrize("law", ["one-stage", "two-stage"])
def test_arrays_and_mappings_agree(law: str) -> None:
    mechanism = choose(1, "1e-2", 2, "replace", law=law)
    by_index, by_name = (
        mechanism.law(np.array([3, 0, 5, 3])),
        mechanism.law({np.int64(0): 3, 2: np.uint8(5), 3: 3, 7: 0}),
    )
    assert all(by_index.prob(v) == by_name.prob(v) for v in (0, 1, 2, 3, 7, BOTTOM))
    assert by_index.satisfies(by_name, 0)


@pytest.mark.parametrize("law", ["one-stage", "two-stage"])
def test_draws_match_the_law(law: str) -> None:
    """Chi-square at false-alarm probability 1e-7; the seed is fixed."""
    mechanism, draws = choose(1, "1/20", 1, "add-remove", law=law), 4000
    votes = {"a": 4, "b": 3, (1, 2): 3, 10**30: 1}
    with insecure_randomness():
        rng = SeededRng(law)
        counts = Counter(mechanism.sample(votes, rng) for _ in range(draws))
    expected = {v: draws * float(mechanism.law(votes).prob(v)) for v in (*votes, BOTTOM)}
    assert min(expected.values()) >= 5
    assert set(counts) <= set(expected)
    assert chi2.sf(sum((counts[v] - e) ** 2 / e for v, e in expected.items()), len(expected) - 1) > 1e-7


@given(st.dictionaries(st.integers(0, 5), st.integers(0, 6), max_size=5), st.integers(0, (1 << 64) - 1))
@settings(max_examples=40, deadline=None)
def test_one_stage_draw_is_the_inverse_of_its_distribution_function(votes: dict[int, int], word: int) -> None:
    """The level drawn from one word is where ``word * 2**-64`` falls among the exact cumulative probabilities."""
    law = choosing_law(votes, 2, "1/3")
    with insecure_randomness():
        drawn = choosing_sample(votes, 2, "1/3", rng=WordRng([word, *([0] * 200)]))
    counts = sorted({q for q in votes.values() if q}, reverse=True)
    low = sum((law.prob_exact(c) for c, q in votes.items() if drawn is BOTTOM or q > votes[drawn]), Fraction(0))
    mass = (
        law.prob_exact(BOTTOM)
        if drawn is BOTTOM
        else law.prob_exact(drawn) * sum(q == votes[drawn] for q in votes.values())
    )
    assert low <= Fraction(word + 1, 1 << 64)
    assert Fraction(word, 1 << 64) <= low + mass
    assert drawn is BOTTOM or votes[drawn] in counts


def test_thousands_of_votes_are_drawn_without_writing_out_rationals() -> None:
    mechanism = choose(1, "1e-6", 1, "add-remove")
    assert mechanism.sample({"a": 10**9, "b": 10**9 - 10**6}) == "a"


def test_delta_too_large_for_epsilon_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="delta too large for epsilon"):
        choose("1/10", "1/2", 1, "add-remove")
    with pytest.raises(ValueError, match="delta too large"):
        choosing_law({"a": 1}, "11/10", "1/2")
    assert choosing_law({"a": 1}, 2, "1/2").prob_exact("a") == Fraction(1, 2)  # the boundary is allowed


@pytest.mark.parametrize(
    ("votes", "error"),
    [
        ({"a": -31337}, ParameterError),
        ([-31337], ParameterError),
        ({"a": 1.5}, TypeError),
        ({"a": True}, TypeError),
        ([0.5], TypeError),
        ([float("nan")], TypeError),
        ([[1]], TypeError),
        (None, TypeError),
        (3, TypeError),
        ({BOTTOM: 1}, ParameterError),
        ({range(3): 1}, ParameterError),
    ],
)
def test_bad_votes_are_refused_without_repeating_them(votes: Any, error: type[Exception]) -> None:
    for law in ("one-stage", "two-stage"):
        mechanism = choose(1, "1e-6", 1, "add-remove", law=law)
        for use in (mechanism.law, mechanism.sample):
            with pytest.raises(error) as caught:
                use(votes)
            assert "31337" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"T": 5}, TypeError),
        ({"epsilon1": "1/2"}, TypeError),
        ({"law": "two-stage", "epsilon1": 1}, ParameterError),
        ({"law": "two-stage", "epsilon1": "3/4", "eta2": "1/2"}, ParameterError),
        ({"law": "two-stage", "epsilon1": 0}, ParameterError),
        ({"law": "two-stage", "eta2": -1}, ParameterError),
        ({"law": "two-stage", "eta2": float("nan")}, ParameterError),
        ({"law": "two-stage", "T": 0}, ParameterError),
        ({"law": "two-stage", "T": 1}, InfeasibleError),
        ({"law": "two-stage", "T": 28.0}, TypeError),
    ],
)
def test_bad_stages_are_refused(more: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        choose(1, "1e-6", 1, "add-remove", **more)


def test_thresholds_belong_to_the_two_stage_law() -> None:
    assert not hasattr(choose(1, "1e-6", 1, "add-remove"), "T")
    remaining = choose(1, "1e-6", 1, "replace", law="two-stage", epsilon1="1/5")
    assert (remaining.epsilon1, remaining.eta2) == (Fraction(1, 5), Fraction(3, 10))
    assert choose(1, "1e-6", 1, "replace").base == dyadic_base("1/2")
