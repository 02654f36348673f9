"""How good a predictor is on new people from the same population: intervals that hold for every law of people.

A rate is a number ``theta`` at which a linear form of the cells, ``a(theta) . x``, has mean 0; ``x`` are the shares of
one person's records in the cells.  No cell is divided by another, so the number of people is never estimated.  A point
``theta`` is excluded by a *bet*: a number whose mean is at most 1 if the rate is on the other side of ``theta``,
whatever the law of people, and which is large only if it is not.

**Theorem** (:func:`excludes`).  People drawn independently from one law, any number of them, ``E[a . x] <= 0``: the
test rejects with probability at most ``beta``.  The proof stands beside each step.  With ``X = t/levels`` what a person
adds to the sums, ``N`` the sums of all people with noise, ``M(v) = E exp(v Z)`` of one noise and ``b = ln(1 + lambda
a)``:

* *rounding*: largest remainders move shares by a vector of sum 0 whose positive part is at most ``1/levels`` (``K/4``
  times that with ``K`` cells), so ``a`` lowered by that much of its spread has ``E[a . X] <= 0``;
* *cells*: ln is concave and shares sum to 1, so ``b . X <= ln(1 + lambda a . X)`` and ``E exp(b . X) <= 1``: hence
  ``E exp(N . b - sum ln M(b/levels)) <= 1``, whatever the number of people;
* *moments*: for ``y = a . X >= -l`` and ``g = (-ln(1 - lambda l) - lambda l)/l**2``, ``ln(1 + lambda y) >= lambda y - g
  y**2``, and ``y**2 = sum a_c**2 X_c - sum (a_c - a_d)**2 X_c X_d`` is at most the same with the released products,
  which are rounded down;
* *which bet*: it may depend on the population, not on the data.  Ends for the number of people who matter and for
  their squares hold with all but a twentieth of ``beta``; the best bet falls as these grow, so the bet of the truth is
  among those between the bets of the two ends, and the least of these is taken.

*Ends.*  The test is not monotone in ``theta``, so both scans (:func:`population_end`) go over fixed points from the
outside and stop at the first that is not excluded: an end beyond the truth has excluded the nearest coarse point, at a
tenth of the level, or the nearest fine point, at nine tenths of it.

Everything here is a function of released numbers and public ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.arrays import Bools
from privpac.arrays import Floats64 as Floats
from privpac.bisection import least_from
from privpac.evaluation.intervals import Range

_BETS = 2.0 ** (np.arange(-32, 25) / 2)
_TILTS = 2.0 ** np.arange(-12, 4)

_STEPS = 10_000
"""Ends are multiples of ``1/10,000``."""
_COARSE = 100
_BLOCK = 64
_PEOPLE = 1 << 40
"""More than anybody plans for."""
_LEAST_LEVEL = 1e-300
"""A level that floating point hardly holds excludes nothing."""
_SLACK = 1e-9
"""What a logarithm must exceed its threshold by, far above rounding."""


@frozen(slots=False)
class NoisyTable:
    """Released sums, as the tests read them.

    ``sums`` are those of ``tn, fp, fn, tp``, or of right and wrong; of wrong alone where the number of ``people`` is
    public.  ``products`` are those of pairs of cells, in that order, times ``product_weight``.  ``finer``: of how many
    released cells each sum is the total.  ``whole``: whether what a person adds sums to ``levels`` exactly.
    """

    sums: tuple[int, ...]
    levels: int
    noise: Fraction
    products: tuple[int, ...] | None = None
    product_weight: Fraction = Fraction(1, 2)
    people: int | None = None
    finer: tuple[int, ...] = field(default=())
    whole: bool = True

    @property
    def _known(self) -> bool:
        """Whether only the wrong ones were released, of a public number of people."""
        return len(self.sums) == 1

    @cached_property
    def counts(self) -> Floats:
        """The cells in people."""
        if self._known:
            people = self.people or 0
            return np.array([(people * self.levels - self.sums[0]) / self.levels, self.sums[0] / self.levels])
        return np.array([value / self.levels for value in self.sums])

    @cached_property
    def total(self) -> int:
        """All cells together, in units of ``1/levels``."""
        return (self.people or 0) * self.levels if self._known else sum(self.sums)

    @cached_property
    def pairs(self) -> Floats:
        """The products in people."""
        scale = self.levels * self.product_weight
        return np.array([float(value / scale) for value in self.products or ()])

    @cached_property
    def times(self) -> Floats:
        """Of how many noises each cell has the sum."""
        return np.array(self.finer or (1,) * len(self.counts), float)

    @property
    def rounding(self) -> float:
        """By which part of its spread rounding can raise a form."""
        return max(1.0, self.times.sum() / 4) / self.levels if self.whole else 0.0

    def log_moment(self, v: Floats) -> Floats:
        """``ln E exp(v Z)`` of one noise, ``-ln(1 - (sinh(v/2)/sinh(rate/2))**2)``; infinite from the rate on.

        Rounded up: the square is raised by more than its error before ``1`` loses it.
        """
        rate, size = float(self.noise), np.abs(v)
        finite = size < rate * (1 - 1e-9)
        size = np.where(finite, size, 0.0)
        ratio = np.exp((size - rate) / 2) * np.expm1(-size) / math.expm1(-rate)
        return np.where(finite, -np.log1p(-(ratio**2) * (1 + 1e-14)), math.inf)

    def noise_of(self, form: Floats) -> Floats:
        """``ln E exp`` of the noise in ``form . counts``; cells are the last axis."""
        if self._known:  # the right ones are the people without the wrong ones
            return self.log_moment((form[..., 1] - form[..., 0]) / self.levels)
        noisy = self.times > 0
        return np.asarray((self.times[noisy] * self.log_moment(form[..., noisy] / self.levels)).sum(axis=-1))

    def noise_of_pairs(self, form: Floats) -> Floats:
        """The same for the products."""
        return np.asarray(self.log_moment(form / (float(self.product_weight) * self.levels)).sum(axis=-1))


@frozen(slots=False, eq=False)
class Form:
    """``a(theta) = base - theta * slope``; it decreases in ``theta``."""

    base: Floats
    slope: Floats
    signed: bool = False

    @property
    def active(self) -> Bools:
        """The cells that decide how far the form spreads."""
        return np.asarray((self.base if self.signed else self.slope) != 0)

    def at(self, theta: Floats) -> Floats:
        return self.base - theta[:, None] * self.slope

    def spread(self, theta: Floats) -> Floats:
        """By which factor of the active cells' sum."""
        return np.ones_like(theta) if self.signed else theta * (1 - theta)


def _form(base: tuple[int, ...], slope: tuple[int, ...] = (1, 1, 1, 1), *, signed: bool = False) -> Form:
    return Form(np.array(base, float), np.array(slope, float), signed)


FORMS: dict[str, tuple[Form, ...]] = {
    "wrong": (_form((0, 1), (1, 1)),),
    "error": (_form((0, 1, 1, 0)),),
    "base_rate": (_form((0, 0, 1, 1)),),
    "gain": (_form((0, -1, 0, 1), signed=True), _form((1, 0, -1, 0), signed=True)),
    "sensitivity": (_form((0, 0, 0, 1), (0, 0, 1, 1)),),
    "specificity": (_form((1, 0, 0, 0), (1, 1, 0, 0)),),
    "precision": (_form((0, 0, 0, 1), (0, 1, 0, 1)),),
}
"""The forms of a rate on tn, fp, fn, tp (``"wrong"``: on right and wrong).  The gain is the lesser of the gains over
always 0 and always 1."""


@lru_cache(maxsize=8)
def _pairs(cells: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(cells, 1)


def excludes(table: NoisyTable, form: Form, theta: Floats, *, upper: bool, beta: float, records: int = 1) -> Bools:
    """Whether "the rate is at most ``theta``" (``upper``: at least) is rejected, each with probability at most ``beta``
    where it is true.

    ``records`` above 1 declares that everybody holds so many, all of one law: then ``E exp(m b . x) = (E (1 + lambda
    a_C))**m <= 1``, and rounding moves ``b . X`` by at most its part of ``max b - min b``.
    """
    if table.total <= 0 or beta < _LEAST_LEVEL:
        return np.zeros(len(theta), bool)
    moments, levels = table.products is not None and records == 1, table.levels
    a = form.at(theta) * (-1 if upper else 1)
    if records == 1:
        a = a - (a.max(axis=1) - a.min(axis=1))[:, None] * table.rounding
    about = beta / 20  # for the spread; the rest is for the bet
    needed, doubt = -math.log(beta - about), math.log((4 if moments else 2) / about)
    least, most = np.maximum(0.0, -a.min(axis=1)), (a * a).max(axis=1)

    x = least[:, None] * _BETS
    allowed = x < 1
    bets = np.where(allowed, _BETS, _BETS[0])
    g = _curvature(bets, least[:, None])

    b = records * np.log1p(bets[..., None] * a[:, None, :])
    if levels % records:
        b = b - (b.max(axis=-1) - b.min(axis=-1))[..., None] * table.rounding
    cost = np.where(allowed, table.noise_of(b), math.inf)
    value = _lowered(b * table.counts) - cost
    lo, hi = _active_people(table, form, doubt)
    factor = records * form.spread(theta)
    # An infinite end says nothing, also times 0.
    ends = factor * lo, factor * hi if math.isfinite(hi) else np.full(len(theta), math.inf)
    found = _least_between(value, cost, g, bets, ends, needed)
    if not moments:
        return np.asarray(found >= needed + _SLACK)

    first, second = _pairs(a.shape[1])
    apart = (a[:, first] - a[:, second]) ** 2
    squares = (a * a) @ table.counts - apart @ table.pairs
    bent = bets[..., None] * a[:, None, :] - g[..., None] * (a * a)[:, None, :]
    cost = table.noise_of(bent) + table.noise_of_pairs(g[..., None] * apart[:, None, :])
    cost = np.where(allowed, cost, math.inf)
    parts = (bent * table.counts, g[..., None] * (apart * table.pairs)[:, None, :])
    value = _lowered(np.concatenate(parts, axis=-1)) - cost
    ends = _squares(table, a, apart, squares, most, doubt)
    other = _least_between(value, cost, g, bets, ends, needed)
    return np.asarray(np.logaddexp(found, other) - math.log(2) >= needed + _SLACK)


def _curvature(bets: Floats, least: Floats) -> Floats:
    """``(-ln(1 - x) - x)/l**2`` with ``x = bets l``; for small ``x`` its series, which loses no digits."""
    x = bets * least
    small = x < 0.01
    series = np.zeros_like(x)
    for j in range(9, -1, -1):
        series = series * np.where(small, x, 0.0) + 1 / (j + 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = (-np.log1p(-x) - x) / least**2
    return np.where(small, bets**2 * series, exact)


def _lowered(parts: Floats) -> Floats:
    """The sum of the last axis, less what rounding may have added."""
    return np.asarray(parts.sum(axis=-1) - 2.0**-47 * np.abs(parts).sum(axis=-1))


def _least_between(
    value: Floats, cost: Floats, g: Floats, bets: Floats, ends: tuple[Floats, Floats], needed: float
) -> Floats:
    """The least value of the bets between those that are best for the two ends."""

    def best(spread: Floats) -> NDArray[np.intp]:
        return np.asarray(np.argmin((needed + cost + spread[:, None] * g) / bets, axis=1))

    at_lo, at_hi = best(ends[0]), best(ends[1])
    index = np.arange(bets.shape[1])
    looked_at = (index >= np.minimum(at_lo, at_hi)[:, None]) & (index <= np.maximum(at_lo, at_hi)[:, None])
    return np.asarray(np.where(looked_at, value, math.inf).min(axis=1))


def _active_people(table: NoisyTable, form: Form, doubt: float) -> tuple[float, float]:
    """Ends for the expected sum of the active cells, each wrong with probability ``exp(-doubt)``.

    A value in [0, 1] lies below its chord: ``E exp(-u W) <= exp(-(1 - exp(-u)) E W)``, and likewise above.  The sum of
    all cells is the number of people, which is not random: there ``exp(-u n)`` itself.
    """
    active = form.active
    if table.people is not None and active.all():
        return float(table.people), float(table.people)
    total = float(table.counts[active].sum())
    times = float(table.times[active].sum())
    noise = times * table.log_moment(_TILTS / table.levels) if times else np.zeros_like(_TILTS)
    if table.whole and active.all():
        away = (noise + doubt) / _TILTS
        return max(0.0, float((total - away).max())), max(0.0, float((total + away).min()))
    hi = (_TILTS * total + noise + doubt) / -np.expm1(-_TILTS)
    lo = (_TILTS * total - noise - doubt) / np.expm1(_TILTS)
    return max(0.0, float(lo.max())), max(0.0, float(hi.min()))


def _squares(
    table: NoisyTable, a: Floats, apart: Floats, squares: Floats, most: Floats, doubt: float
) -> tuple[Floats, Floats]:
    """Ends for the expected sum of squares, whose summands lie between 0 and ``most``."""
    s = _TILTS / most[:, None]
    noise = table.noise_of(s[..., None] * (a * a)[:, None, :]) + table.noise_of_pairs(s[..., None] * apart[:, None, :])
    hi = most[:, None] * (s * squares[:, None] + noise + doubt) / -np.expm1(-_TILTS)
    lo = most[:, None] * (s * squares[:, None] - noise - doubt) / np.expm1(_TILTS)
    return np.maximum(0.0, lo.max(axis=1)), np.maximum(0.0, hi.min(axis=1))


@lru_cache(maxsize=1024)
def population_end(table: NoisyTable, rate: str, beta: Fraction, *, upper: bool, records: int = 1) -> float:
    """An end that is beyond the population's rate with probability at most ``beta``."""
    wall, stop, step = _walls(rate, upper)

    def excluded(level: float) -> Callable[[Floats], Bools]:
        return lambda theta: _excluded(table, rate, theta, upper, level, records)

    coarse = _last(excluded(float(beta / 10)), np.arange(wall, stop + step, step * _COARSE))
    start = wall if coarse is None else coarse + step
    fine = _last(excluded(float(9 * beta / 10)), np.arange(start, stop + step, step))
    found = coarse if fine is None else fine
    return (wall if found is None else found) / _STEPS


def _walls(rate: str, upper: bool) -> tuple[int, int, int]:
    """The outer end, the other one and the step between points, in units of ``1/10,000``."""
    low = -_STEPS if rate == "gain" else 0
    return (_STEPS, low, -1) if upper else (low, _STEPS, 1)


def _last(excluded: Callable[[Floats], Bools], points: NDArray[np.int64]) -> int | None:
    """The last point before the first that is not excluded."""
    last: int | None = None
    for start in range(0, len(points), _BLOCK):
        block = points[start : start + _BLOCK]
        out = excluded(block / _STEPS)
        if not out.all():
            first = int(np.argmin(out))
            return int(block[first - 1]) if first else last
        last = int(block[-1])
    return last


def _excluded(table: NoisyTable, rate: str, theta: Floats, upper: bool, beta: float, records: int) -> Bools:
    forms = FORMS[rate]
    if upper and len(forms) > 1:  # the lesser gain is large only if both are: either may say no, for half of the level
        beta /= 2
    each = [excludes(table, form, theta, upper=upper, beta=beta, records=records) for form in forms]
    return np.asarray(np.logical_or.reduce(each) if upper else np.logical_and.reduce(each))


def population_range(table: NoisyTable, rate: str, beta: Fraction, records: int = 1) -> Range:
    """Covers the population's rate with probability ``1 - beta``, whatever the law of people.

    >>> table = NoisyTable((535000, 11000, 59500, 108500), 840, Fraction(1, 840))
    >>> population_range(table, "error", Fraction(1, 20))
    Range(lo=0.0709, hi=0.1315)
    """
    ends = (population_end(table, rate, beta / 2, upper=upper, records=records) for upper in (False, True))
    return Range(*sorted(ends))


@lru_cache(maxsize=256)
def people_for_gain(table: NoisyTable, beta: Fraction) -> int | None:
    """How many people with this table's shares, each with one record, would show that the gain is above 0.

    A plan, not a promise: shares are as measured, and the noise as large as here.
    """
    shares = [max(0, value) for value in table.sums]
    whole = sum(shares)
    if not whole or table.total <= 0:
        return None

    def enough(n: int) -> bool:
        sums = tuple(n * table.levels * value // whole for value in shares)
        products = None if table.products is None else (0,) * len(table.products)
        expected = evolve(table, sums=sums, products=products)
        level = float(9 * beta / 20)
        return n > _PEOPLE or bool(_excluded(expected, "gain", np.array([1 / _STEPS]), False, level, 1)[0])

    least = least_from(enough, 1)
    return None if least > _PEOPLE else least


@lru_cache(maxsize=1024)
def typical_range(table: NoisyTable, rate: str, beta: Fraction) -> Range:
    """What a normal law of the form's sum gives: covers in what was measured, but no theorem says so.

    Two extreme persons and one standard deviation of the squares' noise are added to the variance.
    """
    z = -NormalDist().inv_cdf(max(_LEAST_LEVEL, 0.91 * float(beta) / 2))
    rate_of_noise = float(table.noise)
    variance = 2 * math.exp(-rate_of_noise) / math.expm1(-rate_of_noise) ** 2 / table.levels**2
    weight = float(table.product_weight)

    def exceeds(form: Form, theta: float, upper: bool) -> bool:
        a = form.at(np.array([theta]))[0] * (-1 if upper else 1)
        squares, noises = float((a * a) @ table.counts), 0.0
        if table.products is not None:
            first, second = _pairs(len(a))
            apart = (a[first] - a[second]) ** 2
            squares -= float(apart @ table.pairs)
            noises = float((apart**2).sum()) / weight**2
        own, fourth = table.times @ a**2, table.times @ a**4
        if len(table.sums) == 1:
            own, fourth = (a[1] - a[0]) ** 2, (a[1] ** 2 - a[0] ** 2) ** 2
        spread = max(squares, 0.0) + 2 * float((a * a).max()) + variance * own
        return float(a @ table.counts) > z * math.sqrt(spread + math.sqrt(variance * (fourth + noises)))

    def end(upper: bool) -> float:
        outer, inner, _ = (x / _STEPS for x in _walls(rate, upper))
        for _ in range(14):
            middle = (outer + inner) / 2
            found = [exceeds(form, middle, upper) for form in FORMS[rate]]
            if any(found) if upper else all(found):
                outer = middle
            else:
                inner = middle
        return outer

    return Range(*sorted((end(False), end(True))))
