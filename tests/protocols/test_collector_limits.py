"""A collector under slow clients: deadlines for headers and bodies, places by address, the token before the body."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from runs import run

from privpac.device.submit import submit
from privpac.device.wire import bundle
from privpac.errors import ParameterError
from privpac.protocols import Client
from privpac.protocols.collect import Collector, CollectorLimits
from privpac.protocols.files import limit_of

MANIFEST = run("local").manifest
TOKENS = {f"p{i}": f"the token of person {i}".replace(" ", "-") for i in range(8)}
QUICK = CollectorLimits(connections=24, per_address=12, headers=1.0, body=1.0, linger=0.5)


@contextmanager
def collecting(folder: Path, limits: CollectorLimits = QUICK, **more: Any) -> Iterator[Collector]:
    with Collector(MANIFEST, folder, tokens=TOKENS, limits=limits, **more) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(10)


def _post(name: str, token: str, length: int) -> bytes:
    lines = (f"POST /submit/{name} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", "Privpac-Version: 2")
    return "\r\n".join((*lines, f"Content-Length: {length}", "", "")).encode()


def _link(server: Collector) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=20)


def _all(link: socket.socket) -> bytes:
    try:
        return b"".join(iter(lambda: link.recv(4096), b""))
    except ConnectionError:
        return b""


class Slow:
    """Sockets that say a byte now and then, in every way; those that are closed are opened again."""

    def __init__(self, server: Collector, number: int, wrap: Callable[[socket.socket], socket.socket] | None = None):
        self._server, self._number, self._wrap = server, number, wrap
        self._stop, self._begun = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Slow:
        self._thread.start()
        assert self._begun.wait(20)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join(20)

    def _open(self, way: int) -> tuple[socket.socket, Iterator[int]]:
        link = _link(self._server)
        said = {
            0: b"",
            1: b"GET /manifest HTT",
            2: b"GET /manifest HTTP/1.1\r\nHost: x\r\nX-",
            3: _post("p0", "none", 40),
        }
        if said[way % 4]:
            link.sendall(said[way % 4])
        return link, iter(b"a" * 10_000)

    def _run(self) -> None:
        held = [self._open(way) for way in range(self._number)]
        self._begun.set()
        while not self._stop.wait(0.1):
            for place, (link, letters) in enumerate(held):
                try:
                    link.send(bytes((next(letters),)))
                except OSError:
                    link.close()
                    if place % 8 == 0:  # some come back at once
                        held[place] = self._open(place)
        for link, _ in held:
            link.close()


def everyone_submits(server: Collector) -> int:
    """Everyone with a token sends a message; how many the collector keeps then."""
    url = f"http://127.0.0.1:{server.server_port}"
    for name, token in TOKENS.items():
        body = bundle(Client(MANIFEST).send(None))
        for _ in range(3):  # the attacker shares the address, so a single try may lose its place
            try:
                submit(url, name, body, token, run=MANIFEST.run)
                break
            except ParameterError as error:
                if "could not be reached" not in str(error):
                    raise
    return server.clients


def test_slow_sockets_above_all_places_do_not_stop_an_honest_client(tmp_path: Path) -> None:
    """Ten times the places of an address, without a token, a byte every tenth of a second: everyone is still served."""
    with collecting(tmp_path) as server, Slow(server, 10 * QUICK.per_address):
        before = time.monotonic()
        assert everyone_submits(server) == len(TOKENS)
        assert time.monotonic() - before < 15
        assert threading.active_count() < 3 * QUICK.connections
    assert {path.name for path in tmp_path.iterdir()} == set(TOKENS)


def test_a_deadline_is_not_moved_by_more_bytes(tmp_path: Path) -> None:
    with collecting(tmp_path) as server:
        for begin, answer in (
            (b"GET /man", b""),
            (b"GET /manifest HTTP/1.1\r\nHost: x\r\nX-Slow: ", b""),
            (_post("p1", TOKENS["p1"], 24), b" 408 "),
        ):
            before = time.monotonic()
            with _link(server) as link:
                link.sendall(begin)
                link.settimeout(0.2)
                found = None
                while found is None and time.monotonic() - before < 10:
                    try:
                        found = link.recv(1000)
                    except TimeoutError:
                        link.send(b"a")
                    except ConnectionError:
                        found = b""
                assert answer in (found or b"")
            assert time.monotonic() - before < 3
        assert server.clients == 0


def test_the_token_is_looked_at_before_the_body(tmp_path: Path) -> None:
    """Answered before a byte of the body has come."""
    with collecting(tmp_path, CollectorLimits()) as server:
        too_large = limit_of(MANIFEST) + 1
        for head, status in (
            (_post("p1", "another token", 24), b" 401 "),
            (_post("nobody", TOKENS["p1"], 24), b" 401 "),
            (_post("p1", TOKENS["p1"], too_large), b" 413 "),
            (_post("p1", TOKENS["p1"], 24).replace(b": 2", b": 1"), b" 426 "),
            (_post("p1", TOKENS["p1"], 24).replace(b"/submit/", b"/elsewhere/"), b" 404 "),
        ):
            with _link(server) as link:
                link.sendall(head)
                assert status in link.recv(200)
        body = bundle(Client(MANIFEST).send(None))
        with _link(server) as link:  # a refusal is still read by a client that sends everything first
            link.sendall(_post("p1", "another token", 1 << 15) + bytes(1 << 15))
            assert b" 401 " in _all(link)
        with _link(server) as link:
            link.sendall(_post("p1", TOKENS["p1"], len(body)) + body)
            assert b" 204 " in _all(link)


def test_headers_have_a_limit(tmp_path: Path) -> None:
    with collecting(tmp_path, CollectorLimits()) as server:
        for lines in ([b"X: " + b"a" * 40_000], [b"X%d: " % i + b"a" * 900 for i in range(40)]):
            with _link(server) as link:
                link.sendall(b"GET /manifest HTTP/1.1\r\nHost: x\r\n" + b"\r\n".join(lines) + b"\r\n\r\n")
                assert _all(link).startswith(b"HTTP/1.1 431 ")
        with _link(server) as link:
            link.sendall(b"GET /manifest HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 8_000 + b"\r\n\r\n")
            assert b" 200 " in _all(link)


def test_places_are_counted_by_address_but_behind_a_proxy(tmp_path: Path) -> None:
    def still_open(folder: str, **more: Any) -> int:
        with (
            collecting(tmp_path / folder, CollectorLimits(connections=20, per_address=6), **more) as server,
            ExitStack() as all_,
        ):
            links = [all_.enter_context(_link(server)) for _ in range(12)]
            time.sleep(0.3)
            for link in links:
                link.setblocking(False)
            count = 0
            for link in links:
                try:
                    count += link.recv(1) != b""
                except BlockingIOError:
                    count += 1
                except ConnectionError:
                    pass
            return count

    assert still_open("direct") == 6
    assert still_open("proxy", behind_proxy=True) == 12


def test_a_handshake_that_never_ends_costs_a_place_only(tmp_path: Path) -> None:
    pair = tmp_path / "chain.pem", tmp_path / "key.pem"
    made = subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=c", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(pair[1]), "-out", str(pair[0])),
        ],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("no openssl here")
    with collecting(tmp_path / "in", certificate=pair) as server, Slow(server, 4 * QUICK.per_address):
        url = f"https://127.0.0.1:{server.server_port}"
        for _ in range(5):
            try:
                submit(
                    url,
                    "p3",
                    bundle(Client(MANIFEST).send(None)),
                    TOKENS["p3"],
                    run=MANIFEST.run,
                    authority=str(pair[0]),
                )
                break
            except ParameterError as error:
                if "could not be reached" not in str(error) and "certificate" not in str(error):
                    raise
        assert server.clients == 1
