"""Ledgers of the first format, brought over once: a SQLite file with its write-ahead log becomes lines.

Under the file's lock the log is merged into the database, which SQLite refuses while another program has it open; then
everything is read and checked, written as lines to a draft, and the draft is put in the place of the file.  Nothing is
lost: the draft must have the same heads, of the spends and of every session, as the database, and heads published
before stay good.  Before the draft takes the place the database is marked, so that a program of the first format that
comes in between refuses it.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from privpac.errors import LedgerBusy, LedgerCorrupt, LedgerUnavailable
from privpac.ledger.lock import try_lock
from privpac.ledger.making import draft_file
from privpac.ledger.rows import genesis
from privpac.ledger.state import LedgerState
from privpac.released_write import sync_directory

__all__ = ["convert"]

_APPLICATION, _VERSION, _MARKED = 0x70706C31, 1, 2
_OPEN_ELSEWHERE = "the ledger {!r} has the first format and another program has it open; stop that, then try again"


def convert(path: Path, timeout: float) -> None:
    """Bring the ledger at ``path`` over; a database that is not a ledger is left as it is (``LedgerCorrupt``)."""
    with _held(path, timeout) as mode:
        if mode is None:  # another process was faster
            return
        with (
            _refused(path),
            closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=timeout, isolation_level=None)) as db,
        ):
            if db.execute("PRAGMA journal_mode=DELETE").fetchone() != (
                "delete",
            ):  # merges the log, unless another connection is open
                raise LedgerBusy(_OPEN_ELSEWHERE.format(path.name))
            db.execute("PRAGMA synchronous=EXTRA")
            db.execute("BEGIN EXCLUSIVE")
            entries = _entries(db)
            db.execute(f"PRAGMA user_version={_MARKED}")
            db.execute("COMMIT")
        try:
            with draft_file(path, entries) as (draft, handle):
                os.fchmod(handle, mode)
                os.replace(draft, path)
                sync_directory(path.parent)
        except OSError as error:
            raise LedgerUnavailable(
                f"the ledger {path.name!r} has the first format and cannot be rewritten in its place "
                f"({error.strerror}); "
                "open it once in its own, writable folder"
            ) from None
        for ending in ("-shm", "-wal", "-journal"):
            with suppress(OSError):
                os.unlink(f"{path}{ending}")


@contextmanager
def _held(path: Path, timeout: float) -> Iterator[int | None]:
    """The database's lock of this version; its permissions, or None if it is none any more."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        _wait(handle, path, timeout)
        mine, found = os.fstat(handle), os.stat(path)
        head = os.pread(handle, 100, 0)
        if (mine.st_dev, mine.st_ino) != (found.st_dev, found.st_ino):
            yield None
            return
        numbers = tuple(int.from_bytes(head[at : at + 4], "big") for at in (68, 60))
        if len(head) < 100 or numbers not in ((_APPLICATION, _VERSION), (_APPLICATION, _MARKED)):
            raise LedgerCorrupt(f"{path.name!r} is not a privpac ledger; it was left as it is")
        if mine.st_nlink > 1:
            raise LedgerUnavailable(
                f"{path.name!r} has {mine.st_nlink} names (hard links); keep one, then open it again"
            )
        yield stat.S_IMODE(mine.st_mode)
    finally:
        os.close(handle)


def _wait(handle: int, path: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not try_lock(handle):
        if time.monotonic() >= deadline:
            raise LedgerBusy(f"another process holds the ledger {path.name!r}; try again, or raise timeout")
        time.sleep(0.005)


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """SQLite's errors as the ledger's own, in one line."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise LedgerBusy(_OPEN_ELSEWHERE.format(path.name)) from None
        if code in (
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_FULL,
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_PERM,
        ):
            raise LedgerUnavailable(
                f"the ledger {path.name!r} has the first format and cannot be rewritten ({error})"
            ) from None
        raise LedgerCorrupt(f"{path.name!r} is not an intact privpac ledger; do not use it") from None
    except (
        ValueError,
        TypeError,
        KeyError,
        ArithmeticError,
        OverflowError,
    ):  # texts that are none, rules that are broken
        raise LedgerCorrupt(f"the rows of {path.name!r} were changed; do not use this ledger") from None


def _entries(db: sqlite3.Connection) -> list[Any]:
    """The lines that say what the tables said; ``ValueError`` and the like unless both have the same hashes
    throughout."""
    if db.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
        raise ValueError
    meta = dict(db.execute("SELECT key, value FROM meta"))
    if meta.pop("genesis", None) != genesis(meta):
        raise ValueError
    entries: list[Any] = [["settings", meta]]
    state = LedgerState()
    state.take(entries[0])
    columns = "seq, spend_id, label, eps, delta, rho, cum_eps, cum_delta, cum_rho, at, prev, hash"
    for row in db.execute(f"SELECT {columns} FROM spend ORDER BY seq"):
        entries.append(["spend", *row[1:6], row[9]])
        state.take(entries[-1])
        if state.last is None or state.last.row() != row:
            raise ValueError
    if db.execute("SELECT COUNT(*) FROM sqlite_master WHERE name IN ('session', 'query')").fetchone()[0]:
        for entry in _sessions(db, state):
            entries.append(entry)
    return entries


def _sessions(db: sqlite3.Connection, state: LedgerState) -> Iterator[Any]:
    count = 0
    for session_id, spend_id, queries, at, digest in db.execute(
        "SELECT session_id, spend_id, queries, at, hash FROM session"
    ).fetchall():
        entry: list[Any] = ["session", session_id, queries, at]
        state.take(entry)
        session = state.sessions[session_id]
        if spend_id != session_id or session.hash != digest:
            raise ValueError
        yield entry
        columns = "number, digest, answer, key, at, hash"
        rows = db.execute(f"SELECT {columns} FROM query WHERE session_id = ? ORDER BY number", (session_id,)).fetchall()
        for moment, group in groupby(rows, key=lambda row: row[4]):
            answers = list(group)
            entry = ["answers", session_id, moment, [[row[1], row[2], row[3]] for row in answers]]
            state.take(entry)
            if (session.count, session.head) != (answers[-1][0], answers[-1][5]):
                raise ValueError
            yield entry
        count += len(rows)
    if count != db.execute("SELECT COUNT(*) FROM query").fetchone()[0]:
        raise ValueError
