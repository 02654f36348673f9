"""The stable learner from a representation: a race in which every rule runs at a rate set by its errors.

Public: a finite list H of rules (a finite class itself, or one drawn from a representation with public coins), the seed
and the rate ``gamma``.  The user's item is the winner of the race with weights ``exp(-gamma errors/m)``.

*Stability.*  If two score functions differ by at most ``Delta`` everywhere, the Gibbs laws differ by at most
``tanh(gamma Delta / 2)`` in total variation; with ``E max |err_S - err_D| <= sqrt(ln(2|H|)/(2m))`` the item differs
from the one of the true errors with probability at most ``gamma sqrt(ln(2|H|)/(2m))``.  *Accuracy.*  The winner for the
true errors exceeds the least error by more than ``alpha/2`` with probability at most ``|H| exp(-gamma alpha/2)``.  No
promise on the labels is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from privpac.device.correlated_sampling import (
    MAX_DENOMINATOR,
    MAX_INDEXED,
    check_race,
    check_seed,
    derive,
    integer,
    race_dyadic,
    race_indexed,
    rate,
    rational,
)
from privpac.device.learner import Hypothesis, NumberedItems
from privpac.device.logarithms import ln_up
from privpac.device.records import clean
from privpac.device.scores import RuleScores, dense
from privpac.errors import ParameterError, TooLargeError

__all__ = ["RaceLearner", "RacePlan", "plan_race"]


@dataclass(frozen=True)
class RaceLearner:
    """The winner of a race over all rules of a class, by their errors on the user's records.

    ``Gamma`` is the published integer rate (``words.rate(gamma)``); ``race`` is "dyadic", or "indexed" for at most 4096
    rules.  The two give different winners and must not be mixed.  Fewer than ``min_records`` valid records give no
    item.
    """

    scores: RuleScores
    Gamma: int
    race: str = "dyadic"
    min_records: int = 1
    max_records: int = MAX_DENOMINATOR

    def __post_init__(self) -> None:
        check_race(1, self.Gamma)
        integer("min_records", self.min_records, 1)
        integer("max_records", self.max_records, 1, MAX_DENOMINATOR)
        if self.race not in ("dyadic", "indexed"):
            raise ParameterError(f"race must be 'dyadic' or 'indexed', got {self.race!r}")
        if self.race == "indexed" and self.universe.size > MAX_INDEXED:
            raise TooLargeError(
                f"a flat race has at most {MAX_INDEXED} rules, got {self.universe.size}; use race='dyadic'"
            )

    @property
    def universe(self) -> NumberedItems:
        return NumberedItems(sum(self.scores.sizes))

    def item(self, x: Any, y: Any, seed: bytes) -> bytes | None:
        check_seed(seed)
        records = clean(x, y, self.scores.columns, limit=self.max_records)
        if len(records) < self.min_records:
            return None
        parts = self.scores.components(records)
        if self.race == "indexed":
            errors = [score for part in parts for score in dense(part).tolist()]
            number = race_indexed(derive(seed, "race"), errors, len(records), self.Gamma)
            assert number is not None
            return self.universe.item(number)
        winner = race_dyadic(derive(seed, "tree"), parts, len(records), self.Gamma)
        assert winner is not None
        place = [part.number for part in parts].index(winner.component)
        return self.universe.item(sum(self.scores.sizes[:place]) + winner.leaf)

    def decode(self, item: bytes) -> Hypothesis | None:
        number = int.from_bytes(item, "little")
        if len(item) != self.universe.width or number >= self.universe.size:
            return None
        return self.scores.rule(number)


class RacePlan(NamedTuple):
    """The published integer rate, and the records per user at which it is certified."""

    Gamma: int
    records: int


def plan_race(size: int, alpha: Any, beta: Any) -> RacePlan:
    """Certified parameters: ``gamma = (2/alpha) ln(6|H|/beta)``, ``m = ceil(gamma^2 ln(2|H|)/2 (30/beta)^2)``.

    Then a fresh user's item is the common one with probability at least 0.9 for a ``1 - beta/3`` fraction of seeds.
    Most of ``m`` pays for the seeds at which two rules nearly tie; 50 gamma records are a practical start.
    """
    size, excess, failure = integer("size", size, 1), rational("alpha", alpha), rational("beta", beta)
    if not (0 < excess < 1 and 0 < failure < 1):
        raise ParameterError(f"alpha and beta must be between 0 and 1, got {alpha} and {beta}")
    gamma = 2 / excess * ln_up(6 * size / failure)
    records = gamma**2 * ln_up(2 * size) / 2 * (30 / failure) ** 2
    return RacePlan(rate(gamma), -(-records.numerator // records.denominator))
