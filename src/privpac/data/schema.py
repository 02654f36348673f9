"""What a table must satisfy, and how its curator is told when it does not.

Every value of a column gets one verdict (:class:`Verdict`), decided from that value alone.  A ``SchemaError`` names
the column, the broken rules and how many values break each of them; it never quotes a value, a row number or an id.
Readers' own messages do quote values, so they are neither chained nor shown: :func:`quietly` raises after the foreign
exception is gone, hence even ``__context__`` is empty.

===========  ==========================================  ===================================
on_invalid   a value outside or off the domain            a missing or unreadable value
===========  ==========================================  ===================================
``raise``    ``SchemaError``                              ``SchemaError``
``drop``     the record is dropped                        the record is dropped
``clamp``    nearest end; the domain's point just below   the record is dropped: no end is near
===========  ==========================================  ===================================

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

__all__ = ["Bools", "Bytes", "Encoded", "LABELS", "OnInvalid", "Verdict", "Words", "accept", "quietly", "wrong_type"]

Words = NDArray[np.uint64]
Bytes = NDArray[np.uint8]
Bools = NDArray[np.bool_]
T = TypeVar("T")

LABELS = "0/1 or booleans; else say which value means 1: label_map, for tables also positive="
"""What a label may be, in the words of an error."""


class OnInvalid(StrEnum):
    """What happens to a record that breaks the schema."""

    RAISE = "raise"
    DROP = "drop"
    CLAMP = "clamp"


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
    # Categories are texts by another name, and a stream has only the texts.
    kind = pl.String if isinstance(dtype, (pl.Categorical, pl.Enum)) else dtype.base_type()
    return SchemaError(f"column {name!r} has type {kind.__name__}; {needed} needed")


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
        broken = ", ".join(f"{counts[v]} {words[v]}" for v in Verdict if v is not Verdict.GOOD and counts[v])
        raise SchemaError(
            f"column {name!r}: {broken} (number of records); allowed: {allowed}; correct the table or choose "
            "on_invalid='drop' or 'clamp'"
        ) from None
    if on_invalid is OnInvalid.DROP:
        return np.asarray(verdicts == Verdict.GOOD)
    return np.asarray((verdicts != Verdict.MISSING) & (verdicts != Verdict.UNREAD))
