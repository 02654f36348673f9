"""What a table must satisfy, and how its curator is told when it does not.

Every value of a column gets one verdict (:class:`Verdict`), decided from that value alone.  A ``SchemaError`` names
the column, the broken rules and how many values break each of them; it never quotes a value, a row number or an id.
Readers' own messages do quote values, so they are neither chained nor shown: :func:`quietly` raises after the foreign
exception is gone, hence even ``__context__`` is empty.

===========  ===========================  ===========================  ===================================
on_invalid   a value outside the domain   a value between its points   a missing or unreadable value
===========  ===========================  ===========================  ===================================
``raise``    ``SchemaError``              ``SchemaError``              ``SchemaError``
``drop``     the record is dropped        the point just below         the record is dropped
``clamp``    the nearest end              the point just below         the record is dropped: no end is near
===========  ===========================  ===========================  ===================================

Labels have neither ends nor points: one that is missing or none of the declared ones is a ``SchemaError`` whatever
``on_invalid`` says, unless ``on_invalid_label="drop"`` drops its record.

A column of ``Missing(domain, "own")`` has no missing values: they have a code of their own.  One of
``Missing(domain, "drop")`` drops their records under every policy, ``raise`` included.

Dropping looks at nothing but the record, and the user stays, with fewer records or none: a user's invalid records
never change whether *another* record counts, nor the number of users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum, StrEnum
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl
from attrs import define, field

from privpac.arrays import Bools, Bytes, Words
from privpac.errors import PrivpacError, SchemaError

_T = TypeVar("_T")

_REPAIR = "on_invalid='drop' or 'clamp'"


class OnInvalid(StrEnum):
    """What happens to a record that breaks the schema."""

    RAISE = "raise"
    DROP = "drop"
    CLAMP = "clamp"


class OnInvalidLabel(StrEnum):
    """What happens to a record whose label is missing or none of the declared ones."""

    RAISE = "raise"
    DROP = "drop"


class Verdict(IntEnum):
    """What is wrong with one value."""

    GOOD = 0
    MISSING = 1
    OUTSIDE = 2
    OFF = 3
    UNREAD = 4


class Encoded(NamedTuple):
    """Codes with the values outside or off the domain already clamped, and a verdict each (``None``: all good)."""

    codes: Words
    verdicts: Bytes | None


def quietly(action: Callable[[], _T], message: str) -> _T:
    """Run a reader; if it fails, say ``message`` and nothing of what the reader said."""
    try:
        return action()
    except (MemoryError, PrivpacError):
        raise
    except (Exception, pl.exceptions.PanicException):
        pass
    raise SchemaError(message) from None


def wrong_type(name: str, dtype: pl.DataType, needed: str) -> SchemaError:
    """The column's type cannot be read; the type is named without its categories or fields."""
    # Categories are texts by another name, and a stream has only the texts.
    kind = pl.String if isinstance(dtype, (pl.Categorical, pl.Enum)) else dtype.base_type()
    return SchemaError(f"column {name!r} has type {kind.__name__}; {needed} needed")


def broken(
    name: str, counts: Mapping[int, int], words: Mapping[Verdict, str], allowed: str, repair: str = _REPAIR
) -> SchemaError:
    """What is wrong with a column, by the number of records with each verdict."""
    found = ", ".join(f"{counts[v]} {words[v]}" for v in Verdict if v is not Verdict.GOOD and counts.get(v))
    return SchemaError(
        f"column {name!r}: {found} (number of records); allowed: {allowed}; correct the table or choose {repair}"
    )


# What is counted for the curator


class Fault(NamedTuple):
    """Values of a column that broke one rule, and what became of their records."""

    column: str
    verdict: Verdict
    reason: str
    what: str
    """``dropped``, ``repaired`` (moved into the domain), or ``refused``: the whole table, where nobody only counts."""


@define(slots=False)
class Tally:
    """Records and people that were read, and how many records met which fault.

    Private, a few numbers: kept beside the data for the curator's ``check`` and read by nothing else.
    """

    records: int = 0
    people: int = 0
    """Those with at least one record."""
    faults: Counter[Fault] = field(factory=Counter)
    lenient: bool = False
    """Whether ``raise`` only counts: for a look at a table that would be refused."""

    def merge(self, other: Tally) -> Tally:
        """The counts of both, of other rows or other columns."""
        return Tally(self.records + other.records, self.people + other.people, self.faults + other.faults, self.lenient)

    def __str__(self) -> str:
        return "Tally(for the curator only)"

    __repr__ = __str__


OF_IDS = "user ids that"
"""How the reason begins where an id is at fault."""
_TALLY: ContextVar[Tally | None] = ContextVar("tally", default=None)


@contextmanager
def tallied(lenient: bool = False) -> Iterator[Tally]:
    """Count all verdicts that are accepted meanwhile, in this thread."""
    tally = Tally(lenient=lenient)
    token = _TALLY.set(tally)
    try:
        yield tally
    finally:
        _TALLY.reset(token)


def accept(
    name: str,
    verdicts: Bytes | None,
    words: Mapping[Verdict, str],
    allowed: str,
    on_invalid: OnInvalid,
    repair: str = _REPAIR,
) -> Bools | None:
    """The mask of records to keep, ``None`` for all of them; raises if the rule is to raise, and names the
    ``repair``."""
    if verdicts is None:
        return None
    tally, counts = _TALLY.get(), np.bincount(verdicts, minlength=len(Verdict)).tolist()
    if counts[Verdict.GOOD] == len(verdicts):
        return None
    raises = on_invalid is OnInvalid.RAISE
    refused = raises and tally is not None and tally.lenient
    if raises and not refused:
        raise broken(name, dict(enumerate(counts)), words, allowed, repair) from None
    keep = np.asarray(verdicts == Verdict.GOOD)
    if not refused:
        keep |= verdicts == Verdict.OFF
        if on_invalid is OnInvalid.CLAMP:
            keep |= verdicts == Verdict.OUTSIDE
    if tally is None:
        return keep
    for verdict, count in enumerate(counts):
        if count and verdict != Verdict.GOOD:
            # One verdict has one fate, so that any of its records shows it.
            repaired = bool(keep[np.argmax(verdicts == verdict)])
            what = "refused" if refused else "repaired" if repaired else "dropped"
            tally.faults[Fault(name, Verdict(verdict), words[Verdict(verdict)], what)] += count
    return keep


def accept_ids(name: str, absent: Bools | None, spoilt: Bools | None, rule: str, on_invalid: OnInvalid) -> Bools | None:
    """The mask of records that belong to somebody, ``None`` for all of them; ``rule`` says what spoils an id."""
    masks = {Verdict.MISSING: absent, Verdict.UNREAD: spoilt}
    words = {Verdict.MISSING: "are missing", Verdict.UNREAD: rule}
    counts = {verdict: int(mask.sum()) for verdict, mask in masks.items() if mask is not None and mask.any()}
    if not counts:
        return None
    tally = _TALLY.get()
    refused = on_invalid is OnInvalid.RAISE
    if refused and (tally is None or not tally.lenient):
        broken = ", ".join(f"{count} user ids {words[verdict]}" for verdict, count in counts.items())
        raise SchemaError(
            f"column {name!r}: {broken}; such a record belongs to nobody: correct the ids or choose on_invalid='drop'"
        ) from None
    if tally is not None:
        for verdict, count in counts.items():
            what = "refused" if refused else "dropped"
            tally.faults[Fault(name, verdict, f"{OF_IDS} {words[verdict]}", what)] += count
    bad: Bools = np.logical_or.reduce([mask for mask in masks.values() if mask is not None])
    return ~bad
