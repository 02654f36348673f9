"""Spends per second: one process, two processes, and a bare append that is synced as often; and opening long ledgers.

    python benchmarks/ledger.py [spends] [entries]

The ratio says what locks, chain, checks and a second process cost beyond what the disk takes to keep one line.  The
ledgers that are opened have ``entries`` spends or answers (making a million takes a minute or two), each opened by a
process of its own: *open* until the balance is known, *first* until the first id was looked up exactly.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger

SPEND = """
import sys
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
book, price = BudgetLedger.open(sys.argv[1], timeout=600), Guarantee("1e-6", unit="user", neighbours="add-remove")
print("ready", flush=True); sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    book.spend(price, "benchmark")
"""
BATCH = 64


def spends(folder: Path, processes: int, count: int) -> float:
    """Spends per second when so many processes share one ledger."""
    path = folder / f"{processes}.db"
    BudgetLedger.create(path, Guarantee(5, unit="user", neighbours="add-remove"), dataset="benchmark").close()
    command = [sys.executable, "-c", SPEND, str(path), str(count // processes)]
    workers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    start = time.perf_counter()
    for worker in workers:
        worker.communicate("go\n")
        assert worker.returncode == 0
    return count // processes * processes / (time.perf_counter() - start)


def answers(folder: Path, batches: int) -> float:
    """Answers per second in batches of 64."""
    from hashlib import sha256

    from privpac.ledger import Ask

    price = Guarantee(1, unit="user", neighbours="add-remove")
    with BudgetLedger.create(folder / "answers.db", price, dataset="benchmark") as book:
        book.spend(price, "session", "s")
        book.queries.open("s", BATCH * batches)
        digests = [sha256(str(i).encode()).hexdigest() for i in range(BATCH * batches)]
        start = time.perf_counter()
        for i in range(batches):
            book.queries.answer_many(
                "s", [Ask([digest], lambda i, n: "1") for digest in digests[BATCH * i : BATCH * (i + 1)]]
            )
        return BATCH * batches / (time.perf_counter() - start)


OPEN = """
import resource, sys, time
from privpac.guarantee import Guarantee
from privpac.errors import DuplicateSpend
from privpac.ledger import BudgetLedger

def now():
    return time.perf_counter(), time.process_time()

start = now()
book = BudgetLedger.open(sys.argv[1])
book.remaining()
opened = now()
if sys.argv[2] == "spends":
    try:
        book.spend(Guarantee("1e-9", unit="user", neighbours="add-remove"), "again", "0")
        raise AssertionError
    except DuplicateSpend:
        pass
else:
    assert not book.queries.answer("s", ["0" * 64], lambda i, n: "drawn again")[0].fresh
found = now()
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(*(b - a for a, b in zip(start, opened)), *(b - a for a, b in zip(opened, found)), memory)
"""


def opening(folder: Path, kind: str, entries: int) -> str:
    """Seconds (and processor seconds) to open a long ledger and to look up its oldest id, and the peak memory."""
    from privpac.ledger.file import draft_file
    from privpac.ledger.records import settings_of

    moment = "2030-01-01T00:00:00+00:00"
    settings = settings_of(Guarantee(1, unit="user", neighbours="add-remove"), "basic", "benchmark")

    def lines() -> Iterator[Any]:
        yield ["settings", settings | {"id": "0" * 32, "created": moment}]
        if kind == "spends":
            yield from (["spend", str(i), "benchmark", "1/1000000000", "0", "", moment] for i in range(entries))
            return
        yield ["spend", "s", "session", "1", "0", "", moment]
        yield ["session", "s", entries, moment]
        for i in range(0, entries, BATCH):
            yield ["answers", "s", moment, [[f"{j:064x}", "1", "k"] for j in range(i, min(i + BATCH, entries))]]

    path = folder / f"{kind}.db"
    with draft_file(path, lines()) as (draft, _):
        os.replace(draft, path)
    command = [sys.executable, "-c", OPEN, str(path), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wall, busy, first, first_busy, memory = map(float, done.stdout.split())
    return f"open {wall:.3f} s ({busy:.3f} busy)   first {first:.3f} s ({first_busy:.3f} busy)   {memory:.0f} MB"


def appends(folder: Path, count: int) -> float:
    """Lines of 300 bytes per second, each synced."""
    handle = os.open(folder / "bare", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    start = time.perf_counter()
    for _ in range(count):
        os.write(handle, b"x" * 299 + b"\n")
        os.fsync(handle)
    rate = count / (time.perf_counter() - start)
    os.close(handle)
    return rate


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        bare = appends(folder, count)
        print(f"bare synced append   {bare:8.0f} /s")
        for processes in (1, 2):
            rate = spends(folder, processes, count)
            print(
                f"spends, {processes} process{'es' if processes > 1 else '  '}  {rate:8.0f} /s   {rate / bare:.2f} of "
                "the bare append"
            )
        rate = answers(folder, count // 4)
        print(f"answers, batches of {BATCH} {rate:6.0f} /s   {rate / bare:.2f} answers for each bare append")
        entries = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
        for kind in ("spends", "answers"):
            print(f"{entries} {kind:<8} {opening(folder, kind, entries)}")


if __name__ == "__main__":
    main()
