"""Tables of regions and chances of leaves are private, decided over all neighbours of a small universe.

A release is noisy sums given a rule: discrete Laplaces of rate ``eta`` on integer vectors at L1 distance ``d`` have
the largest log-ratio ``eta * d``, and reach it.  Sums add up over users, so the distances are those of single users'
vectors from nothing (add-remove) and from each other (replace), whatever the others hold.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import log
from typing import Any

import numpy as np
import pytest

from privpac.data import Integers, UserData
from privpac.evaluation.evaluator import Evaluator, RegionKernel, RuleOf, TableKernel
from privpac.methods.small_tree import RegionPass, SmallTreeLearner
from privpac.rules.scorecards import Scorecard, Scorecards
from privpac.rules.small_trees import Branch, SmallTree, SmallTrees, TreeQuestion

FEATURES = {"x": Integers(0, 3), "z": Integers(0, 1)}
RECORDS = [(x, z, y) for x, z, y in product(range(4), (0, 1), (0, 1))]
RELATIONS = ["add-remove", "replace"]
LEVELS = 7
"""At which shares of two and three records are rounded."""

COLUMNS = Scorecards(FEATURES).binned
CARD = Scorecard(COLUMNS, ((0, 1, 3, 6), (0, 2)), 3, 20)
TREE = SmallTree(
    COLUMNS,
    TreeQuestion("x", "cut", 2),
    Branch(TreeQuestion("z", "cut", 1), (1, 0)),
    Branch(TreeQuestion("x", "cut", 1), (0, 1)),
    2,
    0,
)
RULES: dict[str, Any] = {"card": CARD, "tree": TREE}


def users(most: int = 2) -> list[tuple[tuple[int, ...], ...]]:
    """Up to two records of every kind, and some with three to seven."""
    few = [user for m in range(most + 1) for user in combinations_with_replacement(RECORDS, m)]
    return [*few, (RECORDS[0], RECORDS[5], RECORDS[15]), (RECORDS[1],) * 5 + (RECORDS[9],) * 2, (RECORDS[3],) * 4]


def data(*people: tuple[tuple[int, ...], ...]) -> UserData:
    return UserData.from_users([list(user) for user in people], features=FEATURES)


def kernel(rule: Any, learner: Evaluator) -> RegionKernel:
    found = learner._kernel(RuleOf(rule), learner._regions(RuleOf(rule)))
    assert isinstance(found, RegionKernel)
    return found


def vectors(fold: Any) -> np.ndarray:
    """What every user of the universe adds."""
    return np.array([data(user).fold(fold) for user in users()], dtype=np.int64)


def farthest(each: np.ndarray, relation: str) -> int:
    """The largest L1 distance between neighbours."""
    if relation == "add-remove":
        return int(np.abs(each).sum(axis=1).max())
    return int(np.abs(each[:, None] - each[None]).sum(axis=2).max())


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("moments", [False, True])
@pytest.mark.parametrize("name", RULES)
def test_tables_of_regions_are_private(name: str, moments: bool, relation: str) -> None:
    learner = Evaluator(RULES[name], "3/2", relation, levels=LEVELS, moments=moments)
    loss = learner.noise * farthest(vectors(kernel(RULES[name], learner)), relation)
    assert loss <= Fraction(3, 2)
    assert loss > Fraction(4, 3) or moments, "the bound is attained"


@pytest.mark.parametrize("name", RULES)
def test_the_rate_of_add_remove_is_not_private_under_replace(name: str) -> None:
    learner = Evaluator(RULES[name], 1, levels=LEVELS, moments=False)
    assert learner.noise * farthest(vectors(kernel(RULES[name], learner)), "replace") == 2


def nearest(counts: np.ndarray, m: int, levels: int) -> np.ndarray:
    return (2 * levels * counts + m) // (2 * m)


def whole(counts: np.ndarray, m: int, levels: int) -> np.ndarray:
    return levels * counts


@pytest.mark.parametrize("mutation", [nearest, whole])
@pytest.mark.parametrize("relation", RELATIONS)
def test_other_shares_than_largest_remainders_are_not_private(mutation: Callable[..., Any], relation: str) -> None:
    """Rounded to the nearest, three records in three cells weigh ``3 * 2 = 6`` of 7, two in two cells 8; counted whole,
    people with more records weigh more."""
    learner = Evaluator(TREE, 1, relation, levels=LEVELS, moments=False)
    fold = kernel(TREE, learner)
    wrong = []
    for user in users():
        counts = np.zeros(8, np.int64)
        for record in user:
            counts += data((record,)).fold(fold) // LEVELS
        wrong.append(mutation(counts, max(1, len(user)), LEVELS))
    assert learner.noise * farthest(np.array(wrong), relation) > 1


@pytest.mark.parametrize("name", RULES)
def test_shares_sum_to_levels_and_merged_regions_are_the_table(name: str) -> None:
    """At 720,720 levels shares are exact up to 16 records; the products behind them are the table's at any levels."""
    for levels in (LEVELS, 720_720):
        learner = Evaluator(RULES[name], 1, levels=levels)
        fold = kernel(RULES[name], learner)
        cells = 2 * len(fold.regions.own)
        table = TableKernel(RuleOf(RULES[name]), "table", "user", levels, moments=True)
        for user, found in zip(users(), vectors(fold)):
            assert (found >= 0).all()
            assert found[:cells].sum() == (levels if user else 0)
            merged = np.zeros(4, np.int64)
            for g, own in enumerate(fold.regions.own):
                for label in (0, 1):
                    merged[2 * label + own] += found[2 * g + label]
            if levels > LEVELS:
                assert [*merged, *found[cells:]] == data(user).fold(table).tolist()


@pytest.mark.parametrize("name", RULES)
def test_sums_are_those_of_single_users(name: str) -> None:
    fold = kernel(RULES[name], Evaluator(RULES[name], 1, levels=LEVELS))
    assert (data(*users()).fold(fold) == vectors(fold).sum(axis=0)).all()


# A tree and its leaves, measured on the same people

SMALL = SmallTrees({"x": Integers(0, 2)}, depth=2)
KINDS = [(x, y) for x in range(3) for y in (0, 1)]
PEOPLE = [user for m in range(3) for user in combinations_with_replacement(KINDS, m)]


def released(learner: SmallTreeLearner, people: tuple[Any, ...]) -> tuple[list[float], list[np.ndarray]]:
    """The law of the tree at its own share, and the sums of the leaves of every tree."""
    held = UserData.from_users([list(user) for user in people], features={"x": Integers(0, 2)})
    bound = learner.bind(held)
    law = learner._law(bound)
    assert isinstance(bound.concept, SmallTrees)
    ids = range(0, bound.concept.size, 7)
    logs = [log(law.prob(tree).hi) for tree in ids]
    return logs, [bound.users.fold(RegionPass(bound.concept.decode(tree))) for tree in ids]


def loss(learner: SmallTreeLearner, x: tuple[Any, ...], y: tuple[Any, ...]) -> float:
    (p, s), (q, t) = released(learner, x), released(learner, y)
    rate = float(learner.leaf_rate)
    return max(abs(a - b) + rate * int(np.abs(u - v).sum()) for a, b, u, v in zip(p, q, s, t))


def neighbours(relation: str) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    crowd = (((0, 1), (2, 0)),) + (((0, 1),),) * 24
    if relation == "add-remove":
        return [(base, (*base, user)) for base in ((), crowd) for user in PEOPLE]
    some = PEOPLE[:7] + PEOPLE[-3:]
    return [((*base, a), (*base, b)) for base in ((), crowd) for a, b in combinations_with_replacement(some, 2)]


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_tree_with_chances_is_private(relation: str) -> None:
    learner = SmallTreeLearner(SMALL, 1, neighbours=relation, calibrate="1/4")
    worst = max(loss(learner, x, y) for x, y in neighbours(relation))
    assert 0.9 < worst <= 1 + 1e-9, "decided, and the bound is nearly attained"


class Greedy(SmallTreeLearner):
    """The tree at the whole of epsilon, beside the leaves."""

    @property
    def vote_rate(self) -> Fraction:
        return self.vote_rate_of(self.epsilon)

    def vote_rate_of(self, epsilon: Fraction) -> Fraction:
        assert isinstance(self.concept, SmallTrees)
        return self.rate(epsilon, self.concept.levels)


class OneRate(SmallTreeLearner):
    """The noise of add-remove, whatever the relation is."""

    @property
    def leaf_rate(self) -> Fraction:
        return self.epsilon * self.calibrate / 720_720


@pytest.mark.parametrize(("mutation", "relation"), [(Greedy, "add-remove"), (Greedy, "replace"), (OneRate, "replace")])
def test_a_tree_that_spends_the_share_of_its_leaves_is_not_private(mutation: Any, relation: str) -> None:
    learner = mutation(SMALL, 1, neighbours=relation, calibrate="1/4")
    assert max(loss(learner, x, y) for x, y in neighbours(relation)) > 1.1


def test_zcdp_of_a_tree_with_chances_counts_the_noise_of_its_leaves() -> None:
    """A discrete Laplace of ``c`` costs ``c**2/2``, a bounded range of ``c`` an eighth of its square."""
    learner = SmallTreeLearner(SMALL, 1, calibrate="9/10")
    assert learner.guarantee.rho == Fraction(1, 800) + Fraction(81, 200)
