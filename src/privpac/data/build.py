"""From named columns to grouped codes.

Order of work: ids (missing ones raise or drop their rows), grouping, then each column is encoded in row order and
moved to its user.  A record that a rule drops leaves its user in place, so binding now or later gives the same users.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import polars as pl

from privpac.arrays import Bools, Bytes, Words
from privpac.data.columns import column, named_texts, numbers, text
from privpac.data.domains import Categories, Integers, read_column
from privpac.data.grouping import Grouping, Offsets, Rows, group, item_offsets, take
from privpac.data.ids import SPOILT, as_ids
from privpac.data.objects import NUMBERS, OBJECTS, by_kind
from privpac.data.readers import read_frame
from privpac.data.schema import OnInvalid, Tally, Verdict, accept, accept_ids, broken, tallied, wrong_type
from privpac.data.spec import TableSpec
from privpac.errors import SchemaError

# What a label means, value by value.
#
# Labels are 0/1 or booleans; anything else is named: ``positive=`` (the others mean 0), ``classes=`` or ``label_map=``.
# A label that is missing, or none of these, says nothing about its record, and dropping it silently would change what
# is learned: it is an error whatever ``on_invalid`` says, unless ``on_invalid_label="drop"`` is declared.


_TRUTH = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1, "False": 0, "True": 1, "FALSE": 0, "TRUE": 1}


def read_labels(series: pl.Series, spec: TableSpec, plain_text: bool) -> tuple[Bytes, Bools | None]:
    """Codes of labels and the records to keep, ``None`` for all of them."""
    labels, verdicts = judged_labels(series, spec, plain_text)
    return labels, accept(verdicts=verdicts, on_invalid=OnInvalid(spec.on_invalid_label), **_label_words(spec))


def invalid_labels(spec: TableSpec, counts: dict[int, int]) -> SchemaError:
    """What is wrong with the labels, by the number of records with each verdict."""
    return broken(counts=counts, **_label_words(spec))


def _label_words(spec: TableSpec) -> dict[str, Any]:
    assert spec.label is not None
    if spec.positive is not None:
        unread, allowed = "unreadable", "texts, numbers or booleans"
    elif spec.meaning is not None:
        said = "classes" if spec.classes else "label_map"
        unread, allowed = f"not in {said}", f"the values of {said}"
    else:
        unread, allowed = "", "0/1 or booleans; else name the labels with positive=, classes= or label_map="
    words = {Verdict.MISSING: "missing or NaN", Verdict.OUTSIDE: "not 0 or 1", Verdict.UNREAD: unread}
    name = spec.name(spec.label)
    return {"name": name, "words": words, "allowed": allowed, "repair": "on_invalid_label='drop'"}


def judged_labels(series: pl.Series, spec: TableSpec, plain_text: bool) -> tuple[Bytes, Bytes | None]:
    """Codes of labels and a verdict each (``None``: all good); raises only for a column of the wrong type."""
    assert spec.label is not None
    name = spec.name(spec.label)
    if spec.positive is not None:
        wanted = text(pl.Series([spec.positive]))[0]
        _check_type(series.dtype, wanted, spec.positive, name)
        shown, verdicts = named_texts(series, name)
        return (shown == wanted).fill_null(False).cast(pl.UInt8).to_numpy(writable=True), verdicts
    if spec.meaning is not None:
        codes, verdicts = Categories(spec.meaning).read(series, name)
        return np.array([int(target) for target in spec.meaning.values()], np.uint8)[codes], verdicts
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


def _check_type(dtype: pl.DataType, wanted: str, said: object, name: str) -> None:
    """Refuse a value that no column of this type can hold: every label would be 0."""
    if dtype in (pl.String, pl.Categorical, pl.Null, OBJECTS):
        return
    if isinstance(dtype, pl.Enum):
        possible = wanted in dtype.categories.to_list()
    elif dtype == pl.Boolean:
        possible = wanted in ("true", "false")
    else:
        written = pl.Series([wanted])
        if dtype == pl.Date:
            possible = text(written.str.to_date("%Y-%m-%d", strict=False))[0] == wanted
        else:  # types that have no labels at all are refused when they are read
            possible = not dtype.is_numeric() or text(written.cast(dtype, strict=False))[0] == wanted
    if not possible:
        raise SchemaError(
            f"column {name!r} has type {dtype.base_type().__name__}, which cannot hold the label {said!r} (positive=): "
            "every label would be 0; name a value as the column writes it (true, 1, 2020-12-31)"
        ) from None


def check_positive(spec: TableSpec, positives: int, records: int) -> None:
    """Refuse, where ``on_invalid`` raises, a table in which nobody has the label that ``positive=`` names: most often
    it is spelled in another way, and every label would be 0.

    Like all errors of that rule it may depend on one record, and comes before anything is spent.  The other rules say
    nothing: whether anybody has the label is private.
    """
    strict = spec.on_invalid is OnInvalid.RAISE and not spec.counted
    if spec.positive is None or not strict or positives or not records:
        return
    assert spec.label is not None
    raise SchemaError(
        f"column {spec.name(spec.label)!r}: no record has the label {spec.positive!r} (positive=); labels "
        "are compared letter by letter, capitals and spaces included: check the spelling; if nobody has it, name all "
        "labels with label_map="
    ) from None


_LABEL = "\0label"
_SPOILT = object()
"""What no column can read."""


class BuiltUsers(NamedTuple):
    """Everything grouped by user; ``keep`` still to be applied."""

    offsets: Offsets
    codes: dict[str, Words]
    labels: Bytes | None
    raw: dict[str, pl.Series]
    ids: pl.Series | None
    keep: Bools | None
    vocabularies: dict[str, pl.Series]
    tally: Tally | None = None


def assemble(
    table: dict[str, pl.Series],
    spec: TableSpec,
    *,
    offsets: Offsets | None = None,
    plain_text: bool = False,
    whole: bool = False,
) -> BuiltUsers:
    """Group a table by user, encode declared columns and labels, and count what that meets; ``whole`` says that there
    are no other rows."""
    with tallied(spec.counted) as tally:
        parts = _assemble(table, spec, offsets, plain_text, whole)
    tally.records = len(next(iter(table.values())))
    tally.people = int(np.count_nonzero(np.diff(parts.offsets)))
    return parts._replace(tally=tally)


def _assemble(
    table: dict[str, pl.Series], spec: TableSpec, offsets: Offsets | None, plain_text: bool, whole: bool
) -> BuiltUsers:
    ids, rows = None, len(next(iter(table.values())))
    if any(len(series) != rows for series in table.values()):
        raise SchemaError("the columns have different lengths; a table needs one value per record in each") from None
    if spec.user is not None:
        table, ids = _identify(table, spec)
        groups = group(ids)
        ids = _first_ids(ids, groups)
    else:
        groups = Grouping(item_offsets(rows) if offsets is None else offsets, None)
    codes: dict[str, Words] = {}
    raw: dict[str, pl.Series] = {}
    vocabularies: dict[str, pl.Series] = {}
    keep: Bools | None = None
    for name, domain in spec.features.items():
        if domain is None:
            raw[name] = _own(table[name], groups.order)
            continue
        (found, verdicts), vocabulary = read_column(domain, table[name], spec.name(name))
        keep = _both(keep, domain.accept(verdicts, spec.on_invalid, spec.name(name)))
        codes[name] = _move(found, groups.order)
        if vocabulary is not None:
            vocabularies[name] = vocabulary
        del found, verdicts
    labels = None
    if spec.label is not None:
        found_labels, good = read_labels(table[spec.label], spec, plain_text)
        if whole:
            check_positive(spec, int(np.count_nonzero(found_labels)), len(found_labels))
        keep, labels = _both(keep, good), _move(found_labels, groups.order)
    return BuiltUsers(
        groups.offsets, codes, labels, raw, ids, None if keep is None else _move(keep, groups.order), vocabularies
    )


def _identify(table: dict[str, pl.Series], spec: TableSpec) -> tuple[dict[str, pl.Series], pl.Series]:
    assert spec.user is not None
    name = spec.name(spec.user)
    ids, absent, spoilt = as_ids(table[spec.user], name)
    mine = accept_ids(name, absent, spoilt, SPOILT, spec.on_invalid)
    if mine is None:
        return table, ids
    good = pl.Series(mine)
    return {column: series.filter(good) for column, series in table.items()}, ids.filter(good)


def _first_ids(ids: pl.Series, groups: Grouping) -> pl.Series:
    """The id of every user."""
    if ids.dtype not in (pl.Int64, pl.UInt64):
        return ids.gather(groups.firsts)
    words = numbers(ids)
    return pl.Series(ids.name, take(words.view(np.uint64), groups.firsts).view(words.dtype))


def _both(a: Bools | None, b: Bools | None) -> Bools | None:
    return b if a is None else a if b is None else a & b


def _move(values: Any, order: Rows | None) -> Any:
    """Grouped, in memory of our own; what is not to be written to is the caller's."""
    if order is not None:
        return take(values, order)
    return values if values.flags.writeable else values.copy()


def _own(series: pl.Series, order: Rows | None) -> pl.Series:
    """Grouped rows in memory of our own: the caller may change an array that polars only borrowed."""
    return series.gather(pl.int_range(len(series), eager=True, dtype=pl.UInt32) if order is None else order)


# Arrays and lists


def matrix_columns(X: Any, features: Any) -> dict[str, pl.Series]:
    """The columns of a frame or of a one- or two-dimensional array."""
    names = [features] if isinstance(features, str) else None if features is None else list(features)
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        return read_frame(X, names if names is not None else frame.collect_schema().names())
    if isinstance(X, (list, tuple)):
        return _columns_of(record_values(list(X), names))
    if isinstance(X, np.ndarray) and X.ndim == 2:
        columns: list[Any] = [np.ascontiguousarray(X[:, j]) for j in range(X.shape[1])]
    elif isinstance(X, np.ndarray) and X.ndim != 1:
        raise SchemaError(f"X must have one or two dimensions, got {X.ndim}") from None
    else:
        columns = [np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X]
    names = _names(len(columns)) if names is None else names
    if len(names) != len(columns):
        raise SchemaError(f"X has {len(columns)} columns but {len(names)} features are declared") from None
    return {name: column(values, name) for name, values in zip(names, columns)}


def _columns_of(values: dict[str, list[Any]]) -> dict[str, pl.Series]:
    return {name: column(found, name) for name, found in values.items()}


def record_values(records: list[Any], names: list[str] | None, labels: int = 0) -> dict[str, list[Any]]:
    """The columns of records, each a list of values or one value, with ``labels`` more values at the end.

    How many values a record has is schema.  Where features are named, their number says so, and a record of another
    length is unreadable in every column; otherwise all records must agree.
    """
    rows = [_values(record) for record in records]
    width = len(names) + labels if names is not None else len(rows[0]) if rows else 1 + labels
    ragged = sum(len(row) != width for row in rows) if names is None else 0
    if ragged or width - labels < 1:
        wanted = f"{max(width - labels, 1)} features{' and a label' if labels else ''}"
        raise SchemaError(
            f"{ragged} records do not have {wanted}, as the first; name the features with features= to say how many "
            "there are"
        ) from None
    spoilt = (_SPOILT,) * width
    whole = [row if len(row) == width else spoilt for row in rows]
    named = (names if names is not None else _names(width - labels)) + [_LABEL] * labels
    columns = zip(*whole) if whole else ((),) * len(named)
    return {name: list(values) for name, values in zip(named, columns)}


def _values(record: Any) -> Any:
    """What a record holds, by its own type: a subclass may say what it likes of itself."""
    kind = type(record)
    if issubclass(kind, list):
        return list.copy(record)
    if issubclass(kind, tuple):
        return tuple.__getitem__(record, slice(None))
    return record if issubclass(kind, np.ndarray) and record.ndim else (record,)


def _names(count: int) -> list[str]:
    return ["x"] if count == 1 else [f"x{j + 1}" for j in range(count)]


def from_lists(
    users: Iterable[Iterable[Any]], features: Any, labelled: bool
) -> tuple[Offsets, dict[str, pl.Series], str | None]:
    """Offsets and columns of a list of users; users may be empty."""
    people = list(users)
    if nobody := sum(not isinstance(user, Iterable) for user in people):
        raise SchemaError(f"{nobody} users are no lists of records; a user without records is an empty list") from None
    lists = [list(user) for user in people]
    declared = [features] if isinstance(features, str) else None if features is None else list(features)
    table = _columns_of(record_values([record for user in lists for record in user], declared, int(labelled)))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(user) for user in lists], dtype=np.int64)])
    return offsets, table, _LABEL if labelled else None
