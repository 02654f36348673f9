"""A budget on the device: one person, all runs, charged before anything is sent, whatever happens to the program."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from runs import COORDINATOR, CUT, run
from runs import store as new_store

from privpac.device.manifest import told
from privpac.device.wire import bundle
from privpac.errors import BudgetExhausted, ManifestError, ParameterError
from privpac.protocols import AnalyzerKey, Client, Device, Manifest

RECORDS = [{"age": age, "ill": int(age >= CUT)} for age in range(100)]
MODELS = ("local", "shuffle", "central")


def seeded(number: int) -> bytes:
    return number.to_bytes(32, "big")


def other(manifest: Manifest, number: int) -> Manifest:
    """The same run with another seed."""
    return Manifest({**manifest.values, "seed": seeded(number).hex()}).signed(COORDINATOR)


def signed(*given: Any, **more: Any) -> Manifest:
    """A run as it is published."""
    return run(*given, **more).manifest.signed(COORDINATOR)


@pytest.mark.parametrize("model", MODELS)
def test_a_second_call_sends_the_same_bytes_whatever_the_records(model: str, tmp_path: Path) -> None:
    store = new_store(tmp_path / "mine", "ann", 2, "1e-5", MODELS, unsealed=True)
    client = Client(signed(model))
    first = client.kept(RECORDS, store=store)
    assert not first.again
    for records in (RECORDS, [], RECORDS[:50]):
        kept = client.kept(records, store=tmp_path / "mine")
        assert (kept.messages, kept.again) == (first.messages, True)
    assert store.spent == (1, client.manifest.delta)
    Client(other(client.manifest, 7)).messages(RECORDS, store=store)
    assert store.spent == (2, 2 * client.manifest.delta)
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"device.db"}
    assert (tmp_path / "mine" / "device.db").stat().st_mode & 0o077 == 0
    assert (tmp_path / "mine").stat().st_mode & 0o077 == 0


def test_150_runs_against_a_budget_of_1_are_refused_after_the_first_that_exceeds_it(tmp_path: Path) -> None:
    store = new_store(tmp_path, "ann", 1)
    base = run("local", "1/10").manifest
    answered = []

    def never() -> Any:
        raise AssertionError("the records were read")
        yield

    for number in range(150):
        client = Client(other(base, number))
        if len(answered) < 10:
            client.messages(RECORDS, store=store)
            answered.append(number)
        else:
            with pytest.raises(BudgetExhausted, match="1 of your total 1 are spent"):
                client.messages(never(), store=store)
    assert answered == list(range(10))
    assert store.spent == (1, 0)
    assert Client(other(base, 3)).kept([], store=store).again  # what was answered can be sent again
    with pytest.raises(BudgetExhausted) as refused:
        Client(signed("local")).messages(RECORDS, store=store)
    assert (refused.value.remaining, refused.value.requested) == (0, 1)


def test_delta_is_a_budget_too(tmp_path: Path) -> None:
    store = new_store(tmp_path, "ann", 10, "1e-6", unsealed=True)
    made = signed("shuffle")
    Client(made).messages(RECORDS, store=store)
    with pytest.raises(BudgetExhausted, match="delta"):
        Client(other(made, 1)).messages(RECORDS, store=store)
    Client(signed("local")).messages(RECORDS, store=store)


def test_trust_models_are_named_and_unsealed_messages_refused(tmp_path: Path) -> None:
    careful = new_store(tmp_path / "a", "ann", 9, "1e-3")
    key = AnalyzerKey.new().public
    assert careful.accepts == ("local", "shuffle")
    with pytest.raises(ManifestError, match="this is a central run"):
        Client(signed("central", analyzer=key)).messages(RECORDS, store=careful)
    with pytest.raises(ManifestError, match="names no analyzer's key"):
        Client(signed("shuffle")).messages(RECORDS, store=careful)
    Client(signed("local")).messages(RECORDS, store=careful)
    Client(signed("shuffle", analyzer=key)).messages(RECORDS, store=careful)
    trusting = new_store(tmp_path / "b", "ann", 9, "1e-3", ["central"])
    Client(signed("central", analyzer=key)).messages(RECORDS, store=trusting)
    with pytest.raises(ManifestError, match="this is a local run"):
        Client(signed("local")).messages(RECORDS, store=trusting)
    assert careful.spent[0] == 2


def test_a_store_belongs_to_one_person(tmp_path: Path) -> None:
    store = new_store(tmp_path, "ann", 3)
    client = Client(signed("local"))
    client.messages(RECORDS, store=store, person="ann")
    for stranger in ("bob", "carl"):
        with pytest.raises(ParameterError, match="belongs to 'ann'"):
            client.messages(RECORDS, store=tmp_path, person=stranger)
    with pytest.raises(ParameterError, match="a store already"):
        new_store(tmp_path, "bob", 3)
    with pytest.raises(ParameterError, match="a store already"):
        new_store(tmp_path, "ann", 100)
    assert Device.open(tmp_path) == store


BAD: dict[str, dict[str, Any]] = {
    "epsilon 0": {"epsilon": 0},
    "epsilon -1": {"epsilon": -1},
    "delta 1": {"delta": 1},
    "delta -1": {"delta": "-1/10"},
    "model": {"accepts": ["open"]},
    "no model": {"accepts": []},
    "nobody": {"person": ""},
}


@pytest.mark.parametrize("name", BAD)
def test_bad_stores_are_not_made(name: str, tmp_path: Path) -> None:
    with pytest.raises(ParameterError):
        Device.new(tmp_path / "mine", **{"person": "ann", "epsilon": 1, **BAD[name]})
    assert not (tmp_path / "mine").exists()


# Lost and damaged stores


def test_a_missing_emptied_or_damaged_store_is_an_error_and_never_a_new_beginning(tmp_path: Path) -> None:
    client = Client(signed("local"))
    with pytest.raises(ParameterError, match="there is no store"):
        client.messages(RECORDS, store=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    store = new_store(tmp_path / "mine", "ann", 3)
    client.messages(RECORDS, store=store)
    place = tmp_path / "mine" / "device.db"
    whole = place.read_bytes()
    for data in (b"", b"x" * 5000, whole[: len(whole) // 2], bytes(len(whole))):
        place.write_bytes(data)
        with pytest.raises(ParameterError, match=r"emptied or damaged|cannot be used"):
            client.messages(RECORDS, store=tmp_path / "mine")
    place.write_bytes(whole)
    for statement, said in (
        ("DELETE FROM run", "emptied"),
        ("DELETE FROM owner", "emptied"),
        ("UPDATE run SET messages = x'00'", "damaged"),
        ("DROP TABLE run", "emptied"),
    ):
        book = sqlite3.connect(place)
        book.execute(statement)
        book.commit()
        book.close()
        with pytest.raises(ParameterError, match=said):
            client.messages(RECORDS, store=tmp_path / "mine")
        place.write_bytes(whole)
    assert client.kept([], store=tmp_path / "mine").again


def test_an_error_while_drawing_costs_nothing(tmp_path: Path) -> None:
    store = new_store(tmp_path, "ann", 1)
    with pytest.raises(ParameterError, match="no column 'age'"):
        Client(signed("local")).messages([{"Alter": 3, "ill": 1}], store=store)
    assert store.spent == (0, 0)
    Client(signed("local")).messages(RECORDS, store=store)


def test_threads_that_race_draw_once_and_never_over_the_total(tmp_path: Path) -> None:
    new_store(tmp_path, "ann", 3)
    made = run("local").manifest

    def go(number: int) -> bytes | None:
        try:
            return bundle(Client(other(made, number % 5)).messages(RECORDS, store=tmp_path))
        except BudgetExhausted:
            return None

    with ThreadPoolExecutor(8) as pool:
        sent = list(pool.map(go, range(40)))
    assert Device.open(tmp_path).spent == (3, 0)
    by_run = [{sent[i] for i in range(number, 40, 5)} - {None} for number in range(5)]
    assert sorted(len(found) for found in by_run) == [0, 0, 1, 1, 1]


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_device import RECORDS, other
from runs import run
from privpac.protocols import Client
from privpac.device.wire import bundle
made = run("local", "1/50").manifest
for number in range(1000):
    sent = Client(other(made, number)).messages(RECORDS, store=Path(sys.argv[1]))
    print(number, bundle(sent).hex(), flush=True)
"""


def test_a_store_survives_kill_9(tmp_path: Path) -> None:
    """What was acknowledged is there, byte for byte, and the total is never exceeded."""
    new_store(tmp_path, "ann", 20)
    made, acknowledged = run("local", "1/50").manifest, {}
    for round_ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parent)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for line in child.stdout:
            number, sent = line.split()
            assert acknowledged.setdefault(int(number), sent) == sent
            if len(acknowledged) >= 12 * (round_ + 1):
                time.sleep(0.003 * round_)
                os.kill(child.pid, signal.SIGKILL)
                break
        child.wait()
        child.stdout.close()
        store = Device.open(tmp_path)
        assert Fraction(len(acknowledged), 50) <= store.spent[0] <= 20
        for number, sent in acknowledged.items():
            kept = Client(other(made, number)).kept([], store=store)
            assert kept.again
            assert bundle(kept.messages).hex() == sent


# What a person is told


def test_the_promise_says_who_sees_what() -> None:
    key = AnalyzerKey.new().public
    said = {model: told(run(model, analyzer=key).manifest) for model in MODELS}
    assert "private by itself" in said["local"]
    assert "do not work together" in said["shuffle"]
    assert "60 honest people" in said["shuffle"]
    assert "reads the rule" in said["central"]
    assert all("sealed to the analyzer" in text and "epsilon = 1" in text for text in said.values())
    assert "can read the message" in told(run("local").manifest)
