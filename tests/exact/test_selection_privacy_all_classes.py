"""Selection is epsilon-DP over every class of rules: decided on all neighbouring pairs of small universes.

Universes: all datasets of up to two users, each without records, with one record or with two, and crowds of 24 equal
users where the loss comes close to epsilon.  The mistakes that the proofs rule out must be caught.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest

from privpac.auditing import audit_exact
from privpac.auditing.exact import Dataset, datasets
from privpac.data import Categories, Domain, Integers, UserData
from privpac.law import Law
from privpac.methods.realizable import RealizableSelection
from privpac.methods.regret import RegretSelection
from privpac.rules import (
    Conjunctions,
    DecisionLists,
    Disjunctions,
    FiniteClass,
    Halfspaces,
    Intervals,
    Parities,
    Points,
    Rectangles,
    Stumps,
    Thresholds,
    TreeNodes,
    VC1Tree,
)
from privpac.rules.base import ConceptClass

RELATIONS = ["replace", "add-remove"]
LINE: dict[str, Domain] = {"x": Integers(0, 2)}
NAMES: dict[str, Domain] = {"x": Categories([2, 0, 1])}
BESIDE: dict[str, Domain] = {"a": Categories([1, 0]), "b": Integers(0, 1)}
PLANE: dict[str, Domain] = {"a": Integers(0, 1), "b": Integers(0, 1)}

CLASSES: dict[str, tuple[ConceptClass, Mapping[str, Domain]]] = {
    "thresholds above": (Thresholds(), LINE),
    "thresholds below": (Thresholds(direction="below"), LINE),
    "thresholds both": (Thresholds(direction="both"), LINE),
    "stumps": (Stumps(), PLANE),
    "stumps of names": (Stumps(), NAMES),
    "stumps of names and numbers": (Stumps(), BESIDE),
    "points": (Points(), LINE),
    "points and zero": (Points(zero=True), LINE),
    "intervals": (Intervals(), LINE),
    "rectangles": (Rectangles(PLANE), PLANE),
    "conjunctions": (Conjunctions(PLANE), PLANE),
    "disjunctions": (Disjunctions(PLANE), PLANE),
    "finite": (FiniteClass(np.array([[0, 0, 1], [1, 0, 1], [1, 1, 0], [1, 1, 0]]), LINE["x"]), LINE),
    "parities": (Parities(PLANE), PLANE),
    "nodes of a tree": (TreeNodes(VC1Tree.from_matrix([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]], root=0)), LINE),
    "decision lists": (DecisionLists(PLANE, length=2), PLANE),
    "halfspaces": (Halfspaces({"a": Integers(0, 1), "b": Integers(0, 1)}, weights=1, cuts=2), PLANE),
}


def records(columns: Mapping[str, Domain]) -> list[tuple[int, ...]]:
    points = [(x,) for x in range(3)] if len(columns) == 1 else [(a, b) for a in (0, 1) for b in (0, 1)]
    return [(*point, y) for point in points for y in (0, 1)]


def kinds(columns: Mapping[str, Domain]) -> list[Any]:
    """No record; every single record; two records that agree, that contradict each other, and that lie apart."""
    one = records(columns)
    return [(), *((r,) for r in one), (one[0], one[0]), (one[2], one[3]), (one[1], one[4]), (one[-1], one[-1])]


def builder(columns: Mapping[str, Domain]) -> Any:
    return lambda users: UserData.from_users([list(user) for user in users], features=dict(columns))


def around(bases: Iterable[Dataset], types: Iterable[Any]) -> set[Dataset]:
    listed = list(types)
    return {tuple(sorted(base)) for base in bases} | {tuple(sorted((*base, kind))) for base in bases for kind in listed}


def learners(concept: ConceptClass, neighbours: str) -> list[Any]:
    return [
        RegretSelection(concept, 1, neighbours=neighbours, public_n_users=3, levels=4),
        RegretSelection(concept, 1, neighbours=neighbours, statistic="mean", levels=2),
        RealizableSelection(concept, 1, neighbours=neighbours),
        RealizableSelection(concept, 1, neighbours=neighbours, tolerance={0: 0, 2: 1}, max_records=2),
    ]


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", CLASSES)
def test_selection_is_private_on_every_class(name: str, neighbours: str) -> None:
    concept, columns = CLASSES[name]
    types = kinds(columns)
    small = datasets(types[:: 2 if neighbours == "replace" else 1], 2)
    crowd = around([(types[-5],) * 24, (types[-5],) * 24 + (types[1],) * 2], types)
    build = cache(builder(columns))
    for learner in learners(concept, neighbours):
        audit = audit_exact(learner, {*small, *crowd}, build=build)
        assert audit.holds, audit.explain()
        assert audit.epsilon_found > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("name", ["thresholds both", "intervals", "finite", "parities"])
def test_selection_is_private_on_all_datasets_of_two_users(name: str) -> None:
    concept, columns = CLASSES[name]
    for learner in learners(concept, "replace")[::2]:
        assert audit_exact(learner, datasets(kinds(columns), 2), build=builder(columns)).holds


# The whole default: a noisy count, then the selection that follows it


def test_count_and_selection_together_keep_epsilon() -> None:
    """Users of 0, 1, 2, 4 and 5 records on two points, so that the clip does follow the count."""
    columns = {"x": Integers(0, 1)}
    learner = RegretSelection(Thresholds(), 2, levels=4)
    assert (learner.epsilon_count, learner.epsilon_selection) == (learner.epsilon / 16, 15 * learner.epsilon / 16)

    def law(users: Dataset) -> Law:
        data = builder(columns)(users)
        return learner.count_law(data, cap=300).bind(
            lambda n: learner.law(data, given=n // 75 * 75).map(lambda h: (n // 75, h))
        )

    types = [(), ((0, 1),), ((0, 0), (1, 1)), ((0, 0),) * 4, ((0, 0), (0, 0), (1, 0), (1, 1), (1, 1))]
    clips = {learner.statistic_for(learner.bind(builder(columns)(())), n).cap_of(5) for n in range(0, 301, 75)}
    assert len(clips) > 1
    audit = audit_exact(law, around([(), (types[3],) * 8], types), neighbours="add-remove", epsilon=2)
    assert audit.holds, audit.explain()


# Mistakes that must be caught


def test_the_add_remove_rate_under_replace_is_caught() -> None:
    concept, columns = CLASSES["thresholds above"]
    for learner in learners(concept, "add-remove")[::2]:
        universe = around([(((2, 0),),) * 24], [((0, 1),), ((2, 0),), ((0, 0),), ((2, 1),)])
        audit = audit_exact(learner, universe, neighbours="replace", epsilon=1, build=builder(columns))
        assert not audit.holds
        assert audit.epsilon_found == pytest.approx(2, abs=0.01)


def test_a_clip_that_follows_the_true_number_of_users_is_caught() -> None:
    columns = {"x": Integers(0, 1)}
    learner = RegretSelection(Thresholds(), 2, public_n_users=0, levels=4)

    def law(users: Dataset) -> Law:
        return learner.law(builder(columns)(users), given=len(users))

    heavy = ((0, 0),) * 4 + ((1, 1),)
    sizes = [n for n in range(97) if _clip(learner, columns, n) != _clip(learner, columns, n + 1)]
    audit = audit_exact(
        law, [(heavy,) * n for edge in sizes for n in (edge, edge + 1)], neighbours="add-remove", epsilon=2
    )
    assert sizes
    assert not audit.holds
    assert audit.epsilon_found > 20
    assert audit_exact(learner, [(heavy,) * n for n in (sizes[-1], sizes[-1] + 1)], build=builder(columns)).holds


def _clip(learner: RegretSelection, columns: Mapping[str, Domain], n: int) -> int:
    return learner.statistic_for(learner.bind(builder(columns)(())), n).cap_of(5)


def test_a_baseline_of_the_pooled_data_is_caught() -> None:
    """Regret against the rule that is best for everybody: one user decides everybody's baseline."""

    def mistakes(user: Any, cut: int) -> int:
        return sum((x >= cut) != bool(y) for x, y in user)

    def law(users: Dataset) -> Law:
        listed: list[Any] = list(users)
        best = min(range(4), key=lambda cut: sum(mistakes(user, cut) for user in listed))
        scores = [
            sum(min(1, max(0, mistakes(user, cut) - mistakes(user, best))) for user in listed) for cut in range(4)
        ]
        return Law.from_blocks(score=scores, eta=1)

    crowd = (((0, 0),),) * 12 + (((0, 1),),) * 12
    audit = audit_exact(law, around([crowd], [((0, 0),), ((0, 1),)]), neighbours="add-remove", epsilon=1)
    assert not audit.holds
    assert audit.epsilon_found > 10


def test_a_cap_read_from_the_data_is_caught() -> None:
    """A clip from the largest, or a cap from the smallest number of records found is not private."""
    columns = {"x": Integers(0, 1)}
    build = builder(columns)

    def regret(users: Dataset) -> Law:
        most = max((len(user) for user in users), default=1)  # type: ignore[arg-type]
        return RegretSelection(Thresholds(), 1, neighbours="replace", tau=max(1, most), levels=4).law(build(users))

    def realizable(users: Dataset) -> Law:
        least = min((len(user) for user in users if user), default=1)  # type: ignore[arg-type]
        return RealizableSelection(Thresholds(), 1, neighbours="replace", max_records=least).law(build(users))

    one, two = ((0, 0),), ((0, 0), (1, 0))
    for law, universe in [
        (regret, [(one,) * 25, (one,) * 24 + (((0, 0),) * 3,)]),
        (realizable, [(two,) * 25, (two,) * 24 + (one,)]),
    ]:
        audit = audit_exact(law, universe, neighbours="replace", epsilon=1)
        assert not audit.holds
        assert audit.epsilon_found > 5
