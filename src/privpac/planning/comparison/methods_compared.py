"""The methods that a comparison runs, by name.

Every contender protects whole users at the same epsilon and for the same neighbours, or says that it protects nobody.
Given data sets it returns the excess error of what it would release: an expectation over the exact law where that is
affordable, else a few runs.

* the methods of :mod:`privpac.methods.registry`; ``default``, what ``learn`` runs; ``one-record`` and ``group``: the
  default on one record per user, and per record at ``epsilon / cap`` with at most ``cap`` records per user;
* ``dp-sgd`` and ``diffprivlib-…`` (``peers``);
* ``erm``: the best rule on the data set, and ``constant``: the better of "always" and "never" on the population;
  neither is private.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from privpac.data import UserData
from privpac.errors import AccuracyWarning, ParameterError, PrivpacError
from privpac.guarantee import Neighbours
from privpac.methods.base import Learner
from privpac.methods.baselines import group_privacy, one_record_per_user
from privpac.methods.registry import METHODS, build_learner, takes
from privpac.methods.regret import RegretSelection
from privpac.methods.trimmed import TrimmedSelection
from privpac.planning.choose import choose_method
from privpac.planning.comparison import diffprivlib_models
from privpac.planning.comparison.diffprivlib_models import MODELS
from privpac.planning.comparison.expected_error import COUNT_POINTS, error_by_rule, mean_excess
from privpac.planning.comparison.noisy_gradients import NoisyGradients, accountant_installed, train
from privpac.planning.hierarchies import as_tree
from privpac.planning.populations import Floats64, Population, features_of_users

__all__ = [
    "Contender",
    "STANDARD",
    "Setting",
    "WRAPPED",
    "all_contenders",
    "diffprivlib_model",
    "dp_sgd",
    "named_contenders",
    "own_contender",
    "own_learner",
    "peer_rows",
    "runs_in_words",
]


# One method of a comparison, and what all of them share.


@dataclass(frozen=True, eq=False)
class Setting:
    """What all contenders share."""

    population: Population
    epsilons: tuple[Fraction, ...]
    delta: Fraction
    cap: int
    runs: int
    seed: int
    peers: Path | None = None
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    sizes: tuple[int, ...] = ()
    """The numbers of users that will be drawn."""


@dataclass(frozen=True)
class Contender:
    """One method: who is protected, how it is measured, and the measurement: excess by (epsilon, data set, run)."""

    name: str
    about: str
    how: str | Callable[[Setting], str]
    """In words, how it is measured."""
    promise: Callable[[Setting, Fraction], str]
    run: Callable[[Setting, Sequence[UserData]], Floats64]
    ready: Callable[[Setting], str | None] = lambda setting: None
    """Why it cannot run here, or None."""
    family: str = ""
    """The name that stands for several contenders together."""


def runs_in_words(setting: Setting) -> str:
    """How a method without an affordable law is measured."""
    return f"{setting.runs} runs a data set"


# The library's methods as contenders.
#
# What a learner has to be told is taken from the stated model, or from the public table itself (which only a comparison
# may do), by what :mod:`privpac.methods.registry` says that it needs:
#
# * the records per user of the model; of a table the median, unless a clip that grows with each user's own number of
#   records does as well;
# * ``delta`` of the comparison;
# * a public seed for each run, derived from the comparison's;
# * of parameters that follow the setting, those for labels that may be wrong: each user of ``tree`` names the node of
#   its
#   own best cut or value.


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


# Other people's methods as contenders: DP-SGD, and the models of diffprivlib.
#
# * ``dp-sgd``: logistic regression by noisy gradients, clipped per user (``noisy_gradients``), at ``(epsilon, delta)``.
# * ``diffprivlib-…``: its models protect single *rows*, so people are protected either by giving it one record per user
#   (``-one``) or by group privacy (``-group``): at most ``cap`` records per user at ``epsilon / cap``.  In its own
#   convention one row is *changed*.  Under replace every user therefore gets exactly one row, or exactly ``cap`` rows
#   (its records over and over), so that the number of rows is public and a replaced user changes at most that many of
#   them: ``cap`` steps of ``epsilon / cap`` each.


# DP-SGD

USUAL = NoisyGradients()


def dp_sgd(how: NoisyGradients = USUAL, name: str = "dp-sgd") -> Contender:
    """Logistic regression by noisy gradients with these parameters."""

    def run(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
        people = setting.population
        noise = np.array([how.noise(epsilon, setting.delta, setting.neighbours) for epsilon in setting.epsilons])
        points = features_of_users(people, people.points)
        points = np.column_stack([points, np.ones(len(points))])
        out = np.zeros((len(setting.epsilons), len(datasets), setting.runs))
        for i, data in enumerate(datasets):
            rng = np.random.default_rng([setting.seed, i])
            side = np.repeat(noise, setting.runs)
            assert data.labels is not None
            weights = train(features_of_users(people, data.codes), data.labels, data.offsets, how, side, rng)
            out[:, i] = people.error(weights @ points.T > 0).reshape(len(noise), setting.runs) - people.best_error
        return out

    def promise(setting: Setting, epsilon: Fraction) -> str:
        return (
            f"({float(epsilon):g}, {float(setting.delta):g})-DP per user, {setting.neighbours} (floating-point noise)"
        )

    about = f"user-level logistic regression, {how.steps} steps, clip {how.clip:g}, rate {how.rate:g}"
    missing = "dp-accounting is not installed (pip install dp-accounting)"
    return Contender(
        name, about, runs_in_words, promise, run, lambda setting: None if accountant_installed() else missing
    )


# diffprivlib, in a Python of its own


def peer_rows(people: Population, data: UserData, cap: int, neighbours: Neighbours) -> tuple[Floats64, Any]:
    """The rows a model of single rows gets, and their labels: at most ``cap`` of each user, under replace exactly so
    many."""
    kept = data.max_records(cap)
    features, labels = features_of_users(people, kept.codes), np.asarray(kept.labels)
    if neighbours is Neighbours.ADD_REMOVE:
        return features, labels
    # Slots: the records over and over; someone without any fills the slots with the middle of the domains and a 0.
    features, labels = np.vstack([features, np.zeros((1, features.shape[1]))]), np.append(labels, 0)
    turns = np.arange(cap) % np.maximum(kept.sizes, 1)[:, None]
    rows = np.where(kept.sizes[:, None] > 0, kept.offsets[:-1, None] + turns, len(labels) - 1).ravel()
    return features[rows], labels[rows]


def diffprivlib_model(model: str, way: str) -> Contender:
    def run(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
        people, cap = setting.population, 1 if way == "one" else setting.cap
        job: dict[str, Any] = {"model": model, "runs": setting.runs, "seed": setting.seed, "datasets": len(datasets)}
        job |= {"epsilons": np.array([float(epsilon / cap) for epsilon in setting.epsilons])}
        job |= {"points": features_of_users(people, people.points), "costs": people.costs}
        for i, data in enumerate(datasets):
            job[f"x{i}"], job[f"y{i}"] = peer_rows(people, data, cap, setting.neighbours)
        return np.asarray(_in_peers(setting.peers, job)) - people.best_error

    def promise(setting: Setting, epsilon: Fraction) -> str:
        same = setting.neighbours is Neighbours.REPLACE
        if way == "one":
            return f"({float(epsilon):g}, 0)-DP per {'user, replace' if same else 'row'}, one row per user"
        shares = f"{setting.cap} rows at {float(epsilon / setting.cap):g}"
        return f"({float(epsilon):g}, 0)-DP per user{', replace,' if same else ''} by group privacy: {shares}"

    words = {"logistic": "logistic regression", "bayes": "Gaussian naive Bayes", "tree": "decision tree of depth 1"}
    about = f"diffprivlib {words[model]}, {'one record per user' if way == 'one' else 'group privacy'}"
    missing = "diffprivlib runs in a Python of its own: name one with --peers"
    return Contender(
        f"diffprivlib-{model}-{way}",
        about,
        runs_in_words,
        promise,
        run,
        lambda setting: None if setting.peers else missing,
        "diffprivlib",
    )


def _in_peers(python: Path | None, job: dict[str, Any]) -> Any:
    """The job's answer from the other Python."""
    if python is None:
        raise ParameterError("diffprivlib runs in a Python of its own, and none was named")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.npz"
        np.savez(file, **job)
        try:
            # Its fits are small: more than one thread of linear algebra only makes them wait for each other.
            quiet = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            command = [str(python), diffprivlib_models.__file__, str(file)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=quiet)
        except OSError as error:
            raise ParameterError(
                f"{str(python)!r} cannot be run ({error.strerror}); name a Python that has diffprivlib"
            ) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ParameterError(
            f"{str(python)!r} could not fit diffprivlib's models: {last}; pip install diffprivlib==0.6.6 "
            "scikit-learn==1.6.1"
        )
    return json.loads(done.stdout.splitlines()[-1])


STANDARD = ("default", "mean", "one-record", "group", "dp-sgd", "diffprivlib", "erm", "constant")
"""What is compared when nothing is named; ``diffprivlib`` stands for all its models, both ways."""


def _erm(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    people = setting.population
    found = [people.excess_of(people.concept.erm(data)) for data in datasets]
    return np.tile(np.array(found)[None, :, None], (len(setting.epsilons), 1, 1))


def _constant(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    excess = setting.population.constant_error - setting.population.best_error
    return np.full((len(setting.epsilons), len(datasets), 1), excess)


_NOBODY: Callable[[Setting, Fraction], str] = lambda setting, epsilon: "none: not private"  # noqa: E731


def all_contenders() -> dict[str, Contender]:
    """All of them by name: the registry's methods as they are now, and the others."""
    listed = (
        *(own_contender(name) for name in (*WRAPPED, *METHODS)),
        dp_sgd(),
        *(diffprivlib_model(model, way) for model in MODELS for way in ("one", "group")),
        Contender("erm", "the best rule on the data set", "exact", _NOBODY, _erm),
        Contender("constant", 'the better of "always" and "never"', "exact", _NOBODY, _constant),
    )
    return {one.name: one for one in listed}


def named_contenders(methods: Iterable[str | Contender]) -> list[Contender]:
    """Contenders by name, or several by the name of their family: ``diffprivlib`` names all of its models."""
    known, found = all_contenders(), dict[str, Contender]()
    for method in methods:
        if isinstance(method, Contender):
            found[method.name] = method
            continue
        matching = [one for one in known.values() if method in (one.name, one.family)]
        if not matching:
            raise ParameterError(f"method must be one of {', '.join(known)} or diffprivlib; got {method!r}")
        found |= {one.name: one for one in matching}
    if not found:
        raise ParameterError("name at least one method to compare")
    return list(found.values())
