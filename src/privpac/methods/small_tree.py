"""Small trees for wide tables: one exact law over all trees of depth 2.

*Problem.*  A table with 5 to 30 columns wants a rule that reads several of them.  Choosing among ``K`` questions three
times at a third of epsilon loses about ``9 ln K / epsilon`` votes; one law over all trees loses ``3 ln K / epsilon``.

*Scores.*  User ``i`` with ``m_i`` records gives each of them ``floor(levels / m_i)`` votes and votes against a tree
with the records that it gets wrong: an integer in ``0..levels``, a function of that user's records alone.

*Guarantee.*  ``(epsilon, 0)`` per user and ``epsilon**2 / 8``-zCDP, with the rate ``epsilon / levels`` under add-remove
and ``epsilon / (2 levels)`` under replace, whatever the cuts, the prior and the numbers of records.  Add-remove: all
scores move by amounts in ``[0, levels]`` and the normaliser moves with them, so log-ratios stay within ``rate *
levels``.  Replace: the difference of two such moves lies in ``[-levels, levels]``.  A user without records moves
nothing; no users give the prior.  With ``c`` labels a user's votes against a tree are in ``0..levels`` as well.

*Accuracy.*  :func:`certified_users`.  Never shown: scores, cells, the normaliser, the probability of the drawn tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, ClassVar, TypeGuard

import numpy as np
from attrs import evolve, field, frozen
from flint import arb

from privpac.arrays import Floats64, Ints
from privpac.bisection import half_way, least_between, narrow
from privpac.errors import InfeasibleError, TooLargeError, Undecided
from privpac.exact import MAX_PRECISION, Ball, ExpSum, Rational, as_arb, ball_of, exp_ball, precision, rational, up
from privpac.guarantee import Guarantee
from privpac.law import Law
from privpac.law.blocks import Cell, FiniteLaw
from privpac.law.numbers import Denominator, Number, Quotient
from privpac.law.sampling import Powers, Rate, invert, settled
from privpac.mechanisms.laplace import discrete_laplace
from privpac.methods.base import Bound, Selection
from privpac.parameters import TREE_LEVELS, named, probability_or_zero
from privpac.result import Released
from privpac.rng import Rng, secret_rng
from privpac.rules.base import Rule
from privpac.rules.chances import RegionSums
from privpac.rules.kernels.shares import user_tables
from privpac.rules.small_trees import Side, SmallTrees, TreeCells, TreeShape

if TYPE_CHECKING:
    from privpac.data import UserData, Users

# Doubles that settle almost every draw of a small tree.
#
# With ``D_0 = 0`` and ``m = max D_k`` a leaf weighs ``e**(lambda m) h``, ``h = sum of e**(-lambda (m - D_k))`` over the
# labels.  Exponents stay integers: their maximum is subtracted per side and over roots, and ``e**(-lambda g)`` comes
# from ``t`` tables of 2**11 doubles rounded from balls (``law.sampling``; ``numpy.exp`` is not trusted).  Only positive
# products and sums follow.  With ``u = 2**-53``, ``K`` tests and ``c`` labels: a table entry errs by ``u``, a weight by
# ``(2t - 1) u``, ``h`` by ``(2t + c - 2) u``, a term by ``(6t + 2c - 1) u`` (two ``h``, a weight, a rounded prior,
# three products), a side by ``K u`` more, a root by ``(2K + 14t + 4c + 1) u``, a cumulative sum of roots by ``(K - 1)
# u`` more. So quotients are within
#
#     root 2.04 (3K + 14t + 4c + 1) u      side 2.04 (K + 6t + 2c) u      label 2.04 (2t + c) u
#
# each plus ``2**-900`` for terms below ``e**-700``, which count as 0.

_UNIT = 2.0**-53
_DROPPED = 2.0**-900
_FARTHEST = 700
_ENTRIES = 1 << 16
"""Pairs of tests in work at a time."""


@frozen(slots=False)
class Corners:
    """``D`` on one side of some roots: all of the side, and where each further test holds."""

    side: Ints
    held: Ints

    @property
    def failed(self) -> Ints:
        return self.side[:, :, None] - self.held


def corners(cells: TreeCells, first: int, last: int) -> tuple[Corners, Corners]:
    """Both sides of the roots ``first..last - 1``, with axes label, root, test."""
    both, single = cells.both[:, first:last], cells.single
    root = single[:, first:last]
    return Corners(root, both), Corners(cells.total[:, None] - root, single[:, None, :] - both)


@frozen(slots=False)
class TreeFilter:
    """The weights of roots, sides and labels as doubles, each choice with a bound on its error."""

    shape: TreeShape
    cells: TreeCells
    rate: Fraction

    @cached_property
    def _cut(self) -> int | None:
        """The last gap that has a weight."""
        return None if self.rate == 0 else _FARTHEST * self.rate.denominator // self.rate.numerator

    @cached_property
    def _powers(self) -> Powers:
        both = self.cells.both
        most = int(max(np.abs(part).max(initial=0) for part in (both, self.cells.single, self.cells.total)))
        # A corner is at most a signed sum of four cells, and a root has four corners.
        top = 16 * most if self._cut is None else min(self._cut, 16 * most)
        return Powers.of(Rate(Fraction(0) if self.rate == 0 else self.rate), 0 if self.rate == 0 else top)

    def _weight(self, gaps: Ints) -> Floats64:
        """``e**(-rate * gap)``, 0 beyond the cut."""
        if self._cut is None:
            return np.ones(gaps.shape, dtype=np.float64)
        flat = gaps.reshape(-1)
        found = self._powers.weights(np.minimum(flat, self._cut))
        found[flat > self._cut] = 0.0
        return found.reshape(gaps.shape)

    def _leaf(self, cell: Ints) -> tuple[Ints, Floats64]:
        """Exponent and ``h`` of leaves, summed over labels."""
        if len(cell) == 1:
            return np.maximum(cell[0], 0), 1.0 + self._weight(np.abs(cell[0]))
        top = np.maximum(cell.max(axis=0), 0)
        return top, self._weight(top) + sum(self._weight(top - one) for one in cell)

    def _terms(self, corner: Corners) -> tuple[Ints, Floats64]:
        """For every root the largest exponent of the side, and the terms of its options, the leaf first."""
        exponent, h = self._leaf(corner.side)
        if self.shape.depth == 1:
            return exponent, (float(self.shape.leaf) * h)[:, None]
        (first, h_held), (second, h_failed) = self._leaf(corner.held), self._leaf(corner.failed)
        exponents = np.concatenate([exponent[:, None], first + second], axis=1)
        top = exponents.max(axis=1)
        scale = self._weight(top[:, None] - exponents)
        terms = np.empty_like(scale)
        terms[:, 0] = float(self.shape.leaf) * h
        terms[:, 1:] = self._asks * (h_held * h_failed)
        return top, terms * scale

    @cached_property
    def _asks(self) -> Floats64:
        return np.array([float(weight) for weight in self.shape.asks], dtype=np.float64)

    # Choices: cumulative quotients and their error

    @cached_property
    def roots(self) -> tuple[Floats64, float]:
        k, step = self.shape.tests, max(1, _ENTRIES // self.shape.tests)
        exponents, sums = np.empty(k, dtype=np.int64), np.empty(k, dtype=np.float64)
        for first in range(0, k, step):
            last = min(first + step, k)
            (top, terms), (below, others) = map(self._terms, corners(self.cells, first, last))
            exponents[first:last], sums[first:last] = top + below, terms.sum(axis=1) * others.sum(axis=1)
        prior = np.array([float(weight) for weight in self.shape.prior], dtype=np.float64)
        return self._quotients(
            prior * sums * self._weight(exponents.max() - exponents),
            3 * k + 14 * len(self._powers.tables) + 4 * self.shape.labels + 1,
        )

    def options(self, root: int, yes: bool) -> tuple[Floats64, float]:
        """The options of one side, the leaf first."""
        _, terms = self._terms(corners(self.cells, root, root + 1)[0 if yes else 1])
        return self._quotients(terms[0], self.shape.tests + 6 * len(self._powers.tables) + 2 * self.shape.labels)

    def labels(self, cell: Ints) -> tuple[Floats64, float]:
        """The labels of a leaf with these ``D``."""
        values = np.concatenate([np.zeros(1, dtype=np.int64), cell])
        return self._quotients(self._weight(values.max() - values), 2 * len(self._powers.tables) + self.shape.labels)

    @staticmethod
    def _quotients(weights: Floats64, units: int) -> tuple[Floats64, float]:
        cumulative = np.cumsum(weights)
        return cumulative / cumulative[-1], 2.04 * units * _UNIT + _DROPPED


# The most likely small tree, found exactly: the best option of each side, then the best root.
#
# A candidate weighs ``c e**(lambda g)`` with rational ``c`` and integer ``g``; two of them are equal only if both are,
# since ``ln(c/c') + lambda (g - g')`` is 0 for no other rationals.  Among equals the first id counts.

_Candidate = tuple[Fraction, int]
"""A prior and a gain."""


def _more(a: _Candidate, b: _Candidate, rate: Fraction) -> bool:
    """Whether ``a`` weighs more than ``b``, decided exactly."""
    if a[0] >= b[0] and a[1] >= b[1]:
        return a[0] > b[0] or (rate > 0 and a[1] > b[1])
    return ExpSum([(rate * (a[1] - b[1]), a[0]), (Fraction(0), -b[0])]).sign() > 0


def most_likely(shape: TreeShape, cells: TreeCells, rate: Fraction) -> int:
    """The first id of the largest weight."""
    groups: dict[Fraction, list[int]] = {}
    for j, ask in enumerate(shape.asks):
        groups.setdefault(ask, []).append(j)
    tests = [(ask, np.array(members, dtype=np.int64)) for ask, members in groups.items()]
    best: tuple[_Candidate, int] | None = None
    for root, prior in enumerate(shape.prior):
        sides = [_best_side(shape, corner, tests, rate) for corner in corners(cells, root, root + 1)]
        (first, yes), (second, no) = sides
        candidate = (prior * first[0] * second[0], first[1] + second[1])
        if best is None or _more(candidate, best[0], rate):
            best = candidate, shape.id(root, yes, no)
    assert best is not None
    return best[1]


def _labels(cell: Ints, flat: bool) -> tuple[Ints, Ints]:
    """The first best label of every leaf, and what it wins; without a rate all labels weigh the same."""
    values = np.concatenate([np.zeros((1, *cell.shape[1:]), dtype=np.int64), cell])
    label = np.zeros(cell.shape[1:], dtype=np.int64) if flat else values.argmax(axis=0)
    return label, np.take_along_axis(values, label[None], axis=0)[0]


def _best_side(
    shape: TreeShape, corner: Corners, tests: list[tuple[Fraction, Ints]], rate: Fraction
) -> tuple[_Candidate, Side]:
    flat = rate == 0
    label, win = _labels(corner.side, flat)
    best: tuple[_Candidate, Side] = ((shape.leaf, int(win[0])), Side(None, (int(label[0]),)))
    if not tests:
        return best
    held, won = _labels(corner.held[:, 0], flat)
    failed, lost = _labels(corner.failed[:, 0], flat)
    gains = won + lost
    found: list[tuple[_Candidate, Side]] = []
    for ask, members in tests:
        j = int(members[0 if flat else int(gains[members].argmax())])
        found.append(((ask, int(gains[j])), Side(j, (int(held[j]), int(failed[j])))))
    for candidate, side in sorted(found, key=lambda one: one[1].test or 0):
        if _more(candidate, best[0], rate):
            best = candidate, side
    return best


# The one exact law over all small trees.
#
# With ``D`` the signed weight of a leaf's records (``rules.small_trees``) and ``lambda`` the rate, a tree
# weighs ``prior * e**(-lambda s)``, and ``s = others - sum over leaves of D_label``.  Given the tests this is a product
# over leaves, so labels sum leaf by leaf, options side by side, and then the roots:
#
#     Z = e**(-lambda others) * sum_i pi_i S_i(yes) S_i(no)
#     S_i(side) = leaf * l(D) + sum_j ask_j l(D, j holds) l(D, j fails)         l(D) = 1 + sum_k e**(lambda D_k)
#
# ``K**2`` pairs of tests instead of ``4 K (2K+1)**2`` trees.  A draw goes from the top down: root, then for each side
# leaf or test, then its labels; the conditional probabilities multiply to the law.  Each choice is drawn by inversion
# with as many random bits as it needs, so no probability is approximate: doubles filter (``tree_filter``), balls
# decide.

_MAX_LISTED = 1 << 16
"""Trees that are listed one by one at most."""

_KEPT = 1 << 10
"""Cells up to which a law says what it is."""


class SmallTreeLaw(Law):
    """``P(tree) = prior(tree) * e**(-rate * score(tree)) / Z`` over the ids of a class of small trees."""

    def __init__(self, shape: TreeShape, cells: TreeCells, rate: Fraction) -> None:
        self.shape, self.cells, self.rate = shape, cells, rate

    # Reading

    def gain(self, tree: int) -> int:
        """The weight that the tree's leaves win over "always label 0"."""
        root, yes, no = self.shape.parts(tree)
        both = zip(corners(self.cells, root, root + 1), (yes, no))
        leaves = [pair for corner, side in both for pair in zip(_leaves(corner, side.test), side.labels)]
        return sum(int(cell[label - 1]) for cell, label in leaves if label)  # label 0 wins nothing

    def score(self, tree: int) -> int:
        """The summed votes against a tree."""
        return self.cells.others - self.gain(tree)

    def number(self, value: object) -> Number:
        if not isinstance(value, (int, np.integer)) or not 0 <= value < self.shape.size:
            return Quotient(())
        tree = int(value)
        return Quotient.of(ExpSum.exp(self.rate * self.gain(tree), self.shape.of_tree(tree)), self.total)

    def block_number(self, i: int) -> Number:
        return self.number(i)

    @cached_property
    def total(self) -> Denominator:
        """``Z`` without its factor ``e**(-rate * others)``."""
        flat = self.rate == 0 or not any(part.any() for part in (self.cells.total, self.cells.single, self.cells.both))
        return Denominator(self._sum, lambda: sum(self._roots(), arb(0)), irrational=not flat)

    def log_normaliser(self) -> Ball:
        """``ln of the sum of prior * e**(-rate * score)``; as private as the scores."""
        with precision(256):
            return ball_of(self.total.arb().log() - as_arb(self.rate * self.cells.others))

    def _listed(self) -> range:
        if self.shape.size > _MAX_LISTED:
            raise TooLargeError(f"{self.shape.size} trees are too many to list; at most {_MAX_LISTED} are")
        return range(self.shape.size)

    def as_finite(self) -> FiniteLaw:
        return FiniteLaw([(range(tree, tree + 1), self.number(tree)) for tree in self._listed()], {})

    def support(self) -> Iterator[Cell]:
        return (range(tree, tree + 1) for tree in self._listed())

    @property
    def mode(self) -> int:
        return most_likely(self.shape, self.cells, self.rate)

    # The normaliser

    def _leaf(self, cell: Ints) -> arb:
        return sum((exp_ball(self.rate * d) for d in cell.tolist()), arb(1))

    def _options(self, corner: Corners) -> list[arb]:
        """The terms of a side of one root, the leaf first."""
        out = [as_arb(self.shape.leaf) * self._leaf(corner.side[:, 0])]
        if self.shape.depth == 2:
            held, failed = corner.held[:, 0], corner.failed[:, 0]
            out += [
                as_arb(ask) * self._leaf(held[:, j]) * self._leaf(failed[:, j]) for j, ask in enumerate(self.shape.asks)
            ]
        return out

    def _roots(self) -> list[arb]:
        """The weight of every root."""
        return [
            as_arb(prior) * sum(self._options(yes), arb(0)) * sum(self._options(no), arb(0))
            for i, prior in enumerate(self.shape.prior)
            for yes, no in [corners(self.cells, i, i + 1)]
        ]

    def _sum(self) -> ExpSum:
        """The same as an exponential sum, for decisions that no ball settles."""

        def leaf(cell: Ints) -> ExpSum:
            return ExpSum([(Fraction(0), Fraction(1)), *((self.rate * d, Fraction(1)) for d in cell.tolist())])

        def side(corner: Corners) -> ExpSum:
            out = leaf(corner.side[:, 0]) * self.shape.leaf
            for j, ask in enumerate(self.shape.asks):
                out = out + leaf(corner.held[:, 0, j]) * leaf(corner.failed[:, 0, j]) * ask
            return out

        total = ExpSum()
        for i, prior in enumerate(self.shape.prior):
            yes, no = corners(self.cells, i, i + 1)
            total = total + side(yes) * side(no) * prior
        return total

    # Sampling

    @cached_property
    def filter(self) -> TreeFilter:
        return TreeFilter(self.shape, self.cells, self.rate)

    def sample(self, rng: Rng | None = None) -> int:
        """One exact draw, from the top down."""
        source = secret_rng(rng)
        root = _choose(source, self.filter.roots, self._roots)
        both = corners(self.cells, root, root + 1)
        sides = []
        for corner, holds in zip(both, (True, False)):
            option = _choose(source, self.filter.options(root, holds), partial(self._options, corner))
            test = None if option == 0 else option - 1
            sides.append(Side(test, tuple(self._draw_label(source, cell) for cell in _leaves(corner, test))))
        return self.shape.id(root, *sides)

    def _draw_label(self, rng: Rng, cell: Ints) -> int:
        return _choose(
            rng, self.filter.labels(cell), lambda: [arb(1), *(exp_ball(self.rate * d) for d in cell.tolist())]
        )

    # Divergences, without listing trees

    def _comparable(self, other: object) -> TypeGuard[SmallTreeLaw]:
        return isinstance(other, SmallTreeLaw) and (self.shape, self.rate) == (other.shape, other.rate)

    def _farthest(self, other: SmallTreeLaw) -> int:
        """The largest difference of gains over all trees: each leaf, side and root takes its own best."""
        mine, theirs = self.cells, other.cells
        delta = TreeCells(mine.total - theirs.total, mine.single - theirs.single, mine.both - theirs.both, 0)

        def side(corner: Corners) -> Ints:
            leaf: Ints = np.maximum(corner.side.max(axis=0), 0)
            if self.shape.depth == 1:
                return leaf
            asked = np.maximum(corner.held.max(axis=0), 0) + np.maximum(corner.failed.max(axis=0), 0)
            best: Ints = np.maximum(leaf, asked.max(axis=1))
            return best

        return max(
            int((side(yes) + side(no))[0]) for i in range(self.shape.tests) for yes, no in [corners(delta, i, i + 1)]
        )

    def max_divergence(self, other: Law, *, enough: Fraction | None = None) -> Ball | float:
        if not self._comparable(other):
            return super().max_divergence(other, enough=enough)
        farthest = self._farthest(other)
        bits = 128
        while bits <= MAX_PRECISION:
            with precision(bits):
                found = ball_of(
                    as_arb(self.rate * farthest) + (other.total.arb() / self.total.arb()).log(), floor=Fraction(0)
                )
            if found.width <= max(found.hi, Fraction(1)) / (1 << 100):
                return found
            bits *= 2
        raise Undecided("a divergence of small trees was not enclosed")

    def identity(self) -> Hashable:
        cells = (self.cells.total, self.cells.single, self.cells.both)
        if sum(part.size for part in cells) > _KEPT:
            return None
        return self.shape, self.rate, tuple(tuple(part.ravel().tolist()) for part in cells)

    def dominated_by(self, other: Law, epsilon: Fraction) -> bool | None:
        if not self._comparable(other):
            return None
        if self.cells.same(other.cells):
            return epsilon >= 0
        shift = self.rate * self._farthest(other) - epsilon
        for bits in (128, 1024):
            with precision(bits):
                value = exp_ball(shift) * other.total.arb() - self.total.arb()
                if value < 0:
                    return True
                if value > 0:
                    return False
        return (other.total.sum * ExpSum.exp(shift) - self.total.sum).sign() <= 0


def _leaves(corner: Corners, test: int | None) -> list[Ints]:
    """``D`` of the leaves of one side of a single root."""
    return [corner.side[:, 0]] if test is None else [corner.held[:, 0, test], corner.failed[:, 0, test]]


def _choose(rng: Rng, table: tuple[Floats64, float], weights: Callable[[], Sequence[arb]]) -> int:
    """An index with probability proportional to its weight, exactly: 64 bits more until the answer is certain for
    every real that begins with them."""
    u, bits = rng.bits(64), 64
    found = settled(*table, u)
    while found is None:
        bits += 64
        if bits > MAX_PRECISION:
            raise Undecided("a draw was not decided")
        u = (u << 64) | rng.bits(64)
        with precision(bits + 64):
            running, cumulative = arb(0), []
            for weight in weights():
                running += weight
                cumulative.append(running)
            found = invert(cumulative, running, u, bits)
    return found


# How many people a small tree needs: certificates for any joint law of records, labels and numbers of records.
#
# Users are independent; ``err(t)`` is the mean over users of the share of their records that tree ``t`` gets wrong,
# ``t*`` the best tree and ``a(t) = err(t) - err(t*)`` the excess.  ``theta`` is the privacy of one vote: epsilon under
# add-remove, half of it under replace.
#
# **Users for an excess.**  With ``e* >= err(t*)`` declared (1 where unknown), ``p = min(e*, (1 - alpha)/2)``, ``f(tau)
# = 1 - (alpha + p)(1 - e**-tau) + p (e**tau - 1)`` and ``Pi_s = sum over trees of prior**s``, the drawn tree has excess
# below ``alpha`` with probability at least ``1 - beta`` for every
#
#     n >= min over 0 < s <= 1 with f(s theta) < 1 of (ln Pi_s + s b(t*) + ln(1/beta)) / -ln f(s theta)
#
# *Proof.*  Let ``X`` be a user's votes against ``t`` less those against ``t*``, as a share: in [-1, 1], ``E X >=
# alpha`` for a bad ``t``.  ``P(t) <= min(1, prior(t)/prior(t*) e**(-theta sum X)) <= (prior(t)/prior(t*))**s e**(-s
# theta sum X)``.  On [0, 1] and on [-1, 0] ``e**(-tau x)`` lies below its chord, so ``E e**(-tau X) <= 1 - E X+ (1 -
# e**-tau) + E X- (e**tau - 1)`` with ``E X+ = E X + E X-``, ``E X- <= e*``, ``E |X| <= 1``: at most ``f(tau)``.
# Independence and the sum over bad trees give ``Pi_s prior(t*)**-s f**n``.  At ``s = 1`` there is no ``ln |H|``: only
# the price of the good tree.  The bound falls with ``n`` and nothing in the law follows ``n``: a certified number stays
# certified.
#
# **More budget never asks for more users.**  Take for ``t*`` a tree of the least prior.  At a fixed ``tau = s theta``
# the power ``s = tau/theta`` falls with ``theta``, and with it ``Pi_s prior(t*)**-s``, the sum of
# ``(prior(t)/prior(t*))**s`` over terms of at least 1; ``f(tau)`` stays.  So the *minimum* over ``s`` falls with
# ``theta``.  A grid of powers breaks this: the best ``tau`` is about ``alpha`` whatever ``theta`` is, and below the
# first step ``theta/64`` once ``theta`` is large.  The minimum is one search: ``ln(Pi_s prior(t*)**-s / beta) + n ln
# f(s theta)`` is convex in ``s`` (sums of exponentials are log-convex; ``f`` is the moment of a law on -1, 0, 1), so
# the powers at which ``n`` users are certified are an interval for every ``n``: the number of users falls and then
# rises with ``s``.
#
# **Two terms.**  With probability at least ``1 - beta`` the excess is at most ``(b(t*) + ln(2/beta))/(theta n) + sqrt(2
# (b_max + ln(2/beta))/n)``: selection, and sampling of users (Hoeffding). Never better than the above: with ``y`` the
# root, ``s = min(1, y/theta)`` certifies it, as ``f(tau) <= exp(tau**2/2 - alpha tau)`` and ``Pi_s <= exp((1 - s)
# b_max)``.
#
# Votes are ``floor(levels/m)`` for each of ``m`` records: with more records than divide ``levels`` the excess that is
# certified grows by ``(m - 1)/levels``, so no more of them are planned to be read (``exact_records``).

_GRID = 64
"""The powers ``s`` of :func:`users_of_tree` are ``1/64, ..., 64/64``."""

_BITS = 128
_STEP, _SPAN, _HALVINGS = 1e-10, 15.0, 40
"""The search over ``ln tau``: a step that tells falling from rising (second order: 1e-20 of the users), how far below,
and how often the range is halved."""


_Power = Callable[[Fraction], arb]
"""``s`` to a ball of the sum of ``prior**s`` over all trees (``TreeShape.power``)."""
_Task = tuple[Fraction, Fraction, Fraction, Fraction]
"""theta, alpha, beta and ``p``."""


def exact_records(levels: int, max_records: int) -> int:
    """The most records, at most ``max_records``, up to which every number of them divides the levels: votes of
    ``floor(levels/m)`` then round nothing off.

    >>> exact_records(720_720, 64), exact_records(720_720, 10)
    (16, 10)
    """
    return next((m - 1 for m in range(1, max_records + 1) if levels % m), max_records)


def users_of_tree(
    power: _Power,
    prior: Fraction,
    *,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    best_error: Rational | None = None,
) -> tuple[int, Fraction]:
    """The least number of users that a power of the grid certifies, and that power; see :func:`certified_users`.

    Parameters
    ----------
    power : ``s`` to a ball of the sum of ``prior**s`` over all trees (``TreeShape.power``).
    prior : that of the good tree; the least of the class where none is named.
    theta : privacy of one vote.
    alpha, beta : excess error, and the probability with which it may be exceeded.
    best_error : an upper bound on the error of the best tree; None where unknown.
    """
    return _users(power, prior, _read(theta, alpha, beta, best_error))


def _read(theta: Rational, alpha: Rational, beta: Rational, best_error: Rational | None) -> _Task:
    a = rational(alpha, "alpha", above=0, maximum=1)
    e = Fraction(1) if best_error is None else rational(best_error, "best_error", minimum=0, maximum=1)
    rate, failure = rational(theta, "theta", above=0), rational(beta, "beta", above=0, below=1)
    return rate, a, failure, min(e, (1 - a) / 2)


@lru_cache(maxsize=512)
def _users(power: _Power, prior: Fraction, task: _Task) -> tuple[int, Fraction]:
    with precision(_BITS):
        tried = {s: _needed(power, prior, task, s) for s in (Fraction(i, _GRID) for i in range(1, _GRID + 1))}
    known = [(_whole(needed), s) for s, needed in tried.items() if needed is not None]
    if not known:
        raise InfeasibleError(
            f"no power on the grid certifies an excess of {task[1]} at this epsilon; ask for a larger excess, declare "
            "best_error, or use certified_users, which tries every power"
        )
    return min(known, key=lambda pair: pair[0])


def _needed(power: _Power, prior: Fraction, task: _Task, s: Fraction) -> arb | None:
    """The number of users that the power ``s`` certifies, before it is rounded up; None if none is."""
    theta, alpha, beta, p = task
    f = moment(s * theta, alpha, p)
    if not (f < 1 and f > 0):
        return None
    return (power(s).log() - as_arb(s) * as_arb(prior).log() - as_arb(beta).log()) / -f.log()


def _whole(needed: arb) -> int:
    return max(1, int(needed.upper().ceil().unique_fmpz()))


def moment(tau: Fraction, alpha: Fraction, p: Fraction) -> arb:
    """``f(tau)``, which bounds the moment ``E e**(-tau X)`` of a bad tree's votes."""
    return 1 - as_arb(alpha + p) * (1 - exp_ball(-tau)) + as_arb(p) * (exp_ball(tau) - 1)


def two_terms_excess(prior: Fraction, least: Fraction, *, theta: Rational, n_users: int, beta: Rational) -> Fraction:
    """The excess that holds with probability ``1 - beta`` for ``n_users`` users, rounded up.

    ``prior`` is that of the good tree, ``least`` the smallest of the class.
    """
    b, t = rational(beta, "beta", above=0, below=1), rational(theta, "theta", above=0)

    def bound() -> arb:
        tail = (2 / as_arb(b)).log()
        selection = (tail - as_arb(prior).log()) / (as_arb(t) * n_users)
        return selection + (2 * (tail - as_arb(least).log()) / n_users).sqrt()

    return up(bound)


def users_by_two_terms(prior: Fraction, least: Fraction, *, theta: Rational, alpha: Rational, beta: Rational) -> int:
    """The least number of users for which the two terms are at most ``alpha``; also for an excess so small that no
    power on the grid serves."""
    a = rational(alpha, "alpha", above=0, maximum=1)

    def enough(n: int) -> bool:
        return two_terms_excess(prior, least, theta=theta, n_users=n, beta=beta) <= a

    high = 1
    while not enough(high):
        high *= 2
    return least_between(enough, high // 2, high)


def certified_users(
    power: _Power,
    least: Fraction,
    *,
    theta: Rational,
    alpha: Rational,
    beta: Rational,
    best_error: Rational | None = None,
) -> int:
    """The least number of users that any power certifies, whichever tree is the best one (``least``: the smallest
    prior): it never rises with ``theta``, ``alpha`` or ``beta``."""
    return _fewest(power, least, _read(theta, alpha, beta, best_error))


@lru_cache(maxsize=512)
def _fewest(power: _Power, least: Fraction, task: _Task) -> int:
    theta, alpha, _, _ = task

    def needed(log_tau: float) -> arb:
        found = _needed(power, least, task, min(Fraction(1), Fraction(math.exp(log_tau)) / theta))
        return arb("inf") if found is None else found

    def rises(log_tau: float) -> bool:
        # Powers beyond all that certify something: to the left.
        return not needed(log_tau + _STEP) < needed(log_tau)

    with precision(_BITS):
        # -ln f is concave, its slope at 0 is alpha, and it has its maximum beyond alpha: the best tau is less than
        # min(theta, alpha) only by about the ratio of the numerators at s = 1 and at s = 0.
        end = math.log(theta)
        low, high = narrow(rises, min(end, math.log(alpha)) - _SPAN, end, middle=half_way, steps=_HALVINGS)
        return min(_whole(found) for found in map(needed, (low, high, end)) if found.is_finite())


CHANCES_OF_SAME_PEOPLE = (
    "the chances were measured on the people the tree was learned from, which it fits a little better than others"
)


@frozen(slots=False)
class RegionPass:
    """What everybody adds to the cells ``labels * region + label`` of a released rule: non-negative integers that sum
    to ``levels``; nothing without records."""

    rule: Rule
    labels: int = 2
    levels: int = TREE_LEVELS

    def zero(self) -> Ints:
        return np.zeros(self.labels * len(self.rule.regions().own), np.int64)

    def chunk(self, users: UserData) -> Ints:
        assert users.labels is not None
        regions = self.rule.region_codes({name: users.codes[name] for name in self.rule.reads})
        cells = (self.labels * regions.astype(np.int64) + users.labels).astype(np.uint8)
        return user_tables(users.offsets, cells, len(self.zero()), self.levels, True, -1)

    def merge(self, a: Ints, b: Ints) -> Ints:
        return a + b


@frozen(slots=False, field_transformer=named)
class SmallTreeLearner(Selection):
    """A tree of at most three questions, drawn from the one law over all of them.

    Parameters
    ----------
    calibrate
        A share of the budget, such as ``"1/5"``, for the chances of its leaves, measured on the same people.

    Notes
    -----
    *Privacy.*  The tree costs ``(1 - calibrate) epsilon``.  The table of its leaves costs ``calibrate epsilon``: a
    person adds non-negative integers of sum at most ``levels`` to the cells (leaf, label), so one person more or less
    moves them by at most ``levels`` in L1, a replaced one by at most ``2 levels``, and the rate of the noise is
    ``calibrate epsilon`` over that, for any number of leaves.  The leaves are those of the released tree: adaptive
    composition.

    Raises
    ------
    ParameterError, TypeError
        A parameter is outside its range, or the class is not one of small trees.

    Examples
    --------
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users(
    ...     [[(30, 0, 0), (80, 1, 1)], [(20, 1, 0)], [(90, 0, 1)]],
    ...     features={"age": Integers(0, 99), "smokes": Integers(0, 1)})
    >>> learner = SmallTreeLearner(SmallTrees(), epsilon=1)
    >>> str(learner.guarantee), learner.law(people).shape.size
    ('(1, 0)-DP per user, add-remove', 832500)
    """

    calibrate: Fraction = field(default=Fraction(0), converter=probability_or_zero)
    scores_rules: ClassVar[bool] = False

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if not isinstance(self.concept, SmallTrees):
            raise TypeError(f"concept must be SmallTrees(...), got {type(self.concept).__name__}")

    @property
    def vote_rate(self) -> Fraction:
        """What one vote counts in the exponent: its share of epsilon / levels, half of it under replace."""
        assert isinstance(self.concept, SmallTrees)
        return self.rate(self.epsilon * (1 - self.calibrate), self.concept.levels)

    @property
    def guarantee(self) -> Guarantee:
        """As zCDP the tree costs an eighth of the square of its share, the noise of the leaves half of it."""
        tree, leaves = self.epsilon * (1 - self.calibrate), self.epsilon * self.calibrate
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=tree**2 / 8 + leaves**2 / 2)

    @property
    def leaf_rate(self) -> Fraction:
        """The rate of the noise on the sums of the leaves."""
        return self.rate(self.epsilon * self.calibrate, TREE_LEVELS)

    def law(self, data: Users) -> SmallTreeLaw:
        """The law over the ids of the class; not offered with ``calibrate``, whose sums have no end."""
        if self.calibrate:
            raise TooLargeError(
                "with calibrate= the release has sums without an end, so its law is not listed; audit the tree without "
                "it, and a discrete Laplace"
            )
        return self._law(self.bind(data))

    def _law(self, bound: Bound) -> SmallTreeLaw:
        concept = bound.concept
        assert isinstance(concept, SmallTrees)
        return SmallTreeLaw(concept.shape, concept.cells(bound.users), self.vote_rate)

    def draw(self, bound: Bound, rng: Rng) -> Released:
        concept = bound.concept
        assert isinstance(concept, SmallTrees)
        tree = self._law(bound).sample(rng)
        shown = {"depth": concept.depth, "levels": concept.levels, "spacing": concept.spacing_words}
        shown["price in nats"] = f"{concept.price(tree):.1f}"
        released = self.release_id(bound, tree, shown, "small tree")
        return self._calibrated(released, bound, rng) if self.calibrate and self.epsilon else released

    def _calibrated(self, released: Released, bound: Bound, rng: Rng) -> Released:
        tree = released.value
        sums = bound.users.fold(RegionPass(tree, len(tree.names) or 2)).tolist()
        noisy = tuple(value + discrete_laplace(self.leaf_rate, rng) for value in sums)
        rule = evolve(tree, leaf_sums=RegionSums(noisy, self.leaf_rate))
        return evolve(released, value=rule, warnings=(*released.warnings, CHANCES_OF_SAME_PEOPLE))
