"""What a column does with missing values, declared with its domain.

``Missing(Integers(0, 120), "own")`` gives missing values a code of their own after all others: small trees and points
cards read it as one more answer, "is missing".  ``"drop"`` leaves such records out whatever ``on_invalid`` says,
``"raise"`` is what every domain does without a rule: ``on_invalid`` decides, and its default raises.  Nothing is ever
filled in: a value made up from other people's would carry their data into everybody's record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import polars as pl

from privpac.data.domains import Domain, Floats
from privpac.data.schema import Bools, Encoded, OnInvalid, Verdict
from privpac.data.texts import Texts
from privpac.errors import ParameterError

__all__ = ["Missing", "MissingRule", "invalid_words", "own_code", "values_of"]

MissingRule = Literal["own", "drop", "raise"]
_MOST_NAMED = 4


@dataclass(frozen=True)
class Missing(Domain):
    """A domain with a rule for missing values.

    >>> from privpac.data.domains import Integers
    >>> age = Missing(Integers(0, 120), "own")
    >>> age.size, age.encode([3, None])[0].tolist(), age.text(121)
    (122, [3, 121], 'missing')
    """

    inner: Domain
    rule: MissingRule = "own"
    kind: ClassVar[str] = "missing"

    def __post_init__(self) -> None:
        if isinstance(self.inner, (Missing, Texts)) or not isinstance(self.inner, Domain):
            raise TypeError(
                f"a rule for missing values goes with a domain such as Integers(0, 100), got "
                f"{type(self.inner).__name__}"
            )
        if self.rule not in get_args(MissingRule):
            raise ParameterError(f"missing must be 'own', 'drop' or 'raise', got {self.rule!r}")
        if self.rule == "own" and self.inner.size >= 1 << 64 and not isinstance(self.inner, Floats):
            raise ParameterError("a domain of 2^64 values has no code left for missing ones; declare a smaller one")

    @property
    def size(self) -> int:
        return self.inner.size if self.code is None else max(self.inner.size, self.code + 1)

    @property
    def code(self) -> int | None:
        """The code of a missing value, None unless it has its own; among floats a pattern that no value has."""
        if self.rule != "own":
            return None
        return (1 << 64) - 1 if isinstance(self.inner, Floats) else self.inner.size

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        return self.inner.ordered

    def describe(self) -> str:
        what = {"own": "or missing", "drop": "records without a value left out", "raise": ""}
        return ", ".join(part for part in (self.inner.describe(), what[self.rule]) if part)

    def value(self, code: int) -> Any:
        return None if code == self.code else self.inner.value(code)

    def text(self, code: int) -> str:
        return "missing" if code == self.code else self.inner.text(code)

    def is_finite(self, code: int) -> bool:
        return code == self.code or self.inner.is_finite(code)

    def value_range(self) -> tuple[int, int]:
        lowest, highest = self.inner.value_range()
        return lowest, highest if self.code is None else self.code

    @property
    def linear(self) -> bool:
        return self.code is None and self.inner.linear

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "inner": self.inner.to_dict(), "rule": self.rule}

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:
        return cls(Domain.from_dict(fields["inner"]), fields["rule"])

    def holds(self, series: pl.Series) -> bool:
        return self.inner.holds(series)

    def read(self, series: pl.Series, name: str) -> Encoded:
        codes, verdicts = self.inner.read(series, name)
        if verdicts is None or self.code is None:
            return Encoded(codes, verdicts)
        gone = verdicts == Verdict.MISSING
        codes[gone], verdicts[gone] = np.uint64(self.code), Verdict.GOOD
        return Encoded(codes, verdicts)

    read_typed = read

    def words(self) -> dict[Verdict, str]:
        return self.inner.words()

    def judged(self, verdicts: Any) -> Any:
        return np.where(verdicts == Verdict.MISSING, Verdict.GOOD, verdicts) if self.rule == "drop" else verdicts

    def accept(self, verdicts: Any, rule: OnInvalid, name: str) -> Bools | None:
        if self.rule != "drop" or verdicts is None:
            return super().accept(verdicts, rule, name)
        missing = np.where(verdicts == Verdict.MISSING, verdicts, Verdict.GOOD)
        there = super().accept(missing, OnInvalid.DROP, name)
        kept = super().accept(self.judged(verdicts), rule, name)
        return kept if there is None else there if kept is None else kept & there


_INVALID = {
    OnInvalid.RAISE: "",
    OnInvalid.DROP: "records with values outside their domain are left out",
    OnInvalid.CLAMP: (
        "numbers outside their domain are moved to its nearest end, records with values that are not listed left out"
    ),
}


def invalid_words(on_invalid: OnInvalid | str, features: Mapping[str, Domain | None]) -> str:
    """What the declared rules do with values outside their domain and with missing ones, empty if they refuse all.

    >>> from privpac.data.domains import Integers
    >>> invalid_words("drop", {"age": Integers(0, 99)})
    'records with values outside their domain are left out; records with missing values are left out'
    >>> invalid_words("raise", {"age": Missing(Integers(0, 99), "own")})
    'missing values have a category of their own'
    """
    policy = OnInvalid(on_invalid)
    rules = {name: domain.rule if isinstance(domain, Missing) else "raise" for name, domain in features.items()}
    own = [name for name, rule in rules.items() if rule == "own"]
    dropping = ("drop",) if policy is OnInvalid.RAISE else ("drop", "raise")
    dropped = [name for name, rule in rules.items() if rule in dropping]
    words = [_INVALID[policy]]
    if own:
        words.append(f"missing values{_of(own, rules)} have a category of their own")
    if dropped or (policy != OnInvalid.RAISE and not rules):
        words.append(f"records with missing values{_of(dropped, rules)} are left out")
    return "; ".join(filter(None, words))


def _of(some: Sequence[str], every: Mapping[str, str]) -> str:
    if len(some) == len(every):
        return ""
    return f" of {', '.join(some)}" if len(some) <= _MOST_NAMED else f" of {len(some)} columns"


def values_of(domain: Domain) -> Domain:
    """The domain of the values that are there."""
    return domain.inner if isinstance(domain, Missing) else domain


def own_code(domain: Domain | None) -> int | None:
    """The code of missing values where they have one of their own."""
    return domain.code if isinstance(domain, Missing) else None
