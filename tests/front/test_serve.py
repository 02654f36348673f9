"""The service over real HTTP: answers are counted before they leave, nothing private leaves, and nothing a client sends
breaks it."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import polars as pl
import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service_site import SECRET, Site, children, learned, prepare, running, serving, start, stop, until

from privpac.cli import app as cli
from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers
from privpac.errors import LedgerMismatch, ModelFileError, ParameterError
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
from privpac.methods.prediction.session import PredictionSession
from privpac.serve import app as module
from privpac.serve.app import create_app
from privpac.serve.keys import KeyStore
from privpac.serve.schema import _feature
from privpac.serve.session_file import load_session, new_secret, operator_secret, rule_name, save_session


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One service in a thread of this process, on loopback."""
    with serving(tmp_path_factory.mktemp("service"), 400, share=300) as running:
        yield running


# Answers


def test_one_and_many_records_are_answered_and_repeats_are_free(site: Site) -> None:
    before = site.used()
    first = site.ask(0.5, -2, 0.5)
    assert first.status_code == 200
    body = first.json()
    assert set(body) == {"answers", "label"}
    assert set(body["answers"]) <= {0, 1}
    assert body["answers"][0] == body["answers"][2]
    assert site.ask(0.5, -2.0).json()["answers"] == body["answers"][:2]
    assert site.used() == before + 2


def test_budget_and_guarantee_are_told_and_the_share_is_kept(site: Site) -> None:
    promise = site.call("GET", "/guarantee").json()
    assert (promise["epsilon"], promise["unit"], promise["neighbours"], promise["queries"]) == (
        "3",
        "user",
        "add-remove",
        400,
    )
    (feature,) = promise["features"]
    assert (feature["name"], feature["domain"], feature["kind"]) == ("x", "finite 64-bit floats", "floats")
    before = site.call("GET", "/budget", site.analyst).json()
    site.ask(123.25)
    after = site.call("GET", "/budget", site.analyst).json()
    assert (after["used"], after["key_used"], after["share"]) == (before["used"] + 1, before["key_used"] + 1, 300)
    assert after["remaining"] == 400 - after["used"]
    assert [site.call("GET", "/budget", key).json()["role"] for key in (site.analyst, site.operator)] == [
        "analyst",
        "operator",
    ]


def test_the_console_lists_makes_and_revokes_keys(site: Site) -> None:
    made = site.call("POST", "/console/api/keys", site.operator, json={"name": "guest", "share": 1})
    assert made.status_code == 201
    token, identity = made.json()["token"], made.json()["id"]
    assert token not in (site.folder / "s.ppm.keys").read_text()
    assert site.ask(7001, key=token).status_code == 200
    over = site.ask(7002, key=token)
    assert (over.status_code, over.json()["remaining"]) == (429, 0)
    assert over.json()["error"] == "budget exhausted"
    listed = {key["id"]: key for key in site.call("GET", "/console/api/keys", site.operator).json()["keys"]}
    assert (listed[identity]["used"], listed[identity]["share"]) == (1, 1)
    assert "hash" not in listed[identity]
    assert site.call("DELETE", f"/console/api/keys/{identity}", site.operator).status_code == 200
    assert site.ask(7001, key=token).status_code == 401
    assert site.call("DELETE", "/console/api/keys/unknown", site.operator).status_code == 404
    history = site.call("GET", "/console/api/history", site.operator).json()
    assert sum(span["answers"] for span in history["answers"]) == site.used()
    assert history["step"] == "minute"


@pytest.mark.parametrize("path", ["/budget", "/console/api/keys", "/console/api/history"])
@pytest.mark.parametrize(
    "key", [None, "-", "wrong", "pp_000000000000_" + "A" * 43], ids=["none", "dash", "word", "unknown"]
)
def test_without_a_valid_key_nothing_is_told(site: Site, path: str, key: str | None) -> None:
    response = site.call("GET", path, key)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"


def test_an_analyst_is_no_operator(site: Site) -> None:
    assert site.call("GET", "/console/api/keys", site.analyst).status_code == 403
    assert site.call("POST", "/console/api/keys", site.analyst, json={"name": "x"}).status_code == 403


def test_the_page_and_the_description_load_nothing_from_elsewhere(site: Site) -> None:
    page = site.call("GET", "/")
    assert page.status_code == 200
    for text in (page.text, *(site.call("GET", f"/static/console.{kind}").text for kind in ("js", "css"))):
        assert "http:" not in text
        assert "https:" not in text
    policy = page.headers["content-security-policy"]
    for rule in (
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ):
        assert rule in policy
    assert "unsafe" not in policy
    assert site.call("GET", "/docs").status_code == 404
    described = site.call("GET", "/openapi.json").json()
    assert {"/predict", "/budget", "/guarantee", "/healthz"} <= set(described["paths"])


# Bad input


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'{"records": []}',
        b'{"records": [{}]}',
        b'{"records": [{"x": null}]}',
        b'{"records": [{"x": NaN}]}',
        b'{"records": [{"x": "SECRET-TEXT"}]}',
        b'{"records": [{"x": true}, {"x": [1]}]}',
        b'{"records": [{"x": 1, "SECRET-TEXT": 2}]}',
        b'{"records": [{"x": 1}], "more": 1}',
        b'{"records": [{"x": ' + b"9" * 5000 + b"}]}",
        b'{"records": ' + b"[" * 2000 + b"]" * 2000 + b"}",
        json.dumps({"records": [{"x": i} for i in range(1001)]}).encode(),
        b"\xff\xfe",
    ],
    ids=lambda body: f"{len(body)}-{body[:12].hex()}",
)
def test_bad_bodies_are_refused_alike_and_echo_nothing(site: Site, body: bytes) -> None:
    before = site.used()
    response = site.call("POST", "/predict", site.analyst, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422)
    assert set(response.json()) == {"error", "detail"}
    assert "SECRET" not in response.text
    assert site.used() == before


def test_large_bodies_are_cut_off(site: Site) -> None:
    response = site.call(
        "POST", "/predict", site.analyst, content=b" " * (1 << 21), headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 413


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "records", "y"]), inner, max_size=3)
        ),
        max_leaves=6,
    )
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_fuzzed_bodies_never_break_the_service(site: Site, value: Any) -> None:
    for body in (value, {"records": value}, {"records": [value]}, {"records": [{"x": value}]}):
        response = site.call(
            "POST", "/predict", site.analyst, content=json.dumps(body), headers={"Content-Type": "application/json"}
        )
        assert response.status_code in (200, 400, 422, 429)
        assert "Traceback" not in response.text


def test_generated_requests_fit_the_description(site: Site) -> None:
    """Requests made up from ``/openapi.json``: no failure of the server, and every response as described."""
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    schema = schemathesis.openapi.from_url(site.url + "/openapi.json")
    checks = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]
    seen: list[int] = []
    for result in schema.get_all_operations():
        operation = result.ok()

        @given(case=operation.as_strategy())
        @settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        def run(case: Any) -> None:
            response = case.call(headers={"Authorization": f"Bearer {site.operator}"}, timeout=30)
            case.validate_response(response, checks=checks)
            assert "Traceback" not in response.text
            seen.append(response.status_code)

        run()
    assert 200 in seen


# Crashes, restarts, several workers


def test_a_killed_service_goes_on_where_it_stopped_and_the_log_is_silent(tmp_path: Path) -> None:
    site = prepare(tmp_path, 12)
    backup = (tmp_path / "s.ppm").read_bytes()
    start(site)
    answers = [site.ask(value).json()["answers"][0] for value in (1.5, 2.5, -7.25)]
    stop(site)
    assert site.used() == 3
    (tmp_path / "s.ppm").write_bytes(backup)  # an old copy of the session brings no answer back
    start(site, workers=2)
    try:
        assert len(children(site)) == 2
        again = [site.ask(value).json()["answers"][0] for value in (1.5, 2.5, -7.25)]
        assert again == answers
        assert site.used() == 3
        given: list[int] = []

        def ask_many(first: int) -> None:
            for value in range(first, first + 20):
                with suppress(httpx.TransportError):  # the killed worker takes its requests along
                    given.append(site.ask(value).status_code)

        os.kill(children(site)[0], signal.SIGKILL)  # the other worker answers, and the killed one is replaced
        threads = [threading.Thread(target=ask_many, args=(1000 * n,)) for n in range(1, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stop(site)
    assert given.count(200) <= 9
    assert set(given) <= {200, 429}
    assert site.used() == 12
    log = site.log.read_text()
    assert "Traceback" not in log
    for secret in (site.analyst, site.operator, SECRET, "-7.25"):
        assert secret not in log


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """``kill -9`` of the service itself: nobody answers any more, the port is free, and every answer is recorded."""
    site = prepare(tmp_path, 500)
    start(site, workers=2)
    assert site.process is not None
    workers, answered, over = children(site), list[int](), threading.Event()
    assert len(workers) == 2

    def ask() -> None:
        number = 0
        while not over.is_set():
            with suppress(httpx.TransportError):
                if site.ask(number).status_code == 200:
                    answered.append(number)
                    number += 1

    client = threading.Thread(target=ask)
    client.start()
    try:
        until(lambda: len(answered) >= 5)
        os.kill(site.process.pid, signal.SIGKILL)
        site.process.wait(60)
        killed = time.monotonic()
        while any(running(pid) for pid in workers):
            assert time.monotonic() < killed + 10, "a worker goes on without its master"
            time.sleep(0.02)
        over.set()
        client.join()  # on loopback one that goes on connecting may meet itself at the free port
        with socket.socket() as again:
            again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            again.bind(site.address)
    finally:
        over.set()
        client.join()
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert len(answered) <= site.used() <= len(answered) + 1


# Warming up


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_worker_is_warm_before_it_listens_and_nothing_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epochs: int
) -> None:
    session, ledger = learned(tmp_path, 6)
    session = evolve(session, voters=session._voters * epochs)
    counted: list[int] = []
    count = PredictionSession._count
    monkeypatch.setattr(
        PredictionSession, "_count", lambda self, epoch, codes: counted.append(epoch) or count(self, epoch, codes)
    )
    before = ledger.queries.head(session.session_id)
    create_app(session, ledger, KeyStore(tmp_path / "keys"))
    assert "_coins" in session.__dict__
    assert set(counted) == set(range(epochs))
    assert ledger.queries.head(session.session_id) == before
    assert session.used() == 0


def test_long_histories_are_told_by_day(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.ask(555.5)
    for most, step, width in ((500, "minute", 16), (0, "day", 10)):
        monkeypatch.setattr(module, "_MAX_SPANS", most)
        body = site.call("GET", "/console/api/history", site.operator).json()
        assert body["step"] == step
        assert {len(span["start"]) for span in body["answers"]} == {width}
        assert sum(span["answers"] for span in body["answers"]) == site.used()


@pytest.mark.parametrize(
    ("domain", "form"),
    [
        (Floats(), ("floats", None, None, None, None)),
        (Integers(-3, 2**64 - 4), ("integers", "-3", str(2**64 - 4), None, None)),
        (Grid(0, 1, "0.1"), ("grid", "0", "1", "0.1", None)),
        (Dates("2020-01-01", "2020-12-31"), ("dates", "2020-01-01", "2020-12-31", None, None)),
        (Categories(["a", "b"]), ("categories", None, None, None, ["a", "b"])),
        (Categories([True, 7]), ("categories", None, None, None, ["true", "7"])),
        (Categories(range(201)), ("categories", None, None, None, None)),
    ],
    ids=["floats", "integers", "grid", "dates", "names", "mixed", "many"],
)
def test_a_form_learns_the_declared_domain(domain: Domain, form: tuple[object, ...]) -> None:
    shown = _feature("x", domain)
    assert (shown.kind, shown.low, shown.high, shown.step, shown.choices) == form
    for value in (shown.low, shown.high, *(shown.choices or ())):
        if value is not None:
            sent = json.loads(value) if shown.kind in ("integers", "grid") else value
            assert domain.encode([sent])[1].all()


# Session files and keys


def test_a_session_file_holds_no_plain_state_and_opens_with_its_key_only(tmp_path: Path) -> None:
    session, ledger = learned(tmp_path, 30)
    path = tmp_path / "s.ppm"
    save_session(session, path, SECRET)
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    data = path.read_bytes()
    for private in (session._secret.hex(), f"{session._voters[0][0]:016x}", "voters", "threshold"):
        assert private.encode() not in data
    opened = load_session(path, SECRET, ledger)
    assert (opened._voters, opened.guarantee, opened.queries) == (session._voters, session.guarantee, 30)
    assert opened.predict([[0.1]]).tolist() == session.predict([[0.1]]).tolist()
    for wrong in ("6e" * 32, "a passphrase instead"):
        with pytest.raises(ModelFileError):
            load_session(path, wrong, ledger)


def test_every_damaged_byte_of_a_session_file_is_noticed(tmp_path: Path) -> None:
    session, ledger = learned(tmp_path, 5)
    save_session(session, tmp_path / "s.ppm", SECRET)
    data = (tmp_path / "s.ppm").read_bytes()
    places = [*range(60), *range(60, len(data), max(1, len(data) // 40)), len(data) - 1]
    for damage in (
        *(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :] for i in places),
        data[:-1],
        data[:50],
        b"",
        data + b"x",
    ):
        (tmp_path / "bad.ppm").write_bytes(damage)
        with pytest.raises(ModelFileError):
            load_session(tmp_path / "bad.ppm", SECRET, ledger)


def test_the_length_of_a_session_file_is_public(tmp_path: Path) -> None:
    lengths = set()
    for name in ("one.db", "two.db", "three.db"):
        session, _ = learned(tmp_path, 5, name=name)
        save_session(session, tmp_path / "s.ppm", SECRET)
        lengths.add((tmp_path / "s.ppm").stat().st_size)
    assert len(lengths) == 1


def test_a_passphrase_works_and_another_ledger_does_not(tmp_path: Path) -> None:
    session, ledger = learned(tmp_path, 5)
    save_session(session, tmp_path / "s.ppm", "correct horse battery staple")
    assert load_session(tmp_path / "s.ppm", "correct horse battery staple", ledger).queries == 5
    other = BudgetLedger.create(tmp_path / "other.db", Guarantee(4, unit="user", neighbours="add-remove"), dataset="o")
    with pytest.raises(LedgerMismatch):
        load_session(tmp_path / "s.ppm", "correct horse battery staple", other)


def test_only_counted_sessions_and_named_rules_can_be_saved(tmp_path: Path) -> None:
    from privpac.rules import Points, Thresholds

    session, _ = learned(tmp_path, 5)
    assert rule_name(Thresholds(Integers(0, 9), "x", "both")) == "threshold-both"
    with pytest.raises(ParameterError):
        rule_name(Points(Integers(0, 9), "x", zero=True))
    with pytest.raises(ParameterError, match="ledger"):
        save_session(evolve(session, log=PredictionSession.in_memory(5)), tmp_path / "s.ppm", SECRET)


def test_the_operators_secret_is_read_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRIVPAC_SESSION_KEY", raising=False)
    with pytest.raises(ParameterError, match="PRIVPAC_SESSION_KEY"):
        operator_secret()
    new_secret(tmp_path / "key")
    assert len(operator_secret(tmp_path / "key")) == 64
    with pytest.raises(ParameterError):
        new_secret(tmp_path / "key")
    monkeypatch.setenv("PRIVPAC_SESSION_KEY", "short")
    with pytest.raises(ParameterError, match="12"):
        operator_secret()
    with pytest.raises(ParameterError):
        operator_secret(tmp_path / "nothing")


def test_keys_are_hashed_revoked_for_good_and_seen_by_other_processes(tmp_path: Path) -> None:
    mine, theirs = KeyStore(tmp_path / "keys"), KeyStore(tmp_path / "keys")
    assert mine.check("pp_000000000000_" + "A" * 43) is None
    key, token = mine.new("ann", share=3)
    assert theirs.check(token) == key
    assert theirs.check(token[:-1] + ("A" if token[-1] != "A" else "B")) is None
    assert token not in (tmp_path / "keys").read_text()
    theirs.revoke(key.id)
    assert mine.check(token) is None
    assert mine.revoke(key.id).revoked is not None
    for name, share in (("", 1), ("x" * 61, 1), ("two\nlines", 1), ("x", -1)):
        with pytest.raises(ParameterError):
            mine.new(name, share=share)
    (tmp_path / "keys").write_text("{}")
    with pytest.raises(ModelFileError):
        mine.all()


# Command line


def run_cli(*words: str) -> tuple[int, str, str]:
    """The command in this process: exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["privpac", *words])
        patch.setattr(warnings, "showwarning", warnings.showwarning)
        with pytest.raises(SystemExit) as stop:
            cli.main()
    return int(stop.value.code or 0), out.getvalue(), err.getvalue()


def test_the_command_line_fits_a_session_and_spends_only_when_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRIVPAC_SESSION_KEY", raising=False)
    rng = np.random.default_rng(1)
    x = rng.normal(100, 20, size=300)
    pl.DataFrame({"who": np.arange(300) // 2, "glucose": x, "event": (x > 110).astype(int)}).write_parquet(
        tmp_path / "d.parquet"
    )
    BudgetLedger.create(
        tmp_path / "b.db", Guarantee(2, "1e-5", unit="user", neighbours="add-remove"), dataset="d"
    ).close()
    fit = [
        "serve",
        "fit",
        "d.parquet",
        "-u",
        "who",
        "-y",
        "event",
        "-f",
        "glucose",
        "-e",
        "1",
        "--delta",
        "1e-6",
        "-k",
        "20",
    ]
    fit += ["--ledger", "b.db", "-o", "s.ppm"]
    code, _, said = run_cli(*fit)
    assert (code, "PRIVPAC_SESSION_KEY" in said) == (2, True)
    code, shown, said = run_cli(*fit, "--key-file", "key", "--json")
    assert code == 0, said
    body = json.loads(shown)
    assert (body["queries"], body["guarantee"]["epsilon"]) == (20, "1")
    with BudgetLedger.open(tmp_path / "b.db") as ledger:
        (spend,) = ledger.history()
        assert (str(spend.eps), spend.spend_id) == ("1", body["session_id"])
        assert load_session(tmp_path / "s.ppm", operator_secret(tmp_path / "key"), ledger).remaining() == 20
        load_session(tmp_path / "s.ppm", operator_secret(tmp_path / "key"), ledger).predict([[101.5], [90.25], [101.5]])
        ledger.spend(Guarantee("1/2", unit="user", neighbours="add-remove"), "a rule")
    (listed,) = json.loads(run_cli("ledger", "show", "b.db", "--json")[1])["sessions"]
    head = listed.pop("head")
    assert listed == {"seq": 1, "session_id": body["session_id"], "answered": 2, "queries": 20}
    assert run_cli("ledger", "verify", "b.db", "--published", head)[0] == 0
    assert run_cli("ledger", "verify", "b.db", "--published", "0" * 64)[0] != 0
    assert "prediction session" in run_cli("ledger", "show", "b.db")[1]
    identity = json.loads(run_cli("serve", "keys", "new", "s.ppm", "--name", "ann", "--share", "5", "--json")[1])["id"]
    assert run_cli("serve", "keys", "revoke", "s.ppm", identity)[0] == 0
    assert json.loads(run_cli("serve", "keys", "list", "s.ppm", "--json")[1])[0]["revoked"] is not None
    code, _, said = run_cli("serve", "run", "s.ppm", "--ledger", "b.db", "--key-file", "key")
    assert (code, "no API keys" in said) == (2, True)


def test_no_command_of_the_service_or_the_ledger_takes_a_secret_among_its_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Arguments can be read by every user of the machine: secrets come from files or the environment."""
    import typer

    import privpac.cli.ledger
    import privpac.cli.serve  # noqa: F401

    tree, seen = typer.main.get_command(cli.app), list[str]()

    def walk(command: Any, name: str) -> None:
        for child, found in getattr(command, "commands", {}).items():
            walk(found, f"{name} {child}")
        for option in command.params:
            seen.append(name)
            secret = {"token", "secret", "password", "passphrase", "key", "keys"} & set(option.name.split("_"))
            assert not secret or option.name in ("key_file", "keys_file"), (name, option.name)

    for group in ("serve", "ledger"):
        walk(tree.commands[group], group)  # type: ignore[attr-defined]
    assert {"serve run", "serve fit", "serve keys new", "ledger verify"} <= set(seen)
    told = io.StringIO()
    words = ["privpac", "serve", "run", "s.ppm", "--ledger", "b.db", "--token", "not-to-be-shown"]
    monkeypatch.setattr(sys, "argv", words)
    with redirect_stderr(told), pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert "not-to-be-shown" not in told.getvalue()
