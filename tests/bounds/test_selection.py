"""Realizable and pairwise certificates: closed forms, scans, monotonicity, and lower bounds below upper bounds."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import pytest

from privpac.bounds import (
    Certificate,
    certify_realizable,
    lower_agnostic_vc,
    lower_discrete,
    lower_gauss_mean,
    lower_littlestone,
    pairwise_closed_form,
    plan_pairwise,
    plan_realizable,
    realizable_closed_form,
)
from privpac.errors import InfeasibleError, ParameterError, TooLargeError

BASE: dict[str, Any] = {
    "log_size": math.log(1000),
    "epsilon": 1,
    "beta": 0.05,
    "records_per_user": 16,
    "neighbours": "replace",
}


def realizable(**changes: Any) -> Certificate:
    return plan_realizable(**(BASE | {"alpha": 0.1} | changes))


def pairwise(**changes: Any) -> Certificate:
    return plan_pairwise(**(BASE | {"alpha1": 0.1} | changes))


def test_the_plan_is_the_best_single_certificate() -> None:
    for m, neighbours in itertools.product((1, 7, 30), ("replace", "add-remove")):
        plan = realizable(records_per_user=m, alpha0=0.001, neighbours=neighbours)
        single = [
            certify_realizable(
                **(BASE | {"alpha": 0.1, "alpha0": 0.001, "neighbours": neighbours, "records_per_user": size}),
                tolerance=t,
            )
            for size in range(1, m + 1)
            for t in range(4)
        ]
        assert plan.n_users == min(c.n_users for c in single if c.n_users is not None)
        compare = pairwise(records_per_user=m, neighbours=neighbours)
        clips = [
            plan_pairwise(**(BASE | {"alpha1": 0.1, "neighbours": neighbours, "records_per_user": m}), tau=t)
            for t in range(1, m + 1)
        ]
        assert compare.n_users == min(c.n_users for c in clips if c.n_users is not None)


def test_realizable_certificate_by_direct_search_of_the_tilt() -> None:
    """The best tilt in closed form is the best on a fine grid."""
    p1, p0, lam = 1 - 0.9**8, 1 - 0.995**8, 1.0
    n = certify_realizable(
        **(BASE | {"alpha": 0.1, "alpha0": 0.005, "neighbours": "add-remove", "records_per_user": 8})
    ).n_users
    rates = [
        -math.log(1 - p1 * (1 - math.exp(-t)) + p0 * (math.exp(t) - 1))
        for t in (lam * k / 4000 for k in range(1, 4001))
    ]
    assert n == math.ceil(math.log(1000 / 0.05) / max(rates))


def test_closed_forms_are_never_below_the_plans() -> None:
    for m, alpha, epsilon, neighbours in itertools.product(
        (1, 5, 40), (0.2, 0.05, 0.01), (0.1, 0.5, 1), ("replace", "add-remove")
    ):
        given = BASE | {"records_per_user": m, "epsilon": epsilon, "neighbours": neighbours}
        closed = realizable_closed_form(**given, alpha=alpha).n_users
        plan = plan_realizable(**given, alpha=alpha, alpha0=Fraction(str(alpha)) / 100).n_users
        assert closed is not None
        assert plan is not None
        assert plan <= closed
        closed = pairwise_closed_form(**given, alpha1=alpha).n_users
        plan = plan_pairwise(**given, alpha1=alpha).n_users
        assert closed is not None
        assert plan is not None
        assert plan <= closed


@pytest.mark.parametrize("plan", [realizable, pairwise])
def test_plans_are_monotone(plan: Any) -> None:
    accuracy = "alpha" if plan is realizable else "alpha1"
    for name, values in (
        (accuracy, (0.4, 0.2, 0.1, 0.02)),
        ("beta", (0.5, 0.05, 0.001)),
        ("epsilon", (4, 1, 0.5, 0.1)),
        ("log_size", (0, 1, 10, 100)),
        ("neighbours", ("add-remove", "replace")),
        ("alpha0", (0, 0.001, 0.01)),
    ):
        counts = [plan(**{name: value}).n_users for value in values]
        assert counts == sorted(counts), name
    fewer = [realizable(records_per_user=m).n_users for m in (1, 2, 4, 16, 64)]
    assert fewer == sorted(fewer, reverse=True)
    assert pairwise(records_per_user=4096).n_users < pairwise(records_per_user=4).n_users / 20


def test_quarter_steps_and_unclipped_users() -> None:
    fine = pairwise(width=1, clip_step="1/4")
    coarse = pairwise(width=1)
    assert fine.n_users is not None
    assert coarse.n_users is not None
    assert fine.n_users <= coarse.n_users
    assert plan_pairwise(**(BASE | {"alpha1": 0.1}), tau=16).certified
    assert not plan_pairwise(**(BASE | {"alpha1": 0.1}), tau=1).certified


def test_lower_bounds_never_exceed_certificates() -> None:
    for m, alpha, epsilon, beta, neighbours in itertools.product(
        (1, 4, 16, 64), (0.02, 0.1, 0.2), (0.1, 1, 3), (0.05, 0.3), ("replace", "add-remove")
    ):
        common: dict[str, Any] = {"epsilon": epsilon, "records_per_user": m, "neighbours": neighbours}
        success = 1 - Fraction(str(beta))
        # Thresholds on 2**16 points: Littlestone dimension 16, VC dimension 1.
        given = common | {"beta": beta, "log_size": math.log(2**16 + 1)}
        upper = plan_realizable(**given, alpha=alpha).n_users
        lower = lower_littlestone(16, alpha=Fraction(str(alpha)), success=success, **common).n_users
        assert upper is not None
        assert lower is not None
        assert lower <= upper
        # A finite class of VC dimension 12 has at least 2**12 rules.
        upper = plan_pairwise(**(given | {"log_size": 12 * math.log(2)}), alpha1=alpha).n_users
        lower = lower_agnostic_vc(12, alpha=alpha, success=success, **common).n_users
        assert upper is not None
        assert lower is not None
        assert lower <= upper
        # Four categories: a cover of radius alpha/10 has C(N + 3, 3) laws with N = ceil(40 / (4 alpha)).
        count = math.ceil(10 / Fraction(str(alpha)))
        cover = given | {
            "log_size": math.log(math.comb(count + 3, 3)),
            "alpha0": alpha / 10,
            "alpha1": 0.8 * alpha,
            "width": 1,
        }
        upper = plan_pairwise(**cover, clip_step="1/4").n_users
        lower = lower_discrete(4, alpha=alpha, success=success, **common).n_users
        assert upper is not None
        assert lower is not None
        assert lower <= upper


def test_gaussian_lower_bound_falls_with_records_and_grows_with_dimension() -> None:
    by_m = [lower_gauss_mean(10, alpha=0.05, epsilon=1, records_per_user=m).n_users for m in (1, 4, 16, 64)]
    assert by_m == sorted(by_m, reverse=True)
    by_d = [lower_gauss_mean(d, alpha=0.05, epsilon=1, records_per_user=4).n_users for d in (1, 5, 10, 40)]
    assert by_d == sorted(by_d)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: realizable(alpha=0), ParameterError),
        (lambda: realizable(alpha=0.1, alpha0=0.1), ParameterError),
        (lambda: realizable(alpha=math.nan), ParameterError),
        (lambda: realizable(beta=1), ParameterError),
        (lambda: realizable(epsilon=-1), ParameterError),
        (lambda: realizable(epsilon=1e200), ParameterError),
        (lambda: realizable(log_size=-1), ParameterError),
        (lambda: realizable(log_size=None), TypeError),
        (lambda: realizable(records_per_user=0), ParameterError),
        (lambda: realizable(records_per_user=2.5), TypeError),
        (lambda: realizable(records_per_user=10**6), TooLargeError),
        (lambda: realizable(max_tolerance=-1), ParameterError),
        (lambda: realizable(neighbours="swap"), ParameterError),
        (lambda: realizable(neighbours=3), TypeError),
        (lambda: realizable_closed_form(**(BASE | {"epsilon": 2}), alpha=0.1), InfeasibleError),
        (lambda: pairwise(alpha1=0), ParameterError),
        (lambda: pairwise(alpha1=0.1, alpha0=0.2), InfeasibleError),
        (lambda: pairwise(width=3), ParameterError),
        (lambda: pairwise(width=0), ParameterError),
        (lambda: pairwise(clip_step=0), ParameterError),
        (lambda: pairwise(clip_step=1000), ParameterError),
        (lambda: pairwise(records_per_user=1 << 30), TooLargeError),
        (lambda: plan_pairwise(**BASE, alpha1=0.1, tau=0), ParameterError),
    ],
)
def test_bad_parameters(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
