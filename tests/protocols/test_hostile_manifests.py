"""A manifest is a stranger's: every number of it may be huge, negative, or no number at all.  It is refused before any
table is built, in little memory and time; ``tests/clients`` compares the client in JavaScript."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from runs import run

sys.path.insert(0, str(Path(__file__).parents[1] / "clients"))
from sweep import VALUES, changed, places, swept

HUGE = (
    ("9007199254740992", "1/2", 2000),
    ("9007199254740992", "1/9007199254740992", 2000),
    ("18446744073709551616", "1/18446744073709551616", 2000),
    ("9007199254740993/9007199254740992", "9007199254740991/9007199254740992", 500),
    ("4000", "63/64", 100),
    ("1500", "1/2", 200),
    ("2", "16000/16001", 1),
    ("20", "63/64", 1),
    ("9" * 399, "1/" + "9" * 399, 10),
)


@pytest.mark.parametrize("model", ["local", pytest.param("shuffle", marks=pytest.mark.slow), "central"])
def test_every_number_of_a_manifest(model: str) -> None:
    manifest = json.loads(run(model).manifest.write())
    texts = [json.dumps(changed(manifest, path, value)) for path in places(manifest) for value in VALUES]
    found = swept(texts)
    assert max(answer["seconds"] for answer in found) < 3
    assert 0 < sum("refused" in answer for answer in found) < len(found)


def test_noise_that_no_device_could_hold_is_refused_before_its_table() -> None:
    """2**53 for ``r`` used to cost four gigabytes and half a minute before it was refused."""
    manifest = json.loads(run("shuffle").manifest.write())
    manifest["guarantee"] |= {"epsilon": "1/1000", "delta": "99/100"}
    texts = []
    for r, p, n_min in HUGE:
        mechanism: dict[str, Any] = {"r": r, "p": p, "n_min": n_min, "n_max": 10**5, "cap": 1 << 18}
        texts.append(json.dumps({**manifest, "mechanism": manifest["mechanism"] | mechanism}))
    found = swept(texts)
    assert all("refused" in answer for answer in found[:6])
    assert max(answer["seconds"] for answer in found) < 5


@pytest.mark.parametrize("key", ["m_min", "m_cap"])
def test_records_have_a_limit_for_every_rule(key: str) -> None:
    """One limit for all learners and both clients: a count of records fits 31 bits."""
    for model in ("local", "central"):
        manifest = json.loads(run(model).manifest.write())
        most, beyond = swept([json.dumps({**manifest, key: value}) for value in ((1 << 31) - 1, 1 << 31)])
        assert "refused" not in most
        assert "at most 2147483647" in beyond["refused"]
