"""Partial results as bytes: plain values, arrays and the library's own records, without pickle.

A value becomes a JSON tree whose leaves of bulk (arrays, bytes) stand in a tail of raw memory.  Reading it back runs no
code of the message's choosing: classes are looked up inside this package only and must be records or named tuples.
Profiles, counts, tables and lists of arrays all travel this way; what cannot is refused when it is written, by its
type's name.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from enum import Enum
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
from attrs import fields, has

_HEAD = 8
_PACKAGE = "privpac."


def pack(value: object) -> bytes:
    """A value as bytes; ``TypeError`` for types that cannot travel.

    >>> unpack(pack({"a": (1 << 70, b"x", None)}))
    {'a': (1180591620717411303424, b'x', None)}
    """
    tail = bytearray()
    head = json.dumps(_write(value, tail), separators=(",", ":")).encode()
    return len(head).to_bytes(_HEAD, "little") + head + bytes(tail)


def unpack(message: bytes) -> Any:
    """The value that :func:`pack` wrote."""
    size = int.from_bytes(message[:_HEAD], "little")
    return _read(json.loads(message[_HEAD : _HEAD + size]), memoryview(message)[_HEAD + size :])


def _write(value: Any, tail: bytearray) -> Any:
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return ["int", str(value)] if value.bit_length() <= 4096 else _bulk("hex", hex(value).encode(), tail)
    if kind is float:
        return ["float", value.hex()]
    if kind is Fraction:
        return ["ratio", _write(value.numerator, tail), _write(value.denominator, tail)]
    if kind in (bytes, bytearray):
        return _bulk("bytes", bytes(value), tail)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return [*_bulk("array", np.ascontiguousarray(value).tobytes(), tail), value.dtype.str, list(value.shape)]
    if isinstance(value, np.generic) and value.dtype.kind in "biuf":
        return [*_bulk("scalar", value.tobytes(), tail), value.dtype.str]
    if kind in (list, tuple, set, frozenset):
        return [kind.__name__, [_write(item, tail) for item in value]]
    if kind in (dict, Counter):
        return [kind.__name__, [[_write(key, tail), _write(item, tail)] for key, item in value.items()]]
    if kind.__module__.startswith(_PACKAGE):
        where = f"{kind.__module__}:{kind.__qualname__}"
        if isinstance(value, Enum):
            return ["enum", where, _write(value.value, tail)]
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return ["named", where, [_write(item, tail) for item in value]]
        if has(kind):
            names = [each.name for each in fields(kind)]
            return ["data", where, [[name, _write(getattr(value, name), tail)] for name in names]]
    raise TypeError(f"a value of type {kind.__name__} cannot travel between processes")


def _bulk(kind: str, data: bytes, tail: bytearray) -> list[Any]:
    at = len(tail)
    tail += data
    return [kind, at, len(data)]


_CONTAINERS: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


def _read(node: object, tail: memoryview) -> Any:
    if not isinstance(node, list):
        return node
    kind, *rest = node
    if kind == "int":
        return int(rest[0])
    if kind == "float":
        return float.fromhex(rest[0])
    if kind == "ratio":
        return Fraction(_read(rest[0], tail), _read(rest[1], tail))
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](_read(item, tail) for item in rest[0])
    if kind in ("dict", "Counter"):
        pairs = {_read(key, tail): _read(item, tail) for key, item in rest[0]}
        return pairs if kind == "dict" else Counter(pairs)
    if kind in ("hex", "bytes", "array", "scalar"):
        data = bytes(tail[rest[0] : rest[0] + rest[1]])
        if kind in ("hex", "bytes"):
            return int(data, 16) if kind == "hex" else data
        array = np.frombuffer(bytearray(data), np.dtype(rest[2]))
        return array.reshape(rest[3]) if kind == "array" else array[0]
    module, _, name = rest[0].partition(":")
    if not module.startswith(_PACKAGE):
        raise TypeError("a record of another package cannot travel")
    found: Any = sys.modules.get(module) or import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if kind == "enum" and isinstance(found, type) and issubclass(found, Enum):
        return found(_read(rest[1], tail))
    if kind == "named" and isinstance(found, type) and issubclass(found, tuple):
        return found(*(_read(item, tail) for item in rest[1]))
    if kind == "data" and isinstance(found, type) and has(found):
        record = object.__new__(found)
        for field, item in rest[1]:
            object.__setattr__(record, field, _read(item, tail))
        return record
    raise TypeError("a record of this kind cannot travel")
