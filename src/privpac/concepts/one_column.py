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

__all__ = ["DIRECTIONS", "Point", "Threshold", "check_cut", "cut_condition", "cut_predictions", "point_predictions"]

DIRECTIONS = ("above", "below")


def cut_condition(feature: str, domain: Domain, cut: int, direction: str) -> str:
    """A cut in the user's units; cuts beyond the ends, or among codes that are no values, print as always / never."""
    lowest, highest = domain.value_range()
    if cut <= lowest:
        return "always" if direction == "above" else "never"
    if cut > highest:
        return "never" if direction == "above" else "always"
    return f"{feature} {'>' if direction == 'above' else '<='} {domain.text(cut - 1)}"


def check_cut(domain: Domain, cut: int, direction: str) -> None:
    """A cut and a direction that make a rule on the domain."""
    if not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(domain).__name__}")
    positive_int(cut, "cut", minimum=0, maximum=domain.size)
    if direction not in DIRECTIONS:
        raise ParameterError(f"direction must be 'above' or 'below', got {direction!r}")


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
    """Codes against a cut that may be 2**64."""
    over = np.zeros(len(codes), dtype=bool) if cut >= 1 << 64 else codes >= np.uint64(cut)
    return (over if direction == "above" else ~over).astype(np.int8)


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
        return "always" if self.domain.size == 1 else f"{self.feature} = {self.domain.text(self.code)}"

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
