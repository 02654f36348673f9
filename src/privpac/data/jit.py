"""Compile a loop once, keep its types.

``jit`` is numba's ``njit`` with a disk cache and without the interpreter lock; unlike it, it keeps the Python
signature for the type checker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

__all__ = ["jit"]

F = TypeVar("F", bound=Callable[..., Any])


def jit(function: F) -> F:
    return cast(F, numba.njit(cache=True, nogil=True)(function))
