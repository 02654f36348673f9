"""Thresholds and points as trees: a path and a star."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from attrs import frozen

from privpac.data import Domain, Integers, Texts
from privpac.data.domains import in_one_line
from privpac.data.grouping import ranked
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.rules.base import Rule
from privpac.rules.hierarchies.base import Depths, Ints, Places, VC1Tree, lay_out, register_tree
from privpac.rules.hierarchies.columns import MAX_BITS, Column, as_text, code_of
from privpac.rules.one_column import DIRECTIONS, Point, Threshold, cut_condition, need_order, stored_in_order

__all__ = ["PathTree", "StarTree", "check_direction", "steps"]

_MOST = (1 << 64) - 1  # the largest end of Integers


def _whole(shown: str, most: int) -> int | None:
    """A whole number 1..most in decimal digits."""
    digits = shown.removeprefix("+").lstrip("0")
    # The number of digits decides first: a number with a hundred thousand of them is not worth reading.
    if (
        not digits
        or not (digits.isascii() and digits.isdigit())
        or len(digits) > most.bit_length() * 30103 // 100000 + 1
    ):
        return None
    number = int(digits)
    return number if number <= most else None


def steps(codes: Any, size: int, direction: str) -> Depths:
    """Depths 1..size of codes 0..size-1; from the top down if the rule says 1 above."""
    if size >= 1 << 63:
        return np.array([c + 1 if direction == "below" else size - c for c in codes.tolist()], dtype=object)
    depth: Ints = codes.astype(np.int64)
    return depth + np.int64(1) if direction == "below" else np.int64(size) - depth


def check_direction(direction: str) -> None:
    if direction not in DIRECTIONS:
        raise ParameterError(f"direction must be 'below' or 'above', got {direction!r}")


@register_tree
@frozen(slots=False, init=False)
class PathTree(VC1Tree):
    """Thresholds: the points 1..d in a row, the concept of node v says 1 iff x <= v (``direction="below"``).

    ``PathTree(d)`` for whole numbers 1..d of any size, ``PathTree(domain)`` for any ordered domain; with
    ``direction="above"`` the concept of node v says 1 on the v highest values.  Nodes are 0..d, their own depths.

    >>> str(PathTree(Integers(0, 99), feature="age").rule(18)), PathTree(2**1000).height.bit_length()
    ('1 when age <= 17', 1001)
    """

    kind: ClassVar[str] = "path"
    size: int
    domain: Domain
    feature: str | None
    direction: str

    def __init__(
        self, size: int | Domain, feature: str | None = None, direction: str = "below", domain: Domain | None = None
    ) -> None:
        check_direction(direction)
        if isinstance(size, Domain):
            need_order(feature, size)
            given, count = size, size.size
        else:
            count = positive_int(size, "size")
            if count.bit_length() > MAX_BITS:
                raise ParameterError(f"size must have at most {MAX_BITS} bits, got {count.bit_length()}")
            given = Integers(1, count) if count <= _MOST else Texts()
        self.__attrs_init__(count, domain or given, feature, direction)

    @property
    def _coded(self) -> bool:
        """Whether points are codes of the domain; else they are the numbers 1..size themselves, read from text."""
        return not isinstance(self.domain, Texts) and self.domain.size == self.size

    @property
    def height(self) -> int:
        return self.size

    @property
    def is_path(self) -> bool:
        return True

    @property
    def widest(self) -> int:
        return 1

    @property
    def lists_levels(self) -> bool:
        return True

    def _level_node(self, z: int, i: int) -> int:
        return z

    @property
    def as_selection(self) -> str:
        return f"Thresholds(domain, direction={self.direction!r})" if self.size <= 1 << 64 else ""

    @property
    def root(self) -> int:
        return 0

    def node(self, x: Any) -> int | None:
        if not self._coded:
            shown = as_text(x)
            number = None if shown is None else _whole(shown, self.size)
            return number if number is None or self.direction == "below" else self.size + 1 - number
        code = code_of(self.domain, x)
        return None if code is None else code + 1 if self.direction == "below" else self.size - code

    def nodes(self, values: Sequence[Any]) -> list[Any]:
        if not self._coded:
            return [self.node(x) for x in values]
        codes, good = self.domain.encode(list(values), on_invalid="drop")
        return [
            int(d) if ok else None for d, ok in zip(steps(codes, self.size, self.direction).tolist(), good.tolist())
        ]

    def depth(self, v: int) -> int:
        return v

    def ancestor(self, v: int, z: int) -> int:
        if not 0 <= z <= v:
            raise ParameterError(f"a node of depth {v} has no ancestor at depth {z}")
        return z

    def is_ancestor(self, a: int, v: int) -> bool:
        return a <= v

    def level_width(self, z: int) -> int:
        self._level(z)
        return 1

    def only_node(self, z: int) -> int:
        return self._level(z)

    def order_key(self, v: int) -> int:
        return v

    @property
    def n_nodes(self) -> int:
        return self.size + 1

    def number(self, v: int) -> int:
        return v

    def below(self, v: int) -> int:
        return self.size + 1 - v

    def numbered(self, i: int) -> int:
        return i

    def spans(self, places: Places) -> tuple[list[int], list[int]]:
        return places.depth.tolist(), [self.size] * len(places.depth)

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self.feature: self.domain}

    def with_columns(self, columns: Mapping[str, Domain]) -> PathTree:
        ((feature, domain),) = columns.items()
        need_order(feature, domain)
        return PathTree(self.size, feature, self.direction, domain)

    def rule(self, v: int, label: str = "1") -> Rule:
        v = self.unpack(str(v))
        if not self._coded:
            return super().rule(v, label)
        cut = v if self.direction == "below" else self.size - v
        return Threshold(self.feature or "x", self.domain, cut, self.direction, label)

    def describe(self, v: int) -> str:
        return self.condition(v)

    def condition(self, v: int) -> str:
        feature, below = self.feature or "x", self.direction == "below"
        if self._coded:
            return cut_condition(feature, self.domain, v if below else self.size - v, self.direction)
        if v in (0, self.size):
            return "always" if v else "never"
        return f"{feature} <= {v}" if below else f"{feature} > {self.size - v}"

    def places(self, columns: Mapping[str, Column]) -> Places:
        (column,) = columns.values()
        if self._coded:
            distinct, which = ranked(column.codes)
            depth = steps(distinct, self.size, self.direction)
            at = which + 1
            if self.direction == "above":
                depth, at = depth[::-1], len(distinct) + 1 - at
        else:
            codes, words = column.texts()
            found = self.nodes(words.to_list())
            held = sorted({v for v in found if v is not None})
            place = {v: i for i, v in enumerate(held, 1)}
            depth = np.array(held, dtype=object if self.size >= 1 << 63 else np.int64)
            at = np.array([-1 if v is None else place[v] for v in found], dtype=np.int64)[codes]
        depth = np.concatenate([np.zeros(1, dtype=depth.dtype), depth])
        rank = np.arange(len(depth), dtype=np.int64)
        ranks = (rank, np.maximum(rank - 1, 0))  # each node lies right below the one before
        return Places(at, None, depth, np.concatenate([depth[:1], depth[:-1]]), lambda i: int(depth[i]), None, ranks)

    def to_dict(self) -> dict[str, Any]:
        own = {"size": str(self.size), "direction": self.direction}
        return {"kind": self.kind, **own, "feature": self.feature, "domain": self.domain.to_dict()}

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> PathTree:
        return cls(int(values["size"]), values["feature"], values["direction"], stored_in_order(values["domain"]))

    def pack(self, v: int) -> str:
        return str(v)

    def unpack(self, packed: Any) -> int:
        return positive_int(int(packed), "node", minimum=0, maximum=self.size)


@register_tree
@dataclass(frozen=True)
class StarTree(VC1Tree):
    """Points: the concept of a node says 1 on that one value; the root's says 0 everywhere.

    Without a domain the values are any texts.  Nodes are ``(text,)``, or ``(code,)`` on a declared domain; the root is
    ``()``.

    >>> str(StarTree(feature="url").rule(("/checkout",))), StarTree().level_width(1)
    ('1 when url = /checkout', None)
    """

    kind: ClassVar[str] = "star"
    domain: Domain | None = None
    feature: str | None = None

    def __post_init__(self) -> None:
        if self.domain is not None and not isinstance(self.domain, Domain):
            raise TypeError(
                f"domain must be a Domain such as Integers(0, 100), or None; got {type(self.domain).__name__}"
            )

    @property
    def _open(self) -> bool:
        return self.domain is None or isinstance(self.domain, Texts)

    @property
    def height(self) -> int:
        return 1

    @property
    def lists_levels(self) -> bool:
        return True

    def _level_node(self, z: int, i: int) -> tuple[int]:
        return (i,)

    @property
    def as_selection(self) -> str:
        return "Points(domain)"

    @property
    def root(self) -> tuple[()]:
        return ()

    def node(self, x: Any) -> tuple[str | int] | None:
        value = as_text(x) if self.domain is None or self._open else code_of(self.domain, x)
        return None if value is None else (value,)

    def depth(self, v: tuple[Any, ...]) -> int:
        return len(v)

    def ancestor(self, v: tuple[Any, ...], z: int) -> tuple[Any, ...]:
        if not 0 <= z <= len(v):
            raise ParameterError(f"a node of depth {len(v)} has no ancestor at depth {z}")
        return v[:z]

    def is_ancestor(self, a: tuple[Any, ...], v: tuple[Any, ...]) -> bool:
        return a in ((), v)

    def level_width(self, z: int) -> int | None:
        if self._level(z) == 0:
            return 1
        return None if self.domain is None or self._open else self.domain.size

    def only_node(self, z: int) -> tuple[Any, ...]:
        if z == 1 and self.level_width(1) == 1:
            return (0,)
        super().only_node(z)
        return ()

    def order_key(self, v: tuple[Any, ...]) -> tuple[Any, ...]:
        return v

    @property
    def n_nodes(self) -> int | None:
        width = self.level_width(1)
        return None if width is None else 1 + width

    def number(self, v: tuple[Any, ...]) -> int:
        return 1 + v[0] if v and not self._open else 0 if not v else super().number(v)

    def below(self, v: tuple[Any, ...]) -> int:
        return 1 if v else self.n_nodes or super().below(v)

    def numbered(self, i: int) -> tuple[int, ...]:
        return (i - 1,) if i else ()

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self.feature: Texts() if self.domain is None else self.domain}

    def with_columns(self, columns: Mapping[str, Domain]) -> StarTree:
        ((feature, domain),) = columns.items()
        return StarTree(domain, feature)

    def rule(self, v: tuple[Any, ...], label: str = "1") -> Rule:
        if self.domain is None or self._open:
            return super().rule(v, label)
        self.unpack(self.pack(v))
        return Point(self.feature or "x", self.domain, v[0] if v else None, label)

    def describe(self, v: tuple[Any, ...]) -> str:
        if not v:
            return "nothing"
        return in_one_line(str(v[0])) if self.domain is None or self._open else self.domain.text(v[0])

    def condition(self, v: tuple[Any, ...]) -> str:
        return f"{self.feature or 'x'} = {self.describe(v)}" if v else "never"

    def places(self, columns: Mapping[str, Column]) -> Places:
        (column,) = columns.values()
        if self._open:
            codes, words = column.texts()
            order = words.arg_sort().to_numpy().astype(np.int64)
            ones = np.ones(len(words), dtype=np.int64)
            at, firsts, depth, shared = lay_out(order, ones, np.zeros_like(ones))
            return Places(at[codes], None, depth, shared, lambda i: (words[int(firsts[i])],) if i else ())
        distinct, which = ranked(column.codes)
        depth = np.ones(len(distinct) + 1, dtype=np.int64)
        depth[0] = 0
        at = which + 1
        return Places(at, None, depth, np.zeros_like(depth), lambda i: (int(distinct[i - 1]),) if i else ())

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "domain": None if self.domain is None else self.domain.to_dict(),
            "feature": self.feature,
        }

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> StarTree:
        return cls(None if values["domain"] is None else Domain.from_dict(values["domain"]), values["feature"])

    def pack(self, v: tuple[Any, ...]) -> list[Any]:
        return list(v)

    def unpack(self, packed: Any) -> tuple[Any, ...]:
        v = tuple(packed)
        if len(v) > 1 or (v and self._open and not isinstance(v[0], str)):
            raise ParameterError("no point of this tree has that name")
        if v and self.domain is not None and not self._open:
            positive_int(v[0], "node", minimum=0, maximum=self.domain.size - 1)
        return v
