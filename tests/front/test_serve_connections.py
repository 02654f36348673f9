"""Connections of the service under attack, over real sockets: whoever holds connections, headers or bodies back costs
a place and nothing else."""

from __future__ import annotations

import json
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hostile_http import Response, attacks, exchange, responses
from service_site import Site, serving, until

from privpac.connections import BACKLOG, ConnectionPlaces, Limits, neighbourhood
from privpac.methods.prediction.session import PredictionSession
from privpac.serve.responses import MAX_BODY, ServiceConnection


class Small(ServiceConnection):
    """Few places, and times that a test can wait for; silence and slowness are told apart by what the client gets."""

    limits = Limits(connections=40, per_address=24, headers=1, body=1, idle=1, linger=1)


class Patient(ServiceConnection):
    """Few places and no deadline within a test."""

    limits = Limits(connections=40, per_address=24, headers=600, body=600, idle=600)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("quick"), 300, connection=Small) as site:
        yield site


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("patient"), 300, connection=Patient) as site:
        yield site


def connect(site: Site, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(site.address, timeout=60, source_address=(source, 0))


def query(key: str | None, body: bytes | None, *more: str, path: str = "/predict", length: int | None = None) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *more]
    lines += [] if key is None else [f"Authorization: Bearer {key}"]
    lines += (
        [] if length is None and body is None else [f"Content-Length: {len(body or b'') if length is None else length}"]
    )
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def ask(x: float) -> bytes:
    return json.dumps({"records": [{"x": x}]}).encode()


def rest(link: socket.socket) -> bytes:
    """Everything until the server closes."""
    found = bytearray()
    with suppress(ConnectionResetError):
        while part := link.recv(1 << 16):
            found += part
    return bytes(found)


def one(link: socket.socket) -> Response:
    """The next response of a connection that stays open."""
    found = bytearray()
    while b"\r\n\r\n" not in found:
        part = link.recv(1)
        assert part, bytes(found)
        found += part
    length = int(found.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while length:
        part = link.recv(length)
        assert part
        found += part
        length -= len(part)
    (response,) = responses(bytes(found))
    return response


def open_ones(links: list[socket.socket]) -> int:
    """How many of some silent connections the server still holds; asks the kernel, not the clock."""
    count = 0
    for link in links:
        link.setblocking(False)
        try:
            link.recv(1)
        except BlockingIOError:
            count += 1
        except ConnectionResetError:
            pass
    return count


# ConnectionPlaces


def test_silent_connections_lose_their_places_and_honest_clients_are_answered(patient: Site) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(connect(patient)) for _ in range(300)]
        for x in range(3):
            assert patient.ask(x).status_code == 200
        again = [stack.enter_context(connect(patient)) for _ in range(300)]
        assert patient.ask(3).status_code == 200
        assert open_ones(held) == 0
        assert open_ones(again) <= Patient.limits.per_address


def test_a_client_with_a_key_keeps_its_connection_through_a_flood(patient: Site) -> None:
    with ExitStack() as stack:
        link = stack.enter_context(connect(patient))
        link.sendall(query(patient.analyst, ask(10)))
        assert one(link).status == 200
        flood = [stack.enter_context(connect(patient)) for _ in range(200)]
        assert patient.ask(11).status_code == 200
        link.sendall(query(patient.analyst, ask(12)))
        assert one(link).status == 200
        assert open_ones(flood) < Patient.limits.per_address


def test_one_address_cannot_drive_out_another(patient: Site) -> None:
    with ExitStack() as stack:
        quiet = [stack.enter_context(connect(patient, "127.0.0.1")) for _ in range(5)]
        assert patient.ask(20).status_code == 200
        flood = [stack.enter_context(connect(patient, f"127.0.0.{2 + n % 3}")) for n in range(300)]
        assert patient.ask(21).status_code == 200
        assert open_ones(quiet) == 5
        assert open_ones(flood) <= Patient.limits.connections


def test_a_newcomer_is_refused_only_while_every_place_is_worked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, seen = threading.Event(), threading.Semaphore(0)
    predict = PredictionSession.predict_many

    def slowly(self: PredictionSession, questions: Any) -> Any:
        seen.release()
        go.wait(60)
        return predict(self, questions)

    monkeypatch.setattr(PredictionSession, "predict_many", slowly)

    class Eight(ServiceConnection):
        limits = Limits(connections=8, per_address=8, headers=600, body=600, idle=600)

    with serving(tmp_path, 40, connection=Eight) as site, ExitStack() as stack:
        busy = [stack.enter_context(connect(site)) for _ in range(8)]
        for x, link in enumerate(busy):
            link.sendall(query(site.analyst, ask(x)))
        seen.acquire(timeout=60)
        until(lambda: len(site.server.server_state.tasks) == 8)
        refused = stack.enter_context(connect(site))
        (response,) = responses(rest(refused))
        assert response.status == 503  # with every security header, as any other response
        go.set()
        assert [one(link).status for link in busy] == [200] * 8
        assert site.used() == 8


def test_places_leave_room_for_descriptors_and_neighbours_are_counted_together() -> None:
    assert Limits().within(1 << 20) == Limits().within(resource.RLIM_INFINITY) == Limits().connections
    assert Limits().within(1024) + BACKLOG < 1024
    places = ConnectionPlaces(Limits())
    assert places._places <= Limits().connections
    peers = {"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.1": "10.0.0.1"}
    assert {name: neighbourhood((name, 1)) for name in peers} == peers
    assert neighbourhood(("2001:db8::1", 1, 0, 0)) == neighbourhood(("2001:db8::ffff:2%eth0", 1, 0, 0))
    assert neighbourhood(("2001:db8:0:1::1", 1, 0, 0)) != neighbourhood(("2001:db8::1", 1, 0, 0))
    assert neighbourhood(None) == ""


# Times


@pytest.mark.parametrize(
    "start", [b"", b"GET / HTT", b"GET / HTTP/1.1\r\nHost: x\r\nX: "], ids=["silent", "line", "headers"]
)
def test_headers_that_do_not_come_end_the_connection(quick: Site, start: bytes) -> None:
    with connect(quick) as link:
        link.sendall(start)
        assert [response.status for response in responses(rest(link))] == ([408] if start else [])


def test_more_bytes_do_not_move_a_deadline(quick: Site) -> None:
    with connect(quick) as link:
        stopped = threading.Event()

        def drip() -> None:
            with suppress(OSError):
                link.sendall(b"GET / HTTP/1.1\r\n")
                while not stopped.wait(0.02):
                    link.sendall(b"a: b\r\n")

        thread = threading.Thread(target=drip)
        thread.start()
        found = rest(link)
        stopped.set()
        thread.join()
    assert [response.status for response in responses(found)] == [408]


@pytest.mark.parametrize("body", [{"length": 1000}, {}], ids=["declared", "chunked"])
def test_bodies_that_do_not_come_end_the_request_and_count_nothing(quick: Site, body: dict[str, int]) -> None:
    before = quick.used()
    more = [] if body else ["Transfer-Encoding: chunked"]
    with connect(quick) as link:
        link.sendall(query(quick.analyst, None, *more, **body) + (b"{" if body else b"1\r\n{\r\n"))
        (response,) = responses(rest(link))
    assert response.status == 408
    assert quick.used() == before


def test_responses_that_nobody_reads_end_the_connection(quick: Site) -> None:
    endless = b"GET /static/console.js HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000_000
    with connect(quick) as link, pytest.raises((ConnectionResetError, BrokenPipeError)):
        link.sendall(endless)


# Keys before bodies


@pytest.mark.parametrize("how", ["declared", "chunked", "continue", "huge"])
@pytest.mark.parametrize("who", ["nobody", "stranger", "analyst"])
def test_a_key_is_judged_before_a_byte_of_the_body_is_sent(patient: Site, how: str, who: str) -> None:
    key = {"nobody": None, "stranger": "pp_000000000000_" + "A" * 43, "analyst": patient.analyst}[who]
    more = {"chunked": ["Transfer-Encoding: chunked"], "continue": ["Expect: 100-continue"]}.get(how, [])
    length = {"declared": 1000, "continue": 1000, "huge": MAX_BODY + 1}.get(how)
    path = "/console/api/keys" if who == "analyst" else "/predict"
    with connect(patient) as link:
        link.sendall(query(key, None, *more, path=path, length=length))
        response = one(link)
        assert response.status == (403 if who == "analyst" else 401)
        assert response.headers["connection"] == "close"


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(patient: Site) -> None:
    with connect(patient) as link:
        link.sendall(query(patient.analyst, None, length=MAX_BODY + 1))
        assert one(link).status == 413
    with connect(patient) as link:
        link.sendall(
            query(patient.analyst, None, "Transfer-Encoding: chunked") + b"1\r\n \r\n" * (Patient.limits.pieces + 9)
        )
        assert one(link).status == 413


def test_a_refused_client_can_still_read_why(patient: Site) -> None:
    """The response is not lost to a reset, although the client is still sending."""
    raw = query(None, b" " * MAX_BODY)
    for _ in range(8):
        (response,) = responses(exchange(patient.address, raw))
        assert response.status == 401


def test_a_small_body_that_nobody_asked_for_does_not_end_the_connection(patient: Site) -> None:
    with connect(patient) as link:
        link.sendall(query(None, ask(1)) + query(patient.analyst, ask(30)))
        assert [one(link).status for _ in range(2)] == [401, 200]


# HTTP


def test_pipelined_requests_are_answered_in_order(patient: Site) -> None:
    raw = b"".join(
        [
            query(patient.analyst, ask(40)),
            b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
            query(patient.analyst, b"{"),
            query(None, b""),
        ]
    )
    found = responses(exchange(patient.address, raw))
    assert [response.status for response in found] == [200, 200, 422, 401]
    head = responses(exchange(patient.address, b"HEAD /guarantee HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    assert [(response.status, response.body) for response in head] == [(405, b"")]


def filled(key: str, size: int, filling: str) -> bytes:
    """A question whose request line and headers have ``size`` bytes, all of them counted."""
    body = ask(0.5)
    kinds = {
        "long": lambda room: "X-Long: " + "y" * (room - len("X-Long: \r\n")),
        "spaces": lambda room: "X-Wide:" + " " * (room - len("X-Wide:y\r\n")) + "y",
        "small": lambda room: "\r\n".join(["a:b"] * (room // 5 - 1) + ["a:" + "b" * (room % 5 + 1)]),
    }
    bare = query(key, body)
    head = len(bare) - len(body)
    if filling == "line":
        found = query(key, body, path="/predict?" + "q" * (size - head - 1))
    else:
        found = query(key, body, kinds[filling](size - head))
    assert len(found) - len(body) == size
    return found


@pytest.mark.parametrize("filling", ["long", "spaces", "small", "line"])
@pytest.mark.parametrize("more", [-1, 0, 1, 14_000])
@pytest.mark.parametrize("packets", [1, 2, 40])
def test_request_line_and_headers_have_so_many_bytes_and_no_more(
    patient: Site, filling: str, more: int, packets: int
) -> None:
    raw = filled(patient.analyst, Patient.limits.header_bytes + more, filling)
    with connect(patient) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        step = -(-len(raw) // packets)
        with suppress(ConnectionError):  # refused before everything was said
            for at in range(0, len(raw), step):
                link.sendall(raw[at : at + step])
                threading.Event().wait(0.001 if packets > 1 else 0)
            link.shutdown(socket.SHUT_WR)
        (response,) = responses(rest(link))
    assert response.status == (431 if more > 0 else 200)


def test_a_body_may_come_in_pieces_and_wait_for_a_word(patient: Site) -> None:
    body = ask(50)
    chunks = b"".join(b"%x\r\n%s\r\n" % (1, body[i : i + 1]) for i in range(len(body))) + b"0\r\n\r\n"
    (response,) = responses(
        exchange(patient.address, query(patient.analyst, None, "Transfer-Encoding: chunked") + chunks)
    )
    assert response.status == 200
    with connect(patient) as link:
        link.sendall(query(patient.analyst, None, "Expect: 100-continue", length=len(body)))
        assert link.recv(100).startswith(b"HTTP/1.1 100 ")
        link.sendall(body)
        assert one(link).body == response.body


@pytest.mark.parametrize(
    "odd",
    [
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "Authorization: Bearer x",
        "Content-Length: 3\r\nContent-Length: 4",
        "Host: second",
        "Big: " + "x" * 20_000,
    ],
    ids=["two-lengths", "two-keys", "lengths-differ", "two-hosts", "huge"],
)
def test_requests_that_two_readers_could_take_differently_are_refused(patient: Site, odd: str) -> None:
    (response,) = responses(exchange(patient.address, query(patient.analyst, None, odd)))
    assert response.status == (431 if odd.startswith("Big") else 400)
    assert json.loads(response.body)["error"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/predict", b'{"records": [{"x": 1, "x": 2}]}'),
        ("/predict", b'{"records": [{"x": 1}], "records": [{"x": 2}]}'),
        ("/predict", b'{"records": [{"x": 1, "\\u0078": 2}]}'),
        ("/console/api/keys", b'{"name": "a", "role": "analyst", "role": "operator"}'),
    ],
)
def test_a_name_that_occurs_twice_is_refused_and_nothing_is_charged(patient: Site, path: str, body: bytes) -> None:
    before, keys = patient.used(), len(patient.call("GET", "/console/api/keys", patient.operator).json()["keys"])
    (response,) = responses(exchange(patient.address, query(patient.operator, body, path=path)))
    assert response.status == 422
    assert patient.used() == before
    assert len(patient.call("GET", "/console/api/keys", patient.operator).json()["keys"]) == keys


def test_answers_leave_at_once_from_a_socket_that_was_bound_before(patient: Site) -> None:
    """``service_site`` binds as a parent of workers does: without a protocol number, which asyncio takes for no TCP at
    all."""
    with connect(patient) as link:
        link.sendall(query(patient.analyst, ask(60)))
        assert one(link).status == 200
        (connection, *_) = patient.server.server_state.connections
        assert connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(
    "path",
    [
        "/budget%0A",
        "/predict%0A",
        "//budget",
        "/budget/",
        "/./budget",
        "@elsewhere",
        "/console/api/keys%0A",
        "/%62udget",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_way_to_write_a_path_opens_nothing(patient: Site, method: str, path: str) -> None:
    for key, statuses in ((None, (401, 404, 405)), (patient.analyst, (200, 401, 403, 404, 405, 422))):
        raw = query(key, ask(80)).replace(b"POST /predict", f"{method} {path}".encode())
        (response,) = responses(exchange(patient.address, raw))
        assert response.status in statuses
        assert b"answers" not in response.body or response.status != 200


@pytest.mark.parametrize("seed", range(4))
def test_hostile_requests_get_whole_responses_and_the_service_goes_on(patient: Site, seed: int) -> None:
    statuses: set[int] = set()
    for raw in attacks(seed, 100, patient.analyst):
        found = responses(exchange(patient.address, raw))
        statuses |= {response.status for response in found}
        for response in found:
            assert b"Traceback" not in response.body
    assert 500 not in statuses
    assert {200, 400, 401, 422} <= statuses
    assert patient.ask(70 + seed).status_code == 200
    assert patient.used() <= 300
