"""How small can the error be?  A private estimate of the least error of a class.

:class:`PrivateCompare` asks whether the least error lies above ``value`` or below ``value + width``.  A user counts
against a rule when it makes more than ``t(m)`` mistakes on the user's ``m`` records, ``t`` the best separator of error
rates ``value`` and ``value + width``; ``M`` is the least count over the class and ``tau(m)`` the middle of the two
expected shares.  With ``D = M - sum of tau(m_i)``, the answer is 0 iff ``D`` plus Laplace noise is at most 0: one exact
coin. :class:`MinimumError` bisects with such comparisons, or (``"oneshot"``, less noise) selects among all cells of a
grid at once (Li, Wang and Ye, *Improved Bounds*, Lemma C.1 and Algorithm 2 with its branches corrected).

**Guarantee.**  ``(epsilon, 0)`` per user.  Adding a user moves ``M`` by 0 or 1 and the sum by ``tau`` in [0, 1], so
``D`` moves by at most 1.  Under replace a user of one size may be swapped for one of another: ``D`` moves by at most
``1 + max tau - min tau`` over the admissible sizes (2 if nothing is declared).  ``tau`` and ``t`` are public functions
of the number of records; privacy holds for any such functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from attrs import evolve, field, frozen

from privpac.arrays import Ints
from privpac.data.users import SALT, Kernel, UserData
from privpac.errors import TooLargeError
from privpac.exact import ExpSum
from privpac.guarantee import Guarantee, Neighbours
from privpac.law import Law
from privpac.methods.base import Bound, profile_of
from privpac.papers.pure_agnostic.sizes import (
    MAX_SIZES,
    AdmissibleUsers,
    SizedSelection,
    UsersView,
    fold_pieces,
    size_counts,
)
from privpac.parameters import bounds, fraction, named, one_word_of, probability_or_zero
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.kernels.cuts import least_counts, sort_within_users
from privpac.rules.profile import Exceeds
from privpac.special import MAX_RECORDS, betainc, crosses, psi_exact

if TYPE_CHECKING:
    from privpac.data import Domain, OnInvalid, Users

# Users in memory whose records are sorted once, for learners that fold the same column many times.
#
# Every fold of a class of cuts starts by sorting each user's records; on records in order that is one look at them.


_P = TypeVar("_P")


@frozen(slots=False, eq=False, repr=False)
class OrderedUsers(UsersView):
    """Groups of bound users, each user's records in increasing order of one column."""

    pieces: tuple[UserData, ...]

    def bind(self, domains: Mapping[str, Domain], on_invalid: OnInvalid | str | None = None) -> Users:
        return self.base.bind(domains, on_invalid)

    def max_records(self, cap: int, rule: str | None = None, salt: bytes = SALT) -> Users:
        return self.base.max_records(cap, rule, salt)

    def fold(self, kernel: Kernel[_P]) -> _P:
        return fold_pieces(self.pieces, kernel)


def _sort(users: UserData, column: str) -> UserData:
    assert users.labels is not None
    key, tag = sort_within_users(users.codes[column], users.labels, users.offsets)
    return evolve(users, codes={column: key}, features={column: users.features[column]}, labels=tag, raw={})


def ordered(bound: Bound) -> Bound:
    """The same users with their records in order, where they are in memory and the class is one of cuts."""
    pieces = [bound.users] if isinstance(bound.users, UserData) else None
    if isinstance(bound.users, AdmissibleUsers):
        pieces = bound.users.pieces
    if pieces is None or bound.concept.cut_direction is None:
        return bound
    (column,) = bound.concept.declared()
    assert column is not None
    return Bound(bound.concept, OrderedUsers(bound.users, tuple(_sort(piece, column) for piece in pieces)), bound.label)


ESTIMATORS = ("oneshot", "bisect")
_GRID = 1 << 32
_EXACT = 1 << 10
_MAX_ROUNDS = 12
_LIMIT = 1 << 28
_ONE = ExpSum.of(1)


@lru_cache(maxsize=1 << 12)
def _entry(m: int, p: Fraction, q: Fraction) -> tuple[int, Fraction]:
    """``t(m)`` and ``tau(m)``: the best separator and the middle of the two shares, rounded to ``2**-32``, halves
    up."""
    t, tau = _entries(np.array([min(m, MAX_RECORDS)], dtype=np.int64), p, q)
    # No data-dependent refusal: beyond the search limit the same share of the records is forgiven.
    return int(t[0]) * max(m, 1) // max(1, min(m, MAX_RECORDS)), Fraction(int(tau[0]), _GRID)


def _entries(sizes: Ints, p: Fraction, q: Fraction) -> tuple[Ints, Ints]:
    """The same for many numbers of records at once, ``tau`` in steps of ``2**-32``."""
    t = np.where(sizes > 0, crosses(sizes, p, q), 0)
    a, b = t + 1.0, np.maximum(sizes - t, 1).astype(float)
    scaled = (betainc(a, b, float(p)) + betainc(a, b, float(q))) / 2 * _GRID
    tau = np.where(sizes > 0, np.floor(scaled + 0.5), 0).astype(np.int64)
    # Doubles err by less than 1/200 of a step, so they settle all but near ties; large sizes take theirs, which is
    # public too.
    for i in np.flatnonzero((sizes > 0) & (sizes <= _EXACT) & (np.abs(scaled - np.floor(scaled) - 0.5) < 1 / 64)):
        m, k = int(sizes[i]), int(t[i])
        tau[i] = floor((psi_exact(m, p, k) + psi_exact(m, q, k)) / 2 * _GRID + Fraction(1, 2))
    return t, tau


@frozen(slots=False)
class _Data:
    """What comparisons read of bound users: how many hold how many records, and what each comparison found so far."""

    bound: Bound
    counts: Mapping[int, int]
    tables: dict[tuple[Fraction, Fraction], tuple[dict[int, int], Fraction]] = field(factory=dict)
    known: dict[tuple[int, ...], int] = field(factory=dict)

    @staticmethod
    def of(bound: Bound) -> _Data:
        return _Data(ordered(bound), size_counts(bound.users))

    def table(self, p: Fraction, q: Fraction) -> tuple[dict[int, int], Fraction]:
        """The tolerance of every number of records that occurs, and the expected number of users beyond theirs."""
        if (p, q) not in self.tables:
            sizes = np.array(list(self.counts), dtype=np.int64)
            t, tau = _entries(np.minimum(sizes, MAX_RECORDS), p, q)
            forgiven = {m: _entry(m, p, q)[0] if m > MAX_RECORDS else k for m, k in zip(self.counts, t.tolist())}
            expected = sum(count * share for count, share in zip(self.counts.values(), tau.tolist()))
            self.tables[p, q] = forgiven, Fraction(expected, _GRID)
        return self.tables[p, q]

    def difference(self, p: Fraction, q: Fraction) -> Fraction:
        """``D``: the least count minus its threshold."""
        # Clamping keeps the step of the difference, and scaled scores within 64 bits whatever the data.
        return max(Fraction(-_LIMIT), min(Fraction(_LIMIT), self._least(p, q) - self.table(p, q)[1]))

    def prepare(self, spans: Sequence[tuple[Fraction, Fraction]]) -> None:
        """Find the least counts of many comparisons together, where the users are in memory and the class is one of
        cuts."""
        if not isinstance(self.bound.users, OrderedUsers) or self.bound.concept.cut_direction is None:
            return
        listed = {tuple(forgiven.values()): forgiven for forgiven in (self.table(p, q)[0] for p, q in spans)}
        (column,) = self.bound.concept.declared()
        assert column is not None
        found = least_counts(
            self.bound.users.pieces,
            column,
            self.bound.concept.directions,
            [forgiven.__getitem__ for forgiven in listed.values()],
        )
        self.known.update({} if found is None else zip(listed, found))

    def _least(self, p: Fraction, q: Fraction) -> int:
        forgiven = self.table(p, q)[0]
        table = tuple(forgiven.values())
        if table not in self.known:
            self.known[table] = profile_of(self.bound, Exceeds(forgiven.__getitem__)).least
        return self.known[table]


def _span(value: Fraction, width: Fraction) -> tuple[Fraction, Fraction]:
    return value, min(Fraction(1), value + width)


def _step(learner: SizedSelection, p: Fraction, q: Fraction) -> Fraction:
    """How far one user moves ``D``."""
    if learner.neighbours is Neighbours.ADD_REMOVE:
        return Fraction(1)
    sizes = learner.admissible
    if sizes is None or len(sizes) > MAX_SIZES:
        return Fraction(2)
    taus = _entries(np.minimum([m for m in sizes if m >= 1], MAX_RECORDS).astype(np.int64), p, q)[1].tolist()
    # A user of size m counted as bad is swapped for one of size m' counted as good; only m >= 1 can be bad.
    return Fraction(1) if not taus else 1 + Fraction(max(taus) - min(taus), _GRID)


def _zero_weight(difference: Fraction, rate: Fraction) -> ExpSum:
    """``Pr[difference + Lap(1/rate) <= 0]``."""
    if difference <= 0:
        return _ONE - ExpSum.exp(rate * difference, Fraction(1, 2))
    return ExpSum.exp(-rate * difference, Fraction(1, 2))


def _coin(difference: Fraction, rate: Fraction) -> Law:
    zero = _zero_weight(difference, rate)
    return Law.from_weights([(0, zero), (1, _ONE - zero)])


@frozen(slots=False, field_transformer=named)
class PrivateCompare(SizedSelection):
    """0: the least error is below ``value + width``; 1: it is above ``value`` (either is right in between).

    Parameters
    ----------
    value, width : number
        What the least error is compared with, and where either answer is right (public); default 1/4.

    >>> from privpac.rules import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(1, 0), (0, 0)], [(1, 1), (0, 0)]], features={"x": Integers(0, 1)})
    >>> float(PrivateCompare(Thresholds(), epsilon=2, value="3/8", width="1/4").law(people).prob(0)) > 0.5
    True
    """

    value: Fraction = field(default=Fraction(1, 4), converter=probability_or_zero)
    width: Fraction = field(default=Fraction(1, 4), converter=fraction, metadata=bounds(above=0, maximum=1))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=self.epsilon**2 / 2)

    def entry(self, m: int) -> tuple[int, Fraction]:
        """The public table: mistakes forgiven and expected share for users with ``m`` records."""
        return _entry(m, *_span(self.value, self.width))

    @property
    def sensitivity(self) -> Fraction:
        """How far one user moves the compared difference."""
        return _step(self, *_span(self.value, self.width))

    def difference(self, data: Users) -> Fraction:
        """``D`` (private: for the curator and for audits)."""
        return _Data.of(self.bind(data)).difference(*_span(self.value, self.width))

    def law(self, data: Users) -> Law:
        """The law of the answer."""
        return self._law(self.bind(data))

    def _law(self, bound: Bound) -> Law:
        return _coin(_Data.of(bound).difference(*_span(self.value, self.width)), self.epsilon / self.sensitivity)

    def shown_as(self, bound: Any, value: Any) -> tuple[str, str] | None:
        return "released", str(value)

    def draw(self, bound: Bound, rng: Rng) -> Released:
        shown = {"value": self.value, "width": self.width}
        return Released(
            self._law(bound).sample(rng),
            self.guarantee,
            parameters=shown,
            warnings=self.warnings,
            learner="private comparison",
        )


def estimate_rounds(radius: Fraction) -> int:
    """``ceil(log2(1/radius))``."""
    rounds = 0
    while Fraction(1, 1 << rounds) > radius:
        rounds += 1
    return rounds


def estimate_cells(radius: Fraction) -> int:
    """``ceil(1/w)``, ``w = 2 radius / 3``: cells of the one-shot estimate.  Up to two of them border on nothing to
    compare."""
    return ceil(1 / (2 * radius / 3))


@frozen(slots=False, field_transformer=named)
class MinimumError(SizedSelection):
    """The least error of a class up to ``radius``, when there are enough users.

    Parameters
    ----------
    radius : number
        Accuracy of the estimate (public); default 1/8.
    estimator : {"oneshot", "bisect"}
        One selection among ``ceil(1/w)`` cells of width ``w = 2 radius / 3``, or ``ceil(log2(1/radius))`` comparisons
        of width ``radius``.
    """

    radius: Fraction = field(
        default=Fraction(1, 8), converter=fraction, metadata=bounds(minimum=Fraction(1, 1 << _MAX_ROUNDS), below=1)
    )
    estimator: str = field(default="oneshot", validator=one_word_of(ESTIMATORS))

    @property
    def rounds(self) -> int:
        return estimate_rounds(self.radius)

    @property
    def guarantee(self) -> Guarantee:
        # T comparisons of epsilon/T each; the exponential mechanism has bounded range.
        rho = self.epsilon**2 / 8 if self.estimator == "oneshot" else self.epsilon**2 / (2 * max(self.rounds, 1))
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=rho)

    def law(self, data: Users) -> Law:
        """The law of the estimate, a rational in [0, 1]."""
        return self.law_of(self.bind(data))

    def law_of(self, bound: Bound) -> Law:
        """The same for bound users."""
        return self._oneshot(_Data.of(bound)) if self.estimator == "oneshot" else self._bisect(_Data.of(bound))

    def sample(self, bound: Bound, rng: Rng) -> Fraction:
        """One estimate, without listing the law."""
        data = _Data.of(bound)
        if self.estimator == "oneshot":
            drawn: Fraction = self._oneshot(data).sample(rng)
            return drawn
        left, right = Fraction(0), Fraction(1)
        for _ in range(self.rounds):
            middle = (left + right) / 2
            left, right = (left, middle) if self._answer(data, middle).sample(rng) == 0 else (middle, right)
        return self._centre(left, right)

    def shown_as(self, bound: Any, value: Any) -> tuple[str, str] | None:
        return "released", str(value)

    def draw(self, bound: Bound, rng: Rng) -> Released:
        shown: dict[str, object] = {
            "class": type(bound.concept).__name__,
            "radius": self.radius,
            "estimator": self.estimator,
        }
        drawn = self.sample(bound, rng)
        return Released(
            drawn, self.guarantee, parameters=shown, warnings=self.warnings, learner="least error of a class"
        )

    # Bisection: l <= eta <= r + w throughout, so the centre is within (2**-T + w)/2 <= radius

    def _centre(self, left: Fraction, right: Fraction) -> Fraction:
        return (left + min(Fraction(1), right + self.radius)) / 2

    def _answer(self, data: _Data, middle: Fraction) -> Law:
        p, q = _span(middle, self.radius)
        return _coin(data.difference(p, q), self.epsilon / self.rounds / _step(self, p, q))

    def _bisect(self, data: _Data) -> Law:
        if self.rounds > 10:
            raise TooLargeError(
                f"{self.rounds} comparisons have 2**{self.rounds} outcomes; use estimator='oneshot', or a radius of "
                "1/1024"
            )
        weights: dict[Fraction, ExpSum] = {}

        def descend(left: Fraction, right: Fraction, depth: int, share: ExpSum) -> None:
            if depth == self.rounds:
                centre = self._centre(left, right)
                weights[centre] = weights.get(centre, ExpSum()) + share
                return
            middle = (left + right) / 2
            p, q = _span(middle, self.radius)
            zero = _zero_weight(data.difference(p, q), self.epsilon / self.rounds / _step(self, p, q))
            descend(left, middle, depth + 1, share * zero)
            # sigma = 1 means that the least error lies above the middle.
            descend(middle, right, depth + 1, share * (_ONE - zero))

        descend(Fraction(0), Fraction(1), 0, _ONE)
        return Law.from_weights(list(weights.items()))

    # One selection: score(j) = max(D_{j+1}, -D_{j-1}) over the cells of a grid

    @property
    def cell(self) -> Fraction:
        return self.radius * 2 / 3

    @property
    def cells(self) -> int:
        return estimate_cells(self.radius)

    def _output(self, j: int) -> Fraction:
        return min(Fraction(1), (j + Fraction(1, 2)) * self.cell)

    @property
    def grid_sensitivity(self) -> Fraction:
        """The largest step of the differences that the one-shot scores use."""
        return max((_step(self, *_span(j * self.cell, self.cell)) for j in range(1, self.cells)), default=Fraction(1))

    def scores(self, data: Users) -> list[tuple[Fraction, Fraction]]:
        """Outputs with their one-shot scores (private: for the curator and for audits)."""
        return [(self._output(j), score) for j, score in enumerate(self._scores(_Data.of(self.bind(data))))]

    def _scores(self, data: _Data) -> list[Fraction]:
        if self.cells <= 2:
            return []
        spans = {j: _span(j * self.cell, self.cell) for j in range(1, self.cells)}
        data.prepare(list(spans.values()))
        grid = {j: data.difference(p, q) for j, (p, q) in spans.items()}
        return [
            max(([grid[j + 1]] if j + 1 in grid else []) + ([-grid[j - 1]] if j - 1 in grid else []))
            for j in range(self.cells)
        ]

    def _oneshot(self, data: _Data) -> Law:
        if self.cells <= 2:
            # The last cell borders on nothing that could be compared; its centre is within the radius of everything.
            return Law.point(self._output(self.cells - 1))
        # D is a multiple of 2**-32, so the scaled scores are integers.  They move both ways: twice the step.
        scaled = [int(score * _GRID) for score in self._scores(data)]
        rate = self.epsilon / (2 * self.grid_sensitivity * _GRID)
        ids = list(range(self.cells))
        return Law.from_blocks(ids, ids, scaled, rate).map(self._output)
