"""Tables that do not fit into memory: ``scan`` for Parquet on disk, ``from_spark`` for a Spark DataFrame.

Both give users that every learner built on folds takes in place of ``UserData``, with the same result:

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
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from privpac.data.engines.stream import CHUNK_ROWS, StreamedUsers
from privpac.data.readers import AS_USUAL, CsvFormat, expand, no_format
from privpac.data.schema_file import TableFields, shows_fields, table_spec
from privpac.data.spec import TableSpec
from privpac.data.users import UserData, Users
from privpac.errors import ParameterError

if TYPE_CHECKING:
    from privpac.data.engines.spark import SparkUsers

_ENGINES = ("auto", "memory", "stream", "spark")
LARGE = 1 << 29
"""Bytes of Parquet from which on ``engine="auto"`` streams."""


@shows_fields
def scan(
    path: str | os.PathLike[str],
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
    spec, user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, schema
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
    spec, user, features, label, on_invalid, on_invalid_label, label_map, positive, classes, schema
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


def choose_engine(path: str | os.PathLike[str], engine: str = "auto") -> str:
    """The engine named; ``"auto"`` streams folders and large Parquet, and reads the rest into memory."""
    if engine not in _ENGINES:
        raise ParameterError(f"engine must be one of {', '.join(_ENGINES)}, got {engine!r}")
    if engine == "auto":
        return "stream" if os.path.isdir(path) or _large(path) else "memory"
    return engine


def users_of_files(
    path: str | os.PathLike[str], spec: TableSpec, *, engine: str = "auto", written: CsvFormat = AS_USUAL
) -> Users:
    """Users of files by an engine of :data:`ENGINES`."""
    engine = choose_engine(path, engine)
    if engine == "memory":
        return UserData.of_files(path, spec, written)
    no_format(written)
    if engine == "stream":
        return StreamedUsers.scan(path, spec)
    from privpac.data.engines.spark import read_parquet

    return from_spark(read_parquet(path), spec)


def _large(path: str | os.PathLike[str]) -> bool:
    files = expand(path)
    return (
        all(file.suffix.lower() == ".parquet" for file in files) and sum(file.stat().st_size for file in files) >= LARGE
    )
