"""The rule of an item that users agreed on: predicts, prints, and is saved like any other rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privpac.agreement.hashed import HashedPoint
from privpac.agreement.intervals import Run
from privpac.agreement.learner import Hypothesis
from privpac.agreement.littlestone.small import ValueTable
from privpac.agreement.queries.naive_bayes import BayesRule
from privpac.agreement.rules import BitParity, Cut, Junction, LinearRule, OnePoint, RuleList
from privpac.agreement.tasks import Task
from privpac.concepts.base import Rule
from privpac.concepts.boolean import literal
from privpac.concepts.cells import Frozen, columns_from_list, columns_to_list
from privpac.concepts.intervals import Interval
from privpac.concepts.one_column import cut_condition
from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.released import register

__all__ = ["AgreedRule"]

_WORD = 1 << 62
_TEXTS = {"race", "ridge", "learner", "theta", "stop", "alpha", "coins", "share"}


@register("agreed")
@dataclass(frozen=True, repr=False)
class AgreedRule(Rule):
    """What an item of a task says about named columns."""

    kind: str
    columns: Frozen[Domain]
    item: bytes
    parameters: tuple[tuple[str, int | str], ...] = ()
    label: str = "1"

    def __post_init__(self) -> None:
        if self._hypothesis is None:
            raise ParameterError("these bytes are no rule of the task")

    @cached_property
    def _hypothesis(self) -> Hypothesis | None:
        return Task(self.kind, tuple(domain.size for domain in self.columns.values()), self.parameters).learner.decode(
            self.item
        )

    @property
    def features(self) -> Mapping[str, Domain]:
        return self.columns

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        table = np.stack([codes[name] for name in self.columns], axis=1)
        rule = self._hypothesis
        assert rule is not None
        if isinstance(rule, LinearRule):
            most = max(domain.size for domain in self.columns.values())
            if most * sum(abs(w) for w in rule.weights) < _WORD:
                weights = np.array(rule.weights, dtype=np.int64)
                total = table.astype(np.int64) @ weights[: table.shape[1]] + weights[table.shape[1] :].sum()
                return np.asarray(total > 0, dtype=np.int8)
        return rule.predict(table)

    def condition(self) -> str:
        rule = self._hypothesis
        return _WORDS[type(rule)](rule, list(self.columns.items()))

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.kind,
            "columns": columns_to_list(self.columns),
            "item": self.item.hex(),
            "parameters": {name: str(value) for name, value in self.parameters},
            "label": self.label,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        numbers = tuple((name, text if name in _TEXTS else int(text)) for name, text in values["parameters"].items())
        return cls(
            values["rule"],
            columns_from_list(values["columns"]),
            bytes.fromhex(values["item"]),
            numbers,
            values["label"],
        )


# Words for each kind of rule

Columns = list[tuple[str, Domain]]


def _is(name: str, domain: Domain, code: int) -> str:
    return f"{name} {'=' if domain.ordered else 'is'} {domain.text(code)}"


def _cut(rule: Cut, columns: Columns) -> str:
    name, domain = columns[rule.column]
    return cut_condition(name, domain, rule.cut, "above" if rule.above else "below")


def _point(rule: OnePoint, columns: Columns) -> str:
    name, domain = columns[0]
    return "never" if rule.point is None else _is(name, domain, rule.point)


def _hashed(rule: HashedPoint, columns: Columns) -> str:
    name = columns[0][0]
    return (
        "never"
        if rule.bucket is None
        else f"{name} is in bucket {rule.bucket} of {rule.buckets} (public hash {rule.function})"
    )


def _literal(number: int, columns: Columns) -> str:
    name, domain = columns[number % len(columns)]
    return literal(name, domain, int(number < len(columns)))


def _junction(rule: Junction, columns: Columns) -> str:
    chosen = [j for j in range(2 * rule.columns) if rule.mask >> j & 1]
    if any(j + rule.columns in chosen for j in chosen):
        return "never" if rule.every else "always"
    words = [_literal(j, columns) for j in chosen]
    return (" and " if rule.every else " or ").join(words) or ("always" if rule.every else "never")


def _list(rule: RuleList, columns: Columns) -> str:
    steps = [
        f"{' and '.join(_literal(j, columns) for j in test) or 'true'}: {label}"
        for test, label in zip(rule.tests, rule.labels)
    ]
    if not steps:
        return "always" if rule.default else "never"
    return f"the first that holds says 1 ({'; '.join([*steps, f'otherwise: {rule.default}'])})"


def _linear(rule: LinearRule, columns: Columns) -> str:
    parts = [f"{weight:+d} {name}" for weight, (name, _) in zip(rule.weights, columns) if weight]
    constant = [f"{weight:+d}" for weight in rule.weights[len(columns) :] if weight]
    return (
        f"{' '.join([*parts, *constant])} > 0"
        if parts
        else ("always" if constant and constant[0][0] == "+" else "never")
    )


def _bayes(rule: BayesRule, columns: Columns) -> str:
    return f"the values of {', '.join(name for name, _ in columns)} weigh more for 1 (naive Bayes)"


def _parity(rule: BitParity, columns: Columns) -> str:
    chosen = [name for j, (name, _) in enumerate(columns) if rule.mask >> j & 1]
    return f"an odd number of {', '.join(chosen)}" if chosen else "never"


def _run(rule: Run, columns: Columns) -> str:
    name, domain = columns[0]
    return Interval(name, domain, rule.low, rule.high).condition()


def _values(rule: ValueTable, columns: Columns) -> str:
    ones = [np.unravel_index(place, rule.sizes) for place in np.flatnonzero(rule.bits)]
    if len(ones) == len(rule.bits):
        return "always"
    points = (
        " and ".join(_is(name, domain, int(code)) for code, (name, domain) in zip(point, columns)) for point in ones
    )
    return " or ".join(points) or "never"


_WORDS: dict[type, Callable[[Any, Columns], str]] = {
    BayesRule: _bayes,
    BitParity: _parity,
    Cut: _cut,
    Junction: _junction,
    LinearRule: _linear,
    HashedPoint: _hashed,
    OnePoint: _point,
    RuleList: _list,
    Run: _run,
    ValueTable: _values,
}
