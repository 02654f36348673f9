"""Learning by agreement: privacy per user, decided on every neighbouring pair of small universes; and calibrations that
must fail."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve

from privpac.auditing.exact import Dataset, audit_exact, datasets, neighbouring, user_universe
from privpac.data import Integers, UserData
from privpac.law import BOTTOM, Law
from privpac.mechanisms.votes import GapSelection, PureSelection, StableHistogram, gap_law, histogram_law, plurality_law
from privpac.methods.agreement.agreement_learner import AgreementLearner
from privpac.rules import Thresholds

LINE = {"x": Integers(0, 2)}
USERS = user_universe([(x, y) for x in range(3) for y in (0, 1)], 2)
SEEDS = [bytes([i]) * 32 for i in range(3)]
RELATIONS = ["add-remove", "replace"]
DELTA = Fraction(1, 50)
OUTCOMES = (0, 1, 2, 3, BOTTOM)


def learner(relation: str, delta: Any = DELTA, seed: bytes = SEEDS[0]) -> AgreementLearner:
    return AgreementLearner(
        Thresholds(LINE["x"], feature="x"), 1, neighbours=relation, delta=delta, task={"Gamma": 1 << 44}, seed=seed
    )


def build(users: Dataset) -> UserData:
    return UserData.from_users([list(user) for user in users], features=LINE)


@cache
def item(user: tuple[Any, ...], seed: bytes) -> int | None:
    """The user's own item: what a learner on this user alone could count."""
    made = learner("replace", seed=seed)
    votes = made._votes(made.bind(build((user,))))
    assert sum(votes.values()) == (1 if user else 0)
    return next(iter(votes), None)


def test_items_are_those_of_each_user_alone_and_users_differ() -> None:
    for seed in SEEDS:
        kinds = {item(user, seed) for user in USERS}
        assert item((), seed) is None
        assert len(kinds) >= 4
        made = learner("replace", seed=seed)
        for people in list(datasets(USERS, 3, n_min=3))[::97]:
            expected = Counter(item(user, seed) for user in people if item(user, seed) is not None)
            assert made._votes(made.bind(build(people))) == dict(expected)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [DELTA, 0], ids=["approximate", "pure"])
def test_learner_is_private_on_every_pair_of_users_with_two_records(relation: str, delta: Any) -> None:
    made = learner(relation, delta)
    universe = datasets(USERS, 2 if relation == "add-remove" else 1)
    report = audit_exact(made, universe, build=build)
    assert report.holds
    assert report.epsilon_found > Fraction(1, 100) or delta  # it is not vacuous: a user changes the law


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", [DELTA, 0], ids=["approximate", "pure"])
def test_seed_repetition_is_private_on_every_pair(relation: str, delta: Any) -> None:
    made = evolve(learner(relation, delta), repeats=3)
    report = audit_exact(made, datasets(USERS, 2 if relation == "add-remove" else 1), build=build)
    assert report.holds
    assert report.epsilon_found > Fraction(1, 100) or delta


@pytest.mark.parametrize("relation", RELATIONS)
def test_two_seeds_with_the_noise_of_one_would_not_be_private(relation: str) -> None:
    """The mutation: everybody names the common item of both seeds; one leaves, or names two others instead."""
    others = {} if relation == "add-remove" else {(0, 1): 1, (1, 1): 1}

    def worst_stick(shares: int) -> Fraction:
        one = StableHistogram(Fraction(1, shares), delta=DELTA / shares, neighbours=relation)
        factor, found = Fraction(2718281829, 10**9), Fraction(0)
        for count in range(1, 3 * one.K):
            sides = [
                histogram_law({u: c for u, c in votes.items() if c}, one.q, one.K)
                for votes in ({(0, 0): count, (1, 0): count}, {(0, 0): count - 1, (1, 0): count - 1} | others)
            ]
            tables = [{u: law.prob_exact(u) for u in law.support()} for law in sides]
            for x, y in (tables, tables[::-1]):
                stick = sum((max(Fraction(0), p - factor * y.get(u, Fraction(0))) for u, p in x.items()), Fraction(0))
                found = max(found, stick)
        return found

    assert worst_stick(2) <= DELTA
    assert relation == "replace" or worst_stick(1) > DELTA  # of both, the common items of leavers show it best


def counts(items: Dataset) -> dict[int, int]:
    return dict(Counter(u for u in items if u is not None))


def masses(law: Law) -> dict[Any, Fraction]:
    return {u: law.prob_exact(u) for u in OUTCOMES}


def worst(law_of: Callable[[dict[int, int]], Law], relation: str, factor: Fraction, most: int = 4) -> Fraction:
    """The largest hockey stick over all neighbouring item vectors of up to four users, both orders."""
    held = cache(lambda items: masses(law_of(counts(items))))
    kinds = sorted({item(user, seed) for user in USERS for seed in SEEDS} - {None})
    universe = datasets((*kinds, None), most)
    pairs = [pair for x, y in neighbouring(universe, relation) for pair in ((x, y), (y, x))]
    assert len(pairs) > 100
    return max(
        sum((max(Fraction(0), p - factor * held(y)[u]) for u, p in held(x).items()), Fraction(0)) for x, y in pairs
    )


def loss(select: Any, relation: str) -> Fraction:
    return 1 / select.q if relation == "add-remove" else 1 / select.q**2


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", [StableHistogram, GapSelection])
def test_selectors_are_private_on_all_items_of_up_to_four_users(kind: Any, relation: str) -> None:
    select = kind(1, delta=DELTA, neighbours=relation)
    assert loss(select, relation) <= Fraction(math.e)
    found = worst(select.law, relation, loss(select, relation))
    assert 0 < found <= DELTA


@pytest.mark.parametrize("relation", RELATIONS)
def test_pure_selection_is_private_on_all_items_of_up_to_four_users(relation: str) -> None:
    for abstain in (None, 1, 3):
        select = PureSelection(1, universe=4, neighbours=relation, abstain=abstain)
        assert worst(select.law, relation, loss(select, relation)) == 0


def test_two_bins_with_every_small_count() -> None:
    select = StableHistogram(1, delta=DELTA, neighbours="replace")
    top, factor = 2 * select.K + 4, loss(select, "replace")
    law = cache(lambda a, b: masses(histogram_law({k: c for k, c in ((0, a), (1, b)) if c}, select.q, select.K)))
    for a in range(1, top):
        for b in range(top - 1):
            for p, q in ((law(a, b), law(a - 1, b + 1)), (law(a - 1, b + 1), law(a, b))):
                assert sum((max(Fraction(0), p[u] - factor * q[u]) for u in OUTCOMES), Fraction(0)) <= DELTA


# What must fail


def stick(f: Law, g: Law, factor: Fraction) -> Fraction:
    p, q = masses(f), masses(g)
    return sum((max(Fraction(0), p[u] - factor * q[u]) for u in OUTCOMES), Fraction(0))


def test_add_remove_calibration_is_not_private_under_replace() -> None:
    wrong = StableHistogram(1, delta=DELTA, neighbours="add-remove")
    factor, n = loss(wrong, "add-remove"), 2 * wrong.K + 3
    laws = [wrong.law(counts(items)) for items in _histograms(n)]
    assert max(stick(f, g, factor) for f, g in pairwise(laws)) > 5 * DELTA
    assert not audit_exact(wrong.law, _histograms(n), neighbours="replace", epsilon=1, delta=DELTA, build=counts).holds
    right = StableHistogram(1, delta=DELTA, neighbours="replace")
    assert audit_exact(right.law, _histograms(n), neighbours="replace", epsilon=1, delta=DELTA, build=counts).holds


def _histograms(n: int) -> list[Dataset]:
    """Two items among n users, all splits."""
    return [(0,) * a + (1,) * (n - a) for a in range(n + 1)]


def test_full_base_under_replace_loses_twice_as_much() -> None:
    base = Fraction(272, 100)
    ratios = [
        plurality_law(counts((0,) * a + (1,) * (n - a)), base, 2).prob_exact(0)
        / plurality_law(counts((0,) * (a - 1) + (1,) * (n - a + 1)), base, 2).prob_exact(0)
        for n in range(2, 12)
        for a in range(1, n)
    ]
    assert base ** Fraction(19, 10) < max(ratios) <= base**2
    wrong = PureSelection(1, universe=2)
    assert not audit_exact(wrong.law, _histograms(8), neighbours="replace", epsilon=1, delta=0, build=counts).holds
    right = PureSelection(1, universe=2, neighbours="replace")
    assert audit_exact(right.law, _histograms(8), neighbours="replace", epsilon=1, delta=0, build=counts).holds


def test_gap_with_twice_the_edge_is_not_private_under_replace() -> None:
    """The gap moves by two, so both of the last weights of the noise can be lost, and the one before the last is
    larger."""
    select = GapSelection(1, delta=DELTA, neighbours="replace")
    factor = loss(select, "replace")
    for K in (2, select.K):
        edge = select.q**K * (1 - select.q) / (1 + select.q - 2 * select.q ** (K + 1))
        laws = [
            (gap_law({0: a}, select.q, K, "replace"), gap_law({0: a - 1, 1: 1}, select.q, K, "replace"))
            for a in range(2, 2 * K + 6)
        ]
        found = max(stick(f, g, factor) for f, g in laws)
        assert 2 * edge < found <= edge + edge / select.q
