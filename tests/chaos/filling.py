"""Disks that are full after a seeded number of bytes, for everything that writes.

``python filling.py KIND FOLDER SEED TRIES`` is one run of attacks; it prints one line of JSON.  The limit is that of
the process on the size of a file (RLIMIT_FSIZE); in ``commands`` it is a small file system of its own where one may be
mounted, and ``/dev/full`` for the output.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).parent),
    *(str(Path(__file__).parents[1] / name) for name in ("ground", "front", "protocols")),
]

from harness import REFUSED, Counts, drafts, forked, publish  # noqa: E402
from killing import ONE, TABLE, Said, _table, names_paid, user  # noqa: E402

from privpac.ledger import BudgetLedger  # noqa: E402


def bounded(size: int, action: Callable[[], object]) -> int:
    """The exit code of ``action`` in a child whose files may have ``size`` bytes."""

    def child() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        action()

    return forked(child)


def spends(folder: Path, seed: int, tries: int) -> Counts:
    counts, chance = Counts(), random.Random(seed)
    for i in range(tries):
        place = folder / str(i)
        place.mkdir()
        said, size = Said(place / "said"), chance.randrange(400, 6000)
        path = place / "b.db"

        def spend(path: Path = path, said: Said = said) -> None:
            with BudgetLedger.create(path, user(50), dataset="chaos") as book:
                for n in range(50):
                    book.spend(ONE, "x" * 150, str(n)).use()
                    said.say(str(n))

        counts.tries += 1
        code = bounded(size, spend)
        counts.check(code in (0, REFUSED), "crashes", f"{size} bytes: exit {code}")
        counts.check(not drafts(place), "torn", f"{size} bytes: {drafts(place)}")
        with counts.no_crash(f"{size} bytes"):
            acknowledged = {line[0] for line in said.lines()}
            paid = set(names_paid(path)) if path.exists() else set()
            counts.check(acknowledged <= paid, "unpaid", f"{size} bytes: {sorted(acknowledged - paid)}")
            if path.exists():
                with BudgetLedger.open(path) as book:
                    book.spend(ONE, "room again")
    return counts


def files(folder: Path, seed: int, tries: int) -> Counts:
    """Rules, sessions, their keys, API keys, messages and submissions: old or whole, and a ``PrivpacError``."""
    import runs
    from service_site import SECRET, learned

    from privpac.device.client import Client, bundle
    from privpac.device.store import Device
    from privpac.protocols.collect import Collector
    from privpac.protocols.files import once
    from privpac.report.pages import write_page
    from privpac.result import Released
    from privpac.serve.keys import KeyStore
    from privpac.serve.session_file import new_secret, save_session

    session, ledger = learned(folder, 5)
    ledger.close()
    manifest = runs.run("shuffle").manifest
    submission = bundle(Client(manifest).send(None))
    manifest_of_one = runs.run("local").manifest.signed(runs.COORDINATOR)
    rows = [{"age": a, "ill": int(a >= 41)} for a in range(100)]
    rule = Released(1, ONE, {"filler": "x" * 3000}, learner="chaos")

    def take(place: Path) -> None:
        taker = Collector(manifest, place)
        taker.server_close()
        if taker.take("out", submission) != 204:
            sys.exit(REFUSED)

    def messages(place: Path) -> None:
        runs.store(place, "ann", 1)
        Client(manifest_of_one).messages(rows, store=place)

    actions: dict[str, Callable[[Path], object]] = {
        "rule": lambda place: rule.save(place / "out"),
        "page": lambda place: write_page(b"x" * 3000, place / "out"),
        "session": lambda place: save_session(session, place / "out", SECRET),
        "secret": lambda place: new_secret(place / "out"),
        "keys": lambda place: [KeyStore(place / "out").new(f"key {n}") for n in range(9)],
        "messages": messages,
        "release": lambda place: once(place, manifest, lambda: b"x" * 3000),
        "submission": take,
    }
    counts, chance = Counts(), random.Random(seed)
    for i in range(tries):
        name = list(actions)[i % len(actions)]
        place = folder / f"{i}"
        place.mkdir()
        size = chance.choice([0, 1, 60, chance.randrange(3000), chance.randrange(12_000)])
        code = bounded(size, lambda: actions[name](place))  # noqa: B023
        counts.tries += 1
        note = f"{name} with {size} bytes"
        counts.check(code in (0, REFUSED), "crashes", f"{note}: exit {code}")
        left = [path for path in place.iterdir() if path.name != "out.lock"]
        if name == "keys" and (place / "out").exists():
            with counts.no_crash(note):
                KeyStore(place / "out").all()
        elif name == "messages" and (place / "device.db").exists():
            with counts.no_crash(note):  # charged and kept, or neither
                counts.check(Device.open(place).spent[0] == int(code == 0), "unpaid", note)
        elif code == REFUSED:
            hidden = [path.name for path in left if not path.name.endswith(".part") or name != "submission"]
            counts.check(not hidden, "torn", f"{note}: {hidden}")
        else:
            counts.check(len(left) == 1, "lost", f"{note}: {left}")
    return counts


def commands(folder: Path, seed: int, tries: int) -> Counts:
    """``privpac learn`` on a file system that fills up, its output going to ``/dev/full``: paid for and kept somewhere,
    or not paid for."""
    import privpac as pp

    counts, chance, table = Counts(), random.Random(seed), _table(folder)
    for i in range(tries):
        place, small = folder / str(i), folder / f"small{i}"
        place.mkdir()
        small.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(small)]
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        where = place if chance.randrange(2) else small  # the ledger has room, or shares the small place
        BudgetLedger.create(where / "b.db", user(5), dataset="chaos").close()
        if mounted:
            pad = chance.randrange(12, 16) * 4096
            with open(small / "pad", "wb") as file:
                file.write(bytes(max(0, pad - (8192 if where == small else 0))))
        words = [
            str(table),
            *TABLE,
            "--epsilon",
            "1",
            "--ledger",
            str(where / "b.db"),
            "--out",
            str(small / "rule.json"),
        ]
        code = "from privpac.cli.app import main; main()"
        counts.tries += 1
        with open("/dev/full", "w") as full, open(place / "said", "w") as said:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", code, "learn", *words],
                stdout=full if chance.randrange(3) else subprocess.DEVNULL,
                stderr=said,
                check=False,
                env={**os.environ, "TMPDIR": str(place)},
            )
        text = (place / "said").read_text()
        counts.check(
            done.returncode in (0, 1, 2) and "internal error" not in text and "Traceback" not in text,
            "crashes",
            text[-300:],
        )
        with counts.no_crash(f"command {i}"):
            paid = names_paid(where / "b.db")
            kept = [*where.glob("*.result.json"), *place.glob("*.result.json"), *small.glob("rule.json")]
            for path in kept:
                pp.load(path)
            counts.check(paid or not kept, "unpaid", f"command {i}")
            # 2 says that nothing was spent; otherwise what was paid for is somewhere, unless the spend itself was in
            # doubt.
            counts.check(
                not (paid and done.returncode == 2), "lost", f"command {i}: exit 2 after a spend: {text[-200:]}"
            )
            counts.check(
                not paid or kept or "nothing may be released" in text or done.returncode == 0,
                "lost",
                f"command {i}: {text[-300:]}",
            )
        if mounted:
            subprocess.run(["umount", str(small)], check=True)
        shutil.rmtree(small)
    return counts


KINDS: dict[str, Callable[[Path, int, int], Counts]] = {kind.__name__: kind for kind in (spends, files, commands)}


if __name__ == "__main__":
    publish(sys.argv[1], KINDS[sys.argv[1]](Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
