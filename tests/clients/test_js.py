"""The client in JavaScript is the client in Python, bit for bit: on tasks, records and words drawn at random, and on
manifests that must be refused."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from typing import Any

import pytest

from privpac.agreement.races.words import rate
from privpac.data import Categories, Dates, Floats, Grid, Integers
from privpac.errors import ManifestError
from privpac.protocols import AnalyzerKey, CentralProtocol, Client, LocalProtocol, Manifest, ShuffleProtocol
from privpac.testing import WordRng, insecure_randomness

SEEDS = 4
BITS = {f"b{j}": Integers(0, 1) for j in range(5)}
YES = {"smokes": Categories(["no", "yes"]), "sport": Integers(0, 1), "old": Integers(0, 1)}
MIXED = {"dose": Grid("0", "1", "0.1"), "ward": Categories(["n", "s", "w"]), "age": Integers(-3, 12)}
WIDE = {"income": Integers(0, 1 << 30), "ward": Categories(["n", "s", "w"])}

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
    ("naive-bayes", MIXED, {}),
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


def test_items_and_messages_are_the_same(ask: Any) -> None:
    cases, expected = [], []
    for seed in range(SEEDS):
        draw = random.Random(f"clients {seed}")
        for rule, features, task in TASKS:
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
    for case, found, wanted in zip(cases, ask(cases), expected):
        assert found == wanted, case["manifest"]
    assert sum(case["item"] is not None for case in expected) > len(expected) // 2


def _manifests() -> dict[str, dict[str, Any]]:
    ages, key = {"age": Integers(0, 99)}, AnalyzerKey(bytes(range(32))).public
    small = {"delta": "1e-6", "n_min": 500, "n_max": 1000}
    made = {
        "local": LocalProtocol("threshold", ages, 1),
        "shuffle": ShuffleProtocol("threshold", ages, 1, analyzer=key, **small),
        "under": ShuffleProtocol("point", {"hour": Integers(0, 9)}, 1, direction="under", **small),
        "central": CentralProtocol("decision-list", YES, 1, delta="1e-6", analyzer=key),
        "weights": LocalProtocol("halfspace", MIXED, 1),
    }
    return {name: json.loads(protocol.manifest.write()) for name, protocol in made.items()}


def _mutations(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Manifests next to a good one: claims that are too good, wrong types, keys too many and too few."""
    out = []

    def put(path: tuple[str, ...], *values: Any) -> None:
        for value in values:
            changed = json.loads(json.dumps(manifest))
            at = changed
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            out.append(changed)

    put(("guarantee", "epsilon"), "99/100", "101/100", 0, "-1", "1e-3", "1.0", 1, "1/0", "x", 10**400, "0.999999999")
    put(("guarantee", "delta"), "0", "1/10000000", "1/1000000", "999/1000000000", 1, "1", "-1/10")
    put(("guarantee", "neighbours"), "replace", "add-remove", "x", 1)
    put(("guarantee", "unit"), "record")
    put(("guarantee", "more"), 1)
    put(("v",), 1, 3, "2")
    put(("seed",), "00" * 31, "0" * 63 + "G", "A" * 64, 5)
    put(("analyzer",), "", "00" * 32, "ff" * 31, "FF" * 32, 0)
    put(("default",), "", "ff" * 9, "zz", "00", "0")
    put(("beta",), "1", 0, "1/3", "x")
    put(("m_min",), 0, -1, "3", 10**9)
    put(("m_cap",), 0, 10)
    put(("label",), "age", 3, "étage")
    put(("features",), [], [{"name": "a"}], [{"name": "a", "lo": 0, "hi": 1}, {"name": "a", "lo": 0, "hi": 1}], {})
    put(("features",), [{"name": "a", "lo": 0, "hi": 99, "step": 2}], [{"name": "a", "floats": 32}])
    put(("rule",), "threshold", "tree", 1, "toString")
    put(("parameters",), {}, {"Gamma": "12"}, {"Gamma": 3}, {"Gamma": str(1 << 62)}, {"Gamma": "x"}, {"grid": 1}, [])
    put(("extra",), 1)
    for key in ("seed", "mechanism", "v"):
        changed = dict(manifest)
        del changed[key]
        out.append(changed)
    mechanism = manifest["mechanism"]
    for key in mechanism:
        put(
            ("mechanism", key),
            0,
            1,
            2,
            7,
            500,
            "1/2",
            "3/4",
            "1569936343/2147483648",
            "1569936344/2147483648",
            "x",
            10**9,
        )
    if "p" in mechanism:
        for key in ("r", "p"):
            good = Fraction(mechanism[key])
            put(("mechanism", key), *(str(good * Fraction(n, 1000)) for n in (999, 1001, 1100)))
        put(("mechanism", "cap"), mechanism["cap"] - 1, mechanism["cap"] + 1)
        put(("mechanism", "n_max"), mechanism["n_min"], mechanism["n_min"] - 1, 1 << 41)
    return out


def _refused(data: bytes | str) -> bool:
    try:
        Manifest.read(data)
    except ManifestError:
        return True
    return False


@pytest.mark.parametrize("name", ["local", "shuffle", "under", "central", "weights"])
def test_the_same_manifests_are_refused(ask: Any, name: str) -> None:
    texts = [json.dumps(made) for made in _mutations(_manifests()[name])]
    answers = ask([{"manifest": text} for text in texts])
    differ = [
        (text, answer.get("refused")) for text, answer in zip(texts, answers) if _refused(text) != ("refused" in answer)
    ]
    assert not differ
    assert 0 < sum("refused" in answer for answer in answers) < len(texts)


def test_texts_that_are_no_manifest(ask: Any) -> None:
    good = json.dumps(_manifests()["local"])
    texts = [
        "",
        "[]",
        "1",
        "null",
        "{",
        good[:-1],
        good + "x",
        good.replace(":", ": "),
        good.replace('"v": 2', '"v": 2.0'),
    ]
    texts += [good.replace('"v": 2', '"v": 2, "v": 2'), good.replace('"v": 2', '"v": true'), good + " \n", "[" * 2000]
    texts += [
        good.replace('"age"', '"\\u00e4\\ud83d\\ude00\\n"'),
        good.replace('"age"', '"a\x01ge"'),
        good.replace("{", "{ "),
    ]
    texts += [good.replace("99", "09"), good.replace("99", "+9"), good.replace("99", "NaN"), good.replace("0", "-0", 1)]
    answers = ask([{"manifest": text, "records": [], "words": ["0"] * 20} for text in texts])
    for text, answer in zip(texts, answers):
        assert _refused(text) == ("refused" in answer), text
        if not _refused(text):
            assert answer["run"] == Manifest.read(text).run.hex()


def test_unknown_learners_are_refused_by_name(ask: Any) -> None:
    """The one learner that only the Python client has."""
    manifest = LocalProtocol("threshold", {"age": Integers(0, 19)}, 1, task={"learner": "reduction"}).manifest
    (answer,) = ask([{"manifest": manifest.write().decode()}])
    assert "'reduction' is not in this client" in answer["refused"]
