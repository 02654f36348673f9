"""Vectors of ``evaluation.json``: intervals for new people from the same population (spec 19)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privpac.evaluation.population import NoisyTable, population_range

__all__ = ["RUNNERS"]


def table_of(case: dict[str, Any]) -> NoisyTable:
    levels, cells = case["levels"], case.get("cells", "table")
    known, weight = case.get("people") is not None, Fraction(case["product_weight"] or 0)
    shares = Fraction(1, 4) if cells == "error" else Fraction(3, 8)  # the largest sum of products of shares
    reach = levels * (1 + shares * weight) * (2 if case["relation"] == "replace" and not known else 1)
    noise = Fraction(case.get("noise", Fraction(case["epsilon"]) / reach))
    return NoisyTable(
        tuple(case["sums"]),
        levels,
        noise,
        None if case["products"] is None else tuple(case["products"]),
        weight or Fraction(1, 2),
        case.get("people"),
        tuple(case.get("finer_cells", ())),
        whole=case.get("weight") != "record" and levels != 8,
    )


def population_intervals(case: dict[str, Any]) -> None:
    table, doubt = table_of(case), 1 - Fraction(case["confidence"])
    records = case.get("records_per_user", 1)
    for rate, (low, high) in case["intervals"].items():
        if rate == "balanced_accuracy":
            halves = [population_range(table, one, doubt / 2, records) for one in ("sensitivity", "specificity")]
            found = (halves[0] + halves[1]).scaled(0.5)
            assert (f"{found.lo:.5f}", f"{found.hi:.5f}") == (low, high), rate
            continue
        name = "wrong" if case.get("cells") == "error" else rate
        found = population_range(table, name, doubt, records)
        assert (f"{found.lo:.4f}", f"{found.hi:.4f}") == (low, high), rate


RUNNERS = {"population_intervals": population_intervals}
