"""Sections 6.4 and 6.5 of ``docs/wire.md``, and its form of weights, read literally: the page is enough for a third
client."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import ceil, isqrt
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.device.tasks import Task

Rounding = Callable[[Fraction], int]


def rounding(seed: bytes, label: str) -> Rounding:
    name = label.encode()
    data = len(name).to_bytes(8, "little") + name + bytes(8)
    key = hashlib.blake2b(data, digest_size=32, key=seed, person=b"privpac.cs.v1\0\0\0").digest()
    asked = iter(range(10**9))

    def rounded(u: Fraction) -> int:
        word = hashlib.blake2b(next(asked).to_bytes(8, "little"), digest_size=8, key=key).digest()
        return (u + Fraction(int.from_bytes(word, "little"), 1 << 64)).__floor__()

    return rounded


def dot(a: Any, b: Any) -> int:
    return sum(x * y for x, y in zip(a, b))


def separator(
    rows: list[list[int]], signs: list[int], grid: int, ridge: Fraction, stages: int, seed: bytes
) -> list[int]:
    rounded, D, m = rounding(seed, "svm"), len(rows[0]), len(rows)
    p, q = ridge.numerator, ridge.denominator
    found: list[int] | None = None
    for _ in range(stages):
        active = [(x, s) for x, s in zip(rows, signs) if found is None or s * dot(x, found) < grid]
        table = [
            [q * sum(x[i] * x[j] for x, _ in active) + (p * m if i == j else 0) for j in range(D)]
            + [q * sum(s * x[i] for x, s in active)]
            for i in range(D)
        ]
        before = 1
        for k in range(D):
            pivot = table[k][k]
            for i in range(D):
                if i != k:
                    factor = table[i][k]
                    table[i] = [(pivot * a - factor * b) // before for a, b in zip(table[i], table[k])]
            before = pivot
        top = [row[-1] for row in table]
        if found is None:
            found = [rounded(Fraction(grid * n, before)) for n in top]
        else:
            found = [rounded(Fraction(grid * n + old * before, 2 * before)) for n, old in zip(top, found)]
    assert found is not None
    return found


def root(z: Fraction) -> Fraction:
    whole = ceil(z * (1 << 60))
    low = isqrt(whole)
    return Fraction(low + (low * low < whole), 1 << 30)


def ellipsoid(rows: list[list[int]], signs: list[int], seed: bytes) -> list[int]:
    grid, theta2, stop, radius, steps = 32, 16, 3, 5, 12
    rounded, D, m = rounding(seed, "ellipsoid"), len(rows[0]), len(rows)
    up = (1 << 30) + (1 << 10)
    cut_a, slab_a = ceil(Fraction(up * D * (4 * D + 5), 4 * (D + 1) ** 2)), ceil(Fraction(up, 2))
    cut_b = ceil(up * root(Fraction(D * D, D * D - 1) * (1 - Fraction(1, 16 * (D + 1) ** 2))))
    slab_b = ceil(up * root(Fraction(4 * D - 1, 4 * (D - 1))))
    c, L = [0] * D, [[(radius << 64) if i == j else 0 for j in range(D)] for i in range(D)]

    def query(values: list[int]) -> int:
        return rounded(Fraction(grid * sum(values), m << 30))

    def move(v: list[int], a: int, b: int) -> list[int]:
        n = isqrt(dot(v, v) << 60)
        g = [(x << 60) // n for x in v]
        along = [dot(row, g) for row in L]
        for i in range(D):
            L[i] = [(b * (L[i][j] << 60) + (a - b) * along[i] * g[j]) >> 90 for j in range(D)]
        return along

    for _ in range(steps):
        wrong = [(x, s) for x, s in zip(rows, signs) if s * dot(x, c) <= 0]
        if query([1 << 30] * len(wrong)) <= stop:
            break
        u = []
        for x, s in wrong:
            a = [sum(x[i] * L[i][j] for i in range(D)) for j in range(D)]
            n = isqrt(dot(a, a)) + 1
            u.append([s * ((each << 30) // n) for each in a])
        g = [query([v[j] for v in u]) for j in range(D)]
        if dot(g, g) >= theta2:
            along = move(g, cut_a, cut_b)
            c = [c[i] + along[i] * (3 * D + 4) // (4 * (D + 1) ** 2 << 30) for i in range(D)]
            continue
        h = [query([v[j] * v[j] >> 30 for v in u]) for j in range(D)]
        t = h.index(max(h))
        column = [h[t] if i == t else query([v[t] * v[i] >> 30 for v in u]) for i in range(D)]
        if not any(column):
            break
        move(column, slab_a, slab_b)
    bound = (1 << (8 * ceil(Fraction(70 + ((radius**2 * D) ** 3 - 1).bit_length(), 8)) - 1)) - 1
    return [max(-bound, min(bound, each)) for each in c]


def form(sizes: tuple[int, ...], w: list[int], c: int, M: int) -> tuple[list[int], int]:
    points = list(product(*(range(size) for size in sizes)))
    f = [dot(w, x) + c > 0 for x in points]

    def constant(v: list[int]) -> int | None:
        yes, no = ([dot(v, x) for x, said in zip(points, f) if said is side] for side in (True, False))
        return -max(no) if min(yes) > max(no) else None

    if len(set(f)) == 1:
        return [0] * len(sizes), int(f[0])
    z = [([2 * a - (size - 1) for a, size in zip(x, sizes)] + [1], 1 if said else -1) for x, said in zip(points, f)]
    found = [sum(sign * point[j] for point, sign in z) for j in range(len(sizes) + 1)]
    found = [64 * a // max(*map(abs, found), 1) for a in found]
    for _ in range(60):
        if constant(found[:-1]) is not None:
            for k in range(1, M + 1):
                most = max(map(abs, found[:-1]))
                v = [(2 * a * k + most) // (2 * most) for a in found[:-1]]
                if (end := constant(v)) is not None:
                    return v, end
            break
        wrong = [(point, sign) for point, sign in z if sign * dot(found, point) <= 0]
        n = len(wrong)
        found = [
            a + (8 * sum(sign * point[j] for point, sign in wrong) + n // 2) // max(n, 1) for j, a in enumerate(found)
        ]
    most = max(map(abs, w))
    if most == 0:
        return [0] * len(w), int(c > 0)
    near = [(2 * a * M + most) // (2 * most) for a in (*w, c)]
    return near[:-1], near[-1]


def packed(sizes: tuple[int, ...], weights: list[int], constant: int, M: int) -> int:
    E = M * sum(size - 1 for size in sizes)
    number = max(-E, min(E + 1, constant)) + E
    for weight in reversed(weights):
        number = number * (2 * M + 1) + weight + M
    return number


@pytest.mark.parametrize("learner", ["rounded", "queries"])
@pytest.mark.parametrize("sizes", [(2, 2), (2, 2, 2, 2), (4, 3), (11, 2, 3)])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_separators_as_the_page_says(sizes: tuple[int, ...], learner: str, data: st.DataObject) -> None:
    row = st.tuples(*(st.integers(0, size - 1) for size in sizes), st.integers(0, 1))
    records = data.draw(st.lists(row, min_size=1, max_size=30))
    seed = data.draw(st.binary(min_size=32, max_size=32))
    x, y = [list(row[:-1]) for row in records], [row[-1] for row in records]
    rows, signs = [[*codes, 1] for codes in x], [2 * mark - 1 for mark in y]
    if learner == "rounded":
        *w, c = separator(rows, signs, 4, Fraction(1, 50), 2, seed)
    else:
        *w, c = ellipsoid(rows, signs, seed)
    known = Task("halfspace", sizes, (("learner", learner),)).learner
    item = known.item(x, y, seed)
    assert item is not None
    assert int.from_bytes(item, "little") == packed(sizes, *form(sizes, w, c, 15), 15)
