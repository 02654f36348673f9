"""Privacy does not depend on how many records anyone holds: users with 0, 1, 3 and 12 records, every neighbouring pair
decided exactly.

A pair of neighbours may exchange a user without records for one with twelve.  Counting *records* instead of users is
caught.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from privpac.auditing import Universe, audit_exact, datasets
from privpac.data import Integers, UserData
from privpac.guarantee import Neighbours, Unit
from privpac.methods.baselines import RecordsAsUsers
from privpac.methods.regret import RegretSelection
from privpac.papers.pure_agnostic.counting import UserAgnosticLearner
from privpac.papers.pure_agnostic.minimum_error import MinimumError
from privpac.papers.pure_agnostic.representations import HashedPointSet
from privpac.papers.pure_agnostic.search import ThresholdSearch
from privpac.papers.pure_agnostic.surrogate_selection import SurrogateSelection
from privpac.rules.cuts import Thresholds
from privpac.rules.points import Points

RELATIONS = ["add-remove", "replace"]
SIZES = (0, 1, 3, 12)
LONG = [((0, 1),) * 12, ((0, 0),) * 7 + ((1, 1),) * 5, ((1, 0),) * 8 + ((0, 1),) * 4]
USERS: list[Any] = [(), ((0, 1),), ((1, 0),), ((0, 1), (1, 0), (1, 0)), *LONG]
ALONE, PAIRS = datasets(USERS, 1), datasets(USERS, 2)
CROWD = tuple([((1, 1),)] * 5 + [((0, 0),) * 12] * 3)
IN_A_CROWD = Universe(tuple((*CROWD, user) for user in USERS) + (CROWD,))


def build(users: Any) -> UserData:
    return UserData.from_users([list(user) for user in users], features={"x": Integers(0, 1)})


def found(learner: Any, universe: Universe, **claim: Any) -> Any:
    audit = audit_exact(learner, universe, build=build, **claim)
    assert audit.pairs > 0
    return audit


def learners(neighbours: str) -> dict[str, Any]:
    shape: dict[str, Any] = {"epsilon": 1, "neighbours": neighbours}
    tolerance = {0: 0, 1: 0, 3: 1, 12: 4}
    estimate: dict[str, Any] = {"sizes": SIZES, "radius": "1/4"}
    rules = HashedPointSet(Integers(0, 1), ((1, 0), (2, 1)), 2, 11, zero=True)
    return {
        "regret": RegretSelection(Thresholds(), **shape, public_n_users=2),
        "regret, many users": RegretSelection(Thresholds(), **shape, public_n_users=10**6),
        "mean": RegretSelection(Thresholds(), **shape, statistic="mean"),
        "t(m_i)": SurrogateSelection(Thresholds(), **shape, tolerance=tolerance),
        "hashed points": SurrogateSelection(Points(), **shape, hypotheses=rules, tolerance=tolerance),
        "least error, one selection": MinimumError(Thresholds(), **shape, **estimate),
        "least error, bisection": MinimumError(Thresholds(), **shape, **estimate, estimator="bisect"),
        "t(m_i) from an estimate": UserAgnosticLearner(Thresholds(), **shape, **estimate),
        "search": ThresholdSearch(Thresholds(), **shape, tolerance=tolerance, rounds=2),
    }


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", list(learners("replace")))
def test_users_with_very_different_numbers_of_records_are_protected_alike(name: str, neighbours: str) -> None:
    learner = learners(neighbours)[name]
    assert found(learner, ALONE if name.startswith("t(m_i) from") else PAIRS).holds
    assert found(learner, IN_A_CROWD).holds


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_every_table_of_tolerances_is_private(neighbours: str) -> None:
    for table in ({0: 0, 1: 0, 3: 2, 12: 0}, {0: 3, 1: 1, 3: 0, 12: 11}, lambda m: (m * m + 1) % 5):
        assert found(
            SurrogateSelection(Thresholds(), Fraction(1), Neighbours(neighbours), tolerance=table), PAIRS
        ).holds


def test_counting_records_instead_of_users_is_caught() -> None:
    """As if each record were a user: one person with twelve records then weighs twelve times."""
    item = SurrogateSelection(Thresholds(), Fraction(1), unit=Unit.ITEM)
    audit = found(lambda data: item.law(RecordsAsUsers(data)), IN_A_CROWD, neighbours="add-remove", epsilon=1)
    assert not audit.holds
    assert float(audit.epsilon_found) > 4
