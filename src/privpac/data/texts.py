"""An open vocabulary: any text, nothing declared.

A column bound to :class:`Texts` is dictionary-encoded.  Its codes index a *vocabulary*, the distinct texts of the data
set, which the data set keeps to itself: which texts occur is as private as the records.  So the codes mean nothing
outside their data set, the domain has no size and no order, and ``value`` and ``text`` refuse.  Classes that count
their rules need a declared domain (``Categories``); trees of VC dimension 1 do not, and are what this domain is for.

Values are compared as texts: ``7`` is ``"7"``, whole floats are integers, booleans are ``true`` and ``false``.  The
empty text is a text; a missing value is missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

import numpy as np
import polars as pl

from privpac.data.columns import named_texts
from privpac.data.domains import Domain
from privpac.data.group import dictionary
from privpac.data.schema import Bools, Encoded, OnInvalid, Words
from privpac.errors import ParameterError, SchemaError

__all__ = ["Texts", "in_one_line", "read_column"]


@dataclass(frozen=True)
class Texts(Domain):
    """Every text; nothing to declare, no size.

    >>> Texts().describe(), Texts() == Texts()
    ('any text', True)
    """

    kind: ClassVar[str] = "texts"

    @property
    def size(self) -> int:
        self._open("has no size")

    def describe(self) -> str:
        return "any text"

    def value(self, code: int) -> NoReturn:
        self._open("keeps its values inside the data set")

    def value_range(self) -> NoReturn:
        self._open("has no first and last value")

    def encode(
        self, values: Any, on_invalid: OnInvalid | str = OnInvalid.RAISE, *, name: str = "values"
    ) -> tuple[Words, Bools]:
        self._open("has codes inside one data set only")

    def _open(self, what: str) -> NoReturn:
        raise ParameterError(
            f"an open vocabulary {what}; declare Categories([...]), or use a class of trees such as StarTree"
        )

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def read(self, series: pl.Series, name: str) -> Encoded:
        return self.dictionary(series, name)[0]

    read_typed = read

    def dictionary(self, series: pl.Series, name: str) -> tuple[Encoded, pl.Series]:
        """Codes with their verdicts, and the vocabulary they index."""
        shown, verdicts = named_texts(series, name)
        rows, vocabulary = dictionary(shown)
        return Encoded(np.maximum(rows, 0).astype(np.uint64), verdicts), vocabulary


def read_column(domain: Domain, series: pl.Series, name: str) -> tuple[Encoded, pl.Series | None]:
    """Codes with their verdicts, and the vocabulary if the domain is open.

    The one door to the loops that index memory by codes, and the last look at what passes.
    """
    found, vocabulary = (
        domain.dictionary(series, name) if isinstance(domain, Texts) else (domain.read(series, name), None)
    )
    size = domain.size if vocabulary is None else max(1, len(vocabulary))
    if len(found.codes) != len(series) or (size < 1 << 64 and len(series) and int(found.codes.max()) >= size):
        raise SchemaError(f"column {name!r} cannot be read as {domain.describe()}") from None
    return found, vocabulary


def in_one_line(text: str) -> str:
    """A text of the data as a result shows it: people wrote it, so it may command a terminal or forge a line.

    >>> in_one_line("green tea"), in_one_line("tea\\nbudget left: 100")
    ('green tea', '"tea\\\\nbudget left: 100"')
    """
    return text if text and text.isprintable() else json.dumps(text)
