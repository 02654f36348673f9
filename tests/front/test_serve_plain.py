"""The short way through the door: whatever it reads, the parser reads in the same way; order and deadlines are those of
the long way."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h11
import httpx
import pytest
from hostile_http import attacks, exchange, responses
from service_site import Site, serving, until

from privpac.methods.prediction.session import PredictionSession
from privpac.serve.door import Door
from privpac.serve.hall import Limits
from privpac.serve.plain import read_plain

LIMIT = Limits().header_bytes
KEY = "pp_000000000000_" + "A" * 43


def query(body: bytes, key: str = KEY, *more: str) -> bytes:
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


def parsed(data: bytes) -> tuple[Any, ...]:
    """What the parser makes of the first request; raises what it raises."""
    conn = h11.Connection(h11.SERVER, LIMIT)
    conn.receive_data(data)
    head, body = conn.next_event(), b""
    assert isinstance(head, h11.Request), head
    while isinstance(event := conn.next_event(), h11.Data):
        body += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage), event
    assert head.http_version == b"1.1"
    assert not conn.they_are_waiting_for_100_continue
    return head.method, head.target, list(head.headers), body, conn.trailing_data[0]


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


def seeds() -> list[bytes]:
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
    plain = query(ask(1))
    found = [
        plain,
        plain + plain,
        plain[:-1],
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /?a=%20 HTTP/1.1\r\nHost: x\r\nX: y\r\n\r\nab",
    ]
    found += [query(ask(2), KEY, header) for header in headers]
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


def test_what_is_read_at_once_is_what_the_parser_reads() -> None:
    rng, read = random.Random(16), 0
    for data in [*seeds(), *attacks(3, 300, KEY), *(mutated(rng, rng.choice(seeds())) for _ in range(6000))]:
        found = read_plain(data, LIMIT)
        if found is not None:
            assert tuple(found) == parsed(data), data
            read += 1
    assert read > 500


@pytest.mark.parametrize(
    "odd",
    [
        query(ask(1))[:-1],
        query(ask(1), KEY, "Transfer-Encoding: chunked"),
        query(ask(1), KEY, "Expect: 100-continue"),
        query(ask(1), KEY, "Content-Length: 3"),
        query(ask(1), KEY, "Host: x"),
        query(ask(1), KEY, f"authorization: Bearer {KEY}"),
        query(ask(1), KEY, "Big: " + "x" * LIMIT),
        query(ask(1)).replace(b"Host: x\r\n", b""),
        query(ask(1)).replace(b"HTTP/1.1", b"HTTP/1.0"),
        query(ask(1)).replace(b"\r\nHost", b"\nHost"),
        query(ask(1)).replace(b"Host: x", b"Host: x\r\n folded"),
    ],
)
def test_everything_else_is_left_to_the_parser(odd: bytes) -> None:
    assert read_plain(odd, LIMIT) is None


def test_common_clients_send_plain_requests() -> None:
    request = httpx.Client().build_request(
        "POST", "http://localhost:8000/predict", json={"records": [{"x": 1}]}, headers={"Authorization": KEY}
    )
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in request.headers.raw)
    found = read_plain(b"POST /predict HTTP/1.1\r\n" + lines + b"\r\n" + request.content, LIMIT)
    assert found is not None
    assert found.body == request.content


# Over sockets


class Brief(Door):
    limits = Limits(headers=600, body=600, idle=1)


class Patient(Door):
    limits = Limits(headers=600, body=600, idle=600)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("plain"), 100, door=Patient) as site:
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
    with serving(tmp_path, 20, door=Patient) as site, socket.create_connection(site.address, timeout=60) as link:
        link.sendall(query(ask(1), site.analyst) + query(ask(2), site.analyst) + query(ask(3), site.analyst)[:-1])
        link.shutdown(socket.SHUT_WR)
        until(lambda: any(door._half for door in site.server.server_state.connections))
        held.set()
        found = bytearray()
        while part := link.recv(1 << 16):
            found += part
        assert statuses(bytes(found)) == [200, 200, 400]  # no deadline is waited for
        assert site.used() == 2


def test_what_comes_while_an_answer_is_made_is_answered_next(tmp_path: Path, held: threading.Event) -> None:
    with serving(tmp_path, 20, door=Patient) as site, socket.create_connection(site.address, timeout=60) as link:
        link.sendall(query(ask(1), site.analyst))
        until(lambda: len(site.server.server_state.tasks) == 1)
        (door,) = site.server.server_state.connections
        link.sendall(query(b"{", site.analyst) + query(ask(2), site.analyst)[:40])
        until(lambda: bool(door._rest))
        assert not door._transport.is_reading()
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
    with serving(tmp_path, 20, door=Brief) as site, socket.create_connection(site.address, timeout=60) as link:
        for x in range(3):
            link.sendall(query(ask(x), site.analyst))
            assert link.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert link.recv(1 << 16) == b""
