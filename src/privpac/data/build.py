"""From named columns to grouped codes.

Order of work: ids (missing ones raise or drop their rows), grouping, then each column is encoded in row order and
moved to its user.  A record that a rule drops leaves its user in place, so binding now or later gives the same users.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
import polars as pl

from privpac.data.columns import column, numbers
from privpac.data.domains import Categories, Domain
from privpac.data.group import Grouping, Offsets, Rows, group, item_offsets, take
from privpac.data.ids import SPOILT, as_ids
from privpac.data.readers import read_frame
from privpac.data.schema import (
    LABELS,
    Bools,
    Bytes,
    OnInvalid,
    Tally,
    Verdict,
    Words,
    accept,
    accept_ids,
    tallied,
    wrong_type,
)
from privpac.data.texts import read_column
from privpac.errors import ParameterError, SchemaError
from privpac.guarantee import one_of

__all__ = ["Declared", "BuiltUsers", "assemble", "declare", "from_lists", "declared_labels", "matrix_columns"]

_LABEL = "\0label"
_PLAIN_YES = {"1", "1.0", "true", "yes", "y", "t"}
"""Labels that say no more than that there is one."""


MOST_CLASSES = 64


class ClassMap(dict[Any, int]):
    """Labels to codes ``0..c-1``, from a list of classes."""


def declared_labels(classes: Any, label_map: Mapping[Any, int] | None) -> Mapping[Any, int] | None:
    """What labels mean: a map to 0 and 1 as it is, or a list of two classes or more, in order."""
    if classes is None:
        return label_map
    if label_map is not None:
        raise ParameterError("give either classes or label_map: each of them says what the labels mean")
    names = Categories(classes).values
    if not 2 <= len(names) <= MOST_CLASSES:
        raise ParameterError(f"classes must be 2 to {MOST_CLASSES} different labels, got {len(names)}")
    return ClassMap((name, code) for code, name in enumerate(names))


@dataclass(frozen=True)
class Declared:
    """What the caller said about the table, checked before the table is touched."""

    user: str | None
    features: Mapping[str, Domain | None]
    label: str | None
    on_invalid: OnInvalid
    label_map: Mapping[str | int | bool, int] | None
    shown: Mapping[str, str]
    positive: str | int | bool | None = None
    counted: bool = False
    """Read for a ``check`` only: what would be refused is counted."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels, where they were declared as classes."""
        return tuple(map(str, self.label_map)) if isinstance(self.label_map, ClassMap) else ()

    @property
    def wanted(self) -> list[str]:
        return [name for name in (self.user, *self.features, self.label) if name is not None]

    @property
    def predicted(self) -> str | None:
        """What a rule predicts, in words: the values that mean 1 where they say more than yes, or else the column."""
        ones = [self.positive] if self.positive is not None else [v for v, to in (self.label_map or {}).items() if to]
        said = [str(value) for value in ones]
        if said and len(self.classes) < 3 and not any(text.lower() in _PLAIN_YES for text in said):
            return " or ".join(said)
        return None if self.label is None or self.label.startswith("\0") else self.label

    def name(self, column: str) -> str:
        """The column's name in messages."""
        return self.shown.get(column, column)


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


def declare(
    user: str | None,
    features: Any,
    label: str | None,
    on_invalid: OnInvalid | str,
    label_map: Mapping[Any, int] | None,
    shown: Mapping[str, str] | None = None,
    positive: str | int | bool | None = None,
) -> Declared:
    """Check the declaration alone."""
    named = {features: None} if isinstance(features, str) else features
    if not isinstance(named, Mapping):
        if not isinstance(named, Iterable):
            raise TypeError(f"features must be names or a mapping from names to domains, got {type(features).__name__}")
        listed = list(named)
        named = dict.fromkeys(listed)
        if len(named) < len(listed):
            raise ParameterError("a feature is named twice")
    if not named:
        raise ParameterError("features must name at least one column, got none")
    for name, domain in named.items():
        if not isinstance(name, str):
            raise TypeError(f"a feature must be a column name, got {type(name).__name__}")
        if domain is not None and not isinstance(domain, Domain):
            raise TypeError(
                f"the domain of {name!r} must be a Domain such as Integers(0, 10), got {type(domain).__name__}"
            )
    for role, value in (("user", user), ("label", label)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{role} must be a column name or None, got {type(value).__name__}")
        if value in named or (value is not None and user == label):
            raise ParameterError(f"column {value!r} has two roles; user, features and label must be different columns")
    if label_map is not None:
        if not isinstance(label_map, Mapping):
            raise TypeError(f"label_map must be a mapping from values to 0 or 1, got {type(label_map).__name__}")
        Categories(label_map)
        if not isinstance(label_map, ClassMap) and not all(
            isinstance(target, (int, np.integer, np.bool_)) and target in (0, 1) for target in label_map.values()
        ):
            raise ParameterError("label_map must map every value to 0 or 1")
    if positive is not None:
        if label_map is not None:
            raise ParameterError("positive= names the value that means 1, label_map= says it of all values; give one")
        if label is None:
            raise ParameterError("positive= is a value of the label column: name label= too")
        Categories([positive, "\0other"])
    policy = one_of(OnInvalid, on_invalid, "on_invalid")
    return Declared(user, dict(named), label, policy, label_map, shown or {}, positive)


def assemble(
    table: dict[str, pl.Series], declared: Declared, *, offsets: Offsets | None = None, plain_text: bool = False
) -> BuiltUsers:
    """Group a table by user, encode declared columns and labels; what that meets is counted."""
    with tallied(declared.counted) as tally:
        parts = _assemble(table, declared, offsets, plain_text)
    tally.records = len(next(iter(table.values())))
    tally.people = int(np.count_nonzero(np.diff(parts.offsets)))
    return parts._replace(tally=tally)


def _assemble(table: dict[str, pl.Series], declared: Declared, offsets: Offsets | None, plain_text: bool) -> BuiltUsers:
    ids, rows = None, len(next(iter(table.values())))
    if any(len(series) != rows for series in table.values()):
        raise SchemaError("the columns have different lengths; a table needs one value per record in each") from None
    if declared.user is not None:
        table, ids = _identify(table, declared)
        groups = group(ids)
        ids = _first_ids(ids, groups)
    else:
        groups = Grouping(item_offsets(rows) if offsets is None else offsets, None)
    codes: dict[str, Words] = {}
    raw: dict[str, pl.Series] = {}
    vocabularies: dict[str, pl.Series] = {}
    keep: Bools | None = None
    for name, domain in declared.features.items():
        if domain is None:
            raw[name] = _own(table[name], groups.order)
            continue
        (found, verdicts), vocabulary = read_column(domain, table[name], declared.name(name))
        keep = _both(keep, domain.accept(verdicts, declared.on_invalid, declared.name(name)))
        codes[name] = _move(found, groups.order)
        if vocabulary is not None:
            vocabularies[name] = vocabulary
        del found, verdicts
    labels = None
    if declared.label is not None:
        found_labels, good = _labels(table[declared.label], declared, plain_text)
        keep, labels = _both(keep, good), _move(found_labels, groups.order)
    return BuiltUsers(
        groups.offsets, codes, labels, raw, ids, None if keep is None else _move(keep, groups.order), vocabularies
    )


def _identify(table: dict[str, pl.Series], declared: Declared) -> tuple[dict[str, pl.Series], pl.Series]:
    assert declared.user is not None
    name = declared.name(declared.user)
    ids, absent, spoilt = as_ids(table[declared.user], name)
    mine = accept_ids(name, absent, spoilt, SPOILT, declared.on_invalid)
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


# Labels

_TRUTH = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1, "False": 0, "True": 1, "FALSE": 0, "TRUE": 1}
_WORDS = {
    Verdict.MISSING: "missing or NaN",
    Verdict.OUTSIDE: "not 0 or 1",
    Verdict.UNREAD: "not in label_map",
}


def _labels(series: pl.Series, declared: Declared, plain_text: bool) -> tuple[Bytes, Bools | None]:
    assert declared.label is not None
    name, rule = declared.name(declared.label), declared.on_invalid
    verdicts: Bytes | None
    if declared.positive is not None:  # every other value means 0; a missing one means nothing
        codes, found = Categories([declared.positive, "\0other"]).read(series, name)
        known = np.where(found == Verdict.UNREAD, Verdict.GOOD, found).astype(np.uint8) if found is not None else None
        ones = codes == 0 if found is None else (codes == 0) & (found == Verdict.GOOD)
        drops = OnInvalid.DROP if rule is OnInvalid.CLAMP else rule
        return ones.astype(np.uint8), accept(name, known, _WORDS, "a value", drops)
    if declared.label_map is not None:
        codes, verdicts = Categories(declared.label_map).read(series, name)
        targets = np.array([int(target) for target in declared.label_map.values()], np.uint8)
        return targets[codes], accept(name, verdicts, _WORDS, "the values of label_map", rule)
    if plain_text:
        # A CSV has no types: what a label may be is what it may be written as.
        series = series.replace_strict(
            list(_TRUTH), list(_TRUTH.values()), default=pl.when(series.is_not_null()).then(2), return_dtype=pl.UInt8
        )
    if (
        series.dtype != pl.Null
        and series.dtype != pl.Boolean
        and not (series.dtype.is_integer() or series.dtype.is_float())
    ):
        raise wrong_type(name, series.dtype, "labels 0/1 or booleans (or a label_map, or positive=) are") from None
    if series.dtype == pl.Boolean and not series.null_count():
        return series.cast(pl.UInt8).to_numpy(writable=True), None
    narrow = series.dtype.is_integer() and series.dtype not in (pl.Int128, pl.UInt128) and not series.null_count()
    # Compared as they are stored: eight bytes for a label of one would be the largest array of all.
    wide = series.cast(pl.Int64) if series.dtype in (pl.Null, pl.Int128, pl.UInt128) else series
    values = series.to_numpy() if narrow else numbers(wide)
    ones = values == 1
    if (ones | (values == 0)).all() and not series.null_count():
        return ones.astype(np.uint8), None
    verdicts = np.where(ones | (values == 0), Verdict.GOOD, Verdict.OUTSIDE).astype(np.uint8)
    verdicts[series.is_null().to_numpy()] = Verdict.MISSING
    if series.dtype.is_float():
        verdicts[np.isnan(values)] = Verdict.MISSING
    # A label has no nearest end, so clamping drops it like a missing one.
    strict = OnInvalid.DROP if rule is OnInvalid.CLAMP else rule
    return ones.astype(np.uint8), accept(name, verdicts, _WORDS, LABELS, strict)


# Arrays and lists


def matrix_columns(X: Any, features: Any) -> dict[str, pl.Series]:
    """The columns of a frame or of a one- or two-dimensional array."""
    names = [features] if isinstance(features, str) else None if features is None else list(features)
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, (nw.DataFrame, nw.LazyFrame)):
        return read_frame(X, names if names is not None else frame.collect_schema().names())
    array = X if isinstance(X, np.ndarray) else None
    if (
        array is None
        and isinstance(X, Sequence)
        and len(X)
        and isinstance(X[0], (Sequence, np.ndarray))
        and not isinstance(X[0], str)
    ):
        if len({len(row) for row in X}) > 1:
            raise SchemaError("X has rows of different lengths; one value per feature is needed") from None
        columns: list[Any] = [list(values) for values in zip(*X)]
    elif array is not None and array.ndim == 2:
        columns = [array[:, j] for j in range(array.shape[1])]
    elif array is not None and array.ndim != 1:
        raise SchemaError(f"X must have one or two dimensions, got {array.ndim}") from None
    else:
        columns = [X]
    names = _names(len(columns)) if names is None else names
    if len(names) != len(columns):
        raise SchemaError(f"X has {len(columns)} columns but {len(names)} features are declared") from None
    return {
        name: column(np.ascontiguousarray(v) if isinstance(v, np.ndarray) else v, name)
        for name, v in zip(names, columns)
    }


def _names(count: int) -> list[str]:
    return ["x"] if count == 1 else [f"x{j + 1}" for j in range(count)]


def from_lists(
    users: Iterable[Iterable[Any]], features: Any, labelled: bool
) -> tuple[Offsets, dict[str, pl.Series], str | None]:
    """Offsets and columns of a list of users; users may be empty."""
    lists = [list(user) for user in users]
    records = [r if isinstance(r, (tuple, list)) else (r,) for user in lists for r in user]
    declared = [features] if isinstance(features, str) else None if features is None else list(features)
    width = len(declared) + labelled if declared is not None else len(records[0]) if records else 1 + labelled
    names = declared if declared is not None else _names(width - labelled)
    ragged = sum(len(record) != width for record in records)
    if ragged or width - labelled < 1:
        raise SchemaError(
            f"{ragged} records do not have {max(width - labelled, 1)} features{' and a label' if labelled else ''}"
        ) from None
    columns: list[list[Any]] = [list(values) for values in zip(*records)] if records else [[] for _ in range(width)]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(user) for user in lists], dtype=np.int64)])
    table = {name: column(values, name) for name, values in zip(names, columns)}
    if labelled:
        table[_LABEL] = column(columns[-1], "y")
    return offsets, table, _LABEL if labelled else None
