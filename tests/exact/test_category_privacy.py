"""Stumps over unordered categories: laws keep epsilon on every neighbouring pair of small universes, and three mistakes
in their fold are caught.

The fold of a mutation is written from the definition: one user and one rule at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import pytest

from privpac.auditing import audit_exact
from privpac.auditing.exact import Dataset, datasets
from privpac.data import Categories, Domain, Integers, UserData
from privpac.law import Law
from privpac.methods.hybrid import HybridSelection
from privpac.methods.realizable import RealizableSelection
from privpac.methods.regret import RegretSelection
from privpac.rules import Stumps
from privpac.rules.profile import Mean

RELATIONS = ["add-remove", "replace"]
NAMES: dict[str, Domain] = {"k": Categories([2, 0, 1])}
BESIDE: dict[str, Domain] = {"k": Categories([2, 0, 1]), "n": Integers(0, 1)}


def kinds(columns: dict[str, Domain]) -> list[Any]:
    """No record; every record alone; users of several records that agree and that do not."""
    points = list(product(*(range(domain.size) for domain in columns.values())))
    one = [(*point, y) for point in points for y in (0, 1)]
    return [
        (),
        *((record,) for record in one),
        (one[0], one[0]),
        (one[2], one[3]),
        (one[1], one[4], one[-1]),
        (one[0], one[1], one[3], one[3], one[5]),
        (one[1],) * 9,
        (one[0], one[3], one[4]) * 3,
    ]


def built(columns: dict[str, Domain]) -> Callable[[Dataset], UserData]:
    return cache(lambda users: UserData.from_users([list(user) for user in users], features=dict(columns)))


def universe(columns: dict[str, Domain]) -> set[Dataset]:
    """All datasets of up to two users, and crowds in which one rule leads, each with one user more."""
    types = kinds(columns)
    crowds = [(types[2],) * 24, (types[1],) * 12 + (types[-1],) * 12, (types[-2],) * 20]
    return (
        {*datasets(types, 2)}
        | {tuple(sorted(crowd)) for crowd in crowds}
        | {tuple(sorted((*crowd, kind))) for crowd in crowds for kind in types}
    )


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(
    "columns", [NAMES, pytest.param(BESIDE, marks=pytest.mark.slow)], ids=["names", "names and numbers"]
)
def test_stumps_of_categories_are_private(columns: dict[str, Domain], neighbours: str) -> None:
    data, build = universe(columns), built(columns)
    learners: list[Any] = [HybridSelection(Stumps(), 1, neighbours=neighbours, levels=12)]
    if columns is NAMES:
        learners += [
            HybridSelection(Stumps(direction="above"), 1, neighbours=neighbours, levels=7),
            RegretSelection(Stumps(), 1, neighbours=neighbours, public_n_users=3, levels=4),
            RealizableSelection(Stumps(), 1, neighbours=neighbours, tolerance={0: 0, 2: 1}),
        ]
    for learner in learners:
        audit = audit_exact(learner, data, build=build)
        assert audit.holds, audit.explain()
        assert audit.epsilon_found > 0.8


# Mistakes that must be caught: selection by mean mistakes, at epsilon 1 under add-remove

LEVELS = 4
MISTAKES = ["counts for rates", "a direction twice", "less for values that are held"]


def scores(users: Dataset, wrong: str = "") -> list[int]:
    """ "is c" for every category and for none, then "is not c"; mistakes are counted from the user's own best rule."""
    n, codes = NAMES["k"].size, {NAMES["k"].value(c): c for c in range(NAMES["k"].size)}
    rules = list(product((True, False), range(n + 1)))
    total = [0] * len(rules)
    for user in filter(None, users):
        held = {codes[k] for k, _ in user}
        mistakes = [sum(int((codes[k] == c) == yes) != y for k, y in user) for yes, c in rules]
        for h, (yes, c) in enumerate(rules):
            excess = LEVELS * (mistakes[h] - min(mistakes))
            total[h] += excess // (1 if wrong == "counts for rates" else len(user))
            if wrong == "a direction twice" and yes:
                total[h] += excess // len(user)
            if wrong == "less for values that are held" and c in held:
                total[h] -= LEVELS
    return total


def law(users: Dataset, wrong: str) -> Law:
    return Law.from_blocks(score=scores(users, wrong), eta=f"1/{LEVELS}")


def test_the_definition_is_the_fold() -> None:
    build = built(NAMES)
    for users in universe(NAMES):
        profile = Stumps().profile(build(users), Mean(LEVELS))
        assert [profile.score(h) for h in range(2 * NAMES["k"].size + 2)] == scores(users)


@pytest.mark.parametrize("wrong", MISTAKES)
def test_mistakes_in_the_fold_are_caught(wrong: str) -> None:
    claim: Any = {"neighbours": "add-remove", "epsilon": 1}
    assert audit_exact(lambda users: law(users, ""), universe(NAMES), **claim).holds
    assert not audit_exact(lambda users: law(users, wrong), universe(NAMES), **claim).holds
