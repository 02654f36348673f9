"""Stable learners by name, from public integers and texts: what a manifest can say and a device can rebuild.

A task is a kind of rule, the number of values of each column, and parameters; unknown parameters are refused.

| kind | columns | learner | parameters |
|---|---|---|---|
| threshold, threshold-below, stump | any sizes | a race over all cuts | Gamma, race |
| point | one | a race over all values | Gamma, race |
| interval | one | a race over runs of cells | Gamma, race, cells |
| hashed-point | one | a race over buckets of public hash functions | Gamma, functions, buckets, coins |
| parity | yes/no, at most 22 | a race over all parities | Gamma, race |
| | yes/no, at most 4096 | a linear system (``learner="solve"``) | |
| these, hashed-point aside | small | rules right on parts of the records (``"lists"``) | Gamma, alpha, parts, share |
| | small; points: any | functions of reduction trees (``"reduction"``) | Gamma, alpha, parts |
| conjunction, disjunction | yes/no | rounded queries | grid, keep_at_most |
| decision-list | yes/no | a race per stage (``learner="race"``) | Gamma, k, stages, weight |
| | | the proved queries (``"queries"``) | grid, theta, stop, stages, k; alpha: certified |
| halfspace | any sizes | rounded separator (``"rounded"``) | grid, ridge, stages, scale |
| | | the proved ellipsoid (``"queries"``) | alpha: certified; scale |
| naive-bayes | at most 65536 values | rounded queries | grid, scale |

Items of the last three are functions (:mod:`privpac.device.canonical`): people whose records lead to the same rule
name the same bytes, however they were led to it.  With that the races agree more often, and err less, than the
statistical queries with proof at any number of records a device has (``benchmarks/agreement_learners.py``), so they
are the defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from privpac.device.canonical import MAX_LISTED_POINTS, CanonicalLists, CanonicalWeights
from privpac.device.correlated_sampling import MAX_DENOMINATOR, integer, rate, rational
from privpac.device.decision_lists import KDecisionList, SQDecisionLists, StagewiseDecisionList, count_tests
from privpac.device.items import NumberedItems, StableLearner
from privpac.device.littlestone import (
    BUDGET,
    ReductionList,
    SmallClassLists,
    TableLists,
    reduction_lists,
    version_lists,
)
from privpac.device.scores import (
    CutScores,
    HashedPointScores,
    IntervalScores,
    ParityScores,
    ParitySolver,
    PointScores,
    RaceLearner,
    RuleScores,
    read_coins,
)
from privpac.device.separators import EllipsoidPlan, RoundedSeparator, SQEllipsoid, plan_ellipsoid
from privpac.device.statistical_queries import QueryLearner, SQConjunctions, SQDisjunctions, SQNaiveBayes
from privpac.errors import ParameterError, TooLargeError

Sizes = tuple[int, ...]
Values = dict[str, Any]
Builder = Callable[[Sizes, Values, Values], StableLearner]


def _one(sizes: Sizes) -> int:
    if len(sizes) != 1:
        raise ParameterError(f"this rule reads one column, got {len(sizes)}")
    return sizes[0]


def _yes_no(sizes: Sizes) -> int:
    if any(size != 2 for size in sizes):
        raise ParameterError(
            f"this rule reads columns with two values each, got {', '.join(map(str, sizes))} values; declare yes/no "
            "columns such as name=0:1"
        )
    return len(sizes)


def _race(scores: Callable[[Sizes, Values], RuleScores]) -> Builder:
    def build(sizes: Sizes, own: Values, records: Values) -> StableLearner:
        learner, more = own.get("learner", "race"), {"Gamma": own.get("Gamma", _GAMMA), **records}
        if learner == "race":
            _only(own, learner, {"Gamma", "race", "cells"})
            return RaceLearner(scores(sizes, own), race=own.get("race", "dyadic"), **more)
        if learner not in ("lists", "reduction"):
            raise ParameterError(f"the learner must be {', '.join(map(repr, _LISTED))}, got {str(learner)[:40]!r}")
        lists = {"alpha", "parts", "cells", *(["share"] if learner == "lists" else [])}
        _only(own, learner, {"Gamma", *lists})
        more |= {name: own[name] for name in lists - {"cells"} if name in own}
        return (version_lists if learner == "lists" else reduction_lists)(scores(sizes, own), **more)

    return build


_GAMMA, _GRID, _CELLS = rate(60), 20, 128


def _scale(sizes: Sizes) -> int:
    """The largest weight: where the domain can be listed few do, else a direction is rounded to them."""
    return 15 if prod(sizes) <= MAX_LISTED_POINTS else 255


def _only(own: Values, learner: str, allowed: set[str]) -> None:
    strange = set(own) - allowed - {"learner"}
    if strange:
        raise ParameterError(f"learner={learner!r} does not use {sorted(strange)[0]!r}")


def _lists(sizes: Sizes, own: Values, records: Values) -> StableLearner:
    d, learner = _yes_no(sizes), own.get("learner", "race")
    tests = count_tests(d, own.get("k", 1))
    # One column has three tests, fewer than the usual four stages; a test that occurs twice says nothing the second
    # time, and longer lists would only be long numbers.
    stages = integer("stages", own.get("stages", min(4, tests)), 1, tests)
    inner: StableLearner
    if learner == "race":
        _only(own, learner, {"Gamma", "k", "stages", "weight"})
        shape = (own.get("Gamma", _GAMMA), own.get("k", 1), stages, own.get("weight", 2))
        inner = StagewiseDecisionList(d, *shape, **records)
    elif learner == "queries":
        _only(own, learner, {"k", "stages", "grid", "theta", "stop", "alpha"})
        more: Values = {"k": own.get("k", 1), **records}
        proved = SQDecisionLists if more["k"] == 1 else KDecisionList
        if "alpha" in own:
            _only(own, "queries with alpha", {"k", "alpha"})
            inner = proved.certified(d, own["alpha"], **more)
            stages = tests
        else:
            theta, stop = (rational(name, own.get(name, "1/20")) for name in ("theta", "stop"))
            inner = proved(d, theta=theta, stop=stop, max_rules=stages, grid=own.get("grid", 50), **more)
    else:
        raise ParameterError(f"the learner of decision lists is 'race' or 'queries', got {learner!r}")
    return CanonicalLists(inner, d, stages, tests)


def _separators(sizes: Sizes, own: Values, records: Values) -> StableLearner:
    d, learner = len(sizes), own.get("learner", "rounded")
    bound = None if all(size == 2 for size in sizes) else max(sizes) - 1
    inner: StableLearner
    if learner == "rounded":
        _only(own, learner, {"grid", "ridge", "stages", "scale"})
        ridge = rational("ridge", own.get("ridge", "1/50"))
        inner = RoundedSeparator(d, ridge, own.get("stages", 2), bound, grid=own.get("grid", 4), **records)
    elif learner == "queries":
        _only(own, learner, {"alpha", "scale"})
        # With alpha certified; else few steps on a small grid, as is practical.
        plan = plan_ellipsoid(d + 1, own["alpha"], bound) if "alpha" in own else EllipsoidPlan(32, 16, 3, 5, 12, 0)
        inner = SQEllipsoid(d, plan.theta2, plan.stop, plan.radius, plan.steps, bound, grid=plan.grid, **records)
    else:
        raise ParameterError(f"the learner of halfspaces is 'rounded' or 'queries', got {learner!r}")
    return CanonicalWeights(inner, sizes, own.get("scale", _scale(sizes)))


_LISTED = ("race", "lists", "reduction")


def _intervals(sizes: Sizes, own: Values) -> RuleScores:
    return IntervalScores(_one(sizes), own.get("cells", min(_one(sizes), _CELLS)))


def _parities(sizes: Sizes, own: Values, records: Values) -> StableLearner:
    if own.get("learner") == "solve":
        _only(own, "solve", set())
        return ParitySolver(_yes_no(sizes), **records)
    return _race(lambda sizes, _: ParityScores(_yes_no(sizes)))(sizes, own, records)


def _hashed(sizes: Sizes, own: Values, records: Values) -> StableLearner:
    coins = read_coins(own.get("coins", "00" * 32))
    scores = HashedPointScores(_one(sizes), own.get("functions", 3), own.get("buckets", 64), coins)
    return RaceLearner(scores, own.get("Gamma", _GAMMA), **records)


def _junctions(learner: type[SQConjunctions]) -> Builder:
    return lambda sizes, own, records: learner(
        _yes_no(sizes), own.get("keep_at_most", 0), grid=own.get("grid", _GRID), **records
    )


def _bayes(sizes: Sizes, own: Values, records: Values) -> StableLearner:
    inner = SQNaiveBayes(sizes, grid=own.get("grid", _GRID), **records)
    return CanonicalWeights(inner, sizes, own.get("scale", _scale(sizes)), True)


_RACE = "Gamma race learner alpha parts share"
_BUILDERS: dict[str, tuple[Builder, str]] = {
    "threshold": (_race(lambda sizes, _: CutScores((_one(sizes),), ("above",))), _RACE),
    "threshold-below": (_race(lambda sizes, _: CutScores((_one(sizes),), ("below",))), _RACE),
    "stump": (_race(lambda sizes, _: CutScores(sizes)), _RACE),
    "point": (_race(lambda sizes, _: PointScores(_one(sizes))), _RACE),
    "interval": (_race(_intervals), f"{_RACE} cells"),
    "hashed-point": (_hashed, "Gamma functions buckets coins"),
    "parity": (_parities, _RACE),
    "conjunction": (_junctions(SQConjunctions), "grid keep_at_most"),
    "disjunction": (_junctions(SQDisjunctions), "grid keep_at_most"),
    "decision-list": (_lists, "Gamma k stages weight learner grid theta stop alpha"),
    "halfspace": (_separators, "grid ridge stages scale learner alpha"),
    "naive-bayes": (_bayes, "grid scale"),
}
_TEXTS = {"alpha", "coins", "learner", "race", "ridge", "share", "stop", "theta"}

KINDS = tuple(_BUILDERS)

ORDERED = ("threshold", "threshold-below", "stump", "interval", "halfspace")
"""Kinds that ask what is above what, or add up values: their columns need an order."""


def types_of(kind: str) -> Mapping[str, type]:
    """The parameters of a kind of rule: integers, or texts (names and rationals)."""
    names = _BUILDERS[kind][1].split() if kind in _BUILDERS else ()
    return {name: str if name in _TEXTS else int for name in names}


@dataclass(frozen=True)
class Task:
    """A kind of rule over columns with so many values each.

    >>> Task("threshold", (1441,)).learner.universe.size
    1442
    """

    kind: str
    sizes: Sizes
    parameters: tuple[tuple[str, int | str], ...] = ()
    min_records: int = 1
    max_records: int = MAX_DENOMINATOR

    def __post_init__(self) -> None:
        if self.kind not in _BUILDERS:
            raise ParameterError(f"the kind of rule must be one of {', '.join(KINDS)}; got {str(self.kind)[:40]!r}")
        if not self.sizes:
            raise ParameterError("a rule needs at least one column")
        object.__setattr__(self, "sizes", tuple(integer("a domain size", size, 1, 1 << 64) for size in self.sizes))
        known, parameters = types_of(self.kind), dict(self.parameters)
        for name, value in parameters.items():
            if name not in known:
                raise ParameterError(f"{self.kind} takes {', '.join(known)}; got {str(name)[:40]!r}")
            if isinstance(value, bool) or not isinstance(value, known[name]):
                raise ParameterError(f"{name} must be {'an integer' if known[name] is int else 'a text'}")
        object.__setattr__(self, "parameters", tuple(sorted(parameters.items())))
        _ = self.learner

    @property
    def default(self) -> bytes:
        """The public item that stands in when nothing is clear: "never", where the class has it, else its first
        rule."""
        universe = self.learner.universe
        last = universe.size - 1
        never = {"threshold": last, "hashed-point": last, "stump": min(self.sizes[0] + 1, 1 << 64) - 1}
        if self.kind == "conjunction":
            return ((1 << 2 * len(self.sizes)) - 1).to_bytes(-(-2 * len(self.sizes) // 8), "little")
        if self.kind == "decision-list":
            return b"\0"
        if isinstance(self.learner, CanonicalWeights):
            return self.learner.never
        if isinstance(self.learner, SmallClassLists):
            # The table of "never" is the number 0; numbered points have it last.
            return universe.item(last if isinstance(universe, NumberedItems) else 0)
        return universe.item(never.get(self.kind, 0))

    @cached_property
    def learner(self) -> StableLearner:
        records = {"min_records": self.min_records, "max_records": self.max_records}
        return _BUILDERS[self.kind][0](self.sizes, dict(self.parameters), records)


# How much a device has to compute for a task, from public numbers alone: a run that asks for more is refused.
#
# Counted in steps of an interpreter (10^7 a second on a laptop, 10^6 on an old telephone), vectorised ones as a 64th.
# ``fixed`` whatever the records, ``each`` for every record.  Races over 2^64 rules are cheap; what grows quickly is
# elimination on long integers (a separator of D columns: D^4) and the proved queries, whose number is a polynomial of
# high degree.


MOST_FIXED = 1 << 26
MOST_EACH = 1 << 13
_VECTOR = 64


class Work(NamedTuple):
    """Steps whatever the records, and for each record."""

    fixed: int
    each: int


def work_of(learner: StableLearner) -> Work:
    """An estimate of the steps of one client.

    >>> work_of(Task("threshold", (1 << 64,)).learner).fixed < 10_000
    True
    """
    if isinstance(learner, (CanonicalLists, CanonicalWeights)):
        inner = work_of(learner.inner)
        return Work(inner.fixed + (1 << 21), inner.each)
    if isinstance(learner, RoundedSeparator):
        D = learner.d + 1
        return Work(learner.stages * D**4, learner.stages * D * D // _VECTOR + 1)
    if isinstance(learner, SQEllipsoid):
        D = learner.d + 1
        return Work(learner.steps * D**3, learner.steps * D * D)
    if isinstance(learner, StagewiseDecisionList):
        candidates = learner.tests * learner.stages
        return Work(64 * candidates, candidates // _VECTOR + 1)
    if isinstance(learner, QueryLearner):
        return Work(8 * learner.queries, learner.queries // _VECTOR + 1)
    if isinstance(learner, RaceLearner):
        components, size = len(learner.scores.sizes), learner.universe.size
        # Parities are transformed as a whole; cuts and points are searched from the best node on.
        listed = size * size.bit_length() // _VECTOR if size <= 1 << 22 and components == 1 else 0
        return Work(4096 + 256 * components + listed, 8 * components)
    if isinstance(learner, ParitySolver):
        return Work(4 * learner.width**2, 2 * learner.width)
    if isinstance(learner, SmallClassLists):
        lists = learner.learner
        rows = lists.rows if isinstance(lists, TableLists) else None
        table = 0 if rows is None else rows.size * rows.points
        search = 0 if rows is None or not isinstance(lists, ReductionList) else BUDGET * rows.points
        return Work(4096 + table + learner.parts * (table + search), 64)
    return Work(0, 0)


def check_work(task: Task) -> None:
    """Raises if a client would have to compute too long."""
    work = work_of(task.learner)
    if work.fixed > MOST_FIXED or work.each > MOST_EACH:
        raise TooLargeError(
            f"a client would compute too long for {task.kind} on {len(task.sizes)} columns: {work.fixed:.1g} steps "
            f"and {work.each} for each record, at most {MOST_FIXED:.1g} and {MOST_EACH}; take fewer columns or tests, "
            "or a learner without a certificate"
        )
