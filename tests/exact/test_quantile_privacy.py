"""Quantiles are epsilon-DP per user, decided exactly for both relations, every weight and every end; three ways to get
the range or the bound on a person wrong are caught."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from privpac.auditing import audit_exact, datasets, user_universe
from privpac.data import Categories, Integers, UserData
from privpac.distributions.quantiles import QuantileLearner, ranks

DOMAIN = Integers(0, 2)
PEOPLE = datasets(user_universe(range(3), 2), 3)
EPSILON = Fraction(1, 2)
RELATIONS = ["add-remove", "replace"]


def law_of(learner: QuantileLearner, end: str = "point") -> Any:
    return lambda people: learner.law(users_of(people), end=end)


@cache
def users_of(people: tuple[Any, ...]) -> UserData:
    return UserData.from_users([list(one) for one in people], features={"x": DOMAIN}, labelled=False)


def decided(learner: QuantileLearner, end: str = "point", epsilon: Fraction = EPSILON) -> bool:
    return audit_exact(law_of(learner, end), PEOPLE, neighbours=learner.neighbours, epsilon=epsilon).holds


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("weight", ["user", "own", "one", "record"])
@pytest.mark.parametrize("q", ["1/2", "1/3", "9/10"])
def test_every_weight_keeps_its_promise(neighbours: str, weight: str, q: str) -> None:
    cap = 2 if weight == "record" else None
    assert decided(QuantileLearner(EPSILON, q, neighbours=neighbours, max_records=cap, weight=weight))


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("end", ["lower", "upper"])
def test_ends_of_intervals_keep_their_third(neighbours: str, end: str) -> None:
    learner = QuantileLearner(3 * EPSILON, "1/2", neighbours=neighbours, weight="own", interval=True)
    assert decided(learner, end)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_shorter_range_is_caught(neighbours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = ranks.quantile_range
    monkeypatch.setattr(ranks, "quantile_range", lambda q, levels, relation: right(q, levels, relation) // 2)
    assert not decided(QuantileLearner(EPSILON, "1/2", neighbours=neighbours, weight="own"))


def test_the_range_of_the_other_relation_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ranks.quantile_range
    other = QuantileLearner(1, neighbours="add-remove").neighbours
    monkeypatch.setattr(ranks, "quantile_range", lambda q, levels, relation: right(q, levels, other))
    assert not decided(QuantileLearner(EPSILON, "1/2", neighbours="replace", weight="own"))


def test_records_that_do_not_share_a_weight_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def each(users: UserData, codes: Any, weight: str, levels: int) -> Any:
        return np.full(codes.size, levels, np.int64)

    monkeypatch.setattr(ranks, "weights_of", each)
    assert not decided(QuantileLearner(EPSILON, "1/2"))


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("domain", [Integers(0, 2), Categories(["a", "b", "c"], ordered=True)], ids=["middles", "both"])
def test_two_votes_for_two_own_quantiles_keep_the_promise(neighbours: str, domain: Any) -> None:
    """Also for votes that no record of the person holds, and for either rule."""
    learner = QuantileLearner(EPSILON, "1/2", neighbours=neighbours, weight="own")

    def law(people: Any) -> Any:
        values = [[domain.value(code) for code in one] for one in people]
        return learner.law(UserData.from_users(values, features={"x": domain}, labelled=False))

    assert audit_exact(law, PEOPLE, neighbours=neighbours, epsilon=EPSILON).holds


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_votes_that_do_not_add_up_to_two_are_caught(neighbours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More votes for the second own quantile, and two votes where the range is that of one."""
    learner, right = QuantileLearner(EPSILON, "1/2", neighbours=neighbours, weight="own"), ranks.own_votes

    def more(users: UserData, codes: Any, levels: int, q: Fraction, linear: bool) -> Any:
        votes = right(users, codes, levels, q, False)
        low, high = votes[: votes.size // 2], votes[votes.size // 2 :]
        return np.concatenate([votes, *[high[low != high]] * 4])

    with monkeypatch.context() as changed:
        changed.setattr(ranks, "own_votes", more)
        assert not decided(learner)
    assert decided(learner)
    monkeypatch.setattr(QuantileLearner, "_ranks", _with_one_level)
    assert not decided(learner)


def _with_one_level(learner: QuantileLearner, q: Fraction, least: int, most: int) -> ranks.RankLaw:
    return ranks.RankLaw(q, learner.epsilon, 1, least, most, learner.neighbours, Fraction(1, 20))


def test_the_bound_is_reached() -> None:
    """Nothing is given away: with half of the range the law would need all of epsilon and more."""
    law = law_of(QuantileLearner(EPSILON, "1/2", neighbours="add-remove", weight="own"))
    found = audit_exact(law, PEOPLE, neighbours="add-remove", epsilon=EPSILON).epsilon_found
    assert float(EPSILON) / 2 < found <= float(EPSILON) * (1 + 1e-12)
