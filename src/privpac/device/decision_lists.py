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

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np

from privpac.device.correlated_sampling import Ratio, check_race, integer, proper, race_scores, rational
from privpac.device.items import (
    CappedLearner,
    ItemUniverse,
    ListRules,
    Marks,
    Padded,
    Ranges,
    Records,
    RuleList,
    distinct,
    literals,
)
from privpac.device.statistical_queries import QueryLearner, RoundedAnswers
from privpac.errors import ParameterError, TooLargeError
from privpac.rng import derive

MAX_TESTS = 4096
_MOST = 1 << 64


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


def _few_tests(d: int, k: int) -> int:
    """Their number, where they can be listed."""
    count = count_tests(d, k)
    if count > MAX_TESTS:
        raise TooLargeError(f"{count} tests are more than {MAX_TESTS}; lower k or the number of columns")
    return count


def conjunction_tests(d: int, k: int) -> tuple[tuple[int, ...], ...]:
    """The tests, by size and then as increasing tuples of literal numbers (j: x_j, d + j: not x_j), TRUE last.

    >>> conjunction_tests(2, 2)
    ((0,), (1,), (2,), (3,), (0, 1), (0, 3), (1, 2), (2, 3), ())
    """
    _few_tests(d, k)
    found = (test for r in range(1, min(k, d) + 1) for test in combinations(range(2 * d), r))
    return (*(test for test in found if len({j % d for j in test}) == len(test)), ())


class _Lists:
    """What learners of lists share: tests, and the encoding (test u16, label u8)*, default u8."""

    d: int
    k: int

    @property
    @abstractmethod
    def longest(self) -> int:
        """The most rules of a list."""

    @cached_property
    def conjunctions(self) -> tuple[tuple[int, ...], ...]:
        return conjunction_tests(self.d, self.k)

    @property
    def tests(self) -> int:
        """K, the number of tests."""
        return count_tests(self.d, self.k)

    @property
    def columns(self) -> Ranges:
        return ((0, 1),) * self.d

    @property
    def universe(self) -> ItemUniverse:
        return Padded(3 * self.longest + 1, 3)

    def holds(self, records: Records) -> Marks:
        """Whether each test holds on each record."""
        truth = literals(records.x)
        return np.stack([truth[:, list(test)].all(axis=1) for test in self.conjunctions])

    def encode(self, rules: ListRules, default: int) -> bytes:
        return b"".join(test.to_bytes(2, "little") + bytes((label,)) for test, label in rules) + bytes((default,))

    def decode(self, item: bytes) -> RuleList | None:
        count, spare = divmod(len(item), 3)
        if spare != 1 or count > self.longest:
            return None
        places = [int.from_bytes(item[3 * i : 3 * i + 2], "little") for i in range(count)]
        marks = [item[3 * i + 2] for i in range(count)]
        if any(place >= self.tests for place in places) or any(mark > 1 for mark in (*marks, item[-1])):
            return None
        return RuleList(self.d, tuple(self.conjunctions[place] for place in places), tuple(marks), item[-1])


@dataclass(frozen=True)
class KDecisionList(_Lists, QueryLearner):
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
        count = _few_tests(self.d, self.k)
        for name in ("theta", "stop"):
            share = rational(name, getattr(self, name))
            if not 0 <= share <= 1:
                raise ParameterError(f"{name} must be in [0, 1], got {share}")
            object.__setattr__(self, name, share)
        object.__setattr__(self, "max_rules", min(integer("max_rules", self.max_rules, 1), count))

    @classmethod
    def certified(cls, d: int, alpha: Ratio, **more: Any) -> Self:
        """``theta = alpha/(4K^2)``, ``I = ceil(16 K^2/alpha)``, stop at ``alpha/2``."""
        error = proper("alpha", alpha)
        tests = cls(d, grid=1, **more).tests
        grid = 16 * tests**2 / error
        return cls(d, theta=error / (4 * tests**2), stop=error / 2, grid=-(-grid.numerator // grid.denominator), **more)

    @property
    def longest(self) -> int:
        return self.max_rules

    @property
    def queries(self) -> int:
        return self.max_rules * (2 * self.tests + 1)

    def learn(self, records: Records, answers: RoundedAnswers) -> bytes:
        return self.encode(self.rules(records, answers), 0)

    def rules(self, records: Records, answers: RoundedAnswers) -> ListRules:
        """The rules as (number of the test, label)."""
        holds = self.holds(records)
        left = np.ones(len(records), dtype=np.bool_)
        by_label = [records.y == b for b in (0, 1)]
        unused, found = list(range(len(holds))), ListRules()
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


@dataclass(frozen=True)
class SQDecisionLists(KDecisionList):
    """Lists whose tests are single literals."""

    k: int = 1

    label: ClassVar[str] = "dlist"


@dataclass(frozen=True)
class StagewiseDecisionList(_Lists, CappedLearner):
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

    def __post_init__(self) -> None:
        count = _few_tests(self.d, self.k)
        check_race(1, self.Gamma)
        integer("stages", self.stages, 1, count)
        integer("weight", self.weight, 0, 1 << 20)
        super().__post_init__()

    @property
    def longest(self) -> int:
        return self.stages

    def item_of(self, records: Records, seed: bytes) -> bytes:
        key, m = derive(seed, "stages"), len(records)
        records, weights = distinct(records)
        holds = self.holds(records)[:-1]
        left, used, found = weights.copy(), set[int](), ListRules()
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
        return self.encode(found, last.leaf)
