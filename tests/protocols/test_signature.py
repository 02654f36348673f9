"""Whose run it is: manifests are signed, stores pin who may ask, and nobody on the way puts in a key of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from runs import COORDINATOR, run, store

from privpac.device.keys import Signature, sound_key
from privpac.device.store import Drawn
from privpac.errors import ManifestError, ParameterError
from privpac.protocols import AnalyzerKey, Client, CoordinatorKey, Device, Manifest, fingerprint

EVE = CoordinatorKey(bytes(range(100, 132)))
OWN, EVES = AnalyzerKey(bytes(range(32))), AnalyzerKey(bytes(range(32, 64)))
GOOD = run("local", analyzer=OWN.public).manifest.signed(COORDINATOR)
SMALL = [
    *(bytes(32), (1).to_bytes(32, "little"), ((1 << 255) - 20).to_bytes(32, "little"), b"\xff" * 32),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85"),
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"),
    bytes(31) + b"\x80",
    ((1 << 255) - 19).to_bytes(32, "little"),
    ((1 << 255) - 18).to_bytes(32, "little"),
]


def _never() -> Any:
    raise AssertionError("something was drawn")


def test_a_swapped_manifest_opens_nothing_and_costs_nothing(tmp_path: Path) -> None:
    """The collector hands out a manifest with an analyzer's key of its own: bare, or signed by itself."""
    own = store(tmp_path / "mine", "ann", 5)
    swapped = Manifest({**GOOD.values, "analyzer": EVES.public.hex()})
    for manifest, said in (
        (swapped, "is not signed"),
        (swapped.signed(EVE), fingerprint(EVE.public)),
        (Manifest(GOOD.values), "is not signed"),
        (GOOD.signed(EVE), "this store trusts " + fingerprint(COORDINATOR.public)),
    ):
        with pytest.raises(ManifestError, match=said):
            own.messages(manifest, _never)
        with pytest.raises(ManifestError, match=said):
            Client(manifest).messages(iter(_never, None), store=tmp_path / "mine")
    assert GOOD.signature is not None
    with pytest.raises(ManifestError, match="not what its coordinator signed"):
        Manifest(swapped.values, GOOD.signature)
    assert own.spent == (0, 0)
    (message,) = Client(GOOD).messages([], store=own)
    assert OWN.open(GOOD.run, GOOD.kind, message) is not None


def test_a_store_trusts_nobody_unless_told_and_then_more_than_one(tmp_path: Path) -> None:
    own = Device.new(tmp_path, "ann", 5)
    with pytest.raises(ManifestError, match="trusts none"):
        own.messages(GOOD, _never)
    own = own.trust(COORDINATOR.public).trust(EVE.public).trust(EVE.public)
    assert own.coordinators == tuple(sorted((COORDINATOR.public, EVE.public)))
    assert own == Device.open(tmp_path)
    drawn = own.messages(GOOD, lambda: [b"x"])
    assert own.messages(GOOD, _never) == Drawn([b"x"], True)
    # The same bytes under another signature: consent was given to one coordinator.
    with pytest.raises(ManifestError, match="answered for the coordinator " + fingerprint(COORDINATOR.public)):
        own.messages(GOOD.signed(EVE), _never)
    assert (drawn.again, own.spent) == (False, (1, 0))


@pytest.mark.parametrize("key", SMALL, ids=bytes.hex)
def test_keys_for_which_anyone_could_sign_are_nowhere_taken(tmp_path: Path, key: bytes) -> None:
    with pytest.raises(ParameterError, match="is no key"):
        sound_key(key)
    with pytest.raises(ParameterError, match="is no key"):
        Device.new(tmp_path / "new", "ann", 1, coordinators=[key])
    with pytest.raises(ParameterError, match="is no key"):
        store(tmp_path / "mine", "ann", 1).trust(key)
    with pytest.raises(ParameterError, match="is no key"):
        CoordinatorKey.read_public(b"privpac-coordinator-public " + key.hex().encode() + b"\n")
    with pytest.raises(ManifestError, match="is no key"):
        Manifest(GOOD.values, Signature(key, (1).to_bytes(32, "little") + bytes(32)))
    assert not (tmp_path / "new").exists()


def test_key_files() -> None:
    private, public = COORDINATOR.write()
    assert CoordinatorKey.read(private) == COORDINATOR
    assert CoordinatorKey.read_public(public) == COORDINATOR.public
    analyzer = OWN.write()
    for read, data in (
        (CoordinatorKey.read, public),
        (CoordinatorKey.read, analyzer[0]),
        (CoordinatorKey.read_public, private),
        (CoordinatorKey.read_public, analyzer[1]),
        (AnalyzerKey.read, private),
        (AnalyzerKey.read_public, public),
        (CoordinatorKey.read_public, b""),
    ):
        with pytest.raises(ParameterError, match="file of a"):
            read(data)
    assert COORDINATOR.private.hex() not in repr(COORDINATOR)


def test_without_the_package_a_signature_is_an_error_and_not_ignored(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules['cryptography.hazmat.primitives.asymmetric'] = None\n"
        "from privpac.device.client import Manifest\n"
        "try: Manifest.read(sys.stdin.buffer.read())\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=GOOD.published(), capture_output=True, check=True)
    assert b"pip install cryptography" in done.stdout
