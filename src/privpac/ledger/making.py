"""Making a ledger's file: written whole under a passing name, then given its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privpac.errors import LedgerCorrupt, LedgerUnavailable
from privpac.ledger.lines import Reading
from privpac.ledger.lock import try_lock
from privpac.released_write import sync_directory

__all__ = ["draft_file", "is_draft", "make_file", "write_at"]

_DRAFT = ".new"


def make_file(path: Path, settings: Mapping[str, str]) -> None:
    """A complete ledger appears under ``path`` at once, or nothing does; ``FileExistsError`` if the name is taken."""
    if os.path.lexists(path):
        raise FileExistsError(path.name)
    try:
        with draft_file(path, [["settings", dict(settings)]]) as (draft, handle):
            try_lock(handle)  # nobody else knows it; for as long as the file has two names
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
        reading = Reading(_Draft(handle))
        for entry in entries:
            for line in reading.lines_for(entry):
                write_at(handle, line, reading.end)
                reading.take(line)
        write_at(handle, bytes(reading.seal()), 0)
        os.fsync(handle)
        yield draft, handle
    finally:
        os.close(handle)
        with suppress(OSError):
            os.unlink(draft)


@dataclass(frozen=True)
class _Draft:
    """A file that is being made, as the source of its own older lines."""

    handle: int

    def fetch(self, at: int, end: int) -> bytes:
        return os.pread(self.handle, end - at, at)

    def corrupt(self, what: str) -> LedgerCorrupt:
        return LedgerCorrupt(f"a new ledger {what}; do not use it")


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
