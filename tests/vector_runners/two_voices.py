"""Runners of ``two_voices.json``: own luck, the penalty and the laws of two voices.

Points are ``1..domain`` in the file and codes ``0..domain - 1`` here, with the same cuts.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from privpac.data import Integers, UserData
from privpac.exact import Ball
from privpac.law import Law
from privpac.methods.base import profile_of
from privpac.methods.hybrid import HybridSelection
from privpac.rules.cuts import Thresholds
from privpac.rules.enumerated import FiniteClass
from privpac.rules.profile import HybridStatistic, own_clip, own_optimism

from . import agrees

__all__ = ["RUNNERS"]

DIGITS = 25


def times(ball: Ball, count: int) -> Ball:
    return Ball(ball.lo * count, ball.hi * count)


def plus(a: Ball, b: Ball) -> Ball:
    return Ball(a.lo + b.lo, a.hi + b.hi)


def run_luck(case: dict[str, Any]) -> None:
    levels = case["levels"]
    for m, b, worst, tau, luck, room, d in case["values"]:
        assert (own_clip(m), own_optimism(m, b, levels), levels - levels * worst // m) == (tau, luck, room)
        assert HybridStatistic(levels).optimism(np.array([m]), np.array([[b], [b + worst]])) == d


def run_credit(case: dict[str, Any]) -> None:
    learner = HybridSelection(Thresholds(), case["epsilon"], neighbours=case["neighbours"], levels=case["levels"])
    assert learner.theta == Fraction(case["theta"])
    bits = max(1, (int(case["size"]) - 1).bit_length())
    assert bits == case["bits"]
    assert learner.penalty(bits) == (case["cap"], case["credit"])


def learner_of(case: dict[str, Any], concept: Any) -> HybridSelection:
    return HybridSelection(concept, case["epsilon"], neighbours=case["neighbours"], levels=case["levels"])


def run_finite(case: dict[str, Any]) -> None:
    table = np.array(case["predictions"])
    domain, size = Integers(0, table.shape[1] - 1), len(table)
    data = UserData.from_users(case["users"], features={"x": domain})
    learner = learner_of(case, FiniteClass(table, domain))
    assert learner.theta == Fraction(case["theta"])
    bound = learner.bind(data)
    folded = profile_of(bound, HybridStatistic(learner.levels))
    assert [folded.score(h) for h in range(2 * size)] == [*case["clip"], *case["mean"]]
    assert folded.optimism == case["luck"]
    scores = learner.scores(bound)
    assert [scores.score(h) for h in range(2 * size)] == [*case["clip_scores"], *case["mean_scores"]]
    law, rules = learner.law(data), learner.rule_law(data)
    assert all(agrees(law.prob(h), printed, DIGITS) for h, printed in enumerate(case["clip_law"]))
    assert all(agrees(rules.prob(h), printed, DIGITS) for h, printed in enumerate(case["law"]))


def run_threshold(case: dict[str, Any]) -> None:
    users = [[(int(x) - 1, y) for x, y in user] for user in case["users"]]
    data = UserData.from_users(users, features={"x": Integers(0, int(case["domain"]) - 1)})
    learner = learner_of(case, Thresholds(prior="uniform"))  # the laws of the file treat all cuts alike
    bound = learner.bind(data)
    size = bound.concept.size
    assert profile_of(bound, HybridStatistic(learner.levels)).optimism == case["luck"]
    assert refined(learner.scores(bound).blocks(), size) == [
        (int(a), int(b), clip, mean) for a, b, clip, mean in case["blocks"]
    ]
    law, rules = learner.law(data), learner.rule_law(data)
    share = Ball(Fraction(0), Fraction(0))
    for (a, b, *_), printed in zip(case["blocks"], case["block_law"], strict=True):
        count = int(b) - int(a) + 1
        one = law.prob(int(a))
        share = plus(share, times(one, count))
        assert agrees(times(plus(one, law.prob(size + int(a))), count), printed, DIGITS)
        assert agrees(times(rules.prob(int(a)), count), printed, DIGITS)
    assert agrees(share, case["clip_share"], DIGITS)
    assert isinstance(law, Law)


def refined(blocks: list[tuple[int, int, int]], size: int) -> list[tuple[int, int, int, int]]:
    """Blocks of cuts on which both voices are constant, with both scores; neighbours alike in both are one."""
    # A block may go on from the clip voice into the mean voice.
    split = [
        (max(a, v * size) - v * size, min(b, (v + 1) * size - 1) - v * size, v, s) for a, b, s in blocks for v in (0, 1)
    ]
    voices = [sorted((a, s) for a, b, v, s in split if v == which and a <= b) for which in (0, 1)]
    starts = sorted({a for voice in voices for a, _ in voice})
    out: list[tuple[int, int, int, int]] = []
    for a, end in pairwise([*starts, size]):
        clip, mean = (max((at, s) for at, s in voice if at <= a)[1] for voice in voices)
        if out and out[-1][2:] == (clip, mean):
            out[-1] = (out[-1][0], end - 1, clip, mean)
        else:
            out.append((a, end - 1, clip, mean))
    return out


RUNNERS: dict[str, Callable[..., None]] = {
    "voices_luck": run_luck,
    "voices_credit": run_credit,
    "voices_finite": run_finite,
    "voices_threshold": run_threshold,
}
