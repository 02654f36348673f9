"""Copies, links, renames and mounts of every file the library owns, while it is in use.

``python naming.py KIND FOLDER SEED TRIES`` is one run of attacks; it prints one line of JSON.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [
    str(Path(__file__).parent),
    *(str(Path(__file__).parents[1] / name) for name in ("ground", "front", "protocols")),
]

from harness import Counts, launched, publish, waited  # noqa: E402
from killing import ONE, Said, names_paid, user  # noqa: E402

from privpac.errors import BudgetExhausted, PrivpacError  # noqa: E402
from privpac.ledger import BudgetLedger  # noqa: E402


def ledgers(folder: Path, seed: int, tries: int) -> Counts:
    """Two processes spend while the file is copied, linked, renamed, swapped for a copy of itself and mounted; one is
    killed at the end."""
    counts, chance = Counts(), random.Random(seed)
    for i in range(tries):
        place = folder / str(i)
        place.mkdir()
        path, said = place / "b.db", Said(place / "said")
        BudgetLedger.create(path, user(30), dataset="chaos").close()

        def spend(who: str, where: Path = path, said: Said = said) -> None:
            with BudgetLedger.open(where, timeout=20) as book:
                for n in range(200):
                    try:
                        book.spend(ONE, "x", f"{who}{n}").use()
                    except BudgetExhausted:
                        return
                    except PrivpacError:
                        continue
                    said.say(f"{who}{n}")

        os.symlink("b.db", place / "also.db")
        pids = [launched(lambda: spend("a")), launched(lambda: spend("b", place / "also.db"))]  # noqa: B023
        copies: list[tuple[Path, set[str]]] = []
        for n in range(25):
            counts.tries += 1
            with counts.no_crash(f"ledger {i}.{n}", OSError):
                _one_name(chance.randrange(5), path, place / f"other{n}", copies, said)
        if chance.randrange(2):
            os.kill(pids[0], signal.SIGKILL)
        codes = [waited(pid) for pid in pids]
        counts.check(set(codes) <= {0, -9, 71}, "crashes", f"ledger {i}: exit {codes}")
        with counts.no_crash(f"ledger {i}"):
            paid, acknowledged = names_paid(path), {line[0] for line in said.lines()}
            counts.check(acknowledged <= set(paid), "unpaid", f"ledger {i}: {sorted(acknowledged - set(paid))[:3]}")
            counts.check(len(paid) <= 30, "unpaid", f"ledger {i}: {len(paid)} spends on a budget of 30")
            for copy, before in copies:
                counts.check(
                    before <= set(names_paid(copy)), "lost", f"ledger {i}: a copy without {sorted(before)[:3]}"
                )
    return counts


def _one_name(what: int, path: Path, other: Path, copies: list[tuple[Path, set[str]]], said: Said) -> None:
    if what == 0:
        before = {line[0] for line in said.lines()}
        shutil.copy(path, other)
        copies.append((other, before))
    elif what == 1:
        os.link(path, other)
        os.unlink(other)
    elif what == 2:
        os.rename(path, other)
        os.rename(other, path)
    elif what == 3:  # read and closed in a process that uses it
        with BudgetLedger.open(path) as book:
            book.remaining()
            path.read_bytes()
            book.verify()
    else:
        other.touch()
        if subprocess.run(["mount", "--bind", str(path), str(other)], capture_output=True, check=False).returncode == 0:
            try:
                with BudgetLedger.open(other) as book:
                    book.verify()
            finally:
                subprocess.run(["umount", str(other)], check=True)


def key_files(folder: Path, seed: int, tries: int) -> Counts:
    """A revocation reaches every name of the file, or is refused; links stay links; no reader sees a part."""
    from privpac.serve.keys import KeyStore

    counts, chance = Counts(), random.Random(seed)
    for i in range(tries):
        place = folder / str(i)
        place.mkdir()
        real = place / "keys"
        store = KeyStore(real)
        key, token = store.new("ann")
        other, what = place / "other", chance.randrange(4)
        if what == 0:
            os.symlink("keys", other)
        elif what == 1:
            os.link(real, other)
        elif what == 2:
            os.rename(real, other)
            os.symlink("other", real)
        else:
            other.touch(0o600)
            if subprocess.run(["mount", "--bind", str(real), str(other)], capture_output=True, check=False).returncode:
                continue
        counts.tries += 1
        readers = [KeyStore(real), KeyStore(other)]
        with counts.no_crash(f"keys {i}"):
            acknowledged = True
            try:
                KeyStore(chance.choice([real, other])).revoke(key.id)
            except PrivpacError:
                acknowledged = False
            works = [_works(reader, token) for reader in readers]
            counts.check(
                not acknowledged or not any(works),
                "unpaid",
                f"keys {i}, names {what}: revoked, and works under {works}",
            )
            counts.check(what == 1 or what == 3 or acknowledged, "lost", f"keys {i}, names {what}: cannot be revoked")
        if what == 3:
            subprocess.run(["umount", str(other)], check=True)
    return counts


def _works(store: Any, token: str) -> bool:
    try:
        return store.check(token) is not None
    except PrivpacError:
        return False


def results(folder: Path, seed: int, tries: int) -> Counts:
    """A rule is saved over and over under many names while others read them: every reading is a whole rule."""
    from privpac.result import Released

    counts = Counts()
    path = folder / "rule.json"
    made = [Released(n, ONE, {"filler": "x" * (4000 * n)}, learner="chaos") for n in (1, 2)]
    made[0].save(path)

    def write() -> None:
        for n in range(10 * tries):
            made[n % 2].save(path)

    pid = launched(write)
    chance = random.Random(seed)
    for n in range(tries):
        other = folder / f"other{n}"
        counts.tries += 1
        with counts.no_crash(f"rule {n}"):
            (os.link, os.symlink, shutil.copy)[chance.randrange(3)](path, other)
            counts.check(Released.load(other).value in (1, 2), "torn", f"rule {n}")
    counts.check(waited(pid) == 0, "crashes", "the writer")
    return counts


def stores(folder: Path, seed: int, tries: int) -> Counts:
    """Clients that race for one store, under its own name and a link, all send the same bytes; so do releases."""
    import runs

    from privpac.device.client import Client, bundle
    from privpac.protocols.files import once

    counts = Counts()
    manifest = runs.run("local").manifest.signed(runs.COORDINATOR)
    rows = [{"age": a, "ill": int(a >= 41)} for a in range(100)]
    for i in range(tries):
        place = folder / str(i)
        runs.store(place / "store", "ann", 1)
        os.symlink("store", place / "link")

        def send(n: int, place: Path = place) -> None:
            sent = Client(manifest).messages(rows, store=place / ("link" if n % 2 else "store"))
            (place / f"sent{n}").write_bytes(bundle(sent))
            (place / f"released{n}").write_bytes(once(place / "store", manifest, lambda: os.urandom(32)))

        pids = [launched(lambda n=n: send(n)) for n in range(4)]
        counts.tries += 1
        counts.check({waited(pid) for pid in pids} == {0}, "crashes", f"store {i}")
        for name in ("sent", "released"):
            found = {path.read_bytes() for path in place.glob(f"{name}*")}
            counts.check(len(found) == 1, "unpaid", f"store {i}: {len(found)} different {name}")
    return counts


def sessions(folder: Path, seed: int, tries: int) -> Counts:
    """Copies of a session, under any name and of any age, share the one count that the ledger keeps."""
    from service_site import SECRET, learned

    from privpac.serve.session_file import load_session, save_session

    counts, chance = Counts(), random.Random(seed)
    session, ledger = learned(folder, 3 * tries)
    save_session(session, folder / "s.ppm", SECRET)
    session.predict([[0.5]])
    for i in range(tries):
        other = folder / f"s{i}.ppm"
        (os.link, os.symlink, shutil.copy, lambda a, b: save_session(session, b, SECRET))[chance.randrange(4)](
            folder / "s.ppm", other
        )
        counts.tries += 1
        with counts.no_crash(f"session {i}"), BudgetLedger.open(folder / "budget.db") as book:
            found = load_session(other, SECRET, book)
            counts.check(
                found.used() == i + 1, "unpaid", f"session {i}: {found.used()} answers are counted, not {i + 1}"
            )
            found.predict([[float(i + 1)]])
    ledger.close()
    return counts


KINDS: dict[str, Callable[[Path, int, int], Counts]] = {
    kind.__name__: kind for kind in (ledgers, key_files, results, stores, sessions)
}


if __name__ == "__main__":
    publish(sys.argv[1], KINDS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
