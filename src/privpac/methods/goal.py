"""What is wanted of a rule, as public numbers: what the certificates of a method are functions of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

from privpac.guarantee import Neighbours
from privpac.sample_size import Certificate

if TYPE_CHECKING:
    from privpac.rules.base import ConceptClass
    from privpac.rules.populations import Population


@dataclass(frozen=True)
class _Sizes:
    """What a certificate of selection reads of a class."""

    size: int
    log_size: float
    bits: int
    cut_direction: str | None


@dataclass(frozen=True)
class RuleGoal:
    """Excess error ``alpha`` with probability ``1 - beta`` for a rule of the class, at ``epsilon``.

    ``users`` (what is declared about the people), ``model_noise`` and ``population`` set the model of predictions and
    are no part of a certificate.
    """

    concept: ConceptClass
    epsilon: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    noise: Fraction | None = None
    users: str | None = None
    population: Population | None = None
    model_noise: Fraction | None = None
    every_method: bool = False
    """Whether methods that are not recommended are planned too."""
    representation: str | None = None
    """A public set that stands in for the class, by name."""
    within: int | None = None
    """Ask whether exactly so many users are enough: an inverse plan."""

    @property
    def delta(self) -> Fraction:
        """All methods for rules are pure."""
        return Fraction(0)

    @property
    def theta(self) -> Fraction:
        return self.epsilon if self.neighbours is Neighbours.ADD_REMOVE else self.epsilon / 2

    @property
    def on_a_line(self) -> bool:
        return self.concept.cut_direction not in (None, "both")

    @property
    def bounded_noise(self) -> bool:
        """Whether certificates for a bounded noise rate apply."""
        return self.noise is not None and self.on_a_line

    @property
    def accuracy(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "beta": self.beta}

    @property
    def wanted(self) -> dict[str, Any]:
        """What most certificates take."""
        return {**self.accuracy, "epsilon": self.epsilon, "neighbours": self.neighbours}

    @property
    def numbers(self) -> RuleGoal:
        """This goal without the class, of which only the sizes matter, and without the people."""
        own = self.concept
        sizes: Any = _Sizes(own.size, own.log_size, own.bits, own.cut_direction)
        return RuleGoal(
            sizes, self.epsilon, self.alpha, self.beta, self.neighbours, noise=self.noise, within=self.within
        )


def kept_by_numbers(certify: Callable[[RuleGoal, int], Certificate]) -> Callable[[RuleGoal, int], Certificate]:
    """The certificates found are kept by the public numbers they are functions of: a page of plans, an inverse plan and
    the next question ask for many of them again."""
    found = lru_cache(maxsize=1 << 12)(certify)

    @wraps(certify)
    def of_numbers(goal: RuleGoal, m: int) -> Certificate:
        return found(goal.numbers, m)

    return of_numbers
