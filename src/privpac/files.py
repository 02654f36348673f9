"""Files that appear whole or not at all; also for devices, which load little else."""

from __future__ import annotations

import errno
import os
import secrets
from contextlib import suppress
from pathlib import Path

from privpac.errors import ModelFileError

_NO_LINKS = {errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""What a file system without links says."""


def write_whole(target: Path, data: bytes, mode: int = 0o666, *, over: bool = True) -> None:
    """The whole of ``data`` appears under ``target`` at once, on disk before this returns, or nothing does
    (``OSError``).

    ``mode`` as for a new file; ``over=False``: never over an existing file (``FileExistsError``).  Of two that write at
    once one wins, and nobody reads a mixture.
    """
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.new")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        (os.replace if over else os.link)(draft, target)  # a link, unlike a rename, fails where the name is taken
        sync_directory(target.parent)
    finally:
        with suppress(OSError):
            draft.unlink()


def write_durably(target: Path, data: bytes, mode: int = 0o666) -> None:
    """:func:`write_whole` of a model or session file; what the system refuses is a ``ModelFileError``."""
    try:
        write_whole(target, data, mode)
    except OSError as error:
        raise ModelFileError(f"cannot write {str(target)!r}: {error.strerror}; choose a writable place") from None


def keep_once(place: Path, data: bytes) -> bytes:
    """What is kept under ``place``: ``data`` the first time, the same bytes ever after, readable by the owner only.

    On disk before this returns; of two that write at once the first wins, and both get its bytes.
    """
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        write_whole(place, data, 0o600, over=False)
    except FileExistsError:
        return place.read_bytes()
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if place.exists():
            return place.read_bytes()
        write_whole(place, data, 0o600)
    return data


def sync_directory(folder: Path) -> None:
    """Make a rename or a new name in ``folder`` survive a power loss."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
