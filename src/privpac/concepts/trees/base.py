"""Classes of VC dimension 1 as trees.

A class has VC dimension at most 1 iff, relative to a base labelling ``f``, every concept is "``f``, flipped on one path
from the root of a fixed public tree".  Points sit on nodes; the concept of node ``v`` is

    h_v(x) = f(x) XOR [node(x) is v or an ancestor of v],

and a point on the root is constant: ``f(x)`` under every concept.  To learn is to name one node, and the cost of doing
so privately grows with the logarithm of the height and not with the width: the vocabulary may be open.

This is *label 1 on the path to the root*.  "Label 1 on the whole subtree of v" has VC dimension 2 and is not this
class.

Records are reduced to one node per part (:func:`~privpac.concepts.trees.definition.part_node`, and
:meth:`VC1Tree.part_nodes` for tables).  A record whose
point is unknown to the tree is dropped by itself: nothing else depends on it, and nothing is raised.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import Rule, columns_of
from privpac.concepts.labellings.base import Labellings
from privpac.concepts.labellings.trees import tree_labellings
from privpac.concepts.rules import ClassOfRules
from privpac.concepts.trees.columns import Column, raw_columns, user_columns
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
from privpac.concepts.trees.registry import tree_class
from privpac.data import Domain, Texts, UserData, Users
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import positive_int
from privpac.least import last_between
from privpac.released import register

if TYPE_CHECKING:
    from privpac.concepts.trees.explicit import ExplicitTree

__all__ = ["MAX_LEVELS", "MAX_NODES", "MODES", "Mode", "Node", "TreeRule", "VC1Tree", "check_mode"]

Mode = Literal["closure", "exact", "erm"]
MODES = ("closure", "exact", "erm")

MAX_NODES = (1 << 64) + 1
"""Nodes that are numbered at most: the root, and as many others as 64 bits number."""

MAX_LEVELS = 1 << 12
"""Levels of a tree, and nodes of a level, that are looked at one by one at most."""

LISTED = 1 << 20
"""Rules that selection goes through one by one at most."""


class VC1Tree(ClassOfRules):
    """A public tree with its points; see the module."""

    kind: ClassVar[str]
    noun: ClassVar[str] = "tree"
    takes_texts: ClassVar[bool] = True

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

    @property
    def is_path(self) -> bool:
        """Whether nodes are their own depths, so that a law over depths is a law over nodes, however high the tree."""
        return False

    @property
    def widest(self) -> int | None:
        """An upper bound on the number of nodes of a level below the root; ``None`` where none is known."""
        if self.height > MAX_LEVELS:
            return None
        widths = [self.level_width(z) for z in range(1, self.height + 1)]
        return None if None in widths else max((width for width in widths if width is not None), default=1)

    @property
    def lists_levels(self) -> bool:
        """Whether :meth:`level_node` is known, as a draw without delta needs."""
        return False

    def level_node(self, z: int, i: int) -> Node:
        """The ``i``-th node at depth ``z`` of a finite level, in a fixed public order.

        >>> from privpac.concepts import AddressTree
        >>> AddressTree(4).describe(AddressTree(4).level_node(8, 10))
        '10.0.0.0/8'
        """
        if z == 0:
            return self.root
        return self._level_node(z, i)

    def _level_node(self, z: int, i: int) -> Node:
        raise ParameterError(f"the levels of {type(self).__name__} are not listed")

    def some_node(self, z: int) -> Node | None:
        """A node of that depth, named without data, its ancestors those of lesser depths; None where there is none."""
        return self.level_node(z, 0) if z == 0 or self.lists_levels else None

    @property
    def regions(self) -> bool:
        """Whether nodes are regions, each inside the one above it, that a report can show one below the other."""
        return False

    # What is known

    @property
    def scored(self) -> bool:
        return self.n_nodes is not None and self.n_nodes <= MAX_NODES

    def growth(self, n: int) -> int:
        return n + 1  # VC dimension 1

    def check_labellings(self, *, units: int | None = None, split_size: int | None = None, whole: bool = False) -> None:
        if whole:
            raise TooLargeError(
                "relabelling all records of a unit by a tree is not offered; use users='hybrid' (one record of each in "
                "T)"
            )

    def part_labellings(
        self, part: UserData, rest: UserData, A: int, B: int, levels: int = 1, whole: bool = False
    ) -> Labellings:
        return tree_labellings(self, part, rest, A, B, levels)

    @property
    def is_tree(self) -> bool:
        return True

    def as_tree(self) -> VC1Tree:
        return self

    @property
    def n_rules(self) -> int | None:
        """How many rules there are; ``None`` for an open vocabulary."""
        return self.n_nodes

    @property
    def as_selection(self) -> str:
        """The class of rules from which to select instead, as one writes it; empty where that cannot run."""
        return "FiniteClass of its rules" if self.n_rules is not None and self.n_rules <= LISTED else ""

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
        return tree_class("table").from_matrix(matrix, root, domain, feature)

    # Columns

    @property
    def columns(self) -> dict[str, Domain]:
        """The columns of a bound tree; unnamed ones are called ``x``."""
        filled = {name or "x": domain for name, domain in self.declared().items() if domain is not None}
        if len(filled) < len(self.declared()):
            raise ParameterError(
                "this tree has no domain yet: declare one in UserData or in the tree, such as Integers(0, 100)"
            )
        return filled

    def named(self, names: Sequence[str], domains: Mapping[str, Domain]) -> VC1Tree:
        """The same tree on columns with these names, in the order of the tree's own."""
        return self.with_columns({name: domains[name] for name in names})

    # Rules

    def rule(self, v: Any, label: str = "1") -> Rule:
        """The hypothesis of a node."""
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
        most = min(self.depth(a), self.depth(b))
        return last_between(lambda depth: bool(self.ancestor(a, depth) == self.ancestor(b, depth)), 0, most + 1)

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
        return tree_class(values.get("kind"))._from_dict(values)

    @abstractmethod
    def pack(self, v: Any) -> Any:
        """A node as plain data."""

    @abstractmethod
    def unpack(self, packed: Any) -> Node:
        """The node of plain data, checked: ``ParameterError`` if the tree has no such node."""


@register("branch")
@dataclass(frozen=True, repr=False)
class TreeRule(Rule):
    """1 on the path from the root to ``node`` (XOR the base labels)."""

    tree: VC1Tree
    node: Node
    label: str = "1"

    def __post_init__(self) -> None:
        if not isinstance(self.tree, VC1Tree):
            raise TypeError(f"tree must be a VC1Tree, got {type(self.tree).__name__}")
        object.__setattr__(self, "node", self.tree.unpack(self.tree.pack(self.node)))

    @property
    def features(self) -> Mapping[str, Domain]:
        return self.tree.columns

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        columns = self.tree.columns
        if any(isinstance(domain, Texts) for domain in columns.values()):
            raise ParameterError(
                "codes of an open vocabulary mean nothing outside their data set; use predict or predict_users"
            )
        return self._predict({name: Column(codes[name], domain, None) for name, domain in columns.items()})

    def predict(self, X: Any) -> NDArray[np.int8]:
        return self._predict(raw_columns(columns_of(X, self.features, self.reads)))

    def predict_users(self, users: UserData) -> NDArray[np.int8]:
        """0/1 for every record of bound users."""
        return self._predict(user_columns(users, self.tree.columns))

    def _predict(self, columns: Mapping[str, Column]) -> NDArray[np.int8]:
        places = self.tree.places(columns)
        on_path = np.zeros(len(places.depth) + 1, dtype=np.int8)  # the last entry, index -1, is for unknown points
        for i in np.unique(places.at[places.at > 0]).tolist():
            on_path[i] = self.tree.is_ancestor(places.name(i), self.node)
        flipped = on_path[places.at]
        return flipped if places.base is None else flipped ^ places.base.astype(np.int8)

    @property
    def picture(self) -> Literal["regions", "none"]:
        return "regions" if self.tree.regions else "none"

    def condition(self) -> str:
        return self.tree.condition(self.node)

    def to_dict(self) -> dict[str, Any]:
        return {"tree": self.tree.to_dict(), "node": self.tree.pack(self.node), "label": self.label}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        tree = VC1Tree.from_dict(values["tree"])
        return cls(tree, tree.unpack(values["node"]), values["label"])


def check_mode(tree: VC1Tree, mode: str) -> None:
    if mode not in MODES:
        raise ParameterError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
    if mode == "exact" and not tree.closed and getattr(tree, "is_concept", None) is None:
        raise ParameterError(
            "mode 'exact' needs the list of concepts: use VC1Tree.from_matrix on the whole table, or mode 'closure'"
        )
