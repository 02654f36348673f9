"""Agnostic learning at user level by counting users with too many mistakes.

1. Estimate the least error of the class privately (:class:`~privpac.papers.pure_agnostic.minimum_error.MinimumError`,
   ``share`` of epsilon).
2. From the estimate take for every number of records the number of mistakes that separates good rules from bad ones
   best (``robust_t``): post-processing.
3. Select by the exponential law over "users with more mistakes than that", from the class or from a representation of
   it.

With ``2a + ln(3|H|/beta)/(lambda n)`` below the gap that ``robust_t`` guarantees (``a``: uniform deviation), the
released rule has error at most ``alpha`` above the least one, with probability ``1 - beta`` (Li, Wang and Ye, *Improved
Bounds*, Theorem 4.6, with the paper's thresholds replaced; ``privpac.bounds.plan_user_agnostic`` computes n).  Step 1
is skipped, and its budget goes to step 3, when users hold one record at most, when ``tolerance`` is given, or when
``noise=(value, radius)`` states public knowledge of the least error.

**Guarantee.**  ``(epsilon, 0)`` per user: step 1 is ``share * epsilon``, step 3 the rest, and the selection is private
for every table of tolerances (basic adaptive composition).  The estimate is released and covered.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privpac.binomial import MAX_RECORDS, robust_t
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import rational
from privpac.guarantee import Guarantee
from privpac.law import Law
from privpac.methods.base import Bound, public_table, shown_table
from privpac.methods.sizes import SizedSelection
from privpac.papers.pure_agnostic.minimum_error import ESTIMATORS, MinimumError, estimate_cells, ordered
from privpac.papers.pure_agnostic.surrogate_selection import RepresentedSelection, SurrogateSelection
from privpac.parameters import Composed, named, one_word_of, part, probability, probability_or_none, whole_or_none
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.statistics import Table

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["NoiseKnowledge", "RobustTolerance", "SurrogateSelection", "UserAgnosticLearner"]


def _robust(m: int, value: Fraction, radius: Fraction, alpha: Fraction) -> int:
    # No size is refused: beyond the search limit the same share of the records is forgiven, and any public table is
    # private.
    near = min(m, MAX_RECORDS)
    return robust_t(near, value, radius, alpha) * m // max(near, 1)


@dataclass(frozen=True)
class RobustTolerance:
    """``t(m)``: the tolerance that separates error rates ``alpha`` apart best when the least error is ``value`` up to
    ``radius``."""

    value: Fraction
    radius: Fraction
    alpha: Fraction

    def __call__(self, m: int) -> int:
        return _robust(m, self.value, self.radius, self.alpha)


def _read_noise(noise: Any) -> tuple[Fraction, Fraction] | None:
    if noise is None:
        return None
    if not isinstance(noise, (tuple, list)) or len(noise) != 2:
        raise TypeError(f"noise must be a pair (value, radius), got {type(noise).__name__}")
    value, radius = noise
    return rational(value, "noise value", minimum=0, maximum=1), rational(radius, "noise radius", minimum=0, maximum=1)


def _read_tolerance(tolerance: Any) -> Any:
    if isinstance(tolerance, str):
        if tolerance != "auto":
            raise ParameterError(f"tolerance must be 'auto', a number, a table or a function, got {tolerance!r}")
        return tolerance
    return public_table(tolerance, "tolerance", minimum=0)


@frozen(slots=False, field_transformer=named)
class KnownNoise:
    """What is known of the noise, and how the rest is estimated: where the tolerance comes from.  All public.

    Parameters
    ----------
    alpha : number
        Excess error aimed at; default 1/10.
    tolerance : "auto", int, table or function
        Mistakes forgiven to a user: from an estimate or from ``noise`` (the default), or by the number of records.
    noise : pair of numbers, optional
        The least error of the class is the first number up to the second.
    radius : number, optional
        Accuracy of the estimate; by default about ``1 / (2 sqrt(m))`` for the publicly known number of records
        (``records_per_user``, the largest of ``sizes``, or ``max_records``), and 1/8 if nothing is known.
    share : number
        The estimate's part of epsilon; default 1/4.
    estimator : str
        How the least error is estimated (:class:`~privpac.papers.pure_agnostic.minimum_error.MinimumError`).
    records_per_user : int, optional
        Records that every user holds.
    """

    alpha: Fraction = field(default=Fraction(1, 10), converter=probability)
    tolerance: Any = field(default="auto", converter=_read_tolerance)
    noise: tuple[Fraction, Fraction] | None = field(default=None, converter=_read_noise)
    radius: Fraction | None = field(default=None, converter=probability_or_none)
    share: Fraction = field(default=Fraction(1, 4), converter=probability)
    estimator: str = field(default="oneshot", validator=one_word_of(ESTIMATORS))
    records_per_user: int | None = field(default=None, converter=whole_or_none)

    def __attrs_post_init__(self) -> None:
        if self.tolerance != "auto" and self.noise is not None:
            raise ParameterError("give either tolerance or noise: each of them replaces the estimate")


@frozen(slots=False, init=False, field_transformer=named)
class NoiseKnowledge(Composed, SizedSelection):
    """What learners that count users with too many mistakes share: where the tolerance comes from, and what it costs.

    Parameters
    ----------
    known : KnownNoise
        Given by its own parameters: ``alpha``, ``tolerance``, ``noise``, ``radius``, ``share``, ``estimator``,
        ``records_per_user``.
    """

    known: KnownNoise = part(KnownNoise)

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.estimates:
            self.estimate_learner  # noqa: B018  # reads the remaining parameters before any data

    # Where the tolerance comes from

    @property
    def estimates(self) -> bool:
        """Whether the tolerance follows a private estimate of the least error; with one record it is 0 whatever that
        is."""
        return (
            self.known.tolerance == "auto"
            and self.known.noise is None
            and self.largest not in (0, 1)
            and self.known.records_per_user != 1
        )

    @property
    def epsilon_estimate(self) -> Fraction:
        # An estimate to a radius that everything is within has one outcome, and needs no data.
        constant = self.known.estimator == "oneshot" and estimate_cells(self.estimate_radius) <= 2
        return self.epsilon * self.known.share if self.estimates and not constant else Fraction(0)

    @property
    def epsilon_rest(self) -> Fraction:
        return self.epsilon - self.epsilon_estimate

    @property
    def estimate_radius(self) -> Fraction:
        """``radius``, or the default."""
        if self.known.radius is not None:
            return self.known.radius
        m = self.known.records_per_user or self.largest
        # The least j with 2**j >= 2 sqrt(m), at most 8.
        return Fraction(1, 8) if m is None else Fraction(1, 1 << min(8, max(1, isqrt(max(4 * m - 1, 0)).bit_length())))

    @property
    def estimate_learner(self) -> MinimumError:
        return MinimumError(
            self.concept,
            self.epsilon_estimate,
            self.neighbours,
            self.unit,
            self.max_records,
            self.sizes,
            radius=self.estimate_radius,
            estimator=self.known.estimator,
        )

    @property
    def compared_alpha(self) -> Fraction:
        """The accuracy at which tolerances are chosen."""
        return self.known.alpha

    def tolerance_given(self, estimate: Fraction | None) -> Table:
        """The table of tolerances, given the released estimate where there is one."""
        if self.known.tolerance != "auto":
            table: Table = self.known.tolerance
            return table
        if self.known.noise is not None:
            return RobustTolerance(*self.known.noise, self.compared_alpha)
        return 0 if estimate is None else RobustTolerance(estimate, self.estimate_radius, self.compared_alpha)

    def _read_given(self, given: Any) -> Fraction | None:
        if not self.estimates:
            if given is not None:
                raise ParameterError("nothing is estimated with these parameters; leave given out")
            return None
        return None if given is None else rational(given, "given", minimum=0, maximum=1)

    # Everything that is released

    def given_law(self, bound: Bound, estimate: Fraction | None) -> Law:
        """The law of the rule's id for bound users, given the estimate."""
        raise NotImplementedError

    def law(self, data: Users, given: Any = None) -> Law:
        """The law of everything released: pairs (estimate, id), or ids where nothing is estimated or the estimate is
        ``given``."""
        bound, estimate = self.bind(data), self._read_given(given)
        if not self.estimates or estimate is not None:
            return self.given_law(bound, estimate)
        if self._count(bound) > 1 << 20:
            raise TooLargeError(
                "pairs (estimate, rule) are listed for at most 2**20 rules; use rule_law, or law(data, given=estimate)"
            )
        estimates = self.estimate_learner.law_of(bound)
        return estimates.bind(lambda value: self.given_law(bound, value).map(lambda rule: (value, rule)))

    def rule_law(self, data: Users) -> Law:
        """The law of the rule's id alone, averaged over the estimate."""
        bound = self.bind(data)
        if not self.estimates:
            return self.given_law(bound, None)
        return self.estimate_learner.law_of(bound).bind(lambda value: self.given_law(bound, value))

    def _count(self, bound: Bound) -> int:
        return bound.concept.size

    def estimate(self, bound: Bound, rng: Rng, shown: dict[str, Any]) -> Fraction | None:
        """Draw the estimate where one is needed, and note what may be shown."""
        if self.estimates:
            drawn = self.estimate_learner.sample(bound, rng)
            shown |= {
                "best_error (private)": drawn,
                "radius": self.estimate_radius,
                "epsilon_estimate": self.epsilon_estimate,
            }
            return drawn
        if self.known.noise is not None:
            shown["noise (public)"] = list(self.known.noise)
        elif self.known.tolerance != "auto":
            shown["tolerance"] = shown_table(self.known.tolerance)
        return None

    def composed(self, rho_rest: Fraction) -> Guarantee:
        """The promise: estimate and the rest, one after the other."""
        how: tuple[str, ...] = ()
        rho = rho_rest
        if self.estimates:
            how = (f"estimate of the least error ({self.epsilon_estimate}) and selection ({self.epsilon_rest})",)
            rho = rho_rest + (self.estimate_learner.guarantee.rho or Fraction(0))
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=rho, derivation=how)


@frozen(slots=False, init=False, field_transformer=named)
class UserAgnosticLearner(NoiseKnowledge, RepresentedSelection):  # type: ignore[override]
    """Estimate the least error, then select among users' counts; from the class, or (``representation``) from a public
    set.

    With a representation a third of ``alpha`` is kept for the disagreement of the released rule with its concept.

    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)]], features={"x": Integers(0, 9)})
    >>> UserAgnosticLearner(Thresholds(), epsilon=1, tolerance=0).law(people).mode
    4
    """

    @property
    def compared_alpha(self) -> Fraction:
        return self.known.alpha if self.proper else self.known.alpha * 2 / 3

    @property
    def guarantee(self) -> Guarantee:
        return self.composed(self.epsilon_rest**2 / 8)

    def _count(self, bound: Bound) -> int:
        return self._rules(bound).size

    def given_law(self, bound: Bound, estimate: Fraction | None) -> Law:
        return self.selection(bound, self.epsilon_rest, self.tolerance_given(estimate))

    def draw(self, bound: Bound, rng: Rng) -> Released:
        shown: dict[str, Any] = {"alpha": self.known.alpha}
        if self.estimates and self.proper:
            bound = ordered(bound)
        estimate = self.estimate(bound, rng, shown)
        return self.released(bound, self.given_law(bound, estimate).sample(rng), shown, "user-level agnostic selection")
