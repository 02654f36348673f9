"""Making a ledger's file: written whole under a passing name, then given its own."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from privpac.errors import LedgerUnavailable
from privpac.ledger.lines import Reading, as_line
from privpac.released_write import sync_directory

__all__ = ["draft_file", "is_draft", "make_file", "write_at"]

_DRAFT = ".new"


def make_file(path: Path, settings: Mapping[str, str]) -> None:
    """A complete ledger appears under ``path`` at once, or nothing does; ``FileExistsError`` if the name is taken."""
    leftovers = [ending for ending in ("-wal", "-journal") if os.path.lexists(f"{path}{ending}")]
    if os.path.lexists(path):
        raise FileExistsError(path.name)
    if leftovers:  # of a ledger of the first format, whose last spends are in there
        raise LedgerUnavailable(
            f"{path.name + leftovers[0]!r} is left over from a ledger that is gone; bring that back, or use another "
            "name"
        )
    try:
        with draft_file(path, [["settings", dict(settings)]]) as (draft, handle):
            fcntl.flock(handle, fcntl.LOCK_EX)  # for as long as the file has two names
            os.link(draft, path)  # unlike a rename, never over an existing file
            os.unlink(draft)
            sync_directory(path.parent)
    except FileExistsError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable name"
        raise LedgerUnavailable(
            f"a ledger cannot be made at {path.name!r}: {reason}; choose a writable local folder"
        ) from None


@contextmanager
def draft_file(path: Path, entries: list[Any]) -> Iterator[tuple[str, int]]:
    """A synced ledger with these lines, under a passing name beside ``path``."""
    handle, draft = tempfile.mkstemp(prefix=_prefix(path.name), suffix=_DRAFT, dir=path.parent)
    try:
        reading = Reading()
        data = bytearray()
        for entry in entries:
            line = as_line(reading.head, entry)[1]
            reading.take(line)
            data += line
        write_at(handle, reading.seal() + bytes(data), 0)
        os.fsync(handle)
        yield draft, handle
    finally:
        os.close(handle)
        with suppress(OSError):
            os.unlink(draft)


def _prefix(name: str) -> str:
    return f".{name[:100]}."


def is_draft(name: str, of: str) -> bool:
    """Whether this is a passing name of the ledger called ``of``."""
    return name.startswith(_prefix(of)) and name.endswith(_DRAFT)


def write_at(handle: int, data: bytes, at: int) -> None:
    """All of ``data``, also if the system takes it in parts."""
    while data:
        done = os.pwrite(handle, data, at)
        data, at = data[done:], at + done
