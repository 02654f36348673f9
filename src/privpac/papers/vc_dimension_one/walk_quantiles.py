"""Quantiles by hidden walks, for comparison: the people they need grow with log* of the domain, not with its log.

Everybody votes once; the answer is an interior point of the ``size`` votes around the wanted rank
(:class:`~privpac.mechanisms.interior_point.InteriorPoint`).  Columns have at most 2**64 values, and there the rank law
(:mod:`privpac.distributions.quantiles.ranks`) needs fewer people and no delta: the walks win from about 140 bits on,
where ``pp.release(InteriorPoint(...), numbers)`` takes whole numbers of any length.

**Guarantee.**  ``(epsilon, delta)`` per user, that of the interior point: one vote each, under both relations.

**Accuracy.**  Rests on the declared number of people: if exactly so many vote, the answer misses its rank by at most
``rank_error`` but for ``1 - confidence``.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen

from privpac.data import Domain
from privpac.distributions.base import BoundUsers
from privpac.distributions.quantiles.quantile_learner import QuantileLearner
from privpac.distributions.quantiles.result import Quantiles
from privpac.errors import ParameterError
from privpac.guarantee import Guarantee
from privpac.law.blocks import Bottom
from privpac.mechanisms.interior_point import InteriorPoint, plan_interior_point
from privpac.parameters import Composed, bounds, named, part, probability_or_zero, whole
from privpac.result import NoRelease, Released

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.distributions.quantiles.ranks import End
    from privpac.exact import Rational
    from privpac.law import Law
    from privpac.rng import Rng

DECLARED = "the statement about ranks holds if exactly the declared number of people have records"


@frozen(slots=False, field_transformer=named)
class HiddenWalks:
    """What hidden walks need.  All public.

    Parameters
    ----------
    delta : number
        The most that the promise may miss.
    public_n_users : int
        The number of people, declared.
    walks : int
        How many walks, 0 to 8; default 1.
    """

    delta: Fraction = field(kw_only=True, converter=probability_or_zero)
    public_n_users: int = field(kw_only=True, converter=whole)
    walks: int = field(default=1, kw_only=True, converter=whole, metadata=bounds(minimum=0, maximum=8))

    def __attrs_post_init__(self) -> None:
        if self.walks and not self.delta:
            raise ParameterError("hidden walks need delta above 0, such as 1e-6; without one use method='ranks'")


@frozen(slots=False, init=False, field_transformer=named)
class WalkQuantile(Composed, QuantileLearner):
    """One quantile of one vote each, by interior points with hidden walks.

    Parameters
    ----------
    hidden : HiddenWalks
        Given by its own parameters: ``delta``, ``public_n_users``, ``walks``.
    """

    hidden: HiddenWalks = part(HiddenWalks)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if len(self.q) > 1 or self.interval:
            raise ParameterError("method 'walks' releases one quantile without an interval; use method='ranks'")
        if self.weight not in ("own", "one"):
            raise ParameterError(
                f"method 'walks' takes one vote of everybody: weight 'own' or 'one', got {self.weight!r}"
            )

    @property
    def levels(self) -> int:
        """One vote, also of who has two own quantiles: an interior point takes no more."""
        return 1

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            self.epsilon,
            self.hidden.delta if self.hidden.walks else 0,
            unit=self.unit,
            neighbours=self.neighbours,
            derivation=(f"an interior point by {self.hidden.walks} hidden walk(s), one vote of each person",),
        )

    def point(self, domain: Domain) -> InteriorPoint:
        """The mechanism: the votes around the wanted rank, counted from above."""
        least, most = domain.value_range()
        top, n, beta = most - least, self.hidden.public_n_users, 1 - self.confidence
        shared: dict[str, Any] = {"top": top, "beta": beta, "levels": self.hidden.walks, "unit": self.unit}
        shared["neighbours"] = self.neighbours
        delta = self.hidden.delta if self.hidden.walks else 0
        if top == 0:
            return InteriorPoint(self.epsilon, delta, **shared)
        planned = plan_interior_point(
            self.epsilon, delta, beta, bits=top.bit_length(), top=top, levels=self.hidden.walks
        )  # fmt: skip
        if planned.size > n:
            raise ParameterError(
                f"{planned.size} people are needed for {self.hidden.walks} hidden walk(s) over {top + 1} values, and "
                f"{n} are declared; use method='ranks'"
            )
        hi = 1 + int((1 - self.q[0]) * (n - planned.size))
        return InteriorPoint(self.epsilon, delta, **shared, hi=hi, size=planned.size)

    def missed_by(self, point: InteriorPoint) -> Fraction:
        """``#{votes > z} <= hi + size - 2`` and ``#{votes < z} <= n - hi``, against ``(1-q) n`` and ``q n``."""
        n, q = self.hidden.public_n_users, self.q[0]
        size = point.size
        return max(Fraction(0), point.hi + size - 2 - (1 - q) * n, n - point.hi - q * n)

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        super().check_domains(domains)
        self.point(next(iter(domains.values())))  # too few people are refused before anything is spent

    def _votes(self, bound: BoundUsers, least: int) -> list[int]:
        held = self._values(bound)[self.q[0]]
        votes: list[int] = np.repeat(held.codes - np.uint64(least), held.weights).tolist()
        return votes

    def law(self, data: Users, q: Rational | None = None, end: End = "point") -> Law:
        """The exact law of the answer and ``BOTTOM``, where it can be written down (curator only)."""
        bound = self.bind(data)
        domain = next(iter(bound.features.values()))
        least = domain.value_range()[0]
        found = self.point(domain).law(self._votes(bound, least))
        return found.map(lambda drawn: drawn if isinstance(drawn, Bottom) else least + drawn)

    def shown_as(self, bound: BoundUsers, value: Any) -> tuple[str, str] | None:
        return ("none", str(NoRelease)) if isinstance(value, Bottom) else super().shown_as(bound, value)

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        name, domain = next(iter(bound.features.items()))
        point, least = self.point(domain), domain.value_range()[0]
        drawn = point.sample(self._votes(bound, least), rng)
        parameters: dict[str, object] = {
            "weight": self.weight,
            "hidden walks": self.hidden.walks,
            "declared people": self.hidden.public_n_users,
            "window": point.size,
        }
        told: dict[str, Any] = {"parameters": parameters, "warnings": (DECLARED,), "learner": "WalkQuantile"}
        if isinstance(drawn, Bottom):
            return Released(NoRelease, self.guarantee, outcome="none", **told)
        found = Quantiles(
            name, domain, self.q, (least + int(drawn),), None, None, self.missed_by(point), Fraction(0),
            self.confidence,
        )  # fmt: skip
        return Released(found, self.guarantee, **told)
