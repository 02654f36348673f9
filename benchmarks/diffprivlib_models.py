"""Models of diffprivlib, fitted in a Python that has it: run as a script by path, with numpy and diffprivlib and
nothing of this package.

    python diffprivlib_models.py JOB.npz

A job holds, for every data set, rows of features in -1..1 with labels, and for the truth distinct points with what
saying 0 and saying 1 costs there.  Bounds, norms and (where the model takes them) classes are given, so that the
library reads nothing off the data. Prints one line of JSON: the error of every (epsilon, data set, run).  Data with one
label only, which some of its models refuse, count as the constant of that label.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib import import_module
from typing import Any

import numpy as np

__all__ = ["MODELS", "fit", "main"]

MODELS = {"logistic": "LogisticRegression", "bayes": "GaussianNB", "tree": "DecisionTreeClassifier"}


def fit(model: str, epsilon: float, x: Any, y: Any, seed: int) -> Any:
    """A fitted model, protecting one row at ``epsilon``."""
    models, width = import_module("diffprivlib.models"), x.shape[1]
    bounds = (-np.ones(width), np.ones(width))
    given: dict[str, dict[str, Any]] = {
        "logistic": {"data_norm": float(np.sqrt(width))},
        "bayes": {"bounds": bounds},
        "tree": {"bounds": bounds, "classes": [0, 1], "max_depth": 1},
    }
    return getattr(models, MODELS[model])(epsilon=epsilon, random_state=seed, **given[model]).fit(x, y)


def errors(job: Any) -> list[list[list[float]]]:
    """Errors by epsilon, data set and run."""
    model, runs, points, costs = str(job["model"]), int(job["runs"]), job["points"], job["costs"]
    out: list[list[list[float]]] = []
    for e, epsilon in enumerate(job["epsilons"].tolist()):
        out.append([])
        for i in range(int(job["datasets"])):
            x, y = job[f"x{i}"], job[f"y{i}"]
            line = []
            for run in range(runs):
                if len(np.unique(y)) < 2:
                    said = np.full(len(points), y[0] if len(y) else 0)
                else:
                    seed = int(np.random.SeedSequence([int(job["seed"]), e, i, run]).generate_state(1)[0])
                    said = fit(model, epsilon, x, y, seed).predict(points)
                line.append(float(np.where(said == 1, costs[1], costs[0]).sum()))
            out[-1].append(line)
    return out


def main() -> None:
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1]) as job:
        sys.stdout.write(json.dumps(errors(job)) + "\n")


if __name__ == "__main__":
    main()
