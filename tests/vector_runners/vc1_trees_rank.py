"""Runners of the sections of ``vc1_trees.json`` about order statistics, the choosing law and interior points."""

from __future__ import annotations

from fractions import Fraction
from math import isclose
from typing import Any

from privpac.exact import dyadic_base
from privpac.law import BOTTOM
from privpac.mechanisms.choosing import choosing_law
from privpac.mechanisms.interior_point import PairLevel, PrefixInteriorPoint, plan_interior_point
from privpac.mechanisms.rank import rank_law, rank_window
from privpac.papers.vc_dimension_one.interior_sample_size import (
    choosing_votes,
    interior_point_exponential,
    pairs_failure,
)

__all__ = ["RUNNERS"]


def run_dyadic_base(case: dict[str, Any]) -> None:
    assert case["bits"] == 32
    assert dyadic_base(case["exponent"]) == Fraction(case["base"])


def run_rank_law(case: dict[str, Any]) -> None:
    law = rank_law(case["y"], case["hi"], case["K"], case["d"], case["r"])
    assert [law.prob_exact(z) for z in range(case["d"] + 1)] == [Fraction(p) for p in case["law"]]
    assert [next(-s for block, s in law.blocks if z in block) for z in range(case["d"] + 1)] == case["score"]  # type: ignore[operator]
    assert rank_window(case["y"], case["hi"], case["K"], case["d"]) == case["window"]


def run_rank_law_blocks(case: dict[str, Any]) -> None:
    law = rank_law(case["y"], case["hi"], case["K"], case["d"], case["r"])
    ours = [
        (block.start, block.stop - 1, -score, law.block_number(i).exact) for i, (block, score) in enumerate(law.blocks)
    ]  # type: ignore[union-attr]
    assert ours == [(b["first"], b["last"], b["score"], Fraction(b["mass"])) for b in case["blocks"]]


def run_choosing_law(case: dict[str, Any]) -> None:
    law = choosing_law(case["votes"], case["r"], case["delta"], case["k"])
    for candidate in [*case["votes"], "abstain"]:
        expected = Fraction(case["law"].get(candidate, "0"))
        assert law.prob_exact(BOTTOM if candidate == "abstain" else candidate) == expected


def run_prefix_interior_point(case: dict[str, Any]) -> None:
    n = len(case["ordered"])
    level = PairLevel(case["A"], case["B"], case["rL"], case["delta"], case["rc"])
    law = PrefixInteriorPoint([level], case["rz"], 2 ** case["b"] - 1, n).law(case["ordered"], given=[range(n)])
    for value in range(2 ** case["b"]):
        extra = law.prob_exact(BOTTOM) if value == 0 else 0
        assert law.prob_exact(value) + extra == Fraction(case["law"].get(str(value), "0"))


def run_choose_threshold(case: dict[str, Any]) -> None:
    hi, failure = choosing_votes(case["eps2"], case["delta"], case["beta"])
    assert hi == case["hi"]
    assert isclose(failure, case["fail"], rel_tol=1e-9)


def run_interior_point_sizes(case: dict[str, Any]) -> None:
    bits, budget = case["bits"], (case["eps"], case["delta"], case["beta"])
    assert interior_point_exponential(case["eps"], case["beta"], bits=bits).n_users == case["exponential"]
    assert plan_interior_point(*budget, bits=bits, levels=0).size == case["exponential"]
    plan = plan_interior_point(*budget, bits=bits, levels=1, engine="pairs")
    assert plan.size <= case["prefix_at_most"]
    assert pairs_failure(plan.levels, plan.rz, plan.size, bits=bits) <= case["beta"]


RUNNERS = {
    "dyadic_base": run_dyadic_base,
    "rank_law": run_rank_law,
    "rank_law_blocks": run_rank_law_blocks,
    "choosing_law": run_choosing_law,
    "prefix_interior_point": run_prefix_interior_point,
    "choose_threshold": run_choose_threshold,
    "interior_point_sizes": run_interior_point_sizes,
}
