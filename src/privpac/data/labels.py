"""What a label means, value by value.

Labels are 0/1 or booleans; anything else is named: ``positive=`` (the others mean 0), ``classes=`` or ``label_map=``.
A label that is missing, or none of these, says nothing about its record, and dropping it silently would change what is
learned: it is an error whatever ``on_invalid`` says, unless ``on_invalid_label="drop"`` is declared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from privpac.data.columns import named_texts, numbers, text
from privpac.data.domains import Categories, Integers
from privpac.data.objects import NUMBERS, OBJECTS, by_kind
from privpac.data.schema import Bools, Bytes, OnInvalid, Verdict, accept, broken, wrong_type
from privpac.errors import SchemaError

if TYPE_CHECKING:
    from privpac.data.build import Declared

__all__ = ["check_positive", "invalid_labels", "judged_labels", "read_labels"]

_TRUTH = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1, "False": 0, "True": 1, "FALSE": 0, "TRUE": 1}


def read_labels(series: pl.Series, declared: Declared, plain_text: bool) -> tuple[Bytes, Bools | None]:
    """Codes of labels and the records to keep, ``None`` for all of them."""
    labels, verdicts = judged_labels(series, declared, plain_text)
    return labels, accept(verdicts=verdicts, on_invalid=OnInvalid(declared.on_invalid_label), **_said(declared))


def invalid_labels(declared: Declared, counts: dict[int, int]) -> SchemaError:
    """What is wrong with the labels, by the number of records with each verdict."""
    return broken(counts=counts, **_said(declared))


def _said(declared: Declared) -> dict[str, Any]:
    assert declared.label is not None
    if declared.positive is not None:
        unread, allowed = "unreadable", "texts, numbers or booleans"
    elif declared.label_map is not None:
        said = "classes" if declared.classes else "label_map"
        unread, allowed = f"not in {said}", f"the values of {said}"
    else:
        unread, allowed = "", "0/1 or booleans; else name the labels with positive=, classes= or label_map="
    words = {Verdict.MISSING: "missing or NaN", Verdict.OUTSIDE: "not 0 or 1", Verdict.UNREAD: unread}
    name = declared.name(declared.label)
    return {"name": name, "words": words, "allowed": allowed, "repair": "on_invalid_label='drop'"}


def judged_labels(series: pl.Series, declared: Declared, plain_text: bool) -> tuple[Bytes, Bytes | None]:
    """Codes of labels and a verdict each (``None``: all good); raises only for a column of the wrong type."""
    assert declared.label is not None
    name = declared.name(declared.label)
    if declared.positive is not None:
        wanted = text(pl.Series([declared.positive]))[0]
        _check_type(series.dtype, wanted, declared.positive, name)
        shown, verdicts = named_texts(series, name)
        return (shown == wanted).fill_null(False).cast(pl.UInt8).to_numpy(writable=True), verdicts
    if declared.label_map is not None:
        codes, verdicts = Categories(declared.label_map).read(series, name)
        return np.array([int(target) for target in declared.label_map.values()], np.uint8)[codes], verdicts
    if plain_text:
        # A CSV has no types: what a label may be is what it may be written as.
        series = series.replace_strict(
            list(_TRUTH), list(_TRUTH.values()), default=pl.when(series.is_not_null()).then(2), return_dtype=pl.UInt8
        )
    return _plain_labels(series, name)


def _plain_labels(series: pl.Series, name: str) -> tuple[Bytes, Bytes | None]:
    dtype = series.dtype
    if dtype == OBJECTS:
        codes, verdicts = by_kind(series, NUMBERS, lambda values: Integers(0, 1).read(values, name))
        if verdicts is not None:
            verdicts[verdicts > Verdict.MISSING] = Verdict.OUTSIDE
        return codes.astype(np.uint8), verdicts
    if dtype != pl.Null and dtype != pl.Boolean and not (dtype.is_integer() or dtype.is_float()):
        needed = "labels 0/1 or booleans (or positive=, classes= or label_map=) are"
        raise wrong_type(name, dtype, needed) from None
    if dtype == pl.Boolean and not series.null_count():
        return series.cast(pl.UInt8).to_numpy(writable=True), None
    values: Any
    if dtype in (pl.Null, pl.Int128, pl.UInt128):
        values = numbers(series.cast(pl.Int64, strict=False).fill_null(2))
    else:  # compared as they are stored: eight bytes for a label of one would be the largest array of all
        values = series.to_numpy() if dtype.is_integer() and not series.null_count() else numbers(series)
    ones = values == 1
    good = ones | (values == 0)
    if good.all() and not series.null_count():
        return ones.astype(np.uint8), None
    verdicts = np.where(good, Verdict.GOOD, Verdict.OUTSIDE).astype(np.uint8)
    verdicts[series.is_null().to_numpy()] = Verdict.MISSING
    if dtype.is_float():
        verdicts[np.isnan(values)] = Verdict.MISSING
    return ones.astype(np.uint8), verdicts


def _check_type(dtype: pl.DataType, wanted: str, said: Any, name: str) -> None:
    """Refuse a value that no column of this type can hold: every label would be 0."""
    if dtype in (pl.String, pl.Categorical, pl.Null, OBJECTS):
        return
    if isinstance(dtype, pl.Enum):
        possible = wanted in dtype.categories.to_list()
    elif dtype == pl.Boolean:
        possible = wanted in ("true", "false")
    else:
        written = pl.Series([wanted])
        value = written.str.to_date("%Y-%m-%d", strict=False) if dtype == pl.Date else _cast(written, dtype)
        possible = value is None or text(value)[0] == wanted
    if not possible:
        raise SchemaError(
            f"column {name!r} has type {dtype.base_type().__name__}, which cannot hold the label {said!r} (positive=): "
            "every label would be 0; name a value as the column writes it (true, 1, 2020-12-31)"
        ) from None


def _cast(written: pl.Series, dtype: pl.DataType) -> pl.Series | None:
    """``None`` for types that have no labels at all, which are refused when they are read."""
    return written.cast(dtype, strict=False) if dtype.is_numeric() else None


def check_positive(declared: Declared, positives: int, records: int) -> None:
    """Refuse, where ``on_invalid`` raises, a table in which nobody has the label that ``positive=`` names: most often
    it is spelled in another way, and every label would be 0.

    Like all errors of that rule it may depend on one record, and comes before anything is spent.  The other rules say
    nothing: whether anybody has the label is private.
    """
    strict = declared.on_invalid is OnInvalid.RAISE and not declared.counted
    if declared.positive is None or not strict or positives or not records:
        return
    assert declared.label is not None
    raise SchemaError(
        f"column {declared.name(declared.label)!r}: no record has the label {declared.positive!r} (positive=); labels "
        "are compared letter by letter, capitals and spaces included: check the spelling; if nobody has it, name all "
        "labels with label_map="
    ) from None
