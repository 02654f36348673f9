"""How good a predictor is on people, as it is published: noisy sums, and everything that follows from them.

Only the sums depend on the data; rates and intervals are functions of them and of public numbers.  Sums may be negative
or inconsistent, as measured; they are clipped only where a rate is formed.

Every rate has two intervals, each right with probability ``confidence`` on its own: ``these`` for the people that were
given (only noise is uncertain), ``like`` for people like these (drawn independently from one law, whatever it is).

*Forms.*  A rate is a function of sums over one or two cells, each known up to its noise
(:func:`~privpac.evaluation.intervals.noise_reach`) and, for people like these, up to the spread of a mean of values in
[0, 1] (:func:`~privpac.evaluation.intervals.kl_range`); ``1 - confidence`` is divided equally among what is uncertain.
Rounding a person's shares to ``1/levels`` moves one cell, a sum or a difference of two cells by at most ``1/levels``
per person (a cell is rounded up only if its remainder is no smaller than that of a cell rounded down); that is added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.display import Shown
from privpac.errors import ParameterError
from privpac.evaluation.intervals import Range, kl_range, noise_reach, ratio, sum_range
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, Unit, positive_int
from privpac.parameters import bounds, fraction, named, probability, protected_unit, relation, whole, whole_list
from privpac.result import register
from privpac.rules.kernels.shares import user_tables

if TYPE_CHECKING:
    from privpac.data import UserData
    from privpac.evaluation.predictors import Predictor

__all__ = [
    "CELLS",
    "Cells",
    "Evaluation",
    "LEAST_NOISE",
    "MeasuredRate",
    "TableKernel",
    "Weight",
    "few_people",
    "percent",
    "points",
    "sure",
    "user_tables",
]


# A number with its two intervals, and how shares are said in words.


@dataclass(frozen=True)
class MeasuredRate:
    """A number with its two intervals; ``like`` is None where other people are not covered."""

    value: float
    these: Range
    like: Range | None

    @property
    def shown(self) -> Range:
        """The interval that matters most: of people like these where there is one."""
        return self.like or self.these

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


def few_people(people: float, size: Any, epsilon: float) -> tuple[str, ...]:
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


# The 2x2 table of a predictor, person by person: what everybody adds has the same size.
#
# A person with ``c`` records in each of ``k`` cells adds, with weight ``"user"``, the largest-remainder rounding of
# ``levels * c / m`` to integers (ties to the earlier cell): non-negative integers that sum to ``levels`` exactly.  With
# weight ``"record"`` the counts themselves, of at most ``levels`` records.  Somebody without records adds nothing.  So
# one person more or less moves the sums by at most ``levels`` in L1, whatever their records are.


Ints = NDArray[np.int64]
Cells = Literal["table", "error"]
Weight = Literal["user", "record"]

CELLS: dict[Cells, tuple[str, ...]] = {"table": ("tn", "fp", "fn", "tp"), "error": ("right", "wrong")}
"""What is counted: label and prediction, or only whether they agree."""


@dataclass(frozen=True)
class TableKernel:
    """The sums over users, folded on any engine."""

    predictor: Predictor
    cells: Cells
    weight: Weight
    levels: int
    empty: int = -1

    def zero(self) -> Ints:
        return np.zeros(len(CELLS[self.cells]), np.int64)

    def chunk(self, users: UserData) -> Ints:
        told = self.predictor.predictions(users)
        labels: Any = users.labels
        # A prediction that is neither label is wrong, whatever the label is.
        said = np.where(told <= 1, told, 1 - labels).astype(np.uint8)
        found = 2 * labels + said if self.cells == "table" else (said != labels).astype(np.uint8)
        size = len(CELLS[self.cells])
        return user_tables(users.offsets, found.astype(np.uint8), size, self.levels, self.weight == "user", self.empty)

    def merge(self, a: Ints, b: Ints) -> Ints:
        return a + b


LEAST_NOISE = Fraction(1, 1 << 100)
"""The least rate of noise: below it the sums say nothing, and would not fit into a number on a page."""

SAME_PEOPLE = "measured on the people it was learned from, so it may be too good; evaluate on other people"
NO_LIFT = "no better than a constant, as far as this can tell: the interval of its gain reaches 0"


@register("evaluation")
@frozen(slots=False, field_transformer=named)
class Evaluation(Shown):
    """A private table of right and wrong predictions.

    ``sums`` are in units of ``1/levels`` of a person (weight ``"user"``) or in records (``"record"``); ``noise`` is the
    rate of the discrete Laplace noise on each; ``people`` the number of people where that is public.
    """

    sums: tuple[int, ...] = field(converter=whole_list)
    cells: Cells
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
            these = ratio(self._noisy(beta / 2, *top), self._noisy(beta / 2, *rest)).widened(self._rounding).clipped()
        else:
            slack = self._rounding * self._all(beta / 3).hi
            these = ratio(*(self._noisy(beta / 3, *form).widened(slack) for form in (top, rest)))
        like = None if self.same_people else self._like(beta, top, rest, everything)
        return MeasuredRate(value / whole if whole > 0 else 0.5, these, like)

    def _like(self, beta: Fraction, top: tuple[str, ...], rest: tuple[str, ...], everything: bool) -> Range:
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
        """How many people (weight ``"record"``: how many records) there are; ``these`` is its interval."""
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

        like = None if self.same_people else kl_range(within(beta / 2), people, float(beta / 2))
        return MeasuredRate(min(1.0, max(0.0, self._value("wrong") / max(1, people))), within(beta), like)

    def error_at_most(self, confidence: Rational = "0.95", records_per_user: int = 1) -> float:
        """An upper end alone, for people like these: all doubt on one side.

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
        like = None if e.like is None else Range(1 - e.like.hi, 1 - e.like.lo)
        return MeasuredRate(1 - e.value, Range(1 - e.these.hi, 1 - e.these.lo), like)

    @property
    def base_rate(self) -> MeasuredRate:
        """How often the label is 1."""
        self._need_table("the share of labels 1")
        return self._share(("tp", "fn"), ("tn", "fp"), everything=True)

    @property
    def constant(self) -> MeasuredRate:
        """The error of the better constant: always 0, or always 1."""
        p = self.base_rate
        return MeasuredRate(min(p.value, 1 - p.value), _smaller(p.these), None if p.like is None else _smaller(p.like))

    @property
    def lift(self) -> MeasuredRate:
        """How much less often it is wrong than the better constant: ``min(tp - fp, tn - fn)`` over all."""
        self._need_table("the gain over a constant")
        beta = 1 - self.confidence
        forms = (("tp", "-fp"), ("tn", "-fn"))
        whole = max(0.0, self._value(*self.names))
        value = min(self._value(*form) for form in forms) / whole if whole > 0 else 0.0
        whole_range = self._all(beta / 3)
        slack = self._rounding
        these = _least([_over(self._noisy(beta / 3, *form), whole_range).widened(slack) for form in forms])
        like = None if self.same_people else self._lift_like(beta, forms)
        return MeasuredRate(min(1.0, max(-1.0, value)), these, like)

    def _lift_like(self, beta: Fraction, forms: tuple[tuple[str, ...], ...]) -> Range:
        if self.weight == "record":
            half = evolve(self, confidence=1 - beta / 2)
            best, wrong = half.constant.like, half.error.like
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
        like = None if a.like is None or b.like is None else (a.like + b.like).scaled(0.5)
        return MeasuredRate(
            (self.sensitivity.value + self.specificity.value) / 2, (a.these + b.these).scaled(0.5), like
        )

    @property
    def better_than_constant(self) -> bool | None:
        """Whether the gain is above 0 with this confidence; None where only right and wrong were released."""
        if self.cells != "table":
            return None
        gain = self.lift
        return gain.shown.lo > 0

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

    def notes(self) -> tuple[str, ...]:
        """What a reader must know."""
        return (
            *((SAME_PEOPLE,) if self.same_people else ()),
            *((NO_LIFT,) if self.better_than_constant is False else ()),
        )

    def __str__(self) -> str:
        people = "people" if self.unit is Unit.USER else "records"
        who = f"these {people}" if self.same_people else f"{people} like these"
        lines = [f"{self.sentence()} ({sure(self.confidence)}, {who})"]
        if self.cells == "table":
            shown = ("lift", "sensitivity", "specificity", "precision")
            lines.append(" · ".join(f"{_WORDS[name]} {getattr(self, name)}" for name in shown))
        return "\n".join(lines)

    # Storage

    def to_dict(self) -> dict[str, Any]:
        return {
            "sums": list(self.sums),
            "cells": self.cells,
            "weight": self.weight,
            "levels": self.levels,
            "noise": self.noise,
            "neighbours": str(self.neighbours),
            "confidence": self.confidence,
            "people": self.people,
            "same_people": self.same_people,
            "unit": str(self.unit),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        given = dict(values)
        if any(isinstance(v, bool) or not isinstance(v, int) for v in given["sums"]):
            raise ParameterError("sums must be integers")
        people = given.get("people")
        if people is not None:
            positive_int(people, "people", minimum=0)
        if not isinstance(given.get("same_people"), bool):
            raise ParameterError("same_people must be true or false")
        return cls(**cast(Any, given | {"sums": tuple(given["sums"])}))


_WORDS = {
    "lift": "gain over a constant",
    "sensitivity": "finds",
    "specificity": "leaves alone",
    "precision": "right when it says yes",
}


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
