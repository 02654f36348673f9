"""The search behind deletion stability: laws on retained sets, exact closeness, smallest stable sets.

Everything here is private: it is computed after the spend, and only the law built from it is ever sampled.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

from privpac.errors import Undecided
from privpac.law import BOTTOM, Law
from privpac.law.finite import FiniteLaw
from privpac.law.numbers import Number, Quotient, sign_of_sum, sum_of
from privpac.mechanisms.certificate import ReleaseTest
from privpac.mechanisms.truncated_laplace import TruncatedLaplace

__all__ = ["Kept", "RetainedLaws", "Select", "close", "deletion_law", "literal_law"]

Kept = tuple[int, ...]
Select = Callable[[tuple[Kept, ...], Any], Kept]


# Closeness, decided exactly


def close(p: Law, q: Law, factor: Fraction, slack: Fraction) -> bool:
    """Whether ``P(E) <= factor Q(E) + slack`` and ``Q(E) <= factor P(E) + slack`` for all events E.

    What cannot be decided counts as apart: the verdict is a function of the two laws, which is all that the proof
    needs.
    """
    first, second = p.as_finite(), q.as_finite()
    try:
        return _one_way(first, second, factor, slack) and _one_way(second, first, factor, slack)
    except Undecided:
        return False


def _one_way(p: FiniteLaw, q: FiniteLaw, factor: Fraction, slack: Fraction) -> bool:
    over: list[Number] = [Quotient.of(-slack)]
    for count, a, b in _cells(p, q):
        excess = a + b * -factor
        if sign_of_sum(excess) > 0:
            over.append(excess * count)
    return sign_of_sum(sum_of(over)) <= 0


def _cells(p: FiniteLaw, q: FiniteLaw) -> list[tuple[int, Number, Number]]:
    """``(number of values, P, Q)`` over the common refinement of the blocks, and over the atoms."""
    edges = sorted({edge for law in (p, q) for block, _ in law.blocks for edge in (block.start, block.stop)})
    out = [(stop - start, p.number(start), q.number(start)) for start, stop in pairwise(edges)]
    return out + [(1, p.number(atom), q.number(atom)) for atom in {**p.atoms, **q.atoms}]


# The search


class RetainedLaws:
    """Laws of the algorithm on retained sets of ``n - deleted`` users, and which of them are close; everything is
    computed once."""

    def __init__(self, n: int, deleted: int, law_of: Callable[[Kept], Law], factor: Fraction, slack: Fraction) -> None:
        self.n, self.deleted, self.law_of = n, deleted, law_of
        self.factor, self.slack = factor, slack
        self.laws: list[Law] = []
        self._ids: dict[Kept, int] = {}
        self._known: dict[Hashable, int] = {}
        self._close: dict[tuple[int, int], bool] = {}

    def index(self, kept: Kept) -> int:
        """The number of the law on a retained set; equal rational laws share one."""
        if kept not in self._ids:
            law = self.law_of(kept)
            key = _signature(law)
            if key is None or key not in self._known:
                self._known[(kept,) if key is None else key] = len(self.laws)
                self.laws.append(law)
                self._ids[kept] = len(self.laws) - 1
            else:
                self._ids[kept] = self._known[key]
        return self._ids[kept]

    def near(self, i: int, j: int) -> bool:
        pair = (min(i, j), max(i, j))
        if i != j and pair not in self._close:
            self._close[pair] = close(self.laws[i], self.laws[j], self.factor, self.slack)
        return i == j or self._close[pair]

    def outside(self, removed: Kept) -> list[Kept]:
        """All retained sets that avoid some users."""
        left = [i for i in range(self.n) if i not in removed]
        return list(combinations(left, self.n - self.deleted))

    def stable(self, removed: Kept) -> bool:
        found = sorted({self.index(kept) for kept in self.outside(removed)})
        return all(self.near(i, j) for i, j in combinations(found, 2))

    def stable_sets(self, size: int) -> tuple[Kept, ...]:
        return tuple(removed for removed in combinations(range(self.n), size) if self.stable(removed))

    def answer(self, sets: Sequence[Kept]) -> Law:
        """S uniform among some sets, T around it uniform, then the algorithm on the rest."""
        shares: dict[int, Fraction] = {}
        for removed in sets:
            rest = self.outside(removed)
            for kept in rest:
                i = self.index(kept)
                shares[i] = shares.get(i, Fraction(0)) + Fraction(1, len(sets) * len(rest))
        return Law.mixture([(share, self.laws[i]) for i, share in shares.items()])


def _signature(law: Law) -> Hashable | None:
    """A key for equal rational laws."""
    finite = law.as_finite()
    blocks = tuple((block.start, block.stop, number.exact) for block, number in finite.blocks)
    atoms = frozenset((atom, number.exact) for atom, number in finite.atoms.items())
    return None if any(b[2] is None for b in blocks) or any(a[1] is None for a in atoms) else (blocks, atoms)


def _choose(select: str | Select, sets: tuple[Kept, ...], users: Any) -> Sequence[Kept]:
    """The sets among which S is drawn uniformly: all of them, or the one a rule picks."""
    if select == "uniform":
        return sets
    if isinstance(select, str):
        return [sets[0 if select == "first" else -1]]
    try:
        picked = select(sets, users)
        return [picked if picked in sets else sets[0]]
    except Exception:  # a failing rule picks the first set: an error here would depend on the data
        return [sets[0]]


def deletion_law(retained: RetainedLaws, test: ReleaseTest, select: str | Select = "uniform", users: Any = None) -> Law:
    """The law of the release with Theorem H's constants."""
    for distance in range(test.ladder + 1):
        sets = retained.stable_sets(distance)
        if sets:
            return test.law(distance, retained.answer(_choose(select, sets, users)))
    return Law.point(BOTTOM)


def literal_law(retained: RetainedLaws, noise: TruncatedLaplace) -> Law:
    """The law of Algorithm 1: ``|S|`` drawn from the noise, S uniform among the stable sets of that size."""
    shares = noise.law()
    parts: list[tuple[Fraction, Law]] = []
    for size in range(2 * noise.kappa + 1):
        sets = retained.stable_sets(size)
        parts.append((shares.prob_exact(size), retained.answer(sets) if sets else Law.point(BOTTOM)))
    return Law.mixture(parts)
