"""Work over a range, shared among threads.

The kernels release the interpreter lock, so plain threads use every core.  Threads of our own, made for one call and
gone after it, may be used from a web server's threads and after a fork, where the thread pools of compiled runtimes
abort.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_T = TypeVar("_T")
_Span = tuple[int, int]


_THREAD = threading.local()


def workers() -> int:
    """How many cores this thread may use: those of the process, or its share of them."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // getattr(_THREAD, "among", 1))


def share_cores(among: int) -> None:
    """This thread is one of so many that work at the same time."""
    _THREAD.among = among


def even(n: int, least: int) -> list[_Span]:
    """``range(n)`` in at most ``workers()`` nearly equal parts of ``least`` or more."""
    parts = max(1, min(workers(), n // max(least, 1)))
    return [(n * i // parts, n * (i + 1) // parts) for i in range(parts)]


def user_spans(offsets: NDArray[np.int64], least: int = 1 << 17) -> list[_Span]:
    """Ranges of users that hold nearly equal numbers of records."""
    edges = [0, *(int(np.searchsorted(offsets, b)) for _, b in even(int(offsets[-1]), least)[:-1]), len(offsets) - 1]
    return [(a, b) for a, b in pairwise(edges) if a < b]


def spread(work: Callable[..., _T], calls: Sequence[tuple[int, ...]]) -> list[_T]:
    """``work(*call)`` for every call, in threads if there are several; results in order."""
    if len(calls) <= 1:
        return [work(*call) for call in calls]
    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(lambda call: work(*call), calls))
