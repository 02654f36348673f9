"""Runners of ``log_star_median.json``: steps, windows, complete laws and sizes of interior points by hidden walks.

The file counts an abstention as output 0; laws of ours keep ``BOTTOM`` apart, so it is added here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privpac.law import BOTTOM
from privpac.mechanisms.interior_point import (
    Level,
    WalkReduction,
    active_steps,
    delta1,
    kept_law,
    plan_interior_point,
    step,
    walk,
)
from privpac.papers.vc_dimension_one.interior_sample_size import walk_failure

__all__ = ["RUNNERS"]


def run_step(case: dict[str, Any]) -> None:
    r, kappa = Fraction(case["r"]), case["kappa"]
    assert delta1(r, kappa) == Fraction(case["delta1"])
    for d, printed in case["values"]:
        assert step(d, r, kappa) == Fraction(printed)


def run_active_steps(case: dict[str, Any]) -> None:
    for n, T, kappa, steps in case["values"]:
        assert active_steps(n, T, kappa) == steps


def run_kept(case: dict[str, Any]) -> None:
    law = kept_law(case["values"], case["bits"], Level(**case["level"]))
    assert law == {tuple(kept): Fraction(p) for kept, p in case["law"]}


def run_kept_long(case: dict[str, Any]) -> None:
    """Long values whose every step is certain."""
    values, level = [int(text, 16) for text in case["values"]], Level(**case["level"])

    def certain(d: int) -> bool:
        assert abs(d) >= level.kappa
        return d > 0

    assert walk(values, case["bits"], level.T, certain)[: len(values) - level.T] == case["kept"]


def run_law(case: dict[str, Any]) -> None:
    point = WalkReduction([Level(**level) for level in case["levels"]], case["rz"], case["top"], len(case["values"]))
    assert point.multiplicative == Fraction(case["multiplicative"])
    assert point.delta == Fraction(case["delta"])
    law = point.law(case["values"])
    expected = {int(value): Fraction(p) for value, p in case["law"].items()}
    for value in range(case["top"] + 1):
        extra = law.prob_exact(BOTTOM) if value == 0 else 0
        assert law.prob_exact(value) + extra == expected.get(value, 0)


def run_size(case: dict[str, Any]) -> None:
    """Met or beaten (1 % for rounded bases) by a plan whose certificate is valid and whose privacy is exact."""
    bits = 1 << int(case["bits"][2:]) if case["bits"].startswith("2^") else int(case["bits"])
    k = case["reductions"]
    plan = plan_interior_point(case["epsilon"], case["delta"], case["beta"], bits=bits, levels=k)
    assert len(plan.levels) == k
    assert plan.size <= case["at_most"] * 1.01
    assert walk_failure(plan.levels, plan.rz, plan.size, bits=bits) <= float(case["beta"])


RUNNERS = {
    "step": run_step,
    "active_steps": run_active_steps,
    "kept": run_kept,
    "kept_long": run_kept_long,
    "law": run_law,
    "size": run_size,
}
