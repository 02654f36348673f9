"""A small service to attack: a session of thresholds with its ledger and keys, run as people run it or in a thread of
this process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from attrs import define, field

from privpac.data import Floats, UserData
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
from privpac.methods.prediction.service_plan import plan_service
from privpac.methods.prediction.session import PredictionSession
from privpac.serve.app import create_app
from privpac.serve.keys import KeyStore, Role
from privpac.serve.responses import ServiceConnection
from privpac.serve.session_file import load_session, save_session

SECRET = "5e" * 32


def learned(folder: Path, queries: int, *, name: str = "budget.db") -> tuple[PredictionSession, BudgetLedger]:
    from privpac.rules import Thresholds

    rng = np.random.default_rng(3)
    x = rng.normal(size=400)
    data = UserData.from_arrays(
        x[:, None], (x > 0.2).astype(int), np.repeat(np.arange(200), 2), features={"x": Floats()}
    )
    ledger = BudgetLedger.create(folder / name, Guarantee(4, "1e-4", unit="user", neighbours="add-remove"), dataset="d")
    plan = plan_service(Thresholds(Floats(), "x"), epsilon=3, delta="1e-6", queries=queries, public_n_users=200)
    return plan.predictor.learn(data, ledger=ledger), ledger


@define(slots=False)
class Site:
    """A running service."""

    folder: Path
    url: str
    analyst: str
    operator: str
    process: subprocess.Popen[bytes] | None = None
    log: Path = field(factory=Path)
    server: Any = None

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", int(self.url.rpartition(":")[2])

    def call(self, method: str, path: str, key: str | None = None, **more: Any) -> httpx.Response:
        headers = more.pop("headers", {}) | ({} if key is None else {"Authorization": f"Bearer {key}"})
        return httpx.request(method, self.url + path, headers=headers, timeout=30, **more)

    def ask(self, *values: Any, key: str | None = None) -> httpx.Response:
        return self.call("POST", "/predict", key or self.analyst, json={"records": [{"x": value} for value in values]})

    def used(self) -> int:
        with BudgetLedger.open(self.folder / "budget.db") as ledger:
            ledger.verify()
            (row,) = [spend.spend_id for spend in ledger.history()]
            return ledger.queries.used(row)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def prepare(folder: Path, queries: int, share: int | None = None) -> Site:
    session, ledger = learned(folder, queries)
    save_session(session, folder / "s.ppm", SECRET)
    ledger.close()
    store = KeyStore(folder / "s.ppm.keys")
    _, analyst = store.new("analyst", share=share)
    _, operator = store.new("operator", Role.OPERATOR)
    return Site(folder, "", analyst, operator)


def start(site: Site, workers: int = 1) -> None:
    """``privpac serve run`` as people start it."""
    port = free_port()
    site.url, site.log = f"http://127.0.0.1:{port}", site.folder / "log"
    command = [
        sys.executable,
        "-c",
        "from privpac.cli.app import main; main()",
        "serve",
        "run",
        "s.ppm",
        "--ledger",
        "budget.db",
    ]
    command += ["--port", str(port), "--workers", str(workers)]
    with open(site.log, "ab") as log:
        environment = {**os.environ, "PRIVPAC_SESSION_KEY": SECRET}
        site.process = subprocess.Popen(
            command, cwd=site.folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    for _ in range(600):
        try:
            if httpx.get(site.url + "/healthz", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            assert site.process.poll() is None, site.log.read_text()
        time.sleep(0.1)
    raise AssertionError(site.log.read_text())


def stop(site: Site, how: int = signal.SIGKILL) -> None:
    """End the service and its workers, and nothing else."""
    assert site.process is not None
    os.killpg(site.process.pid, how)
    site.process.wait(60)


def children(site: Site) -> list[int]:
    assert site.process is not None
    found = Path(f"/proc/{site.process.pid}/task/{site.process.pid}/children").read_text().split()
    return [int(pid) for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def running(pid: int) -> bool:
    """Whether the process runs; one that has ended may still wait to be reaped by whoever inherited it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(happened: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextmanager
def serving(
    folder: Path, queries: int, share: int | None = None, connection: type[ServiceConnection] = ServiceConnection
) -> Iterator[Site]:
    """One service in a thread of this process, on loopback; ``site.server`` is the server."""
    import uvicorn

    site = prepare(folder, queries, share)
    with BudgetLedger.open(folder / "budget.db") as ledger, socket.socket() as listener:
        app = create_app(load_session(folder / "s.ppm", SECRET, ledger), ledger, KeyStore(folder / "s.ppm.keys"))
        listener.bind(("127.0.0.1", 0))
        site.server = uvicorn.Server(uvicorn.Config(app, http=connection, log_level="critical", access_log=False))
        thread = threading.Thread(target=site.server.run, args=([listener],), daemon=True)
        thread.start()
        site.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        until(lambda: site.server.started)
        try:
            yield site
        finally:
            site.server.should_exit = True
            thread.join(30)
