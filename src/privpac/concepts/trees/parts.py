"""One node for every part, and what the parts vote for.

A tree lays the nodes that occur in a data set out in *preorder* (:class:`Places`): index 0 is the root, a node comes
before its descendants, and the descendants of ``i`` are ``i + 1 .. end[i] - 1``.  Two arrays say everything:
``depth[i]``, and ``shared[i]``, the depth of the deepest common ancestor of ``i`` and ``i - 1``.  Ancestors that do not
occur need not be there, so a tree of height 2**1000 costs as much as its distinct points.

* ``a`` is an ancestor of ``v`` (or ``v`` itself) iff ``a <= v < end[a]``.
* Two nodes ``i < j`` of depth >= z have the same ancestor at depth z iff ``shared`` is >= z on ``i + 1 .. j``.

Each function below is total: an empty, contradictory or noisy part gets exactly one node.  That is all the privacy
proof needs (one changed part changes one depth and moves at most one vote); consistency matters for accuracy alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.data.jit import jit
from privpac.errors import ParameterError
from privpac.guarantee import positive_int

__all__ = ["PartNodes", "Places", "closure_parts", "erm_parts", "exact_parts", "group_parts", "lay_out"]

Node = Hashable
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Depths = NDArray[Any]
"""Depths: int64, or Python integers in an object array for trees of height 2**63 and more."""


@dataclass(frozen=True, eq=False, repr=False)
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
def _ends(depth: Any, shared: Any) -> Any:
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


def group_parts(offsets: Ints, parts: Any, n_parts: int | None) -> tuple[Ints | None, Ints]:
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
def closure_parts(at: Any, flips: Any, offsets: Any, end: Any) -> Any:
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
def erm_parts(at: Any, flips: Any, offsets: Any, end: Any, depth: Any, tie: Any) -> Any:
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
def exact_parts(at: Any, flips: Any, offsets: Any, end: Any, concept: Any, up: Any) -> Any:
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


@dataclass(frozen=True, eq=False, repr=False)
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
