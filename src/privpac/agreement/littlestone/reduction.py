"""Reduction trees: how far can questions lower the Littlestone dimension?

``R_k(V)`` is the least ``r`` such that some tree of depth at most ``k`` leaves dimension at most ``r`` at every leaf.
In a tree of depth ``k`` at most ``growth(k, Ldim(V) - r)`` leaves have dimension ``r`` or more, which is why deep trees
still give short lists.

One level of reduction is a hitting-set problem: while the dimension is kept, the child that keeps it is the optimal
prediction ``h = SOA(V)``, so ``R_k(V) < Ldim(V)`` iff ``k`` points ``X`` make the dimension of ``{f in V : f = h on
X}`` smaller.  A shattered set of members that differ from ``h`` outside ``X`` only would keep it, so ``X`` meets the
points where the members of any witness differ from ``h``.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

from privpac.agreement.littlestone.dimension import DEFAULT_BUDGET, Rows, Search

__all__ = ["Leaf", "Reduction", "growth"]


def growth(k: int, j: int) -> int:
    """``sum of binom(k, i), i <= j``."""
    return sum(comb(k, i) for i in range(min(j, k) + 1))


class Leaf(NamedTuple):
    """A leaf of a reduction tree: the answers on the way, the members left, their dimension."""

    path: tuple[tuple[int, int], ...]
    mask: int
    dimension: int


class Reduction(Search):
    """Reduction values and trees, with the memory and the budget of a search."""

    def __init__(self, rows: Rows, budget: int = DEFAULT_BUDGET) -> None:
        super().__init__(rows, budget)
        self._reaches: dict[tuple[int, int, int], bool] = {}
        self._hits: dict[tuple[int, int, int, int], bool] = {}

    # Trees

    def value(self, mask: int, k: int) -> int:
        """``R_k`` of a subclass."""
        r = self.dimension(mask)
        while r > 0 and self.reaches(mask, k, r - 1):
            r -= 1
        return r

    def tree(self, mask: int, k: int, r: int) -> list[Leaf]:
        """The leaves of the tree that asks the smallest point that still lets ``r`` be reached; label 0 before 1."""
        out: list[Leaf] = []
        stack: list[tuple[tuple[tuple[int, int], ...], int, int]] = [((), mask, k)]
        while stack:
            path, part, depth = stack.pop()
            self.spend()
            if not self.at_least(part, r + 1):
                out.append(Leaf(path, part, self.dimension(part)))
                continue
            for x in self.rows.heads:
                zero, one = self.rows.split(part, x)
                if zero and one and self.reaches(zero, depth - 1, r) and self.reaches(one, depth - 1, r):
                    stack += [((*path, (x, 1)), one, depth - 1), ((*path, (x, 0)), zero, depth - 1)]
                    break
            else:
                raise AssertionError("the caller knows that r can be reached")
        return out

    def reaches(self, mask: int, k: int, r: int) -> bool:
        """Whether some tree of depth at most ``k`` leaves dimension at most ``r`` everywhere."""
        if not self.at_least(mask, r + 1):
            return True
        if k <= 0 or r < 0:
            return False
        size, d = mask.bit_count(), self.dimension(mask)
        # Ldim(A or B) + 1 <= Ldim(A) + 1 + Ldim(B) + 1, so k questions divide Ldim + 1 by at most 2**k.
        if k < d.bit_length() + 1 and d + 1 > (r + 1) << k:
            return False
        # Splitting off one member at a time ends with fewer than 2**(r+1) members.
        if size - (1 << (r + 1)) + 1 <= k:
            return True
        if r == 0 and size > growth(k, d):
            return False
        entry = (mask, k, r)
        if entry not in self._reaches:
            self.spend()
            self._reaches[entry] = self._search(mask, k, r, d)
        return self._reaches[entry]

    def _search(self, mask: int, k: int, r: int, d: int) -> bool:
        if d == r + 1:
            return self._hit(mask, k, d, self.soa(mask))
        # Reaching r passes through d - 1: too many disjoint witnesses rule out even that.
        if self._packing(mask, k, d, self.soa(mask)) > k:
            return False
        return any(
            self.reaches(large, k - 1, r) and self.reaches(small, k - 1, r) for _, small, large in self.splits(mask)
        )

    # One level

    def _agree(self, mask: int, x: int, near: int) -> int:
        return self.rows.split(mask, x)[near >> x & 1]

    def _choices(self, mask: int, d: int, near: int) -> list[int]:
        """Points, one of which every solution contains: those where a shattered witness differs from ``near``."""
        witness, differ = self.shattered(mask, d, near), 0
        while witness:
            row = (witness & -witness).bit_length() - 1
            differ |= self.rows.words[row] ^ near
            witness &= witness - 1
        return [x for x in self.rows.heads if differ >> x & 1]

    def _packing(self, mask: int, k: int, d: int, near: int) -> int:
        """A lower bound on the number of points needed: witnesses that share no point."""
        rounds = 0
        while rounds <= k and self.at_least(mask, d):
            rounds += 1
            for x in self._choices(mask, d, near):
                mask = self._agree(mask, x, near)
        return rounds

    def _hit(self, mask: int, k: int, d: int, near: int) -> bool:
        """Whether ``k`` points on which ``near`` is followed bring the dimension below ``d``."""
        if not self.at_least(mask, d):
            return True
        if k == 0:
            return False
        entry = (mask, k, d, near)
        if entry not in self._hits:
            self.spend()
            self._hits[entry] = self._packing(mask, k, d, near) <= k and any(
                self._hit(self._agree(mask, x, near), k - 1, d, near) for x in self._choices(mask, d, near)
            )
        return self._hits[entry]
