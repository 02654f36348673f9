"""Means of bounded columns whose users agree: noise for the width of a crowd instead of the width of the range.

*TrimmedMean* (few columns).  The test of trimmed selection (:mod:`privpac.methods.trimmed`) column by
column, with public widths ``w_j``; the trimmed sums move by at most ``w_j`` each, so discrete Laplace noise of scale
``sum of w_j / eps_O`` in every column is eps_O-DP.

*FriendlyMean* (any number of columns, one norm).  ``deg(i)`` counts the users farther than ``width`` from user i.  With
public ``D >= K >= 1`` and ``n >= 4D``, the distance is ``rho = min{j <= K : #{i : deg(i) > D - (K - j)} <= j}`` (else
``K + 1``), user i has weight ``min(D, max(0, 2D - deg(i)))``, and the weighted mean is released.

**Guarantee** (Theorem F).  ``(eps_R + eps_O, delta)`` per user under replace.  A replacement moves other users' degrees
by at most 1, so ``Q_k = #{deg > D - k}`` obeys ``Q_k(x') <= Q_(k+1)(x) + 1`` and rho moves by at most 1.  If ``rho <=
K``, at most K users lack full weight; weights of the others change by one unit for at most K users each way, so the
normalised weights differ by ``(D + K) / ((n - K) D)`` in total variation, and any two users of positive weight have a
common friend among the unchanged ones: they are within ``2 width``.  Hence the mean moves by at most ``2 width (1 +
K/D) / (n - K)``.  Then Theorem G.

Never take a width from the data.  Users who differ among themselves more than the width lead to "no answer" every time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cached_property, reduce
from math import isqrt
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from attrs import field, frozen

from privpac.arrays import Codes, Ints
from privpac.data import Domain, UserData
from privpac.data.loops import jit
from privpac.data.users import is_people
from privpac.errors import (
    IncompatibleGuarantees,
    InfeasibleError,
    ParameterError,
    SchemaError,
    TooLargeError,
    did_you_mean,
)
from privpac.exact import Rational, rational, root_up
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.law import Law
from privpac.mechanisms.laplace import Laplace
from privpac.mechanisms.release_test import DEFAULT_FAILURE, ReleaseTest
from privpac.methods.base import Learner
from privpac.methods.trimmed import distance_of, no_release, public_count, read_slots, spreads, trimmed_sums
from privpac.parameters import (
    bounds,
    columns_or_none,
    fraction,
    fraction_or_none,
    named,
    privacy,
    probability,
    probability_or_zero,
    protected_unit,
    relation,
    whole,
    whole_or_none,
)
from privpac.result import Released, Saved, register
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import Users

# What the mean learners share: users' means on a public integer grid, and the published vector.
#
# Every column is a number on a declared range.  A user's mean of a column becomes the nearest of ``0..levels`` (halves
# up), in exact integers, from that user's records only; a user without records stands in the middle.


MAX_MEAN_LEVELS = 1 << 20
_HALF = np.uint64(32)


def _read_names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


def _read_means(values: Iterable[Rational]) -> tuple[Fraction, ...]:
    return tuple(rational(value, "a mean") for value in values)


@register("mean-vector")
@frozen(slots=False)
class MeanVector(Saved):
    """Published means, one rational for each column."""

    features: tuple[str, ...] = field(converter=_read_names)
    values: tuple[Fraction, ...] = field(converter=_read_means)

    def __attrs_post_init__(self) -> None:
        if len(self.features) != len(self.values) or not all(isinstance(name, str) for name in self.features):
            raise ParameterError("a mean vector has one number for each named column")

    def __getitem__(self, name: str) -> float:
        return float(dict(zip(self.features, self.values))[name])

    def __str__(self) -> str:
        return ", ".join(f"mean of {name} = {float(value):.6g}" for name, value in zip(self.features, self.values))


# Users' means


def user_steps(users: UserData, name: str, size: int, levels: int) -> Ints:
    """Everybody's mean of a column as the nearest of ``0..levels``; the middle for who has no records."""
    codes, offsets = users.codes[name], users.offsets
    low, high = _sums(codes & np.uint64(0xFFFFFFFF), offsets), _sums(codes >> _HALF, offsets)
    out = np.full(users.n_users, levels // 2, np.int64)
    for u, (a, b, m) in enumerate(zip(low, high, users.sizes.tolist())):
        if m:
            whole = m * (size - 1)
            # Nearest step, halves up; a domain of one value has one step.
            out[u] = (2 * levels * (a + (b << 32)) + whole) // (2 * whole) if whole else 0
    return out


@frozen(slots=False)
class _Means:
    """A kernel: users by columns (name, size), each mean as a step in 0..levels."""

    columns: tuple[tuple[str, int], ...]
    levels: int

    def zero(self) -> Ints:
        return np.empty((0, len(self.columns)), np.int64)

    def chunk(self, users: UserData) -> Ints:
        return np.stack([user_steps(users, name, size, self.levels) for name, size in self.columns], axis=1)

    def merge(self, a: Ints, b: Ints) -> Ints:
        return np.concatenate([a, b])


def _sums(values: Codes, offsets: Ints) -> list[int]:
    """Exact sums by user: halves of 32 bits, so that 2**32 records of one user cannot overflow."""
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(values, dtype=np.uint64)])
    return [int(x) for x in running[offsets[1:]] - running[offsets[:-1]]]


@frozen(slots=False, repr=False)
class MeanBound:
    """Users bound to numeric columns, and their public number."""

    users: Users
    features: Mapping[str, Domain]
    n_users: int


@frozen(slots=False, repr=False)
class MeanReading:
    """What a mean is released from (private but for the last three): the distance to instability and the integers that
    stand for the means; the largest of them, the noise they get, and the steps that one of them is worth."""

    distance: int
    values: list[int]
    top: int
    noise: Laplace
    spacing: Fraction


@frozen(slots=False, kw_only=True, field_transformer=named)
class Gate:
    """The release test in front of an answer.  All public.

    Parameters
    ----------
    ladder : int, optional
        The length of its pass curve; by default the shortest that fails at most ``failure`` often.
    share : number
        Its part of epsilon; default 1/4.
    failure : number
        How often nothing may be released although users agree.
    slots : int, optional
        A public number of seats, under add-remove.
    """

    _ladder: int | None = field(default=None, converter=whole_or_none, metadata=bounds(minimum=0))
    share: Fraction = field(default=Fraction(1, 4), converter=probability)
    failure: Fraction = field(default=DEFAULT_FAILURE, converter=probability_or_zero)
    slots: int | None = None


@frozen(slots=False, field_transformer=named)
class MeanLearner(Gate, Learner):
    """What learners of means share.  All parameters are public.

    Parameters
    ----------
    epsilon, delta : number
        The privacy parameters.
    neighbours : {"replace", "add-remove"}
        The second needs ``slots``.
    unit : {"user", "item"}
        Whose data are protected.
    features : str or several, optional
        The columns; default: all.
    levels : int
        Steps in which a user's mean is counted; default 1000.
    max_records : int, optional
        How many records of a user are read at most.
    """

    epsilon: Fraction = field(converter=privacy)
    delta: Fraction = field(converter=probability)
    neighbours: Neighbours = field(default=Neighbours.REPLACE, converter=relation)
    unit: Unit = field(default=Unit.USER, converter=protected_unit)
    features: tuple[str, ...] | None = field(kw_only=True, default=None, converter=columns_or_none)
    levels: int = field(kw_only=True, default=1000, converter=whole, metadata=bounds(maximum=MAX_MEAN_LEVELS))
    max_records: int | None = field(kw_only=True, default=None, converter=whole_or_none)

    title: ClassVar[str]

    def __attrs_post_init__(self) -> None:
        read_slots(self.slots, self.neighbours)
        _ = self.test

    @cached_property
    def test(self) -> ReleaseTest:
        """The release test: ``share`` of epsilon and all of delta."""
        return ReleaseTest(
            self.share * self.epsilon,
            self.delta,
            ladder=self._ladder,
            failure=self.failure,
            unit=self.unit,
            neighbours=self.neighbours,
        )

    @property
    def ladder(self) -> int:
        """The length of the test's pass curve."""
        return self.test.ladder

    @property
    def answer_epsilon(self) -> Fraction:
        """What is left for the noise."""
        return (1 - self.share) * self.epsilon

    @property
    def guarantee(self) -> Guarantee:
        slots = "" if self.slots is None else f", {self.slots} slots"
        how = f"{type(self).__name__} behind a release test" + slots
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours, derivation=(how,))

    def bind(self, data: Users) -> MeanBound:
        if not is_people(data):
            raise TypeError(f"data must be UserData, got {type(data).__name__}")
        if data.unit != self.unit:
            raise IncompatibleGuarantees(
                f"the learner promises privacy per {self.unit} but the data are grouped per {data.unit}"
            )
        names = tuple(data.features) if self.features is None else self.features
        unknown = [name for name in names if name not in data.features]
        if unknown:
            near = did_you_mean(unknown[0], data.features)
            raise SchemaError(f"columns {unknown} are not among the features {list(data.features)}{near}") from None
        domains = {name: data.features[name] for name in names}
        odd = [name for name, domain in domains.items() if domain is None or not domain.stepped]
        if odd:
            raise ParameterError(
                f"columns {odd} have no declared range of evenly spaced numbers; declare Integers or Grid in UserData"
            )
        users = data if self.max_records is None else data.max_records(self.max_records)
        n = public_count(users, self.slots)
        return MeanBound(users, {name: domain for name, domain in domains.items() if domain is not None}, n)

    # Laws

    @abstractmethod
    def read(self, bound: MeanBound) -> MeanReading:
        """The distance and the numbers to release (private)."""

    @abstractmethod
    def public(self, bound: MeanBound) -> dict[str, object]:
        """Public parameters beside the levels."""

    def law(self, data: Users) -> Law:
        """The law of the noisy numbers, clamped to their public range, and ``BOTTOM`` (private: for the curator and for
        audits); tuples, or integers for one column."""
        found = self.read(self.bind(data))
        laws: list[Law] = [found.noise.law(value, bounds=(0, found.top)) for value in found.values]
        answer = laws[0]
        if len(laws) > 1:
            pair = laws[0].product(laws[1])
            answer = reduce(lambda joint, law: joint.product(law).map(lambda v: (*v[0], v[1])), laws[2:], pair)
        return self.test.law(found.distance, answer)

    def draw(self, bound: MeanBound, rng: Rng) -> Released:
        public, found = self.public(bound), self.read(bound)
        if not self.test.passes(found.distance, rng):
            return no_release(self.guarantee, public, (), self.title)
        noisy = [found.noise.sample(value, rng, bounds=(0, found.top)) for value in found.values]
        steps = [min(found.spacing * value, Fraction(self.levels)) for value in noisy]
        return Released(self.published(bound, steps), self.guarantee, public, learner=self.title)

    def vectors(self, bound: MeanBound) -> Ints:
        """Users by columns, in steps; empty slots filled (private)."""
        found = bound.users.fold(
            _Means(tuple((name, domain.size) for name, domain in bound.features.items()), self.levels)
        )
        slots = self.slots
        if slots is None:
            return found
        empty = np.full((max(0, slots - len(found)), found.shape[1]), self.levels // 2, np.int64)
        return np.concatenate([found[:slots], empty])

    def published(self, bound: MeanBound, steps: list[Fraction]) -> MeanVector:
        """Steps in 0..levels as values."""
        values = []
        for step, domain in zip(steps, bound.features.values()):
            low, high = domain.ends
            values.append(low + (high - low) * step / self.levels)
        return MeanVector(tuple(bound.features), tuple(values))


MAX_USERS = 20_000
"""The most users whose pairs are compared."""

NORMS = ("l1", "l2", "linf")


# Trimmed means


Widths = Fraction | dict[str, Fraction]


def _read_width(width: Rational | Mapping[str, Rational]) -> Widths:
    if isinstance(width, Mapping):
        return {str(name): rational(value, f"width of {name}", above=0) for name, value in width.items()}
    return rational(width, "width", above=0)


@frozen(slots=False, field_transformer=named)
class TrimmedMean(MeanLearner):
    """Means of a few columns.

    Parameters
    ----------
    width : number or mapping
        How far apart two users' means of a column are expected to be, in its own units (public); one for all columns,
        or ``{column: width}``.
    trim : int, optional
        Users dropped on each side (public); default: the ladder and a tenth.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> from privpac.data import Integers, UserData
    >>> data = UserData.from_users([[49, 51], [50], [50, 52]] * 20, features={"x": Integers(0, 100)}, labelled=False)
    >>> learner = TrimmedMean(8, "1e-3", width=3, levels=100, share="1/2")
    >>> released = learner.learn(data)
    >>> str(learner.guarantee), released.outcome in ("released", "none")
    ('(8, 0.001)-DP per user, replace', True)
    """

    width: Widths = field(kw_only=True, converter=_read_width)
    trim: int | None = field(kw_only=True, default=None, converter=whole_or_none)

    title: ClassVar[str] = "trimmed mean"

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        if self.trim is not None:
            self._trim(2 * self.trim + 1)

    def __hash__(self) -> int:
        return hash((self.epsilon, self.delta, str(self.width), self.trim, self.ladder))

    # Public numbers

    def _trim(self, n: int) -> int:
        trim = max(self.ladder + 1, min(self.ladder + n // 10, (n - 1) // 2)) if self.trim is None else self.trim
        if trim <= self.ladder:
            raise ParameterError(f"trim must exceed ladder, got trim = {trim}, ladder = {self.ladder}")
        if n <= 2 * trim:
            raise InfeasibleError(f"too few users: trimming {trim} on each side needs more than {2 * trim}, got {n}")
        return trim

    def widths(self, bound: MeanBound) -> list[int]:
        """The widths in steps: rounding moves each of two means by at most half a step."""
        out = []
        for name, domain in bound.features.items():
            if isinstance(self.width, Mapping) and name not in self.width:
                raise ParameterError(f"width has no entry for column {name!r}")
            width = self.width[name] if isinstance(self.width, Mapping) else self.width
            size = domain.ends[1] - domain.ends[0]
            out.append(min(self.levels, int(width * self.levels / size) + 1) if size else 1)
        return out

    def bind(self, data: Users) -> MeanBound:
        bound = super().bind(data)
        self._trim(bound.n_users)
        self.widths(bound)
        return bound

    def public(self, bound: MeanBound) -> dict[str, object]:
        return {
            "trim": self._trim(bound.n_users),
            "ladder": self.ladder,
            "widths (steps)": self.widths(bound),
            "levels": self.levels,
        }

    def read(self, bound: MeanBound) -> MeanReading:
        trim, widths = self._trim(bound.n_users), self.widths(bound)
        left, columns = bound.n_users - 2 * trim, np.sort(self.vectors(bound), axis=0)
        reach = min(
            int(np.searchsorted(spreads(columns[:, [j]], trim, self.test.ladder), width, side="right")) - 1
            for j, width in enumerate(widths)
        )
        noise = Laplace(self.answer_epsilon, sum(widths), unit=self.unit, neighbours=self.neighbours)
        sums = [int(s) for s in trimmed_sums(columns, trim)]
        return MeanReading(distance_of(reach, self.test.ladder), sums, self.levels * left, noise, Fraction(1, left))


# Friendly means


@frozen(slots=False, repr=False)
class Friends:
    """Degrees, weights, distance and weighted mean of vectors (private); ``mean`` is None if nobody has weight."""

    degrees: Ints
    weights: Ints
    distance: int
    mean: tuple[Fraction, ...] | None


@jit
def _degrees(vectors: Ints, limit: int, norm: int) -> Ints:
    n, d = vectors.shape
    out = np.zeros(n, np.int64)
    for i in range(n):
        for j in range(i):
            far = np.int64(0)
            for c in range(d):
                gap = abs(vectors[i, c] - vectors[j, c])
                if norm == 1:
                    far += gap
                elif norm == 2:
                    far += gap * gap
                else:
                    far = max(far, gap)
            if far > limit:
                out[i] += 1
                out[j] += 1
    return out


def friends(vectors: Ints, width: Rational, ladder: int, crowd: int, norm: str = "l2") -> Friends:
    """The friendly mean of integer vectors; ``crowd`` is D."""
    w = rational(width, "width", minimum=0)
    limit = int(w * w) if norm == "l2" else int(w)
    degrees = _degrees(
        np.ascontiguousarray(vectors, dtype=np.int64), min(limit, 1 << 62), {"l1": 1, "l2": 2, "linf": 3}[norm]
    )
    distance = next((j for j in range(ladder + 1) if int((degrees > crowd - (ladder - j)).sum()) <= j), ladder + 1)
    weights = np.minimum(crowd, np.maximum(0, 2 * crowd - degrees))
    total = int(weights.sum())
    sums = [int(s) for s in (weights[:, None] * vectors).sum(axis=0)]
    return Friends(degrees, weights, distance, tuple(Fraction(s, total) for s in sums) if total else None)


def friendly_sensitivity(width: Fraction, n: int, ladder: int, crowd: int) -> Fraction:
    """``2 w (1 + K/D) / (n - K)``."""
    return 2 * width * (1 + Fraction(ladder, crowd)) / (n - ladder)


@frozen(slots=False, kw_only=True, field_transformer=named)
class Friendship:
    """When two users are friends, and how the mean is released.  All public.

    Parameters
    ----------
    width : number
        The distance of two users' means up to which they are friends, each column in units of its whole range.
    crowd : int, optional
        D: friends that a user needs; default twice the ladder.  Four times as many users are needed.
    norm : {"l2", "l1", "linf"}
        How distance is measured.
    spacing : number, optional
        The grid of the release in steps; default: an eighth of the sensitivity, finer for many columns.
    """

    width: Fraction = field(converter=fraction, metadata=bounds(above=0))
    _crowd: int | None = field(default=None, converter=whole_or_none)
    norm: str = "l2"
    spacing: Fraction | None = field(default=None, converter=fraction_or_none, metadata=bounds(above=0))

    def __attrs_post_init__(self) -> None:
        if self.norm not in NORMS:
            raise ParameterError(f"norm must be one of {', '.join(NORMS)}; got {self.norm!r}")


@frozen(slots=False, field_transformer=named)
class FriendlyMean(Friendship, MeanLearner):
    """Mean of several columns together.  O(n**2) comparisons.

    Raises
    ------
    ParameterError
        A parameter is outside its range.

    Examples
    --------
    >>> from privpac.data import Integers, UserData
    >>> rows = [[(3, 4), (4, 3)], [(4, 4)]] * 40
    >>> data = UserData.from_users(rows, features={"a": Integers(0, 9), "b": Integers(0, 9)}, labelled=False)
    >>> learner = FriendlyMean(8, "1e-3", width="0.3", levels=90, share="1/2")
    >>> learner.ladder, learner.crowd, learner.learn(data).outcome in ("released", "none")
    (3, 6, True)
    """

    title: ClassVar[str] = "friendly mean"

    def __attrs_post_init__(self) -> None:
        Friendship.__attrs_post_init__(self)
        MeanLearner.__attrs_post_init__(self)
        if self.ladder < 1:
            raise ParameterError("ladder must be at least 1 for a friendly mean")
        if self.crowd < self.ladder:
            raise ParameterError(f"crowd must be at least ladder, got crowd = {self.crowd}, ladder = {self.ladder}")

    # Public numbers

    @property
    def crowd(self) -> int:
        """D: friends that a user needs."""
        return 2 * self.ladder if self._crowd is None else self._crowd

    def steps_width(self, d: int) -> int:
        """The width in steps; rounding moves each vector by at most half a step in every column."""
        slack = {"l1": d, "l2": root_up(d), "linf": 1}[self.norm]
        exact = self.width * self.levels
        return -(-exact.numerator // exact.denominator) + slack

    def sensitivity(self, n: int, d: int) -> Fraction:
        """How far the mean moves, in steps."""
        return friendly_sensitivity(Fraction(self.steps_width(d)), n, self.test.ladder, self.crowd)

    def grid(self, n: int, d: int) -> tuple[Fraction, int]:
        """Spacing of the released grid, and how far its indices move in total: ``floor(norm factor * Delta / g) +
        d``."""
        moved = self.sensitivity(n, d)
        g = moved / (8 * root_up(d)) if self.spacing is None else self.spacing
        ratio = moved / g
        factor = {"l1": int(ratio), "l2": isqrt(int(d * ratio * ratio)), "linf": int(d * ratio)}[self.norm]
        return g, factor + d

    def bind(self, data: Users) -> MeanBound:
        bound = super().bind(data)
        n, d, width = bound.n_users, len(bound.features), self.width
        farthest = {"l1": d, "l2": d, "linf": 1}[self.norm]  # of l2: squared
        if (width * width if self.norm == "l2" else width) > farthest:
            raise ParameterError(
                f"width is in units of the columns' whole ranges (0.1: a tenth of the range), and nobody is {width} "
                "apart; give a width of at most 1 for one column"
            )
        if n < 4 * self.crowd:
            raise InfeasibleError(f"too few users: crowd = {self.crowd} needs at least {4 * self.crowd}, got {n}")
        if n > MAX_USERS:
            raise TooLargeError(f"all pairs of users are compared: at most {MAX_USERS} users, got {n}; use TrimmedMean")
        return bound

    def public(self, bound: MeanBound) -> dict[str, object]:
        return {
            "ladder": self.ladder,
            "crowd": self.crowd,
            "width": self.width,
            "norm": self.norm,
            "levels": self.levels,
            "spacing": self.grid(bound.n_users, len(bound.features))[0],
        }

    def read(self, bound: MeanBound) -> MeanReading:
        n, d = bound.n_users, len(bound.features)
        g, moved = self.grid(n, d)
        found = friends(self.vectors(bound), self.steps_width(d), self.test.ladder, self.crowd, self.norm)
        # Nobody has weight only where nothing is ever released.
        mean = found.mean if found.mean is not None else (Fraction(0),) * d
        places = [int(value / g + Fraction(1, 2)) for value in mean]
        noise = Laplace(self.answer_epsilon, moved, unit=self.unit, neighbours=self.neighbours)
        return MeanReading(found.distance, places, int(self.levels / g + Fraction(1, 2)), noise, g)
