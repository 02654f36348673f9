"""The node of one part straight from the definition: what the kernels for tables are checked against."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from privpac.concepts.trees.base import Mode, Node, VC1Tree, check_mode

__all__ = ["part_node"]


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
