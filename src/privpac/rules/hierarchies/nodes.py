"""All nodes of a tree as a finite class of rules: what selection learns when labels are noisy.

A node's rule says 1 on the path to the root (XOR the base labels), so on one user's records it makes

    mistakes(v) = (all positives) - sum over the user's own nodes above or at v of (positives - negatives there),

which changes at the user's own nodes only.  Nodes are numbered in preorder, so a subtree is an interval of numbers and
a user's mistakes are a step function with at most two steps for each of the user's nodes.  Untouched subtrees are
blocks, and a tree of 2**64 nodes costs as much as its distinct points.  A record whose point the tree does not know has
the base label under every rule.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privpac.arrays import Array
from privpac.data import Domain, UserData, Users
from privpac.data.loops import jit, spread, user_spans
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import positive_int
from privpac.rules.base import ConceptClass, FewValues, Rule
from privpac.rules.cuts import cut_mistakes
from privpac.rules.hierarchies.base import Column, VC1Tree, user_columns
from privpac.rules.kernels import Bundle
from privpac.rules.kernels.cuts import change_type, contribution
from privpac.rules.kernels.events import sum_events
from privpac.rules.profile import Profile, Statistic, Step, concatenate, constant_profile


@jit
def _walk(
    at: Array,
    flips: Array,
    offsets: Array,
    start: int,
    stop: int,
    span: Bundle,
    shape: Bundle,
    out: Bundle,
    room: Bundle,
    total: Array,
) -> None:
    """Write the events of some users, one column a score; ``total`` sums their contributions to the root.

    ``span``: the first and last number (less 1) below each place, and the last of all.  The user's nodes come in
    preorder, so those that hold the next one wait on a stack; where one ends, the mistakes are again those of the one
    that holds it.
    """
    firsts, lasts, end = span
    offset, cap, levels, uses_minimum = shape
    key, change, own = out
    order, stack, gains, where, value = room
    for u in range(start, stop):
        a, b = offsets[u], offsets[u + 1]
        n, root, steps, top = 0, 0, 0, 0
        for i in range(a, b):
            root += int(flips[i])  # the root's rule is the base labelling: every flip is a mistake
            if at[i] > 0:
                order[n] = 2 * at[i] + np.int64(flips[i])
                n += 1
        order[:n].sort()
        i, least, most = 0, root, root
        while i < n or top > 0:
            node = order[i] >> 1 if i < n else 0
            if top > 0 and (i == n or lasts[stack[top - 1]] < firsts[node]):
                top -= 1
                place = lasts[stack[top]]
                if place == end:  # nothing comes after it
                    continue
                place += np.uint64(1)
                mistakes = root - (gains[top - 1] if top > 0 else 0)
            else:
                gain = gains[top - 1] if top > 0 else 0
                while i < n and order[i] >> 1 == node:
                    gain += 2 * (order[i] & 1) - 1
                    i += 1
                stack[top], gains[top] = node, gain
                top += 1
                place, mistakes = firsts[node], root - gain
            if steps > 0 and where[steps - 1] == place:
                steps -= 1  # what ended or began here before holds no node
            where[steps], value[steps] = place, mistakes
            steps += 1
        for s in range(steps):
            least, most = min(least, value[s]), max(most, value[s])
        if b == a:
            continue
        own[0, u], own[1, u] = least, most
        free = least if uses_minimum else 0
        for v in range(len(cap)):
            last = contribution(root, free, offset[u], cap[v, u], levels)
            total[v] += last
            for s in range(steps):
                now = contribution(value[s], free, offset[u], cap[v, u], levels)
                key[2 * a + s], change[2 * a + s, v] = where[s], now - last
                last = now


@frozen(slots=False)
class TreeNodes(ConceptClass):
    """The rules of all nodes of a tree that can be counted, numbered in preorder.

    >>> from privpac.rules.hierarchies.regions import Taxonomy
    >>> nodes = TreeNodes(Taxonomy({"cat": "mammal", "dog": "mammal", "mammal": "animal", "bird": "animal"},
    ...     feature="seen"))
    >>> nodes.size, [str(nodes.decode(i)) for i in (0, 3)]
    (5, ['1 when seen is animal', '1 when seen is dog or contains it'])
    """

    tree: VC1Tree

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.tree, VC1Tree):
            raise TypeError(f"tree must be a VC1Tree such as Taxonomy(parents), got {type(self.tree).__name__}")
        if self.tree.n_nodes is None:
            raise ParameterError(
                "the vocabulary of this tree is open: its nodes cannot be listed; use TreeLearner, with a delta"
            )
        if not self.tree.scored:
            raise TooLargeError(
                "the tree has more than 2^64 nodes; use TreeLearner, which pays for the height and not for the width"
            )

    @property
    def size(self) -> int:
        assert self.tree.n_nodes is not None
        return self.tree.n_nodes

    @property
    def vc_dimension(self) -> int:
        return int(self.size > 1)

    @property
    def shattered_points(self) -> int:
        return self.vc_dimension

    @property
    def mistake_tree_depth(self) -> int:
        """Cut-offs along the longest path."""
        return cut_mistakes(self.tree.height)

    @property
    def few_values(self) -> FewValues:
        return FewValues("cuts" if self.tree.is_path else "points")

    # Columns and rules

    def declared(self) -> Mapping[str | None, Domain | None]:
        return self.tree.declared()

    def bind(self, users: Users) -> tuple[TreeNodes, Users]:
        tree, bound = self.tree.bind(users)
        return TreeNodes(tree), bound

    def with_columns(self, columns: Mapping[str, Domain]) -> TreeNodes:
        return TreeNodes(self.tree.with_columns(columns))

    def decode(self, hypothesis: int, label: str = "1") -> Rule:
        number = positive_int(hypothesis, "value", minimum=0, maximum=self.size - 1)
        return self.tree.rule(self.tree.numbered(number), label)

    def predictions(self, codes: Mapping[str, NDArray[np.uint64]], hypothesis: int) -> NDArray[np.int8]:
        return self.decode(hypothesis).predict_codes(codes)

    # Folding

    def empty_profile(self) -> Profile:
        root = constant_profile(1).steps
        if self.size == 1:
            return Profile(root)
        return Profile((*root, Step(1, np.zeros(1, dtype=np.uint64), self.size - 2, np.zeros(1, dtype=np.int64))))

    def _fold(self, users: UserData, columns: tuple[str, ...], statistic: Statistic) -> Profile:
        assert users.labels is not None
        n_scores = statistic.n_scores
        if self.size == 1:
            return concatenate([self.empty_profile()] * n_scores, [1] * n_scores)
        read: dict[str, Column] = user_columns(users, self.tree.columns)
        places = self.tree.places(read)
        firsts, lasts = self.tree.spans(places)
        # Less 1: the root stands by itself, so that 2**64 other nodes fit 64 bits.
        span = (
            np.array([0, *(i - 1 for i in firsts[1:])], dtype=np.uint64),
            np.array([0, *(i - 1 for i in lasts[1:])], dtype=np.uint64),
        )
        sizes = np.diff(users.offsets)
        offset, cap = statistic.shape(sizes)
        shape = (offset, cap, statistic.bound, statistic.uses_minimum)
        flips = places.flips(users.labels)
        key = np.zeros(2 * len(flips) + 1, dtype=np.uint64)
        change = np.zeros((2 * len(flips), n_scores), dtype=change_type(statistic.bound))
        own = np.zeros((2, len(sizes)), dtype=np.int64)

        def run(start: int, stop: int) -> NDArray[np.int64]:
            longest = int(np.diff(users.offsets[start : stop + 1]).max(initial=0))
            small = np.empty((3, longest), dtype=np.int64)
            room = (*small, np.empty(2 * longest, dtype=np.uint64), np.empty(2 * longest, dtype=np.int64))
            ends = (*span, np.uint64(self.size - 2))
            total = np.zeros(n_scores, dtype=np.int64)
            _walk(places.at, flips, users.offsets, start, stop, ends, shape, (key[:-1], change, own), room, total)
            return total

        roots = sum(spread(run, user_spans(users.offsets)), start=np.zeros(n_scores, dtype=np.int64)).tolist()
        sums = sum_events(key[:-1], change, roots, self.size - 1, spare=key)
        steps: list[Step] = []
        for v, (root, (starts, scores)) in enumerate(zip(roots, sums)):
            steps.append(Step(v * self.size, np.zeros(1, dtype=np.uint64), 0, np.array([root], dtype=np.int64)))
            steps.append(Step(v * self.size + 1, starts, self.size - 2, scores))
        return Profile(tuple(steps), statistic.optimism(sizes, own))
