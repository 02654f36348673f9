"""What the lines of a ledger say, read one after the other.

A line holds only what was decided (who, what, how much, when); numbers, sums and hashes that follow from the lines
before are computed here, so a file cannot contradict itself.  Every line is checked against all rules when it is read.

| line | fields |
|---|---|
| ``settings`` | what was agreed; the first line, and only the first |
| ``spend`` | id, label, epsilon, delta, rho, time |
| ``session`` | id of the spend that paid for it, queries, time |
| ``answers`` | session, time, list of (digest, answer, key) |
| ``checkpoint`` | what the lines so far add up to |

A **checkpoint** decides nothing.  It repeats what follows from the lines before it, so that a process can begin to read
there instead of at the start: the sums after the last spend; of the sessions that answered since the checkpoint before,
their heads and counts; and where each spend and answer since then stands (:mod:`privpac.ledger.index`).  It names the
checkpoint before it by place and hash, so the last one vouches for all of them.  Who reads past a checkpoint computes
it anew and compares; ``verify`` does that for all.

What is older than the last checkpoint is looked for only when somebody asks: is this id used, which sessions are there,
what was answered.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Protocol

from privpac.errors import LedgerCorrupt
from privpac.ledger.account import Account
from privpac.ledger.index import Entry, Index, check_of, key_of, packed, unpacked
from privpac.ledger.rows import FIRST, START, Spend, chain_hash, chained, plain_text, read_number

__all__ = ["DAMAGE", "MAX_QUERIES", "READING", "LedgerState", "Place", "Session", "Source", "read_checkpoint"]

MAX_QUERIES = 1 << 40
DAMAGE = (ValueError, TypeError, KeyError, AttributeError, IndexError, ArithmeticError, RecursionError)
"""What a line that breaks a rule raises."""

READING = threading.RLock()
"""Held while a state is read or grows: threads share one."""

_DIGEST = re.compile("[0-9a-f]{64}")
_MINUTE = 16  # characters of a time that name its minute
_LONGEST = 1 << 16  # more than the line of a spend can have

Place = tuple[int, int, str]
"""Where a line begins, where it ends, its hash."""


class Source(Protocol):
    """The file, as far as its older parts are concerned."""

    def fetch(self, at: int, end: int) -> bytes: ...

    def corrupt(self, what: str) -> LedgerCorrupt: ...


def read_checkpoint(line: bytes, at: int) -> dict[str, Any]:
    """What the checkpoint at this place says; ``ValueError`` and the like unless line and hash belong together."""
    kind, body = json.loads(line[65:-1])
    if (kind, body["at"]) != ("checkpoint", at) or line[:64].decode("ascii") != chained(body["before"], line[65:-1]):
        raise ValueError
    return dict(body)


@dataclass
class Session:
    """One prediction session: what it may answer, and what it has answered."""

    session_id: str
    queries: int
    at: str
    hash: str
    head: str
    count: int = 0
    used: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)
    """Answers by minute."""
    recent: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    """Number and answer by digest (32 bytes instead of 64 letters), since the last checkpoint."""
    changed: tuple[set[str], Counter[str]] = field(default_factory=lambda: (set(), Counter()))
    """Keys that asked since the last checkpoint, and answers by minute since then."""

    def __post_init__(self) -> None:
        self._salt = key_of(self.session_id)

    def key(self, digest: str) -> int:
        """Of a query in the index: digests are hashes already, and each session has its own keys."""
        return self._salt ^ int(digest[:16], 16)

    def take(self, digest: str, answer: str, key: str, at: str) -> None:
        """One more answer."""
        if self.count >= self.queries:
            raise ValueError
        self.count += 1
        minute = intern(at[:_MINUTE])
        self.used[key] += 1
        self.times[minute] += 1
        self.changed[0].add(key)
        self.changed[1][minute] += 1
        self.recent[bytes.fromhex(digest)] = self.count, intern(answer)
        self.head = chain_hash(
            "query", self.session_id, str(self.count), digest, answer, key, str(self.used[key]), at, self.head
        )

    def summary(self) -> list[Any]:
        """For a checkpoint: what changed, and how things stand."""
        keys, times = self.changed
        used = {key: self.used[key] for key in sorted(keys)}
        return [self.queries, self.at, self.hash, self.head, self.count, used, dict(sorted(times.items()))]

    def resume(self, summary: list[Any]) -> None:
        """Go on as a later checkpoint says."""
        _, _, _, self.head, self.count, used, times = summary
        self.used.update({key: total - self.used[key] for key, total in used.items()})
        self.times.update(times)


class LedgerState:
    """All lines so far.  ``take`` raises one of ``DAMAGE`` for a line that breaks a rule."""

    def __init__(self, source: Source | None = None, visit: Callable[[str, Spend | None], None] | None = None) -> None:
        self.last: Spend | None = None
        self.entries = 0
        """Spends and answers so far."""
        self._source = source
        self._visit = visit  # is told every head that there ever was, and the spend it belongs to
        self._account: Account | None = None
        self._places: list[Place] = []  # of the checkpoints that are indexed, oldest first
        self._older: Place | None = None  # the last checkpoint, while those up to it are not indexed
        self._index = Index()
        self._sessions: dict[str, Session] = {}
        # Since the last checkpoint:
        self._spends: dict[str, Spend] = {}
        self._recent: list[Entry] = []
        self._touched: dict[str, Session] = {}

    @property
    def account(self) -> Account:
        if self._account is None:
            raise ValueError
        return self._account

    @property
    def head(self) -> str:
        """The hash that fixes all spends."""
        return self.last.hash if self.last else self.account.genesis

    @property
    def recent(self) -> int:
        """Spends and answers since the last checkpoint."""
        return len(self._recent)

    @property
    def spends(self) -> tuple[Spend, ...] | None:
        """All spends, if there is no checkpoint yet."""
        return None if self._places or self._older else tuple(self._spends.values())

    @property
    def sessions(self) -> Mapping[str, Session]:
        self._index_older()
        return self._sessions

    def paid(self, spend_id: str) -> bool:
        with READING:
            if spend_id in self._spends:
                return True
            self._index_older()
            return self._older_spend(spend_id) is not None

    def answered(self, session: Session, digest: str) -> tuple[int, str] | None:
        """Number and answer of a query, if it was answered before."""
        with READING:
            found = session.recent.get(bytes.fromhex(digest))
            if found is not None:
                return found
            self._index_older()
            for entry, (kind, *values) in self._hits(session.key(digest)):
                if kind == "answers" and values[0] == session.session_id:
                    for name, answer, _ in values[2]:
                        if name == digest:
                            return entry.number, answer
            return None

    # Lines

    def take(self, entry: Any, at: int = 0, line: bytes = b"") -> None:
        """One more line, which stands at this place."""
        kind, *values = entry
        check = check_of(line)
        if kind == "settings":
            self.agree(*values)
        elif kind == "spend":
            self._spend(at, check, *values)
        elif kind == "session":
            self._session(*values)
        elif kind == "answers":
            self._answers(at, check, *values)
        else:
            raise ValueError

    def agree(self, meta: dict[str, str]) -> None:
        """The settings, from the first line."""
        if self._account is not None or not all(isinstance(text, str) for item in meta.items() for text in item):
            raise ValueError
        self._account = Account.of(dict(meta))
        self._note(self._account.genesis)

    def _spend(self, at: int, check: int, spend_id: str, label: str, eps: str, delta: str, rho: str, when: str) -> None:
        for text, name, longest in ((spend_id, "spend_id", 100), (label, "label", 200), (when, "at", 40)):
            plain_text(text, name, longest)
        numbers = (read_number(eps), read_number(delta), read_number(rho) if rho else None)
        spend = self.account.next(self.last, spend_id, label, *numbers, when)
        if spend_id in self._spends or not self.account.priced(spend) or not self.account.within(spend):
            raise ValueError
        if self._older is None and self._older_spend(spend_id) is not None:
            raise ValueError
        self.last = self._spends[spend_id] = spend
        self._enter(Entry(key_of(spend_id), at, spend.seq, check))
        self._note(spend.hash, spend)

    def _session(self, session_id: str, queries: int, at: str) -> None:
        if type(queries) is not int or not 1 <= queries <= MAX_QUERIES or session_id in self.sessions:
            raise ValueError
        paid = self._spends.get(session_id)
        if paid is None:
            place = self._older_spend(session_id)
            if place is None:
                raise ValueError
            paid = self._read_spend(place)
        digest = session_hash(self.account.genesis, paid.hash, session_id, queries, plain_text(at, "at", 40))
        session = Session(session_id, queries, at, digest, digest)
        self._sessions[session_id] = self._touched[session_id] = session
        self._note(digest)

    def _answers(self, at: int, check: int, session_id: str, when: str, rows: list[list[str]]) -> None:
        session = self.sessions[session_id]
        plain_text(when, "at", 40)
        for digest, answer, key in rows:
            if not _DIGEST.fullmatch(digest) or (key and plain_text(key, "key", 100) != key):
                raise ValueError
            if self.answered(session, digest) is not None:
                raise ValueError
            session.take(digest, plain_text(answer, "answer", 100), key, when)
            self._enter(Entry(session.key(digest), at, session.count, check))
            self._note(session.head)
        self._touched[session_id] = session

    def _enter(self, entry: Entry) -> None:
        self._recent.append(entry)
        self.entries += 1

    def _note(self, digest: str, spend: Spend | None = None) -> None:
        if self._visit is not None:
            self._visit(digest, spend)

    # Checkpoints

    def summary(self) -> dict[str, Any]:
        """What a checkpoint says here."""
        return {
            "spend": None if self.last is None else list(self.last.row()),
            "sessions": {name: self._touched[name].summary() for name in sorted(self._touched)},
            "entries": self.entries,
            "index": packed(self._recent),
        }

    def pass_checkpoint(self, place: Place, summary: Mapping[str, Any]) -> None:
        """Go on behind a checkpoint that says what ``summary`` says."""
        if self._older is None:
            self._places.append(place)
            self._index.add(unpacked(summary["index"]))
        else:
            self._older = place
        for session in self._touched.values():
            session.recent, session.changed = {}, (set(), Counter())
        self._spends, self._recent, self._touched = {}, [], {}

    def resume(self, place: Place, summary: Mapping[str, Any]) -> None:
        """Begin behind a checkpoint; the settings are known."""
        self.last, self.entries, self._older = _spend_of(summary["spend"]), summary["entries"], place
        if type(self.entries) is not int or (self.last is not None and not self.account.within(self.last)):
            raise ValueError

    # What is older than the last checkpoint

    def _index_older(self) -> None:
        """Read all checkpoints, once."""
        with READING:
            if self._older is None:
                return
            try:
                places, total = list[Place](), self.entries - len(self._recent)
                index, summaries = Index(), list[dict[str, Any]]()
                index.fill(self._walk(self._older, places, summaries), total)
                sessions: dict[str, Session] = {}
                for summary in reversed(summaries):
                    for name, values in summary.items():
                        session = sessions.get(name) or sessions.setdefault(name, Session(name, *values[:4]))
                        session.resume(values)
            except DAMAGE:
                raise self._damaged("in one of its checkpoints") from None
            self._places, self._older, self._index, self._sessions = places[::-1], None, index, sessions

    def _walk(self, place: Place, places: list[Place], summaries: list[dict[str, Any]]) -> Iterator[Any]:
        """The indices of all checkpoints, newest first; places and sessions are left in the lists."""
        following: Place | None = place
        while following is not None:
            at, end, digest = following
            line = self._fetch(at, end)
            if line[:64].decode("ascii") != digest:
                raise ValueError
            body = read_checkpoint(line, at)
            places.append(following)
            summaries.append(body["sessions"])
            yield unpacked(body["index"])
            following = None if body["previous"] is None else tuple(body["previous"])
            if following is not None and not following[0] < following[1] <= at:
                raise ValueError

    def _older_spend(self, spend_id: str) -> int | None:
        """Where the spend with this id stands."""
        for entry, (kind, *values) in self._hits(key_of(spend_id)):
            if kind == "spend" and values[0] == spend_id:
                return entry.place
        return None

    def _hits(self, key: int) -> Iterable[tuple[Entry, Any]]:
        """Entries with this key and what their lines say."""
        for entry in self._index.find(key):
            line, size = b"", 4096
            while not line.endswith(b"\n"):
                found = self._fetch(entry.place, entry.place + size)
                line, _, _ = found.partition(b"\n")
                if len(line) < len(found):
                    line += b"\n"
                elif len(found) < size:
                    raise self._damaged("in a line that its index names")
                size *= 4
            if check_of(line) != entry.check:
                raise self._damaged("in a line that its index names")
            yield entry, json.loads(line[65:-1])

    def _read_spend(self, place: int) -> Spend:
        """The spend whose line stands there: sums and hash follow from the checkpoint before it."""
        last, at, head = None, START, FIRST
        for start, end, digest in self._places:
            if end <= place:
                last, at, head = _spend_of(read_checkpoint(self._fetch(start, end), start)["spend"]), end, digest
        for line in self._fetch(at, place + _LONGEST).split(b"\n"):
            if line[:64].decode("ascii", "replace") != chained(head, line[65:]):
                break
            kind, *values = json.loads(line[65:])
            if kind == "spend":
                name, label, eps, delta, rho, when = values
                numbers = (read_number(eps), read_number(delta), read_number(rho) if rho else None)
                last = self.account.next(last, name, label, *numbers, when)
                if at == place:
                    return last
            at, head = at + len(line) + 1, line[:64].decode("ascii")
        raise self._damaged("before the line of a spend")

    def _fetch(self, at: int, end: int) -> bytes:
        if self._source is None:
            raise ValueError
        return self._source.fetch(at, end)

    def _damaged(self, where: str) -> Exception:
        return ValueError() if self._source is None else self._source.corrupt(f"is damaged {where}")


def _spend_of(row: Any) -> Spend | None:
    if row is None:
        return None
    seq, name, label, eps, delta, rho, cum_eps, cum_delta, cum_rho, at, prev, digest = row
    sums = read_number(cum_eps), read_number(cum_delta), read_number(cum_rho) if cum_rho else None
    price = read_number(eps), read_number(delta), read_number(rho) if rho else None
    spend = Spend(seq, name, label, *price, *sums, at, prev, digest)
    if spend.digest() != digest:
        raise ValueError
    return spend


def session_hash(genesis: str, paid: str, session_id: str, queries: int, at: str) -> str:
    """Where the chain of a session's answers starts; ``paid`` is the hash of the spend, whose id the session has."""
    return chain_hash("session", genesis, paid, session_id, session_id, str(queries), at)
