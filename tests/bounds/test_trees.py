"""Certificates and plans of the tree learner: formulas literally, comparisons, limits, and bad input."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from privpac.errors import InfeasibleError, ParameterError
from privpac.methods.hierarchy.tree_sample_size import (
    TreeBudget,
    certified_alpha,
    generic_tree,
    lower_tree,
    plan_tree,
    spread_failure,
    text_tree,
    tree_failure,
)
from privpac.methods.realizable import certify_realizable
from privpac.papers.vc_dimension_one.interior_sample_size import choosing_votes

OPEN: dict[str, Any] = {"height": 8, "width": None, "epsilon": 1, "delta": "1e-6", "alpha": "0.1", "beta": "0.05"}


def literal(d: int, t: int, hi: int, K: int, m: int, alpha: float, r1: float, fail: Any) -> tuple[float, float]:
    """Both forms term by term, as written in the module."""
    p, opt = (1 - alpha) ** m, (K + 1 - hi) // 2
    simple = binom.cdf(K, t, 1 - p) + d * r1 ** -(opt + 1) + fail(hi)
    shallow = 0.0
    for G in range(t + 1):
        term = 1.0 if hi > G else min(1.0, d * r1 ** (K - G - min(opt, G - hi)))
        shallow += binom.pmf(G, t, 1 - p) * term
    deep = max(min(1.0, d * r1 ** (v - hi - opt)) * fail(v) for v in range(hi))
    tight = 1.0 if t < opt + hi else shallow + deep + fail(hi)
    return min(1.0, float(simple)), min(1.0, float(tight))


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(0, 120),
    st.integers(1, 25),
    st.integers(0, 30),
    st.integers(1, 12),
    st.sampled_from([0.05, 0.1, 0.4]),
    st.sampled_from(["path", "choosing", "level"]),
)
def test_certificates_are_the_formulas(d: int, t: int, hi: int, more: int, m: int, alpha: float, kind: str) -> None:
    e1, e2, delta, K = 1.3, 0.9, 1e-3, hi - 1 + more
    r1, r2 = math.exp(e1 / 2), math.exp(e2 / 2)
    d0 = delta / (1 - delta)
    fails = {
        "path": lambda v: 0.0 if v >= 1 else 1.0,
        "choosing": lambda v: 1 / (1 + d0 * (r2**v - 1) / (r2 - 1)),
        "level": lambda v: 6 / (6 + r2**v),
    }
    width = {"path": 1, "choosing": None, "level": 7}[kind]
    budget = TreeBudget(d, width, e1, e2, delta if kind == "choosing" else 0)
    ours = tree_failure(budget, parts=t, hi=hi, K=K, records_per_part=m, alpha=alpha)
    expected = literal(d, t, hi, K, m, alpha, r1, fails[kind])
    assert ours == pytest.approx(expected, rel=1e-6)
    assert max(ours) <= 1


def test_votes_are_those_of_the_choosing_law() -> None:
    for epsilon, delta, beta in [(0.5, 1e-6, 0.01), (1.0, 1e-4, 0.05), (0.1, 1e-5, 0.1)]:
        hi, failure = choosing_votes(epsilon, delta, beta)
        budget = TreeBudget(4, None, 1, epsilon, delta)
        assert budget.votes(beta) == hi
        assert budget.missed(hi) == pytest.approx(failure, rel=1e-6)


@pytest.mark.parametrize(
    "budget",
    [TreeBudget(9, None, 1, "0.7", "1e-5"), TreeBudget(9, 30, 1, "0.7"), TreeBudget(9, None, 1, 1, "1e-5", True)],
)
def test_the_least_number_of_votes_is_least(budget: TreeBudget) -> None:
    for beta in (0.2, 0.01, 1e-9):
        hi = budget.votes(beta)
        assert budget.missed(hi) <= beta < budget.missed(hi - 1)
        opt = budget.steps(beta)
        assert budget.missed_rank(opt) <= beta < budget.missed_rank(opt - 1)
        for votes in (1, hi, 2 * hi):
            deep = budget.deep_steps(votes, beta)
            assert budget.missed_deep(votes, deep) <= beta
            assert deep == 0 or budget.missed_deep(votes, deep - 1) > beta


def test_huge_heights_and_tiny_budgets_stay_finite() -> None:
    simple, tight = tree_failure(
        TreeBudget(2**1000, None, "0.01", "0.01", "1e-12"),
        parts=10**6,
        hi=8000,
        K=10**5,
        records_per_part=50,
        alpha="0.2",
    )
    assert 0 <= min(simple, tight) <= max(simple, tight) <= 1
    assert tree_failure(TreeBudget(2**1000, 1, 1), parts=10**7, hi=1, K=4000, records_per_part=5, alpha="0.2")[1] < 1e-9
    assert tree_failure(TreeBudget(5, 1, 1), parts=0, hi=1, K=4, records_per_part=5, alpha="0.2") == (1.0, 1.0)
    assert tree_failure(TreeBudget(0, 1, 1), parts=0, hi=1, K=0, records_per_part=0, alpha="0.2") == (0.0, 0.0)


# Plans


@pytest.mark.parametrize(
    ("height", "width", "records", "simple", "tight"),
    [
        (1, None, 1, 1151, 838),
        (8, None, 10, 196, 152),
        (32, None, 100, 125, 107),
        (128, None, 1, 1623, 1295),
        (2**16, 1, 1, 737, 682),
    ],
)
def test_plans_need_no_more_users_than_the_reference(
    height: int, width: int | None, records: int, simple: int, tight: int
) -> None:
    common: dict[str, Any] = {
        "epsilon": 1,
        "alpha": "0.1",
        "beta": "0.05",
        "neighbours": "replace",
        "delta": 0 if width else "1e-6",
    }
    for form, most in (("simple", simple), ("best", tight)):
        plan = plan_tree(height=height, width=width, records_per_user=records, form=form, **common)
        assert plan.n_users is not None
        assert plan.n_users <= most
        budget = TreeBudget(height, width, plan["epsilon1"], plan["epsilon2"], common["delta"])
        held = tree_failure(
            budget, parts=plan["parts"], hi=plan["hi"], K=plan["K"], records_per_part=records, alpha="0.1"
        )
        assert (held[0] if form == "simple" else min(held)) == pytest.approx(plan["failure"])
        assert plan["failure"] <= 0.05
        assert plan["epsilon1"] + plan["epsilon2"] == 1
        assert plan["parts"] * plan["users_per_part"] == plan.n_users


def test_users_fall_with_records_and_towards_the_ranks() -> None:
    needed = [plan_tree(**OPEN, records_per_user=m, form="simple") for m in (1, 10, 1000)]
    users = [p.n_users or 0 for p in needed]
    assert users == sorted(users, reverse=True)
    assert needed[-1].n_users == needed[-1]["K"] + 1


def test_add_remove_needs_fewer_users_than_replace_and_the_text_many_more() -> None:
    one_way = plan_tree(**OPEN, form="simple", records_per_user=10)
    both_ways = plan_tree(**OPEN, form="simple", records_per_user=10, neighbours="replace")
    text = plan_tree(**OPEN, source="text")
    assert (one_way.n_users or 0) < (both_ways.n_users or 0) < (text.n_users or 0)
    assert (text["parts"], text.n_users) == (7170, 293303190)


def test_own_laws_count_one_record_each() -> None:
    mixed = plan_tree(**OPEN, form="simple", records_per_user=10, same_law=False)
    assert mixed.n_users == plan_tree(**OPEN, form="simple", records_per_user=1).n_users


def test_finite_levels_need_no_delta() -> None:
    plan = plan_tree(height=3, width=20, epsilon=1, alpha="0.2", beta="0.1", records_per_user=10, form="simple")
    assert plan.n_users is not None
    assert plan["epsilon2"] > 0


def test_one_rule_needs_nobody() -> None:
    assert plan_tree(height=0, width=1, epsilon=1, alpha="0.1", beta="0.1").n_users == 0


def test_certified_alpha_is_least() -> None:
    plan = plan_tree(**OPEN, records_per_user=10, form="best")
    budget = TreeBudget(8, None, plan["epsilon1"], plan["epsilon2"], "1e-6", add_remove=True)
    ranks: dict[str, Any] = {"parts": plan["parts"], "hi": plan["hi"], "K": plan["K"], "records_per_part": 10}
    found = certified_alpha(budget, **ranks, beta="0.05")
    assert found is not None
    assert found <= 0.1
    assert (
        min(tree_failure(budget, alpha=found, **ranks))
        <= 0.05
        < min(tree_failure(budget, alpha=found * 0.999, **ranks))
    )
    assert certified_alpha(budget, **(ranks | {"parts": plan["K"]}), beta="0.05") is None


# Independent assignment


def test_assignment_certificate_bounds_the_true_number_of_bad_parts() -> None:
    """Exact tail of the occupied parts by a Markov chain over users, against the Chernoff bound."""
    n, t, K, alpha = 150, 12, 8, 0.3
    # Each user is good with probability alpha; a part is good once a good user falls into it.
    good = np.zeros(t + 1)
    good[0] = 1
    for _ in range(n):
        move = alpha * (t - np.arange(t + 1)) / t
        good = good * (1 - move) + np.concatenate([[0.0], (good * move)[:-1]])
    truth = float(good[: K + 1].sum())
    budget = TreeBudget(2**60, 1, 60)
    certified = spread_failure(budget, n_users=n, parts=t, hi=1, K=K, records_per_user=1, alpha=str(alpha))
    assert truth <= certified < 0.2
    assert spread_failure(budget, n_users=0, parts=t, hi=1, K=K, records_per_user=1, alpha="0.3") == 1.0
    assert spread_failure(budget, n_users=10**6, parts=4, hi=1, K=3, records_per_user=10**6, alpha="0.3") < 1e-6


# Comparisons and lower bounds


def test_generic_learner_is_realizable_selection_on_single_records() -> None:
    size = 129 * math.log(2)
    ours = generic_tree(log_size=size, epsilon=1, alpha="0.1", beta="0.05").n_users
    theirs = certify_realizable(
        log_size=size, epsilon=1, alpha="0.1", beta="0.05", records_per_user=1, neighbours="replace"
    ).n_users
    assert ours == theirs == 2303


def test_lower_bound_is_the_condition_and_below_every_plan() -> None:
    for m, delta in ((1, 0.0), (10, 1e-6), (3, 1e-2)):
        bound = lower_tree(epsilon=1, delta=delta, alpha="0.1", beta="0.05", records_per_user=m).n_users
        assert bound is not None
        good = 1 - 0.9**m

        def impossible(n: int, good: float = good, delta: float = delta) -> bool:
            ks = range(12)
            return any(
                binom.sf(k, n, good) + math.exp(k) * 0.05 + delta * (math.exp(k) - 1) / (math.e - 1) < 0.95 for k in ks
            )

        assert impossible(bound - 1)
        assert not impossible(bound)
        assert bound < (plan_tree(**OPEN, records_per_user=m, form="simple", neighbours="replace").n_users or 0)
    add_remove = lower_tree(epsilon="0.5", alpha="0.1", beta="0.05", neighbours="add-remove")
    assert add_remove.n_users == lower_tree(epsilon=1, alpha="0.1", beta="0.05").n_users
    assert lower_tree(epsilon=1, alpha="0.1", beta="0.5").n_users == 0


def test_text_grows_with_the_height_only_beyond_its_choosing_term() -> None:
    small, huge = (text_tree(height=h, epsilon=1, delta="1e-6", alpha="0.1", beta="0.05").n_users for h in (1, 2**1000))
    assert small is not None
    assert huge is not None
    assert small <= huge


# Bad input


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"delta": 1},
        {"delta": -1},
        {"delta": 0},
        {"alpha": 0},
        {"alpha": 1},
        {"beta": 0},
        {"beta": "1e-300"},
        {"height": -1},
        {"width": 0},
        {"records_per_user": 0},
        {"form": "loose"},
        {"source": "memory"},
        {"neighbours": "both"},
        {"epsilon": float("nan")},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        plan_tree(**(OPEN | change))


def test_delta_too_large_for_epsilon_is_said() -> None:
    with pytest.raises(InfeasibleError, match="delta too large for epsilon"):
        plan_tree(**(OPEN | {"epsilon": "0.01", "delta": "0.5"}))
    with pytest.raises(ParameterError, match="open vocabulary needs delta > 0"):
        TreeBudget(5, None, 1, 1, 0)


@pytest.mark.parametrize(("hi", "K"), [(0, 3), (5, 3), (1.5, 3), (1, "3")])
def test_ranks_are_checked(hi: Any, K: Any) -> None:
    with pytest.raises((ParameterError, TypeError)):
        tree_failure(TreeBudget(5, 1, Fraction(1)), parts=5, hi=hi, K=K, records_per_part=1, alpha="0.1")
