"""Thresholds on branches as a tree: a spider, one path for each branch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from attrs import evolve, field, frozen

from privpac.data import Domain, Texts, Users
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.rules.hierarchies.base import Ints, Places, VC1Tree, lay_out, register_tree
from privpac.rules.hierarchies.columns import Column, code_of
from privpac.rules.hierarchies.paths import StarTree, check_direction, steps
from privpac.rules.one_column import cut_condition, need_order, stored_in_order

__all__ = ["BranchThresholds"]


def _names(features: Iterable[str] | None) -> tuple[str, str] | None:
    if features is None:
        return None
    names = tuple(features)
    if len(names) != 2 or len(set(names)) != 2 or not all(isinstance(name, str) for name in names):
        raise ParameterError("features must name two columns: the branch and the position")
    return names


@register_tree
@frozen(slots=False)
class BranchThresholds(VC1Tree):
    """Which branch, and up to which position: the concept of (b, p) says 1 iff branch = b and position <= p.

    ``branches`` is a domain, or ``None`` for any texts; ``positions`` is an ordered domain.  ``features`` names the two
    columns. Nodes are (branch, 1..d) with the branch as a text, or as a code of its domain; the root is ``()``.  With
    ``direction="above"`` the node (b, p) says 1 on the p highest positions of the branch.

    >>> from privpac.data import Integers
    >>> str(BranchThresholds(Integers(1, 500), features=("line", "build")).rule(("beta", 17)))
    '1 when line = beta and build <= 17'
    """

    kind: ClassVar[str] = "branches"
    positions: Domain
    branches: Domain | None = None
    features: tuple[str, str] | None = field(default=None, converter=_names)
    direction: str = "below"

    def __attrs_post_init__(self) -> None:
        check_direction(self.direction)
        if not isinstance(self.positions, Domain):
            raise TypeError(
                f"positions must be an ordered Domain such as Integers(0, 100), got {type(self.positions).__name__}"
            )
        need_order(self._names[1], self.positions)
        positive_int(self.positions.size, "the number of positions")

    @property
    def _star(self) -> StarTree:
        return StarTree(self.branches, self._names[0])

    @property
    def _names(self) -> tuple[str, str]:
        return ("branch", "position") if self.features is None else self.features

    @property
    def height(self) -> int:
        return self.positions.size

    @property
    def root(self) -> tuple[()]:
        return ()

    def node(self, x: Any) -> tuple[Any, ...] | None:
        if not isinstance(x, (tuple, list)) or len(x) != 2:
            return None
        branch, code = self._star.node(x[0]), code_of(self.positions, x[1])
        if branch is None or code is None:
            return None
        return (*branch, code + 1 if self.direction == "below" else self.height - code)

    def depth(self, v: tuple[Any, ...]) -> int:
        return v[1] if v else 0

    def ancestor(self, v: tuple[Any, ...], z: int) -> tuple[Any, ...]:
        if not 0 <= z <= self.depth(v):
            raise ParameterError(f"a node of depth {self.depth(v)} has no ancestor at depth {z}")
        return (v[0], z) if z else ()

    def is_ancestor(self, a: tuple[Any, ...], v: tuple[Any, ...]) -> bool:
        return not a or (bool(v) and a[0] == v[0] and a[1] <= v[1])

    @property
    def widest(self) -> int | None:
        return self.level_width(1)

    @property
    def lists_levels(self) -> bool:
        return True

    def _level_node(self, z: int, i: int) -> tuple[int, int]:
        return (i, z)

    def level_width(self, z: int) -> int | None:
        return self._star.level_width(min(self._level(z), 1))

    def only_node(self, z: int) -> tuple[Any, ...]:
        return (*self._star.only_node(1), z) if self._level(z) else ()

    def order_key(self, v: tuple[Any, ...]) -> tuple[Any, ...]:
        return v

    @property
    def n_nodes(self) -> int | None:
        branches = self._star.level_width(1)
        return None if branches is None else 1 + branches * self.height

    def number(self, v: tuple[Any, ...]) -> int:
        return (self._star.number(v[:1]) - 1) * self.height + v[1] if v else 0

    def below(self, v: tuple[Any, ...]) -> int:
        return self.height + 1 - v[1] if v else self.n_nodes or super().below(v)

    def numbered(self, i: int) -> tuple[int, ...]:
        return ((i - 1) // self.height, (i - 1) % self.height + 1) if i else ()

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self._names[0]: Texts() if self.branches is None else self.branches, self._names[1]: self.positions}

    def with_columns(self, columns: Mapping[str, Domain]) -> BranchThresholds:
        branch, position = self._names
        return evolve(self, branches=columns[branch], positions=columns[position], features=self._names)

    def named(self, names: Sequence[str], domains: Mapping[str, Domain]) -> BranchThresholds:
        branch, position = names
        return evolve(self, branches=domains[branch], positions=domains[position], features=(branch, position))

    def bind(self, users: Users) -> tuple[BranchThresholds, Users]:
        """Unless they are named, the columns are the data's two features, in order."""
        if self.features is None and len(users.features) == 2:
            first, second = users.features
            return evolve(self, features=(first, second)).bind(users)
        return super().bind(users)

    def describe(self, v: tuple[Any, ...]) -> str:
        return self.condition(v)

    def condition(self, v: tuple[Any, ...]) -> str:
        if not v:
            return "never"
        cut = v[1] if self.direction == "below" else self.height - v[1]
        limit = cut_condition(self._names[1], self.positions, cut, self.direction)
        branch = self._star.condition(v[:1])
        return branch if limit == "always" else "never" if limit == "never" else f"{branch} and {limit}"

    def places(self, columns: Mapping[str, Column]) -> Places:
        branch, position = (columns[name] for name in self._names)
        star = self._star.places({self._names[0]: branch})
        moved = position.codes if self.direction == "below" else np.uint64(self.height - 1) - position.codes
        order: Ints = np.lexsort((moved, star.at))
        depth = steps(moved[order], self.height, "below")
        shared = np.concatenate([np.zeros(1, dtype=depth.dtype), depth[:-1]])[: len(depth)]
        shared[np.flatnonzero(np.diff(star.at[order])) + 1] = 0
        at, firsts, depth, shared = lay_out(order, depth, shared)

        def name(i: int) -> tuple[Any, ...]:
            within: Any = star.name(int(star.at[firsts[i]])) if i else ()
            return (*within, int(depth[i])) if i else ()

        return Places(at, None, depth, shared, name)

    def to_dict(self) -> dict[str, Any]:
        own = {
            "positions": self.positions.to_dict(),
            "branches": None if self.branches is None else self.branches.to_dict(),
        }
        return {"kind": self.kind, **own, "features": list(self._names), "direction": self.direction}

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> BranchThresholds:
        branches = None if values["branches"] is None else Domain.from_dict(values["branches"])
        return cls(stored_in_order(values["positions"]), branches, tuple(values["features"]), values["direction"])

    def pack(self, v: tuple[Any, ...]) -> list[Any]:
        return [v[0], str(v[1])] if v else []

    def unpack(self, packed: Any) -> tuple[Any, ...]:
        v = tuple(packed)
        if len(v) not in (0, 2):
            raise ParameterError("a node is a branch and a position")
        if not v:
            return ()
        return (*self._star.unpack(v[:1]), positive_int(int(v[1]), "position", maximum=self.height))
