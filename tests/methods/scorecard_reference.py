"""The scorecard again, in plain Python integers and as the definition reads: slow, and without any table tricks."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np

from privpac.methods.scorecard import Packed
from privpac.rules.scorecards import CodeShape, U, code_rows, sigmoid_table

User = list[tuple[tuple[int, ...], int]]
"""Records: a code for each column, and a label."""


def near(a: int, b: int) -> int:
    return (2 * a + b) // (2 * b)


def vector(shapes: Sequence[CodeShape], codes: Sequence[int]) -> list[int]:
    """All coordinates of a record, without the intercept."""
    return [z for shape, code in zip(shapes, codes) for z in code_rows(shape)[code]]


def mean(shapes: Sequence[CodeShape], user: User) -> list[int]:
    rows = [vector(shapes, codes) for codes, _ in user]
    width = sum(shape.width for shape in shapes)
    return [near(sum(row[k] for row in rows), len(user)) for k in range(width)] if user else [0] * width


def gradient(shapes: Sequence[CodeShape], user: User, weights: Sequence[int], centre: Sequence[int]) -> list[int]:
    width = sum(shape.width for shape in shapes)
    sums = [0] * (width + 1)
    for codes, label in user:
        z = [U, *(a - c for a, c in zip(vector(shapes, codes), centre))]
        s = sum(w * a for w, a in zip(weights, z))
        place = min(max(near(s, 1 << 28), -4096), 4096)
        r = int(sigmoid_table()[place + 4096]) - U * label
        sums = [total + r * a for total, a in zip(sums, z)]
    return [near(total, U * len(user)) for total in sums] if user else sums


def clip(g: Sequence[int], cap: int) -> list[int]:
    square = sum(x * x for x in g)
    if square <= cap * cap:
        return list(g)
    length = isqrt(square - 1) + 1
    return [(1 if x > 0 else -1) * (abs(x) * cap // length) for x in g]


def norm(g: Sequence[int], cap: int) -> int:
    square = sum(x * x for x in g)
    return min(isqrt(square - 1) + 1 if square else 0, cap)


def packed(columns: int, users: Sequence[User]) -> Packed:
    records = [record for user in users for record in user]
    codes = np.array([codes for codes, _ in records], np.uint8).reshape(len(records), columns)
    offsets = np.cumsum([0, *(len(user) for user in users)])
    return Packed(codes, np.array([label for _, label in records], np.uint8), offsets)
