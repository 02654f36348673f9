"""A list-stable learner for Littlestone classes whose lists depend on the dimension only.

Level ``i`` takes the rules with at most ``t_i`` errors, reduces their Littlestone dimension as far as a tree of depth
``k_i`` can, and lists the optimal prediction of every leaf that keeps the reduced dimension.

**Theorem.**  If the labels come from a rule of the class, there is a function ``h*`` of error at most ``alpha``,
depending on the distribution only, that is in the list of *every* sample whose cut-offs separate the error levels; that
fails with probability at most ``zeta``.  Lists have at most ``sum_i min(growth(k_i, d), |C|)`` members.  The reduced
dimensions of d + 2 nested levels cannot all differ; between two equal ones a leaf is irreducible, and irreducible
classes have the same optimal prediction inside every tree of smaller depth.

A search that exceeds its budget, or starts from too many rules, answers with the version space: some hypothesis of
error at most ``alpha`` is then still listed with probability ``(1 - zeta)/2``, whatever the budget.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np

from privpac.agreement.learner import ItemUniverse, NumberedItems
from privpac.agreement.littlestone.dimension import DEFAULT_BUDGET, Rows, Search, WorkExceeded
from privpac.agreement.littlestone.lists import TableLists, VersionSpaceList
from privpac.agreement.littlestone.reduction import Reduction
from privpac.agreement.littlestone.reduction_plan import ListReductionPlan, accuracy_order, list_bound, plan_reduction
from privpac.agreement.logarithms import ln_up
from privpac.agreement.races.words import integer, rational
from privpac.agreement.records import Records
from privpac.agreement.rules import OnePoint
from privpac.errors import ParameterError

__all__ = ["PointsReductionList", "ReductionList", "choose_list"]


def _check_levels(depths: tuple[int, ...], cutoffs: tuple[int, ...]) -> None:
    if not depths or len(depths) != len(cutoffs) or list(depths) != sorted(depths):
        raise ParameterError("depths must not fall, and there must be one cut-off for each depth")
    for name, values in (("depths", depths), ("cutoffs", cutoffs)):
        for value in values:
            integer(name, value, 0)


def _exceeds(search: Search, d: int) -> bool:
    with suppress(WorkExceeded):
        return search.at_least(search.rows.everything, d + 1)
    return False


@dataclass(frozen=True)
class ReductionList(TableLists):
    """Lists by reduction trees; ``depths`` and ``cutoffs`` are public, one each for level 0..d."""

    depths: tuple[int, ...] = (0,)
    cutoffs: tuple[int, ...] = (0,)
    budget: int = DEFAULT_BUDGET
    max_rules: int = 1 << 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "depths", tuple(self.depths))
        object.__setattr__(self, "cutoffs", tuple(self.cutoffs))
        _check_levels(self.depths, self.cutoffs)
        integer("budget", self.budget, 1)
        integer("max_rules", self.max_rules, 1)

    @classmethod
    def certified(
        cls, rows: Rows, alpha: Any, zeta: Any = "1/20", *, d: int | None = None, v: int | None = None
    ) -> ReductionList:
        """Certified depths and cut-offs; :meth:`plan` says how many records a sample needs.  A ``d`` that is too small
        is refused."""
        plan = cls.plan(rows, alpha, zeta, d=d, v=v)
        return cls(rows, plan.depths, plan.cutoffs)

    @staticmethod
    def plan(
        rows: Rows, alpha: Any, zeta: Any = "1/20", *, d: int | None = None, v: int | None = None
    ) -> ListReductionPlan:
        """Depths, cut-offs, records per list and failure; a declared ``d`` is trusted where checking it exceeds the
        budget."""
        search = Search(rows)
        if d is None:
            d = search.dimension(rows.everything)
        elif _exceeds(search, integer("d", d, 0)):
            raise ParameterError(
                f"the class has a Littlestone dimension above d = {d}; the lists would promise nothing"
            )
        return plan_reduction(rows.size, d, alpha, zeta, v=v)

    def candidates(self, records: Records) -> frozenset[bytes]:
        if not len(records):
            return frozenset()
        search = Reduction(self.rows, self.budget)
        try:
            return frozenset(item for _, items in self.levels(records, search) for item in items)
        except WorkExceeded:
            return self.members(self.errors_at_most(records, 0))

    def levels(self, records: Records, search: Reduction | None = None) -> list[tuple[int | None, frozenset[bytes]]]:
        """Reduced dimension and list of every level; ``(None, empty)`` where no rule is good enough."""
        search = search or Reduction(self.rows, self.budget)
        out: list[tuple[int | None, frozenset[bytes]]] = []
        for depth, most in zip(self.depths, self.cutoffs):
            mask = self.errors_at_most(records, most)
            if mask.bit_count() > self.max_rules:
                raise WorkExceeded("more rules are good enough than the public cap allows; use the version space")
            if not mask:
                out.append((None, frozenset()))
                continue
            r = search.value(mask, depth)
            leaves = search.tree(mask, depth, r)
            out.append(
                (r, frozenset(self.rows.packed(search.soa(leaf.mask)) for leaf in leaves if leaf.dimension == r))
            )
        return out


@dataclass(frozen=True)
class PointsReductionList:
    """The same lists for "1 iff the value is v" over up to 2**64 values, in closed form: time linear in the sample.

    Items are the numbers of the points; ``size`` stands for the rule that is never 1, which may be listed though it is
    not in the class.
    """

    size: int
    depths: tuple[int, ...] = (0, 3)
    cutoffs: tuple[int, ...] = (0, 0)

    def __post_init__(self) -> None:
        integer("size", self.size, 1, 1 << 64)
        object.__setattr__(self, "depths", tuple(self.depths))
        object.__setattr__(self, "cutoffs", tuple(self.cutoffs))
        _check_levels(self.depths, self.cutoffs)

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return ((0, self.size - 1),)

    @property
    def universe(self) -> ItemUniverse:
        return NumberedItems(self.size + 1)

    def decode(self, item: bytes) -> OnePoint | None:
        number = int.from_bytes(item, "little")
        if len(item) != NumberedItems(self.size + 1).width or number > self.size:
            return None
        return OnePoint(None if number == self.size else number)

    def candidates(self, records: Records) -> frozenset[bytes]:
        return frozenset(self.universe.item(number) for level in self.levels(records) for number in level)

    def levels(self, records: Records) -> list[frozenset[int]]:
        if not len(records):
            return [frozenset() for _ in self.depths]
        points, place = np.unique(np.asarray(records.x).reshape(len(records)), return_inverse=True)
        change = np.zeros(len(points), dtype=np.int64)
        np.add.at(change, place.reshape(-1), 1 - 2 * records.y)
        positive = int(records.y.sum())
        errors, seen = positive + change, [int(point) for point in points]
        out = []
        for depth, most in zip(self.depths, self.cutoffs):
            good = [point for point, s in zip(seen, errors.tolist()) if s <= most]
            unseen = self.size - len(seen) if positive <= most else 0
            count = len(good) + unseen
            if count - 1 > depth:
                out.append(frozenset((self.size,)))
                continue
            if unseen:
                # At most depth + 1 unseen points exist, so the domain is not much larger than the sample.
                known = set(seen)
                good += [point for point in range(self.size) if point not in known]
            out.append(frozenset(good))
        return out


def choose_list(
    rows: Rows, alpha: Any, zeta: Any = "1/20", *, d: int | None = None
) -> tuple[ReductionList | VersionSpaceList, int]:
    """The list learner with the shorter certified lists, and the records per list it needs."""
    if d is None:
        d = Search(rows).dimension(rows.everything)
    if d == 0 or list_bound(d, accuracy_order(d), None) < rows.size:
        plan = ReductionList.plan(rows, alpha, zeta, d=d)
        return ReductionList(rows, plan.depths, plan.cutoffs), plan.records
    return VersionSpaceList(rows), version_space_records(rows.size, alpha, zeta)


def version_space_records(size: int, alpha: Any, zeta: Any) -> int:
    """``ceil(ln(|C|/zeta)/alpha)``."""

    excess, failure = rational("alpha", alpha), rational("zeta", zeta)
    if not (0 < excess <= 1 and 0 < failure < 1):
        raise ParameterError(f"alpha must be in (0, 1] and zeta between 0 and 1, got {alpha} and {zeta}")
    return ceil(ln_up(Fraction(size) / failure) / excess)
