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
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np
from attrs import frozen
from scipy.stats import beta as beta_law

from privpac.arrays import Floats64, Ints
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int
from privpac.rules.base import ConceptClass
from privpac.special import gammaln, xlogy

MULTIPLES: tuple[Rational, ...] = (1, "1.02", "1.1", "1.5", 4)
"""Numbers of users that are tried, as multiples of the certified one."""

SAFE = 5
"""Standard errors above ``beta`` from which on a drawn value counts as a refutation."""

UNSURE = 1e-6
"""How often counted runs may seem to refute what is true: 1e-3 over all laws and numbers of users of a climb."""

SearchPoint = tuple[float, ...]
"""A law that the assumption allows, as coordinates between 0 and 1."""


@frozen(slots=False)
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


@frozen(slots=False)
class Claim:
    """A promise, and how to put it to the test: ``failure(law, n)`` with ``n`` users, on laws near ``starts`` or
    wherever the climb leads.

    Every point of the unit cube must stand for a law that the assumption allows, and the learner must be the one that
    the certificate speaks of, with its parameters for ``n`` users.
    """

    name: str
    n_users: int
    beta: float
    starts: tuple[SearchPoint, ...]
    failure: Callable[[SearchPoint, int], Failure]
    about: Callable[[SearchPoint], str] = repr

    def __attrs_post_init__(self) -> None:
        positive_int(self.n_users, "n_users")
        if not self.starts or len({len(point) for point in self.starts}) != 1:
            raise ParameterError("a claim needs at least one law to start from, all with equally many coordinates")


@frozen(slots=False)
class Attack:
    """The worst law found for one number of users."""

    n_users: int
    failure: Failure
    law: str
    point: SearchPoint


@frozen(slots=False)
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

    def to_dict(self) -> dict[str, object]:
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
    best: SearchPoint | None = None
    attacks = []
    for n in numbers:
        starts = claim.starts if best is None or best in claim.starts else (*claim.starts, best)
        best, found = _climb(claim, n, starts, budget)
        attacks.append(Attack(n, found, claim.about(best), best))
    return Refutation(claim, tuple(attacks))


def _climb(claim: Claim, n: int, starts: Iterable[SearchPoint], steps: int) -> tuple[SearchPoint, Failure]:
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


# Laws of people on a few values, as hard as an assumption allows: what the attacks on certificates start from.
#
# A few values of x carry all the mass: one *critical* value, just heavy enough that the many rules which are wrong
# there are too bad by a hair; a *far* value with nearly all the rest; and perhaps two *light* values, which only make
# optimism. Labels are wrong as often as the assumption allows, or less.  So a class falls into few groups of rules that
# predict alike, and a user is a row of counts:
#
# ==========  ==========================================================================================================
# ``cuts``    cut-offs that say 1 from the cut on; most cuts lie between the critical and the far value
# ``points``  single values; most of them are no value of the law and say 0 everywhere; leaves of a tree are the same
# ``stumps``  cut-offs of several columns in both directions, all columns in one order: as ``cuts``, more often
# ==========  ==========================================================================================================


OVER = 1 + 1e-6
"""How much worse than alpha a critical rule is."""

_TYPES = 1 << 14


def shape_of(concept: ConceptClass) -> tuple[str, tuple[int, ...]]:
    """How the class falls into groups on a few values, and for stumps the numbers of cuts of its columns."""
    found = concept.few_values
    if found is not None:
        return found.shape, found.cuts
    raise ParameterError(
        "laws are made for cut-offs that say 1 from the cut on, such as Thresholds(Integers(0, 100)), for points, "
        "stumps and nodes of trees"
    )


@frozen(slots=False)
class FewValueLaw:
    """Values of x in order with their masses, how often each has the label 1, and the shape of the class (see the
    module)."""

    mass: tuple[float, ...]
    ones: tuple[float, ...]
    shape: str = "cuts"
    columns: tuple[int, ...] = ()
    """Of stumps: cuts of every column."""

    @property
    def values(self) -> int:
        return len(self.mass)

    @cached_property
    def says(self) -> Ints:
        """Predictions of the groups: cut g says 0 on the first g values, point g says 1 on value g only."""
        k = self.values
        if self.shape == "points":
            return np.concatenate([np.eye(k, dtype=np.int64), np.zeros((1, k), dtype=np.int64)])
        above = np.array([[int(j >= g) for j in range(k)] for g in range(k + 1)])
        return np.concatenate([above, 1 - above[1:k]]) if self.shape == "stumps" else above

    def copies(self, size: int) -> Floats64:
        """Rules in each group of a class of this size: the values are 0, 1, ... and the last of all, where most cuts
        lie before that one.

        Those of stumps are 0, 1, ... and the last in every column, so both constants are there twice for each.
        """
        k = self.values
        many = (min(self.columns) if self.shape == "stumps" else size) - k
        if many < 1:
            raise ParameterError(f"a class of {size} rules is too small for {k} values")
        if self.shape == "points":
            return np.array([*[1.0] * k, float(many)])
        if self.shape == "cuts":
            return np.array([*[1.0] * (k - 1), float(many), 1.0])
        d, between = float(len(self.columns)), size / 2 - len(self.columns) * k
        one_way = np.array([*[d] * (k - 1), between, d])
        ends = np.zeros(k + 1)
        ends[[0, k]] = d
        return np.concatenate([one_way + ends, one_way[1:k]])

    def places(self, size: int) -> list[int]:
        """The codes of the values in a column of so many."""
        return [*range(self.values - 1), self.values - 1 if self.shape == "points" else size - 1]

    @cached_property
    def errors(self) -> Floats64:
        mass, ones = np.array(self.mass), np.array(self.ones)
        return np.asarray(np.where(self.says == 1, 1 - ones, ones) @ mass)

    def mistakes(self, counts: Ints) -> Ints:
        """Of users by groups; ``counts`` has the zeros of all values, then the ones."""
        k = self.values
        return np.asarray(counts[:, :k] @ self.says.T + counts[:, k:] @ (1 - self.says).T)

    @property
    def cells(self) -> Floats64:
        """Probabilities of (value, 0) for all values, then of (value, 1)."""
        mass, ones = np.array(self.mass), np.array(self.ones)
        return np.concatenate([mass * (1 - ones), mass * ones])

    def __str__(self) -> str:
        return ", ".join(f"{mass:.4g} of x with ones {ones:.3g}" for mass, ones in zip(self.mass, self.ones))


def law_at(
    point: SearchPoint, alpha: float, noise: float, shape: str = "cuts", columns: tuple[int, ...] = ()
) -> FewValueLaw:
    """The law of a point: noise at the critical, the far and the light values, mass of the two light ones, and of the
    critical one."""
    critical, far, light, left, right, heavier = point
    top = min(noise, (1 - alpha * OVER / 0.9) / 2)
    at_critical, at_far, at_light = critical * top, far * noise, light * top
    wanted = min(alpha * OVER * (1 + heavier), 0.95 * (1 - 2 * at_critical))
    # The light value on the right is on the way to the many cuts; the one on the left costs the cut before the best
    # one.
    room = 0.97 - wanted / (1 - 2 * at_critical)
    between = min(right * wanted / 2 / (1 - 2 * at_light), room) if right else 0.0
    mass = (wanted - (0.0 if shape == "points" else between * (1 - 2 * at_light))) / (1 - 2 * at_critical)
    beside = min(left * wanted / (1 - 2 * at_light), max(0.0, 0.98 - mass - between)) if left else 0.0
    rest = 1 - mass - between - beside
    if shape == "points":  # one value is mostly 1, all others are mostly 0
        parts = [(beside, at_light), (between, at_light), (mass, 1 - at_critical), (rest, at_far)]
    else:
        parts = [(beside, at_light), (between, 1 - at_light), (mass, 1 - at_critical), (rest, 1 - at_far)]
    kept = [(weight, ones) for weight, ones in parts if weight > 1e-9]
    return FewValueLaw(tuple(weight for weight, _ in kept), tuple(ones for _, ones in kept), shape, columns)


STARTS: tuple[SearchPoint, ...] = (
    *((critical, far, 0.0, 0.0, 0.0, 0.0) for critical in (0.0, 0.5, 1.0) for far in (0.0, 1.0)),
    (0.5, 0.5, 1.0, 1.0, 0.0, 0.0),
    (1.0, 1.0, 1.0, 0.5, 0.0, 0.0),
)
"""Two values with noise at either, and a third one beside the best cut."""


def user_types(law: FewValueLaw, m: int) -> tuple[Ints, Floats64] | None:
    """All users of ``m`` records as counts of cells, with their probabilities; ``None`` if they are too many."""
    cells = law.cells
    used = np.flatnonzero(cells > 0)
    parts = len(used)
    if math.comb(m + parts - 1, parts - 1) > _TYPES:
        return None
    bars = np.array(list(combinations(range(m + parts - 1), parts - 1)), dtype=np.int64).reshape(-1, parts - 1)
    ends = np.concatenate([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), m + parts - 1)], axis=1)
    counts = np.zeros((len(bars), len(cells)), dtype=np.int64)
    counts[:, used] = np.diff(ends, axis=1) - 1
    logs = gammaln(m + 1) - gammaln(counts + 1).sum(axis=1) + xlogy(counts, cells).sum(axis=1)
    chances = np.exp(logs)
    return counts, chances / chances.sum()
