"""Cut-offs on one column: "1 iff x > value", "1 iff x <= value", or both directions.

``cut`` u in 0..N over a domain of N codes: the rule says 1 iff ``code(x) >= u`` (``direction="above"``) or iff
``code(x) < u`` (``"below"``).  Domains of 2**64 values cost as many blocks as there are distinct points.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain, UserData, Users
from privpac.errors import ParameterError
from privpac.rules.base import ConceptClass, Poll
from privpac.rules.dimensions import cut_mistakes
from privpac.rules.hierarchies.paths import PathTree
from privpac.rules.kernels.coarse_pass import CutColumn, Survey, survey, worthwhile
from privpac.rules.kernels.cuts import OneColumn
from privpac.rules.labellings import Labellings
from privpac.rules.one_column import (
    DIRECTIONS,
    VALUE_DIRECTIONS,
    Threshold,
    cut_predictions,
    need_order,
    threshold_labellings,
)
from privpac.rules.profile import Profile, Step
from privpac.rules.rules import ByAgreement, FewValues, Layout
from privpac.rules.statistics import Statistic

__all__ = ["Threshold", "Thresholds"]

_POLLED = 1 << 18  # votes counted at once


def cut_poll(rules: Sequence[tuple[str, int, str]], columns: Sequence[str]) -> Poll:
    """``ConceptClass.poll`` for rules about one column (feature, cut or code, direction): many of them at once."""
    which = np.array([columns.index(feature) for feature, _, _ in rules], dtype=np.intp)
    cuts = np.array([[min(cut, (1 << 64) - 1)] for _, cut, _ in rules], dtype=np.uint64)
    reached = np.array([[cut < 1 << 64] for _, cut, _ in rules], dtype=bool)
    below = np.array([[direction in ("below", "is not")] for _, _, direction in rules], dtype=bool)
    value = np.array([[direction in VALUE_DIRECTIONS] for _, _, direction in rules], dtype=bool)

    def votes(codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int64]:
        read = np.stack([codes[name] for name in columns])
        total = np.zeros(read.shape[1], dtype=np.int64)
        step = max(1, _POLLED // max(1, len(total)))
        for at in (slice(start, start + step) for start in range(0, len(rules), step)):
            codes_read = read[which[at]]
            over = np.where(value[at], codes_read == cuts[at], codes_read >= cuts[at]) & reached[at]
            total += np.add.reduce(over ^ below[at], axis=0, dtype=np.int64)
        return total

    return votes


@dataclass(frozen=True)
class Thresholds(ConceptClass):
    """All cuts of one column; ids are cuts 0..N, with ``direction="both"`` the cuts above and then those below.

    >>> from privpac.data import Integers
    >>> Thresholds(Integers(0, 1440), feature="minute").decode(1034, label="late").__str__()
    'late when minute > 1033'
    """

    domain: Domain | None = None
    feature: str | None = None
    direction: str = "above"

    def __post_init__(self) -> None:
        if self.direction not in (*DIRECTIONS, "both"):
            raise ParameterError(f"direction must be 'above', 'below' or 'both', got {self.direction!r}")
        if self.domain is not None and not isinstance(self.domain, Domain):
            raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(self.domain).__name__}")
        need_order(self.feature, self.domain)

    @property
    def directions(self) -> tuple[str, ...]:
        return DIRECTIONS if self.direction == "both" else (self.direction,)

    @cached_property
    def _points(self) -> int:
        if self.domain is None:
            raise ParameterError(
                "this class has no domain yet: Thresholds(Integers(0, 100)), or declare it in UserData"
            )
        return self.domain.size

    @property
    def size(self) -> int:
        return len(self.directions) * (self._points + 1)

    @property
    def vc_dimension(self) -> int:
        return 2 if self.direction == "both" and self._points > 1 else 1

    def growth(self, n: int) -> int:
        distinct = min(n, self._points)
        return (2 * distinct if self.direction == "both" else distinct + 1) if distinct else 1

    @property
    def littlestone_dimension(self) -> int:
        if self.direction == "both":
            raise ParameterError("ask for the Littlestone dimension of one direction")
        return cut_mistakes(self._points)

    # What is known

    layout: ClassVar[Layout] = "cuts"
    rule_by_rule: ClassVar[bool] = False

    @property
    def cut_direction(self) -> str:
        return self.direction

    @property
    def shattered_points(self) -> int:
        return self.vc_dimension

    @property
    def mistake_tree_depth(self) -> int:
        return cut_mistakes(self._points)

    @property
    def few_values(self) -> FewValues | None:
        return FewValues("cuts") if self.direction == "above" else None

    @property
    def by_agreement(self) -> ByAgreement | None:
        return {"above": ByAgreement("threshold"), "below": ByAgreement("threshold-below")}.get(self.direction)

    @property
    def is_tree(self) -> bool:
        return self.direction != "both"

    def as_tree(self) -> PathTree:
        self._points  # noqa: B018 - refuses a class without a domain
        assert self.domain is not None
        return PathTree(self.domain, self.feature, self.direction)

    # Columns and rules

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self.feature: self.domain}

    def with_columns(self, columns: Mapping[str, Domain]) -> Thresholds:
        ((feature, domain),) = columns.items()
        return Thresholds(domain, feature, self.direction)

    def split(self, hypothesis: int) -> tuple[int, str]:
        """Cut and direction of an id."""
        if not 0 <= hypothesis < self.size:
            raise ParameterError(f"ids go from 0 to {self.size - 1}, got {hypothesis}")
        which, cut = divmod(hypothesis, self._points + 1)
        return cut, self.directions[which]

    def decode(self, hypothesis: int, label: str = "1") -> Threshold:
        cut, direction = self.split(hypothesis)
        assert self.domain is not None
        return Threshold(self.feature or "x", self.domain, cut, direction, label)

    def predictions(self, codes: Mapping[str, NDArray[np.uint64]], hypothesis: int) -> NDArray[np.int8]:
        cut, direction = self.split(hypothesis)
        return cut_predictions(codes[self.feature or "x"], cut, direction)

    def poll(self, hypotheses: Sequence[int]) -> Poll:
        feature = self.feature or "x"
        return cut_poll([(feature, *self.split(hypothesis)) for hypothesis in hypotheses], [feature])

    # Folding

    def empty_profile(self) -> Profile:
        return Profile(tuple(zero_steps(0, self._points, len(self.directions))))

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        sizes = np.diff(users.offsets)
        own = np.stack([sizes, np.zeros_like(sizes)])
        line = OneColumn(
            users.codes[columns[0]],
            users.labels,
            users.offsets,
            self.directions,
            own,
            statistic,
            statistic.shape(sizes),
        )
        steps = tuple(line.steps(0, self._points, self.size, find=statistic.uses_minimum))
        return Profile(steps, statistic.luck(sizes, own))

    def survey(self, users: Users, statistic: Statistic) -> Survey | None:
        feature = self.feature or "x"
        if not isinstance(users, UserData) or users.labels is None or not worthwhile(users, [self._points]):
            return None
        column = CutColumn(users.codes[feature], self._points, 0)
        return survey([column], users.labels, users.offsets, self.directions, statistic, self.size)

    # Labellings

    def _labellings(
        self, codes: Mapping[str, NDArray[np.uint64]], rest: UserData, A: int, B: int, levels: int
    ) -> Labellings:
        return threshold_labellings(codes[self.feature or "x"], self.directions, self.losses(rest, levels), A, B)

    def dichotomies(self, codes: Mapping[str, NDArray[np.uint64]]) -> Iterator[tuple[NDArray[np.int8], int, int]]:
        return merged(cut_labellings(codes[self.feature or "x"], self._points, self.directions))


def zero_steps(base: int, size: int, directions: int) -> Iterator[Step]:
    """The steps of ``OneColumn.steps`` with all scores zero."""
    zero, start = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.uint64)
    for i in range(directions):
        cut0 = base + i * (size + 1)
        yield from (Step(cut0, start, 0, zero), Step(cut0 + 1, start, size - 1, zero))


Labelling = tuple[NDArray[np.int8], int, int]


def cut_labellings(
    points: NDArray[np.uint64], size: int, directions: Sequence[str], base: int = 0
) -> Iterator[Labelling]:
    """``(labels, first id, number of rules)`` in order of ids; directions may repeat labels."""
    edges = [0, *(int(c) + 1 for c in np.unique(points).tolist()), size + 1]
    for i, direction in enumerate(directions):
        for a, b in pairwise(edges):
            if a < b:
                yield cut_predictions(points, a, direction), base + i * (size + 1) + a, b - a


def value_labellings(
    points: NDArray[np.uint64], size: int, directions: Sequence[str], base: int = 0
) -> Iterator[Labelling]:
    """The same for the rules "is v" and "is not v" of ``size`` values and one that nobody holds."""
    held = [int(code) for code in np.unique(points).tolist()]
    # Ids are increasing, so the first one that is not held is where they and the positions part.
    other = next((i for i, code in enumerate(held) if i != code), len(held))
    for i, direction in enumerate(directions):
        for code in sorted([*held, other]):
            labels = cut_predictions(points, code, VALUE_DIRECTIONS[DIRECTIONS.index(direction)])
            yield labels, base + i * (size + 1) + code, size + 1 - len(held) if code == other else 1


def merged(labellings: Iterable[Labelling]) -> Iterator[Labelling]:
    """Every labelling once, with the first of its ids and all its rules; ids come in increasing order."""
    seen: dict[bytes, list[Any]] = {}
    for labels, first, count in labellings:
        entry = seen.setdefault(labels.tobytes(), [labels, first, 0])
        entry[2] += count
    for labels, first, count in seen.values():
        yield labels, first, count
