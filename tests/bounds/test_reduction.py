"""The three privacy theorems are rounded outward, grow where they must, and their inverses stay inside the target."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.errors import InfeasibleError, ParameterError
from privpac.methods.prediction.reduction_privacy import (
    MAX_COST,
    ROUNDED,
    ReductionTask,
    empirical_size,
    inner_budget,
    inner_delta,
    largest_rate,
    outer,
    plan_reduction,
    solve_b,
    theorem_a,
    theorem_b,
    theorem_c,
)
from privpac.methods.prediction.service_sample_size import certify_reduction, reduction_excess, selection_error

RELATIONS = ["replace", "add-remove"]
share = st.fractions(Fraction(1, 10_000), Fraction(99, 100), max_denominator=10_000)
cost = st.fractions(0, 3, max_denominator=1000)
budget = st.fractions(Fraction(1, 100), 4, max_denominator=1000)


def plain_a(q: float, a: float, b: float, e: float, g: int) -> float:
    k = g * g * math.exp(2 * a + e)
    return 2 * b + max(0.0, math.log(1 - q + q * k) - math.log(1 - q + q * math.exp(2 * b)))


def plain_b(q: float, a: float, b: float, e: float, g: int) -> float:
    return math.log((1 - q) * math.exp(b) + q * g * math.exp(a + e))


# Values


@settings(max_examples=80, deadline=None)
@given(share, cost, cost, cost, st.sampled_from([1, 2, 3, 7]))
def test_theorems_are_their_formulas_rounded_up(q: Fraction, a: Fraction, b: Fraction, e: Fraction, g: int) -> None:
    for theorem, plain in ((theorem_a, plain_a), (theorem_b, plain_b)):
        exact, value = theorem(q, a, b, e, 0, g)[0], plain(float(q), float(a), float(b), float(e), g)
        assert abs(float(exact) - value) <= 1e-12 + 1e-11 * value
        # Never below: ten more digits of the answer cannot undercut it.
        assert theorem(q, a, b, e, 0, g)[0] >= theorem(q, a, max(b - Fraction(1, 10**15), Fraction(0)), e, 0, g)[0]


def test_the_clip_reports_what_the_mistakes_on_the_rest_cost() -> None:
    assert theorem_a("1/2", "0.01", 2, "0.1") == (4, 0)
    assert plain_a(0.5, 0.01, 2, 0.1, 2) == 4
    unclipped = 4 + math.log(0.5 + 0.5 * 4 * math.exp(0.12)) - math.log(0.5 + 0.5 * math.exp(4))
    assert unclipped < 3


def test_delta_is_amplified_once() -> None:
    assert theorem_a("1/10", 1, 1, 1, "1e-6")[1] == Fraction(1, 10**7)
    assert theorem_b("1/10", 1, 1, 1, "1e-6")[1] == Fraction(1, 10**7)
    # e**b above K': the factor q + (1 - q) e**b / K'.
    factor = 0.1 + 0.9 * math.exp(5) / (2 * math.exp(1.5))
    assert abs(float(theorem_b("1/10", 1, 5, "1/2", "1e-6")[1]) - 1e-7 * factor) < 1e-18


def test_published_comparisons() -> None:
    """Inner 1-DP, T a share eps0 of 10**4: eps0 = 0.01 costs 0.259; epsilon 1 allows eps0 = 0.0585."""

    def of(eps0: str) -> float:
        q = Fraction(math.ceil(Fraction(eps0) * 10_000), 10_000)
        a, b = Fraction(eps0) * (1 - q) / (2 * q), Fraction(eps0) / 2
        return float(theorem_a(q, a, b, 1)[0])

    assert abs(of("0.01") - 0.259) < 5e-4
    assert of("0.0585") <= 1 < of("0.0590")


@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=40, deadline=None)
@given(share, cost, cost, cost, cost)
def test_epsilon_grows_with_every_cost(
    relation: str, q: Fraction, a: Fraction, b: Fraction, e: Fraction, more: Fraction
) -> None:
    base = outer(relation, q, a, b, e)[0]
    tolerance = 1 + Fraction(1, 1 << 60)
    assert outer(relation, q, a + more, b, e)[0] * tolerance >= base
    assert outer(relation, q, a, b + more, e)[0] * tolerance >= base
    assert outer(relation, q, a, b, e + more)[0] * tolerance >= base
    assert outer(relation, q, a, b, e, 0, 3)[0] * tolerance >= base
    if 4 * math.exp(2 * a + e) >= math.exp(2 * b) * 1.001 and 2 * math.exp(a + e) >= math.exp(b) * 1.001:
        assert outer(relation, min(q * 2, Fraction(1)), a, b, e)[0] * tolerance >= base


def test_many_answers_saturate_instead_of_overflowing() -> None:
    """k answers of 1 each on one split: linear in k beyond saturation, and never k times the price of one."""
    q, one = Fraction(1, 100), theorem_a("1/100", 0, "1/100", 1)[0]
    values = [theorem_a(q, 0, "1/100", k)[0] for k in (1, 10, 50, 10_000)]
    assert values == sorted(values)
    assert values[2] > 50 * one
    assert (
        abs(float(values[3]) - (10_000 + math.log(0.01 * 4) + 0.02 - math.log(1 - 0.01 + 0.01 * math.exp(0.02)))) < 1e-6
    )


def test_draws_with_replacement() -> None:
    epsilon, delta = theorem_c(2, 3, "0.693147180559945309417232121458", "1e-3")
    assert abs(float(epsilon) - 0.575364) < 1e-6
    assert abs(float(delta) / 1e-3 - 0.7778) < 1e-4
    assert theorem_c(5, 10, 0, "1e-3") == (0, Fraction(1, 2000))
    assert theorem_c(7, 1, "1/2")[0] >= Fraction(7, 2)
    assert empirical_size(1000, "0.1", 1) == 106
    assert empirical_size(3, "1/2", 2) == 1
    for m, e, target in ((1000, "0.1", 1), (40, 1, "0.3"), (1, 2, "0.01")):
        n = empirical_size(m, e, target)
        assert theorem_c(m, n, e)[0] <= Fraction(target) * (1 + Fraction(1, 1 << 60))
        assert n == 1 or theorem_c(m, n - 1, e)[0] > Fraction(target)


# Inverses


@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=60, deadline=None)
@given(share, cost, cost, budget, st.sampled_from([1, 2, 3]))
def test_solved_costs_use_the_whole_budget_and_no_more(
    relation: str, q: Fraction, a: Fraction, e: Fraction, target: Fraction, g: int
) -> None:
    room = 1 + Fraction(1, 1 << 50)
    b = solve_b(q, a, e, target, g, relation)
    if b is None:
        assert outer(relation, q, a, 0, e, 0, g)[0] >= target
        assert largest_rate(a, e, target, g, relation) <= q
        return
    assert largest_rate(a, e, target, g, relation) * room >= q
    assert outer(relation, q, a, b, e, 0, g)[0] <= target * room
    assert outer(relation, q, a, b * Fraction(101, 100) + Fraction(1, 10**6), e, 0, g)[0] > target
    for smaller in (b / 2, Fraction(0)):
        spent = inner_budget(q, a, smaller, target, "1e-6", g, relation)
        assert spent is not None
        assert spent[0] * room >= e
        assert outer(relation, q, a, smaller, spent[0], spent[1], g)[0] <= target * room
        assert outer(relation, q, a, smaller, spent[0], spent[1], g)[1] <= Fraction(1, 10**6) * room
        assert outer(relation, q, a, smaller, spent[0] + Fraction(1, 1000), 0, g)[0] > target
        assert inner_delta(q, a, smaller, e, 0, g, relation) == 0


def test_equal_exponents_are_added_up() -> None:
    """Terms of one exponent in the feasibility test must not replace each other: here ln K' equals the target and b is
    0."""
    assert inner_budget("1/2", 0, 0, 1, G=1) is not None
    b = solve_b("1/2", "1/2", "1/2", 1, 1, "add-remove")
    assert b is not None
    assert 1 - Fraction(1, 1 << 60) <= b <= 1
    assert solve_b("1/2", "1/4", "1/2", 1, 1, "replace") == Fraction(1, 2)


@pytest.mark.parametrize(
    "bad",
    [
        {"q": 0},
        {"q": "3/2"},
        {"q": "nan"},
        {"a": -1},
        {"b": float("inf")},
        {"eps_A": -1},
        {"delta_A": 2},
        {"G": 0},
        {"a": 10**10},
    ],
)
def test_bad_numbers_are_refused(bad: dict[str, Any]) -> None:
    values: dict[str, Any] = {"q": "1/2", "a": 1, "b": 1, "eps_A": 1, "delta_A": 0, "G": 2} | bad
    for theorem in (theorem_a, theorem_b):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            theorem(**values)


def test_wrong_types_are_refused() -> None:
    with pytest.raises(TypeError):
        theorem_a([1], 1, 1, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        theorem_b("1/2", 1, 1, 1, 0, 2.0)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="replace"):
        outer("swap", "1/2", 1, 1, 1)
    with pytest.raises(ParameterError):
        theorem_c(0, 1, 1)


# Plans


def line(t: int) -> float:
    return math.log(t + 1)


@pytest.mark.parametrize(("n", "noise"), [(10_000, 0.072), (100_000, 0.0087)])
def test_published_noise_of_cuts(n: int, noise: float) -> None:
    plan = plan_reduction(n_users=n, epsilon=1, log_growth=line, inner_epsilons=["1/2"], neighbours="replace")
    assert abs(plan.noise - noise) < 0.006 * noise
    assert abs(float(plan.a) - 0.5) < 0.05  # the minimiser of e**(2a)/a where L limits T
    selection = 2 * (64 * math.log(2) + math.log(100)) / n
    assert 6.5 < plan.noise / selection < 9.5  # what direct selection over 2**64 cuts would lose less


@pytest.mark.parametrize("relation", RELATIONS)
@settings(max_examples=15, deadline=None)
@given(
    st.integers(30, 10**6),
    budget,
    st.sampled_from([1, 16, 64]),
    st.sampled_from([2, 3]),
    st.sampled_from(["0", "1e-7"]),
)
def test_plans_keep_their_target(relation: str, n: int, target: Fraction, levels: int, g: int, leak: str) -> None:
    try:
        plan = plan_reduction(
            n_users=n,
            epsilon=target,
            delta="1e-6",
            log_growth=line,
            inner_delta=leak,
            levels=levels,
            labellings=g,
            neighbours=relation,
        )
    except InfeasibleError as error:
        found = re.search(r"at least (\d+) users.*above ([\d.e+-]+)", str(error))
        assert found is not None
        assert int(found[1]) > n
        assert float(found[2]) >= float(target) * 0.999
        return
    assert plan.epsilon <= target
    assert plan.delta <= Fraction(1, 10**6)
    assert (plan.epsilon, plan.delta) == outer(relation, plan.split_rate, plan.a, plan.b, plan.eps_A, Fraction(leak), g)
    assert 1 <= plan.split_size < n
    assert plan.A <= MAX_COST
    assert plan.B * levels <= MAX_COST
    assert plan.eta.denominator & (plan.eta.denominator - 1) == 0
    assert plan.eta.numerator.bit_length() <= 53
    assert plan.epsilon > target * Fraction(99, 100)


def test_infeasible_targets_name_what_would_do() -> None:
    shape: dict[str, Any] = {"log_growth": line, "inner_epsilons": [1], "least_split": 500, "neighbours": "replace"}
    with pytest.raises(InfeasibleError) as caught:
        plan_reduction(n_users=2000, epsilon="1/10", **shape)
    found = re.search(r"at least (\d+) users.*above ([\d.]+)", str(caught.value))
    assert found is not None
    n, epsilon = int(found[1]), float(found[2])
    plan_reduction(n_users=n + n // 1000, epsilon="1/10", **shape)
    with pytest.raises(InfeasibleError):
        plan_reduction(n_users=n - n // 1000, epsilon="1/10", **shape)
    plan_reduction(n_users=2000, epsilon=epsilon * 1.001, **shape)
    with pytest.raises(InfeasibleError):
        plan_reduction(n_users=2000, epsilon=epsilon * 0.99, **shape)
    with pytest.raises(InfeasibleError, match="delta"):
        plan_reduction(n_users=2000, epsilon=3, inner_delta="1e-6", **shape)


# Accuracy


def test_excess_falls_with_users_and_names_its_terms() -> None:
    values = [
        reduction_excess(t=n // 5, w=n - n // 5, a=1, b="0.4", log_growth=line, beta="0.05").total
        for n in (10**3, 10**4, 10**5, 10**6)
    ]
    assert values == sorted(values, reverse=True)
    plain = reduction_excess(t=2000, w=8000, a=1, b="0.4", log_growth=line, beta="0.05")
    inner = reduction_excess(t=2000, w=8000, a=1, b="0.4", log_growth=line, beta="0.05", inner_error=0.2)
    votes = reduction_excess(t=2000, w=8000, a=1, b="0.4", log_growth=line, beta="0.05", envelope=0.25)
    rounded = reduction_excess(t=2000, w=8000, a=1, b="0.4", log_growth=line, beta="0.05", levels=16)
    assert inner.inner == 0.2
    assert votes.inner == 0.25
    assert plain.inner == 0
    assert votes.noise_part == plain.noise_part <= inner.noise_part
    assert (plain.rounding, rounded.rounding) == (0, 1 / 16)
    assert rounded.total == pytest.approx(plain.total + 1 / 16)


@pytest.mark.slow
@pytest.mark.parametrize(("relation", "levels"), [("add-remove", None), ("add-remove", 840), ("replace", 840)])
def test_certified_users_never_rise_with_any_part_of_the_goal(relation: str, levels: int | None) -> None:
    goal: dict[str, Any] = {"alpha": "0.1", "beta": "0.05", "epsilon": 1, "inner_epsilons": ("1/4", 2)}
    shape: dict[str, Any] = {
        "log_growth": line,
        "inner_error": selection_error(14, relation),
        "neighbours": relation,
        "levels": levels,
    }
    scans = {
        "epsilon": ("1/2", "0.55", 1, 2, 4, 50),
        "alpha": ("0.06", "0.1", "0.2"),
        "beta": ("1e-6", "0.2"),
    }
    for name, values in scans.items():
        found = [certify_reduction(**(goal | {name: value}), **shape).n_users for value in values]
        assert found == sorted(found, reverse=True), name  # type: ignore[type-var]


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_certified_number_holds_for_every_larger_one(relation: str) -> None:
    shape: dict[str, Any] = {
        "log_growth": line,
        "inner_error": selection_error(14, relation),
        "neighbours": relation,
        "levels": 840,
    }
    goal: dict[str, Any] = {"alpha": "0.1", "beta": "0.05", "epsilon": 1, **shape}
    n = certify_reduction(**goal).n_users
    assert n is not None
    assert certify_reduction(n_users=n - 1, **goal).n_users is None
    more = [n, n + 1, n + 7, n + n // 50, n + n // 10, n + n // 2, 4 * n, 100 * n]
    excess = [certify_reduction(n_users=k, **goal)["excess"] for k in more]
    assert excess == sorted(excess, reverse=True)
    assert excess[0] <= 0.1


@pytest.mark.parametrize("levels", [1, 16, 840, 1 << 20])
@pytest.mark.parametrize("relation", RELATIONS)
def test_integer_costs_reach_what_was_judged(relation: str, levels: int) -> None:
    for n in (50, 3000, 10**6):
        for epsilon in ("0.2", 1, 4):
            task = ReductionTask.read(epsilon, 0, "0.01", 0, 2, levels, relation, line)
            found = task.best(n, Fraction(1, 4), task.noise)
            if found is not None:
                plan = task.settle(n, Fraction(1, 4), *found[1:])
                assert plan.a >= found[2] * (1 - ROUNDED)
                assert plan.b >= found[3] * (1 - ROUNDED)
                assert plan.noise <= found[0] * (1 + 1e-9)


def test_rounding_alone_may_put_an_error_out_of_reach() -> None:
    shape: dict[str, Any] = {"beta": "0.05", "epsilon": 1, "log_growth": line, "inner_error": selection_error(14)}
    assert certify_reduction(alpha="0.25", levels=4, **shape).n_users is None
    assert certify_reduction(alpha="0.26", levels=4, **shape).n_users is not None
    assert certify_reduction(alpha="0.25", levels=4, **shape)["excess"] > 0.25


def test_averages_of_many_records_deviate_no_more_than_single_ones() -> None:
    """The uniform term is that of one record per user; unequal users, exact population errors, 300 crowds, failure
    0.05."""
    w, failed, rng = 60, 0, np.random.default_rng(3)
    bound = math.sqrt(2 * line(w) / w) + math.sqrt(math.log(20) / (2 * w))
    for _ in range(300):
        sizes = rng.choice([1, 1, 2, 30], w)
        worst = np.zeros(101)
        for m in sizes:
            x = rng.random(m)
            wrong = (x[:, None] * 100 >= np.arange(101)) != (rng.random(m) < 0.5)[:, None]
            worst += wrong.mean(axis=0)
        failed += bool((0.5 - worst / w).max() > bound)
    assert failed <= 40  # 40 or more have probability below 1e-6 at 0.05


def test_certificates_are_kept_by_the_numbers_they_name() -> None:
    shape: dict[str, Any] = {
        "beta": "0.05",
        "epsilon": 1,
        "log_growth": line,
        "inner_epsilons": ("1/4",),
        "inner_error": selection_error(22),
    }
    sure = certify_reduction(alpha="0.2", n_users=100_000, **shape)
    assert sure.n_users == 100_000
    assert sure["excess"] <= 0.2
    assert certify_reduction(alpha="0.2", n_users=1000, **shape).n_users is None
    with pytest.raises(ParameterError, match="alpha"):
        certify_reduction(alpha=2, **shape)
