"""From item to user level, decided on every neighbouring pair of tiny universes; and every known mistake is caught."""

from __future__ import annotations

import random
from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np
import pytest

from privpac.auditing import audit_exact
from privpac.auditing.exact import datasets, neighbouring
from privpac.data import Integers, UserData
from privpac.exact import as_arb, up
from privpac.law import Law
from privpac.mechanisms import ReleaseTest, TruncatedLaplace
from privpac.methods import DeletionStability, FriendlyMean, TrimmedMean, TrimmedSelection
from privpac.methods.means import friendly_sensitivity, friends
from privpac.methods.trimmed import distance_of, spreads, trimmed_sums
from privpac.papers.few_examples_per_user.deletion import RetainedLaws, deletion_law, literal_law
from privpac.rules import Stumps, Thresholds

TAGS: dict[str, Any] = {"unit": "user", "neighbours": "replace"}


def log_up(x: Fraction) -> Fraction:
    return up(lambda: as_arb(x).log())


# Trimmed scores, as small exact laws: users are tuples of contributions to two rules


def distance(columns: Any, trim: int, ladder: int, width: int) -> int:
    wide = spreads(columns, trim, ladder)
    return distance_of(int(np.searchsorted(wide, width, side="right")) - 1, ladder)


def trimmed_law(
    users: Any, *, trim: int, ladder: int, width: int, g: Fraction, test: ReleaseTest, mutant: str = ""
) -> Law:
    columns = np.sort(np.array(users, dtype=np.int64), axis=0)
    far = distance(columns, trim, ladder, width)
    sums = trimmed_sums(columns, trim)
    if mutant == "no distance":  # the test is passed or failed by the data alone
        far = 0 if spreads(columns, trim, 0)[0] <= width else ladder + 1
    if mutant == "winsorised":  # extremes are pulled in instead of dropped
        sums = np.clip(columns, columns[trim], columns[len(columns) - trim - 1]).sum(axis=0)
    if mutant == "untrimmed":
        sums = columns.sum(axis=0)
    return test.law(far, Law.from_blocks(score=sums, base=g))


SETTINGS = [
    # trim, ladder, width, C, n, g, aR, delta
    (1, 0, 1, 2, 3, "2", "3", "1/5"),
    (1, 0, 2, 3, 3, "3/2", "2", "1/10"),
    (2, 1, 1, 2, 5, "3/2", "3", "1/5"),
    (2, 1, 2, 4, 5, "2", "2", "1/20"),
    (3, 1, 1, 2, 7, "3", "2", "1/10"),
    (3, 2, 1, 3, 7, "2", "3", "1/5"),
]


@pytest.mark.parametrize(("trim", "ladder", "width", "C", "n", "g", "a", "delta"), SETTINGS)
def test_trimmed_law_is_private_and_the_promised_delta_is_attained(
    trim: int, ladder: int, width: int, C: int, n: int, g: str, a: str, delta: str
) -> None:
    test = ReleaseTest(None, delta, base=a, ladder=ladder, **TAGS)
    kinds = [(0, 0), (0, C), (C, 0), (1, C)] if n < 7 else [(0, 0), (0, C), (C, 1)]
    total = log_up(Fraction(a) * Fraction(g) ** (2 * width))

    def law(users: Any) -> Law:
        return trimmed_law(users, trim=trim, ladder=ladder, width=width, g=Fraction(g), test=test)

    universe = datasets(kinds, n, n_min=n)
    audit = audit_exact(law, universe, neighbours="replace", epsilon=total, delta=delta)
    assert audit.holds, audit.explain()
    worst = max(
        law(x).hockey_stick(law(y), total).lo
        for pair in neighbouring(universe, "replace")
        for x, y in (pair, pair[::-1])
    )
    assert Fraction(delta) * Fraction(999_999, 1_000_000) < worst <= Fraction(delta)


@pytest.mark.parametrize("mutant", ["", "no distance", "winsorised", "untrimmed"], ids=lambda name: name or "none")
def test_mistakes_in_trimmed_selection_are_caught(mutant: str) -> None:
    trim, ladder, width, n, C = 3, 2, 1, 7, 4
    test = ReleaseTest(None, "1/5", base=3, ladder=ladder, **TAGS)
    total = log_up(Fraction(3) * Fraction(2) ** (2 * width))

    def law(users: Any) -> Law:
        return trimmed_law(users, trim=trim, ladder=ladder, width=width, g=Fraction(2), test=test, mutant=mutant)

    audit = audit_exact(
        law, datasets([(0, 0), (0, 1), (0, C), (C, 0)], n, n_min=n), neighbours="replace", epsilon=total, delta="1/5"
    )
    assert audit.holds == (mutant == ""), audit.explain()
    if mutant:
        x, y = audit.worst
        assert max(law(x).hockey_stick(law(y), total).lo, law(y).hockey_stick(law(x), total).lo) > Fraction(3, 10)


# The learner itself, unequal and empty users included

LINE = {"x": Integers(0, 1)}
KINDS = [(), ((0, 1),), ((1, 0),), ((0, 0), (1, 1)), ((0, 1), (1, 0))]


def build(users: Any) -> UserData:
    return UserData.from_users([list(user) for user in users], features=LINE)


def selection(**changes: Any) -> TrimmedSelection:
    given: dict[str, Any] = {"delta": "1/5", "levels": 2, "trim": 2, "ladder": 1, "width": 1, "share": "1/2"}
    return TrimmedSelection(Thresholds(), 2, **(given | changes))


@pytest.mark.parametrize("contribution", ["rates", "counts"])
def test_trimmed_selection_keeps_its_promise(contribution: str) -> None:
    learner = selection(contribution=contribution)
    audit = audit_exact(learner, datasets(KINDS, 5, n_min=5), build=build)
    assert audit.holds, audit.explain()
    assert audit.epsilon_found > 1


def test_trimmed_stumps_keep_their_promise() -> None:
    learner = TrimmedSelection(Stumps(), 2, delta="1/5", levels=1, trim=2, ladder=1, width=1, share="1/2")
    kinds = [((0, 0),), ((1, 0),), ((1, 1),)]
    assert audit_exact(learner, datasets(kinds, 5, n_min=5), build=build).holds


def test_slots_make_it_private_when_users_come_and_go() -> None:
    """Fewer users than slots, as many, and more."""
    learner = selection(neighbours="add-remove", slots=5)
    audit = audit_exact(learner, datasets(KINDS, 6, n_min=3), build=build)
    assert str(learner.guarantee) == "(2, 0.2)-DP per user, add-remove"
    assert audit.holds, audit.explain()


def test_without_slots_users_who_come_and_go_are_caught() -> None:
    """Users who all agree, contributions up to 9 and many copies of one rule: one more user moves its score by 9."""
    test = ReleaseTest(None, "1/5", base=3, ladder=2, **TAGS)
    total = log_up(Fraction(3) * 4)

    def law(users: Any) -> Law:
        columns = np.sort(np.array(users, dtype=np.int64), axis=0)
        answer = Law.from_blocks([0, 1], [0, 1 << 11], trimmed_sums(columns, 3), base=2)
        return test.law(distance(columns, 3, 2, 1), answer)

    def padded(users: Any) -> Law:
        return law((*users, *((4, 4),) * (8 - len(users))))

    crowds = [((0, 9),) * 7, ((0, 9),) * 8]
    assert not audit_exact(law, crowds, neighbours="add-remove", epsilon=total, delta="1/5").holds
    assert law(crowds[0]).hockey_stick(law(crowds[1]), total).lo > Fraction(1, 2)
    assert audit_exact(padded, crowds, neighbours="add-remove", epsilon=total, delta="1/5").holds


# Deletion stability


TABLE = {0: {0: 1, 1: 0}, 1: {0: 3, 1: 1}, 2: {0: 0, 1: 1}}


def average(users: Any) -> dict[int, Fraction]:
    """The average of the users' own laws."""
    return {v: sum((Fraction(TABLE[u][v], sum(TABLE[u].values())) for u in users), Fraction(0)) for v in (0, 1)}


def first_user(users: Any) -> dict[int, int]:
    """An algorithm that looks at one user only, and at the order."""
    return {users[0]: 1}


def spiteful(sets: tuple[tuple[int, ...], ...], users: Any) -> tuple[int, ...]:
    """A choice that depends on the data as much as it can."""
    return sets[hash(tuple(users)) % len(sets)]


@pytest.mark.parametrize("select", ["uniform", "last", spiteful], ids=["uniform", "last", "spiteful"])
@pytest.mark.parametrize(("ladder", "n", "kinds"), [(1, 3, 3), (1, 4, 3), (2, 5, 2), (2, 6, 2)])
@pytest.mark.parametrize("algorithm", [average, first_user], ids=["average", "first"])
def test_deletion_stability_keeps_its_promise(algorithm: Any, ladder: int, n: int, kinds: int, select: Any) -> None:
    learner = DeletionStability(algorithm, "1.5", "0.3", ladder=ladder, select=select)
    audit = audit_exact(learner, datasets([0, 2, 1][:kinds], n, n_min=n, ordered=True))
    assert audit.holds, audit.explain()


@pytest.mark.parametrize("ladder", [1, 2, 3])
def test_deleting_one_user_less_is_caught(ladder: int) -> None:
    """The claim is 0.142; deleting ``2K - 1`` users, the worst pair reaches what the pass curve allows at distance
    0."""
    n = 2 * ladder
    test = ReleaseTest(None, "1/10", base="3/2", ladder=ladder, **TAGS)
    factor, slack = Fraction(11, 10), Fraction(1, 50)
    total, delta = log_up(Fraction(3, 2) * factor**2), Fraction(1, 10) + (1 + factor) * slack

    def law(users: Any, deleted: int) -> Law:
        retained = RetainedLaws(len(users), deleted, lambda kept: Law.point(users[kept[0]]), factor, slack)
        return deletion_law(retained, test, "last", users)

    # One user is left; S' takes away those who agree with x.
    crowds = [(1,) * ladder + (0,) * (n - ladder), (1,) * (ladder - 1) + (0,) * (n - ladder + 1)]
    wrong = [law(users, 2 * ladder - 1) for users in crowds]
    worst = max(wrong[0].hockey_stick(wrong[1], total).lo, wrong[1].hockey_stick(wrong[0], total).lo)
    assert worst > delta
    universe = datasets([0, 1], n + 1, n_min=n + 1, ordered=True)
    assert audit_exact(
        lambda users: law(users, 2 * ladder), universe, neighbours="replace", epsilon=total, delta=delta
    ).holds


def test_the_literal_algorithm_keeps_its_promise_with_much_to_spare() -> None:
    """n = 9, kappa = 2: the paper's constants claim far more than the worst pair needs."""
    a = Fraction(2)
    slack = Fraction(1, 10)
    noise = TruncatedLaplace(None, slack, base=a, kappa=2, **TAGS)
    claim, total = slack * (a * a + a + 2), log_up(a**3)

    @cache
    def law(users: Any) -> Law:
        retained = RetainedLaws(9, 8, lambda kept: Law.from_weights(average([users[kept[0]]])), a, slack)
        return literal_law(retained, noise)

    universe = datasets([0, 1, 2], 9, n_min=9)
    assert audit_exact(law, universe, neighbours="replace", epsilon=total, delta=claim).holds
    worst = max(
        law(x).hockey_stick(law(y), total).hi
        for pair in neighbouring(universe, "replace")
        for x, y in (pair, pair[::-1])
    )
    assert worst < claim / 3


def test_slots_for_deletion_stability_when_users_come_and_go() -> None:
    learner = DeletionStability(
        average, "1.5", "0.3", ladder=1, neighbours="add-remove", slots=4, symmetric=True, neutral=1
    )
    audit = audit_exact(learner, datasets([0, 1, 2], 5, n_min=2))
    assert audit.holds, audit.explain()


def cover_number(edges: frozenset[frozenset[int]], n: int) -> int:
    """The least number of users to delete so that nobody left disagrees."""
    return next(k for k in range(n + 1) for s in combinations(range(n), k) if all(edge & set(s) for edge in edges))


def greedy_number(edges: frozenset[frozenset[int]], n: int) -> int:
    """Delete a user with most conflicts (the first of them) until none is left."""
    left, count = set(edges), 0
    while left:
        degree = [sum(i in edge for edge in left) for i in range(n)]
        worst = degree.index(max(degree))
        left = {edge for edge in left if worst not in edge}
        count += 1
    return count


def test_a_greedy_distance_jumps_and_the_exact_one_does_not() -> None:
    """Why the distance is searched exactly: random conflict graphs on 12 users, one user's conflicts replaced."""
    coin, jumps = random.Random(9), []
    for _ in range(400):
        density, friends_lost = coin.choice([0.2, 0.3, 0.4]), coin.choice([0.5, 0.8, 1])
        edges = frozenset(frozenset(pair) for pair in combinations(range(12), 2) if coin.random() < density)
        i = coin.randrange(12)
        kept = frozenset(edge for edge in edges if i not in edge)
        other = kept | frozenset(frozenset((i, j)) for j in range(12) if j != i and coin.random() < friends_lost)
        jump = abs(greedy_number(kept, 12) - greedy_number(other, 12))
        if jump > 1:
            jumps.append(jump)
            assert abs(cover_number(kept, 12) - cover_number(other, 12)) <= 1
    assert max(jumps) == 3


# Means


def numbers(users: Any) -> UserData:
    return UserData.from_users([list(user) for user in users], features={"x": Integers(0, 2)}, labelled=False)


def test_trimmed_mean_keeps_its_promise() -> None:
    learner = TrimmedMean(2, "1/5", width="1/2", levels=2, trim=2, ladder=1, share="1/2")
    kinds = [(), (0,), (2,), (0, 1)]
    audit = audit_exact(learner, datasets(kinds, 5, n_min=5), build=numbers)
    assert audit.holds, audit.explain()
    assert audit.epsilon_found > 1


def test_friendly_mean_keeps_its_promise() -> None:
    learner = FriendlyMean(2, "1/5", width="1/4", levels=2, ladder=1, crowd=1, share="1/2", spacing="1/2", norm="linf")
    audit = audit_exact(learner, datasets([(), (0,), (2,)], 4, n_min=4), build=numbers)
    assert audit.holds, audit.explain()


def test_mean_learners_with_slots_when_users_come_and_go() -> None:
    shared: dict[str, Any] = {"neighbours": "add-remove", "slots": 5, "levels": 2, "ladder": 1, "share": "1/2"}
    for learner in (
        TrimmedMean(2, "1/5", width="1/2", trim=2, **shared),
        FriendlyMean(2, "1/5", width="1/4", crowd=1, spacing=1, **shared),
    ):
        audit = audit_exact(learner, datasets([(), (0,), (2,)], 6, n_min=3), build=numbers)
        assert audit.holds, audit.explain()


@pytest.mark.parametrize(
    ("n", "ladder", "crowd", "width", "top"), [(4, 1, 1, 1, 3), (5, 1, 1, 1, 3), (8, 1, 2, 1, 3), (8, 2, 2, 2, 5)]
)
def test_the_friendly_mean_moves_by_no_more_than_its_sensitivity(
    n: int, ladder: int, crowd: int, width: int, top: int
) -> None:
    bound = friendly_sensitivity(Fraction(width), n, ladder, crowd)
    largest = Fraction(0)
    for others in combinations_with_replacement(range(top + 1), n - 1):
        found = [friends(np.array([*others, own])[:, None], width, ladder, crowd) for own in range(top + 1)]
        for x, y in combinations(found, 2):
            assert abs(x.distance - y.distance) <= 1
            if max(x.distance, y.distance) <= ladder:
                assert x.mean is not None
                assert y.mean is not None
                largest = max(largest, abs(x.mean[0] - y.mean[0]))
    assert 0 < largest <= bound
    assert largest == bound or (ladder, crowd) != (1, 1)
