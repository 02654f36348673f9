"""``check``: what would become of a table if it were read so, for the curator's eyes.

A table that ``UserData`` would refuse is read here as well: every verdict is counted, and a column that cannot be read
at all is listed with what is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from privpac.api.tables import choose_engine
from privpac.data.build import Declared, assemble
from privpac.data.check import DataCheck, LabelCount, ReadCounts, ReadCountsKernel, result_of
from privpac.data.columns import text
from privpac.data.domains import Floats, in_one_line
from privpac.data.engines.files import open_table
from privpac.data.engines.stream import StreamedUsers
from privpac.data.ids import as_ids
from privpac.data.objects import OBJECTS
from privpac.data.readers import MISSING_TEXTS, CsvFormat, no_format, read_files, read_frame
from privpac.data.schema import Fault, OnInvalid, OnInvalidLabel, Tally, Verdict
from privpac.data.schema_file import BY_SCHEMA, Schema, declared_with
from privpac.data.users import Features, UserData
from privpac.errors import ParameterError, SchemaError

__all__ = ["check", "check_declared"]

_MOST_LABELS, _LONGEST = 20, 60
_NOBODY = UserData.from_users([], features=["x"], labelled=False).bind({"x": Floats()})
"""Stands in where no column can be read."""


def check(
    table: Any,
    *,
    user: str | None = BY_SCHEMA,
    features: Features | None = None,
    label: str | None = None,
    on_invalid: OnInvalid | str | None = None,
    on_invalid_label: OnInvalidLabel | str | None = None,
    label_map: Mapping[Any, int] | None = None,
    positive: Any = None,
    classes: Sequence[Any] | None = None,
    schema: Schema | str | os.PathLike[str] | None = None,
    max_records: int | None = None,
    engine: str = "auto",
    separator: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
) -> DataCheck:
    """How many records and people of a table would be read, kept, repaired, dropped or refused, by column and reason.

    For the curator's eyes only: the counts are private and no promise covers them.  Nothing is spent, written or kept.

    Parameters
    ----------
    table : frame or path
        Private.  A pandas, polars, Arrow or DuckDB table, or a CSV or Parquet file, a glob or a folder.
    user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, schema
        The declaration, as in ``UserData.from_frame``.
    max_records : int, optional
        A cap that will be declared, to count the people with more records.
    engine : {"auto", "memory", "stream"}
        Where files are read: "stream" for Parquet larger than memory.
    separator, header, names
        How a CSV file is written, as in ``UserData.read``.

    Returns
    -------
    DataCheck
        ``print`` shows it; ``warnings`` says what to look at, above all where more than 5 % of the records or of the
        people are lost.

    Examples
    --------
    >>> import polars as pl, privpac as pp
    >>> visits = pl.DataFrame({"who": [1, 1, 2, 3], "age": [30, None, 200, 40], "ill": ["yes", "no", "no", "no"]})
    >>> found = pp.check(visits, user="who", label="ill", positive="yes", features={"age": pp.Integers(0, 99)})
    >>> [(fault.column, fault.what, fault.records) for fault in found.columns], found.lost_people
    ([('age', 'refused', 1), ('age', 'refused', 1)], 1)
    """
    told: dict[str, Any] = {"label": label, "on_invalid": on_invalid, "label_map": label_map, "positive": positive}
    told |= {"on_invalid_label": on_invalid_label}
    declared = declared_with(schema, user=user, features=features, classes=classes, **told)
    return check_declared(table, declared, max_records, engine, CsvFormat(separator, header, names))


def check_declared(
    table: Any, declared: Declared, max_records: int | None, engine: str, written: CsvFormat
) -> DataCheck:
    """The check of a table that is declared so."""
    declared = replace(declared, counted=True)
    if isinstance(table, (str, os.PathLike)):
        chosen = choose_engine(table, engine)
        if chosen == "spark":
            raise ParameterError("check reads files in memory or as a stream: engine must be auto, memory or stream")
        if chosen == "stream":
            no_format(written)
            return _streamed(table, declared, max_records)
        columns, plain_text = read_files(table, declared.wanted, MISSING_TEXTS, written)
        return _in_memory(columns, declared, max_records, plain_text, [])
    no_format(written)
    problems: list[Fault] = []
    try:
        columns = read_frame(table, declared.wanted, declared.user)
    except SchemaError:  # one by one, so that all that cannot be read is listed
        columns = {}
        for name in declared.wanted:
            try:
                columns |= read_frame(table, [name], declared.user)
            except SchemaError as error:
                problems.append(_unreadable(name, error))
        if not columns:
            raise
    return _in_memory(columns, declared, max_records, False, problems)


def _in_memory(
    table: dict[str, pl.Series], declared: Declared, cap: int | None, plain_text: bool, problems: list[Fault]
) -> DataCheck:
    readable, typed = _readable({name: series.clear() for name, series in table.items()}, declared, plain_text)
    faults = [*problems, *typed]
    rows = len(next(iter(table.values())))
    labels = None
    if declared.label is not None and declared.label in table:
        labels = _label_values(table[declared.label], readable, plain_text)
    wanted = {name: table[name] for name in readable.wanted}
    users = _NOBODY if not wanted else UserData.of_parts(assemble(wanted, readable, plain_text=plain_text), readable)
    counts = users.fold(ReadCountsKernel()) if wanted else ReadCounts(Tally(records=rows))
    return result_of(counts, users, cap, user=declared.user, problems=faults, labels=labels)


def _streamed(path: str | os.PathLike[str], declared: Declared, cap: int | None) -> DataCheck:
    opened = open_table(path, declared.wanted)
    empty = {name: pl.Series(name, [], dtype=opened.schema[name]) for name in declared.wanted}
    readable, problems = _readable(empty, declared, False)
    people = StreamedUsers.scan(path, readable) if readable.wanted else None
    counts = ReadCounts(Tally(records=opened.rows)) if people is None else people.counts()
    return result_of(counts, people or _NOBODY, cap, user=declared.user, problems=problems)


def _readable(empty: dict[str, pl.Series], declared: Declared, plain_text: bool) -> tuple[Declared, list[Fault]]:
    """The declaration without the columns whose type cannot be read, found on columns without rows; and those."""
    problems: list[Fault] = []

    def reads(name: str | None, **roles: Any) -> bool:
        if name is None or name not in empty:
            return False
        alone = replace(declared, **({"user": None, "features": {}, "label": None} | roles))
        try:
            if roles.get("user") is not None:
                as_ids(empty[name], declared.name(name))
            else:
                assemble({name: empty[name]}, alone, plain_text=plain_text)
        except SchemaError as error:
            problems.append(_unreadable(declared.name(name), error))
            return False
        return True

    user = declared.user if reads(declared.user, user=declared.user) else None
    features = {name: domain for name, domain in declared.features.items() if reads(name, features={name: domain})}
    label = declared.label if reads(declared.label, label=declared.label) else None
    return replace(declared, user=user, features=features, label=label), problems


def _unreadable(name: str, error: SchemaError) -> Fault:
    """A column that is refused as a whole; what a schema error says holds no value."""
    return Fault(name, Verdict.UNREAD, str(error).removeprefix(f"column {name!r} ").removeprefix("has "), "refused")


# Labels as the table writes them


def _label_values(series: pl.Series, declared: Declared, plain_text: bool) -> tuple[LabelCount, ...]:
    """The most frequent values of the label column and what each is read as."""
    counted = series.alias("label").to_frame().group_by("label", maintain_order=True).len("records")
    counted = counted.sort("records", descending=True, maintain_order=True)
    head = counted.head(_MOST_LABELS)
    try:
        values = head["label"]
        shown = (values.struct.field("text") if values.dtype == OBJECTS else text(values)).to_list()
    except (SchemaError, pl.exceptions.PolarsError):
        return ()
    read_as = ["refused"] * len(head)
    if declared.label is not None:
        alone = replace(declared, user=None, features={})
        found = assemble({declared.label: head["label"]}, alone, plain_text=plain_text)
        names = declared.classes or ("0", "1")
        keep = [True] * len(head) if found.keep is None else found.keep.tolist()
        codes = [] if found.labels is None else found.labels.tolist()
        fate = "refused" if declared.on_invalid_label is OnInvalidLabel.RAISE else "dropped"
        read_as = [names[code] if good else fate for code, good in zip(codes, keep)]
    rows = [
        LabelCount("(missing)" if value is None else in_one_line(value[:_LONGEST]), records, meaning)
        for value, records, meaning in zip(shown, head["records"].to_list(), read_as)
    ]
    if len(counted) > len(head):
        rest = sum(counted["records"].to_list()[len(head) :])
        rows.append(LabelCount(f"({len(counted) - len(head):,} other values)", rest))
    return tuple(rows)
