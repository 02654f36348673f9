"""How many users name which node: all that the draws of a tree learner read, as a sum over users.

Where every user is a part of their own, a node comes from one user's records only, so counts of two groups of users add
up, wherever their rows are.  Nodes are kept by name: places and vocabularies belong to one table, names to the public
tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from privpac.concepts.trees.base import Mode, VC1Tree
from privpac.concepts.trees.parts import Node
from privpac.guarantee import positive_int

if TYPE_CHECKING:
    from privpac.data import UserData, Users

__all__ = ["NodeCounts", "NodeTally", "count_nodes"]


@dataclass(frozen=True)
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


@dataclass(frozen=True, eq=False, repr=False)
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
