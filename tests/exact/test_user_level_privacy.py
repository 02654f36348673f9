"""Item-level algorithms at user level are private per user, decided exactly for both relations and all strategies; a
cap that is not enforced and a rate that is too high are caught."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from attrs import evolve

from privpac.auditing import audit_exact, datasets, user_universe
from privpac.data import Integers, UserData
from privpac.guarantee import Guarantee, Unit, replace_unit
from privpac.law import Law
from privpac.methods import ItemAlgorithm
from privpac.methods.user_level import Strategy

BITS = Integers(0, 1)


class Majority:
    """0 or one of very many values, whichever fewer rows contradict.

    Epsilon-DP for one row more or less, 2 epsilon for one row replaced."""

    def __init__(self, eta: Fraction) -> None:
        self.eta = eta

    def __call__(self, rows: Any) -> int:
        return int(self.law(rows).sample())

    def law(self, rows: Any) -> Law:
        values = [value for user in rows for (value,) in user]
        return Law.from_blocks([0, 1], [0, 1 << 30], [values.count(1), values.count(0)], self.eta)


def users(people: tuple[Any, ...]) -> UserData:
    return UserData.from_users([list(one) for one in people], features={"x": BITS}, labelled=False)


def holds(learner: ItemAlgorithm, n: int = 3, least: int = 0) -> bool:
    universe = datasets(user_universe(range(2), 3, min_records=least), n, n_min=0 if not least else n)
    return audit_exact(
        lambda people: learner.law(users(people)),
        universe,
        neighbours=learner.item.neighbours,
        epsilon=learner.epsilon,
    ).holds


def learner(eta: str, relation: str, epsilon: str, strategy: str = "auto") -> ItemAlgorithm:
    spent = Fraction(eta) * (1 if relation == "add-remove" else 2)
    return ItemAlgorithm(
        Majority(Fraction(eta)), Guarantee(spent, unit="item", neighbours=relation), epsilon, strategy_named=strategy
    )  # fmt: skip


@pytest.mark.parametrize(
    ("eta", "relation", "epsilon", "strategy"),
    [
        ("1/2", "add-remove", "1", "group"),
        ("1/2", "add-remove", "1", "sampling"),
        ("2", "add-remove", "1", "auto"),
        ("1/2", "replace", "1", "auto"),
        ("1", "replace", "1", "auto"),
    ],
)
def test_every_way_keeps_its_promise(eta: str, relation: str, epsilon: str, strategy: str) -> None:
    made = learner(eta, relation, epsilon, strategy)
    assert made.guarantee.epsilon <= Fraction(epsilon)
    assert holds(made, 3 if made.strategy.rate == 1 else 2, 1 if relation == "replace" else 0)


def mutated(made: ItemAlgorithm, strategy: Strategy) -> ItemAlgorithm:
    class Other(ItemAlgorithm):
        @property
        def strategy(self) -> Strategy:
            return strategy

    return Other(made.algorithm, made.item, made.epsilon, made.delta)


def test_a_cap_that_is_not_enforced_is_caught() -> None:
    made = learner("1/2", "add-remove", "1", "group")
    assert not holds(mutated(made, evolve(made.strategy, records=3)))


def test_a_rate_that_is_too_high_is_caught() -> None:
    made = learner("2", "add-remove", "1")
    assert made.strategy.name == "sampling"
    assert not holds(mutated(made, evolve(made.strategy, rate=2 * made.strategy.rate)), 2)
    assert replace_unit(made.item.subsample(2 * made.strategy.rate, "poisson"), Unit.USER).epsilon > 1
