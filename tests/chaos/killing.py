"""Kills at a seeded instruction: while a ledger is made, brought over, spent from and asked, and while keys, results,
sessions, messages and spilled rows are written.

``python killing.py KIND FOLDER SEED TRIES`` is one run of attacks; it prints one line of JSON.
"""

from __future__ import annotations

import csv
import hashlib
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path[:0] = [
    str(Path(__file__).parent),
    *(str(Path(__file__).parents[1] / name) for name in ("ground", "front", "protocols")),
]

from harness import REFUSED, Counts, forked, killed_at, launched, length, picks, publish, quiet, waited  # noqa: E402

from privpac.guarantee import Guarantee  # noqa: E402
from privpac.ledger import BudgetLedger  # noqa: E402

LEDGER = ("ledger/", "privpac/files.py")


def user(epsilon: object) -> Guarantee:
    return Guarantee(epsilon, unit="user", neighbours="add-remove")  # type: ignore[arg-type]


ONE = user(1)


def names_paid(path: Path) -> list[str]:
    with BudgetLedger.open(path) as book:
        book.verify()
        return [row.spend_id for row in book.history()]


class Said:
    """Lines that children got out; each is written at once, and what is written stays."""

    def __init__(self, path: Path) -> None:
        self._path, self._handle = path, os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def say(self, *words: str) -> None:
        os.write(self._handle, (" ".join(words) + "\n").encode())

    def lines(self) -> list[list[str]]:
        return [line.split() for line in self._path.read_text().splitlines()]


# Ledgers


def spending(folder: Path, seed: int, tries: int) -> Counts:
    """One child is killed while another spends from the same ledger; the budget ends before the attacks do."""
    counts, path, said = Counts(), folder / "budget.db", Said(folder / "said")
    limit = tries
    BudgetLedger.create(path, user(limit), dataset="chaos").close()
    BudgetLedger.create(folder / "dry.db", user(9), dataset="chaos").close()

    def spend(name: str, where: Path = path) -> None:
        with BudgetLedger.open(where, timeout=60) as book:
            book.spend(ONE, "chaos", name).use()
        if where == path:
            said.say(name)

    steps = length(lambda: spend("dry", folder / "dry.db"), LEDGER, instructions=True)
    for i, step in enumerate(picks(seed, steps, tries)):
        name = f"k{i}"
        victim = launched(killed_at(step, lambda: spend(name), LEDGER, instructions=True))  # noqa: B023
        codes = forked(lambda: spend(f"o{i}")), waited(victim)  # noqa: B023
        counts.tries += 1
        counts.check(
            codes[0] in (0, REFUSED) and codes[1] in (0, -9, REFUSED), "crashes", f"try {i}, step {step}: exit {codes}"
        )
        if i % 10 == 9 or i == tries - 1:
            _compare(counts, path, {line[0] for line in said.lines()}, limit, f"try {i}")
    counts.check(len(names_paid(path)) == limit, "lost", "the budget was not used up")
    return counts


def checkpoints(folder: Path, seed: int, tries: int) -> Counts:
    """Killed while checkpoints are written; an id that was acknowledged is never taken again, a new one always."""
    from privpac.errors import DuplicateSpend
    from privpac.ledger import file as lines

    lines.CHECKPOINT_EVERY = 2
    counts, path, said = Counts(), folder / "budget.db", Said(folder / "said")
    BudgetLedger.create(path, user(10 * tries), dataset="chaos").close()

    def spend(*names: str) -> None:
        with BudgetLedger.open(path, timeout=60) as book:
            for name in names:
                book.spend(ONE, "chaos", name).use()
                said.say(name)

    spend("first", "second", "third")
    steps = length(lambda: spend("dry1", "dry2"), LEDGER, instructions=True)
    for i, step in enumerate(picks(seed, steps, tries)):
        code = forked(killed_at(step, lambda: spend(f"k{i}", f"l{i}"), LEDGER, instructions=True))  # noqa: B023
        counts.tries += 1
        counts.check(code in (0, -9), "crashes", f"try {i}, step {step}: exit {code}")
        with counts.no_crash(f"try {i}"), BudgetLedger.open(path) as book:
            book.spend(ONE, "new", f"new{i}")
            for name in ("first", said.lines()[-1][0]):
                try:
                    book.spend(ONE, "again", name)
                    counts.bad("unpaid", f"try {i}: {name} was taken twice")
                except DuplicateSpend:
                    pass
    _compare(counts, path, {line[0] for line in said.lines()}, 10 * tries, "at the end")
    return counts


def tails(folder: Path, seed: int, tries: int) -> Counts:
    """The seal is behind, as a power loss leaves it, and what follows is damaged, cut or whole: no smaller total."""
    from privpac.errors import LedgerCorrupt
    from privpac.ledger.file import START

    counts, path, place = Counts(), folder / "budget.db", folder / "damaged.db"
    chance = random.Random(seed)
    with BudgetLedger.create(path, user(9), dataset="chaos") as book:
        for i in range(3):
            book.spend(ONE, "chaos", f"sealed {i}")
        sealed = path.read_bytes()
        for i in range(3):
            book.spend(ONE, "chaos", f"acknowledged {i}")
    whole = path.read_bytes()
    for i in range(tries):
        bad = bytearray(sealed[:START] + whole[START:])
        cut = i % 4 == 0
        at = chance.randrange(len(sealed), len(whole))
        if cut:  # what a kill leaves of the last line: never acknowledged
            del bad[max(at, whole.rindex(b"\n", 0, -1) + 1) :]
        elif i % 4 == 1:
            bad[at : at + 16] = chance.randbytes(len(bad[at : at + 16]))
        else:
            bad[at] = chance.choice([byte for byte in (0, 10, chance.randrange(256)) if byte != bad[at]])
        place.write_bytes(bytes(bad))
        counts.tries += 1
        try:
            with BudgetLedger.open(place) as book:
                spent = len(book.history())
            counts.check(spent >= (5 if cut else 6), "lost", f"try {i}: {spent} of 6 spends are left")
        except LedgerCorrupt:
            counts.check(not cut, "torn", f"try {i}: what a kill left is refused")
        except Exception as error:
            counts.bad("crashes", f"try {i}: {type(error).__name__}: {error}")
    return counts


def readers(folder: Path, seed: int, tries: int) -> Counts:
    """Processes that only read hold every kind of lock, and come and go, while two others spend: nobody waits for
    them."""
    import fcntl
    import struct

    counts, path, said = Counts(), folder / "budget.db", Said(folder / "said")
    chance, limit = random.Random(seed), 4 * tries
    BudgetLedger.create(path, user(limit), dataset="chaos").close()
    path.chmod(0o644)

    def hold(kind: int) -> None:
        handle = os.open(path, os.O_RDONLY)
        if kind == 0:
            fcntl.flock(handle, fcntl.LOCK_EX)
        else:
            command = fcntl.F_SETLKW if kind == 1 else fcntl.F_OFD_SETLKW
            fcntl.fcntl(handle, command, struct.pack("@hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0))
        time.sleep(60)

    def spend(name: str) -> None:
        with BudgetLedger.open(path, timeout=20) as book:
            for i in range(2):
                book.spend(ONE, "chaos", f"{name}.{i}").use()
                said.say(f"{name}.{i}")

    for i in range(tries):
        kind = chance.randrange(3)
        holder = launched(lambda: hold(kind))  # noqa: B023
        spenders = [launched(lambda: spend(f"{i}.{n}")) for n in range(2)]  # noqa: B023
        codes = [waited(spenders[0])]
        if chance.random() < 0.5:
            os.kill(holder, 9)
        codes.append(waited(spenders[1]))
        with suppress(ProcessLookupError):
            os.kill(holder, 9)
        waited(holder)
        counts.tries += 1
        counts.check(codes == [0, 0], "crashes", f"try {i}: spenders ended with {codes}")
    _compare(counts, path, {line[0] for line in said.lines()}, limit, "at the end")
    counts.check(len(names_paid(path)) == limit, "lost", "not everything was spent")
    return counts


def _compare(counts: Counts, path: Path, acknowledged: set[str], limit: int, note: str) -> None:
    with counts.no_crash(note):
        paid = names_paid(path)
        counts.check(
            acknowledged <= set(paid),
            "unpaid",
            f"{note}: acknowledged but not recorded {sorted(acknowledged - set(paid))[:3]}",
        )
        counts.check(len(paid) <= limit, "unpaid", f"{note}: {len(paid)} spends on a budget of {limit}")
        shutil.copy(path, path.with_name("alone.db"))
        counts.check(names_paid(path.with_name("alone.db")) == paid, "lost", f"{note}: a copy has other spends")


def making(folder: Path, seed: int, tries: int) -> Counts:
    """A ledger that is being made is not there, or can be used."""
    counts = Counts()

    def make(place: Path) -> None:
        BudgetLedger.create(place, user(2), dataset="chaos").close()

    (folder / "dry").mkdir()
    inside = ("ledger/file.py",)
    steps = length(lambda: make(folder / "dry" / "b.db"), inside)
    for i, step in enumerate(picks(seed, steps, tries)):
        place = folder / str(i) / "b.db"
        place.parent.mkdir()
        code = forked(killed_at(step, lambda: make(place), inside))  # noqa: B023
        counts.tries += 1
        counts.check(code in (0, -9), "crashes", f"step {step}: exit {code}")
        with counts.no_crash(f"step {step}"):
            if not place.exists():
                make(place)
            with BudgetLedger.open(place) as book:
                book.spend(ONE, "after")
            counts.check(len(names_paid(place)) == 1, "lost", f"step {step}")
        counts.check(place.stat().st_nlink == 1, "torn", f"step {step}: two names")
    return counts


def answering(folder: Path, seed: int, tries: int) -> Counts:
    """Answers that left are recorded, and a question asked again has the answer it had."""
    counts, path, said = Counts(), folder / "budget.db", Said(folder / "said")
    limit = 2 * tries
    with BudgetLedger.create(path, user(2), dataset="chaos") as book:
        book.spend(ONE, "session", "s")
        book.queries.open("s", limit)

    def answer(who: str, numbers: list[int]) -> None:
        digests = [hashlib.sha256(str(n).encode()).hexdigest() for n in numbers]
        with BudgetLedger.open(path, timeout=60) as book:
            found = book.queries.answer("s", digests, lambda i, number: f"{who}.{i}", key="k")
        for n, given in zip(numbers, found):
            said.say(str(n), given.answer)

    chance = random.Random(seed)
    steps = length(lambda: answer("dry", [0, 1, 2]), LEDGER, instructions=True)
    for i, step in enumerate(picks(seed, steps, tries)):
        asked = [[chance.randrange(4 * tries) for _ in range(3)] for _ in range(2)]
        victim = launched(killed_at(step, lambda: answer(f"k{i}", asked[0]), LEDGER, instructions=True))  # noqa: B023
        codes = forked(lambda: answer(f"o{i}", asked[1])), waited(victim)  # noqa: B023
        counts.tries += 1
        counts.check(codes[0] in (0, REFUSED) and codes[1] in (0, -9, REFUSED), "crashes", f"step {step}: exit {codes}")
    first: dict[str, str] = {}
    for n, text in said.lines():
        counts.check(first.setdefault(n, text) == text, "unpaid", f"question {n} had two answers")
    with counts.no_crash("reading"), BudgetLedger.open(path) as book:
        book.verify()
        used = book.queries.used("s")
        counts.check(
            len(first) <= used <= limit, "unpaid", f"{len(first)} answers left, {used} recorded, {limit} paid for"
        )
        for n, text in first.items():
            (again,) = book.queries.answer(
                "s", [hashlib.sha256(n.encode()).hexdigest()], lambda i, number: "new", share=0, key="r"
            )
            counts.check(again.answer == text, "lost", f"question {n}")
    return counts


# Keys


def keys(folder: Path, seed: int, tries: int) -> Counts:
    """Keys that were shown work, keys whose revocation was acknowledged do not, and the file can always be read."""
    from privpac.serve.keys import KeyStore

    counts, said = Counts(), Said(folder / "said")
    store = KeyStore(folder / "keys")
    kept, kept_token = store.new("stays")

    def change(i: int, place: Path = folder / "keys") -> None:
        mine = KeyStore(place)
        key, token = mine.new(f"n{i}")
        said.say("new", key.id, token)
        if i % 2:
            mine.revoke(key.id)
            said.say("revoked", key.id, token)

    inside = ("serve/keys.py", "privpac/files.py")
    steps = length(lambda: change(1, folder / "dry"), inside, instructions=True)
    said = Said(folder / "said 2")
    for i, step in enumerate(picks(seed, steps, tries)):
        code = forked(killed_at(step, lambda: change(2 * i + 1), inside, instructions=True))  # noqa: B023
        counts.tries += 1
        counts.check(code in (0, -9), "crashes", f"step {step}: exit {code}")
        with counts.no_crash(f"step {step}"):
            counts.check(KeyStore(folder / "keys").check(kept_token) == kept, "lost", f"step {step}: the first key")
    with counts.no_crash("reading"):
        revoked = {line[1] for line in said.lines() if line[0] == "revoked"}
        for what, identity, token in said.lines():
            if what == "revoked":
                counts.check(store.check(token) is None, "unpaid", f"revoked key {identity} works")
            elif identity not in revoked:
                found = {key.id: key for key in store.all()}
                counts.check(identity in found, "lost", f"key {identity}")
        store.new("goes on")
    return counts


# Results


TABLE = ["--user", "who", "--label", "ill", "--feature", "age=0:99"]


def _table(folder: Path) -> Path:
    rows = "".join(f"u{i % 40},{(7 * i) % 100},{int((7 * i) % 100 > 50)}\n" for i in range(80))
    (folder / "t.csv").write_text("who,age,ill\n" + rows)
    return folder / "t.csv"


def saving(folder: Path, seed: int, tries: int) -> Counts:
    """Spend, draw, save, report and show in the command's own order: of what was shown or saved there is one whole
    copy."""
    from privpac.cli.deliver import deliver
    from privpac.ledger import release
    from privpac.report.pages import write_page
    from privpac.result import Released

    counts = Counts()
    page = b"<html>" + b"x" * 20_000 + b"</html>"

    class Learner:
        guarantee = ONE

        def bind(self, data: object) -> object:
            return data

        def draw(self, bound: object, rng: object) -> Released:
            return Released(17, ONE, {"filler": "x" * 3000}, learner="chaos")

    def report(path: Path) -> None:
        write_page(page, path)

    def learn(place: Path) -> None:
        os.chdir(place)
        quiet(place / "said")
        with BudgetLedger.open("b.db") as book:
            found = release(Learner(), None, ledger=book)
        deliver(
            found,
            "rule",
            str(found),
            {"rule": (Path("rule.json"), found.save), "report": (Path("page.html"), report)},
            Path("b.db"),
        )

    def start(name: str) -> Path:
        place = folder / name
        place.mkdir()
        BudgetLedger.create(place / "b.db", user(5), dataset="chaos").close()
        for old in ("rule.json", "page.html"):
            (place / old).write_text("old")
        return place

    inside = (
        "ledger/file.py",
        "ledger/releases.py",
        "privpac/result.py",
        "privpac/files.py",
        "cli/deliver.py",
        "report/pages.py",
    )
    steps = length(lambda: learn(start("dry")), inside)
    for i, step in enumerate(picks(seed, steps, tries)):
        place = start(str(i))
        code = forked(killed_at(step, lambda: learn(place), inside))  # noqa: B023
        counts.tries += 1
        said = (place / "said").read_text() if (place / "said").exists() else ""
        counts.check(code in (0, -9), "crashes", f"step {step}: exit {code}: {said[-200:]}")
        _delivered(counts, place, said, f"step {step}", Released.load, page)
    return counts


def _delivered(
    counts: Counts, place: Path, said: str, note: str, load: Callable[[Path], object], page: bytes | None
) -> None:
    found, shown = (
        (place / name).read_bytes() if (place / name).exists() else b"old" for name in ("rule.json", "page.html")
    )
    spares = list(place.glob("b.db.*.result.json"))
    with counts.no_crash(note):
        paid = len(names_paid(place / "b.db"))
        results = [load(path) for path in (*spares, *([place / "rule.json"] if found != b"old" else []))]
        left = bool(results) or shown != b"old" or bool(said)
        counts.check(paid == 1 or not left, "unpaid", f"{note}: {paid} spends")
        counts.check(results or not left, "lost", f"{note}: shown or saved in part, and no whole copy")
        counts.check(shown in (b"old", page), "torn", f"{note}: page")
        counts.check(
            all(path.stat().st_mode & 0o777 == 0o600 for path in spares), "torn", f"{note}: a spare others may read"
        )


def commands(folder: Path, seed: int, tries: int) -> Counts:
    """``privpac learn`` as people start it, killed from outside at a moment between its start and its end."""
    import privpac as pp

    counts, chance, table = Counts(), random.Random(seed), _table(folder)
    code = "from privpac.cli.app import main; main()"
    longest = 0.0
    for i in range(tries):
        place = folder / str(i)
        place.mkdir()
        BudgetLedger.create(place / "b.db", user(5), dataset="chaos").close()
        words = ["learn", str(table), *TABLE, "--epsilon", "1", "--ledger", "b.db", "--out", "rule.json"]
        with open(place / "said", "wb") as said:
            begun = time.monotonic()
            process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", code, *words], cwd=place, stdout=said, stderr=said
            )
            # The first one shows how long it takes; most of what matters is at the end.
            with suppress(subprocess.TimeoutExpired):
                process.wait(None if i == 0 else longest * chance.uniform(0.6, 1.05))
            process.kill()
            ended = process.wait()
            longest = longest or time.monotonic() - begun
        counts.tries += 1
        text = (place / "said").read_text()
        counts.check(ended in (0, -9), "crashes", f"exit {ended}: {text[-200:]}")
        _delivered(counts, place, text, f"command {i}", pp.load, None)
    return counts


def sessions(folder: Path, seed: int, tries: int) -> Counts:
    """A session and the key that encrypts it are not there, or whole; one that is there has all its answers."""
    from service_site import learned

    from privpac.serve.session_file import load_session, new_secret, operator_secret, save_session

    counts = Counts()
    made, book = learned(folder, 5)

    def fit(place: Path) -> None:
        new_secret(place / "s.key")
        save_session(made, place / "s.ppm", operator_secret(place / "s.key"))
        (place / "done").touch()

    inside = ("privpac/files.py", "serve/session_file.py")
    (folder / "dry").mkdir()
    steps = length(lambda: fit(folder / "dry"), inside)
    for i, step in enumerate(picks(seed, steps, tries)):
        place, note = folder / str(i), f"step {step}"
        place.mkdir()
        code = forked(killed_at(step, lambda: fit(place), inside))  # noqa: B023
        counts.tries += 1
        counts.check(code in (0, -9), "crashes", f"{note}: exit {code}")
        there = [(place / name).exists() for name in ("s.key", "s.ppm", "done")]
        counts.check(there == sorted(there, reverse=True), "lost", f"{note}: {there}")
        with counts.no_crash(note):
            if there[0]:
                secret = operator_secret(place / "s.key")
            if there[1]:
                counts.check(load_session(place / "s.ppm", secret, book).remaining() == 5, "lost", note)
    book.close()
    return counts


# Messages


def messages(folder: Path, seed: int, tries: int) -> Counts:
    """A device whose client is killed sends, when it starts again, what it sent before; collected and released bytes
    are whole."""
    import runs

    from privpac.device.client import main
    from privpac.device.wire import unbundle
    from privpac.protocols.collect import Collector
    from privpac.protocols.files import once

    counts = Counts()
    manifest = runs.run("local").manifest
    (folder / "run.json").write_bytes(manifest.signed(runs.COORDINATOR).published())
    (folder / "coordinator.pub").write_bytes(runs.COORDINATOR.write()[1])
    pinned = ["--coordinator-key", str(folder / "coordinator.pub")]
    with open(folder / "mine.csv", "w", newline="") as file:
        csv.writer(file).writerows([["age", "ill"], *([a, int(a >= 41)] for a in range(100))])
    taker = Collector.__new__(Collector)

    def act(place: Path) -> None:
        os.chdir(place)
        main(["device", "store", "--person", "ann", "--epsilon", "1", *pinned])  # refused where there is one
        assert main(["send", str(folder / "run.json"), str(folder / "mine.csv"), "sent", "--store", "store"]) == 0
        Collector.__init__(taker, manifest, place / "in")
        taker.server_close()
        status = taker.take("ann", (place / "sent").read_bytes())
        (place / "status").write_text(str(status))
        released = once(place / "in", manifest, lambda: os.urandom(64))
        (place / "released").write_bytes(released)

    inside = tuple(f"protocols/{name}.py" for name in ("client", "collect", "device", "files"))
    inside += ("privpac/files.py",)
    (folder / "dry").mkdir()
    steps = length(lambda: act(folder / "dry"), inside)
    whole = (folder / "dry" / "sent").stat().st_size
    for i, step in enumerate(picks(seed, steps, tries)):
        place, note = folder / str(i), f"step {step}"
        place.mkdir()
        code = forked(killed_at(step, lambda: act(place), inside))  # noqa: B023
        counts.tries += 1
        counts.check(code in (0, -9), "crashes", f"{note}: exit {code}")
        before = {
            name: (place / name).read_bytes() for name in ("sent", "in/ann", "released") if (place / name).exists()
        }
        counts.check(
            all(len(before[n]) == whole for n in ("sent", "in/ann") if n in before), "torn", f"{note}: a cut message"
        )
        counts.check(not (place / "status").exists() or "in/ann" in before, "lost", f"{note}: a submission")
        code = forked(lambda: act(place))  # noqa: B023
        counts.check(code == 0, "crashes", f"{note}: exit {code} when started again")
        with counts.no_crash(note):
            after = {name: (place / name).read_bytes() for name in before}
            counts.check(after == before, "unpaid", f"{note}: something else was sent or released")
            counts.check(len(unbundle((place / "sent").read_bytes())) == 1, "torn", note)
    return counts


# Streams


def streaming(folder: Path, seed: int, tries: int) -> Counts:
    """Rows that a killed process spilled are gone after the next start."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import privpac as pp
    from privpac.data.engines.spill import SpillFolder

    pp.scan, pp.Integers  # noqa: B018  (loaded here, so that no child has to)
    counts = Counts()
    chance = random.Random(seed)
    rows = 4000
    ids = [chance.randrange(600) for _ in range(rows)]

    def write() -> None:
        table = pa.table({"u": ids, "x": [n % 100 for n in range(rows)], "y": [n % 2 for n in range(rows)]})
        pq.write_table(table, folder / "t.parquet", row_group_size=500)

    assert forked(write) == 0
    place = folder / "spill"
    place.mkdir()

    class Count:
        def zero(self) -> int:
            return 0

        def chunk(self, users: pp.UserData) -> int:
            return users.n_records

        def merge(self, a: int, b: int) -> int:
            return a + b

    def stream() -> None:
        declared: dict[str, Any] = {"user": "u", "features": {"x": pp.Integers(0, 99)}, "label": "y"}
        users = pp.scan(folder / "t.parquet", **declared, chunk_rows=800, spill=place, progress=False)
        assert users.fold(Count()) == rows
        del users

    inside = ("data/engines/spill.py", "data/engines/stream.py")
    steps = length(stream, inside)
    counts.check(not os.listdir(place), "torn", "left over without a kill")
    for step in picks(seed, steps, tries):
        code = forked(killed_at(step, stream, inside))
        counts.tries += 1
        counts.check(code in (0, -9), "crashes", f"step {step}: exit {code}")
        for left in place.iterdir():  # as if the next start came a little later
            os.utime(left, (time.time() - 100,) * 2)
        forked(lambda: SpillFolder(place).remove())
        left_over = [str(path.relative_to(place)) for path in place.rglob("*")]
        counts.check(not left_over, "torn", f"step {step}: {left_over[:3]}")
        for path in list(place.iterdir()):
            shutil.rmtree(path)
    return counts


KINDS: dict[str, Callable[[Path, int, int], Counts]] = {
    kind.__name__: kind
    for kind in (spending, checkpoints, tails, readers, making, answering)
    + (keys, saving, commands, sessions, messages, streaming)
}


if __name__ == "__main__":
    publish(sys.argv[1], KINDS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
