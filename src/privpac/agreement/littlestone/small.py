"""Lists for small classes over columns: every rule is written out at every point, once and publicly.

``version_lists`` cuts a user's records into parts and lists the rules without an error (or with few, for labels with
noise) on each; ``reduction_lists`` lists the optimal predictions of reduction trees, whose number depends on the
Littlestone dimension only.  A rule that is in at least half of the lists runs in a race.  A user with fewer records
than all parts need has nothing to say; records beyond them are not read.

A list that follows from ``records`` of a part holds, except with probability 1/20, no rule of error above ``alpha``
(version space, some rule of the class is right), or the one function that the theorem of ``reduction_list`` promises.
The reduction's functions need not be in the class; points are listed in closed form at any size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.agreement.learner import Hypothesis, ItemUniverse, ListLearner
from privpac.agreement.littlestone.dimension import Rows
from privpac.agreement.littlestone.lists import ListRaceLearner, NearlyConsistentList, VersionSpaceList
from privpac.agreement.littlestone.reduction_list import PointsReductionList, ReductionList, version_space_records
from privpac.agreement.littlestone.reduction_plan import plan_reduction
from privpac.agreement.races.flat import MAX_DENOMINATOR
from privpac.agreement.races.words import integer, rational
from privpac.agreement.records import clean
from privpac.agreement.rules import TruthTable, pack
from privpac.agreement.scores import PointScores, RuleScores
from privpac.errors import ParameterError, TooLargeError

__all__ = ["BUDGET", "MOST_ENTRIES", "SmallClassLists", "ValueTable", "reduction_lists", "version_lists"]

MOST_ENTRIES = 1 << 15
"""Rules times points that may be written out: cut-offs of 180 values, parities of 7 columns."""
BUDGET = 1 << 12
"""Search nodes for one list; a list that needs more is the version space."""
_FAILURE = Fraction(1, 20)


@dataclass(frozen=True)
class ValueTable:
    """What to say at every combination of the columns' values, those of the last column running fastest."""

    sizes: tuple[int, ...]
    bits: tuple[int, ...]

    def predict(self, x: Any) -> NDArray[np.int8]:
        rows = np.asarray(x)
        table = rows[:, None] if rows.ndim == 1 else rows
        return np.asarray(self.bits, dtype=np.int8)[_places(table, self.sizes)]


def _places(rows: NDArray[Any], sizes: tuple[int, ...]) -> NDArray[np.int64]:
    return np.asarray(np.ravel_multi_index(tuple(rows.T.astype(np.int64)), sizes), dtype=np.int64)


def _points(scores: RuleScores) -> NDArray[np.int64]:
    sizes = tuple(high + 1 for _, high in scores.columns)
    return np.stack(np.unravel_index(np.arange(prod(sizes)), sizes), axis=1).astype(np.int64)


@dataclass(frozen=True)
class SmallClassLists:
    """The race among frequent members of the lists of a user's parts, over columns.

    ``scores`` are the class and its columns; a function that is a rule of the class is shown as that rule.
    """

    scores: RuleScores
    learner: ListLearner = field(repr=False)
    records_per_part: int
    Gamma: int
    parts: int = 9
    min_records: int = 1
    max_records: int = MAX_DENOMINATOR

    def __post_init__(self) -> None:
        integer("min_records", self.min_records, 1)
        integer("max_records", self.max_records, 1, MAX_DENOMINATOR)
        needed = self.race.min_records
        if needed > self.max_records:
            raise ParameterError(
                f"{self.parts} lists of {self.records_per_part} records read {needed} records of a user, more than the "
                f"{self.max_records} allowed; take fewer parts or a larger alpha"
            )

    @cached_property
    def race(self) -> ListRaceLearner:
        """The learner over the numbers of points."""
        return ListRaceLearner(self.learner, self.parts, self.records_per_part, self.Gamma)

    @property
    def universe(self) -> ItemUniverse:
        return self.learner.universe

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each column."""
        return tuple(high + 1 for _, high in self.scores.columns)

    def item(self, x: Any, y: Any, seed: bytes) -> bytes | None:
        records = clean(x, y, self.scores.columns, limit=max(self.min_records, self.race.min_records))
        if len(records) < self.min_records:
            return None
        one = len(self.sizes) == 1
        return self.race.item(records.x[:, 0] if one else _places(records.x, self.sizes), records.y, seed)

    @cached_property
    def _numbers(self) -> dict[bytes, int]:
        """The first rule of the class with each table of values."""
        points, found = _points(self.scores), dict[bytes, int]()
        for number in range(sum(self.scores.sizes)):
            found.setdefault(pack(self.scores.rule(number).predict(points)), number)
        return found

    def decode(self, item: bytes) -> Hypothesis | None:
        rule = self.learner.decode(item)
        if not isinstance(rule, TruthTable):
            return rule
        number = self._numbers.get(item)
        return ValueTable(self.sizes, rule.bits) if number is None else self.scores.rule(number)


def _written_out(scores: RuleScores) -> Rows:
    count, points = sum(scores.sizes), prod(high + 1 for _, high in scores.columns)
    if count * points > MOST_ENTRIES:
        raise TooLargeError(
            f"lists need every rule at every point: {count} rules on {points} points, at most {MOST_ENTRIES} entries; "
            "take a coarser domain or fewer columns, or learner='race'"
        )
    table = _points(scores)
    return Rows([scores.rule(number).predict(table).tolist() for number in range(count)])


def version_lists(
    scores: RuleScores, Gamma: int, alpha: Any = "1/4", parts: int = 9, share: Any = 0, **records: int
) -> SmallClassLists:
    """Lists of the rules with a share of at most ``share`` errors on a part."""
    rows, noise = _written_out(scores), rational("share", share)
    needed = version_space_records(rows.size, alpha, _FAILURE)
    lists = NearlyConsistentList(rows, noise) if noise else VersionSpaceList(rows)
    return SmallClassLists(scores, lists, needed, Gamma, parts, **records)


def reduction_lists(
    scores: RuleScores, Gamma: int, alpha: Any = "1/4", parts: int = 9, **records: int
) -> SmallClassLists:
    """Lists by reduction trees, with certified depths and cut-offs; closed form for points."""
    lists: ListLearner
    if isinstance(scores, PointScores):
        # Single values have Littlestone dimension 1, and 0 where there is one alone.
        plan = plan_reduction(scores.size, min(1, scores.size - 1), alpha, _FAILURE)
        lists = PointsReductionList(scores.size, plan.depths, plan.cutoffs)
    else:
        rows = _written_out(scores)
        plan = ReductionList.plan(rows, alpha, _FAILURE)
        lists = ReductionList(rows, plan.depths, plan.cutoffs, BUDGET)
    return SmallClassLists(scores, lists, plan.records, Gamma, parts, **records)
