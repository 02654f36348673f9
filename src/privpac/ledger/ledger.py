"""A durable budget: what a crash, a copy of the file or a second process cannot reset.

One ledger is one dataset with one unit, relation, model, budget and rule, fixed when it is made on purpose.  Nothing is
refunded.

Out of scope: restoring an old copy or a snapshot of the file, spending from two copies of it, deleting it, a hostile
operator.  Publish ``head()`` from time to time and pass it to ``verify`` to detect those.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import copy
from html import escape
from typing import Any, TypeAlias

from attrs import fields, frozen

from privpac.display import Shown
from privpac.errors import (
    BudgetExhausted,
    DuplicateSpend,
    LedgerChanged,
    LedgerMismatch,
    LedgerUnavailable,
    ParameterError,
)
from privpac.exact import Rational, rational, shown
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.ledger.file import LedgerFile, make_file
from privpac.ledger.queries import QueryLog
from privpac.ledger.records import (
    MAX_NUMBER_BITS,
    Balance,
    CompositionRule,
    LedgerState,
    Receipt,
    Spend,
    bits,
    now,
    settings_of,
)
from privpac.parameters import plain_text, seconds

_HEAD = re.compile("[0-9a-f]{12,64}")
LedgerLike: TypeAlias = "BudgetLedger | str | os.PathLike[str]"
"""A ledger, or the path of its file."""


class BudgetLedger(Shown):
    """A budget that a crash or a second process cannot reset.

    ``BudgetLedger.create(path, epsilon=3, dataset="visits")`` makes a ledger and refuses an existing file;
    ``BudgetLedger(path)`` and ``BudgetLedger.open(path)`` use one that is there.  With a budget ``BudgetLedger(path,
    epsilon=3, dataset="visits")`` makes the file if there is none and otherwise insists that it was made with exactly
    these (``LedgerMismatch``).  Whatever takes ``ledger=`` takes the path as well.
    ``dataset`` is a declared name, never a hash of the data.  Threads may share one object; after a fork both
    processes may go on with it.

    Parameters
    ----------
    path : path
        The ledger's file; with a budget it is made if there is none.
    budget : Guarantee, optional
        What all spends together may cost; or name its numbers, ``epsilon=3``.
    rule : CompositionRule or str
        How spends are added up.
    dataset : str
        A declared name, never a hash of the data.
    epsilon, delta, unit, neighbours
        The budget in place of a ``Guarantee``.
    timeout : float
        Seconds to wait for another process.

    Raises
    ------
    LedgerMismatch, LedgerCorrupt, LedgerUnavailable
        The file was made with other values, is not a sound ledger, or is not there.

    Examples
    --------
    >>> import tempfile
    >>> spend = Guarantee("1/2", unit="user", neighbours="add-remove")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with BudgetLedger.create(f"{folder}/budget.ledger", epsilon=2, dataset="visits") as ledger:
    ...         entry = ledger.spend(spend, label="first rule")
    ...         print(ledger)
    visits: (1.5, 0) of (2, 0) left after 1 spend; show() lists them
    """

    _expected = ""
    """What the head must begin with when something is spent; see ``open`` and ``expecting``."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        budget: Guarantee | None = None,
        rule: CompositionRule | str = CompositionRule.BASIC,
        dataset: str = "",
        *,
        epsilon: Rational | None = None,
        delta: Rational = 0,
        unit: Unit | str = Unit.USER,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        timeout: float = 30.0,
    ) -> None:
        self._file = LedgerFile(path, seconds(timeout, "timeout"))
        if budget is None and epsilon is None and not dataset:
            self._load()
            return
        wanted = settings_of(_budget(budget, epsilon, delta, unit, neighbours), rule, dataset)
        if not os.path.lexists(self._file.path):
            with suppress(FileExistsError):  # another process was faster; what it made is checked like any other
                make_file(self._file.path, _new(wanted))
        self._load()
        for name, value in wanted.items():
            if self._account.meta.get(name) != value and name != "rho":
                raise LedgerMismatch(
                    f"the ledger {self._file.name} was made with {name} {self._account.meta.get(name)!r}, not "
                    f"{value!r}; use it as it is with BudgetLedger.open, or make another ledger for another dataset"
                )

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        budget: Guarantee | None = None,
        rule: CompositionRule | str = CompositionRule.BASIC,
        dataset: str = "",
        *,
        epsilon: Rational | None = None,
        delta: Rational = 0,
        unit: Unit | str = Unit.USER,
        neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
        timeout: float = 30.0,
    ) -> BudgetLedger:
        """Make a new ledger, ``BudgetLedger.create(path, epsilon=3, dataset="visits")``; an existing file is
        refused."""
        wanted = settings_of(_budget(budget, epsilon, delta, unit, neighbours), rule, dataset)
        file = LedgerFile(path, seconds(timeout, "timeout"))
        try:
            make_file(file.path, _new(wanted))
        except FileExistsError:
            raise LedgerUnavailable(
                f"{file.name} exists already; use it with BudgetLedger.open, or choose another name"
            ) from None
        return cls.open(path, timeout=timeout)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, timeout: float = 30.0, expected_head: str | None = None
    ) -> BudgetLedger:
        """Open an existing ledger with the settings it was made with; a missing file is refused.

        With ``expected_head``, a head that was seen before or at least its first 12 digits, nothing is spent from a
        ledger that somebody else has spent from since (``LedgerChanged``).
        """
        self = cls.__new__(cls)
        self._file = LedgerFile(path, seconds(timeout, "timeout"))
        self._expected = "" if expected_head is None else _head_of(expected_head)
        with self._file.reading() as state:
            self._account = state.account
            self._check_head(state, self._expected)
        return self

    def _check_head(self, state: LedgerState, expected: str) -> None:
        if not state.head.startswith(expected):
            raise LedgerChanged(
                f"the ledger {self._file.name} was spent from since its head was {expected[:12]} "
                f"({self._account.left(state.last)} left); nothing was spent now: look again, then decide"
            )

    def _load(self) -> None:
        with self._file.reading() as state:
            self._account = state.account

    # What was agreed

    @property
    def budget(self) -> Guarantee:
        return self._account.budget

    @property
    def rule(self) -> CompositionRule:
        return self._account.rule

    @property
    def dataset(self) -> str:
        return self._account.meta["dataset"]

    @property
    def queries(self) -> QueryLog:
        """What the ledger's prediction sessions have answered."""
        return QueryLog(self._file)

    @classmethod
    def of(cls, ledger: LedgerLike) -> BudgetLedger:
        """A ledger as it is, or the one at a path: what ``ledger=`` means everywhere."""
        if isinstance(ledger, BudgetLedger):
            return ledger
        if not isinstance(ledger, (str, os.PathLike)):
            raise TypeError(
                f"ledger must be a BudgetLedger or the path of its file, got {type(ledger).__name__}; make one with "
                "BudgetLedger.create"
            )
        return cls.open(ledger)

    def __str__(self) -> str:
        with self._file.reading() as state:
            last = state.last
        count = last.seq if last else 0
        left, whole = self._account.left(last), Balance(self.budget.epsilon, self.budget.delta)
        return (
            f"{self.dataset}: {left} of {whole} left after {count} spend{'s' * (count != 1)}"
            f"{'; show() lists them' * bool(count)}"
        )

    def __repr__(self) -> str:
        return f"<BudgetLedger {self.dataset!r}: {self.budget.summary}, {self.rule} rule>"

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> BudgetLedger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Spending

    def expecting(self, head: str) -> BudgetLedger:
        """The same ledger, which pays only as long as nobody else does: the first spend needs this ``head`` (what
        ``head()`` said when the caller looked), each further one the head that the spend before it left.

        Otherwise ``LedgerChanged``, decided inside the transaction that would have paid.  Give it to whatever takes a
        ledger.
        """
        other = copy(self)
        other._expected = _head_of(head)
        return other

    def spend(
        self, guarantee: Guarantee, label: str, spend_id: str | None = None, *, expected_head: str | None = None
    ) -> Receipt:
        """Pay for one release; returns after the disk has it.

        Tags must equal the budget's (``IncompatibleGuarantees``); over budget is ``BudgetExhausted``, a repeated id
        ``DuplicateSpend``, another head than an ``expected_head`` is ``LedgerChanged``.  Whenever this raises, nothing
        may be released.
        """
        expected = self._expected if expected_head is None else _head_of(expected_head)
        if not isinstance(guarantee, Guarantee):
            raise TypeError(f"a Guarantee is spent, got {type(guarantee).__name__}")
        label = plain_text(label, "label", 200)
        name = plain_text(secrets.token_hex(16) if spend_id is None else spend_id, "spend_id", 100)
        self.budget.require_same_tags(guarantee)
        rho = self._account.price(guarantee)
        with self._file.turn() as turn:
            self._check_head(turn.state, expected)  # under the lock: nobody can spend between this look and the line
            last = turn.state.last
            if turn.state.paid(name):
                raise DuplicateSpend(
                    f"spend id {name!r} was used before; a retry would release twice on one payment: use a new id"
                )
            spend = self._account.next(last, name, label, guarantee.epsilon, guarantee.delta, rho, now())
            if not self._account.within(spend):
                raise BudgetExhausted(self._account.left(last), guarantee)
            if any(bits(getattr(spend, f.name)) > MAX_NUMBER_BITS for f in fields(type(spend))):
                raise ParameterError(
                    "the exact sum of all spends would have thousands of digits; spend decimals such as 0.25"
                )
            turn.write(
                "spend", name, label, str(spend.eps), str(spend.delta), "" if rho is None else str(rho), spend.at
            )
            if self._expected:
                self._expected = spend.hash
        return Receipt(spend, guarantee)

    # Reading

    def check_room(self, guarantee: Guarantee, spend_id: str | None = None) -> None:
        """Raise ``BudgetExhausted`` if the budget does not cover this now; only :meth:`spend` makes sure of it.

        A ``spend_id`` that was used before is left to :meth:`spend`, which has its own error for it.
        """
        rho = self._account.price(guarantee)
        with self._file.reading() as state:
            last = state.last
            if spend_id is not None and state.paid(spend_id):
                return
        spend = self._account.next(last, "", "", guarantee.epsilon, guarantee.delta, rho, now())
        if not self._account.within(spend):
            raise BudgetExhausted(self._account.left(last), guarantee)

    def remaining(self) -> Balance:
        """What is left, exactly or rounded down."""
        with self._file.reading() as state:
            return self._account.left(state.last)

    def history(self) -> tuple[Spend, ...]:
        """All spends, oldest first; behind the first checkpoint the whole file is read for it."""
        with self._file.reading() as state:
            if state.spends is not None:
                return state.spends
        spends: list[Spend] = []
        with self._file.reading(lambda head, spend: None if spend is None else spends.append(spend)):
            return tuple(spends)

    def show(self) -> LedgerTable:
        """What was spent, when and on what: a table to print, or to look at in a notebook.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = BudgetLedger.create(f"{folder}/budget.ledger", epsilon=2, dataset="visits")
        ...     entry = ledger.spend(Guarantee("1/2", unit="user", neighbours="add-remove"), label="first rule")
        ...     [(row["epsilon"], row["what"]) for row in ledger.show()], ledger.show().left
        ([('1/2', 'first rule')], '(1.5, 0)')
        """
        spends = self.history()
        zcdp = self.rule is CompositionRule.ZCDP
        rows = [
            {"no.": str(one.seq), "when": one.at, "epsilon": shown(one.eps), "delta": shown(one.delta)}
            | ({"rho": shown(one.rho or 0)} if zcdp else {})
            | {"what": one.label}
            for one in spends
        ]
        left = self._account.left(spends[-1] if spends else None)
        return LedgerTable(self.dataset, self.budget.summary, str(left), tuple(rows))

    def bought(self, guarantee: Guarantee, label: str) -> tuple[int, str]:
        """How often the ledger has paid this price for something with this label, and when last: public, as its lines
        are.  Behind the first checkpoint only the last spend is looked at."""
        with self._file.reading() as state:
            spends = state.spends if state.spends is not None else (state.last,) if state.last else ()
        same = [one for one in spends if (one.label, one.eps, one.delta) == (label, guarantee.epsilon, guarantee.delta)]
        return len(same), same[-1].at if same else ""

    def head(self) -> str:
        """The hash that fixes the whole history."""
        with self._file.reading() as state:
            return state.head

    def verify(self, published: str | None = None) -> str:
        """Read the whole file again, check settings, chains, sums and checkpoints (``LedgerCorrupt``) and return the
        head hash.

        With a ``published`` head, of the spends or of a session's answers, also check that this history extends it.
        """
        found: list[bool] = []

        def look(head: str, spend: Spend | None) -> None:
            if head == published:
                found.append(True)

        with self._file.reading(look) as state:
            if state.account != self._account:
                raise self._file.corrupt("has other settings than before")
            if published is not None and not found:
                raise self._file.corrupt("does not extend the published head: it is an old or another copy")
            return state.head

    def export_json(self) -> str:
        """Settings, balance, head and history as JSON, rationals as text."""
        rows = self.history()
        left = self._account.left(rows[-1] if rows else None)
        body: dict[str, Any] = {**self._account.meta, "head": rows[-1].hash if rows else self._account.genesis}
        body["remaining"] = {
            f.name: str(getattr(left, f.name)) for f in fields(type(left)) if getattr(left, f.name) is not None
        }
        body["spends"] = [dict(zip((f.name for f in fields(type(row))), row.row())) for row in rows]
        return json.dumps(body, indent=1)


@frozen(slots=False, repr=False)
class LedgerTable:
    """The spends of a ledger as texts, oldest first; ``print`` shows them, a notebook draws a table."""

    dataset: str
    budget: str
    left: str
    rows: tuple[dict[str, str], ...]

    def __iter__(self) -> Iterator[dict[str, str]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def title(self) -> str:
        """The dataset, its budget, and what is left."""
        return f"dataset {self.dataset}: budget {self.budget}; left {self.left}"

    def __str__(self) -> str:
        if not self.rows:
            return f"nothing was spent yet\n{self.title}"
        lines = [dict(zip(self.rows[0], self.rows[0])), *self.rows]
        widths = {name: max(len(line[name]) for line in lines) for name in self.rows[0]}
        table = ["  ".join(line[name].ljust(widths[name]) for name in widths).rstrip() for line in lines]
        return "\n".join([*table, "", self.title])

    __repr__ = __str__  # a prompt shows the table

    def _repr_html_(self) -> str:
        lines = [("th", dict(zip(self.rows[0], self.rows[0])))] if self.rows else []
        lines += [("td", row) for row in self.rows]
        body = "".join(
            "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in line.values()) + "</tr>"
            for tag, line in lines
        )
        return f"<p>{escape(self.title)}</p><table>{body}</table>"


def _budget(
    budget: Guarantee | None,
    epsilon: Rational | None,
    delta: Rational,
    unit: Unit | str,
    neighbours: Neighbours | str,
) -> Guarantee:
    """A budget as it is, or made of its numbers."""
    if epsilon is None:
        if not isinstance(budget, Guarantee):
            raise TypeError(
                f"a new ledger needs a budget, got {type(budget).__name__}: BudgetLedger.create(path, epsilon=3, "
                'dataset="visits"); a ledger that is there is used with BudgetLedger(path)'
            )
        return budget
    if budget is not None:
        raise ParameterError("the budget says its epsilon already: leave out epsilon=, or leave out budget=")
    return Guarantee(rational(epsilon, "epsilon", above=0), delta, unit=unit, neighbours=neighbours)


def _head_of(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a head must be text, got {type(value).__name__}")
    if not _HEAD.fullmatch(value):
        raise ParameterError("a head must be what head() returns, or its first 12 or more digits")
    return value


def _new(settings: Mapping[str, str]) -> dict[str, str]:
    return {**settings, "id": secrets.token_hex(16), "created": now()}
