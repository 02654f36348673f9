"""One transaction for all who wait: nothing leaves before it is on disk, and nobody pays for another's refusal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from attrs import evolve
from commands import Command
from service_site import SECRET, learned, prepare, serving, until

from privpac.data import Floats
from privpac.errors import BudgetExhausted, LedgerBusy, ModelFileError, ParameterError, SchemaError
from privpac.ledger import BudgetLedger
from privpac.ledger.file import try_lock
from privpac.methods.prediction.session import PredictionSession, QueryBatch
from privpac.serve.commit import Committer, HealthProbe
from privpac.serve.keys import KeyStore
from privpac.serve.session_file import new_secret, operator_secret


def question(*values: int, key: str = "k", share: int | None = None) -> QueryBatch:
    return QueryBatch({"x": np.array(values, dtype=np.uint64)}, key, share)


class Counted:
    """A session that answers 1 and remembers its transactions; the first waits until ``go``."""

    def __init__(self) -> None:
        self.go, self.begun, self.batches = threading.Event(), threading.Event(), list[int]()
        self.fails: list[Exception] = []

    def predict_many(self, questions: Sequence[QueryBatch]) -> list[Any]:
        self.batches.append(len(questions))
        self.begun.set()
        self.go.wait(60)
        if self.fails:
            raise self.fails.pop()
        return [BudgetExhausted(0, 1) if q.share == 0 else np.ones(len(q.codes["x"]), dtype=np.int8) for q in questions]


def test_whoever_comes_while_a_transaction_runs_shares_the_next_one() -> None:
    session = Counted()

    async def run() -> list[Any]:
        committer = Committer(session)  # type: ignore[arg-type]
        first = asyncio.create_task(committer.answer(question(1)))
        await asyncio.to_thread(session.begun.wait, 60)
        others = [asyncio.create_task(committer.answer(question(n, share=0 if n == 7 else None))) for n in range(2, 40)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in (first, *others))  # nothing leaves before its transaction is over
        others[0].cancel()  # a client that goes away takes nobody along
        session.go.set()
        return await asyncio.gather(first, *others, return_exceptions=True)

    found = asyncio.run(run())
    assert session.batches == [1, 38]
    refused = [n for n, result in enumerate(found, 1) if isinstance(result, BaseException)]
    assert refused == [2, 7]
    assert isinstance(found[6], BudgetExhausted)


def test_a_failed_transaction_answers_nobody_and_the_next_one_works() -> None:
    session = Counted()
    session.go.set()
    session.fails = [LedgerBusy("busy")]

    async def run() -> None:
        committer = Committer(session)  # type: ignore[arg-type]
        found = await asyncio.gather(*(committer.answer(question(n)) for n in range(3)), return_exceptions=True)
        assert [type(result) for result in found] == [LedgerBusy] * 3
        assert (await committer.answer(question(1, 2))).tolist() == [1, 1]

    asyncio.run(run())


def test_a_transaction_is_bounded() -> None:
    session = Counted()
    session.go.set()

    async def run() -> None:
        committer = Committer(session)  # type: ignore[arg-type]
        await asyncio.gather(*(committer.answer(question(*range(1000))) for _ in range(5)))

    asyncio.run(run())
    assert session.batches == [2, 2, 1]


def test_many_questions_are_answered_as_one_after_another(tmp_path: Path) -> None:
    session, ledger = learned(tmp_path, 12)
    for counted in (session, evolve(session, log=PredictionSession.in_memory(12))):
        asked = [
            question(1, 2, 1),
            question(2, 3, key="b", share=1),
            question(4, 5, key="b", share=1),
            question(1, key="c", share=0),
        ]
        asked += [question(*range(10, 30)), question(6, key="c", share=0), question(6, 7)]
        found = counted.predict_many(asked)
        refused = [isinstance(result, BudgetExhausted) for result in found]
        assert refused == [False, False, True, False, True, True, False]
        assert [(counted.used(), counted.used("k"), counted.used("b"), counted.used("c"))] == [(5, 4, 1, 0)]
        assert found[0].tolist()[0] == found[0].tolist()[2] == found[3].tolist()[0]
        again = counted.predict_many([asked[0], asked[1]])
        assert [result.tolist() for result in again] == [result.tolist() for result in found[:2]]
        assert counted.used() == 5
    ledger.close()


def test_waiting_requests_are_synced_together_and_before_they_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, transactions, synced = threading.Event(), list[int](), list[int]()
    predict, sync = PredictionSession.predict_many, os.fsync

    def held(self: PredictionSession, questions: Any) -> Any:
        transactions.append(len(questions))
        go.wait(60)
        found = predict(self, questions)
        synced.append(self.used())
        return found

    monkeypatch.setattr(PredictionSession, "predict_many", held)
    with serving(tmp_path, 40) as site:
        calls = [0]
        monkeypatch.setattr(os, "fsync", lambda handle: (calls.__setitem__(0, calls[0] + 1), sync(handle))[1])
        statuses: list[int] = []
        threads = [threading.Thread(target=lambda x=x: statuses.append(site.ask(x).status_code)) for x in range(20)]
        for thread in threads:
            thread.start()
        until(lambda: bool(transactions) and len(site.server.server_state.tasks) == 20)
        assert not statuses
        go.set()
        for thread in threads:
            thread.join()
        assert statuses == [200] * 20
        assert site.used() == sum(transactions) == synced[-1] == 20
        assert len(transactions) <= 3
        assert calls[0] < 20  # the bare way syncs at least once for every answer


def test_numbers_are_encoded_as_everywhere_else() -> None:
    values = [0, -0.0, 1, -1.5, 1e308, -1e308, 5e-324, 1e999, -1e999, 2**53 + 1, 3]
    codes, valid = Floats().encode([float(value) for value in values], on_invalid="clamp")
    assert bool(np.all(valid))
    assert Floats().encode_few(values, "x").tolist() == codes.tolist()
    with pytest.raises(SchemaError):
        Floats().encode_few([1.0, float("nan")], "x")


# Health


def test_health_is_told_while_the_ledger_is_stuck() -> None:
    go, tries = threading.Event(), list[int]()

    async def run() -> list[bool]:
        probe = HealthProbe(lambda: (tries.append(1), go.wait(60)), patience=0.05)
        stuck = list(await asyncio.gather(*(probe.healthy() for _ in range(5))))
        go.set()
        while not await probe.healthy():
            pass
        return stuck

    assert asyncio.run(run()) == [False] * 5
    assert len(tries) <= 3


def test_a_ledger_that_another_process_holds_is_said_at_once(tmp_path: Path) -> None:
    with serving(tmp_path, 5) as site, open(tmp_path / "budget.db", "r+b") as file:
        assert try_lock(file.fileno())
        assert httpx.get(site.url + "/healthz", timeout=20).status_code in (200, 503)
        assert httpx.get(site.url + "/guarantee", timeout=20).status_code == 200


# Keys


def test_a_held_lock_stops_no_authentication_and_a_writer_only_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KeyStore, "patience", 0.1)
    store = KeyStore(tmp_path / "keys")
    key, token = store.new("ann")
    lock = tmp_path / "keys.lock"
    assert oct(lock.stat().st_mode & 0o777) == "0o600"
    lock.chmod(0o644)
    with open(lock) as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        with ThreadPoolExecutor(1) as other:
            waiting = other.submit(store.new, "bob")
            assert store.check(token) == key
            assert isinstance(waiting.exception(60), ModelFileError)
        with pytest.raises(ModelFileError, match="another process"):
            store.revoke(key.id)
    assert store.new("carol")[0].name == "carol"
    assert oct(lock.stat().st_mode & 0o777) == "0o600"  # also one that was left open to others


@pytest.mark.parametrize(
    ("mode", "taken"), [(0o600, True), (0o400, True), (0o640, True), (0o644, False), (0o660, False), (0o602, False)]
)
def test_files_of_keys_that_others_may_read_or_change_are_refused(tmp_path: Path, mode: int, taken: bool) -> None:
    new_secret(tmp_path / "secret")
    store = KeyStore(tmp_path / "keys")
    _, token = store.new("ann")
    for name in ("secret", "keys"):
        (tmp_path / name).chmod(mode)
    if taken:
        assert len(operator_secret(tmp_path / "secret")) == 64
        assert store.check(token) is not None
        return
    with pytest.raises(ParameterError, match="chmod 600"):
        operator_secret(tmp_path / "secret")
    with pytest.raises(ModelFileError, match="chmod 600"):
        store.check(token)


def test_a_key_of_share_zero_gets_what_others_asked_and_nothing_else(tmp_path: Path) -> None:
    """As documented: a key can tell which queries were asked, not by whom."""
    with serving(tmp_path, 9) as site:
        _, reader = KeyStore(tmp_path / "s.ppm.keys").new("reader", share=0)
        _, other = KeyStore(tmp_path / "s.ppm.keys").new("other")
        first, second = site.ask(1), site.ask(2, key=other)
        seen = [site.ask(1, key=reader), site.ask(2, key=reader)]
        assert [response.content for response in seen] == [first.content, second.content]
        assert [set(response.headers) for response in seen] == [set(first.headers)] * 2
        refused = [site.ask(3, key=reader), site.ask(1, 3, key=reader)]
        assert {(response.status_code, response.content) for response in refused} == {(429, refused[0].content)}
        assert site.used() == 2


# Starting


def test_a_port_in_use_is_said_in_one_line_before_anything_else(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(tmp_path, 3)
    monkeypatch.setenv("PRIVPAC_SESSION_KEY", SECRET)
    for kind in ("127.0.0.1", "no such host"):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            for workers in (1, 2):
                run = command(
                    "serve",
                    "run",
                    "s.ppm",
                    "--ledger",
                    "budget.db",
                    "--host",
                    kind,
                    "--port",
                    port,
                    "--workers",
                    workers,
                )
                assert run.code == 2, run
                assert "console at" not in run.err
                assert f"port {port}" in run.err
    with BudgetLedger.open(tmp_path / "budget.db") as ledger:
        ledger.verify()


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_revocation_reaches_every_name_of_the_keys_or_is_refused(tmp_path: Path, link: Any) -> None:
    store = KeyStore(tmp_path / "keys")
    key, token = store.new("ann")
    link(tmp_path / "keys", tmp_path / "other")
    other = KeyStore(tmp_path / "other")
    if link is os.link:
        with pytest.raises(ModelFileError, match="2 names"):
            other.revoke(key.id)
        assert store.check(token) is not None
        return
    other.revoke(key.id)
    assert store.check(token) is None
    assert (tmp_path / "other").is_symlink()


def test_keys_with_strange_parts_are_one_error(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys")
    _, token = store.new("ann", share=3)
    text = (tmp_path / "keys").read_text()
    for bad in (text.replace('"share": 3', '"share": "x"'), text.replace('"hash": "', '"hash": "-'), "[" * 100_000):
        (tmp_path / "keys").write_text(bad)
        with pytest.raises(ModelFileError):
            KeyStore(tmp_path / "keys").check(token)


def test_a_key_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(ParameterError, match="cannot write the key file"):
            new_secret(tmp_path / "s.key")
    assert os.listdir(tmp_path) == []
    new_secret(tmp_path / "s.key")
    with pytest.raises(ParameterError, match="File exists"):
        new_secret(tmp_path / "s.key")
    assert os.listdir(tmp_path) == ["s.key"]
