"""Loops over people or records: compiled when the package is built, called without numba, spread over threads.

``jit`` marks a loop; a call finds its compiled form by the types of the arguments.  Where there is none (a source tree
in which the loop has just been written, types that nobody listed) numba compiles on the first call, with a disk cache
and without the interpreter lock.  A cache that cannot be read or written (a full disk) costs time and nothing else: the
first call may come after a spend.  For the same reason an array with gaps, where only the form without is compiled, is
packed rather than refused.

``_kernels.so`` holds one function for every loop and types of arguments listed in ``kernels/signatures.json``; the
index beside it says which, and from which files they were compiled: where one of these has changed since, its loops are
not used.  A call takes three pointers: the arguments in slots of eight bytes (of an array: owner, parent, items, bytes
per item, address, shape, strides), room for the result, and room for what went wrong.  ctypes lets other threads run
meanwhile.

The kernels release the interpreter lock, so plain threads use every core.  Threads of our own, made for one call and
gone after it, may be used from a web server's threads and after a fork, where the thread pools of compiled runtimes
abort.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, cached_property, update_wrapper
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from privpac.lazy import WHEN_COMPILING, need

HERE = Path(__file__).parent
_SLOTS = {"b1": "?7x", "f4": "f4x", "f8": "d"}  # others are read from the low bytes of a whole word
_ROOMS = {"b1": "?", "i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}
_ROOMS |= {"f4": "f", "f8": "d"}


def argument_kind(value: object) -> str:
    """The written type of an argument.

    >>> argument_kind((3, np.zeros((2, 2)), True, 2**63))
    '(i8,f8[2C],b1,u8)'
    """
    if isinstance(value, np.ndarray):
        # one axis of at most one item counts as contiguous, as for numba
        return f"{value.dtype.str.lstrip('<|')}[{value.ndim}{'C' if value.flags.c_contiguous else 'A'}]"
    if isinstance(value, tuple):
        return "(" + ",".join(map(argument_kind, value)) + ")"
    if isinstance(value, bool):
        return "b1"
    if isinstance(value, int):
        return "i8" if value < 1 << 63 else "u8"
    if isinstance(value, float) and not isinstance(value, np.generic):
        return "f8"
    return str(np.asarray(value).dtype.str[1:])


def _flat(values: tuple[object, ...], out: list[object]) -> list[object]:
    for value in values:
        if isinstance(value, np.ndarray):
            out += (0, 0, value.size, value.itemsize, value.__array_interface__["data"][0])
            out += value.shape
            out += value.strides
        elif isinstance(value, tuple):
            _flat(value, out)
        else:
            out.append(value)
    return out


@cache
def _parts(kind: str) -> tuple[str, ...]:
    """The types in a list of types, at commas outside brackets."""
    parts, depth = [""], 0
    for letter in kind:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(part for part in parts if part)


def _slots(kind: str) -> str:
    """How the arguments of a type are packed."""
    if kind.startswith("("):
        return "".join(map(_slots, _parts(kind[1:-1])))
    if kind.endswith("]"):
        return f"{5 + 2 * int(kind[-3])}q"
    return _SLOTS.get(kind, "Q" if kind[0] == "u" else "q")


def _rooms(kind: str) -> str:
    """How a result of a type is unpacked."""
    if kind.startswith("("):
        return "".join(map(_rooms, _parts(kind[1:-1])))
    return _slots(kind) if kind.endswith("]") else _ROOMS[kind]


class _Owned:
    """Memory that a loop allocated and Python owns now; or, where there is no block, a part of its ``arguments``."""

    def __init__(
        self, block: int, described: dict[str, Any], release: Callable[[int], None], arguments: tuple[object, ...]
    ) -> None:
        self.__array_interface__, self._block, self._release = described, block, release
        self._kept = () if block else arguments

    def __del__(self) -> None:
        if self._block:
            self._release(self._block)


class CompiledLoop:
    """One compiled loop for arguments of one list of types.

    Parameters
    ----------
    function
        The loop in the library.
    release
        Gives back memory that a loop returned.
    given
        The types of the arguments, with commas between.
    returned
        The type of the result; empty for none.
    """

    __slots__ = ("_function", "_pack", "_release", "_returned", "_room", "_unpack")

    def __init__(self, function: Any, release: Callable[[int], None], given: str, returned: str) -> None:
        function.argtypes, function.restype = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p), ctypes.c_int
        self._function, self._release, self._returned = function, release, returned
        self._pack = struct.Struct("=" + "".join(map(_slots, _parts(given)))).pack
        rooms = struct.Struct("@" + "".join(map(_rooms, _parts(returned))))
        self._unpack, self._room = rooms.unpack_from, ctypes.c_char * (rooms.size + 8)

    def __call__(self, arguments: tuple[object, ...]) -> Any:
        packed = self._pack(*_flat(arguments, []))
        room, wrong = self._room(), ctypes.c_void_p()
        code = self._function(packed, room, ctypes.addressof(wrong))
        if code not in (0, -2):
            raise _error(wrong.value, code)
        return self._read(self._returned, iter(self._unpack(room)), arguments) if self._returned else None

    def _read(self, kind: str, values: Iterator[Any], arguments: tuple[object, ...]) -> Any:
        if kind.startswith("("):
            return tuple(self._read(part, values, arguments) for part in _parts(kind[1:-1]))
        if not kind.endswith("]"):
            return next(values)
        block, _, _, _, address = (next(values) for _ in range(5))
        axes = range(int(kind[-3]))
        shape, strides = tuple(next(values) for _ in axes), tuple(next(values) for _ in axes)
        kept = {"shape": shape, "strides": strides, "typestr": np.dtype(kind[:-4]).str, "version": 3}
        return np.asarray(_Owned(block, kept | {"data": (address, False)}, self._release, arguments))


def _error(wrong: int | None, code: int) -> Exception:
    """numba keeps the exception's class by name among the bytes at the first word."""
    if wrong:
        address, size = ctypes.c_void_p.from_address(wrong).value, ctypes.c_int.from_address(wrong + 8).value
        if address and b"MemoryError" in ctypes.string_at(address, size):
            return MemoryError("a kernel asked for more memory than there is")
    return RuntimeError(f"a kernel stopped with code {code}")


@cache
def _index() -> dict[str, Any]:
    try:
        index: dict[str, Any] = json.loads((HERE / "_kernels.json").read_text(encoding="utf-8"))
        return index if (HERE / "_kernels.so").exists() else {}
    except (OSError, ValueError):
        return {}


def _fits() -> bool:
    """Whether the processor has what the library was compiled for (x86-64-v3)."""
    try:
        words = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return False
    return words >= {"abm", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}


@cache
def _library() -> Any:
    if not _fits():
        return None
    try:
        return ctypes.CDLL(str(HERE / "_kernels.so"))
    except OSError:  # built for another kind of machine
        return None


@cache
def _unchanged(file: str) -> bool:
    try:
        return sha256((HERE.parent / file).read_bytes()).hexdigest() == str(_index()["files"][file])
    except OSError:
        return False


def available() -> bool:
    """Whether this installation has compiled loops at all."""
    return bool(_index()) and _library() is not None


def entries(module: str, name: str) -> dict[str, CompiledLoop]:
    """The compiled forms of a loop by the types of its arguments; empty where there are none."""
    found = _index().get("kernels", {}).get(f"{module}:{name}")
    if found is None or not all(map(_unchanged, found["files"])):
        return {}
    library = _library()
    release = library.privpac_release
    release.argtypes, release.restype = (ctypes.c_void_p,), None
    return {
        given: CompiledLoop(getattr(library, symbol), release, given, returned)
        for given, (symbol, returned) in found["calls"].items()
    }


_F = TypeVar("_F", bound=Callable[..., Any])
#: ``listed`` (the tests): types that nobody listed are a mistake; ``compile`` (benchmarks): do without compiled loops;
#: ``>FILE``: write down the types of all calls, for ``make signatures``.
MODE = os.environ.get("PRIVPAC_KERNELS", "")


class Loop:
    """A loop with its compiled forms, by the types of the arguments."""

    def __init__(self, function: Callable[..., object], compiled: dict[str, CompiledLoop]) -> None:
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


def _compile(function: Callable[..., object]) -> Any:
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
