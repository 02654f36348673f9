"""The file of a ledger: append-only rows that survive a crash, a second process and a fork.

SQLite with a write-ahead log.  Every connection syncs each commit (``synchronous=FULL``; in this mode ``NORMAL`` would
not) and checks the file's identity and schema before anything else.  A writer takes the lock *before* it reads the
total, so two processes cannot both see room for the last spend.  Triggers refuse UPDATE, DELETE and REPLACE; rows are
chained by SHA-256 over length-prefixed fields, from a genesis hash of the settings.  Local file systems only.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import secrets
import sqlite3
import stat
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from privpac.errors import DuplicateSpend, LedgerBusy, LedgerCorrupt, LedgerUnavailable, ParameterError
from privpac.guarantee import Guarantee
from privpac.released import sync_directory

__all__ = ["Balance", "LedgerFile", "Receipt", "Spend", "chain_hash", "genesis", "make_file", "now", "plain_text", "read_number", "seconds"]


@dataclass(frozen=True)
class Spend:
    """One row of the ledger; ``rho`` and ``cum_rho`` are ``None`` under the basic rule."""

    seq: int
    spend_id: str
    label: str
    eps: Fraction
    delta: Fraction
    rho: Fraction | None
    cum_eps: Fraction
    cum_delta: Fraction
    cum_rho: Fraction | None
    at: str
    prev: str
    hash: str = ""

    def row(self) -> tuple[int | str, ...]:
        """As stored: the number of the row, then texts."""
        rest = (getattr(self, name) for name in COLUMNS[1:])
        return (self.seq, *("" if value is None else str(value) for value in rest))

    def digest(self) -> str:
        """What ``hash`` must be; it covers every other field, the previous hash included."""
        return chain_hash(*map(str, self.row()[:-1]))


@dataclass(frozen=True)
class Balance:
    """The most that one further spend may cost; under ``zcdp`` a spend with its own ``rho`` is judged by ``rho`` alone."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None = None

    def __str__(self) -> str:
        zcdp = "" if self.rho is None else f", rho {_floor(self.rho)}"
        return f"({_floor(self.epsilon)}, {_floor(self.delta)}){zcdp}"


class Receipt:
    """Proof of one payment: good for one release, in the process that paid."""

    def __init__(self, spend: Spend, guarantee: Guarantee) -> None:
        self._spend, self._guarantee = spend, guarantee
        self._pid, self._unused = os.getpid(), [True]

    @property
    def spend_id(self) -> str:
        return self._spend.spend_id

    @property
    def spend(self) -> Spend:
        return self._spend

    @property
    def guarantee(self) -> Guarantee:
        return self._guarantee

    def use(self) -> None:
        """Turn the payment into one release; ``DuplicateSpend`` the second time or in another process."""
        if self._pid != os.getpid():
            raise DuplicateSpend("this receipt belongs to another process, which may have used it; spend again here")
        try:
            self._unused.pop()  # one atomic step: of two threads only one gets through
        except IndexError:
            raise DuplicateSpend("this receipt was used: one payment covers one release; spend again") from None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a receipt cannot be copied or pickled: the copy would be a second release on one payment")

    def __repr__(self) -> str:
        return f"<Receipt {self.spend_id}: {self._guarantee.summary}, {'unused' if self._unused else 'used'}>"


COLUMNS = [f.name for f in fields(Spend)]
APPLICATION, SCHEMA_VERSION = 0x70706C31, 1

_REFUSE = "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
_SCHEMA = (
    "CREATE TABLE meta(key TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)",
    "CREATE TABLE spend(seq INTEGER PRIMARY KEY, "
    + ", ".join(f"{name} TEXT NOT NULL" + (" UNIQUE" if name in ("spend_id", "prev") else "") for name in COLUMNS[1:])
    + ")",
    *(
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} {_REFUSE}"
        for table in ("meta", "spend")
        for verb in ("UPDATE", "DELETE")
    ),
    # Fires before conflicts are resolved, so that INSERT OR REPLACE cannot rewrite a row either.
    "CREATE TRIGGER spend_in_order BEFORE INSERT ON spend WHEN NEW.seq IS NOT (SELECT COALESCE(MAX(seq), 0) + 1 FROM spend) "
    f"OR EXISTS (SELECT 1 FROM spend WHERE spend_id = NEW.spend_id OR prev = NEW.prev) {_REFUSE}",
)
_SEAL = f"CREATE TRIGGER meta_no_insert BEFORE INSERT ON meta {_REFUSE}"  # made after the settings are written


def chain_hash(*parts: str) -> str:
    """SHA-256 over length-prefixed fields: no two lists of fields read alike."""
    state = hashlib.sha256(b"privpac.ledger.v1")
    for part in parts:
        data = part.encode()
        state.update(len(data).to_bytes(8, "big") + data)
    return state.hexdigest()


def genesis(meta: Mapping[str, str]) -> str:
    return chain_hash(*(text for name in sorted(meta) for text in (name, meta[name])))


# Texts and numbers


def read_number(text: Any) -> Fraction:
    """A stored rational in its one canonical form, or ``ValueError``; exponents are never expanded."""
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,2000}(/0*[1-9][0-9]{0,1999})?", text):
        raise ValueError
    value = Fraction(text)
    if str(value) != text:
        raise ValueError
    return value


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def plain_text(value: Any, name: str, longest: int) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {type(value).__name__}")
    if not 1 <= len(value) <= longest or not value.isprintable():
        raise ParameterError(
            f"{name} must be 1 to {longest} printable characters on one line, got {value[:20]!r} ({len(value)} characters)"
        )
    return str.__str__(value)


def seconds(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, got {type(value).__name__}")
    if not math.isfinite(value) or not 0 <= value <= 86_400:
        raise ParameterError(f"{name} must be between 0 and 86400 seconds, got {value}")
    return float(value)


def _floor(x: Fraction) -> str:
    """At most six significant digits, never more than ``x``."""
    return str(Context(prec=6, rounding=ROUND_FLOOR).divide(Decimal(x.numerator), Decimal(x.denominator)))


# Making a file


def make_file(path: Path, settings: Mapping[str, str]) -> None:
    """A complete ledger appears under ``path`` at once, or nothing does; ``FileExistsError`` if the name is taken."""
    leftovers = [ending for ending in ("-wal", "-journal") if os.path.lexists(f"{path}{ending}")]
    if os.path.lexists(path):
        raise FileExistsError(path.name)
    if leftovers:  # SQLite would replay a log that belongs to another file
        raise LedgerUnavailable(
            f"{path.name + leftovers[0]!r} is left over from a ledger that is gone; bring that back, or use another name"
        )
    draft = ""
    try:
        handle, draft = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".new", dir=path.parent)
        os.close(handle)
        with _translated(path):
            _write_settings(draft, path, settings)
        os.link(draft, path)  # unlike a rename, never over an existing file
        os.unlink(draft)
        sync_directory(path.parent)
    except FileExistsError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a usable name"
        raise LedgerUnavailable(f"a ledger cannot be made at {path.name!r}: {reason}; choose a writable local folder") from None
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            with suppress(OSError):
                os.unlink(f"{draft}{ending}")


def _write_settings(draft: str, path: Path, settings: Mapping[str, str]) -> None:
    meta = {**settings, "id": secrets.token_hex(16), "created": now()}
    db = sqlite3.connect(draft, isolation_level=None)
    try:
        _make_durable(db, path)
        db.execute(f"PRAGMA application_id={APPLICATION}")
        db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        db.execute("BEGIN")
        for statement in _SCHEMA:
            db.execute(statement)
        db.executemany("INSERT INTO meta VALUES (?, ?)", sorted({**meta, "genesis": genesis(meta)}.items()))
        db.execute(_SEAL)
        db.execute("COMMIT")
    finally:
        db.close()


def _make_durable(db: sqlite3.Connection, path: Path) -> None:
    """Every commit returns only after the disk has it; these settings belong to the connection, not to the file."""
    if db.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
        raise LedgerUnavailable(f"{path.name!r} cannot keep a write-ahead log there; use a local file system")
    for setting in ("synchronous=FULL", "fullfsync=1", "checkpoint_fullfsync=1", "recursive_triggers=1", "trusted_schema=0"):
        db.execute(f"PRAGMA {setting}")


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """SQLite's errors as the ledger's own, in one line."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise LedgerBusy(f"another process holds the ledger {path.name!r}; try again, or raise timeout") from None
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_ERROR):
            raise LedgerCorrupt(f"{path.name!r} is not an intact privpac ledger ({error}); do not use it") from None
        raise LedgerUnavailable(f"the ledger {path.name!r} cannot be used ({error}); nothing may be released") from None


# Using a file

# One lock for all ledgers of the process.  A fork waits for it and closes every connection: SQLite's locks do not
# survive a fork but its bookkeeping of them does, so a child must start from none.
_gate = threading.RLock()
_open_files: weakref.WeakSet[LedgerFile] = weakref.WeakSet()


def _before_fork() -> None:
    _gate.acquire()
    for file in list(_open_files):
        file.disconnect()


os.register_at_fork(before=_before_fork, after_in_parent=_gate.release, after_in_child=_gate.release)


class LedgerFile:
    """Transactions on one ledger file; threads may share it, and after a fork each process connects anew."""

    def __init__(self, path: str | os.PathLike[str], timeout: float) -> None:
        if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
            raise TypeError(f"path must be text or a Path, got {type(path).__name__}")
        if not os.fspath(path) or "\0" in os.fspath(path):
            raise ParameterError("path must name a file, got an empty name or one with a zero byte")
        self.path = Path(os.path.abspath(path))
        self._timeout = timeout
        self._db: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._closed = False

    @property
    def name(self) -> str:
        return repr(self.path.name)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """Committed at the end, rolled back by any error; ``write`` takes the lock before the first read."""
        with _gate, _translated(self.path):
            db = self._connection()
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def _connection(self) -> sqlite3.Connection:
        if self._closed:
            raise LedgerUnavailable("this ledger object is closed; open the file again with BudgetLedger.open")
        if self._db is not None:
            if self._pid != os.getpid():  # a fork that went past Python's hooks: the connection's locks are not ours
                raise LedgerUnavailable("this ledger was opened before a fork; open the file again with BudgetLedger.open")
            return self._db
        self._check_regular()
        db = sqlite3.connect(
            f"{self.path.as_uri()}?mode=rw", uri=True, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        try:
            # Identity first: a file that is not ours is left as it is.
            found = tuple(db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
            if found != (APPLICATION, SCHEMA_VERSION):
                raise LedgerCorrupt(f"{self.name} is not a privpac ledger of version {SCHEMA_VERSION}; it was left as it is")
            _make_durable(db, self.path)
            self.check_schema(db)
        except BaseException:
            db.close()
            raise
        self._db, self._pid = db, os.getpid()
        _open_files.add(self)
        return db

    def _check_regular(self) -> None:
        try:
            mode = os.stat(self.path).st_mode
        except FileNotFoundError:
            raise LedgerUnavailable(f"there is no ledger {self.name}; make one on purpose with BudgetLedger.create") from None
        except OSError as error:
            raise LedgerUnavailable(f"the ledger {self.name} cannot be reached: {error.strerror}") from None
        if not stat.S_ISREG(mode):
            raise LedgerUnavailable(f"{self.name} is not a regular file; name the ledger's own file")

    def disconnect(self) -> None:
        """Close this process's connection; the next transaction makes a new one."""
        if self._db is not None and self._pid == os.getpid():
            db, self._db = self._db, None
            db.close()

    def close(self) -> None:
        with _gate:
            self.disconnect()
            self._closed = True

    def __del__(self) -> None:
        if getattr(self, "_db", None) is not None:
            self.disconnect()

    # Inside a transaction

    def check_schema(self, db: sqlite3.Connection) -> None:
        found = db.execute("SELECT sql FROM sqlite_master WHERE tbl_name IN ('meta', 'spend') AND sql IS NOT NULL").fetchall()
        if sorted(str(row[0]) for row in found) != sorted((*_SCHEMA, _SEAL)):
            raise LedgerCorrupt(f"the tables or triggers of {self.name} were changed; do not use this ledger")

    def settings(self, db: sqlite3.Connection) -> dict[str, str]:
        meta = dict(db.execute("SELECT key, value FROM meta").fetchall())
        if not all(isinstance(text, str) for item in meta.items() for text in item) or meta.pop("genesis", None) != genesis(meta):
            raise LedgerCorrupt(f"the settings of {self.name} were changed; do not use this ledger")
        return meta

    def spends(self, db: sqlite3.Connection, order: str = "ORDER BY seq") -> list[Spend]:
        return [self._parse(row) for row in db.execute(f"SELECT {', '.join(COLUMNS)} FROM spend {order}")]

    def last(self, db: sqlite3.Connection) -> Spend | None:
        rows = self.spends(db, "ORDER BY seq DESC LIMIT 1")
        return rows[0] if rows else None

    def _parse(self, row: tuple[Any, ...]) -> Spend:
        """A stored row, refused unless its texts are canonical and its hash is its own."""
        seq, *texts = row
        try:
            if not isinstance(seq, int) or not all(isinstance(text, str) for text in texts):
                raise ValueError
            spend_id, label, eps, delta, rho, cum_eps, cum_delta, cum_rho, *chain = texts
            numbers = (read_number(eps), read_number(delta), read_number(rho) if rho else None)
            sums = (read_number(cum_eps), read_number(cum_delta), read_number(cum_rho) if cum_rho else None)
            spend = Spend(seq, spend_id, label, *numbers, *sums, *chain)
            if spend.hash != spend.digest():
                raise ValueError
        except ValueError:
            raise LedgerCorrupt(f"a row of {self.name} was changed; do not use this ledger") from None
        return spend

    def append(self, db: sqlite3.Connection, spend: Spend) -> None:
        db.execute(f"INSERT INTO spend VALUES ({', '.join('?' * len(COLUMNS))})", spend.row())
