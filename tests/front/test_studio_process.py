"""The studio as a process of its own: what hostile files beside a table can do, and what stays after each signal."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest

from privpac.studio import words
from privpac.studio.desk import PREFIX, Desk
from privpac.studio.guard import KEY
from privpac.studio.words import Ran, Runner, started

N = 240
BILI = np.arange(N) % 60 / 10
PEOPLE = pl.DataFrame(
    {"patient": [f"p{i // 2}" for i in range(N)], "bili": BILI, "status": np.where(BILI > 3, "dead", "alive")}
)
SAID = {
    "columns": {"bili": "0:60:0.1"},
    "unit": "user",
    "user": "patient",
    "label": "status",
    "labels": "value",
    "positive": "dead",
    "missing": "drop",
    "on_invalid": "clamp",
}
MAIN = "from privpac.cli.app import main; main()"
MODULES = ("json", "privpac", "numpy", "sitecustomize", "usercustomize", "typing", "uvicorn", "matplotlib")


class Studio:
    """A running studio, and a browser that was let in."""

    def __init__(self, process: subprocess.Popen[str], link: str, private: Path) -> None:
        self.process, self.place = process, private
        self.home = link.partition("/?")[0]
        self.client = httpx.Client(base_url=self.home, timeout=120)
        key = re.search(r"url=/#([\w-]+)", self.client.get(link).text)
        assert key is not None
        self.headers = {KEY: key[1], "origin": self.home}

    def ask(self, path: str, body: Any) -> Any:
        answer = self.client.post(path, json=body, headers=self.headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def hand_in(self, table: Path) -> Path:
        headers = self.headers | {"content-type": "application/octet-stream"}
        url = f"/api/upload?name={table.name}"
        return Path(self.client.post(url, content=table.read_bytes(), headers=headers).json()["table"])

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)

    @property
    def folders(self) -> list[Path]:
        return sorted(self.place.glob(f"{PREFIX}*"))


@contextmanager
def studio(folder: Path, private: Path, **environment: str) -> Iterator[Studio]:
    process = subprocess.Popen(
        started(["studio", "--no-browser"]),
        cwd=folder,
        env={**os.environ, "TMPDIR": str(private), **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = "".join(process.stdout.readline() for _ in range(3))
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", said)
        assert found is not None, said
        opened = Studio(process, found.group(), private)
        yield opened
        opened.client.close()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A folder for temporary files, with nothing in it."""
    place = tmp_path / "temporary"
    place.mkdir()
    return place


def plant(folder: Path, marker: Path) -> None:
    """Modules that write down that they were run: beside a table they must never be imported."""
    code = f"open({str(marker)!r}, 'a').write(__name__ + ' from ' + __file__ + chr(10))\n"
    for name in MODULES:
        (folder / f"{name}.py").write_text(code)
    (folder / "polars").mkdir()
    (folder / "polars" / "__init__.py").write_text(code)
    (folder / "evil.pth").write_text(f"import sys; exec({code!r})\n")
    (folder / "pyvenv.cfg").write_text(f"home = {folder}\n")


@pytest.mark.parametrize("all_flows", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_files_beside_the_table_are_never_run(tmp_path: Path, private: Path, all_flows: bool) -> None:
    """Declare, check, learn, plan and evaluate among hostile files; the folders of temporary files and of tables that
    were handed in are no safer than the data folder."""
    data, marker = tmp_path / "data", tmp_path / "marker"
    data.mkdir()
    plant(data, marker)
    plant(private, marker)
    PEOPLE.write_parquet(data / "visits.parquet")
    table: dict[str, Any] = {"table": "visits.parquet"}
    with studio(data, private, PYTHONPATH=f"{data}:{private}:", PYTHONSTARTUP=str(data / "json.py")) as opened:
        plant(opened.hand_in(data / "visits.parquet").parent, marker)
        opened.ask("/api/columns", table)
        opened.ask("/api/schema", table | SAID)
        opened.ask("/api/budget", table | {"epsilon": "30", "dataset": "visits"})
        price = opened.ask("/api/learn", table | {"rule": None, "epsilon": "10", "evaluate": False})
        learned = opened.ask("/api/accept", {"offer": price["offer"]})
        assert learned["title"].startswith("dead when bili"), learned
        if all_flows:
            plan = {"rule": None, "epsilon": "1", "alpha": "0.05", "people": None, "records": 2}
            opened.ask("/api/plan", table | plan)
            opened.ask("/api/check", table)
            price = opened.ask("/api/evaluate", table | {"rule": learned["saved"], "epsilon": "10"})
            assert "wrong for" in opened.ask("/api/accept", {"offer": price["offer"]})["text"]
        assert opened.end(signal.SIGTERM) == 128 + signal.SIGTERM
        assert opened.folders == []  # with all that lay in it
    assert not marker.exists(), marker.read_text()


def test_the_package_that_runs_is_the_package_that_is_run(tmp_path: Path) -> None:
    """Isolated Python looks neither at the working directory nor at PYTHONPATH; the one folder that is added comes last
    for everything but the package itself."""
    line = started(["--version"])
    assert line[:3] == [sys.executable, "-I", "-c"]
    line[3] = line[3].replace(MAIN, "import json; print(json.dumps([privpac.__file__, sys.path, sys.argv]))")
    run = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    file, path, argv = json.loads(run.stdout)
    assert file == sys.modules["privpac"].__file__
    assert path[-1] == str(Path(file).parents[1])
    assert not {"", ".", str(tmp_path)} & set(path)
    assert argv == ["privpac", "--version"]


def test_numba_takes_no_cache_from_the_working_directory(tmp_path: Path) -> None:
    """It unpickles what lies in its cache, and a file of the working directory may name the place."""
    pytest.importorskip("yaml", reason="without it numba does not read the file")
    (tmp_path / ".numba_config.yaml").write_text(f"cache_dir: {tmp_path / 'theirs'}\n")
    code = "from privpac.data import loops, grouping; print(loops._compile(grouping.mix.py_func)._cache.cache_path)"
    line = started([])
    line[3] = line[3].replace(MAIN, code)
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    run = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert str(tmp_path) not in run.stdout
    assert not (tmp_path / "theirs").exists()


# Signals


def test_tables_that_were_handed_in_go_with_every_signal(
    tmp_path: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGHUP and SIGTERM remove them; after SIGKILL the next start does, and leaves the tables of living studios."""
    data, mine = tmp_path / "data", tmp_path / "mine.parquet"
    data.mkdir()
    PEOPLE.write_parquet(mine)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does, and as the tests may have been started
    try:
        with studio(data, private) as first:
            kept = first.hand_in(mine)
            assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
            first.process.send_signal(signal.SIGHUP)  # what was started to outlive its terminal does
            assert first.client.get("/api/state", headers=first.headers).status_code == 200
            assert first.end(signal.SIGKILL) == -signal.SIGKILL
        assert kept.exists()  # nobody could remove it
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as a terminal does
        with studio(data, private) as second:
            assert not kept.parent.exists()
            theirs = second.hand_in(mine)
            monkeypatch.setattr(tempfile, "tempdir", str(private))
            third = Desk(data)
            assert theirs.exists()
            assert set(second.folders) == {theirs.parent, third.private}
            third.close()
            assert second.end(signal.SIGHUP) == 128 + signal.SIGTERM
            assert second.folders == []
    finally:
        signal.signal(signal.SIGHUP, before)
    assert list(private.iterdir()) == []


WAITING = "import time; time.sleep(60)"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A desk whose commands do nothing for a minute."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(words, "started", lambda line: [sys.executable, "-I", "-c", WAITING, *line])
    return Desk(tmp_path, start=tmp_path)


def running(desk: Desk, pool: ThreadPoolExecutor) -> tuple[Future[Ran], subprocess.Popen[str]]:
    assert isinstance(desk.run, Runner)
    ran = pool.submit(desk.run, ["here"])
    while not desk.run._running:
        time.sleep(0.01)
    return ran, *desk.run._running  # type: ignore[return-value]


def test_a_command_ends_with_the_studio(desk: Desk) -> None:
    with ThreadPoolExecutor() as pool:
        ran, _ = running(desk, pool)
        desk.close()
        assert ran.result(timeout=30).code == -signal.SIGTERM
    assert desk.run(["late"]).code == -signal.SIGTERM
    assert not desk.private.exists()


def test_a_killed_studio_leaves_its_tables_to_the_command_that_reads_them(desk: Desk, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        ran, process = running(desk, pool)
        os.close(desk._private.lock)  # all that the system does for the lock of a process that is killed
        Desk(tmp_path).close()
        assert desk.private.exists()
        process.terminate()
        ran.result(timeout=30)
    Desk(tmp_path).close()
    assert not desk.private.exists()
    desk._private.remove.detach()
