"""Runners of ``small_trees.json``: the integers of a points card."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from privpac.composition import zcdp_epsilon, zcdp_within
from privpac.guarantee import Neighbours
from privpac.methods.scorecard import (
    DescentState,
    Packed,
    ScorecardBudget,
    centre_clip,
    centre_sum,
    clip,
    clip_size,
    gradient_sum,
    gradients,
    means,
    norm_cap,
    norm_sum,
    norm_terms,
    scorecard_points,
    shrunk_centre,
    training_time,
    updated,
)
from privpac.rules.scorecards import CodeShape, CodeTable, code_rows, code_table

__all__ = ["RUNNERS"]


def shape(column: dict[str, Any]) -> CodeShape:
    return CodeShape(column["kind"] == "number", column["bins"], column["missing"])


def table_of(case: dict[str, Any]) -> CodeTable:
    return code_table([shape(column) for column in case["columns"]])


def packed(case: dict[str, Any]) -> Packed:
    records = [record for user in case["users"] for record in user]
    codes = np.array([codes for codes, _ in records], np.uint8).reshape(len(records), len(case["columns"]))
    offsets = np.cumsum([0, *(len(user) for user in case["users"])])
    return Packed(codes, np.array([label for _, label in records], np.uint8), offsets)


def run_code(case: dict[str, Any]) -> None:
    column = shape(case["column"])
    assert [list(row) for row in code_rows(column)] == case["codes"]
    table = code_table([column])
    unit = [[0] + [int(i == k) for i in range(column.width)] for k in range(column.width)]
    assert [list(row) for row in zip(*(table.scores(weights) for weights in unit))] == case["codes"]


def run_centre(case: dict[str, Any]) -> None:
    table, users = table_of(case), packed(case)
    assert centre_clip(len(case["columns"])) == case["clip"]
    found = means(table, users)
    # The file lists the means as users send them: shortened.
    assert [clip(mean, case["clip"]) for mean in found] == case["means"]
    total = centre_sum(table, users, case["clip"]).tolist()
    assert total == [sum(column) for column in zip(*case["means"])]
    assert shrunk_centre(case["noisy_sum"], case["public_n_users"], Fraction(case["sigma2"])) == case["centre"]


def run_norm(case: dict[str, Any]) -> None:
    table, users = table_of(case), packed(case)
    assert norm_cap(len(case["columns"])) == case["cap"]
    assert norm_terms(table, users, case["centre"], case["cap"]) == case["terms"]
    assert norm_sum(table, users, case["centre"], case["cap"]) == case["sum"]


def run_clip(case: dict[str, Any]) -> None:
    assert norm_cap(case["columns"]) == case["cap"]
    found = clip_size(case["noisy_norm"], case["public_n_users"], Fraction(case["rho"]), case["columns"])
    assert found == case["clip"]


def run_step(case: dict[str, Any]) -> None:
    table, users = table_of(case), packed(case)
    state = DescentState(tuple(case["weights"]), tuple(case["centre"]))
    found = gradients(table, users, state)
    assert found == case["gradients"]
    assert [clip(vector, case["clip"]) for vector in found] == case["clipped"]
    assert gradient_sum(table, users, state, case["clip"]).tolist() == case["sum"]


def run_update(case: dict[str, Any]) -> None:
    users = case["public_n_users"]
    time = training_time(users, Fraction(case["rho"]))
    assert time == case["training_time"]
    assert updated(case["weights"], case["noisy_sum"], time, case["steps"], users) == case["updated"]


def run_points(case: dict[str, Any]) -> None:
    found = scorecard_points(table_of(case), case["weights"], case["centre"], case["top"])
    assert [list(points) for points in found.points] == case["points"]
    assert found.threshold == case["threshold"]


def run_budget(case: dict[str, Any]) -> None:
    epsilon, delta = Fraction(case["epsilon"]), Fraction(case["delta"])
    neighbours = Neighbours(case["neighbours"])
    rho = zcdp_within(epsilon, delta)
    bought = not case["declared_users"] and neighbours is Neighbours.ADD_REMOVE
    budget = ScorecardBudget(rho, case["columns"], case["steps"], neighbours, bought)
    found = {
        "rho": rho,
        "rho_count": budget.count,
        "rho_rest": budget.rest,
        "rho_centre": budget.centre,
        "rho_norm": budget.norm,
        "rho_step": budget.step,
        "sigma2_count": budget.count_variance,
        "sigma2_centre": budget.centre_variance,
        "sigma2_norm": budget.norm_variance,
        "sigma2_step": budget.step_variance(case["clip"]),
    }
    wanted = {name: None if case[name] is None else Fraction(case[name]) for name in found}
    assert found == wanted
    assert (centre_clip(case["columns"]), norm_cap(case["columns"])) == (case["centre_clip"], case["norm_cap"])
    spent, printed = zcdp_epsilon(sum(budget.parts, Fraction(0)), delta, "optimal"), Fraction(case["epsilon_spent"])
    assert spent <= epsilon
    assert abs(spent - printed) <= printed / 10**9


RUNNERS: dict[str, Callable[..., None]] = {
    "card_code": run_code,
    "card_centre": run_centre,
    "card_norm": run_norm,
    "card_clip": run_clip,
    "card_step": run_step,
    "card_update": run_update,
    "card_points": run_points,
    "card_budget": run_budget,
}
