"""Hybrid selection is epsilon-DP per user, decided exactly, and five ways to get the penalty wrong are caught.

Users hold 0, 1, 3, 5, 9, 16, 17 or 256 records; bases are small data sets and crowds of up to 300 users in which one
score or the other speaks and the optimism is below, near or above its cap.  Laws are over pairs (score, rule), which is
more than is released.  The reference below is written from the definition; mutations are its switches, and without one
it is the learner's law.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement
from math import isqrt
from typing import Any

import pytest

from privpac.auditing import Universe, audit_exact
from privpac.data import Integers, UserData
from privpac.law import Law
from privpac.methods.hybrid import HybridSelection
from privpac.rules import FiniteClass, Intervals, Points, Rectangles, Stumps, Thresholds

RELATIONS = ["add-remove", "replace"]
POINTS = 3
CUTS = POINTS + 1
BITS = 2
User = tuple[tuple[int, int], ...]


def user(*counts: tuple[int, int]) -> User:
    """``counts[x]``: records with label 0 and with label 1 at x."""
    return tuple((x, y) for x, pair in enumerate(counts) for y in (0, 1) for _ in range(pair[y]))


NOBODY: User = ()
AT_TOP = ((0, 0), (0, 0))
NOT_SURE = user(*AT_TOP, (5, 4))
KINDS: list[User] = [
    NOBODY,
    user((0, 1)),
    user(*AT_TOP, (1, 0)),
    user((0, 1), (1, 0), (0, 1)),
    user((2, 1), (0, 1), (0, 1)),
    user((5, 4)),
    user((0, 4), (0, 0), (5, 0)),  # much optimism, and a rule that is always wrong
    user((0, 16)),
    user((3, 6), (4, 4)),
    user(*AT_TOP, (253, 3)),  # optimism beyond the room
    user(*AT_TOP, (3, 253)),
    NOT_SURE,
]
FEW: list[tuple[User, ...]] = [(), *((kind,) for kind in KINDS[1:7]), (KINDS[5], KINDS[6])]
SURE = (user(*AT_TOP, (1, 0)),) * 40
CROWDS: list[tuple[User, ...]] = [
    SURE,  # one rule, no optimism
    SURE + (NOT_SURE,) * 4,  # optimism just below two votes
    SURE + (NOT_SURE,) * 7,
    SURE + (NOT_SURE,) * 16,  # optimism just below its cap
    (NOT_SURE,) * 300,  # optimism far above its cap
    (user((0, 1)),) * 60 + (user((9, 8)),) * 20,
]


# The definition, one user and one rule at a time


@cache
def votes(records: User, levels: int) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """Clip votes, mean votes, optimism and room of one user; thresholds "x >= cut"."""
    m = len(records)
    if m == 0:
        return (0,) * CUTS, (0,) * CUTS, 0, 0
    mistakes = [sum((x >= cut) != bool(y) for x, y in records) for cut in range(CUTS)]
    b = min(mistakes)
    r = [e - b for e in mistakes]
    t = next(k for k in range(1, m + 1) if k * k >= m and 16 * k >= m)
    if b * m >= 4 * t * t * (m - 2 * b):
        optimism = levels * (m - t) ** 2 // m**2
    else:
        optimism = isqrt(levels**2 * (m - t) ** 4 * b // (4 * t * t * (m - 2 * b) * m**3))
    clip = tuple(levels * min(x, t) // t for x in r)
    mean = tuple(levels * x // m for x in r)
    return clip, mean, optimism, levels - levels * max(r) // m


def literal(users: tuple[User, ...], epsilon: Fraction, neighbours: str, levels: int, wrong: str = "") -> Law:
    theta = epsilon if neighbours == "add-remove" or wrong == "add-remove rate" else epsilon / 2
    K, B = int(4 * BITS * levels / theta), int(BITS * levels / theta)
    C, M, D = [0] * CUTS, [0] * CUTS, 0
    for records, times in Counter(users).items():
        clip, mean, optimism, room = votes(records, levels)
        C, M = [a + times * v for a, v in zip(C, clip)], [a + times * v for a, v in zip(M, mean)]
        D += times * (optimism if wrong == "room forgotten" else min(optimism, room))
    offset = min(D, K)
    if wrong == "offset doubled":
        offset = min(2 * D, K)
    if wrong == "all or nothing":
        offset = K if 2 * levels < D else 0
    if wrong == "true n":
        offset = min(D + levels * len(users), K)
    return Law.from_blocks(score=[*C, *(a + offset + B for a in M)], eta=theta / levels)


def around(bases: list[tuple[User, ...]], neighbours: str) -> Universe:
    """Every base and what it becomes when one user is added; under replace, pairs of these are neighbours."""
    grown = {tuple(sorted((*base, kind))) for base in bases for kind in KINDS}
    return Universe(
        tuple(sorted(grown | ({tuple(sorted(base)) for base in bases} if neighbours == "add-remove" else set())))
    )


def found(law: Any, universe: Universe, neighbours: str, epsilon: Fraction) -> Any:
    audit = audit_exact(law, universe, neighbours=neighbours, epsilon=epsilon)
    assert audit.pairs > 0
    return audit


def people(users: tuple[User, ...]) -> UserData:
    return UserData.from_users([list(records) for records in users], features={"x": Integers(0, POINTS - 1)})


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(("epsilon", "levels"), [(Fraction(1), 840), (Fraction(1, 2), 12), (Fraction(3), 1)])
def test_pairs_and_rules_are_private_and_the_law_is_the_definition(
    neighbours: str, epsilon: Fraction, levels: int
) -> None:
    learner = HybridSelection(Thresholds(), epsilon, neighbours=neighbours, levels=levels)  # type: ignore[arg-type]
    for bases in (FEW, CROWDS):
        universe = around(bases, neighbours)
        laws: dict[Any, Law] = {users: learner.law(people(users)) for users in list[Any](universe)}
        audit = found(lambda users: laws[users], universe, neighbours, epsilon)  # noqa: B023
        assert audit.holds
        # Nearly all of the budget is used, so that a little more would show.
        assert bases is FEW or float(audit.epsilon_found) > 0.97 * float(epsilon)
        for users, law in laws.items():
            wanted = literal(users, epsilon, neighbours, levels)
            assert all(law.prob(pair) == wanted.prob(pair) for pair in range(2 * CUTS))
    rules = around(FEW[:4], neighbours)
    assert found(lambda users: learner.rule_law(people(users)), rules, neighbours, epsilon).holds


MUTATIONS = [
    ("room forgotten", "add-remove", 1.02),
    ("room forgotten", "replace", 1.01),
    ("offset doubled", "add-remove", 1.3),
    ("offset doubled", "replace", 1.15),
    ("add-remove rate", "replace", 1.9),
    ("all or nothing", "add-remove", 4.0),
    ("all or nothing", "replace", 4.0),
    ("true n", "add-remove", 1.8),
]


@pytest.mark.parametrize(("wrong", "neighbours", "least"), MUTATIONS)
def test_five_ways_to_get_it_wrong_are_caught(wrong: str, neighbours: str, least: float) -> None:
    universe = around([*FEW[:3], *CROWDS], neighbours)
    audit = found(lambda users: literal(users, Fraction(1), neighbours, 840, wrong), universe, neighbours, Fraction(1))
    assert not audit.holds
    assert float(audit.epsilon_found) > least
    # The same universe, and the same reference without the switch.
    assert found(lambda users: literal(users, Fraction(1), neighbours, 840), universe, neighbours, Fraction(1)).holds


SQUARE = {"a": Integers(0, 1), "b": Integers(0, 1)}
CLASSES: dict[str, Any] = {
    "points": Points(zero=True),
    "intervals": Intervals(),
    "both directions": Thresholds(direction="both"),
    "three rules without constants": FiniteClass([[0, 1, 1], [1, 0, 1], [1, 1, 0]], Integers(0, 2)),
}


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", CLASSES)
def test_other_classes_and_unequal_users(name: str, neighbours: str) -> None:
    learner = HybridSelection(CLASSES[name], 1, neighbours=neighbours)  # type: ignore[arg-type]
    universe = around([*FEW[:5], *CROWDS[:2]], neighbours)
    assert found(lambda users: learner.law(people(users)), universe, neighbours, Fraction(1)).holds


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("concept", [Stumps(), Rectangles(SQUARE)])
def test_classes_of_two_columns(concept: Any, neighbours: str) -> None:
    kinds = [(), ((0, 1, 1),), ((0, 0, 1), (1, 1, 0), (0, 0, 1)), ((1, 0, 1),) * 4 + ((1, 0, 0),) * 5]
    universe = Universe(tuple(users for n in range(3) for users in combinations_with_replacement(sorted(kinds), n)))
    learner = HybridSelection(concept, 1, neighbours=neighbours)  # type: ignore[arg-type]

    def law(users: Any) -> Law:
        return learner.law(UserData.from_users([list(u) for u in users], features=SQUARE))

    assert found(law, universe, neighbours, Fraction(1)).holds
