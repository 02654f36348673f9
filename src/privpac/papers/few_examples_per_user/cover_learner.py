"""Learning a distribution by selecting from a public cover of its family (Theorems 42-46).

The cover is finite and public and some member is within ``c`` of the population, so hypothesis selection applies: a
user's contribution to a pair is ``clip(m q - L c_i, -T, T)`` and a member's score is its worst pair sum.

**Guarantee.**  ``(epsilon, 0)`` per user by the range rule (see :mod:`privpac.distributions.selection.selector`); it
does not depend on the family containing the population.  **Accuracy.**  Total variation ``alpha`` except with
probability ``beta`` for as many users as :meth:`CoverLearner.certificate_for` says (C2 with ``a0 = c``, ``a1 = alpha -
2 c``, width 1).

Covers grow quickly; beyond their limits ``TooLargeError`` names the learner to use instead, before data are touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from math import log
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac.data import Domain
from privpac.distributions.base import (
    BoundUsers,
    Discrete,
    DistributionLearner,
    Family,
    Gaussian,
    Independent,
    read_family,
    warn_accuracy,
)
from privpac.distributions.cells import is_numeric
from privpac.distributions.selection.accuracy import (
    ClipAim,
    ClipPlan,
    KnownPairs,
    default_resolution,
    read_plan,
    read_top,
)
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import rational
from privpac.guarantee import Guarantee, Unit
from privpac.mechanisms.exponential import ExponentialMechanism
from privpac.papers.few_examples_per_user.covers import Cover, DiscreteCover, ProductCover
from privpac.parameters import Composed, bounds, fraction, fraction_or_none, named, part, privacy
from privpac.result import Released

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.law import Law
    from privpac.rng import Rng
    from privpac.sample_size import Certificate

__all__ = ["CoverLearner"]


@frozen(slots=False, field_transformer=named)
class CoverAim(ClipAim):
    """What a cover is made for.  All public.

    Parameters
    ----------
    alpha : number
        The distance aimed at.
    cover_radius : number, optional
        How far the nearest member may be; default ``alpha / 10``.
    """

    alpha: Fraction = field(kw_only=True, converter=fraction, metadata=bounds(above=0, maximum=1))
    _cover_radius: Fraction | None = field(
        default=None, kw_only=True, converter=fraction_or_none, metadata=bounds(above=0)
    )

    def __attrs_post_init__(self) -> None:
        if 3 * self.cover_radius >= self.alpha:
            raise ParameterError(
                f"cover_radius must be below alpha / 3, got {float(self.cover_radius):.3g}; the default alpha / 10 is "
                "a good choice"
            )

    @property
    def cover_radius(self) -> Fraction:
        return self.alpha / 10 if self._cover_radius is None else self._cover_radius


@frozen(slots=False, init=False, field_transformer=named)
class CoverLearner(Composed, DistributionLearner):
    """Select a member of a cover.

    Parameters
    ----------
    family : {"discrete", "product"} or Gaussian
        What is learned (public).
    epsilon : number
        The privacy parameter.
    aim : CoverAim
        Given by its own parameters: ``alpha``, ``cover_radius``, ``records_per_user``, ``tau``, ``beta``,
        ``public_n_users``.

    >>> from privpac.data import Categories, UserData
    >>> votes = UserData.from_users([["a", "b"], ["a"], ["a", "a"]], features={"v": Categories(["a", "b"])},
    ...     labelled=False)
    >>> learner = CoverLearner("discrete", epsilon=8, alpha="1/2", records_per_user=2)
    >>> print(learner.cover(votes.features).member(learner.law(votes).mode))
    v: a 0.8, b 0.2
    """

    family: Family = field(converter=read_family)
    epsilon: Fraction = field(converter=privacy)
    aim: CoverAim = part(CoverAim)

    def __attrs_post_init__(self) -> None:
        if self.unit is Unit.USER and self.aim.records_per_user is None and self.aim.tau is None:
            raise ParameterError(
                "declare records_per_user (public) or tau: the clip must not be read off the data; "
                "privpac.private_cap buys a private cap for part of the budget"
            )

    @property
    def cover_radius(self) -> Fraction:
        return self.aim.cover_radius

    @cached_property
    def _made(self) -> dict[Any, Cover]:
        return {}

    # Public numbers

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=self.epsilon**2 / 8)

    def check_domains(self, domains: Mapping[str, Domain]) -> None:
        cover = self.cover(domains)
        read_top(cover.unit, self.plan(cover).clip)

    def cover(self, domains: Mapping[str, Any]) -> Cover:
        """The cover on these columns: public, built once."""
        key = tuple(domains.items())
        if key not in self._made:
            self._made[key] = self._build(domains)
        return self._made[key]

    def _build(self, domains: Mapping[str, Domain]) -> Cover:
        family, radius = self.family, self.aim.cover_radius
        if isinstance(family, Discrete):
            return DiscreteCover.of(domains, radius)
        if isinstance(family, Independent):
            return ProductCover.of(domains, radius)
        assert isinstance(family, Gaussian)
        odd = [name for name, domain in domains.items() if not is_numeric(domain)]
        if odd:
            raise ParameterError(f"columns {odd} do not hold numbers; a Gaussian needs Integers, Grid or Floats")
        return _gaussian_cover(family, dict(domains), radius, default_resolution(self.aim.alpha))

    def plan(self, cover: Cover) -> ClipPlan:
        """The numbers of the accuracy certificate for a cover."""
        aim, radius = self.aim, self.aim.cover_radius
        m = 1 if self.unit is Unit.ITEM else aim.records_per_user
        pairs = (
            None
            if cover.rounding is None or cover.size == 1
            else KnownPairs.of(cover.likely(), cover.unit, cover.rounding, self.cap)
        )
        return read_plan(
            log(cover.size),
            self.epsilon,
            radius,
            aim.alpha - 2 * radius,
            aim.beta,
            m,
            aim.tau,
            self.neighbours,
            self.cap,
            pairs,
            cover.unit,
        )

    def certificate_for(self, domains: Mapping[str, Domain]) -> Certificate | None:
        """How many users make the output ``alpha``-close except with probability ``beta``."""
        return self.plan(self.cover(domains)).certificate

    # Law

    def bind(self, data: Users) -> BoundUsers:
        users, domains = self.bind_users(data)
        cover = self.cover(domains)
        n_users = self.public_users(users, self.aim.public_n_users)
        short = None if n_users is None else self.plan(cover).shortfall(n_users)
        return BoundUsers(users, domains, (warn_accuracy(short),) if short else (), cover)

    def law(self, data: Users) -> Law:
        """The law over the cover's members."""
        return self._law(self.bind(data))

    def _law(self, bound: BoundUsers) -> Law:
        cover: Cover = bound.plan
        top = read_top(cover.unit, self.plan(cover).clip)
        reach = cover.range(top, self.cap, self.neighbours)
        return ExponentialMechanism(self.epsilon, reach, unit=self.unit, neighbours=self.neighbours).law(
            cover.scores(bound.users, top)
        )

    def draw(self, bound: BoundUsers, rng: Rng) -> Released:
        cover: Cover = bound.plan
        chosen = cover.member(int(self._law(bound).sample(rng)))
        shown: dict[str, Any] = {
            "family": type(self.family).__name__.lower(),
            "size": cover.size,
            "alpha": self.aim.alpha,
            "cover_radius": self.aim.cover_radius,
            "tau": self.plan(cover).clip,
            "resolution": cover.unit,
        }
        if self.max_records is not None:
            shown["max_records"] = self.max_records
        return Released(chosen, self.guarantee, shown, warnings=bound.warnings, learner="selection from a cover")


def _gaussian_cover(family: Gaussian, domains: dict[str, Domain], radius: Fraction, unit: int) -> Cover:
    from privpac.papers.few_examples_per_user.covers import covariance_cover, grid_cover, location_cover, scale_cover

    reach, variance = rational(family.radius), rational(family.variance)
    if len(domains) == 1:
        ((feature, domain),) = domains.items()
        if family.max_variance is None:
            return location_cover(feature, domain, reach, variance, radius, unit)
        return scale_cover(feature, domain, reach, variance, family.ratio, radius, unit)
    if len(domains) > 4:
        raise TooLargeError(
            f"a cover of normal laws of {len(domains)} columns is too large; use CoarseToFineMean or "
            "CoarseToFineGaussian"
        )
    if family.max_variance is None:
        return grid_cover(domains, reach, variance, radius, unit)
    return covariance_cover(domains, reach, variance, family.ratio, radius, unit)
