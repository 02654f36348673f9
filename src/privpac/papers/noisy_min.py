"""Noisy minimum (permute-and-flip): the best one-shot pure selection.

Every candidate's score is lowered by independent exponential noise and the least one wins:
minimise ``eta s_h - E_h`` with ``eta = epsilon / R``.

**Guarantee.** ``(epsilon, 0)``: given the noise of the others, ``h`` wins iff ``E_h`` exceeds a threshold; a neighbour
raises that threshold by at most ``eta R``, and ``Pr[E > x + eta R] >= e**(-eta R) Pr[E > x]`` for every real ``x``.
The range is not bounded as for the exponential mechanism, so ``rho = epsilon**2 / 2``.  The noisy score itself is never
released.

The expected score is never worse than that of the exponential mechanism at the same rate.  Use this one for a single
selection; the exponential mechanism when many selections are composed by zCDP.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction
from math import e, log, prod

import flint
import numpy as np
from attrs import frozen
from flint import arb, arb_series
from numpy.typing import ArrayLike, NDArray

from privpac.errors import TooLargeError, Undecided
from privpac.exact import MAX_PRECISION, ExpSum, as_arb, precision, rational
from privpac.guarantee import Guarantee
from privpac.law.blocks import MAX_VALUES, BlockLaw, FiniteLaw
from privpac.law.numbers import Enclosed, Number, Quotient
from privpac.law.sampling import Levels, Rate, locate
from privpac.mechanisms.exponential import ScoreMechanism, candidate_blocks, interval_blocks
from privpac.parameters import named
from privpac.rng import Rng, secret_rng

# The exponential-noise race: who wins when every candidate runs with its own clock.
#
# Candidate ``h`` gets ``E_h - eta s_h`` with independent standard exponential ``E_h``; the largest wins.  This is the
# law of permute-and-flip.  The ``N`` candidates of one score are exchangeable, so a level runs once, with the largest
# of its ``N`` clocks, ``G = -ln(1 - U**(1/N))`` for uniform ``U``; then one of its candidates is drawn uniformly.
#
# Exactness: ``G`` increases with ``U``, so the cylinder of the bits of ``U`` drawn so far encloses it; bits are added,
# 64 at a time, to all levels still in the race until the intervals of the leader and of everyone else are disjoint.  An
# answer is given only when it is the same for all reals in the cylinders, and the undecided set shrinks to ties, a null
# set.


def race_block(blocks: BlockLaw, rng: Rng | None = None) -> tuple[int, int]:
    """One race among the values of ``blocks``, as (block, offset inside it)."""
    source = secret_rng(rng)
    levels = blocks.levels
    level = winner(levels, source)
    members = np.flatnonzero(blocks.score == blocks.best + int(levels.gaps[level]))
    return locate(members, source.below(levels.totals[level]), blocks.span, blocks.big)


def winner(levels: Levels, rng: Rng) -> int:
    """The level that wins the race."""
    if len(levels.totals) == 1:
        return 0
    words = rng.words(len(levels.totals))
    running = {level: int(words[level]) for level in _still_running(levels, words)}
    bits = 64
    while True:
        with precision(bits + 64):
            spans = {level: _position(levels, level, u, bits) for level, u in running.items()}
            leader = max(spans, key=lambda level: spans[level][0])
            front = spans[leader][0]
            # A level whose upper end is at most the leader's lower end cannot win (ties have probability 0).
            ends = {level: upper for level, (_, upper) in spans.items()}
            lost = {level for level, end in ends.items() if level != leader and end is not None and end <= front}
            running = {level: u for level, u in running.items() if level not in lost}
        if len(running) == 1:
            return leader
        bits += 64
        if bits > MAX_PRECISION:
            raise Undecided("a race was not decided")
        running = {level: (u << 64) | rng.bits(64) for level, u in running.items()}


def _position(levels: Levels, level: int, u: int, bits: int) -> tuple[arb, arb | None]:
    """Lower and upper end of ``G - eta * gap`` for ``U`` in ``[u, u + 1) * 2**-bits``; None is infinity."""
    penalty = _cost(levels.rate, int(levels.gaps[level]))
    count = levels.totals[level]
    low = (_clock(u, bits, count) if u else arb(0)) - penalty
    high = None if u + 1 == 1 << bits else (_clock(u + 1, bits, count) - penalty).upper()
    return low.lower(), high


def _clock(u: int, bits: int, count: int) -> arb:
    """``-ln(1 - U**(1/count))`` at ``U = u * 2**-bits`` in (0, 1), without cancellation near either end."""
    log_u = (arb(u - (1 << bits)) * arb(2) ** -bits).log1p()
    return -(-(log_u / count).expm1()).log()


def _cost(rate: Rate, gap: int) -> arb:
    if rate.eta is not None:
        return as_arb(rate.eta * gap)
    assert rate.base is not None
    return as_arb(rate.base).log() * gap


def _still_running(levels: Levels, words: NDArray[np.uint64]) -> list[int]:
    """Levels that may still win, given 64 bits each; the others certainly lose.

    Let ``b`` be a lower bound on the position of some level.  By Bernoulli's inequality
    ``(1 - e**-x)**N >= 1 - N e**-x``, so ``1 - U >= N e**-(eta d + b)`` forces ``G <= eta d + b``: the level is behind.
    Doubles decide this with a margin of 1e-9, far above the error of the handful of IEEE operations involved.
    """
    n = len(levels.totals)
    if n <= 16 or levels.size.bit_length() >= 900:
        return list(range(n))
    hopes = _weights_above(levels) * np.array(list(levels.totals), dtype=np.float64)
    with precision(128):
        ahead = max(_position(levels, level, int(words[level]), 64)[0] for level in {0, int(np.argmax(hopes))})
        shrink = float((-ahead).exp().upper()) * (1 + 1e-9)
    # 1 - U > (2**64 - 1 - u) * 2**-64 for every U of the cylinder.
    behind = (~words).astype(np.float64) * 2.0**-64 > hopes * shrink * (1 + 1e-9)
    return [int(level) for level in np.flatnonzero(~behind)]


def _weights_above(levels: Levels) -> NDArray[np.float64]:
    """Doubles at most 1e-9 below the weights, relative; all far levels share the bound of the first of them."""
    cut = levels.rate.cut(80 + levels.size.bit_length())
    near = len(levels.gaps) if cut is None else int(np.searchsorted(levels.gaps, cut, side="right"))
    with precision(80):
        out = np.full(len(levels.gaps), 1.0 if cut is None else float(levels.rate.arb(cut + 1)), dtype=np.float64)
        out[:near] = [float(ball) for ball in levels.rate.balls(levels.gaps[:near].tolist())]
    return out


# The law of the exponential-noise race (permute-and-flip).
#
# With ``q_j = e**(-eta d_j)`` for a candidate whose score is ``d_j`` above the best,
#
#     P(one candidate of level s) = q_s * integral over [0, 1] of  product over other candidates j of (1 - q_j t)  dt.
#
# It depends on the level only.  Few candidates: the product is expanded and integrated term by term, an exact
# exponential sum.  Otherwise the integrals are enclosed.
#
# *Enclosure.*  ``f(t) = product of (1 - q_d t)**N_d`` is log-concave and decreasing.  From ``a`` the next point is the
# one where the tangent of ``ln f`` has fallen by ``_DROP``; there ``f`` is expanded in its Taylor polynomial around
# ``a`` (the logarithm's series is explicit, its exponential a power-series operation), and ``f / (1 - q_s t)`` follows
# by a recurrence.  On the circle of radius ``r`` around ``a`` the polynomial ``f / (1 - q_s t)`` is at most its value
# at ``a - r`` (every factor is), so Cauchy's estimate bounds the terms left out.  Steps scale with ``1 / sum of N_d
# q_d``, so a level of ``2**64`` candidates is enclosed as tightly as one of two.  Beyond the point where ``f <
# 2**-bits``, log-concavity bounds the rest by ``f(T) / |(ln f)'(T)|``.


_Scores = ArrayLike

EXACT_CANDIDATES = 64
EXACT_TERMS = 4096
_MAX_BITS = 8192
_DROP = 8


def race_law(blocks: BlockLaw) -> FiniteLaw:
    """The race among the values of ``blocks``, with explicit probabilities."""
    numbers = dict(zip(blocks.levels.gaps.tolist(), level_numbers(blocks.levels)))
    if blocks.lows is not None:
        cells = [(cell, numbers[score - blocks.best]) for cell, score in blocks.blocks if isinstance(cell, range)]
        return FiniteLaw(sorted(cells, key=lambda item: item[0].start), {})
    if sum(blocks.levels.totals) > MAX_VALUES:
        raise TooLargeError("labelled blocks are too large to enumerate; sample them, or use the exponential mechanism")
    listed = list(enumerate(blocks.blocks))
    return FiniteLaw(
        [], {(label, at): numbers[score - blocks.best] for i, (label, score) in listed for at in range(blocks.count(i))}
    )


def level_numbers(levels: Levels) -> list[Number]:
    """The probability of one candidate of each level."""
    gaps, totals = levels.gaps.tolist(), list(levels.totals)
    n = sum(totals)
    if len(totals) == 1 or levels.rate.flat:
        return [Quotient.of(Fraction(1, n)) for _ in totals]
    if (
        n <= EXACT_CANDIDATES
        and min(prod(c + 1 for c in totals), n * sum(c * d for c, d in zip(totals, gaps))) <= EXACT_TERMS
    ):
        return _expanded(levels)
    integrals = _Integrals(levels)
    return [Enclosed(lambda i=i: integrals.all()[i]) for i in range(len(totals))]  # type: ignore[misc]


# Few candidates: exact

Poly = list[dict[int, int]]
"""``poly[k][g]`` is the coefficient of ``t**k * w**g``, where ``w**g`` is the weight at gap ``g``."""


def _expanded(levels: Levels) -> list[Number]:
    gaps, totals, rate = levels.gaps.tolist(), list(levels.totals), levels.rate
    full: Poly = [{0: 1}]
    for gap, total in zip(gaps, totals):
        for _ in range(total):
            full = _times_linear(full, gap)
    out: list[Number] = []
    for gap in gaps:
        # full / (1 - w**gap t): c_k = full_k + w**gap c_(k-1); the integral divides c_k by k + 1.
        terms: dict[int, Fraction] = {}
        row: dict[int, int] = {}
        for k, part in enumerate(full[:-1]):
            shifted = {g + gap: c for g, c in row.items()}
            row = {g: c for g in {*part, *shifted} if (c := part.get(g, 0) + shifted.get(g, 0))}
            for g, c in row.items():
                terms[g] = terms.get(g, Fraction(0)) + Fraction(c, k + 1)
        out.append(Quotient.of(sum((rate.exact(g + gap) * c for g, c in terms.items()), ExpSum())))
    return out


def _times_linear(poly: Poly, gap: int) -> Poly:
    """``poly * (1 - w**gap t)``."""
    out: Poly = [dict(row) for row in poly] + [{}]
    for k, row in enumerate(poly):
        above = out[k + 1]
        for g, c in row.items():
            above[g + gap] = above.get(g + gap, 0) - c
    return out


# Many candidates: enclosures


class _Integrals:
    """All levels' probabilities at the working precision, kept per precision."""

    def __init__(self, levels: Levels) -> None:
        self._levels = levels
        self._kept: dict[int, list[arb]] = {}

    def all(self) -> list[arb]:
        bits = int(flint.ctx.prec)
        if bits > _MAX_BITS:
            raise Undecided(f"a comparison of integrals was not decided at {_MAX_BITS} bits; widen the margin")
        if bits not in self._kept:
            with precision(bits + 64):
                self._kept[bits] = _integrate(self._levels, bits + 16)
        return self._kept[bits]


def _integrate(levels: Levels, goal: int) -> list[arb]:
    """The probabilities to about ``goal`` bits, relative."""
    totals = list(levels.totals)
    q = levels.rate.balls(levels.gaps.tolist())
    length = _series_length(goal)
    sums = [arb(0) for _ in q]
    a = arb(0)
    while True:
        left = [1 - x * a for x in q]
        slope = [x / y for x, y in zip(q, left)]
        fall = sum((c * s for c, s in zip(totals, slope)), arb(0))
        height = sum((c * (-x * a).log1p() for c, x in zip(totals, q)), arb(0)).exp()
        if height < arb(2) ** -goal:
            rest = [_remainder(height / y, fall - s, 1 - a) for y, s in zip(left, slope)]
            return [x * (total + more) for x, total, more in zip(q, sums, rest)]
        end = (a + _DROP / fall).mid()
        last = not end < 1
        end = arb(1) if last else end
        h = end - a
        for i, part in enumerate(_segment([s * h for s in slope], totals, length)):
            sums[i] += h * height / left[i] * part
        if last:
            return [x * total for x, total in zip(q, sums)]
        a = end


def _remainder(height: arb, fall: arb, width: arb) -> arb:
    """Encloses the integral of a decreasing log-concave function from where it has this height and logarithmic
    slope."""
    bound = height * width
    if fall > 0:
        bound = bound.min(height / fall)
    return bound.union(arb(0))


def _segment(z: list[arb], totals: list[int], length: int) -> list[arb]:
    """``integral over [0, 1] of product of (1 - z_d v)**N_d / (1 - z_s v) dv`` for every ``s``; ``sum of N_d z_d`` is
    at most ``_DROP``."""
    powers, logs = list(z), [arb(0)]
    for k in range(1, length):
        logs.append(-sum((c * p for c, p in zip(totals, powers)), arb(0)) / k)
        powers = [p * x for p, x in zip(powers, z)]
    flint.ctx.cap, before = length, flint.ctx.cap
    try:
        series = arb_series(logs, prec=length).exp()
    finally:
        flint.ctx.cap = before
    terms = [series[k] for k in range(length)]
    # Cauchy on the circle |v| = radius: |coefficient k| <= size / radius**k.
    radius = Fraction(length, _DROP)
    stretch = arb(radius.numerator) / radius.denominator
    size = sum((c * (x * stretch).log1p() for c, x in zip(totals, z)), arb(0)).exp()
    tail = size * stretch**-length / (length + 1) / (1 - 1 / stretch)
    slack = (-tail).union(tail)
    out = []
    for x in z:
        coefficient, total = arb(0), arb(0)
        for k, term in enumerate(terms):
            coefficient = term + x * coefficient
            total += coefficient / (k + 1)
        out.append(total + slack)
    return out


def _series_length(goal: int) -> int:
    """Terms after which Cauchy's bound ``(e * _DROP / n)**n`` is below ``2**-goal``; only sharpness depends on it."""
    n = 4 * _DROP
    while n * log(n / (_DROP * e)) < (goal + 8) * log(2):
        n += 8
    return n


@frozen(slots=False, field_transformer=named)
class NoisyMin(ScoreMechanism):
    """Report the candidate of least noisy score (scores are integers and minimised).

    >>> choice = NoisyMin("1/2", 1, unit="user", neighbours="add-remove")
    >>> choice.eta, choice.guarantee.rho
    (Fraction(1, 2), Fraction(1, 8))
    >>> choice.law([0, 0]).prob_exact(1)
    Fraction(1, 2)

    Up to 64 candidates with few distinct sums of scores have exact laws, on which privacy is *decided*; larger ones
    have enclosures of any precision, on which a comparison may end in ``Undecided``.  Draws are exact at any size.
    """

    @property
    def guarantee(self) -> Guarantee:
        epsilon = rational(self.epsilon)
        return Guarantee(epsilon, unit=self.unit, neighbours=self.neighbours, rho=epsilon * epsilon / 2)

    # Laws

    def law(
        self, scores: _Scores, *, counts: _Scores | None = None, labels: Sequence[Hashable] | None = None
    ) -> FiniteLaw:
        """The law over indices ``0..k-1``; with ``counts``, over ``(label, offset)`` for blocks of equal candidates."""
        return race_law(candidate_blocks(scores, self.eta, counts, labels))

    def law_blocks(
        self, lo: _Scores, hi: _Scores, score: _Scores, *, domain: tuple[int, int] | None = None
    ) -> FiniteLaw:
        """The law over integers given as closed intervals ``[lo_i, hi_i]`` of equal score."""
        return race_law(interval_blocks(lo, hi, score, self.eta, domain))

    # Draws

    def sample(
        self,
        scores: _Scores,
        rng: Rng | None = None,
        *,
        counts: _Scores | None = None,
        labels: Sequence[Hashable] | None = None,
    ) -> Hashable:
        """One exact draw from :meth:`law`, by running the race."""
        return _draw(candidate_blocks(scores, self.eta, counts, labels), rng)

    def sample_blocks(
        self, lo: _Scores, hi: _Scores, score: _Scores, rng: Rng | None = None, *, domain: tuple[int, int] | None = None
    ) -> int:
        """One exact draw from :meth:`law_blocks`; multiplicities may have any size."""
        drawn = _draw(interval_blocks(lo, hi, score, self.eta, domain), rng)
        assert isinstance(drawn, int)
        return drawn


def _draw(blocks: BlockLaw, rng: Rng | None) -> Hashable:
    value: Hashable = blocks.value(*race_block(blocks, rng))
    return value
