"""The columns a tree reads: codes with their domain, and texts where nodes are found by text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privpac.data import Categories, Domain, Integers, Texts, UserData
from privpac.data.columns import column
from privpac.data.domains import read_column
from privpac.data.grouping import ranked
from privpac.errors import SchemaError

__all__ = ["MAX_BITS", "Column", "as_text", "code_of", "raw_columns", "user_columns"]

Words = NDArray[np.uint64]
MAX_BITS = 13_000  # below the interpreter's limit of 4300 digits for turning integers into text


def as_text(x: Any) -> str | None:
    """One value as the text a column of such values would show; ``None`` for what no column can hold."""
    if isinstance(x, str):
        return str(x)
    if isinstance(x, (bool, np.bool_)):
        return "true" if x else "false"
    if isinstance(x, (int, np.integer)):
        number = int(x)
        return str(number) if number.bit_length() <= MAX_BITS else None
    if isinstance(x, (float, np.floating)):
        value = float(x)
        whole = value.is_integer() and abs(value) < 2.0**63
        return None if isnan(value) else str(int(value)) if whole else str(value)
    return None


def code_of(domain: Domain, x: Any) -> int | None:
    """The code of one value, ``None`` outside the domain or for a value of another type."""
    if isinstance(domain, Integers) and isinstance(x, (int, np.integer)) and not isinstance(x, bool):
        return int(x) - domain.lo if domain.lo <= x <= domain.hi else None
    try:
        codes, good = domain.encode([x], on_invalid="drop")
    except SchemaError:
        return None
    return int(codes[0]) if bool(good[0]) else None


@dataclass(frozen=True, eq=False, repr=False)
class Column:
    """One encoded column."""

    codes: Words
    domain: Domain
    vocabulary: pl.Series | None

    def texts(self) -> tuple[NDArray[np.int64], pl.Series]:
        """The records as positions in a list of texts; the list may hold texts that no record has."""
        if self.vocabulary is not None:
            return self.codes.astype(np.int64), self.vocabulary
        distinct, positions = ranked(self.codes)
        if isinstance(self.domain, Categories):
            shown = [as_text(self.domain.value(code)) for code in distinct.tolist()]
        else:
            shown = [self.domain.text(code) for code in distinct.tolist()]
        return positions.astype(np.int64), pl.Series("", shown, dtype=pl.String)


def user_columns(users: UserData, names: Mapping[str, Domain]) -> dict[str, Column]:
    """The columns of bound users."""
    return {name: Column(users.codes[name], domain, users.vocabulary(name)) for name, domain in names.items()}


def raw_columns(given: Mapping[str, tuple[Domain, Any]]) -> dict[str, Column]:
    """Columns to predict on: values outside a declared domain are clamped, missing values refused."""
    out = {}
    for name, (domain, values) in given.items():
        if isinstance(domain, Texts):
            (codes, verdicts), vocabulary = read_column(domain, column(values, name), name)
            bad = 0 if verdicts is None else int(np.count_nonzero(verdicts))
        else:
            codes, valid = domain.encode(values, on_invalid="clamp", name=name)
            vocabulary, bad = None, int(np.count_nonzero(~valid))
        if bad:
            raise SchemaError(
                f"column {name!r}: {bad} missing or unreadable values; prediction needs a value in every row"
            )
        out[name] = Column(codes, domain, vocabulary)
    return out
