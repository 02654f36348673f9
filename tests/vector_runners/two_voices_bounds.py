"""Runners of ``two_voices.json``: certified numbers of users, on the file's own grids (no refinement)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from privpac.methods.hybrid import certify_hybrid_any, certify_hybrid_noise

__all__ = ["RUNNERS"]


def common(case: dict[str, Any]) -> dict[str, Any]:
    theta = Fraction(str(case["epsilon"])) / (1 if case["neighbours"] == "add-remove" else 2)
    numbers = {"alpha": str(case["alpha"]), "beta": str(case["beta"]), "theta": theta}
    return {"records_per_user": case["m"], "size": int(case["size"]), "levels": case["levels"], "rounds": 0, **numbers}


def agree(found: int | None, wanted: int | None) -> None:
    assert (found is None) == (wanted is None)
    assert found is None or wanted is None or abs(found - wanted) <= 1


def run_noise(case: dict[str, Any]) -> None:
    agree(certify_hybrid_noise(noise=str(case["eta"]), **common(case)).n_users, case["users"])


def run_any(case: dict[str, Any]) -> None:
    agree(certify_hybrid_any(thresholds=case["own"] != "finite", **common(case)).n_users, case["users"])


RUNNERS: dict[str, Callable[..., None]] = {"plan_voices_noise": run_noise, "plan_voices_any": run_any}
