"""Stable learners by name, from public integers and texts: what a manifest can say and a device can rebuild.

A task is a kind of rule, the number of values of each column, and parameters; unknown parameters are refused.

| kind | columns | learner | parameters |
|---|---|---|---|
| threshold, threshold-below, stump | any sizes | a race over all cuts | Gamma, race |
| point | one | a race over all values | Gamma, race |
| parity | yes/no, at most 22 | a race over all parities | Gamma, race |
| conjunction, disjunction | yes/no | rounded queries | grid, keep_at_most |
| decision-list | yes/no | a race per stage | Gamma, k, stages, weight |
| halfspace | any sizes | rounded separator | grid, ridge, stages |
| naive-bayes | at most 65536 values | rounded queries | grid |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from privpac.agreement.learner import StableLearner
from privpac.agreement.queries.conjunctions import SQConjunctions, SQDisjunctions
from privpac.agreement.queries.decision_lists import StagewiseDecisionList
from privpac.agreement.queries.naive_bayes import SQNaiveBayes
from privpac.agreement.races.flat import MAX_DENOMINATOR
from privpac.agreement.races.words import integer, rate, rational
from privpac.agreement.representation import RaceLearner
from privpac.agreement.scores import CutScores, ParityScores, PointScores, RuleScores
from privpac.agreement.separator import RoundedSeparator
from privpac.errors import ParameterError

__all__ = ["KINDS", "Task"]

Sizes = tuple[int, ...]
Values = dict[str, Any]


def _one(sizes: Sizes) -> int:
    if len(sizes) != 1:
        raise ParameterError(f"this rule reads one column, got {len(sizes)}")
    return sizes[0]


def _yes_no(sizes: Sizes) -> int:
    if any(size != 2 for size in sizes):
        seen = ", ".join(map(str, sizes))
        raise ParameterError(
            f"this rule reads columns with two values each, got {seen} values; declare yes/no columns such as name=0:1"
        )
    return len(sizes)


def _race(scores: Callable[[Sizes], RuleScores]) -> Callable[[Sizes, Values, Values], StableLearner]:
    def build(sizes: Sizes, own: Values, records: Values) -> StableLearner:
        return RaceLearner(scores(sizes), own.get("Gamma", _GAMMA), own.get("race", "dyadic"), **records)

    return build


_GAMMA, _GRID = rate(60), 20
_RACE = {"Gamma": int, "race": str}

_BUILDERS: dict[str, tuple[Callable[[Sizes, Values, Values], StableLearner], Mapping[str, type]]] = {
    "threshold": (_race(lambda sizes: CutScores((_one(sizes),), ("above",))), _RACE),
    "threshold-below": (_race(lambda sizes: CutScores((_one(sizes),), ("below",))), _RACE),
    "stump": (_race(CutScores), _RACE),
    "point": (_race(lambda sizes: PointScores(_one(sizes))), _RACE),
    "parity": (_race(lambda sizes: ParityScores(_yes_no(sizes))), _RACE),
    "conjunction": (
        lambda sizes, own, records: SQConjunctions(
            _yes_no(sizes), own.get("keep_at_most", 0), grid=own.get("grid", _GRID), **records
        ),
        {"grid": int, "keep_at_most": int},
    ),
    "disjunction": (
        lambda sizes, own, records: SQDisjunctions(
            _yes_no(sizes), own.get("keep_at_most", 0), grid=own.get("grid", _GRID), **records
        ),
        {"grid": int, "keep_at_most": int},
    ),
    "decision-list": (
        # One column has three tests, fewer than the usual four stages.
        lambda sizes, own, records: StagewiseDecisionList(
            _yes_no(sizes), **{"Gamma": _GAMMA, "stages": min(4, 2 * len(sizes) + 1), **own}, **records
        ),
        {"Gamma": int, "k": int, "stages": int, "weight": int},
    ),
    "halfspace": (
        lambda sizes, own, records: RoundedSeparator(
            len(sizes),
            rational("ridge", own.get("ridge", "1/50")),
            own.get("stages", 2),
            None if all(size == 2 for size in sizes) else max(sizes) - 1,
            grid=own.get("grid", 4),
            **records,
        ),
        {"grid": int, "ridge": str, "stages": int},
    ),
    "naive-bayes": (
        lambda sizes, own, records: SQNaiveBayes(sizes, grid=own.get("grid", _GRID), **records),
        {"grid": int},
    ),
}

KINDS = tuple(_BUILDERS)


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
        known, given = _BUILDERS[self.kind][1], dict(self.parameters)
        for name, value in given.items():
            if name not in known:
                raise ParameterError(f"{self.kind} takes {', '.join(known)}; got {str(name)[:40]!r}")
            if isinstance(value, bool) or not isinstance(value, known[name]):
                raise ParameterError(f"{name} must be {'an integer' if known[name] is int else 'a text'}")
        object.__setattr__(self, "parameters", tuple(sorted(given.items())))
        _ = self.learner

    @property
    def default(self) -> bytes:
        """The public item that stands in when nothing is clear: "never", where the class has it, else its first
        rule."""
        universe = self.learner.universe
        never = {"threshold": universe.size - 1, "stump": min(self.sizes[0] + 1, 1 << 64) - 1}
        if self.kind == "conjunction":
            return ((1 << 2 * len(self.sizes)) - 1).to_bytes(-(-2 * len(self.sizes) // 8), "little")
        if self.kind == "decision-list":
            return b"\0"
        if self.kind == "naive-bayes":
            # All weight on the prior, which every column but one pays back: the sum is never positive.
            grid = dict(self.parameters).get("grid", _GRID)
            return universe.item(int(grid))
        return universe.item(never.get(self.kind, 0))

    @cached_property
    def learner(self) -> StableLearner:
        build = _BUILDERS[self.kind][0]
        return build(
            self.sizes, dict(self.parameters), {"min_records": self.min_records, "max_records": self.max_records}
        )
