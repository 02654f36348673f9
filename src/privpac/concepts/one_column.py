"""Rules of one column: beyond a cut, or equal to one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import Rule
from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.released import register

__all__ = [
    "DIRECTIONS",
    "VALUE_DIRECTIONS",
    "Point",
    "Threshold",
    "check_cut",
    "cut_condition",
    "cut_predictions",
    "listed_condition",
    "need_order",
    "point_predictions",
    "stored_in_order",
]

DIRECTIONS = ("above", "below")
VALUE_DIRECTIONS = ("is", "is not")
"""What stands for a cut's directions on a column without an order."""


def need_order(
    feature: str | None,
    domain: Domain | None,
    instead: str = "use Points/Stumps (the rules 'point' and 'stump')",
) -> None:
    """Refuse a column whose values have no order, for rules that ask what is above what."""
    if domain is not None and not domain.ordered:
        column = "the column" if feature is None else f"column {feature!r}"
        raise ParameterError(
            f"{column} has unordered categories; write Categories([...], ordered=True) if their order means something "
            f"(in words {{a<b<c}}), or {instead}"
        )


def stored_in_order(values: Mapping[str, Any]) -> Domain:
    """A stored domain of rules that need an order; files older than the field ``ordered`` do not say that there is
    one."""
    if "inner" in values:
        return Domain.from_dict({**values, "inner": stored_in_order(values["inner"]).to_dict()})
    return Domain.from_dict({"ordered": True, **values} if values.get("kind") == "categories" else values)


def listed_condition(feature: str, domain: Domain, first: int, last: int) -> str:
    """Codes ``first..last`` of a column without an order, by name: ``is a``, ``is not a``, ``is one of a, b``.

    Rules learned before categories were unordered, and boxes, hold such runs.
    """
    inside, rest = range(first, last + 1), [*range(first), *range(last + 1, domain.size)]
    if not rest or not inside:
        return "always" if inside else "never"
    listed, word = (inside, "is") if len(inside) <= len(rest) else (rest, "is not")
    return f"{feature} {word} {'one of ' * (len(listed) > 1)}{', '.join(map(domain.text, listed))}"


def cut_condition(feature: str, domain: Domain, cut: int, direction: str) -> str:
    """A cut in the user's units; cuts beyond the ends, or among codes that are no values, print as always / never."""
    if direction in VALUE_DIRECTIONS:
        if cut == domain.size or domain.size == 1:
            return "never" if (cut == domain.size) == (direction == "is") else "always"
        return f"{feature} {direction} {domain.text(cut)}"
    if not domain.ordered:
        return listed_condition(feature, domain, *((cut, domain.size - 1) if direction == "above" else (0, cut - 1)))
    lowest, highest = domain.value_range()
    if cut <= lowest:
        return "always" if direction == "above" else "never"
    if cut > highest:
        return "never" if direction == "above" else "always"
    return f"{feature} {'>' if direction == 'above' else '<='} {domain.text(cut - 1)}"


def check_cut(domain: Domain, cut: int, direction: str, directions: tuple[str, ...] = DIRECTIONS) -> None:
    """A cut and a direction that make a rule on the domain; for "is" and "is not" the cut is a code, or the number of
    codes for a value that nobody holds."""
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(domain).__name__}")
    positive_int(cut, "cut", minimum=0, maximum=domain.size)
    if direction not in directions:
        raise ParameterError(f"direction must be {' or '.join(map(repr, directions))}, got {direction!r}")


@register("threshold")
@dataclass(frozen=True, repr=False)
class Threshold(Rule):
    """1 iff ``code(x) >= cut`` (above) or ``code(x) < cut`` (below)."""

    feature: str
    domain: Domain
    cut: int
    direction: str = "above"
    label: str = "1"

    def __post_init__(self) -> None:
        check_cut(self.domain, self.cut, self.direction)

    @property
    def features(self) -> Mapping[str, Domain]:
        return {self.feature: self.domain}

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        return cut_predictions(codes[self.feature], self.cut, self.direction)

    def edges(self, column: str) -> tuple[int, ...]:
        return (self.cut,)

    def condition(self) -> str:
        return cut_condition(self.feature, self.domain, self.cut, self.direction)

    def to_dict(self) -> dict[str, Any]:
        return {
            "feature": self.feature,
            "domain": self.domain.to_dict(),
            "cut": str(self.cut),
            "direction": self.direction,
            "label": self.label,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(
            values["feature"],
            Domain.from_dict(values["domain"]),
            int(values["cut"]),
            values["direction"],
            values["label"],
        )


def cut_predictions(codes: NDArray[np.uint64], cut: int, direction: str) -> NDArray[np.int8]:
    """Codes against a cut that may be 2**64, or against one code."""
    if cut >= 1 << 64:
        over = np.zeros(len(codes), dtype=bool)
    else:
        over = codes == np.uint64(cut) if direction in VALUE_DIRECTIONS else codes >= np.uint64(cut)
    return (over if direction in ("above", "is") else ~over).astype(np.int8)


@register("point")
@dataclass(frozen=True, repr=False)
class Point(Rule):
    """1 iff ``code(x) = code``; ``code=None`` never says 1."""

    feature: str
    domain: Domain
    code: int | None
    label: str = "1"

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Domain):
            raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(self.domain).__name__}")
        if self.code is not None:
            positive_int(self.code, "code", minimum=0, maximum=self.domain.size - 1)

    @property
    def features(self) -> Mapping[str, Domain]:
        return {self.feature: self.domain}

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        return point_predictions(codes[self.feature], self.code)

    def edges(self, column: str) -> tuple[int, ...]:
        return () if self.code is None else (self.code,)

    def condition(self) -> str:
        if self.code is None or not _holds_value(self.domain, self.code):
            return "never"
        if self.domain.size == 1:
            return "always"
        return f"{self.feature} {'=' if self.domain.ordered else 'is'} {self.domain.text(self.code)}"

    def to_dict(self) -> dict[str, Any]:
        code = None if self.code is None else str(self.code)
        return {"feature": self.feature, "domain": self.domain.to_dict(), "code": code, "label": self.label}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        code = values["code"]
        return cls(
            values["feature"], Domain.from_dict(values["domain"]), None if code is None else int(code), values["label"]
        )


def _holds_value(domain: Domain, code: int) -> bool:
    """Whether some value has this code (among the codes of floats are patterns that no value has)."""
    return int(domain.encode([domain.value(code)], on_invalid="clamp")[0][0]) == code


def point_predictions(codes: NDArray[np.uint64], code: int | None) -> NDArray[np.int8]:
    return np.zeros(len(codes), dtype=np.int8) if code is None else (codes == np.uint64(code)).astype(np.int8)
