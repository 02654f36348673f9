"""Spends per second: one process, two processes, and a bare append that is synced as often.

    python benchmarks/ledger.py [spends]

The ratio says what locks, chain, checks and a second process cost beyond what the disk takes to keep one line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


if __name__ == "__main__":
    main()
