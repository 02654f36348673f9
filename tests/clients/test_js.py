"""The client in JavaScript is the client in Python, bit for bit: on tasks, records and words drawn at random, and on
manifests that must be refused."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from cases import MIXED, TASKS, YES, drawn
from sweep import VALUES, changed, places, swept

from privpac.data import Integers
from privpac.device.tasks import types_of
from privpac.errors import ManifestError
from privpac.protocols import AnalyzerKey, CentralProtocol, LocalProtocol, Manifest, ShuffleProtocol

pytestmark = pytest.mark.slow
PUBLISHED = json.loads((Path(__file__).parents[2] / "docs" / "wire-vectors.json").read_text())
VECTORS = {run["name"]: run for run in PUBLISHED["runs"]}


def test_items_and_messages_are_the_same(ask: Any) -> None:
    cases, expected = drawn(TASKS, 4)
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


def test_manifests_that_would_never_end(ask: Any) -> None:
    """A stranger's numbers must not make a device count, or multiply, for ever: the same are refused, at once."""
    good = _manifests()["central"]
    many = [{"name": f"c{j}", "lo": 0, "hi": 1} for j in range(3000)]
    wide = [{"name": f"c{j}", "lo": 0, "hi": 65535} for j in range(60)]
    cases: list[tuple[dict[str, Any], bool]] = [
        ({"parameters": {"k": 10**12}}, False),
        ({"parameters": {"k": 2000}, "features": many}, True),
        ({"rule": "naive-bayes", "features": wide, "parameters": {"scale": 1 << 20}}, True),
        ({"rule": "halfspace", "parameters": {"ridge": "1e-999999999"}}, True),
        ({"parameters": {"learner": "queries", "theta": "1e-99999999"}}, True),
        ({"rule": "stump", "features": many, "parameters": {}}, True),
        ({"rule": "halfspace", "features": many[:127], "parameters": {"learner": "queries", "alpha": "1/2"}}, True),
    ]
    texts = [json.dumps(good | {"default": ""} | change) for change, _ in cases]
    for text, (_, refused), answer in zip(texts, cases, ask([{"manifest": text} for text in texts])):
        assert _refused(text) == refused == ("refused" in answer), text[:300]


def test_unknown_learners_are_refused_by_name(ask: Any) -> None:
    """The one learner that only the Python client has."""
    manifest = LocalProtocol("threshold", {"age": Integers(0, 19)}, 1, task={"learner": "reduction"}).manifest
    (answer,) = ask([{"manifest": manifest.write().decode()}])
    assert "'reduction' is not in this client" in answer["refused"]


def _sweep(name: str) -> list[str]:
    """One good manifest with every number and text of it replaced, and every parameter that it leaves out put in."""
    manifest = json.loads(VECTORS[name]["manifest"])
    absent = [("parameters", each) for each in types_of(manifest["rule"]) if each not in manifest["parameters"]]
    return [json.dumps(changed(manifest, path, value)) for path in [*places(manifest), *absent] for value in VALUES]


@pytest.mark.parametrize("name", VECTORS)
def test_hostile_numbers_are_refused_alike_quickly_and_in_little_memory(ask: Any, name: str) -> None:
    texts = _sweep(name)
    ours = swept(texts)
    theirs = ask([{"manifest": text} for text in texts])
    differ = [
        (text, a.get("refused"), b.get("refused"))
        for text, a, b in zip(texts, ours, theirs)
        if ("refused" in a) != ("refused" in b)
    ]
    assert not differ
    assert max(answer["seconds"] for answer in (*ours, *theirs)) < 5
    assert 0 < sum("refused" in answer for answer in ours) < len(texts)
