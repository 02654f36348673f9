"""Mean excess error of a learner over the law of what it releases, on people whose records are public.

A comparison should not depend on luck where it need not: most learners have an exact law over rules, and its mean
is a sum.  Where a learner releases nothing, "never" stands in, as it does for runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from privpac.data import UserData
from privpac.errors import AccuracyWarning
from privpac.law import BOTTOM, Law
from privpac.law.blocks import BlockLaw
from privpac.methods.agreement.agreement_learner import AgreedRule, AgreementLearner, kind_of, own_parameters, task_of
from privpac.methods.hierarchy.tree_learner import TreeLearner
from privpac.methods.regret import RegretSelection
from privpac.methods.trimmed import TrimmedSelection
from privpac.rules.base import Frozen, Rule
from privpac.rules.populations import Population
from privpac.rules.profile import ClipRule

COUNT_POINTS = 8
"""Values of the noisy count that stand for its law where the clip takes more values than that."""

MOST_RULES = 1 << 14
"""Rules that are gone through one by one at most, where the law is not one over blocks of rules of the class."""


def mean_excess(learner: Any, people: Population, data: UserData, value: Callable[[Any], float]) -> float:
    """The mean excess error of what the learner releases on these data; ``value`` is that of one value of its law
    (:func:`error_by_rule`)."""
    with warnings.catch_warnings():
        # What a certificate says of these numbers is beside the point: here the error itself is measured.
        warnings.simplefilter("ignore", AccuracyWarning)
        if isinstance(learner, RegretSelection) and learner.needs_count:
            points = count_points(learner, people.concept.bits, data)
            laws: list[tuple[float, Any]] = [(p, learner.law(data, given=n)) for p, n in points]
            return sum((p * people.expected_excess(law) for p, law in laws), 0.0)
        # The ranks of a tree learner hardly move with the noise of its count: its law is taken at the true number.
        law: Law = (
            learner.law(data, given=data.n_users) if getattr(learner, "needs_count", False) else learner.law(data)
        )
    if isinstance(law, BlockLaw) and not isinstance(learner, AgreementLearner):
        return people.expected_excess(law)
    mean = 0.0
    for cell, number in law.as_finite().cells:
        each = float(number.arb())
        mean += each * sum(map(value, cell)) if isinstance(cell, range) else each * value(cell)
    return mean


def error_by_rule(learner: object, people: Population) -> Callable[[Any], float] | None:
    """The excess error of each value of the learner's law; None where they are too many to go through."""
    never = float(people.error(np.zeros(len(people.costs[0])))) - people.best_error

    def of_rule(rule: Rule) -> float:
        return float(people.error(rule.predict_codes(people.points))) - people.best_error

    if isinstance(learner, AgreementLearner):
        concept = people.concept
        columns = {
            name: domain for name, domain in concept.declared().items() if name is not None and domain is not None
        }
        task = task_of(kind_of(concept), columns, own_parameters(concept))
        if task.learner.universe.size > MOST_RULES:
            return None

        def of_item(number: Any) -> float:
            item = None if number is BOTTOM else task.learner.universe.item(number)
            said = item if item is not None and task.learner.decode(item) is not None else task.default
            return of_rule(AgreedRule(task.kind, Frozen(tuple(columns.items())), said, task.parameters))

        return cache(of_item)
    if isinstance(learner, TreeLearner):
        tree, _ = learner.tree.bind(people.users)
        if people.concept.size > MOST_RULES:
            return None
        return cache(lambda node: of_rule(tree.rule(tree.root if node is BOTTOM else node)))
    if isinstance(learner, TrimmedSelection) and people.concept.size > MOST_RULES:
        return None
    # Of a law over pairs (score, rule) the rule is released.
    return cache(lambda rule: never if rule is BOTTOM else people.excess_of(rule % people.concept.size))


def count_points(learner: RegretSelection, bits: int, data: UserData) -> list[tuple[float, int]]:
    """The law of the noisy count as (probability, value): values that give every user the same clip are one.

    Where more than ``COUNT_POINTS`` are left, that many quantiles of equal mass stand for the law.
    """
    rate = float(learner.epsilon_count)
    reach = int(np.ceil(40 / rate))
    noise = np.arange(-reach, reach + 1)
    chance = np.exp(-rate * np.abs(noise))
    chance /= chance.sum()
    # Far from the centre nothing is left of the mass; the clip grows with the count, so its ends say how many clips
    # there are.
    kept = np.flatnonzero(chance > 1e-9)
    values, chance = np.maximum(data.n_users + noise[kept], 0), chance[kept] / chance[kept].sum()
    sizes = np.unique(data.sizes).tolist()
    groups: dict[tuple[int, ...], tuple[float, int]] = {}
    for p, value in zip(chance.tolist(), values.tolist()):
        clip = ClipRule(learner.theta, value, bits)
        key = tuple(clip(m) for m in sizes)
        groups[key] = (groups.get(key, (0.0, value))[0] + p, value)
        if len(groups) > COUNT_POINTS:
            middle = (np.arange(COUNT_POINTS) + 0.5) / COUNT_POINTS
            found = np.minimum(np.searchsorted(np.cumsum(chance), middle), len(values) - 1)
            return [(1 / COUNT_POINTS, int(values[i])) for i in found]
    return list(groups.values())
