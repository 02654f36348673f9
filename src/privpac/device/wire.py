"""Bytes on the wire: canonical manifests, ``run_id``, and messages of fixed length.

    message = "PPM1" || kind || run_id[0:8] || payload          (little-endian)
    kind 1, central item:  u16 length || canonical bytes         (length 0: nothing to say)
    kind 2, local report:  u16 chunk || u32 j || u8 bit          (bit 1 means sign +1)
    kind 3, shuffled:      u32 bucket

A sealed run wraps each of them (:mod:`privpac.device.keys`); a central item is then filled up with zero bytes, so
that all messages of a run are equally long.  ``docs/wire.md`` has all of it, with vectors.

A manifest is a JSON object of strings and integers (lists and objects of them), keys sorted, no spaces, ASCII; floats,
booleans and nulls are refused, so that equal manifests have equal bytes on every machine.  Parsing never raises on what
a stranger sent: a message is read, or it is nothing.  Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from privpac.errors import ManifestError, ParameterError

# Messages one after another in one file or request, each after its length (u32, little-endian).


def bundle(messages: Sequence[bytes]) -> bytes:
    """Messages one after another.

    >>> bundle([b"ab", b""]).hex()
    '02000000616200000000'
    """
    return b"".join(len(message).to_bytes(4, "little") + message for message in messages)


def unbundle(data: bytes, limit: int = 1 << 20) -> list[bytes]:
    """The messages of a bundle; what cannot be read ends it."""
    out: list[bytes] = []
    at = 0
    while at + 4 <= len(data) and len(out) < limit:
        size = int.from_bytes(data[at : at + 4], "little")
        if at + 4 + size > len(data):
            break
        out.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return out


CENTRAL: Final = 1
LOCAL: Final = 2
SHUFFLE: Final = 3
KIND_OF: Final = {"central": CENTRAL, "local": LOCAL, "shuffle": SHUFFLE}
PLAIN: Final = b"PPM1"
SEALED: Final = b"PPX1"
HEAD: Final = len(PLAIN) + 1 + 8
_LOCAL, _SHUFFLE, _LENGTH = struct.Struct("<HIB"), struct.Struct("<I"), struct.Struct("<H")


# Manifests


def canonical(manifest: Mapping[str, object]) -> bytes:
    """The bytes that stand for a manifest.

    >>> canonical({"v": 1, "b": 8, "class": "thresholds"})
    b'{"b":8,"class":"thresholds","v":1}'
    """
    _check(manifest, "the manifest")
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def _check(value: object, where: str, depth: int = 0) -> None:
    if depth > 8:
        raise ManifestError(f"{where} is nested too deeply")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ManifestError(f"keys of {where} must be strings, got {type(key).__name__}")
            _check(inner, repr(key[:40]), depth + 1)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _check(inner, where, depth + 1)
    elif isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ManifestError(
            f"{where} must hold strings and integers only, got {type(value).__name__}; write rationals as 'a/b'"
        )


def run_id(manifest: Mapping[str, object]) -> bytes:
    """``BLAKE2b-256`` of the canonical bytes: names the run and everything that was fixed before it."""
    return hashlib.blake2b(canonical(manifest), digest_size=32).digest()


# Messages


def frame(kind: int, run: bytes, magic: bytes = PLAIN) -> bytes:
    """The first 13 bytes of a message."""
    if not isinstance(run, bytes) or len(run) != 32:
        raise ParameterError("a run id has 32 bytes")
    return magic + bytes([kind]) + run[:8]


def message_size(kind: int, most: int) -> int:
    """Bytes of a message before it is sealed; an item has at most ``most``."""
    return HEAD + {LOCAL: _LOCAL.size, SHUFFLE: _SHUFFLE.size}.get(kind, _LENGTH.size + most)


def pack_item(run: bytes, item: bytes, fill: int = 0) -> bytes:
    """An item for the curator, over an authenticated channel; an empty one is nothing to say.

    ``fill``: filled up with zero bytes to as many bytes of item.
    """
    if len(item) >= 1 << 16:
        raise ParameterError("an item has fewer than 65536 bytes")
    return frame(CENTRAL, run) + _LENGTH.pack(len(item)) + item.ljust(fill, b"\0")


def pack_report(run: bytes, chunk: int, j: int, bit: int) -> bytes:
    """A local report; ``bit`` 1 means sign +1."""
    return frame(LOCAL, run) + _LOCAL.pack(chunk, j, bit)


def pack_shuffled(run: bytes, bucket: int) -> bytes:
    """One message for the shuffler."""
    return frame(SHUFFLE, run) + _SHUFFLE.pack(bucket)


def parse(run: bytes, message: object, kind: int, fill: int = 0) -> tuple[Any, ...] | None:
    """The fields of a message of this kind for this run, or ``None`` for anything else; ``fill`` as for
    :func:`pack_item`."""
    if not isinstance(message, (bytes, bytearray, memoryview)):
        return None
    data = bytes(message)
    if len(data) < HEAD or data[:HEAD] != frame(kind, run):
        return None
    payload = data[HEAD:]
    if kind == LOCAL:
        return _LOCAL.unpack(payload) if len(payload) == _LOCAL.size and payload[-1] <= 1 else None
    if kind == SHUFFLE:
        return _SHUFFLE.unpack(payload) if len(payload) == _SHUFFLE.size else None
    if len(payload) < _LENGTH.size:
        return None
    size, item = _LENGTH.unpack(payload[: _LENGTH.size])[0], payload[_LENGTH.size :]
    if len(item) != max(size, fill) or any(item[size:]):
        return None
    return (item[:size],)
