"""Answered queries: a counter that no crash, copy or second process can turn back.

A prediction session is paid for once, as a whole, by one spend; it may then give at most ``queries`` answers.  Each
answer is part of a line of the ledger's file, **on disk before the answer leaves**.  Counting, drawing and writing are
one transaction that takes the file's lock before its first read, so any number of processes stop exactly at the limit;
a crash after the commit wastes one answer and never gives one for free.  The counter lives here and nowhere else: a
session file restored from a backup finds the answers that were written since.  A session without its line in this
ledger answers nothing.

A line holds what a restart needs to repeat an answer free of charge, and nothing that tells a query or an answer to
somebody who has the ledger alone: ``digest`` is a keyed hash of the query and ``answer`` is masked with a keyed bit;
the key is inside the encrypted session file.  ``key`` is the public name of the API key that asked; its answers are
counted too, so that shares of the budget are kept by the same transaction.

Answers of a session are chained by SHA-256 from the session's own line, which names its spend.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from attrs import field, frozen

from privpac.errors import BudgetExhausted, DuplicateSpend, LedgerMismatch, ParameterError
from privpac.guarantee import positive_int
from privpac.ledger.file import LedgerFile
from privpac.ledger.records import MAX_COUNTED_QUERIES, LedgerState, Session, now
from privpac.parameters import bounds, named, plain_text, whole_or_none

_HEX = re.compile("[0-9a-f]{64}")


@frozen(slots=False)
class Answer:
    """What one query got: its number in the session, the stored answer, and whether it is paid for just now."""

    number: int
    answer: str
    fresh: bool


def _digests(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(_digest(value) for value in values)


@frozen(slots=False, field_transformer=named)
class Ask:
    """Queries that are answered together or not at all; ``draw``, ``key`` and ``share`` as in ``QueryLog.answer``."""

    # Checked here, so that one bad ask cannot spoil a batch.
    digests: tuple[str, ...] = field(converter=_digests)
    draw: Callable[[int, int], str]
    key: str = ""
    share: int | None = field(
        default=None, converter=whole_or_none, metadata=bounds(minimum=0, maximum=MAX_COUNTED_QUERIES)
    )

    def __attrs_post_init__(self) -> None:
        if self.key:
            plain_text(self.key, "key", 100)


class QueryLog:
    """The prediction sessions of one ledger."""

    def __init__(self, file: LedgerFile) -> None:
        self._file = file

    def open(self, session_id: str, queries: int) -> None:
        """Let the spend with this id answer up to ``queries`` queries; once for each spend."""
        name = plain_text(session_id, "session_id", 100)
        limit = positive_int(queries, "queries", maximum=MAX_COUNTED_QUERIES)
        with self._file.turn() as turn:
            if not turn.state.paid(name):
                raise LedgerMismatch(
                    "this ledger paid for no session of this id; spend the session's whole guarantee first"
                )
            if name in turn.state.sessions:
                raise DuplicateSpend("this session is open already: one payment covers one session")
            turn.write("session", name, limit, now())

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

        ``draw(i, number)`` makes the stored form of the answer to ``digests[i]``, which is the session's ``number``-th;
        it is called once, inside the transaction, and only for queries that were not answered before.  Over the
        session's limit, or over the ``share`` of this ``key``: ``BudgetExhausted``, nothing is drawn or written.
        """
        (found,) = self.answer_many(session_id, [Ask(digests, draw, key, share)])
        if isinstance(found, BudgetExhausted):
            raise found
        return found

    def answer_many(self, session_id: str, asks: Sequence[Ask]) -> list[list[Answer] | BudgetExhausted]:
        """Several asks in one durable transaction with one sync: for each its answers, or why it was refused.

        The asks are served in order, each wholly or not at all, as if each had been a call of ``answer``: what an ask
        was answered counts for the asks after it and repeats free of charge, and a refused one draws and counts
        nothing.  Nothing returns before the disk has every new row.  If a draw fails nothing of the whole batch is
        written, and the failure is raised.
        """
        wanted = {digest for ask in asks for digest in ask.digests}
        with self._file.reading() as state:  # repeats need neither the lock nor a sync
            known, entries = _known(state, self._session(state, session_id), wanted), state.entries
        if len(known) == len(wanted):
            return [[known[digest] for digest in ask.digests] for ask in asks]
        with self._file.turn() as turn:
            session = self._session(turn.state, session_id)
            if turn.state.entries != entries:  # somebody came in between
                known |= _known(turn.state, session, wanted - known.keys())
            number, used = session.count, Counter({ask.key: session.used[ask.key] for ask in asks})
            rows: list[tuple[str, str, str]] = []
            found: list[list[Answer] | BudgetExhausted] = []
            for ask in asks:
                new: dict[str, int] = {}
                for i, digest in enumerate(ask.digests):
                    if digest not in known:
                        new.setdefault(digest, i)
                refused = _refused(session.queries - number, used[ask.key], ask.share, len(new))
                if refused is not None:
                    found.append(refused)
                    continue
                fresh: dict[str, Answer] = {}
                for digest, i in new.items():
                    number, used[ask.key] = number + 1, used[ask.key] + 1
                    text = plain_text(ask.draw(i, number), "answer", 100)
                    rows.append((digest, text, ask.key))
                    fresh[digest] = Answer(number, text, True)
                found.append([fresh.get(digest) or known[digest] for digest in ask.digests])
                known |= {digest: Answer(answer.number, answer.answer, False) for digest, answer in fresh.items()}
            if rows:
                turn.write("answers", session.session_id, now(), rows)
        return found

    # Reading

    def sessions(self) -> tuple[str, ...]:
        """The ids of all sessions, each that of the spend which paid for it."""
        with self._file.reading() as state:
            return tuple(state.sessions)

    def used(self, session_id: str, key: str | None = None) -> int:
        """Answers given so far, in all or to one key."""
        with self._file.reading() as state:
            session = self._session(state, session_id)
            return session.count if key is None else session.used[key]

    def limit(self, session_id: str) -> int:
        """How many answers the session may give in all."""
        with self._file.reading() as state:
            return self._session(state, session_id).queries

    def history(self, session_id: str, width: int = 16) -> list[tuple[str, int]]:
        """Answers given per span of time, as ``(start, number)``; ``width`` characters of the time: 10 days, 13
        hours, 16 minutes."""
        span = positive_int(width, "width", maximum=16)
        spans: Counter[str] = Counter()
        with self._file.reading() as state:
            for at, count in self._session(state, session_id).times.items():
                spans[at[:span]] += count
        return sorted(spans.items())

    def head(self, session_id: str) -> str:
        """The hash that fixes all answers of a session so far."""
        with self._file.reading() as state:
            return self._session(state, session_id).head

    def _session(self, state: LedgerState, session_id: str) -> Session:
        found = state.sessions.get(plain_text(session_id, "session_id", 100))
        if found is None:
            # Without its counter every answer counts as spent.
            raise LedgerMismatch(
                f"the ledger {self._file.name} knows no session of this id; use the ledger that paid for the session"
            )
        return found


def _known(state: LedgerState, session: Session, digests: set[str]) -> dict[str, Answer]:
    found = {digest: state.answered(session, digest) for digest in digests}
    return {digest: Answer(*answer, False) for digest, answer in found.items() if answer is not None}


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
    if not _HEX.fullmatch(value):
        raise ParameterError("a digest must be 64 hexadecimal digits")
    return value
