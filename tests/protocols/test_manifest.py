"""Manifests: everything unknown, mistyped or weaker than its claim is refused, by every reader."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import SEED, run

from privpac.device.client import Client
from privpac.device.manifest import Manifest
from privpac.device.randomizers import cap_price, least_cap, shuffle_delta
from privpac.errors import ManifestError
from privpac.protocols.calibrate import delta_two

MODELS = ["local", "shuffle", "central"]


def plain(model: str) -> dict[str, Any]:
    return copy.deepcopy(dict(run(model).manifest.values))


def changed(model: str, path: str, value: Any) -> dict[str, Any]:
    out = plain(model)
    inner: Any = out
    *most, last = path.split(".")
    for key in most:
        inner = inner[int(key) if key.isdigit() else key]
    inner[last] = value
    return out


@pytest.mark.parametrize("model", MODELS)
def test_what_is_written_is_read_and_names_the_same_run(model: str) -> None:
    made = run(model).manifest
    again = Manifest.read(made.write())
    assert again == made
    assert again.run == made.run
    assert again.write() == made.write()
    spaced = Manifest.read(json.dumps(dict(sorted(made.values.items(), reverse=True)), indent=2))
    assert spaced.run == made.run
    assert run(model, seed=bytes(32)).manifest.run != made.run


def test_a_manifest_keeps_a_copy_of_its_own() -> None:
    values = plain("local")
    made = Manifest(values)
    values["mechanism"]["keep"] = "999/1000"
    assert made.local.keep == run("local").manifest.local.keep


# Claims that the mechanism does not keep

WEAKENED = [
    ("local", "mechanism.keep", "3/4"),
    ("local", "mechanism.keep", "1"),
    ("local", "mechanism.keep", "1/2"),
    ("local", "guarantee.epsilon", "1/2"),
    ("local", "guarantee.epsilon", "0"),
    ("local", "guarantee.neighbours", "add-remove"),
    ("shuffle", "guarantee.neighbours", "add-remove"),
    ("shuffle", "guarantee.epsilon", "9/10"),
    ("shuffle", "guarantee.delta", "1/2000000"),
    ("shuffle", "guarantee.delta", "0"),
    ("shuffle", "guarantee.delta", "1"),
    ("shuffle", "mechanism.r", "30"),
    ("shuffle", "mechanism.r", "1/2"),
    ("shuffle", "mechanism.p", "1/4"),
    ("shuffle", "mechanism.p", "1"),
    ("shuffle", "mechanism.cap", 50),
    ("shuffle", "mechanism.cap", 1 << 30),
    ("shuffle", "mechanism.n_max", 59),
    ("shuffle", "mechanism.n_max", 1 << 30),
    ("shuffle", "mechanism.n_min", 0),
    ("shuffle", "mechanism.n_min", 1),
    ("shuffle", "mechanism.direction", "sideways"),
    ("shuffle", "mechanism.width", 17),
    ("central", "guarantee.delta", "0"),
    ("central", "mechanism.selector", "pure"),
    ("central", "mechanism.selector", "best"),
    ("central", "guarantee.neighbours", "none"),
]


@pytest.mark.parametrize(
    ("model", "path", "value"), WEAKENED, ids=[f"{m}-{p}-{i}" for i, (m, p, _) in enumerate(WEAKENED)]
)
def test_a_claim_stronger_than_its_mechanism_is_refused(model: str, path: str, value: Any) -> None:
    with pytest.raises(ManifestError):
        Manifest(changed(model, path, value))


def test_a_weaker_claim_than_kept_is_fine() -> None:
    assert Manifest(changed("local", "guarantee.epsilon", "2")).epsilon == 2
    assert Manifest(changed("shuffle", "guarantee.delta", "1/1000")).delta == Fraction(1, 1000)


@pytest.mark.parametrize("model", MODELS)
def test_unknown_and_missing_entries_are_refused(model: str) -> None:
    for place in ([], ["mechanism"], ["guarantee"], ["parameters"]):
        for strange in ("extra", "Keep"):
            with pytest.raises(ManifestError):
                Manifest(changed(model, ".".join([*place, strange]), 1))
    for key in plain(model):
        less = plain(model)
        del less[key]
        with pytest.raises(ManifestError, match=key):
            Manifest(less)
    for path in ("mechanism", "guarantee"):
        for key in plain(model)[path]:
            less = plain(model)
            del less[path][key]
            with pytest.raises(ManifestError):
                Manifest(less)


WRONG = [
    ("v", 1),
    ("v", 3),
    ("v", "2"),
    ("analyzer", "00" * 31),
    ("analyzer", "zz" * 32),
    ("analyzer", "AA" * 32),
    ("analyzer", 7),
    ("protocol", "open"),
    ("rule", "oracle"),
    ("rule", ["threshold"]),
    ("parameters", {"Gamma": "abc"}),
    ("parameters", {"Gamma": str(1 << 80)}),
    ("parameters", {"race": "fast"}),
    ("parameters", []),
    ("features", []),
    ("features", {"name": "age"}),
    ("features.0.hi", -1),
    ("features.0.hi", "1e999999999"),
    ("features.0.name", "ill"),
    ("label", 3),
    ("seed", "00" * 31),
    ("seed", "zz" * 32),
    ("seed", SEED.hex().upper()),
    ("seed", 0),
    ("m_min", 0),
    ("m_min", "60"),
    ("m_cap", 0),
    ("default", "ffff"),
    ("default", "zz"),
    ("mechanism", 5),
    ("mechanism.width", 0),
    ("mechanism.width", 40),
    ("guarantee", []),
    ("guarantee.unit", "item"),
    ("guarantee.epsilon", "-1"),
    ("guarantee.epsilon", "1e9"),
    ("guarantee.delta", "0.5e-5"),
]


@pytest.mark.parametrize(("path", "value"), WRONG, ids=[f"{p}-{i}" for i, (p, _) in enumerate(WRONG)])
def test_wrong_entries_are_refused(path: str, value: Any) -> None:
    with pytest.raises(ManifestError):
        Manifest(changed("local", path, value))


@pytest.mark.parametrize("value", [1.0, 0.5, None, True, float("nan")])
def test_floats_nulls_and_booleans_are_refused(value: Any) -> None:
    for path in ("v", "m_min", "guarantee.epsilon", "features.0.hi"):
        with pytest.raises(ManifestError):
            Manifest(changed("local", path, value))
        with pytest.raises(ManifestError):
            Manifest.read(json.dumps(changed("local", path, value)))


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "{", '"v"', "nul", "NaN", '{"v":1,"v":1}', "[" * 100_000, b"\xff\xfe", '{"v":1e3}']
)
def test_what_is_no_manifest_is_refused(text: Any) -> None:
    with pytest.raises(ManifestError):
        Manifest.read(text)


def test_a_key_that_occurs_twice_is_refused() -> None:
    text = run("local").manifest.write().decode()
    with pytest.raises(ManifestError):
        Manifest.read(text[:-1] + ',"v":1}')


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_hostile_manifests_are_refused_and_nothing_else_is_raised(data: Any) -> None:
    model = data.draw(st.sampled_from(MODELS))
    values = plain(model)
    paths = (
        [(key,) for key in values]
        + [("mechanism", key) for key in values["mechanism"]]
        + [("guarantee", key) for key in values["guarantee"]]
    )
    path = data.draw(st.sampled_from(paths))
    strange = st.recursive(
        st.one_of(st.integers(), st.text(max_size=6), st.floats(), st.none(), st.booleans()),
        lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=4), inner, max_size=2)),
        max_leaves=4,
    )
    inner = values if len(path) == 1 else values[path[0]]
    inner[path[-1]] = data.draw(strange)
    try:
        Manifest(values)
    except ManifestError:
        return
    Client(Manifest(values))  # what is accepted can be used


# The clients' own arithmetic


def test_clients_recompute_delta_with_integers_alone() -> None:
    made = run("shuffle").manifest
    noise = shuffle_delta(made.shuffle, made.n_max, made.epsilon) - cap_price(made.epsilon, made.n_max)
    rigorous = delta_two(made.shuffle.r, made.shuffle.p, made.epsilon)
    assert abs(noise - rigorous.hi) <= rigorous.hi / 10**9
    assert noise >= rigorous.lo
    assert made.shuffle.cap == least_cap(made.shuffle)


def test_users_set_their_own_limits() -> None:
    made = run("shuffle").manifest
    Client(made, 1, Fraction(1, 10**6))
    with pytest.raises(ManifestError, match="limit"):
        Client(made, Fraction(99, 100))
    with pytest.raises(ManifestError, match="limit"):
        Client(made, 1, 0)
