"""Sealed messages: the analyzer reads them, nobody else does, and who carries them learns how many there are."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import CUT, SEED, run

from privpac.device.keys import OVERHEAD, seal
from privpac.device.wire import parse
from privpac.errors import ManifestError, ParameterError
from privpac.protocols import AnalyzerKey, Client, Manifest, Shuffler, analyze_central, analyze_local, analyze_shuffled

KEY = AnalyzerKey(bytes(range(32)))
VECTORS = json.loads((Path(__file__).parents[2] / "docs" / "wire-vectors.json").read_text())
MODELS = ["local", "shuffle", "central"]


def sealed(model: str, **more: Any) -> Manifest:
    return run(model, analyzer=KEY.public, **more).manifest


# One message


@given(st.binary(max_size=60), st.binary(min_size=32, max_size=32), st.integers(1, 3))
def test_what_is_sealed_is_opened_by_the_holder_of_the_key_alone(text: bytes, name: bytes, kind: int) -> None:
    message = seal(name, kind, KEY.public, text)
    assert len(message) == len(text) + OVERHEAD
    assert KEY.open(name, kind, message) == text
    assert AnalyzerKey.new().open(name, kind, message) is None
    assert KEY.open(bytes([name[0] ^ 1]) + name[1:], kind, message) is None
    assert KEY.open(name[:-1] + bytes([name[-1] ^ 1]), kind, message) is None  # outside the frame: associated data
    assert KEY.open(name, kind % 3 + 1, message) is None


@settings(max_examples=60)
@given(st.data())
def test_a_changed_message_does_not_open_and_nothing_raises(data: Any) -> None:
    message = bytearray(seal(SEED, 2, KEY.public, b"twenty bytes of text"))
    place = data.draw(st.integers(0, len(message) - 1))
    message[place] ^= data.draw(st.integers(1, 255))
    assert KEY.open(SEED, 2, bytes(message)) is None
    for strange in (None, 3, "x", b"", bytes(message[:-1]), data.draw(st.binary(max_size=100))):
        assert KEY.open(SEED, 2, strange) is None
    assert KEY.open(SEED, 2, b"PPX1\x02" + SEED[:8] + bytes(32) + bytes(40)) is None  # a point of small order


def test_keys_and_their_files() -> None:
    private, public = KEY.write()
    assert AnalyzerKey.read(private) == KEY
    assert AnalyzerKey.read_public(public) == KEY.public
    assert KEY.private.hex() not in repr(KEY)
    for bad in (b"", public, private[:-5], b"privpac-analyzer-key zz"):
        with pytest.raises(ParameterError, match="privpac protocol keys"):
            AnalyzerKey.read(bad)
    with pytest.raises(ParameterError):
        AnalyzerKey.read_public(private)
    with pytest.raises(ParameterError):
        AnalyzerKey(b"short")
    with pytest.raises(ParameterError, match="small order"):
        seal(SEED, 2, bytes(32), b"x")


@pytest.mark.parametrize("case", VECTORS["seal"], ids=lambda case: case["name"])
def test_published_vectors_of_sealing(case: dict[str, Any]) -> None:
    name, text = bytes.fromhex(case["run_id"]), bytes.fromhex(case["message"])
    key = AnalyzerKey(bytes.fromhex(case["analyzer_private"]))
    made = seal(name, case["kind"], key.public, text, ephemeral=bytes.fromhex(case["ephemeral_private"]))
    assert (key.public.hex(), made.hex()) == (case["analyzer_public"], case["sealed"])
    assert key.open(name, case["kind"], made) == text


# Whole runs


@pytest.mark.parametrize("model", MODELS)
def test_all_messages_of_a_run_are_equally_long_whatever_they_say(model: str) -> None:
    made = sealed(model)
    client = Client(made)
    universe = made.task.learner.universe
    lengths = {len(m) for item in (None, universe.item(0), universe.item(100)) for m in client.send(item)}
    assert lengths == {made.message_bytes}


def test_lists_of_different_lengths_are_sealed_alike() -> None:
    from privpac.data import Integers
    from privpac.protocols import CentralProtocol

    columns = {"a": Integers(0, 1), "b": Integers(0, 1)}
    made = CentralProtocol("decision-list", columns, Fraction(1), analyzer=KEY.public).manifest
    items = [b"\0", bytes.fromhex("00000100"), None]
    sent = [Client(made).send(item) for item in items]
    assert {len(messages[0]) for messages in sent} == {made.message_bytes}
    for item, (message,) in zip(items, sent):
        text = KEY.open(made.run, made.kind, message)
        assert parse(made.run, text, made.kind, made.item_bytes) == (item or b"",)


def test_sealed_runs_are_analysed_with_the_key_and_without_names() -> None:
    rows = [{"age": age, "ill": int(age >= CUT)} for age in range(100)]
    for model, people in (("local", 500), ("shuffle", 80), ("central", 60)):
        made = sealed(model)
        client, mixer = Client(made), Shuffler(made)
        said = client.item(rows)
        for i in range(people):
            assert mixer.submit(f"p{i}", client.send(said))
        mixed = mixer.release()
        assert mixed is not None
        assert all(isinstance(message, bytes) for message in mixed)
        if model == "shuffle":
            found = analyze_shuffled(made, mixed, mixer.clients, key=KEY)
        elif model == "local":
            found = analyze_local(made, [(i, [m]) for i, m in enumerate(mixed)], key=KEY)
        else:
            found = analyze_central(made, [(i, [m]) for i, m in enumerate(mixed)], key=KEY)
        assert (found.released.outcome, found.released.value.item) == ("released", said)
        assert found.dropped in (0, None)


def test_the_right_key_is_needed_and_garbage_is_counted_by_reason() -> None:
    made = sealed("local")
    sent = [(i, Client(made).send(None)) for i in range(20)]
    with pytest.raises(ParameterError, match="needs the analyzer's private key"):
        analyze_local(made, sent)
    with pytest.raises(ParameterError, match="not the private key"):
        analyze_local(made, sent, key=AnalyzerKey.new())
    forged = seal(made.run, made.kind, KEY.public, b"twenty bytes of text")
    other = Client(sealed("local", seed=bytes(32))).send(None)
    plain = Client(run("local").manifest).send(None)
    strange = [("eve", [forged]), ("mallory", other), ("old", plain), ("copy", sent[0][1]), ("none", [None])]
    found = analyze_local(made, [*sent, *strange], key=KEY)
    assert (found.received, found.dropped) == (20, 5)
    assert {reason: count for reason, count in found.reasons.items() if count} == {
        "unreadable": 1,
        "malformed": 3,
        "copied": 1,
    }
    assert "1 copied" in str(found)


def test_a_shuffler_drops_copies_of_ciphertexts() -> None:
    """A person's messages sent again under other names would count that person many times."""
    made = sealed("shuffle")
    mixer, mine = Shuffler(made), Client(made).send(None)
    assert mixer.submit("ann", mine)
    assert not mixer.submit("eve", mine)
    assert (mixer.clients, mixer.dropped.copied) == (1, len(mine))
    assert "copies" in str(mixer.dropped)


# What the shuffler sees

PEOPLE = 500
SURE = 61
"""Half of 250 are guessed right by chance; 61 more with probability below 1e-12 (Hoeffding), for each guesser."""


def _view(made: Manifest) -> tuple[list[list[bytes]], np.ndarray[Any, Any]]:
    client, universe = Client(made), made.task.learner.universe
    truth = np.random.default_rng(5).integers(0, 2, PEOPLE)
    return [client.send(universe.item(41 if one else 90)) for one in truth], truth


def _features(sent: list[list[bytes]], size: int) -> np.ndarray[Any, Any]:
    """Bytes of all of a person's messages: means, least and largest, and how many there are."""
    rows = []
    for messages in sent:
        table = np.frombuffer(b"".join(messages), dtype=np.uint8).reshape(-1, size).astype(float)
        rows.append(np.concatenate([table.mean(0), table.min(0), table.max(0), [len(messages)]]))
    return np.array(rows)


def _guessed(features: np.ndarray[Any, Any], truth: np.ndarray[Any, Any]) -> int:
    """A ridge guesser that learns from 250 people whose rules it knows, judged on the others."""
    spread = features.std(0)
    kept = (features - features.mean(0))[:, spread > 0] / spread[spread > 0]
    half = PEOPLE // 2
    x, y = kept[:half], 2 * truth[:half] - 1
    weights = np.linalg.solve(x.T @ x + 10 * np.eye(x.shape[1]), x.T @ y)
    return int(((kept[half:] @ weights > 0) == (truth[half:] == 1)).sum())


def _reader(made: Manifest, sent: list[list[bytes]], truth: np.ndarray[Any, Any]) -> int:
    """What anyone who can read the messages guesses: the rule named among them."""
    buckets = [{parse(made.run, m, made.kind)[0] for m in messages} for messages in sent]  # type: ignore[index]
    said = [int(41 in seen and 90 not in seen) if (41 in seen) != (90 in seen) else 0 for seen in buckets]
    return int((np.array(said)[PEOPLE // 2 :] == truth[PEOPLE // 2 :]).sum())


def test_the_shuffler_guesses_no_better_than_from_the_number_of_messages() -> None:
    half = PEOPLE // 4
    plain = run("shuffle", n_min=PEOPLE).manifest
    sent, truth = _view(plain)
    assert _reader(plain, sent, truth) > half + SURE  # what sealing is there for
    made = sealed("shuffle", n_min=PEOPLE)
    sent, truth = _view(made)
    assert {len(message) for messages in sent for message in messages} == {made.message_bytes}
    everything = _features(sent, made.message_bytes)
    assert abs(_guessed(everything, truth) - half) <= SURE
    assert abs(_guessed(everything[:, -1:], truth) - half) <= SURE
    heads = {message[:13] for messages in sent for message in messages}
    assert len(heads) == 1
    assert len({message[13:45] for messages in sent for message in messages}) == sum(map(len, sent))


def test_how_many_messages_a_person_sends_does_not_depend_on_the_rule() -> None:
    """The number is one real message and the noise of all buckets, whatever the item; decided on equal coins."""
    from privpac.testing import SeededRng, insecure_randomness

    select = run("shuffle", n_min=PEOPLE).manifest.shuffle
    with insecure_randomness():
        for coins in range(40):
            counts = {len(select.messages(item, SeededRng(coins))) for item in (None, 0, 41, 90)}
            assert len(counts) == 1


# Without the library


def test_a_sealed_run_without_cryptography_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from privpac.device.client import Client, Manifest\n"
        "made = Manifest.read(sys.stdin.read())\n"
        "try: Client(made).send(None)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=sealed("local").write().decode(), capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("ParameterError")
    assert "pip install cryptography" in done.stdout


def test_a_manifest_names_its_analyzer() -> None:
    made = sealed("local")
    assert made.analyzer == KEY.public
    assert run("local").manifest.analyzer is None
    assert made.run != run("local").manifest.run
    with pytest.raises(ManifestError):
        Manifest({**made.values, "analyzer": "00"})
    with pytest.raises(ParameterError, match="32 bytes"):
        run("local", analyzer=b"short")
