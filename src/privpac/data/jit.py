"""Compile a loop once, keep its types.

``jit`` marks a loop over people or records.  Installed packages have these loops compiled (:mod:`privpac.data.native`):
a call finds the code by the types of its arguments.  Where there is none (a source tree in which the loop has just been
written, types that nobody listed) numba compiles on the first call, with a disk cache and without the interpreter lock.
A cache that cannot be read or written (a full disk) costs time and nothing else: the first call may come after a spend.
For the same reason an array with gaps, where only the form without is compiled, is packed rather than refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property, update_wrapper
from typing import Any, TypeVar, cast

import numpy as np

from privpac.data.native import CompiledLoop, argument_kind, available, entries
from privpac.lazy import WHEN_COMPILING, need

_F = TypeVar("_F", bound=Callable[..., Any])
#: ``listed`` (the tests): types that nobody listed are a mistake; ``compile`` (benchmarks): do without compiled loops;
#: ``>FILE``: write down the types of all calls, for ``make signatures``.
MODE = os.environ.get("PRIVPAC_KERNELS", "")


class Loop:
    """A loop with its compiled forms, by the types of the arguments."""

    def __init__(self, function: Callable[..., Any], compiled: dict[str, CompiledLoop]) -> None:
        self.py_func, self._compiled, self.__name__ = function, compiled, function.__name__
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        kinds = ",".join(map(argument_kind, arguments))
        entry = self._compiled.get(kinds)
        if entry is not None:
            return entry(arguments)
        if MODE == "listed" and self._compiled:
            raise LookupError(f"{self.__module__}:{self.__name__} has no compiled form for {kinds!r}: make signatures")
        if MODE.startswith(">"):
            _write_down(f"{self.__module__}:{self.__name__} {kinds}")
        if self._compiled and any(map(_gappy, arguments)):
            packed = tuple(np.ascontiguousarray(a) if _gappy(a) else a for a in arguments)
            entry = self._compiled.get(",".join(map(argument_kind, packed)))
            if entry is not None:
                result = entry(packed)
                for given, made in zip(arguments, packed):
                    if made is not given and given.flags.writeable:
                        given[...] = made
                return result
        return self._by_numba(*arguments)

    @cached_property
    def _by_numba(self) -> Any:
        return _compile(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        """numba asks for this where one loop calls another."""
        return self._by_numba._numba_type_

    def __reduce__(self) -> str:
        return self.__name__


def _gappy(value: object) -> bool:
    return isinstance(value, np.ndarray) and not value.flags.c_contiguous


def _compile(function: Callable[..., Any]) -> Any:
    # numba reads .numba_config.yaml of the working directory, and unpickles what lies in the cache that it names: files
    # beside a table would run.  What the environment says goes first; empty is numba's own place.
    os.environ.setdefault("NUMBA_CACHE_DIR", "")
    compiled = need("numba").njit(cache=True, nogil=True)(function)
    _watch()
    # numba's own guard, which lets most errors of the system through; without the attribute it is as it was.
    kept: Any = getattr(compiled, "_cache", None)
    if hasattr(kept, "_guard_against_spurious_io_errors"):
        kept._guard_against_spurious_io_errors = lambda: suppress(OSError)
    return compiled


@cache
def _write_down(call: str) -> None:
    with open(MODE[1:], "a", encoding="utf-8") as lines:
        lines.write(call + "\n")


@cache
def _watch() -> None:
    """Tell who wants to know when numba begins to compile; a loop in its cache is not compiled."""
    events = need("numba.core.event")

    class Listener(events.Listener):  # type: ignore[misc, name-defined]
        def on_start(self, event: object) -> None:
            while WHEN_COMPILING:
                WHEN_COMPILING.pop()()

        def on_end(self, event: object) -> None:
            pass

    events.register("numba:compile", Listener())


def jit(function: _F) -> _F:
    if MODE.startswith(">"):
        return cast(_F, Loop(function, {}))
    if MODE == "compile" or not available():
        return cast(_F, _compile(function))
    return cast(_F, Loop(function, entries(function.__module__, function.__name__)))
