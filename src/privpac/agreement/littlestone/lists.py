"""The stable learner from a list learner.

A list learner gives short lists one member of which is in most of them.  The user's records are cut into ``k`` disjoint
sub-samples; each gives a list; a hypothesis that is in at least a share ``tau`` of the lists runs in a named race with
score ``k - count``.  Hypotheses that are in a list by accident have too small a share to run at all, so the winner is
accurate for *every* seed once a list contains bad hypotheses with probability below ``0.9 tau``.  With no hypothesis
left the user has nothing to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from privpac.agreement.learner import Hypothesis, ItemUniverse, ListLearner, Padded
from privpac.agreement.littlestone.dimension import Rows
from privpac.agreement.logarithms import ln_up
from privpac.agreement.races.flat import MAX_DENOMINATOR, check_race, race_named
from privpac.agreement.races.words import check_seed, derive, integer, rate, rational
from privpac.agreement.records import Records, clean
from privpac.agreement.rules import TruthTable, unpack
from privpac.agreement.scores import table_errors
from privpac.errors import ParameterError

__all__ = ["ListPlan", "ListRaceLearner", "NearlyConsistentList", "VersionSpaceList", "plan_list_race", "race_lists"]


def race_lists(key: bytes, lists: Iterable[Iterable[bytes]], tau: Fraction, Gamma: int) -> bytes | None:
    """The winner among the items in at least a share ``tau`` of the lists; ``None`` if there is none."""
    members = [frozenset(items) for items in lists]
    k = len(members)
    counts = Counter(item for items in members for item in items)
    running: dict[bytes, int | None] = {item: k - count for item, count in counts.items() if count >= tau * k}
    return race_named(key, running, k, Gamma) if running else None


@dataclass(frozen=True)
class ListRaceLearner:
    """Lists of ``parts`` sub-samples of ``records_per_part`` records each, then a race among frequent members.

    ``filter_records`` further records keep only members with at most ``filter_errors`` errors on them.  A user with
    fewer records than all of this together has no item; records beyond it are not read.
    """

    learner: ListLearner
    parts: int
    records_per_part: int
    Gamma: int
    tau: Fraction = Fraction(1, 2)
    filter_records: int = 0
    filter_errors: int = 0

    def __post_init__(self) -> None:
        integer("parts", self.parts, 1, MAX_DENOMINATOR)
        integer("records_per_part", self.records_per_part, 1)
        integer("filter_records", self.filter_records, 0)
        integer("filter_errors", self.filter_errors, 0)
        check_race(1, self.Gamma)
        object.__setattr__(self, "tau", rational("tau", self.tau))
        if not 0 < self.tau <= 1:
            raise ParameterError(f"tau must be in (0, 1], got {self.tau}")

    @property
    def min_records(self) -> int:
        return self.parts * self.records_per_part + self.filter_records

    @property
    def universe(self) -> ItemUniverse:
        return self.learner.universe

    def item(self, x: Any, y: Any, seed: bytes) -> bytes | None:
        check_seed(seed)
        records = clean(x, y, self.learner.columns, flat=len(self.learner.columns) == 1, limit=self.min_records)
        if len(records) < self.min_records:
            return None
        step = self.records_per_part
        lists = [self.learner.candidates(records.part(step * j, step * (j + 1))) for j in range(self.parts)]
        if self.filter_records:
            fresh = records.part(self.min_records - self.filter_records, self.min_records)
            good = {item for items in lists for item in items if self._errors(item, fresh) <= self.filter_errors}
            lists = [items & good for items in lists]
        return race_lists(derive(seed, "alg1"), lists, self.tau, self.Gamma)

    def _errors(self, item: bytes, fresh: Records) -> int:
        rule = self.learner.decode(item)
        assert rule is not None
        return int(np.count_nonzero(rule.predict(fresh.x) != fresh.y))

    def decode(self, item: bytes) -> Hypothesis | None:
        return self.learner.decode(item)


# List learners of finite classes


@dataclass(frozen=True)
class TableLists:
    """What list learners of a finite class share: items are packed truth tables over points 0..N-1."""

    rows: Rows = field(repr=False)

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return ((0, self.rows.points - 1),)

    @property
    def universe(self) -> ItemUniverse:
        return Padded(-(-self.rows.points // 8))

    def decode(self, item: bytes) -> Hypothesis | None:
        bits = unpack(item, self.rows.points)
        return None if bits is None else TruthTable(tuple(bits.tolist()))

    def errors_at_most(self, records: Records, most: int) -> int:
        """The mask of the rules with at most so many errors."""
        good = np.flatnonzero(table_errors(self.rows.table, records) <= most)
        return self.rows.mask(good.tolist())

    def members(self, mask: int) -> frozenset[bytes]:
        return frozenset(self.rows.row_bytes(i) for i in range(self.rows.size) if mask >> i & 1)


@dataclass(frozen=True)
class VersionSpaceList(TableLists):
    """All rules without an error on the sample: the target is always among them (list length |C|).

    With ``ln(|C|/zeta)/alpha`` records all of them have error at most ``alpha``, except with probability ``zeta``.
    """

    def candidates(self, records: Records) -> frozenset[bytes]:
        return self.members(self.errors_at_most(records, 0)) if len(records) else frozenset()


@dataclass(frozen=True)
class NearlyConsistentList(TableLists):
    """All rules whose sample error is at most ``share`` (three quarters of the error allowed, say); for labels with
    noise."""

    share: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", rational("share", self.share))
        if not 0 <= self.share < 1:
            raise ParameterError(f"share must be in [0, 1), got {self.share}")

    def candidates(self, records: Records) -> frozenset[bytes]:
        return (
            self.members(self.errors_at_most(records, int(self.share * len(records)))) if len(records) else frozenset()
        )


# Certified parameters


class ListPlan(NamedTuple):
    """Least share, published rate and number of sub-samples."""

    tau: Fraction
    Gamma: int
    parts: int


def plan_list_race(length: int, eta: Any, beta: Any) -> ListPlan:
    """Certified parameters for lists of at most ``length`` that contain one hypothesis with probability ``eta``.

    With ``tau = eta/2`` and ``B = beta/30``: ``gamma = ln(6L/(0.9 tau B))/(0.9 tau)`` and ``k = ceil max( ln(24L/(tau
    B))/(0.02 tau^2), gamma^2 ln(2L/(0.9 tau))/2 (3/B)^2 )`` keep the probability of another item than the common one
    below ``B``.  Practical numbers of sub-samples are 9 to 50.
    """
    length, often, failure = integer("length", length, 1), rational("eta", eta), rational("beta", beta)
    if not (0 < often <= 1 and 0 < failure < 1):
        raise ParameterError(f"eta must be in (0, 1] and beta between 0 and 1, got {eta} and {beta}")
    tau, budget = often / 2, failure / 30
    kept = Fraction(9, 10) * tau
    gamma = ln_up(6 * length / (kept * budget)) / kept
    k = max(
        50 * ln_up(24 * length / (tau * budget)) / tau**2, gamma**2 * ln_up(2 * length / kept) / 2 * (3 / budget) ** 2
    )
    return ListPlan(tau, rate(gamma), -(-k.numerator // k.denominator))
