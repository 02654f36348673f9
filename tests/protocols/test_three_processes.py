"""Three processes on loopback: a collector that is killed and started again, a shuffler that is killed and started
again, and an analyzer that never touches the network; clients drop out, break off, repeat themselves and lie."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import CUT, error_of, run

from privpac.errors import ParameterError
from privpac.protocols import AnalyzerKey, Client, Device
from privpac.protocols.bundle import bundle
from privpac.protocols.seal import seal
from privpac.protocols.submit import submit
from privpac.protocols.wire import pack_shuffled
from privpac.released import Released

WORDS = [sys.executable, "-c", "from privpac.cli.app import main; main()", "protocol"]
OPERATOR = "the operator's own token"


class Site:
    """A collector on a fixed port that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, _free()
        self.url, self._lock = f"http://127.0.0.1:{self.port}", threading.Lock()
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        words = [*WORDS, "collect", "run.json", "--out", "in", "--port", str(self.port), "--tokens", "tokens"]
        self.process = subprocess.Popen(
            [*words, "--rate", "0", "--operator", OPERATOR], cwd=self.folder, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert "collecting on" in self.process.stdout.readline()

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def again(self) -> None:
        with self._lock:
            self.kill()
            self.start()


def _free() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


def _command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WORDS, *words], cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def _whole(folder: Path, people: int, kills: int) -> tuple[Any, set[str], dict[str, bytes]]:
    key = AnalyzerKey.new()
    made = run("shuffle", n_min=people * 3 // 4, n_max=people, analyzer=key.public).manifest
    (folder / "run.json").write_bytes(made.write())
    (folder / "analyzer.key").write_bytes(key.write()[0])
    (folder / "tokens").write_text("".join(f"p{i} token-of-person-{i:06d}\n" for i in range(people)))
    age = np.random.default_rng(11).integers(0, 100, (people, 60))
    site, acknowledged = Site(folder), dict[str, bytes]()
    site.start()

    def person(i: int) -> None:
        if i % 14 == 1:
            return  # takes no part
        name, token = f"p{i}", f"token-of-person-{i:06d}"
        rows = [{"age": int(a), "ill": int(a >= CUT)} for a in age[i]]
        client = Client(made)
        if i % 20 == 2:  # lies: one vote for another rule and no noise
            body = bundle([seal(made.run, made.kind, key.public, pack_shuffled(made.run, 90))])
        elif i % 10 == 3:  # with a store of its own, on disk
            body = bundle(client.messages(rows, store=Device.new(folder / f"store{i}", name, 1, "1e-6")))
        else:
            body = bundle(client.messages(rows))
        if i % 25 == 4:  # breaks off in the middle, and comes back
            try:
                with socket.create_connection(("127.0.0.1", site.port), timeout=5) as raw:
                    head = f"POST /submit/{name} HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"
                    raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[: len(body) // 2])
            except OSError:
                pass
        for _ in range(200):
            try:
                submit(site.url, name, body, token, run=made.run)
                acknowledged[name] = body
                break
            except ParameterError as error:
                if "could not be reached" not in str(error):  # the collector is being killed; nothing else goes wrong
                    raise
                threading.Event().wait(0.1)

    try:
        step = -(-people // (kills + 1))
        with ThreadPoolExecutor(4) as pool:
            for begin in range(0, people, step):
                working = [pool.submit(person, i) for i in range(begin, min(begin + step, people))]
                if begin + step < people:
                    working[len(working) // 2].result()
                    site.again()
                for each in working:
                    each.result()
        words = ["shuffle", "run.json", site.url, "--out", "mixed.bin", "--operator", OPERATOR]
        if kills > 1:  # the shuffler, killed at work, gives the same mixture whenever it is started again
            assert _command(folder, *words[:-1], "not the operator's token").returncode == 2
            killed = subprocess.Popen([*WORDS, *words], cwd=folder, stdout=subprocess.DEVNULL)
            threading.Event().wait(1.2)
            os.kill(killed.pid, signal.SIGKILL)
            killed.wait()
        mixed = _command(folder, *words)
        assert mixed.returncode == 0, mixed.stderr
        first = (folder / "mixed.bin").read_bytes()
        if kills > 1:
            assert _command(folder, *words).returncode == 0
            assert (folder / "mixed.bin").read_bytes() == first
    finally:
        site.kill()
    shown = _command(
        folder, "analyze", "run.json", "mixed.bin", "--key", "analyzer.key", "--out", "rule.json", "--json"
    )
    assert shown.returncode == 0, shown.stderr
    expected = {f"p{i}" for i in range(people) if i % 14 != 1}
    return (shown.stdout, made), expected, acknowledged


def _judge(folder: Path, people: int, kills: int) -> None:
    (text, made), expected, acknowledged = _whole(folder, people, kills)
    kept = {path.name: path.read_bytes() for path in (folder / "in").iterdir() if not path.name.startswith(".")}
    assert kept == acknowledged  # everything that was acknowledged, and nothing else
    assert set(kept) == expected
    shown = json.loads(text)
    assert shown["dropped"] == 0
    assert shown["support"]["people"] == len(expected)
    assert shown["support"]["low"] <= shown["support"]["estimate"] <= shown["support"]["high"]
    rule = Released.load(folder / "rule.json")
    assert rule.outcome == "released"
    assert error_of(rule) <= 0.25
    assert str(rule.guarantee) == "(1, 1e-06)-DP per user, replace, shuffle model"
    assert made.n_max == people


def test_a_small_crowd_over_three_processes(tmp_path: Path) -> None:
    _judge(tmp_path, 80, 1)


@pytest.mark.slow
def test_two_thousand_clients_over_three_processes(tmp_path: Path) -> None:
    _judge(tmp_path, 2000, 3)
