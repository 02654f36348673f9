"""The library's methods as contenders.

What a learner has to be told is taken from the stated model, or from the public table itself (which only a comparison
may do), by what :mod:`privpac.learners.registry` says that it needs:

* the records per user of the model; of a table the median, unless a clip that grows with each user's own number of
  records does as well;
* ``delta`` of the comparison;
* a public seed for each run, derived from the comparison's;
* of parameters that follow the setting, those for labels that may be wrong: each user of ``tree`` names the node of its
  own best cut or value.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from privpac.data import UserData
from privpac.errors import AccuracyWarning, PrivpacError
from privpac.learners.base import Learner
from privpac.learners.registry import METHODS, build_learner, takes
from privpac.learners.selection.regret import RegretSelection
from privpac.learners.selection.trimmed import TrimmedSelection
from privpac.learners.transform.baselines import group_privacy, one_record_per_user
from privpac.planning.choose import choose_method
from privpac.planning.comparison.contender import Contender, Setting, runs_in_words
from privpac.planning.comparison.expected_error import COUNT_POINTS, error_by_rule, mean_excess
from privpac.planning.comparison.population import Floats64
from privpac.planning.targets.tree_targets import as_tree

__all__ = ["WRAPPED", "own_contender", "own_learner"]

WRAPPED = {
    "default": "what pp.learn runs when only epsilon is given",
    "one-record": "the default on one record of each user",
    "group": "the default per record, by group privacy",
}
"""The default method, as it is and on fewer records."""


def own_contender(name: str) -> Contender:
    """A method of the registry, or one of :data:`WRAPPED`."""
    about = WRAPPED[name] if name in WRAPPED else METHODS[name].about
    run = partial(_expected if _exact(name) else _sampled, name)
    return Contender(name, about, partial(_how, name), partial(_promise, name), run, partial(_refusal, name))


def _exact(name: str) -> bool:
    return name in WRAPPED or METHODS[name].exact_law


# The learner


def own_learner(name: str, setting: Setting, epsilon: Fraction, run: int = 0) -> Learner:
    """The learner behind a contender's name; ``run`` counts the public seeds of those that have one."""
    people, relation = setting.population, setting.neighbours
    method = choose_method(people.concept, epsilon=epsilon, neighbours=relation).method if name in WRAPPED else name
    subject = METHODS[method].subject
    learned: Any = as_tree(people.concept, people.users.features) if subject == "tree" else people.concept
    common = {subject: learned, "epsilon": epsilon, "neighbours": relation}
    built = build_learner(method, common, _told(method, setting, run))
    if name == "one-record":
        return one_record_per_user(built)
    return group_privacy(built, setting.cap) if name == "group" else built


def _told(method: str, setting: Setting, run: int) -> dict[str, Any]:
    """What a learner cannot do without, and its public seed."""
    people = setting.population
    # The first that is known of what would do; the median of a table only where nothing else would.
    known = {"delta": setting.delta, "records_per_user": people.records_per_user, "weighted": True}
    median = {"records_per_user": max(1, int(np.median(people.users.sizes)))}
    told: dict[str, Any] = {**METHODS[method].by_setting.get("agnostic", {})}
    for need in METHODS[method].needs:
        name, value = next(
            ((name, held[name]) for held in (known, median) for name in need if held.get(name) is not None), ("", None)
        )
        told |= {name: value} if name else {}  # what is still missing, the learner says
    if takes(method, "seed"):
        told["seed"] = hashlib.sha256(b"privpac compare %d %d" % (setting.seed, run)).digest()
    return told


# Measuring


def _promise(name: str, setting: Setting, epsilon: Fraction) -> str:
    return own_learner(name, setting, epsilon).guarantee.summary


def _expected(name: str, setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    """Mean excess over the exact law; for learners with a public seed one mean for each of ``runs`` seeds."""
    people = setting.population
    seeds = setting.runs if takes(name, "seed") else 1
    out = np.zeros((len(setting.epsilons), len(datasets), seeds))
    for e, epsilon in enumerate(setting.epsilons):
        for k in range(seeds):
            learner = own_learner(name, setting, epsilon, k)
            value = error_by_rule(learner, people)
            if value is None:
                return _sampled(name, setting, datasets)
            for i, data in enumerate(datasets):
                out[e, i, k] = mean_excess(learner, people, data, value)
    return out


def _sampled(name: str, setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    """Excess of released rules; where nothing is released, of "never"."""
    people = setting.population
    never = np.zeros(len(people.costs[0]))
    out = np.zeros((len(setting.epsilons), len(datasets), setting.runs))
    for e, epsilon in enumerate(setting.epsilons):
        for k in range(setting.runs):
            learner = own_learner(name, setting, epsilon, k)
            for i, data in enumerate(datasets):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", AccuracyWarning)
                    released = learner.learn(data)
                said = released.hypothesis.predict_codes(people.points) if released else never
                out[e, i, k] = float(people.error(said)) - people.best_error
    return out


def _how(name: str, setting: Setting) -> str:
    """How a method is measured, in words."""
    learner = own_learner(name, setting, setting.epsilons[0])
    if not _exact(name) or error_by_rule(learner, setting.population) is None:
        return runs_in_words(setting)
    if isinstance(learner, RegretSelection) and learner.needs_count:
        return f"exact law; at most {COUNT_POINTS} values stand for its noisy count of users"
    return f"exact law, {setting.runs} public seeds a data set" if takes(name, "seed") else "exact law"


def _refusal(name: str, setting: Setting) -> str | None:
    """Why a learner does not fit the class of rules or the parameters, in its own words; None if it does."""
    try:
        for epsilon in setting.epsilons:
            learner = own_learner(name, setting, epsilon)
            if isinstance(learner, TrimmedSelection):
                for n in setting.sizes:
                    learner.design(n, setting.population.concept.size)
    except (PrivpacError, TypeError) as error:
        return " ".join(str(error).split())
    return None
