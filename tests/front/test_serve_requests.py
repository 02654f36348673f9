"""Odd, mutated, cut and pipelined requests at the real server: answered in order, or refused, and nothing in
between."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_http import attacks, exchange, responses
from service_site import Site, serving, until

from privpac.connections import Limits
from privpac.methods.prediction.session import PredictionSession
from privpac.serve.responses import ServiceConnection

LIMIT = Limits().header_bytes


def query(body: bytes, key: str, *more: str) -> bytes:
    lines = [
        "POST /predict HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        f"Authorization: Bearer {key}",
        *more,
    ]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def ask(x: float) -> bytes:
    return json.dumps({"records": [{"x": x}]}).encode()


def mutated(rng: random.Random, data: bytes) -> bytes:
    """A request with a few bytes inserted, dropped, changed or repeated, most of them those that matter to a parser."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(out))
        piece = rng.choice(
            [
                b"\r\n",
                b"\n",
                b"\r",
                b" ",
                b"\t",
                b":",
                b",",
                b"\0",
                b"\x7f",
                b"\xff",
                b"/",
                b"1",
                b"GET ",
                b"; ",
                b"chunked",
            ]
        )
        match rng.randrange(4):
            case 0:
                out[at:at] = piece
            case 1:
                del out[at : at + rng.randrange(1, 4)]
            case 2:
                out[at : at + len(piece)] = piece
            case _:
                end = at + rng.randrange(1, 30)
                out[at:at] = out[at:end]
    return bytes(out)


def seeds(key: str) -> list[bytes]:
    headers = [
        "Host: y",
        "Connection: close",
        "Connection: keep-alive, upgrade",
        "X-Empty:",
        "X: a  b",
        "X:  two",
        "A: b\r\n c",
        "a: \x01",
    ]
    headers += [
        "Content-Length: 3",
        "Transfer-Encoding: chunked",
        "Expect: 100-continue",
        "Upgrade: h2c",
        "Cookie: a=b; c=d",
        "A : b",
    ]
    plain = query(ask(1), key)
    found = [
        plain,
        plain + plain,
        plain[:-1],
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /?a=%20 HTTP/1.1\r\nHost: x\r\nX: y\r\n\r\nab",
    ]
    found += [query(ask(2), key, header) for header in headers]
    found += [
        plain.replace(a, b)
        for a, b in (
            (b"1.1", b"1.0"),
            (b"POST", b"HEAD"),
            (b"Host: x\r\n", b""),
            (b"Length: ", b"Length: +"),
            (b" /", b" x/"),
        )
    ]
    return found


class Brief(ServiceConnection):
    limits = Limits(headers=600, body=600, idle=1)


class Patient(ServiceConnection):
    limits = Limits(headers=600, body=600, idle=600)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("plain"), 100, connection=Patient) as site:
        yield site


def statuses(raw: bytes) -> list[int]:
    return [response.status for response in responses(raw)]


def test_requests_before_the_end_of_a_connection_are_all_answered(patient: Site) -> None:
    one, wrong = query(ask(1), patient.analyst), query(b"{", patient.analyst)
    assert statuses(exchange(patient.address, one)) == [200]
    assert statuses(exchange(patient.address, one + wrong + one)) == [200, 422, 200]
    assert statuses(exchange(patient.address, one + one[:-1])) == [
        200,
        400,
    ]  # a body that cannot come is not waited for
    chunked = (
        query(b"", patient.analyst).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        + b"1\r\n{\r\n0\r\n\r\n"
    )
    assert statuses(exchange(patient.address, one + chunked + one)) == [200, 422, 200]


def test_mutated_requests_get_whole_responses_and_those_that_are_answered_were_asked(patient: Site) -> None:
    rng, seen = random.Random(16), set[int]()
    found = seeds(patient.analyst)
    for raw in [*found, *attacks(3, 100, patient.analyst), *(mutated(rng, rng.choice(found)) for _ in range(500))]:
        seen |= set(statuses(exchange(patient.address, raw)))
    assert {200, 400, 422} <= seen
    assert 500 not in seen
    assert patient.used() <= 100
    assert patient.ask(1).status_code == 200


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda raw: raw[:-1], 400),
        (lambda raw: raw.replace(b"Host", b"Transfer-Encoding: chunked\r\nHost"), 400),
        (lambda raw: raw.replace(b"Host", b"Transfer-Encoding: gzip, chunked\r\nHost"), 400),
        (lambda raw: raw.replace(b"Host", b"Content-Length: 3\r\nHost"), 400),
        (lambda raw: raw.replace(b"Length: ", b"Length: +"), 400),
        (lambda raw: raw.replace(b"Host", b"Host: x\r\nHost"), 400),
        (lambda raw: raw.replace(b"Host", b"authorization: Bearer x\r\nHost"), 400),
        (lambda raw: raw.replace(b"Host", b"Big: " + b"x" * LIMIT + b"\r\nHost"), 431),
        (lambda raw: raw.replace(b"Host: x\r\n", b""), 400),
        (lambda raw: raw.replace(b"Host", b"A : b\r\nHost"), 400),
        (lambda raw: raw.replace(b"Host", b"a: \x00\r\nHost"), 400),
        (lambda raw: raw.replace(b"Content-Type: application/json", b"Content-Type: text/plain"), 422),
        (lambda raw: raw.replace(b"Content-Type: application/json\r\n", b""), 422),
        (lambda raw: raw.replace(b"Host", b"Content-Type: application/json\r\nHost"), 422),
        (lambda raw: raw.replace(b"Host", b"Expect: 100-continue\r\nHost"), 200),
        (lambda raw: raw.replace(b"HTTP/1.1", b"HTTP/1.0"), 200),
    ],
)
def test_odd_requests_are_refused_or_answered_as_one(
    patient: Site, change: Callable[[bytes], bytes], status: int
) -> None:
    whole = query(ask(3), patient.analyst)
    raw = change(whole)
    assert raw != whole
    (response,) = responses(exchange(patient.address, raw))
    assert response.status == status
    assert status in (200, 422) or response.headers["connection"] == "close"


def test_nothing_hides_in_a_body(patient: Site) -> None:
    """Smuggling: what one reader takes for a body, another must not take for a request."""
    hidden = query(ask(4), patient.analyst)
    before = patient.used()
    for framing in (
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Content-Length: 0, 5",
        "Content-Length: 0\r\nContent-Length: 5",
        "Content-Length: 0x5",
    ):
        head = f"POST /predict HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {patient.analyst}\r\n{framing}\r\n\r\n"
        assert statuses(exchange(patient.address, head.encode() + b"0\r\n\r\n" + hidden)) == [400]
    assert patient.used() == before


@pytest.mark.parametrize("chunks", [b"5\r\nab", b"zz\r\n", b"-1\r\nx\r\n0\r\n\r\n", b"F" * 17 + b"\r\n", b"1\r\n{{"])
def test_bad_chunks_are_refused(patient: Site, chunks: bytes) -> None:
    raw = query(b"", patient.analyst).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    assert statuses(exchange(patient.address, raw + chunks)) == [400]


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """No transaction runs before this is set."""
    go, predict = threading.Event(), PredictionSession.predict_many

    def wait(self: PredictionSession, questions: Any) -> Any:
        go.wait(60)
        return predict(self, questions)

    monkeypatch.setattr(PredictionSession, "predict_many", wait)
    return go


def test_an_end_that_comes_while_an_answer_is_made_is_remembered(tmp_path: Path, held: threading.Event) -> None:
    with serving(tmp_path, 20, connection=Patient) as site, socket.create_connection(site.address, timeout=60) as link:
        link.sendall(query(ask(1), site.analyst) + query(ask(2), site.analyst) + query(ask(3), site.analyst)[:-1])
        link.shutdown(socket.SHUT_WR)
        until(lambda: any(each._ended for each in site.server.server_state.connections))
        held.set()
        found = bytearray()
        while part := link.recv(1 << 16):
            found += part
        assert statuses(bytes(found)) == [200, 200, 400]  # no deadline is waited for
        assert site.used() == 2


def test_what_comes_while_an_answer_is_made_is_answered_next(tmp_path: Path, held: threading.Event) -> None:
    with serving(tmp_path, 20, connection=Patient) as site, socket.create_connection(site.address, timeout=60) as link:
        link.sendall(query(ask(1), site.analyst))
        until(lambda: len(site.server.server_state.tasks) == 1)
        (connection,) = site.server.server_state.connections
        link.sendall(query(b"{", site.analyst) + query(ask(2), site.analyst)[:40])
        until(lambda: not connection.transport.is_reading())  # what comes next can wait
        link.sendall(query(ask(2), site.analyst)[40:])
        held.set()
        found = bytearray()
        while found.count(b"HTTP/1.1 ") < 3 or not found.endswith(b"}"):
            found += link.recv(1 << 16)
        link.sendall(query(ask(1), site.analyst))
        while found.count(b"HTTP/1.1 ") < 4 or not found.endswith(b"}"):
            found += link.recv(1 << 16)
        assert statuses(bytes(found)) == [200, 422, 200, 200]
        assert site.used() == 2


def test_a_connection_that_was_busy_is_closed_when_it_falls_silent(tmp_path: Path) -> None:
    with serving(tmp_path, 20, connection=Brief) as site, socket.create_connection(site.address, timeout=60) as link:
        for x in range(3):
            link.sendall(query(ask(x), site.analyst))
            found = bytearray()
            while not found.endswith(b"}"):
                found += link.recv(1 << 16)
            assert statuses(bytes(found)) == [200]
        assert link.recv(1 << 16) == b""
