"""Work on chunks in a few threads, results in order.

Kernels, polars and Arrow release the interpreter lock, so that threads are enough to use the cores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from privpac.concepts.kernels.spread import share_cores, workers

__all__ = ["LANES", "in_lanes"]

S = TypeVar("S")
T = TypeVar("T")

LANES = min(4, workers())
"""Chunks in work at the same time; kernels use further cores themselves."""


def in_lanes(work: Callable[[S], T], items: Iterable[S], lanes: int) -> Iterator[T]:
    """``map(work, items)`` that takes at most one item more than there are lanes before giving a result.

    >>> list(in_lanes(lambda n: n * n, range(5), lanes=2))
    [0, 1, 4, 9, 16]
    """
    if lanes == 1:
        yield from map(work, items)
        return
    pending: deque[Future[T]] = deque()
    with ThreadPoolExecutor(lanes, initializer=share_cores, initargs=(lanes,)) as pool:
        for item in items:
            pending.append(pool.submit(work, item))
            del item
            if len(pending) > lanes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
