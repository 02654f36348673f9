"""Runners of ``priors.json``: public weights of cuts, ranges and values, and the laws of hybrid selection with them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers, UserData
from privpac.exact import Ball
from privpac.methods.hybrid import HybridSelection
from privpac.rules.intervals import Intervals
from privpac.rules.points import Points
from privpac.rules.priors import column_weights, laid_out, line_weights
from privpac.rules.stumps import Stumps

from . import agrees

__all__ = ["RUNNERS"]

DIGITS = 25
SCALE_FREE = "scale-free"


def domain_of(column: dict[str, Any]) -> Domain:
    kind = column["kind"]
    if kind == "integers":
        return Integers(int(column["lo"]), int(column["hi"]))
    if kind == "grid":
        return Grid(column["lo"], column["hi"], column["step"])
    if kind == "dates":
        return Dates(column["lo"], column["hi"])
    if kind == "floats":
        return Floats()
    assert kind == "categories"
    return Categories([f"c{i}" for i in range(int(column["size"]))])


def columns_of(case: dict[str, Any]) -> dict[str, Domain]:
    return {f"x{i}": domain_of(column) for i, column in enumerate(case["columns"])}


def run_cuts(case: dict[str, Any]) -> None:
    domains = list(columns_of(case).values())
    found = line_weights(domains, SCALE_FREE)
    lines = found[0] if found is not None else [[(0, 1)]]
    runs = [[list(run) for run in laid_out(line, domain.size + 1)] for line, domain in zip(lines, domains, strict=True)]
    assert runs == [[[int(value) for value in run] for run in line] for line in case["runs"]]
    total = int(case["total"])
    weights = column_weights(domains, 1, SCALE_FREE)
    assert (sum(domain.size + 1 for domain in domains) if weights is None else weights.total) == total
    if weights is not None:
        both = column_weights(domains, 2, SCALE_FREE)
        assert both is not None
        assert both.total == 2 * total
    if "multiplicities" in case:
        one = [1 if weights is None else weights.weight(cut) for cut in range(domains[0].size + 1)]
        assert one == [int(value) for value in case["multiplicities"]]
    if weights is not None:
        # Every weight is the uniform part and a multiple of the column's scale, a power of two unless it has no zero.
        for line, scale in zip(lines, case["scales"], strict=True):
            for _, weight in line:
                times, rest = divmod(weight - int(case["uniform"]), int(scale))
                assert rest == 0
                assert times.bit_count() == 1


def run_intervals(case: dict[str, Any]) -> None:
    concept = Intervals(domain_of(case["column"]), "x", prior=SCALE_FREE)
    weights = concept.rule_weights
    assert weights is not None
    assert (weights.weight(0), weights.total, weights.size) == (int(case["empty"]), int(case["total"]), concept.size)
    for low, high, weight in case["ranges"]:
        assert weights.weight(concept.id_of(low, high)) == int(weight)


def run_points(case: dict[str, Any]) -> None:
    concept = Points(domain_of(case["column"]), "x", zero=True, prior=SCALE_FREE)
    expected = [*(int(value) for value in case["multiplicities"]), int(case["never"])]
    weights = concept.rule_weights
    assert ([1] * concept.size if weights is None else [weights.weight(i) for i in range(concept.size)]) == expected


def learner_of(case: dict[str, Any]) -> tuple[HybridSelection, UserData]:
    columns = columns_of(case)
    users = [[(*values, label) for values, label in user] for user in case["users"]]
    data = UserData.from_users(users, features=columns)
    concept = Stumps(columns, case["direction"], prior=SCALE_FREE)
    return HybridSelection(concept, case["epsilon"], neighbours=case["neighbours"], levels=case["levels"]), data


def sum_of(balls: list[Ball]) -> Ball:
    return Ball(sum((ball.lo for ball in balls), Fraction(0)), sum((ball.hi for ball in balls), Fraction(0)))


def times(ball: Ball, count: int) -> Ball:
    return Ball(ball.lo * count, ball.hi * count)


def run_law(case: dict[str, Any]) -> None:
    learner, data = learner_of(case)
    bound = learner.bind(data)
    size, scores, weights = bound.concept.size, learner.scores(bound), bound.concept.rule_weights
    assert [scores.score(pair) for pair in range(2 * size)] == [*case["clip_scores"], *case["mean_scores"]]
    multiplicities = [int(value) for value in case["multiplicities"]]
    assert [1 if weights is None else weights.weight(rule) for rule in range(size)] == multiplicities
    law, rules = learner.law(data), learner.rule_law(data)
    for rule, printed in enumerate(case["law"]):
        assert agrees(rules.prob(rule), printed, DIGITS)
        assert agrees(sum_of([law.prob(rule), law.prob(size + rule)]), printed, DIGITS)
    assert agrees(sum_of([law.prob(rule) for rule in range(size)]), case["clip_share"], DIGITS)


def run_blocks(case: dict[str, Any]) -> None:
    learner, data = learner_of(case)
    bound = learner.bind(data)
    size, scores, weights = bound.concept.size, learner.scores(bound), bound.concept.rule_weights
    law, rules = learner.law(data), learner.rule_law(data)
    clips, after = [], 0
    for (first, last, weight, clip, mean), printed in zip(case["blocks"], case["block_law"], strict=True):
        a, b = int(first), int(last)
        assert a == after
        after = b + 1
        for cut in {a, (a + b) // 2, b}:
            assert (scores.score(cut), scores.score(size + cut)) == (clip, mean)
            assert (1 if weights is None else weights.weight(cut)) == int(weight)
        assert agrees(times(rules.prob(a), b - a + 1), printed, DIGITS)
        assert agrees(times(sum_of([law.prob(b), law.prob(size + b)]), b - a + 1), printed, DIGITS)
        clips.append(times(law.prob(a), b - a + 1))
    assert after == size
    assert agrees(sum_of(clips), case["clip_share"], DIGITS)


RUNNERS: dict[str, Callable[..., None]] = {
    "prior_cuts": run_cuts,
    "prior_intervals": run_intervals,
    "prior_points": run_points,
    "prior_law": run_law,
    "prior_law_blocks": run_blocks,
}
