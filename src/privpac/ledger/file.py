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

Who may write takes turns (:mod:`privpac.ledger.file`).  Reading needs no lock: lines under the seal never change.  Who
may only read takes none, and sees what is under the seal.  Nothing stays open between transactions.  Local file systems
only.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import stat
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from attrs import frozen

from privpac.errors import LedgerBusy, LedgerCorrupt, LedgerUnavailable, ParameterError
from privpac.files import sync_directory
from privpac.ledger.records import (
    DAMAGE,
    FIRST,
    RECORD_LIMIT,
    START,
    LedgerState,
    Place,
    Source,
    Spend,
    chained,
    read_checkpoint,
)
from privpac.ledger.records import READING as _reading

# One writer at a time, and nobody who may only read can keep writers out.
#
# The lock is a **write lock** (of an open file description) on one byte far behind the end of the file.  It belongs to
# the file itself, so links, mounts and renames share it; the system gives it only to those who may write; it ends with
# the descriptor, so no kill leaves it behind.  Locks of other kinds, such as ``flock``, do not touch it.
#
# One thing can be in its way that needs no more than the right to read: a *read* lock on the same byte.  The ledger's
# own code never takes one, and the system says which kind stands in the way.  The first writer that meets one makes an
# empty file beside the ledger, ``.NAME.lock``, which only those can open who may write to the ledger, and notes it in
# an attribute of the ledger's inode.  From then on every writer locks **that** file first, and then no longer waits for
# those who only read:
#
# * A writer without the note takes the write lock and *then* looks for the note; who makes the note does so *before* it
#   looks for a write lock.  So of two such writers at least one sees the other.
# * The note is found through every name and mount of the ledger.  A writer that finds the note and not that very file
#   beside the ledger does not write (``LedgerUnavailable``).
# * A copy is another inode: the note, should the copy have one, says so and is void.
#
# Where the system has no such locks ``flock`` takes their place, which readers can hold.


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


# Seal and lines: the two things a ledger's file is made of.


MAGIC = b"privpac ledger 2\n"
CHECKPOINT_EVERY = 1024
"""Spends and answers between two checkpoints: what a process that opens the ledger reads one by one."""


class Seal(NamedTuple):
    """The first sector: what the file holds at least, and where its last checkpoint stands (0, 0: nowhere)."""

    lines: int
    end: int
    head: str
    checkpoint: tuple[int, int] = (0, 0)

    def __bytes__(self) -> bytes:
        more = "".join(f" {place:020d}" for place in self.checkpoint if place)
        body = MAGIC + f"{self.lines:020d} {self.end:020d} {self.head}{more}\n".encode()
        text = body + hashlib.sha256(body).hexdigest().encode()
        return text.ljust(START - 1) + b"\n"


def read_seal(data: bytes) -> Seal:
    """``ValueError`` for anything but a seal."""
    if not data.startswith(MAGIC):
        raise ValueError
    lines, end, head, *places = data[len(MAGIC) :].split(b"\n")[0].decode("ascii").split(" ")
    at, stop = map(int, places or (0, 0))
    found = Seal(int(lines), int(end), head, (at, stop))
    if bytes(found) != data or not (places == [] or START < at < stop <= found.end):
        raise ValueError
    return found


def as_line(head: str, entry: object) -> tuple[str, bytes]:
    """The new head and the bytes of a line."""
    text = json.dumps(entry, separators=(",", ":")).encode()
    digest = chained(head, text)
    return digest, digest.encode() + b" " + text + b"\n"


class Reading:
    """How far a file was read: the state, and the place, number and hash of the last line."""

    def __init__(
        self,
        source: Source,
        passes: tuple[int, str] = (START, FIRST),
        visit: Callable[[str, Spend | None], None] | None = None,
    ) -> None:
        self.state = LedgerState(source, visit)
        self.lines, self.begin, self.end, self.head, self.before = 0, START, START, FIRST, FIRST
        self._settings: Place = (START, START, FIRST)
        self._checkpoint: Place | None = None
        self._passes, self.passed = passes, passes == (self.end, self.head)  # an end and a head that were seen before

    @classmethod
    def resumed(cls, source: Source, place: tuple[int, int], passes: tuple[int, str]) -> Reading:
        """A reading that begins at the checkpoint at this place, or at an earlier one if ``passes`` is before it.

        One of ``DAMAGE`` is raised if the checkpoint is none.
        """
        self = cls(source, passes)
        while True:
            at, end = place
            line = source.fetch(at, end)
            body = read_checkpoint(line, at)
            if len(line) != end - at or not line.endswith(b"\n"):
                raise ValueError
            if passes == (START, FIRST) or end <= passes[0]:
                break
            if body["previous"] is None:
                return self  # what was seen is before the first checkpoint
            *earlier, digest = body["previous"]
            if (
                not START < earlier[0] < earlier[1] <= at
                or source.fetch(earlier[0], earlier[0] + 64) != digest.encode()
            ):
                raise ValueError
            place = earlier[0], earlier[1]
        self._settings = START, *body["settings"]
        first = source.fetch(*self._settings[:2])
        kind, meta = json.loads(first[65:-1])
        if kind != "settings" or not self._settings[2] == chained(FIRST, first[65:-1]) == first[:64].decode("ascii"):
            raise ValueError
        self.state.agree(meta)
        digest = line[:64].decode("ascii")
        self.lines, self.begin, self.end, self.head, self.before = body["lines"] + 1, at, end, digest, body["before"]
        self._checkpoint = at, end, digest
        self.state.resume(self._checkpoint, body)
        self.passed |= self._passes in ((end, digest), (START, FIRST))
        return self

    def take(self, line: bytes) -> bool:
        """Read one more line; False if its hash is not its own, one of ``DAMAGE`` if it breaks a rule."""
        digest, space, text = line[:64].decode("ascii", "replace"), line[64:65], line[65:-1]
        if space != b" " or not line.endswith(b"\n") or digest != chained(self.head, text):
            return False
        place = self.end, self.end + len(line), digest
        if text.startswith(b'["checkpoint"'):
            entry = self._checkpoint_entry()
            if json.dumps(entry, separators=(",", ":")).encode() != text:
                raise ValueError
            self._checkpoint = place
            self.state.pass_checkpoint(place, entry[1])
        else:
            self.state.take(json.loads(text), self.end, line)
        if self.lines == 0:
            self._settings = place
        self.lines, self.begin, self.end = self.lines + 1, *place[:2]
        self.before, self.head = self.head, digest
        self.passed |= self._passes == (self.end, self.head)
        return True

    def lines_for(self, entry: object) -> list[bytes]:
        """The line that adds this entry, behind a checkpoint if it is time for one."""
        if self.state.recent < CHECKPOINT_EVERY or self.end >= RECORD_LIMIT:
            return [as_line(self.head, entry)[1]]
        head, checkpoint = as_line(self.head, self._checkpoint_entry())
        return [checkpoint, as_line(head, entry)[1]]

    def _checkpoint_entry(self) -> list[Any]:
        body = {"lines": self.lines, "at": self.end, "before": self.head, "settings": self._settings[1:]}
        return ["checkpoint", {**body, "previous": self._checkpoint, **self.state.summary()}]

    def seal(self) -> Seal:
        return Seal(self.lines, self.end, self.head, self._checkpoint[:2] if self._checkpoint else (0, 0))


# Making a ledger's file: written whole under a passing name, then given its own.


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


@frozen(slots=False)
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
                f"there is no ledger {self.name}; make one with BudgetLedger.create({str(self.path)!r}, epsilon=3, "
                f'dataset="NAME"), or: privpac ledger new {self.path} --epsilon 3 --dataset NAME'
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
