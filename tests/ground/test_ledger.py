"""The ledger pays exactly once, exactly as agreed; release never touches data before paying."""

from __future__ import annotations

import copy
import errno
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from attrs import define, evolve, field
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_lines import entries, forge

from privpac.composition import zcdp_epsilon
from privpac.errors import (
    BudgetExhausted,
    DuplicateSpend,
    EngineError,
    IncompatibleGuarantees,
    InsecureRandomnessError,
    LedgerBusy,
    LedgerChanged,
    LedgerCorrupt,
    LedgerMismatch,
    LedgerUnavailable,
    ParameterError,
    SchemaError,
)
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger, Receipt, file, release
from privpac.ledger.file import START, try_lock
from privpac.result import Released
from privpac.rng import PublicCoins, Rng
from privpac.testing import SeededRng, WordRng, insecure_randomness


def user(epsilon: Any, delta: Any = 0, neighbours: str = "add-remove", **tags: Any) -> Guarantee:
    return Guarantee(epsilon, delta, unit=tags.pop("unit", "user"), neighbours=neighbours, **tags)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budget.db"


@pytest.fixture
def ledger(path: Path) -> BudgetLedger:
    return BudgetLedger.create(path, user(1, "1e-6"), dataset="flights")


def one_line(error: pytest.ExceptionInfo[BaseException]) -> str:
    text = str(error.value)
    assert text
    assert "\n" not in text
    return text


# Sums


def test_decimal_spends_fill_the_budget_exactly(path: Path) -> None:
    ledger = BudgetLedger(path, user("0.3"), "basic", "flights")
    ledger.spend(user(0.1), "first")
    ledger.spend(user(0.2), "second")
    assert ledger.remaining().epsilon == 0
    with pytest.raises(BudgetExhausted) as caught:
        ledger.spend(user("1e-30"), "third")
    assert caught.value.remaining.epsilon == 0  # type: ignore[attr-defined]
    assert caught.value.requested == user("1e-30")
    ledger.spend(user(0), "a constant costs nothing")


@given(
    st.lists(
        st.tuples(st.fractions(0, 1, max_denominator=50), st.fractions(0, Fraction(1, 1000), max_denominator=10**6)),
        max_size=8,
    )
)
@settings(max_examples=15, deadline=None)
def test_basic_sums_are_exact_and_never_exceed_the_budget(
    tmp_path_factory: pytest.TempPathFactory, costs: list[tuple[Fraction, Fraction]]
) -> None:
    ledger = BudgetLedger.create(tmp_path_factory.mktemp("l") / "b.db", user(2, "1/1000"), dataset="d")
    eps = delta = Fraction(0)
    for i, (e, d) in enumerate(costs):
        fits = eps + e <= 2 and delta + d <= Fraction(1, 1000)
        if fits:
            ledger.spend(user(e, d), "x", f"id-{i}")
            eps, delta = eps + e, delta + d
        else:
            with pytest.raises(BudgetExhausted):
                ledger.spend(user(e, d), "x", f"id-{i}")
        left = ledger.remaining()
        assert (left.epsilon, left.delta) == (2 - eps, Fraction(1, 1000) - delta)
    rows = ledger.history()
    assert sum(row.eps for row in rows) == eps
    ledger.verify()
    ledger.close()


def test_delta_is_budgeted_too(ledger: BudgetLedger) -> None:
    ledger.spend(user("0.1", "1e-6"), "all of delta")
    with pytest.raises(BudgetExhausted, match=r"\(0.9, 0\) left; nothing was spent"):
        ledger.spend(user("0.1", "1e-9"), "one more")
    ledger.spend(user("0.9"), "pure")
    assert len(ledger.history()) == 2


def test_zcdp_ledger_stops_where_the_conversion_reaches_epsilon(path: Path) -> None:
    ledger = BudgetLedger.create(path, user(2, "1e-6"), "zcdp", "flights")
    while ledger.remaining().epsilon >= Fraction(1, 10):
        ledger.spend(user("0.1"), "step")
    paid = len(ledger.history())
    with pytest.raises(BudgetExhausted) as caught:
        ledger.spend(user("0.1"), "one step more")
    assert caught.value.remaining == ledger.remaining()
    with mpmath.workdps(50):
        converted = [
            mpmath.mpf(k) / 200 + 2 * mpmath.sqrt(mpmath.mpf(k) / 200 * mpmath.log(10**6)) for k in (paid, paid + 1)
        ]
    assert converted[0] <= 2 < converted[1]
    assert zcdp_epsilon(Fraction(paid, 200), "1e-6") <= 2 < zcdp_epsilon(Fraction(paid + 1, 200), "1e-6")
    last = ledger.remaining()
    ledger.spend(user(last.epsilon), "the rest is spendable")
    assert ledger.remaining().rho < Fraction(1, 2**50)  # type: ignore[operator]
    ledger.verify()


def test_zcdp_ledger_uses_a_known_rho_but_never_a_worse_one(path: Path) -> None:
    ledger = BudgetLedger.create(path, user(2, "1e-6"), "zcdp", "flights")
    ledger.spend(user("0.4", rho="1/50"), "bounded range: a quarter of epsilon**2 / 2")
    ledger.spend(user("0.1", rho=7), "stated carelessly")
    assert [row.rho for row in ledger.history()] == [Fraction(1, 50), Fraction(1, 200)]
    assert ledger.history()[-1].cum_rho == Fraction(1, 40)
    ledger.verify()


def test_zcdp_ledger_refuses_delta_and_needs_its_own(path: Path) -> None:
    with pytest.raises(ParameterError, match="delta > 0"):
        BudgetLedger.create(path, user(1), "zcdp", "flights")
    assert not path.exists()
    ledger = BudgetLedger.create(path, user(1, "1e-6"), "zcdp", "flights")
    with pytest.raises(ParameterError, match="delta = 0 only"):
        ledger.spend(user("0.01", "1e-9"), "approximate")
    assert ledger.history() == ()


def test_endless_digits_are_refused_with_nothing_written(ledger: BudgetLedger) -> None:
    with pytest.raises(ParameterError, match="thousands of digits"):
        ledger.spend(user(Fraction(1, 3**5000)), "x")
    ledger.spend(user(Fraction(1, 3**3000)), "fits")
    with pytest.raises(ParameterError, match="thousands of digits"):
        ledger.spend(user(Fraction(1, 7**2000)), "the sum does not")
    assert len(ledger.history()) == 1
    ledger.verify()


# One ledger, one agreement

OTHERS: dict[str, dict[str, Any]] = {
    "epsilon": {"budget": user(2, "1e-6")},
    "delta": {"budget": user(1, "1e-7")},
    "unit": {"budget": user(1, "1e-6", unit="item")},
    "neighbours": {"budget": user(1, "1e-6", "replace")},
    "model": {"budget": user(1, "1e-6", model="shuffle")},
    "rule": {"rule": "zcdp"},
    "dataset": {"dataset": "trains"},
}


@pytest.mark.parametrize("what", OTHERS)
def test_reopening_with_another_agreement_is_refused(path: Path, ledger: BudgetLedger, what: str) -> None:
    ledger.spend(user("0.5"), "x")
    same: dict[str, Any] = {"budget": user(1, "1e-6"), "rule": "basic", "dataset": "flights"}
    with pytest.raises(LedgerMismatch, match=what) as caught:
        BudgetLedger(path, **same | OTHERS[what])
    one_line(caught)
    assert BudgetLedger(path, **same).remaining().epsilon == Fraction(1, 2)


def test_open_keeps_the_agreement(path: Path, ledger: BudgetLedger) -> None:
    again = BudgetLedger.open(path)
    assert (again.budget, again.rule, again.dataset) == (user(1, "1e-6"), "basic", "flights")
    assert repr(again) == "<BudgetLedger 'flights': (1, 1e-06)-DP per user, add-remove, basic rule>"
    again.spend(user(1), "by one")
    with pytest.raises(BudgetExhausted):
        ledger.spend(user("0.1"), "by the other")


@pytest.mark.parametrize(
    "guarantee",
    [user("0.1", neighbours="replace"), user("0.1", unit="item"), user("0.1", model="local", neighbours="replace")],
)
def test_spends_must_carry_the_ledgers_tags(ledger: BudgetLedger, guarantee: Guarantee) -> None:
    with pytest.raises(IncompatibleGuarantees):
        ledger.spend(guarantee, "x")
    assert ledger.history() == ()


def test_create_refuses_an_existing_file_and_open_a_missing_one(
    path: Path, tmp_path: Path, ledger: BudgetLedger
) -> None:
    with pytest.raises(LedgerUnavailable, match="exists already"):
        BudgetLedger.create(path, user(5), dataset="flights")
    assert ledger.budget == user(1, "1e-6")
    with pytest.raises(LedgerUnavailable, match=r"BudgetLedger\.create"):
        BudgetLedger.open(tmp_path / "missing.db")
    assert not (tmp_path / "missing.db").exists()


@pytest.mark.parametrize("kind", ["directory", "empty", "text", "noise", "other-database", "fifo", "no-folder"])
@pytest.mark.parametrize("how", ["open", "construct"])
def test_other_files_are_refused_and_left_alone(tmp_path: Path, kind: str, how: str) -> None:
    path = tmp_path / "x.db"
    if kind == "directory":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("epsilon: 1\n" * 200)
    elif kind == "noise":
        path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40)
    elif kind == "other-database":
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE spend(x)")
        db.close()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path = tmp_path / "no" / "x.db"
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises((LedgerCorrupt, LedgerUnavailable)) as caught:
        BudgetLedger.open(path) if how == "open" else BudgetLedger(path, user(1), "basic", "flights")
    one_line(caught)
    assert before is None or path.read_bytes() == before
    assert len(os.listdir(tmp_path)) == (kind != "no-folder")


def test_unwritable_folders_are_refused(tmp_path: Path) -> None:
    for place in ("/proc/budget.db", "/dev/null/budget.db", tmp_path / ("n" * 300)):
        with pytest.raises(LedgerUnavailable) as caught:
            BudgetLedger.create(place, user(1), dataset="flights")
        one_line(caught)
    assert os.listdir(tmp_path) == []


def test_strange_names_are_just_names(tmp_path: Path) -> None:
    for name in ("a?mode=memory", "b#c", "%41.db", "file:x", ":memory:", "späß '\".db"):
        BudgetLedger.create(tmp_path / name, user(1), dataset="d").spend(user(1), "x")
        with pytest.raises(BudgetExhausted):
            BudgetLedger.open(tmp_path / name).spend(user(1), "x")


BAD_BUDGETS: list[tuple[type[Exception], dict[str, Any]]] = [
    (TypeError, {"budget": 1.0}),
    (TypeError, {"budget": None}),
    (ParameterError, {"budget": user(0)}),
    (ParameterError, {"budget": user(0, "1e-6")}),
    (ParameterError, {"budget": user(Fraction(1, 3**5000))}),
    (ParameterError, {"rule": "advanced"}),
    (TypeError, {"rule": None}),
    (ParameterError, {"dataset": ""}),
    (ParameterError, {"dataset": "a\nb"}),
    (ParameterError, {"dataset": "a\x00b"}),
    (ParameterError, {"dataset": "\x1b[31mred"}),
    (ParameterError, {"dataset": "\ud800"}),
    (ParameterError, {"dataset": "x" * 201}),
    (TypeError, {"dataset": 7}),
    (TypeError, {"timeout": "1"}),
    (TypeError, {"timeout": True}),
    (ParameterError, {"timeout": -1}),
    (ParameterError, {"timeout": float("nan")}),
    (ParameterError, {"timeout": float("inf")}),
    (TypeError, {"path": 3}),
    (TypeError, {"path": b"budget.db"}),
    (ParameterError, {"path": ""}),
    (ParameterError, {"path": "a\0b"}),
]


@pytest.mark.parametrize(
    ("error", "bad"), BAD_BUDGETS, ids=lambda value: "-".join(value) if isinstance(value, dict) else value.__name__
)
def test_bad_settings_make_no_file(path: Path, error: type[Exception], bad: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"path": path, "budget": user(1), "rule": "basic", "dataset": "flights"} | bad
    makers: list[Callable[..., BudgetLedger]] = [BudgetLedger, BudgetLedger.create]
    for make in makers:
        with pytest.raises(error):
            make(**settings)
    assert os.listdir(path.parent) == []


BAD_SPENDS: list[tuple[type[Exception], dict[str, Any]]] = [
    (TypeError, {"guarantee": 0.5}),
    (TypeError, {"guarantee": None}),
    (TypeError, {"label": None}),
    (ParameterError, {"label": ""}),
    (ParameterError, {"label": "two\nlines"}),
    (ParameterError, {"label": "\u202e"}),
    (ParameterError, {"label": "x" * 201}),
    (TypeError, {"spend_id": 7}),
    (ParameterError, {"spend_id": ""}),
    (ParameterError, {"spend_id": "\t"}),
    (ParameterError, {"spend_id": "x" * 101}),
]


@pytest.mark.parametrize(
    ("error", "bad"), BAD_SPENDS, ids=lambda value: "-".join(value) if isinstance(value, dict) else value.__name__
)
def test_bad_spends_write_nothing(ledger: BudgetLedger, error: type[Exception], bad: dict[str, Any]) -> None:
    head = ledger.head()
    with pytest.raises(error):
        ledger.spend(**dict[str, Any](guarantee=user("0.1"), label="x") | bad)
    assert ledger.head() == head
    assert ledger.remaining().epsilon == 1


def test_a_repeated_id_is_refused_even_by_another_object(path: Path, ledger: BudgetLedger) -> None:
    ledger.spend(user("0.1"), "x", "job-7")
    with pytest.raises(DuplicateSpend, match="job-7"):
        BudgetLedger.open(path).spend(user("0.1"), "x", "job-7")
    assert ledger.remaining().epsilon == Fraction(9, 10)


def test_spends_without_an_id_get_different_ones(ledger: BudgetLedger) -> None:
    receipts = [ledger.spend(user("0.1"), "same label") for _ in range(3)]
    assert len({receipt.spend_id for receipt in receipts}) == 3


# Only if nobody else spent


def test_a_spend_can_depend_on_the_head_that_was_seen(path: Path, ledger: BudgetLedger) -> None:
    seen = ledger.head()
    ledger.spend(user("0.1"), "nobody came in between", expected_head=seen)
    now = ledger.head()
    with pytest.raises(LedgerChanged, match=r"\(0\.9, .* left\); nothing was spent now: look again") as caught:
        ledger.spend(user("0.1"), "x", "late", expected_head=seen)
    one_line(caught)
    assert ledger.head() == now
    coin = Coin(ledger=ledger)
    with pytest.raises(LedgerChanged):
        release(coin, "data", ledger=ledger, expected_head=seen)
    assert coin.events == ["bind after 1 spends"]  # nothing was drawn
    assert release(coin, "data", ledger=ledger, expected_head=now).guarantee == user("0.5")
    with pytest.raises(ParameterError, match="pass ledger="):
        release(Coin(), 1, expected_head=now)
    for bad, error in (("", ParameterError), ("F" * 64, ParameterError), (7, TypeError)):
        with pytest.raises(error):
            ledger.spend(user("0.1"), "x", expected_head=bad)  # type: ignore[arg-type]
        with pytest.raises(error):
            ledger.expecting(bad)  # type: ignore[arg-type]


def test_a_ledger_that_expects_a_head_pays_as_long_as_nobody_else_does(path: Path, ledger: BudgetLedger) -> None:
    mine = ledger.expecting(ledger.head())
    mine.spend(user("0.1"), "first")
    mine.spend(user("0.1"), "second")
    BudgetLedger.open(path).spend(user("0.1"), "somebody else")
    for _ in range(2):
        with pytest.raises(LedgerChanged):
            mine.spend(user("0.1"), "third")
    ledger.spend(user("0.1"), "the ledger itself expects nothing")
    with pytest.raises(LedgerChanged):
        release(Coin(), 1, ledger=mine)
    assert mine.remaining().epsilon == Fraction(6, 10)


EXPECTING = """
import sys
from privpac.errors import LedgerChanged
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
book = BudgetLedger.open(sys.argv[1])
for line in sys.stdin:
    try:
        book.spend(Guarantee("0.001", unit="user", neighbours="add-remove"), "x", expected_head=line.strip())
        print("paid", flush=True)
    except LedgerChanged:
        print("changed", flush=True)
"""


def test_of_two_processes_that_saw_the_same_head_one_pays(path: Path, ledger: BudgetLedger) -> None:
    command = [sys.executable, "-c", EXPECTING, str(path)]
    pair = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for round_number in range(25):
        head = ledger.head()
        for process in pair:
            assert process.stdin is not None
            process.stdin.write(head + "\n")
            process.stdin.flush()
        assert sorted(process.stdout.readline() for process in pair if process.stdout) == ["changed\n", "paid\n"]
        assert len(ledger.history()) == round_number + 1
    for process in pair:
        process.communicate()


# Receipts


def test_a_receipt_is_good_for_one_release(ledger: BudgetLedger) -> None:
    receipt = ledger.spend(user("0.1"), "x", "job")
    assert (receipt.spend_id, receipt.guarantee, receipt.spend) == ("job", user("0.1"), ledger.history()[0])
    assert "unused" in repr(receipt)
    receipt.use()
    with pytest.raises(DuplicateSpend, match="one payment covers one release"):
        receipt.use()
    for clone in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="second release"):
            clone(receipt)
    with pytest.raises(AttributeError):
        receipt.guarantee = user(0)  # type: ignore[misc]


def test_a_receipt_is_good_in_its_own_process_only(ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    receipt = ledger.spend(user("0.1"), "x")
    monkeypatch.setattr(os, "getpid", lambda: -5)
    with pytest.raises(DuplicateSpend, match="another process"):
        receipt.use()


def test_of_many_threads_one_uses_a_receipt(ledger: BudgetLedger) -> None:
    receipt = ledger.spend(user("0.1"), "x")
    used: list[int] = []

    def use(i: int) -> None:
        try:
            receipt.use()
            used.append(i)
        except DuplicateSpend:
            pass

    threads = [threading.Thread(target=use, args=(i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(used) == 1


def test_threads_share_one_ledger_and_hit_the_limit_exactly(ledger: BudgetLedger) -> None:
    paid: list[Receipt] = []

    def work() -> None:
        try:
            while True:
                paid.append(ledger.spend(user("0.05"), "x"))
        except BudgetExhausted:
            pass

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paid) == 20
    assert ledger.remaining().epsilon == 0
    ledger.verify()


# History


def test_history_and_export_tell_the_same_story(ledger: BudgetLedger) -> None:
    empty = json.loads(ledger.export_json())
    assert (empty["spends"], empty["head"], empty["remaining"]["epsilon"]) == ([], ledger.head(), "1")
    ledger.spend(user("0.1"), "thresholds, 16 levels", "a")
    ledger.spend(user("0.25", "1e-7"), "tree", "b")
    body = json.loads(ledger.export_json())
    assert [(row["spend_id"], row["eps"], row["cum_eps"], row["cum_delta"]) for row in body["spends"]] == [
        ("a", "1/10", "1/10", "0"),
        ("b", "1/4", "7/20", "1/10000000"),
    ]
    assert body["remaining"] == {"epsilon": "13/20", "delta": "9/10000000"}
    assert body["head"] == ledger.head() == ledger.verify() == ledger.history()[-1].hash
    assert (body["dataset"], body["rule"], body["neighbours"]) == ("flights", "basic", "add-remove")
    assert [row.prev for row in ledger.history()] == [empty["head"], ledger.history()[0].hash]


def test_a_published_head_detects_an_older_copy(path: Path, tmp_path: Path, ledger: BudgetLedger) -> None:
    start = ledger.head()
    ledger.spend(user("0.1"), "x")
    ledger.close()
    old = tmp_path / "old.db"
    old.write_bytes(path.read_bytes())
    ledger = BudgetLedger.open(path)
    ledger.spend(user("0.1"), "y")
    published = ledger.head()
    assert ledger.verify(start) == ledger.verify(published) == published
    with pytest.raises(LedgerCorrupt, match="published head"):
        BudgetLedger.open(old).verify(published)


def test_closed_ledgers_are_closed(path: Path) -> None:
    with BudgetLedger.create(path, user(1), dataset="d") as ledger:
        ledger.spend(user("0.5"), "x")
    ledger.close()
    with pytest.raises(LedgerUnavailable, match="closed"):
        ledger.spend(user("0.5"), "x")
    assert os.listdir(path.parent) == ["budget.db"]


def test_a_line_is_synced_before_the_seal_speaks_of_it(ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    write, sync = file.write_at, file._sync

    def writes(handle: int, data: bytes, at: int) -> None:
        events.append("line" if at else "seal")
        write(handle, data, at)

    def syncs(handle: int) -> None:
        events.append("sync")
        sync(handle)

    monkeypatch.setattr(file, "write_at", writes)
    monkeypatch.setattr(file, "_sync", syncs)
    for _ in range(3):
        ledger.spend(user("0.1"), "x")
    assert events == ["line", "sync", "seal"] * 3


def test_a_failing_sync_gives_no_receipt_and_the_spend_counts(
    path: Path, ledger: BudgetLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(file, "_sync", fails)
        with pytest.raises(LedgerUnavailable, match="nothing may be released") as caught:
            ledger.spend(user("0.25"), "x")
    one_line(caught)
    # The line may be on disk, so it may never be forgotten; nothing is refunded.
    assert ledger.remaining().epsilon == BudgetLedger.open(path).remaining().epsilon == Fraction(3, 4)
    ledger.spend(user("0.75"), "y")
    ledger.verify()


def test_a_lock_held_too_long_is_reported(path: Path, ledger: BudgetLedger) -> None:
    with path.open("r+b") as other:
        assert try_lock(other.fileno())
        with pytest.raises(LedgerBusy, match="try again") as caught:
            BudgetLedger.open(path, timeout=0.05).spend(user("0.1"), "x")
        one_line(caught)
        assert ledger.history() == ()  # reading waits for nobody


# Tampering

LINES: dict[str, tuple[str, str]] = {
    "price": ('"x","1/4"', '"x","1/8"'),
    "label": ('"x","1/4"', '"y","1/4"'),
    "budget": ('"epsilon":"1"', '"epsilon":"9"'),
    "kind": ('["spend"', '["spent"'),
    "digit-of-a-hash": ("\n", "\nf"),
}


@pytest.mark.parametrize("edit", LINES)
@pytest.mark.parametrize("opened", ["before", "after"])
def test_verify_finds_every_edit(path: Path, ledger: BudgetLedger, edit: str, opened: str) -> None:
    for _ in range(3):
        ledger.spend(user("0.25"), "x")
    ledger.verify()
    whole = path.read_text()
    old, new = LINES[edit]
    at = whole.index(old, START - 1)
    path.write_text(whole[:at] + new + whole[at + len(old) :][: len(whole)])
    with pytest.raises(LedgerCorrupt) as caught:
        (ledger if opened == "before" else BudgetLedger.open(path)).verify()
    one_line(caught)


SPEND = ["spend", "new", "x", "1/4", "0", "", "2030-01-01T00:00:00+00:00"]
FORGED: dict[str, Callable[[list[Any]], list[Any]]] = {
    "over-the-budget": lambda rows: [*rows, ["spend", "new", "x", "1/2", "0", "", SPEND[-1]]],
    "over-the-budget-of-delta": lambda rows: [*rows, ["spend", "new", "x", "0", "1/1000", "", SPEND[-1]]],
    "an-id-twice": lambda rows: [*rows, rows[-1]],
    "rho-in-a-basic-ledger": lambda rows: [*rows, ["spend", "new", "x", "1/8", "0", "1/128", SPEND[-1]]],
    "number-form": lambda rows: [*rows, ["spend", "new", "x", "2/8", "0", "", SPEND[-1]]],
    "negative": lambda rows: [*rows, ["spend", "new", "x", "-1/4", "0", "", SPEND[-1]]],
    "exponent": lambda rows: [*rows, ["spend", "new", "x", "1e999999999", "0", "", SPEND[-1]]],
    "zero-denominator": lambda rows: [*rows, ["spend", "new", "x", "1/0", "0", "", SPEND[-1]]],
    "number": lambda rows: [*rows, ["spend", "new", "x", 0.25, "0", "", SPEND[-1]]],
    "control-letters": lambda rows: [*rows, ["spend", "new", "\u001b[31m", "0", "0", "", SPEND[-1]]],
    "surrogates": lambda rows: [*rows, ["spend", "\ud800", "x", "0", "0", "", SPEND[-1]]],
    "settings-twice": lambda rows: [*rows, rows[0]],
    "no-settings": lambda rows: rows[1:],
    "settings-of-nothing": lambda rows: [["settings", {}], *rows[1:]],
    "settings-as-a-list": lambda rows: [["settings", []], *rows[1:]],
    "rule": lambda rows: [["settings", rows[0][1] | {"rule": "none"}], *rows[1:]],
    "smaller-budget": lambda rows: [["settings", rows[0][1] | {"epsilon": "1/2"}], *rows[1:]],
    "unknown-kind": lambda rows: [*rows, ["refund", "new"]],
    "unhashable-kind": lambda rows: [*rows, [[]]],
    "nothing": lambda rows: [*rows, []],
    "no-list": lambda rows: [*rows, 7],
    "too-many-fields": lambda rows: [*rows, [*SPEND, "more"]],
    "no-lines": lambda rows: [],
}


@pytest.mark.parametrize("kind", FORGED)
def test_lines_with_right_hashes_that_break_a_rule_are_refused(path: Path, ledger: BudgetLedger, kind: str) -> None:
    for _ in range(3):
        ledger.spend(user("0.25"), "x")
    forge(path, FORGED[kind](entries(path)))
    for _ in range(2):
        with pytest.raises(LedgerCorrupt) as caught:
            BudgetLedger.open(path)
        one_line(caught)
        with pytest.raises(LedgerCorrupt):
            ledger.verify()
    with pytest.raises(LedgerCorrupt):
        ledger.spend(user("0.01"), "x")


def test_an_older_history_is_noticed_by_who_has_seen_the_file_or_its_head(path: Path, ledger: BudgetLedger) -> None:
    for _ in range(3):
        ledger.spend(user("0.25"), "x")
    published = ledger.head()
    for lines in (
        entries(path)[:-1],
        [*entries(path)[:-1], SPEND, ["spend", "n2", *SPEND[2:4], "0", "", SPEND[-1]]][:-1],
    ):
        forge(path, lines)
        for action in (ledger.remaining, ledger.verify, ledger.history, lambda: ledger.spend(user("0.1"), "y")) * 2:
            with pytest.raises(LedgerCorrupt, match="does not continue"):
                action()
        with pytest.raises(LedgerCorrupt, match="published head"):
            BudgetLedger.open(path).verify(published)


# From data to a release


@define(slots=False)
class Coin:
    """A learner that records the order of what happens to it."""

    guarantee: Any = field(factory=lambda: user("0.5"))
    fails: str = ""
    events: list[str] = field(factory=list)
    ledger: BudgetLedger | None = None

    def bind(self, data: Any) -> Any:
        self.events.append(f"bind after {self._paid()} spends")
        if self.fails == "bind":
            raise SchemaError("column 'x': 3 missing values")
        return ("bound", data)

    def draw(self, bound: Any, rng: Rng) -> Released:
        assert bound[0] == "bound"
        self.events.append(f"draw after {self._paid()} spends")
        if self.fails == "draw":
            raise RuntimeError("boom")
        return Released(rng.below(2), self.guarantee, {"sides": 2}, learner="Coin")

    def _paid(self) -> int:
        return 0 if self.ledger is None else len(self.ledger.history())


def test_release_checks_then_pays_then_draws(ledger: BudgetLedger) -> None:
    coin = Coin(ledger=ledger)
    released = release(coin, "data", ledger=ledger, label="a coin", spend_id="toss")
    assert coin.events == ["bind after 0 spends", "draw after 1 spends"]
    assert released.value in (0, 1)
    assert (released.guarantee, released.insecure) == (user("0.5"), False)
    assert [(row.label, row.spend_id, row.eps) for row in ledger.history()] == [("a coin", "toss", Fraction(1, 2))]


def test_release_without_a_ledger_or_label(ledger: BudgetLedger) -> None:
    assert release(Coin(), 1).guarantee == user("0.5")
    release(Coin(), 1, ledger=ledger)
    assert ledger.history()[0].label == "Coin"


def test_data_that_break_the_schema_cost_nothing(ledger: BudgetLedger) -> None:
    with pytest.raises(SchemaError):
        release(Coin(fails="bind"), 1, ledger=ledger)
    assert ledger.history() == ()


def test_a_failed_draw_is_not_refunded(ledger: BudgetLedger) -> None:
    with pytest.raises(EngineError, match="stays spent, and why is not told"):
        release(Coin(fails="draw"), 1, ledger=ledger, spend_id="once")
    assert ledger.remaining().epsilon == Fraction(1, 2)
    with pytest.raises(DuplicateSpend):
        release(Coin(), 1, ledger=ledger, spend_id="once")


def test_nothing_is_drawn_once_the_budget_is_gone(ledger: BudgetLedger) -> None:
    coin = Coin(ledger=ledger)
    release(coin, 1, ledger=ledger)
    release(coin, 1, ledger=ledger)
    with pytest.raises(BudgetExhausted):
        release(coin, 1, ledger=ledger)
    assert [event.split()[0] for event in coin.events] == ["bind", "draw", "bind", "draw"]  # not even bound


def test_room_that_is_gone_when_it_is_spent_draws_nothing(ledger: BudgetLedger) -> None:
    """Another process may spend between the question for room and the spend; the spend decides."""

    class Late(Coin):
        def bind(self, data: Any, /) -> Any:
            ledger.spend(self.guarantee, "another")
            ledger.spend(self.guarantee, "process")
            return super().bind(data)

    coin = Late(ledger=ledger)
    with pytest.raises(BudgetExhausted):
        release(coin, 1, ledger=ledger)
    assert [event.split()[0] for event in coin.events] == ["bind"]
    with pytest.raises(BudgetExhausted):
        ledger.check_room(coin.guarantee)
    assert len(ledger.history()) == 2


def test_a_replace_ledger_takes_add_remove_learners_at_twice_epsilon(path: Path) -> None:
    ledger = BudgetLedger.create(path, user(3, "1e-3", "replace"), dataset="flights")
    released = release(Coin(user("0.5", "1e-6")), 1, ledger=ledger)
    assert released.guarantee == user("0.5", "1e-6")
    row = ledger.history()[0]
    converted = user("0.5", "1e-6").to_replace()
    assert (row.eps, row.delta) == (converted.epsilon, converted.delta)
    assert row.eps == 1
    assert row.delta > 2 * Fraction(1, 10**6)
    release(Coin(user("0.5", neighbours="replace")), 1, ledger=ledger)
    assert ledger.history()[1].eps == Fraction(1, 2)


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        (user("0.5", neighbours="replace"), "add-remove ledger cannot pay for a replace learner"),
        (user("0.5", unit="item"), "different promises"),
        (user("0.5", neighbours="replace", model="shuffle"), "cannot pay for a replace learner"),
    ],
)
def test_other_promises_are_refused_before_data_are_seen(
    ledger: BudgetLedger, guarantee: Guarantee, words: str
) -> None:
    coin = Coin(guarantee)
    with pytest.raises(IncompatibleGuarantees, match=words):
        release(coin, 1, ledger=ledger)
    assert coin.events == []
    assert ledger.history() == ()


@pytest.mark.parametrize("make", [lambda: SeededRng(1), lambda: WordRng([1, 2])])
def test_a_ledger_never_pays_for_insecure_randomness(ledger: BudgetLedger, make: Callable[[], Rng]) -> None:
    coin = Coin()
    with insecure_randomness(), pytest.raises(InsecureRandomnessError, match="ledger"):
        release(coin, 1, rng=make(), ledger=ledger)
    with pytest.raises(InsecureRandomnessError):
        release(coin, 1, rng=make(), ledger=ledger)
    with pytest.raises(InsecureRandomnessError):
        release(coin, 1, rng=make())
    assert coin.events == []
    assert ledger.history() == ()


def test_insecure_results_carry_no_guarantee() -> None:
    with insecure_randomness():
        first, second = (release(Coin(), 1, rng=SeededRng("s")) for _ in range(2))
    assert first == second
    assert (first.guarantee, first.insecure) == (None, True)
    assert "INSECURE RANDOMNESS: no guarantee" in str(first)


BAD_RELEASES: list[tuple[type[Exception], dict[str, Any]]] = [
    (TypeError, {"rng": 7}),
    (TypeError, {"rng": np.random.default_rng(7)}),
    (TypeError, {"rng": PublicCoins(bytes(32))}),
    (LedgerUnavailable, {"ledger": "nowhere.db"}),
    (TypeError, {"ledger": 3}),
    (TypeError, {"label": 3}),
    (ParameterError, {"label": "a\nb"}),
    (ParameterError, {"spend_id": "\n"}),
    (ParameterError, {"spend_id": "x", "ledger": None}),
    (TypeError, {"not_before": "1"}),
    (ParameterError, {"not_before": -1}),
    (ParameterError, {"not_before": float("nan")}),
    (ParameterError, {"not_before": 1e9}),
    (TypeError, {"learner": Coin(guarantee=None)}),
    (TypeError, {"learner": Coin(guarantee=0.5)}),
]


@pytest.mark.parametrize(
    ("error", "bad"), BAD_RELEASES, ids=lambda value: "-".join(value) if isinstance(value, dict) else value.__name__
)
def test_bad_releases_spend_and_draw_nothing(ledger: BudgetLedger, error: type[Exception], bad: dict[str, Any]) -> None:
    coin = Coin()
    with pytest.raises(error):
        release(**dict[str, Any](learner=coin, data=1, ledger=ledger) | bad)
    assert not any(event.startswith("draw") for event in coin.events)
    assert ledger.history() == ()


@pytest.mark.parametrize("fails", ["", "draw"])
def test_not_before_hides_the_run_time_behind_a_deadline(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    clock, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", sleep)

    class Slow(Coin):
        def draw(self, bound: Any, rng: Rng) -> Released:
            clock[0] += 2
            return super().draw(bound, rng)

    def run() -> None:
        release(Slow(fails=fails), 1, not_before=5)

    if fails:
        with pytest.raises(EngineError):
            run()
    else:
        run()
    assert slept == [3.0]


def test_an_overrun_is_logged_without_numbers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ticks = iter([100.0, 107.25])
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks))
    release(Coin(), 1, not_before=5)
    assert [record.getMessage() for record in caplog.records] == [
        "a release ended after its public deadline; choose a later not_before"
    ]


def test_guarantees_in_results_are_the_learners(ledger: BudgetLedger) -> None:
    released = release(Coin(), 1, ledger=ledger)
    assert evolve(released, value=0) == Released(0, user("0.5"), {"sides": 2}, learner="Coin")
