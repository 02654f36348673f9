"""List learners, reduction trees, intervals and solved parities by name: planted rules, privacy on every pair,
refusals, manifests, plans that promise nothing for them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import privpac as pp
from privpac.auditing.exact import Dataset, audit_exact, datasets
from privpac.device.littlestone import MOST_ENTRIES, SmallClassLists, ValueTable
from privpac.device.scores import CutScores
from privpac.device.tasks import Task, check_work
from privpac.errors import ParameterError, PrivpacError, TooLargeError
from privpac.law import BOTTOM
from privpac.methods.agreement.agreement_learner import AgreedRule, AgreementLearner
from privpac.protocols import LocalProtocol, Manifest
from privpac.protocols.agreement_plan import agreement_target
from privpac.result import Released
from privpac.rules.base import Frozen

SEED = b"a public seed of thirty-two byte"


def people(n: int, m: int, sizes: tuple[int, ...], label: Any) -> pp.UserData:
    rows = np.random.default_rng(1).integers(0, sizes, (n, m, len(sizes))).tolist()
    features = {f"x{j}": pp.Integers(0, size - 1) for j, size in enumerate(sizes)}
    return pp.UserData.from_users([[(*r, int(label(r))) for r in user] for user in rows], features=features)


PLANTED: dict[str, tuple[str, tuple[int, ...], int, Any, dict[str, int | str], str]] = {
    "cut-offs, lists": ("threshold", (12,), 300, lambda r: r[0] >= 5, {"learner": "lists"}, "x0 > 4"),
    "few errors": ("threshold", (4,), 300, lambda r: r[0] >= 2, {"learner": "lists", "share": "1/9"}, "x0 > 1"),
    "stumps, lists": ("stump", (3, 3), 300, lambda r: r[1] >= 2, {"learner": "lists"}, "x1 > 1"),
    "points, reduction": ("point", (6,), 1500, lambda r: r[0] == 3, {"learner": "reduction"}, "x0 = 3"),
    "cut-offs, reduction": (
        "threshold",
        (2,),
        1500,
        lambda r: r[0] >= 1,
        {"learner": "reduction", "parts": 3},
        "x0 > 0",
    ),
    "parity, solved": (
        "parity",
        (2,) * 30,
        80,
        lambda r: (r[3] + r[17]) % 2,
        {"learner": "solve"},
        "an odd number of x3, x17",
    ),
    "intervals": ("interval", (8,), 400, lambda r: 2 <= r[0] <= 5, {}, "2 <= x0 <= 5"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_rules_are_found_by_name_and_come_back_from_a_file(name: str) -> None:
    rule, sizes, m, label, task, words = PLANTED[name]
    data = people(20, m, sizes, label)
    released = pp.learn(data, rule, epsilon=2, delta="1e-4", method="agreement", task=task, seed=SEED)
    assert released.outcome == "released"
    assert released.value.condition() == words
    again = Released.from_json(released.to_json())
    assert again.value.condition() == words
    shown = pp.simulate_agreement(rule, data, task=task, seeds=2, public=True)
    assert (shown.share, shown.error) == (1, 0)


def test_people_with_too_few_records_say_nothing() -> None:
    task = Task("threshold", (4,), (("learner", "lists"),))
    learner = task.learner
    assert isinstance(learner, SmallClassLists)
    needed = learner.race.min_records
    x = np.arange(needed) % 4
    assert learner.item(x, x >= 2, SEED) is not None
    assert learner.item(x[1:], x[1:] >= 2, SEED) is None
    assert Task("threshold", (4,), task.parameters, min_records=needed + 1).learner.item(x, x >= 2, SEED) is None


def test_every_table_of_values_is_a_rule_or_shown_as_itself() -> None:
    sizes = (2, 3)
    learner = Task("stump", sizes, (("learner", "lists"),)).learner
    points = np.array(list(product(range(2), range(3))))
    own = [tuple(CutScores(sizes).rule(h).predict(points).tolist()) for h in range(sum(CutScores(sizes).sizes))]
    columns = Frozen((("a", pp.Integers(0, 1)), ("b", pp.Integers(0, 2))))
    for number in range(1 << 6):
        item = learner.universe.item(number)
        rule, bits = learner.decode(item), tuple(number >> j & 1 for j in range(6))
        assert rule is not None
        assert tuple(rule.predict(points).tolist()) == bits
        assert isinstance(rule, ValueTable) == (bits not in own)
        assert AgreedRule("stump", columns, item, (("learner", "lists"),)).condition()
    for number in (1 << 6, 255):
        assert learner.decode(learner.universe.item(number)) is None
    odd = AgreedRule("stump", columns, bytes([0b010001]), (("learner", "lists"),))
    assert odd.condition() == "a = 0 and b = 0 or a = 1 and b = 1"


@pytest.mark.parametrize("kind", ["threshold", "threshold-below", "stump", "point", "interval", "parity"])
@pytest.mark.parametrize("learner", ["lists", "reduction"])
def test_the_default_says_never_and_a_client_takes_the_manifest(kind: str, learner: str) -> None:
    features = {"x": pp.Integers(0, 1)}
    run = LocalProtocol(kind, features, 1, task={"learner": learner, "parts": 2})
    assert Manifest.read(run.manifest.write()).task == run.manifest.task
    task = run.manifest.task
    check_work(task)
    rule = AgreedRule(kind, Frozen(tuple(features.items())), task.default, task.parameters)
    assert rule.condition() == "never"


# Privacy

LINE = {"x": pp.Integers(0, 2)}
KINDS: list[tuple[tuple[int, int], ...]] = [
    (),
    ((0, 1),) * 5,
    ((0, 0), (1, 0), (2, 1), (2, 1), (1, 0)),
    ((0, 0), (1, 1), (2, 1), (2, 1), (1, 1)),
    ((0, 1), (1, 0), (2, 1), (2, 1), (1, 0)),
]


def _learner(relation: str, task: dict[str, int | str], **more: Any) -> AgreementLearner:
    concept = pp.Thresholds(LINE["x"], feature="x")
    return AgreementLearner(concept, 1, neighbours=relation, task=task, seed=SEED, **more)


def _build(users: Dataset) -> pp.UserData:
    return pp.UserData.from_users([list(user) for user in users], features=LINE)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("delta", [0, "1/50"], ids=["pure", "approximate"])
def test_lists_are_private_on_every_pair(relation: str, delta: Any) -> None:
    made = _learner(relation, {"learner": "lists", "alpha": "1", "parts": 1}, delta=delta)
    votes = [made._votes(made.bind(_build((user,)))) for user in KINDS]
    assert len({next(iter(vote), BOTTOM) for vote in votes}) >= 3
    report = audit_exact(made, datasets(KINDS, 2), build=_build)
    assert report.holds


def test_a_law_that_listens_twice_is_caught() -> None:
    made = _learner("add-remove", {"learner": "lists", "alpha": "1", "parts": 1})

    def twice(users: Any) -> Any:
        votes = {item: 4 * count for item, count in made._votes(made.bind(users)).items()}
        return made.selector(made.task_of(made.bind(users))).law(votes)

    assert not audit_exact(twice, datasets(KINDS, 2), neighbours="add-remove", epsilon=1, delta=0, build=_build).holds


# Refusals


@pytest.mark.parametrize(
    ("kind", "sizes", "task", "match"),
    [
        ("threshold", (1000,), {"learner": "lists"}, f"at most {MOST_ENTRIES}"),
        ("parity", (2,) * 9, {"learner": "reduction"}, "coarser domain or fewer columns"),
        ("parity", (2,) * 23, {}, "learner='solve'"),
        ("threshold", (4,), {"learner": "oracle"}, "'race', 'lists', 'reduction'"),
        ("threshold", (4,), {"learner": "solve"}, "'race', 'lists', 'reduction'"),
        ("threshold", (4,), {"learner": "lists", "race": "dyadic"}, "does not use 'race'"),
        ("threshold", (4,), {"learner": "reduction", "share": "1/9"}, "does not use 'share'"),
        ("threshold", (4,), {"parts": 3}, "does not use 'parts'"),
        ("threshold", (4,), {"learner": "lists", "cells": 3}, "takes"),
        ("threshold", (4,), {"learner": "lists", "alpha": "0"}, "alpha"),
        ("threshold", (4,), {"learner": "lists", "alpha": "2"}, "alpha"),
        ("threshold", (4,), {"learner": "lists", "share": "1"}, "share"),
        ("threshold", (4,), {"learner": "lists", "parts": 0}, "parts"),
        ("threshold", (4,), {"learner": "lists", "parts": "9"}, "integer"),
        ("parity", (2,) * 30, {"learner": "solve", "Gamma": 3}, "does not use 'Gamma'"),
        ("parity", (3,), {"learner": "solve"}, "two values"),
        ("interval", (4, 4), {}, "one column"),
        ("interval", (10,), {"cells": 11}, "cells"),
    ],
)
def test_refusals_name_what_is_allowed(kind: str, sizes: Any, task: Any, match: str) -> None:
    with pytest.raises(PrivpacError, match=match):
        Task(kind, sizes, tuple(task.items()))


def test_a_class_too_large_is_refused_before_anything_is_spent() -> None:
    data = people(3, 5, (1000,), lambda r: r[0] > 3)
    with pytest.raises(TooLargeError, match="every rule at every point"):
        pp.learn(data, "threshold", epsilon=1, delta="1e-4", method="agreement", task={"learner": "lists"})
    with pytest.raises(ParameterError, match="fewer parts or a larger alpha"):
        Task("threshold", (4,), (("learner", "lists"),), max_records=10)


def test_plans_certify_races_over_the_whole_class_alone() -> None:
    def notes(kind: str, sizes: tuple[int, ...], **task: Any) -> list[str]:
        made = Task(kind, sizes, tuple(task.items()))
        target = agreement_target(made, epsilon=1, alpha="1/10", model="local")
        return [line.key for line in target.methods()]

    assert "agreement proved" in notes("threshold", (9,))
    assert "agreement proved" in notes("interval", (9,))
    assert "agreement proved" not in notes("interval", (900,))
    assert "agreement proved" not in notes("threshold", (9,), learner="lists")
    assert "agreement proved" not in notes("parity", (2,) * 30, learner="solve")
