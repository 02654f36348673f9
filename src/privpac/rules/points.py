"""One value of one column: "1 iff x = value".

Ids are codes 0..N-1; with ``zero=True`` the rule that never says 1 comes last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain, UserData
from privpac.errors import ParameterError
from privpac.rules.base import ConceptClass
from privpac.rules.hierarchies.paths import StarTree
from privpac.rules.kernels.points import OneValue, zero_values
from privpac.rules.labellings import Labellings
from privpac.rules.one_column import Point, point_labellings, point_predictions
from privpac.rules.profile import Profile
from privpac.rules.rules import ByAgreement, FewValues, Layout
from privpac.rules.statistics import Statistic

__all__ = ["Point", "Points"]


@dataclass(frozen=True)
class Points(ConceptClass):
    """One rule for each value of a column.

    >>> from privpac.data import Categories
    >>> print(Points(Categories(["red", "green"]), feature="colour").decode(1))
    1 when colour is green
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

    def empty_profile(self) -> Profile:
        return Profile(tuple(zero_values(0, self._points, 1, self.zero)))

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        sizes = np.diff(users.offsets)
        own = np.stack([sizes, np.zeros_like(sizes)])
        shape = statistic.shape(sizes)
        line = OneValue(
            users.codes[columns[0]], users.labels, users.offsets, ("above",), own, statistic, shape, self.zero
        )
        return Profile(tuple(line.steps(0, self._points, self.size, find=True)), statistic.luck(sizes, own))

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
