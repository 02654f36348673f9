"""Labellings by the paths of a tree (classes of VC dimension 1).

Relative to the base labels a rule flips the points on one path from the root, so two rules agree on T iff the deepest
node of T on their paths is the same: the labellings are the distinct nodes of T and the root (no flip).  Trees that are
not closed are taken with all their nodes.

``M(c)`` is the least loss of the nodes whose deepest ancestor in T is c, and two labellings differ on the records of T
along the way between c and c' in the tree of T's nodes: Q is a distance transform on that tree, once up and once down.

A unit's loss changes along a path only at the unit's own nodes: each of them is an event, and running sums over the
preorder of all nodes add events up along paths.  A record that the tree does not know counts nowhere, and keeps its
base label in T.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.labellings.base import Labellings
from privpac.concepts.trees.columns import Column
from privpac.data.jit import jit

if TYPE_CHECKING:
    from privpac.concepts.trees.base import VC1Tree
    from privpac.data import UserData

__all__ = ["tree_labellings"]


@jit
def _losses(at: Any, flips: Any, offsets: Any, end: Any, levels: int) -> Any:
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
def _transform(loss: Any, times: Any, end: Any, A: int, B: int, least: Any, above: Any) -> None:
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

    def labels(i: int) -> NDArray[np.uint8]:
        v = int(listed[i])
        on_path = (own > 0) & (own <= v) & (v < end[np.maximum(own, 0)])
        return base[:size] ^ on_path.astype(np.uint8)

    return Labellings(least[listed], labels)
