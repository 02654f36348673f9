"""The methods that a comparison runs, as a table of callables.

Every contender protects whole users at the same epsilon, or says that it protects nobody.  Given data sets it returns the excess
error of what it would release: an expectation over the exact law where that is affordable, else a few runs.

* ``default``, ``mean`` and the library's other methods; ``one-record`` and ``group``: the default on one record per user, and per record
  at ``epsilon / cap`` with at most ``cap`` records per user.
* ``dp-sgd``: logistic regression by noisy gradients, clipped per user (``planning.dpsgd``), at ``(epsilon, delta)``.
* ``diffprivlib-…``: its models protect single *rows*, so people are protected either by giving it one record per user (``-one``) or by
  group privacy (``-group``): at most ``cap`` records per user at ``epsilon / cap``.  In its own convention one row is changed.
* ``erm``: the best rule on the data set, and ``constant``: the better of "always" and "never" on the population; neither is private.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from privpac.concepts.statistics import ClipRule
from privpac.data import UserData
from privpac.errors import ParameterError, PrivpacError
from privpac.learners.base import Learner
from privpac.learners.baselines import group_privacy, one_record_per_user
from privpac.learners.regret import RegretSelection
from privpac.planning import peer_models
from privpac.planning.choose import choose_method
from privpac.planning.dpsgd import NoisyGradients, accountant_installed, train
from privpac.planning.methods import METHODS, build_learner
from privpac.planning.population import Floats64, Population, features_of_users

__all__ = ["CONTENDERS", "Contender", "Setting", "dp_sgd"]

COUNT_POINTS = 8
"""Values of the noisy count that stand for its law where the clip takes more values than that."""


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


@dataclass(frozen=True)
class Contender:
    """One method: who is protected, how it is measured, and the measurement: excess by (epsilon, data set, run)."""

    name: str
    about: str
    how: str
    promise: Callable[[Setting, Fraction], str]
    run: Callable[[Setting, Sequence[UserData]], Floats64]
    ready: Callable[[Setting], str | None] = lambda setting: None
    """Why it cannot run here, or None."""


# The library's own learners


def _learner(method: str, setting: Setting, epsilon: Fraction) -> Learner:
    concept = setting.population.concept
    name = choose_method(concept, epsilon=epsilon).method if method in ("default", "one-record", "group") else method
    built = build_learner(name, {"concept": concept, "epsilon": epsilon}, {})
    if method == "one-record":
        return one_record_per_user(built)
    return group_privacy(built, setting.cap) if method == "group" else built


def _promise(method: str, setting: Setting, epsilon: Fraction) -> str:
    return _learner(method, setting, epsilon).guarantee.summary


def count_points(learner: RegretSelection, bits: int, data: UserData) -> list[tuple[float, int]]:
    """The law of the noisy count as (probability, value): values that give every user the same clip are one.

    Where more than ``COUNT_POINTS`` are left, that many quantiles of equal mass stand for the law.
    """
    rate = float(learner.epsilon_count)
    reach = int(np.ceil(40 / rate))
    noise = np.arange(-reach, reach + 1)
    chance = np.exp(-rate * np.abs(noise))
    chance /= chance.sum()
    # Far from the centre nothing is left of the mass; the clip grows with the count, so its ends say how many clips there are.
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


def _expected(method: str, setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    """Mean excess over the exact law."""
    people = setting.population
    out = np.zeros((len(setting.epsilons), len(datasets), 1))
    for e, epsilon in enumerate(setting.epsilons):
        learner: Any = _learner(method, setting, epsilon)
        for i, data in enumerate(datasets):
            if isinstance(learner, RegretSelection) and learner.needs_count:
                points = count_points(learner, people.concept.bits, data)
                laws: list[tuple[float, Any]] = [(p, learner.law(data, given=n)) for p, n in points]
                out[e, i] = sum((p * people.expected_excess(law) for p, law in laws), 0.0)
            else:
                out[e, i] = people.expected_excess(learner.law(data))
    return out


def _sampled(method: str, setting: Setting, datasets: Sequence[UserData]) -> Floats64:
    """Excess of released rules; where nothing is released, of "never"."""
    people = setting.population
    never = np.zeros(len(people.costs[0]))
    out = np.zeros((len(setting.epsilons), len(datasets), setting.runs))
    for e, epsilon in enumerate(setting.epsilons):
        learner = _learner(method, setting, epsilon)
        for i, data in enumerate(datasets):
            for k in range(setting.runs):
                released = learner.learn(data)
                said = released.hypothesis.predict_codes(people.points) if released else never
                out[e, i, k] = float(people.error(said)) - people.best_error
    return out


def _own(method: str, about: str, exact: bool = True) -> Contender:
    run = partial(_expected if exact else _sampled, method)
    law = f"exact law; at most {COUNT_POINTS} values stand for its noisy count of users" if method in ("default", "regret") else "exact law"
    return Contender(method, about, law if exact else "runs", partial(_promise, method), run, partial(_refusal, method))


def _refusal(method: str, setting: Setting) -> str | None:
    """Why a learner does not fit the class of rules or the parameters, in its own words; None if it does."""
    try:
        for epsilon in setting.epsilons:
            _learner(method, setting, epsilon)
    except (PrivpacError, TypeError) as error:
        return " ".join(str(error).split())
    return None


# DP-SGD

USUAL = NoisyGradients()


def dp_sgd(how: NoisyGradients = USUAL, name: str = "dp-sgd") -> Contender:
    """Logistic regression by noisy gradients with these parameters."""

    def run(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
        people = setting.population
        noise = np.array([how.noise(epsilon, setting.delta) for epsilon in setting.epsilons])
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
        return f"({float(epsilon):g}, {float(setting.delta):g})-DP per user, add-remove (floating-point noise)"

    about = f"user-level logistic regression, {how.steps} steps, clip {how.clip:g}, rate {how.rate:g}"
    missing = "dp-accounting is not installed (pip install dp-accounting)"
    return Contender(name, about, "runs", promise, run, lambda setting: None if accountant_installed() else missing)


# diffprivlib, in a Python of its own


def _records(data: UserData, cap: int) -> UserData:
    return data.max_records(cap)


def _peer(model: str, way: str) -> Contender:
    def run(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
        people, cap = setting.population, 1 if way == "one" else setting.cap
        kept = [_records(data, cap) for data in datasets]
        job: dict[str, Any] = {"model": model, "runs": setting.runs, "seed": setting.seed, "datasets": len(kept)}
        job |= {"epsilons": np.array([float(epsilon / cap) for epsilon in setting.epsilons])}
        job |= {"points": features_of_users(people, people.points), "costs": people.costs}
        for i, data in enumerate(kept):
            job |= {f"x{i}": features_of_users(people, data.codes), f"y{i}": data.labels}
        return np.asarray(_in_peers(setting.peers, job)) - people.best_error

    def promise(setting: Setting, epsilon: Fraction) -> str:
        if way == "one":
            return f"({float(epsilon):g}, 0)-DP per row, one row per user"
        return f"({float(epsilon):g}, 0)-DP per user by group privacy: {setting.cap} rows at {float(epsilon / setting.cap):g}"

    words = {"logistic": "logistic regression", "bayes": "Gaussian naive Bayes", "tree": "decision tree of depth 1"}
    about = f"diffprivlib {words[model]}, {'one record per user' if way == 'one' else 'group privacy'}"
    missing = "diffprivlib runs in a Python of its own: name one with --peers"
    return Contender(f"diffprivlib-{model}-{way}", about, "runs", promise, run, lambda setting: None if setting.peers else missing)


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
            command = [str(python), peer_models.__file__, str(file)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=quiet)
        except OSError as error:
            raise ParameterError(f"{str(python)!r} cannot be run ({error.strerror}); name a Python that has diffprivlib") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ParameterError(
            f"{str(python)!r} could not fit diffprivlib's models: {last}; pip install diffprivlib==0.6.6 scikit-learn==1.6.1"
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

_EXACT = ("regret", "mean", "realizable")
"""Learners whose law over a class is a law over blocks of rules; the default is one of them."""

_RUN = ("agnostic", "direct", "search", "surrogate")
"""Learners whose law is a mixture that costs more than a few runs."""

CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        _own("default", "what pp.learn runs when only epsilon is given"),
        *(_own(name, METHODS[name].about, exact=True) for name in _EXACT),
        *(_own(name, METHODS[name].about, exact=False) for name in _RUN),
        _own("one-record", "the default on one record of each user"),
        _own("group", "the default per record, by group privacy"),
        dp_sgd(),
        *(_peer(model, way) for model in peer_models.MODELS for way in ("one", "group")),
        Contender("erm", "the best rule on the data set", "exact", _NOBODY, _erm),
        Contender("constant", 'the better of "always" and "never"', "exact", _NOBODY, _constant),
    )
}
