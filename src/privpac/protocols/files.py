"""Submissions as files: a folder with one file per client, and the shuffler's output.

The file's name is the client's name; what authenticates it is the channel it came through.  A file is read up to a
public limit and never beyond; folders, links, hidden files and files over the limit count as malformed submissions.
What a run has released is kept beside the submissions and given again, byte for byte, because a second draw would be a
second release.

    shuffled = "PPS1" || run_id[0:8] || u64 clients || bundle of messages          (little-endian)
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from privpac.errors import ParameterError
from privpac.protocols.client import bundle, keep_once, unbundle
from privpac.protocols.manifest import Manifest
from privpac.protocols.wire import pack_shuffled

__all__ = ["NAME", "limit_of", "once", "read_folder", "read_manifest", "read_shuffled", "write_shuffled"]

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,99}")
"""A client's name, and so a file's: no separators, not hidden."""

_MAGIC = b"PPS1"
_MANIFEST = 1 << 20
_MESSAGE = 4 + 13
_LOCAL, _BUCKET, _ITEM = 7, 4, 2 + (1 << 16)


def read_manifest(path: Path) -> Manifest:
    """A manifest's file."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MANIFEST + 1)
    except OSError as error:
        raise ParameterError(f"cannot read the manifest {str(path)!r}: {error.strerror}") from None
    if len(data) > _MANIFEST:
        raise ParameterError(f"{str(path)!r} is too large for a manifest")
    return Manifest.read(data)


def limit_of(manifest: Manifest) -> int:
    """Bytes of the largest submission an honest client can make."""
    if manifest.protocol == "shuffle":
        return manifest.shuffle.cap * (_MESSAGE + _BUCKET)
    return _MESSAGE + (_LOCAL if manifest.protocol == "local" else _ITEM)


def read_folder(manifest: Manifest, folder: Path) -> Iterator[tuple[str, list[bytes]]]:
    """Every client's name and messages, by name; what cannot be read is one malformed message."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ParameterError(f"cannot read the folder {str(folder)!r}: {error.strerror}") from None
    limit = limit_of(manifest)
    for name in names:
        if name.startswith("."):
            continue
        data = _read(folder / name, limit) if NAME.fullmatch(name) else None
        if data is None:
            yield name, [b""]
        else:
            yield name, unbundle(data) or ([b""] if data else [])


def _read(path: Path, limit: int) -> bytes | None:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            data = file.read(limit + 1)
    except OSError:
        return None
    return data if len(data) <= limit else None


def once(folder: Path, manifest: Manifest, make: Callable[[], bytes]) -> bytes:
    """What this run released from this folder: made the first time, the same bytes ever after."""
    place = folder / f".{manifest.run.hex()}.released"
    try:
        return place.read_bytes() if place.exists() else keep_once(place, make())
    except OSError as error:
        raise ParameterError(
            f"cannot keep the release in {str(folder)!r}: {error.strerror}; it must be writable"
        ) from None


# The shuffler's output


def write_shuffled(manifest: Manifest, buckets: list[int], clients: int) -> bytes:
    """The shuffled messages of so many clients."""
    return (
        _MAGIC
        + manifest.run[:8]
        + clients.to_bytes(8, "little")
        + bundle([pack_shuffled(manifest.run, b) for b in buckets])
    )


def read_shuffled(manifest: Manifest, data: bytes) -> tuple[list[bytes], int]:
    """Messages and the number of clients; nothing from nobody if the bytes are not this run's."""
    if len(data) < 20 or data[:12] != _MAGIC + manifest.run[:8]:
        return [], 0
    return unbundle(data[20:], 1 << 40), int.from_bytes(data[12:20], "little")
