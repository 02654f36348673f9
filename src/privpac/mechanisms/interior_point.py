"""Private interior points and medians over ordered domains of any size: 64-bit numbers, long strings, integers below
2**65536.

An *interior point* of ``size`` values lies between the smallest and the largest of them; one of the central values of a
larger table is an approximate median.  The plain exponential mechanism (``levels=0``) needs about ``(4/epsilon)
ln(top/beta)`` values and no delta.  Each reduction by a hidden walk (``levels=k``) replaces the domain by the number of
its bits, so that the size grows like ``k**2 log k``, ``k = log*``, instead of ``log`` of the domain (Yan, *VC Dimension
1*, Theorem 6, which names such a median and gives no algorithm; the construction here is our own, with every constant).

What that is worth: for 64-bit numbers the exponential mechanism is right.  One reduction pays from about 140 bits on
(461 values instead of 181 717 at 65536 bits, epsilon 1, delta 1e-6).  A second one would pay beyond 2**165 *bits*,
never for data that fit in a computer; it is there because the theorem asks for it, and ``"auto"`` does not choose it in
practice.

**Guarantee.** ``(epsilon, delta)`` per user, one value each, under add-remove **and** replace: adding, removing or
replacing a user replaces at most one element of the window of ranks ``hi..hi+size-1``
(:func:`~privpac.mechanisms.rank.rank_window`, padded with 0), and the engine is private for one replaced element of
*every* window (:class:`WalkReduction`, :class:`PrefixInteriorPoint`).  The exact ``e**epsilon`` and ``delta`` are
recomputed from the final integers and rounded bases, and refused if they exceed what was asked.
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from math import prod
from typing import Any, Generic, TypeVar

from attrs import evolve, field, frozen
from flint import arb

from privpac.bisection import least_from
from privpac.errors import AccuracyWarning, InfeasibleError, LawError, ParameterError, TooLargeError, Undecided
from privpac.exact import MAX_PRECISION, ExpSum, Rational, as_arb, precision, rational, up
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.law.blocks import BOTTOM, BlockLaw, Bottom, Law
from privpac.law.sampling import invert
from privpac.mechanisms.choosing import choosing_law, choosing_sample
from privpac.mechanisms.rank import clipped, positive_base, rank_law, rank_window
from privpac.parameters import (
    DEFAULT_BETA,
    bounds,
    fraction,
    named,
    privacy,
    probability,
    protected_unit,
    read_epsilon,
    relation,
    whole,
    whole_or_none,
)
from privpac.result import NoRelease, Released
from privpac.rng import Rng, secret_rng
from privpac.special import log1p_exp, log_expm1, log_of

# The hidden walk: a noisy descent of the prefix tree that trades a domain of ``2**b`` values for the ``b + 1`` depths
# of the tree.
#
# From the root, while more than ``T`` values share the prefix, go to the child that is heavier by ``d`` with
# probability
#
#     step(d) = 0                                        for d <= -kappa
#               (r**(kappa+d) - 1) / (2 (r**kappa - 1))  for -kappa <= d <= 0
#               1 - step(-d)                             for 0 <= d <= kappa
#               1                                        for d >= kappa
#
# Every value remembers the depth at which it was left behind.  The
# walk and its stop are never released; the ``T`` deepest entries are dropped, which hides where it stopped.
#
# **Lemma 1.** ``step(d+1) <= r step(d) + delta1`` and the mirror image, ``delta1 = (r - 1)/(2 (r**kappa - 1))``: one
# unit of ``d`` is an ``(ln r, delta1)`` change.  *Proof.* Equality below 0 by definition; for ``d >= 0`` the difference
# is ``(r - 1)(step(d) - step(-d-1)) >= 0``.
#
# **Lemma 2.** Cut the walk as soon as the values common to two neighbours weigh at most ``T``: the laws of this common
# prefix are ``(ln r**(J+1), (J + r) delta1)``-indistinguishable, ``J`` = :func:`active_steps`.  *Proof.* A node decided
# by more than ``kappa`` common values is decided alike; any other halves (weight - kappa), so there are at most ``J``
# of them on any path; where the two values part, ``d`` differs by 2, at the others by at most 1.
#
# **Lemma 3.** Given the common prefix, the windows (``n - T`` shallowest entries without the ``B - 1`` smallest) differ
# in at most one replaced element: whatever the walks do further down happens among entries that are at least as deep,
# and of those all but one are dropped.


MAX_PATHS = 1 << 14
"""How many walks an exact law enumerates at most."""


# Public numbers


def step(d: int, r: Fraction, kappa: int) -> Fraction:
    """The probability of entering the child that is heavier by ``d``.

    >>> [str(step(d, Fraction(2), 3)) for d in range(-3, 4)]
    ['0', '1/14', '3/14', '1/2', '11/14', '13/14', '1']
    """
    if abs(d) >= kappa:
        return Fraction(d > 0)
    p, q, below = r.numerator, r.denominator, kappa - abs(d)
    # Both powers over the common denominator q**kappa.
    lighter = Fraction((p**below - q**below) * q ** abs(d), 2 * (p**kappa - q**kappa))
    return lighter if d <= 0 else 1 - lighter


def step_ball(d: int, r: Fraction, kappa: int) -> arb:
    """``step(d)`` for ``|d| < kappa`` at the working precision, without writing out the powers."""
    if d == 0:
        return arb(1) / 2
    rate = as_arb(r).log()
    lighter = (rate * (kappa - abs(d))).expm1() / (2 * (rate * kappa).expm1())
    return lighter if d < 0 else 1 - lighter


def delta1(r: Fraction, kappa: int) -> Fraction:
    """What one unit of weight may show outside the factor ``r``."""
    return (r - 1) / (2 * (r**kappa - 1))


def active_steps(n: int, T: int, kappa: int) -> int:
    """``J``: how many nodes of one path two neighbours of size ``n`` can decide differently, at most.

    >>> active_steps(451, 264, 197), active_steps(5, 4, 2)
    (2, 0)
    """
    if n - 1 <= T:
        return 0
    # floor(log2(x/y)) = floor(log2(floor(x/y))) for x >= y.
    return ((n - 1 - kappa) // (T + 1 - kappa)).bit_length()


def check_delta_L(level: Level | PairLevel, _: object, delta_L: Fraction) -> None:
    """The choosing stage exists for this delta and base."""
    if delta_L / (1 - delta_L) > level.rL - 1:
        raise InfeasibleError(f"delta too large for epsilon: delta_L must be at most {1 - 1 / level.rL} for this rL")


@frozen(slots=False, field_transformer=named)
class Level:
    """One reduction: ``kappa`` and ``r`` of the walk, ``T`` deepest and ``B - 1`` shallowest entries dropped, then the
    last two stages."""

    kappa: int = field(converter=whole)
    r: Fraction = field(converter=fraction, metadata=bounds(above=1))
    T: int = field(converter=whole)
    B: int = field(converter=whole)
    rL: Fraction = field(converter=fraction, metadata=bounds(above=1))
    delta_L: Fraction = field(converter=probability, validator=check_delta_L)
    rc: Fraction = field(converter=fraction, metadata=bounds(above=1))

    def __attrs_post_init__(self) -> None:
        if self.kappa > self.T:
            raise ParameterError(
                f"T must be at least kappa = {self.kappa}, got {self.T}: a stop above kappa keeps one-sided nodes "
                "certain"
            )

    @property
    def stage(self) -> tuple[Fraction, Fraction, Fraction]:
        """What the last two stages need."""
        return self.rL, self.delta_L, self.rc

    def inner_size(self, n: int) -> int:
        """The size of the window that a multiset of ``n`` values leaves."""
        return n - self.T - (self.B - 1)

    def factor(self, n: int) -> Fraction:
        """``e**epsilon`` of this reduction for one replaced element of ``n``, exactly."""
        steps = active_steps(n, self.T, self.kappa)
        return self.rL**2 * self.rc**2 * (self.r ** (steps + 1) if steps else 1)

    def delta(self, n: int) -> Fraction:
        """``delta`` of this reduction for one replaced element of ``n``, exactly."""
        steps = active_steps(n, self.T, self.kappa)
        return self.delta_L + ((steps + self.r) * delta1(self.r, self.kappa) if steps else 0)

    def delta_up(self, n: int) -> Fraction:
        """:meth:`delta`, rounded up without writing out ``r**kappa``."""
        steps = active_steps(n, self.T, self.kappa)
        if not steps:
            return self.delta_L
        gap = (self.r + steps) * (self.r - 1) / 2
        walk = up(lambda: as_arb(gap) / (as_arb(self.r).log() * self.kappa).expm1())
        return self.delta_L + walk


# The walk


def branch(values: Sequence[int], a: int, b: int, bits: int) -> tuple[int, int] | None:
    """Where the sorted slice ``values[a:b]`` first splits: (depth, start of the right half); None if all are equal."""
    first, last = values[a], values[b - 1]
    if first == last:
        return None
    rest = (first ^ last).bit_length() - 1
    return bits - rest - 1, bisect_left(values, (last >> rest) << rest, a, b)


def walk(values: Sequence[int], bits: int, T: int, goes_left: Callable[[int], bool]) -> list[int]:
    """Depths at which values were left behind, shallowest first; ``values`` sorted, ``goes_left(d)`` decides a node.

    Only branching nodes are visited: at a one-sided node ``|d|`` is the whole weight, above ``T >= kappa``, and the
    step is certain.
    """
    a, b = 0, len(values)
    fallen: list[int] = []
    while b - a > T:
        node = branch(values, a, b, bits)
        if node is None:
            return fallen + [bits] * (b - a)
        depth, middle = node
        if goes_left(2 * middle - a - b):
            fallen += [depth] * (b - middle)
            b = middle
        else:
            fallen += [depth] * (middle - a)
            a = middle
    return fallen


def coin(level: Level, rng: Rng) -> Callable[[int], bool]:
    """Fresh secret coins with probability exactly ``step``: bits are drawn until a ball decides; certain steps draw
    nothing."""

    def goes_left(d: int) -> bool:
        if abs(d) >= level.kappa:
            return d > 0
        u, bits = 0, 0
        while bits < MAX_PRECISION:
            u, bits = (u << 64) | rng.bits(64), bits + 64
            with precision(bits + 64):
                side = invert([step_ball(d, level.r, level.kappa), arb(1)], arb(1), u, bits)
            if side is not None:
                return side == 0
        raise Undecided("a draw was not decided")

    return goes_left


def walk_paths(values: Sequence[int], bits: int, level: Level) -> list[tuple[tuple[int, ...], Fraction]]:
    """Every possible list of depths with its probability (curator only: the number of walks depends on the data)."""
    out: list[tuple[tuple[int, ...], Fraction]] = []
    open_: list[tuple[int, int, tuple[int, ...], Fraction]] = [(0, len(values), (), Fraction(1))]
    while open_:
        a, b, fallen, share = open_.pop()
        node = branch(values, a, b, bits) if b - a > level.T else None
        if node is None:
            out.append((fallen if b - a <= level.T else fallen + (bits,) * (b - a), share))
        else:
            depth, middle = node
            left = step(2 * middle - a - b, level.r, level.kappa)
            if left > 0:
                open_.append((a, middle, fallen + (depth,) * (b - middle), share * left))
            if left < 1:
                open_.append((middle, b, fallen + (depth,) * (middle - a), share * (1 - left)))
        if len(out) + len(open_) > MAX_PATHS:
            raise LawError(
                f"more than {MAX_PATHS} walks: this law is not written out; sample instead, or use fewer values"
            )
    return out


def kept_law(values: Sequence[int], bits: int, level: Level) -> dict[tuple[int, ...], Fraction]:
    """The law of the ``n - T`` shallowest entries.

    Exactly ``T`` are dropped, however many values were still together at the stop: this is the step that hides the
    stop.
    """
    out: dict[tuple[int, ...], Fraction] = {}
    for fallen, share in walk_paths(values, bits, level):
        kept = fallen[: len(values) - level.T]
        out[kept] = out.get(kept, Fraction(0)) + share
    return out


# From a depth to a point: the last two stages that every reduction of the interior-point problem shares.
#
# Given sorted values of ``bits`` bits and a depth ``z``, choose a ``z``-bit prefix ``L`` held by many values (choosing
# mechanism), then one of the points ``L0...0``, ``L10...0``, ``L1...1`` (only ``L`` if ``z = bits``), each cut at
# ``top``, by the exponential mechanism with score ``u(c) = min(#{x <= c}, #{x >= c})``.
#
# **Guarantee.** For one replaced value: one vote moves, so ``L`` is ``(ln rL**2, delta_L)``; given ``L`` every ``u``
# moves by at most 1, so the point is ``(ln rc**2, 0)``.  The candidates depend on the data through ``L`` and ``z``
# only.


_Outcome = int | Bottom
"""A point, or ``BOTTOM`` where the choosing mechanism abstained."""


def prefix_votes(values: Sequence[int], bits: int, z: int) -> dict[int, int]:
    """How many values have each ``z``-bit prefix."""
    return dict(Counter(x >> (bits - z) for x in values))


def candidates(prefix: int, z: int, bits: int, top: int) -> list[int]:
    """Both ends and the start of the right half of the prefix's block, cut at ``top``."""
    rest = bits - z
    if rest == 0:
        return [prefix]
    low = prefix << rest
    return sorted({min(c, top) for c in (low, low | 1 << (rest - 1), low | ((1 << rest) - 1))})


def interior_score(values: Sequence[int], point: int) -> int:
    """``u``: how many of the sorted values lie on the thinner side of the point, itself included."""
    return min(bisect_right(values, point), len(values) - bisect_left(values, point))


def point_law(values: Sequence[int], points: list[int], rc: Fraction) -> BlockLaw:
    """The exponential mechanism on the few points, ``values`` sorted."""
    law = Law.from_blocks(points, points, [-interior_score(values, c) for c in points], base=rc)
    assert isinstance(law, BlockLaw)
    return law


def point_sample(
    values: Sequence[int], bits: int, top: int, z: int, stage: tuple[Fraction, Fraction, Fraction], rng: Rng
) -> _Outcome:
    """One exact draw; ``stage`` is ``(rL, delta_L, rc)``."""
    rL, delta_L, rc = stage
    prefix = choosing_sample(prefix_votes(values, bits, z), rL, delta_L, rng=rng)
    if not isinstance(prefix, int):
        return BOTTOM
    return int(point_law(values, candidates(prefix, z, bits, top), rc).sample(rng))


# Exact laws, for the curator and for audits


def interior_masses(values: Sequence[int], points: Iterable[int], base: Fraction) -> dict[_Outcome, Fraction]:
    """``base**u`` over the points, normalised in integers."""
    scores = {c: interior_score(values, c) for c in points}
    low, high = min(scores.values()), max(scores.values())
    weights = {c: base.numerator ** (u - low) * base.denominator ** (high - u) for c, u in scores.items()}
    total = sum(weights.values())
    return {c: Fraction(w, total) for c, w in weights.items()}


def point_masses(
    values: Sequence[int], bits: int, top: int, z: int, stage: tuple[Fraction, Fraction, Fraction]
) -> dict[_Outcome, Fraction]:
    """The law that :func:`point_sample` draws from."""
    rL, delta_L, rc = stage
    chosen = choosing_law(prefix_votes(values, bits, z), rL, delta_L)
    parts: list[tuple[Fraction, dict[_Outcome, Fraction]]] = [(chosen.prob_exact(BOTTOM), {BOTTOM: Fraction(1)})]
    for block, number in chosen.blocks:
        share = number.exact
        assert share is not None  # rational bases
        parts.append((share, interior_masses(values, candidates(block.start, z, bits, top), rc)))
    return mixture_of(parts)


def mixture_of(parts: Iterable[tuple[Fraction, dict[_Outcome, Fraction]]]) -> dict[_Outcome, Fraction]:
    """``sum of share * law``."""
    out: dict[_Outcome, Fraction] = {}
    for share, law in parts:
        for value, p in law.items():
            out[value] = out.get(value, Fraction(0)) + share * p
    return out


def at_depths(masses: dict[_Outcome, Fraction]) -> dict[int, Fraction]:
    """Below the top of a recursion an abstention stands for depth 0."""
    out: dict[int, Fraction] = {}
    for z, share in masses.items():
        place = 0 if isinstance(z, Bottom) else z
        out[place] = out.get(place, Fraction(0)) + share
    return out


# Interior points by hidden walks: ``k`` reductions of the domain, then the exponential mechanism.
#
# Each reduction replaces the ``n`` values by the depths of a hidden walk, finds a depth between two of those
# recursively, and names a point from the depth. Without reductions left, ``Pr[c]`` over ``0..top`` is proportional to
# ``rz**u(c)``, ``u(c) = min(#{x <= c}, #{x >= c})``.
#
# **Guarantee.** For every multiset of ``size`` values and one of them replaced
#
#     e**epsilon = rz**2 * product over levels of r**(J+1) rL**2 rc**2
#     delta      = sum over levels of (J + r) delta1(r, kappa) + delta_L
#
# (the terms of ``J`` vanish where ``J = 0``).  *Proof.* Induction on the levels.  None: ``|u - u'| <= 1``.  One more:
# compare the joint laws of (common prefix of the walk, depth, prefix, point): Lemma 2, then Lemma 3 with the induction
# hypothesis (mixing over the walk's further coins), then the two stages; adaptive basic composition.


_L = TypeVar("_L", covariant=True)
MAX_LAW_WORK = 1 << 20
"""Largest ``size * depths`` for which an exact law is written out; judged from public numbers."""


def _levels(levels: Iterable[Level]) -> tuple[Level, ...]:
    return tuple(levels)


@frozen(slots=False, field_transformer=named)
class WalkReduction:
    """An interior point of ``size`` values in ``0..top`` by the given levels, outermost first.

    >>> point = WalkReduction((Level(3, 2, 3, 1, "5/4", "1/100", "9/8"),), "9/8", top=7, size=6)
    >>> point.multiplicative, point.delta
    (Fraction(164025, 8192), Fraction(207, 700))
    >>> sum(point.masses([0, 1, 4, 4, 6, 7]).values())
    Fraction(1, 1)
    """

    levels: tuple[Level, ...] = field(converter=_levels)
    rz: Fraction = field(converter=fraction, metadata=bounds(above=1))
    top: int = field(repr=False, converter=whole)
    size: int = field(converter=whole)

    def __attrs_post_init__(self) -> None:
        if not all(isinstance(level, Level) for level in self.levels):
            raise TypeError("levels must be Level objects, outermost first")
        left = self.size
        for level in self.levels:
            left = level.inner_size(left)
        if left < 1:
            needed = self.size + 1 - left
            raise ParameterError(
                f"the levels drop more values than there are: size must be at least {needed}, got {self.size}"
            )

    # Public numbers

    @property
    def bits(self) -> int:
        return self.top.bit_length()

    @cached_property
    def inner(self) -> WalkReduction:
        """The problem left after one reduction: depths instead of values."""
        return WalkReduction(self.levels[1:], self.rz, self.bits, self.levels[0].inner_size(self.size))

    @property
    def multiplicative(self) -> Fraction:
        """``e**epsilon`` of the guarantee, exactly."""
        return self.levels[0].factor(self.size) * self.inner.multiplicative if self.levels else self.rz**2

    @property
    def delta(self) -> Fraction:
        """``delta`` of the guarantee, exactly."""
        return self.levels[0].delta(self.size) + self.inner.delta if self.levels else Fraction(0)

    @property
    def delta_up(self) -> Fraction:
        """``delta``, rounded up: cheap also where ``r**kappa`` has millions of bits."""
        return self.levels[0].delta_up(self.size) + self.inner.delta_up if self.levels else Fraction(0)

    # Draws

    def sample(self, values: Sequence[int], rng: Rng | None = None) -> _Outcome:
        """A point from ``size`` sorted values in ``0..top``, or ``BOTTOM``."""
        source = secret_rng(rng)
        if not self.levels:
            return int(self._exponential(values).sample(source))
        level = self.levels[0]
        kept = walk(values, self.bits, level.T, coin(level, source))[: self.size - level.T]
        z = self.inner.sample(kept[level.B - 1 :], source)
        return point_sample(values, self.bits, self.top, 0 if isinstance(z, Bottom) else z, level.stage, source)

    def _exponential(self, values: Sequence[int]) -> Law:
        # u up to the constant 1, which no law sees.
        return rank_law(values, 1, self.size - 1, self.top, self.rz)

    # Laws, for the curator and for audits

    def law(self, values: Sequence[int]) -> Law:
        """The exact law of :meth:`sample`."""
        if not self.levels:
            return self._exponential(values)
        if (self.bits + 1) * self.size > MAX_LAW_WORK:
            raise TooLargeError(
                f"{self.size} values of {self.bits} bits: an exact law is written out only while their product is at "
                f"most {MAX_LAW_WORK}; "
                "use sample, or levels=0"
            )
        return Law.from_weights(list(self.masses(values).items()))

    def masses(self, values: Sequence[int]) -> dict[_Outcome, Fraction]:
        """Probability of every outcome, as rationals; without levels every point of ``0..top`` is listed."""
        if not self.levels:
            if self.top >= MAX_LAW_WORK:
                raise TooLargeError(
                    f"a domain of {self.bits} bits is too large to list point by point; use law, which keeps blocks"
                )
            return interior_masses(values, range(self.top + 1), self.rz)
        level = self.levels[0]
        windows = kept_law(values, self.bits, level)
        depths = mixture_of((share, self.inner.masses(kept[level.B - 1 :])) for kept, share in windows.items())
        return mixture_of(
            (share, point_masses(values, self.bits, self.top, z, level.stage)) for z, share in at_depths(depths).items()
        )


# Public parameters of hidden-walk interior points: how many values are needed, and which integers and bases to use.
#
# Conditions for a level with window size ``m`` (``n = m + T + B - 1``), innermost domain ``0..D`` and innermost size
# ``m_z``:
#
#     (a)  D rz**-ceil(m_z/2) <= beta_z
#     (b)  2 rc**-c <= beta_c
#     (c)  B = 2c - 1
#     (d)  T >= 2c + kappa - 2  and  T >= kappa
#     (e)  a/(a + w(T+1)) <= beta_L,  w(q) = delta0 (rL**q - 1)/(rL - 1),  a = 1 + n w(c-1)/(c-1)
#
# **Accuracy.** Under (a)-(e) the point lies outside ``[min, max]`` with probability at most ``beta_z + sum of (beta_L +
# beta_c)``, for every multiset of ``n`` values.  *Proof.* (a) puts the depth ``z`` between two depths of the window.
# Then at least ``B`` values were left at or above ``z`` and the walk reached ``z`` with at least ``T + 1`` values
# together, whose taken half holds at least ``c`` by (d).  (e) yields a prefix with at least ``c`` values; by counting
# left, right and half not taken (at least ``2c - 1`` together), one of the three points has ``c`` values on both sides,
# and (b) keeps points without values on one side away.
#
# Conditions are judged in double precision with the rounded bases that will be used, moved outward by ``_SLACK``;
# privacy is recomputed exactly from the final integers (:class:`~privpac.mechanisms.interior_point.InteriorPoint`).
# Any parameters are private; the search over five shares of the budgets only looks for few values.


_SLACK = 1e-9
"""Relative outward rounding of every condition, far above the error of doubles."""

MAX_ACTIVE = 11
_PREFIX = 1 / 8
"""Share of a level's beta for the prefix: (e) is rarely the condition that binds, (b) always costs."""

Real = Fraction | float


@frozen(slots=False)
class InteriorPlan(Generic[_L]):
    """Levels (outermost first), innermost base, number of values, and the failure probability they certify."""

    levels: tuple[_L, ...]
    rz: Fraction
    size: int
    beta: Fraction
    needed: int
    """The least size that this planner certifies for the failure probability asked."""


# Logarithms of public numbers


@lru_cache(maxsize=4096)
def base_of(exponent: Real) -> Fraction:
    """The base of a share of epsilon, rounded down."""
    return positive_base(Fraction(exponent), "epsilon")


def log_domain(bits: int, top: int | None, reductions: int) -> float:
    """``ln D`` of the innermost domain ``0..D``: values, depths, depths of depths ..."""
    if reductions == 0:
        return bits * math.log(2) if top is None else math.log(top)
    domain = bits
    for _ in range(reductions - 1):
        domain = domain.bit_length()
    return math.log(domain)


def voters(log_ratio: float, rate: float) -> int:
    """The least integer ``q >= 1`` with ``q * rate >= log_ratio``, rounded up safely."""
    return max(1, math.ceil(log_ratio / rate * (1 + _SLACK)))


def choosing_depth(size: Callable[[int], int], c: int, rate: float, delta: float, beta: float, start: int) -> int:
    """Condition (e): the least ``q >= start`` such that, with ``q`` votes on top among ``size(q)``, fewer than ``c``
    are chosen with probability at most ``beta``.

    Monotone: ``w(q)/q`` grows with ``q``, and ``a/size`` does not grow.
    """
    # ln w(q) = scale + ln(rL**q - 1)
    scale = math.log(delta) - math.log1p(-delta) - log_expm1(rate)
    odds = math.log1p(-beta) - math.log(beta) + _SLACK
    share = scale + log_expm1(rate * (c - 1)) - math.log(c - 1) if c > 1 else -math.inf

    def holds(q: int) -> bool:
        b = share + math.log(size(q))
        a = log1p_exp(b)
        return scale + log_expm1(rate * q) >= a + odds

    return least_from(holds, start)


# One plan for given shares


@frozen(slots=False)
class InteriorBudget:
    """What to spend: epsilon, delta and beta in total, on an innermost domain of logarithm ``log_top``, over
    ``reductions`` levels."""

    epsilon: Real
    delta: Real
    beta: Real
    log_top: float
    reductions: int

    @property
    def rough(self) -> InteriorBudget:
        """The same in doubles: enough to search with, and faster."""
        return evolve(self, epsilon=float(self.epsilon), delta=float(self.delta), beta=float(self.beta))


_Shares = tuple[int, ...]
"""In thousandths: epsilon of the innermost choice; of the rest, walk and prefix; beta of the innermost choice; delta of
the walk."""

_Rate = Callable[[Real], float]
"""From an exponent to the logarithm of the base that is used for it: the exponent itself while searching, rounded in
the end."""


def exact_rate(exponent: Real) -> float:
    """The logarithm of the rounded base."""
    return log_of(base_of(exponent))


@frozen(slots=False)
class _Spent:
    """The budgets of one level."""

    eps_z: Real
    walk: Real
    prefix: Real
    point: Real
    delta_walk: Real
    delta_L: Real

    @staticmethod
    def of(budget: InteriorBudget, shares: _Shares) -> _Spent:
        z, walk, prefix, _, delta = shares
        k = budget.reductions
        rest, each = budget.epsilon * (1000 - z) / (1_000_000 * k), budget.delta / (1000 * k)
        eps_z, point = budget.epsilon * z / 1000, rest * (1000 - walk - prefix)
        return _Spent(eps_z, rest * walk, rest * prefix, point, each * delta, each * (1000 - delta))


@frozen(slots=False)
class _Numbers:
    """Integers of a plan; stops are ``(T, J, kappa)``, innermost first."""

    size: int
    B: int
    stops: list[tuple[int, int, int]]


def _numbers(budget: InteriorBudget, shares: _Shares, rate: _Rate, innermost: int = 1) -> _Numbers:
    """The least integers for these shares, with an innermost window of at least ``innermost`` values."""
    spent, beta = _Spent.of(budget, shares), float(budget.beta) * (1 - _SLACK)
    beta_z = beta * shares[3] / 1000
    beta_each = (beta - beta_z) / budget.reductions
    beta_c, beta_L = beta_each * (1 - _PREFIX), beta_each * _PREFIX
    m = max(innermost, 2 * voters(budget.log_top - math.log(beta_z), rate(spent.eps_z / 2)) - 1)
    prefix, delta_walk, delta_L = rate(spent.prefix / 2), float(spent.delta_walk) * (1 - _SLACK), float(spent.delta_L)
    delta_L = min(delta_L, -math.expm1(-prefix))
    c = voters(math.log(2 / beta_c), rate(spent.point / 2))
    # Walks of J active steps, whatever the window: (kappa, J).
    kinds = [(_kappa(rate(spent.walk / (J + 1)), J, delta_walk), J) for J in range(1, MAX_ACTIVE + 1)]
    stops: list[tuple[int, int, int]] = []
    for _ in range(budget.reductions):
        others = m + 2 * c - 3
        # (e) does not depend on the walk: T + 1 votes on top among n = m + T + B - 1.
        deep = choosing_depth(lambda q, others=others: others + q, c, prefix, delta_L, beta_L, 2 * c) - 1  # type: ignore[misc]
        stops.append(min((_stop(m + 2 * c - 2, c, deep, J, kappa), J, kappa) for kappa, J in kinds))
        m += stops[-1][0] + 2 * c - 2
    return _Numbers(m, 2 * c - 1, stops)


def _kappa(rate: float, J: int, delta: float) -> int:
    """The least ``kappa`` with ``(J + r) delta1(r, kappa) <= delta``: ``r**kappa - 1 >= (r - 1)(J + r)/(2 delta)``."""
    goal = log_expm1(rate) + rate + math.log1p(J * math.exp(-rate)) - math.log(2 * delta)
    return max(1, math.ceil(log1p_exp(goal) / rate * (1 + _SLACK)))


def _stop(others: int, c: int, deep: int, J: int, kappa: int) -> int:
    """The least ``T`` with (d), (e) and no more than ``J`` active steps: ``n - 1 - kappa < 2**J (T + 1 - kappa)``, ``n
    = others + T``."""
    halvings: int = 1 << J
    linear = (others - 1 - kappa + (kappa - 1) * halvings) // (halvings - 1) + 1
    return max(2 * c + kappa - 2, kappa, deep, linear)


def _build(budget: InteriorBudget, shares: _Shares, innermost: int = 1) -> InteriorPlan[Level]:
    """The least plan for these shares, with the rounded bases that will be used."""
    spent, found = _Spent.of(budget, shares), _numbers(budget, shares, exact_rate, innermost)
    rL, rc = base_of(spent.prefix / 2), base_of(spent.point / 2)
    delta_L = min(Fraction(spent.delta_L), 1 - 1 / rL)  # more would not be private with this base
    levels = [
        Level(kappa, base_of(spent.walk / (J + 1)), T, found.B, rL, delta_L, rc)
        for T, J, kappa in reversed(found.stops)
    ]
    return InteriorPlan(tuple(levels), base_of(spent.eps_z / 2), found.size, Fraction(budget.beta), found.size)


# Searching shares


def _starts(reductions: int) -> tuple[_Shares, ...]:
    return (
        (400 // reductions, 370, 230, 220, 850),
        (600 // reductions, 300, 250, 120, 950),
        (500 // reductions, 350, 230, 250, 800),
    )


def search(
    cost: Callable[[_Shares], float], starts: tuple[_Shares, ...], allowed: Callable[[_Shares], bool]
) -> _Shares:
    """Coordinate search from each start, two shares at a time, steps from 8 to 0.5 percent; deterministic."""
    found: list[tuple[float, _Shares]] = []
    for start in starts:
        here = (cost(start), start)
        for step in (80, 40, 20, 10, 5):
            moved = True
            while moved:
                best = min(((cost(s), s) for s in _near(here[1], step) if allowed(s)), default=here)
                moved = best[0] < here[0]
                here = best if moved else here
        found.append(here)
    return min(found)[1]


def _near(shares: _Shares, step: int) -> Iterator[_Shares]:
    """One share up or down, alone or with another one."""
    for i in range(len(shares)):
        for change in (-step, step):
            one = shares[:i] + (shares[i] + change,) + shares[i + 1 :]
            yield one
            for j in range(i):
                for other in (-step, step):
                    yield one[:j] + (one[j] + other,) + one[j + 1 :]


@lru_cache(maxsize=256)
def _best_shares(budget: InteriorBudget) -> _Shares:
    rough = budget.rough

    def allowed(shares: _Shares) -> bool:
        z, walk, prefix, beta, delta = shares
        return min(shares) >= 5 and max(z, walk + prefix, beta, delta) <= 995

    return search(lambda shares: _numbers(rough, shares, float).size, _starts(budget.reductions), allowed)


def rough_size(budget: InteriorBudget) -> int:
    """The size at the first shares of the search: at most twice the least one in all plans tried."""
    return _numbers(budget.rough, _starts(budget.reductions)[0], float).size


# Plans


def plan_walk(budget: InteriorBudget, size: int | None = None) -> InteriorPlan[Level]:
    """The least certified plan, or the plan for ``size`` values: the surplus certifies nothing more, a lack certifies
    less."""
    if budget.reductions == 0:
        base, beta = base_of(budget.epsilon / 2), Fraction(budget.beta)
        needed = 2 * voters(budget.log_top - math.log(float(beta) * (1 - _SLACK)), log_of(base)) - 1
        if size is not None and size < needed:
            beta = Fraction(
                min(1.0, math.exp(min(0.0, budget.log_top - (size + 1) // 2 * log_of(base))) * (1 + _SLACK))
            )
        return InteriorPlan((), base, needed if size is None else size, beta, needed)
    shares = _best_shares(budget)
    plan = _build(budget, shares)
    if size is None or size == plan.size:
        return plan
    if size < plan.size:
        budget = relaxed(budget, size, lambda weaker: _build(weaker, shares).size)
    # The surplus goes to the innermost window; what that leaves over makes the outermost walk stop earlier, which no
    # condition minds.
    over = least_from(lambda m: _build(budget, shares, m).size > size, 1)
    wide = _build(budget, shares, over - 1)
    outer = evolve(wide.levels[0], T=wide.levels[0].T + size - wide.size)
    return InteriorPlan((outer, *wide.levels[1:]), wide.rz, size, wide.beta, plan.size)


_WEAKEST = Fraction(999, 1000)


def relaxed(budget: InteriorBudget, size: int, needed: Callable[[InteriorBudget], int]) -> InteriorBudget:
    """The same budget with the least failure probability (on a grid of 64) that ``size`` values certify."""

    def weaker(i: int) -> InteriorBudget:
        share = i / 64
        return evolve(budget, beta=Fraction(float(budget.beta) ** (1 - share) * float(_WEAKEST) ** share))

    if needed(weaker(64)) > size:
        raise InfeasibleError(
            f"levels={budget.reductions} needs at least {needed(weaker(64))} values even for failure probability "
            f"{float(_WEAKEST)}, "
            f"and {needed(budget)} for the one asked; got size = {size}: use levels=0, or more values"
        )
    return weaker(least_from(lambda i: needed(weaker(i)) <= size, 1))


# Interior points by random pairs: the common prefix lengths of a random matching stand for the values.
#
# ``n`` values (``n`` even) of ``b`` bits are put in random order and paired; ``z_j`` is the common prefix length of
# pair ``j``.  A depth ``z`` with at least ``A`` of the ``z_j`` at or below it in the tree and at least ``B`` at or
# above is found privately, at the last level by the score ``min(#{z_j >= z} - A, #{z_j <= z} - B)`` and base ``rz``,
# before it by recursion on the sorted ``z_j`` without the ``A - 1`` largest and ``B - 1`` smallest; then a point is
# named from the depth.
#
# **Guarantee.** For one replaced value ``e**epsilon = rz**2 * product of rL**2 rc**2``, ``delta = sum of delta_L``.
# *Proof.* Match the orders of two neighbours by keeping common values in place: one ``z_j`` is replaced, hence at most
# one element of the window and each count by at most 1; induct, then the two stages; adaptive basic composition and
# joint convexity over the order.
#
# Every reduction halves the number of values, so ``k`` of them cost ``2**k``: the hidden walk (``engine="walk"``) needs
# fewer values and is the default.


MAX_MATCHINGS = 1 << 14
"""How many matchings an exact law averages over at most: 12 values."""


@frozen(slots=False, field_transformer=named)
class PairLevel:
    """One reduction: ``A`` and ``B`` bound the depth from both sides, then the bases of the last stages."""

    A: int = field(converter=whole)
    B: int = field(converter=whole)
    rL: Fraction = field(converter=fraction, metadata=bounds(above=1))
    delta_L: Fraction = field(converter=probability, validator=check_delta_L)
    rc: Fraction = field(converter=fraction, metadata=bounds(above=1))

    @property
    def stage(self) -> tuple[Fraction, Fraction, Fraction]:
        return self.rL, self.delta_L, self.rc

    def inner_size(self, n: int, *, last: bool) -> int:
        """How many depths are left of ``n`` values; an even number where they are paired again."""
        left = n // 2 - (self.A - 1) - (self.B - 1)
        return left if last else left - left % 2


def _pair_levels(levels: Iterable[PairLevel]) -> tuple[PairLevel, ...]:
    return tuple(levels)


@frozen(slots=False, field_transformer=named)
class PrefixInteriorPoint:
    """An interior point of an even number ``size`` of values in ``0..top`` by the given levels, outermost first.

    >>> level = PairLevel(1, 1, "41/32", "1/100", "357/256")
    >>> point = PrefixInteriorPoint((level,), "39/32", top=3, size=4)
    >>> point.law([3, 1, 0, 3], given=((0, 1, 2, 3),)).prob_exact(1)
    Fraction(77383182848, 11981218673845)
    """

    levels: tuple[PairLevel, ...] = field(converter=_pair_levels)
    rz: Fraction = field(converter=fraction, metadata=bounds(above=1))
    top: int = field(repr=False, converter=whole)
    size: int = field(converter=whole, metadata=bounds(minimum=2))

    def __attrs_post_init__(self) -> None:
        if not self.levels or not all(isinstance(level, PairLevel) for level in self.levels):
            raise TypeError("levels must be one or more PairLevel objects, outermost first")
        if self.size % 2:
            raise ParameterError(f"size must be even, got {self.size}: values are paired")
        left = self.size
        for i, level in enumerate(self.levels):
            left = level.inner_size(left, last=i == len(self.levels) - 1)
            if left < 1:
                raise ParameterError(f"the levels drop more pairs than there are: {self.size} values are too few")

    # Public numbers

    @property
    def bits(self) -> int:
        return self.top.bit_length()

    @cached_property
    def inner(self) -> PrefixInteriorPoint:
        """The problem left after one of several reductions: depths instead of values."""
        return PrefixInteriorPoint(
            self.levels[1:], self.rz, self.bits, self.levels[0].inner_size(self.size, last=False)
        )

    @property
    def multiplicative(self) -> Fraction:
        """``e**epsilon`` of the guarantee, exactly."""
        return self.rz**2 * prod((level.rL**2 * level.rc**2 for level in self.levels), start=Fraction(1))

    @property
    def delta(self) -> Fraction:
        return sum((level.delta_L for level in self.levels), Fraction(0))

    @property
    def delta_up(self) -> Fraction:
        return self.delta

    # Pairs

    def _depths(self, values: Sequence[int], pairs: Sequence[tuple[int, int]]) -> list[int]:
        """Common prefix lengths, ascending."""
        return sorted(self.bits - (values[i] ^ values[j]).bit_length() for i, j in pairs)

    def _window(self, depths: list[int]) -> list[int]:
        level, kept = self.levels[0], self.inner.size
        return depths[level.B - 1 : level.B - 1 + kept]

    def _choose(self, depths: list[int]) -> Law:
        level = self.levels[0]
        return rank_law(depths, level.A, len(depths) - level.B, self.bits, self.rz)

    # Draws

    def sample(self, values: Sequence[int], rng: Rng | None = None) -> _Outcome:
        """A point from ``size`` values in ``0..top``, or ``BOTTOM``."""
        source = secret_rng(rng)
        order = list(range(self.size))
        for i in range(self.size - 1, 0, -1):
            j = source.below(i + 1)
            order[i], order[j] = order[j], order[i]
        depths = self._depths(values, list(zip(order[::2], order[1::2])))
        z = (
            self._choose(depths).sample(source)
            if len(self.levels) == 1
            else self.inner.sample(self._window(depths), source)
        )
        return point_sample(
            sorted(values), self.bits, self.top, 0 if isinstance(z, Bottom) else z, self.levels[0].stage, source
        )

    # Laws, for the curator and for audits

    def law(self, values: Sequence[int], *, given: Sequence[Sequence[int]] | None = None) -> Law:
        """The exact law of :meth:`sample`: averaged over all matchings, or for the orders ``given``, one for each
        level.

        An order lists places of ``values`` (below the first level, places of the sorted window); places 0 and 1 of it
        are paired.
        """
        return Law.from_weights(list(self.masses(values, given).items()))

    def masses(self, values: Sequence[int], given: Sequence[Sequence[int]] | None = None) -> dict[_Outcome, Fraction]:
        """Probability of every outcome, as rationals."""
        ordered, depths = sorted(values), at_depths(self._depth_masses(values, given))
        return mixture_of(
            (p, point_masses(ordered, self.bits, self.top, z, self.levels[0].stage)) for z, p in depths.items()
        )

    def _depth_masses(self, values: Sequence[int], given: Sequence[Sequence[int]] | None) -> dict[_Outcome, Fraction]:
        drawn = Counter(tuple(self._depths(values, pairs)) for pairs in self._matchings(given))
        total = drawn.total()
        if len(self.levels) == 1:
            laws = [(Fraction(n, total), self._choose(list(depths))) for depths, n in drawn.items()]
            places = range(self.bits + 1)
            return mixture_of((share, {z: law.prob_exact(z) for z in places}) for share, law in laws)
        rest = None if given is None else given[1:]
        return mixture_of(
            (Fraction(n, total), self.inner.masses(self._window(list(depths)), rest)) for depths, n in drawn.items()
        )

    def _matchings(self, given: Sequence[Sequence[int]] | None) -> Iterator[list[tuple[int, int]]]:
        if given is None:
            if prod(range(1, self.size, 2)) > MAX_MATCHINGS:
                raise TooLargeError(
                    f"{self.size} values have more than {MAX_MATCHINGS} matchings; pass law(values, given=orders), or "
                    "use sample"
                )
            return matchings(list(range(self.size)))
        if len(given) != len(self.levels) or sorted(given[0]) != list(range(self.size)):
            raise ParameterError(
                f"given must hold {len(self.levels)} orders, the first one of the places 0..{self.size - 1}"
            )
        return iter([list(zip(given[0][::2], given[0][1::2]))])


def matchings(places: list[int]) -> Iterator[list[tuple[int, int]]]:
    """All ways to pair up an even number of places."""
    if not places:
        yield []
        return
    first, rest = places[0], places[1:]
    for i, other in enumerate(rest):
        for pairs in matchings(rest[:i] + rest[i + 1 :]):
            yield [(first, other), *pairs]


# Public parameters of interior points by random pairs.
#
# For one level of ``n`` values
#
#     2 rc**-c <= beta_c,  B = 2c - 1
#     a/(a + w(q)) <= beta_L, for the least q >= c                 (condition (e) of hidden walks)
#     A = floor(n (q-2)/(2 (n-1)) + sqrt(n ln(1/beta_p))) + 1
#     D rz**-ceil(m/2) <= beta_z, for the last window of m depths in 0..D
#
# **Accuracy.** Failure at most ``beta_z + sum of (beta_p + beta_L + beta_c)``.  *Proof.* Below the deepest level at
# which some prefix holds ``q`` values, groups have at most ``q - 1``; the number of agreeing pairs has mean at most ``n
# (q-2)/(2 (n-1))``.  Exposing pairs one by one, each conditional mean moves in a range of at most 2, so ``A`` of them
# agree with probability at most ``beta_p``: a depth that ``A`` pairs reach has a prefix of ``q`` values.  Each of the
# ``B`` pairs that end at or above it has a value outside the prefix or one in each half, so one of the three points has
# ``c`` values on both sides.


_STARTS: tuple[_Shares, ...] = ((250, 500), (150, 400), (400, 600))
"""In thousandths: epsilon of the innermost choice; of the rest, the prefix."""


def _spent(budget: InteriorBudget, shares: _Shares) -> tuple[Real, Real, Real]:
    """Epsilon of the innermost choice, of a prefix and of a point."""
    rest = budget.epsilon * (1000 - shares[0]) / (1_000_000 * budget.reductions)
    return budget.epsilon * shares[0] / 1000, rest * shares[1], rest * (1000 - shares[1])


class _Conditions:
    """What a window must satisfy, for given shares; ``exact`` uses the rounded bases."""

    def __init__(self, budget: InteriorBudget, shares: _Shares, *, exact: bool) -> None:
        rate = exact_rate if exact else float
        eps_z, prefix, point = _spent(budget, shares)
        self.k = budget.reductions
        self.beta = float(budget.beta) * (1 - _SLACK) / (3 * self.k + 1)
        self.rate = rate(prefix / 2)
        self.delta = min(float(budget.delta) / self.k, -math.expm1(-self.rate))
        self.c = voters(math.log(2 / self.beta), rate(point / 2))
        self.last = 2 * voters(budget.log_top - math.log(self.beta), rate(eps_z / 2)) - 1

    def bound(self, n: int) -> int:
        """``A`` for ``n`` values."""
        q = choosing_depth(lambda _: n, self.c, self.rate, self.delta, self.beta, self.c)
        return math.floor((n * (q - 2) / (2 * (n - 1)) + math.sqrt(-n * math.log(self.beta))) * (1 + _SLACK)) + 1

    def windows(self, n: int) -> Iterator[tuple[int, int]]:
        """``(A, what is left)`` level by level."""
        for i in range(self.k):
            A = self.bound(n)
            left = n // 2 - (A - 1) - (2 * self.c - 2)
            n = left if i == self.k - 1 else left - left % 2
            yield A, n
            if n < 2 and i < self.k - 1:
                return

    def hold(self, n: int) -> bool:
        left = [left for _, left in self.windows(n)]
        return len(left) == self.k and left[-1] >= self.last

    def least(self) -> int:
        return 2 * least_from(lambda half: self.hold(2 * half), 1)


@lru_cache(maxsize=256)
def _pair_shares(budget: InteriorBudget) -> _Shares:
    rough = budget.rough
    return search(
        lambda shares: _Conditions(rough, shares, exact=False).least(),
        _STARTS,
        lambda shares: min(shares) >= 5 and max(shares) <= 995,
    )


def plan_pairs(budget: InteriorBudget, size: int | None = None) -> InteriorPlan[PairLevel]:
    """The least certified plan with at least one reduction, or the plan for an even ``size``."""
    shares = _pair_shares(budget)
    needed = _Conditions(budget, shares, exact=True).least()
    if size is not None and size < needed:
        budget = relaxed(budget, size, lambda weaker: _Conditions(weaker, shares, exact=True).least())
    found = _Conditions(budget, shares, exact=True)
    eps_z, prefix, point = _spent(budget, shares)
    n = needed if size is None else size
    rL, rc = base_of(prefix / 2), base_of(point / 2)
    delta_L = min(Fraction(budget.delta) / budget.reductions, 1 - 1 / rL)
    levels = tuple(PairLevel(A, 2 * found.c - 1, rL, delta_L, rc) for A, _ in found.windows(n))
    return InteriorPlan(levels, base_of(eps_z / 2), n, Fraction(budget.beta), needed)


_ENGINES = ("walk", "pairs")
MAX_REDUCTIONS = 64
_AUTO = (0, 1, 2, 3)
_SMALLEST = Fraction(1, 10**300)
"""Failure probabilities and deltas below this are outside the planner's doubles."""


# Planning, from public numbers


def plan_interior_point(
    epsilon: Rational,
    delta: Rational,
    beta: Rational,
    *,
    bits: int,
    top: int | None = None,
    levels: int | str = "auto",
    engine: str = "walk",
    size: int | None = None,
) -> InteriorPlan[Level] | InteriorPlan[PairLevel]:
    """Levels, bases and the number of values for integers of ``bits`` bits (or ``0..top``); ``bits`` may be as large as
    2**65536.

    >>> plan_interior_point(1, "1e-6", "0.05", bits=64).size
    189
    >>> len(plan_interior_point(1, "1e-6", "0.05", bits=65536).levels)
    1
    """
    budget = (read_epsilon(epsilon), _read_delta(delta), rational(beta, "beta", minimum=_SMALLEST, below=1))
    if not isinstance(engine, str):
        raise TypeError(f"engine must be text, got {type(engine).__name__}")
    if engine not in _ENGINES:
        raise ParameterError(f"engine must be one of {', '.join(map(repr, _ENGINES))}, got {engine!r}")
    ask = _InteriorQuestion(*budget, positive_int(bits, "bits"), top, engine, size)
    wanted = _read_levels(levels, ask.delta)
    return ask.plan(wanted) if isinstance(wanted, int) else ask.auto()


def _read_delta(delta: Rational) -> Fraction:
    value = rational(delta, "delta", minimum=0, below=1)
    if 0 < value < _SMALLEST:
        raise ParameterError("delta must be 0 or at least 1e-300")
    return value


def _read_levels(levels: int | str, delta: Fraction) -> int | str:
    if isinstance(levels, str):
        if levels != "auto":
            raise ParameterError(f"levels must be 'auto' or an integer from 0 to {MAX_REDUCTIONS}, got {levels!r}")
        return 0 if delta == 0 else levels
    k = positive_int(levels, "levels", minimum=0, maximum=MAX_REDUCTIONS)
    if k and delta == 0:
        raise ParameterError("levels >= 1 needs delta > 0; give a delta such as 1e-6, or levels=0")
    return k


@frozen(slots=False)
class _InteriorQuestion:
    """A planning question."""

    epsilon: Fraction
    delta: Fraction
    beta: Fraction
    bits: int
    top: int | None
    engine: str
    size: int | None

    def budget(self, reductions: int) -> InteriorBudget:
        return InteriorBudget(
            self.epsilon, self.delta, self.beta, log_domain(self.bits, self.top, reductions), reductions
        )

    def plan(self, reductions: int, *, least: bool = False) -> InteriorPlan[Level] | InteriorPlan[PairLevel]:
        size = None if least else self.size
        if self.engine == "pairs" and reductions:
            if size is not None and size % 2:
                raise ParameterError(f"engine='pairs' needs an even size, got {size}")
            return plan_pairs(self.budget(reductions), size)
        return plan_walk(self.budget(reductions), size)

    def auto(self) -> InteriorPlan[Level] | InteriorPlan[PairLevel]:
        """The number of reductions of least size, ties to the smaller; with too few values, the one that fails
        least."""
        best, chosen = self.plan(0, least=True), 0
        for k in _AUTO[1:]:
            # The search improves its first guess by far less than a half, so a guess of twice the best size cannot win.
            if rough_size(self.budget(k)) < 2 * best.size and (found := self.plan(k, least=True)).size < best.size:
                best, chosen = found, k
        if self.size is None or self.size >= best.size:
            return self.plan(chosen)
        return evolve(min(self._short(), key=lambda plan: (plan.beta, len(plan.levels))), needed=best.size)

    def _short(self) -> Iterator[InteriorPlan[Level] | InteriorPlan[PairLevel]]:
        for k in (0, 1):
            try:
                yield self.plan(k)
            except InfeasibleError:
                continue


# The mechanism


@frozen(slots=False, field_transformer=named)
class InteriorPoint:
    """A private point between the largest and the smallest of the values of ranks ``hi..hi+size-1``.

    ``size`` (the window) is planned for failure probability ``beta`` unless given; parameters come from public numbers
    only.  ``levels`` is the number of reductions, ``"auto"`` the one of least size.

    >>> point = InteriorPoint(1, "1e-6", top=2**1000 - 1)
    >>> point.reductions, point.size <= 426, str(point.guarantee)
    (1, True, '(1, 1e-06)-DP per user, add-remove')
    >>> year = InteriorPoint.median(2, top=3000, n_users=500)
    >>> 1995 <= year.sample([2000 + i % 7 for i in range(500)]) <= 2011
    True

    =============================  ======================================================================
    ``top = 0``                    the answer is 0 and costs nothing: guarantee (0, 0)
    ``delta = 0``                  ``levels="auto"`` means 0; ``levels >= 1`` is refused
    ``size`` below the plan        runs with ``AccuracyWarning`` and says what would be needed; privacy
                                   is untouched.  A fixed ``levels >= 1`` with fewer values than any
                                   accuracy needs is an ``InfeasibleError``
    fewer values than ``hi+size``  the window is padded with 0, without an error: the number of values
                                   stays private
    values outside ``0..top``      moved to the nearest end, one by one
    ``BOTTOM``                     the choosing mechanism abstained (only with reductions): an output
                                   like any other
    =============================  ======================================================================
    """

    epsilon: Fraction = field(converter=privacy)
    delta: Fraction = field(default=Fraction(0), converter=_read_delta)
    top: int = field(  # may have more digits than Python prints
        kw_only=True, repr=False, converter=whole, metadata=bounds(minimum=0)
    )
    beta: Fraction = field(
        kw_only=True,
        default=DEFAULT_BETA,
        converter=fraction,
        metadata=bounds(minimum=_SMALLEST, below=1),
    )
    _size: int | None = field(kw_only=True, default=None, converter=whole_or_none)
    levels: int | str = field(kw_only=True, default="auto")
    engine: str = field(kw_only=True, default="walk")
    hi: int = field(kw_only=True, default=1, converter=whole)
    unit: Unit = field(kw_only=True, default=Unit.USER, converter=protected_unit)
    neighbours: Neighbours = field(kw_only=True, default=Neighbours.ADD_REMOVE, converter=relation)

    def __attrs_post_init__(self) -> None:
        _ = self.reduction
        if self.size < self.plan.needed:
            warnings.warn(self.warnings[0], AccuracyWarning, stacklevel=3)

    @cached_property
    def plan(self) -> InteriorPlan[Level] | InteriorPlan[PairLevel]:
        if self.top == 0:
            return InteriorPlan((), Fraction(2), self._size or 1, Fraction(0), 1)
        return plan_interior_point(
            self.epsilon,
            self.delta,
            self.beta,
            bits=self.top.bit_length(),
            top=self.top,
            levels=self.levels,
            engine=self.engine,
            size=self._size,
        )

    @cached_property
    def reduction(self) -> WalkReduction | PrefixInteriorPoint | None:
        return None if self.top == 0 else self._checked(self.plan)

    def _checked(self, plan: InteriorPlan[Level] | InteriorPlan[PairLevel]) -> WalkReduction | PrefixInteriorPoint:
        """The engine, after its exact privacy was compared with the promise."""
        kind: Any = PrefixInteriorPoint if self.engine == "pairs" and plan.levels else WalkReduction
        built: WalkReduction | PrefixInteriorPoint = kind(plan.levels, plan.rz, self.top, plan.size)
        promised = ExpSum.exp(rational(self.epsilon)) - ExpSum.of(built.multiplicative)
        if promised.sign() < 0 or built.delta_up > rational(self.delta):
            raise InfeasibleError("the planned integers exceed the privacy asked for; use a larger epsilon or delta")
        return built

    @staticmethod
    def median(epsilon: Rational, delta: Rational = 0, *, n_users: int, **options: Any) -> InteriorPoint:
        """The window in the middle of ``n_users`` values (a public figure; the values at hand may be more or fewer)."""
        n = positive_int(n_users, "n_users")
        if "size" in options or "hi" in options:
            raise ParameterError("median chooses size and hi itself; give them to InteriorPoint for other ranks")
        planned = InteriorPoint(epsilon, delta, **options)
        even = isinstance(planned.reduction, PrefixInteriorPoint)
        size = min(planned.size, n - n % 2 if even else n)
        return InteriorPoint(epsilon, delta, hi=1 + (n - size) // 2, size=size, **options)

    # Public numbers

    @property
    def size(self) -> int:
        """The number of values in the window."""
        return self.plan.size

    @property
    def reductions(self) -> int:
        """How many reductions run before the exponential mechanism."""
        return len(self.plan.levels)

    @property
    def failure(self) -> Fraction:
        """The certified probability of a point outside the window; at most ``beta`` unless ``size`` is too small."""
        return self.plan.beta

    @property
    def warnings(self) -> tuple[str, ...]:
        if self.size >= self.plan.needed:
            return ()
        text = f"a window of {self.size} values certifies failure probability {float(self.failure):.3g}; "
        return (text + f"{self.plan.needed} values would certify {float(self.beta):.3g}",)

    @property
    def guarantee(self) -> Guarantee:
        if self.reduction is None:
            return Guarantee(0, unit=self.unit, neighbours=self.neighbours)
        if not self.reductions:
            return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=self.epsilon**2 / 8)
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours)

    # Data

    def window(self, values: Iterable[int]) -> list[int]:
        """The values of ranks ``hi..hi+size-1``, ascending, padded with 0 (private)."""
        return rank_window(values, self.hi, self.hi + self.size - 2, self.top)[::-1]

    def sample(self, values: Iterable[int], rng: Rng | None = None) -> _Outcome:
        """One exact draw: a point of ``0..top``, or ``BOTTOM``."""
        window = self.window(values)
        return 0 if self.reduction is None else self.reduction.sample(window, rng)

    def law(self, values: Iterable[int]) -> Law:
        """The exact law of :meth:`sample`, where it is small enough to be written out (curator only)."""
        window = self.window(values)
        return Law.point(0) if self.reduction is None else self.reduction.law(window)

    # Release: ``privpac.release(point, values, ledger=...)``

    def bind(self, values: Iterable[int]) -> list[int]:
        """The numbers, one of each person, checked before anything is spent."""
        return clipped(values, self.top)

    def draw(self, bound: list[int], rng: Rng) -> Released:
        """One draw; ``outcome="none"`` where the choosing mechanism abstained."""
        drawn = self.sample(bound, rng)
        abstained = drawn is BOTTOM
        return Released(
            NoRelease if abstained else drawn,
            self.guarantee,
            {"window": self._size, "highest rank": self.hi, "reductions": self.reductions},
            outcome="none" if abstained else "released",
            warnings=self.warnings,
            learner="InteriorPoint",
        )
