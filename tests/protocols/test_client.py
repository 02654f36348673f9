"""A device: one message drawn once, nothing said by silence, nothing needed but numpy."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import COORDINATOR, CUT, run
from runs import store as new_store

from privpac.device.client import Client, bundle, main
from privpac.device.wire import LOCAL, SHUFFLE, pack_item, pack_report, parse, unbundle
from privpac.errors import ManifestError
from privpac.protocols import CoordinatorKey, fingerprint
from privpac.testing import WordRng, insecure_randomness

RECORDS = [{"age": age, "ill": int(age >= CUT)} for age in range(100)]
MODELS = ["local", "shuffle", "central"]


def test_without_a_store_every_call_is_a_draw_of_its_own() -> None:
    client = run("local").client()
    assert len({client.messages(RECORDS)[0] for _ in range(40)}) > 1


def test_the_item_is_a_function_of_ones_own_valid_records() -> None:
    client = run("local").client()
    item = client.item(RECORDS)
    assert item is not None
    broken = [
        {"age": -5, "ill": 1},
        {"age": "x", "ill": 0},
        {"ill": 1},
        {"age": 3},
        {"age": 3, "ill": 7},
        {"age": None, "ill": None},
    ]
    assert client.item([*RECORDS, *broken]) == item
    assert client.item([{"age": str(r["age"]), "ill": str(r["ill"])} for r in RECORDS]) == item
    least = run("local").min_records
    assert least == 20
    assert client.item(RECORDS[: least - 1]) is None
    assert client.item(RECORDS[:least]) is not None
    assert client.item([*RECORDS[: least - 1], *broken]) is None


def test_nobody_is_silent() -> None:
    """Local and shuffle: nothing to say is sent like everything else; central: an empty item, no vote."""
    for records in ([], RECORDS):
        (report,) = run("local").client().messages(records)
        assert parse(run("local").manifest.run, report, LOCAL) is not None
        sent = run("shuffle").client().messages(records)
        assert all(parse(run("shuffle").manifest.run, message, SHUFFLE) for message in sent)
        assert 1 <= len(sent) <= run("shuffle").manifest.shuffle.cap
    central = run("central")
    assert central.client().messages([]) == [pack_item(central.manifest.run, b"")]
    assert len(central.client().messages(RECORDS)) == 1


def _law(said: int | None) -> dict[bytes, Fraction]:
    """The exact law of a local message, by running through the coins; the truth's coin by its two outcomes."""
    made = run("local", width=3).manifest
    client, select = Client(made), made.local
    law: dict[bytes, Fraction] = {}
    chunk_bits, keep_bits = (select.chunks - 1).bit_length(), (select.keep.denominator - 1).bit_length()
    item = None if said is None else made.task.learner.universe.item(said)
    for chunk in range(select.chunks):
        width = select.width_of(chunk)
        for j in range(1 << width):
            for coin in range(2):
                for truth, share in ((0, select.keep), (select.keep.numerator, 1 - select.keep)):
                    words = [chunk << (64 - chunk_bits), j << (64 - width), coin << 63, truth << (64 - keep_bits)]
                    with insecure_randomness():
                        (message,) = client.send(item, WordRng(words))
                    law[message] = law.get(message, Fraction(0)) + share / select.chunks / (1 << width) / 2
    return law


def test_message_laws_of_any_two_items_differ_by_at_most_the_ratio_and_attain_it() -> None:
    keep = run("local", width=3).manifest.local.keep
    items = (None, 0, 1, 37, 64, 100)
    laws = [_law(said) for said in items]
    made = run("local", width=3).manifest
    for said, law in zip(items, laws):
        assert law == {pack_report(made.run, *report): share for report, share in made.local.message_law(said).items()}
    assert all(sum(law.values()) == 1 for law in laws)
    assert len({frozenset(law) for law in laws}) == 1
    assert max(p[m] / q[m] for p in laws for q in laws for m in p) == keep / (1 - keep)


# Bundles


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_bundles_round_trip(messages: list[bytes]) -> None:
    assert unbundle(bundle(messages)) == messages


@given(st.binary(max_size=200))
def test_hostile_bundles_end_where_they_cannot_be_read(data: bytes) -> None:
    read = unbundle(data)
    assert data.startswith(bundle(read))
    assert unbundle(b"\xff\xff\xff\xff" + data) == []
    assert len(unbundle(bytes(4) * 50, limit=7)) == 7


# The standalone command


def _loaded(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_device_loads_only_the_standard_library_numpy_and_light_modules(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_bytes(run("shuffle").manifest.signed(COORDINATOR).published())
    (tmp_path / "r.csv").write_text("age,ill\n" + "".join(f"{r['age']},{r['ill']}\n" for r in RECORDS))
    new_store(tmp_path / "mine", "ann", 1, "1e-6", unsealed=True)
    files = [str(tmp_path / name) for name in ("m.json", "r.csv", "out.bin", "mine")]
    names = ["send", *files[:3], "--store", files[3]]
    code = (
        "import sys; before = set(sys.modules)\n"
        "from privpac.device.client import main\n"
        f"assert main({names!r}) == 0\n"
        "tops = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print('\\n'.join(tops - set(sys.stdlib_module_names)))\n"
        "print('\\n'.join(name for name in sys.modules if name.startswith('privpac.')))"
    )
    loaded = _loaded(code)
    # The signature of a manifest is checked with cryptography.
    strangers = {name for name in loaded if not name.startswith("privpac.")} - {"privpac", "numpy", "cryptography"}
    # numpy looks whether its own optional accelerators are there; nothing else may come along.
    assert not {name for name in strangers if not name.startswith(("_", "numpy"))}
    rooms = {name.split(".")[1] for name in loaded if name.startswith("privpac.")}
    assert rooms <= {"errors", "lazy", "rng", "device", "protocols", "files"}
    assert not {f"privpac.protocols.{heavy}" for heavy in ("protocol", "analyzer", "calibrate", "domains")} & loaded
    made = run("shuffle").manifest
    assert all(parse(made.run, message, SHUFFLE) for message in unbundle((tmp_path / "out.bin").read_bytes()))


def test_command_says_nothing_about_records_and_fails_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest, records, store = tmp_path / "m.json", tmp_path / "r.csv", str(tmp_path / "store")
    manifest.write_bytes(run("local").manifest.signed(COORDINATOR).published())
    records.write_text("age,ill\n987654,1\n")
    (tmp_path / "c.pub").write_bytes(COORDINATOR.write()[1])
    pinned = ["--coordinator-key", str(tmp_path / "c.pub")]
    assert main(["device", store, "--person", "ann", "--epsilon", "1", *pinned]) == 0
    assert f"trusts the coordinator {fingerprint(COORDINATOR.public)}" in capsys.readouterr().err
    good = ["send", str(manifest), str(records), str(tmp_path / "o.bin"), "--store", store]
    assert main(good) == 0
    first = (tmp_path / "o.bin").read_bytes()
    assert main(good) == 0
    assert (tmp_path / "o.bin").read_bytes() == first
    said = capsys.readouterr()
    assert said.out == ""
    assert "987654" not in said.err
    assert "private by itself" in said.err
    weak: dict[str, Any] = json.loads(manifest.read_bytes())
    weak["manifest"]["mechanism"]["keep"] = "9/10"
    (tmp_path / "weak.json").write_text(json.dumps(weak))
    records.with_name("latin.csv").write_bytes(b"age,ill\n\xff\xfe,1\n")
    records.with_name("typo.csv").write_text("Age,ill\n3,1\n")
    other = tmp_path / "other.json"
    other.write_bytes(run("local", seed=bytes(32)).manifest.signed(COORDINATOR).published())
    bare, eve = tmp_path / "bare.json", tmp_path / "eve.json"
    bare.write_bytes(run("local").manifest.write())
    eve.write_bytes(run("local").manifest.signed(CoordinatorKey(bytes(32))).published())
    for bad in (
        ["send", "none", *good[2:]],
        ["send", str(tmp_path / "weak.json"), *good[2:]],
        ["send", good[1], str(tmp_path / "latin.csv"), *good[3:]],
        ["send", good[1], str(tmp_path / "typo.csv"), *good[3:]],
        ["send", str(other), *good[2:]],  # the budget of 1 is spent
        ["send", str(bare), *good[2:]],
        ["send", str(eve), *good[2:]],
        [*good, "--url", "http://127.0.0.1:9", "--token-file", str(tmp_path / "none")],
        [*good[:4], "--store", str(tmp_path / "none")],
        ["device", store, "--person", "ann", "--epsilon", "9", *pinned],
        ["device", str(tmp_path / "new"), "--person", "ann", "--epsilon", "x", *pinned],
        ["device", str(tmp_path / "new"), "--person", "ann", "--epsilon", "1", "--coordinator-key", str(records)],
        ["trust", str(tmp_path / "new"), *pinned],
    ):
        assert main(bad) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert "987654" not in said.err
    for usage in ([], ["send"], good[:4]):
        assert main(usage) == 2


def test_a_refused_manifest_leaves_the_records_alone() -> None:
    def never() -> Any:
        raise AssertionError("the records were read")
        yield

    with pytest.raises(ManifestError):
        Client(run("local").manifest, Fraction(1, 2)).messages(never())
