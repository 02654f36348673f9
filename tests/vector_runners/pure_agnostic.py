"""Runners of ``pure_agnostic.json``: the learners of the pure agnostic spec.

Points are 1..N in the file and codes 0..N-1 here; probabilities agree to 1e-25.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from privpac.data import Integers, UserData
from privpac.law import Ball, Law
from privpac.papers.pure_agnostic.counting import UserAgnosticLearner
from privpac.papers.pure_agnostic.minimum_error import MinimumError, PrivateCompare
from privpac.papers.pure_agnostic.representations import HashedPointSet
from privpac.papers.pure_agnostic.search import PrivateMedian, ThresholdSearch
from privpac.papers.pure_agnostic.surrogate_selection import SurrogateSelection
from privpac.rules.cuts import Thresholds
from privpac.rules.points import Points
from privpac.rules.profile import Exceeds

from . import agrees

__all__ = ["RUNNERS"]

DIGITS = 25


def data_of(given: dict[str, Any]) -> tuple[UserData, Integers]:
    domain = Integers(0, int(given["domain_size"]) - 1)
    users = [[(int(x) - 1, y) for x, y in user] for user in given["users"]]
    return UserData.from_users(users, features={"x": domain}), domain


def table(given: dict[str, Any]) -> dict[int, int]:
    return {0: 0} | {int(m): t for m, t in given.items()}


def same_blocks(found: Iterable[tuple[int, int, int]], expected: list[list[Any]]) -> None:
    assert list(found) == [(int(first), int(last), score) for first, last, score in expected]


def same_law(law: Law, expected: Iterable[tuple[Any, str]]) -> None:
    listed = list(expected)
    for value, printed in listed:
        assert agrees(law.prob(value), printed, DIGITS), value
    assert sum(
        size for size in ((cell.stop - cell.start) if isinstance(cell, range) else 1 for cell in law.support())
    ) == len(listed)


def same_block_probabilities(law: Law, expected: dict[str, Any]) -> None:
    for (first, last, _), printed in zip(expected["blocks"], expected["block_probabilities"], strict=True):
        ball, count = law.prob(int(first)), int(last) - int(first) + 1
        assert agrees(Ball(ball.lo * count, ball.hi * count), printed, DIGITS)


def common(given: dict[str, Any]) -> dict[str, Any]:
    return {"epsilon": given["epsilon"], "neighbours": given["neighbours"]}


def run_thresholds_em(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    data, _ = data_of(given)
    learner = SurrogateSelection(Thresholds(), **common(given), tolerance=table(given["t"]))
    same_blocks(Thresholds().profile(data, Exceeds(table(given["t"]))).blocks(), expected["blocks"])
    assert learner.rate(learner.epsilon, 1) == Fraction(expected["lambda"])
    same_block_probabilities(learner.law(data), expected)


def run_points_surrogate(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    data, domain = data_of(given)
    rules = HashedPointSet(domain, tuple((a, b) for a, b in given["hashes"]), given["buckets"], given["prime"])
    assert rules.members == tuple((rule["hash"], rule["bucket"]) for rule in expected["hypotheses"])
    everything = {"x": np.arange(domain.size, dtype=np.uint64)}
    for h, rule in enumerate(expected["hypotheses"]):
        said = np.flatnonzero(rules.decode(h).predict_codes(everything)) + 1
        assert said.tolist() == [int(x) for x in rule["positives"]]
    shape = {"hypotheses": rules, "score": given["score"], "tolerance": table(given["t"]), "forgiven": given["s"]}
    learner = SurrogateSelection(Points(), **common(given), **shape)
    scores = rules.profile(learner.bind(data).users, given["score"], table(given["t"]))
    assert [scores.score(h) for h in range(rules.size)] == expected["scores"]
    assert learner.rate(learner.epsilon, rules.step(given["score"])) == Fraction(expected["lambda"])
    law = learner.law(data)
    for h, printed in enumerate(expected["probabilities"]):
        assert agrees(law.prob(h), printed, DIGITS)


def sized(given: dict[str, Any]) -> dict[str, Any]:
    return {**common(given), "sizes": given["sizes"]}


def run_private_compare(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    data, _ = data_of(given)
    learner = PrivateCompare(Thresholds(), **sized(given), value=given["eta"], width=given["w"])
    assert {str(m): learner.entry(m)[0] for m in given["sizes"]} == expected["t"]
    assert {str(m): learner.entry(m)[1] for m in given["sizes"]} == {
        m: Fraction(tau) for m, tau in expected["tau"].items()
    }
    assert learner.sensitivity == Fraction(expected["sensitivity"])
    assert learner.difference(data) == Fraction(expected["D"])
    assert agrees(learner.law(data).prob(0), expected["probability_of_0"], DIGITS)


def run_min_error_bisect(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    data, _ = data_of(given)
    learner = MinimumError(Thresholds(), **sized(given), radius=given["alpha_e"], estimator="bisect")
    same_law(learner.law(data), [(Fraction(value), printed) for value, printed in expected["law"]])


def run_min_error_oneshot(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    data, _ = data_of(given)
    learner = MinimumError(Thresholds(), **sized(given), radius=given["alpha_e"], estimator="oneshot")
    assert learner.grid_sensitivity == Fraction(expected["sensitivity"])
    assert learner.scores(data) == [(Fraction(value), Fraction(score)) for value, score in expected["scores"]]
    same_law(learner.law(data), [(Fraction(value), printed) for value, printed in expected["law"]])


def run_user_agnostic(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    data, _ = data_of(given)
    shape = {"alpha": given["alpha"], "radius": given["alpha_e"], "share": given["share"], "estimator": given["method"]}
    learner = UserAgnosticLearner(Thresholds(), **sized(given), **shape)
    same_law(learner.rule_law(data), list(enumerate(expected["law"])))


def run_private_median(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    data, _ = data_of(given)
    shape = {"lower": int(given["l"]), "upper": int(given["r"]), "level": given["level"], "region": given["region"]}
    learner = PrivateMedian(Thresholds(), **common(given), **shape)
    assert {str(m): learner.tolerance(int(m)) for m in expected["s"]} == expected["s"]
    same_blocks(learner.profile(data).blocks(), expected["blocks"])
    same_block_probabilities(learner.law(data), expected)


def run_private_threshold(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    data, _ = data_of(given)
    shape = {"rounds": given["T"], "theta": given["theta"], "region": given["region"], "branch": given["branch"]}
    learner = ThresholdSearch(Thresholds(), **common(given), **shape, tolerance=table(given["t"]))
    same_law(learner.law(data), list(enumerate(expected["law"])))


RUNNERS = {
    "points_surrogate": run_points_surrogate,
    "thresholds_em": run_thresholds_em,
    "private_compare": run_private_compare,
    "min_error_bisect": run_min_error_bisect,
    "min_error_oneshot": run_min_error_oneshot,
    "user_agnostic": run_user_agnostic,
    "private_median": run_private_median,
    "private_threshold": run_private_threshold,
}
