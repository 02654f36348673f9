"""Other people's methods as contenders of ``privpac.planning.comparison.compare``: DP-SGD, and the models of
diffprivlib."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import diffprivlib_models
import numpy as np
from diffprivlib_models import MODELS
from noisy_gradients import NoisyGradients, accountant_installed, train

from privpac.arrays import Floats64
from privpac.data import UserData
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours
from privpac.planning.comparison import Contender, Population, Setting, runs_in_words
from privpac.rules.populations import features_of_users

__all__ = ["diffprivlib_model", "diffprivlib_models_of", "dp_sgd", "peer_rows"]

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


def diffprivlib_model(model: str, way: str, python: str | Path) -> Contender:
    def run(setting: Setting, datasets: Sequence[UserData]) -> Floats64:
        people, cap = setting.population, 1 if way == "one" else setting.cap
        job: dict[str, Any] = {"model": model, "runs": setting.runs, "seed": setting.seed, "datasets": len(datasets)}
        job |= {"epsilons": np.array([float(epsilon / cap) for epsilon in setting.epsilons])}
        job |= {"points": features_of_users(people, people.points), "costs": people.costs}
        for i, data in enumerate(datasets):
            job[f"x{i}"], job[f"y{i}"] = peer_rows(people, data, cap, setting.neighbours)
        return np.asarray(_in_peers(Path(python), job)) - people.best_error

    def promise(setting: Setting, epsilon: Fraction) -> str:
        same = setting.neighbours is Neighbours.REPLACE
        if way == "one":
            return f"({float(epsilon):g}, 0)-DP per {'user, replace' if same else 'row'}, one row per user"
        shares = f"{setting.cap} rows at {float(epsilon / setting.cap):g}"
        return f"({float(epsilon):g}, 0)-DP per user{', replace,' if same else ''} by group privacy: {shares}"

    words = {"logistic": "logistic regression", "bayes": "Gaussian naive Bayes", "tree": "decision tree of depth 1"}
    about = f"diffprivlib {words[model]}, {'one record per user' if way == 'one' else 'group privacy'}"
    return Contender(f"diffprivlib-{model}-{way}", about, runs_in_words, promise, run)


def diffprivlib_models_of(python: str | Path) -> list[Contender]:
    """All its models, both ways, fitted in a Python that has it."""
    return [diffprivlib_model(model, way, python) for model in MODELS for way in ("one", "group")]


def _in_peers(python: Path, job: dict[str, Any]) -> Any:
    """The job's answer from the other Python."""
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
