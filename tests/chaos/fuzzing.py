"""Files whose bytes were changed: rules, sessions, keys, manifests, submissions, releases and ledgers.

``python fuzzing.py FOLDER SEED TRIES`` judges them in one process and prints one line of JSON; a process that ends
otherwise crashed. Every reader refuses with a ``PrivpacError`` in one line, or gives something that can be shown and
written again.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path[:0] = [
    str(Path(__file__).parent),
    *(str(Path(__file__).parents[1] / name) for name in ("ground", "front", "protocols")),
]

import numpy as np  # noqa: E402
import runs  # noqa: E402
from harness import Counts, publish  # noqa: E402
from killing import ONE, user  # noqa: E402
from service_site import SECRET, learned  # noqa: E402

import privpac as pp  # noqa: E402
from privpac.device.client import Client, bundle  # noqa: E402
from privpac.errors import PrivpacError  # noqa: E402
from privpac.ledger import BudgetLedger  # noqa: E402
from privpac.protocols import Manifest  # noqa: E402
from privpac.protocols.analyzer import analyze_local, analyze_shuffled  # noqa: E402
from privpac.protocols.files import read_folder, read_shuffled, write_shuffled  # noqa: E402
from privpac.serve.keys import KeyStore  # noqa: E402
from privpac.serve.session_file import load_session, save_session  # noqa: E402

VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    1 << 70,
    "",
    "1/0",
    "x" * 300,
    "\ud800",
    [],
    {},
    [[]],
    {"kind": "threshold"},
    1e308,
    "9" * 5000,
]


def spoilt(chance: random.Random, data: bytes) -> bytes:
    """Other bytes, or, for JSON, another value somewhere."""
    if chance.randrange(2) and data[:1] in b"{[":
        try:
            tree = json.loads(data)
        except ValueError:
            tree = None
        if isinstance(tree, (dict, list)) and tree:
            node: Any = tree
            while True:
                key = chance.choice(list(node)) if isinstance(node, dict) else chance.randrange(len(node))
                if isinstance(node[key], (dict, list)) and node[key] and chance.randrange(4):
                    node = node[key]
                    continue
                break
            if chance.randrange(5) == 0:
                del node[key]
            else:
                node[key] = chance.choice(VALUES)
            return json.dumps(tree).encode()
    body = bytearray(data)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(body) + 1)
        kind = chance.randrange(5)
        if kind == 0:
            body[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif kind == 1:
            del body[at : at + chance.randrange(1, 40)]
        elif kind == 2 and at < len(body):
            body[at] ^= 1 << chance.randrange(8)
        elif kind == 3:
            body[at:at] = body[at : at + 60] * 2
        else:
            body[at : at + 8] = chance.choice([b"[" * 3000, b"\0" * 8, b"\xff" * 8, b"1e999", b'"\\ud800"', b"NaN"])
    return bytes(body)


def targets(folder: Path) -> dict[str, tuple[bytes, Callable[[Path], object]]]:
    """What to spoil, and who reads it."""
    rng = np.random.default_rng(1)
    x = rng.integers(0, 100, 300)
    data = pp.UserData.from_arrays(
        x[:, None], (x > 40).astype(int), np.arange(300) // 3, features={"x": pp.Integers(0, 99)}
    )
    pp.RegretSelection(pp.Thresholds(), epsilon=1).learn(data).save(folder / "rule.json")
    session, ledger = learned(folder, 5)
    session.predict([[0.5]])
    save_session(session, folder / "s.ppm", SECRET)
    KeyStore(folder / "keys").new("ann", share=3)
    token = KeyStore(folder / "keys").new("bob")[1]
    local, shuffled = runs.run("local").manifest, runs.run("shuffle", 2, n_min=40).manifest
    message = bundle(Client(local).messages(runs.records_of([(a, int(a >= 41)) for a in range(100)])))
    mixed = write_shuffled(shuffled, [1, 2, 3] * 400, 50)
    whole = BudgetLedger.open(folder / "budget.db")
    rows = len(whole.history()), whole.queries.used(session.session_id)

    def rule(path: Path) -> None:
        found = pp.load(path)
        str(found), repr(found), found.to_json()

    def keys(path: Path) -> None:
        path.chmod(0o600)
        store = KeyStore(path)
        store.check(token)
        [key.public() for key in store.all()]

    def manifest(path: Path) -> None:
        found = Manifest.read(path.read_bytes())
        Manifest.read(found.write())

    def submission(path: Path) -> None:
        place = path.parent / f"in-{path.name}"
        place.mkdir()
        os.rename(path, place / "ann")
        analyze_local(local, read_folder(local, place))

    def book(path: Path) -> None:
        with BudgetLedger.open(path, timeout=0) as found:
            found.verify()
            seen = len(found.history()), found.queries.used(session.session_id)
            if seen != rows:
                raise ArithmeticError(f"{seen} rows were read, not {rows}")

    return {
        "rule": ((folder / "rule.json").read_bytes(), rule),
        "session": ((folder / "s.ppm").read_bytes(), lambda path: load_session(path, SECRET, ledger)),
        "keys": ((folder / "keys").read_bytes(), keys),
        "manifest": (local.write(), manifest),
        "shuffle manifest": (shuffled.write(), manifest),
        "submission": (message, submission),
        "shuffled": (mixed, lambda path: analyze_shuffled(shuffled, *read_shuffled(shuffled, path.read_bytes()))),
        "ledger": ((folder / "budget.db").read_bytes(), book),
    }


def files(folder: Path, seed: int, tries: int) -> Counts:
    counts, chance = Counts(), random.Random(seed)
    found = targets(folder)
    for i in range(tries):
        name = list(found)[i % len(found)]
        data, read = found[name]
        path = folder / f"{i}.file"
        path.write_bytes(spoilt(chance, data))
        counts.tries += 1
        try:
            read(path)
        except PrivpacError as error:
            counts.check("\n" not in str(error), "crashes", f"{name} {i}: a message of several lines")
        except ArithmeticError as error:
            counts.bad("lost", f"{name} {i}: {error}")
        except BaseException as error:
            counts.bad("crashes", f"{name} {i}: {type(error).__name__}: {str(error)[:100]}")
        path.unlink(missing_ok=True)
    return counts


if __name__ == "__main__":
    assert user(1) == ONE
    publish("files", files(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
