"""The hidden walk: a noisy descent of the prefix tree that trades a domain of ``2**b`` values for the ``b + 1`` depths
of the tree.

From the root, while more than ``T`` values share the prefix, go to the child that is heavier by ``d`` with probability
``step(d)``: 1 for ``d >= kappa``, 0 for ``d <= -kappa``, ``(r**(kappa+d) - 1)/(2 (r**kappa - 1))`` for ``-kappa <= d <=
0`` and ``1 - step(-d)`` above.  Every value remembers the depth at which it was left behind.  The walk and its stop are
never released; the ``T`` deepest entries are dropped, which hides where it stopped.

**Lemma 1.** ``step(d+1) <= r step(d) + delta1`` and the mirror image, ``delta1 = (r - 1)/(2 (r**kappa - 1))``: one unit
of ``d`` is an ``(ln r, delta1)`` change.  *Proof.* Equality below 0 by definition; for ``d >= 0`` the difference is
``(r - 1)(step(d) - step(-d-1)) >= 0``.

**Lemma 2.** Cut the walk as soon as the values common to two neighbours weigh at most ``T``: the laws of this common
prefix are ``(ln r**(J+1), (J + r) delta1)``-indistinguishable, ``J`` = :func:`active_steps`.  *Proof.* A node decided
by more than ``kappa`` common values is decided alike; any other halves (weight - kappa), so there are at most ``J`` of
them on any path; where the two values part, ``d`` differs by 2, at the others by at most 1.

**Lemma 3.** Given the common prefix, the windows (``n - T`` shallowest entries without the ``B - 1`` smallest) differ
in at most one replaced element: whatever the walks do further down happens among entries that are at least as deep, and
of those all but one are dropped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from attrs import field, frozen
from flint import arb

from privpac.errors import InfeasibleError, LawError, ParameterError, Undecided
from privpac.exact import MAX_PRECISION, as_arb, precision, up
from privpac.law.levels import invert
from privpac.parameters import bounds, fraction, named, probability, whole
from privpac.rng import Rng

__all__ = [
    "MAX_PATHS",
    "Level",
    "active_steps",
    "branch",
    "coin",
    "delta1",
    "kept_law",
    "step",
    "step_ball",
    "walk",
    "walk_paths",
]

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


def check_delta_L(level: Any, _: Any, delta_L: Fraction) -> None:
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
