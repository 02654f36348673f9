"""Answered queries: a counter that no crash, copy or second process can turn back.

A prediction session is paid for once, as a whole, by one spend; it may then give at most ``queries`` answers.  Each answer is a row of
the append-only table ``query``, **on disk before the answer leaves**.  Counting, drawing and writing are one transaction that takes the
file's lock before its first read, so any number of processes stop exactly at the limit; a crash after the commit wastes one answer
and never gives one for free.  The counter lives here and nowhere else: a session file restored from a backup finds the rows that
were written since.  A session without its row in this ledger answers nothing.

A row holds what a restart needs to repeat an answer free of charge, and nothing that tells a query or an answer to somebody who has
the ledger alone: ``digest`` is a keyed hash of the query and ``answer`` is masked with a keyed bit; the key is inside the encrypted
session file.  ``key`` is the public name of the API key that asked, ``key_number`` counts its answers, so that shares of the budget
are kept by the same transaction.

Rows of a session are chained by SHA-256 from the session's own row, which names its spend.  Triggers refuse UPDATE, DELETE, REPLACE,
gaps, and rows beyond the limit, also to other programs.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

from privpac.errors import BudgetExhausted, DuplicateSpend, LedgerCorrupt, LedgerMismatch, ParameterError
from privpac.guarantee import positive_int
from privpac.ledger_file import LedgerFile, chain_hash, now, plain_text

__all__ = ["Answer", "Ask", "Query", "QueryLog", "SessionRow"]

MAX_QUERIES = 1 << 40
_REFUSE = "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"


@dataclass(frozen=True)
class SessionRow:
    """One prediction session: what it may answer, and the spend that paid for it."""

    session_id: str
    spend_id: str
    queries: int
    at: str
    hash: str = ""

    def digest(self, genesis: str, spend: str) -> str:
        """What ``hash`` must be, given the ledger's first hash and the hash of the spend."""
        return chain_hash("session", genesis, spend, self.session_id, self.spend_id, str(self.queries), self.at)


@dataclass(frozen=True)
class Query:
    """One answered query."""

    session_id: str
    number: int
    digest: str
    answer: str
    key: str
    key_number: int
    at: str
    prev: str
    hash: str = ""

    def chained(self) -> Query:
        """The same row with the hash it must have."""
        values = (str(getattr(self, f.name)) for f in fields(self) if f.name != "hash")
        return replace(self, hash=chain_hash("query", *values))


@dataclass(frozen=True)
class Answer:
    """What one query got: its number in the session, the stored answer, and whether it is paid for just now."""

    number: int
    answer: str
    fresh: bool


@dataclass(frozen=True)
class Ask:
    """Queries that are answered together or not at all; ``draw``, ``key`` and ``share`` as in ``QueryLog.answer``."""

    digests: Sequence[str]
    draw: Callable[[int, int], str]
    key: str = ""
    share: int | None = None

    def __post_init__(self) -> None:
        # Checked here, so that one bad ask cannot spoil a batch.
        object.__setattr__(self, "digests", tuple(_digest(digest) for digest in self.digests))
        if self.key:
            plain_text(self.key, "key", 100)
        if self.share is not None:
            positive_int(self.share, "share", minimum=0, maximum=MAX_QUERIES)


_COLUMNS = ", ".join(f.name for f in fields(Query))
_SCHEMA = (
    "CREATE TABLE session(session_id TEXT PRIMARY KEY NOT NULL, spend_id TEXT NOT NULL UNIQUE, queries INTEGER NOT NULL, "
    "at TEXT NOT NULL, hash TEXT NOT NULL)",
    "CREATE TABLE query(session_id TEXT NOT NULL, number INTEGER NOT NULL, digest TEXT NOT NULL, answer TEXT NOT NULL, key TEXT NOT NULL, "
    "key_number INTEGER NOT NULL, at TEXT NOT NULL, prev TEXT NOT NULL, hash TEXT NOT NULL, "
    "PRIMARY KEY(session_id, number), UNIQUE(session_id, digest))",
    "CREATE INDEX query_by_key ON query(session_id, key, key_number)",
    *(
        f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} {_REFUSE}"
        for table in ("session", "query")
        for verb in ("UPDATE", "DELETE")
    ),
    f"CREATE TRIGGER session_once BEFORE INSERT ON session WHEN EXISTS (SELECT 1 FROM session WHERE session_id = NEW.session_id) {_REFUSE}",
    # Fires before conflicts are resolved; it also keeps every program that writes here within the limit that was paid for.
    "CREATE TRIGGER query_in_order BEFORE INSERT ON query WHEN NEW.number IS NOT "
    "(SELECT COALESCE(MAX(number), 0) + 1 FROM query WHERE session_id = NEW.session_id) "
    "OR NEW.number > COALESCE((SELECT queries FROM session WHERE session_id = NEW.session_id), 0) "
    f"OR EXISTS (SELECT 1 FROM query WHERE session_id = NEW.session_id AND digest = NEW.digest) {_REFUSE}",
)


class QueryLog:
    """The prediction sessions of one ledger."""

    def __init__(self, file: LedgerFile, genesis: str) -> None:
        self._file, self._genesis = file, genesis

    # Opening a session

    def open(self, session_id: str, queries: int) -> SessionRow:
        """Let the spend with this id answer up to ``queries`` queries; once for each spend."""
        name = plain_text(session_id, "session_id", 100)
        limit = positive_int(queries, "queries", maximum=MAX_QUERIES)
        with self._file.transaction(write=True) as db:
            paid = db.execute("SELECT hash FROM spend WHERE spend_id = ?", (name,)).fetchone()
            if paid is None:
                raise LedgerMismatch("this ledger paid for no session of this id; spend the session's whole guarantee first")
            if not self._present(db):
                for statement in _SCHEMA:
                    db.execute(statement)
            if db.execute("SELECT 1 FROM session WHERE session_id = ?", (name,)).fetchone():
                raise DuplicateSpend("this session is open already: one payment covers one session")
            row = SessionRow(name, name, limit, now())
            row = replace(row, hash=row.digest(self._genesis, paid[0]))
            db.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?)", tuple(getattr(row, f.name) for f in fields(row)))
        return row

    # Answering

    def answer(
        self,
        session_id: str,
        digests: Sequence[str],
        draw: Callable[[int, int], str],
        *,
        key: str = "",
        share: int | None = None,
    ) -> list[Answer]:
        """Answers to some queries, all of them or none; returns after the disk has every new row.

        ``draw(i, number)`` makes the stored form of the answer to ``digests[i]``, which is the session's ``number``-th; it is called
        once, inside the transaction, and only for queries that were not answered before.  Over the session's limit, or over the
        ``share`` of this ``key``: ``BudgetExhausted``, nothing is drawn or written.
        """
        (found,) = self.answer_many(session_id, [Ask(digests, draw, key, share)])
        if isinstance(found, BudgetExhausted):
            raise found
        return found

    def answer_many(self, session_id: str, asks: Sequence[Ask]) -> list[list[Answer] | BudgetExhausted]:
        """Several asks in one durable transaction with one sync: for each its answers, or why it was refused.

        The asks are served in order, each wholly or not at all, as if each had been a call of ``answer``: what an ask was answered
        counts for the asks after it and repeats free of charge, and a refused one draws and counts nothing.  Nothing returns before
        the disk has every new row.  If a draw fails nothing of the whole batch is written, and the failure is raised.
        """
        wanted = {digest for ask in asks for digest in ask.digests}
        with self._file.transaction() as db:  # repeats need neither the lock nor a sync
            session = self._session(db, session_id)
            known = self._known(db, session, wanted)
        if all(digest in known for digest in wanted):
            return [[known[digest] for digest in ask.digests] for ask in asks]
        with self._file.transaction(write=True) as db:
            session = self._session(db, session_id)
            known |= self._known(db, session, wanted - known.keys())
            last = self._last(db, session)
            number, prev = (last.number, last.hash) if last else (0, session.hash)
            used = {key: self._used(db, session, key) for key in {ask.key for ask in asks}}
            rows: list[Query] = []
            found: list[list[Answer] | BudgetExhausted] = []
            at = now()
            for ask in asks:
                new = {digest: i for i, digest in reversed(list(enumerate(ask.digests))) if digest not in known}
                refused = _refused(session.queries - number, used[ask.key], ask.share, len(new))
                if refused is not None:
                    found.append(refused)
                    continue
                fresh: dict[str, Answer] = {}
                for digest, i in sorted(new.items(), key=lambda item: item[1]):
                    number, used[ask.key] = number + 1, used[ask.key] + 1
                    text = plain_text(ask.draw(i, number), "answer", 100)
                    row = Query(session.session_id, number, digest, text, ask.key, used[ask.key], at, prev).chained()
                    rows.append(row)
                    prev, fresh[digest] = row.hash, Answer(number, text, True)
                found.append([fresh.get(digest) or known[digest] for digest in ask.digests])
                known |= {digest: replace(answer, fresh=False) for digest, answer in fresh.items()}
            db.executemany(f"INSERT INTO query VALUES ({', '.join('?' * len(fields(Query)))})", map(_values, rows))
        return found

    def used(self, session_id: str, key: str | None = None) -> int:
        """Answers given so far, in all or to one key."""
        with self._file.transaction() as db:
            session = self._session(db, session_id)
            if key is not None:
                return self._used(db, session, key)
            last = self._last(db, session)
        return last.number if last else 0

    def limit(self, session_id: str) -> int:
        """How many answers the session may give in all."""
        with self._file.transaction() as db:
            return self._session(db, session_id).queries

    def history(self, session_id: str, width: int = 16) -> list[tuple[str, int]]:
        """Answers given per span of time, as ``(start, number)``; ``width`` characters of the time: 13 hours, 16 minutes, 19 seconds."""
        with self._file.transaction() as db:
            session = self._session(db, session_id)
            span = positive_int(width, "width", maximum=19)
            found = "SELECT substr(at, 1, ?), COUNT(*) FROM query WHERE session_id = ? GROUP BY 1 ORDER BY 1"
            return [(str(start), int(count)) for start, count in db.execute(found, (span, session.session_id))]

    def head(self, session_id: str) -> str:
        """The hash that fixes all answers of a session so far."""
        with self._file.transaction() as db:
            session = self._session(db, session_id)
            last = self._last(db, session)
        return last.hash if last else session.hash

    # Inside a transaction

    def _present(self, db: sqlite3.Connection) -> bool:
        """Whether the tables exist; ledgers without sessions have none, and anything in between is refused."""
        found = db.execute("SELECT sql FROM sqlite_master WHERE tbl_name IN ('session', 'query') AND sql IS NOT NULL").fetchall()
        if found and sorted(str(row[0]) for row in found) != sorted(_SCHEMA):
            raise LedgerCorrupt(f"the tables or triggers of {self._file.name} were changed; do not use this ledger")
        return bool(found)

    def _session(self, db: sqlite3.Connection, session_id: str) -> SessionRow:
        name = plain_text(session_id, "session_id", 100)
        found = None
        if self._present(db):
            query = "SELECT session.*, spend.hash FROM session JOIN spend USING (spend_id) WHERE session_id = ?"
            found = db.execute(query, (name,)).fetchone()
        if found is None:
            # Without its counter every answer counts as spent.
            raise LedgerMismatch(f"the ledger {self._file.name} knows no session of this id; use the ledger that paid for the session")
        return self._checked(found)

    def _checked(self, found: tuple[object, ...]) -> SessionRow:
        # The joined column spend_id comes where session has it.
        row, paid = SessionRow(*found[:-1]), found[-1]  # type: ignore[arg-type]
        if type(row.queries) is not int or not isinstance(paid, str) or row.hash != row.digest(self._genesis, paid):
            raise LedgerCorrupt(f"a session of {self._file.name} was changed; do not use this ledger")
        return row

    def _last(self, db: sqlite3.Connection, session: SessionRow) -> Query | None:
        found = db.execute(
            f"SELECT {_COLUMNS} FROM query WHERE session_id = ? ORDER BY number DESC LIMIT 1", (session.session_id,)
        ).fetchone()
        return None if found is None else self._parse(found)

    def _parse(self, found: tuple[object, ...]) -> Query:
        row = Query(*found)  # type: ignore[arg-type]
        if type(row.number) is not int or type(row.key_number) is not int or row != row.chained():
            raise LedgerCorrupt(f"a query of {self._file.name} was changed; do not use this ledger")
        return row

    def _known(self, db: sqlite3.Connection, session: SessionRow, digests: Iterable[str]) -> dict[str, Answer]:
        known: dict[str, Answer] = {}
        for digest in digests:
            query = f"SELECT {_COLUMNS} FROM query WHERE session_id = ? AND digest = ?"
            found = db.execute(query, (session.session_id, digest)).fetchone()
            if found is not None:
                row = self._parse(found)
                known[digest] = Answer(row.number, row.answer, False)
        return known

    @staticmethod
    def _used(db: sqlite3.Connection, session: SessionRow, key: str) -> int:
        found = db.execute("SELECT MAX(key_number) FROM query WHERE session_id = ? AND key = ?", (session.session_id, key)).fetchone()
        return int(found[0] or 0)

    def verify(self, db: sqlite3.Connection) -> set[str]:
        """Check all sessions and queries (``LedgerCorrupt``); every hash of their chains."""
        if not self._present(db):
            return set()
        hashes: set[str] = set()
        sessions = db.execute("SELECT session.*, spend.hash FROM session JOIN spend USING (spend_id)").fetchall()
        if len(sessions) != db.execute("SELECT COUNT(*) FROM session").fetchone()[0]:
            raise LedgerCorrupt(f"a session of {self._file.name} was never paid for; do not use this ledger")
        for found in sessions:
            session = self._checked(found)
            hashes |= {session.hash, *self._chain(db, session)}
        total = db.execute("SELECT COUNT(*) FROM query").fetchone()[0]
        if len(hashes) != total + len(sessions):
            raise LedgerCorrupt(f"{self._file.name} holds queries of no session; do not use this ledger")
        return hashes

    def _chain(self, db: sqlite3.Connection, session: SessionRow) -> Iterator[str]:
        prev, shares = session.hash, dict[str, int]()
        rows = db.execute(f"SELECT {_COLUMNS} FROM query WHERE session_id = ? ORDER BY number", (session.session_id,))
        for number, found in enumerate(rows, 1):
            row = self._parse(found)
            shares[row.key] = shares.get(row.key, 0) + 1
            if (row.number, row.prev, row.key_number) != (number, prev, shares[row.key]) or number > session.queries:
                raise LedgerCorrupt(f"the queries of {self._file.name} break at number {number}; do not use this ledger")
            prev = row.hash
            yield prev


def _values(row: Query) -> tuple[object, ...]:
    return tuple(getattr(row, f.name) for f in fields(row))


def _refused(left: int, used: int, share: int | None, wanted: int) -> BudgetExhausted | None:
    """Why ``wanted`` new answers are not given, if they are not."""
    whose = "the session"
    if wanted <= left and share is not None:
        whose, left = "this key's share", max(0, share - used)
    if wanted <= left:
        return None
    text = f"budget exhausted: {whose} has {left} new answers left, {wanted} asked for; nothing was answered or counted"
    return BudgetExhausted(left, wanted, text)


def _digest(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a digest must be text, got {type(value).__name__}")
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise ParameterError("a digest must be 64 hexadecimal digits")
    return value
