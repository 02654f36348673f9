"""Other libraries' private models on wide tables, in an environment of their own (numpy, diffprivlib, interpret).

    python wide_models.py JOB.npz ANSWER.npz

A job holds training sets of *one row per person* and rows to predict; bounds, norms, classes and kinds of columns are
given, so that nothing is read off the data beyond what a library itself reads.  The answer holds a 0/1 prediction for
every (model, set, epsilon, draw).  Both libraries protect single rows, so with one row a person they protect people:

* diffprivlib's row is *changed*, and the number of rows public: it is given twice the epsilon, which is what a method
  of epsilon under add-remove promises when somebody is replaced;
* DP-EBM's noise is made for a row that is added or removed, at ``(epsilon, delta)``.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

FOREST = {"n_estimators": 10, "max_depth": 4}


def logistic(x: Any, y: Any, epsilon: float, seed: int) -> Any:
    from diffprivlib.models import LogisticRegression

    return LogisticRegression(epsilon=2 * epsilon, data_norm=float(np.sqrt(x.shape[1])), random_state=seed).fit(x, y)


def bayes(x: Any, y: Any, epsilon: float, seed: int) -> Any:
    from diffprivlib.models import GaussianNB

    bounds = (-np.ones(x.shape[1]), np.ones(x.shape[1]))
    return GaussianNB(epsilon=2 * epsilon, bounds=bounds, random_state=seed).fit(x, y)


def forest(x: Any, y: Any, epsilon: float, seed: int) -> Any:
    from diffprivlib.models import RandomForestClassifier

    bounds = (-np.ones(x.shape[1]), np.ones(x.shape[1]))
    model = RandomForestClassifier(epsilon=2 * epsilon, bounds=bounds, classes=[0, 1], random_state=seed, **FOREST)
    return model.fit(x, y)


def ebm(codes: Any, y: Any, epsilon: float, seed: int, widths: Any, nominal: Any, delta: float) -> Any:
    from interpret.privacy import DPExplainableBoostingClassifier

    model = DPExplainableBoostingClassifier(
        feature_types=["nominal" if is_name else "continuous" for is_name in nominal],
        privacy_bounds=np.array([[0.0, max(1, w - 1)] for w in widths]),
        epsilon=epsilon,
        delta=delta,
        n_jobs=1,
        random_state=seed,
    )
    return model.fit(_named(codes, nominal), y)


def _named(codes: Any, nominal: Any) -> Any:
    import pandas as pd

    columns = {
        f"x{j}": codes[:, j].astype(str) if nominal[j] else codes[:, j].astype(float) for j in range(len(nominal))
    }
    return pd.DataFrame(columns)


def main() -> None:
    warnings.simplefilter("ignore")
    job, answer = np.load(sys.argv[1]), {}
    widths, nominal, delta = job["widths"], job["nominal"], float(job["delta"])
    for i in range(int(job["sets"])):
        x, codes, y = job[f"x{i}"], job[f"codes{i}"], job[f"y{i}"]
        to_x, to_codes = job["x"][job[f"tested{i}"]], job["codes"][job[f"tested{i}"]]
        for e, epsilon in enumerate(job["epsilons"].tolist()):
            for draw in range(int(job["draws"])):
                seed = int(np.random.SeedSequence([i, e, draw]).generate_state(1)[0] >> 1)
                for name, fit in (("logistic", logistic), ("bayes", bayes), ("forest", forest)):
                    key = f"diffprivlib-{name}/{i}/{e}/{draw}"
                    if len(np.unique(y)) < 2:
                        answer[key] = np.full(len(to_x), y[0], np.int8)
                    else:
                        answer[key] = np.asarray(fit(x, y, epsilon, seed).predict(to_x)).astype(np.int8)
                model = ebm(codes, y, epsilon, seed, widths, nominal, delta)
                answer[f"dp-ebm/{i}/{e}/{draw}"] = np.asarray(model.predict(_named(to_codes, nominal))).astype(np.int8)
    np.savez_compressed(sys.argv[2], **answer)


if __name__ == "__main__":
    main()
