"""How good a predictor is on people, as it is published: noisy sums, and everything that follows from them.

Only the sums depend on the data; rates and intervals are functions of them and of public numbers.  Sums may be negative
or inconsistent, as measured; they are clipped only where a rate is formed.

Every rate has two intervals, each right with probability ``confidence`` on its own: ``sample`` for the people that were
given (only noise is uncertain), ``population`` for new people from the same population (drawn independently from one
law, whatever it is).

*Forms.*  A rate is a function of sums over one or two cells, each known up to its noise
(:func:`noise_reach`) and, for new people from the same population, up to the spread of a mean of values in
[0, 1] (:func:`kl_range`); ``1 - confidence`` is divided equally among what is uncertain.
Rounding a person's shares to ``1/levels`` moves one cell, a sum or a difference of two cells by at most ``1/levels``
per person (a cell is rounded up only if its remainder is no smaller than that of a cell rounded down); that is added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import comb
from typing import Any, Literal

from attrs import evolve, field, frozen
from flint import arb

from privpac.bisection import half_way, least_from, narrow
from privpac.display import Shown
from privpac.errors import ParameterError
from privpac.exact import Rational, as_arb, precision, rational
from privpac.guarantee import Neighbours, Unit, positive_int
from privpac.parameters import bounds, fraction, named, probability, protected_unit, relation, whole, whole_list
from privpac.result import Saved, register

# Intervals that hold: for sums with discrete Laplace noise, and for means of people drawn from one law.
#
# *Noise.*  The sum of ``k`` independent discrete Laplaces of rate ``eta`` is the difference of two negative binomials:
# with ``x = e**-eta`` and ``z >= 0``
#
#     P(z) = (1-x)**(2k) x**z sum_j C(k-1+j, k-1) C(k-1+j+z, k-1) x**(2j),
#     C(k-1+j+z, k-1) = sum_i C(z, i) C(k-1+j, k-1-i)
#
# so a tail is ``x**t`` times a polynomial in ``t`` whose coefficients are rational in ``x``: computed in balls,
# compared exactly.  *People.*  For ``n`` independent values in [0, 1] with mean ``p``, ``Pr[kl(mean || p) >
# ln(2/beta)/n] <= beta`` whatever their law (Chernoff's bound with Hoeffding's comparison); for a sum ``s`` of any
# number of such values with mean ``mu``, ``Pr[s ln(s/mu) - s + mu > ln(2/beta)] <= beta`` (the same with Poisson's law
# in place of the binomial).


_BITS = 256


def working_bits(eta: Fraction, k: int) -> int:
    """Bits that leave some 200 good ones: a coefficient loses at most ``(4k-2) log2(1/eta)`` of them."""
    return _BITS + 4 * k * max(0, eta.denominator.bit_length() - eta.numerator.bit_length() + 1)


@frozen(slots=False)
class Range:
    """All numbers from ``lo`` to ``hi``."""

    lo: float
    hi: float

    def __add__(self, other: Range) -> Range:
        return Range(self.lo + other.lo, self.hi + other.hi)

    def scaled(self, factor: float) -> Range:
        return Range(self.lo * factor, self.hi * factor)

    def widened(self, by: float) -> Range:
        return Range(self.lo - by, self.hi + by)

    def clipped(self, lo: float = 0.0, hi: float = 1.0) -> Range:
        """The part within ``[lo, hi]``, never empty: what lies outside is the nearer end."""
        return Range(min(max(self.lo, lo), hi), min(max(self.hi, lo), hi))

    def __contains__(self, x: float) -> bool:
        return self.lo <= x <= self.hi


@lru_cache(maxsize=8)
def _numerators(k: int) -> tuple[tuple[int, ...], ...]:
    """Polynomials ``p_i`` with ``sum_j C(k-1+j, k-1) C(k-1+j, k-1-i) y**j = p_i(y) / (1-y)**(2k-1-i)``."""
    out = []
    for i in range(k):
        order = 2 * k - 1 - i
        series = [comb(k - 1 + j, k - 1) * comb(k - 1 + j, k - 1 - i) for j in range(order)]
        signs = [(-1) ** a * comb(order, a) for a in range(order)]
        out.append(tuple(sum(series[j] * signs[m - j] for j in range(m + 1)) for m in range(order)))
    return tuple(out)


def laplace_tail(eta: Fraction, k: int, t: int) -> arb:
    """``Pr[sum of k noises >= t]`` for ``t >= 1``, as a ball at the working precision."""
    x = (-as_arb(eta)).exp()
    y = x * x
    out = arb(0)
    for i, poly in enumerate(_numerators(k)):
        weight = sum((c * y**m for m, c in enumerate(poly)), arb(0)) / (1 - y) ** (2 * k - 1 - i)
        # sum over z >= t of C(z, i) x**(z-t) = sum over l <= i of C(t, i-l) x**l / (1-x)**(l+1)
        rest = sum((comb(t, i - j) * x**j / (1 - x) ** (j + 1) for j in range(i + 1)), arb(0))
        out += weight * rest
    return (1 - x) ** (2 * k) * (-as_arb(eta * t)).exp() * out


@lru_cache(maxsize=4096)
def noise_reach(eta: Fraction, k: int, beta: Fraction) -> int:
    """The least ``t`` with ``Pr[|sum of k noises| > t] <= beta``, decided in balls (an undecided one counts as no)."""
    if k == 0 or beta >= 1:
        return 0
    with precision(working_bits(eta, k)):

        def enough(t: int) -> bool:
            return bool(2 * laplace_tail(eta, k, t + 1) <= as_arb(beta))

        return least_from(enough, 0)


def _kl(u: float, p: float) -> float:
    if p <= 0 or p >= 1:
        return 0.0 if u == p else math.inf
    left = 0.0 if u <= 0 else u * math.log(u / p)
    right = 0.0 if u >= 1 else (1 - u) * math.log((1 - u) / (1 - p))
    return left + right


_SLACK = 1e-9
"""Ends are moved outward by this much: far above the rounding of the floating point search, far below what is shown."""


def kl_range(mean: Range, n: float, beta: float, *, sides: int = 2) -> Range:
    """Every ``p`` that some mean within ``mean`` of at least ``n`` people does not exclude at level ``beta``.

    >>> [round(end, 4) for end in (kl_range(Range(0.1, 0.1), 1000, 0.05).lo, kl_range(Range(0, 0), 100, 0.05).hi)]
    [0.0762, 0.0362]
    """
    if n < 1:
        return Range(0.0, 1.0)
    most = math.log(sides / beta) / n
    u = mean.clipped()

    def end(start: float, wall: float) -> float:
        if _kl(start, wall) <= most:
            return wall
        return narrow(lambda x: _kl(start, x) > most, start, wall, middle=half_way, steps=60)[1]

    return Range(end(u.lo, 0.0) - _SLACK, end(u.hi, 1.0) + _SLACK).clipped()


def sum_range(total: Range, beta: float) -> Range:
    """Every mean of a sum of independent values in [0, 1] that some sum within ``total`` does not exclude."""
    most = math.log(2 / beta)
    s = total.clipped(0.0, math.inf)

    def apart(x: float, mu: float) -> float:
        return mu if x <= 0 else math.inf if mu <= 0 else x * math.log(x / mu) - x + mu

    def end(x: float, inside: float, outside: float) -> float:
        return narrow(lambda mu: apart(x, mu) > most, inside, outside, middle=half_way, steps=80)[1]

    high = end(s.hi, s.hi, s.hi + 2 * most + 2 * math.sqrt(2 * most * s.hi) + 1)
    return Range(max(0.0, end(s.lo, s.lo, 0.0) * (1 - _SLACK)), high * (1 + _SLACK))


def ratio(top: Range, rest: Range) -> Range:
    """``a / (a + b)`` for ``a`` in ``top`` and ``b`` in ``rest``, both at least 0; anything where both may be 0."""
    a, b = top.clipped(0.0, math.inf), rest.clipped(0.0, math.inf)
    lo = a.lo / (a.lo + b.hi) if a.lo + b.hi > 0 else 0.0
    hi = a.hi / (a.hi + b.lo) if a.hi + b.lo > 0 else 1.0
    return Range(lo if a.lo > 0 or b.hi > 0 else 0.0, hi)


# A number with its two intervals, and how shares are said in words.


@frozen(slots=False)
class MeasuredRate:
    """A number with its two intervals; ``population`` is None where other people are not covered."""

    value: float
    sample: Range
    population: Range | None

    @property
    def shown(self) -> Range:
        """The interval that matters most: of new people from the same population where there is one."""
        return self.population or self.sample

    @property
    def interval(self) -> str:
        """That interval in words."""
        return f"{percent(self.shown.lo, self._fine)} to {percent(self.shown.hi, self._fine)}"

    @property
    def measured(self) -> str:
        """The number itself in words."""
        return percent(self.value, self._fine)

    @property
    def _fine(self) -> bool:
        return self.shown.hi - self.shown.lo < 0.03

    def __str__(self) -> str:
        return f"{self.measured} ({self.interval})"


def percent(x: float, fine: bool = False) -> str:
    """A share in per cent, with a digit more where it is small, or ``fine`` and neither nothing nor all."""
    digits = 0.0005 <= abs(x) < (0.9995 if fine else 0.0995)
    return f"{100 * x:.1f} %" if digits else f"{100 * x:.0f} %"


def sure(confidence: Fraction) -> str:
    """A confidence in words."""
    return f"{100 * float(confidence):g} % sure"


def points(x: float) -> str:
    """A difference of shares in points."""
    return f"{100 * x:.1f} points" if x < 0.0995 else f"{100 * x:.0f} points"


# Warnings that cost nothing: what is known anyway says that a result means little.


_FACTOR = 2


def few_people(people: float, size: object, epsilon: float) -> tuple[str, ...]:
    """A sentence where so few people choose among so many rules that chance decides.

    An exponential law over ``k`` rules draws one whose error is above the least by ``ln(k) / (epsilon n)`` or so; from
    one half on the draw says nothing.  ``people`` and ``epsilon`` (per person added or removed) are public or released;
    ``size`` is the number of rules, anything else where that is not known.
    """
    bits = math.log(size) if isinstance(size, int) and size > 0 else 0.0
    if max(people, 0.0) * epsilon >= _FACTOR * bits:
        return ()
    needed = math.ceil(_FACTOR * bits / epsilon) if epsilon > 0 else None
    more = "" if needed is None else f"; {needed:,} people are the least that such a choice needs"
    return (
        f"very few people (about {max(0, round(people)):,}) for so many rules: chance decides which one is released"
        f"{more}",
    )


# What is counted, and how people weigh.


CellKind = Literal["table", "error"]
Weight = Literal["user", "record"]

CELLS: dict[CellKind, tuple[str, ...]] = {"table": ("tn", "fp", "fn", "tp"), "error": ("right", "wrong")}
"""What is counted: label and prediction, or only whether they agree."""


LEAST_NOISE = Fraction(1, 1 << 100)
"""The least rate of noise: below it the sums say nothing, and would not fit into a number on a page."""

SAME_PEOPLE = "measured on the people it was learned from, so it may be too good; evaluate on other people"
NO_LIFT = "no better than a constant, as far as this can tell: the interval of its gain reaches 0"


@register("evaluation")
@frozen(slots=False, field_transformer=named)
class Evaluation(Shown, Saved):
    """A private table of right and wrong predictions.

    ``sums`` are in units of ``1/levels`` of a person (weight ``"user"``) or in records (``"record"``); ``noise`` is the
    rate of the discrete Laplace noise on each; ``people`` the number of people where that is public.
    """

    sums: tuple[int, ...] = field(converter=whole_list)
    cells: CellKind
    weight: Weight
    levels: int = field(converter=whole)
    noise: Fraction = field(converter=fraction, metadata=bounds(minimum=LEAST_NOISE))
    neighbours: Neighbours = field(converter=relation)
    confidence: Fraction = field(converter=probability)
    people: int | None = None
    same_people: bool = False
    unit: Unit = field(default=Unit.USER, converter=protected_unit)

    def __attrs_post_init__(self) -> None:
        if self.cells not in CELLS or self.weight not in ("user", "record"):
            raise ParameterError(f"cells must be 'table' or 'error' and weight 'user' or 'record', got {self.cells!r}")
        if len(self.sums) != len(self.names):
            raise ParameterError(f"{len(self.names)} sums are needed: {', '.join(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """The cells that were released; under replace only the wrong ones, where the number of people is public."""
        return ("wrong",) if self.cells == "error" and self.people is not None else CELLS[self.cells]

    # Forms: sums of cells with signs, in people (or records), known up to noise

    def _terms(self, form: Iterable[str]) -> list[tuple[int, int]]:
        return [(-1 if name.startswith("-") else 1, self.names.index(name.lstrip("-"))) for name in form]

    def _value(self, *form: str) -> float:
        return sum(sign * self.sums[i] for sign, i in self._terms(form)) / self._unit

    @property
    def _unit(self) -> int:
        return self.levels if self.weight == "user" else 1

    def _noisy(self, beta: Fraction, *form: str) -> Range:
        """Where the exact sum lies, except with probability ``beta``."""
        exact = sum(sign * self.sums[i] for sign, i in self._terms(form))
        reach = noise_reach(self.noise, len(form), beta)
        return Range((exact - reach) / self._unit, (exact + reach) / self._unit)

    def _all(self, beta: Fraction) -> Range:
        """Where the number of people (or records) lies."""
        if self.people is not None:
            return Range(self.people, self.people)
        return self._noisy(beta, *self.names).clipped(0.0, float("inf"))

    @property
    def _rounding(self) -> float:
        return 1 / self.levels if self.weight == "user" else 0.0

    def _share(self, top: tuple[str, ...], rest: tuple[str, ...], *, everything: bool = False) -> MeasuredRate:
        """``top / (top + rest)``; ``everything``: the two forms are all there is."""
        beta = 1 - self.confidence
        value = max(0.0, self._value(*top))
        whole = value + max(0.0, self._value(*rest))
        if everything:
            sample = ratio(self._noisy(beta / 2, *top), self._noisy(beta / 2, *rest)).widened(self._rounding).clipped()
        else:
            slack = self._rounding * self._all(beta / 3).hi
            sample = ratio(*(self._noisy(beta / 3, *form).widened(slack) for form in (top, rest)))
        population = None if self.same_people else self._population(beta, top, rest, everything)
        return MeasuredRate(value / whole if whole > 0 else 0.5, sample, population)

    def _population(self, beta: Fraction, top: tuple[str, ...], rest: tuple[str, ...], everything: bool) -> Range:
        if self.weight == "record":
            # Sums of independent values in 0..levels; how many people there are cancels in the ratio of their means.
            sums = (self._noisy(beta / 4, *form).scaled(1 / self.levels) for form in (top, rest))
            return ratio(*(sum_range(total, float(beta / 4)) for total in sums))
        if everything:  # a mean over all people of shares in [0, 1]: two noises and one spread
            box = [self._noisy(beta / 3, *form) for form in (top, rest)]
            mean = ratio(*box).widened(self._rounding)
            return kl_range(mean, sum(form.lo for form in box), float(beta / 3))
        whole = self._all(beta / 5)  # two means: three noises and two spreads
        means = (_over(self._noisy(beta / 5, *form), whole).widened(self._rounding) for form in (top, rest))
        return ratio(*(kl_range(mean, whole.lo, float(beta / 5)) for mean in means))

    # What is shown

    @property
    def n_people(self) -> MeasuredRate:
        """How many people (weight ``"record"``: how many records) there are; ``sample`` is its interval."""
        value = self.people if self.people is not None else max(0.0, self._value(*self.names))
        return MeasuredRate(value, self._all(1 - self.confidence), None)

    @property
    def error(self) -> MeasuredRate:
        """How often it is wrong, every person counting the same."""
        if self.people is not None and self.cells == "error":
            return self._known_error(self.people)
        wrong, right = (("fp", "fn"), ("tn", "tp")) if self.cells == "table" else (("wrong",), ("right",))
        return self._share(wrong, right, everything=True)

    def _known_error(self, people: int) -> MeasuredRate:
        beta = 1 - self.confidence

        def within(level: Fraction) -> Range:
            if not people:
                return Range(0.0, 1.0)
            return self._noisy(level, "wrong").scaled(1 / people).widened(self._rounding).clipped()

        population = None if self.same_people else kl_range(within(beta / 2), people, float(beta / 2))
        return MeasuredRate(min(1.0, max(0.0, self._value("wrong") / max(1, people))), within(beta), population)

    def error_at_most(self, confidence: Rational = "0.95", records_per_user: int = 1) -> float:
        """An upper end alone, for new people from the same population: all doubt on one side.

        ``records_per_user`` above 1 declares that everybody holds so many records, all of one law.
        """
        if self.same_people or self.weight != "user":
            return 1.0
        beta = 1 - rational(confidence, "confidence", above=0, below=1)
        if self.people is not None and self.cells == "error":  # one noise, one side of it: half of the doubt
            spread, people = beta / 2, float(self.people)
            top = self._noisy(beta, "wrong").hi / max(1.0, people)
        else:  # both sides of one form, one of the other, and the people: four parts
            wrong, right = (("fp", "fn"), ("tn", "tp")) if self.cells == "table" else (("wrong",), ("right",))
            spread, bad, good = beta / 4, self._noisy(beta / 2, *wrong), self._noisy(beta / 2, *right)
            top = ratio(bad, Range(good.lo, good.lo)).hi
            people = max(0.0, bad.lo) + max(0.0, good.lo)
        mean = Range(top, top).widened(self._rounding)
        return kl_range(mean, people * records_per_user, float(spread), sides=1).hi

    @property
    def accuracy(self) -> MeasuredRate:
        """How often it is right."""
        e = self.error
        population = None if e.population is None else Range(1 - e.population.hi, 1 - e.population.lo)
        return MeasuredRate(1 - e.value, Range(1 - e.sample.hi, 1 - e.sample.lo), population)

    @property
    def base_rate(self) -> MeasuredRate:
        """How often the label is 1."""
        self._need_table("the share of labels 1")
        return self._share(("tp", "fn"), ("tn", "fp"), everything=True)

    @property
    def constant(self) -> MeasuredRate:
        """The error of the better constant: always 0, or always 1."""
        p = self.base_rate
        return MeasuredRate(
            min(p.value, 1 - p.value), _smaller(p.sample), None if p.population is None else _smaller(p.population)
        )

    @property
    def lift(self) -> MeasuredRate:
        """How much less often it is wrong than the better constant: ``min(tp - fp, tn - fn)`` over all."""
        self._need_table("the gain over a constant")
        beta = 1 - self.confidence
        forms = (("tp", "-fp"), ("tn", "-fn"))
        whole = max(0.0, self._value(*self.names))
        value = min(self._value(*form) for form in forms) / whole if whole > 0 else 0.0
        people = self._all(beta / 3)
        sample = _least([_over(self._noisy(beta / 3, *form), people).widened(self._rounding) for form in forms])
        population = None if self.same_people else self._lift_population(beta, forms)
        return MeasuredRate(min(1.0, max(-1.0, value)), sample, population)

    def _lift_population(self, beta: Fraction, forms: tuple[tuple[str, ...], ...]) -> Range:
        if self.weight == "record":
            half = evolve(self, confidence=1 - beta / 2)
            best, wrong = half.constant.population, half.error.population
            assert best is not None
            assert wrong is not None
            return Range(best.lo - wrong.hi, best.hi - wrong.lo).clipped(-1.0, 1.0)
        whole, ends = self._all(beta / 5), []
        for form in forms:
            mean = _over(self._noisy(beta / 5, *form), whole).widened(self._rounding)
            spread = kl_range(mean.scaled(0.5) + Range(0.5, 0.5), whole.lo, float(beta / 5))
            ends.append(spread.scaled(2) + Range(-1.0, -1.0))
        return _least(ends)

    @property
    def sensitivity(self) -> MeasuredRate:
        """Of the labels 1, how many it finds."""
        self._need_table("sensitivity")
        return self._share(("tp",), ("fn",))

    @property
    def specificity(self) -> MeasuredRate:
        """Of the labels 0, how many it leaves alone."""
        self._need_table("specificity")
        return self._share(("tn",), ("fp",))

    @property
    def precision(self) -> MeasuredRate:
        """When it says 1, how often it is right."""
        self._need_table("precision")
        return self._share(("tp",), ("fp",))

    @property
    def balanced_accuracy(self) -> MeasuredRate:
        """The mean of sensitivity and specificity; its intervals take half of the doubt for each."""
        halved = evolve(self, confidence=(1 + self.confidence) / 2)
        a, b = halved.sensitivity, halved.specificity
        population = None if a.population is None or b.population is None else (a.population + b.population).scaled(0.5)
        return MeasuredRate(
            (self.sensitivity.value + self.specificity.value) / 2, (a.sample + b.sample).scaled(0.5), population
        )

    @property
    def better_than_constant(self) -> bool | None:
        """Whether the gain is above 0 with this confidence; None where only right and wrong were released."""
        return self.lift.shown.lo > 0 if self.cells == "table" else None

    @property
    def rates(self) -> dict[str, MeasuredRate]:
        """All of them by name."""
        names = ["error", "accuracy"]
        if self.cells == "table":
            names += ["constant", "lift", "sensitivity", "specificity", "precision", "balanced_accuracy", "base_rate"]
        return {name: getattr(self, name) for name in names}

    def _need_table(self, what: str) -> None:
        if self.cells != "table":
            raise ParameterError(f"{what} needs all four cells, and only right and wrong were released; cells='table'")

    # Words

    def sentence(self) -> str:
        """The first thing to say: how often it is wrong, and a constant beside it."""
        of = "a person's records" if self.weight == "user" and self.unit is Unit.USER else "records"
        said = f"wrong for {self.error.measured} of {of} ({self.error.interval})"
        if self.cells == "table":
            said += f"; always saying {self.constant_says} would be wrong for {self.constant.measured}"
            said += "" if self.better_than_constant else ", and it is not shown to be better"
        return said

    @property
    def constant_says(self) -> str:
        """What the better constant says: yes or no."""
        return "yes" if self.base_rate.value > 0.5 else "no"

    def brief(self) -> str:
        """How good it is, in one line."""
        if self.cells != "table":
            return f"{self.sentence()}, {self._sure}"
        return f"{self.sentence()}; {self._gain}, {self._sure}"

    @property
    def _gain(self) -> str:
        """The gain over the better constant, in points."""
        value, ends = self.lift.value, self.lift.shown
        digits = 1 if max(abs(value), ends.hi - ends.lo) < 0.0995 else 0
        low, high = (f"{100 * end:.{digits}f}" for end in (ends.lo, ends.hi))
        return f"better than always saying {self.constant_says} by {100 * value:.{digits}f} points ({low} to {high})"

    @property
    def _sure(self) -> str:
        people = "people" if self.unit is Unit.USER else "records"
        who = f"the {people} measured" if self.same_people else f"new {people} from the same population"
        return f"{sure(self.confidence)}, {who}"

    def notes(self) -> tuple[str, ...]:
        """What a reader must know."""
        return (
            *((SAME_PEOPLE,) if self.same_people else ()),
            *((NO_LIFT,) if self.better_than_constant is False else ()),
        )

    def __str__(self) -> str:
        lines = [f"{self.sentence()} ({self._sure})"]
        if self.cells == "table":
            shown = ("sensitivity", "specificity", "precision")
            lines.append(" · ".join([self._gain, *(f"{name} {getattr(self, name)}" for name in shown)]))
        return "\n".join(lines)

    # Storage

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        if any(isinstance(v, bool) or not isinstance(v, int) for v in values["sums"]):
            raise ParameterError("sums must be integers")
        if values.get("people") is not None:
            positive_int(values["people"], "people", minimum=0)
        if not isinstance(values.get("same_people"), bool):
            raise ParameterError("same_people must be true or false")
        return cls(**{**values, "sums": tuple(values["sums"])})


def _smaller(p: Range) -> Range:
    """Of ``min(p, 1 - p)``."""
    ends = (min(p.lo, 1 - p.lo), min(p.hi, 1 - p.hi))
    return Range(max(0.0, min(ends)), 0.5 if 0.5 in p else max(ends))


def _least(ends: list[Range]) -> Range:
    return Range(min(e.lo for e in ends), min(e.hi for e in ends)).clipped(-1.0, 1.0)


def _over(form: Range, whole: Range) -> Range:
    """``form / whole`` for any member of each; a whole that may be 0 says nothing."""
    if whole.lo <= 0:
        return Range(-1.0, 1.0)
    return Range(min(form.lo / whole.lo, form.lo / whole.hi), max(form.hi / whole.lo, form.hi / whole.hi))
