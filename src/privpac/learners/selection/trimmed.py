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
(:mod:`privpac.mechanisms.certificate`).  Any public parameters are private; they change the accuracy only.  **Never
take the width from the data.**

Add-remove: with declared ``slots`` only (:mod:`privpac.learners.seats`).  Every empty slot is a possible outlier, so
their number must stay well below the ladder.  *Not for realizable learning*: a mistake of fewer than ``trim`` users is
invisible.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.bounds.transform import width_iid
from privpac.concepts.base import ConceptClass
from privpac.concepts.profile import Profile, Step, dense_profile
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.guarantee import Guarantee, Neighbours, Unit, positive_int
from privpac.law import Law
from privpac.learners.base import Bound, Selection
from privpac.learners.pairwise.profile import Gather, joined
from privpac.learners.seats import public_count, read_slots, seat_arrays
from privpac.learners.selection.trimmed_scores import (
    SortedColumn,
    contributions,
    distance_of,
    spreads,
    sweep,
    trimmed_sums,
)
from privpac.learners.transform.choice import TrimDesign, design_trim
from privpac.mechanisms.certificate import DEFAULT_FAILURE, ReleaseTest
from privpac.parameters import (
    Composed,
    bounds,
    either,
    named,
    part,
    probability,
    probability_or_none,
    read_epsilon,
    relation,
    whole_or_none,
)
from privpac.released import NoRelease, Released
from privpac.rng import Rng

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.exact import Rational

__all__ = ["NOTHING", "TrimmedSelection", "TrimmedSums", "no_release", "trimmed_profile"]

NOTHING = "The stability test did not pass; no hypothesis is released. The full budget has been spent."
MAX_LEVELS = 1 << 24
MAX_CELLS = 1 << 30
"""The most contributions (users times rules) of a class that is not swept."""

_CHUNK = 1 << 25
_DEFAULT_SHARE = Fraction(1, 4)
Codes = Mapping[str, NDArray[np.uint64]]
Ints = NDArray[np.int64]


def no_release(guarantee: Guarantee, parameters: Mapping[str, Any], warnings: tuple[str, ...], method: str) -> Released:
    """The covered outcome "nothing": no distance, no probability, no user is shown."""
    return Released(NoRelease, guarantee, parameters, outcome="none", warnings=(*warnings, NOTHING), learner=method)


# Scores of a class


@dataclass(frozen=True, repr=False)
class TrimmedSums:
    """Trimmed sums of every rule and the distance to instability (private)."""

    profile: Profile
    distance: int


def trimmed_profile(
    concept: ConceptClass,
    codes: Codes,
    labels: NDArray[np.uint8],
    offsets: Ints,
    *,
    levels: int,
    counts: bool,
    design: TrimDesign,
) -> TrimmedSums:
    """Cuts are swept over the distinct values; other classes are tabulated."""
    shape: dict[str, Any] = {"levels": levels, "counts": counts, "trim": design.trim, "width": design.width}
    if concept.layout == "cuts":
        steps: list[Step] = []
        reach, base = design.ladder, 0
        for name, domain in concept.declared().items():
            assert name is not None
            assert domain is not None
            column = SortedColumn(codes[name], labels, offsets)
            part, reach = sweep(column, labels, offsets, concept.directions, base, domain.size, reach=reach, **shape)
            steps += part
            base += len(concept.directions) * (domain.size + 1)
        return TrimmedSums(Profile(tuple(steps)), distance_of(reach, design.ladder))
    return _tabulated(concept, codes, labels, offsets, levels=levels, counts=counts, design=design)


def _tabulated(
    concept: ConceptClass,
    codes: Codes,
    labels: NDArray[np.uint8],
    offsets: Ints,
    *,
    levels: int,
    counts: bool,
    design: TrimDesign,
) -> TrimmedSums:
    n, total = len(offsets) - 1, int(offsets[-1])
    kept = {name: column[:total] for name, column in codes.items()}
    block = max(1, _CHUNK // max(total, n, 1))
    sums = np.empty(concept.size, dtype=np.int64)
    reach = design.ladder
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


# The learner


@frozen(slots=False, repr=False)
class TrimmedBound(Bound):
    """Bound users with the public parameters in use."""

    design: TrimDesign = field(kw_only=True)
    levels: int = field(kw_only=True)


@frozen(slots=False, field_transformer=named)
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
        in steps of a contribution (:func:`privpac.learners.design_trim`).
    effective_size : int, optional
        How many rules the width has to hold for; default: as many as can differ.
    """

    records_per_user: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=MAX_LEVELS))
    contribution: str = field(default="rates", validator=either("rates", "counts"))
    levels: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=MAX_LEVELS))
    trim: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=1 << 40))
    ladder: int | None = field(default=None, converter=whole_or_none, metadata=bounds(minimum=0, maximum=1 << 16))
    width: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=MAX_LEVELS))
    effective_size: int | None = field(default=None, converter=whole_or_none, metadata=bounds(maximum=1 << 200))

    def __attrs_post_init__(self) -> None:
        if self.width is None and self.records_per_user is None:
            raise ParameterError("declare records_per_user (public), or width: it is never taken from the data")
        if self.trim is not None and self.ladder is not None and self.trim <= self.ladder:
            raise ParameterError(f"trim must exceed ladder, got trim = {self.trim}, ladder = {self.ladder}")


@frozen(slots=False, init=False, field_transformer=named)
class TrimmedSelection(Composed, Selection):
    """Exponential law over trimmed sums, behind a private test that the users agree.

    Parameters
    ----------
    delta : number
        The most that the promise may miss (public).
    neighbours : {"replace", "add-remove"}
        The second needs ``slots``.
    trimming : Trimming
        Given by its own parameters; ``records_per_user`` alone is enough.
    share : number, optional
        The test's part of epsilon; planned with the trimming when left out.
    failure : number
        How often nothing may be released although users agree.
    slots : int, optional
        A public number of seats, under add-remove.

    >>> from privpac.concepts import Thresholds
    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(x, int(x > 4)) for x in range(10)]] * 40, features={"x": Integers(0, 9)})
    >>> learner = TrimmedSelection(Thresholds(), 6, delta="1e-4", levels=10, trim=9, ladder=8, width=1, share="1/2")
    >>> law = learner.law(people)
    >>> law.mode, str(learner.guarantee)
    (5, '(6, 0.0001)-DP per user, replace')
    """

    neighbours: Neighbours = field(default=Neighbours.REPLACE, converter=relation)
    delta: Fraction = field(kw_only=True, converter=probability)
    trimming: Trimming = part(Trimming)
    share: Fraction | None = field(kw_only=True, default=None, converter=probability_or_none)
    failure: Fraction = field(kw_only=True, default=DEFAULT_FAILURE, converter=probability)
    slots: int | None = field(kw_only=True, default=None)

    if TYPE_CHECKING:

        def __init__(
            self,
            concept: ConceptClass,
            epsilon: Rational,
            unit: Unit | str = ...,
            max_records: int | None = ...,
            neighbours: Neighbours | str = ...,
            *,
            delta: Rational,
            records_per_user: int | None = ...,
            contribution: str = ...,
            levels: int | None = ...,
            trim: int | None = ...,
            ladder: int | None = ...,
            width: int | None = ...,
            effective_size: int | None = ...,
            share: Rational | None = ...,
            failure: Rational = ...,
            slots: int | None = ...,
        ) -> None: ...

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        read_epsilon(self.epsilon)
        read_slots(self.slots, self.neighbours)
        if self.trimming.levels is None and self._records is None:
            raise ParameterError(
                "declare records_per_user (public), or levels: the scale of a contribution is never taken from the data"
            )

    # Public numbers

    @property
    def _records(self) -> int | None:
        given = [m for m in (self.trimming.records_per_user, self.max_records) if m is not None]
        return min(given) if given else None

    @property
    def scale(self) -> int:
        """The largest contribution of a user to a rule."""
        scale = self.trimming.levels if self.trimming.levels is not None else self._records
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
        if m is not None and self.trimming.contribution == "counts":
            m = min(m, self.scale)
        given = self.trimming
        if given.trim is None and given.ladder is None and given.width is None and self.share is None:
            assert m is not None
            distinct, cuts = self._distinct(n, m, size, columns)
            chosen = design_trim(n, m, self.epsilon, self.delta, distinct, self.failure, cuts=cuts)
            return TrimDesign(chosen.trim, chosen.ladder, self._scaled(chosen.width, m), chosen.share, chosen.noise)
        share = _DEFAULT_SHARE if self.share is None else self.share
        planned = given.trim is None or given.ladder is None
        ladder = self._test(share, given.ladder).ladder if planned or given.ladder is None else given.ladder
        trim = max(ladder + 1, min(ladder + n // 10, (n - 1) // 2)) if given.trim is None else given.trim
        if trim <= ladder:
            raise ParameterError(
                f"trim must exceed the ladder of {ladder} that delta and share need; give a larger trim or share"
            )
        if n <= 2 * trim:
            raise InfeasibleError(f"too few users: trimming {trim} on each side needs more than {2 * trim}, got {n}")
        width = self.trimming.width
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
        if self.trimming.effective_size is not None:
            return self.trimming.effective_size, False
        at_values = columns * (n * m + 1)
        if self.concept.layout == "cuts" and at_values < size:
            return max(1, at_values), True
        return max(1, size), False

    def _scaled(self, width: int, m: int) -> int:
        """A width in records as one in steps; rounding a rate to a step moves it by half a step at most."""
        return width if self.scale == m or self.trimming.contribution == "counts" else -(-width * self.scale // m) + 1

    def _test(self, share: Fraction, ladder: int | None) -> ReleaseTest:
        given: dict[str, Any] = {
            "unit": self.unit,
            "neighbours": self.neighbours,
            "failure": self.failure / 2,
        }
        given |= {} if ladder is None else {"ladder": ladder}
        return ReleaseTest(share * self.epsilon, self.delta, **given)

    # Laws

    def bind(self, data: Users) -> TrimmedBound:
        plain = super().bind(data)
        users = plain.users.max_records(self.scale) if self.trimming.contribution == "counts" else plain.users
        n = public_count(users, self.slots)
        if plain.concept.layout != "cuts" and n * plain.concept.size > MAX_CELLS:
            raise TooLargeError(
                f"users times rules must be at most {MAX_CELLS}; use thresholds, stumps, a smaller class or "
                "RegretSelection"
            )
        design = self.design(n, plain.concept.size, len(plain.concept.declared()))
        return TrimmedBound(plain.concept, users, plain.label, design=design, levels=self.scale)

    def scores(self, bound: TrimmedBound) -> TrimmedSums:
        """Trimmed sums and distance (private)."""
        columns = tuple(name for name in bound.concept.declared() if name is not None)
        codes, labels, offsets = joined(bound.users.fold(Gather(columns)), columns)
        seated = seat_arrays(offsets, self.slots)
        return trimmed_profile(
            bound.concept,
            codes,
            labels,
            seated,
            levels=bound.levels,
            counts=self.trimming.contribution == "counts",
            design=bound.design,
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
        shown: dict[str, Any] = {
            "trim": design.trim,
            "ladder": design.ladder,
            "width": design.width,
            "levels": bound.levels,
        }
        shown |= {"share": design.share, "contribution": self.trimming.contribution} | (
            {} if self.slots is None else {"slots": self.slots}
        )
        found, method = self.scores(bound), "trimmed selection"
        if not self._test(design.share, design.ladder).passes(found.distance, rng):
            return no_release(self.guarantee, {"class": type(bound.concept).__name__} | shown, self.warnings, method)
        return self.release_rule(bound, self._answer(found.profile, design), rng, shown, method)
