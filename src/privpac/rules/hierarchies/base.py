"""Classes of VC dimension 1 as trees.

A class has VC dimension at most 1 iff, relative to a base labelling ``f``, every concept is "``f``, flipped on one path
from the root of a fixed public tree".  Points sit on nodes; the concept of node ``v`` is

    h_v(x) = f(x) XOR [node(x) is v or an ancestor of v],

and a point on the root is constant: ``f(x)`` under every concept.  To learn is to name one node, and the cost of doing
so privately grows with the logarithm of the height and not with the width: the vocabulary may be open.

This is *label 1 on the path to the root*.  "Label 1 on the whole subtree of v" has VC dimension 2 and is not this
class.

Records are reduced to one node per part (:func:`~privpac.rules.hierarchies.base.part_node`, and
:meth:`VC1Tree.part_nodes` for tables).  A record whose
point is unknown to the tree is dropped by itself: nothing else depends on it, and nothing is raised.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import isnan
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import polars as pl
from attrs import evolve, frozen

from privpac.arrays import Array, Bytes, Ints, Words
from privpac.bisection import last_between
from privpac.data import Domain, UserData, Users
from privpac.data.columns import column
from privpac.data.domains import read_column
from privpac.data.grouping import ranked
from privpac.data.loops import jit
from privpac.errors import ParameterError, SchemaError, TooLargeError
from privpac.exact import Rational
from privpac.guarantee import positive_int
from privpac.rules import hierarchies as trees
from privpac.rules.base import ClassOfRules, ColumnCodes, Labellings, Predictions, Rule, columns_of
from privpac.rules.chances import NO_CHANCES

if TYPE_CHECKING:
    from privpac.data import UserData, Users
    from privpac.rules.hierarchies.explicit import ExplicitTree

# Columns: codes with their domain, and texts where nodes are found by text.


MAX_BITS = 13_000  # below the interpreter's limit of 4300 digits for turning integers into text


def as_text(x: object) -> str | None:
    """One value as the text a column of such values would show; ``None`` for what no column can hold."""
    if isinstance(x, str):
        return str(x)
    if isinstance(x, (bool, np.bool_)):
        return "true" if x else "false"
    if isinstance(x, (int, np.integer)):
        number = int(x)
        return str(number) if number.bit_length() <= MAX_BITS else None
    if isinstance(x, (float, np.floating)):
        value = float(x)
        whole = value.is_integer() and abs(value) < 2.0**63
        return None if isnan(value) else str(int(value)) if whole else str(value)
    return None


def code_of(domain: Domain, x: object) -> int | None:
    """The code of one value, ``None`` outside the domain or for a value of another type."""
    return domain.code(x)


@frozen(slots=False, eq=False, repr=False)
class Column:
    """One encoded column."""

    codes: Words
    domain: Domain
    vocabulary: pl.Series | None

    def texts(self) -> tuple[Ints, pl.Series]:
        """The records as positions in a list of texts; the list may hold texts that no record has."""
        if self.vocabulary is not None:
            return self.codes.astype(np.int64), self.vocabulary
        distinct, positions = ranked(self.codes)
        shown = [self.domain.word(code) for code in distinct.tolist()]
        return positions.astype(np.int64), pl.Series("", shown, dtype=pl.String)


def user_columns(users: UserData, names: Mapping[str, Domain]) -> dict[str, Column]:
    """The columns of bound users."""
    return {name: Column(users.codes[name], domain, users.vocabulary(name)) for name, domain in names.items()}


def raw_columns(given: Mapping[str, tuple[Domain, object]]) -> dict[str, Column]:
    """Columns to predict on: values outside a declared domain are clamped, missing values refused."""
    out = {}
    for name, (domain, values) in given.items():
        if domain.open:
            (codes, verdicts), vocabulary = read_column(domain, column(values, name), name)
            bad = 0 if verdicts is None else int(np.count_nonzero(verdicts))
        else:
            codes, valid = domain.encode(values, on_invalid="clamp", name=name)
            vocabulary, bad = None, int(np.count_nonzero(~valid))
        if bad:
            raise SchemaError(
                f"column {name!r}: {bad} missing or unreadable values; prediction needs a value in every row"
            )
        out[name] = Column(codes, domain, vocabulary)
    return out


# One node for every part, and what the parts vote for.
#
# A tree lays the nodes that occur in a data set out in *preorder* (:class:`Places`): index 0 is the root, a node comes
# before its descendants, and the descendants of ``i`` are ``i + 1 .. end[i] - 1``.  Two arrays say everything:
# ``depth[i]``, and ``shared[i]``, the depth of the deepest common ancestor of ``i`` and ``i - 1``.  Ancestors that do
# not occur need not be there, so a tree of height 2**1000 costs as much as its distinct points.
#
# * ``a`` is an ancestor of ``v`` (or ``v`` itself) iff ``a <= v < end[a]``.
# * Two nodes ``i < j`` of depth >= z have the same ancestor at depth z iff ``shared`` is >= z on ``i + 1 .. j``.
#
# Each function below is total: an empty, contradictory or noisy part gets exactly one node.  That is all the privacy
# proof needs (one changed part changes one depth and moves at most one vote); consistency matters for accuracy alone.


Node = Hashable
Depths = Array
"""Depths: int64, or Python integers in an object array for trees of height 2**63 and more."""


@frozen(slots=False, eq=False, repr=False)
class Places:
    """The records of a data set on the nodes that occur, in preorder.

    ``at``: the index of each record's node, 0 at a constant point, -1 for a record to drop.  ``base``: the base label
    of each record's point (``None``: all 0).  ``tie``: what decides between nodes of one depth (``None``: the index).
    ``ranks`` may give the order of depths too large for 64 bits.
    """

    at: Ints
    base: Bytes | None
    depth: Depths
    shared: Depths
    name: Callable[[int], Node]
    tie: Ints | None = None
    ranks: tuple[Ints, Ints] | None = None

    @cached_property
    def levels(self) -> tuple[Ints, Ints]:
        """``depth`` and ``shared``, or numbers of the same order that fit 64 bits."""
        if self.ranks is not None:
            return self.ranks
        if self.depth.dtype != object:
            return self.depth, self.shared
        _, ranks = np.unique(np.concatenate([self.depth, self.shared]), return_inverse=True)
        return ranks[: len(self.depth)].astype(np.int64), ranks[len(self.depth) :].astype(np.int64)

    @cached_property
    def end(self) -> Ints:
        end: Ints = _ends(*self.levels)
        return end

    @property
    def ties(self) -> Ints:
        return np.arange(len(self.depth), dtype=np.int64) if self.tie is None else self.tie

    def flips(self, labels: Bytes) -> Bytes:
        """Label XOR base label."""
        return labels if self.base is None else labels ^ self.base


def lay_out(order: Ints, depth: Depths, shared: Depths) -> tuple[Ints, Ints, Depths, Depths]:
    """Values sorted in preorder to nodes: the node of each value (by its number), a value for each node, ``depth``,
    ``shared``.

    ``order[i]`` is the number of the i-th value in preorder, repeats allowed, the root (depth 0) first if it occurs.
    """
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = (shared[1:] != depth[1:]) | (depth[1:] != depth[:-1])
    new &= np.asarray(depth != 0, dtype=np.bool_)
    node = np.empty(len(order), dtype=np.int64)
    node[order] = np.cumsum(new)
    zero = np.zeros(1, dtype=depth.dtype)
    firsts = np.concatenate([np.full(1, -1, dtype=np.int64), order[new]])
    return node, firsts, np.concatenate([zero, depth[new]]), np.concatenate([zero, shared[new]])


@jit
def _ends(depth: Array, shared: Array) -> Any:
    n = len(depth)
    end = np.full(n, n, dtype=np.int64)
    stack = np.empty(n, dtype=np.int64)
    top = 0
    for i in range(n):
        # What is left on the stack at depth <= shared are the ancestors of i that occur.
        while top > 0 and depth[stack[top - 1]] > shared[i]:
            top -= 1
            end[stack[top]] = i
        stack[top] = i
        top += 1
    return end


def group_parts(offsets: Ints, parts: object, n_parts: int | None) -> tuple[Ints | None, Ints]:
    """Records by part: the order of the records (``None``: as they are) and the offsets of the parts."""
    users = len(offsets) - 1
    if parts is None:
        if n_parts is not None and n_parts != users:
            raise ParameterError("n_parts goes with parts; without them every user is one part")
        return None, offsets
    given = np.asarray(parts)
    if given.shape != (users,) or (users and given.dtype.kind not in "iu"):
        raise ParameterError("parts must be one integer for each user")
    if n_parts is None:
        raise ParameterError("parts need n_parts, a public number: some parts may be empty")
    count = positive_int(n_parts, "n_parts")
    part = given.astype(np.int64)
    if users and (int(part.min()) < 0 or int(part.max()) >= count):
        raise ParameterError(f"parts must lie in 0..{count - 1}")
    of_record = np.repeat(part, np.diff(offsets))
    starts = np.concatenate(
        [np.zeros(1, dtype=np.int64), np.cumsum(np.bincount(of_record, minlength=count), dtype=np.int64)]
    )
    return np.argsort(of_record, kind="stable"), starts


# The three maps from a part to a node


@jit
def closure_parts(at: Array, flips: Array, offsets: Array, end: Array) -> Any:
    """The deepest positive node if the part is consistent with it, else the root."""
    out = np.zeros(len(offsets) - 1, dtype=np.int64)
    for part in range(len(out)):
        deepest = 0
        for i in range(offsets[part], offsets[part + 1]):
            # On one path the deepest node is the last in preorder; off it the test below fails whichever is taken.
            if flips[i] == 1 and at[i] > deepest:
                deepest = at[i]
        good = True
        for i in range(offsets[part], offsets[part + 1]):
            a = at[i]
            if a == 0:
                good = good and flips[i] == 0
            elif a > 0:
                good = good and (flips[i] == 1) == (a <= deepest and deepest < end[a])
        out[part] = deepest if good else 0
    return out


@jit
def erm_parts(at: Array, flips: Array, offsets: Array, end: Array, depth: Array, tie: Array) -> Any:
    """The node of fewest mistakes; ties: smaller depth, smaller ``tie``.

    The mistakes of a node are (all positives) - (positives - negatives on its path), which changes at the part's own
    nodes only; every other node makes the mistakes of its nearest ancestor among them, or of the root, and is deeper.
    """
    out = np.zeros(len(offsets) - 1, dtype=np.int64)
    longest = 0
    for part in range(len(out)):
        longest = max(longest, offsets[part + 1] - offsets[part])
    stack, gains = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    room = np.empty(longest, dtype=np.int64)
    for part in range(len(out)):
        n = 0
        for i in range(offsets[part], offsets[part + 1]):
            if at[i] > 0:
                room[n] = 2 * at[i] + np.int64(flips[i])
                n += 1
        keys = np.sort(room[:n])
        best, most, top, i = 0, 0, 0, 0
        while i < n:
            node, gain = keys[i] >> 1, 0
            while i < n and keys[i] >> 1 == node:
                gain += 1 if keys[i] & 1 else -1
                i += 1
            while top > 0 and end[stack[top - 1]] <= node:
                top -= 1
            if top > 0:
                gain += gains[top - 1]
            stack[top], gains[top] = node, gain
            top += 1
            closer = depth[node] < depth[best] or (depth[node] == depth[best] and tie[node] < tie[best])
            if gain > most or (gain == most and closer):
                best, most = node, gain
        out[part] = best
    return out


@jit
def exact_parts(at: Array, flips: Array, offsets: Array, end: Array, concept: Array, up: Array) -> Any:
    """The deepest node common to all consistent concepts, the root if there are none.

    ``concept[i]``: whether node i is a concept; ``up[k, i]``: the ancestor 2**k levels up.  The consistent concepts are
    those below the deepest positive node and outside the subtrees of the negatives below it.  Their deepest common node
    is that of the first and the last in preorder.  One pass in order of ``a`` finds each: once ``first`` has left the
    subtree of ``a``, no subtree that starts before ``a`` holds it, since it did not hold the smaller value before.
    """
    n = len(end)
    following, preceding = np.empty(n + 1, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    following[n] = n
    for i in range(n - 1, -1, -1):
        following[i] = i if concept[i] else following[i + 1]
    preceding[0] = -1  # preceding[i]: the last concept before i
    for i in range(n):
        preceding[i + 1] = i if concept[i] else preceding[i]
    out = closure_parts(at, flips, offsets, end)
    for part in range(len(out)):
        p = out[part]
        if p == 0:
            continue  # no positives: the root is a concept and consistent; or no concept is consistent
        below = np.empty(offsets[part + 1] - offsets[part], dtype=np.int64)
        m = 0
        for i in range(offsets[part], offsets[part + 1]):
            if flips[i] == 0 and p < at[i] and at[i] < end[p]:
                below[m] = at[i]
                m += 1
        starts = np.sort(below[:m])
        first = following[p]
        for a in starts:
            if a <= first and first < end[a]:
                first = following[end[a]]
        if first >= end[p]:
            out[part] = 0
            continue
        last = preceding[end[p]]
        for a in starts[::-1]:
            if a <= last and last < end[a]:
                last = preceding[a]
        v = first
        for k in range(len(up) - 1, -1, -1):
            w = up[k, v]
            if not (w <= last and last < end[w]):
                v = w
        out[part] = v if v <= last and last < end[v] else up[0, v]
    return out


@frozen(slots=False, eq=False, repr=False)
class PartNodes:
    """The node of every part."""

    places: Places
    chosen: Ints
    ancestor: Callable[[Any, int], Node]
    height: int

    @cached_property
    def depths(self) -> Ints | list[int]:
        """The depth of each part's node; Python integers when the height is 2**63 or more."""
        depths = self.places.depth[self.chosen]
        if self.height >= 1 << 63:
            return [int(depth) for depth in depths.tolist()]
        return depths.astype(np.int64)

    def votes(self, level: int) -> dict[Node, int]:
        """Parts by their node's ancestor at this depth; parts whose node is less deep abstain."""
        z = positive_int(level, "level", minimum=0, maximum=self.height)
        counts = np.bincount(self.chosen, minlength=len(self.places.depth))
        group = np.cumsum(np.asarray(self.places.shared < z, dtype=np.bool_))
        voters = np.flatnonzero((counts > 0) & np.asarray(self.places.depth >= z, dtype=np.bool_))
        if not len(voters):
            return {}
        groups, firsts, which = np.unique(group[voters], return_index=True, return_inverse=True)
        totals = np.zeros(len(groups), dtype=np.int64)
        np.add.at(totals, which, counts[voters])
        name = self.places.name
        return {self.ancestor(name(i), z): total for i, total in zip(voters[firsts].tolist(), totals.tolist())}

    def nodes(self) -> list[Node]:
        """Every part's node; for small data."""
        return [self.places.name(i) for i in self.chosen.tolist()]

    def __repr__(self) -> str:
        return "<PartNodes>"


# Kinds of trees, by which they are saved and rebuilt.


_trees: dict[str, type[VC1Tree]] = {}


def tree_class(kind: object) -> type[VC1Tree]:
    """The trees of this package register themselves when they are first used."""
    if kind not in _trees:
        for name in dir(trees):
            getattr(trees, name)
    if kind not in _trees:
        raise ParameterError(f"a stored tree needs a kind among {', '.join(_trees)}, got {str(kind)[:60]!r}")
    return _trees[kind]


# Labellings by the paths of a tree (classes of VC dimension 1).
#
# Relative to the base labels a rule flips the points on one path from the root, so two rules agree on T iff the deepest
# node of T on their paths is the same: the labellings are the distinct nodes of T and the root (no flip).  Trees that
# are not closed are taken with all their nodes.
#
# ``M(c)`` is the least loss of the nodes whose deepest ancestor in T is c, and two labellings differ on the records of
# T along the way between c and c' in the tree of T's nodes: Q is a distance transform on that tree, once up and once
# down.
#
# A unit's loss changes along a path only at the unit's own nodes: each of them is an event, and running sums over the
# preorder of all nodes add events up along paths.  A record that the tree does not know counts nowhere, and keeps its
# base label in T.


@jit
def _losses(at: Array, flips: Array, offsets: Array, end: Array, levels: int) -> Any:
    """``E_W`` of every node: sum over units of ``floor(levels * wrong / known records)``."""
    n = len(end)
    change = np.zeros(n + 1, dtype=np.int64)
    longest = 0
    for u in range(len(offsets) - 1):
        longest = max(longest, offsets[u + 1] - offsets[u])
    room, stack = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    wrongs, values = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    for u in range(len(offsets) - 1):
        k, known, wrong0 = 0, 0, np.int64(0)
        for i in range(offsets[u], offsets[u + 1]):
            if at[i] < 0:
                continue
            known += 1
            wrong0 += np.int64(flips[i])  # the root flips nothing
            if at[i] > 0:
                room[k] = 2 * at[i] + np.int64(flips[i])
                k += 1
        if known == 0:
            continue
        value0 = levels * wrong0 // known
        change[0] += value0
        keys = np.sort(room[:k])
        top, i = 0, 0
        while i < k:
            node, more = keys[i] >> 1, np.int64(0)
            while i < k and keys[i] >> 1 == node:
                more += -1 if keys[i] & 1 else 1
                i += 1
            while top > 0 and end[stack[top - 1]] <= node:
                top -= 1
            wrong = more + (wrongs[top - 1] if top > 0 else wrong0)
            value = levels * wrong // known
            before = values[top - 1] if top > 0 else value0
            change[node] += value - before
            change[end[node]] -= value - before
            stack[top], wrongs[top], values[top] = node, wrong, value
            top += 1
    for i in range(1, n):
        change[i] += change[i - 1]
    return change[:n]


@jit
def _transform(loss: Array, times: Array, end: Array, A: int, B: int, least: Array, above: Array) -> None:
    """In place: ``least[i]`` becomes Q for the root and the nodes i with ``times[i] > 0``; ``above[i]`` their nearest
    such ancestor."""
    n = len(end)
    stack = np.empty(n, dtype=np.int64)
    top = 0
    for i in range(n):
        while top > 0 and end[stack[top - 1]] <= i:
            top -= 1
        if i == 0 or times[i] > 0:
            above[i] = stack[top - 1] if top > 0 else -1
            least[i] = B * loss[i]
            stack[top] = i
            top += 1
        else:
            # This node gives the labels of its nearest ancestor in T.
            owner = stack[top - 1]
            least[owner] = min(least[owner], B * loss[i])
    for i in range(n - 1, 0, -1):
        if times[i] > 0:
            least[above[i]] = min(least[above[i]], least[i] + A * times[i])
    for i in range(1, n):
        if times[i] > 0:
            least[i] = min(least[i], least[above[i]] + A * times[i])


def tree_labellings(tree: VC1Tree, part: UserData, rest: UserData, A: int, B: int, levels: int) -> Labellings:
    """Labellings of ``part`` (one record per unit, its labels are not read), scored with ``rest``; both from one bound
    data set."""
    assert rest.labels is not None
    columns = {
        name: Column(np.concatenate([part.codes[name], rest.codes[name]]), domain, rest.vocabulary(name))
        for name, domain in tree.columns.items()
    }
    places, size = tree.places(columns), part.n_records
    at, end = places.at, places.end
    base = np.zeros(len(at), dtype=np.uint8) if places.base is None else places.base
    loss = _losses(at[size:], rest.labels ^ base[size:], rest.offsets, end, levels)
    own = at[:size]
    times = np.bincount(own[own > 0], minlength=len(end)).astype(np.int64)
    least, above = np.empty(len(end), dtype=np.int64), np.empty(len(end), dtype=np.int64)
    _transform(loss, times, end, A, B, least, above)
    listed = np.concatenate([np.zeros(1, dtype=np.int64), np.flatnonzero(times)])

    def labels(i: int) -> Bytes:
        v = int(listed[i])
        on_path = (own > 0) & (own <= v) & (v < end[np.maximum(own, 0)])
        return base[:size] ^ on_path.astype(np.uint8)

    return Labellings(least[listed], labels)


Mode = Literal["closure", "exact", "erm"]
MODES = ("closure", "exact", "erm")

MAX_NODES = (1 << 64) + 1
"""Nodes that are numbered at most: the root, and as many others as 64 bits number."""

MAX_LEVELS = 1 << 12
"""Levels of a tree, and nodes of a level, that are looked at one by one at most."""

_LISTED = 1 << 20
"""Rules that selection goes through one by one at most."""


class VC1Tree(ClassOfRules):
    """A public tree with its points; see the module."""

    kind: ClassVar[str]
    """The name under which it is saved."""
    noun: ClassVar[str] = "tree"
    takes_texts: ClassVar[bool] = True

    is_path: ClassVar[bool] = False
    """Whether nodes are their own depths, so that a law over depths is a law over nodes, however high the tree."""
    lists_levels: ClassVar[bool] = False
    """Whether :meth:`level_node` is known, as a draw without delta needs."""
    regions: ClassVar[bool] = False
    """Whether nodes are regions, each inside the one above it, that a report can show one below the other."""

    feature: str | None
    domain: Domain | None
    direction: str
    """Of a path: on which side of its node a rule says 1."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            _trees[cls.kind] = cls

    # Shape

    @property
    @abstractmethod
    def height(self) -> int:
        """The largest depth, or a public cap on it; deeper points count as their ancestor there."""

    @property
    def root(self) -> Node:
        """By default nodes are tuples, each begun by the one above it."""
        return ()

    @property
    def closed(self) -> bool:
        """Whether every node is a concept of the class."""
        return True

    @abstractmethod
    def node(self, x: object) -> Node | None:
        """The node of a point, in the user's values; ``None`` if the tree does not know the point."""

    def depth(self, v: Any) -> int:
        """How far below the root a node is."""
        return len(v)

    def ancestor(self, v: Any, z: int) -> Node:
        """The ancestor of ``v`` at depth ``z <= depth(v)``."""
        self._check_above(v, z)
        above: Node = v[:z]
        return above

    def _check_above(self, v: object, z: int, noun: str = "node") -> None:
        if not 0 <= z <= self.depth(v):
            raise ParameterError(f"a {noun} of depth {self.depth(v)} has no ancestor at depth {z}")

    def is_ancestor(self, a: Any, v: Any) -> bool:
        """Whether ``a`` is ``v`` or above it."""
        depth = self.depth(a)
        return depth <= self.depth(v) and self.ancestor(v, depth) == a

    def base_label(self, x: object) -> int:
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

    def order_key(self, v: Any) -> Any:
        """A public order of the nodes, for ties."""
        return v

    def preorder(self, v: Any) -> Any:
        """An order in which a node is followed by its descendants, and they by everything else."""
        return self.order_key(v)

    def _level(self, z: int) -> int:
        return positive_int(z, "depth", minimum=0, maximum=self.height)

    @property
    def widest(self) -> int | None:
        """An upper bound on the number of nodes of a level below the root; ``None`` where none is known."""
        if self.height > MAX_LEVELS:
            return None
        widths = [self.level_width(z) for z in range(1, self.height + 1)]
        return None if None in widths else max((width for width in widths if width is not None), default=1)

    def level_node(self, z: int, i: int) -> Node:
        """The ``i``-th node at depth ``z`` of a finite level, in a fixed public order.

        >>> from privpac.rules import AddressTree
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
        return "FiniteClass of its rules" if self.n_rules is not None and self.n_rules <= _LISTED else ""

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
        matrix: object,
        root: Literal["center", "end", "auto"] | int = "center",
        domain: Domain | None = None,
        feature: str | None = None,
    ) -> ExplicitTree:
        """The tree of a 0/1 table (concepts by points); ``NotVC1Error`` with a witness if there is none."""
        return tree_class("table").from_matrix(matrix, root, domain, feature)

    # Columns

    def declared(self) -> Mapping[str | None, Domain | None]:
        return {self.feature: self.domain}

    def with_columns(self, columns: Mapping[str, Domain]) -> Self:
        ((feature, domain),) = columns.items()
        return evolve(self, feature=feature, domain=domain)  # type: ignore[misc]

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

    def nodes(self, values: Sequence[object]) -> list[Any]:
        """The node of each value."""
        return [self.node(x) for x in values]

    def _shared(self, a: object, b: object) -> int:
        """The depth of the deepest common ancestor."""
        most = min(self.depth(a), self.depth(b))
        return last_between(lambda depth: bool(self.ancestor(a, depth) == self.ancestor(b, depth)), 0, most + 1)

    def _ties(self, named: Sequence[object]) -> Ints:
        ties = np.empty(len(named), dtype=np.int64)
        ties[sorted(range(len(named)), key=lambda i: self.order_key(named[i]))] = np.arange(len(named))
        return ties

    def part_nodes(
        self, users: Users, mode: Mode = "closure", parts: Ints | None = None, n_parts: int | None = None
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
    def _from_dict(cls, values: Mapping[str, object]) -> VC1Tree: ...

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> VC1Tree:
        """Rebuild a tree from :meth:`to_dict`."""
        return tree_class(values.get("kind"))._from_dict(values)

    def pack(self, v: Any) -> Any:
        """A node as plain data."""
        return list(v) if isinstance(v, tuple) else v

    @abstractmethod
    def unpack(self, packed: object) -> Node:
        """The node of plain data, checked: ``ParameterError`` if the tree has no such node."""


@frozen(slots=False, init=False, repr=False)
class TreeRule(Rule):
    """1 on the path from the root to ``node`` (XOR the base labels)."""

    saved_as: ClassVar[str] = "branch"
    tree: VC1Tree
    node: Node
    label: str

    def __init__(self, tree: VC1Tree, node: Node, label: str = "1") -> None:
        if not isinstance(tree, VC1Tree):
            raise TypeError(f"tree must be a VC1Tree, got {type(tree).__name__}")
        self.__attrs_init__(tree, tree.unpack(tree.pack(node)), label)

    @property
    def features(self) -> Mapping[str, Domain]:
        return self.tree.columns

    def predict_codes(self, codes: ColumnCodes) -> Predictions:
        columns = self.tree.columns
        if any(domain.open for domain in columns.values()):
            raise ParameterError(
                "codes of an open vocabulary mean nothing outside their data set; use predict or predict_users"
            )
        return self._predict({name: Column(codes[name], domain, None) for name, domain in columns.items()})

    def predict(self, X: object, threshold: Rational | None = None) -> Predictions:
        if threshold is not None:
            raise ParameterError(NO_CHANCES)
        return self._predict(raw_columns(columns_of(X, self.features, self.reads)))

    def predict_users(self, users: UserData) -> Predictions:
        """0/1 for every record of bound users."""
        return self._predict(user_columns(users, self.tree.columns))

    def _predict(self, columns: Mapping[str, Column]) -> Predictions:
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


# How many users name which node: all that the draws of a tree learner read, as a sum over users.
#
# Where every user is a part of their own, a node comes from one user's records only, so counts of two groups of users
# add up, wherever their rows are.  Nodes are kept by name: places and vocabularies belong to one table, names to the
# public tree.


@frozen(slots=False)
class NodeTally:
    """A kernel: users by the node of their records."""

    tree: VC1Tree
    mode: Mode

    def zero(self) -> Counter[Node]:
        return Counter()

    def chunk(self, users: UserData) -> Counter[Node]:
        found = self.tree.part_nodes(users, self.mode)
        chosen, counts = np.unique(found.chosen, return_counts=True)
        return Counter({found.places.name(i): count for i, count in zip(chosen.tolist(), counts.tolist())})

    def merge(self, a: Counter[Node], b: Counter[Node]) -> Counter[Node]:
        return a + b


@frozen(slots=False, eq=False, repr=False)
class NodeCounts:
    """Counted nodes, as the draws read them."""

    tree: VC1Tree
    counts: Mapping[Node, int]

    @property
    def depths(self) -> list[int]:
        """The depth of each user's node."""
        return [depth for v, count in self.counts.items() for depth in [self.tree.depth(v)] * count]

    def votes(self, level: int) -> dict[Node, int]:
        """Users by their node's ancestor at this depth, in the public order of the tree; users whose node is less deep
        abstain."""
        z = positive_int(level, "level", minimum=0, maximum=self.tree.height)
        found: dict[Any, int] = {}
        for v in sorted((v for v in self.counts if self.tree.depth(v) >= z), key=self.tree.preorder):
            above = self.tree.ancestor(v, z)
            found[above] = found.get(above, 0) + self.counts[v]
        return found

    def __repr__(self) -> str:
        return "<NodeCounts>"


def count_nodes(tree: VC1Tree, users: Users, mode: Mode) -> NodeCounts:
    """The counts of users bound to a tree, wherever they are."""
    counts: Counter[Node] = users.fold(NodeTally(tree, mode))
    return NodeCounts(tree, counts)


# The node of one part straight from the definition: what the kernels for tables are checked against.


def part_node(tree: VC1Tree, records: Sequence[tuple[object, object]], mode: Mode = "closure") -> Node:
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
