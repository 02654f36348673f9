"""A durable budget, and the one way from data to a release.

``release`` validates, **spends, and only then touches data and coins**.  The spend is on disk before the first draw,
so a crash wastes budget and never leaks; nothing is refunded, because a failure may itself depend on the data.  One
ledger is one dataset with one unit, relation, model, budget and rule, fixed when it is made on purpose.

* rule ``basic``: exact sums of epsilon and of delta; valid for adaptively chosen mechanisms and parameters.
* rule ``zcdp``: every spend has delta 0, and their ``rho`` (``epsilon**2 / 2`` where none is known) add up to at most
  the ``rho`` whose conversion ``rho + 2 sqrt(rho ln(1/delta))`` at the budget's delta is the budget's epsilon, rounded
  down; a total of ``rho`` fixed at the start is a valid stopping rule for adaptive parameters.

Out of scope: restoring an old copy or a snapshot of the file, deleting it, a hostile operator.  Publish ``head()`` from
time to time and pass it to ``verify`` to detect those.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import time
from contextlib import suppress
from dataclasses import fields, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, Protocol

from privpac.composition import zcdp_budget
from privpac.errors import (
    BudgetExhausted,
    DuplicateSpend,
    IncompatibleGuarantees,
    InsecureRandomnessError,
    LedgerCorrupt,
    LedgerMismatch,
    LedgerUnavailable,
    ParameterError,
)
from privpac.exact import as_arb, up
from privpac.guarantee import Guarantee, Neighbours, one_of
from privpac.ledger_file import Balance, LedgerFile, Receipt, Spend, genesis, make_file, now, plain_text, read_number, seconds
from privpac.ledger_queries import QueryLog
from privpac.released import Released
from privpac.rng import Rng, _insecure, secret_rng

__all__ = ["Balance", "BudgetLedger", "Learner", "Receipt", "Rule", "Spend", "release"]

_log = logging.getLogger(__name__)
_MAX_BITS = 6000  # of a numerator or denominator: what the file can hold
_TAGS = ("unit", "neighbours", "model")


class Rule(StrEnum):
    """How spends add up."""

    BASIC = "basic"
    ZCDP = "zcdp"


class BudgetLedger:
    """A budget that a crash or a second process cannot reset.

    ``BudgetLedger(path, budget, rule, dataset)`` makes the file if there is none and otherwise insists that it was
    made with exactly these (``LedgerMismatch``); ``create`` refuses an existing file, ``open`` a missing one.
    ``dataset`` is a declared name, never a hash of the data.  Threads may share one object; after a fork both
    processes may go on with it.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        budget: Guarantee,
        rule: Rule | str = Rule.BASIC,
        dataset: str = "",
        *,
        timeout: float = 30.0,
    ) -> None:
        wanted = _settings(budget, rule, dataset)
        self._file = LedgerFile(path, seconds(timeout, "timeout"))
        if not os.path.lexists(self._file.path):
            with suppress(FileExistsError):  # another process was faster; what it made is checked like any other
                make_file(self._file.path, wanted)
        self._load()
        for name, value in wanted.items():
            if self._meta[name] != value and name != "rho":
                raise LedgerMismatch(
                    f"the ledger {self._file.name} was made with {name} {self._meta[name]!r}, not {value!r}; "
                    "use it as it is with BudgetLedger.open, or make another ledger for another dataset"
                )

    @classmethod
    def create(
        cls, path: str | os.PathLike[str], budget: Guarantee, rule: Rule | str = Rule.BASIC, dataset: str = "", *, timeout: float = 30.0
    ) -> BudgetLedger:
        """Make a new ledger; an existing file is refused."""
        wanted = _settings(budget, rule, dataset)
        file = LedgerFile(path, seconds(timeout, "timeout"))
        try:
            make_file(file.path, wanted)
        except FileExistsError:
            raise LedgerUnavailable(f"{file.name} exists already; use it with BudgetLedger.open, or choose another name") from None
        return cls.open(path, timeout=timeout)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, timeout: float = 30.0) -> BudgetLedger:
        """Open an existing ledger with the settings it was made with; a missing file is refused."""
        self = cls.__new__(cls)
        self._file = LedgerFile(path, seconds(timeout, "timeout"))
        self._load()
        return self

    def _load(self) -> None:
        with self._file.transaction() as db:
            self._meta = self._file.settings(db)
        try:
            numbers = {name: read_number(self._meta[name]) for name in ("epsilon", "delta", "rho") if self._meta[name]}
            self._rule = Rule(self._meta["rule"])
            self._limit = numbers.get("rho", Fraction(0))
            tags = {name: self._meta[name] for name in _TAGS}
            self._budget = Guarantee(numbers["epsilon"], numbers["delta"], **tags)  # type: ignore[arg-type]
            self._genesis, _ = genesis(self._meta), self._meta["dataset"]
        except (KeyError, ValueError):
            raise LedgerCorrupt(f"the settings of {self._file.name} make no sense; do not use this ledger") from None

    # What was agreed

    @property
    def budget(self) -> Guarantee:
        return self._budget

    @property
    def rule(self) -> Rule:
        return self._rule

    @property
    def dataset(self) -> str:
        return self._meta["dataset"]

    @property
    def queries(self) -> QueryLog:
        """What the ledger's prediction sessions have answered."""
        return QueryLog(self._file, self._genesis)

    def __repr__(self) -> str:
        return f"<BudgetLedger {self.dataset!r}: {self._budget.summary}, {self._rule} rule>"

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> BudgetLedger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Spending

    def spend(self, guarantee: Guarantee, label: str, spend_id: str | None = None) -> Receipt:
        """Pay for one release; returns after the disk has it.

        Tags must equal the budget's (``IncompatibleGuarantees``); over budget is ``BudgetExhausted``, a repeated id
        ``DuplicateSpend``.  Whenever this raises, nothing may be released.
        """
        if not isinstance(guarantee, Guarantee):
            raise TypeError(f"a Guarantee is spent, got {type(guarantee).__name__}")
        label = plain_text(label, "label", 200)
        name = plain_text(secrets.token_hex(16) if spend_id is None else spend_id, "spend_id", 100)
        self._budget.require_same_tags(guarantee)
        rho = None
        if self._rule is Rule.ZCDP:
            if guarantee.delta:
                raise ParameterError("a zcdp ledger pays for guarantees with delta = 0 only; use a ledger with the basic rule")
            # Pure epsilon is epsilon**2 / 2 zCDP, so the smaller of the two bounds holds.
            half = guarantee.epsilon**2 / 2
            rho = half if guarantee.rho is None else min(guarantee.rho, half)
        with self._file.transaction(write=True) as db:
            last = self._file.last(db)
            if db.execute("SELECT 1 FROM spend WHERE spend_id = ?", (name,)).fetchone():
                raise DuplicateSpend(f"spend id {name!r} was used before; a retry would release twice on one payment: use a new id")
            spend = self._next(last, name, label, guarantee.epsilon, guarantee.delta, rho, now())
            if not self._within(spend):
                raise BudgetExhausted(self._left(last), guarantee)
            if any(_bits(getattr(spend, f.name)) > _MAX_BITS for f in fields(spend)):
                raise ParameterError("the exact sum of all spends would have thousands of digits; spend decimals such as 0.25")
            self._file.append(db, spend)
        return Receipt(spend, guarantee)

    def _next(self, last: Spend | None, name: str, label: str, eps: Fraction, delta: Fraction, rho: Fraction | None, at: str) -> Spend:
        """The row that must follow ``last``; ``verify`` asks for the same."""
        seq, prev = (last.seq + 1, last.hash) if last else (1, self._genesis)
        cum_eps, cum_delta, cum_rho = self._spent(last)
        total = None if rho is None else cum_rho + rho
        spend = Spend(seq, name, label, eps, delta, rho, cum_eps + eps, cum_delta + delta, total, at, prev)
        return replace(spend, hash=spend.digest())

    @staticmethod
    def _spent(last: Spend | None) -> tuple[Fraction, Fraction, Fraction]:
        zero = Fraction(0)
        return (last.cum_eps, last.cum_delta, last.cum_rho or zero) if last else (zero, zero, zero)

    def _within(self, spend: Spend) -> bool:
        eps, delta, rho = self._spent(spend)
        if self._rule is Rule.ZCDP:
            return delta == 0 and rho <= self._limit
        return eps <= self._budget.epsilon and delta <= self._budget.delta

    def _left(self, last: Spend | None) -> Balance:
        eps, delta, rho = self._spent(last)
        if self._rule is Rule.BASIC:
            return Balance(self._budget.epsilon - eps, self._budget.delta - delta)
        rho = self._limit - rho
        # x / up(sqrt(x)) is sqrt(x) rounded down.
        return Balance(2 * rho / up(lambda: as_arb(2 * rho).sqrt()) if rho else Fraction(0), Fraction(0), rho)

    # Reading

    def remaining(self) -> Balance:
        """What is left, exactly or rounded down."""
        with self._file.transaction() as db:
            return self._left(self._file.last(db))

    def history(self) -> tuple[Spend, ...]:
        """All spends, oldest first."""
        with self._file.transaction() as db:
            return tuple(self._file.spends(db))

    def head(self) -> str:
        """The hash that fixes the whole history."""
        with self._file.transaction() as db:
            last = self._file.last(db)
        return last.hash if last else self._genesis

    def verify(self, published: str | None = None) -> str:
        """Check file, schema, settings, chains and sums (``LedgerCorrupt``) and return the head hash.

        With a ``published`` head, of the spends or of a session's answers, also check that this history extends it.
        """
        with self._file.transaction() as db:
            if db.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                raise LedgerCorrupt(f"{self._file.name} fails SQLite's integrity check; do not use this ledger")
            self._file.check_schema(db)
            if self._file.settings(db) != self._meta:
                raise LedgerCorrupt(f"the settings of {self._file.name} were changed; do not use this ledger")
            rows, answered = self._file.spends(db), self.queries.verify(db)
        last: Spend | None = None
        for row in rows:
            priced = (row.rho is not None) == (self._rule is Rule.ZCDP) and (row.rho is None or row.rho <= row.eps**2 / 2)
            if not priced or row != self._next(last, row.spend_id, row.label, row.eps, row.delta, row.rho, row.at) or not self._within(row):
                raise LedgerCorrupt(f"the chain or the sums of {self._file.name} break at row {row.seq}; do not use this ledger")
            last = row
        if published is not None and published not in {self._genesis, *(row.hash for row in rows), *answered}:
            raise LedgerCorrupt(f"{self._file.name} does not extend the published head: an old or another copy; do not use this ledger")
        return last.hash if last else self._genesis

    def export_json(self) -> str:
        """Settings, balance, head and history as JSON, rationals as text."""
        rows = self.history()
        left = self._left(rows[-1] if rows else None)
        body: dict[str, Any] = {**self._meta, "head": rows[-1].hash if rows else self._genesis}
        body["remaining"] = {f.name: str(getattr(left, f.name)) for f in fields(left) if getattr(left, f.name) is not None}
        body["spends"] = [dict(zip((f.name for f in fields(row)), row.row())) for row in rows]
        return json.dumps(body, indent=1)


# From data to a release


class Learner(Protocol):
    """What ``release`` needs: a promise known before any data, a check of the data, one draw."""

    @property
    def guarantee(self) -> Guarantee: ...

    def bind(self, data: Any, /) -> Any:
        """Validate public parameters and the data's schema; the last place where data may raise."""

    def draw(self, bound: Any, rng: Rng, /) -> Released:
        """Touch data and coins once."""


def release(
    learner: Learner,
    data: Any,
    *,
    rng: Any = None,
    ledger: BudgetLedger | None = None,
    label: str | None = None,
    spend_id: str | None = None,
    not_before: float | None = None,
) -> Released:
    """Validate, spend, draw, return.

    Guarantees: with a ledger, ``learner.guarantee`` is on disk before ``draw`` runs, whatever happens after; there are
    no refunds.  Seeded generators are refused with a ledger and give a result without guarantee otherwise.
    ``not_before`` (seconds from the call) hides the run time behind a public deadline, errors included.
    """
    start = time.monotonic()
    rng = secret_rng(rng)
    if not rng.secure and (ledger is not None or not _insecure.get()):
        where = "a ledger pays for system randomness only" if ledger is not None else "this generator is for tests only"
        raise InsecureRandomnessError(
            f"{where}, not for {type(rng).__name__}; leave rng out (tests: privpac.testing.insecure_randomness())"
        )
    deadline = None if not_before is None else start + seconds(not_before, "not_before")
    price = _price(learner, ledger)
    label = plain_text(type(learner).__name__ if label is None else label, "label", 200)
    if spend_id is not None and ledger is None:
        raise ParameterError("spend_id names a ledger entry, but no ledger was given; pass ledger=")
    bound = learner.bind(data)
    try:
        if ledger is not None:
            ledger.spend(price, label, spend_id).use()
        released = learner.draw(bound, rng)
        return released if rng.secure else replace(released, guarantee=None, insecure=True)
    finally:
        _wait(deadline)


def _price(learner: Learner, ledger: BudgetLedger | None) -> Guarantee:
    """What the ledger is charged: the learner's guarantee, under the ledger's relation."""
    guarantee = learner.guarantee
    if not isinstance(guarantee, Guarantee):
        raise TypeError(f"learner.guarantee must be a Guarantee, got {type(guarantee).__name__}")
    if ledger is None:
        return guarantee
    if not isinstance(ledger, BudgetLedger):
        raise TypeError(f"ledger must be a BudgetLedger, got {type(ledger).__name__}")
    mine, theirs = guarantee.neighbours, ledger.budget.neighbours
    if (mine, theirs) == (Neighbours.REPLACE, Neighbours.ADD_REMOVE):
        raise IncompatibleGuarantees(
            "an add-remove ledger cannot pay for a replace learner: replace treats the number of users as public; build the learner "
            "with neighbours='add-remove', or keep the dataset under a replace ledger"
        )
    price = guarantee.to_replace() if (mine, theirs) == (Neighbours.ADD_REMOVE, Neighbours.REPLACE) else guarantee
    ledger.budget.require_same_tags(price)
    return price


def _wait(deadline: float | None) -> None:
    if deadline is None:
        return
    left = deadline - time.monotonic()
    if left > 0:
        time.sleep(left)
    else:
        _log.warning("a release ended after its public deadline; choose a later not_before")


# Public parameters


def _settings(budget: Guarantee, rule: Rule | str, dataset: str) -> dict[str, str]:
    if not isinstance(budget, Guarantee):
        raise TypeError(f"budget must be a Guarantee, got {type(budget).__name__}; an existing ledger is opened with BudgetLedger.open")
    rule = one_of(Rule, rule, "rule")
    dataset = plain_text(dataset, "dataset", 200)
    if budget.epsilon == 0:
        raise ParameterError("the budget's epsilon must be positive: with 0 nothing can be learned")
    if rule is Rule.ZCDP and budget.delta == 0:
        raise ParameterError("a zcdp budget needs delta > 0 (such as 1e-6) for the conversion; use the basic rule for delta = 0")
    if max(_bits(budget.epsilon), _bits(budget.delta)) > _MAX_BITS:
        raise ParameterError("the budget has thousands of digits; use decimals such as 0.25")
    rho = str(zcdp_budget(budget.epsilon, budget.delta)) if rule is Rule.ZCDP else ""
    numbers = {"epsilon": str(budget.epsilon), "delta": str(budget.delta), "rho": rho}
    return {"format": "privpac.ledger", "dataset": dataset, "rule": str(rule), **numbers} | {n: str(getattr(budget, n)) for n in _TAGS}


def _bits(value: Any) -> int:
    return max(value.numerator, value.denominator).bit_length() if isinstance(value, Fraction) else 0
