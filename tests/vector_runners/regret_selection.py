"""Runners of ``regret_selection.json``: laws of clipped-regret selection, and of the noisy count of users.

Points are ``1..domain`` in the file and codes ``0..domain - 1`` here, with the same cuts.  The whole ``epsilon`` of a
law's case is the selection's, so the learner is told the number of users: ``declared_users``, 0 for none.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from privpac.data import Integers, UserData
from privpac.exact import Ball
from privpac.methods.base import profile_of
from privpac.methods.regret import COUNT_SHARE, RegretSelection
from privpac.rules.cuts import Thresholds
from privpac.rules.enumerated import FiniteClass

from . import agrees

__all__ = ["RUNNERS"]

DIGITS = 25


def learner_of(case: dict[str, Any], concept: Any) -> RegretSelection:
    return RegretSelection(
        concept,
        case["epsilon"],
        neighbours=case["neighbours"],
        public_n_users=case["declared_users"] or 0,
        levels=case["levels"],
    )


def run_regret_finite(case: dict[str, Any]) -> None:
    table = np.array(case["predictions"])
    domain = Integers(0, table.shape[1] - 1)
    data = UserData.from_users(case["users"], features={"x": domain})
    learner, declared = learner_of(case, FiniteClass(table, domain)), case["declared_users"] or 0
    bound = learner.bind(data)
    profile = profile_of(bound, learner.statistic_for(bound, declared))
    assert [profile.score(h) for h in range(len(table))] == case["scores"]
    assert learner.rate(learner.epsilon_selection, learner.levels) == Fraction(case["lambda"])
    law = learner.law(data, given=declared)
    assert all(agrees(law.prob(h), printed, DIGITS) for h, printed in enumerate(case["law"]))


def run_regret_threshold(case: dict[str, Any]) -> None:
    users = [[(int(x) - 1, y) for x, y in user] for user in case["users"]]
    data = UserData.from_users(users, features={"x": Integers(0, int(case["domain"]) - 1)})
    learner, declared = learner_of(case, Thresholds()), case["declared_users"] or 0
    bound = learner.bind(data)
    profile = profile_of(bound, learner.statistic_for(bound, declared))
    assert profile.blocks() == [(int(a), int(b), score) for a, b, score in case["blocks"]]
    law = learner.law(data, given=declared)
    for (a, b, _), printed in zip(case["blocks"], case["block_law"], strict=True):
        one, count = law.prob(int(a)), int(b) - int(a) + 1
        assert agrees(Ball(one.lo * count, one.hi * count), printed, DIGITS)


def run_regret_count(case: dict[str, Any]) -> None:
    learner = RegretSelection(Thresholds(), Fraction(case["epsilon"]) / COUNT_SHARE)
    assert learner.epsilon_count == Fraction(case["epsilon"])
    data = UserData.from_users([[]] * case["users"], features={"x": Integers(0, 9)})
    law = learner.count_law(data, cap=case["cap"])
    assert len(case["law"]) == case["cap"] + 1
    assert all(agrees(law.prob(k), printed, DIGITS) for k, printed in enumerate(case["law"]))


RUNNERS: dict[str, Callable[..., None]] = {
    "regret_finite": run_regret_finite,
    "regret_threshold": run_regret_threshold,
    "regret_count": run_regret_count,
}
