"""The Spark engine on a local cluster of two: the same users as in memory, counted once whatever fails, and nothing said of the rows."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import privpac as pp
from privpac.concepts.profile import Profile, constant_profile
from privpac.concepts.statistics import Exceeds, Mean, Regret, root_clip
from privpac.data import Floats, Integers, UserData, Users
from privpac.engines.wire import pack, unpack
from privpac.errors import EngineError, ParameterError, SchemaError
from privpac.learners import RegretSelection
from privpac.learners.base import count_users
from privpac.learners.sizes import size_counts

DOMAIN = Integers(0, 9)
SCHEMA: dict[str, Any] = {"user": "who", "features": {"x": DOMAIN}, "label": "y"}

HAVE_JAVA = shutil.which("java") is not None or "JAVA_HOME" in os.environ


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two workers, a task may fail three times; logs go to a file."""
    pytest.importorskip("pyspark", reason="PySpark is not installed: make test-spark")
    if not HAVE_JAVA:
        pytest.skip("Java is not installed")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    logs = tmp_path_factory.mktemp("logs")
    (logs / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.file.ref = file\nappender.file.type = File\nappender.file.name = file\n"
        f"appender.file.fileName = {logs / 'spark.log'}\nappender.file.layout.type = PatternLayout\n"
        "appender.file.layout.pattern = %p %c: %m%n%ex\n"
    )
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logs / 'log4j2.properties'}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2,3]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.privpac_log = logs / "spark.log"
    yield session
    session.stop()


pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning")


def table(kind: str = "integer") -> pl.DataFrame:
    rng = np.random.default_rng(3)
    who = np.concatenate([np.full(900, 7), rng.integers(0, 60, 600)])
    rng.shuffle(who)
    frame = pl.DataFrame({"who": who, "x": rng.integers(0, 10, len(who)), "y": rng.integers(0, 2, len(who))})
    kinds = {"integer": pl.col("who"), "text": pl.format("user {}", "who"), "float": pl.col("who").cast(pl.Float64)}
    return frame.with_columns(kinds[kind].alias("who"))


def on_cluster(spark: Any, frame: pl.DataFrame, folder: Path) -> Any:
    for i in range(3):
        frame[i::3].write_parquet(folder / f"{i}.parquet")
    return spark.read.parquet(str(folder))


def same(a: Profile, b: Profile) -> bool:
    return a.blocks() == b.blocks()


@pytest.mark.parametrize("kind", ["integer", "text", "float"])
def test_profiles_are_equal_to_those_in_memory(spark: Any, tmp_path: Path, kind: str) -> None:
    frame = table(kind)
    cluster: Users = pp.from_spark(on_cluster(spark, frame, tmp_path), chunk_rows=100, partitions=5, **SCHEMA)
    memory: Users = UserData.from_frame(frame, **SCHEMA)
    assert size_counts(cluster) == size_counts(memory)
    capped, kept = cluster.max_records(4), memory.max_records(4)
    assert same(pp.Intervals().profile(capped, Regret(root_clip(1))), pp.Intervals().profile(kept, Regret(root_clip(1))))
    learner = RegretSelection(pp.Thresholds(direction="both"), Fraction(1), public_n_users=60)
    ours, theirs = learner.law(cluster), learner.law(memory)
    assert [ours.prob(v) for v in range(22)] == [theirs.prob(v) for v in range(22)]


def test_domains_of_the_class_item_level_and_empty_tables(spark: Any, tmp_path: Path) -> None:
    frame = table()
    remote = on_cluster(spark, frame, tmp_path)
    concept = pp.Thresholds(Floats(), "x")
    late = pp.from_spark(remote, user="who", features=["x"], label="y", partitions=2)
    assert same(concept.profile(late, Mean()), concept.profile(UserData.from_frame(frame, user="who", features=["x"], label="y"), Mean()))
    item = SCHEMA | {"user": None}
    assert same(
        pp.Points().profile(pp.from_spark(remote, chunk_rows=70, partitions=2, **item), Exceeds(0)),
        pp.Points().profile(UserData.from_frame(frame, **item), Exceeds(0)),
    )
    nobody = pp.from_spark(remote.where("who < 0"), **SCHEMA)
    assert count_users(nobody) == 0
    assert same(pp.Thresholds().profile(nobody, Mean()), constant_profile(11))
    assert pp.learn(nobody, pp.Thresholds(), epsilon=1).guarantee is not None


def failing(attempts: int) -> Any:
    """A kernel that counts users; the first attempts of every task die, and name a value.  (A local class travels to workers whole.)"""

    class Failing:
        def zero(self) -> int:
            return 0

        def chunk(self, users: Any) -> int:
            from pyspark import TaskContext

            context = TaskContext.get()
            if context is not None and context.attemptNumber() < attempts:
                raise ValueError("secret-value-4711")
            return int(users.n_users)

        def merge(self, a: int, b: int) -> int:
            return a + b

    return Failing()


def test_a_task_that_fails_once_counts_once_and_a_job_that_fails_says_nothing(spark: Any, tmp_path: Path) -> None:
    from privpac.engines.spark import JOB_FAILED, TASK_FAILED

    cluster = pp.from_spark(on_cluster(spark, table("text"), tmp_path), partitions=3, **SCHEMA)
    assert cluster.fold(failing(1)) == 60
    with pytest.raises(EngineError) as told:
        cluster.fold(failing(99))
    assert str(told.value) == JOB_FAILED
    assert told.value.__cause__ is None
    assert told.value.__context__ is None
    log = spark.privpac_log.read_text()
    assert TASK_FAILED in log, "the log does record failures"
    assert "secret-value" not in log
    assert "user 7" not in log
    assert spark.conf.get("spark.eventLog.enabled", "false") == "false"


def test_schema_errors_are_those_of_memory_and_come_before_any_fold(spark: Any, tmp_path: Path) -> None:
    frame = table().with_columns(
        pl.when(pl.col("x") == 3).then(77).otherwise(pl.col("x")).alias("x"),
        pl.when(pl.col("who") == 5).then(None).otherwise("who").alias("who"),
    )
    remote = on_cluster(spark, frame, tmp_path)

    def said(build: Any) -> str:
        with pytest.raises(SchemaError) as told:
            build()
        assert told.value.__context__ is None
        return str(told.value)

    for schema in (SCHEMA, SCHEMA | {"user": None}, SCHEMA | {"user": None, "label": "who", "features": {"y": Integers(0, 1)}}):
        assert said(lambda: pp.from_spark(remote, partitions=2, **schema)) == said(lambda: UserData.from_frame(frame, **schema))  # noqa: B023
    assert "no column 'z'" in said(lambda: pp.from_spark(remote, **(SCHEMA | {"label": "z"})))
    dropped = SCHEMA | {"on_invalid": "drop"}
    cluster, memory = pp.from_spark(remote, partitions=2, **dropped), UserData.from_frame(frame, **dropped)
    assert size_counts(cluster) == size_counts(memory)
    with pytest.raises(ParameterError):
        pp.from_spark(remote, partitions=0, **SCHEMA)
    with pytest.raises(TypeError):
        pp.from_spark(frame, **SCHEMA)


# Bytes


def test_partial_results_travel_without_pickle() -> None:
    values: list[Any] = [None, True, -5, 1 << 90, 1 << 9000, 0.1, Fraction(1, 3), "é", b"\x00", (1, [2]), {3: 4}, Counter({b"a": 2})]
    assert unpack(pack(values)) == values
    profile = pp.Thresholds(Integers(0, 2**64 - 1), "x").profile(UserData.from_users([[(5, 1)], [(2**63, 0)]]), Mean())
    assert same(unpack(pack(profile)), profile)
    array = unpack(pack(np.arange(6, dtype=np.int32).reshape(2, 3)))
    assert array.dtype == np.int32
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert array.flags.writeable
    for refused in (object(), np.array([None]), lambda: 0, type):
        with pytest.raises(TypeError, match="cannot travel"):
            pack(refused)


@pytest.mark.parametrize(
    "record", [["data", "os:system", []], ["named", "subprocess:Popen", [["list", []]]], ["enum", "privpac.rng:Rng", 1]]
)
def test_messages_cannot_name_code_to_run(record: list[Any]) -> None:
    import json

    head = json.dumps(record).encode()
    with pytest.raises(TypeError, match="cannot travel"):
        unpack(len(head).to_bytes(8, "little") + head)
