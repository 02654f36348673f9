"""Whatever fails after the data were touched, and in whatever class of error: nothing of it is shown."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest
from attrs import frozen

import privpac as pp
from privpac.errors import BudgetExhausted, EngineError, EntropyError, ParameterError
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
from privpac.methods.base import Learner

SECRET = "glucose 181.5"


class OwnError(Exception):
    """Of somebody's own class of rules."""


def divided(data: Any) -> Any:
    return {SECRET: 1}[SECRET] / 0


FAILURES: dict[str, Callable[[Any], Any]] = {
    "type": lambda data: SECRET + 1,
    "attribute": lambda data: SECRET.value,
    "key": lambda data: {}[SECRET],
    "value": lambda data: int(SECRET),
    "division": divided,
    "memory": lambda data: (_ for _ in ()).throw(MemoryError(SECRET)),
    "system": lambda data: (_ for _ in ()).throw(OSError(SECRET)),
    "runtime": lambda data: (_ for _ in ()).throw(RuntimeError(SECRET)),
    "recursion": lambda data: (_ for _ in ()).throw(RecursionError(SECRET)),
    "own": lambda data: (_ for _ in ()).throw(OwnError(SECRET)),
    "assertion": lambda data: (_ for _ in ()).throw(AssertionError(SECRET)),
    "parameter": lambda data: (_ for _ in ()).throw(ParameterError(SECRET)),
}


@frozen
class Failing(Learner):
    """Fails with a value in its words."""

    fail: Callable[[Any], Any]

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(1, unit="user", neighbours="add-remove")

    def bind(self, data: Any) -> Any:
        return data

    def draw(self, bound: Any, rng: Any) -> Any:
        return self.fail(bound)


def people() -> pp.UserData:
    return pp.UserData.from_users([[(3, 1)], [(4, 0)]], features={"x": pp.Integers(0, 9)})


@pytest.mark.parametrize("name", FAILURES)
def test_no_error_shows_a_value_or_says_of_which_kind_it_was(name: str) -> None:
    with pytest.raises(EngineError, match="not told") as caught:
        Failing(FAILURES[name]).learn(people())
    told = "".join(traceback.format_exception(caught.value))
    assert SECRET not in told
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_what_was_spent_stays_spent(tmp_path: Any) -> None:
    budget = Guarantee("3/2", unit="user", neighbours="add-remove")
    book = BudgetLedger.create(tmp_path / "budget.db", budget, dataset="d")
    with pytest.raises(EngineError):
        Failing(FAILURES["type"]).learn(people(), ledger=book)
    with pytest.raises(BudgetExhausted):
        Failing(FAILURES["type"]).learn(people(), ledger=book)


def test_missing_randomness_and_fixed_words_are_told() -> None:
    def empty(data: Any) -> Any:
        raise EntropyError("no randomness")

    def changed(data: Any) -> Any:
        raise EngineError("the files changed")

    for fail, error in ((empty, EntropyError), (changed, EngineError)):
        with pytest.raises(error, match=r"no randomness|the files changed"):
            Failing(fail).learn(people())


def test_stopping_by_hand_stops() -> None:
    def stop(data: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Failing(stop).learn(people())


@pytest.mark.parametrize(
    "wrong",
    [{"alpha": "2"}, {"alpha": 0}, {"beta": "1"}, {"beta": "-0.1"}, {"split_size": 0}, {"split_size": "many"}],
    ids=str,
)
def test_what_a_reduction_aims_at_is_read_before_any_data(wrong: dict[str, Any]) -> None:
    cuts = pp.Thresholds(pp.Integers(0, 9))
    with pytest.raises((ParameterError, TypeError), match=next(iter(wrong))):
        pp.learn(people(), cuts, epsilon=1, method="reduction", public_n_users=1000, **wrong)


def test_a_reduction_takes_numbers_as_text() -> None:
    from privpac.papers.realizable_to_agnostic.reduction import ReductionAim

    aim = ReductionAim(public_n_users=1000, alpha="0.1", beta=0.01)
    assert str(aim.alpha) == "1/10"
    assert str(aim.beta) == "1/100"
