"""Medians as something to plan for.

One number per user; ``alpha`` is a share of ranks: at least ``(1/2 - alpha) n`` users' numbers are at most the answer,
and as many at least it. The law of ``pp.quantile`` scores every value by its rank
(:func:`~privpac.distributions.quantiles.ranks.certify_quantile`). ``InteriorPoint.median`` names a point between the
smallest and the largest of the ``s`` middle numbers but for ``beta``, with ``s`` planned from epsilon, delta, beta and
the domain, so ``1 + floor((n - s)/2) >= (1/2 - alpha) n`` decides. Nothing is assumed about the numbers. *Lower bound*:
if all users hold the same number, only that number is right, so as many tasks as values exclude each other.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, ClassVar

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privpac.data import Domain, Integers
from privpac.distributions.quantiles import QuantileLearner
from privpac.distributions.quantiles.ranks import certify_quantile
from privpac.errors import ParameterError, PrivpacWarning, TooLargeError
from privpac.exact import Rational
from privpac.guarantee import Neighbours, positive_int
from privpac.law.blocks import BlockLaw, Bottom
from privpac.lower_bounds import lower_packing
from privpac.mechanisms.interior_point import InteriorPoint, plan_interior_point
from privpac.methods.agreement.plurality import lower_agreement_packing
from privpac.methods.planned import (
    TABLE,
    Asked,
    CertifiedRun,
    Target,
    feature_words,
    in_python,
    option_words,
    privacy_words,
    read_goal,
)
from privpac.methods.registry import PlannedMethod
from privpac.methods.simulation import ModelRng, Simulation, big_integers, fixed_draws
from privpac.parameters import DEFAULT_BETA
from privpac.rules.populations import law_blocks
from privpac.sample_size import Certificate

# What private medians are predicted to do on uniform numbers: the mean share of ranks by which the answer misses the
# middle.
#
# One number per user, uniform over the domain.  An answer with a share ``a`` of the numbers at most it, and ``b`` at
# least it, misses by ``max(0, 1/2 - min(a, b))``; no answer by 1/2.  The exponential mechanism has an exact law over
# blocks, and its mean is a sum in double precision over drawn people of fixed seeds.  Hidden walks run, with the coins
# of the model.


_MOST_USERS = 1 << 13
MOST_BITS = 1 << 10
"""Numbers whose logarithms are doubles; longer ones are not simulated."""


def median_simulations(target: MedianTarget) -> list[MedianSimulation]:
    """The mechanisms of the plan.

    >>> [made.method for made in median_simulations(median_target(bits=32, epsilon=1))]
    ['median by the exponential mechanism']
    """
    if not 0 < target.top.bit_length() < MOST_BITS:
        return []
    made = [MedianSimulation(target, "median by the exponential mechanism", 0)]
    return [
        *made,
        *([MedianSimulation(target, "median, best number of hidden walks", "auto")] if target.delta > 0 else []),
    ]


@frozen(slots=False)
class MedianSimulation(Simulation):
    """One mechanism on uniform numbers."""

    target: MedianTarget
    method: str
    levels: int | str

    fine: ClassVar[int] = 32

    @property
    def model(self) -> str:
        return "numbers uniform over the domain, one per user"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        """None where the people are too many, or the mechanism refuses these numbers."""
        target = self.target
        try:
            point = median_point(target, self.levels, n_users, epsilon) if n_users <= _MOST_USERS else None
        except (ParameterError, TooLargeError):
            return None
        return None if point is None else lambda i: _missed(point, _numbers(target.top, n_users, i), i)

    def limit(self, records_per_user: int, n_users: int) -> int:
        return self.most_runs if not self.levels else 64

    def between(self, records_per_user: int) -> tuple[int, int]:
        return max(2, int(self.target.window(self.levels) / 2)), _MOST_USERS

    def found(self, records_per_user: int) -> tuple[int | None, float]:
        """Whatever the number of records."""
        return _found(self)


@lru_cache(maxsize=64)
def _found(simulation: MedianSimulation) -> tuple[int | None, float]:
    return super(MedianSimulation, simulation).found(1)


def median_point(target: MedianTarget, levels: int | str, n: int, epsilon: Fraction) -> InteriorPoint:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released
        return evolve(target, epsilon=epsilon).point(levels, n)


def _numbers(top: int, n: int, seed: int) -> list[int]:
    """Uniform numbers, of which a larger data set of the same seed holds those of a smaller one; the bias is below
    2**-64."""
    size = top.bit_length() // 8 + 9
    drawn = fixed_draws(13, seed).bytes(n * size)
    return [int.from_bytes(drawn[i * size : (i + 1) * size], "little") % (top + 1) for i in range(n)]


def _missed(point: InteriorPoint, numbers: list[int], i: int) -> float:
    """The mean share of ranks by which the answer misses the middle, in run ``i``."""
    if point.reductions:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released
            answer = point.sample(numbers, ModelRng(29, i))
        return 0.5 if isinstance(answer, Bottom) else float(_shares(sorted(numbers), [answer])[0])
    law = point.law(numbers)
    assert isinstance(law, BlockLaw)
    held: Any = sorted(numbers)
    firsts, _, scores = law_blocks(law, point.top + 1)
    # The law's blocks outside its window of ranks hold further numbers: on the common refinement both are constant.
    begins = sorted({*(int(v) for v in firsts.tolist()), *held, *(v + 1 for v in held if v < point.top)})
    place = np.searchsorted(big_integers([int(v) for v in firsts.tolist()]), big_integers(begins), side="right") - 1
    lengths = np.array([float(b - a) for a, b in zip(begins, [*begins[1:], point.top + 1])])
    rate = float(law.eta) if law.eta is not None else math.log(law.base or 1)
    logs = np.log(lengths) - rate * (scores - scores.min())[place]
    weight = np.exp(logs - logs.max())
    return float(np.sum(weight * _shares(held, begins)) / np.sum(weight))


def _shares(held: list[int], answers: list[int]) -> NDArray[np.float64]:
    """By which share of the ranks each answer misses the middle of the sorted numbers."""
    n, y, z = len(held), big_integers(held), big_integers(answers)
    fewer = np.minimum(np.searchsorted(y, z, side="right"), n - np.searchsorted(y, z))
    missed: NDArray[np.float64] = np.maximum(0.5 - fewer / n, 0.0)
    return missed


_MOST_TASKS = 1 << 999
_LEVELS: dict[str, int | str] = {
    "median by the exponential mechanism": 0,
    "median, best number of hidden walks": "auto",
}
"""The reductions behind the rows for medians."""

_MOST_VALUES = 1 << 64
"""Of a column that ``pp.quantile`` reads."""


@frozen(slots=False)
class MedianTarget(Target):
    """A median of one number per user, up to ``alpha`` of the ranks, except with probability ``beta``; numbers are
    ``0..top`` in order."""

    top: int
    epsilon: Fraction
    delta: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours

    measure = "share of ranks"
    takes: ClassVar[tuple[str, ...]] = ("domain", "bits")

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        """Records per user do not matter."""
        lines = [
            PlannedMethod(
                row,
                partial(self._any_records, levels),
                run=partial(self._run, row, levels),
                key="median",
                hard_laws="privpac.auditing.vote_laws:median_claim",
            )
            for row, levels in _LEVELS.items()
            if self.delta > 0 or not levels
        ]
        if self.top < _MOST_VALUES:
            laws = "privpac.auditing.vote_laws:quantile_claim"
            ranks = PlannedMethod(
                "median by its rank", self.by_ranks, run=self._ranks_run, key="quantile", hard_laws=laws
            )
            lines.insert(0, ranks)
        return [*lines, PlannedMethod("any private median", self.lower, kind="lower bound")]

    @property
    def shown(self) -> dict[str, str]:
        """The domain in words, for a title."""
        size = self.top + 1
        return {
            "median": f"of {size:,} values"
            if size.bit_length() <= 32
            else f"of about 2^{(size - 1).bit_length()} values"
        }

    @property
    def note(self) -> str:
        return "one number per user counts, and alpha is a share of the ranks"

    def _run(self, row: str, levels: int | str, m: int, certificate: Certificate, asked: Asked) -> CertifiedRun:
        """The mechanism that a certified row speaks of, for the declared number of users."""
        n: int = asked.n_users or certificate.n_users or 0  # something is certified
        told = {"n_users": n, "beta": self.beta, "levels": levels} | ({"delta": self.delta} if levels else {})
        how = in_python(f"plan.learner({row!r}).sample(numbers), one whole number from 0 on for each user")
        return CertifiedRun("median", certificate.n_users, told, lambda: self.point(levels, n), how)

    def by_ranks(self, m: int) -> Certificate:
        """The least ``n`` for the law that scores ranks."""
        return certify_quantile(
            self.epsilon, self.beta, self.alpha, size=self.top + 1, neighbours=self.neighbours
        ).run_with(weight="own", confidence=1 - self.beta)

    def _ranks_run(self, m: int, certificate: Certificate, asked: Asked) -> CertifiedRun:
        """What ``pp.quantile`` runs."""
        told = certificate.parameters
        words = [
            *("quantile", *TABLE, *feature_words({"COLUMN": Integers(0, self.top)})),
            *(*privacy_words(self.epsilon, self.neighbours), *option_words(told)),
        ]
        return CertifiedRun(
            "quantile",
            certificate.n_users,
            told,
            lambda: QuantileLearner(self.epsilon, "1/2", neighbours=self.neighbours, **told),
            lambda: words,
        )

    def point(self, levels: int | str, n: int) -> InteriorPoint:
        """The mechanism for ``n`` users."""
        given: dict[str, Any] = {"top": self.top, "beta": self.beta, "levels": levels, "neighbours": self.neighbours}
        return InteriorPoint.median(self.epsilon, self.delta if levels else 0, n_users=n, **given)

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        return [*median_simulations(self)]

    def window(self, levels: int | str) -> int:
        """How many middle numbers the mechanism plans for."""
        if self.top == 0:
            return 1
        return plan_interior_point(
            self.epsilon, self.delta, self.beta, bits=self.top.bit_length(), top=self.top, levels=levels
        ).size

    def _any_records(self, levels: int | str, m: int) -> Certificate:
        return self.median(levels)

    def median(self, levels: int | str) -> Certificate:
        """The least ``n`` from which on the middle numbers are close enough to the median."""
        size = self.window(levels)
        # floor((n - s)/2) >= (n - s - 1)/2, so all n from (s - 1)/(2 alpha) on are enough; parity may allow a few less.
        n = max(size, math.ceil((size - 1) / (2 * self.alpha)))
        while self.close(n - 1, size):
            n -= 1
        return Certificate.upper(
            n, "median", "any numbers, and their number declared (n_users)", window=size, levels=levels
        )

    def close(self, n: int, size: int) -> bool:
        """Whether ``n`` users with a window of ``size`` in the middle are enough."""
        return n >= size and 1 + (n - size) // 2 >= (Fraction(1, 2) - self.alpha) * n

    def lower(self, m: int) -> Certificate:
        # With half of the ranks to spare every answer will do.
        tasks = min(self.top + 1, _MOST_TASKS) if self.alpha < Fraction(1, 2) else 1
        found = [lower_agreement_packing(tasks, epsilon=self.epsilon, delta=self.delta, beta=self.beta)]
        if self.delta == 0:
            found.append(
                lower_packing(tasks, 1, epsilon=self.epsilon, success=1 - self.beta, neighbours=self.neighbours)
            )
        return max(found, key=lambda c: c.n_users or 0)


def median_target(
    domain: Domain | None = None,
    *,
    bits: int | None = None,
    epsilon: Rational,
    delta: Rational = 0,
    alpha: Rational = "0.05",
    beta: Rational = DEFAULT_BETA,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> MedianTarget:
    """What to plan for: the median of a column with a declared domain, or of integers of ``bits`` bits.

    >>> target = median_target(bits=64, epsilon=1)
    >>> [(method.name, method.certify(1).n_users) for method in target.methods()]
    [('median by its rank', 946), ('median by the exponential mechanism', 1879), ('any private median', 45)]
    """
    if (domain is None) == (bits is None):
        raise ParameterError("give the domain of the column, or bits, the length of its numbers")
    if domain is not None and not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(domain).__name__}")
    top = domain.size - 1 if domain is not None else (1 << positive_int(bits, "bits", maximum=1 << 20)) - 1
    return MedianTarget(top, **read_goal(epsilon, alpha, beta, neighbours, delta))
