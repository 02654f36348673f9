"""What a ledger holds: spends with their chain of hashes, what is left, and the receipt of one payment."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from operator import attrgetter
from sys import intern
from typing import Any, NamedTuple, NoReturn, Protocol

import numpy as np
from attrs import define, evolve, field, fields, frozen
from numpy.typing import NDArray

from privpac.composition import zcdp_budget
from privpac.errors import DuplicateSpend, LedgerCorrupt, ParameterError
from privpac.exact import as_arb, up
from privpac.guarantee import Guarantee, one_of
from privpac.parameters import plain_text

START = 512  # of the first line: the seal before it fills one sector, which a disk writes wholly or not at all
FIRST = "0" * 64  # the hash before the first line


@frozen(slots=False)
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
        return (self.seq, *["" if value is None else str(value) for value in _REST(self)])

    def digest(self) -> str:
        """What ``hash`` must be; it covers every other field, the previous hash included."""
        return chain_hash(*map(str, self.row()[:-1]))


@frozen(slots=False)
class Balance:
    """The most that one further spend may cost; under ``zcdp`` a spend with its own ``rho`` is judged by ``rho``
    alone."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None = None

    def __str__(self) -> str:
        zcdp = "" if self.rho is None else f", rho {_floor(self.rho)}"
        return f"({_floor(self.epsilon)}, {_floor(self.delta)}){zcdp}"

    def out_of(self, budget: Guarantee) -> str:
        """What is left of a budget, as people say it: ``ε = 1 of 2``, with a delta or rho where the budget has one."""
        text = f"ε = {_floor(self.epsilon)} of {_floor(budget.epsilon)}"
        text += f", δ = {_floor(self.delta)} of {_floor(budget.delta)}" if budget.delta else ""
        return text if self.rho is None else f"{text}, rho = {_floor(self.rho)} left"


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


_REST = attrgetter(*(f.name for f in fields(Spend)[1:]))


def chain_hash(*parts: str) -> str:
    """SHA-256 over length-prefixed fields: no two lists of fields read alike."""
    texts = [part.encode() for part in parts]
    return hashlib.sha256(
        b"privpac.ledger.v1" + b"".join([len(text).to_bytes(8, "big") + text for text in texts])
    ).hexdigest()


def chained(head: str, text: bytes) -> str:
    """The hash of a line with this text behind the line with the hash ``head``."""
    return hashlib.sha256(b"privpac.ledger.v2" + head.encode() + text).hexdigest()


def genesis(meta: Mapping[str, str]) -> str:
    return chain_hash(*(text for name in sorted(meta) for text in (name, meta[name])))


# Texts and numbers


def read_number(text: object) -> Fraction:
    """A stored rational in its one canonical form, or ``ValueError``; exponents are never expanded."""
    if not isinstance(text, str):
        raise ValueError
    return _read_number(text)


@lru_cache(256)  # a ledger has few prices
def _read_number(text: str) -> Fraction:
    if not re.fullmatch(r"[0-9]{1,2000}(/0*[1-9][0-9]{0,1999})?", text):
        raise ValueError
    value = Fraction(text)
    if str(value) != text:
        raise ValueError
    return value


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _floor(x: Fraction) -> str:
    """At most six significant digits, never more than ``x``."""
    return str(Context(prec=6, rounding=ROUND_FLOOR).divide(Decimal(x.numerator), Decimal(x.denominator)))


# The rule of a ledger: how spends add up, and when the budget is gone.
#
# * rule ``basic``: exact sums of epsilon and of delta; valid for adaptively chosen mechanisms and parameters.
# * rule ``zcdp``: every spend has delta 0, and their ``rho`` (``epsilon**2 / 2`` where none is known) add up to at most
#   the ``rho`` whose conversion ``rho + 2 sqrt(rho ln(1/delta))`` at the budget's delta is the budget's epsilon,
#   rounded down; a total of ``rho`` fixed at the start is a valid stopping rule for adaptive parameters.


MAX_NUMBER_BITS = 6000  # of a numerator or denominator: what a line can hold
_TAGS = ("unit", "neighbours", "model")


class CompositionRule(StrEnum):
    """How spends add up."""

    BASIC = "basic"
    ZCDP = "zcdp"


@frozen(slots=False)
class Account:
    """What was agreed when the ledger was made; ``limit`` is the budget's ``rho`` under ``zcdp``."""

    meta: Mapping[str, str]
    budget: Guarantee
    rule: CompositionRule
    limit: Fraction
    genesis: str

    @classmethod
    def of(cls, meta: Mapping[str, str]) -> Account:
        """The account with these settings; ``ValueError`` or ``KeyError`` if they make no sense."""
        numbers = {name: read_number(meta[name]) for name in ("epsilon", "delta", "rho") if meta[name]}
        budget = Guarantee(numbers["epsilon"], numbers["delta"], **{name: meta[name] for name in _TAGS})  # type: ignore[arg-type]
        plain_text(meta["dataset"], "dataset", 200)
        return cls(meta, budget, CompositionRule(meta["rule"]), numbers.get("rho", Fraction(0)), genesis(meta))

    def price(self, guarantee: Guarantee) -> Fraction | None:
        """The ``rho`` of a spend, if the rule adds them up."""
        if self.rule is CompositionRule.BASIC:
            return None
        if guarantee.delta:
            raise ParameterError(
                "a zcdp ledger pays for guarantees with delta = 0 only; use a ledger with the basic rule"
            )
        # Pure epsilon is epsilon**2 / 2 zCDP, so the smaller of the two bounds holds.
        half = guarantee.epsilon**2 / 2
        return half if guarantee.rho is None else min(guarantee.rho, half)

    def priced(self, spend: Spend) -> bool:
        """Whether the row carries the numbers that its rule adds up."""
        if self.rule is CompositionRule.BASIC:
            return spend.rho is None
        return spend.rho is not None and spend.rho <= spend.eps**2 / 2

    def next(
        self, last: Spend | None, name: str, label: str, eps: Fraction, delta: Fraction, rho: Fraction | None, at: str
    ) -> Spend:
        """The row that must follow ``last``."""
        seq, prev = (last.seq + 1, last.hash) if last else (1, self.genesis)
        cum_eps, cum_delta, cum_rho = self._spent(last)
        total = None if rho is None else cum_rho + rho
        spend = Spend(seq, name, label, eps, delta, rho, cum_eps + eps, cum_delta + delta, total, at, prev)
        return evolve(spend, hash=spend.digest())

    @staticmethod
    def _spent(last: Spend | None) -> tuple[Fraction, Fraction, Fraction]:
        zero = Fraction(0)
        return (last.cum_eps, last.cum_delta, last.cum_rho or zero) if last else (zero, zero, zero)

    def within(self, spend: Spend) -> bool:
        """Whether the budget covers everything up to this row."""
        eps, delta, rho = self._spent(spend)
        if self.rule is CompositionRule.ZCDP:
            return delta == 0 and rho <= self.limit
        return eps <= self.budget.epsilon and delta <= self.budget.delta

    def left(self, last: Spend | None) -> Balance:
        """What is left after ``last``, exactly or rounded down."""
        eps, delta, rho = self._spent(last)
        if self.rule is CompositionRule.BASIC:
            return Balance(self.budget.epsilon - eps, self.budget.delta - delta)
        rho = self.limit - rho
        # x / up(sqrt(x)) is sqrt(x) rounded down.
        return Balance(2 * rho / up(lambda: as_arb(2 * rho).sqrt()) if rho else Fraction(0), Fraction(0), rho)


# Public parameters


def settings_of(budget: Guarantee, rule: CompositionRule | str, dataset: str) -> dict[str, str]:
    if not isinstance(budget, Guarantee):
        raise TypeError(
            f"budget must be a Guarantee or a number, got {type(budget).__name__}; an existing ledger is opened with "
            "BudgetLedger.open"
        )
    rule = one_of(CompositionRule, rule, "rule")
    dataset = plain_text(dataset, "dataset", 200)
    if budget.epsilon == 0:
        raise ParameterError("the budget's epsilon must be positive: with 0 nothing can be learned")
    if rule is CompositionRule.ZCDP and budget.delta == 0:
        raise ParameterError(
            "a zcdp budget needs delta > 0 (such as 1e-6) for the conversion; use the basic rule for delta = 0"
        )
    if max(bits(budget.epsilon), bits(budget.delta)) > MAX_NUMBER_BITS:
        raise ParameterError("the budget has thousands of digits; use decimals such as 0.25")
    rho = str(zcdp_budget(budget.epsilon, budget.delta)) if rule is CompositionRule.ZCDP else ""
    numbers = {"epsilon": str(budget.epsilon), "delta": str(budget.delta), "rho": rho}
    return {"format": "privpac.ledger", "dataset": dataset, "rule": str(rule), **numbers} | {
        n: str(getattr(budget, n)) for n in _TAGS
    }


def bits(value: object) -> int:
    return max(value.numerator, value.denominator).bit_length() if isinstance(value, Fraction) else 0


# Where every id stands: what an exact search for duplicates and for repeated queries needs, in 24 bytes an entry.
#
# An entry has a 64-bit key (a hash of the id), the place of its line, its number, and 48 bits of the line's hash.  Keys
# may collide, so a hit is confirmed by reading the line (:mod:`privpac.ledger.records`); a key that is not here belongs
# to no id of the lines that are indexed.  The search is therefore exact, whoever chose the ids.


RECORD_LIMIT = 1 << 40
"""Places and numbers are below this; a file of a terabyte gets no more checkpoints and is read line by line."""

_LOW = (1 << 24) - 1
Columns = NDArray[np.uint64]


class Entry(NamedTuple):
    """One spend or one answer: its key, the place and check of its line, and its number."""

    key: int
    place: int
    number: int
    check: int


def key_of(*names: str) -> int:
    return int.from_bytes(hashlib.blake2b("\n".join(names).encode(), digest_size=8).digest(), "big")


def check_of(line: bytes) -> int:
    return int.from_bytes(hashlib.sha256(line).digest()[:6], "big")


def packed(entries: Iterable[Entry]) -> str:
    """Sorted entries as text: the keys, then place and number with half of the check below each."""
    rows = sorted((e.key, e.place << 24 | e.check >> 24, (e.number - 1) << 24 | e.check & _LOW) for e in entries)
    return base64.b64encode(np.array(rows, "<u8").reshape(-1, 3).T.tobytes()).decode()


def unpacked(text: str) -> Columns:
    """Three columns; ``ValueError`` for anything but sorted entries."""
    columns = np.frombuffer(base64.b64decode(text, validate=True), "<u8").reshape(3, -1).astype(np.uint64, copy=False)
    if (columns[0, 1:] < columns[0, :-1]).any():
        raise ValueError
    return columns


class Index:
    """Entries of many checkpoints; few sorted runs, the longer first."""

    def __init__(self) -> None:
        self._runs: list[tuple[Columns, memoryview]] = []  # and the first column as the standard library reads it

    def fill(self, parts: Iterable[Columns], total: int) -> None:
        """Take many parts at once, with one sort."""
        whole, at = np.empty((3, total), np.uint64), 0
        for part in parts:
            whole[:, at : at + part.shape[1]] = part  # too many: ValueError
            at += part.shape[1]
        if at != total:
            raise ValueError
        self._runs = [_sorted(whole)] if total else []

    def add(self, part: Columns) -> None:
        self._runs.append((part, memoryview(part[0])))
        while len(self._runs) > 1 and 2 * len(self._runs[-1][1]) > len(self._runs[-2][1]):
            (last, _), (before, _) = self._runs.pop(), self._runs.pop()
            self._runs.append(_sorted(np.concatenate([before, last], axis=1)))

    def find(self, key: int) -> Iterator[Entry]:
        """All entries with this key, as a rule none or one."""
        for run, keys in self._runs:
            at = bisect_left(keys, key)
            while at < len(keys) and keys[at] == key:
                place, number = int(run[1, at]), int(run[2, at])
                yield Entry(key, place >> 24, (number >> 24) + 1, (place & _LOW) << 24 | number & _LOW)
                at += 1


def _sorted(columns: Columns) -> tuple[Columns, memoryview]:
    order = np.argsort(columns[0], kind="stable")
    for column in columns:  # one at a time: a copy of all would be held twice
        column[:] = column[order]
    return columns, memoryview(columns[0])


# What the lines of a ledger say, read one after the other.
#
# A line holds only what was decided (who, what, how much, when); numbers, sums and hashes that follow from the lines
# before are computed here, so a file cannot contradict itself.  Every line is checked against all rules when it is
# read.
#
# | line | fields |
# |---|---|
# | ``settings`` | what was agreed; the first line, and only the first |
# | ``spend`` | id, label, epsilon, delta, rho, time |
# | ``session`` | id of the spend that paid for it, queries, time |
# | ``answers`` | session, time, list of (digest, answer, key) |
# | ``checkpoint`` | what the lines so far add up to |
#
# A **checkpoint** decides nothing.  It repeats what follows from the lines before it, so that a process can begin to
# read there instead of at the start: the sums after the last spend; of the sessions that answered since the checkpoint
# before, their heads and counts; and where each spend and answer since then stands (:mod:`privpac.ledger.records`).  It
# names the checkpoint before it by place and hash, so the last one vouches for all of them.  Who reads past a
# checkpoint computes it anew and compares; ``verify`` does that for all.
#
# What is older than the last checkpoint is looked for only when somebody asks: is this id used, which sessions are
# there, what was answered.


MAX_COUNTED_QUERIES = 1 << 40
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


@define(slots=False)
class Session:
    """One prediction session: what it may answer, and what it has answered."""

    session_id: str
    queries: int
    at: str
    hash: str
    head: str
    count: int = 0
    used: Counter[str] = field(factory=Counter)
    times: Counter[str] = field(factory=Counter)
    """Answers by minute."""
    recent: dict[bytes, tuple[int, str]] = field(factory=dict)
    """Number and answer by digest (32 bytes instead of 64 letters), since the last checkpoint."""
    changed: tuple[set[str], Counter[str]] = field(factory=lambda: (set(), Counter()))
    """Keys that asked since the last checkpoint, and answers by minute since then."""

    def __attrs_post_init__(self) -> None:
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
        if type(queries) is not int or not 1 <= queries <= MAX_COUNTED_QUERIES or session_id in self.sessions:
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
