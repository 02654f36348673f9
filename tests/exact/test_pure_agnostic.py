"""The pure agnostic learners are epsilon-DP on every neighbouring pair of small universes, and broken variants are not.

Users hold 0, 1 or 2 records over 2 or 3 values; datasets hold up to 3 users.  Every pair is decided exactly on the law
of *everything released*, the estimate of the least error included.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from privpac.auditing import Universe, audit_exact, datasets, user_universe
from privpac.data import Integers, UserData
from privpac.law import Law
from privpac.papers.pure_agnostic.counting import UserAgnosticLearner
from privpac.papers.pure_agnostic.minimum_error import MinimumError, PrivateCompare
from privpac.papers.pure_agnostic.representations import HashedPointSet, MajorityHypotheses, Subset
from privpac.papers.pure_agnostic.search import PrivateMedian, ThresholdSearch
from privpac.papers.pure_agnostic.surrogate_selection import SurrogateSelection
from privpac.rules.cuts import Thresholds
from privpac.rules.enumerated import FiniteClass
from privpac.rules.points import Points

RELATIONS = ["add-remove", "replace"]
TABLE = {0: 0, 1: 0, 2: 1}


def records(points: int) -> list[tuple[int, int]]:
    return [(x, y) for x in range(points) for y in (0, 1)]


@cache
def build(points: int) -> Callable[[Any], UserData]:
    domain = Integers(0, points - 1)
    return cache(lambda users: UserData.from_users([list(user) for user in users], features={"x": domain}))


TYPES = user_universe(records(2), 2)
SMALL = datasets(TYPES, 1)
PAIRS = datasets(TYPES, 2)
FEW = [(), ((0, 1),), ((1, 0),), ((0, 0), (1, 1)), ((0, 1), (1, 0)), ((0, 1), (0, 1))]
TRIPLES = datasets(FEW, 3)
ITEMS = datasets(user_universe(records(3), 1), 3)


def holds(learner: Any, universe: Universe, points: int, **claim: Any) -> bool:
    audit = audit_exact(learner, universe, build=build(points), **claim)
    assert audit.pairs > 0
    return audit.holds


# Exponential laws: the four rows


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("tolerance", [0, TABLE])
def test_plain_counts_are_private(neighbours: str, tolerance: Any) -> None:
    learner = SurrogateSelection(Thresholds(), epsilon=1, neighbours=neighbours, tolerance=tolerance)
    assert holds(learner, PAIRS, 2)
    assert holds(learner, TRIPLES, 2)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("score", ["union", "sum"])
def test_hashed_points_are_private(neighbours: str, score: str) -> None:
    rules = HashedPointSet(Integers(0, 2), ((1, 0), (2, 1)), 2, 11, zero=True)
    shape = {"epsilon": 1, "neighbours": neighbours, "hypotheses": rules, "score": score}
    assert holds(SurrogateSelection(Points(), **shape), ITEMS, 3)
    assert holds(
        SurrogateSelection(Points(), **shape, tolerance=TABLE),
        datasets([*FEW, ((2, 1), (0, 1)), ((2, 0), (2, 1))], 2),
        3,
    )


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("score", ["union", "sum"])
def test_majorities_with_forgiven_disagreements_are_private(neighbours: str, score: str) -> None:
    concepts = FiniteClass(np.array([[0, 1], [1, 0], [1, 1]]), Integers(0, 1), "x")
    rules = MajorityHypotheses(
        concepts, ((Subset(concepts, (0, 1)),), (Subset(concepts, (1, 2)),), (Subset(concepts, (0, 2)),))
    )
    learner = SurrogateSelection(
        concepts,
        epsilon=1,
        neighbours=neighbours,
        hypotheses=rules,
        score=score,
        tolerance=TABLE,
        forgiven={0: 0, 2: 1},
    )
    assert holds(learner, PAIRS, 2)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("region", ["disagreement", "closed"])
def test_the_median_is_private(neighbours: str, region: str) -> None:
    learner = PrivateMedian(Thresholds(), epsilon=1, neighbours=neighbours, region=region)
    assert holds(learner, PAIRS, 2)
    assert holds(learner, ITEMS, 3)
    assert holds(learner.with_(lower=1, upper=3, level="2/3"), ITEMS, 3)


# Estimates of the least error


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(
    ("sizes", "value", "width"),
    [
        ((0, 1, 2), "0", "1/4"),
        ((0, 1, 2), "5/8", "1/8"),
        (None, "1/4", "1/4"),
        (None, "7/8", "1/2"),
        *(
            pytest.param(sizes, value, width, marks=pytest.mark.slow)
            for sizes, value, width in [
                ((0, 1, 2), "1/4", "1/4"),
                ((0, 1, 2), "7/8", "1/2"),
                (None, "0", "1/4"),
                (None, "5/8", "1/8"),
            ]
        ),
    ],
)
def test_comparisons_are_private(neighbours: str, value: str, width: str, sizes: Any) -> None:
    learner = PrivateCompare(Thresholds(), epsilon=1, neighbours=neighbours, sizes=sizes, value=value, width=width)
    assert holds(learner, PAIRS, 2)
    assert holds(learner, TRIPLES, 2)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(("estimator", "radius"), [("bisect", "1/4"), ("oneshot", "3/16"), ("oneshot", "3/8")])
def test_estimates_are_private(neighbours: str, estimator: str, radius: str) -> None:
    learner = MinimumError(
        Thresholds(), epsilon=1, neighbours=neighbours, sizes=(0, 1, 2), radius=radius, estimator=estimator
    )
    assert holds(learner, SMALL, 2)
    assert holds(learner, TRIPLES, 2)


# Learners


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("estimator", ["bisect", "oneshot"])
def test_the_user_level_learner_is_private_with_its_estimate(neighbours: str, estimator: str) -> None:
    shape = {"sizes": (0, 1, 2), "radius": "1/4", "alpha": "1/8", "share": "1/2", "estimator": estimator}
    learner = UserAgnosticLearner(Thresholds(), epsilon=1, neighbours=neighbours, **shape)
    assert learner.estimates
    assert holds(learner, SMALL, 2)
    assert holds(learner, datasets(FEW, 2), 2)
    assert holds(learner.rule_law, datasets(FEW, 2), 2, neighbours=neighbours, epsilon=1)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_improper_user_level_learner_is_private(neighbours: str) -> None:
    rules = HashedPointSet(Integers(0, 1), ((1, 0), (2, 1)), 2, 11)
    shape = {"sizes": (0, 1, 2), "radius": "3/16", "alpha": "1/4", "hypotheses": rules}
    assert holds(UserAgnosticLearner(Points(), epsilon=1, neighbours=neighbours, **shape), datasets(FEW, 2), 2)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("branch", ["em", "dlap"])
@pytest.mark.parametrize("rounds", [1, 2])
def test_the_search_is_private(neighbours: str, branch: str, rounds: int) -> None:
    learner = ThresholdSearch(
        Thresholds(), epsilon=1, neighbours=neighbours, tolerance=TABLE, branch=branch, rounds=rounds
    )
    assert holds(learner, SMALL, 2)
    assert holds(learner, datasets(user_universe(records(3), 1), 2), 3)


@pytest.mark.parametrize("branch", ["em", "dlap"])
def test_the_search_is_private_with_its_estimate(branch: str) -> None:
    shape = {"sizes": (0, 1, 2), "radius": "1/4", "rounds": 1, "branch": branch, "estimator": "bisect"}
    for neighbours in RELATIONS:
        assert holds(ThresholdSearch(Thresholds(), epsilon=1, neighbours=neighbours, **shape), datasets(FEW, 2), 2)


# Relations


def test_replace_learners_are_also_private_under_add_remove() -> None:
    learners = [
        SurrogateSelection(Thresholds(), epsilon=1, neighbours="replace", tolerance=TABLE),
        PrivateCompare(Thresholds(), epsilon=1, neighbours="replace", sizes=(0, 1, 2)),
        ThresholdSearch(Thresholds(), epsilon=1, neighbours="replace", tolerance=TABLE, rounds=1),
    ]
    for learner in learners:
        assert holds(learner, PAIRS, 2, neighbours="add-remove")


def test_add_remove_learners_are_twice_as_weak_under_replace() -> None:
    learner = SurrogateSelection(Thresholds(), epsilon=1, tolerance=0)
    crowd = tuple([((1, 1),)] * 6)
    universe = Universe(tuple((*crowd, other) for other in FEW))
    assert not holds(learner, universe, 2, neighbours="replace", epsilon=1)
    assert holds(learner, universe, 2, neighbours="replace", epsilon=2)


# Broken variants


def test_twice_the_rate_for_the_sum_is_caught() -> None:
    """The sum moves by 2, so the rate of a score that moves by 1 is not private; the right rate is."""
    rules = HashedPointSet(Integers(0, 3), ((2, 5), (6, 1)), 2, 11)
    crowd = tuple([((1, 1),)] * 12 + [((2, 1),)] * 3)
    universe = Universe(((*crowd, ((0, 1),)), (*crowd, ((3, 0),))))
    shape = {"neighbours": "replace", "hypotheses": rules, "score": "sum"}
    doubled = audit_exact(SurrogateSelection(Points(), epsilon=2, **shape), universe, build=build(4), epsilon=1)
    assert not doubled.holds
    assert float(doubled.epsilon_found) > 1.3
    assert holds(SurrogateSelection(Points(), epsilon=1, **shape), universe, 4)


class _UnitStep(PrivateCompare):
    """Forgets that users of different sizes have different expected shares."""

    @property
    def sensitivity(self) -> Fraction:
        return Fraction(1)


def test_a_unit_step_for_unequal_sizes_is_caught() -> None:
    crowd = tuple([((0, 1),) * 6] * 5 + [((0, 0),) * 6] * 4)
    universe = Universe(((*crowd, ((0, 0),)), (*crowd, ((0, 1),) * 6)))
    shape = {"epsilon": 1, "neighbours": "replace", "sizes": (1, 6), "value": "1/4", "width": "1/8"}
    careless = audit_exact(_UnitStep(Thresholds(), **shape), universe, build=build(1))
    assert not careless.holds
    assert float(careless.epsilon_found) == pytest.approx(1.2834, abs=1e-4)
    careful = audit_exact(PrivateCompare(Thresholds(), **shape), universe, build=build(1))
    assert careful.holds
    assert float(careful.epsilon_found) == pytest.approx(1)


class _WholeBudgetTwice(ThresholdSearch):
    """Spends all of epsilon on the median and again on the branch."""

    @property
    def epsilon_step(self) -> Fraction:
        return self.epsilon_rest

    def rate(self, epsilon: Fraction, bound: int) -> Fraction:
        return super().rate(min(epsilon, self.epsilon_rest), bound)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_budget_spent_twice_is_caught(neighbours: str) -> None:
    crowd = tuple([((0, 1),)] * 10)
    near = {"add-remove": crowd, "replace": (*crowd, ((0, 1),))}[neighbours]
    universe = Universe(((*crowd, ((1, 0),)), near))
    shape = {"epsilon": 1, "neighbours": neighbours, "tolerance": 0, "rounds": 1}
    greedy = audit_exact(_WholeBudgetTwice(Thresholds(), **shape), universe, build=build(2))
    assert not greedy.holds
    assert float(greedy.epsilon_found) > 1.2
    assert holds(ThresholdSearch(Thresholds(), **shape), universe, 2)


def _bisection(data: UserData, learner: MinimumError, *, inverted: bool) -> Law:
    """The estimate from single comparisons, with the branches as they should be or exchanged."""
    compare = {"neighbours": learner.neighbours, "sizes": learner.sizes, "width": learner.radius}

    def descend(left: Fraction, right: Fraction, depth: int) -> Law:
        if depth == learner.rounds:
            return Law.point((left + min(Fraction(1), right + learner.radius)) / 2)
        middle = (left + right) / 2
        answer = PrivateCompare(Thresholds(), learner.epsilon / learner.rounds, value=middle, **compare).law(data)
        low, high = (left, middle), (middle, right)
        ways = (high, low) if inverted else (low, high)
        return answer.bind(lambda sigma: descend(*ways[sigma], depth + 1))

    return descend(Fraction(0), Fraction(1), 0)


def test_inverted_bisection_is_caught_by_its_accuracy() -> None:
    rng = np.random.default_rng(11)
    x = rng.integers(0, 8, (600, 5))
    y = (x >= 3) ^ (rng.random((600, 5)) < 0.2)
    people = UserData.from_users(
        [list(zip(a, b)) for a, b in zip(x.tolist(), y.astype(int).tolist())], features={"x": Integers(0, 7)}
    )
    learner = MinimumError(Thresholds(), epsilon=2, sizes=(5,), radius="1/8", estimator="bisect")

    def accurate(law: Law) -> float:
        return sum(law.prob_float(value) for value in law.support() if abs(value - Fraction(1, 5)) <= learner.radius)  # type: ignore[operator]

    law, straight, inverted = (
        learner.law(people),
        _bisection(people, learner, inverted=False),
        _bisection(people, learner, inverted=True),
    )
    assert float(law.total_variation(straight)) == pytest.approx(0, abs=1e-25)
    assert accurate(law) > 0.999
    assert accurate(inverted) < 0.001
