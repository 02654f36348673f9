"""Ledgers of the first format are brought over without losing anything, also what only their log holds."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pytest

from privpac.errors import BudgetExhausted, LedgerBusy, LedgerCorrupt, LedgerError, LedgerUnavailable
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger

OLD = Path(__file__).with_name("ledger_v1.sql")
SPENDS = "a194c367767a83199ab886cf8a260af0e231f358428701f7bd40368a1628263e"
ANSWERS = "e6b8e064ddd56691efaba200326630208c2000833587c73a935219a26b289596"
SESSION = "s" * 32
MAKE = """
import os, signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for statement in ("journal_mode=WAL", f"application_id={0x70706c31}", "user_version=1"):
    db.execute("PRAGMA " + statement)
db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
db.execute("PRAGMA wal_autocheckpoint=0")
db.executescript(open(sys.argv[2], encoding="utf-8").read())
print("made", flush=True)
if sys.argv[3] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif sys.argv[3] == "open":
    sys.stdin.read()
db.close()
"""


def old_ledger(path: Path, end: str = "closed") -> Path:
    """A ledger as the first version left it: closed, or with everything in its log after a kill."""
    done = subprocess.run([sys.executable, "-c", MAKE, str(path), str(OLD), end], capture_output=True, check=False)
    assert done.returncode == (-signal.SIGKILL if end == "killed" else 0), done.stderr
    return path


def check(path: Path) -> None:
    with BudgetLedger.open(path) as book:
        assert book.verify(SPENDS) == SPENDS
        book.verify(ANSWERS)
        assert book.remaining().epsilon == 3 - Fraction(11, 6)
        assert [row.label for row in book.history()] == ["thresholds", "prediction session", "späß"]
        assert book.queries.head(SESSION) == ANSWERS
        assert (book.queries.used(SESSION), book.queries.used(SESSION, "ann"), book.queries.limit(SESSION)) == (3, 2, 5)
        assert sum(count for _, count in book.queries.history(SESSION)) == 3
        known = [hashlib.sha256(text.encode()).hexdigest() for text in "abc"]
        assert [a.answer for a in book.queries.answer(SESSION, known, lambda i, n: "x")] == ["1", "0", "1"]
        book.spend(Guarantee(1, unit="user", neighbours="add-remove"), "goes on")
        with pytest.raises(BudgetExhausted):
            book.spend(Guarantee(1, unit="user", neighbours="add-remove"), "more")


@pytest.mark.parametrize("end", ["closed", "killed"])
def test_an_old_ledger_is_brought_over_with_all_it_holds(tmp_path: Path, end: str) -> None:
    path = old_ledger(tmp_path / "b.db", end)
    path.chmod(0o640)
    assert ((tmp_path / "b.db-wal").exists()) == (end == "killed")
    check(path)
    assert os.listdir(tmp_path) == ["b.db"]
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.read_bytes().startswith(b"privpac ledger 2\n")


def test_an_old_ledger_behind_a_symbolic_link_is_brought_over_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path = old_ledger(tmp_path / "real" / "b.db", "killed")
    os.symlink(path, tmp_path / "link.db")
    check(tmp_path / "link.db")
    assert (tmp_path / "link.db").is_symlink()
    assert path.read_bytes().startswith(b"privpac ledger 2\n")


def test_threads_that_open_an_old_ledger_at_once_share_one(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "b.db", "killed")
    price = Guarantee("1/6", unit="user", neighbours="add-remove")
    threads = [threading.Thread(target=lambda: BudgetLedger.open(path).spend(price, "x")) for _ in range(7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with BudgetLedger.open(path) as book:
        assert len(book.history()) == 10
        assert book.remaining().epsilon == 0
        book.verify(SPENDS)


def test_an_old_ledger_in_use_is_left_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKE, str(tmp_path / "b.db"), str(OLD), "open"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        user.stdout.readline()
        with pytest.raises(LedgerBusy, match="another program has it open"):
            BudgetLedger.open(tmp_path / "b.db", timeout=0)
        user.communicate()
    check(tmp_path / "b.db")


def test_a_program_of_the_first_version_refuses_what_is_being_brought_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old_ledger(tmp_path / "b.db")

    def crash(draft: str, target: Path) -> None:
        raise OSError(16, "busy")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        with pytest.raises(LedgerUnavailable, match="cannot be rewritten in its place"):
            BudgetLedger.open(path)
    with sqlite3.connect(path) as db:  # what the first version looks at before anything else
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
    db.close()
    assert os.listdir(tmp_path) == ["b.db"]
    check(path)


def test_an_old_ledger_with_two_names_is_refused(tmp_path: Path) -> None:
    path = old_ledger(tmp_path / "b.db")
    os.link(path, tmp_path / "c.db")
    with pytest.raises(LedgerUnavailable, match="hard links"):
        BudgetLedger.open(path)


EDITS = [
    "UPDATE spend SET eps = '1/8' WHERE seq = 2",
    "UPDATE spend SET cum_eps = '0' WHERE seq = 3",
    "UPDATE spend SET hash = prev WHERE seq = 3",
    "UPDATE spend SET label = CAST(x'ff00' AS TEXT) WHERE seq = 1",
    "UPDATE spend SET label = x'ff00' WHERE seq = 1",
    "DELETE FROM spend WHERE seq = 3",
    "DELETE FROM spend WHERE seq = 1",
    "UPDATE meta SET value = '100' WHERE key = 'epsilon'",
    "UPDATE query SET answer = '0' WHERE number = 1",
    "UPDATE query SET key_number = 7 WHERE number = 3",
    "UPDATE query SET session_id = 'another' WHERE number = 3",
    "DELETE FROM query WHERE number = 2",
    "UPDATE session SET queries = 1000",
    "DELETE FROM session",
    "DROP TABLE meta",
]


@pytest.mark.parametrize("edit", EDITS)
def test_a_changed_old_ledger_is_refused(tmp_path: Path, edit: str) -> None:
    path = old_ledger(tmp_path / "b.db")
    with sqlite3.connect(path) as db:
        for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f"DROP TRIGGER {name}")
        db.execute(edit)
    db.close()
    for _ in range(2):
        if edit == "DELETE FROM spend WHERE seq = 3":  # the last one: a right chain, but not the published one
            with BudgetLedger.open(path) as book, pytest.raises(LedgerCorrupt, match="published"):
                book.verify(SPENDS)
        elif edit == "UPDATE query SET key_number = 7 WHERE number = 3":
            check(path)  # a number that follows from the rows before; only its hash was stored for good
            return
        else:
            with pytest.raises(LedgerCorrupt):
                BudgetLedger.open(path)


def test_a_damaged_old_ledger_is_refused_in_the_ledgers_own_words_or_intact(tmp_path: Path) -> None:
    whole = old_ledger(tmp_path / "whole.db").read_bytes()
    chance = random.Random(11)
    outcomes = {"refused": 0, "intact": 0}
    for i in range(250):
        bad = bytearray(whole)
        if i % 5:
            for _ in range(1 + i % 3):
                bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        else:
            del bad[chance.randrange(len(bad)) :]
        target = tmp_path / f"bad-{i}.db"
        target.write_bytes(bytes(bad))
        try:
            with BudgetLedger.open(target, timeout=0) as book:
                assert book.verify(SPENDS) == SPENDS
            outcomes["intact"] += 1
        except LedgerError:  # never anything else, a UnicodeDecodeError for instance
            outcomes["refused"] += 1
    assert outcomes["refused"] >= 60
