"""The published vectors are what this client does, and what any other must do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire_vectors import PLACE, cases

from privpac.device.columns import DeviceColumn
from privpac.errors import ManifestError
from privpac.protocols import Client, CoordinatorKey, Manifest, fingerprint
from privpac.testing import WordRng, insecure_randomness

WRITTEN = json.loads(PLACE.read_text())


def test_the_published_vectors_are_up_to_date() -> None:
    """If this fails on purpose the wire has changed: a new version, and new vectors."""
    made = cases()
    assert set(made) == set(WRITTEN)
    for section, expected in WRITTEN.items():
        assert made[section] == expected, section


@pytest.mark.parametrize("case", WRITTEN["runs"], ids=lambda case: case["name"])
def test_a_client_from_the_manifest_alone_sends_the_published_messages(case: dict[str, Any]) -> None:
    manifest = Manifest.read(case["manifest"])
    assert manifest.run.hex() == case["run_id"]
    client = Client(manifest)
    item = client.item(case["records"])
    assert (item or b"").hex() == case["item"]
    with insecure_randomness():
        sent = client._plain(item, WordRng([int(word) for word in case["words"]]))
    assert [message.hex() for message in sent] == case["messages"]


@pytest.mark.parametrize("case", WRITTEN["signatures"], ids=lambda case: case["name"])
def test_published_signatures(case: dict[str, Any]) -> None:
    """What is signed is read; whatever was swapped, replayed, cut, doubled or written in a second way is refused."""
    if not case["accepted"]:
        with pytest.raises(ManifestError):
            Manifest.read(case["published"])
        return
    manifest = Manifest.read(case["published"])
    key = CoordinatorKey(bytes.fromhex(case["private"]))
    assert manifest.coordinator == key.public == bytes.fromhex(case["public"])
    assert (fingerprint(key.public), manifest.run.hex()) == (case["fingerprint"], case["run_id"])
    assert Manifest(manifest.values).signed(key).published() == manifest.published()


@pytest.mark.parametrize("case", WRITTEN["columns"], ids=lambda case: str(case["column"]))
def test_published_codes(case: dict[str, Any]) -> None:
    column = DeviceColumn.read(case["column"])
    assert [str(column.code(value)) for value in case["values"]] == case["codes"]
