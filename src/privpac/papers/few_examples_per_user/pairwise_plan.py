"""The line of pairwise selection in a plan, and the hard laws that attack its certificate."""

from __future__ import annotations

from typing import Any

import numpy as np

from privpac.arrays import Floats64, Ints
from privpac.auditing.refutation import Claim
from privpac.auditing.rule_laws import Votes, rule_claim, softmax
from privpac.distributions.selection.accuracy import plan_pairwise
from privpac.methods.planned import RuleGoal
from privpac.methods.registry import PlannedMethod
from privpac.papers.few_examples_per_user.pairwise import PairwiseSelection
from privpac.sample_size import Certificate


def pairwise_rows(goal: RuleGoal) -> list[PlannedMethod]:
    def certify(m: int) -> Certificate:
        return plan_pairwise(
            log_size=goal.concept.log_size,
            epsilon=goal.epsilon,
            alpha1=goal.alpha,
            beta=goal.beta,
            records_per_user=m,
            neighbours=goal.neighbours,
        )

    return [PlannedMethod("pairwise selection", certify)]


def pairwise_votes(learner: PairwiseSelection, bits: int, n: int) -> Votes:
    clip = int(learner.tau)
    rate = float(learner.epsilon / learner.range_sensitivity(clip))

    def cast(mistakes: Ints, m: int) -> Ints:
        apart = np.clip(mistakes[:, :, None] - mistakes[:, None, :], -clip, clip)
        return np.asarray(apart.reshape(len(mistakes), -1))

    def law(totals: Ints, copies: Floats64) -> Floats64:
        groups = len(copies)
        apart = totals.reshape(*totals.shape[:-1], groups, groups).astype(float)
        # A rule competes with others that predict alike, but not with itself.
        alone = np.where(np.eye(groups, dtype=bool) & (copies == 1)[:, None], -np.inf, 0.0)
        return softmax(np.log(copies) - rate * (apart + alone).max(axis=-1))

    return Votes(cast, law)


def pairwise_claim(target: Any, line: PlannedMethod, found: Certificate, records_per_user: int) -> Claim:
    return rule_claim(target, line, found, records_per_user, pairwise_votes)
