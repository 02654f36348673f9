"""What statistical-query learners share: distinct records in, rounded answers, one item out.

A learner is deterministic integer code that sees the user's records only through rounded answers
(``rounding.RoundedAnswers``), so two users whose answers agree have the same item.  It takes its public coins from the
seed and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from privpac.agreement.learner import Hypothesis, ItemUniverse
from privpac.agreement.queries.rounding import RoundedAnswers, query_records
from privpac.agreement.races.flat import MAX_DENOMINATOR
from privpac.agreement.races.words import check_seed, integer
from privpac.agreement.records import Records, clean, distinct

__all__ = ["QueryLearner"]


@dataclass(frozen=True, kw_only=True)
class QueryLearner(ABC):
    """A learner from rounded answers; ``grid`` is ``I``: answers are multiples of ``1/I``, off by less than one."""

    grid: int
    min_records: int = 1
    max_records: int = MAX_DENOMINATOR

    label: ClassVar[str] = "sq"
    width: ClassVar[int] = 1

    def __post_init__(self) -> None:
        integer("grid", self.grid, 1)
        integer("min_records", self.min_records, 1)
        integer("max_records", self.max_records, 1, MAX_DENOMINATOR)

    @property
    @abstractmethod
    def columns(self) -> tuple[tuple[int, int], ...]:
        """The allowed range of every column."""

    @property
    @abstractmethod
    def queries(self) -> int:
        """The largest number of queries asked."""

    @property
    @abstractmethod
    def universe(self) -> ItemUniverse: ...

    @abstractmethod
    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        """The item, from distinct records and the answers to queries on them."""

    @abstractmethod
    def decode(self, item: bytes) -> Hypothesis | None: ...

    def item(self, x: Any, y: Any, seed: bytes) -> bytes | None:
        """The user's item, ``None`` for a user with fewer than ``min_records`` valid records."""
        check_seed(seed)
        records = clean(x, y, self.columns, limit=self.max_records)
        if len(records) < self.min_records:
            return None
        found, weights = distinct(records)
        return self.learn(found, RoundedAnswers(seed, self.label, self.grid, weights))

    def plan(self, beta: Any) -> int:
        """Certified records per user: the item differs from the common one with probability at most ``beta/30``."""
        return query_records(self.queries, self.grid, beta, self.width)
