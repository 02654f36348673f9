"""The file of a ledger: lines that are only ever added, in one file that holds everything.

The first 512 bytes are the **seal**: how many lines there are, where they end, the hash of the last, where the last
checkpoint stands, and a checksum.  Then come the lines, one for each transaction, each with a SHA-256 over the hash
before it and its own text.  A transaction locks the file, reads what others added, appends its line (and before it, if
it is time, a checkpoint), **syncs**, renews the seal, and reads lines and seal back through a fresh descriptor of the
same name.

Why nothing that was acknowledged is ever lost:

* There is no journal, no log and no index beside the file, so a copy or a rename of the file alone takes everything
  along.
* The line is on disk before anybody is told, and before the seal speaks of it, so every line under the seal is
  complete: a cut or changed byte there is damage and refused (``LedgerCorrupt``), never read as a smaller total.
* The seal is in the file before anybody is told, and on disk with the next line at the latest (a second sync would
  double the price of a spend).  So a kill leaves behind the seal only what was never acknowledged, a power loss or a
  copy made during a spend at most whole lines that were, and the beginning of one that was not.  Whole lines count.
  What an interrupted write leaves is dropped: the beginning of a line, or one with sectors that were never written.
  **Anything else behind the seal may be a damaged line that was acknowledged, and is refused.**
* A file with several names, or a name that leads to another file than before, is not written to.

Who may write takes turns (:mod:`privpac.ledger.lock`).  Reading needs no lock: lines under the seal never change.  Who
may only read takes none, and sees what is under the seal.  Nothing stays open between transactions.  Local file systems
only.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from privpac.errors import LedgerBusy, LedgerCorrupt, LedgerUnavailable, ParameterError
from privpac.ledger.lines import FIRST, START, Reading, Seal, chained, read_seal
from privpac.ledger.lock import FileLock, reader_in_the_way
from privpac.ledger.making import is_draft, write_at
from privpac.ledger.rows import Spend
from privpac.ledger.state import DAMAGE, LedgerState
from privpac.ledger.state import READING as _reading

__all__ = ["LedgerFile", "Turn"]

_WENT_BACK = "does not continue what was read before: it was changed, or an older copy was put in its place"
_NO_SEAL = "is no intact privpac ledger: its first 512 bytes are not the seal of one"
_SECTOR, _ENOUGH = 512, 32  # fewer zeros than that could be damage
_BEGINNING = re.compile(rb"[0-9a-f]{0,64}|[0-9a-f]{64} (\[[ -~]*)?")  # of a line
_PART = 1 << 20  # bytes that are read at once

# A fork waits until no transaction is under way and no state is being read, so that a child inherits neither a lock nor
# half a state.
_gate = threading.RLock()


def _before_fork() -> None:
    _gate.acquire()
    _reading.acquire()


def _after_fork() -> None:
    _reading.release()
    _gate.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _read(handle: int, at: int, end: int) -> bytes:
    parts = []
    while at < end and (part := os.pread(handle, min(end - at, 1 << 24), at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _sync(handle: int) -> None:
    """Return after the disk has the data and the length of the file."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # where fsync only hands the data to the drive
        fcntl.fcntl(handle, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(handle)


# Using a file


class LedgerFile:
    """Transactions on one ledger file; threads may share it, and after a fork each process goes on with it."""

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
            raise TypeError(f"path must be text or a Path, got {type(path).__name__}")
        if not os.fspath(path) or "\0" in os.fspath(path):
            raise ParameterError("path must name a file, got an empty name or one with a zero byte")
        self.path = Path(os.path.abspath(path))
        self.timeout = timeout
        self._identity: tuple[int, int] | None = None
        self._seen: Reading | None = None
        self._mark = START, FIRST  # the furthest end and head that were seen: no later reading may be without them
        self._closed = False

    @property
    def name(self) -> str:
        return repr(self.path.name)

    def close(self) -> None:
        self._closed, self._seen = True, None

    # Reading and writing

    @contextmanager
    def reading(self, visit: Callable[[str, Spend | None], None] | None = None) -> Iterator[LedgerState]:
        """What is on disk; waits for no writer.  With ``visit`` everything is read again from the first line on, and
        every head on the way told, with its spend."""
        with _reading:
            with self._translated(), self._opened(os.O_RDWR, os.O_RDONLY) as handle:
                state = self._current(handle, visit=visit).state
            yield state

    def fetch(self, at: int, end: int) -> bytes:
        """Bytes of lines that were read before."""
        with self._translated(), self._opened(os.O_RDONLY) as handle:
            return _read(handle, at, end)

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """The only writer until the block ends; ``Turn.write`` is what makes it count."""
        with _gate, self._locked() as handle:
            with _reading, self._translated():
                seen = self._current(handle, mine=True)
            yield Turn(self, handle, seen)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        deadline, owner = time.monotonic() + self.timeout, os.getpid()
        while True:
            with ExitStack() as stack:
                with self._translated():
                    handle = stack.enter_context(self._opened(os.O_RDWR))
                    lock = FileLock(handle, self.path)
                    stack.callback(lock.close)
                    self._wait(handle, lock, deadline)
                    still = self._still(handle)
                if still:
                    yield handle
                    # In a child of a fork inside the block the lock is the parent's: closing leaves it, unlocking would
                    # not.
                    if os.getpid() == owner:
                        lock.release()
                    return
            if time.monotonic() >= deadline:
                raise LedgerUnavailable(f"{self.name} is moved or replaced all the time; nothing may be released")

    def _wait(self, handle: int, lock: FileLock, deadline: float) -> None:
        pause = 0.0005
        while not lock.acquire():
            if time.monotonic() >= deadline:
                raise self._busy(handle)
            time.sleep(pause)
            pause = min(2 * pause, 0.001)  # a holder is done after a sync or two

    def _busy(self, handle: int) -> LedgerBusy:
        if reader_in_the_way(handle):
            return LedgerBusy(
                f"a process that only reads the ledger {self.name} holds a lock on it, and no lock file can be made "
                "beside it; stop that process, and take the right to read from those who may not write (chmod 600)"
            )
        return LedgerBusy(f"another process holds the ledger {self.name}; try again, or raise timeout")

    @contextmanager
    def _opened(self, *modes: int) -> Iterator[int]:
        """A fresh descriptor; the first mode that is allowed."""
        if self._closed:
            raise LedgerUnavailable("this ledger object is closed; open the file again with BudgetLedger.open")
        handle = self._open(*modes)
        try:
            found = os.fstat(handle)
            if self._identity is None:
                self._identity = found.st_dev, found.st_ino
            elif self._identity != (found.st_dev, found.st_ino):
                raise LedgerUnavailable(
                    f"{self.name} is another file than the one that was opened; open it again with BudgetLedger.open"
                )
            yield handle
        finally:
            if handle >= 0:
                os.close(handle)

    def _open(self, *modes: int) -> int:
        try:
            if not stat.S_ISREG(os.stat(self.path).st_mode):
                raise LedgerUnavailable(f"{self.name} is not a regular file; name the ledger's own file")
            for mode in modes:
                try:
                    return os.open(self.path, mode | os.O_CLOEXEC | os.O_NONBLOCK)
                except OSError as error:
                    if mode == modes[-1] or error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                        raise
        except FileNotFoundError:
            raise LedgerUnavailable(
                f"there is no ledger {self.name}; make one on purpose with BudgetLedger.create"
            ) from None
        except OSError as error:
            raise LedgerUnavailable(
                f"the ledger {self.name} cannot be opened: {error.strerror}; nothing may be released"
            ) from None
        raise AssertionError

    def _still(self, handle: int) -> bool:
        """Whether the name still leads to this file, and no other name does."""
        mine = os.fstat(handle)
        if mine.st_nlink > 1 and self._forget_drafts(mine):
            mine = os.fstat(handle)
        if mine.st_nlink > 1:
            raise LedgerUnavailable(
                f"{self.name} has {mine.st_nlink} names (hard links); keep one: a ledger with several is not written to"
            )
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)

    def _forget_drafts(self, mine: os.stat_result) -> bool:
        """Remove the passing name of a ledger whose maker was killed before it could; who holds the lock knows that
        nobody is at it."""
        found = [name for name in os.listdir(self.path.parent) if is_draft(name, self.path.name)]
        drafts = [self.path.parent / name for name in found]
        same = [draft for draft in drafts if os.path.samestat(os.lstat(draft), mine)]
        for draft in same:
            os.unlink(draft)
        return bool(same)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """What the system refuses, as the ledger's own error in one line."""
        try:
            yield
        except OSError as error:
            self._seen = None
            raise LedgerUnavailable(
                f"the ledger {self.name} cannot be used ({error.strerror}); nothing may be released"
            ) from None

    def corrupt(self, what: str) -> LedgerCorrupt:
        return LedgerCorrupt(f"{self.name} {what}; do not use this ledger")

    # What is on disk

    def _current(
        self, handle: int, *, mine: bool = False, visit: Callable[[str, Spend | None], None] | None = None
    ) -> Reading:
        """The file as it is now; ``mine`` says that this process holds the lock."""
        try:
            seal = read_seal(os.pread(handle, START, 0))
        except ValueError:
            if mine:
                raise self.corrupt(_NO_SEAL) from None
            seal = self._half_sealed(handle)
        size = os.fstat(handle).st_size
        if size != seal.end and not mine and _writable(handle):
            # Behind the seal is a writer at work, which seals when it is done, or what a crash left: if the lock is
            # free, the second.
            with self._attempt(handle) as free:
                if free:
                    return self._current(handle, mine=True, visit=visit)
        try:
            seen = self._begun(seal, visit)
            self._catch_up(handle, seen, seal)
            if mine and size != seal.end:
                self._extend(handle, seen, size)
                self._settle(handle, seen, size)
        except BaseException:
            self._seen = None
            raise
        self._mark = max(self._mark, (seen.end, seen.head))
        if visit is None:
            self._seen = seen
        return seen

    def _begun(self, seal: Seal, visit: Callable[[str, Spend | None], None] | None) -> Reading:
        """Where reading goes on: where it ended, at a checkpoint, or at the first line."""
        if visit is None and self._seen is not None:
            return self._seen
        if visit is not None or seal.checkpoint == (0, 0):
            return Reading(self, self._mark, visit)
        try:
            return Reading.resumed(self, seal.checkpoint, self._mark)
        except DAMAGE:
            raise self.corrupt("is cut or damaged at its last checkpoint") from None

    @contextmanager
    def _attempt(self, handle: int) -> Iterator[bool]:
        """The lock, if it is free at once."""
        lock = FileLock(handle, self.path)
        try:
            free = lock.acquire()
            yield free
            if free:
                lock.release()
        finally:
            lock.close()

    def _half_sealed(self, handle: int) -> Seal:
        """A seal that is being renewed may be seen half: look again until it is whole, or nobody is at it.

        A lock that another thread of this process holds is not waited for: that thread may be waiting for this one.
        """
        deadline = time.monotonic() + self.timeout
        while True:
            with self._attempt(handle) if _writable(handle) else nullcontext(False) as free:
                with suppress(ValueError):
                    return read_seal(os.pread(handle, START, 0))
                if free:
                    raise self.corrupt(_NO_SEAL)
            if time.monotonic() >= deadline:
                raise self._busy(handle) if _writable(handle) else self.corrupt(_NO_SEAL)
            time.sleep(0.0005)

    def _catch_up(self, handle: int, seen: Reading, seal: Seal) -> None:
        """Read what the seal speaks of; all of it must be there, and nothing that was seen before may be missing."""
        if not self._unchanged(handle, seen):
            raise self.corrupt(_WENT_BACK)
        if seen.end <= seal.end:
            self._extend(handle, seen, seal.end)
            if (seen.lines, seen.end, seen.head) != seal[:3] or not seal.lines:
                raise self.corrupt(f"is cut or damaged at line {seen.lines + 1}")
            if not seen.passed:
                raise self.corrupt(_WENT_BACK)

    def _unchanged(self, handle: int, seen: Reading) -> bool:
        """Whether the last line that was read is still where it was."""
        line = _read(handle, seen.begin, seen.end)
        return seen.end == START or (
            line[:64].decode("ascii", "replace") == seen.head == chained(seen.before, line[65:-1])
        )

    def _extend(self, handle: int, seen: Reading, end: int) -> None:
        """Read whole lines up to ``end``, as far as their hashes are right."""
        data, at = b"", 0
        while True:
            stop = data.find(b"\n", at) + 1
            if not stop:
                more = _read(handle, seen.end + len(data) - at, min(end, seen.end + len(data) - at + _PART))
                if not more:
                    return
                data, at = data[at:] + more, 0
                continue
            try:
                if not seen.take(data[at:stop]):
                    return
            except DAMAGE:
                raise self.corrupt(f"breaks its own rules at line {seen.lines + 1}") from None
            at = stop

    def _settle(self, handle: int, seen: Reading, size: int) -> None:
        """What a crash left: whole lines are synced and sealed, an interrupted write dropped, anything else refused."""
        rest = _read(handle, seen.end, size)
        if not _interrupted(rest, seen.end):
            raise self.corrupt(
                f"has damage in line {seen.lines + 1}, behind its seal, where a paid spend or answer may stand; put an "
                "intact copy in its place, or count its budget as spent"
            )
        os.fsync(handle)
        with suppress(OSError):  # a file that may only be read stays as it is
            os.ftruncate(handle, seen.end)
            write_at(handle, bytes(seen.seal()), 0)


def _interrupted(rest: bytes, at: int) -> bool:
    """Whether these bytes at this place, behind the last whole line, are what a write leaves that did not come to its
    end.

    A kill leaves the beginning of what was written; a power loss may leave sectors that were never written, which are
    zeros (and no line has a zero).  So a line with its end and without such a sector was written whole and changed
    later, and so were bytes that no line has, and a whole text with something behind it that is not a line's end.
    """
    edges = [at, *range(at - at % _SECTOR + _SECTOR, at + len(rest), _SECTOR), at + len(rest)]
    parts = (rest[start - at : stop - at] for start, stop in pairwise(edges))
    if any(len(part) >= _ENOUGH and not any(part) for part in parts):
        return True
    if not _BEGINNING.fullmatch(rest):
        return False
    try:
        json.loads(rest[65:-1])
    except (ValueError, RecursionError):
        return True
    return False


def _writable(handle: int) -> bool:
    return fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDWR


class Turn:
    """One transaction: the state under the lock, and at most one line."""

    def __init__(self, file: LedgerFile, handle: int, seen: Reading) -> None:
        self._file, self._handle, self._seen, self._pid = file, handle, seen, os.getpid()
        self.state = seen.state

    def write(self, *entry: Any) -> None:
        """Add a line; returns after the disk has it and a fresh look at the name has found it."""
        file, handle, seen = self._file, self._handle, self._seen
        if self._pid != os.getpid():
            raise LedgerUnavailable("a transaction belongs to the process that began it; nothing was written")
        if not file._still(handle):
            raise LedgerUnavailable(f"{file.name} was moved or replaced just now; nothing was written")
        lines, start = seen.lines_for(entry), seen.end
        try:
            with file._translated():
                self._commit(lines)
                self._confirm(b"".join(lines), start)
        except BaseException as error:
            file._seen = None
            if isinstance(error, LedgerUnavailable):
                error.uncertain = True
            raise
        file._mark = seen.end, seen.head

    def _commit(self, lines: list[bytes]) -> None:
        try:
            write_at(self._handle, b"".join(lines), self._seen.end)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self._handle, self._seen.end)
            raise
        _sync(self._handle)
        with _reading:
            if not all(self._seen.take(line) for line in lines):
                raise AssertionError
            write_at(self._handle, bytes(self._seen.seal()), 0)

    def _confirm(self, written: bytes, start: int) -> None:
        file, seen = self._file, self._seen
        with file._opened(os.O_RDONLY) as fresh:
            found = os.pread(fresh, START, 0), _read(fresh, start, start + len(written))
            if not file._still(fresh) or found != (bytes(seen.seal()), written):
                raise LedgerUnavailable(
                    f"{file.name} was moved or replaced while it was written to; nothing may be released"
                )
