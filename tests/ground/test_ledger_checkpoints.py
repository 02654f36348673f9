"""Checkpoints: opening reads the last one and what follows, nothing is accepted twice, ``verify`` believes none."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from ledger_lines import entries, forge

from privpac.errors import BudgetExhausted, DuplicateSpend, LedgerCorrupt, LedgerMismatch
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger, records
from privpac.ledger import file as lines
from privpac.ledger.file import START, Seal, as_line, read_seal

EVERY = 5
TINY = Guarantee("1/1000", unit="user", neighbours="add-remove")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every few entries, so that small ledgers have many."""
    monkeypatch.setattr(lines, "CHECKPOINT_EVERY", EVERY)


def made(path: Path, spends: int, rule: str = "basic") -> BudgetLedger:
    budget = Guarantee(1, "1e-6" if rule == "zcdp" else 0, unit="user", neighbours="add-remove")
    book = BudgetLedger.create(path, budget, rule, "checked")
    for i in range(spends):
        book.spend(TINY, f"release {i}", f"id-{i}")
    return book


def checkpoints(path: Path) -> list[dict[str, Any]]:
    return [entry[1] for entry in entries(path) if entry[0] == "checkpoint"]


def digest(text: object) -> str:
    return sha256(str(text).encode()).hexdigest()


def without(path: Path, target: Path) -> Path:
    """The same ledger without checkpoints, as it was made before there were any."""
    forge(target, [entry for entry in entries(path) if entry[0] != "checkpoint"])
    return target


@pytest.fixture
def lines_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of all lines that are read one by one."""
    kinds: list[str] = []
    take = records.LedgerState.take

    def counted(self: Any, entry: Any, *where: Any) -> None:
        kinds.append(entry[0])
        take(self, entry, *where)

    monkeypatch.setattr(records.LedgerState, "take", counted)
    return kinds


# The same ledger, sooner


@pytest.mark.parametrize("rule", ["basic", "zcdp"])
@pytest.mark.parametrize("spends", [0, 1, EVERY - 1, EVERY, EVERY + 1, 2 * EVERY, 2 * EVERY + 1, 33])
def test_a_ledger_with_checkpoints_says_what_it_says_without(tmp_path: Path, rule: str, spends: int) -> None:
    path = tmp_path / "b.db"
    made(path, spends, rule)
    assert len(checkpoints(path)) == max(0, spends - 1) // EVERY
    with BudgetLedger.open(path) as book, BudgetLedger.open(without(path, tmp_path / "old.db")) as old:
        assert book.remaining() == old.remaining()
        assert book.head() == old.head() == book.verify() == old.verify()
        assert book.history() == old.history()
        assert book.export_json() == old.export_json()
        assert len(book.history()) == spends


def test_opening_and_spending_read_no_more_than_what_follows_the_last_checkpoint(
    tmp_path: Path, lines_read: list[str]
) -> None:
    path = tmp_path / "b.db"
    made(path, 203)
    lines_read.clear()
    with BudgetLedger.open(path) as book:
        assert book.remaining().epsilon == 1 - Fraction(203, 1000)
        assert lines_read == ["spend"] * 3
        with pytest.raises(DuplicateSpend):
            book.spend(TINY, "again", "id-0")
        book.spend(TINY, "new", "id-203")
        assert lines_read == ["spend"] * 4
        book.verify()
        assert len(lines_read) == 4 + 1 + 204


def test_a_ledger_made_before_there_were_checkpoints_gets_one_with_the_next_spend(
    tmp_path: Path, lines_read: list[str]
) -> None:
    made(tmp_path / "b.db", 3 * EVERY)
    path = without(tmp_path / "b.db", tmp_path / "old.db")
    with BudgetLedger.open(path) as book:
        assert book.remaining().epsilon == 1 - Fraction(15, 1000)
        assert checkpoints(path) == []  # reading changes nothing
        book.spend(TINY, "x", "new")
        with pytest.raises(DuplicateSpend):
            book.spend(TINY, "x", "id-3")
    assert [c["entries"] for c in checkpoints(path)] == [15]
    lines_read.clear()
    with BudgetLedger.open(path) as book:
        assert lines_read == ["spend"]
        assert len(book.history()) == 16
        book.verify()


def test_the_budget_ends_where_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    made(path, 20)
    large = Guarantee("0.098", unit="user", neighbours="add-remove")
    for i in range(10):
        with BudgetLedger.open(path) as book:
            book.spend(large, "x", f"last-{i}")
    with BudgetLedger.open(path) as book:
        with pytest.raises(BudgetExhausted):
            book.spend(TINY, "x")
        assert book.remaining().epsilon == 0
        book.verify()


# Duplicates, exactly


def test_no_id_is_taken_twice_and_none_is_refused_that_is_new(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    chance = random.Random(5)
    books = [made(path, 0), BudgetLedger.open(path)]
    used: set[str] = set()
    for i in range(300):
        if i % 40 == 0:
            books[i // 40 % 2] = BudgetLedger.open(path)  # has read nothing but the end
        name = f"{chance.randrange(200)}"
        book = chance.choice(books)
        if name in used:
            with pytest.raises(DuplicateSpend):
                book.spend(TINY, "x", name)
        else:
            book.spend(TINY, "x", name)
            used.add(name)
    assert {spend.spend_id for spend in books[0].history()} == used
    books[1].verify()


@pytest.mark.parametrize("keys", [1, 3])
def test_ids_whose_keys_collide_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: int) -> None:
    """A key has 64 bits, so somebody can choose ids that share one: here nearly all do."""
    key_of = records.key_of
    monkeypatch.setattr(records, "key_of", lambda *names: key_of(*names) % keys)
    monkeypatch.setattr(records.Session, "key", lambda self, digest: int(digest, 16) % keys)
    path = tmp_path / "b.db"
    made(path, 33)
    with BudgetLedger.open(path) as book:
        for i in range(33):
            with pytest.raises(DuplicateSpend):
                book.spend(TINY, "x", f"id-{i}")
        book.spend(TINY, "x", "new")
        book.spend(TINY, "session", "s")
        book.queries.open("s", 50)
        for i in range(30):
            assert [a.fresh for a in book.queries.answer("s", [digest(i)], lambda i, n: str(n))] == [True]
    with BudgetLedger.open(path) as book:
        found = book.queries.answer("s", [digest(i) for i in range(30)], lambda i, n: "another")
        assert [(a.number, a.answer, a.fresh) for a in found] == [(i + 1, str(i + 1), False) for i in range(30)]
        book.verify()


def test_many_keys_are_found_and_no_others() -> None:
    chance = random.Random(1)
    names = [f"{chance.getrandbits(64):x}" for _ in range(20_000)]
    found, parts = records.Index(), [names[i : i + 1024] for i in range(0, len(names), 1024)]
    filled = records.Index()
    columns = [
        records.unpacked(
            records.packed(records.Entry(records.key_of(n), 7 * i, i + 1, i << 28 | 5) for i, n in enumerate(part))
        )
        for part in parts
    ]
    for part in columns:
        found.add(part)
    filled.fill(columns, len(names))
    for each in (found, filled):
        for i in chance.sample(range(len(names)), 500):
            key, inside = records.key_of(names[i]), i % 1024
            assert list(each.find(key)) == [records.Entry(key, 7 * inside, inside + 1, inside << 28 | 5)]
        assert not any(list(each.find(records.key_of(f"other {i}"))) for i in range(500))
    with pytest.raises(ValueError):
        records.Index().fill(columns, len(names) - 1)


# Sessions and answers


def asked(path: Path, queries: int, batch: int = 3) -> BudgetLedger:
    book = made(path, 12)
    book.queries.open("id-0", queries)  # paid for before the first checkpoint
    book.queries.open("id-11", 4)
    for i in range(0, queries, batch):
        some = [digest(j) for j in range(i, min(queries, i + batch))]
        book.queries.answer("id-0", some, lambda i, n: f"a{n}", key=f"key-{i % 2}")
    return book


@pytest.mark.parametrize("batch", [1, 3, 17])
def test_sessions_and_answers_go_on_behind_checkpoints(tmp_path: Path, batch: int) -> None:
    path = tmp_path / "b.db"
    asked(path, 50, batch)
    with BudgetLedger.open(path) as book, BudgetLedger.open(without(path, tmp_path / "old.db")) as old:
        for read in (
            lambda q: [q.used("id-0"), q.used("id-0", "key-0"), q.used("id-0", "key-1"), q.used("id-0", "nobody")],
            lambda q: [q.limit("id-0"), q.limit("id-11"), q.used("id-11"), q.head("id-0"), q.head("id-11")],
            lambda q: [q.history("id-0"), q.history("id-0", 10)],
        ):
            assert read(book.queries) == read(old.queries)
        found = book.queries.answer("id-0", [digest(i) for i in range(50)], lambda i, n: "drawn again")
        assert [(a.number, a.answer, a.fresh) for a in found] == [(i + 1, f"a{i + 1}", False) for i in range(50)]
        with pytest.raises(BudgetExhausted):
            book.queries.answer("id-0", [digest("one more")], lambda i, n: "1")
        with pytest.raises(DuplicateSpend):
            book.queries.open("id-0", 5)
        with pytest.raises(LedgerMismatch):
            book.queries.open("nobody", 5)
        assert book.queries.answer("id-11", [digest(0)], lambda i, n: "mine")[0].fresh  # of another session
        published = old.queries.head("id-0")
        assert book.verify(published) == book.head()


def test_a_session_paid_for_long_ago_has_the_hash_it_would_have_had_then(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    made(path, 43)
    for spend in ("id-0", "id-4", "id-5", "id-21", "id-42"):
        with BudgetLedger.open(path) as book:
            book.queries.open(spend, 3)
    with BudgetLedger.open(without(path, tmp_path / "old.db")) as old, BudgetLedger.open(path) as book:
        assert [old.queries.head(s) for s in ("id-4", "id-21")] == [book.queries.head(s) for s in ("id-4", "id-21")]
        book.verify()


def test_two_processes_that_write_checkpoints_in_turn_agree(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    first = made(path, 0)
    second = BudgetLedger.open(path)
    for i in range(40):
        (first if i % 3 else second).spend(TINY, "x", str(i))
    assert first.history() == second.history()
    assert first.head() == second.verify()
    assert len(checkpoints(path)) == 7


# Forged and damaged checkpoints


Forger = Callable[[dict[str, Any]], dict[str, Any]]
_FORGED: dict[str, Forger] = {
    "a-smaller-sum": lambda c: c | {"spend": [*c["spend"][:6], "1/1000", *c["spend"][7:]]},
    "another-hash": lambda c: c | {"spend": [*c["spend"][:-1], "0" * 64]},
    "nothing-spent": lambda c: c | {"spend": None},
    "fewer-entries": lambda c: c | {"entries": c["entries"] - 1},
    "no-index": lambda c: c | {"index": ""},
    "another-index": lambda c: c | {"index": base64.b64encode(bytes(24 * EVERY)).decode()},
    "no-checkpoint-before": lambda c: c | {"previous": None},
    "lines": lambda c: c | {"lines": c["lines"] - 1},
    "a-session": lambda c: c | {"sessions": {"id-0": [9, "x", "0" * 64, "0" * 64, 0, {}, {}]}},
    "more": lambda c: c | {"more": 1},
}


def forged_checkpoint(path: Path, change: Forger) -> None:
    """Another last checkpoint, with everything behind it and the seal made to fit: somebody rewrites the file."""
    head, data, number, last = "0" * 64, b"", 0, (0, 0)
    found = entries(path)
    final = max(i for i, entry in enumerate(found) if entry[0] == "checkpoint")
    for i, entry in enumerate(found):
        if i == final:
            entry = ["checkpoint", change(dict(entry[1]))]
        head, line = as_line(head, entry)
        if entry[0] == "checkpoint":
            last = START + len(data), START + len(data) + len(line)
        data, number = data + line, number + 1
    path.write_bytes(bytes(Seal(number, START + len(data), head, last)) + data)


@pytest.mark.parametrize("kind", _FORGED)
def test_verify_finds_every_forged_checkpoint(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "b.db"
    made(path, 23)
    forged_checkpoint(path, _FORGED[kind])
    with pytest.raises(LedgerCorrupt), BudgetLedger.open(path) as book:
        book.verify()
    with pytest.raises(LedgerCorrupt), BudgetLedger.open(path) as book:
        book.history()


def test_a_forged_checkpoint_needs_a_new_seal_and_every_line_behind_it(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    made(path, 23)
    whole = path.read_bytes()
    at, end = read_seal(whole[:START]).checkpoint
    body = json.loads(whole[at + 65 : end])
    before = body[1]["before"]
    body[1]["spend"][6] = "1/100"
    line = as_line(before, body)[1].ljust(end - at - 1)[: end - at - 1] + b"\n"
    path.write_bytes(whole[:at] + line + whole[end:])
    with pytest.raises(LedgerCorrupt):
        BudgetLedger.open(path)


def test_every_changed_byte_is_refused_when_it_is_read_and_always_by_verify(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    made(path, 17)
    whole = path.read_bytes()
    at, _ = read_seal(whole[:START]).checkpoint
    settings = whole.index(b"\n", START)
    chance = random.Random(3)
    for place in [*range(150), *chance.sample(range(START, at), 150), *range(at, len(whole), 3)]:
        bad = bytearray(whole)
        bad[place] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(bad))
        if place <= settings or place >= at:
            with pytest.raises(LedgerCorrupt):
                BudgetLedger.open(path, timeout=0)
        else:
            with BudgetLedger.open(path, timeout=0) as book:
                assert book.remaining().epsilon == 1 - Fraction(17, 1000)  # never a smaller total
                with pytest.raises(LedgerCorrupt):
                    book.verify()
                with pytest.raises(LedgerCorrupt):
                    book.history()


def test_damage_in_what_is_no_longer_read_at_the_start_takes_no_id_twice(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    made(path, 17)
    whole = path.read_bytes()
    chance = random.Random(4)
    end = read_seal(whole[:START]).checkpoint[1]
    for place in chance.sample(range(START + 400, end), 200):
        bad = bytearray(whole)
        bad[place] ^= 1 << chance.randrange(8)
        path.write_bytes(bytes(bad))
        name = f"id-{chance.randrange(15)}"
        with pytest.raises((DuplicateSpend, LedgerCorrupt)), BudgetLedger.open(path, timeout=0) as book:
            book.spend(TINY, "x", name)
    path.write_bytes(whole)


@pytest.mark.parametrize("seen_at", [1, 4, 5, 6, 9, 14, 15, 16])
def test_a_ledger_seen_before_is_told_from_another_one_at_any_later_checkpoint(tmp_path: Path, seen_at: int) -> None:
    path, other = tmp_path / "b.db", tmp_path / "other.db"
    made(path, seen_at - 1)
    shutil.copy(path, other)
    with BudgetLedger.open(path) as writer, BudgetLedger.open(other) as fork:
        writer.spend(TINY, "x")
        early = BudgetLedger.open(path)
        for _ in range(17):
            writer.spend(TINY, "later")
            fork.spend(TINY, "another history")
    late, whole = BudgetLedger.open(path), path.read_bytes()
    path.write_bytes(other.read_bytes())  # the same file, with a history that is not the one that was seen
    for book in (early, late) * 2:
        book._file._seen = None  # as after a failure: it is read anew, from a checkpoint
        with pytest.raises(LedgerCorrupt, match="does not continue"):
            book.remaining()
    path.write_bytes(whole)
    for book in (early, late):
        assert book.remaining().epsilon == 1 - Fraction(seen_at + 17, 1000)


# Kills


def test_a_kill_at_every_byte_of_a_checkpoint_leaves_the_ledger_before_it_or_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # the disk is not asked here
    path, target = tmp_path / "b.db", tmp_path / "torn.db"
    book = made(path, EVERY)
    before = path.read_bytes()
    book.spend(TINY, "x", "next")
    after = path.read_bytes()
    assert len(checkpoints(path)) == 1
    middle = read_seal(after[:START]).checkpoint[1]
    for cut in range(len(before), len(after) + 1):
        target.write_bytes(before[:START] + after[START:cut])
        with BudgetLedger.open(target) as torn:
            assert torn.remaining().epsilon == 1 - Fraction(EVERY + (cut == len(after)), 1000)
            kept = len(before) if cut < middle else middle if cut < len(after) else len(after)
            assert target.stat().st_size == kept
        if cut % 50 == 0 or abs(cut - middle) < 3 or cut > len(after) - 3:
            with BudgetLedger.open(target) as torn:
                torn.spend(TINY, "x", "goes on")
                with pytest.raises(DuplicateSpend):
                    torn.spend(TINY, "x", "id-0")
                torn.verify()
            assert len(checkpoints(target)) == 1


SPENDER = """
import os, sys
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger, file
file.CHECKPOINT_EVERY = 3
book = BudgetLedger.open(sys.argv[1])
for i in range(10**6):
    name = f"{sys.argv[2]}-{i}"
    book.spend(Guarantee("1/100000", unit="user", neighbours="add-remove"), "x", name)
    os.write(1, (name + "\\n").encode())
"""


def test_killed_spenders_lose_nothing_behind_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    made(path, 4)
    told: set[str] = set()
    for run in range(5):
        with subprocess.Popen([sys.executable, "-c", SPENDER, str(path), str(run)], stdout=subprocess.PIPE) as spender:
            assert spender.stdout is not None
            for _ in range(4 + run):
                told.add(spender.stdout.readline().decode().strip())
            spender.send_signal(signal.SIGKILL)
            told |= {line.decode().strip() for line in spender.stdout}
    with BudgetLedger.open(path) as book:
        ids = [spend.spend_id for spend in book.history()]
        assert told <= set(ids)
        assert len(ids) == len(set(ids)) <= 4 + len(told) + 5
        book.verify()
        for name in told:
            with pytest.raises(DuplicateSpend):
                book.spend(TINY, "x", name)


# Copies


def test_a_copy_made_at_any_moment_goes_on(tmp_path: Path) -> None:
    """``cp`` reads the seal first: it may be lines and checkpoints behind what follows."""
    path, copy = tmp_path / "b.db", tmp_path / "copy.db"
    book = made(path, 3)
    for behind in range(2, 14):
        seal = path.read_bytes()[:START]
        for _ in range(behind):
            book.spend(TINY, "x")
        copy.write_bytes(seal + path.read_bytes()[START:])
        with BudgetLedger.open(copy) as other:
            assert other.history() == book.history()
            other.spend(TINY, "goes on")
            other.verify()
        copy.unlink()


def test_the_real_distance_between_checkpoints_is_public() -> None:
    source = Path(lines.__file__).read_text()
    assert "CHECKPOINT_EVERY = 1024" in source
