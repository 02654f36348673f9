"""The rule of a ledger: how spends add up, and when the budget is gone.

* rule ``basic``: exact sums of epsilon and of delta; valid for adaptively chosen mechanisms and parameters.
* rule ``zcdp``: every spend has delta 0, and their ``rho`` (``epsilon**2 / 2`` where none is known) add up to at most
  the ``rho`` whose conversion ``rho + 2 sqrt(rho ln(1/delta))`` at the budget's delta is the budget's epsilon, rounded
  down; a total of ``rho`` fixed at the start is a valid stopping rule for adaptive parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from privpac.composition import zcdp_budget
from privpac.errors import ParameterError
from privpac.exact import as_arb, up
from privpac.guarantee import Guarantee, one_of
from privpac.ledger.rows import Balance, Spend, genesis, plain_text, read_number

__all__ = ["MAX_BITS", "Account", "CompositionRule", "bits", "settings_of"]

MAX_BITS = 6000  # of a numerator or denominator: what a line can hold
_TAGS = ("unit", "neighbours", "model")


class CompositionRule(StrEnum):
    """How spends add up."""

    BASIC = "basic"
    ZCDP = "zcdp"


@dataclass(frozen=True)
class Account:
    """What was agreed when the ledger was made; ``limit`` is the budget's ``rho`` under ``zcdp``."""

    meta: Mapping[str, str]
    budget: Guarantee
    rule: CompositionRule
    limit: Fraction
    genesis: str

    @classmethod
    def of(cls, meta: Mapping[str, str]) -> Account:
        """The account with these settings; ``ValueError`` or ``KeyError`` if they make no sense."""
        numbers = {name: read_number(meta[name]) for name in ("epsilon", "delta", "rho") if meta[name]}
        budget = Guarantee(numbers["epsilon"], numbers["delta"], **{name: meta[name] for name in _TAGS})  # type: ignore[arg-type]
        plain_text(meta["dataset"], "dataset", 200)
        return cls(meta, budget, CompositionRule(meta["rule"]), numbers.get("rho", Fraction(0)), genesis(meta))

    def price(self, guarantee: Guarantee) -> Fraction | None:
        """The ``rho`` of a spend, if the rule adds them up."""
        if self.rule is CompositionRule.BASIC:
            return None
        if guarantee.delta:
            raise ParameterError(
                "a zcdp ledger pays for guarantees with delta = 0 only; use a ledger with the basic rule"
            )
        # Pure epsilon is epsilon**2 / 2 zCDP, so the smaller of the two bounds holds.
        half = guarantee.epsilon**2 / 2
        return half if guarantee.rho is None else min(guarantee.rho, half)

    def priced(self, spend: Spend) -> bool:
        """Whether the row carries the numbers that its rule adds up."""
        if self.rule is CompositionRule.BASIC:
            return spend.rho is None
        return spend.rho is not None and spend.rho <= spend.eps**2 / 2

    def next(
        self, last: Spend | None, name: str, label: str, eps: Fraction, delta: Fraction, rho: Fraction | None, at: str
    ) -> Spend:
        """The row that must follow ``last``."""
        seq, prev = (last.seq + 1, last.hash) if last else (1, self.genesis)
        cum_eps, cum_delta, cum_rho = self._spent(last)
        total = None if rho is None else cum_rho + rho
        spend = Spend(seq, name, label, eps, delta, rho, cum_eps + eps, cum_delta + delta, total, at, prev)
        return replace(spend, hash=spend.digest())

    @staticmethod
    def _spent(last: Spend | None) -> tuple[Fraction, Fraction, Fraction]:
        zero = Fraction(0)
        return (last.cum_eps, last.cum_delta, last.cum_rho or zero) if last else (zero, zero, zero)

    def within(self, spend: Spend) -> bool:
        """Whether the budget covers everything up to this row."""
        eps, delta, rho = self._spent(spend)
        if self.rule is CompositionRule.ZCDP:
            return delta == 0 and rho <= self.limit
        return eps <= self.budget.epsilon and delta <= self.budget.delta

    def left(self, last: Spend | None) -> Balance:
        """What is left after ``last``, exactly or rounded down."""
        eps, delta, rho = self._spent(last)
        if self.rule is CompositionRule.BASIC:
            return Balance(self.budget.epsilon - eps, self.budget.delta - delta)
        rho = self.limit - rho
        # x / up(sqrt(x)) is sqrt(x) rounded down.
        return Balance(2 * rho / up(lambda: as_arb(2 * rho).sqrt()) if rho else Fraction(0), Fraction(0), rho)


# Public parameters


def settings_of(budget: Guarantee, rule: CompositionRule | str, dataset: str) -> dict[str, str]:
    if not isinstance(budget, Guarantee):
        raise TypeError(
            f"budget must be a Guarantee, got {type(budget).__name__}; an existing ledger is opened with "
            "BudgetLedger.open"
        )
    rule = one_of(CompositionRule, rule, "rule")
    dataset = plain_text(dataset, "dataset", 200)
    if budget.epsilon == 0:
        raise ParameterError("the budget's epsilon must be positive: with 0 nothing can be learned")
    if rule is CompositionRule.ZCDP and budget.delta == 0:
        raise ParameterError(
            "a zcdp budget needs delta > 0 (such as 1e-6) for the conversion; use the basic rule for delta = 0"
        )
    if max(bits(budget.epsilon), bits(budget.delta)) > MAX_BITS:
        raise ParameterError("the budget has thousands of digits; use decimals such as 0.25")
    rho = str(zcdp_budget(budget.epsilon, budget.delta)) if rule is CompositionRule.ZCDP else ""
    numbers = {"epsilon": str(budget.epsilon), "delta": str(budget.delta), "rho": rho}
    return {"format": "privpac.ledger", "dataset": dataset, "rule": str(rule), **numbers} | {
        n: str(getattr(budget, n)) for n in _TAGS
    }


def bits(value: Any) -> int:
    return max(value.numerator, value.denominator).bit_length() if isinstance(value, Fraction) else 0
