"""A prediction session: private voters behind a counter.

The session holds rules that were learned without privacy from disjoint parts of a relabelled secret sample.  They,
their votes and the margin of an answer are **never shown**; only noisy majorities leave, at most ``queries`` of them,
and the guarantee, paid for once and as a whole when the session was made, covers all of them together, whoever asks and
however the questions depend on earlier answers.

* A query that was asked before is answered from the log, free of charge: repeating an answer is post-processing.
  Queries are the same if their encoded values are equal; two different queries on which all voters agree are **not**
  shared, since that is private.
* Every new answer is counted, durably when a ledger keeps the count, before it leaves (:mod:`privpac.ledger.queries`).
* All votes are counted for every query, in every case, and every answer is one word against one number, so that the
  work done does not depend on the margin.

Without a ledger the count lives in this process: such a session cannot be saved, copied or used after a fork, because
each copy would have a budget of its own.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privpac.arrays import Ints, Words
from privpac.display import Discreet
from privpac.errors import BudgetExhausted, LedgerUnavailable, SchemaError
from privpac.exact import Rational
from privpac.guarantee import Guarantee
from privpac.law import Law
from privpac.ledger.queries import Answer, Ask
from privpac.rng import Rng, secret_rng
from privpac.rules.base import ConceptClass, columns_of

if TYPE_CHECKING:
    from privpac.data import Domain
    from privpac.ledger import BudgetLedger

_Codes = Mapping[str, Words]


def vote_law(ones: int, voters: int, gamma: Rational | None = None, *, base: Rational | None = None) -> Law:
    """The law of one answer when ``ones`` of the voters say 1, ``Pr[1] = 1/(1 + base**-(2 ones - voters))``, where
    ``base = e**gamma``."""
    lead = 2 * ones - voters
    return Law.from_blocks(score=np.array([max(lead, 0), max(-lead, 0)], dtype=np.int64), eta=gamma, base=base)


class Coin:
    """Exact draws from a vote law, one word each.

    A uniform number whose first 64 bits are the word says 0 if it lies below ``Pr[0]``.  ``_low`` and ``_high`` enclose
    ``2**64 Pr[0]``: below the first every such number says 0, from the second on every one says 1.  The one or two
    words in between (of ``2**64``) are handed to the law, which compares in the same way and draws as many further bits
    as it needs.
    """

    def __init__(self, law: Law) -> None:
        self._law, zero = law, law.prob(0)
        self._low, self._high = math.floor(zero.lo * 2**64), math.ceil(zero.hi * 2**64)

    def toss(self, word: int, rng: Rng) -> int:
        """The answer that a uniform ``word`` gives; ``rng`` for the bits after it."""
        if word < self._low:
            return 0
        if word >= self._high:
            return 1
        return int(self._law.as_finite().sample(_Resumed(word, rng)))


class _Resumed(Rng):
    """A source whose first word has been drawn already."""

    def __init__(self, word: int, rng: Rng) -> None:
        self._first, self._rng = [word], rng

    def word(self) -> int:
        return self._first.pop() if self._first else self._rng.word()


class SessionLog(Protocol):
    """Where answers are counted and kept."""

    def answer_many(self, session_id: str, asks: Sequence[Ask]) -> list[list[Answer] | BudgetExhausted]: ...

    def used(self, session_id: str, key: str | None = None) -> int: ...


class _Memory:
    """A count for one process; the same rules as the ledger's, without the disk."""

    def __init__(self, queries: int) -> None:
        self._queries, self._pid, self._lock = queries, os.getpid(), threading.Lock()
        self._known: dict[str, Answer] = {}
        self._shares: dict[str, int] = {}

    def _check(self) -> None:
        if self._pid != os.getpid():
            raise LedgerUnavailable(
                "this session counts in the process that made it; share it between processes with a ledger"
            )

    def answer_many(self, session_id: str, asks: Sequence[Ask]) -> list[list[Answer] | BudgetExhausted]:
        self._check()
        with self._lock:
            return [self._answer(ask) for ask in asks]

    def _answer(self, ask: Ask) -> list[Answer] | BudgetExhausted:
        new: dict[str, int] = {}
        for i, digest in enumerate(ask.digests):
            if digest not in self._known:
                new.setdefault(digest, i)
        number, used = len(self._known), self._shares.get(ask.key, 0)
        left = min(self._queries - number, self._queries if ask.share is None else ask.share - used)
        if len(new) > left:
            return BudgetExhausted(left, len(new))
        drawn = {
            digest: Answer(number + n, ask.draw(i, number + n), True) for n, (digest, i) in enumerate(new.items(), 1)
        }
        self._known |= {digest: evolve(answer, fresh=False) for digest, answer in drawn.items()}
        self._shares[ask.key] = used + len(new)
        return [drawn.get(digest, self._known[digest]) for digest in ask.digests]

    def used(self, session_id: str, key: str | None = None) -> int:
        self._check()
        return len(self._known) if key is None else self._shares.get(key, 0)


@frozen(slots=False, eq=False)
class QueryBatch:
    """Queries of one client, as codes, that are answered together or not at all."""

    codes: _Codes
    key: str = ""
    share: int | None = None


@frozen(slots=False, repr=False, eq=False)
class PredictionSession(Discreet):
    """Answers label queries under one guarantee; private state, not a release.

    ``predict(X)`` takes what a released rule takes (a frame by column names, or an array in declared order; values
    outside the domain are clamped, missing ones refused) and answers every row or none: ``BudgetExhausted`` when fewer
    new answers are left than asked for.
    """

    concept: ConceptClass
    label: str
    guarantee: Guarantee | None
    parameters: Mapping[str, Any]
    queries: int
    gamma: Fraction
    session_id: str
    insecure: bool = False
    _voters: tuple[tuple[int, ...], ...] = field(default=(), kw_only=True)
    _secret: bytes = field(kw_only=True)
    _log: SessionLog = field(kw_only=True)
    _rng: Rng | None = field(default=None, kw_only=True)

    @staticmethod
    def in_memory(queries: int) -> SessionLog:
        """A count that lives and dies with this process."""
        return _Memory(queries)

    def on(self, ledger: BudgetLedger) -> PredictionSession:
        """The same session counted by the ledger that paid for it."""
        return evolve(self, log=ledger.queries)

    # What may be shown

    @cached_property
    def features(self) -> Mapping[str, Domain]:
        """The columns a query needs, with their domains: public schema."""
        declared = self.concept.declared().items()
        return MappingProxyType({name: domain for name, domain in declared if name is not None and domain is not None})

    @property
    def durable(self) -> bool:
        """Whether a ledger keeps the count."""
        return not isinstance(self._log, _Memory)

    def used(self, key: str | None = None) -> int:
        """New answers given so far, in all or to one key."""
        return self._log.used(self.session_id, key)

    def remaining(self) -> int:
        """New answers left."""
        return max(0, self.queries - self.used())

    def __repr__(self) -> str:
        promise = "no guarantee: insecure randomness" if self.guarantee is None else self.guarantee.summary
        columns = ", ".join(f"{name}: {domain!r}" for name, domain in self.features.items())
        return f"<PredictionSession of {type(self.concept).__name__} on {columns}: {self.queries} answers, {promise}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a session cannot be copied or pickled: the copy would have a budget of its own, and plain hypotheses"
        )

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()

    # Answering

    def encode(self, X: object) -> _Codes:
        """Queries as codes; ``SchemaError`` for missing columns or values, before anything is counted."""
        codes = {}
        for name, (domain, values) in columns_of(X, self.features).items():
            codes[name], valid = domain.encode(values, on_invalid="clamp", name=name)
            if not bool(np.all(valid)):
                raise SchemaError(
                    f"column {name!r}: {int(np.sum(~valid))} missing or unreadable values; a query needs a value in "
                    "every column"
                )
        return codes

    def predict(self, X: object, *, key: str = "", share: int | None = None) -> NDArray[np.int8]:
        """One noisy majority for every row; ``key`` names who asks, ``share`` limits the new answers of that key."""
        return self.predict_codes(self.encode(X), key=key, share=share)

    def predict_codes(self, codes: _Codes, *, key: str = "", share: int | None = None) -> NDArray[np.int8]:
        (found,) = self.predict_many([QueryBatch(codes, key, share)])
        if isinstance(found, BudgetExhausted):
            raise found
        return found

    def predict_many(self, questions: Sequence[QueryBatch]) -> list[NDArray[np.int8] | BudgetExhausted]:
        """Several questions in one transaction: for each its answers, or why it was refused; none returns before all
        are counted."""
        codes = {
            name: np.concatenate([np.asarray(q.codes[name], dtype="<u8") for q in questions]) for name in self.features
        }
        rows = np.stack(list(codes.values()), axis=1)
        digests = [self._digest(row.tobytes()) for row in rows]
        masks = {digest: self._mask(digest) for digest in digests}
        counts: dict[int, list[int]] = {0: self._count(0, codes)}
        rng, words = secret_rng(self._rng), list[int]()

        def draw(i: int, number: int) -> str:
            epoch = (number - 1) // -(-self.queries // len(self._voters))
            if epoch not in counts:
                counts[epoch] = self._count(epoch, codes)
            if not words:  # one for every row, drawn together; each is used once or thrown away
                words.extend(rng.words(len(digests)).tolist())
            return str(self._coins[counts[epoch][i]].toss(words[i], rng) ^ masks[digests[i]])

        asks, start = [], 0
        for question in questions:
            end = start + len(next(iter(question.codes.values())))

            def shifted(i: int, number: int, start: int = start) -> str:
                return draw(start + i, number)

            asks.append(Ask(digests[start:end], shifted, question.key, question.share))
            start = end
        found = self._log.answer_many(self.session_id, asks)
        out: list[NDArray[np.int8] | BudgetExhausted] = []
        for ask, answers in zip(asks, found):
            if isinstance(answers, BudgetExhausted):
                out.append(answers)
            else:
                bits = [int(answer.answer) ^ masks[digest] for answer, digest in zip(answers, ask.digests)]
                out.append(np.array(bits, dtype=np.int8))
        return out

    @cached_property
    def _coins(self) -> tuple[Coin, ...]:
        r = len(self._voters[0])
        return tuple(Coin(vote_law(ones, r, self.gamma)) for ones in range(r + 1))

    @cached_property
    def _polls(self) -> tuple[Callable[[_Codes], Ints], ...]:
        return tuple(self.concept.poll(epoch) for epoch in self._voters)

    def _count(self, epoch: int, codes: _Codes) -> list[int]:
        """How many voters say 1, row by row: private."""
        counts: list[int] = self._polls[epoch](codes).tolist()
        return counts

    # The ledger alone must tell neither queries nor answers: both are keyed by a secret that only the session holds.

    def _digest(self, query: bytes) -> str:
        return self._keyed(b"privpac.query" + query).hex()

    def _mask(self, digest: str) -> int:
        return self._keyed(b"privpac.answer" + digest.encode())[0] & 1

    def _keyed(self, text: bytes) -> bytes:
        """HMAC-SHA256 under the session's secret; both hashes go on from where they have read it."""
        inner, outer = (begun.copy() for begun in self._pads)
        inner.update(text)
        outer.update(inner.digest())
        keyed: bytes = outer.digest()
        return keyed

    @cached_property
    def _pads(self) -> tuple[Any, Any]:
        block = self._secret if len(self._secret) <= 64 else hashlib.sha256(self._secret).digest()
        inner, outer = (hashlib.sha256(bytes(byte ^ pad for byte in block.ljust(64, b"\0"))) for pad in (0x36, 0x5C))
        return inner, outer
