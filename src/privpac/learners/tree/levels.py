"""How wide the levels of a public tree are, and which nodes they hold."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from privpac.concepts.trees.addresses import AddressTree
from privpac.concepts.trees.base import Node, VC1Tree
from privpac.concepts.trees.branches import BranchThresholds
from privpac.concepts.trees.combine import Combined, Grafted
from privpac.concepts.trees.explicit import ExplicitTree
from privpac.concepts.trees.implicit import PathTree, StarTree
from privpac.concepts.trees.taxonomy import Taxonomy

__all__ = ["MAX_LEVELS", "is_path", "level_node", "lists_levels", "widest"]

MAX_LEVELS = 1 << 12
"""Levels of a tree, and nodes of a level, that are looked at one by one at most."""


def is_path(tree: VC1Tree) -> bool:
    """Whether nodes are their own depths, so that a law over depths is a law over nodes, however high the tree."""
    return isinstance(tree, PathTree)


def widest(tree: VC1Tree) -> int | None:
    """An upper bound on the number of nodes of a level below the root; ``None`` where none is known.

    >>> from privpac.concepts.trees import PathTree, StarTree, Taxonomy
    >>> widest(PathTree(2**100)), widest(StarTree()), widest(Taxonomy({"b": "a", "c": "a", "d": "c"}))
    (1, None, 2)
    """
    if tree.height == 0 or is_path(tree):
        return 1
    if isinstance(tree, BranchThresholds):
        return tree.level_width(1)
    if isinstance(tree, Combined):
        widths = [widest(part) for part in tree.trees]
    elif tree.height <= MAX_LEVELS:
        widths = [tree.level_width(z) for z in range(1, tree.height + 1)]
        return None if None in widths else max(width for width in widths if width is not None)
    else:
        return None
    return None if None in widths else sum(width for width in widths if width is not None)


def lists_levels(tree: VC1Tree) -> bool:
    """Whether :func:`level_node` knows the tree, as the draw without delta needs."""
    if isinstance(tree, Combined):
        return all(lists_levels(part) for part in tree.trees)
    return isinstance(tree, (AddressTree, BranchThresholds, ExplicitTree, PathTree, StarTree, Taxonomy))


def level_node(tree: VC1Tree, z: int, i: int) -> Node:
    """The ``i``-th node at depth ``z`` of a finite level, in a fixed public order.

    >>> from privpac.concepts.trees import AddressTree
    >>> AddressTree(4).describe(level_node(AddressTree(4), 8, 10))
    '10.0.0.0/8'
    """
    if z == 0 or is_path(tree):
        return tree.root if z == 0 else z
    if isinstance(tree, (ExplicitTree, Taxonomy)):
        number = int(np.flatnonzero(tree.layout.depth == z)[i])
        return number if isinstance(tree, ExplicitTree) else tree.names[number]
    if isinstance(tree, AddressTree):
        return (i << (tree.bits - z), z)
    if isinstance(tree, Combined):
        return _combined(tree, z, i)
    return (i, z) if isinstance(tree, BranchThresholds) else (i,)


def _combined(tree: Combined, z: int, i: int) -> Node:
    """Nodes of the parts one after the other; a grafted part begins below the node it grows on."""
    lift = tree.trees[0].depth(tree.at) if isinstance(tree, Grafted) else 0
    depths = [z - number * lift for number in range(len(tree.trees))]
    widths = [
        (part.level_width(depth) or 0) if 0 < depth <= part.height else 0 for part, depth in zip(tree.trees, depths)
    ]
    ends = list(accumulate(widths))
    number = next(k for k, end in enumerate(ends) if i < end)
    return (number, level_node(tree.trees[number], depths[number], i - (ends[number] - widths[number])))
