"""Answered queries are counted before they leave: crashes, races, copies and tampering never give one for free."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledger_lines import entries, forge

from privpac.errors import BudgetExhausted, DuplicateSpend, LedgerBusy, LedgerCorrupt, LedgerMismatch, ParameterError
from privpac.guarantee import Guarantee
from privpac.ledger import Answer, Ask, BudgetLedger, file

PRICE = Guarantee(1, unit="user", neighbours="add-remove")
SESSION = "s" * 32


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def session_ledger(path: Path, queries: int) -> BudgetLedger:
    ledger = BudgetLedger.create(path, Guarantee(4, unit="user", neighbours="add-remove"), dataset="queries")
    ledger.spend(PRICE, "session", SESSION).use()
    ledger.queries.open(SESSION, queries)
    return ledger


def answer(ledger: BudgetLedger, *texts: str, key: str = "", share: int | None = None, bit: str = "1") -> list[str]:
    found = ledger.queries.answer(SESSION, [digest(text) for text in texts], lambda i, n: bit, key=key, share=share)
    return [a.answer for a in found]


def test_every_new_query_is_counted_once_and_repeats_are_free(tmp_path: Path) -> None:
    ledger = session_ledger(tmp_path / "b.db", 3)
    assert answer(ledger, "x") == ["1"]
    assert answer(ledger, "x", bit="0") == ["1"]  # the stored answer, not a second draw
    assert ledger.queries.used(SESSION) == 1
    assert answer(ledger, "y", "y", "x", bit="0") == ["0", "0", "1"]
    assert ledger.queries.used(SESSION) == 2
    assert ledger.queries.limit(SESSION) == 3
    assert sum(count for _, count in ledger.queries.history(SESSION)) == 2
    ledger.verify()


def test_the_limit_refuses_a_whole_batch_and_repeats_stay_free_after_it(tmp_path: Path) -> None:
    ledger = session_ledger(tmp_path / "b.db", 2)
    drawn: list[int] = []

    def draw(i: int, number: int) -> str:
        drawn.append(number)
        return "1"

    with pytest.raises(BudgetExhausted) as refused:
        ledger.queries.answer(SESSION, [digest(t) for t in "abc"], draw)
    assert (refused.value.remaining, refused.value.requested) == (2, 3)
    assert drawn == []
    assert ledger.queries.used(SESSION) == 0
    answer(ledger, "a", "b")
    with pytest.raises(BudgetExhausted):
        answer(ledger, "c")
    assert answer(ledger, "b", "a") == ["1", "1"]
    ledger.verify()


def test_shares_of_keys_are_kept_apart(tmp_path: Path) -> None:
    ledger = session_ledger(tmp_path / "b.db", 10)
    answer(ledger, "a", "b", key="ann", share=2)
    with pytest.raises(BudgetExhausted, match="share"):
        answer(ledger, "c", key="ann", share=2)
    assert answer(ledger, "c", key="bob", share=1) == ["1"]
    assert answer(ledger, "c", key="ann", share=2) == ["1"]  # bob paid; a repeat is free for everyone
    assert (ledger.queries.used(SESSION, "ann"), ledger.queries.used(SESSION, "bob"), ledger.queries.used(SESSION)) == (
        2,
        1,
        3,
    )
    with pytest.raises(BudgetExhausted):
        answer(ledger, "z", key="nobody", share=0)
    ledger.verify()


def test_a_failing_draw_counts_nothing(tmp_path: Path) -> None:
    ledger = session_ledger(tmp_path / "b.db", 5)

    def fails(i: int, number: int) -> str:
        if i == 1:
            raise ZeroDivisionError
        return "1"

    with pytest.raises(ZeroDivisionError):
        ledger.queries.answer(SESSION, [digest("a"), digest("b")], fails)
    assert ledger.queries.used(SESSION) == 0


def test_a_session_must_be_paid_for_once_and_in_this_ledger(tmp_path: Path) -> None:
    ledger = session_ledger(tmp_path / "b.db", 5)
    with pytest.raises(LedgerMismatch):
        ledger.queries.open("unpaid", 5)
    with pytest.raises(DuplicateSpend):
        ledger.queries.open(SESSION, 500)
    other = BudgetLedger.create(tmp_path / "other.db", PRICE, dataset="other")
    with pytest.raises(LedgerMismatch):
        answer(other, "x")
    other.spend(PRICE, "something else", SESSION)
    with pytest.raises(LedgerMismatch):
        answer(other, "x")
    other.verify()


@pytest.mark.parametrize("queries", [0, -1, 1 << 41])
def test_bad_limits_are_refused(tmp_path: Path, queries: int) -> None:
    ledger = BudgetLedger.create(tmp_path / "b.db", PRICE, dataset="x")
    ledger.spend(PRICE, "session", SESSION)
    with pytest.raises(ParameterError):
        ledger.queries.open(SESSION, queries)


@pytest.mark.parametrize("bad", ["", "xyz", "A" * 64, digest("x")[:-1]])
def test_bad_digests_are_refused(tmp_path: Path, bad: str) -> None:
    ledger = session_ledger(tmp_path / "b.db", 5)
    with pytest.raises(ParameterError):
        ledger.queries.answer(SESSION, [bad], lambda i, n: "1")
    with pytest.raises(TypeError):
        ledger.queries.answer(SESSION, [7], lambda i, n: "1")  # type: ignore[list-item]


# Tampering


Rows = list[Any]
FORGED: dict[str, Callable[[Rows], Rows]] = {
    "beyond-the-limit": lambda rows: [*rows, ["answers", SESSION, rows[-1][2], [[digest(t), "1", ""] for t in "pqr"]]],
    "a-digest-twice": lambda rows: [*rows, ["answers", SESSION, rows[-1][2], [[digest("a"), "0", ""]]]],
    "no-digest": lambda rows: [*rows, ["answers", SESSION, rows[-1][2], [["x", "0", ""]]]],
    "no-answer": lambda rows: [*rows, ["answers", SESSION, rows[-1][2], [[digest("z"), "", ""]]]],
    "no-key": lambda rows: [*rows, ["answers", SESSION, rows[-1][2], [[digest("z"), "1", None]]]],
    "no-session": lambda rows: [*rows, ["answers", "other", rows[-1][2], [[digest("z"), "1", ""]]]],
    "no-rows": lambda rows: [*rows, ["answers", SESSION, rows[-1][2], 7]],
    "unpaid": lambda rows: [*rows, ["session", "other", 5, rows[-1][2]]],
    "opened-twice": lambda rows: [*rows, ["session", SESSION, 1000, rows[-1][2]]],
    "endless": lambda rows: [*rows[:2], ["session", SESSION, 1 << 50, rows[-1][2]], *rows[3:]],
    "limit-as-text": lambda rows: [*rows[:2], ["session", SESSION, "9", rows[-1][2]], *rows[3:]],
    "smaller-limit": lambda rows: [*rows[:2], ["session", SESSION, 2, rows[-1][2]], *rows[3:]],
}


@pytest.mark.parametrize("kind", FORGED)
def test_forged_answers_that_break_a_rule_are_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "b.db"
    with session_ledger(path, 5) as ledger:
        answer(ledger, "a", "b", "c", key="k")
        forge(path, FORGED[kind](entries(path)))
        with pytest.raises(LedgerCorrupt):
            answer(ledger, "d")
    with pytest.raises(LedgerCorrupt):
        BudgetLedger.open(path)


def test_an_answer_being_written_is_no_repeat_for_anybody_before_the_disk_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "b.db"
    ledger = session_ledger(path, 5)
    other = BudgetLedger.open(path, timeout=0)
    sync, seen = file._sync, list[str]()

    def look(handle: int) -> None:
        """While the line is in the file and not yet on disk."""
        assert other.queries.used(SESSION) == ledger.queries.used(SESSION) == 0
        with pytest.raises(LedgerBusy):
            answer(other, "a", bit="0")
        seen.append("looked")
        sync(handle)

    monkeypatch.setattr(file, "_sync", look)
    assert answer(ledger, "a") == ["1"]
    assert seen == ["looked"]
    assert answer(other, "a", bit="0") == ["1"]


def test_an_old_copy_is_noticed_with_a_published_head(tmp_path: Path) -> None:
    ledger = session_ledger(tmp_path / "b.db", 5)
    answer(ledger, "a")
    ledger.close()
    shutil.copy(tmp_path / "b.db", tmp_path / "old.db")
    with BudgetLedger.open(tmp_path / "b.db") as now:
        answer(now, "b")
        head = now.queries.head(SESSION)
        now.verify(head)
    with BudgetLedger.open(tmp_path / "old.db") as old:
        old.verify()
        with pytest.raises(LedgerCorrupt, match="published"):
            old.verify(head)


# Crashes and races

WORKER = """
import hashlib, os, signal, sys
from privpac.ledger import Answer, Ask, BudgetLedger, file
from privpac.errors import BudgetExhausted
path, session, name, die = sys.argv[1:5]
ledger = BudgetLedger.open(path, timeout=300)
print("ready", flush=True); sys.stdin.readline()
given = 0
try:
    for i in range(10**6):
        digest = hashlib.sha256(f"{name}.{i}".encode()).hexdigest()
        ledger.queries.answer(session, [digest], lambda i, n: "1", key=name)
        if die and given == int(die):
            os.kill(os.getpid(), signal.SIGKILL)  # after the commit, before the answer leaves
        given += 1
        print(digest, flush=True)
except BudgetExhausted:
    pass
"""


def start(path: Path, name: str, die: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(path), SESSION, name, die]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def go(worker: subprocess.Popen[str]) -> None:
    assert worker.stdout is not None
    assert worker.stdin is not None
    assert worker.stdout.readline() == "ready\n"
    worker.stdin.write("go\n")
    worker.stdin.flush()


def test_a_crash_between_count_and_answer_wastes_one_answer_and_the_count_stays(tmp_path: Path) -> None:
    session_ledger(tmp_path / "b.db", 50).close()
    worker = start(tmp_path / "b.db", "w", die="4")
    go(worker)
    released = worker.communicate()[0].split()
    assert worker.returncode == -signal.SIGKILL
    with BudgetLedger.open(tmp_path / "b.db") as ledger:
        assert (len(released), ledger.queries.used(SESSION)) == (4, 5)
        # The lost query costs nothing the second time and gets the answer that was drawn.
        assert answer(ledger, "w.4", bit="0") == ["1"]
        assert ledger.queries.used(SESSION) == 5
        ledger.verify()


def test_two_processes_that_race_stop_exactly_at_the_limit(tmp_path: Path) -> None:
    session_ledger(tmp_path / "b.db", 60).close()
    workers = [start(tmp_path / "b.db", name) for name in "ab"]
    for worker in workers:
        go(worker)
    released = [line for worker in workers for line in worker.communicate()[0].split()]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert len(released) == len(set(released)) == 60
    with BudgetLedger.open(tmp_path / "b.db") as ledger:
        assert ledger.queries.used(SESSION) == 60
        assert ledger.queries.used(SESSION, "a") + ledger.queries.used(SESSION, "b") == 60
        ledger.verify()


def test_a_forked_child_shares_the_count(tmp_path: Path, in_fork: Callable[[Callable[[], None]], int]) -> None:
    ledger = session_ledger(tmp_path / "b.db", 2)
    answer(ledger, "a")

    def child() -> None:
        answer(ledger, "b")

    assert in_fork(child) == 0
    with pytest.raises(BudgetExhausted):
        answer(ledger, "c")


@pytest.fixture
def in_fork() -> Callable[[Callable[[], None]], int]:
    def run(action: Callable[[], None]) -> int:
        import warnings

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

    return run


# Many asks, one transaction


def ask(texts: str, bit: str = "1", key: str = "", share: int | None = None) -> Ask:
    return Ask([digest(text) for text in texts], lambda i, n: bit, key, share)


def told(found: list[list[Answer] | BudgetExhausted]) -> list[list[tuple[int, str, bool]] | tuple[object, object]]:
    return [
        (one.remaining, one.requested)
        if isinstance(one, BudgetExhausted)
        else [(a.number, a.answer, a.fresh) for a in one]
        for one in found
    ]


def test_a_batch_of_asks_is_what_the_same_asks_would_be_one_by_one(tmp_path: Path) -> None:
    chance = random.Random(3)
    one, many = (session_ledger(tmp_path / name, 20) for name in ("one.db", "many.db"))
    for _ in range(12):
        batch = [
            ask(
                "".join(chance.choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", k=chance.randrange(5))),
                chance.choice("01"),
                chance.choice(["", "ann", "bob"]),
                chance.choice([None, 0, 3, 12]),
            )
            for _ in range(chance.randrange(8))
        ]
        single: list[list[Answer] | BudgetExhausted] = []
        for wish in batch:
            try:
                single.append(one.queries.answer(SESSION, wish.digests, wish.draw, key=wish.key, share=wish.share))
            except BudgetExhausted as refused:
                single.append(refused)
        assert told(many.queries.answer_many(SESSION, batch)) == told(single)
        for key in (None, "", "ann", "bob"):
            assert many.queries.used(SESSION, key) == one.queries.used(SESSION, key)
    assert many.queries.used(SESSION) == 20
    one.verify()
    many.verify()


def test_a_refused_ask_leaves_the_others_of_its_batch_alone(tmp_path: Path) -> None:
    ledger = session_ledger(tmp_path / "b.db", 4)
    found = ledger.queries.answer_many(
        SESSION, [ask("ab"), ask("cde"), ask("ab", "0"), ask("cb", "0"), ask("x", share=0, key="k"), ask("d")]
    )
    assert told(found) == [
        [(1, "1", True), (2, "1", True)],
        (2, 3),
        [(1, "1", False), (2, "1", False)],
        [(3, "0", True), (2, "1", False)],
        (0, 1),
        [(4, "1", True)],
    ]
    assert ledger.queries.answer_many(SESSION, []) == []
    assert told(ledger.queries.answer_many(SESSION, [ask(""), ask("a")])) == [[], [(1, "1", False)]]
    ledger.verify()


def test_a_failing_draw_counts_nothing_of_its_batch(tmp_path: Path) -> None:
    ledger = session_ledger(tmp_path / "b.db", 5)

    def fails(i: int, number: int) -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ledger.queries.answer_many(SESSION, [ask("a"), Ask([digest("b")], fails)])
    assert ledger.queries.used(SESSION) == 0
    assert told(ledger.queries.answer_many(SESSION, [ask("b")])) == [[(1, "1", True)]]
