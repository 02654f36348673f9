"""How often people agree, by bytes and by functions, and how good the agreed rule is: races against proved queries.

    python benchmarks/agreement_learners.py [--markdown]

20 people, 6 yes/no columns, planted lists of three rules and planted separators; means over planted rules and seeds.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

import numpy as np
from common import Grid
from rich.console import Console

from privpac.device.items import LinearRule, RuleList
from privpac.device.tasks import Task

D, PEOPLE, TRIES = 6, 20, 6
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "lists, race (default)": ("decision-list", {}),
    "lists, queries": ("decision-list", {"learner": "queries", "stages": 8}),
    "separators, rounded (default)": ("halfspace", {}),
    "separators, queries": ("halfspace", {"learner": "queries"}),
    "naive Bayes": ("naive-bayes", {}),
}


def planted(kind: str, rng: np.random.Generator) -> Any:
    if kind != "decision-list":
        return LinearRule((*rng.integers(-4, 5, D).tolist(), int(rng.integers(-2, 3))))
    columns = rng.permutation(D)[:3]
    tests = tuple((int(c) + D * int(rng.integers(2)),) for c in columns)
    return RuleList(D, tests, tuple(rng.integers(0, 2, 3).tolist()), int(rng.integers(2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    points = (np.arange(1 << D)[:, None] >> np.arange(D)) & 1
    rows = []
    for name, (kind, parameters) in CASES.items():
        for m, noise in ((200, 0.0), (800, 0.0), (800, 0.1)):
            rng = np.random.default_rng(5)
            task: Any = Task(kind, (2,) * D, tuple(parameters.items())).learner
            found = []
            for number in range(TRIES):
                rule, seed = planted(kind, rng), number.to_bytes(32, "little")
                people = []
                for _ in range(PEOPLE):
                    x = rng.integers(0, 2, (m, D))
                    people.append((x, rule.predict(x) ^ (rng.random(m) < noise)))
                own = Counter(task.inner.item(x, y, seed) for x, y in people).most_common(1)[0][1]
                ((item, votes),) = Counter(task.item(x, y, seed) for x, y in people).most_common(1)
                wrong = np.mean(task.decode(item).predict(points) != rule.predict(points))
                found.append((own / PEOPLE, votes / PEOPLE, wrong))
            means = np.mean(found, axis=0)
            rows.append([name, str(m), f"{noise:g}", *(f"{value:.2f}" for value in means), str(task.universe.bits)])
    header = ["learner", "records", "label noise", "same bytes", "same function", "error", "bits"]
    Grid("Agreement", header, rows).show(Console(), markdown=options.markdown)


if __name__ == "__main__":
    main()
