"""What the lines of a ledger say, read one after the other.

A line holds only what was decided (who, what, how much, when); numbers, sums and hashes that follow from the lines
before are computed here and nowhere stored, so a file cannot contradict itself.  Every line is checked against all
rules whenever it is read: a ledger that can be opened is within its budget.

| line | fields |
|---|---|
| ``settings`` | what was agreed; the first line, and only the first |
| ``spend`` | id, label, epsilon, delta, rho, time |
| ``session`` | id of the spend that paid for it, queries, time |
| ``answers`` | session, time, list of (digest, answer, key) |
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from sys import intern
from typing import Any

from privpac.ledger.account import Account
from privpac.ledger.rows import Spend, chain_hash, plain_text, read_number

__all__ = ["MAX_QUERIES", "Session", "LedgerState"]

MAX_QUERIES = 1 << 40
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass
class Session:
    """One prediction session: what it may answer, and what it has answered."""

    session_id: str
    queries: int
    at: str
    hash: str
    head: str
    numbers: dict[bytes, int] = field(default_factory=dict)  # by digest; 32 bytes instead of 64 letters
    answers: list[str] = field(default_factory=list)
    used: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)

    def take(self, digest: str, answer: str, key: str, at: str) -> None:
        """One more answer."""
        name, number = bytes.fromhex(digest), len(self.answers) + 1
        if name in self.numbers or number > self.queries:
            raise ValueError
        self.used[key] += 1
        self.times[at] += 1
        self.numbers[name] = number
        self.answers.append(intern(answer))
        self.head = chain_hash(
            "query", self.session_id, str(number), digest, answer, key, str(self.used[key]), at, self.head
        )


class LedgerState:
    """All lines so far.  ``take`` raises ``ValueError`` (or ``TypeError``, ``KeyError``) for a line that breaks a
    rule."""

    def __init__(self, hashes: set[str] | None = None) -> None:
        self.spends: list[Spend] = []
        self.sessions: dict[str, Session] = {}
        self._ids: dict[str, Spend] = {}
        self._account: Account | None = None
        self._hashes = hashes  # where every head that there ever was is collected

    @property
    def account(self) -> Account:
        if self._account is None:
            raise ValueError
        return self._account

    @property
    def last(self) -> Spend | None:
        return self.spends[-1] if self.spends else None

    @property
    def head(self) -> str:
        """The hash that fixes all spends."""
        return self.spends[-1].hash if self.spends else self.account.genesis

    def paid(self, spend_id: str) -> bool:
        return spend_id in self._ids

    def take(self, line: Any) -> None:
        """One more line."""
        kind, *values = line
        takers: dict[str, Callable[..., None]] = {
            "settings": self._settings,
            "spend": self._spend,
            "session": self._session,
            "answers": self._answers,
        }
        takers[kind](*values)

    def _settings(self, meta: dict[str, str]) -> None:
        if self._account is not None or not all(isinstance(text, str) for item in meta.items() for text in item):
            raise ValueError
        self._account = Account.of(dict(meta))
        self._note(self._account.genesis)

    def _spend(self, spend_id: str, label: str, eps: str, delta: str, rho: str, at: str) -> None:
        for text, name, longest in ((spend_id, "spend_id", 100), (label, "label", 200), (at, "at", 40)):
            plain_text(text, name, longest)
        numbers = (read_number(eps), read_number(delta), read_number(rho) if rho else None)
        spend = self.account.next(self.last, spend_id, label, *numbers, at)
        if spend_id in self._ids or not self.account.priced(spend) or not self.account.within(spend):
            raise ValueError
        self.spends.append(spend)
        self._ids[spend_id] = spend
        self._note(spend.hash)

    def _session(self, session_id: str, queries: int, at: str) -> None:
        if type(queries) is not int or not 1 <= queries <= MAX_QUERIES or session_id in self.sessions:
            raise ValueError
        digest = session_hash(
            self.account.genesis, self._ids[session_id].hash, session_id, queries, plain_text(at, "at", 40)
        )
        self.sessions[session_id] = Session(session_id, queries, at, digest, digest)
        self._note(digest)

    def _answers(self, session_id: str, at: str, rows: list[list[str]]) -> None:
        session = self.sessions[session_id]
        plain_text(at, "at", 40)
        for digest, answer, key in rows:
            if not _DIGEST.fullmatch(digest) or (key and plain_text(key, "key", 100) != key):
                raise ValueError
            session.take(digest, plain_text(answer, "answer", 100), key, at)
            self._note(session.head)

    def _note(self, digest: str) -> None:
        if self._hashes is not None:
            self._hashes.add(digest)


def session_hash(genesis: str, paid: str, session_id: str, queries: int, at: str) -> str:
    """Where the chain of a session's answers starts; ``paid`` is the hash of the spend, whose id the session has."""
    return chain_hash("session", genesis, paid, session_id, session_id, str(queries), at)
