"""Classes of VC dimension 1 as trees.

A class has VC dimension at most 1 iff, relative to a base labelling ``f``, every concept is "``f``, flipped on one path
from the root of a fixed public tree".  Points sit on nodes; the concept of node ``v`` is

    h_v(x) = f(x) XOR [node(x) is v or an ancestor of v],

and a point on the root is constant: ``f(x)`` under every concept.  To learn is to name one node, and the cost of doing
so privately grows with the logarithm of the height and not with the width: the vocabulary may be open.

This is *label 1 on the path to the root*.  "Label 1 on the whole subtree of v" has VC dimension 2 and is not this
class.

Records are reduced to one node per part (:func:`part_node`, and :meth:`VC1Tree.part_nodes` for tables).  A record whose
point is unknown to the tree is dropped by itself: nothing else depends on it, and nothing is raised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import Rule
from privpac.concepts.trees.columns import Column, user_columns
from privpac.concepts.trees.parts import (
    Bytes,
    Ints,
    Node,
    PartNodes,
    Places,
    closure_parts,
    erm_parts,
    group_parts,
    lay_out,
)
from privpac.data import Domain, Texts, UserData, Users
from privpac.errors import ParameterError, SchemaError
from privpac.guarantee import positive_int

if TYPE_CHECKING:
    from privpac.concepts.trees.explicit import ExplicitTree

__all__ = ["MODES", "Mode", "Node", "VC1Tree", "part_node", "register_tree"]

Mode = Literal["closure", "exact", "erm"]
MODES = ("closure", "exact", "erm")
_T = TypeVar("_T", bound="type[VC1Tree]")
_trees: dict[str, type[VC1Tree]] = {}


def register_tree(cls: _T) -> _T:
    """Class decorator: trees of this class are saved under their ``kind``."""
    _trees[cls.kind] = cls
    return cls


class VC1Tree(ABC):
    """A public tree with its points; see the module."""

    kind: ClassVar[str]

    # Shape

    @property
    @abstractmethod
    def height(self) -> int:
        """The largest depth, or a public cap on it; deeper points count as their ancestor there."""

    @property
    @abstractmethod
    def root(self) -> Node: ...

    @property
    def closed(self) -> bool:
        """Whether every node is a concept of the class."""
        return True

    @abstractmethod
    def node(self, x: Any) -> Node | None:
        """The node of a point, in the user's values; ``None`` if the tree does not know the point."""

    @abstractmethod
    def depth(self, v: Any) -> int: ...

    @abstractmethod
    def ancestor(self, v: Any, z: int) -> Node:
        """The ancestor of ``v`` at depth ``z <= depth(v)``."""

    def is_ancestor(self, a: Any, v: Any) -> bool:
        """Whether ``a`` is ``v`` or above it."""
        depth = self.depth(a)
        return depth <= self.depth(v) and self.ancestor(v, depth) == a

    def base_label(self, x: Any) -> int:
        """What the concept of the root says."""
        return 0

    @abstractmethod
    def level_width(self, z: int) -> int | None:
        """How many nodes have depth ``z``; ``None``: no bound is known."""

    def only_node(self, z: int) -> Node:
        """The node of a level of width 1."""
        if self._level(z) == 0:
            return self.root
        raise ParameterError(f"depth {z} does not have exactly one node")

    @abstractmethod
    def order_key(self, v: Any) -> Any:
        """A public order of the nodes, for ties."""

    def preorder(self, v: Any) -> Any:
        """An order in which a node is followed by its descendants, and they by everything else."""
        return self.order_key(v)

    def _level(self, z: int) -> int:
        return positive_int(z, "depth", minimum=0, maximum=self.height)

    # Numbers: the nodes in preorder, where they can be counted

    @property
    def n_nodes(self) -> int | None:
        """How many nodes there are; ``None`` for an open vocabulary."""
        return None

    @property
    def agrees_somewhere(self) -> bool:
        """Whether two rules surely agree on one point and differ on another: with a third node they agree on its
        points."""
        return self.n_nodes is None or self.n_nodes > 2

    def number(self, v: Any) -> int:
        """The place of a node in preorder, 0 for the root; its descendants come right after it."""
        raise ParameterError(f"the nodes of {type(self).__name__} are not numbered: its vocabulary is open")

    def below(self, v: Any) -> int:
        """How many nodes are ``v`` or lie below it."""
        raise ParameterError(f"the nodes of {type(self).__name__} are not counted: its vocabulary is open")

    def numbered(self, i: int) -> Node:
        """The node with this number."""
        raise ParameterError(f"the nodes of {type(self).__name__} are not numbered: its vocabulary is open")

    def spans(self, places: Places) -> tuple[list[int], list[int]]:
        """The first and the last number of the nodes that are each place or below it; trees with arrays for it override
        this."""
        names = [places.name(i) for i in range(len(places.depth))]
        firsts = [self.number(v) for v in names]
        return firsts, [first + self.below(v) - 1 for first, v in zip(firsts, names)]

    @staticmethod
    def from_matrix(
        matrix: Any,
        root: Literal["center", "end", "auto"] | int = "center",
        domain: Domain | None = None,
        feature: str | None = None,
    ) -> ExplicitTree:
        """The tree of a 0/1 table (concepts by points); ``NotVC1Error`` with a witness if there is none."""
        from privpac.concepts.trees.explicit import explicit_tree

        return explicit_tree(matrix, root, domain, feature)

    # Columns

    @abstractmethod
    def declared(self) -> Mapping[str | None, Domain | None]:
        """Column name -> domain, as concept classes declare them; ``Texts()``: any text, or whatever the data are bound
        to."""

    @abstractmethod
    def with_columns(self, columns: Mapping[str, Domain]) -> VC1Tree:
        """The same tree on named columns."""

    @property
    def columns(self) -> dict[str, Domain]:
        """The columns of a bound tree; unnamed ones are called ``x``."""
        filled = {name or "x": domain for name, domain in self.declared().items() if domain is not None}
        if len(filled) < len(self.declared()):
            raise ParameterError(
                "this tree has no domain yet: declare one in UserData or in the tree, such as Integers(0, 100)"
            )
        return filled

    def bind(self, users: Users) -> tuple[VC1Tree, Users]:
        """Encode the columns this tree reads (schema errors here, before any spend)."""
        declared, names = self.declared(), list(users.features)
        if getattr(users, "labels", ()) is None:
            raise ParameterError("the data have no labels: name the label column when they are built")
        if None in declared and (len(declared) != 1 or len(names) != 1):
            raise ParameterError(f"name the features of the tree ({len(declared)}): the data have the columns {names}")
        wanted = {names[0] if name is None else name: domain for name, domain in declared.items()}
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise SchemaError(f"columns {unknown} are not among the features {names}")
        # A tree that reads texts takes a column that has a domain already by the texts of its values.
        fixed = {
            name: domain
            for name, domain in wanted.items()
            if domain is not None and not (isinstance(domain, Texts) and users.features[name] is not None)
        }
        bound = users.bind(fixed)
        filled = {name: domain for name in wanted if (domain := bound.features[name]) is not None}
        without = [name for name in wanted if name not in filled]
        if without:
            raise ParameterError(
                f"columns {without} have no domain: declare one in UserData or in the tree, such as Integers(0, 100)"
            )
        return self.with_columns(filled), bound

    # Rules

    def rule(self, v: Any, label: str = "1") -> Rule:
        """The hypothesis of a node."""
        from privpac.concepts.trees.rule import TreeRule

        return TreeRule(self, v, label)

    @abstractmethod
    def describe(self, v: Any) -> str:
        """The node as a person would write it."""

    def condition(self, v: Any) -> str:
        """When the rule of a node says 1."""
        feature = next(iter(self.columns))
        return f"{feature} is {self.describe(v)}" + ("" if v == self.root else " or contains it")

    # Parts

    def places(self, columns: Mapping[str, Column]) -> Places:
        """The nodes that occur in a table; this one asks for the node of every distinct text."""
        ((codes, words),) = [column.texts() for column in columns.values()]
        values = words.to_list()
        nodes = self.nodes(values)
        known = sorted((i for i, v in enumerate(nodes) if v is not None), key=lambda i: self.preorder(nodes[i]))
        kind = object if self.height >= 1 << 63 else np.int64
        depth = np.array([self.depth(nodes[i]) for i in known], dtype=kind)
        shared = np.array(
            [0, *(self._shared(nodes[i], nodes[j]) for i, j in pairwise(known))][: len(known)], dtype=kind
        )
        place, firsts, depth, shared = lay_out(np.arange(len(known), dtype=np.int64), depth, shared)
        at = np.full(len(values), -1, dtype=np.int64)
        at[known] = place
        base = np.array([self.base_label(x) for x in values], dtype=np.uint8)
        named = [self.root, *(nodes[known[i]] for i in firsts[1:].tolist())]
        return Places(at[codes], base[codes], depth, shared, lambda i: named[i], self._ties(named))

    def nodes(self, values: Sequence[Any]) -> list[Any]:
        """The node of each value."""
        return [self.node(x) for x in values]

    def _shared(self, a: Any, b: Any) -> int:
        """The depth of the deepest common ancestor."""
        low, high = 0, min(self.depth(a), self.depth(b))
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.ancestor(a, middle) == self.ancestor(b, middle) else (low, middle - 1)
        return low

    def _ties(self, named: Sequence[Any]) -> Ints:
        ties = np.empty(len(named), dtype=np.int64)
        ties[sorted(range(len(named)), key=lambda i: self.order_key(named[i]))] = np.arange(len(named))
        return ties

    def part_nodes(
        self, users: Users, mode: Mode = "closure", parts: NDArray[np.int64] | None = None, n_parts: int | None = None
    ) -> PartNodes:
        """One node for each part; ``parts[i]`` is the part of user i (``None``: every user is one part)."""
        check_mode(self, mode)
        tree, bound = self.bind(users)
        if not isinstance(bound, UserData) or bound.labels is None:
            raise TypeError(f"part_nodes needs users in memory, got {type(bound).__name__}")
        places = tree.places(user_columns(bound, tree.columns))
        order, offsets = group_parts(bound.offsets, parts, n_parts)
        at, flips = places.at, places.flips(bound.labels)
        if order is not None:
            at, flips = at[order], flips[order]
        return PartNodes(places, tree._choose(places, at, flips, offsets, mode), tree.ancestor, tree.height)

    def _choose(self, places: Places, at: Ints, flips: Bytes, offsets: Ints, mode: Mode) -> Ints:
        chosen: Ints
        if mode == "erm":
            chosen = erm_parts(at, flips, offsets, places.end, places.levels[0], places.ties)
        else:  # on a closed class the deepest node common to all consistent concepts is the deepest positive one
            chosen = closure_parts(at, flips, offsets, places.end)
        return chosen

    # Storage

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain data with the tree's ``kind``; the inverse of :meth:`from_dict`."""

    @classmethod
    @abstractmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> VC1Tree: ...

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> VC1Tree:
        """Rebuild a tree from :meth:`to_dict`."""
        kind = values.get("kind")
        if kind not in _trees:
            raise ParameterError(f"a stored tree needs a kind among {', '.join(_trees)}, got {str(kind)[:60]!r}")
        return _trees[kind]._from_dict(values)

    @abstractmethod
    def pack(self, v: Any) -> Any:
        """A node as plain data."""

    @abstractmethod
    def unpack(self, packed: Any) -> Node:
        """The node of plain data, checked: ``ParameterError`` if the tree has no such node."""


def check_mode(tree: VC1Tree, mode: str) -> None:
    if mode not in MODES:
        raise ParameterError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
    if mode == "exact" and not tree.closed and getattr(tree, "is_concept", None) is None:
        raise ParameterError(
            "mode 'exact' needs the list of concepts: use VC1Tree.from_matrix on the whole table, or mode 'closure'"
        )


def part_node(tree: VC1Tree, records: Sequence[tuple[Any, Any]], mode: Mode = "closure") -> Node:
    """The node of one part, straight from the definition; total on every list of records.

    * ``closure``: the deepest positive node, if it is consistent with the part;
    * ``exact``: the deepest node common to all consistent concepts;
    * ``erm``: the node of fewest mistakes, ties to the smaller depth, then the smaller ``order_key``.

    Anything else is the root.
    """
    check_mode(tree, mode)
    seen = []
    for x, y in records:
        v = tree.node(x)
        if v is not None and isinstance(y, (int, np.integer, np.bool_)) and y in (0, 1):
            seen.append((v, int(y) ^ tree.base_label(x)))
    tests: list[tuple[Node, int]] = [(v, s) for v, s in seen if v != tree.root]
    broken = any(s for v, s in seen if v == tree.root)
    if mode == "erm":

        def cost(v: Node) -> tuple[int, int, Any]:
            return sum(tree.is_ancestor(u, v) != bool(s) for u, s in tests), tree.depth(v), tree.order_key(v)

        return min([tree.root, *(v for v, _ in tests)], key=cost)

    def consistent(v: Hashable) -> bool:
        return not broken and all(tree.is_ancestor(u, v) == bool(s) for u, s in tests)

    if mode == "exact" and not tree.closed:
        good = [v for v in range(len(tree.is_concept)) if tree.is_concept[v] and consistent(v)]  # type: ignore[attr-defined]
        common = [a for a in range(len(tree.is_concept)) if good and all(tree.is_ancestor(a, v) for v in good)]  # type: ignore[attr-defined]
        return max(common, key=tree.depth, default=tree.root)
    deepest = max((v for v, s in tests if s), key=tree.depth, default=tree.root)
    return deepest if consistent(deepest) else tree.root
