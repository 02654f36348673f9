"""Tasks, records and words drawn at random, and what the client in ``privpac`` makes of them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from privpac.data import Categories, Dates, Floats, Grid, Integers
from privpac.device.correlated_sampling import rate
from privpac.protocols import CentralProtocol, Client, LocalProtocol, ShuffleProtocol
from privpac.testing import WordRng, insecure_randomness

BITS = {f"b{j}": Integers(0, 1) for j in range(5)}
YES = {"smokes": Categories(["no", "yes"]), "sport": Integers(0, 1), "old": Integers(0, 1)}
MIXED = {"dose": Grid("0", "1", "0.1"), "ward": Categories(["n", "s", "w"], ordered=True), "age": Integers(-3, 12)}
WIDE = {"income": Integers(0, 1 << 30), "ward": Categories(["n", "s", "w"], ordered=True)}

TASKS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("threshold", {"x": Integers(0, (1 << 64) - 1)}, {}),
    ("threshold", {"x": Floats()}, {"Gamma": rate(5)}),
    ("threshold", {"x": Grid("0", "1", "0.01")}, {"race": "indexed"}),
    ("threshold-below", {"x": Dates("1999-12-01", "2004-03-01")}, {}),
    ("stump", MIXED, {"Gamma": rate(10)}),
    ("stump", {"x": Floats(), **MIXED}, {}),
    ("stump", MIXED, {"race": "indexed"}),
    ("point", {"x": Integers(0, (1 << 64) - 1)}, {}),
    ("point", {"x": Categories(["a", "b", "c"])}, {"learner": "lists", "alpha": "1", "parts": 5, "share": "1/2"}),
    ("interval", {"x": Integers(0, 1000)}, {}),
    ("interval", {"x": Integers(0, 9)}, {"learner": "lists", "alpha": "9/10", "parts": 3, "share": "1/3"}),
    ("hashed-point", {"x": Integers(0, 999)}, {"functions": 2, "buckets": 37}),
    ("parity", BITS, {}),
    ("parity", {f"b{j}": Integers(0, 1) for j in range(40)}, {"learner": "solve"}),
    ("parity", YES, {"learner": "lists", "alpha": "1/2", "parts": 2, "share": "2/5"}),
    ("conjunction", BITS, {"grid": 7, "keep_at_most": 1}),
    ("disjunction", BITS, {}),
    ("decision-list", BITS, {}),
    ("decision-list", YES, {"k": 3, "stages": 5, "weight": 1}),
    ("decision-list", BITS, {"learner": "queries"}),
    ("decision-list", YES, {"learner": "queries", "k": 2, "theta": "1/9", "stop": "0.01", "grid": 33, "stages": 6}),
    ("decision-list", YES, {"learner": "queries", "alpha": "1/3"}),
    ("halfspace", BITS, {}),
    ("halfspace", MIXED, {"scale": 3, "stages": 4}),
    ("halfspace", WIDE, {"ridge": "1/1000"}),
    ("halfspace", MIXED, {"learner": "queries"}),
    ("halfspace", WIDE, {"learner": "queries"}),
    ("halfspace", {"age": Integers(0, 3)}, {"learner": "queries", "alpha": "3/4"}),
    ("naive-bayes", {**MIXED, "ward": Categories(["n", "s", "w"])}, {}),
    ("naive-bayes", {**MIXED, **WIDE | {"income": Integers(0, 700)}}, {"grid": 100}),
]


def _records(features: dict[str, Any], draw: random.Random) -> list[dict[str, Any]]:
    """Records near a rule, with wrong labels, missing, foreign and differently written values."""
    out = []
    for _ in range(draw.choice((3, 40, 130))):
        row: dict[str, Any] = {}
        total = 0
        for name, domain in features.items():
            size = min(domain.size, 1 << 64)
            code = draw.choice((draw.randrange(size), min(draw.randrange(40), size - 1), size - 1))
            total += int(code >= size // 2)
            if isinstance(domain, Floats):
                row[name] = draw.choice((repr(draw.gauss(0, 1e6)), 0.5, -0.0, draw.gauss(0, 1)))
            elif isinstance(domain, Integers):
                row[name] = draw.choice((str(domain.lo + code), domain.lo + code, f" {domain.lo + code}.0 "))
            else:
                row[name] = str(domain.text(code))
            if draw.random() < 0.02:
                row[name] = draw.choice(("", "none", "-1", 1.5, "1e300", "9" * 30))
        row["y"] = draw.choice((int(2 * total > len(features)), int(total > 0), draw.choice((0, 1, "1.0", "True", 2))))
        out.append(row)
    return out


def _sent(value: Any) -> Any:
    return {"integer": str(value)} if isinstance(value, int) and abs(value) >= 1 << 53 else value


Task = tuple[str, dict[str, Any], dict[str, Any]]


def drawn(tasks: Sequence[Task], seeds: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Cases for another client, and the answers expected."""
    cases, expected = [], []
    for seed in range(seeds):
        draw = random.Random(f"clients {seed}")
        for rule, features, task in tasks:
            given = {"label": "y", "seed": draw.randbytes(32), "min_records": draw.choice((1, 20))}
            epsilon = Fraction(draw.randrange(1, 60), 10)
            protocol: Any = LocalProtocol(rule, features, epsilon, task=task, **given)
            if draw.random() < 0.2:
                protocol = CentralProtocol(rule, features, epsilon, task=task, **given)
            elif draw.random() < 0.3 and protocol.manifest.task.learner.universe.bits < 40:
                more = {"delta": "1e-6", "n_min": 300, "n_max": 900, "width": draw.choice((5, 8))}
                protocol = ShuffleProtocol(rule, features, max(epsilon, Fraction(1, 2)), task=task, **more, **given)
            records, words = _records(features, draw), [draw.getrandbits(64) for _ in range(6000)]
            client = Client(protocol.manifest)
            item = client.item(records)
            with insecure_randomness():
                plain, silent = (client._plain(said, WordRng(words)) for said in (item, None))
            expected.append(
                {
                    "run": client.manifest.run.hex(),
                    "item": None if item is None else item.hex(),
                    "messages": [message.hex() for message in plain],
                    "silent": [message.hex() for message in silent],
                }
            )
            cases.append(
                {
                    "manifest": protocol.manifest.write().decode(),
                    "records": [{name: _sent(value) for name, value in row.items()} for row in records],
                    "words": [str(word) for word in words],
                }
            )
    return cases, expected
