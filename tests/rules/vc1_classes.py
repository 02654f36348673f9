"""Random classes and trees for the tests of VC dimension 1."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from privpac.rules.hierarchies import VC1Tree
from privpac.rules.hierarchies.explicit import ExplicitTree

Rng = np.random.Generator


def shattered(rows: Any) -> bool:
    """Whether some two points show all four patterns."""
    table = np.asarray(rows)
    pairs = combinations(range(table.shape[1]), 2)
    return any(len({tuple(row) for row in table[:, [x, y]].tolist()}) == 4 for x, y in pairs)


def random_class(rng: Rng, nodes: int = 8, density: float = 0.6) -> list[list[int]]:
    """Paths of a random tree XOR a random labelling, with repeated, complementary and constant points, in random
    order."""
    n = int(rng.integers(1, nodes + 1))
    parent = [0] * n
    for v in range(1, n):
        parent[v] = int(rng.integers(0, v))
    on_path = np.zeros((n, n), dtype=np.int64)
    for v in range(n):
        u = v
        while u:
            on_path[v, u] = 1
            u = parent[u]
    chosen = rng.random(n) < density
    chosen[int(rng.integers(0, n))] = True
    concepts = on_path[chosen]
    points = rng.integers(
        0, n, size=int(rng.integers(1, 4 * nodes))
    )  # node 0 gives constant points, repeats equal ones
    table = concepts[:, points] ^ rng.integers(0, 2, size=len(points))  # flips give complementary ones
    rows = rng.permutation(np.concatenate([table, table[: int(rng.integers(0, 3))]]))
    return [[int(bit) for bit in row] for row in rows]


def literal_tree(rows: list[list[int]], f: list[int]) -> tuple[list[int], list[int], list[int]]:
    """Node of each point, parents and depths from the order by containment alone."""
    columns = [frozenset(i for i, row in enumerate(rows) if row[x] != f[x]) for x in range(len(f))]
    nodes = list(dict.fromkeys([frozenset(range(-1, len(rows))), *(c for c in columns if c)]))
    node_of = [nodes.index(c) if c else 0 for c in columns]
    above = [[j for j, big in enumerate(nodes) if c < big] for c in nodes]
    parent = [min(js, key=lambda j: len(nodes[j])) if js else 0 for js in above]
    return node_of, parent, [len(js) for js in above]


def random_tree(rng: Rng) -> ExplicitTree:
    rows = random_class(rng)
    return VC1Tree.from_matrix(rows, root=("center", "end", "auto")[int(rng.integers(0, 3))])
