"""One writer at a time, and nobody who may only read can keep writers out.

The lock is a **write lock** (of an open file description) on one byte far behind the end of the file.  It belongs to
the file itself, so links, mounts and renames share it; the system gives it only to those who may write; it ends with
the descriptor, so no kill leaves it behind.  Locks of other kinds, such as ``flock``, do not touch it.

One thing can be in its way that needs no more than the right to read: a *read* lock on the same byte.  The ledger's own
code never takes one, and the system says which kind stands in the way.  The first writer that meets one makes an empty
file beside the ledger, ``.NAME.lock``, which only those can open who may write to the ledger, and notes it in an
attribute of the ledger's inode.  From then on every writer locks **that** file first, and then no longer waits for
those who only read:

* A writer without the note takes the write lock and *then* looks for the note; who makes the note does so *before* it
  looks for a write lock.  So of two such writers at least one sees the other.
* The note is found through every name and mount of the ledger.  A writer that finds the note and not that very file
  beside the ledger does not write (``LedgerUnavailable``).
* A copy is another inode: the note, should the copy have one, says so and is void.

Where the system has no such locks ``flock`` takes their place, which readers can hold.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from contextlib import suppress
from pathlib import Path

from privpac.errors import LedgerUnavailable

__all__ = ["FileLock", "reader_in_the_way", "try_lock", "unlock"]

_NOTE = "user.privpac.lock"
_FLOCK = "@hhqqi"  # type, whence, start, length, process
_BYTE = 1 << 62
_OWN_KIND = hasattr(fcntl, "F_OFD_SETLK")


def _lock(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, _BYTE, 1, 0)


def try_lock(handle: int) -> bool:
    """Take the write lock of an open file, if nothing is in the way."""
    try:
        if _OWN_KIND:
            fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _lock(fcntl.F_WRLCK))
        else:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def unlock(handle: int) -> None:
    if _OWN_KIND:
        fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _lock(fcntl.F_UNLCK))
    else:
        fcntl.flock(handle, fcntl.LOCK_UN)


def reader_in_the_way(handle: int) -> bool:
    """Whether what keeps the write lock from us is a read lock."""
    if not _OWN_KIND:
        return False
    found = fcntl.fcntl(handle, fcntl.F_OFD_GETLK, _lock(fcntl.F_WRLCK))
    return bool(struct.unpack(_FLOCK, found)[0] == fcntl.F_RDLCK)


class FileLock:
    """The lock of the ledger that ``handle`` has open, for writing, under ``path``."""

    def __init__(self, handle: int, path: Path) -> None:
        self._handle, self._path = handle, path
        self._companion = -1

    @property
    def _beside(self) -> Path:
        found = Path(os.path.realpath(self._path))
        return found.with_name(f".{found.name}.lock")

    def acquire(self) -> bool:
        """Try once; False: try again later."""
        noted = self._note()
        if noted is None:
            if try_lock(self._handle):
                if self._note(forget=True) is None:
                    return True
                unlock(self._handle)
            elif reader_in_the_way(self._handle):
                self._make_companion()
            return False
        self._companion = self._open_companion(noted)
        if try_lock(self._companion) and (try_lock(self._handle) or reader_in_the_way(self._handle)):
            return True
        self.close()
        return False

    def release(self) -> None:
        unlock(self._handle)
        if self._companion >= 0:
            unlock(self._companion)

    def close(self) -> None:
        """Forget the descriptor beside; what this process alone had locked with it is free."""
        if self._companion >= 0:
            os.close(self._companion)
            self._companion = -1

    def _note(self, *, forget: bool = False) -> int | None:
        """The inode of the file beside, if one was ever made for this very ledger.

        Who has the lock may ``forget`` the note of the file that this one is a copy of.
        """
        try:
            mine, beside = map(int, os.getxattr(self._handle, _NOTE).split())
        except (OSError, AttributeError, ValueError):
            return None
        if mine == os.fstat(self._handle).st_ino:
            return beside
        if forget:
            with suppress(OSError):
                os.removexattr(self._handle, _NOTE)
        return None

    def _open_companion(self, noted: int) -> int:
        handle = -1
        with suppress(OSError):
            handle = os.open(self._beside, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        if handle >= 0 and os.fstat(handle).st_ino == noted:
            return handle
        if handle >= 0:
            os.close(handle)
        raise LedgerUnavailable(
            f"the lock of this ledger, {self._beside.name!r}, is not beside it or may not be written to; bring it "
            "along (mount the folder, not the file alone), or go on with a copy of the ledger"
        )

    def _make_companion(self) -> None:
        """An empty file for those who may write to the ledger, and the note of it; nothing where that is refused."""
        ledger = os.fstat(self._handle)
        rights = stat.S_IRUSR | stat.S_IWUSR
        for write, both in ((stat.S_IWGRP, 0o060), (stat.S_IWOTH, 0o006)):
            rights |= both if ledger.st_mode & write else 0
        with suppress(OSError, AttributeError):
            handle = os.open(self._beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                with suppress(OSError):  # it is somebody else's who may write as well
                    os.fchmod(handle, rights)
                    os.fchown(handle, ledger.st_uid, ledger.st_gid)
                text = f"{ledger.st_ino} {os.fstat(handle).st_ino}"
                os.setxattr(self._handle, _NOTE, text.encode(), os.XATTR_CREATE)
            finally:
                os.close(handle)
