"""Compile a loop once, keep its types.

``jit`` is numba's ``njit`` with a disk cache and without the interpreter lock; unlike it, it keeps the Python signature
for the type checker.  A cache that cannot be read or written (a full disk) costs time and nothing else: the first call
may come after a spend.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba

__all__ = ["jit"]

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    compiled = numba.njit(cache=True, nogil=True)(function)
    # numba's own guard, which lets most errors of the system through; without the attribute it is as it was.
    cache: Any = getattr(compiled, "_cache", None)
    if hasattr(cache, "_guard_against_spurious_io_errors"):
        cache._guard_against_spurious_io_errors = lambda: suppress(OSError)
    return cast(F, compiled)
