"""Runners of ``regret_selection.json``: the clip, the split of the budget and the certificates of clipped-regret
selection."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from privpac.bounds import certify_regret_agnostic, certify_regret_bounded_noise, certify_regret_regular, regret_split
from privpac.rules.profile import ClipRule, root_clip
from privpac.sample_size import Certificate

__all__ = ["RUNNERS"]


def run_tau(case: dict[str, Any]) -> None:
    clip = root_clip(case["c"])
    assert [[m, clip(m)] for m, _ in case["values"]] == case["values"]


def run_tau_default(case: dict[str, Any]) -> None:
    bits = max(1, (int(case["size"]) - 1).bit_length())
    assert bits == case["bits"]
    clip = ClipRule(Fraction(case["theta"]), case["declared_users"] or 0, bits)
    assert [[m, clip(m)] for m, _ in case["values"]] == case["values"]


def run_regret_split(case: dict[str, Any]) -> None:
    split = regret_split(case["epsilon"], case["neighbours"], case["declared_users"])
    assert split.count_epsilon == Fraction(case["count_epsilon"])
    assert split.selection_epsilon == Fraction(case["selection_epsilon"])
    assert split.theta == Fraction(case["theta"])


def _certified(case: dict[str, Any], certify: Callable[..., Certificate], **more: Any) -> None:
    """Users may differ by 1 when a bound is within 1e-9 of an integer; ``null`` means that no number is certified."""
    theta = regret_split(case["epsilon"], case["neighbours"], 0).theta
    common = {"records_per_user": case["m"], "tau": case["tau"], "theta": theta, "levels": case["levels"]}
    users = certify(**common, alpha=case["alpha"], beta=case["beta"], **more).n_users
    if case["users"] is None:
        assert users is None
    else:
        assert users is not None
        assert abs(users - case["users"]) <= 1


def run_plan_bounded_noise(case: dict[str, Any]) -> None:
    _certified(case, certify_regret_bounded_noise, noise=case["eta"], log_size=case["log2_size"] * math.log(2))


def run_plan_agnostic(case: dict[str, Any]) -> None:
    _certified(case, certify_regret_agnostic, log_size=case["log2_size"] * math.log(2))


def run_plan_regular(case: dict[str, Any]) -> None:
    _certified(case, certify_regret_regular, noise=case["eta"], size=case["size"], kappa=case["kappa"])


RUNNERS: dict[str, Callable[..., None]] = {
    "tau": run_tau,
    "tau_default": run_tau_default,
    "regret_split": run_regret_split,
    "plan_regret_bounded_noise": run_plan_bounded_noise,
    "plan_regret_agnostic": run_plan_agnostic,
    "plan_regret_regular": run_plan_regular,
}
