"""What a ledger holds: spends with their chain of hashes, what is left, and the receipt of one payment."""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from operator import attrgetter
from typing import Any, NoReturn

from privpac.errors import DuplicateSpend, ParameterError
from privpac.guarantee import Guarantee

__all__ = ["FIRST", "START", "Balance", "Receipt", "Spend", "chain_hash", "chained", "genesis", "now", "plain_text"]
__all__ += ["read_number", "seconds"]

START = 512  # of the first line: the seal before it fills one sector, which a disk writes wholly or not at all
FIRST = "0" * 64  # the hash before the first line


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Balance:
    """The most that one further spend may cost; under ``zcdp`` a spend with its own ``rho`` is judged by ``rho``
    alone."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction | None = None

    def __str__(self) -> str:
        zcdp = "" if self.rho is None else f", rho {_floor(self.rho)}"
        return f"({_floor(self.epsilon)}, {_floor(self.delta)}){zcdp}"


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


def read_number(text: Any) -> Fraction:
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


def plain_text(value: Any, name: str, longest: int) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {type(value).__name__}")
    if not 1 <= len(value) <= longest or not value.isprintable():
        raise ParameterError(
            f"{name} must be 1 to {longest} printable characters on one line, got {value[:20]!r} ({len(value)} "
            "characters)"
        )
    return str.__str__(value)


def seconds(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, got {type(value).__name__}")
    if not math.isfinite(value) or not 0 <= value <= 86_400:
        raise ParameterError(f"{name} must be between 0 and 86400 seconds, got {value}")
    return float(value)


def _floor(x: Fraction) -> str:
    """At most six significant digits, never more than ``x``."""
    return str(Context(prec=6, rounding=ROUND_FLOOR).divide(Decimal(x.numerator), Decimal(x.denominator)))
