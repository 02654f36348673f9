"""Runners of ``scores.json``: log odds, bands, region tables, chances and ROC curves."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from privpac.methods.scorecard import scores_of
from privpac.methods.scorecard_odds import answer_weights, averaging, log_odds, noise_variance, room, shrink
from privpac.rules.scorecards import band_edges, chance_of, points_mass, raw_edges
from vector_runners.small_trees_card import table_of

__all__ = ["RUNNERS"]


def run_walk(case: dict[str, Any]) -> None:
    assert averaging(case["steps"]) == Fraction(case["walk"])


def run_card_scores(case: dict[str, Any]) -> None:
    from privpac.methods.scorecard import rounded

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


RUNNERS: dict[str, Callable[..., None]] = {"walk": run_walk, "card_scores": run_card_scores}
