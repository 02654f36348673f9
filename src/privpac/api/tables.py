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
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from privpac.data.engines.stream import CHUNK_ROWS, StreamedUsers
from privpac.data.readers import CsvFormat, expand, no_format
from privpac.data.schema import OnInvalid, OnInvalidLabel
from privpac.data.schema_file import BY_SCHEMA, Schema, declared_with
from privpac.data.users import Features, UserData, Users
from privpac.errors import ParameterError

if TYPE_CHECKING:
    from privpac.data.engines.spark import SparkUsers

__all__ = ["ENGINES", "choose_engine", "from_spark", "read_users", "scan"]

ENGINES = ("auto", "memory", "stream", "spark")
LARGE = 1 << 29
"""Bytes of Parquet from which on ``engine="auto"`` streams."""


def scan(
    path: str | os.PathLike[str],
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
    separator: str | None = None,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    chunk_rows: int = CHUNK_ROWS,
    spill: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> StreamedUsers:
    """Users of a Parquet file, a glob of files or a folder of them (also ``key=value`` folders), larger than memory.

    Parameters
    ----------
    path : path
        Private.  Declare the domains here rather than in the class: it saves one pass.
    user : str or None
        The column of person ids; None makes every record its own user.
    features : mapping of names to domains, or names
        The columns that rules may read; a domain is public and never read off the data.
    label : str, optional
        The column to predict.
    on_invalid : {"raise", "drop", "clamp"}, optional
        What happens to a value outside its domain: the table is refused, the record is left out, or a number is moved
        to the nearest end; the last two move a number between the domain's points to the point below.  Missing values:
        refused under "raise", their records left out under "drop" and "clamp", kept as a category of their own where
        the domain is ``Missing(domain, "own")``.
    on_invalid_label : {"raise", "drop"}, optional
        What happens to a record whose label is missing or none of the named ones.
    label_map : mapping, optional
        What each label value means: ``{"dead": 1, "alive": 0}``.
    positive : value, optional
        The label that is predicted; every other value means the opposite.
    classes : sequence, optional
        The labels where there are more than two.
    schema : Schema or path, optional
        Says whatever is not said here.
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

    Notes
    -----
    Profiles, laws and schema errors are those of ``UserData.read``; schema errors come from this call
    or from ``bind``, before anything is spent.
    """
    no_format(CsvFormat(separator, header, names))
    told: dict[str, Any] = {"label": label, "on_invalid": on_invalid, "label_map": label_map, "positive": positive}
    told |= {"on_invalid_label": on_invalid_label}
    return StreamedUsers.scan(
        path,
        declared_with(schema, user=user, features=features, classes=classes, **told),
        chunk_rows=chunk_rows,
        spill=spill,
        progress=progress,
    )


def from_spark(
    frame: Any,
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
    partitions: int | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> SparkUsers:
    """Users of a Spark DataFrame; rows stay on the cluster, the driver receives sums over users.

    Parameters
    ----------
    frame : Spark DataFrame
        Private.  One that is costly to compute is computed once per fold: ``cache`` it.
    user : str or None
        The column of person ids; None makes every record its own user.
    features : mapping of names to domains, or names
        The columns that rules may read; a domain is public and never read off the data.
    label : str, optional
        The column to predict.
    on_invalid : {"raise", "drop", "clamp"}, optional
        What happens to a value outside its domain: the table is refused, the record is left out, or a number is moved
        to the nearest end; the last two move a number between the domain's points to the point below.  Missing values:
        refused under "raise", their records left out under "drop" and "clamp", kept as a category of their own where
        the domain is ``Missing(domain, "own")``.
    on_invalid_label : {"raise", "drop"}, optional
        What happens to a record whose label is missing or none of the named ones.
    label_map : mapping, optional
        What each label value means: ``{"dead": 1, "alive": 0}``.
    positive : value, optional
        The label that is predicted; every other value means the opposite.
    classes : sequence, optional
        The labels where there are more than two.
    schema : Schema or path, optional
        Says whatever is not said here.
    partitions : int, optional
        The number of tasks of a fold (default: Spark's own number of shuffle partitions, or more for large tables).
    chunk_rows : int
        Rows that a task holds in memory at a time.

    Returns
    -------
    SparkUsers
        What every learner built on folds takes in place of ``UserData``.  Every worker needs this package.

    Notes
    -----
    Profiles, laws and schema errors are those of ``UserData.from_frame`` on the same rows.  A task
    that is run again, or twice, counts once.
    """
    from privpac.data.engines.spark import SparkUsers

    told: dict[str, Any] = {"label": label, "on_invalid": on_invalid, "label_map": label_map, "positive": positive}
    told |= {"on_invalid_label": on_invalid_label}
    return SparkUsers.of(
        frame,
        declared_with(schema, user=user, features=features, classes=classes, **told),
        partitions=partitions,
        chunk_rows=chunk_rows,
    )


def choose_engine(path: str | os.PathLike[str], engine: str = "auto") -> str:
    """The engine named; ``"auto"`` streams folders and large Parquet, and reads the rest into memory."""
    if engine not in ENGINES:
        raise ParameterError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    if engine == "auto":
        return "stream" if os.path.isdir(path) or _large(path) else "memory"
    return engine


def read_users(path: str | os.PathLike[str], *, engine: str = "auto", **declaration: Any) -> Users:
    """Users of files by an engine of :data:`ENGINES`."""
    engine = choose_engine(path, engine)
    if engine == "stream":
        return scan(path, **declaration)
    if engine == "spark":
        from privpac.data.engines.spark import read_parquet

        no_format(CsvFormat(*(declaration.pop(name, None) for name in ("separator", "header", "names"))))
        return from_spark(read_parquet(path), **declaration)
    return UserData.read(path, **declaration)


def _large(path: str | os.PathLike[str]) -> bool:
    files = expand(path)
    return (
        all(file.suffix.lower() == ".parquet" for file in files) and sum(file.stat().st_size for file in files) >= LARGE
    )
