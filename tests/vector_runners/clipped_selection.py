"""Runners of ``clipped_selection.json``: clipped selection when some rule is right, pairwise selection, and the private
cap.

Thresholds are ``t_min..t_max`` in the file and cuts ``0..t_max - t_min`` here; the file lists one block per cut.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from privpac.data import Integers, UserData
from privpac.exact import Ball
from privpac.law import Law
from privpac.methods.base import profile_of
from privpac.methods.cap import CapSelection
from privpac.methods.realizable import RealizableSelection
from privpac.papers.few_examples_per_user.pairwise import PairwiseSelection
from privpac.rules.cuts import Thresholds
from privpac.rules.enumerated import FiniteClass
from privpac.rules.profile import Profile

from . import agrees

__all__ = ["RUNNERS"]

DIGITS = 25


def finite(given: dict[str, Any]) -> tuple[FiniteClass, UserData]:
    table = np.array(given["predictions"])
    domain = Integers(0, table.shape[1] - 1)
    return FiniteClass(table, domain), UserData.from_users(given["users"], features={"x": domain})


def threshold(given: dict[str, Any]) -> UserData:
    low, high = int(given["t_min"]), int(given["t_max"])
    users = [[(int(x), y) for x, y in user] for user in given["users"]]
    return UserData.from_users(users, features={"x": Integers(low, high - 1)})


def common(given: dict[str, Any]) -> dict[str, Any]:
    return {"epsilon": given["epsilon"], "neighbours": given["neighbours"], "max_records": given.get("cap")}


def same_finite(profile: Profile, law: Law, expected: dict[str, Any]) -> None:
    assert [profile.score(h) for h in range(len(expected["scores"]))] == expected["scores"]
    assert all(agrees(law.prob(h), printed, DIGITS) for h, printed in enumerate(expected["law"]))


def same_blocks(profile: Profile, law: Law, first: int, expected: dict[str, Any]) -> None:
    """Step functions: merge equal neighbours of the file, adding their probabilities."""
    blocks: list[list[Any]] = []
    for (low, high, score), printed in zip(expected["blocks"], expected["block_law"], strict=True):
        a, b = int(low) - first, int(high) - first
        if blocks and blocks[-1][2] == score:
            assert blocks[-1][1] + 1 == a
            blocks[-1][1:] = [b, score, blocks[-1][3] + Fraction(printed)]
        else:
            blocks.append([a, b, score, Fraction(printed)])
    assert profile.blocks() == [(a, b, score) for a, b, score, _ in blocks]
    for a, b, _, mass in blocks:
        one, count = law.prob(a), b - a + 1
        assert agrees(Ball(one.lo * count, one.hi * count), str(mass), DIGITS)


def run_realizable_finite(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    concept, data = finite(given)
    learner = RealizableSelection(concept, **common(given), tolerance=given["t"])
    assert learner.rate(learner.epsilon, 1) == Fraction(expected["lambda"])
    same_finite(profile_of(learner.bind(data), learner.statistic), learner.law(data), expected)


def run_realizable_threshold(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    data = threshold(given)
    learner = RealizableSelection(Thresholds(), **common(given))
    assert learner.rate(learner.epsilon, 1) == Fraction(expected["lambda"])
    same_blocks(profile_of(learner.bind(data), learner.statistic), learner.law(data), int(given["t_min"]), expected)


def _same_rate(learner: PairwiseSelection, data: UserData, expected: dict[str, Any]) -> None:
    rho = learner.range_sensitivity(learner.bind(data).clip)
    assert rho == expected["rho"]
    assert learner.epsilon / rho == Fraction(expected["lambda"])


def run_agnostic_finite(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    concept, data = finite(given)
    learner = PairwiseSelection(concept, **common(given), tau=given["tau"])
    _same_rate(learner, data, expected)
    same_finite(learner.profile(data), learner.law(data), expected)


def run_agnostic_weighted(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    concept, data = finite(given)
    tau = {int(m): clip for m, clip in given["tau_of_m"].items()}
    learner = PairwiseSelection(concept, **common(given), tau=tau, weighted=True, levels=given["T"])
    _same_rate(learner, data, expected)
    same_finite(learner.profile(data), learner.law(data), expected)


def run_agnostic_threshold(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    data = threshold(given)
    learner = PairwiseSelection(Thresholds(), **common(given), tau=given["tau"])
    _same_rate(learner, data, expected)
    same_blocks(learner.profile(data), learner.law(data), int(given["t_min"]), expected)


def run_private_cap(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    data = UserData.from_users([[(0, 0)] * m for m in given["m"]])
    learner = CapSelection(given["epsilon"], given["quantile"], given["grid"], given["neighbours"])
    assert learner.scores(data).tolist() == expected["scores"]
    assert learner.range_sensitivity == expected["rho"]
    law = learner.law(data)
    assert all(
        agrees(law.prob(cap), printed, DIGITS) for cap, printed in zip(given["grid"], expected["law"], strict=True)
    )


RUNNERS: dict[str, Callable[..., None]] = {
    "realizable_finite": run_realizable_finite,
    "realizable_threshold": run_realizable_threshold,
    "agnostic_finite": run_agnostic_finite,
    "agnostic_weighted": run_agnostic_weighted,
    "agnostic_threshold": run_agnostic_threshold,
    "private_cap": run_private_cap,
}
