"""How good a predictor is on people, as it is published: noisy sums, and everything that follows from them.

Only the sums depend on the data; rates and intervals are functions of them and of public numbers.  Sums may be negative
or inconsistent, as measured; they are clipped only where a rate is formed.

Every rate has two intervals, each right with probability ``confidence`` on its own: ``sample`` for the people that were
given (only noise is uncertain), ``population`` for new people from the same population (drawn independently from one
law, whatever it is: :mod:`privpac.evaluation.population`).

*Sample.*  A rate is a function of sums over one or two cells, each known up to its noise (:func:`noise_reach`); ``1 -
confidence`` is divided equally among what is uncertain.  Rounding a person's shares to ``1/levels`` moves one cell, a
sum or a difference of two cells by at most ``1/levels`` per person (a cell is rounded up only if its remainder is no
smaller than that of a cell rounded down); that is added.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property
from math import comb
from typing import Any, Literal, NamedTuple

import numpy as np
from attrs import evolve, field, frozen

from privpac.display import Shown
from privpac.errors import ParameterError
from privpac.evaluation.intervals import Range, noise_reach, ratio
from privpac.evaluation.population import (
    NoisyTable,
    people_for_gain,
    population_end,
    population_range,
    typical_range,
)
from privpac.evaluation.ranking import RankedSums
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, Unit, positive_int
from privpac.parameters import bounds, fraction, named, probability, protected_unit, relation, whole, whole_list
from privpac.result import Saved, register
from privpac.rules.chances import BANDS, Regions, chance_threshold, chances_of_regions, is_above, log_odds_from

# A number with its two intervals, and how shares are said in words.


@frozen(slots=False)
class MeasuredRate:
    """A number with its two intervals; ``population`` is None where other people are not covered.

    ``typical`` is a narrower interval for new people, right in everything that was measured, but not guaranteed; None
    where few people are, or nothing is said of others.
    """

    value: float
    sample: Range
    population: Range | None
    typical: Range | None = None

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

PRODUCT_WEIGHT = Fraction(1, 2)
"""What products of cells are multiplied by before they are released: they need little room beside the sums."""
_TYPICAL = 100
"""The least number of people, surely, from which on a typical interval is shown."""

CELLS: dict[CellKind, tuple[str, ...]] = {"table": ("tn", "fp", "fn", "tp"), "error": ("right", "wrong")}
"""What is counted: label and prediction, or only whether they agree."""


_NO_GAIN = 0.01
"""A gain of at most a point is none."""

LEAST_NOISE = Fraction(1, 1 << 110)
"""The least rate of noise: below it the sums say nothing, and would not fit into a number on a page."""

_CURVE = 100
"""Below so many people times epsilon a ROC curve says little."""

SAME_PEOPLE = "measured on the people it was learned from, so it may be too good; evaluate on other people"


@register("evaluation")
@frozen(slots=False, field_transformer=named)
class Evaluation(Shown, Saved):
    """A private table of right and wrong predictions.

    ``sums`` are in units of ``1/levels`` of a person (weight ``"user"``) or in records (``"record"``); ``noise`` is the
    rate of the discrete Laplace noise on each; ``people`` the number of people where that is public.  ``products`` are
    those of every two cells, in their order, times ``product_weight``; None where none were released.

    With ``regions`` the table is finer: ``sums`` are those of the cells (region, label), region by region, and each of
    the four cells is the total of the regions where the rule says what it counts.  Noise and guarantee are the same.
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
    products: tuple[int, ...] | None = None
    product_weight: Fraction | None = None
    regions: Regions | None = None

    def __attrs_post_init__(self) -> None:
        if self.cells not in CELLS or self.weight not in ("user", "record"):
            raise ParameterError(f"cells must be 'table' or 'error' and weight 'user' or 'record', got {self.cells!r}")
        if self.regions is not None:
            self._check_regions(self.regions)
        elif len(self.sums) != len(self.names):
            raise ParameterError(f"{len(self.names)} sums are needed: {', '.join(self.names)}")
        if (self.products is None) != (self.product_weight is None):
            raise ParameterError("products and product_weight belong together")
        pairs = comb(len(CELLS[self.cells]), 2)
        if self.products is not None and (len(self.products) != pairs or self.weight != "user"):
            raise ParameterError(f"{pairs} products are needed, of people who count the same")

    @property
    def names(self) -> tuple[str, ...]:
        """The cells that were released; under replace only the wrong ones, where the number of people is public."""
        return ("wrong",) if self.cells == "error" and self.people is not None else CELLS[self.cells]

    def _check_regions(self, regions: Regions) -> None:
        count = len(regions.own)
        fits = self.cells == "table" and len(self.sums) == 2 * count and len(regions.names) == count >= 1
        ranked = not regions.ranked or sorted(regions.ranked) == list(range(count))
        if not fits or not ranked or not set(regions.own) <= {0, 1} or count > 16:
            raise ParameterError("a table of regions has two sums for each of at most 16 regions")
        if regions.chances and (len(regions.chances) != count or not all(0 <= c <= 1 for c in regions.chances)):
            raise ParameterError("regions have a chance each, or none")

    # Forms: sums of cells with signs, in people (or records), known up to noise

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Of every cell the places of the sums that it is the total of."""
        if self.regions is None:
            return {name: [i] for i, name in enumerate(self.names)}
        own = self.regions.own
        return {
            name: [2 * g + label for g, says in enumerate(own) if says == predicted]
            for name, (label, predicted) in zip(CELLS["table"], ((0, 0), (0, 1), (1, 0), (1, 1)))
        }

    @property
    def cell_sums(self) -> dict[str, int]:
        """The noisy sum of every cell by its name; of regions their totals."""
        return {name: sum(self.sums[i] for i in self._places[name]) for name in self.names}

    def _terms(self, form: Iterable[str]) -> list[tuple[int, int]]:
        return [(-1 if name.startswith("-") else 1, i) for name in form for i in self._places[name.lstrip("-")]]

    def _value(self, *form: str) -> float:
        return sum(sign * self.sums[i] for sign, i in self._terms(form)) / self._unit

    @property
    def _unit(self) -> int:
        return self.levels if self.weight == "user" else 1

    def _noisy(self, beta: Fraction, *form: str) -> Range:
        """Where the exact sum lies, except with probability ``beta``."""
        terms = self._terms(form)
        exact = sum(sign * self.sums[i] for sign, i in terms)
        reach = noise_reach(self.noise, len(terms), beta)
        return Range((exact - reach) / self._unit, (exact + reach) / self._unit)

    def _all(self, beta: Fraction) -> Range:
        """Where the number of people (or records) lies."""
        if self.people is not None:
            return Range(self.people, self.people)
        return self._noisy(beta, *self.names).clipped(0.0, float("inf"))

    @property
    def _rounding(self) -> float:
        """Largest remainders move any sum of ``K`` cells by at most ``K/4`` units, a sum of one or two by one."""
        return max(1, len(self.sums) / 4) / self.levels if self.weight == "user" else 0.0

    def _share(
        self, name: str, top: tuple[str, ...], rest: tuple[str, ...], *, everything: bool = False
    ) -> MeasuredRate:
        """``top / (top + rest)``; ``everything``: the two forms are all there is."""
        beta = 1 - self.confidence
        value = max(0.0, self._value(*top))
        whole = value + max(0.0, self._value(*rest))
        if everything:
            sample = ratio(self._noisy(beta / 2, *top), self._noisy(beta / 2, *rest)).widened(self._rounding).clipped()
        else:
            slack = self._rounding * self._all(beta / 3).hi
            sample = ratio(*(self._noisy(beta / 3, *form).widened(slack) for form in (top, rest)))
        return self._rate(value / whole if whole > 0 else 0.5, sample, name)

    def _rate(self, value: float, sample: Range, name: str) -> MeasuredRate:
        """With the intervals for new people."""
        if self.same_people:
            return MeasuredRate(value, sample, None)
        doubt = 1 - self.confidence
        typical = typical_range(self._table, name, doubt) if self._many else None
        return MeasuredRate(value, sample, population_range(self._table, name, doubt), typical)

    @cached_property
    def _table(self) -> NoisyTable:
        """What was released, as the intervals for new people read it."""
        weight = self.product_weight or PRODUCT_WEIGHT
        whole = self.weight == "user"
        finer = () if self.regions is None else tuple(len(self._places[name]) for name in self.names)
        sums = tuple(self.cell_sums.values())
        return NoisyTable(sums, self.levels, self.noise, self.products, weight, self.people, finer, whole=whole)

    @property
    def _many(self) -> bool:
        return self.weight == "user" and self.n_people.sample.lo >= _TYPICAL

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
        return self._share(self._error_form, wrong, right, everything=True)

    @property
    def _error_form(self) -> str:
        return "error" if self.cells == "table" else "wrong"

    def _known_error(self, people: int) -> MeasuredRate:
        noisy = self._noisy(1 - self.confidence, "wrong")
        sample = noisy.scaled(1 / people).widened(self._rounding).clipped() if people else Range(0.0, 1.0)
        value = min(1.0, max(0.0, self._value("wrong") / max(1, people)))
        return self._rate(value, sample, self._error_form)

    def error_at_most(self, confidence: Rational = "0.95", records_per_user: int = 1) -> float:
        """An upper end alone, for new people from the same population: all doubt on one side.

        ``records_per_user`` above 1 declares that everybody holds so many records, all of one law.
        """
        records = positive_int(records_per_user, "records_per_user")
        doubt = 1 - rational(confidence, "confidence", above=0, below=1)
        if self.same_people or self.weight != "user":
            return 1.0
        return population_end(self._table, self._error_form, doubt, upper=True, records=records)

    @property
    def accuracy(self) -> MeasuredRate:
        """How often it is right."""
        e = self.error
        population, typical = (_opposite(e.population), _opposite(e.typical))
        return MeasuredRate(1 - e.value, Range(1 - e.sample.hi, 1 - e.sample.lo), population, typical)

    @property
    def base_rate(self) -> MeasuredRate:
        """How often the label is 1."""
        self._need_table("the share of labels 1")
        return self._share("base_rate", ("tp", "fn"), ("tn", "fp"), everything=True)

    @property
    def constant(self) -> MeasuredRate:
        """The error of the better constant: always 0, or always 1."""
        p = self.base_rate
        smaller = (None if interval is None else _smaller(interval) for interval in (p.population, p.typical))
        return MeasuredRate(min(p.value, 1 - p.value), _smaller(p.sample), *smaller)

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
        return self._rate(min(1.0, max(-1.0, value)), sample, "gain")

    @property
    def sensitivity(self) -> MeasuredRate:
        """Of the labels 1, how many it finds."""
        self._need_table("sensitivity")
        return self._share("sensitivity", ("tp",), ("fn",))

    @property
    def specificity(self) -> MeasuredRate:
        """Of the labels 0, how many it leaves alone."""
        self._need_table("specificity")
        return self._share("specificity", ("tn",), ("fp",))

    @property
    def precision(self) -> MeasuredRate:
        """When it says 1, how often it is right."""
        self._need_table("precision")
        return self._share("precision", ("tp",), ("fp",))

    @property
    def balanced_accuracy(self) -> MeasuredRate:
        """The mean of sensitivity and specificity; its intervals take half of the doubt for each."""
        halved = evolve(self, confidence=(1 + self.confidence) / 2)
        a, b = halved.sensitivity, halved.specificity
        value = (self.sensitivity.value + self.specificity.value) / 2
        return MeasuredRate(
            value, (a.sample + b.sample).scaled(0.5), _mean(a.population, b.population), _mean(a.typical, b.typical)
        )

    @property
    def better_than_constant(self) -> bool | None:
        """Whether it is better than the better constant, with this confidence: True if the gain is surely above 0,
        False if it is surely at most a point.  None where people are too few to tell, or only right and wrong were
        released."""
        if self.cells != "table":
            return None
        gain = self.lift.shown
        return True if gain.lo > 0 else False if gain.hi <= _NO_GAIN else None

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

    # Regions: chances, the ROC curve and thresholds that are chosen afterwards

    @property
    def _region_map(self) -> Regions:
        """The regions; of a plain table what the rule predicts."""
        return self.regions or Regions(("predicts 0", "predicts 1"), (0, 1), (0, 1))

    @cached_property
    def region_sums(self) -> tuple[tuple[int, int], ...]:
        """The noisy sums of labels 0 and 1 in every region."""
        self._need_table("chances and ROC curves")
        if self.regions is None:
            tn, fp, fn, tp = self.sums
            return ((tn, fn), (fp, tp))
        return tuple(zip(self.sums[::2], self.sums[1::2]))

    @property
    def has_chances(self) -> bool:
        """Whether the chances of both labels were measured: wherever all four cells were."""
        return self.cells == "table"

    @cached_property
    def chances(self) -> tuple[tuple[Fraction, ...], ...]:
        """The measured chances of labels 0 and 1 in every region."""
        sums = [value for row in self.region_sums for value in row]
        return chances_of_regions(sums, self._region_map.own, self.noise)

    def chances_for(self, rule: object) -> RuleWithChances:
        """The rule that was evaluated, with the chances of its regions."""
        return RuleWithChances(rule, self)

    @cached_property
    def ranked(self) -> tuple[int, ...]:
        """The regions by rising score: as known before, else by their measured chance, ties in their order."""
        if self._region_map.ranked:
            return self._region_map.ranked
        ones = [chances[1] for chances in self.chances]
        return tuple(sorted(range(len(ones)), key=lambda g: ones[g]))

    @cached_property
    def _curve(self) -> RankedSums:
        rows = self.region_sums
        return RankedSums(tuple(rows[g] for g in self.ranked), self.noise, fixed=bool(self._region_map.ranked))

    @property
    def auc(self) -> MeasuredRate:
        """The area under the ROC curve of the regions: how often somebody with label 1 scores higher than somebody
        with label 0, ties counting half.  Records of different people count as much as their people do."""
        curve, doubt = self._curve, 1 - self.confidence
        lo, hi = curve.sample(doubt)
        value = float(min(max(curve.auc, lo), hi))
        population = None
        if not self.same_people and self.weight == "user":
            population = Range(*curve.population(doubt, self.levels))
        return MeasuredRate(value, Range(float(lo), float(hi)), population)

    def _saying(self, own: Iterable[int], doubt: Fraction) -> Evaluation:
        """The same sums for a rule that says these labels in the regions, at another level of doubt.

        Products are those of the rule's own cells: another rule's are not known.
        """
        regions = self._region_map._replace(own=tuple(own))
        sums = tuple(value for row in self.region_sums for value in row)
        return evolve(self, sums=sums, regions=regions, confidence=1 - doubt, products=None, product_weight=None)

    def at(self, above: int) -> Evaluation:
        """How good it is to say 1 above so many of the ranked regions and no others: ``above = -1`` says 1 always.

        At the rule's own threshold this is the evaluation itself.  Elsewhere intervals are simultaneous: each rate's
        hold at all thresholds together, so that a threshold may be chosen by looking at them.
        """
        count = len(self.ranked)
        if isinstance(above, bool) or not isinstance(above, int) or not -1 <= above < count:
            raise ParameterError(f"above must be a whole number from -1 to {count - 1}, got {above!r}")
        says = {g: int(place > above) for place, g in enumerate(self.ranked)}
        own = tuple(says[g] for g in range(count))
        if own == self._region_map.own:
            return self
        return self._saying(own, (1 - self.confidence) / self._curve.thresholds)

    def roc(self) -> tuple[RocPoint, ...]:
        """The ROC curve, from "always 1" to "never 1": false and true positive rates with simultaneous intervals.

        Returns
        -------
        tuple of RocPoint
            ``above`` (the ranked regions in which 0 is said end here), ``fpr`` and ``tpr``.

        Examples
        --------
        >>> table = Evaluation((40, 10, 10, 40), "table", "user", 1, Fraction(10), "add-remove", Fraction(19, 20))
        >>> [(row.above, round(row.fpr.value, 2), row.tpr.value) for row in table.roc()]
        [(-1, 1.0, 1.0), (0, 0.2, 0.8), (1, 0.0, 0.0)]
        """
        doubt = (1 - self.confidence) / self._curve.thresholds
        rows = []
        for above in range(-1, len(self.ranked)):
            says = {g: int(place > above) for place, g in enumerate(self.ranked)}
            table = self._saying((says[g] for g in range(len(says))), doubt)
            if above in (-1, len(self.ranked) - 1):  # nothing is uncertain: all or none
                all_or_none = MeasuredRate(float(above < 0), *[Range(float(above < 0), float(above < 0))] * 2)
                rows.append(RocPoint(above, all_or_none, all_or_none))
            else:
                rows.append(RocPoint(above, table.false_positive_rate, table.sensitivity))
        return tuple(rows)

    @property
    def false_positive_rate(self) -> MeasuredRate:
        """Of the labels 0, for how many it says 1."""
        rate = self.specificity
        population, typical = (_opposite(rate.population), _opposite(rate.typical))
        return MeasuredRate(1 - rate.value, Range(1 - rate.sample.hi, 1 - rate.sample.lo), population, typical)

    def calibration(self) -> tuple[CalibrationRow, ...]:
        """The rule's own chances beside what was measured, region by region, with intervals that hold together.

        Raises
        ------
        ParameterError
            The rule has no chances but those of these very sums.
        """
        claimed = self._region_map.chances
        if not claimed:
            raise ParameterError(
                "these chances were measured by this evaluation, so it cannot check them; calibrate= gives a small "
                "tree chances of its own"
            )
        doubt = (1 - self.confidence) / len(claimed)
        return tuple(
            CalibrationRow(name, chance, self._saying((int(h == g) for h in range(len(claimed))), doubt).precision)
            for g, (name, chance) in enumerate(zip(self._region_map.names, claimed))
        )

    def best(self, cost_fp: Rational = 1, cost_fn: Rational = 1) -> OperatingPoint:
        """The threshold of least measured cost; ties go to the one that says 1 less often.

        Parameters
        ----------
        cost_fp, cost_fn : rational
            What a false positive and a false negative cost, at least 0.

        Returns
        -------
        OperatingPoint
            ``above``, the measured ``cost`` per person, and the ``evaluation`` there, whose intervals are simultaneous.
        """
        costs = rational(cost_fp, "cost_fp", minimum=0), rational(cost_fn, "cost_fn", minimum=0)
        above, cost = self._curve.cheapest(*costs)
        return OperatingPoint(above, float(cost / max(1, sum(self.sums))), self.at(above))

    # Words

    def sentence(self) -> str:
        """The first thing to say: how often it is wrong, and a constant beside it."""
        of = "a person's records" if self.weight == "user" and self.unit is Unit.USER else "records"
        said = f"wrong for {self.error.measured} of {of} ({self.error.interval})"
        if self.cells != "table":
            return said
        said += f"; always saying {self.constant_says} would be wrong for {self.constant.measured}"
        if self.better_than_constant is None:
            return f"{said}, and people are too few to tell which is better"
        return said if self.better_than_constant else f"{said}, and it is {self._no_better}"

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
        if self.better_than_constant is None:
            return f"the gain is between {low} and {high} points"
        if not self.better_than_constant:
            return f"gain over always saying {self.constant_says} {100 * value:.{digits}f} points ({low} to {high})"
        return f"better than always saying {self.constant_says} by {100 * value:.{digits}f} points ({low} to {high})"

    @property
    def _no_better(self) -> str:
        return f"{'worse' if self.lift.shown.hi <= 0 else 'no better'} than a constant"

    @property
    def _too_few(self) -> str:
        """That the people do not tell, and how many would."""
        more, here = None, self.n_people.value
        if self.lift.value > 0 and not self.same_people:
            more = people_for_gain(self._table, 1 - self.confidence)
        if more is not None:  # two digits are more than is known
            size = 10 ** max(0, len(str(more)) - 2)
            more = -(-more // size) * size
        enough = "" if more is None or more <= here else f"; about {more:,} people would tell if it is as measured"
        return f"too few people to tell whether it is better than a constant: {self._gain}{enough}"

    @property
    def _sure(self) -> str:
        people = "people" if self.unit is Unit.USER else "records"
        who = f"the {people} measured" if self.same_people else f"new {people} from the same population"
        return f"{sure(self.confidence)}, {who}"

    @property
    def _typical(self) -> str:
        """The narrower intervals, marked."""
        wrong = self.error.typical
        if wrong is None:
            return ""
        said = f"typical, not guaranteed: wrong for {percent(wrong.lo, True)} to {percent(wrong.hi, True)}"
        gain = self.lift.typical if self.cells == "table" else None
        return said if gain is None else f"{said}, gain {100 * gain.lo:.1f} to {100 * gain.hi:.1f} points"

    def notes(self) -> tuple[str, ...]:
        """What a reader must know."""
        return (
            *((SAME_PEOPLE,) if self.same_people else ()),
            *((self._no_better,) if self.better_than_constant is False else ()),
            *((self._too_few,) if self.cells == "table" and self.better_than_constant is None else ()),
        )

    def __str__(self) -> str:
        lines = [f"{self.sentence()} ({self._sure})"]
        if self.cells == "table":
            shown = ("sensitivity", "specificity", "precision")
            lines.append(" · ".join([self._gain, *(f"{name} {getattr(self, name)}" for name in shown)]))
        if self.regions is not None:
            few = (
                ""
                if float(self.n_people.value * self.levels * self.noise) >= _CURVE
                else ", too few people for a curve"
            )
            lines.append(f"area under the ROC curve {self.auc}{few}")
        if self._typical:
            lines.append(self._typical)
        return "\n".join(lines)

    # Storage

    @property
    def file_version(self) -> int:
        """The file version that a reader must know: 1 without products."""
        return 1 if self.products is None and self.regions is None else 2

    def to_dict(self) -> dict[str, Any]:
        values = super().to_dict()
        if self.products is None:  # as before there were any
            del values["products"], values["product_weight"]
        if self.regions is None:
            del values["regions"]
        else:
            values["regions"] = {name: list(part) for name, part in self.regions._asdict().items()}
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        products = values.get("products")
        if any(isinstance(v, bool) or not isinstance(v, int) for v in (*values["sums"], *(products or ()))):
            raise ParameterError("sums and products must be integers")
        if values.get("product_weight") is not None:
            rational(values["product_weight"], "product_weight", above=0, maximum=1)
        if values.get("people") is not None:
            positive_int(values["people"], "people", minimum=0)
        if not isinstance(values.get("same_people"), bool):
            raise ParameterError("same_people must be true or false")
        return cls(
            **{
                **values,
                "sums": tuple(values["sums"]),
                "products": None if products is None else tuple(products),
                "regions": None if values.get("regions") is None else _read_regions(values["regions"]),
            }
        )


def _read_regions(stored: Mapping[str, Any]) -> Regions:
    names, own, ranked, chances = (stored[name] for name in Regions._fields)
    if any(isinstance(place, bool) or not isinstance(place, int) for place in (*own, *ranked)):
        raise ParameterError("regions are numbered by whole numbers")
    return Regions(tuple(map(str, names)), tuple(own), tuple(ranked), tuple(map(float, chances)))


class RocPoint(NamedTuple):
    """A point of a ROC curve: 1 is said above so many of the ranked regions."""

    above: int
    fpr: MeasuredRate
    tpr: MeasuredRate


class CalibrationRow(NamedTuple):
    """A region, the chance that the rule gives there, and how often the label is 1."""

    region: str
    chance: float
    measured: MeasuredRate


class OperatingPoint(NamedTuple):
    """A threshold chosen afterwards: 1 is said above so many of the ranked regions."""

    above: int
    cost: float
    evaluation: Evaluation


@frozen(slots=False)
class RuleWithChances:
    """A rule, and the chances that an evaluation measured in its regions."""

    rule: Any
    evaluation: Evaluation

    def predict_proba(self, X: object) -> Any:
        regions = self.evaluation.regions
        if regions is None:
            places = self.rule.predict(X)
        else:
            bands = next(n for n in BANDS if self.rule.regions(n).names == regions.names)
            places = self.rule.region_codes(self.rule.encode(X), bands)
        return np.array(self.evaluation.chances, np.float64)[np.asarray(places, np.int64)]

    def decision_function(self, X: object) -> Any:
        return log_odds_from(self.predict_proba(X))

    def predict(self, X: object, threshold: Rational) -> Any:
        return is_above(self.predict_proba(X), chance_threshold(threshold, 2))


def _smaller(p: Range) -> Range:
    """Of ``min(p, 1 - p)``."""
    ends = (min(p.lo, 1 - p.lo), min(p.hi, 1 - p.hi))
    return Range(max(0.0, min(ends)), 0.5 if 0.5 in p else max(ends))


def _opposite(p: Range | None) -> Range | None:
    return None if p is None else Range(1 - p.hi, 1 - p.lo)


def _mean(a: Range | None, b: Range | None) -> Range | None:
    return None if a is None or b is None else (a + b).scaled(0.5)


def _least(ends: list[Range]) -> Range:
    return Range(min(e.lo for e in ends), min(e.hi for e in ends)).clipped(-1.0, 1.0)


def _over(form: Range, whole: Range) -> Range:
    """``form / whole`` for any member of each; a whole that may be 0 says nothing."""
    if whole.lo <= 0:
        return Range(-1.0, 1.0)
    return Range(min(form.lo / whole.lo, form.lo / whole.hi), max(form.hi / whole.lo, form.hi / whole.hi))
