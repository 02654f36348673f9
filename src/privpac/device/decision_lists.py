"""Decision lists over conjunctions of at most k literals, by statistical queries.

With K tests (the last one always true): ``R`` is what no rule so far explains.  Stop when ``R`` is small; else ask, for
each unused test ``t`` and label ``b``, for ``g(t, b) = Pr[R, t, y = b]``; among tests of mass at least ``theta/2`` take
the ``(t, b)`` with least ``g(t, 1-b)``, ties to the smallest.

*Accuracy.*  With ``theta = alpha/(4K^2)`` and answers off by less than ``theta/4``, the target's first test of mass
``theta`` errs only through earlier, lighter tests, so every rule chosen errs on at most ``K theta``; K rules cost
``alpha/4``, the rest at most ``alpha/2 + theta/4``.

``StagewiseDecisionList`` runs one race per stage in place of the rounded queries: the failure per stage is ``gamma
sqrt(ln(2N)/(2m))`` for ``N`` candidates, and stages add by the same ideal-run argument.  Its accuracy is a matter of
practice.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from privpac.device.correlated_sampling import (
    MAX_DENOMINATOR,
    check_race,
    check_seed,
    derive,
    integer,
    race_scores,
    rational,
)
from privpac.device.learner import ItemUniverse, Padded
from privpac.device.records import Records, clean, distinct
from privpac.device.rules import RuleList, literals
from privpac.device.statistical_queries import QueryLearner, RoundedAnswers
from privpac.errors import ParameterError, TooLargeError

__all__ = ["KDecisionList", "SQDecisionLists", "StagewiseDecisionList", "conjunction_tests", "count_tests"]

MAX_TESTS = 4096
_MOST = 1 << 64

Rules = list[tuple[int, int]]


def count_tests(d: int, k: int) -> int:
    """The number of conjunctions of 1..k literals on distinct variables, and TRUE.

    >>> count_tests(10, 2)
    201
    """
    d, k = integer("d", d, 1), integer("k", k, 1)
    total, choose = 1, 1
    for r in range(1, min(k, d) + 1):
        choose = choose * (d - r + 1) // r
        total += choose << r
        if total > _MOST:
            break  # far too many: a stranger's manifest must not make a device count on
    return total


def conjunction_tests(d: int, k: int) -> tuple[tuple[int, ...], ...]:
    """The tests, by size and then as increasing tuples of literal numbers (j: x_j, d + j: not x_j), TRUE last.

    >>> conjunction_tests(2, 2)
    ((0,), (1,), (2,), (3,), (0, 1), (0, 3), (1, 2), (2, 3), ())
    """
    if count_tests(d, k) > MAX_TESTS:
        raise TooLargeError(f"{count_tests(d, k)} tests are more than {MAX_TESTS}; lower k or the number of columns")
    found = (test for r in range(1, min(k, d) + 1) for test in combinations(range(2 * d), r))
    return (*(test for test in found if len({j % d for j in test}) == len(test)), ())


@dataclass(frozen=True)
class _Lists:
    """Tests and the encoding (test u16, label u8)*, default u8."""

    d: int
    k: int
    max_rules: int

    @cached_property
    def tests(self) -> tuple[tuple[int, ...], ...]:
        return conjunction_tests(self.d, self.k)

    @property
    def universe(self) -> ItemUniverse:
        return Padded(3 * self.max_rules + 1, 3)

    def holds(self, records: Records) -> NDArray[np.bool_]:
        """Whether each test holds on each record."""
        said = literals(records.x)
        return np.stack([said[:, list(test)].all(axis=1) for test in self.tests])

    def encode(self, rules: Rules, default: int) -> bytes:
        return b"".join(test.to_bytes(2, "little") + bytes((label,)) for test, label in rules) + bytes((default,))

    def decode(self, item: bytes) -> RuleList | None:
        count, spare = divmod(len(item), 3)
        if spare != 1 or count > self.max_rules:
            return None
        places = [int.from_bytes(item[3 * i : 3 * i + 2], "little") for i in range(count)]
        marks = [item[3 * i + 2] for i in range(count)]
        if any(place >= len(self.tests) for place in places) or any(mark > 1 for mark in (*marks, item[-1])):
            return None
        return RuleList(self.d, tuple(self.tests[place] for place in places), tuple(marks), item[-1])


@dataclass(frozen=True)
class KDecisionList(QueryLearner):
    """Lists of conjunctions of at most ``k`` literals of ``d`` columns with values 0 and 1; what is left over is 0.

    ``theta`` and ``stop`` are the smallest mass of a test and of what is left, as shares of the records.  ``certified``
    sets them for a promised error; 1/50 to 1/20 with grids of 50 to 200 and at most 8 rules are practical.
    """

    d: int
    k: int = 2
    theta: Fraction = Fraction(1, 20)
    stop: Fraction = Fraction(1, 10)
    max_rules: int = MAX_TESTS

    label: ClassVar[str] = "kdl"

    def __post_init__(self) -> None:
        super().__post_init__()
        if count_tests(self.d, self.k) > MAX_TESTS:
            raise TooLargeError(
                f"{count_tests(self.d, self.k)} tests are more than {MAX_TESTS}; lower k or the number of columns"
            )
        for name in ("theta", "stop"):
            share = rational(name, getattr(self, name))
            if not 0 <= share <= 1:
                raise ParameterError(f"{name} must be in [0, 1], got {share}")
            object.__setattr__(self, name, share)
        object.__setattr__(self, "max_rules", min(integer("max_rules", self.max_rules, 1), count_tests(self.d, self.k)))

    @classmethod
    def certified(cls, d: int, alpha: Any, **more: Any) -> Self:
        """``theta = alpha/(4K^2)``, ``I = ceil(16 K^2/alpha)``, stop at ``alpha/2``."""
        error = rational("alpha", alpha)
        if not 0 < error < 1:
            raise ParameterError(f"alpha must be between 0 and 1, got {alpha}")
        tests = cls(d, grid=1, **more).queries_per_round
        grid = 16 * tests**2 / error
        return cls(d, theta=error / (4 * tests**2), stop=error / 2, grid=-(-grid.numerator // grid.denominator), **more)

    @property
    def queries_per_round(self) -> int:
        """K, the number of tests."""
        return count_tests(self.d, self.k)

    @property
    def queries(self) -> int:
        return self.max_rules * (2 * self.queries_per_round + 1)

    @property
    def columns(self) -> tuple[tuple[int, int], ...]:
        return ((0, 1),) * self.d

    @cached_property
    def _lists(self) -> _Lists:
        return _Lists(self.d, self.k, self.max_rules)

    @property
    def universe(self) -> ItemUniverse:
        return self._lists.universe

    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        return self._lists.encode(self.rules(records, answers), 0)

    def rules(self, records: Records, answers: RoundedAnswers) -> Rules:
        """The rules as (number of the test, label)."""
        holds = self._lists.holds(records)
        left = np.ones(len(records), dtype=np.bool_)
        by_label = [records.y == b for b in (0, 1)]
        unused, found = list(range(len(holds))), Rules()
        while answers.ask(left.astype(np.int64)) > self.stop * self.grid and len(found) < self.max_rules:
            masses = {t: [answers.ask((left & holds[t] & y).astype(np.int64)) for y in by_label] for t in unused}
            heavy = [t for t in unused if sum(masses[t]) >= self.theta * self.grid / 2]
            if not heavy:
                break
            _, t, b = min((masses[t][1 - b], t, b) for t in heavy for b in (0, 1))
            found.append((t, b))
            unused.remove(t)
            left &= ~holds[t]
        return found

    def decode(self, item: bytes) -> RuleList | None:
        return self._lists.decode(item)


@dataclass(frozen=True)
class SQDecisionLists(KDecisionList):
    """Lists whose tests are single literals."""

    k: int = 1

    label: ClassVar[str] = "dlist"


@dataclass(frozen=True)
class StagewiseDecisionList:
    """A decision list grown by one race per stage over all (unused test, label); what is left over gets a last race for
    its label.

    A candidate's score counts the records left that it does not explain, and ``weight`` times those it gets wrong (at
    most all records).
    """

    d: int
    Gamma: int
    k: int = 1
    stages: int = 4
    weight: int = 2
    min_records: int = 1
    max_records: int = MAX_DENOMINATOR

    def __post_init__(self) -> None:
        count = count_tests(self.d, self.k)
        if count > MAX_TESTS:
            raise TooLargeError(f"{count} tests are more than {MAX_TESTS}; lower k or the number of columns")
        check_race(1, self.Gamma)
        integer("stages", self.stages, 1, count)
        integer("weight", self.weight, 0, 1 << 20)
        integer("min_records", self.min_records, 1)
        integer("max_records", self.max_records, 1, MAX_DENOMINATOR)

    @cached_property
    def _lists(self) -> _Lists:
        return _Lists(self.d, self.k, self.stages)

    @property
    def tests(self) -> int:
        """K, the number of tests."""
        return count_tests(self.d, self.k)

    @property
    def universe(self) -> ItemUniverse:
        return self._lists.universe

    def item(self, x: Any, y: Any, seed: bytes) -> bytes | None:
        check_seed(seed)
        raw = clean(x, y, ((0, 1),) * self.d, limit=self.max_records)
        if len(raw) < self.min_records:
            return None
        records, weights = distinct(raw)
        key, m = derive(seed, "stages"), len(raw)
        holds = self._lists.holds(records)[:-1]
        left, used, found = weights.copy(), set[int](), Rules()
        for stage in range(self.stages):
            # hits[t, b]: records left on which test t holds and the label is b.
            hits = np.stack([holds @ (left * (records.y == b)) for b in (0, 1)], axis=1)
            scores: list[int | None] = (
                np.minimum(int(left.sum()) - hits + self.weight * hits[:, ::-1], m).reshape(-1).tolist()
            )
            for t in used:
                scores[2 * t] = scores[2 * t + 1] = None
            winner = race_scores(derive(key, "stage", stage), scores, m, self.Gamma)
            if winner is None:
                break
            t, b = divmod(winner.leaf, 2)
            found.append((t, b))
            used.add(t)
            left = left * ~holds[t]
        ones = int(left @ records.y)
        last = race_scores(derive(key, "default"), [ones, int(left.sum()) - ones], m, self.Gamma)
        assert last is not None
        return self._lists.encode(found, last.leaf)

    def decode(self, item: bytes) -> RuleList | None:
        return self._lists.decode(item)
