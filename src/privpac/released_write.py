"""Files that appear whole or not at all; also for devices, which load little else."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from privpac.errors import ModelFileError

__all__ = ["sync_directory", "write_durably"]


def write_durably(target: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a model or session file whole or not at all, on disk before this returns; ``mode`` as for a new file."""
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
        sync_directory(target.parent)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise ModelFileError(f"cannot write {str(target)!r}: {error.strerror}; choose a writable place") from None


def sync_directory(folder: Path) -> None:
    """Make a rename or a new name in ``folder`` survive a power loss."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
