"""``check``: what would become of a table if it were read so, for the curator's eyes.

A table that ``UserData`` would refuse is read here as well: every verdict is counted, and a column that cannot be read
at all is listed with what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import polars as pl
from attrs import evolve

from privpac.api.tables import choose_engine
from privpac.data.build import assemble
from privpac.data.check import DataCheck, LabelCount, ReadCounts, ReadCountsKernel, result_of
from privpac.data.columns import text
from privpac.data.domains import Floats, in_one_line
from privpac.data.engines.files import open_table
from privpac.data.engines.lazy_plan import ChunkedUsers
from privpac.data.engines.stream import StreamedUsers
from privpac.data.ids import as_ids
from privpac.data.objects import OBJECTS
from privpac.data.readers import (
    MISSING_TEXTS,
    CsvFormat,
    TablePath,
    as_table,
    is_path,
    no_format,
    read_files,
    read_frame,
)
from privpac.data.schema import Fault, OnInvalidLabel, Tally, Verdict
from privpac.data.schema_file import TableFields, shows_fields, table_spec
from privpac.data.spec import TableSpec
from privpac.data.users import UserData
from privpac.errors import DeclarationError, ParameterError, SchemaError

_MOST_LABELS, _LONGEST = 20, 60
_NOBODY = UserData.from_users([], features=["x"], labelled=False).bind({"x": Floats()})
"""Stands in where no column can be read."""


@shows_fields
def check(
    table: Any,
    spec: TableSpec | None = None,
    *,
    max_records: int | None = None,
    engine: str = "auto",
    separator: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    **fields: Unpack[TableFields],
) -> DataCheck:
    """How many records and people of a table would be read, kept, repaired, dropped or refused, by column and reason.

    For the curator's eyes only: the counts are private and no promise covers them.  Nothing is spent, written or kept.

    Parameters
    ----------
    table : frame, path or people
        Private.  A pandas, polars, Arrow or DuckDB table, a CSV or Parquet file, a glob or a folder; or people that
        were read and declared already.
    spec, user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, missing, schema
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

    Raises
    ------
    SchemaError
        The declaration does not fit the table: a column is missing, or a domain.

    Examples
    --------
    >>> import polars as pl, privpac as pp
    >>> visits = pl.DataFrame({"who": [1, 1, 2, 3], "age": [30, None, 200, 40], "ill": ["yes", "no", "no", "no"]})
    >>> found = pp.check(visits, user="who", label="ill", positive="yes", features={"age": pp.Integers(0, 99)})
    >>> [(fault.column, fault.what, fault.records) for fault in found.columns], found.lost_people
    ([('age', 'refused', 1), ('age', 'refused', 1)], 1)
    """
    written = CsvFormat(separator, header, names)
    if isinstance(table, (UserData, ChunkedUsers)):
        no_format(written)
        if spec is not None or fields:
            raise DeclarationError("these people were read and declared already: leave the declaration out")
        return table.check(max_records)
    return check_declared(table, table_spec(spec, fields), max_records, engine, written)


def check_declared(table: Any, spec: TableSpec, max_records: int | None, engine: str, written: CsvFormat) -> DataCheck:
    """The check of a table that is declared already."""
    spec = evolve(spec, counted=True)
    if is_path(table):
        chosen = choose_engine(table, engine)
        if chosen == "spark":
            raise ParameterError("check reads files in memory or as a stream: engine must be auto, memory or stream")
        if chosen == "stream":
            no_format(written)
            return _streamed(table, spec, max_records)
        columns, plain_text = read_files(table, spec.wanted, MISSING_TEXTS, written)
        return _in_memory(columns, spec, max_records, plain_text, [])
    no_format(written)
    table = as_table(table)
    problems: list[Fault] = []
    try:
        columns = read_frame(table, spec.wanted, spec.user)
    except SchemaError:  # one by one, so that all that cannot be read is listed
        columns = {}
        for name in spec.wanted:
            try:
                columns |= read_frame(table, [name], spec.user)
            except SchemaError as error:
                problems.append(_unreadable(name, error))
        if not columns:
            raise
    return _in_memory(columns, spec, max_records, False, problems)


def _in_memory(
    table: dict[str, pl.Series], spec: TableSpec, cap: int | None, plain_text: bool, problems: list[Fault]
) -> DataCheck:
    readable, typed = _readable({name: series.clear() for name, series in table.items()}, spec, plain_text)
    faults = [*problems, *typed]
    rows = len(next(iter(table.values())))
    labels = None
    if spec.label is not None and spec.label in table:
        labels = _label_values(table[spec.label], readable, plain_text)
    wanted = {name: table[name] for name in readable.wanted}
    users = _NOBODY if not wanted else UserData.of_parts(assemble(wanted, readable, plain_text=plain_text), readable)
    counts = users.fold(ReadCountsKernel()) if wanted else ReadCounts(Tally(records=rows))
    return result_of(counts, users, cap, user=spec.user, problems=faults, labels=labels)


def _streamed(path: TablePath, spec: TableSpec, cap: int | None) -> DataCheck:
    opened = open_table(path, spec.wanted)
    empty = {name: pl.Series(name, [], dtype=opened.schema[name]) for name in spec.wanted}
    readable, problems = _readable(empty, spec, False)
    people = StreamedUsers.scan(path, readable) if readable.wanted else None
    counts = ReadCounts(Tally(records=opened.rows)) if people is None else people.counts()
    return result_of(counts, people or _NOBODY, cap, user=spec.user, problems=problems)


def _readable(empty: dict[str, pl.Series], spec: TableSpec, plain_text: bool) -> tuple[TableSpec, list[Fault]]:
    """The declaration without the columns whose type cannot be read, found on columns without rows; and those."""
    problems: list[Fault] = []
    readable: list[str] = []
    for name in spec.wanted:
        if name not in empty:
            continue
        try:
            if name == spec.user:
                as_ids(empty[name], spec.name(name))
            else:
                assemble({name: empty[name]}, spec.only([name]), plain_text=plain_text)
            readable.append(name)
        except SchemaError as error:
            problems.append(_unreadable(spec.name(name), error))
    return spec.only(readable), problems


def _unreadable(name: str, error: SchemaError) -> Fault:
    """A column that is refused as a whole; what a schema error says holds no value."""
    return Fault(name, Verdict.UNREAD, str(error).removeprefix(f"column {name!r} ").removeprefix("has "), "refused")


# Labels as the table writes them


def _label_values(series: pl.Series, spec: TableSpec, plain_text: bool) -> tuple[LabelCount, ...]:
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
    if spec.label is not None:
        alone = spec.only([spec.label])
        found = assemble({spec.label: head["label"]}, alone, plain_text=plain_text)
        names = spec.class_names or ("0", "1")
        keep = [True] * len(head) if found.keep is None else found.keep.tolist()
        codes = [] if found.labels is None else found.labels.tolist()
        fate = "refused" if spec.on_invalid_label is OnInvalidLabel.RAISE else "dropped"
        read_as = [names[code] if good else fate for code, good in zip(codes, keep)]
    rows = [
        LabelCount("(missing)" if value is None else in_one_line(value[:_LONGEST]), records, meaning)
        for value, records, meaning in zip(shown, head["records"].to_list(), read_as)
    ]
    if len(counted) > len(head):
        rest = sum(counted["records"].to_list()[len(head) :])
        rows.append(LabelCount(f"({len(counted) - len(head):,} other values)", rest))
    return tuple(rows)
