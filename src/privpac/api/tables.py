"""Tables of any kind as people: what every function of the public API takes in place of them.

``learn``, ``evaluate``, ``quantile`` and the others take people that were read (``UserData`` or another engine's) or a
table with its declaration: :func:`open_people` is the one place that tells them apart.  ``scan`` reads Parquet on disk
that does not fit into memory, ``from_spark`` a Spark DataFrame.  Both give users that every learner built on
folds takes in place of ``UserData``, with the same result:

>>> import tempfile, polars as pl, privpac as pp
>>> with tempfile.TemporaryDirectory() as folder:
...     pl.DataFrame({"who": [2, 1, 2], "x": [3, 5, 8], "y": [0, 0, 1]}).write_parquet(f"{folder}/visits.parquet")
...     people = pp.scan(folder, user="who", features={"x": pp.Integers(0, 9)}, label="y")
...     rule = pp.learn(people, pp.Thresholds(), epsilon=1)
>>> rule.guarantee.summary
'(1, 0)-DP per user, add-remove'
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from attrs import frozen

from privpac.data.domains import Domain
from privpac.data.readers import (
    AS_USUAL,
    CsvFormat,
    TablePath,
    as_table,
    expand,
    is_frame,
    is_path,
    no_format,
    shown_path,
)
from privpac.data.schema_file import OPEN, Schema, TableFields, shows, shows_fields, table_spec
from privpac.data.spec import TableSpec, read_features
from privpac.data.users import UserData, Users, is_people
from privpac.errors import DeclarationError, ParameterError, PrivpacError, did_you_mean
from privpac.guarantee import Unit
from privpac.parameters import CHUNK_ROWS

if TYPE_CHECKING:
    from privpac.data.engines.spark import SparkUsers
    from privpac.data.engines.stream import StreamedUsers

_ENGINES = ("auto", "memory", "stream", "spark")
LARGE = 1 << 29
"""Bytes of Parquet from which on ``engine="auto"`` streams."""


@shows_fields
def scan(
    path: TablePath,
    spec: TableSpec | None = None,
    *,
    separator: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    chunk_rows: int = CHUNK_ROWS,
    spill: str | os.PathLike[str] | None = None,
    progress: bool = True,
    **fields: Unpack[TableFields],
) -> StreamedUsers:
    """Users of a Parquet file, a glob of files or a folder of them (also ``key=value`` folders), larger than memory.

    Parameters
    ----------
    path : path
        Private.  Declare the domains here rather than in the class: it saves one pass.
    spec, user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, missing, schema
        The declaration, as in ``UserData.from_frame``.
    separator, header, names
        How a CSV file is written, as in ``UserData.read``; refused here, where Parquet files are streamed.
    chunk_rows : int
        About so many rows are in memory at a time.
    spill : path, optional
        Rows that are not sorted by user are parted on disk first, in a private folder inside this one (default: the
        system's folder for temporary files) that is removed with the users.
    progress : bool
        Whether a bar with the rows read is shown on a terminal.

    Returns
    -------
    StreamedUsers
        What every learner built on folds takes in place of ``UserData``.

    Raises
    ------
    SchemaError, EngineError
        Columns or values that the declaration does not allow, or files that cannot be read.

    Notes
    -----
    Profiles, laws and schema errors are those of ``UserData.read``; schema errors come from this call
    or from ``bind``, before anything is spent.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl, privpac as pp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pl.DataFrame({"who": [1, 1, 2], "age": [30, 80, 20], "ill": [0, 1, 0]}).write_parquet(f"{folder}/a.parquet")
    ...     people = pp.scan(folder, user="who", features={"age": pp.Integers(0, 99)}, label="ill")
    ...     pp.learn(people, "threshold", epsilon=1).outcome
    'released'
    """
    no_format(CsvFormat(separator, header, names))
    from privpac.data.engines.stream import StreamedUsers  # most tables fit into memory

    return StreamedUsers.scan(path, table_spec(spec, fields), chunk_rows=chunk_rows, spill=spill, progress=progress)


@shows_fields
def from_spark(
    frame: Any,
    spec: TableSpec | None = None,
    *,
    partitions: int | None = None,
    chunk_rows: int = CHUNK_ROWS,
    **fields: Unpack[TableFields],
) -> SparkUsers:
    """Users of a Spark DataFrame; rows stay on the cluster, the driver receives sums over users.

    Parameters
    ----------
    frame : Spark DataFrame
        Private.  One that is costly to compute is computed once per fold: ``cache`` it.
    spec, user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, missing, schema
        The declaration, as in ``UserData.from_frame``.
    partitions : int, optional
        The number of tasks of a fold (default: Spark's own number of shuffle partitions, or more for large tables).
    chunk_rows : int
        Rows that a task holds in memory at a time.

    Returns
    -------
    SparkUsers
        What every learner built on folds takes in place of ``UserData``.  Every worker needs this package.

    Raises
    ------
    SchemaError, EngineError
        Columns or values that the declaration does not allow, or a cluster that fails.

    Notes
    -----
    Profiles, laws and schema errors are those of ``UserData.from_frame`` on the same rows.  A task
    that is run again, or twice, counts once.

    Examples
    --------
    >>> import privpac as pp
    >>> people = pp.from_spark(frame, user="who", features={"age": pp.Integers(0, 99)}, label="ill")  # doctest: +SKIP
    >>> pp.learn(people, "threshold", epsilon=1)  # doctest: +SKIP
    """
    from privpac.data.engines.spark import SparkUsers

    return SparkUsers.of(frame, table_spec(spec, fields), partitions=partitions, chunk_rows=chunk_rows)


def choose_engine(path: TablePath, engine: str = "auto") -> str:
    """The engine named; ``"auto"`` streams folders and large Parquet, and reads the rest into memory."""
    if engine not in _ENGINES:
        near = did_you_mean(engine, _ENGINES)
        raise ParameterError(f"engine must be one of {', '.join(_ENGINES)}, got {engine!r}{near}")
    if engine == "auto":
        folder = isinstance(path, (str, os.PathLike)) and os.path.isdir(path)
        return "stream" if folder or _large(path) else "memory"
    return engine


def users_of_files(path: TablePath, spec: TableSpec, *, engine: str = "auto", written: CsvFormat = AS_USUAL) -> Users:
    """Users of files by an engine of :data:`ENGINES`."""
    engine = choose_engine(path, engine)
    if engine == "memory":
        return UserData.of_files(path, spec, written)
    no_format(written)
    if engine == "stream":
        from privpac.data.engines.stream import StreamedUsers

        return StreamedUsers.scan(path, spec)
    from privpac.data.engines.spark import read_parquet

    if not isinstance(path, (str, os.PathLike)):
        raise ParameterError("Spark reads one path here: name a folder or a glob, or give from_spark a DataFrame")
    return from_spark(read_parquet(path), spec)


def _large(path: TablePath) -> bool:
    files = expand(path)
    return (
        all(file.suffix.lower() == ".parquet" for file in files) and sum(file.stat().st_size for file in files) >= LARGE
    )


# What the functions of the public API take: people, or a table and its declaration


class Frame(Protocol):
    """A table in memory or lazy: pandas, polars, Arrow, DuckDB, Spark."""

    @property
    def columns(self) -> Any: ...


class ArrowStream(Protocol):
    """What hands out a stream of Arrow's."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any: ...


Data = Users | Frame | ArrowStream | TablePath
"""People, or a table to be declared."""


class DataFields(TableFields, total=False):
    """The keywords of every function that takes people or a table: its declaration, and how its files are read."""

    engine: str | None
    separator: str | None
    header: bool | None
    names: Sequence[str] | None


takes_tables = shows(DataFields)


@frozen(slots=False)
class Declared:
    """People, or a table that is declared and not read yet: rules are chosen and checked before it is."""

    schema: Any
    """What says ``features``, ``unit`` and ``classes``: the people, or the table's spec."""
    read: Callable[[], Any]
    """The people."""

    @property
    def unit(self) -> Unit:
        found: Unit = getattr(self.schema, "unit", Unit.USER)
        return found

    @property
    def features(self) -> Mapping[str, Domain | None]:
        found: Mapping[str, Domain | None] = getattr(self.schema, "features", {})
        return found


def fields_among(options: dict[str, Any]) -> DataFields:
    """Take what is said about the table out of the options of a function."""
    return {name: options.pop(name) for name in DataFields.__annotations__ if name in options}  # type: ignore[return-value]


def open_people(
    data: Any,
    fields: DataFields,
    *,
    call: str,
    labelled: bool = True,
    columns: Mapping[str, Domain | None] | None = None,
) -> Declared:
    """What a function was given as its people.

    ``call`` is how that function is called, with the table's place in braces, for the message that has the whole call;
    ``labelled`` whether it needs labels; ``columns`` those that its rule or predictor declares itself.
    """
    strange = [name for name in fields if name not in DataFields.__annotations__]
    if strange:
        name = call.partition("(")[0].removeprefix("pp.")
        near = did_you_mean(strange[0], DataFields.__annotations__)
        raise TypeError(f"{name}() got an unexpected keyword argument {strange[0]!r}{near}")
    if is_people(data):
        if fields:
            raise DeclarationError(
                f"these people were read and declared already ({type(data).__name__}): leave out "
                f"{', '.join(f'{name}=' for name in fields)}, or give the table itself"
            )
        return Declared(data, lambda: data)
    if not _is_table(data):
        if fields:
            raise TypeError(
                "a table is a pandas, polars, Arrow or DuckDB frame, a Spark DataFrame or the path of files, got "
                f"{type(data).__name__}; arrays are read with UserData.from_arrays, lists with UserData.from_users"
            )
        return Declared(data, lambda: data)  # refused by its learner, as anything that is no data
    data = as_table(data)
    said: dict[str, Any] = dict(fields)
    engine = said.pop("engine", None)
    written = CsvFormat(*(said.pop(name, None) for name in ("separator", "header", "names")))
    if said.get("schema") is None:
        if said.get("features") is None and columns:
            roles = (said.get("user"), said.get("label"))
            said["features"] = {name: domain for name, domain in columns.items() if name not in roles}
        needed = ("user", *(["label"] if labelled else []), "features")
        if absent := [name for name in needed if name not in said or (said[name] is None and name != "user")]:
            raise DeclarationError(_call_to_write(data, said, absent, call, labelled, written))
    spec = table_spec(None, said)  # type: ignore[arg-type]
    if is_path(data):
        return Declared(spec, lambda: users_of_files(data, spec, engine=engine or "auto", written=written))
    no_format(written)
    if engine is not None:
        raise ParameterError("engine= says how files are read, and this table is in memory: leave it out")
    if type(data).__module__.startswith("pyspark."):
        return Declared(spec, lambda: from_spark(data, spec))
    return Declared(spec, lambda: UserData.from_frame(data, spec))


def _is_table(data: object) -> bool:
    return (
        is_path(data)
        or hasattr(data, "__arrow_c_stream__")
        or type(data).__module__.startswith("pyspark.")
        or is_frame(data)
    )


_ROLES = {
    "user": "user= (the column of person ids, or None if every record is a person of its own)",
    "label": "label= (the column to predict)",
    "features": "features= (the columns that rules may read, with what everybody may know of their values)",
}
_MOST_SHOWN, _LONGEST_LINE = 40, 120


def _call_to_write(
    data: Any, said: Mapping[str, Any], absent: Sequence[str], call: str, labelled: bool, written: CsvFormat
) -> str:
    """What is missing, and the call with the table's own columns: by their names and types, never by a value."""
    message = f"{call.partition('(')[0]} needs {', '.join(_ROLES[name] for name in absent)} of this table"
    shown = "df"
    if is_path(data):
        expand(data, folders=True)  # that there is no such file goes first
        shown = shown_path(data) if isinstance(data, (str, os.PathLike)) else "files"
    try:
        schema = _suggested(data, said, written)
    except (PrivpacError, TypeError):
        return f"{message}; or schema=, a file that privpac domains makes"
    said = {**said, "user": said.get("user", schema.user)}
    if labelled:
        said["label"] = said.get("label") or schema.label or OPEN
        if schema.positive == OPEN and said.keys().isdisjoint({"positive", "label_map", "classes"}):
            said["positive"] = OPEN
    given = said.pop("features", None)
    columns = schema.columns if given is None else read_features(given)
    pairs = {f"{_literal(name)}: {_written(domain)}": name for name, domain in columns.items()}
    words = [f"{name}={_literal(value)}" for name, value in said.items()]
    before, _, after = call.partition("{table}")
    ends = [part for part in after.removesuffix(")").split(", ") if part]
    features = f"features={{{', '.join(pairs)}}}"
    short = f"{before}{', '.join([shown, *words, features, *ends])}). "
    if len(short) > _LONGEST_LINE:
        notes = {name: f"  # {schema.notes.get(f'columns.{name}', '')}" for name in columns if columns[name] is None}
        lines = [f"    {pair},{notes.get(name, '')}" for pair, name in list(pairs.items())[:_MOST_SHOWN]]
        if len(pairs) > _MOST_SHOWN:
            lines.append(f"    # and {len(pairs) - _MOST_SHOWN} more: pp.suggest_domains has them all")
        every = [f"{shown},", *(f"{word}," for word in words), "features={", *lines, "},", *(f"{end}," for end in ends)]
        short = "\n\n" + "\n".join([before.rstrip(), *(f"    {line}" for line in every), ")"]) + "\n\n"
    return (
        f"{message}. By the names and types of its columns, and no value, the call to write is {short}Put what "
        'everybody may know in place of each "?", or leave the column out. The same can stand in a file that schema= '
        "reads: privpac domains makes it. To ask the same people more than once, read them with these keywords first: "
        "UserData.from_frame."
    )


def _suggested(data: object, said: Mapping[str, Any], written: CsvFormat) -> Schema:
    """What names and types tell of the columns, beside what was said."""
    where = data[0] if isinstance(data, (list, tuple)) else data
    alone = "user" in said and said["user"] is None
    csv: dict[str, Any] = {"separator": written.separator, "header": written.header, "names": written.names}
    from privpac.data.suggest import suggest_domains

    return suggest_domains(
        where, user=said.get("user"), label=said.get("label"), unit=Unit.ITEM if alone else Unit.USER, **csv
    )


def _literal(value: object) -> str:
    """A value as it stands in a call."""
    plain = isinstance(value, str) and value.isprintable() and not set(value) & set('"\\')
    return f'"{value}"' if plain else repr(value)


def _written(domain: Domain | None) -> str:
    """A domain as it stands in a call, in one of the forms of :mod:`privpac.data.spec`."""
    if domain is None:
        return f'"{OPEN}"'
    form = domain.to_schema()
    if not isinstance(form, str):
        return repr(form)
    numbers = form.split(":")
    plain = len(numbers) > 1 and all(part.lstrip("-").replace(".", "", 1).isdigit() for part in numbers)
    return f"({', '.join(numbers)})" if plain else _literal(form)
