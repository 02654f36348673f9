"""What can be evaluated: a released rule, any function of columns, a fitted classifier, a column of predictions.

**What the promise needs**: what one person adds is a function of that person's records alone.  Rules are integer
comparisons, record by record, and are asked about a whole table at once.  A function or a model may answer differently
about a record when it is asked about others in the same call (products of matrices are rounded block by block; one bad
record makes the whole call fail), so it is asked about one person at a time, and about one record at a time where that
fails; ``rowwise=True`` declares that it does not do that.  A record about which it raises, or says anything but the two
labels, counts as wrong: nothing is raised after the spend.  Columns have the type of their domain; that of a column
without one is the table's own and counts as public; columns of Python objects have none and are refused.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from privpac.data import Categories, Dates, Domain, Grid, Integers, UserData
from privpac.data.columns import moments
from privpac.data.domains import values_of as inner_domain
from privpac.data.grouping import ranked
from privpac.errors import NoReleaseError, ParameterError, SchemaError
from privpac.result import NoRelease, Released
from privpac.rules.base import Rule

if TYPE_CHECKING:
    from privpac.data import Users

__all__ = ["PredictionColumn", "CalledModel", "Predictor", "RuleOf", "bind_predictor"]

Bytes = NDArray[np.uint8]
WRONG = 2
"""Neither label."""
_TRIED = 4096
"""Values of a domain that are tried on another one; of a larger domain the two ends."""


class Predictor(Protocol):
    """Says 0 or 1 of every record, or 2 for neither."""

    @property
    def reads(self) -> tuple[str, ...]: ...

    def predictions(self, users: UserData) -> Bytes: ...


@dataclass(frozen=True)
class RuleOf:
    """A rule of this library."""

    rule: Any

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(self.rule.reads)

    def predictions(self, users: UserData) -> Bytes:
        features: Mapping[str, Any] = self.rule.features
        if all(users.features.get(name) == features[name] for name in self.rule.reads):
            if hasattr(self.rule, "predict_users"):  # of a hierarchy, whose columns may be texts
                return np.asarray(self.rule.predict_users(users), np.uint8)
            return np.asarray(self.rule.predict_codes({name: users.codes[name] for name in self.rule.reads}), np.uint8)
        return np.asarray(self.rule.predict({name: values_of(users, name) for name in self.rule.reads}), np.uint8)


@dataclass(frozen=True)
class PredictionColumn:
    """Predictions that stand in the table."""

    name: str
    labels: tuple[Any, Any]

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.name,)

    def predictions(self, users: UserData) -> Bytes:
        values = values_of(users, self.name)
        if values.dtype == pl.Date or isinstance(values.dtype, pl.Datetime):  # a day beyond the calendar is no label
            values = pl.select(pl.when(pl.Series(~moments(values)[1])).then(values)).to_series()
        return _read(values.to_list(), self.labels)


@dataclass(frozen=True)
class CalledModel:
    """A function of columns, or something with ``predict``."""

    predict: Callable[[Any], Any]
    columns: tuple[str, ...]
    labels: tuple[Any, Any]
    rowwise: bool
    arrays: bool

    @property
    def reads(self) -> tuple[str, ...]:
        return self.columns

    def predictions(self, users: UserData) -> Bytes:
        columns = {name: values_of(users, name) for name in self.columns}
        # The codes of categories follow everybody's values; a function sees the texts.
        plain = {name: v.cast(pl.String) if isinstance(v.dtype, pl.Categorical) else v for name, v in columns.items()}
        table = pl.DataFrame(plain)
        out = np.full(len(table), WRONG, np.uint8)
        if self.rowwise:
            for rows in _alike(table):
                told = out[rows]
                self._ask(table[rows], told, 0, len(rows), [len(rows), 1])
                out[rows] = told
            return out
        for a, b in zip(users.offsets[:-1].tolist(), users.offsets[1:].tolist()):
            self._ask(table, out, a, b, [b - a, 1])
        return out

    def _ask(self, table: pl.DataFrame, out: Bytes, a: int, b: int, sizes: list[int]) -> None:
        size = max(1, sizes[0])
        for start in range(a, b, size):
            stop = min(start + size, b)
            told = self._call(table[start:stop])
            if told is not None:
                out[start:stop] = told
            elif len(sizes) > 1 and size > 1:
                self._ask(table, out, start, stop, sizes[1:])

    def _call(self, rows: pl.DataFrame) -> Bytes | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                told = list(np.asarray(self.predict(self._given(rows))).reshape(-1).tolist())
            except Exception:  # whatever it says depends on the data
                return None
        return _read(told, self.labels) if len(told) == len(rows) else None

    def _given(self, rows: pl.DataFrame) -> Any:
        if self.arrays:
            return rows.to_numpy()
        try:
            return rows.to_pandas()
        except ImportError:
            return rows


def _alike(table: pl.DataFrame) -> list[NDArray[np.intp]]:
    """Places of the rows in which the same values are missing: a missing whole number would make fractions of a whole
    column, other people's among them."""
    gone = table.select(pl.all().is_null()).to_numpy()
    if not gone.any():
        return [np.arange(len(table))]
    _, kinds = np.unique(gone, axis=0, return_inverse=True)
    return [np.flatnonzero(kinds.reshape(-1) == kind) for kind in range(int(kinds.max()) + 1)]


def values_of(users: UserData, name: str) -> pl.Series:
    """A column as the user wrote it: values of its domain, or the raw ones while it has none."""
    domain = users.features[name]
    if domain is None:
        return users.unbound[name]
    vocabulary = users.vocabulary(name)
    if vocabulary is not None:
        return vocabulary.gather(users.codes[name])
    codes, places = ranked(users.codes[name])
    return _series(domain, codes.tolist(), name).gather(places)


def _series(domain: Domain, codes: Iterable[int], name: str = "") -> pl.Series:
    kind, values = type_of(domain), [domain.value(code) for code in codes]
    if kind == pl.String:
        values = [None if value is None else str(value) for value in values]
    return pl.Series(name, values, kind, strict=False)


def type_of(domain: Domain) -> pl.DataType | type[pl.DataType]:
    """The type of a column's values, from its domain alone.

    Were it inferred from the values, one person's could change how everybody's are read: with the categories 1 and
    ``"a"``, nobody's 1 is a number any more once somebody's ``"a"`` is in the table.  Mixed categories are texts.
    """
    values = inner_domain(domain)
    if isinstance(values, Categories):
        kinds = {type(value) for value in values.values}
        if kinds == {bool}:
            return pl.Boolean
        ends = sorted(values.values) if kinds == {int} else []
        return _whole_type(int(ends[0]), int(ends[-1])) if ends else pl.String
    if isinstance(values, Dates):
        return pl.Date
    if isinstance(values, (Integers, Grid)):
        least, most = values.value(0), values.value(values.size - 1)
        if isinstance(least, int) and isinstance(most, int):
            return _whole_type(least, most)
        if isinstance(least, Decimal) and isinstance(values, Grid):
            ladder = values.ladder
            fits = ladder.places <= 38 and max(abs(ladder.start), abs(ladder.end)) < 10**38
            return pl.Decimal(38, ladder.places) if fits else pl.Float64
    return pl.Float64


def _whole_type(least: int, most: int) -> type[pl.DataType]:
    if least >= -(1 << 63) and most < 1 << 63:
        return pl.Int64
    if least >= 0 and most < 1 << 64:
        return pl.UInt64
    return pl.Int128 if least >= -(1 << 127) and most < 1 << 127 else pl.Float64


def _read(told: list[Any], labels: tuple[Any, Any]) -> Bytes:
    known = {}
    for code, label in enumerate(labels):
        known[label] = code
    out = np.full(len(told), WRONG, np.uint8)
    for i, value in enumerate(told):
        try:
            out[i] = known.get(value, WRONG)
        except TypeError:  # not hashable, so no label
            continue
    return out


def check_reads(predictor: Predictor, users: Users) -> None:
    """Refuse, before the spend, columns that a cap on records left out."""
    gone = [name for name in predictor.reads if name not in users.features]
    if gone:
        raise SchemaError(f"max_records reads declared columns only, and {gone} have no domain; declare them")


def bind_predictor(
    predictor: Any, users: Users, *, labels: tuple[Any, Any] | None = None, rowwise: bool = False
) -> tuple[Predictor, Users]:
    """The predictor and the users with the columns it reads; errors here come before any spend."""
    if isinstance(predictor, Released):
        if predictor.hypothesis is NoRelease:
            raise NoReleaseError("nothing was released, so there is nothing to evaluate")
        predictor = predictor.hypothesis
    if isinstance(predictor, Rule) or hasattr(predictor, "predict_codes"):
        return RuleOf(predictor), _bind_rule(predictor, users)
    pair = _labels(labels, predictor)
    if isinstance(predictor, str):
        if predictor not in users.features:
            raise SchemaError(f"the data have no column {predictor!r} of predictions; add it to features=") from None
        if users.features[predictor] is None and pair == (0, 1):
            users = users.bind({predictor: Integers(0, 1)})
        if isinstance(users, UserData):
            users.check_typed([predictor])
        return PredictionColumn(predictor, pair), users
    predict = getattr(predictor, "predict", predictor)
    if isinstance(predictor, type) or not callable(predict):
        raise TypeError(
            "predictor must be a released rule, a function of a table, a fitted classifier or the name of a column, "
            f"got {type(predictor).__name__}"
        )
    wanted = getattr(predictor, "feature_names_in_", None)
    columns = tuple(map(str, wanted)) if wanted is not None else tuple(users.features)
    missing = [name for name in columns if name not in users.features]
    if missing:
        raise SchemaError(f"the model was fitted on columns {missing}, which are not among {list(users.features)}")
    if isinstance(users, UserData):  # the other engines read files, which have a schema
        users.check_typed(columns)
    arrays = hasattr(predictor, "predict") and wanted is None
    return CalledModel(predict, columns, pair, rowwise, arrays), users


def _bind_rule(rule: Any, users: Users) -> Users:
    missing = [name for name in rule.reads if name not in users.features]
    if missing:
        raise SchemaError(f"columns {missing} are missing; the rule reads {list(rule.reads)}")
    for name in rule.reads:
        declared = users.features[name]
        if declared is not None and declared != rule.features[name] and not _readable(declared, rule.features[name]):
            raise ParameterError(
                f"column {name!r} is declared as {declared.describe()}, which the rule cannot read: it was learned on "
                f"{rule.features[name].describe()}"
            )
    return users.bind({name: rule.features[name] for name in rule.reads if users.features[name] is None})


def _readable(declared: Domain, wanted: Domain) -> bool:
    """Whether values of one domain can be read on another; asked of public values, before any spend."""
    if declared.kind == "texts" or wanted.kind == "texts":
        return declared.kind in ("texts", "categories") and wanted.kind == "texts"
    low, high = declared.value_range()
    codes = range(low, high + 1) if high - low < _TRIED else (low, high)
    try:
        return bool(np.all(wanted.encode(_series(declared, codes), on_invalid="clamp")[1]))
    except Exception:
        return False


def _labels(labels: Any, predictor: Any) -> tuple[Any, Any]:
    if labels is None:
        classes = getattr(predictor, "classes_", None)
        if classes is not None and len(classes) == 2 and set(np.asarray(classes).tolist()) == {0, 1}:
            return (0, 1)
        if classes is not None:
            raise ParameterError(f"the model says {len(classes)} classes: which of them mean 0 and 1? labels=(no, yes)")
        return (0, 1)
    pair = tuple(labels)
    if len(pair) != 2 or pair[0] == pair[1]:
        raise ParameterError("labels must be two different values: what a prediction says for 0 and for 1")
    return (pair[0], pair[1])
