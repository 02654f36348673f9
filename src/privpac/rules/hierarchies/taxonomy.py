"""A hierarchy given as a list of names with their parents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privpac.data import Domain, Texts
from privpac.data.jit import jit
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.rules.hierarchies.base import Places, VC1Tree, register_tree
from privpac.rules.hierarchies.columns import Column, as_text

__all__ = [
    "Layout",
    "Taxonomy",
    "lay_parents",
    "lifting",
]


# Preorder of a tree given by its parents.


Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """``tin[v]``: the position of node v in preorder (children by number), ``tout[v]``: one past its last descendant,
    ``depth[v]``, and ``order[i]``: the node at position i.  Nodes that the root does not reach have ``tin`` -1."""

    tin: Ints
    tout: Ints
    depth: Ints
    order: Ints

    @cached_property
    def _by_level(self) -> tuple[Ints, Ints]:
        """Positions by depth, and where each depth starts."""
        at = self.depth[self.order]
        starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.bincount(at), dtype=np.int64)])
        return np.argsort(at, kind="stable"), starts

    def widths(self) -> Ints:
        """How many nodes each depth has."""
        return np.diff(self._by_level[1])

    def ancestors(self, v: Any, z: int) -> Any:
        """The ancestors at depth z of nodes at least that deep: in preorder, the last node of depth z up to each."""
        positions, starts = self._by_level
        level = positions[starts[z] : starts[z + 1]]
        return self.order[level[np.searchsorted(level, self.tin[v], side="right") - 1]]


def lay_parents(parent: Ints) -> Layout:
    """Lay a tree out; node 0 is the root and its own parent."""
    return Layout(*_walk(parent))


@jit
def _walk(parent: Any) -> tuple[Any, Any, Any, Any]:
    n = len(parent)
    starts = np.zeros(n + 1, dtype=np.int64)
    for v in range(1, n):
        starts[parent[v] + 1] += 1
    for v in range(n):
        starts[v + 1] += starts[v]
    fill, children = starts.copy(), np.empty(max(n - 1, 0), dtype=np.int64)
    for v in range(1, n):
        children[fill[parent[v]]] = v
        fill[parent[v]] += 1
    tin, tout = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    depth, order = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    following, stack = starts.copy(), np.empty(n, dtype=np.int64)
    stack[0], top, clock = 0, 1, 1
    tin[0] = 0
    while top > 0:
        v = stack[top - 1]
        if following[v] < starts[v + 1]:
            w = children[following[v]]
            following[v] += 1
            tin[w], depth[w], order[clock] = clock, depth[v] + 1, w
            clock += 1
            stack[top] = w
            top += 1
        else:
            tout[v] = clock
            top -= 1
    return tin, tout, depth, order


def lifting(parent: Ints, height: int) -> Ints:
    """``up[k, v]``: the ancestor of v that is 2**k levels up, the root if there is none; enough rows for ``height``."""
    rows = [parent]
    for _ in range(max(height, 1).bit_length() - 1):
        rows.append(rows[-1][rows[-1]])
    return np.stack(rows)


TOP = ""


@register_tree
@frozen(slots=False, init=False, eq=False, repr=False)
class Taxonomy(VC1Tree):
    """Name -> parent; a name whose parent is ``None``, or that occurs only as a parent, is at the top.

    A single top name is the root, the region of everything, with base label 1; several have a root above them, written
    ``""``. Names deeper than ``max_depth`` count as their ancestor there.  Nodes are names.

    >>> tree = Taxonomy({"cat": "mammal", "dog": "mammal", "mammal": "animal", "bird": "animal"})
    >>> tree.root, tree.depth("dog"), tree.ancestor("dog", 1), tree.level_width(1), str(tree.rule("dog"))
    ('animal', 2, 'mammal', 2, '1 when x is dog or contains it')
    """

    kind: ClassVar[str] = "taxonomy"
    names: tuple[str, ...]
    parents: Ints
    cap: int | None
    feature: str | None
    domain: Domain

    def __init__(
        self,
        parents: Mapping[Any, Any],
        max_depth: int | None = None,
        feature: str | None = None,
        domain: Domain | None = None,
    ) -> None:
        if not isinstance(parents, Mapping):
            raise TypeError(f"a taxonomy is a mapping from names to parents, got {type(parents).__name__}")
        above = {
            _name(child): None if parent is None or parent == TOP else _name(parent)
            for child, parent in parents.items()
        }
        if len(above) < len(parents):
            raise ParameterError("two names of the taxonomy are the same text")
        names = dict.fromkeys([*above, *(parent for parent in above.values() if parent is not None)])
        tops = [name for name in names if above.get(name) is None]
        root = tops[0] if len(tops) == 1 else TOP
        listed = (root, *(name for name in names if name != root))
        number = {name: i for i, name in enumerate(listed)}
        up = np.array([0 if (parent := above.get(name)) is None else number[parent] for name in listed], dtype=np.int64)
        self.__attrs_init__(listed, up, max_depth, feature, Texts() if domain is None else domain)

    def __attrs_post_init__(self) -> None:
        self.parents.setflags(write=False)
        lost = np.flatnonzero(self.layout.tin < 0)
        if len(lost):
            raise ParameterError(
                f"the taxonomy has a cycle: {' -> '.join(self._cycle(int(lost[0])))}; a name cannot lie below itself"
            )
        if self.cap is not None:
            positive_int(self.cap, "max_depth", minimum=0)

    @property
    def max_depth(self) -> int:
        full = int(self.layout.depth.max())
        return full if self.cap is None else min(full, self.cap)

    def _cycle(self, v: int) -> list[str]:
        seen: list[int] = []
        place: dict[int, int] = {}
        while v not in place:
            place[v] = len(seen)
            seen.append(v)
            v = int(self.parents[v])
        loop = [self.names[i] for i in seen[place[v] :]]
        shown = [repr(name[:40]) for name in loop[:5]]
        return [*shown, *(["..."] if len(loop) > 5 else []), shown[0]]

    @cached_property
    def layout(self) -> Layout:
        return lay_parents(self.parents)

    @cached_property
    def _number(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @cached_property
    def _capped(self) -> Ints:
        """Each name's ancestor within ``max_depth``."""
        capped = np.arange(len(self.names))
        deep = np.flatnonzero(self.layout.depth > self.max_depth)
        capped[deep] = self.layout.ancestors(deep, self.max_depth)
        return capped

    # Shape

    @property
    def height(self) -> int:
        return self.max_depth

    @property
    def root(self) -> str:
        return self.names[0]

    def node(self, x: Any) -> str | None:
        shown = as_text(x)
        number = None if shown is None or shown == TOP else self._number.get(shown)
        return None if number is None else self.names[self._capped[number]]

    def base_label(self, x: Any) -> int:
        return int(self.node(x) == self.root)

    def depth(self, v: str) -> int:
        return int(self.layout.depth[self._number[v]])

    def ancestor(self, v: str, z: int) -> str:
        if not 0 <= z <= self.depth(v):
            raise ParameterError(f"a name of depth {self.depth(v)} has no ancestor at depth {z}")
        return self.names[int(self.layout.ancestors(self._number[v], z))]

    def is_ancestor(self, a: str, v: str) -> bool:
        i, j = self._number[a], self._number[v]
        return bool(self.layout.tin[i] <= self.layout.tin[j] < self.layout.tout[i])

    @property
    def regions(self) -> bool:
        return True

    @property
    def lists_levels(self) -> bool:
        return True

    def _level_node(self, z: int, i: int) -> str:
        return self.names[int(np.flatnonzero(self.layout.depth == z)[i])]

    def level_width(self, z: int) -> int:
        return int(self.layout.widths()[self._level(z)])

    def only_node(self, z: int) -> str:
        if self.level_width(z) != 1:
            return str(super().only_node(z))
        return self.names[int(np.flatnonzero(self.layout.depth == z)[0])]

    def order_key(self, v: str) -> int:
        return int(self.layout.tin[self._number[v]])

    @cached_property
    def _kept(self) -> Ints:
        """How many nodes within ``max_depth`` come before each position in preorder, and before the end."""
        kept = np.zeros(len(self.names) + 1, dtype=np.int64)
        np.cumsum(self.layout.depth[self.layout.order] <= self.max_depth, out=kept[1:])
        return kept

    @property
    def n_nodes(self) -> int:
        return int(self._kept[-1])

    def number(self, v: str) -> int:
        return int(self._kept[self.layout.tin[self._number[v]]])

    def below(self, v: str) -> int:
        i = self._number[v]
        return int(self._kept[self.layout.tout[i]] - self._kept[self.layout.tin[i]])

    def numbered(self, i: int) -> str:
        return self.names[int(self.layout.order[int(np.searchsorted(self._kept, i, side="right")) - 1])]

    def spans(self, places: Places) -> tuple[list[int], list[int]]:
        # Places are the positions in preorder.
        return self._kept[:-1].tolist(), (self._kept[self.layout.tout[self.layout.order]] - 1).tolist()

    def describe(self, v: str) -> str:
        return v if v != TOP else "everything"

    # Columns and parts

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self.feature: self.domain}

    def with_columns(self, columns: Mapping[str, Domain]) -> Taxonomy:
        ((feature, domain),) = columns.items()
        return self._like(feature, domain)

    def _like(self, feature: str | None, domain: Domain) -> Taxonomy:
        other = object.__new__(Taxonomy)
        for name in ("layout", "_number", "_capped"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        other.__attrs_init__(self.names, self.parents, self.max_depth, feature, domain)
        return other

    def places(self, columns: Mapping[str, Column]) -> Places:
        (column,) = columns.values()
        codes, words = column.texts()
        number = self._number
        found = np.array([number.get(word, -1) if word != TOP else -1 for word in words.to_list()], dtype=np.int64)
        at = np.where(found < 0, -1, self.layout.tin[self._capped[found]])
        order, depth = self.layout.order, self.layout.depth[self.layout.order]
        names = self.names
        base = (at == 0).astype(np.uint8)
        return Places(at[codes], base[codes], depth, np.maximum(depth - 1, 0), lambda i: names[order[i]])

    # Storage

    def to_dict(self) -> dict[str, Any]:
        own = {"names": list(self.names), "parents": self.parents.tolist(), "max_depth": self.max_depth}
        return {"kind": self.kind, **own, "feature": self.feature, "domain": self.domain.to_dict()}

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> Taxonomy:
        names, parents = tuple(values["names"]), np.array(values["parents"], dtype=np.int64)
        sound = len(names) == len(parents) > 0 and not parents[0] and parents.min() >= 0 and parents.max() < len(names)
        if not sound or len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
            raise ParameterError("the stored taxonomy is damaged")
        tree = object.__new__(cls)
        tree.__attrs_init__(names, parents, values["max_depth"], values["feature"], Domain.from_dict(values["domain"]))
        return tree

    def pack(self, v: str) -> str:
        return v

    def unpack(self, packed: Any) -> str:
        if not isinstance(packed, str) or packed not in self._number or self.depth(packed) > self.height:
            raise ParameterError("the taxonomy has no such name")
        return packed

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Taxonomy):
            return NotImplemented
        mine, theirs = ((t.names, t.max_depth, t.feature, t.domain) for t in (self, other))
        return mine == theirs and np.array_equal(self.parents, other.parents)

    def __hash__(self) -> int:
        return hash((self.names[:100], len(self.names), self.max_depth, self.feature))

    def __repr__(self) -> str:
        return f"Taxonomy(names={len(self.names)}, height={self.height})"


def _name(given: Any) -> str:
    shown = as_text(given)
    if not shown:
        raise ParameterError(
            f"a name of a taxonomy is a text that is not empty, or an integer; got {type(given).__name__}"
        )
    return shown
