"""Is a promise of accuracy true?  A search for a law of people on which it is not.

A certificate says: with ``n_users`` users **or more**, on every law that its assumption allows, the promise fails with
probability at most ``beta``.  One law and one number of users on which it fails more often refutes it.  :func:`refute`
looks for them: from a few laws known to be hard it climbs, one coordinate after the other, towards laws that fail more
often, with the certified number of users and with 1.02, 1.1, 1.5 and 4 times as many.  Where the failure probability is
computed exactly, a value above ``beta`` is a refutation; where it is the mean of exact laws over drawn data sets, five
standard errors are left on the safe side, and where runs are counted a confidence bound.

A :class:`Claim` is all that a certificate needs to be put to the test; those of plans come from
:func:`privpac.auditing.claims.plan_claims`.

>>> coin = Claim("no more heads than tails", 9, 0.4, ((0.5,),), lambda law, n: Failure(law[0] ** 9),
...     lambda law: f"heads with {law[0]:.2f}")
>>> refute(coin).refuted, refute(coin).worst.law
(True, 'heads with 1.00')
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scipy.stats import beta as beta_law

from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int

__all__ = ["MULTIPLES", "Attack", "Claim", "Failure", "Point", "Refutation", "refute"]

MULTIPLES: tuple[Rational, ...] = (1, "1.02", "1.1", "1.5", 4)
"""Numbers of users that are tried, as multiples of the certified one."""

SAFE = 5
"""Standard errors above ``beta`` from which on a drawn value counts as a refutation."""

UNSURE = 1e-6
"""How often counted runs may seem to refute what is true: 1e-3 over all laws and numbers of users of a climb."""

Point = tuple[float, ...]
"""A law that the assumption allows, as coordinates between 0 and 1."""


@dataclass(frozen=True)
class Failure:
    """How often a promise fails on one law; ``error`` is a standard error, 0 where nothing was drawn."""

    probability: float
    error: float = 0.0
    least: float | None = None
    """A lower confidence bound, where failures were counted."""

    @classmethod
    def counted(cls, wrong: int, runs: int) -> Failure:
        """So many of independent runs failed; the bound of Clopper and Pearson, wrong once in a million.

        >>> Failure.counted(30, 100).surely < 0.3, Failure.counted(0, 100).surely
        (True, 0.0)
        """
        share = wrong / runs
        bound = float(beta_law.ppf(UNSURE, wrong, runs - wrong + 1)) if wrong else 0.0
        return cls(share, math.sqrt(share * (1 - share) / runs), bound)

    @property
    def surely(self) -> float:
        """What the probability exceeds beyond reasonable doubt."""
        return self.probability - SAFE * self.error if self.least is None else self.least


@dataclass(frozen=True)
class Claim:
    """A promise, and how to put it to the test: ``failure(law, n)`` with ``n`` users, on laws near ``starts`` or
    wherever the climb leads.

    Every point of the unit cube must stand for a law that the assumption allows, and the learner must be the one that
    the certificate speaks of, with its parameters for ``n`` users.
    """

    name: str
    n_users: int
    beta: float
    starts: tuple[Point, ...]
    failure: Callable[[Point, int], Failure]
    about: Callable[[Point], str] = repr

    def __post_init__(self) -> None:
        positive_int(self.n_users, "n_users")
        if not self.starts or len({len(point) for point in self.starts}) != 1:
            raise ParameterError("a claim needs at least one law to start from, all with equally many coordinates")


@dataclass(frozen=True)
class Attack:
    """The worst law found for one number of users."""

    n_users: int
    failure: Failure
    law: str
    point: Point


@dataclass(frozen=True)
class Refutation:
    """The outcome for one claim: the worst law for each number of users."""

    claim: Claim
    attacks: tuple[Attack, ...]

    @property
    def worst(self) -> Attack:
        """The attack that fails most often."""
        return max(self.attacks, key=lambda attack: attack.failure.surely)

    @property
    def refuted(self) -> bool:
        return self.worst.failure.surely > self.claim.beta

    def to_dict(self) -> dict[str, Any]:
        found = [
            {"n_users": a.n_users, "failure": a.failure.probability, "standard_error": a.failure.error, "law": a.law}
            for a in self.attacks
        ]
        return {
            "claim": self.claim.name,
            "certified": self.claim.n_users,
            "beta": self.claim.beta,
            "refuted": self.refuted,
            "attacks": found,
        }

    def __str__(self) -> str:
        worst, verdict = self.worst, "refuted" if self.refuted else "not refuted"
        found = f"failure {worst.failure.probability:.3g} at {worst.n_users} users ({worst.law})"
        return f"{self.claim.name}: certified {self.claim.n_users}, beta {self.claim.beta:g}: {verdict}; {found}"


def refute(claim: Claim, *, multiples: Iterable[Rational] = MULTIPLES, steps: int = 24) -> Refutation:
    """Look for a law on which the claim is false; deterministic.

    ``steps``: laws tried beyond the starts, for each number of users.  What is not refuted is not proved: the proof is
    the certificate's.
    """
    budget = positive_int(steps, "steps", minimum=0)
    numbers = sorted({math.ceil(claim.n_users * rational(multiple, "multiples", minimum=1)) for multiple in multiples})
    if not numbers:
        raise ParameterError("multiples needs at least one number")
    best: Point | None = None
    attacks = []
    for n in numbers:
        starts = claim.starts if best is None or best in claim.starts else (*claim.starts, best)
        best, found = _climb(claim, n, starts, budget)
        attacks.append(Attack(n, found, claim.about(best), best))
    return Refutation(claim, tuple(attacks))


def _climb(claim: Claim, n: int, starts: Iterable[Point], steps: int) -> tuple[Point, Failure]:
    """From the worst start, one coordinate after the other, in steps that shrink when none helps."""
    tried = {point: claim.failure(point, n) for point in starts}
    point = max(tried, key=lambda p: tried[p].surely)
    stride, left = Fraction(1, 4), steps
    while left > 0 and stride >= Fraction(1, 64):
        before = point
        for axis in range(len(point)):
            for way in (1, -1):
                moved = min(1.0, max(0.0, point[axis] + way * float(stride)))
                near = (*point[:axis], moved, *point[axis + 1 :])
                if near in tried or left <= 0:
                    continue
                tried[near], left = claim.failure(near, n), left - 1
                if tried[near].surely > tried[point].surely:
                    point = near
                    break
        if point == before:
            stride /= 2
    return point, tried[point]
