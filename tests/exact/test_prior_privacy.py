"""Hybrid selection with public weights is epsilon-DP per user, decided exactly, and weights that follow the data are
not.

Laws are over pairs (score, rule), which is more than is released.  Bases are small data sets and crowds; every kind of
user is added to each of them (under replace: put in the place of another).
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import pytest

from privpac.auditing import Universe, audit_exact
from privpac.data import Domain, Grid, Integers, UserData
from privpac.law import Law
from privpac.law.weights import Weights
from privpac.methods import HybridSelection
from privpac.rules import Intervals, Points, Stumps, Thresholds
from privpac.rules.priors import column_weights

RELATIONS = ["add-remove", "replace"]
User = tuple[tuple[int, ...], ...]

NOBODY: User = ()
KINDS: list[User] = [
    NOBODY,
    ((0, 1),),
    ((11, 0),),
    ((3, 1), (5, 0), (3, 1)),
    ((0, 1),) * 4 + ((11, 0),) * 5,
    ((11, 1),) * 5 + ((11, 0),) * 4,
    ((2, 0),) * 3 + ((2, 1),) * 6 + ((7, 1),) * 4 + ((7, 0),) * 4,
]
CROWD = (((0, 1),),) * 30 + (((5, 1), (5, 0), (2, 1)),) * 20
BASES: list[tuple[User, ...]] = [(), *((kind,) for kind in KINDS[1:5]), (KINDS[5], KINDS[6]), CROWD]


def around(neighbours: str) -> Universe:
    grown = {tuple(sorted((*base, kind))) for base in BASES for kind in KINDS}
    bases = {tuple(sorted(base)) for base in BASES} if neighbours == "add-remove" else set()
    return Universe(tuple(sorted(grown | bases)))


def people(users: tuple[User, ...], domain: Domain) -> UserData:
    return UserData.from_users([list(records) for records in users], features={"x": domain})


TWELVE = Integers(0, 11)
HINTED = Integers(0, 11, typical=(2, 5))
CLASSES: list[Any] = [
    (Thresholds(prior="scale-free"), TWELVE),
    (Thresholds(prior="scale-free", direction="both"), Integers(-4, 11)),
    (Thresholds(), HINTED),
    (Thresholds(prior="scale-free"), Grid(0, 11, "0.25")),
    (Points(prior="scale-free", zero=True), HINTED),
    (Intervals(prior="scale-free"), HINTED),
]


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(("concept", "domain"), CLASSES)
def test_weights_that_follow_the_domain_cancel(concept: Any, domain: Domain, neighbours: Any) -> None:
    universe = around(neighbours)
    for epsilon, levels in ((Fraction(1), 840), (Fraction(1, 2), 12)):
        learner = HybridSelection(concept, epsilon, neighbours=neighbours, levels=levels)
        laws: dict[Any, Law] = {users: learner.law(people(users, domain)) for users in list[Any](universe)}
        audit = audit_exact(lambda users: laws[users], universe, neighbours=neighbours, epsilon=epsilon)  # noqa: B023
        assert audit.pairs > 0
        assert audit.holds
        # Much of the budget is used, so that weights that move would show.
        assert float(audit.epsilon_found) > 0.7 * float(epsilon)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_weights_that_follow_the_largest_record_are_caught(neighbours: Any) -> None:
    """The same scores and rate, with a typical range up to the largest record; and without that switch it holds."""

    def audited(wrong: bool) -> Any:
        learner = HybridSelection(Thresholds(prior="scale-free"), 1, neighbours=neighbours)

        def law(users: Any) -> Law:
            bound = learner.bind(people(users, TWELVE))
            largest = max((x for records in users for x, _ in records), default=0)
            domain = Integers(0, 11, typical=(0, largest)) if wrong else TWELVE
            weights = column_weights([domain], 1, "scale-free")
            assert isinstance(weights, Weights)
            return learner.scores(bound).law(learner.rate(learner.epsilon, learner.levels), weights=weights)

        return audit_exact(law, around(neighbours), neighbours=neighbours, epsilon=1)

    assert audited(wrong=False).holds
    assert not audited(wrong=True).holds
    assert float(audited(wrong=True).epsilon_found) > 1.2


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_columns_of_different_size(neighbours: Any) -> None:
    columns = {"a": Integers(0, 1), "b": Integers(-3, 20, typical=(0, 4))}
    kinds = [(), ((0, 1, 1),), ((0, 4, 1), (1, 20, 0), (0, -3, 1)), ((1, 0, 1),) * 4 + ((1, 7, 0),) * 5]
    universe = Universe(tuple(users for n in range(3) for users in combinations_with_replacement(sorted(kinds), n)))
    learner = HybridSelection(Stumps(prior="scale-free"), 1, neighbours=neighbours)

    def law(users: Any) -> Law:
        return learner.law(UserData.from_users([list(records) for records in users], features=columns))

    assert audit_exact(law, universe, neighbours=neighbours, epsilon=1).holds
