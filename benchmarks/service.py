"""The prediction service under load and under kill -9, on loopback.

Load: 1, 8 and 64 connections ask new queries; answers per second and latencies beside a bare FastAPI endpoint that
makes one durable SQLite insert per request, same server, same numbers of workers, same clients, and ``TCP_NODELAY`` as
the service has it (sockets that are bound before workers start have none otherwise, and answers of the bare one would
wait 40 ms for an acknowledgement).  The two take turns, so that other work on the machine falls on both.  Faults:
workers are killed with SIGKILL in the middle; afterwards answers received <= rows in the ledger <= the limit, and the
ledger verifies.

    python benchmarks/service.py [--seconds 6] [--workers 1 2] [--connections 1 8 64]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import numpy as np
from attrs import define, field
from rich.console import Console
from rich.table import Table

from privpac.data import Floats, UserData
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
from privpac.methods.prediction.service_plan import plan_service
from privpac.rules import Thresholds
from privpac.serve.keys import KeyStore
from privpac.serve.session_file import save_session

SECRET = "0f" * 32
BARE = """
import socket, sqlite3, sys, threading, uvicorn
from inspect import signature
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

if __name__ == "__main__":
    port, workers = map(int, sys.argv[1:])
    listener = socket.create_server(("127.0.0.1", port), backlog=2048)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
    listener.set_inheritable(True)
    quiet = {"access_log": False, "log_level": "critical"}
    config = uvicorn.Config("bare:make", factory=True, workers=workers, http="h11", loop="asyncio", **quiet)
    if workers == 1:
        uvicorn.Server(config).run([listener])
    else:
        from uvicorn.supervisors import Multiprocess
        told = {"target": uvicorn.Server(config).run} if "target" in signature(Multiprocess).parameters else {}
        Multiprocess(config, sockets=[listener], **told).run()
"""


def prepare(folder: Path, queries: int) -> str:
    """A session with its ledger and one key; the key."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=4000)
    data = UserData.from_arrays(
        x[:, None], (x > 0).astype(int), np.repeat(np.arange(2000), 2), features={"x": Floats()}
    )
    budget = Guarantee(1, "1e-6", unit="user", neighbours="add-remove")
    with BudgetLedger.create(folder / "budget.db", budget, dataset="benchmark") as ledger:
        plan = plan_service(Thresholds(Floats(), "x"), epsilon=1, delta="1e-6", queries=queries, public_n_users=2000)
        save_session(plan.predictor.learn(data, ledger=ledger), folder / "s.ppm", SECRET)
    return KeyStore(folder / "s.ppm.keys").new("clients")[1]


def start(folder: Path, workers: int, bare: bool) -> tuple[subprocess.Popen[bytes], str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    if bare:
        (folder / "bare.py").write_text(BARE)
        command = [sys.executable, "bare.py", str(port), str(workers)]
    else:
        end = ["serve", "run", "s.ppm", "--ledger", "budget.db", "--port", str(port), "--workers", str(workers)]
        command = [sys.executable, "-c", "from privpac.cli.app import main; main()", *end]
    environment = {
        **os.environ,
        "PRIVPAC_SESSION_KEY": SECRET,
        "PYTHONPATH": os.pathsep.join([str(folder), *sys.path[1:]]),
    }
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


@define(slots=False)
class Seen:
    """What clients saw: seconds to each answer, every status, requests that a dying worker took along."""

    times: list[float] = field(factory=list)
    statuses: list[int] = field(factory=list)
    lost: int = 0


def load(url: str, key: str, connections: int, seconds: float, bare: bool, first: int = 1) -> Seen:
    """Every connection asks new queries, one after another, each as one write; plain sockets, so that the client costs
    little."""
    seen, host, port = Seen(), *url.removeprefix("http://").split(":")

    async def ask(number: int) -> None:
        end, i, reader, writer = time.monotonic() + seconds, 0, None, None
        while time.monotonic() < end:
            i += 1
            value = number + i / 1e6
            body = json.dumps({"x": value} if bare else {"records": [{"x": value}]})
            head = (
                f"POST /predict HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\nContent-Type: "
                "application/json\r\n"
            )
            begun = time.perf_counter()
            try:
                if writer is None or reader is None:
                    reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
                start = await reader.readuntil(b"\r\n\r\n")
                (length,) = re.findall(rb"content-length: (\d+)", start)
                await reader.readexactly(int(length))
            except (OSError, asyncio.IncompleteReadError):
                seen.lost, writer = seen.lost + 1, None
                await asyncio.sleep(0.01)
                continue
            status = int(start[9:12])
            seen.statuses.append(status)
            if status == 200:
                seen.times.append(time.perf_counter() - begun)
            elif status == 429:
                break
        if writer is not None:
            writer.close()

    async def run() -> None:
        await asyncio.gather(*(ask(number) for number in range(first, first + connections)))

    asyncio.run(run())
    return seen


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
    result: list[Seen] = []
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
    (found,) = result
    rows, limit = counted(folder)
    answers = found.statuses.count(200)
    assert answers <= rows <= limit, (answers, rows, limit)
    assert set(found.statuses) <= {200, 429}, set(found.statuses)
    return answers, rows, limit, kills, found.lost


def burnt(process: subprocess.Popen[bytes]) -> float:
    """Seconds of processor time of a service and its workers."""
    pids = [process.pid, *map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())]
    ticks = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] for pid in pids]
    return sum(int(n) for pair in ticks for n in pair) / os.sysconf("SC_CLK_TCK")


def measure(bare: bool, workers: int, connections: Sequence[int], seconds: float) -> list[tuple[float, ...]]:
    """Answers per second, p50 and p99 and processor time per answer in milliseconds; the rows counted must be the
    answers given."""
    shown, given = [], 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        key = "none" if bare else prepare(folder, 200_000)
        process, url = start(folder, workers, bare)
        try:
            given += len(load(url, key, 8, 2, bare, first=1_000_000).times)  # other workers may still be starting
            for n, many in enumerate(connections, 1):
                begun, worked = time.monotonic(), burnt(process)
                seen = load(url, key, many, seconds, bare, first=1000 * n)
                rate = len(seen.times) / (time.monotonic() - begun)
                assert set(seen.statuses) == {200}, set(seen.statuses)
                given += len(seen.times)
                work = 1000 * (burnt(process) - worked) / len(seen.times)
                shown.append((rate, *(float(p) for p in np.percentile(np.array(seen.times) * 1000, [50, 99])), work))
        finally:
            stop(process)
        assert bare or counted(folder)[0] == given
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--skip-kills", action="store_true")
    options = parser.parse_args()
    console, best = Console(), {}
    table = Table(
        "service",
        "workers",
        "connections",
        "answers/s",
        "p50 ms",
        "p99 ms",
        "CPU ms/answer",
        title="new answers, one per request",
    )
    for workers in options.workers:
        for bare in (True, False):
            for many, row in zip(options.connections, measure(bare, workers, options.connections, options.seconds)):
                table.add_row(
                    "bare insert" if bare else "privpac serve",
                    str(workers),
                    str(many),
                    *(f"{x:.1f}" for x in row[:3]),
                    f"{row[3]:.2f}",
                )
                best[bare, many] = max(best.get((bare, many), 0.0), row[0])
    console.print(table)
    for many in options.connections:
        console.print(
            f"{many} connections: {best[False, many] / best[True, many]:.2f} of the bare insert's answers/s, each at "
            "its best"
        )
    if options.skip_kills:
        return
    with tempfile.TemporaryDirectory() as name:
        answers, rows, limit, kills, lost = faults(Path(name), 8, 2, 4 * options.seconds, 20_000)
    found = Table(
        "kills of workers",
        "requests lost",
        "answers received",
        "rows in the ledger",
        "limit",
        title="kill -9 in the middle",
    )
    found.add_row(*(str(n) for n in (kills, lost, answers, rows, limit)))
    console.print(found)
    console.print("answers <= rows <= limit, and the ledger verifies")


if __name__ == "__main__":
    main()
