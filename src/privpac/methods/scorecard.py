"""Scorecards by full-batch gradient descent on clipped integer gradients, with exact discrete Gaussian noise.

*Problem.*  A table of 5 to 30 mixed columns, many of them weakly informative, and hundreds of people or more: one
question or a small tree reads too few columns, a scorecard adds up all of them.

*Theorem.*  Private ranges (if searched), number of users (if bought), noisy centre, noisy norms and all noisy gradient
sums together are ``(epsilon, delta)`` per user, and ``rho``-zCDP.  *Proof.*  (i) Each pass maps a user's own records
and *released* numbers to an integer vector of bounded norm (:func:`centre_sum`, :func:`gradient_sum`), so one user more
or less moves the sum by at most that bound, a replaced one by at most twice that; two norms in ``0..B0`` are at most
``B0`` apart.  (ii) Discrete Gaussian noise of ``sigma2 = moved**2 / (2 share) + 4`` hides such a move at its share of
``rho``, and shares compose to ``(epsilon, delta)`` as those of continuous noise do
(:mod:`privpac.mechanisms.gaussian`); what a range costs is proved in :mod:`privpac.methods.private_ranges`.  (iii) The
clip of the steps follows the released norm: a public number, the same for both neighbours, and the variance follows the
clip, so every step costs its share whatever the clip is; shares fixed in advance add up.  Centre, clip size, weights,
points and threshold are functions of these releases: post-processing.

*More than two labels.*  One scorecard against the rest for each label: a label is an answer, right or wrong, to each
scorecard's question, so every scorecard's passes are those above.  They are noised apart, each with its own share.

There is no law to list: the scorecard is a function of thousands of noisy integers.  What can be enumerated is tested
pass by pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, cast

import numpy as np
from attrs import evolve, field, frozen

from privpac.arrays import Array, Bytes, Ints
from privpac.bisection import last_between
from privpac.data import UserData, Users
from privpac.data.loops import jit, spread, user_spans
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import Guarantee, Neighbours
from privpac.mechanisms.gaussian import SMOOTHING, discrete_gaussian, gaussian_noise, gaussian_within, normal_reach
from privpac.methods.base import Bound, Selection
from privpac.methods.private_ranges import SHARE, RangeSearch, family, range_kernel, searched, zoomed
from privpac.methods.scorecard_odds import answer_weights, log_odds, noise_variance, shrink
from privpac.parameters import DEFAULT_LEVELS, bounds, named, probability_or_zero, whole_or_none
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.base import Rule
from privpac.rules.kernels.shares import user_tables
from privpac.rules.scorecards import (
    LANES,
    CalibrationBin,
    CodeTable,
    LogOdds,
    Scorecard,
    ScorecardPerLabel,
    Scorecards,
    U,
    calibration_bins_of,
    calibration_edges,
    column_codes,
    sigmoid_table,
)
from privpac.rules.wide_columns import BinnedColumn

if TYPE_CHECKING:
    from privpac.law import Law

# The public arithmetic of a scorecard: from noisy sums to a centre, a clip size, weights and points.
#
# Everything here is post-processing: functions of released numbers and public constants, in integers of any size, so
# that every machine and engine gets the same scorecard from the same noisy sums.  Units are those of
# :mod:`privpac.rules.scorecards`; weights are in steps of ``2**-24``.

LEAST_CLIP = U // 10
MAX_SCORECARD_USERS = 1 << 40
MAX_WEIGHT = 1 << 30
_RATE = 4096


def near(a: int, b: int) -> int:
    """``a / b`` to the nearest integer, halves upward, for ``b >= 1``.

    >>> near(3, 2), near(-3, 2), near(4, 3)
    (2, -1, 1)
    """
    return (2 * a + b) // (2 * b)


def clamp(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


def centre_clip(columns: int) -> int:
    """``R = floor(U sqrt(d))``: the norm to which a user's mean code is shortened."""
    return isqrt(U * U * columns)


def norm_cap(columns: int) -> int:
    """``B0 = floor(U sqrt(1 + d) / 2)``: the largest norm a user may report.

    ``floor(x/2)`` of the real number ``x`` equals the half of ``floor(x)``, rounded down.
    """
    return isqrt(U * U * (1 + columns)) // 2


def shrunk_centre(noisy_sum: Sequence[int], users: int, sigma2: Fraction) -> list[int]:
    """The centre: the mean code, shrunk to 0 as far as it is noise.

    ``c = near(clamp(V/N, -U, U) * S / (S + sigma2))`` with ``S = 0.09 (N U)**2``.
    """
    spread = Fraction(9 * (users * U) ** 2, 100)
    factor = spread / (spread + sigma2) / users
    reach = users * U
    return [near(clamp(v, -reach, reach) * factor.numerator, factor.denominator) for v in noisy_sum]


def clip_size(noisy_norm: int, users: int, rho: Fraction, columns: int) -> int:
    """``C``: the norm to which a user's gradient is shortened.

    ``floor(0.45 max(H/N, U/10) (N sqrt(2 rho)/66)**(1/3))`` between ``U/10`` and ``2 B0``; ``rho`` is what is left
    after the count.  The sixth power of the formula is the rational ``59049 a q**6 / (242 200**6 b N**4)`` with ``q =
    max(10 H, N U)`` and ``rho = a/b``, and for integers ``x <= y**(1/6)`` iff ``x**6 <= floor(y)``: nothing else is
    rounded.
    """
    q = max(10 * noisy_norm, users * U)
    sixth = 59049 * rho.numerator * q**6 // (242 * 200**6 * rho.denominator * users**4)
    third = isqrt(sixth)
    root = last_between(lambda x: x**3 <= third, 0, 1 << (third.bit_length() // 3 + 1))
    return clamp(root, LEAST_CLIP, 2 * norm_cap(columns))


def training_time(users: int, rho: Fraction) -> int:
    """``0.6 N sqrt(2 rho)``, rounded down, between 6 and 200."""
    return clamp(isqrt(18 * users * users * rho.numerator // (25 * rho.denominator)), 6, 200)


def updated(weights: Sequence[int], noisy_sum: Sequence[int], time: int, steps: int, users: int) -> list[int]:
    """The weights after one step against the noisy sum of clipped gradients."""
    below = steps * users
    return [clamp(w - near(time * _RATE * v, below), -MAX_WEIGHT, MAX_WEIGHT) for w, v in zip(weights, noisy_sum)]


class ScorecardPoints(NamedTuple):
    """What a scorecard says: points of every code of every column; 1 iff their sum exceeds the threshold; and the
    largest and the least score that they were rounded from, for their log odds."""

    points: tuple[tuple[int, ...], ...]
    threshold: int
    largest: int
    least: int


class _Scores(NamedTuple):
    """A scorecard before its points are whole: how far each code's score is above its column's least, and the score of
    a record that has the least everywhere."""

    above: list[list[int]]
    least: int

    @property
    def largest(self) -> int:
        return max((f for column in self.above for f in column), default=0)


def scores_of(table: CodeTable, weights: Sequence[int], centre: Sequence[int]) -> _Scores:
    """``f`` and ``b`` of summed weights: a record's score is ``b + sum of f``."""
    scores = table.split(table.scores(weights))
    least = [min(column) for column in scores]
    above = [[f - low for f in column] for column, low in zip(scores, least)]
    return _Scores(above, weights[0] * U - sum(w * c for w, c in zip(weights[1:], centre)) + sum(least))


def rounded(scores: _Scores, top: int, largest: int) -> ScorecardPoints:
    """Whole points, ``top`` where ``f`` is ``largest``: a score is positive iff ``sum of top f/F > -top b/F``.  Without
    any spread (``F = 0``) the answer is the constant ``b > 0``."""
    if largest == 0:
        none = tuple((0,) * len(column) for column in scores.above)
        return ScorecardPoints(none, -1 if scores.least > 0 else 0, 0, scores.least)
    points = tuple(tuple(near(top * f, largest) for f in column) for column in scores.above)
    return ScorecardPoints(points, -top * scores.least // largest, largest, scores.least)


def scorecard_points(table: CodeTable, weights: Sequence[int], centre: Sequence[int], top: int) -> ScorecardPoints:
    """The scorecard of summed weights: whole points from 0 to ``top``, the largest being ``top``."""
    scores = scores_of(table, weights, centre)
    return rounded(scores, top, scores.largest)


def points_against(
    table: CodeTable, weights: Sequence[Sequence[int]], centre: Sequence[int], top: int
) -> list[ScorecardPoints]:
    """One scorecard for each label, all in the same points, so that what is above one threshold can be compared with
    what is above another.

    Without any spread every scorecard is a constant, and the labels whose ``b`` is largest have threshold -1, others 0.
    """
    every = [scores_of(table, one, centre) for one in weights]
    largest = max(scores.largest for scores in every)
    if largest:
        return [rounded(scores, top, largest) for scores in every]
    best = max(scores.least for scores in every)
    return [rounded(scores, top, 0)._replace(threshold=-(scores.least == best)) for scores in every]


# The budget of a scorecard: one ``rho``, its shares, and the noise of every release.
#
# | release | share | moves by at most, squared (add-remove / replace) |
# |---|---|---|
# | private ranges (if searched) | 3/20 of all, taken first | exact draws (:mod:`privpac.methods.private_ranges`) |
# | calibration (asked for) | a declared share of all, taken first | ``840**2`` / ``2 * 840**2`` |
# | number of users (bought under add-remove unless declared) | 1/16 of the rest | 1 / public |
# | centre | 15 % of what is left then | ``R**2`` / ``4 R**2`` |
# | norm | 2 % | ``B0**2`` / ``B0**2``, both norms being in ``0..B0`` |
# | each of T steps | 83 % / T | ``C**2`` / ``4 C**2`` |
#
# With more than two labels there are ``k`` scorecards, one against the rest for each: number of users and centre do not
# look at labels and are released once; every other share is split evenly among the scorecards.
#
# The shares are fixed before any data; the variance of a step follows the released clip size, which is the same number
# for both neighbours, so every step costs its share whatever that size turned out to be, and the shares add up
# (:mod:`privpac.mechanisms.gaussian`; as zCDP too).


@frozen(slots=False)
class ScorecardBudget:
    """The shares of one scorecard.

    ``rho`` is what the scorecards may spend in all, the calibration included; ``bought``: the number of users is paid
    for; ``smoothing`` is added to every variance.
    """

    rho: Fraction
    columns: int
    steps: int
    neighbours: Neighbours
    bought: bool
    calibrate: Fraction = Fraction(0)
    scorecards: int = 1
    smoothing: int = 0

    @property
    def calibration(self) -> Fraction:
        return self.rho * self.calibrate

    @property
    def count(self) -> Fraction:
        return (self.rho - self.calibration) / 16 if self.bought else Fraction(0)

    @property
    def rest(self) -> Fraction:
        """What centre, norm and steps share."""
        return self.rho - self.calibration - self.count

    @property
    def centre(self) -> Fraction:
        return 3 * self.rest / 20

    @property
    def own(self) -> Fraction:
        """What sets clip and training time of one scorecard: the rest, as if it were one of ``scorecards`` tables of
        its own."""
        return self.rest / self.scorecards

    @property
    def norm(self) -> Fraction:
        """Of one scorecard."""
        return self.own / 50

    @property
    def step(self) -> Fraction:
        """Of one step of one scorecard."""
        return 83 * self.own / (100 * self.steps)

    @property
    def parts(self) -> tuple[Fraction, ...]:
        """Every release's share; they add up to ``rho``."""
        each = [self.calibration / self.scorecards, self.norm, *([self.step] * self.steps)]
        return (self.count, self.centre, *(each * self.scorecards))

    @property
    def _doubled(self) -> int:
        """A replaced user moves a vector from one end of a ball to the other: twice as far, four times squared."""
        return 1 if self.neighbours is Neighbours.ADD_REMOVE else 4

    def _variance(self, moved: int, share: Fraction) -> Fraction:
        """Of noise that hides a move of this square at this share."""
        return moved / (2 * share) + self.smoothing

    @property
    def count_variance(self) -> Fraction | None:
        return self._variance(1, self.count) if self.count else None

    @property
    def centre_variance(self) -> Fraction:
        return self._variance(self._doubled * centre_clip(self.columns) ** 2, self.centre)

    @property
    def norm_variance(self) -> Fraction:
        """The same under both relations: two norms in ``0..B0`` are at most ``B0`` apart."""
        return self._variance(norm_cap(self.columns) ** 2, self.norm)

    def step_variance(self, clip: int) -> Fraction:
        """For the released clip size."""
        return self._variance(self._doubled * clip**2, self.step)

    @property
    def calibration_variance(self) -> Fraction | None:
        """Of one scorecard.  Two non-negative vectors of sum 840 are at most ``840 sqrt(2)`` apart."""
        moved = 1 if self.neighbours is Neighbours.ADD_REMOVE else 2
        return (
            self._variance(moved * DEFAULT_LEVELS**2, self.calibration / self.scorecards) if self.calibration else None
        )


# What one user says to a scorecard, in integers, and the sums over users.
#
# Three passes, each mapping a user's own records and *public* numbers to a bounded integer vector:
#
# ``centre``   the mean code, shortened to norm ``R``; ``norm``     the norm of the gradient at zero weights, at most
# ``B0``; ``step``     the gradient at public weights, shortened to norm ``C``.
#
# *Why integers.*  The privacy proof needs user i's vector to be a function of user i and public numbers alone.  A
# product of floats over a batch is not one: its roundings depend on who else is in the batch.  Integer sums are exact,
# so order, batches, threads and engines are free.
#
# *Why no overflow.*  Residuals are at most ``U`` and centred codes at most ``2 U`` in size, so a user's sums are at
# most ``2**25 m``; scores are at most ``2**43 (p + 1)`` and squared norms at most ``2**26 (p + 1)``: within 64 bits for
# fewer than ``2**18`` coordinates and ``2**36`` records a user.
#
# *Division.*  ``floor_divide(x, m, 1/m)`` multiplies doubles and corrects the quotient in integers: ``x`` is exact
# below ``2**53`` and two roundings move a quotient below ``2**50`` by less than 1, so its floor is off by at most one:
# the corrections undo that.
#
# *Several labels.*  One scorecard against the rest for each: ``answer`` is the label that a pass counts as 1.

_UNIT = U
_SHIFT = 28
_TOP = U


class Packed(NamedTuple):
    """Whole users as kernels read them: codes (records by columns) in few bytes, labels, and where each user begins."""

    codes: Array
    labels: Bytes
    offsets: Ints

    @property
    def users(self) -> int:
        return len(self.offsets) - 1


@frozen(slots=False)
class DescentState:
    """The public numbers at which gradients are taken; weights start with the intercept's, the centre has none."""

    weights: tuple[int, ...]
    centre: tuple[int, ...]

    @staticmethod
    def start(centre: Sequence[int]) -> DescentState:
        return DescentState((0,) * (len(centre) + 1), tuple(centre))


@jit
def floor_divide(x: Any, m: Any, part: Any) -> Any:
    """``x // m`` for ``|x| < 2**53``, ``m >= 1``, a quotient below ``2**50``, and ``part`` the double ``1/m``."""
    q = np.int64(np.floor(np.float64(x) * part))
    q -= np.int64(q * m > x)
    q += np.int64((q + 1) * m <= x)
    return q


@jit
def least_root(n: Any) -> Any:
    """The least ``x >= 0`` with ``x * x >= n``."""
    x = np.int64(np.sqrt(np.float64(n)))
    while x * x >= n and x > 0:
        x -= 1
    while x * x < n:
        x += 1
    return x


@jit
def shorten(g: Ints, size: int, cap: int) -> None:
    """Shorten ``g[:size]`` in place to squared norm ``cap**2`` or less.

    ``g' = sign(g) floor(|g| cap / L)`` with ``L**2 >= |g|**2``: every entry is at most ``|g| cap / L``, so the sum of
    squares is at most ``cap**2``.
    """
    square = np.int64(0)
    for k in range(size):
        square += g[k] * g[k]
    if square <= cap * cap:
        return
    length = least_root(square)
    after, part = np.int64(0), 1.0 / np.float64(length)
    for k in range(size):
        kept = floor_divide(abs(g[k]) * cap, length, part)
        g[k] = kept if g[k] >= 0 else -kept
        after += kept * kept
    if after > cap * cap:  # impossible; and if it were not, the promise would still hold
        for k in range(size):
            g[k] = 0


@jit
def _mean(codes: Array, start: int, stop: int, base: Ints, first: Ints, lanes: Ints, out: Ints) -> None:
    """``near(sum of codes, m)`` in ``out[1:]``; ``out[0]`` stays 0."""
    for k in range(out.size):
        out[k] = 0
    for i in range(start, stop):
        for j in range(base.size):
            e = base[j] + codes[i, j]
            at = first[e]
            for lane in range(LANES):
                out[at + lane] += lanes[e, lane]
    m = np.int64(stop - start)
    if m > 0:
        part = 1.0 / np.float64(2 * m)
        for k in range(out.size):
            out[k] = floor_divide(2 * out[k] + m, 2 * m, part)


@jit
def _gradient(
    codes: Array,
    labels: Bytes,
    start: int,
    stop: int,
    base: Ints,
    first: Ints,
    lanes: Ints,
    place: Ints,
    scores: Ints,
    constant: int,
    centre: Ints,
    sigmoid: Ints,
    answer: int,
    off: Ints,
    out: Ints,
) -> None:
    """``near(A, U m)`` in ``out``; zeros without records.  ``off`` is room for the residuals of the records."""
    for k in range(out.size):
        out[k] = 0
    total, half = np.int64(0), np.int64(1) << (_SHIFT - 1)
    m = np.int64(stop - start)
    for i in range(m):
        s = np.int64(constant)
        for j in range(base.size):
            s += scores[base[j] + codes[start + i, j]]
        at = (s + half) >> _SHIFT  # near(s, 2**28)
        at = min(max(at, np.int64(-_TOP)), np.int64(_TOP))
        r = sigmoid[at + _TOP] - _UNIT * np.int64(labels[start + i] == answer)
        off[i] = r
        total += r
    for j in range(np.uint64(base.size)):
        if place[j] >= 0:  # all codes of the column are in the same coordinates: sums stay in registers
            a, b, c, here = np.int64(0), np.int64(0), np.int64(0), np.uint64(base[j])
            for i in range(np.uint64(m)):  # unsigned: no index is looked at twice for its sign
                e = here + np.uint64(codes[np.uint64(start) + i, j])
                r = off[i]
                a += r * lanes[e, np.uint64(0)]
                b += r * lanes[e, np.uint64(1)]
                c += r * lanes[e, np.uint64(2)]
            out[place[j]] += a
            out[place[j] + 1] += b
            out[place[j] + 2] += c
        else:
            for i in range(m):
                e = base[j] + codes[start + i, j]
                for lane in range(LANES):
                    out[first[e] + lane] += off[i] * lanes[e, lane]
    if m > 0:
        # near(A, U m) = floor((2 A + U m) / (2 U m)) = floor(floor((2 A + U m) / 2 U) / m), and 2 U = 2**13
        out[0] = total * _UNIT
        part = 1.0 / np.float64(m)
        for k in range(centre.size):
            out[k] = floor_divide((2 * (out[k] - centre[k] * total) + _UNIT * m) >> 13, m, part)


@jit
def _longest(offsets: Ints, a: int, b: int) -> Any:
    most = np.int64(0)
    for i in range(a, b):
        most = max(most, offsets[i + 1] - offsets[i])
    return most


# Sums over users, and lists of them for tests and audits


@jit
def _sum_means(
    codes: Array, offsets: Ints, a: int, b: int, base: Ints, first: Ints, lanes: Ints, size: int, cap: int
) -> Ints:
    total, own = np.zeros(size, np.int64), np.zeros(size + LANES, np.int64)
    for i in range(a, b):
        if offsets[i] < offsets[i + 1]:
            _mean(codes, offsets[i], offsets[i + 1], base, first, lanes, own)
            shorten(own, size, cap)
            for k in range(size):
                total[k] += own[k]
    return total


@jit
def _sum_gradients(
    codes: Array,
    labels: Bytes,
    offsets: Ints,
    a: int,
    b: int,
    base: Ints,
    first: Ints,
    lanes: Ints,
    place: Ints,
    scores: Ints,
    constant: int,
    centre: Ints,
    sigmoid: Ints,
    answer: int,
    cap: int,
    norms: bool,
) -> Ints:
    """The sum of gradients shortened to ``cap``; with ``norms`` instead, in the first place, of norms up to ``cap``."""
    size, off = centre.size, np.zeros(_longest(offsets, a, b), np.int64)
    total, own = np.zeros(size, np.int64), np.zeros(size + LANES, np.int64)
    for i in range(a, b):
        start, stop = offsets[i], offsets[i + 1]
        if start == stop:
            continue
        _gradient(
            codes, labels, start, stop, base, first, lanes, place, scores, constant, centre, sigmoid, answer, off, own
        )
        if norms:
            square = np.int64(0)
            for k in range(size):
                square += own[k] * own[k]
            total[0] += min(least_root(square), cap)
        else:
            shorten(own, size, cap)
            for k in range(size):
                total[k] += own[k]
    return total


def _public(table: CodeTable, state: DescentState) -> tuple[Any, ...]:
    scores = np.array(table.scores(state.weights), np.int64)
    constant = state.weights[0] * U - sum(w * c for w, c in zip(state.weights[1:], state.centre))
    centre = np.array([0, *state.centre], np.int64)
    return table.base, table.first, table.lanes, table.place, scores, constant, centre, sigmoid_table()


def _added(parts: list[Ints], size: int) -> Ints:
    return np.sum(parts, axis=0, dtype=np.int64) if parts else np.zeros(size, np.int64)


def centre_sum(table: CodeTable, packed: Packed, cap: int) -> Ints:
    """The sum over users of their mean codes, each shortened to ``cap``; without an intercept."""
    size = table.coordinates + 1

    def part(a: int, b: int) -> Ints:
        return _sum_means(packed.codes, packed.offsets, a, b, table.base, table.first, table.lanes, size, cap)

    return _added(spread(part, user_spans(packed.offsets)), size)[1:]


def gradient_sum(
    table: CodeTable, packed: Packed, state: DescentState, cap: int, answer: int = 1, *, norms: bool = False
) -> Ints:
    """The sum over users of their gradients, each shortened to ``cap``; the intercept first."""
    public, run = _public(table, state), cast(Any, _sum_gradients)

    def part(a: int, b: int) -> Ints:
        found: Ints = run(packed.codes, packed.labels, packed.offsets, a, b, *public, answer, cap, norms)
        return found

    return _added(spread(part, user_spans(packed.offsets)), table.coordinates + 1)


def norm_sum(table: CodeTable, packed: Packed, centre: Sequence[int], cap: int, answer: int = 1) -> int:
    """The sum over users of the norms of their gradients at zero weights, rounded up, each at most ``cap``."""
    return int(gradient_sum(table, packed, DescentState.start(centre), cap, answer, norms=True)[0])


def means(table: CodeTable, packed: Packed) -> list[list[int]]:
    """Each user's mean code, not shortened; no records: zeros."""
    own, out = np.zeros(table.coordinates + 1 + LANES, np.int64), []
    for start, stop in zip(packed.offsets[:-1].tolist(), packed.offsets[1:].tolist()):
        _mean(packed.codes, start, stop, table.base, table.first, table.lanes, own)
        out.append(own[1 : table.coordinates + 1].tolist())
    return out


def gradients(table: CodeTable, packed: Packed, state: DescentState, answer: int = 1) -> list[list[int]]:
    """Each user's gradient, not shortened."""
    public, run = _public(table, state), cast(Any, _gradient)
    own, out = np.zeros(table.coordinates + 1 + LANES, np.int64), []
    off = np.zeros(len(packed.labels), np.int64)
    for start, stop in zip(packed.offsets[:-1].tolist(), packed.offsets[1:].tolist()):
        run(packed.codes, packed.labels, start, stop, *public, answer, off, own)
        out.append(own[: table.coordinates + 1].tolist())
    return out


def norm_terms(table: CodeTable, packed: Packed, centre: Sequence[int], cap: int, answer: int = 1) -> list[int]:
    """Each user's term of :func:`norm_sum`."""
    vectors = gradients(table, packed, DescentState.start(centre), answer)
    return [min(int(least_root(sum(g * g for g in vector))), cap) for vector in vectors]


def clip(vector: Sequence[int], cap: int) -> list[int]:
    """A vector shortened to norm ``cap``."""
    g = np.array(vector, np.int64)
    shorten(g, g.size, cap)
    return [int(x) for x in g]


# Passes over the users of a scorecard, on every engine.
#
# In memory and streaming the records are binned once and kept in one byte a value; each pass then runs over the packed
# users.  On a cluster nothing is collected: each pass is a job that bins the records anew and adds integer vectors.
# The sums are the same integers either way.

_BLOCK = 1 << 15


def pack_answers(columns: tuple[BinnedColumn, ...], users: UserData) -> Packed:
    """Bound users with their values in bins."""
    widest = max(column.width for column in columns)
    codes = np.empty((users.n_records, len(columns)), np.uint8 if widest <= 256 else np.uint16)
    found = np.empty(_BLOCK, np.uint16)
    for start in range(0, users.n_records, _BLOCK):
        stop = min(start + _BLOCK, users.n_records)
        for j, column in enumerate(columns):
            column.bin_codes(np.ascontiguousarray(users.codes[column.name][start:stop]), found[: stop - start])
            codes[start:stop, j] = found[: stop - start]
    assert users.labels is not None
    return Packed(codes, users.labels, users.offsets)


class Pass(Protocol):
    """One sum over users of integer vectors."""

    @property
    def size(self) -> int: ...

    def over(self, packed: Packed) -> Ints: ...


@frozen(slots=False)
class CountPass:
    """The number of users, those without records included."""

    size: int = 1

    def over(self, packed: Packed) -> Ints:
        return np.array([packed.users], np.int64)


@frozen(slots=False)
class CentrePass:
    """Mean codes, each shortened to ``cap``."""

    table: CodeTable
    cap: int

    @property
    def size(self) -> int:
        return self.table.coordinates

    def over(self, packed: Packed) -> Ints:
        return centre_sum(self.table, packed, self.cap)


@frozen(slots=False)
class NormPass:
    """Norms of gradients at zero weights, each at most ``cap``; one sum for each answer."""

    table: CodeTable
    centre: tuple[int, ...]
    cap: int
    answers: tuple[int, ...] = (1,)

    @property
    def size(self) -> int:
        return len(self.answers)

    def over(self, packed: Packed) -> Ints:
        return np.array([norm_sum(self.table, packed, self.centre, self.cap, a) for a in self.answers], np.int64)


@frozen(slots=False)
class StepPass:
    """Gradients at public weights, shortened to a cap: answer after answer, each with weights and a cap of its own."""

    table: CodeTable
    states: tuple[DescentState, ...]
    caps: tuple[int, ...]
    answers: tuple[int, ...] = (1,)

    @property
    def size(self) -> int:
        return len(self.answers) * (self.table.coordinates + 1)

    def over(self, packed: Packed) -> Ints:
        each = zip(self.states, self.caps, self.answers)
        return np.concatenate([gradient_sum(self.table, packed, state, cap, answer) for state, cap, answer in each])


@frozen(slots=False)
class _Packing:
    """All users, packed: the chunks of a fold side by side."""

    columns: tuple[BinnedColumn, ...]

    def zero(self) -> tuple[Packed, ...]:
        return ()

    def chunk(self, users: UserData) -> tuple[Packed, ...]:
        return (pack_answers(self.columns, users),)

    def merge(self, a: tuple[Packed, ...], b: tuple[Packed, ...]) -> tuple[Packed, ...]:
        return a + b


@frozen(slots=False)
class _Job:
    """One pass as a fold."""

    columns: tuple[BinnedColumn, ...]
    work: Pass

    def zero(self) -> Ints:
        return np.zeros(self.work.size, np.int64)

    def chunk(self, users: UserData) -> Ints:
        return self.work.over(pack_answers(self.columns, users))

    def merge(self, a: Ints, b: Ints) -> Ints:
        return a + b


_Run = Callable[[Pass], list[int]]


def passes_over(columns: tuple[BinnedColumn, ...], users: Users) -> _Run:
    """How a pass is run over these users: its sum as Python integers."""
    chunks = None if getattr(users, "distributed", False) else users.fold(_Packing(columns))

    def run(work: Pass) -> list[int]:
        if chunks is None:
            sums = users.fold(_Job(columns, work))
        else:
            sums = sum((work.over(packed) for packed in chunks), np.zeros(work.size, np.int64))
        return [int(value) for value in sums]

    return run


# How often the label is 1 at so many points: the calibration of a scorecard.
#
# The possible points are cut into five bins of equal width.  Everybody spreads 840 votes over the ten cells (bin,
# label) according to their own records, so one person moves the sums by a vector of non-negative entries and L1 norm at
# most 840: its squared norm is at most ``840**2``, and of the difference of two such vectors at most ``2 * 840**2``
# (``|u - v|**2 = |u|**2 + |v|**2 - 2 u.v``, and ``u.v >= 0``).  Discrete Gaussian noise of that size is added; rates,
# intervals and the order of the bins follow from the noisy sums: post-processing.
#
# A rate is about the people the scorecard was learned from.  They fit it a little better than others do, so chances for
# other people are best measured on other people.

CALIBRATION_BINS = 5
FAILURE = Fraction(1, 20)
_SAME_PEOPLE = (
    "the chances of the scorecard were measured on the people it was learned from; other people fit it less "
    "well: measure "
    "them with privpac evaluate on other people"
)


@frozen(slots=False)
class CalibrationPass:
    """The cells (bin, another label), (bin, ``answer``), bin by bin."""

    scorecard: Scorecard
    answer: int = 1

    @property
    def edges(self) -> tuple[int, ...]:
        return calibration_edges(self.scorecard.most, CALIBRATION_BINS)

    @property
    def size(self) -> int:
        return 2 * len(self.edges)

    def over(self, packed: Packed) -> Ints:
        totals = np.zeros(len(packed.labels), np.int64)
        for j, points in enumerate(self.scorecard.points):
            totals += np.array(points, np.int64)[packed.codes[:, j]]
        cells = (2 * calibration_bins_of(totals, self.edges) + (packed.labels == self.answer)).astype(np.uint8)
        return user_tables(packed.offsets, cells, self.size, DEFAULT_LEVELS, True, -1)


def calibration_from(edges: Sequence[int], noisy: Sequence[int], variance: Fraction) -> tuple[CalibrationBin, ...]:
    """Rates that rise with the points, each with an interval for the rate on these people (95 % each).

    Rounding moves a person's votes in a cell by less than one, so those of all by less than the number of people, which
    is the 840th part of all votes: in a bin that everybody seldom sees this may be all there is.  Two noises and the
    number of people may each fail with a third of 5 %.
    """
    # Rates made to rise: neighbours that fall are pooled; empty bins take the rate before them.
    pools: list[list[int]] = []
    for zero, one in zip(noisy[::2], noisy[1::2]):
        pools.append([max(0, one), max(0, one) + max(0, zero), 1])
        while len(pools) > 1 and pools[-2][0] * pools[-1][1] >= pools[-1][0] * pools[-2][1]:
            last = pools.pop()
            pools[-1] = [a + b for a, b in zip(pools[-1], last)]
    rates = [rate for one, size, bins in pools for rate in [_share(one, size - one, Fraction(1, 2))] * bins]
    most = sum(noisy) + len(noisy) * normal_reach(variance, FAILURE / (3 * len(noisy)))
    reach = normal_reach(variance, FAILURE / 3) + max(0, -(-most // DEFAULT_LEVELS))
    out = []
    for edge, rate, zero, one in zip(edges, rates, noisy[::2], noisy[1::2]):
        low = _share(max(0, one - reach), max(0, zero + reach), Fraction(0))
        high = _share(max(0, one + reach), max(0, zero - reach), Fraction(1))
        out.append(CalibrationBin(edge, rate, min(low, rate), max(high, rate)))
    return tuple(out)


def _share(one: int, zero: int, otherwise: Fraction) -> Fraction:
    return Fraction(one, one + zero) if one + zero else otherwise


@frozen(slots=False, field_transformer=named)
class ScorecardLearner(Selection):
    """Release one scorecard.

    Parameters
    ----------
    concept
        A :class:`Scorecards`: columns, cuts, missing values, steps, top, classes.
    delta
        The promise may fail with this probability; needed.
    public_n_users
        A rough, public number of people; without it a noisy count is bought for 1/16 of the budget under add-remove.
        A wrong one harms accuracy only.
    calibrate
        A share of the budget, such as ``"1/10"``, for how often the label is 1 in each of five calibration bins.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(x, 9 - x, int(x > 4)) for x in range(10)]] * 300,
    ...     features={"x": Integers(0, 9), "y": Integers(0, 9)})
    >>> learner = ScorecardLearner(Scorecards(), epsilon=1, delta="1e-6", public_n_users=300)
    >>> str(learner.guarantee), learner.learn(people).value.predict([[0, 9], [9, 0]]).tolist()
    ('(1, 1e-06)-DP per user, add-remove', [0, 1])
    """

    delta: Fraction = field(default=Fraction(0), converter=probability_or_zero)
    public_n_users: int | None = field(
        default=None, converter=whole_or_none, metadata=bounds(maximum=MAX_SCORECARD_USERS)
    )
    calibrate: Fraction = field(default=Fraction(0), converter=probability_or_zero)
    scores_rules: ClassVar[bool] = False

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not isinstance(self.concept, Scorecards):
            raise ParameterError(
                f"the method 'scorecard' learns a Scorecards over named columns, not {type(self.concept).__name__}"
            )
        if self.delta == 0:
            raise ParameterError("a scorecard needs delta > 0, such as delta='1e-6'; a small tree needs none")
        if self.epsilon == 0:
            raise ParameterError("a scorecard needs epsilon > 0")
        _ = self.rho

    @property
    def rho(self) -> Fraction:
        """What is spent in all: half the square of the distance of two normal laws as far apart; as zCDP the same."""
        return gaussian_within(self.epsilon, self.delta)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours, rho=self.rho)

    @property
    def scorecard(self) -> Scorecards:
        assert isinstance(self.concept, Scorecards)
        return self.concept

    def budget(self, columns: int, scorecards: int = 1, search: RangeSearch | None = None) -> ScorecardBudget:
        """The shares of so many scorecards of so many columns, after a search for their ranges."""
        bought = self.public_n_users is None and self.neighbours is Neighbours.ADD_REMOVE
        rho = self.rho if search is None else self.rho * (1 - SHARE)
        steps = self.scorecard.steps
        return ScorecardBudget(rho, columns, steps, self.neighbours, bought, self.calibrate, scorecards, SMOOTHING)

    def search(self, concept: Scorecards) -> RangeSearch | None:
        """The draws of private ranges that a bound class asks for, by public numbers; None where nothing is spent on
        them."""
        if concept.zoom is None:
            return None
        names = [each.name for each in concept.binned if concept.counted(each.name) and searched(each.domain)]
        return RangeSearch.of(names, self.rho, self.neighbours, self.public_n_users)

    def bind(self, data: Users) -> Bound:
        bound = super().bind(data)
        assert isinstance(bound.concept, Scorecards)
        _ = bound.concept.codes  # too wide or without cuts: said now, before anything is spent
        return bound

    def law(self, data: Users) -> Law:
        """Not offered."""
        raise TooLargeError(
            "a scorecard is a function of thousands of noisy integers, so its law cannot be listed; its promise is "
            "the sum of the passes' (see privpac.methods.scorecard), and small trees have an exact law"
        )

    def draw(self, bound: Bound, rng: Rng) -> Released:
        concept = bound.concept
        assert isinstance(concept, Scorecards)
        search = self.search(concept)
        columns = concept.binned if search is None else _found(concept, bound.users, search, rng)
        run, table = passes_over(columns, bound.users), column_codes(columns)
        # One scorecard about the label 1, or one about each of several labels.
        names = (bound.label,) if concept.labels == 2 else concept.classes or ()
        answers = (1,) if concept.labels == 2 else tuple(range(concept.labels))
        budget = self.budget(table.columns, len(answers), search)
        users = self._users(run, budget, rng)
        found, clips, odds, weights = _descend(run, table, concept.top, budget, users, answers, rng)
        scorecards = tuple(
            Scorecard(columns, one.points, one.threshold, concept.top, name, log_odds=own, weights=weights)
            for one, name, own in zip(found, names, odds)
        )
        if self.calibrate:
            scorecards = tuple(
                self._calibrated(run, scorecard, budget, answer, rng) for scorecard, answer in zip(scorecards, answers)
            )
        rule: Rule = scorecards[0] if len(scorecards) == 1 else ScorecardPerLabel(scorecards, bound.label)
        shown: dict[str, object] = {"class": "Scorecards", "columns": table.columns, "steps": concept.steps}
        shown |= {"noisy_n_users" if budget.bought else "public_n_users": users}
        shown |= {"clip": clips[0] if len(clips) == 1 else clips, "rho": self.rho}
        if search is not None:
            shown["private_ranges"] = len(search.columns)
        cap = {} if self.max_records is None else {"max_records": self.max_records}
        warned = (*self.warnings, *((_SAME_PEOPLE,) if self.calibrate else ()))
        return Released(rule, self.guarantee, parameters=shown | cap, warnings=warned, learner="scorecard")

    @staticmethod
    def _calibrated(run: _Run, scorecard: Scorecard, budget: ScorecardBudget, answer: int, rng: Rng) -> Scorecard:
        variance, work = budget.calibration_variance, CalibrationPass(scorecard, answer)
        assert variance is not None
        return evolve(scorecard, calibration=calibration_from(work.edges, _noisy(run(work), variance, rng), variance))

    def _users(self, run: _Run, budget: ScorecardBudget, rng: Rng) -> int:
        """The number of users that sets centre, clip and training time: declared, public, or bought."""
        if self.public_n_users is not None:
            return self.public_n_users
        (count,) = run(CountPass())
        variance = budget.count_variance
        return clamp(count if variance is None else count + discrete_gaussian(variance, rng), 1, MAX_SCORECARD_USERS)


def _found(concept: Scorecards, users: Users, search: RangeSearch, rng: Rng) -> tuple[BinnedColumn, ...]:
    """The columns with their bins where values lie, as far as that was drawn."""
    wanted = [column for column in concept.binned if column.name in search.columns]
    kernel = range_kernel(wanted, search.levels)
    cells = kernel.split(users.fold(kernel))
    drawn = {
        column.name: family(column.domain).drawn(weights, search.rate, rng) for column, weights in zip(wanted, cells)
    }
    return tuple(zoomed(each, drawn.get(each.name), concept.counted(each.name) or 0) for each in concept.binned)


def _noisy(sums: list[int], variance: Fraction, rng: Rng) -> list[int]:
    return [value + more for value, more in zip(sums, gaussian_noise(variance, len(sums), rng))]


def _descend(
    run: _Run, table: CodeTable, top: int, budget: ScorecardBudget, users: int, answers: tuple[int, ...], rng: Rng
) -> tuple[list[ScorecardPoints], tuple[int, ...], list[LogOdds], tuple[tuple[int, ...], ...]]:
    """Centre, norms, steps, points; in this order, each from what was released before.  The scorecards of several
    answers walk side by side, each noised by itself.

    Gives the points, the clips, what the points of each scorecard stand for, and the weights of the answers.
    """
    columns, steps, size = table.columns, budget.steps, table.coordinates + 1
    summed = _noisy(run(CentrePass(table, centre_clip(columns))), budget.centre_variance, rng)
    centre = tuple(shrunk_centre(summed, users, budget.centre_variance))
    norms = _noisy(run(NormPass(table, centre, norm_cap(columns), answers)), budget.norm_variance, rng)
    clips = tuple(clip_size(norm, users, budget.own, columns) for norm in norms)
    time, states = training_time(users, budget.own), [DescentState.start(centre) for _ in answers]
    totals = [[0] * size for _ in answers]
    for step in range(1, steps + 1):
        sums = run(StepPass(table, tuple(states), clips, answers))
        for k, (state, clip) in enumerate(zip(states, clips)):
            moved = _noisy(sums[k * size : (k + 1) * size], budget.step_variance(clip), rng)
            states[k] = evolve(state, weights=tuple(updated(state.weights, moved, time, steps, users)))
            if step > steps // 2:  # the last ceil(T/2)
                totals[k] = [a + b for a, b in zip(totals[k], states[k].weights)]
    if len(answers) == 1:
        found = [scorecard_points(table, totals[0], centre, top)]
    else:
        found = points_against(table, totals, centre, top)
    odds = []
    for one, clip in zip(found, clips):
        noise = noise_variance(
            table, centre, users=users, time=time, steps=steps, step_variance=budget.step_variance(clip)
        )
        odds.append(log_odds(shrink(noise), largest=one.largest, least=one.least, steps=steps, top=top))
    return found, clips, odds, answer_weights(table, centre)
