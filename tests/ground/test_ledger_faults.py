"""Crashes, torn lines, forks and crowds: nothing is ever released that was not paid for.

Run as a program, this file is the *warden* of a crowd: it forks workers that spend and release, kills them with
SIGKILL at random moments, starts others in their place, and stops when the budget is gone.  Kills follow the progress
of the workers, not the clock, so their number does not depend on the machine.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

from privpac.errors import BudgetExhausted, LedgerCorrupt, LedgerError
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
from privpac.ledger.file import START

STEP = Guarantee("1/25", unit="user", neighbours="add-remove")


def budget(spends: int) -> Guarantee:
    return Guarantee(Fraction(spends, 25), unit="user", neighbours="add-remove")


# The crowd (run in a process of its own)

LINE = len("001.00001\n")


def work(folder: Path, order: str, worker: int, may_go_on: Callable[[int], bool]) -> None:
    """Spend, then release (or, in the wrong order, release, then spend) until the budget is gone."""
    ledger = BudgetLedger.open(folder / "budget.db", timeout=600)
    released = os.open(folder / "released", os.O_WRONLY | os.O_APPEND)

    def publish(name: str) -> None:
        os.write(released, f"{name}\n".encode())
        os.fsync(released)

    for i in range(10**5):
        name = f"{worker:03d}.{i:05d}"
        while not may_go_on(os.fstat(released).st_size // LINE):
            time.sleep(0.001)
        try:
            if order == "wrong":
                publish(name)
                time.sleep(0.002)
            ledger.spend(STEP, "chaos", name).use()
            if order == "right":
                time.sleep(0.002)  # the draw, during which a kill wastes the payment
                publish(name)
        except BudgetExhausted:
            return


def crowd(folder: Path, order: str, processes: int, kills: int, every: int) -> dict[str, int]:
    """Kill a worker after every ``every`` releases, up to ``kills`` times; wait for the rest to finish."""
    chance = random.Random(order)
    killed = mmap.mmap(-1, 1)  # shared with the workers, who do not run far ahead of the warden
    alive: dict[int, int] = {}  # process id by number of the worker
    started = failed = 0
    while True:
        while started < processes + killed[0]:
            started += 1
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    work(folder, order, started, lambda n: killed[0] == kills or n < every * (killed[0] + 3))
                    code = 0
                finally:
                    os._exit(code)
            alive[started] = pid
        if killed[0] < kills and (folder / "released").stat().st_size // LINE >= every * (killed[0] + 1):
            # Most workers wait for the lock; the one that released last is likely to be in the middle of something.
            last = int((folder / "released").read_bytes()[-LINE:][:3])
            victim = last if last in alive and chance.random() < 0.75 else chance.choice(sorted(alive))
            time.sleep(chance.uniform(0, 0.004))
            os.kill(alive[victim], signal.SIGKILL)
            killed[0] += 1
        for worker, pid in sorted(alive.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                del alive[worker]
                failed += os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0
        if not alive and started == processes + killed[0]:
            return {"killed": killed[0], "started": started, "failed": failed}
        time.sleep(0.001)


def run_crowd(
    folder: Path, order: str, spends: int, *, processes: int = 8, kills: int, every: int = 5
) -> tuple[dict[str, int], set[str], set[str]]:
    """What happened, the ids that were released, and the ids that were paid for."""
    BudgetLedger.create(folder / "budget.db", budget(spends), dataset="chaos").close()
    (folder / "released").touch()
    command = [sys.executable, __file__, str(folder), order, str(processes), str(kills), str(every)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = (folder / "released").read_text().split("\n")
    assert names.pop() == ""
    assert len(set(names)) == len(names)
    with BudgetLedger.open(folder / "budget.db") as ledger:
        ledger.verify()
        paid = {row.spend_id for row in ledger.history()}
    return json.loads(done.stdout), set(names), paid


def test_a_crowd_under_kills_releases_nothing_unpaid_and_ends_exactly_at_the_budget(tmp_path: Path) -> None:
    happened, released, paid = run_crowd(tmp_path, "right", 300, kills=40)
    assert happened == {"killed": 40, "started": 48, "failed": 0}
    assert len(paid) == 300
    assert released <= paid
    assert len(paid - released) <= 40  # a kill wastes at most one payment
    with BudgetLedger.open(tmp_path / "budget.db") as ledger:
        assert ledger.remaining().epsilon == 0


def test_the_wrong_order_does_release_unpaid_so_the_test_can_fail(tmp_path: Path) -> None:
    happened, released, paid = run_crowd(tmp_path, "wrong", 100, kills=15)
    assert happened["failed"] == 0
    assert len(paid) == 100
    # Each of the 8 last workers learns that the budget is gone after it has released; kills add to that.
    assert len(released - paid) >= 8


def test_eight_processes_hit_the_limit_exactly(tmp_path: Path) -> None:
    happened, released, paid = run_crowd(tmp_path, "right", 160, kills=0)
    assert happened == {"killed": 0, "started": 8, "failed": 0}
    assert released == paid
    assert len(paid) == 160


# Torn and damaged files


def used_ledger(path: Path, spends: int) -> tuple[bytes, list[int]]:
    """The bytes of a ledger in use, and where each of its lines ends."""
    with BudgetLedger.create(path, budget(100), dataset="torn") as ledger:
        for i in range(spends):
            ledger.spend(STEP, "x", str(i))
    whole = path.read_bytes()
    return whole, [at + 1 for at in range(START, len(whole)) if whole[at] == 10]


def test_a_file_cut_at_any_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    whole, _ = used_ledger(path, 3)
    with BudgetLedger.open(path) as opened:
        for cut in range(len(whole)):
            path.write_bytes(whole[:cut])
            for reader in (opened.remaining, lambda: BudgetLedger.open(path))[cut % 8 > 0 :]:
                with pytest.raises(LedgerCorrupt):
                    reader()
            assert path.read_bytes() == whole[:cut]  # evidence is left as it is
        path.write_bytes(whole)
        assert len(opened.history()) == 3


def test_a_line_cut_before_its_seal_was_never_acknowledged_and_a_whole_one_counts(tmp_path: Path) -> None:
    """After a kill or a power loss: the seal speaks of 3 spends, and some bytes of the next line are there."""
    path = tmp_path / "budget.db"
    whole, _ = used_ledger(path, 3)
    with BudgetLedger.open(path) as ledger:
        ledger.spend(STEP, "the next", "next")
    longer = path.read_bytes()
    for cut in range(len(whole), len(longer) + 1):
        torn = whole[:START] + longer[START:cut]
        target = tmp_path / "torn.db"
        for noise in (b"", b"\0" * 700) if cut % 9 == 0 or cut > len(longer) - 3 else (b"",):
            target.write_bytes(torn + noise)
            with BudgetLedger.open(target) as ledger:
                assert [row.spend_id for row in ledger.history()] == ["0", "1", "2", *["next"] * (cut == len(longer))]
                ledger.verify()
                assert target.read_bytes() == (longer if cut == len(longer) else whole)  # tidied up
            if cut % 40 == 0 or cut == len(longer):
                with BudgetLedger.open(target) as ledger:
                    ledger.spend(STEP, "goes on", "after")
                    ledger.verify()
            target.unlink()


def test_a_damaged_last_line_is_never_taken_for_one_that_was_not_written_to_its_end(tmp_path: Path) -> None:
    """A power loss, or ``cp`` during a spend, can leave the seal a line behind: that line was acknowledged."""
    path, target = tmp_path / "budget.db", tmp_path / "damaged.db"
    whole, _ = used_ledger(path, 3)
    with BudgetLedger.open(path) as ledger:
        ledger.spend(STEP, "acknowledged", "next")
    longer = path.read_bytes()
    chance = random.Random(9)
    for at in range(len(whole), len(longer)):
        for value in {0, 10, longer[at] ^ 1 << chance.randrange(8)} - {longer[at]}:
            bad = whole[:START] + longer[START:at] + bytes([value]) + longer[at + 1 :]
            target.write_bytes(bad)
            for _ in range(2):
                with pytest.raises(LedgerCorrupt, match=r"damage in line 5, .* put an intact copy in its place"):
                    BudgetLedger.open(target, timeout=0)
            assert target.read_bytes() == bad  # evidence is left as it is
    target.write_bytes(whole[:START] + longer[START:])
    with BudgetLedger.open(target) as ledger:
        assert len(ledger.history()) == 4


def test_lines_behind_the_seal_are_refused_if_an_earlier_one_is_damaged(tmp_path: Path) -> None:
    path, target = tmp_path / "budget.db", tmp_path / "damaged.db"
    whole, _ = used_ledger(path, 3)
    with BudgetLedger.open(path) as ledger:
        for i in range(3):
            ledger.spend(STEP, "acknowledged", f"next {i}")
    longer = path.read_bytes()
    for at in range(len(whole), len(longer), 11):
        target.write_bytes(whole[:START] + longer[START:at] + bytes([longer[at] ^ 4]) + longer[at + 1 :])
        with pytest.raises(LedgerCorrupt, match="damage in line"):
            BudgetLedger.open(target, timeout=0)


def test_sectors_that_a_power_loss_did_not_write_are_no_damage(tmp_path: Path) -> None:
    """The line was never synced, so never acknowledged, whichever of its sectors came first."""
    path, target = tmp_path / "budget.db", tmp_path / "torn.db"
    with BudgetLedger.create(path, budget(100), dataset="torn") as ledger:
        ledger.spend(STEP, "session", "s")
        ledger.queries.open("s", 100)
        whole = path.read_bytes()
        ledger.queries.answer("s", [f"{i:064x}" for i in range(40)], lambda i, n: "1")
    longer = path.read_bytes()
    sectors = [len(whole), *range(len(whole) // 512 * 512 + 512, len(longer), 512), len(longer)]
    for first, stop in pairwise(sectors):
        if stop - first >= 32:
            target.write_bytes(whole[:START] + longer[START:first] + bytes(stop - first) + longer[stop:])
            with BudgetLedger.open(target) as ledger:
                assert ledger.queries.used("s") == 0
                ledger.verify()
            assert target.read_bytes() == whole


@pytest.mark.parametrize("opened", [False, True])
def test_a_damaged_file_is_refused_in_the_ledgers_own_words_and_never_read_as_a_smaller_total(
    tmp_path: Path, opened: bool
) -> None:
    path = tmp_path / "budget.db"
    whole, _ = used_ledger(path, 6)
    chance = random.Random(7)
    reader = BudgetLedger.open(path)
    for i in range(400):
        bad = bytearray(whole)
        kind = chance.choice(["flip", "flip", "flips", "noise", "drop", "twice", "zeros"])
        at = chance.randrange(len(bad))
        if kind in ("flip", "flips"):
            for _ in range(1 if kind == "flip" else 5):
                bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        elif kind == "noise":
            bad[at : at + 64] = chance.randbytes(64)
        elif kind == "drop":
            del bad[at : at + chance.randrange(1, 300)]
        elif kind == "twice":
            bad[at:at] = bad[at : at + chance.randrange(1, 300)]
        else:
            bad[at : at + 100] = bytes(100)
        path.write_bytes(bytes(bad))
        try:
            if opened:
                assert len(reader.history()) == 6
            else:
                with BudgetLedger.open(path, timeout=0) as ledger:
                    assert len(ledger.history()) == 6
                    assert ledger.verify() == ledger.head()
            # What an open reader has not looked at again is for verify; what it takes over is never less.
            assert opened or bytes(bad[: len(whole)]) == whole, (i, kind)
        except LedgerCorrupt:
            if opened:
                with pytest.raises(LedgerCorrupt):
                    reader.remaining()
        path.write_bytes(whole)
        assert len(reader.history()) == 6


def test_every_single_flipped_bit_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    whole, _ = used_ledger(path, 1)
    for at in (*range(150), *range(150, START, 9), *range(START, len(whole))):
        bad = bytearray(whole)
        bad[at] ^= 1 << (at % 8)
        path.write_bytes(bytes(bad))
        with pytest.raises(LedgerCorrupt):
            BudgetLedger.open(path, timeout=0)


# Failing disks


def full_disk(folder: Path) -> None:
    """Spend until the file size limit stops it; print how many receipts were given out."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    ledger = BudgetLedger.open(folder / "budget.db")
    receipts = 0
    try:
        for i in range(1000):
            ledger.spend(STEP, "x" * 200, str(i))
            receipts += 1
    except LedgerError as error:
        print(json.dumps({"receipts": receipts, "error": type(error).__name__, "text": str(error)}), flush=True)
    os._exit(0)


def test_a_full_disk_gives_no_receipt_and_loses_none(tmp_path: Path) -> None:
    BudgetLedger.create(tmp_path / "budget.db", budget(1000), dataset="full").close()
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path), "full-disk"], capture_output=True, text=True, check=True
    )
    seen = json.loads(done.stdout)
    assert seen["error"] == "LedgerUnavailable"
    assert "\n" not in seen["text"]
    assert seen["receipts"] > 0
    with BudgetLedger.open(tmp_path / "budget.db") as ledger:
        ledger.verify()
        assert len(ledger.history()) == seen["receipts"]
        ledger.spend(STEP, "space again")


# Forks


def in_fork(action: Callable[[], None]) -> int:
    """The exit code of ``action`` in a forked child: 0 if it returned."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_parent_and_children_share_the_budget_after_a_fork(tmp_path: Path) -> None:
    ledger = BudgetLedger.create(tmp_path / "budget.db", budget(4), dataset="fork")
    ledger.spend(STEP, "before", "0")

    def child() -> None:
        ledger.spend(STEP, "child")

    assert in_fork(child) == 0
    ledger.spend(STEP, "parent")
    assert in_fork(child) == 0
    assert in_fork(child) == 1  # exhausted, in the child too
    assert [row.label for row in ledger.history()] == ["before", "child", "parent", "child"]
    ledger.verify()


def test_nothing_stays_open_between_transactions(tmp_path: Path) -> None:
    """So no lock can cross a fork, and none can be dropped by accident."""
    before = set(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else set()
    ledger = BudgetLedger.create(tmp_path / "budget.db", budget(4), dataset="fork")
    ledger.spend(STEP, "x")
    ledger.verify()
    after = set(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else set()
    assert after == before


def test_a_receipt_does_not_survive_a_fork(tmp_path: Path) -> None:
    receipt = BudgetLedger.create(tmp_path / "budget.db", budget(4), dataset="fork").spend(STEP, "x")
    assert in_fork(receipt.use) == 1
    receipt.use()


def test_processes_that_make_the_same_ledger_at_once_share_one(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    code = (
        "import sys; from privpac.guarantee import Guarantee; from privpac.ledger import BudgetLedger\n"
        "g = lambda e: Guarantee(e, unit='user', neighbours='add-remove')\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "BudgetLedger(sys.argv[1], g(4), 'basic', 'race').spend(g(1), 'x')"
    )
    start = [sys.executable, "-c", code, str(path)]
    racers = [subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(4)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == b"ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.close()
    assert [racer.wait() for racer in racers] == [0, 0, 0, 0]
    for racer in racers:
        assert racer.stdout is not None
        racer.stdout.close()
    with BudgetLedger.open(path) as ledger:
        assert len(ledger.history()) == 4
        assert ledger.remaining().epsilon == 0
        ledger.verify()
    assert os.listdir(tmp_path) == ["budget.db"]


if __name__ == "__main__":
    if sys.argv[2] == "full-disk":
        full_disk(Path(sys.argv[1]))
    print(json.dumps(crowd(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))))
