"""Preorder of a tree given by its parents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.data.jit import jit

__all__ = ["Layout", "lay_parents", "lifting"]

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
