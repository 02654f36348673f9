"""Brute force for small classes: subclasses are frozensets of rows, every quantity by its definition."""

from __future__ import annotations

from functools import cache
from itertools import product

Row = tuple[int, ...]
Class = frozenset[Row]


def sides(V: Class, x: int) -> tuple[Class, Class]:
    return frozenset(f for f in V if f[x] == 0), frozenset(f for f in V if f[x] == 1)


def points(V: Class) -> range:
    return range(len(next(iter(V)))) if V else range(0)


@cache
def dimension(V: Class) -> int:
    if not V:
        return -1
    best = 0
    for x in points(V):
        zero, one = sides(V, x)
        if zero and one:
            best = max(best, 1 + min(dimension(zero), dimension(one)))
    return best


def soa(V: Class) -> Row:
    return tuple(int(dimension(sides(V, x)[1]) > dimension(sides(V, x)[0])) for x in points(V))


@cache
def value(V: Class, k: int) -> int:
    """The least r such that some tree of depth k leaves dimension at most r everywhere."""
    best = dimension(V)
    if k and V:
        for x in points(V):
            best = min(best, max(value(side, k - 1) for side in sides(V, x)))
    return best


def irreducible_by_sets(V: Class, k: int) -> bool:
    """Whether following the optimal prediction on any k points keeps the dimension."""
    h, N = soa(V), len(next(iter(V)))
    return all(
        dimension(frozenset(f for f in V if all(f[x] == h[x] for x in X))) == dimension(V)
        for X in product(range(N), repeat=k)
    )


def packed(row: Row) -> bytes:
    return sum(bit << x for x, bit in enumerate(row)).to_bytes(-(-len(row) // 8), "little")
