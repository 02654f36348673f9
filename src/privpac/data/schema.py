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

Dropping looks at nothing but the record, and the user stays, with fewer records or none: a user's invalid records
never change whether *another* record counts, nor the number of users.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum, StrEnum
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privpac.errors import PrivpacError, SchemaError

__all__ = [
    "Bools",
    "Bytes",
    "Encoded",
    "OnInvalid",
    "OnInvalidLabel",
    "Verdict",
    "Words",
    "accept",
    "broken",
    "quietly",
    "wrong_type",
]

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]
T = TypeVar("T")

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


def quietly(action: Callable[[], T], message: str) -> T:
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
    return SchemaError(f"column {name!r} has type {dtype.base_type().__name__}; {needed} needed")


def broken(
    name: str, counts: Mapping[int, int], words: Mapping[Verdict, str], allowed: str, repair: str = _REPAIR
) -> SchemaError:
    """What is wrong with a column, by the number of records with each verdict."""
    found = ", ".join(f"{counts[v]} {words[v]}" for v in Verdict if v is not Verdict.GOOD and counts.get(v))
    return SchemaError(
        f"column {name!r}: {found} (number of records); allowed: {allowed}; correct the table or choose {repair}"
    )


def accept(
    name: str, verdicts: Bytes | None, words: Mapping[Verdict, str], allowed: str, on_invalid: OnInvalid
) -> Bools | None:
    """The mask of records to keep, ``None`` for all of them; raises if the rule is to raise."""
    if verdicts is None:
        return None
    counts = np.bincount(verdicts, minlength=len(Verdict))
    if counts[Verdict.GOOD] == len(verdicts):
        return None
    if on_invalid is OnInvalid.RAISE:
        raise broken(name, dict(enumerate(counts.tolist())), words, allowed) from None
    kept = (verdicts == Verdict.GOOD) | (verdicts == Verdict.OFF)
    return np.asarray(kept if on_invalid is OnInvalid.DROP else kept | (verdicts == Verdict.OUTSIDE))
