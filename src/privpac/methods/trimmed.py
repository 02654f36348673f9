"""Trimmed selection: drop the extreme users of every rule, and test privately that the others agree.

Each user contributes an integer in ``0..levels`` to every rule (the error rate in steps, or the number of mistakes).
The score of a rule is the sum of the middle contributions, ``trim`` users dropped on each side; if all rules' middles
are narrower than ``width``, also after a few replacements, one user moves a score by at most ``width`` although a
contribution may be as large as ``levels``.

    Law(h) ~ exp(-lambda s_h),  lambda = eps_O / (2 width),    given out with the probability b[rho] of the release
    test.

**Guarantee** (Theorem T).  ``(eps_R + eps_O, delta)`` per user under replace.  (1) Replacing one user moves each order
statistic to a neighbouring one, so ``W_k(x') <= W_(k+1)(x)`` and rho moves by at most 1.  (2) With y the other users,
``s = const + clip(own; y_(t), y_(n-t))``, so s moves by at most ``y_(n-t) - y_(t) <= W_0 <= width`` when rho <= K.  (3)
Scores move within ``[-width, width]``: range ``2 width``, and ``eps_O = 2 lambda width`` (range rule).  Then Theorem G
(:mod:`privpac.mechanisms.release_test`).  Any public parameters are private; they change the accuracy only.  **Never
take the width from the data.**

Add-remove: with declared ``slots`` only (see :func:`seat_users`).  Every empty slot is a possible outlier, so
their number must stay well below the ladder.  *Not for realizable learning*: a mistake of fewer than ``trim`` users is
invisible.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import evolve, field, frozen

from privpac.arrays import Array, Bytes, Floats64, Ints, Words
from privpac.data.loops import jit
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.exact import Rational, dyadic_base, rational
from privpac.guarantee import Guarantee, Neighbours, positive_int
from privpac.law import Law
from privpac.mechanisms.release_test import DEFAULT_FAILURE, ReleaseTest, smallest_K
from privpac.methods.base import Bound, Selection, count_users
from privpac.parameters import (
    bounds,
    either,
    named,
    probability,
    probability_or_none,
    read_epsilon,
    relation,
    whole_or_none,
)
from privpac.result import NoRelease, Released
from privpac.rng import Rng
from privpac.rules.base import ConceptClass
from privpac.rules.kernels.events import ROOM, sort_span
from privpac.rules.profile import Profile, Step, dense_profile, step_of
from privpac.sample_size import open_unit
from privpac.special import betainc, betaincinv

if TYPE_CHECKING:
    from privpac.data import UserData, Users

# Trimmed sums and spreads of users' contributions, rule by rule.
#
# For one rule, sort the n contributions ``x_(1) <= ... <= x_(n)``.  With ``trim`` t on each side
#
#     s   = x_(t+1) + ... + x_(n-t)                                   the trimmed sum
#     W_k = max over a + b = k of  x_(n-t+1+a) - x_(t-b)              the width reachable by replacing k users
#
# and the distance to instability is ``rho = min{j <= K : W_(K-j) <= w}`` (``K+1`` if none), with the maximum of W over
# all rules.
#
# *Dense*: a matrix of users by rules, sorted column by column.  *Swept*: for cuts on ordered columns of any size,
# passing one record changes one user's contribution by a step; a histogram of the contributions with six moving order
# statistics gives s, and the widths are compared with w only as far as needed: O(records (log records + K)), and as
# many blocks as distinct values.


@jit
def one_contribution(mistakes: int, m: int, levels: int, counts: bool) -> int:
    """One user's contribution in 0..levels: mistakes, or the error rate in steps of ``1/levels``, half a step up."""
    if counts:
        return min(mistakes, levels)
    # A user without records stands in the middle; the bound 0..levels is what the order statistics rely on.
    return levels // 2 if m == 0 else (2 * levels * mistakes + m) // (2 * m)


def contributions(mistakes: Ints, sizes: Ints, levels: int, *, counts: bool) -> Ints:
    """The same for a matrix (users by rules)."""
    if counts:
        return np.minimum(mistakes, levels)
    m = np.maximum(sizes, 1)[:, None]
    scaled = (2 * levels * mistakes + m) // (2 * m)
    return np.where(sizes[:, None] == 0, levels // 2, scaled)


def trimmed_sums(sorted_columns: Ints, trim: int) -> Ints:
    """``s`` of every column of contributions sorted along the users."""
    return np.asarray(sorted_columns[trim : len(sorted_columns) - trim].sum(axis=0), dtype=np.int64)


def spreads(sorted_columns: Ints, trim: int, ladder: int) -> Ints:
    """``W_0..W_K``, each the maximum over all columns."""
    n = len(sorted_columns)
    top = sorted_columns[n - trim : n - trim + ladder + 1]  # x_(n-t+1+a) for a = 0..K
    low = sorted_columns[trim - 1 - ladder : trim][::-1]  # x_(t-b) for b = 0..K
    return np.array(
        [max(int((top[a] - low[k - a]).max()) for a in range(k + 1)) for k in range(ladder + 1)], dtype=np.int64
    )


def distance_of(reach: int, ladder: int) -> int:
    """``rho`` from the largest k with ``W_k <= w`` (-1 if even ``W_0`` is too wide)."""
    return ladder - reach if reach >= 0 else ladder + 1


class SortedColumn:
    """The records of one column in order of code, each with ``2 * user + label``."""

    def __init__(self, codes: Words, labels: Bytes, offsets: Ints) -> None:
        n = int(offsets[-1])
        kind = np.uint32 if len(offsets) < 1 << 31 else np.uint64
        self.key = codes[:n].copy()
        self.load = np.empty(n, dtype=kind)
        _tag(offsets, labels, self.load)
        sort_span(self.key, self.load, 0, n, np.empty(n, np.uint64), np.empty(n, kind), np.empty(ROOM, np.int64))


@jit
def _tag(offsets: Array, labels: Array, load: Array) -> None:
    for u in range(len(offsets) - 1):
        for i in range(offsets[u], offsets[u + 1]):
            load[i] = 2 * u + labels[i]


@jit
def _settle(hist: Array, rank: Array, value: Array, below: Array, p: int) -> None:
    """Move pointer p to the value of its rank; ``below`` counts the contributions under that value."""
    while below[p] >= rank[p]:
        value[p] -= 1
        below[p] -= hist[value[p]]
    while below[p] + hist[value[p]] < rank[p]:
        below[p] += hist[value[p]]
        value[p] += 1


@jit
def _too_wide(hist: Array, value: Array, below: Array, trim: int, n: int, k: int, width: int, top: Array) -> bool:
    """Whether ``W_k > width``: ranks n-t+1..n-t+1+k from above against t-k..t from below."""
    if value[5] - value[4] <= width:
        return False
    at, seen = value[3], below[3]
    for a in range(k + 1):
        while seen + hist[at] < n - trim + 1 + a:
            seen += hist[at]
            at += 1
        top[a] = at
    at, seen = value[4], below[4]
    for a in range(k + 1):
        # x_(n-t+1+a) goes with x_(t-(k-a)).
        while seen + hist[at] < trim - k + a:
            seen += hist[at]
            at += 1
        if top[a] - at > width:
            return True
    return False


@jit
def _sweep(
    key: Array,
    load: Array,
    sizes: Array,
    mistakes: Array,
    sign: int,
    levels: int,
    counts: bool,
    trim: int,
    width: int,
    reach: int,
    places: Array,
    scores: Array,
) -> tuple[int, int, int]:
    """Scores of the blocks; returns (score before the first record, blocks, largest k that stays within the width)."""
    n = len(sizes)
    held = np.empty(n, np.int64)
    hist = np.zeros(levels + 2, np.int64)
    for u in range(n):
        held[u] = one_contribution(mistakes[u], sizes[u], levels, counts)
        hist[held[u]] += 1
    k = reach
    top = np.empty(max(reach, 0) + 1, np.int64)
    rank = np.array([trim, trim + 1, n - trim, n - trim + 1, trim - max(k, 0), n - trim + 1 + max(k, 0)])
    value, below = np.zeros(6, np.int64), np.zeros(6, np.int64)
    for p in range(6):
        _settle(hist, rank, value, below, p)
    total: Any = 0
    seen: Any = 0
    for v in range(levels + 1):
        # Ranks seen+1..seen+hist[v] have value v; those in t+1..n-t count.
        total += v * max(0, min(seen + hist[v], n - trim) - max(seen, trim))
        seen += hist[v]
    first: Any = total
    blocks = 0
    changed = True
    for i in range(-1, len(key)):
        if i >= 0:
            who: Any = load[i]
            user, label = np.int64(who) >> 1, np.int64(who) & 1
            mistakes[user] += sign * (2 * label - 1)
            old: Any = held[user]
            new = one_contribution(mistakes[user], sizes[user], levels, counts)
            if new != old:
                # With y the other users' contributions, s = const + clip(own; y_(t), y_(n-t)).
                low = value[0] if old > value[0] else value[1]
                high = value[2] if old > value[2] else value[3]
                total += min(max(new, low), high) - min(max(old, low), high)
                held[user] = new
                hist[old] -= 1
                hist[new] += 1
                for p in range(6):
                    if old < value[p]:
                        below[p] -= 1
                    if new < value[p]:
                        below[p] += 1
                    _settle(hist, rank, value, below, p)
                changed = True
            if i + 1 < len(key) and key[i + 1] == key[i]:
                continue
            places[blocks], scores[blocks] = key[i], total
            blocks += 1
        # The sweep goes on when the width is lost, so that its time does not tell.
        while changed and k >= 0 and _too_wide(hist, value, below, trim, n, k, width, top):
            k -= 1
            rank[4], rank[5] = trim - max(k, 0), n - trim + 1 + max(k, 0)
            _settle(hist, rank, value, below, 4)
            _settle(hist, rank, value, below, 5)
        changed = False
    return first, blocks, k


def sweep(
    column: SortedColumn,
    labels: Bytes,
    offsets: Ints,
    directions: tuple[str, ...],
    base: int,
    size: int,
    *,
    levels: int,
    counts: bool,
    trim: int,
    width: int,
    reach: int,
) -> tuple[list[Step], int]:
    """The steps of all cuts, direction by direction with ids from ``base`` on, and the reach that is left."""
    out: list[Step] = []
    sizes = np.diff(offsets)
    ones = np.concatenate([[0], np.cumsum(labels[: int(offsets[-1])], dtype=np.int64)])
    ones = ones[offsets[1:]] - ones[offsets[:-1]]
    for c, direction in enumerate(directions):
        above = direction == "above"
        places, scores = np.empty(len(column.key), np.uint64), np.empty(len(column.key), np.int64)
        mistakes = sizes - ones if above else ones.copy()
        key, load, sign = column.key, column.load, 1 if above else -1
        first, blocks, reach = _sweep(
            key, load, sizes, mistakes, sign, levels, counts, trim, width, reach, places, scores
        )
        cut0 = base + c * (size + 1)
        alone = Step(cut0, np.zeros(1, dtype=np.uint64), 0, np.array([first], dtype=np.int64))
        out += [alone, step_of(cut0 + 1, size - 1, int(first), places[:blocks], scores[:blocks])]
    return out, int(reach)


# A public number of seats, so that people may come and go.
#
# Learners whose test or score depends on the number of users are proved for *replace*, where that number is public.
# With a declared number of ``slots`` they hold under add-remove: an empty slot is a user without records, so a user who
# comes replaces an empty one, and a user who goes leaves one.  Users beyond the last slot are left out, first come
# first seated: one more user then pushes out at most one other, which again is one replacement.

_MAX_SLOTS = 1 << 28


def read_slots(slots: int | None, neighbours: Neighbours) -> int | None:
    """The declared number of slots: required under add-remove, useless under replace."""
    if neighbours is Neighbours.REPLACE:
        if slots is not None:
            raise ParameterError(
                "slots stand for a private number of users; under replace that number is public: leave slots out"
            )
        return None
    if slots is None:
        raise ParameterError(
            "under add-remove declare slots, a public number of seats a little above the number of users, or use "
            "replace"
        )
    return positive_int(slots, "slots", maximum=_MAX_SLOTS)


def public_count(users: Users, slots: int | None) -> int:
    """The public number of users: the slots, or the number itself under replace."""
    return count_users(users) if slots is None else slots


def seat_arrays(offsets: Ints, slots: int | None) -> Ints:
    """Offsets of exactly ``slots`` users, the last ones empty; records beyond the last offset are not read."""
    if slots is None:
        return offsets
    missing = slots + 1 - len(offsets)
    return offsets[: slots + 1] if missing <= 0 else np.concatenate([offsets, np.full(missing, offsets[-1])])


def seat_users(users: UserData, slots: int | None) -> UserData:
    """Exactly ``slots`` users."""
    if slots is None or users.n_users == slots:
        return users
    if users.n_users > slots:
        return users.take(np.arange(slots))
    return evolve(users, offsets=seat_arrays(users.offsets, slots), ids=None)


_MAX_RECORDS = 1 << 22
_INWARD = 1e-9
"""Relative shift of a quantile to the safe side, far above the error of the inverse that found it."""

_CELLS = 1 << 12
"""Most cells that [0, 1] is cut into; more records than this share cells, which can only widen the result."""


def width_iid(
    n: int,
    m: int,
    t: int,
    K: int,
    H: int,
    beta: Rational,
    ps: Sequence[Rational] | None = None,
    *,
    C: int | None = None,
) -> int:
    """A width that ``W_K`` keeps with probability ``1 - beta`` for n independent users with m records and H rules.

    The largest ``U_p - L_p`` over error rates p: ``U_p`` is the least U with ``Pr[Bin(n, Pr[Bin(m, p) > U]) >= t - K]
    <= beta / (2H)``, and ``L_p`` its mirror image.  Without ``ps`` **every** rate in [0, 1] is covered
    (:func:`_widest`), and the promise is a theorem whatever the rules' errors are; with ``ps`` only those rates are
    looked at, and between them the result may be too small.  ``C``: contributions scaled from ``0..m`` to ``0..C``.

    >>> width_iid(456, 10, 54, 36, 33, 0.05, [0.1, 0.2, 0.3, 0.4, 0.5]), width_iid(456, 10, 54, 36, 33, 0.05)
    (6, 7)
    """
    users, records = positive_int(n, "n"), positive_int(m, "m")
    if records > _MAX_RECORDS:
        raise TooLargeError(
            f"widths are computed for at most {_MAX_RECORDS} records per user, got {records}; declare max_records"
        )
    trim, ladder = positive_int(t, "t", minimum=1), positive_int(K, "K", minimum=0)
    if trim <= ladder:
        raise ParameterError(f"t must exceed K, got t = {trim}, K = {ladder}")
    outliers = trim - ladder
    limit = open_unit(beta, "beta") / (2 * positive_int(H, "H"))
    if ps is None:
        width = _widest(users, records, outliers, limit)
    else:
        rates = [float(rational(p, "p", minimum=0, maximum=1)) for p in ps]
        if not rates:
            raise ParameterError("ps must hold at least one rate")
        width = max(
            _reach(users, records, outliers, p, limit) - (records - _reach(users, records, outliers, 1 - p, limit))
            for p in rates
        )
    scale = records if C is None else positive_int(C, "C")
    return width if scale == records else -(-width * scale // records) + 1


def _reach(n: int, m: int, outliers: int, p: float, limit: float) -> int:
    """The least U in 0..m such that ``outliers`` of n users exceed it with probability at most ``limit``."""
    if outliers > n:
        return 0
    u = np.arange(m)
    above = np.append(betainc(u + 1.0, (m - u).astype(float), p), 0.0)  # Pr[Bin(m, p) > u], 0 at u = m
    many = betainc(float(outliers), float(n - outliers + 1), above)  # Pr[Bin(n, above) >= outliers]
    return int(np.argmax(many <= limit))


def _widest(n: int, m: int, outliers: int, limit: float) -> int:
    """The largest ``U_p - L_p`` over all p in [0, 1], at most a little above it.

    Binomial tails grow with p, so ``U_p <= u`` exactly for the rates up to some ``c_u``, and ``L_p = m - U_(1-p)``.
    The ``c_u`` cut [0, 1] into cells; on the cell between two of them ``U_p`` is at most its value at the upper end and
    ``L_p`` at least its value at the lower end.  Each ``c_u`` is moved down until its own tail, evaluated forward, is
    within the limit: then it is safe whatever the inverse was.
    """
    if outliers > n:
        return 0
    # The share of users beyond U that is rarely reached by so many.
    share = _below(float(outliers), float(n - outliers + 1), limit)
    listed = np.unique(np.linspace(0, m - 1, min(m, _CELLS)).astype(np.int64))
    ends = np.maximum.accumulate(_below((listed + 1).astype(float), (m - listed).astype(float), share))
    above = np.append(listed, m)  # U on the cells that end at c_u, and on the last one, which ends at 1
    starts = np.concatenate([[0.0], ends])
    # L at the lower ends: m minus the first listed u that 1 - p does not exceed.
    below = m - above[np.searchsorted(ends, 1 - starts + 1e-15)]
    return int((above - below).max())


def _below(a: float | Floats64, b: float | Floats64, value: float | Floats64) -> Floats64:
    """A point at which the regularised incomplete beta function is at most ``value``, close to the last one."""
    x = betaincinv(a, b, value) * (1 - _INWARD)
    return np.asarray(np.where(betainc(a, b, x) <= value, x, 0.0))


_SHARES = (Fraction(3, 20), Fraction(1, 4), Fraction(2, 5))
"""Parts of epsilon that the test may take."""

_MARGINS = (2, 5, 10, 20, 40, 80, 160)


@frozen(slots=False)
class TrimDesign:
    """Public parameters of a trimmed score: users trimmed on each side, ladder, width, the test's part of epsilon."""

    trim: int
    ladder: int
    width: int
    share: Fraction
    noise: float
    """``2 w / (eps_O (n - 2t) m)``: predicted excess error for each nat of ``ln|H| + ln(1/beta)``."""


@lru_cache(maxsize=256)
def shortest_ladder(epsilon: Fraction, delta: Fraction, failure: Fraction) -> int:
    return smallest_K(dyadic_base(epsilon), delta, failure)


def design_trim(
    n: int,
    m: int,
    epsilon: Rational,
    delta: Rational,
    H_eff: int,
    failure: Rational = DEFAULT_FAILURE,
    *,
    cuts: bool = False,
) -> TrimDesign:
    """The design with the least predicted noise that answers n independent users with m records each, but for
    ``failure``.

    One half of the failure is the test's, one half the width's, which covers every error rate.  ``H_eff`` bounds the
    number of rules; with ``cuts`` it counts cuts at the users' own values: whoever holds the value is then not
    independent of the rule, and is left out of the count.  Any public parameters are private; these are for accuracy.
    ``InfeasibleError`` if there are too few users.

    >>> design = design_trim(1000, 100, 1, "1e-6", 1000)
    >>> design.trim > design.ladder, design.width < 100
    (True, True)
    """
    half, held = rational(failure, "failure", above=0, below=1) / 2, int(cuts)

    def width(users: int, records: int, trim: int, ladder: int, size: int) -> int:
        # With one user set aside, trim - ladder - 1 others beyond the width must be rare.
        return records if trim - ladder <= held else width_iid(users - held, records, trim - held, ladder, size, half)

    return plan_trim(n, m, epsilon, delta, H_eff, half, width)


Width = Callable[[int, int, int, int, int], int]
"""``(n, m, trim, ladder, rules) -> width``."""


def plan_trim(
    n: int, m: int, epsilon: Rational, delta: Rational, H_eff: int, failure: Fraction, width_of: Width
) -> TrimDesign:
    users, records, size = positive_int(n, "n", minimum=0), positive_int(m, "m"), positive_int(H_eff, "H_eff")
    eps, d = read_epsilon(epsilon), rational(delta, "delta", above=0, below=1)
    best: TrimDesign | None = None
    least_ladder = None
    for share in _SHARES:
        try:
            ladder = shortest_ladder(share * eps, d, failure)
        except InfeasibleError:
            continue
        least_ladder = ladder if least_ladder is None else min(ladder, least_ladder)
        for slack in dict.fromkeys((*_MARGINS, users // 10, users // 5)):
            trim = ladder + slack
            if slack < 1 or 2 * trim >= 0.8 * users:
                continue
            width = max(1, width_of(users, records, trim, ladder, size))
            noise = 2 * width / (float((1 - share) * eps) * (users - 2 * trim) * records)
            if best is None or noise < best.noise:
                best = TrimDesign(trim, ladder, width, share, noise)
    if best is None:
        need = "a larger epsilon or delta"
        if least_ladder is not None:
            need = f"n > 2(K+2)/0.8 = {2 * (least_ladder + 2) / 0.8:g}"
        raise InfeasibleError(f"too few users: need {need}, got n = {users}")
    return best


NOTHING = "The stability test did not pass; no hypothesis is released. The full budget has been spent."
_MAX_LEVELS = 1 << 24
MAX_TRIM_CELLS = 1 << 30
"""The most contributions (users times rules) of a class that is not swept."""

_CHUNK = 1 << 25
_DEFAULT_SHARE = Fraction(1, 4)
_Codes = Mapping[str, Words]


def no_release(
    guarantee: Guarantee, parameters: Mapping[str, object], warnings: tuple[str, ...], method: str
) -> Released:
    """The covered outcome "nothing": no distance, no probability, no user is shown."""
    return Released(NoRelease, guarantee, parameters, outcome="none", warnings=(*warnings, NOTHING), learner=method)


_Part = tuple[Ints, tuple[Words, ...], Bytes]


@frozen(slots=False)
class Gather:
    """All records of the columns read, users kept together."""

    columns: tuple[str, ...]

    def zero(self) -> list[_Part]:
        return []

    def chunk(self, users: UserData) -> list[_Part]:
        assert users.labels is not None
        return [(users.offsets, tuple(users.codes[name] for name in self.columns), users.labels)]

    def merge(self, a: list[_Part], b: list[_Part]) -> list[_Part]:
        return a + b


def joined(parts: list[_Part], columns: tuple[str, ...]) -> tuple[dict[str, Words], Bytes, Ints]:
    if len(parts) != 1:
        sizes = [np.empty(0, dtype=np.int64), *(np.diff(offsets) for offsets, _, _ in parts)]
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(sizes))])
        none = np.empty(0, dtype=np.uint64)
        codes = tuple(np.concatenate([none, *(part[1][j] for part in parts)]) for j in range(len(columns)))
        parts = [(offsets, codes, np.concatenate([np.empty(0, dtype=np.uint8), *(part[2] for part in parts)]))]
    ((offsets, codes, labels),) = parts
    return dict(zip(columns, codes)), labels, offsets


@frozen(slots=False, repr=False)
class TrimmedSums:
    """Trimmed sums of every rule and the distance to instability (private)."""

    profile: Profile
    distance: int


def trimmed_profile(
    concept: ConceptClass, codes: _Codes, labels: Bytes, offsets: Ints, *, levels: int, counts: bool, design: TrimDesign
) -> TrimmedSums:
    """Cuts are swept over the distinct values; other classes are tabulated, some rules at a time."""
    reach = design.ladder
    if concept.layout == "cuts":
        steps: list[Step] = []
        shape: dict[str, Any] = {"levels": levels, "counts": counts, "trim": design.trim, "width": design.width}
        base = 0
        for name, domain in concept.declared().items():
            assert name is not None
            assert domain is not None
            column = SortedColumn(codes[name], labels, offsets)
            part, reach = sweep(column, labels, offsets, concept.directions, base, domain.size, reach=reach, **shape)
            steps += part
            base += len(concept.directions) * (domain.size + 1)
        return TrimmedSums(Profile(tuple(steps)), distance_of(reach, design.ladder))
    n, total = len(offsets) - 1, int(offsets[-1])
    kept = {name: values[:total] for name, values in codes.items()}
    block = max(1, _CHUNK // max(total, n, 1))
    sums = np.empty(concept.size, dtype=np.int64)
    for first in range(0, concept.size, block):
        last = min(first + block, concept.size)
        wrong = (concept.table(kept, first, last) != labels[:total, None]).astype(np.int64)
        running = np.concatenate([np.zeros((1, last - first), np.int64), np.cumsum(wrong, axis=0)])
        mistakes = running[offsets[1:]] - running[offsets[:-1]]
        columns = np.sort(contributions(mistakes, np.diff(offsets), levels, counts=counts), axis=0)
        sums[first:last] = trimmed_sums(columns, design.trim)
        wide = spreads(columns, design.trim, design.ladder)
        reach = min(reach, int(np.searchsorted(wide, design.width, side="right")) - 1)
    return TrimmedSums(dense_profile(sums), distance_of(reach, design.ladder))


@frozen(slots=False, repr=False)
class TrimmedBound(Bound):
    """Bound users with the public parameters in use."""

    design: TrimDesign = field(kw_only=True)
    levels: int = field(kw_only=True)


@frozen(slots=False, kw_only=True, field_transformer=named)
class Trimming:
    """How users are scored and trimmed.  All public; what is left out follows from public numbers.

    Parameters
    ----------
    records_per_user : int, optional
        Records that users hold: alone enough for everything else.
    contribution : {"rates", "counts"}
        Error rates in ``levels`` steps, or mistakes among the first ``levels`` records.
    levels : int, optional
        The largest contribution; default ``records_per_user``.
    trim, ladder, width : int, optional
        Users dropped on each side, the length of the test's pass curve, and how far apart users are expected to be,
        in steps of a contribution (:func:`privpac.methods.design_trim`).
    effective_size : int, optional
        How many rules the width has to hold for; default: as many as can differ.
    """

    records_per_user: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=_MAX_LEVELS))
    contribution: str = field(default="rates", validator=either("rates", "counts"))
    levels: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=_MAX_LEVELS))
    trim: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=1 << 40))
    ladder: int | None = field(default=None, converter=whole_or_none, metadata=bounds(minimum=0, maximum=1 << 16))
    width: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=_MAX_LEVELS))
    effective_size: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=1 << 200))

    def __attrs_post_init__(self) -> None:
        if self.width is None and self.records_per_user is None:
            raise ParameterError("declare records_per_user (public), or width: it is never taken from the data")
        if self.trim is not None and self.ladder is not None and self.trim <= self.ladder:
            raise ParameterError(f"trim must exceed ladder, got trim = {self.trim}, ladder = {self.ladder}")


@frozen(slots=False, field_transformer=named)
class TrimmedSelection(Trimming, Selection):
    """Exponential law over trimmed sums, behind a private test that the users agree.

    Parameters
    ----------
    delta : number
        The most that the promise may miss (public).
    neighbours : {"replace", "add-remove"}
        The second needs ``slots``.
    share : number, optional
        The test's part of epsilon; planned with the trimming when left out.
    failure : number
        How often nothing may be released although users agree.
    slots : int, optional
        A public number of seats, under add-remove.

    Raises
    ------
    ParameterError, InfeasibleError
        A parameter is outside its range, or no trimming meets the promise.

    Examples
    --------
    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(x, int(x > 4)) for x in range(10)]] * 40, features={"x": Integers(0, 9)})
    >>> learner = TrimmedSelection(Thresholds(), 6, delta="1e-4", levels=10, trim=9, ladder=8, width=1, share="1/2")
    >>> law = learner.law(people)
    >>> law.mode, str(learner.guarantee)
    (5, '(6, 0.0001)-DP per user, replace')
    """

    neighbours: Neighbours = field(default=Neighbours.REPLACE, converter=relation)
    delta: Fraction = field(kw_only=True, converter=probability)
    share: Fraction | None = field(kw_only=True, default=None, converter=probability_or_none)
    failure: Fraction = field(kw_only=True, default=DEFAULT_FAILURE, converter=probability)
    slots: int | None = field(kw_only=True, default=None)

    def __attrs_post_init__(self) -> None:
        Trimming.__attrs_post_init__(self)
        Selection.__attrs_post_init__(self)
        read_epsilon(self.epsilon)
        read_slots(self.slots, self.neighbours)
        if self.levels is None and self._records is None:
            raise ParameterError(
                "declare records_per_user (public), or levels: the scale of a contribution is never taken from the data"
            )

    # Public numbers

    @property
    def _records(self) -> int | None:
        given = [m for m in (self.records_per_user, self.max_records) if m is not None]
        return min(given) if given else None

    @property
    def scale(self) -> int:
        """The largest contribution of a user to a rule."""
        scale = self.levels if self.levels is not None else self._records
        assert scale is not None
        return scale

    @property
    def guarantee(self) -> Guarantee:
        how = "trimmed scores behind a release test" + ("" if self.slots is None else f", {self.slots} slots")
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours, derivation=(how,))

    def design(self, n_users: int, size: int, columns: int = 1) -> TrimDesign:
        """Trim, ladder, width and share for a public number of users and of rules (and of columns, for cuts).

        With users who hold ``records_per_user`` independent records each, the answer is "nothing" with probability at
        most ``failure``: half of it is the test's own, half that the users spread wider than ``width``, whatever the
        rules' error rates.
        """
        n, m = positive_int(n_users, "n_users", minimum=0), self._records
        if m is not None and self.contribution == "counts":
            m = min(m, self.scale)
        if self.trim is None and self.ladder is None and self.width is None and self.share is None:
            assert m is not None
            distinct, cuts = self._distinct(n, m, size, columns)
            chosen = design_trim(n, m, self.epsilon, self.delta, distinct, self.failure, cuts=cuts)
            return TrimDesign(chosen.trim, chosen.ladder, self._scaled(chosen.width, m), chosen.share, chosen.noise)
        share = _DEFAULT_SHARE if self.share is None else self.share
        planned = self.trim is None or self.ladder is None
        ladder = self._test(share, self.ladder).ladder if planned or self.ladder is None else self.ladder
        trim = max(ladder + 1, min(ladder + n // 10, (n - 1) // 2)) if self.trim is None else self.trim
        if trim <= ladder:
            raise ParameterError(
                f"trim must exceed the ladder of {ladder} that delta and share need; give a larger trim or share"
            )
        if n <= 2 * trim:
            raise InfeasibleError(f"too few users: trimming {trim} on each side needs more than {2 * trim}, got {n}")
        width = self.width
        if width is None:
            assert m is not None
            distinct, cuts = self._distinct(n, m, size, columns)
            half = self.failure / 2
            found = m if trim - ladder <= cuts else width_iid(n - cuts, m, trim - cuts, ladder, distinct, half)
            width = self._scaled(max(1, found), m)
        scale = self.scale
        noise = 2 * width / (float((1 - share) * self.epsilon) * (n - 2 * trim) * scale)
        return TrimDesign(trim, ladder, width, share, noise)

    def _distinct(self, n: int, m: int, size: int, columns: int) -> tuple[int, bool]:
        """How many rules the width has to hold for, and whether they are cuts at users' own values.

        All of the class, or for cuts those at one of the ``n m`` values of a column and one beyond them: any other cut
        predicts like one of these.  Both directions of a cut spread alike.
        """
        if self.effective_size is not None:
            return self.effective_size, False
        at_values = columns * (n * m + 1)
        if self.concept.layout == "cuts" and at_values < size:
            return max(1, at_values), True
        return max(1, size), False

    def _scaled(self, width: int, m: int) -> int:
        """A width in records as one in steps; rounding a rate to a step moves it by half a step at most."""
        return width if self.scale == m or self.contribution == "counts" else -(-width * self.scale // m) + 1

    def _test(self, share: Fraction, ladder: int | None) -> ReleaseTest:
        given: dict[str, Any] = {} if ladder is None else {"ladder": ladder}
        given |= {"unit": self.unit, "neighbours": self.neighbours, "failure": self.failure / 2}
        return ReleaseTest(share * self.epsilon, self.delta, **given)

    # Laws

    def bind(self, data: Users) -> TrimmedBound:
        plain = super().bind(data)
        users = plain.users.max_records(self.scale) if self.contribution == "counts" else plain.users
        n = public_count(users, self.slots)
        if plain.concept.layout != "cuts" and n * plain.concept.size > MAX_TRIM_CELLS:
            raise TooLargeError(
                f"users times rules must be at most {MAX_TRIM_CELLS}; use thresholds, stumps, a smaller class or "
                "RegretSelection"
            )
        design = self.design(n, plain.concept.size, len(plain.concept.declared()))
        return TrimmedBound(plain.concept, users, plain.label, design=design, levels=self.scale)

    def scores(self, bound: TrimmedBound) -> TrimmedSums:
        """Trimmed sums and distance (private)."""
        columns = tuple(name for name in bound.concept.declared() if name is not None)
        codes, labels, offsets = joined(bound.users.fold(Gather(columns)), columns)
        counts, seated = self.contribution == "counts", seat_arrays(offsets, self.slots)
        return trimmed_profile(
            bound.concept, codes, labels, seated, levels=bound.levels, counts=counts, design=bound.design
        )

    def _answer(self, profile: Profile, design: TrimDesign) -> Law:
        # Every score moves by at most the width either way: the range is twice that.
        return profile.law((1 - design.share) * self.epsilon / (2 * design.width))

    def law(self, data: Users) -> Law:
        """The law over rule ids and ``BOTTOM`` (private: for the curator and for audits)."""
        bound = self.bind(data)
        found, design = self.scores(bound), bound.design
        return self._test(design.share, design.ladder).law(found.distance, self._answer(found.profile, design))

    def draw(self, bound: TrimmedBound, rng: Rng) -> Released:
        design = bound.design
        shown: dict[str, object] = {"trim": design.trim, "ladder": design.ladder, "width": design.width}
        shown |= {"levels": bound.levels, "share": design.share, "contribution": self.contribution}
        shown |= {} if self.slots is None else {"slots": self.slots}
        found, method = self.scores(bound), "trimmed selection"
        if not self._test(design.share, design.ladder).passes(found.distance, rng):
            return no_release(self.guarantee, {"class": type(bound.concept).__name__} | shown, self.warnings, method)
        return self.release_rule(bound, self._answer(found.profile, design), rng, shown, method)
