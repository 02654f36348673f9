"""What a distribution is.

A :class:`Law` is a finite probability law described by integers and rationals.  The law that is audited is the law
that is sampled: no floating point decides a probability.  Values are Python ints of any size (in blocks of equal
probability), any hashable atoms, or ``BOTTOM``, the one "no answer" outcome.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from privpac.errors import LawError
from privpac.exact import Ball, Rational, precision, rational
from privpac.law.numbers import Number, enclosed
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.law import build, divergence, finite
    from privpac.law.finite import FiniteLaw

__all__ = ["BOTTOM", "Bottom", "Cell", "Law", "hand_over"]

PROB_BITS = 192


class Bottom:
    """The type of ``BOTTOM``."""

    _only: Bottom | None = None

    def __new__(cls) -> Bottom:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "BOTTOM"

    def __reduce__(self) -> str:
        return "BOTTOM"


BOTTOM: Final = Bottom()
"""The one "no answer" outcome; may be an atom of any law."""

Cell = range | Hashable
"""A block of consecutive integers (``range(lo, hi + 1)``) or a single atom."""


class Law(ABC):
    """A finite probability law; build one with the constructors below.

    >>> law = Law.from_blocks([0, 10], [9, 2**64], [3, 0], "1/2")
    >>> law.mode
    10
    >>> law.satisfies(law, 0)
    True
    """

    # Constructors

    @staticmethod
    def from_blocks(
        lo: Any = None,
        hi: Any = None,
        score: Any = None,
        eta: Rational | None = None,
        *,
        base: Rational | None = None,
        counts: Any = None,
        labels: Sequence[Hashable] | None = None,
        domain: tuple[int, int] | None = None,
    ) -> Law:
        """Weight ``e**(-eta * score)`` (or ``base**(-score)``) for every value of every block; scores are minimised.

        Value blocks are closed intervals ``[lo_i, hi_i]`` of integers of any size, disjoint, and without gaps when
        ``domain`` is given; neighbours of equal score are merged.  With ``counts`` blocks are labelled instead
        (values ``(label, offset)``, labels default to the block's index) and never merged.  Scores alone are
        candidates ``0..k-1``, one block each, never merged: the fast path of selection.
        """
        if counts is not None:
            if lo is not None or hi is not None or domain is not None:
                raise LawError("give either lo and hi, or counts")
            return build.labelled_law(counts, score, eta, base, labels)
        if labels is not None:
            raise LawError("labels name the blocks of counts; give counts too")
        if lo is None and hi is None and domain is None:
            return build.candidate_law(score, eta, base)
        return build.value_law(lo, hi, score, eta, base, domain)

    @staticmethod
    def from_steps(
        steps: Iterable[tuple[int, Any, int, Any]], eta: Rational | None = None, *, base: Rational | None = None
    ) -> Law:
        """Step functions laid one after the other, the fast path of the learners.

        Each step is ``(offset, starts, end, scores)``: block ``i`` holds the values ``offset + starts[i]`` up to the
        one before ``offset + starts[i+1]`` (the last one up to ``offset + end``); ``starts`` is an increasing uint64
        array.
        """
        return build.step_law(steps, eta, base)

    @staticmethod
    def from_weights(weights: Mapping[Any, object] | Iterable[tuple[Any, object]]) -> Law:
        """A law from weights per value: rationals, ``ExpSum``s or pairs ``(a, x)`` meaning ``a * e**x``."""
        return finite.weighted_law(weights)

    @staticmethod
    def point(value: Hashable) -> Law:
        """All mass on one value."""
        return Law.from_weights([(value, 1)])

    @staticmethod
    def mixture(parts: Iterable[tuple[Rational | Number, Law]]) -> Law:
        """``sum of a_i * law_i``; the weights must sum to 1."""
        return finite.mixed_law(parts)

    # What a law must know

    @abstractmethod
    def as_finite(self) -> FiniteLaw:
        """The same law with explicit probabilities per block."""

    @abstractmethod
    def sample(self, rng: Rng | None = None) -> Any:
        """One exact draw."""

    @abstractmethod
    def support(self) -> Iterator[Cell]:
        """Blocks (``range``) and atoms of positive probability."""

    @abstractmethod
    def _number(self, value: Any) -> Number:
        """The probability of one value."""

    @abstractmethod
    def block_number(self, i: int) -> Number:
        """The mass of the ``i``-th block."""

    # Reading

    def prob(self, value: Any) -> Ball:
        """A rigorous enclosure of the probability of one value."""
        return self._enclose(self._number(value))

    def block_prob(self, i: int) -> Ball:
        """A rigorous enclosure of the mass of the ``i``-th block."""
        return self._enclose(self.block_number(i))

    def prob_exact(self, value: Any) -> Fraction:
        """The probability as a rational; only for laws without exponentials."""
        exact = self._number(value).exact
        if exact is None:
            raise LawError("this law has irrational probabilities; use prob(value), or build it with base=")
        return exact

    def prob_float(self, value: Any) -> float:
        """The probability as a double (for plots, never for decisions)."""
        return float(self.prob(value))

    @staticmethod
    def _enclose(number: Number) -> Ball:
        exact = number.exact
        if exact is not None:
            return Ball(exact, exact)
        with precision(PROB_BITS):
            return enclosed(number.arb(), ceiling=Fraction(1))

    @property
    def mode(self) -> Any:
        """A most likely value (the first one)."""
        return self.as_finite().mode

    @property
    def entropy(self) -> float:
        """Entropy in nats, as a double."""
        return self.as_finite().entropy

    # Building larger laws

    def map(self, f: Callable[[Any], Hashable]) -> Law:
        """Push-forward under ``f``; blocks are enumerated, so they must be small (see ``map_blocks``)."""
        return self.as_finite().push(f)

    def map_blocks(self, f: Callable[[Cell], Cell]) -> Law:
        """Push-forward given block by block: a ``range`` goes to an atom or to a ``range`` of the same length."""
        return self.as_finite().push_blocks(f)

    def product(self, other: Law) -> Law:
        """Independent pair: values are tuples."""
        return self.bind(lambda a: other.map(lambda b: (a, b)))

    def bind(self, f: Callable[[Any], Law]) -> Law:
        """Draw ``v`` from this law, then from ``f(v)``: adaptive composition."""
        finite = self.as_finite()
        return Law.mixture([(finite._number(value), f(value)) for value in finite.values()])

    # Divergences

    def hockey_stick(self, other: Law, epsilon: Rational, *, precision: Rational | None = None) -> Ball:
        """Encloses ``sum over v of max(0, P(v) - e**epsilon Q(v))``: report ``hi`` for a claim, ``lo`` for a
        violation."""
        return divergence.hockey_stick(self, other, rational(epsilon, "epsilon"), precision)

    def total_variation(self, other: Law) -> Ball:
        return self.hockey_stick(other, 0)

    def max_divergence(self, other: Law, *, enough: Fraction | None = None) -> Ball | float:
        """Encloses the largest ``ln(P(v)/Q(v))``; ``inf`` where only this law has mass.  Where it is at most
        ``enough``, the ball from 0 to that number may do."""
        return divergence.max_divergence(self, other, enough)

    def identity(self) -> Hashable:
        """Equal for two laws only if they are the same law; None where a law cannot say so shortly."""
        return None

    def dominated_by(self, other: Law, epsilon: Fraction) -> bool | None:
        """Whether ``P(v) <= e**epsilon Q(v)`` for all values, where a law knows without listing them; None: list
        them."""
        return None

    def epsilon_at(self, other: Law, delta: Rational = 0) -> Fraction | float:
        """The least epsilon with ``hockey_stick <= delta``, rounded up; ``inf`` if there is none."""
        return divergence.epsilon_at(self, other, rational(delta, "delta", minimum=0, maximum=1))

    def satisfies(self, other: Law, epsilon: Rational, delta: Rational = 0) -> bool:
        """Exact decision: the two laws are (epsilon, delta)-indistinguishable, in both directions."""
        e, d = rational(epsilon, "epsilon", minimum=0), rational(delta, "delta", minimum=0)
        return divergence.within(self, other, e, d) and divergence.within(other, self, e, d)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def hand_over(**modules: ModuleType) -> None:
    """Give laws the modules that make and compare them.

    Those know every kind of law, and every kind is a ``Law``: what this module calls imports it.  The package hands
    them over once all are there, so that no import goes in a circle.
    """
    globals().update(modules)
