"""Two more things to plan for: a median, and further ways to a rule.

*Median.* One number per user; ``alpha`` is a share of ranks: at least ``(1/2 - alpha) n`` users' numbers are at most
the answer, and as many at least it. The law of ``pp.quantile`` scores every value by its rank
(:func:`~privpac.bounds.median.certify_quantile`). ``InteriorPoint.median`` names a point between the smallest and the
largest of the ``s`` middle numbers but for ``beta``, with ``s`` planned from epsilon, delta, beta and the domain, so
``1 + floor((n - s)/2) >= (1/2 - alpha) n`` decides. Nothing is assumed about the numbers. *Lower bound*: if all users
hold the same number, only that number is right, so as many tasks as values exclude each other.

*Rules.* Certificates that exist beside those of :mod:`privpac.planning.targets.rule_targets`: the transformation
of a realizable into an agnostic learner, and the search for a cut by private medians.  Neither has needed fewer users
than selection so far.

Not here, because nothing is certified: answers by votes (``plan_service`` estimates their error), trimmed and friendly
means (their accuracy rests on a declared width), and the transformations of item-level algorithms (``choose_transform``
predicts).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

from privpac.bounds.agreement.plurality import lower_agreement_packing
from privpac.bounds.certificate import Certificate
from privpac.bounds.lower.general import lower_packing
from privpac.bounds.median import certify_quantile
from privpac.bounds.reduction.accuracy import certify_reduction, selection_error
from privpac.bounds.selection.agnostic import plan_threshold_search
from privpac.concepts.base import ConceptClass
from privpac.concepts.statistics import DEFAULT_LEVELS
from privpac.data import Domain, Integers
from privpac.distributions.quantiles import QuantileLearner
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.learners.reduction.learner import AgnosticReduction
from privpac.learners.selection.realizable import RealizableSelection
from privpac.mechanisms.interior_point import InteriorPoint, plan_interior_point
from privpac.planning.plans import MAX_EPSILON
from privpac.planning.targets.certified_runs import (
    TABLE,
    CertifiedRun,
    feature_words,
    in_python,
    option_words,
    privacy_words,
)

__all__ = ["MedianTarget", "OtherRulesTarget", "median_target", "other_rules_target"]

Method = tuple[str, Callable[[int], Certificate], str, str]
_MOST_TASKS = 1 << 999
_LEVELS: dict[str, int | str] = {
    "median by the exponential mechanism": 0,
    "median, best number of hidden walks": "auto",
}
"""The reductions behind the rows for medians."""

BY_RANKS = "median by its rank"
"""The row of ``pp.quantile``."""
_MOST_VALUES = 1 << 64


# Medians


@dataclass(frozen=True)
class MedianTarget:
    """A median of one number per user, up to ``alpha`` of the ranks, except with probability ``beta``; numbers are
    ``0..top`` in order."""

    top: int
    epsilon: Fraction
    delta: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours

    def methods(self, setting: str | None = None) -> list[Method]:
        """Name, users certified, what else is assumed, and the kind of number; records per user do not matter."""
        known = [(row, levels) for row, levels in _LEVELS.items() if self.delta > 0 or not levels]
        rows: list[Method] = [(row, partial(self._any_records, levels), "", "certified") for row, levels in known]
        if self.top < _MOST_VALUES:
            rows.insert(0, (BY_RANKS, self.by_ranks, "", "certified"))
        return [*rows, ("any private median", self.lower, "", "lower bound")]

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
        """What the numbers mean."""
        return "one number per user counts, and alpha is a share of the ranks"

    def run(self, row: str, m: int, certificate: Certificate, asked: Any) -> CertifiedRun:
        """The mechanism that a certified row speaks of, for the declared number of users."""
        if row == BY_RANKS:
            return self._ranks_run(certificate)
        n: int = asked.n_users or certificate.n_users or 0  # something is certified
        told = {"n_users": n, "beta": self.beta, "levels": _LEVELS[row]} | (
            {"delta": self.delta} if _LEVELS[row] else {}
        )
        how = in_python(f"plan.learner({row!r}).sample(numbers), one whole number from 0 on for each user")
        return CertifiedRun("median", certificate.n_users, told, lambda: self.point(_LEVELS[row], n), how)

    def by_ranks(self, m: int) -> Certificate:
        """The least ``n`` for the law that scores ranks."""
        return certify_quantile(
            self.epsilon, self.beta, self.alpha, size=self.top + 1, neighbours=self.neighbours
        ).run_with(weight="own", confidence=1 - self.beta)

    def _ranks_run(self, certificate: Certificate) -> CertifiedRun:
        told = certificate.parameters
        words = [
            *("quantile", *TABLE, *feature_words({"COLUMN": Integers(0, self.top)})),
            *(*privacy_words(self.epsilon, self.neighbours), *option_words(told)),
        ]
        return CertifiedRun(
            "quantile",
            certificate.n_users,
            told,
            lambda: QuantileLearner(self.epsilon, "1/2", self.neighbours, **told),
            lambda: words,
        )

    def point(self, levels: int | str, n: int) -> InteriorPoint:
        """The mechanism for ``n`` users."""
        given: dict[str, Any] = {"top": self.top, "beta": self.beta, "levels": levels, "neighbours": self.neighbours}
        return InteriorPoint.median(self.epsilon, self.delta if levels else 0, n_users=n, **given)

    def simulations(self, setting: str | None = None) -> list[Any]:
        """What is predicted on uniform numbers."""
        from privpac.planning.models.median_models import median_simulations

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
        return Certificate.upper(n, "median", "any numbers, and their number declared (n_users)", window=size)

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
    beta: Rational = "0.05",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> MedianTarget:
    """What to plan for: the median of a column with a declared domain, or of integers of ``bits`` bits.

    >>> target = median_target(bits=64, epsilon=1)
    >>> [(name, certify(1).n_users) for name, certify, _, _ in target.methods()]
    [('median by its rank', 941), ('median by the exponential mechanism', 1879), ('any private median', 45)]
    """
    if (domain is None) == (bits is None):
        raise ParameterError("give the domain of the column, or bits, the length of its numbers")
    if domain is not None and not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(domain).__name__}")
    top = domain.size - 1 if domain is not None else (1 << positive_int(bits, "bits", maximum=1 << 20)) - 1
    return MedianTarget(
        top,
        rational(epsilon, "epsilon", above=0, maximum=MAX_EPSILON),
        rational(delta, "delta", minimum=0, below=1),
        rational(alpha, "alpha", above=0, below=1),
        rational(beta, "beta", above=0, below=1),
        one_of(Neighbours, neighbours, "neighbours"),
    )


# Rules


@dataclass(frozen=True)
class OtherRulesTarget:
    """Excess error ``alpha`` for a rule of the class by the less usual ways."""

    concept: ConceptClass
    epsilon: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours

    def methods(self, setting: str | None = None) -> list[Method]:
        """Name, users certified for a number of records per user, what else is assumed, and the kind of number."""
        if setting == "realizable":
            return []
        rows: list[Method] = [("agnostic reduction", lambda m: _reduced(self), "", "certified")]
        if self.concept.cut_direction not in (None, "both"):
            rows.append(("threshold search", self.search, "", "certified"))
        return rows

    def run(self, row: str, m: int, certificate: Certificate, asked: Any) -> CertifiedRun:
        """The learner that a certified row speaks of; that of the reduction follows the number of users, as it is
        certified to."""
        if row != "agnostic reduction":
            from privpac.planning.targets.rule_runs import rule_run

            return rule_run(self, row, m, certificate, asked)
        n: int = asked.n_users or certificate.n_users or 0  # something is certified
        inner = certificate["eps_A"]
        told = {"public_n_users": n, "beta": self.beta, "levels": certificate["levels"], "inner_epsilon": inner}

        def build() -> AgnosticReduction:
            chosen = RealizableSelection(self.concept, inner, neighbours=self.neighbours)
            given: dict[str, Any] = {"beta": self.beta, "neighbours": self.neighbours, "levels": certificate["levels"]}
            return AgnosticReduction.for_target(
                chosen, epsilon=self.epsilon, public_n_users=n, users=certificate["users"], **given
            )

        return CertifiedRun(
            "reduction", certificate.n_users, told, build, in_python(f"plan.learner({row!r}).learn(users)")
        )

    def search(self, m: int) -> Certificate:
        # A class of N + 1 cuts is one of N values.
        goal: dict[str, Any] = {
            "alpha": self.alpha,
            "beta": self.beta,
            "epsilon": self.epsilon,
            "neighbours": self.neighbours,
        }
        return plan_threshold_search(log_domain=math.log(max(1, self.concept.size - 1)), records_per_user=m, **goal)


@lru_cache(maxsize=64)
def _reduced(target: OtherRulesTarget) -> Certificate:
    """The same for every number of records: the learner's default, which rounds a user's losses to steps."""
    concept = target.concept
    return certify_reduction(
        alpha=target.alpha,
        beta=target.beta,
        epsilon=target.epsilon,
        log_growth=lambda n: math.log(concept.growth(n)),
        inner_error=selection_error(concept.log_size, target.neighbours),
        levels=DEFAULT_LEVELS,
        neighbours=target.neighbours,
    )


def other_rules_target(
    concept: ConceptClass,
    *,
    epsilon: Rational,
    alpha: Rational = "0.05",
    beta: Rational = "0.05",
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
) -> OtherRulesTarget:
    """What to plan for: a class of rules with its domains.

    >>> from privpac.data import Integers
    >>> from privpac.concepts import Thresholds
    >>> target = other_rules_target(Thresholds(Integers(0, 99)), epsilon=1, alpha="0.2")
    >>> [name for name, *_ in target.methods()]
    ['agnostic reduction', 'threshold search']
    """
    if not isinstance(concept, ConceptClass):
        raise TypeError(
            f"concept must be a class of rules such as Thresholds(Integers(0, 100)), got {type(concept).__name__}"
        )
    concept.size  # noqa: B018  # a class without its domains is refused here
    return OtherRulesTarget(
        concept,
        rational(epsilon, "epsilon", above=0, maximum=MAX_EPSILON),
        rational(alpha, "alpha", above=0, below=1),
        rational(beta, "beta", above=0, below=1),
        one_of(Neighbours, neighbours, "neighbours"),
    )
