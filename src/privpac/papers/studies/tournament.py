"""The tournament list learner, for comparison: complete proof, short for small dimensions only.

Pairs of version spaces whose optimal predictions differ meet at the first point where they do; both labels of that
point are followed, and the side that would err is restricted.  Following the true labels lowers the dimension with
every round, so some function is in the list with probability at least ``2**-(d+2)``; lists have up to ``2**(2**d)``
entries and ``2**(d+2) - d - 3`` fresh blocks are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from privpac.device.correlated_sampling import integer
from privpac.device.littlestone import DEFAULT_BUDGET, Rows, Search
from privpac.errors import ParameterError, TooLargeError

__all__ = ["tournament_blocks", "tournament_lists"]

Block = Sequence[Sequence[int]]

MAX_DIMENSION = 3


def tournament_blocks(d: int) -> int:
    """The number of fresh blocks used."""
    return (1 << (d + 2)) - d - 3


def tournament_lists(
    rows: Rows, d: int, blocks: Sequence[Block], budget: int = DEFAULT_BUDGET
) -> list[frozenset[bytes]]:
    """The list of every level 0..d, as packed truth tables; ``blocks`` are consumed in order."""
    d = integer("d", d, 0)
    if d > MAX_DIMENSION:
        raise TooLargeError(f"tournaments are for dimension at most {MAX_DIMENSION}, got {d}; use ReductionList")
    if len(blocks) < tournament_blocks(d):
        raise ParameterError(f"a tournament of dimension {d} needs {tournament_blocks(d)} blocks, got {len(blocks)}")
    search, fresh = Search(rows, budget), iter(blocks)
    lists = []
    for k in range(d + 1):
        test = next(fresh)
        spaces = (rows.restrict(space, test) for space in _variants(search, k, fresh))
        lists.append(frozenset(rows.packed(search.soa(space)) for space in spaces if space))
    return lists


def _variants(search: Search, k: int, fresh: Iterator[Block]) -> set[int]:
    if k == 0:
        return {search.rows.everything}
    rows = search.rows
    left, right = _variants(search, k - 1, fresh), _variants(search, k - 1, fresh)
    blocks = next(fresh), next(fresh)
    out = set()
    for pair in ((a, b) for a in left for b in right):
        spaces = [rows.restrict(space, block) for space, block in zip(pair, blocks)]
        if not all(spaces):
            continue
        words = [search.soa(space) for space in spaces]
        differ = words[0] ^ words[1]
        if not differ:
            continue
        x = (differ & -differ).bit_length() - 1
        for y in (0, 1):
            wrong = next(b for b in (0, 1) if words[b] >> x & 1 != y)
            out.add(rows.split(spaces[wrong], x)[y])
    return out - {0}
