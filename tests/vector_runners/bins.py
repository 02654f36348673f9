"""Runners of ``bins.json``: public edges of the bins of a column, by its declaration alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from privpac.data import Dates, Domain, Grid, Integers
from privpac.rules.scorecards import Scorecards
from privpac.rules.small_trees import SmallTrees
from privpac.rules.wide_columns import WideClass, equal_edges, scale_free_edges, typical_edges

__all__ = ["RUNNERS"]

READ: dict[str, Callable[..., Domain]] = {
    "Integers": lambda lo, hi: Integers(int(lo), int(hi)),
    "Grid": Grid,
    "Dates": Dates,
}


def domain_of(case: dict[str, Any]) -> Domain:
    kind, *ends = case["domain"]
    domain = READ[kind](*ends)
    assert (domain.size, domain.anchor()) == (int(case["size"]), int(case["anchor"]))
    return domain


def edges_of(concept: WideClass) -> list[int]:
    (column,) = concept.binned
    return list(column.edges)


def numbers(case: dict[str, Any]) -> list[int]:
    """JSON numbers, or texts of digits from 2^53 on."""
    return [int(edge) for edge in case["edges"]]


def run_equal(case: dict[str, Any]) -> None:
    domain, bins = domain_of(case), case["bins"]
    assert list(equal_edges(domain.size, bins)) == numbers(case)
    assert edges_of(SmallTrees({"x": domain}, cuts=bins - 1, spacing="equal")) == numbers(case)
    assert edges_of(Scorecards({"x": domain}, cuts=bins - 1)) == numbers(case)


def run_scale_free(case: dict[str, Any]) -> None:
    domain, bins, steps = domain_of(case), case["bins"], case["steps"]
    assert list(scale_free_edges(domain.size, int(case["anchor"]), bins, steps)) == numbers(case)
    assert edges_of(SmallTrees({"x": domain}, cuts=bins - 1, steps=steps)) == numbers(case)


def run_typical(case: dict[str, Any]) -> None:
    domain, bins = domain_of(case), case["bins"]
    low, high = (int(code) for code in case["typical_codes"])
    assert list(typical_edges(domain.size, (low, high), bins)) == numbers(case)
    known = domain.with_typical(domain.value(low), domain.value(high))
    assert edges_of(SmallTrees({"x": known}, cuts=bins - 1)) == numbers(case)
    assert edges_of(Scorecards({"x": known}, cuts=bins - 1)) == numbers(case)


RUNNERS = {"equal": run_equal, "scale-free": run_scale_free, "typical": run_typical}
