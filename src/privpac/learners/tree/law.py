"""The two draws of the private tree learner, exactly: a depth, then a node at that depth.

Every part (group of users) has one node ``v_i`` of depth ``y_i``.

1. ``z`` from the rank law of ``y`` with ranks ``hi``, ``K`` and base ``r1`` (or from an interior point of the window of
   ranks ``hi..K+1``).
2. ``z = 0``: the root.  A level of one node: that node, which is public.  Otherwise part ``i`` votes for its ancestor
   at depth ``z`` if it is that deep, and a node is drawn by the choosing law with base ``r2`` and ``delta``; with
   ``delta = 0`` from *all* nodes of the level with weight ``r2**votes`` (unvoted nodes are one block).  ``BOTTOM``: the
   choosing law abstains.

**Privacy.**  However parts are turned into nodes, changing one part changes one ``y_i`` and, at every level, moves at
most one vote (one count down, one up).  No realizability is used.  So both draws are private as proved in
:mod:`~privpac.mechanisms.rank` and :mod:`~privpac.mechanisms.choosing`, the second one for every ``z``: adaptive basic
composition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from privpac.concepts.trees.base import MAX_LEVELS, Node, VC1Tree
from privpac.errors import TooLargeError
from privpac.law import BOTTOM, Law
from privpac.law.base import Bottom
from privpac.law.numbers import Number
from privpac.mechanisms.choosing import choosing_law, choosing_sample
from privpac.mechanisms.interior_point import InteriorPoint
from privpac.mechanisms.rank import rank_law
from privpac.rng import Rng

__all__ = ["NamedParts", "NodeChoice"]


class PartVotes(Protocol):
    """What the draws read: the depth of every part's node, and the votes at a level."""

    @property
    def depths(self) -> Any: ...

    def votes(self, level: int) -> Mapping[Node, int]: ...


@dataclass(frozen=True, repr=False)
class NamedParts:
    """Parts given by their nodes."""

    tree: VC1Tree
    nodes: Sequence[Node]

    @property
    def depths(self) -> list[int]:
        return [self.tree.depth(v) for v in self.nodes]

    def votes(self, level: int) -> Counter[Node]:
        return Counter(self.tree.ancestor(v, level) for v in self.nodes if self.tree.depth(v) >= level)


# The draws


@dataclass(frozen=True)
class NodeChoice:
    """A depth and a node at it, for a bound tree; ``point`` replaces the rank law, ``delta`` is that of the choosing
    law."""

    tree: VC1Tree
    hi: int
    K: int
    r1: Fraction
    r2: Fraction
    delta: Fraction
    point: InteriorPoint | None = None

    def depth_law(self, parts: PartVotes) -> Law:
        """The law of ``z``; ``BOTTOM`` only for interior points that abstain."""
        if self.point is not None:
            return self.point.law(parts.depths)
        return rank_law(parts.depths, self.hi, self.K, self.tree.height, self.r1)

    def node_law(self, parts: PartVotes, z: int) -> Law:
        """The law of the node, given the depth."""
        width = self.tree.level_width(z)
        if z == 0:
            return Law.point(self.tree.root)
        if width == 1:
            return Law.point(self.tree.only_node(z))
        votes = parts.votes(z)
        if self.delta > 0:
            return choosing_law(votes, self.r2, self.delta) if votes else Law.point(BOTTOM)
        if width is None:
            return Law.point(BOTTOM)  # a level that cannot be counted through is never answered, whatever the data
        if width > MAX_LEVELS:
            raise TooLargeError(
                f"a level of {width} nodes is too wide to write out; use delta > 0, or draw instead of asking for the "
                "law"
            )
        nodes = (self.tree.level_node(z, i) for i in range(width))
        return Law.from_weights([(v, self.r2 ** votes.get(v, 0)) for v in nodes])

    def law(self, parts: PartVotes) -> Law:
        """The law of what is released: nodes, and ``BOTTOM`` apart from the root."""
        depths = self.depth_law(parts).as_finite()
        if self.tree.is_path:
            return depths
        if self.tree.height > MAX_LEVELS:
            raise TooLargeError(f"the law is written out for trees of height at most {MAX_LEVELS}; draw instead")
        shares: list[tuple[Number, Law]] = []
        for z in depths.values():
            shares.append((depths.number(z), Law.point(BOTTOM) if z is BOTTOM else self.node_law(parts, z)))
        return Law.mixture(shares)

    def sample(self, parts: PartVotes, rng: Rng) -> Hashable:
        """One exact draw from :meth:`law`, on trees of any height and width."""
        z = self._depth(parts, rng)
        if isinstance(z, Bottom):
            return BOTTOM
        if z == 0 or self.tree.is_path:
            return self.tree.root if z == 0 else z
        width = self.tree.level_width(z)
        if width == 1:
            return self.tree.only_node(z)
        votes = parts.votes(z)
        if self.delta > 0:
            named: Hashable = choosing_sample(votes, self.r2, self.delta, rng=rng)
            return named
        return BOTTOM if width is None else self._level_sample(votes, z, width, rng)

    def _depth(self, parts: PartVotes, rng: Rng) -> int | Bottom:
        if self.point is not None:
            return self.point.sample(parts.depths, rng)
        return int(rank_law(parts.depths, self.hi, self.K, self.tree.height, self.r1).sample(rng))

    def _level_sample(self, votes: Mapping[Node, int], z: int, width: int, rng: Rng) -> Node:
        """Weight ``r2**votes`` for each of the ``width`` nodes: voted ones by name, the rest as one block."""
        named, spare = list(votes), width - len(votes)
        counts = [1] * len(named) + ([spare] if spare else [])
        scores = [-votes[v] for v in named] + ([0] if spare else [])
        label, _ = Law.from_blocks(counts=counts, score=scores, base=self.r2).sample(rng)
        if label < len(named):
            return named[int(label)]
        # Uniform among the unvoted: at most (width - voted)/width of the mass is here, so one try is needed on average.
        while (v := self.tree.level_node(z, rng.below(width))) in votes:
            pass
        return v
