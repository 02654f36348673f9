"""Runners of ``pure_agnostic.json``: thresholds that separate error rates, and the planner with its lower bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import binom

from privpac.bisection import least
from privpac.bounds import (
    boosting_size,
    cross,
    lower_representation,
    lower_sparse,
    lower_statistics,
    lower_testing,
    plan_item_proper,
    plan_item_surrogate,
    plan_threshold_search,
    plan_user_agnostic,
    points_representation,
    psi,
    psi_exact,
    robust_gap,
    robust_t,
)
from privpac.exact import rational
from privpac.sample_size import Certificate

from . import agrees

__all__ = ["RUNNERS"]


def run_cross(case: dict[str, Any]) -> None:
    m, p, q = (case["input"][name] for name in "mpq")
    t = cross(m, p, q)
    assert t == case["expected"]["t"]
    for rate, name in ((p, "psi_p"), (q, "psi_q")):
        assert agrees(psi_exact(m, rate, t), case["expected"][name], digits=25)
        assert math.isclose(psi(m, rate, t), float(case["expected"][name]), rel_tol=1e-12)


def run_robust_t(case: dict[str, Any]) -> None:
    given = [case["input"][name] for name in ("m", "eta_hat", "alpha_e", "alpha")]
    assert robust_t(*given) == case["expected"]["t"]
    assert math.isclose(robust_gap(*given), float(case["expected"]["gap"]), rel_tol=1e-11, abs_tol=1e-12)


def _close(users: int | None, expected: int) -> bool:
    """Planner integers agree within 0.1 % or 1."""
    return users is not None and abs(users - expected) <= max(1, expected / 1000)


def run_planner(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    bits, m = given["domain_bits"], given["m"]
    target = {name: given[name] for name in ("alpha", "beta", "epsilon", "neighbours")}
    cuts = math.log((1 << bits) + 1)
    assert _close(plan_item_proper(log_size=cuts, dimension=1, **target).n_users, expected["item_proper_thresholds"])

    part = rational(given["alpha"]) / 5
    points = points_representation(part, rational(given["beta"]) / 5)
    assert [points.hashes, points.buckets, points.size] == expected["points_rep"]
    for score in ("union", "sum"):
        plan = plan_item_surrogate(
            log_size=math.log(points.size), dimension=1, representation_alpha=part, score=score, **target
        )
        assert _close(plan.n_users, expected[f"item_surrogate_points_{score}"])

    # Where several accuracies of the estimate tie, the printed one must reach the same n.
    plans: tuple[tuple[list[int], Callable[..., Certificate]], ...] = (
        (
            expected["user_generic_thresholds"],
            lambda **k: plan_user_agnostic(log_size=cuts, dimension=1, records_per_user=m, **target, **k),
        ),
        (
            expected["private_threshold"],
            lambda **k: plan_threshold_search(log_domain=bits * math.log(2), records_per_user=m, **target, **k),
        ),
    )
    for planned, plan_with in plans:
        users, j = planned
        free, fixed = plan_with(), plan_with(estimates=(j,))
        assert _close(free.n_users, users)
        assert _close(fixed.n_users, users)

    boosted = boosting_size(given["alpha"], given["beta"])
    assert [boosted.rounds, boosted.copies] == expected["boost"]
    _check_lower(given, expected["lower"])


def _check_lower(given: dict[str, Any], expected: dict[str, int]) -> None:
    """Bounds c and d as printed; a and b as printed *and* as proved.

    The printed a and b leave out that the number of drawn outputs is a whole number, and let Rep be 0: at the end b' ->
    1 of their grid they then demand users even of a class with a single concept.  The library's bounds keep the
    ceiling, so they are never larger, and equal where Rep is large at the maximum.
    """
    common = {"alpha": given["alpha"], "beta": given["beta"]}
    private = {**common, "epsilon": given["epsilon"], "records_per_user": given["m"], "neighbours": given["neighbours"]}
    assert _close(lower_testing(**private).n_users, expected["test"])
    assert _close(lower_statistics(**common, records_per_user=given["m"]).n_users, expected["stat"])

    ldim, alpha, beta, m = given["domain_bits"], given["alpha"], given["beta"], given["m"]
    doubled = given["epsilon"] * (1 if given["neighbours"] == "replace" else 2)
    printed, rep = _printed(ldim, alpha, 1 - beta, 1000)
    assert _close(math.ceil(printed / given["epsilon"]), expected["empty"])
    proved = lower_representation(ldim=ldim, **common, epsilon=given["epsilon"]).n_users
    assert proved is not None
    assert proved <= expected["empty"] + 1
    assert rep < 8 or _close(proved, expected["empty"])

    few, inner = 0, False
    for factor in (Fraction(3, 2), 2, 3, 4, 8):
        if factor * rational(alpha) > 1:
            continue
        need, rep = _printed(ldim, float(1 / factor), 0.75 - beta, 200)
        touched = 1 - (1 - float(factor) * alpha) ** m
        n = (
            least(lambda n, need=need, touched=touched: bool(binom.ppf(0.75, n, touched) >= need / doubled))
            if need > 0
            else 0
        )  # type: ignore[misc]
        assert n is not None
        if n > few:
            few, inner = n, rep >= 8 and factor > 2
    assert _close(few, expected["sparse"])
    sparse = lower_sparse(ldim=ldim, **private).n_users
    assert sparse is not None
    assert sparse <= expected["sparse"] + 1
    assert not inner or _close(sparse, expected["sparse"])


def _printed(ldim: int, alpha: float, success: float, grid: int) -> tuple[float, float]:
    """The largest ``max(0, Rep) - ln(ln(1/b')/success)`` on the grid, and Rep there."""
    b = np.arange(1, grid) / grid
    error = (1 - b) * alpha + b / 2
    entropy = -error * np.log2(error) - (1 - error) * np.log2(1 - error)
    rep = np.maximum(0.0, math.log(2) * ((1 - entropy) * ldim - 1))
    values = rep - np.log(-np.log(b) / success)
    best = int(np.argmax(values))
    return float(values[best]), float(rep[best])


RUNNERS: dict[str, Callable[..., None]] = {"cross": run_cross, "robust_t": run_robust_t, "planner": run_planner}
