"""One value of one column: "1 iff x = value".

Ids are codes 0..N-1; with ``zero=True`` the rule that never says 1 comes last.  A user's mistakes are ``ones`` (records
with label 1) for every value the user does not hold, and ``ones + zeros(v) - ones(v)`` for a value v the user holds, so
a user adds one number to all rules and a correction to at most m of them: O(m) after the sort, on any domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import ConceptClass
from privpac.concepts.kernels.contribution import change_type, contribution
from privpac.concepts.kernels.events import sum_events
from privpac.concepts.kernels.line import sort_within_users
from privpac.concepts.kernels.spread import spread, user_spans
from privpac.concepts.labellings.base import Labellings
from privpac.concepts.labellings.line import point_labellings
from privpac.concepts.one_column import Point, point_predictions
from privpac.concepts.profile import Profile, Step
from privpac.concepts.rules import ByAgreement, FewValues, Layout
from privpac.concepts.statistics import Statistic
from privpac.concepts.trees.implicit import StarTree
from privpac.data import Domain, UserData
from privpac.data.jit import jit
from privpac.errors import ParameterError

__all__ = ["Point", "Points"]


@jit
def _events(
    key: Any,
    tag: Any,
    offsets: Any,
    start: int,
    stop: int,
    values: Any,
    uses_minimum: bool,
    offset: Any,
    cap: Any,
    levels: int,
    own: Any,
    change: Any,
    total: Any,
) -> None:
    """Per distinct value of a user (at its last record) what it adds to the base, one column a voice; ``total`` sums
    the bases.

    ``values`` is the number of values a user must hold so that no rule is left with the base.
    """
    for u in range(start, stop):
        a, b = offsets[u], offsets[u + 1]
        if a == b:
            continue
        ones = 0
        for i in range(a, b):
            ones += tag[i]
        least: Any = b - a
        most: Any = 0
        mistakes: Any = ones
        held = np.uint64(0)
        for i in range(a, b):
            mistakes += 1 - 2 * np.int64(tag[i])
            if i + 1 == b or key[i + 1] != key[i]:
                least, most = min(least, mistakes), max(most, mistakes)
                mistakes = ones
                held += np.uint64(1)
        if held < values:
            least, most = min(least, ones), max(most, ones)
        own[0, u], own[1, u] = least, most
        minimum = least if uses_minimum else 0
        for v in range(len(cap)):
            base = contribution(ones, minimum, offset[u], cap[v, u], levels)
            total[v] += base
            mistakes = ones
            for i in range(a, b):
                mistakes += 1 - 2 * np.int64(tag[i])
                change[i, v] = 0
                if i + 1 == b or key[i + 1] != key[i]:
                    change[i, v] = contribution(mistakes, minimum, offset[u], cap[v, u], levels) - base
                    mistakes = ones


@jit
def _spikes(places: Any, totals: Any, base: int, last: Any, starts: Any, scores: Any) -> int:
    """From running totals of what is added at each place: that place's own score, and back to ``base`` after it."""
    n = 0
    before: Any = 0
    for i in range(len(places)):
        starts[n], scores[n] = places[i], base + totals[i] - before
        before = totals[i]
        n += 1
        if places[i] != last and (i + 1 == len(places) or places[i + 1] != places[i] + np.uint64(1)):
            starts[n], scores[n] = places[i] + np.uint64(1), base
            n += 1
    return n


@dataclass(frozen=True)
class Points(ConceptClass):
    """One rule for each value of a column.

    >>> from privpac.data import Categories
    >>> print(Points(Categories(["red", "green"]), feature="colour").decode(1))
    1 when colour = green
    """

    domain: Domain | None = None
    feature: str | None = None
    zero: bool = False

    def __post_init__(self) -> None:
        if self.domain is not None and not isinstance(self.domain, Domain):
            raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(self.domain).__name__}")
        if not isinstance(self.zero, bool):
            raise TypeError(f"zero must be True or False, got {type(self.zero).__name__}")

    @cached_property
    def _points(self) -> int:
        if self.domain is None:
            raise ParameterError("this class has no domain yet: Points(Integers(0, 100)), or declare it in UserData")
        return self.domain.size

    @property
    def size(self) -> int:
        return self._points + self.zero

    @property
    def vc_dimension(self) -> int:
        return int(self.size > 1)

    @property
    def littlestone_dimension(self) -> int:
        return int(self.size > 1)

    # What is known

    layout: ClassVar[Layout] = "values"
    rule_by_rule: ClassVar[bool] = False

    @property
    def shattered_points(self) -> int:
        return self.vc_dimension

    @property
    def few_values(self) -> FewValues:
        return FewValues("points")

    @property
    def by_agreement(self) -> ByAgreement:
        return ByAgreement("point", only_with="zero=False" if self.zero else "")

    @property
    def is_tree(self) -> bool:
        return True

    def as_tree(self) -> StarTree:
        self._points  # noqa: B018 - refuses a class without a domain
        return StarTree(self.domain, self.feature)

    def growth(self, n: int) -> int:
        return min(n + 1, self.size)

    # Columns and rules

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self.feature: self.domain}

    def with_columns(self, columns: Mapping[str, Domain]) -> Points:
        ((feature, domain),) = columns.items()
        return Points(domain, feature, self.zero)

    def code(self, hypothesis: int) -> int | None:
        """The code of an id, None for the zero rule."""
        if not 0 <= hypothesis < self.size:
            raise ParameterError(f"ids go from 0 to {self.size - 1}, got {hypothesis}")
        return hypothesis if hypothesis < self._points else None

    def decode(self, hypothesis: int, label: str = "1") -> Point:
        code = self.code(hypothesis)
        assert self.domain is not None
        return Point(self.feature or "x", self.domain, code, label)

    def predictions(self, codes: Mapping[str, NDArray[np.uint64]], hypothesis: int) -> NDArray[np.int8]:
        return point_predictions(codes[self.feature or "x"], self.code(hypothesis))

    # Folding

    def _steps(self, at: int, base: int, places: NDArray[np.uint64], totals: NDArray[np.int64]) -> list[Step]:
        """``base`` for every rule from id ``at`` on, and at ``places[i]`` (the first one is 0) what ``totals`` grows by
        there."""
        last = np.uint64(self._points - 1)
        apart = int(np.count_nonzero(np.diff(places) != 1)) + int(places[-1] != last)
        starts, scores = np.empty(len(places) + apart, dtype=np.uint64), np.empty(len(places) + apart, dtype=np.int64)
        _spikes(places, totals, base, last, starts, scores)
        steps = [Step(at, starts, self._points - 1, scores)]
        if self.zero:
            steps.append(Step(at + self._points, np.zeros(1, dtype=np.uint64), 0, np.array([base], dtype=np.int64)))
        return steps

    def empty_profile(self) -> Profile:
        return Profile(tuple(self._steps(0, 0, np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.int64))))

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        offsets = users.offsets
        key, tag = sort_within_users(users.codes[columns[0]], users.labels, offsets)
        sizes, voices = np.diff(offsets), statistic.voices
        offset, cap = statistic.shape(sizes)
        own = np.zeros((2, len(sizes)), dtype=np.int64)
        change = np.empty((len(key), voices), dtype=change_type(statistic.bound))
        # No user holds 2**64 values, so the last code stands in for that number.
        values = np.uint64(min(self.size, (1 << 64) - 1))

        def run(a: int, b: int) -> NDArray[np.int64]:
            total = np.zeros(voices, dtype=np.int64)
            _events(
                key,
                tag,
                offsets,
                a,
                b,
                values,
                statistic.uses_minimum,
                offset,
                cap,
                statistic.bound,
                own,
                change,
                total,
            )
            return total

        bases = sum(spread(run, user_spans(offsets)), start=np.zeros(voices, dtype=np.int64)).tolist()
        sums = sum_events(key, change, [0] * voices, self._points)
        steps = (
            step
            for v, (base, sums_of) in enumerate(zip(bases, sums))
            for step in self._steps(v * self.size, base, *sums_of)
        )
        return Profile(tuple(steps), statistic.luck(sizes, own))

    # Labellings

    def _labellings(
        self, codes: Mapping[str, NDArray[np.uint64]], rest: UserData, A: int, B: int, levels: int
    ) -> Labellings:
        return point_labellings(codes[self.feature or "x"], self.size, self.losses(rest, levels), A, B)

    def dichotomies(self, codes: Mapping[str, NDArray[np.uint64]]) -> Iterator[tuple[NDArray[np.int8], int, int]]:
        points = codes[self.feature or "x"]
        held = [int(code) for code in np.unique(points).tolist()]
        for code in held:
            yield point_predictions(points, code), code, 1
        if self.size > len(held):
            # Ids are increasing, so the first one that is not held is where they and the positions part.
            first = next((i for i, code in enumerate(held) if i != code), len(held))
            yield point_predictions(points, None), first, self.size - len(held)
