"""Runners of ``scores.json``: log odds, bands, region tables, chances and ROC curves."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from privpac.evaluation.evaluator import Evaluator, how_many_bands
from privpac.evaluation.intervals import noise_reach
from privpac.evaluation.ranking import RankedSums, population_range
from privpac.evaluation.results import Evaluation
from privpac.guarantee import Neighbours
from privpac.methods.scorecard import rounded, scores_of
from privpac.methods.scorecard_odds import answer_weights, averaging, log_odds, noise_variance, room, shrink
from privpac.methods.small_tree import SmallTreeLearner
from privpac.parameters import TREE_LEVELS
from privpac.rules.chances import Regions, chances_of_regions
from privpac.rules.kernels.shares import user_tables
from privpac.rules.scorecards import band_edges, chance_of, points_mass, raw_edges
from privpac.rules.small_trees import SmallTrees
from vector_runners.small_trees_card import table_of

__all__ = ["RUNNERS"]


def run_walk(case: dict[str, Any]) -> None:
    assert averaging(case["steps"]) == Fraction(case["walk"])


def run_card_scores(case: dict[str, Any]) -> None:
    table, centre, top, steps = table_of(case), case["centre"], case["top"], case["steps"]
    scores = scores_of(table, [int(w) for w in case["weights"]], centre)
    found = rounded(scores, top, scores.largest)
    assert [list(points) for points in found.points] == case["points"]
    assert (found.threshold, found.largest, found.least) == (case["threshold"], int(case["spread"]), int(case["least"]))
    assert room(table, centre) == Fraction(case["room"])
    variance = noise_variance(
        table,
        centre,
        users=case["users"],
        time=case["training_time"],
        steps=steps,
        step_variance=Fraction(case["step_variance"]),
    )
    assert shrink(variance) == case["shrink"]
    odds = log_odds(case["shrink"], largest=found.largest, least=found.least, steps=steps, top=top)
    assert odds == (Fraction(case["unit"]), Fraction(case["offset"]))
    for points, value, chance, prediction in case["at"]:
        assert odds.of(points) == Fraction(value)
        assert math.isclose(chance_of(float(odds.of(points))), float(chance), rel_tol=1e-12)
        assert (points > found.threshold) == (odds.of(points) > 0) == bool(prediction)
    weights = answer_weights(table, centre)
    assert [list(own) for own in weights] == case["code_weights"]
    most = sum(map(max, found.points))
    edges = raw_edges(points_mass(found.points, weights, most), found.threshold)
    assert list(edges) == case["edges_16"]
    assert {count: list(band_edges(edges, most, int(count))) for count in case["bands"]} == case["bands"]


def run_share(case: dict[str, Any]) -> None:
    cells = np.repeat(np.arange(len(case["counts"]), dtype=np.uint8), case["counts"])
    offsets = np.array([0, len(cells)], np.int64)
    assert user_tables(offsets, cells, len(case["counts"]), case["levels"], True, -1).tolist() == case["shares"]


def run_region_sums(case: dict[str, Any]) -> None:
    records = [record for user in case["users"] for record in user]
    cells = np.array([case["labels"] * g + y for g, y in records], np.uint8)
    offsets = np.cumsum([0, *map(len, case["users"])])
    size, levels = case["labels"] * case["regions"], case["levels"]
    assert user_tables(offsets, cells, size, levels, True, -1).tolist() == case["sums"]
    for neighbours in Neighbours:
        learner = Evaluator("predicted", case["epsilon"], neighbours, levels=levels, moments=False)
        assert learner.noise == Fraction(case[f"rate_{neighbours.value.replace('-', '_')}"])


def run_chances(case: dict[str, Any]) -> None:
    found = chances_of_regions(case["sums"], case["own"], Fraction(case["noise"]), case["labels"])
    assert found == tuple(tuple(map(Fraction, row)) for row in case["chances"])


def run_joint_budget(case: dict[str, Any]) -> None:
    for epsilon, share, tree, added, replaced in case["values"]:
        for neighbours, rate in (("add-remove", added), ("replace", replaced)):
            learner = SmallTreeLearner(SmallTrees(), epsilon=epsilon, calibrate=share, neighbours=neighbours)
            assert learner.leaf_rate == Fraction(rate)
            doubled = 1 if neighbours == "add-remove" else 2
            assert learner.vote_rate == Fraction(tree) / (doubled * TREE_LEVELS)


def run_how_many_bands(case: dict[str, Any]) -> None:
    for n_users, share, theta, bands in case["values"]:
        assert how_many_bands(n_users, Fraction(share), Fraction(theta)) == bands


def _rows(sums: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(sums[::2], sums[1::2]))


def run_auc(case: dict[str, Any]) -> None:
    beta, levels, fixed = 1 - Fraction(case["confidence"]), 720_720, case["order"] == "fixed"
    count = len(case["sums"]) // 2
    own = tuple(case.get("own", (0,) * (count - 1) + (1,)))
    regions = Regions(tuple(map(str, range(count))), own, tuple(range(count)) if fixed else ())
    found = Evaluation(
        case["sums"], "table", "user", levels, Fraction(case["noise"]), "add-remove", 1 - beta, regions=regions
    )
    assert list(found.ranked) == case.get("ranked", list(range(count)))
    curve = found._curve
    assert curve.forms == case["forms"]
    assert [noise_reach(curve.noise, k + 1, beta / curve.forms) for k in range(count - 1)] == case["reach"]
    assert curve.auc == Fraction(case["auc"])
    assert [*curve.sample(beta)] == [Fraction(end) for end in case["these"]]
    assert found.auc.value == float(Fraction(case["shown"]))
    population = found.auc.population
    assert population is not None
    for end, wanted in zip((population.lo, population.hi), case["like"]):
        assert math.isclose(end, wanted, rel_tol=case["rtol"])


def run_auc_like(case: dict[str, Any]) -> None:
    low, high = case["base"]
    found = population_range(case["low"], case["high"], case["people"], (low, high), case["beta"])
    for end, wanted in zip(found, case["like"]):
        assert math.isclose(end, wanted, rel_tol=case["rtol"])


def run_operating_point(case: dict[str, Any]) -> None:
    above, cost = RankedSums(_rows(case["sums"]), Fraction(1)).cheapest(
        Fraction(case["cost_fp"]), Fraction(case["cost_fn"])
    )
    assert (above, cost) == (case["above_band"], Fraction(case["cost"]))


RUNNERS: dict[str, Callable[..., None]] = {
    "walk": run_walk,
    "card_scores": run_card_scores,
    "share": run_share,
    "region_sums": run_region_sums,
    "chances": run_chances,
    "joint_budget": run_joint_budget,
    "how_many_bands": run_how_many_bands,
    "auc": run_auc,
    "auc_like": run_auc_like,
    "operating_point": run_operating_point,
}
