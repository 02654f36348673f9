"""Rules of one column: beyond a cut, or equal to one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.result import register
from privpac.rules.base import Rule
from privpac.rules.labellings import Ints, Labellings, distance_minimum
from privpac.rules.profile import Profile, Step

__all__ = [
    "DIRECTIONS",
    "Point",
    "Threshold",
    "VALUE_DIRECTIONS",
    "check_cut",
    "cut_condition",
    "cut_predictions",
    "gap_minima",
    "listed_condition",
    "need_order",
    "point_labellings",
    "point_predictions",
    "stored_in_order",
    "threshold_labellings",
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


# Labellings by cuts and by single values of one column; only order and equality of values matter, so domains of 2**64
# cost nothing.
#
# *Cuts.*  With distinct values ``p_1 < ... < p_u`` in T, the labelling "the i smallest are on the low side" is given by
# the cuts of gap i, and ``M(i)`` is the least loss over that gap.  Two such labellings differ on the records between
# them, so Q is a one-dimensional distance transform.  With both directions a labelling of the other direction differs
# on
# all *other* records: ``t - |x| = min(t - x, t + x)``.
#
# *Single values.*  ``{x}`` and ``{y}`` differ on the records at x and at y; the two smallest ``A * records + B * M``
# decide all scores.  No record is labelled 1 iff the class has the zero rule, or a value that T does not hold.


Codes = NDArray[np.uint64]


def refined(step: Step, places: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], Ints]:
    """The step function with the given places among its starts."""
    starts = np.union1d(step.starts, places)
    return starts, step.scores[np.searchsorted(step.starts, starts, side="right") - 1]


def gap_minima(cut0: Step, cuts: Step, held: NDArray[np.uint64]) -> Ints:
    """The least loss over the cuts of every gap: ``0..p_1``, ``p_1 + 1..p_2``, ..., ``p_u + 1..N``.

    ``cuts`` starts at cut 1, so that its local id ``c`` is the cut ``c + 1``, the first one beyond the code ``c``.
    """
    starts, scores = refined(cuts, held)
    where = np.searchsorted(starts, held)
    out = np.empty(len(held) + 1, dtype=np.int64)
    out[1:] = np.minimum.reduceat(scores, where)
    out[0] = min(int(cut0.scores[0]), int(scores[: where[0]].min(initial=np.iinfo(np.int64).max)))
    return out


def threshold_labellings(points: Codes, directions: tuple[str, ...], profile: Profile, A: int, B: int) -> Labellings:
    held, rank, times = np.unique(points, return_inverse=True, return_counts=True)
    place = A * np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(times)])  # A times the records below gap i
    costs = [B * gap_minima(profile.steps[2 * d], profile.steps[2 * d + 1], held) for d in range(len(directions))]
    own = [distance_minimum(cost, place) for cost in costs]
    total = int(place[-1])
    if len(own) == 2:
        for d in (0, 1):
            other = costs[1 - d]
            opposite = np.minimum(
                total - place + int((other + place).min()), total + place + int((other - place).min())
            )
            own[d] = np.minimum(own[d], opposite)
        # Both directions give the two constants: the second direction keeps its inner gaps only.
        own[1] = own[1][1:-1]
    first = len(own[0])
    above = directions[0] == "above"

    def labels(i: int) -> NDArray[np.uint8]:
        gap, up = (i, above) if i < first else (i - first + 1, False)
        return (rank >= gap if up else rank < gap).astype(np.uint8)

    return Labellings(np.concatenate(own), labels)


def point_labellings(points: Codes, rules: int, profile: Profile, A: int, B: int) -> Labellings:
    """By ``rules`` single values, the zero rule among them if there is one."""
    held, rank, times = np.unique(points, return_inverse=True, return_counts=True)
    step = profile.steps[0]
    costs, mistakes = B * step.scores[np.searchsorted(step.starts, held, side="right") - 1], A * times.astype(np.int64)
    if rules > len(held):
        # Values that T does not hold: cut the held ones out of the step function.  A last code has nothing after it.
        after = held[held < np.uint64(step.end)] + np.uint64(1)
        starts, scores = refined(step, np.union1d(held, after))
        outside = scores[~np.isin(starts, held)]
        none = min(
            int(outside.min(initial=np.iinfo(np.int64).max)),
            *(int(s.scores[0]) for s in profile.steps[1:]),
            np.iinfo(np.int64).max,
        )
        costs, mistakes = np.append(costs, B * none), np.append(mistakes, 0)
    far = costs + mistakes
    order = np.argsort(far, kind="stable")[:2]
    least = np.full(len(far), far[order[0]])
    least[order[0]] = far[order[1]] if len(order) > 1 else np.iinfo(np.int64).max // 2
    scores_of = np.minimum(costs, mistakes + least)
    return Labellings(scores_of, lambda i: (rank == i).astype(np.uint8))
