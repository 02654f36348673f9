"""The prediction service under load and under kill -9, on loopback.

Load: concurrent clients ask new queries, from the moment /healthz says ok and once more after; requests per second and latencies beside
a bare FastAPI endpoint that makes one durable SQLite insert per request, same server, same number of workers, same clients.  Faults:
workers are killed with SIGKILL in the middle; afterwards answers received <= rows in the ledger <= the limit, and the ledger verifies.

    python benchmarks/service.py [--seconds 6] [--clients 8] [--workers 2]
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

from privpac.concepts import Thresholds
from privpac.data import Floats, UserData
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
from privpac.planning.service import plan_service
from privpac.serve.keys import KeyStore
from privpac.serve.session_file import save_session

SECRET = "0f" * 32
BARE = """
import sqlite3, threading
from fastapi import FastAPI
from pydantic import BaseModel

class Body(BaseModel):
    x: float

def make():
    app, lock = FastAPI(), threading.Lock()
    db = sqlite3.connect("bare.db", isolation_level=None, check_same_thread=False, timeout=60)
    db.execute("PRAGMA journal_mode=WAL"); db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE IF NOT EXISTS t(x REAL)")

    @app.get("/healthz")
    def healthz(): return {}

    @app.post("/predict")
    def predict(body: Body):
        with lock:
            db.execute("INSERT INTO t VALUES (?)", (body.x,))
        return {"answers": [1]}
    return app
"""


def prepare(folder: Path, queries: int) -> str:
    """A session with its ledger and one key; the key."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=4000)
    data = UserData.from_arrays(x[:, None], (x > 0).astype(int), np.repeat(np.arange(2000), 2), features={"x": Floats()})
    budget = Guarantee(1, "1e-6", unit="user", neighbours="add-remove")
    with BudgetLedger.create(folder / "budget.db", budget, dataset="benchmark") as ledger:
        plan = plan_service(Thresholds(Floats(), "x"), epsilon=1, delta="1e-6", queries=queries, public_n_users=2000)
        save_session(plan.predictor.learn(data, ledger=ledger), folder / "s.ppm", SECRET)
    return KeyStore(folder / "s.ppm.keys").new("clients")[1]


def start(folder: Path, workers: int, bare: bool) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    end = ["--port", str(port), "--workers", str(workers)]
    if bare:
        (folder / "bare.py").write_text(BARE)
        command = [sys.executable, "-m", "uvicorn", "bare:make", "--factory", "--no-access-log", "--log-level", "critical", *end]
    else:
        command = [sys.executable, "-c", "from privpac.cli.app import main; main()", "serve", "run", "s.ppm", "--ledger", "budget.db", *end]
    environment = {**os.environ, "PRIVPAC_SESSION_KEY": SECRET, "PYTHONPATH": str(folder)}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=quiet, stderr=quiet, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    for _ in range(1200):
        try:
            if httpx.get(url + "/healthz").status_code == 200:
                return process, url
        except httpx.TransportError:
            time.sleep(0.05)
    raise RuntimeError("the service did not start")


def load(url: str, key: str, clients: int, seconds: float, bare: bool, first: int = 1) -> tuple[list[float], list[int], int]:
    """Latencies of answered requests, all statuses, and requests that a dying worker took along."""
    times: list[float] = []
    statuses: list[int] = []
    lost: list[int] = []
    end = time.monotonic() + seconds

    def ask(number: int) -> None:
        with httpx.Client(headers={"Authorization": f"Bearer {key}"}, timeout=30) as client:
            i = 0
            while time.monotonic() < end:
                i += 1
                value = number + i / 1e6
                begun = time.perf_counter()
                try:
                    body = {"x": value} if bare else {"records": [{"x": value}]}
                    status = client.post(url + "/predict", json=body).status_code
                except httpx.TransportError:
                    lost.append(1)
                    continue
                statuses.append(status)
                if status == 200:
                    times.append(time.perf_counter() - begun)
                elif status == 429:
                    return

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(first, first + clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, statuses, len(lost)


def stop(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def workers_of(process: subprocess.Popen[bytes]) -> list[int]:
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def counted(folder: Path) -> tuple[int, int]:
    """Rows and limit of the one session, after verifying the whole ledger."""
    with BudgetLedger.open(folder / "budget.db") as ledger:
        ledger.verify()
        (spend,) = ledger.history()
        return ledger.queries.used(spend.spend_id), ledger.queries.limit(spend.spend_id)


def faults(folder: Path, clients: int, workers: int, seconds: float, queries: int) -> tuple[int, int, int, int, int]:
    """Answers received, rows, limit, kills and lost requests."""
    key = prepare(folder, queries)
    process, url = start(folder, workers, bare=False)
    result: list[tuple[list[float], list[int], int]] = []
    asking = threading.Thread(target=lambda: result.append(load(url, key, clients, seconds, bare=False)))
    asking.start()
    kills, seen = 0, dict[int, float]()
    while asking.is_alive():
        time.sleep(0.1)
        alive = workers_of(process)
        seen = {pid: seen.get(pid, time.monotonic()) for pid in alive}
        # Only when all of them answer, and then the one that has done so longest: the kill falls into its requests.
        if len(alive) == workers and min(time.monotonic() - first for first in seen.values()) > 6:
            os.kill(min(seen, key=lambda pid: seen[pid]), signal.SIGKILL)
            kills += 1
    asking.join()
    stop(process)
    _, statuses, lost = result[0]
    rows, limit = counted(folder)
    answers = statuses.count(200)
    assert answers <= rows <= limit, (answers, rows, limit)
    assert set(statuses) <= {200, 429}, set(statuses)
    return answers, rows, limit, kills, lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    console = Console()
    table = Table(
        "service", "requests/s", "p50 ms", "p99 ms", "rows = answers", title=f"{options.clients} clients, {options.workers} workers"
    )
    rates = {}
    for bare in (True, False):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            key = "none" if bare else prepare(folder, 100_000)
            process, url = start(folder, options.workers, bare)
            try:
                warm, _, _ = load(url, key, options.clients, options.seconds, bare)  # just started: other workers may still be starting
                begun = time.monotonic()
                times, statuses, _ = load(url, key, options.clients, options.seconds, bare, first=1000)
                took = time.monotonic() - begun
            finally:
                stop(process)
            assert set(statuses) == {200}, set(statuses)
            rates[bare] = len(times) / took
            same = "-" if bare else str(counted(folder)[0] == len(times) + len(warm))
            name = "bare insert" if bare else "privpac serve"
            for title, seen, rate in ((f"{name}, just started", warm, len(warm) / options.seconds), (name, times, rates[bare])):
                p50, p99 = np.percentile(np.array(seen) * 1000, [50, 99])
                table.add_row(title, f"{rate:.0f}", f"{p50:.1f}", f"{p99:.1f}", same)
    console.print(table)
    console.print(f"privpac serve / bare insert: {rates[False] / rates[True]:.2f} of its requests per second")
    with tempfile.TemporaryDirectory() as name:
        answers, rows, limit, kills, lost = faults(Path(name), options.clients, options.workers, 4 * options.seconds, 5000)
    found = Table("kills of workers", "requests lost", "answers received", "rows in the ledger", "limit", title="kill -9 in the middle")
    found.add_row(*(str(n) for n in (kills, lost, answers, rows, limit)))
    console.print(found)
    console.print("answers <= rows <= limit, and the ledger verifies")


if __name__ == "__main__":
    main()
