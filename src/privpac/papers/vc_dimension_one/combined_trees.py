"""Trees from trees.

* :func:`glue`: trees on disjoint sets of points, side by side under one root.
* :func:`graft`: a tree planted on a node of another: its root becomes that node.

A point belongs to the first of the trees that knows it.  Points that are constant in their own tree stay constant. (Two
classes of VC dimension 1 on the *same* points do not combine this way in general: thresholds and reversed thresholds
together have VC dimension 2.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Self

from attrs import evolve, frozen

from privpac.data import Domain, Texts
from privpac.errors import ParameterError
from privpac.rules.hierarchies.base import Node, VC1Tree


@frozen(slots=False)
class Combined(VC1Tree):
    """What both share: one column of texts, and nodes ``(number of the tree, its node)``."""

    trees: tuple[VC1Tree, ...]
    feature: str | None
    domain: Domain

    @property
    def closed(self) -> bool:
        return all(tree.closed for tree in self.trees)

    def _holder(self, x: object) -> tuple[int, Node] | None:
        return next(((i, v) for i, tree in enumerate(self.trees) if (v := tree.node(x)) is not None), None)

    def node(self, x: object) -> Node:
        held = self._holder(x)
        if held is None:
            return None
        i, v = held
        return self.root if v == self.trees[i].root else (i, v)

    def nodes(self, values: Sequence[object]) -> list[Node | None]:
        out: list[Node | None] = [None] * len(values)
        for i, tree in enumerate(self.trees):
            left = [k for k, v in enumerate(out) if v is None]
            for k, v in zip(left, tree.nodes([values[k] for k in left])):
                if v is not None:
                    out[k] = self.root if v == tree.root else (i, v)
        return out

    def base_label(self, x: object) -> int:
        held = self._holder(x)
        return 0 if held is None else self.trees[held[0]].base_label(x)

    def preorder(self, v: Any) -> Any:
        return self.order_key(v)

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self.feature: self.domain}

    @property
    def n_rules(self) -> int | None:
        counts = [tree.n_rules for tree in self.trees]
        return None if None in counts else 1 + sum(count - 1 for count in counts if count is not None)

    @property
    def widest(self) -> int | None:
        if self.height == 0:
            return 1
        widths = [tree.widest for tree in self.trees]
        return None if None in widths else sum(width for width in widths if width is not None)

    @property
    def lists_levels(self) -> bool:  # type: ignore[override]
        return all(tree.lists_levels for tree in self.trees)

    @property
    def _lift(self) -> int:
        """How much deeper the root of each tree lies than that of the one before."""
        return 0

    def _level_node(self, z: int, i: int) -> Node:
        """Nodes of the trees one after the other."""
        depths = [z - number * self._lift for number in range(len(self.trees))]
        widths = [
            (tree.level_width(depth) or 0) if 0 < depth <= tree.height else 0 for tree, depth in zip(self.trees, depths)
        ]
        ends = list(accumulate(widths))
        number = next(k for k, end in enumerate(ends) if i < end)
        return (number, self.trees[number].level_node(depths[number], i - (ends[number] - widths[number])))

    def with_columns(self, columns: Mapping[str, Domain]) -> Self:
        ((feature, domain),) = columns.items()
        named = tuple(tree.with_columns(dict.fromkeys([feature], *tree.declared().values())) for tree in self.trees)  # type: ignore[arg-type]
        return evolve(self, trees=named, feature=feature, domain=domain)

    def describe(self, v: Any) -> str:
        return self.trees[v[0]].describe(v[1]) if v != self.root else "the root"

    def condition(self, v: Any) -> str:
        if v == self.root:
            return f"{self.feature or 'x'} has base label 1"
        return str(self.trees[v[0]].condition(v[1]))

    def _packed_trees(self) -> dict[str, object]:
        own = [tree.to_dict() for tree in self.trees]
        return {"kind": self.kind, "trees": own, "feature": self.feature, "domain": self.domain.to_dict()}

    def to_dict(self) -> dict[str, object]:
        return self._packed_trees()

    def pack(self, v: Any) -> Any:
        return [] if v == self.root else [v[0], self.trees[v[0]].pack(v[1])]

    def unpack(self, packed: Any) -> Node:
        if not packed:
            return self.root
        i, inner = packed
        if not isinstance(i, int) or not 0 <= i < len(self.trees):
            raise ParameterError("a node names its tree by number")
        v = self.trees[i].unpack(inner)
        return self.root if v == self.trees[i].root else (i, v)


def _nodes_under_one_root(trees: Sequence[VC1Tree]) -> int | None:
    """The nodes of all trees, their roots taken as one."""
    counts = [tree.n_nodes for tree in trees]
    return None if None in counts else 1 + sum(count - 1 for count in counts if count is not None)


def _one_column(trees: Sequence[object]) -> None:
    for tree in trees:
        if not isinstance(tree, VC1Tree):
            raise TypeError(f"only trees can be combined, got {type(tree).__name__}")
        if len(tree.declared()) != 1:
            raise ParameterError("only trees on one column can be combined")


@frozen(slots=False)
class Glued(Combined):
    """Trees side by side; the root is ``()``."""

    kind: ClassVar[str] = "glued"

    @property
    def height(self) -> int:
        return max(tree.height for tree in self.trees)

    @property
    def root(self) -> Node:
        return ()

    def depth(self, v: Any) -> int:
        return self.trees[v[0]].depth(v[1]) if v else 0

    def ancestor(self, v: Any, z: int) -> Node:
        if not v or z == 0:
            if z:
                raise ParameterError(f"the root has no ancestor at depth {z}")
            return ()
        return (v[0], self.trees[v[0]].ancestor(v[1], z))

    def is_ancestor(self, a: Any, v: Any) -> bool:
        return not a or (bool(v) and a[0] == v[0] and self.trees[a[0]].is_ancestor(a[1], v[1]))

    def level_width(self, z: int) -> int | None:
        if self._level(z) == 0:
            return 1
        widths = [tree.level_width(z) for tree in self.trees if z <= tree.height]
        return None if None in widths else sum(width for width in widths if width is not None)

    def only_node(self, z: int) -> Node:
        if self._level(z) and self.level_width(z) == 1:
            i = next(i for i, tree in enumerate(self.trees) if z <= tree.height and tree.level_width(z) == 1)
            return (i, self.trees[i].only_node(z))
        return super().only_node(z)

    def order_key(self, v: Any) -> Node:
        return (v[0], self.trees[v[0]].preorder(v[1])) if v else ()

    @property
    def n_nodes(self) -> int | None:
        return _nodes_under_one_root(self.trees)

    def _before(self, part: int) -> int:
        """Nodes of the trees before this one; their roots are one, which stands in front."""
        return (_nodes_under_one_root(self.trees[:part]) or super().below(())) - 1

    def number(self, v: Any) -> int:
        return self._before(v[0]) + self.trees[v[0]].number(v[1]) if v else 0

    def below(self, v: Any) -> int:
        return self.trees[v[0]].below(v[1]) if v else self.n_nodes or super().below(v)

    def numbered(self, i: int) -> Node:
        if not i:
            return ()
        part = max(k for k in range(len(self.trees)) if self._before(k) < i)
        return (part, self.trees[part].numbered(i - self._before(part)))

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> Glued:
        return cls(
            tuple(VC1Tree.from_dict(tree) for tree in values["trees"]),
            values["feature"],
            Domain.from_dict(values["domain"]),
        )


@frozen(slots=False)
class Grafted(Combined):
    """``trees[1]`` on the node ``at`` of ``trees[0]``; the root is that of ``trees[0]``."""

    kind: ClassVar[str] = "grafted"
    at: Any = None

    @property
    def _lift(self) -> int:
        return self.trees[0].depth(self.at)

    @property
    def height(self) -> int:
        return max(self.trees[0].height, self._lift + self.trees[1].height)

    @property
    def root(self) -> Node:
        return (0, self.trees[0].root)

    def depth(self, v: Any) -> int:
        return int(self.trees[v[0]].depth(v[1]) + v[0] * self._lift)

    def ancestor(self, v: Any, z: int) -> Node:
        if not 0 <= z <= self.depth(v):
            raise ParameterError(f"a node of depth {self.depth(v)} has no ancestor at depth {z}")
        if v[0] == 0:
            return (0, self.trees[0].ancestor(v[1], z))
        return (
            (0, self.trees[0].ancestor(self.at, z))
            if z <= self._lift
            else (1, self.trees[1].ancestor(v[1], z - self._lift))
        )

    def is_ancestor(self, a: Any, v: Any) -> bool:
        if a[0] == v[0]:
            return bool(self.trees[a[0]].is_ancestor(a[1], v[1]))
        return bool(a[0] == 0 and self.trees[0].is_ancestor(a[1], self.at))

    def level_width(self, z: int) -> int | None:
        self._level(z)
        widths = [self.trees[0].level_width(z)] if z <= self.trees[0].height else []
        if self._lift < z <= self._lift + self.trees[1].height:
            widths.append(self.trees[1].level_width(z - self._lift))
        return None if None in widths else sum(width for width in widths if width is not None)

    def only_node(self, z: int) -> Node:
        if self.level_width(z) != 1:
            return super().only_node(z)
        if z <= self.trees[0].height and self.trees[0].level_width(z) == 1:
            return (0, self.trees[0].only_node(z))
        return (1, self.trees[1].only_node(z - self._lift))

    def order_key(self, v: Any) -> Node:
        # The grafted nodes come right after the node they grow on, before its own descendants.
        return (
            (self.trees[0].preorder(v[1]),)
            if v[0] == 0
            else (self.trees[0].preorder(self.at), self.trees[1].preorder(v[1]))
        )

    @property
    def n_nodes(self) -> int | None:
        return _nodes_under_one_root(self.trees)

    @property
    def _grown(self) -> int:
        """Nodes that the grafted tree adds; its root is one that is there."""
        return self.trees[1].below(self.trees[1].root) - 1

    def number(self, v: Any) -> int:
        first, at = self.trees[0], self.trees[0].number(self.at)
        if v[0]:
            return at + self.trees[1].number(v[1])
        number = first.number(v[1])
        return number + (self._grown if number > at else 0)

    def below(self, v: Any) -> int:
        own: int = self.trees[v[0]].below(v[1])
        return own + (self._grown if v[0] == 0 and self.trees[0].is_ancestor(v[1], self.at) else 0)

    def numbered(self, i: int) -> Node:
        at = self.trees[0].number(self.at)
        if at < i <= at + self._grown:
            return (1, self.trees[1].numbered(i - at))
        return (0, self.trees[0].numbered(i - (self._grown if i > at else 0)))

    def to_dict(self) -> dict[str, object]:
        return self._packed_trees() | {"at": self.trees[0].pack(self.at)}

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> Grafted:
        first, second = (VC1Tree.from_dict(tree) for tree in values["trees"])
        return cls((first, second), values["feature"], Domain.from_dict(values["domain"]), first.unpack(values["at"]))


def glue(*trees: VC1Tree, feature: str | None = None) -> Glued:
    """Trees on disjoint sets of points under one root.

    >>> from privpac.rules.hierarchies import PathTree, StarTree
    >>> from privpac.data import Categories
    >>> both = glue(PathTree(9), StarTree(Categories(["a", "b"])))
    >>> both.node("7"), both.node("b"), both.node("c"), both.height
    ((0, 7), (1, (1,)), None, 9)
    """
    if not trees:
        raise ParameterError("glue needs at least one tree")
    _one_column(trees)
    return Glued(tuple(trees), feature, Texts())


def graft(first: VC1Tree, at: object, second: VC1Tree, feature: str | None = None) -> Grafted:
    """``second`` planted on the node ``at`` of ``first``."""
    _one_column((first, second))
    return Grafted((first, second), feature, Texts(), first.unpack(first.pack(at)))
