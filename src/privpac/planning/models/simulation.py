"""What simulations share: means of repeatable draws, whether so many users will do, and the search for the least number
that will.

**What a prediction is.**  The mean of a loss (excess error, total variation, share of ranks) on a stated model: at the
predicted number of users it is at most ``alpha``.  In a single run the loss may be larger; only certificates say how
often.

**How sure it is.**  Runs ``0, 1, 2, ...`` have public seeds of their own, so every process gives the same answer.  They
are added until the standard error of the mean is at most 5 % of it; in a search, of ``alpha``, or until the mean is
three standard errors away from ``alpha`` (then the number of users is right up to the steps of the search).  At a
public number of runs it ends all the same, and what is shown says so.  Where a run may fail altogether, a standard
error is never taken to be smaller than that of one failure in all runs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privpac.least import least_about
from privpac.rng import Rng

__all__ = ["SETTLED", "ModelRng", "Prediction", "Simulation", "big_integers", "settle"]

SETTLED = 0.05
_CLEAR = 3.0


@dataclass(frozen=True)
class Prediction:
    """A mean over simulated data sets, and its standard error."""

    excess: float
    error: float
    model: str
    runs: int = 0

    @property
    def relative(self) -> float:
        """The standard error as a share of the mean."""
        return 0.0 if self.error == 0 else self.error / self.excess if self.excess else math.inf

    def __str__(self) -> str:
        return f"predicted excess error {self.excess:.4f} ± {self.error:.4f} (mean; {self.model})"


class ModelRng(Rng):
    """Coins of a simulation: public, repeatable, and never used for a release."""

    def __init__(self, *seed: int) -> None:
        self._drawn = np.random.default_rng(list(seed))

    def word(self) -> int:
        return int(self._drawn.integers(0, 1 << 64, dtype=np.uint64))


def settle(
    draw: Callable[[int], float],
    *,
    against: float | None = None,
    first: int = 6,
    most: int = 256,
    worst: float = 0.0,
    strata: int = 1,
) -> tuple[float, float, int]:
    """The mean of runs ``draw(0), draw(1), ...``, its standard error, and how many there were.

    ``worst`` is the loss of a run that fails, where that may happen so rarely that few runs do not show it.  Run ``i``
    belongs to part ``i % strata`` of the model, all of them equally often (``first`` is a multiple): only the spread
    within a part is chance.

    >>> settle(lambda i: float(i % 2), most=4096)[2], settle(lambda i: 0.25, against=0.5)
    (768, (0.25, 0.0, 6))
    """
    values: list[float] = []
    size = min(first, most)
    while True:
        values += [draw(i) for i in range(len(values), size)]
        mean = float(np.mean(values))
        parts = np.array(values[: size - size % strata]).reshape(-1, strata)
        spread = math.sqrt(float(parts.var(axis=0, ddof=1).mean()) / size) if len(parts) > 1 else math.inf
        error = max(spread, worst / size)
        clear = against is not None and abs(mean - against) > _CLEAR * error
        if clear or error <= SETTLED * (mean if against is None else against) or size >= most:
            return mean, error, size
        size = min(2 * size, most)


class Simulation(ABC):
    """One method on one stated model: a concrete one has a ``target``, a ``method`` (the row) and a ``model``, and says
    what a run is."""

    if TYPE_CHECKING:  # fields or properties of the concrete ones

        @property
        def target(self) -> Any: ...  # the target, or what of it the simulation reads
        @property
        def method(self) -> str: ...
        @property
        def model(self) -> str: ...

    first: ClassVar[int] = 6
    most_runs: ClassVar[int] = 256
    worst: ClassVar[float] = 0.0
    strata: ClassVar[int] = 1
    fine: ClassVar[int] = 16
    quick: bool = True
    """Whether it takes a moment only."""

    @property
    def key(self) -> str:
        """The key of its line in a plan, where a recommendation goes by it."""
        return ""

    @abstractmethod
    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """The loss of run ``i``, exactly or with its seed; None where that is too much to simulate, or no run is
        possible."""

    @abstractmethod
    def between(self, records_per_user: int) -> tuple[int, int]:
        """Where to begin the search, and the most users that are simulated; at most 0 where nothing is."""

    def at(
        self, records_per_user: int, n_users: int, epsilon: Fraction, against: float | None = None
    ) -> Prediction | None:
        """The mean loss of so many users; with ``against`` as sure as it takes to compare it with that."""
        draw = self.run(records_per_user, n_users, epsilon)
        if draw is None:
            return None
        most = self.limit(records_per_user, n_users)
        mean, error, runs = settle(
            draw, against=against, first=self.first, most=most, worst=self.worst, strata=self.strata
        )
        return Prediction(mean, error, f"{self.model}; {n_users} users", runs)

    def limit(self, records_per_user: int, n_users: int) -> int:
        """Runs at most."""
        return self.most_runs

    def users(self, records_per_user: int) -> int | None:
        """About the least number of users at which the mean is at most alpha."""
        return self.found(records_per_user)[0]

    def found(self, records_per_user: int) -> tuple[int | None, float]:
        """The same, and its standard error: 0 where the comparisons next to it are clear, else that of the mean as a
        share of alpha."""
        alpha, seen = float(self.target.alpha), dict[int, Prediction]()

        def enough(n_users: int) -> bool:
            made = self.at(records_per_user, n_users, self.target.epsilon, alpha)
            if made is not None:
                seen[n_users] = made
            return made is not None and made.excess <= alpha

        start, most = self.between(records_per_user)
        users = None if most < 1 else least_about(enough, start=start, most=most, fine=self.fine)
        if users is None:
            return None, 0.0
        below = max((n for n in seen if n < users), default=users)
        near = [seen[n] for n in {users, below} if n in seen]
        return users, max(
            (made.error / alpha for made in near if abs(made.excess - alpha) <= _CLEAR * made.error), default=0.0
        )


def big_integers(values: list[int]) -> NDArray[Any]:
    """Integers of any size as an array."""
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
