"""What one user says to a points card, in integers, and the sums over users.

Three passes, each mapping a user's own records and *public* numbers to a bounded integer vector:

``centre``   the mean code, shortened to norm ``R``;
``norm``     the norm of the gradient at zero weights, at most ``B0``;
``step``     the gradient at public weights, shortened to norm ``C``.

*Why integers.*  The privacy proof needs user i's vector to be a function of user i and public numbers alone.  A product
of floats over a batch is not one: its roundings depend on who else is in the batch.  Integer sums are exact, so order,
batches, threads and engines are free.

*Why no overflow.*  Residuals are at most ``U`` and centred codes at most ``2 U`` in size, so a user's sums are at most
``2**25 m``; scores are at most ``2**43 (p + 1)`` and squared norms at most ``2**26 (p + 1)``: within 64 bits for fewer
than ``2**18`` coordinates and ``2**36`` records a user.

*Division.*  ``floor_divide(x, m, 1/m)`` multiplies doubles and corrects the quotient in integers: ``x`` is exact below
``2**53`` and two roundings move a quotient below ``2**50`` by less than 1, so its floor is off by at most one: the
corrections undo that.

*Several labels.*  One card against the rest for each: ``answer`` is the label that a pass counts as 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from privpac.data.jit import jit
from privpac.data.threads import spread, user_spans
from privpac.rules.scorecards import LANES, CodeTable, U, sigmoid_table

__all__ = [
    "Packed",
    "DescentState",
    "centre_sum",
    "clip",
    "gradient_sum",
    "gradients",
    "means",
    "norm_sum",
    "norm_terms",
]

Ints = NDArray[np.int64]
_UNIT = U
_SHIFT = 28
_TOP = U


class Packed(NamedTuple):
    """Whole users as kernels read them: codes (records by columns) in few bytes, labels, and where each user begins."""

    codes: NDArray[Any]
    labels: NDArray[np.uint8]
    offsets: Ints

    @property
    def users(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True)
class DescentState:
    """The public numbers at which gradients are taken; weights start with the intercept's, the centre has none."""

    weights: tuple[int, ...]
    centre: tuple[int, ...]

    @staticmethod
    def start(centre: Sequence[int]) -> DescentState:
        return DescentState((0,) * (len(centre) + 1), tuple(centre))


# Integers


@jit
def floor_divide(x: Any, m: Any, part: Any) -> Any:
    """``x // m`` for ``|x| < 2**53``, ``m >= 1``, a quotient below ``2**50``, and ``part`` the double ``1/m``."""
    q = np.int64(np.floor(np.float64(x) * part))
    q -= np.int64(q * m > x)
    q += np.int64((q + 1) * m <= x)
    return q


@jit
def root_up(n: Any) -> Any:
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
    length = root_up(square)
    after, part = np.int64(0), 1.0 / np.float64(length)
    for k in range(size):
        kept = floor_divide(abs(g[k]) * cap, length, part)
        g[k] = kept if g[k] >= 0 else -kept
        after += kept * kept
    if after > cap * cap:  # impossible; and if it were not, the promise would still hold
        for k in range(size):
            g[k] = 0


# One user


@jit
def _mean(codes: NDArray[Any], start: int, stop: int, base: Ints, first: Ints, lanes: Ints, out: Ints) -> None:
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
    codes: NDArray[Any],
    labels: NDArray[np.uint8],
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
    codes: NDArray[Any], offsets: Ints, a: int, b: int, base: Ints, first: Ints, lanes: Ints, size: int, cap: int
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
    codes: NDArray[Any],
    labels: NDArray[np.uint8],
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
            total[0] += min(root_up(square), cap)
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


def _gradients_of(table: CodeTable, packed: Packed, state: DescentState, cap: int, norms: bool, answer: int) -> Ints:
    public, run = _public(table, state), cast(Any, _sum_gradients)

    def part(a: int, b: int) -> Ints:
        found: Ints = run(packed.codes, packed.labels, packed.offsets, a, b, *public, answer, cap, norms)
        return found

    return _added(spread(part, user_spans(packed.offsets)), table.coordinates + 1)


def gradient_sum(table: CodeTable, packed: Packed, state: DescentState, cap: int, answer: int = 1) -> Ints:
    """The sum over users of their gradients, each shortened to ``cap``; the intercept first."""
    return _gradients_of(table, packed, state, cap, False, answer)


def norm_sum(table: CodeTable, packed: Packed, centre: Sequence[int], cap: int, answer: int = 1) -> int:
    """The sum over users of the norms of their gradients at zero weights, rounded up, each at most ``cap``."""
    return int(_gradients_of(table, packed, DescentState.start(centre), cap, True, answer)[0])


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
    return [min(int(root_up(sum(g * g for g in vector))), cap) for vector in vectors]


def clip(vector: Sequence[int], cap: int) -> list[int]:
    """A vector shortened to norm ``cap``."""
    g = np.array(vector, np.int64)
    shorten(g, g.size, cap)
    return [int(x) for x in g]
