"""The methods that a comparison runs, as a table of callables.

Every contender protects whole users at the same epsilon and for the same neighbours, or says that it protects nobody.
Given data sets it returns the excess error of what it would release: an expectation over the exact law where that is
affordable, else a few runs.

* ``default``, ``mean`` and the library's other methods; ``one-record`` and ``group``: the default on one record per
  user, and per record at ``epsilon / cap`` with at most ``cap`` records per user.
* ``dp-sgd``: logistic regression by noisy gradients, clipped per user (``noisy_gradients``), at ``(epsilon, delta)``.
* ``diffprivlib-…``: its models protect single *rows*, so people are protected either by giving it one record per user
  (``-one``) or by group privacy (``-group``): at most ``cap`` records per user at ``epsilon / cap``.  In its own
  convention one row is *changed*.  Under replace every user therefore gets exactly one row, or exactly ``cap`` rows
  (its records over and over), so that the number of rows is public and a replaced user changes at most that many of
  them: ``cap`` steps of ``epsilon / cap`` each.
* ``erm``: the best rule on the data set, and ``constant``: the better of "always" and "never" on the population;
  neither is private.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from privpac.data import UserData
from privpac.errors import AccuracyWarning, ParameterError, PrivpacError
from privpac.guarantee import Neighbours
from privpac.learners.registry import METHODS
from privpac.learners.selection.trimmed import TrimmedSelection
from privpac.planning.comparison import diffprivlib_models
from privpac.planning.comparison.noisy_gradients import NoisyGradients, accountant_installed, train
from privpac.planning.comparison.own_methods import COUNT_POINTS, listed, mean_excess, own_learner
from privpac.planning.comparison.population import Floats64, Population, features_of_users

__all__ = ["CONTENDERS", "Contender", "Setting", "dp_sgd", "peer_rows"]


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


# The library's own learners

_RUN = ("agnostic", "direct", "search", "surrogate")
"""Learners whose law is a mixture that costs more than a few runs."""


def _promise(method: str, setting: Setting, epsilon: Fraction) -> str:
    return own_learner(method, setting, epsilon).guarantee.summary


def _expected(method: str, setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    """Mean excess over the exact law; for learners with a public seed one mean for each of ``runs`` seeds."""
    people = setting.population
    seeds = setting.runs if method == "agreement" else 1
    out = np.zeros((len(setting.epsilons), len(datasets), seeds))
    for e, epsilon in enumerate(setting.epsilons):
        for k in range(seeds):
            learner = own_learner(method, setting, epsilon, k)
            value = listed(learner, people)
            if value is None:
                return _sampled(method, setting, datasets)
            for i, data in enumerate(datasets):
                out[e, i, k] = mean_excess(learner, people, data, value)
    return out


def _sampled(method: str, setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    """Excess of released rules; where nothing is released, of "never"."""
    people = setting.population
    never = np.zeros(len(people.costs[0]))
    out = np.zeros((len(setting.epsilons), len(datasets), setting.runs))
    for e, epsilon in enumerate(setting.epsilons):
        for k in range(setting.runs):
            learner = own_learner(method, setting, epsilon, k)
            for i, data in enumerate(datasets):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", AccuracyWarning)
                    released = learner.learn(data)
                said = released.hypothesis.predict_codes(people.points) if released else never
                out[e, i, k] = float(people.error(said)) - people.best_error
    return out


def _how(method: str, setting: Setting) -> str:
    """How a method is measured, in words."""
    if method in _RUN or listed(own_learner(method, setting, setting.epsilons[0]), setting.population) is None:
        return f"{setting.runs} runs a data set"
    if method == "regret" and setting.neighbours is Neighbours.ADD_REMOVE:
        return f"exact law; at most {COUNT_POINTS} values stand for its noisy count of users"
    return f"exact law, {setting.runs} public seeds a data set" if method == "agreement" else "exact law"


def _own(method: str, about: str) -> Contender:
    run = partial(_sampled if method in _RUN else _expected, method)
    return Contender(method, about, partial(_how, method), partial(_promise, method), run, partial(_refusal, method))


def _refusal(method: str, setting: Setting) -> str | None:
    """Why a learner does not fit the class of rules or the parameters, in its own words; None if it does."""
    try:
        for epsilon in setting.epsilons:
            learner = own_learner(method, setting, epsilon)
            if isinstance(learner, TrimmedSelection):
                for n in setting.sizes:
                    learner.design(n, setting.population.concept.size)
    except (PrivpacError, TypeError) as error:
        return " ".join(str(error).split())
    return None


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
    return Contender(name, about, _runs, promise, run, lambda setting: None if accountant_installed() else missing)


# diffprivlib, in a Python of its own


def _runs(setting: Setting) -> str:
    return f"{setting.runs} runs a data set"


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


def _peer(model: str, way: str) -> Contender:
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
        f"diffprivlib-{model}-{way}", about, _runs, promise, run, lambda setting: None if setting.peers else missing
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


# Without privacy


def _erm(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    people = setting.population
    found = [people.excess_of(people.concept.erm(data)) for data in datasets]
    return np.tile(np.array(found)[None, :, None], (len(setting.epsilons), 1, 1))


def _constant(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    excess = setting.population.constant_error - setting.population.best_error
    return np.full((len(setting.epsilons), len(datasets), 1), excess)


_NOBODY: Callable[[Setting, Fraction], str] = lambda setting, epsilon: "none: not private"  # noqa: E731

_EXACT = ("voices", "regret", "mean", "realizable", "pairwise", "trimmed", "tree", "agreement")
"""Learners whose law over a class is affordable, at least for a class of some thousand rules."""

CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        _own("default", "what pp.learn runs when only epsilon is given"),
        *(_own(name, METHODS[name].about) for name in (*_EXACT, *_RUN)),
        _own("one-record", "the default on one record of each user"),
        _own("group", "the default per record, by group privacy"),
        dp_sgd(),
        *(_peer(model, way) for model in diffprivlib_models.MODELS for way in ("one", "group")),
        Contender("erm", "the best rule on the data set", "exact", _NOBODY, _erm),
        Contender("constant", 'the better of "always" and "never"', "exact", _NOBODY, _constant),
    )
}
