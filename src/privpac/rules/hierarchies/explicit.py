"""The tree of an explicit class: a 0/1 table, one row per concept, one column per point.

Relative to a row ``f`` the column of a point is the set of rows that differ from ``f`` there.  The class has VC
dimension at most 1 iff these sets are nested or disjoint (f itself shows the pattern 00, so two points are shattered
iff their sets meet and neither contains the other), and then containment is the tree: a larger set is nearer the root.

Insertion from the largest set down (O(rows x points), and the test at the same time): every row remembers the last set
that took it, its owner.  If all rows of the next set A have one owner O, then A lies in O, and every earlier set that
meets A contains O: O is the parent.  If not, take two rows of A with different owners, and of the two owners the later
one, B: it holds one of the two rows and not the other (else it would own both), and it is at least as large as A, so it
has a row outside A.  A and B are the witness of VC dimension 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privpac.arrays import Bytes, Ints
from privpac.data import Domain, Integers
from privpac.errors import NotVC1Error, ParameterError, TooLargeError
from privpac.guarantee import positive_int
from privpac.rules.base import Rule
from privpac.rules.enumerated import MAX_TABLE_CELLS, TableRule
from privpac.rules.hierarchies.base import Column, Mode, Places, VC1Tree, code_of, exact_parts
from privpac.rules.hierarchies.regions import RegionLayout, lay_parents, lifting

RootRule = Literal["center", "end", "auto"]


def explicit_tree(matrix: object, root: RootRule | int, domain: Domain | None, feature: str | None) -> ExplicitTree:
    """Build the tree of a table; ``root`` counts among the distinct rows."""
    rows, kept = _distinct_rows(_table(matrix))
    if domain is not None and not isinstance(domain, Domain):
        raise TypeError(f"domain must be a Domain such as Integers(0, 100), got {type(domain).__name__}")
    if domain is not None and domain.size != rows.shape[1]:
        raise ParameterError(f"the table has {rows.shape[1]} points, the domain {domain.size} values")
    index = _root(rows, root)
    f = rows[index]
    columns, node_of = _columns(rows ^ f)
    parent, owner, clash = _insert(columns, np.argsort(-columns.sum(axis=0, dtype=np.int64), kind="stable"))
    if clash[0] >= 0:
        raise _not_vc1(rows, kept, columns, node_of, *clash)
    return ExplicitTree(f, node_of, parent, owner, index, domain, feature)


def _table(matrix: object) -> Bytes:
    array = np.asarray(matrix)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "biuf":
        raise ParameterError(
            f"a class is a 0/1 table, concepts by points, and not empty; got {array.dtype}, shape {array.shape}"
        )
    if not bool(((array == 0) | (array == 1)).all()):
        raise ParameterError("a class is a table of 0 and 1; other entries were found")
    if array.size > MAX_TABLE_CELLS:
        raise TooLargeError(
            f"the table has {array.size} entries, at most {MAX_TABLE_CELLS} are allowed; use an implicit tree such as "
            "PathTree"
        )
    return np.ascontiguousarray(array, dtype=np.uint8)


def _firsts(words: Bytes) -> tuple[Ints, Ints]:
    """Rows of a 0/1 table: where each distinct one first appears, in that order, and which of them every row is."""
    packed = np.ascontiguousarray(np.packbits(words, axis=1))
    _, first, which = np.unique(
        packed.view(np.dtype((np.void, packed.shape[1]))).ravel(), return_index=True, return_inverse=True
    )
    order = np.argsort(first, kind="stable")
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    return first[order].astype(np.int64), number[which]


def _distinct_rows(table: Bytes) -> tuple[Bytes, Ints]:
    kept, _ = _firsts(table)
    return table[kept], kept


def _columns(flipped: Bytes) -> tuple[Bytes, Ints]:
    """The distinct columns that are not empty, numbered from 1 by first appearance, and the number of each point (0:
    empty)."""
    first, which = _firsts(np.ascontiguousarray(flipped.T))
    filled = flipped[:, first].any(axis=0)
    number = np.where(filled, np.cumsum(filled), 0)
    return np.ascontiguousarray(flipped[:, first[filled]]), number[which].astype(np.int64)


def _root(rows: Bytes, root: RootRule | int) -> int:
    if not isinstance(root, str):
        return positive_int(root, "root", minimum=0, maximum=len(rows) - 1)
    if root not in ("center", "end", "auto"):
        raise ParameterError(f"root must be 'center', 'end', 'auto' or the number of a row, got {root!r}")
    # Equal or complementary columns split the rows alike: one class, one edge of the tree whose metric this is.
    classes, _ = _columns(rows ^ rows[0])

    def distances(row: int) -> Ints:
        out: Ints = (classes ^ classes[row]).sum(axis=1, dtype=np.int64)
        return out

    one = int(np.argmax(distances(0)))
    from_one = distances(one)
    other = int(np.argmax(from_one))
    if root == "end" or (root == "auto" and int(from_one[other]) == classes.shape[1]):
        return one
    # In a tree the farthest node is one of the two ends of a longest path.
    return int(np.argmin(np.maximum(from_one, distances(other))))


def _insert(columns: Bytes, order: Ints) -> tuple[Ints, Ints, tuple[int, int, int]]:
    """Parents (node 0 is the root), the last owner of each row; or the clash (column, two of its rows)."""
    owner = np.zeros(columns.shape[0], dtype=np.int64)
    parent = np.zeros(columns.shape[1] + 1, dtype=np.int64)
    for column in order.tolist():
        inside = np.flatnonzero(columns[:, column])
        owners = owner[inside]
        other = np.flatnonzero(owners != owners[0])
        if len(other):
            return parent, owner, (column, int(inside[0]), int(inside[other[0]]))
        parent[column + 1] = owners[0]
        owner[inside] = column + 1
    return parent, owner, (-1, -1, -1)


def _not_vc1(rows: Bytes, kept: Ints, columns: Bytes, node_of: Ints, a: int, i: int, j: int) -> NotVC1Error:
    # The later owner of the two rows holds one and not the other; so does any column with that property and a row
    # outside a.
    apart = (columns[i] != columns[j]) & (columns & ~columns[:, [a]] & 1).any(axis=0)
    b = int(np.argmax(apart))
    x, y = (int(np.argmax(node_of == node + 1)) for node in (a, b))
    shown = rows[:, x] * 2 + rows[:, y]
    four = tuple(int(kept[np.argmax(shown == pattern)]) for pattern in range(4))
    message = (
        f"the points {x} and {y} are shattered by the rows {four}: the class has VC dimension 2 or more, and no tree"
    )
    return NotVC1Error(message, (x, y), four)  # type: ignore[arg-type]


@frozen(slots=False, eq=False, repr=False)
class ExplicitTree(VC1Tree):
    """A finite tree; node 0 is the root, node i the i-th distinct column in order of first appearance.

    ``f``: base labels; ``node_of``: node of each point; ``row_node``: node of each distinct row; ``root_row``: the row
    that is ``f``.  Build it with ``VC1Tree.from_matrix``.

    >>> tree = VC1Tree.from_matrix([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]], root=0)
    >>> tree.parent.tolist(), tree.height, tree.closed, str(tree.rule(2))
    ([0, 0, 1, 0], 2, True, '1 when x in {0, 1}')
    """

    kind: ClassVar[str] = "table"
    lists_levels: ClassVar[bool] = True

    f: Bytes
    node_of: Ints
    parent: Ints
    row_node: Ints
    root_row: int
    domain: Domain | None = None
    feature: str | None = None

    def __attrs_post_init__(self) -> None:
        for array in (self.f, self.node_of, self.parent, self.row_node):
            array.setflags(write=False)
        if bool((self.layout.tin < 0).any()):
            raise ParameterError("the parents are no tree: some nodes are not below node 0")

    @cached_property
    def layout(self) -> RegionLayout:
        return lay_parents(self.parent)

    @cached_property
    def up(self) -> Ints:
        """Binary lifting: ``up[k, v]`` is 2**k levels above v."""
        return lifting(self.parent, self.height)

    @cached_property
    def is_concept(self) -> NDArray[np.bool_]:
        out = np.zeros(len(self.parent), dtype=np.bool_)
        out[self.row_node] = True
        out[0] = True
        return out

    @property
    def depths(self) -> Ints:
        return self.layout.depth

    @cached_property
    def closed(self) -> bool:
        return bool(self.is_concept.all())

    # Shape

    @cached_property
    def height(self) -> int:
        return int(self.layout.depth.max())

    @property
    def root(self) -> int:
        return 0

    @cached_property
    def _domain(self) -> Domain:
        return Integers(0, len(self.f) - 1) if self.domain is None else self.domain

    def node(self, x: object) -> int | None:
        code = code_of(self._domain, x)
        return None if code is None else int(self.node_of[code])

    def base_label(self, x: object) -> int:
        code = code_of(self._domain, x)
        return 0 if code is None else int(self.f[code])

    def depth(self, v: int) -> int:
        return int(self.layout.depth[v])

    def ancestor(self, v: int, z: int) -> int:
        self._check_above(v, z)
        return int(self.layout.ancestors(v, z))

    def is_ancestor(self, a: int, v: int) -> bool:
        return bool(self.layout.tin[a] <= self.layout.tin[v] < self.layout.tout[a])

    def lowest_common(self, a: int, b: int) -> int:
        """The deepest common ancestor."""
        if self.is_ancestor(a, b):
            return a
        for row in self.up[::-1]:
            if not self.is_ancestor(int(row[a]), b):
                a = int(row[a])
        return int(self.parent[a])

    @property
    def n_rules(self) -> int:
        return int(self.is_concept.sum())

    def _level_node(self, z: int, i: int) -> int:
        return int(np.flatnonzero(self.layout.depth == z)[i])

    def level_width(self, z: int) -> int:
        return int(self.layout.widths()[self._level(z)])

    def only_node(self, z: int) -> int:
        found = np.flatnonzero(self.layout.depth == self._level(z))
        if len(found) != 1:
            raise ParameterError(f"depth {z} does not have exactly one node")
        return int(found[0])

    def preorder(self, v: int) -> int:
        return int(self.layout.tin[v])

    @property
    def n_nodes(self) -> int:
        return len(self.parent)

    def number(self, v: int) -> int:
        return int(self.layout.tin[v])

    def below(self, v: int) -> int:
        return int(self.layout.tout[v] - self.layout.tin[v])

    def numbered(self, i: int) -> int:
        return int(self.layout.order[i])

    def spans(self, places: Places) -> tuple[list[int], list[int]]:
        # Places are the positions in preorder.
        return list(range(len(self.parent))), (self.layout.tout[self.layout.order] - 1).tolist()

    @staticmethod
    def from_matrix(
        matrix: object,
        root: Literal["center", "end", "auto"] | int = "center",
        domain: Domain | None = None,
        feature: str | None = None,
    ) -> ExplicitTree:
        return explicit_tree(matrix, root, domain, feature)

    # Columns and rules

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self.feature: self._domain}

    def with_columns(self, columns: Mapping[str, Domain]) -> ExplicitTree:
        ((feature, domain),) = columns.items()
        return ExplicitTree(self.f, self.node_of, self.parent, self.row_node, self.root_row, domain, feature)

    def labels(self, v: int) -> Bytes:
        """What the concept of a node says on every point."""
        on_path = (self.layout.tin <= self.layout.tin[v]) & (self.layout.tin[v] < self.layout.tout)
        on_path[0] = False
        flipped: Bytes = self.f ^ on_path[self.node_of].astype(np.uint8)
        return flipped

    def rule(self, v: int, label: str = "1") -> Rule:
        bits = (self.labels(self.unpack(v)) + np.uint8(ord("0"))).tobytes().decode()
        return TableRule(self.columns, bits, None, label)

    def describe(self, v: int) -> str:
        return self.rule(v).condition()

    def condition(self, v: int) -> str:
        return self.describe(v)

    # Parts

    def places(self, columns: Mapping[str, Column]) -> Places:
        (column,) = columns.values()
        order, depth = self.layout.order, self.layout.depth[self.layout.order]
        at = self.layout.tin[self.node_of][column.codes]
        return Places(at, self.f[column.codes], depth, np.maximum(depth - 1, 0), lambda i: int(order[i]), order)

    def _choose(self, places: Places, at: Ints, flips: Bytes, offsets: Ints, mode: Mode) -> Ints:
        if mode != "exact" or self.closed:
            return super()._choose(places, at, flips, offsets, mode)
        order = self.layout.order
        chosen: Ints = exact_parts(
            at, flips, offsets, places.end, self.is_concept[order], self.layout.tin[self.up[:, order]]
        )
        return chosen

    # Storage

    def to_dict(self) -> dict[str, Any]:
        arrays = {name: getattr(self, name).tolist() for name in ("f", "node_of", "parent", "row_node")}
        domain = None if self.domain is None else self.domain.to_dict()
        return {"kind": self.kind, **arrays, "root_row": self.root_row, "domain": domain, "feature": self.feature}

    @classmethod
    def _from_dict(cls, values: Mapping[str, Any]) -> ExplicitTree:
        f = np.array(values["f"], dtype=np.uint8)
        node_of, parent, row_node = (
            np.array(values[name], dtype=np.int64) for name in ("node_of", "parent", "row_node")
        )
        sound = len(f) == len(node_of) and len(parent) and not parent[0] and bool((f <= 1).all())
        if not sound or any(len(a) and (a.min() < 0 or a.max() >= len(parent)) for a in (node_of, parent, row_node)):
            raise ParameterError("the stored table of a tree is damaged")
        domain = None if values["domain"] is None else Domain.from_dict(values["domain"])
        return cls(f, node_of, parent, row_node, int(values["root_row"]), domain, values["feature"])

    def unpack(self, packed: object) -> int:
        return positive_int(packed, "node", minimum=0, maximum=len(self.parent) - 1)

    def __repr__(self) -> str:
        return f"ExplicitTree(points={len(self.f)}, nodes={len(self.parent)}, height={self.height})"
