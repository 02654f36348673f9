"""Private folders that do not outlive their use: spilled rows, tables that were handed to the studio.

A folder has mode 0700, a name of its own, and a lock that is held as long as it is in use.  It is removed with its
object, on errors and at the end of the process.  A process that is killed removes nothing; so whoever makes the next
folder of the same kind in the same place first removes those whose lock nobody holds.  Only folders of the same user
with mode 0700 are looked at, by their handles: no link is followed on the way.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path

_LOCK = "lock"
_YOUNG = 60.0
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class PrivateFolder:
    """A folder that vanishes with this object, this process, or at the next start; ``OSError`` if none can be made.

    ``lock`` is the handle of its lock: a child process that inherits it keeps the folder from being swept.
    """

    def __init__(self, prefix: str, place: str | os.PathLike[str]) -> None:
        _sweep(os.fspath(place), prefix)
        path, self.lock = _make(os.fspath(place), prefix)
        self.path = Path(path)
        self.remove = weakref.finalize(self, _remove, path, self.lock, os.getpid())


def _make(place: str, prefix: str) -> tuple[str, int]:
    while True:
        path = tempfile.mkdtemp(prefix=prefix, dir=place)  # mode 0700
        try:
            lock = os.open(os.path.join(path, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            if os.path.isdir(place):
                continue  # swept between the two lines
            raise
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(os.path.join(path, _LOCK)):
                return path, lock
        os.close(lock)


def _remove(path: str, lock: int, owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked child leaves its parent's folder alone
    with suppress(OSError):
        folder = os.open(path, _FOLDER)
        try:
            _clear(path, folder)
        finally:
            os.close(folder)
    with suppress(OSError):
        os.close(lock)


def _clear(path: str, folder: int) -> None:
    """The rows first and the lock last: of what a kill leaves here the next start still knows that nobody uses it."""
    for name in set(os.listdir(folder)) - {_LOCK}:
        try:
            os.unlink(name, dir_fd=folder)
        except OSError:  # a folder, which nobody of ours makes
            shutil.rmtree(name, ignore_errors=True, dir_fd=folder)
    os.unlink(_LOCK, dir_fd=folder)
    os.rmdir(path)


def _sweep(place: str, prefix: str) -> None:
    """Remove folders of this kind that nobody uses."""
    names: list[str] = []
    with suppress(OSError):
        names = [name for name in os.listdir(place) if name.startswith(prefix)]
    for name in names:
        with suppress(OSError):
            _sweep_one(os.path.join(place, name))


def _sweep_one(path: str) -> None:
    folder = os.open(path, _FOLDER)
    try:
        found = os.fstat(folder)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700:
            return
        try:
            lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except FileNotFoundError:
            if time.time() - found.st_mtime > _YOUNG:  # else it may be about to get one
                os.rmdir(path)
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while somebody holds it
            _clear(path, folder)
        finally:
            os.close(lock)
    finally:
        os.close(folder)
