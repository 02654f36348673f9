"""Probabilities as exact real numbers.

:class:`Quotient` is a sum of terms ``N / (Z1 Z2 ...)`` with exponential sums above and below: what mixtures,
products and adaptive compositions of exponential laws look like.  Denominators stay factored and shared, so balls
are cheap; only when a comparison cannot be settled by balls is everything put over a common denominator and the
sign decided exactly.  :class:`Enclosed` is a number known through balls only (an integral); its comparisons may
end in ``Undecided``, never in a guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property

import flint
from flint import arb

from privpac.errors import LawError, Undecided
from privpac.exact import MAX_PRECISION, Ball, ExpSum, ball_of, precision, rational

ENCLOSED_PRECISION = 1 << 12
"""Bits at which comparing numbers known through balls only gives up: integrals cannot be decided at equality."""

_TINY = arb(2) ** -MAX_PRECISION


class Denominator:
    """A positive exponential sum shared by many quotients; balls are kept per precision, the sum is built if needed."""

    def __init__(
        self, value: ExpSum | Callable[[], ExpSum], ball: Callable[[], arb] | None = None, *, irrational: bool = False
    ) -> None:
        self._value, self._ball, self._irrational = value, ball, irrational
        self._balls: dict[int, arb] = {}

    @cached_property
    def sum(self) -> ExpSum:
        return self._value if isinstance(self._value, ExpSum) else self._value()

    @cached_property
    def exact(self) -> Fraction | None:
        """The value as a rational, if no exponential is involved."""
        return None if self._irrational else self.sum.exact

    def arb(self) -> arb:
        bits = flint.ctx.prec
        if bits not in self._balls:
            self._balls[bits] = self.sum.arb() if self._ball is None else self._ball()
        return self._balls[bits]


class Quotient:
    """``sum of N / product of denominators``."""

    __slots__ = ("terms",)

    def __init__(self, terms: tuple[tuple[ExpSum, tuple[Denominator, ...]], ...]) -> None:
        self.terms = tuple(term for term in terms if term[0].terms)

    @staticmethod
    def of(value: Fraction | int | ExpSum, *denominators: Denominator) -> Quotient:
        return Quotient(((ExpSum.of(value), denominators),))

    def __add__(self, other: Number) -> Number:
        return sum_of([self, other])

    def __eq__(self, other: object) -> bool:
        """Same terms over the same denominators: sufficient for equal values, not necessary."""
        if not isinstance(other, Quotient) or len(self.terms) != len(other.terms):
            return False
        return all(n.terms == m.terms and d == e for (n, d), (m, e) in zip(self.terms, other.terms))

    def __hash__(self) -> int:
        return hash(tuple((n, d) for n, d in self.terms))

    def __mul__(self, other: Number | Fraction | int | ExpSum) -> Number:
        if isinstance(other, Enclosed):
            return other * self
        if not isinstance(other, Quotient):
            return Quotient(tuple((n * other, d) for n, d in self.terms))
        return Quotient(tuple((n1 * n2, d1 + d2) for n1, d1 in self.terms for n2, d2 in other.terms))

    def arb(self) -> arb:
        total = arb(0)
        for numerator, denominators in self.terms:
            value = numerator.arb()
            for denominator in denominators:
                value /= denominator.arb()
            total += value
        return total

    @property
    def exact(self) -> Fraction | None:
        """The value as a rational when no exponential is involved."""
        total = Fraction(0)
        for numerator, denominators in self.terms:
            value = numerator.exact
            for denominator in denominators:
                below = None if value is None else denominator.exact
                value = None if value is None or below is None else value / below
            if value is None:
                return None
            total += value
        return total

    @property
    def short(self) -> Fraction | None:
        """The value where it is written as one rational without denominators; None says nothing."""
        if len(self.terms) != 1 or self.terms[0][1]:
            return None
        return self.terms[0][0].exact

    def numerator(self) -> ExpSum:
        """The numerator over the (positive) common denominator: same sign as the number."""
        common: Counter[Denominator] = Counter()
        for _, denominators in self.terms:
            common |= Counter(denominators)
        total = ExpSum()
        for value, denominators in self.terms:
            for denominator in (common - Counter(denominators)).elements():
                value = value * denominator.sum
            total = total + value
        return total


class Enclosed:
    """A non-negative number given by a ball at every precision."""

    __slots__ = ("_compute",)
    exact: Fraction | None = None

    def __init__(self, compute: Callable[[], arb]) -> None:
        self._compute = compute

    def arb(self) -> arb:
        return self._compute()

    def __add__(self, other: Number) -> Enclosed:
        return Enclosed(lambda: self.arb() + other.arb())

    def __mul__(self, other: Number | Fraction | int | ExpSum) -> Enclosed:
        right = other if isinstance(other, (Quotient, Enclosed)) else Quotient.of(other)
        return Enclosed(lambda: self.arb() * right.arb())


Number = Quotient | Enclosed


def sum_of(numbers: Sequence[Number]) -> Number:
    """The sum of many numbers; terms over the same denominators are collected."""
    if len(numbers) == 1:
        return numbers[0]
    quotients = [number for number in numbers if isinstance(number, Quotient)]
    if len(quotients) < len(numbers):
        return Enclosed(lambda: sum((number.arb() for number in numbers), arb(0)))
    over: dict[tuple[int, ...], tuple[list[ExpSum], tuple[Denominator, ...]]] = {}
    for quotient in quotients:
        for numerator, denominators in quotient.terms:
            over.setdefault(tuple(sorted(map(id, denominators))), ([], denominators))[0].append(numerator)
    return Quotient(
        tuple((n[0] if len(n) == 1 else ExpSum(term for one in n for term in one), below) for n, below in over.values())
    )


def present(number: Number) -> bool:
    """Whether a probability is more than the empty sum."""
    return not (isinstance(number, Quotient) and not number.terms)


def enclosed(x: arb, *, ceiling: Fraction | None = None) -> Ball:
    """Rational ends of a non-negative ball; below ``2**-65536`` they are 0 and that power, so no integer overflows."""
    if x.lower() < _TINY:
        x = arb(0).union(x.upper())
    if x.upper() < _TINY:
        return Ball(Fraction(0), Fraction(1, 1 << MAX_PRECISION))
    return ball_of(x, floor=Fraction(0), ceiling=ceiling)


def sign_of_sum(number: Number, *, limit: int = 1024) -> int:
    """The sign of a number: balls up to ``limit`` bits, then (for quotients) the exact decision."""
    bits = 64
    last = ENCLOSED_PRECISION if isinstance(number, Enclosed) else limit
    while bits <= last:
        with precision(bits):
            value = number.arb()
            if value > 0:
                return 1
            if value < 0:
                return -1
        bits *= 4
    if isinstance(number, Enclosed):
        raise Undecided("a comparison of integrals was not decided; widen the margin or use the exponential mechanism")
    return number.numerator().sign()


def read_weight(weight: object) -> ExpSum:
    """A weight: a rational, an exponential sum, or a list of pairs ``(a, x)`` meaning ``a * e**x``."""
    if isinstance(weight, ExpSum):
        out = weight
    elif isinstance(weight, (list, tuple)):
        if not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in weight):
            raise LawError("a weight given as a list holds pairs (a, x), each meaning a * e**x")
        out = ExpSum((rational(x, "exponent"), rational(a, "coefficient")) for a, x in weight)
    else:
        out = ExpSum.of(rational(weight, "weight"))
    if any(a < 0 for _, a in out) and out.sign() < 0:
        raise LawError("weights must not be negative")
    return out
