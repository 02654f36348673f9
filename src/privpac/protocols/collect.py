"""Collecting submissions over HTTP.

    GET  /manifest          the manifest with its coordinator's signature
    GET  /receipt/<name>    204: nothing from this name yet; 200 and a digest: what it sent
    POST /submit/<name>     a client's messages, once
    GET  /submissions       everything, for the shuffler or analyzer, with the operator's token

A submission is judged **when it arrives**: bytes of another run (421), of another version (426), cut (422) or too large
(413) are refused and leave the name free for the right ones.  The first whole submission of a name is kept, on disk
before the answer leaves; the same bytes again are fine (204) and others are refused (409).  With ``tokens`` every name
needs its own (``Authorization: Bearer ...``).  Every address may ask ``rate`` times a minute.  Answers are status codes
and the run's id: nothing that was sent is echoed or logged.

A client that says nothing, or says it slowly, costs one of ``CollectorLimits.connections`` places and loses it to
whoever comes next.  Headers, and then the body, have a deadline counted from their beginning, which more bytes do not
move; a body is read after the headers have shown a token; an address, and all together, hold so many places, and where
none is left the connection that has waited longest for its client goes, first those that showed no token.

The standard library's server, one thread per connection, with TLS if a certificate is given; a proxy with encryption in
front does as well.
"""

from __future__ import annotations

import hmac
import io
import ipaddress
import os
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from attrs import frozen

from privpac.device.manifest import VERSION, Manifest
from privpac.device.submit import NAME, receipt
from privpac.errors import ParameterError
from privpac.files import keep_once
from privpac.protocols.files import fault_of, limit_of, pack_folder

_MOST = 10**6
_DRAIN = 1 << 16
_PACE = 1 << 16
_ADDRESSES = 1 << 16
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:-]{1,255}")
_STATUS = {"foreign": 421, "version": 426}


@frozen(slots=False)
class CollectorLimits:
    """What clients may hold on to; times in seconds."""

    connections: int = 256
    per_address: int = 64
    headers: float = 10.0
    body: float = 20.0
    """For a body or an answer of any length; 64 KiB more take a second more."""
    linger: float = 5.0
    header_bytes: int = 16_384


class _TooLong(Exception): ...


class _Request(io.RawIOBase):
    """The bytes of one request: until a deadline that more bytes do not move, and no more of them than allowed."""

    def __init__(self, link: socket.socket, seconds: float, most: int) -> None:
        self._link = link
        self.allow(seconds, most)

    def allow(self, seconds: float, most: int) -> None:
        self._deadline, self._left = time.monotonic() + seconds, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._left <= 0:
            raise _TooLong
        self._link.settimeout(max(self._deadline - time.monotonic(), 1e-3))
        if time.monotonic() >= self._deadline:
            raise TimeoutError
        size = self._link.recv_into(memoryview(buffer)[: self._left])
        self._left -= size
        return size


class _Visit:
    """One connection, as far as its place is concerned."""

    def __init__(self, link: socket.socket, address: str) -> None:
        self.link, self.address, self.known = link, address, False
        self.since: float | None = time.monotonic()
        """Since when it waits for its client; ``None`` while it is worked for."""

    @contextmanager
    def worked_for(self) -> Iterator[None]:
        self.since = None
        yield
        self.since = time.monotonic()


class _Places:
    """The connections of one collector."""

    def __init__(self, limits: CollectorLimits, by_address: bool) -> None:
        self._limits, self._by_address, self._lock = limits, by_address, threading.Lock()
        self._visits: dict[socket.socket, _Visit] = {}

    def enter(self, link: socket.socket, peer: Any) -> bool:
        """Give a newcomer a place, if need be that of a connection that waits; whether there was one."""
        visit = _Visit(link, _neighbourhood(peer) if self._by_address else "")
        with self._lock:
            held = Counter(other.address for other in self._visits.values())
            room = True
            if self._by_address and held[visit.address] >= self._limits.per_address:
                room = self._send_away(visit.address)
            if room and len(self._visits) >= self._limits.connections:
                (crowd, _), *_ = held.most_common(1)  # so that one address cannot drive out the others
                room = self._send_away(crowd) or self._send_away(None)
            if room:
                self._visits[link] = visit
            return room

    def _send_away(self, address: str | None) -> bool:
        waiting = [
            (visit.known, since, visit)
            for visit in self._visits.values()
            if (since := visit.since) is not None and address in (None, visit.address)
        ]
        if not waiting:
            return False
        longest = min(waiting, key=lambda each: each[:2])[2]
        del self._visits[longest.link]
        with suppress(OSError):  # wakes its thread; of a TLS socket the one below, which no other thread is using
            socket.socket.shutdown(longest.link, socket.SHUT_RDWR)
        return True

    def of(self, link: socket.socket) -> _Visit:
        """The visit of a connection, or of one that was just sent away."""
        return self._visits.get(link) or _Visit(link, "")

    def leave(self, link: socket.socket) -> None:
        with self._lock:
            self._visits.pop(link, None)


def _neighbourhood(peer: Any) -> str:
    """Whom a connection is counted with: an IPv4 address, or the 64 bits of IPv6 that one household gets."""
    address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or int(address) >> 64)
    return str(address)


class _Handler(BaseHTTPRequestHandler):
    server: Collector
    server_version, sys_version = "privpac", ""

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        limits = self.server.limits
        self._visit = self.server.places.of(self.connection)
        self._raw = _Request(self.connection, limits.headers, limits.header_bytes)
        self.rfile, self._answered = io.BufferedReader(self._raw), False

    def handle(self) -> None:
        """One request; every answer ends its connection."""
        with suppress(OSError, _TooLong):
            try:
                self.handle_one_request()
            except _TooLong:
                self._answer(431)
            if not self._answered:
                return
            # A socket closed over unread bytes would take the answer along.
            self.connection.settimeout(self.server.limits.linger)
            socket.socket.shutdown(self.connection, socket.SHUT_WR)
            self._raw.allow(self.server.limits.linger, max(self.server.limit, _DRAIN))
            while self._raw.read(_DRAIN):
                pass

    def log_message(self, format: str, *args: Any) -> None:
        """Who sent what and when is nobody's business."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        # The library's own page quotes the request.
        self._answer(code)

    def _answer(self, code: int, body: bytes = b"") -> None:
        self.close_connection = self._answered = True
        self.send_response_only(code)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Privpac-Run", self.server.manifest.run[:8].hex())
        self.send_header("Connection", "close")
        if self.server.origin is not None:
            self.send_header("Access-Control-Allow-Origin", self.server.origin)
            self.send_header("Access-Control-Expose-Headers", "Privpac-Run")
            self.send_header("Access-Control-Allow-Methods", "GET, POST")
            self.send_header("Access-Control-Allow-Headers", "Authorization, Content-Type, Privpac-Version")
        self.end_headers()
        self.connection.settimeout(self.server.limits.body + len(body) / _PACE)  # of all bytes together
        self.wfile.write(body)

    def do_OPTIONS(self) -> None:
        """A browser asks before it sends from another origin."""
        self._answer(404 if self.server.origin is None else 204)

    @property
    def _bearer(self) -> str:
        return str(self.headers.get("Authorization", ""))

    def do_GET(self) -> None:
        if not self.server.may_ask(self.client_address[0]):
            self._answer(429)
        elif self.path == "/manifest":
            self._answer(200, self.server.manifest.published())
        elif self.path == "/submissions" and self.server.operates(self._bearer):
            self._visit.known = True
            with self._visit.worked_for():
                packed = pack_folder(self.server.manifest, self.server.folder)
            self._answer(200, packed)
        elif self.path.startswith("/receipt/") and NAME.fullmatch(self.path[9:]):
            self._answer(*self._receipt(self.path[9:]))
        else:
            self._answer(404)

    def _receipt(self, name: str) -> tuple[int, bytes]:
        if self._version() != VERSION:
            return 426, b""
        if not self.server.knows(name, self._bearer):
            return 401, b""
        self._visit.known = True
        kept = self.server.kept(name)
        return (204, b"") if kept is None else (200, receipt(kept).encode())

    def _version(self) -> int:
        text = self.headers.get("Privpac-Version", str(VERSION))
        return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0

    def do_POST(self) -> None:
        self._answer(self._judge())

    def _judge(self) -> int:
        """The status of a submission; its body is read when nothing in the headers speaks against it."""
        if not self.server.may_ask(self.client_address[0]):
            return 429
        head, name = self.path[:8], self.path[8:]
        if head != "/submit/" or not NAME.fullmatch(name):
            return 404
        if not self.server.knows(name, self._bearer):
            return 401
        self._visit.known = True
        if self._version() != VERSION:
            return 426
        text = self.headers.get("Content-Length", "")
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            return 411
        length = int(text)
        if length > self.server.limit:
            return 413
        self._raw.allow(self.server.limits.body + length / _PACE, length + 1)
        try:
            body = self.rfile.read(length)
        except TimeoutError:
            return 408
        if len(body) != length:
            return 400
        with self._visit.worked_for():
            return self.server.take(name, body)


class Collector(ThreadingHTTPServer):
    """Keeps one file per client in ``folder``.

    Parameters
    ----------
    manifest
        The run.
    folder
        Where submissions are kept, one file per client.
    port
        0 takes a free one (``server_port``).
    host
        The address to listen on.  Beyond this machine ``tokens`` are needed, and either a certificate or
        ``behind_proxy=True``, which says that a proxy encrypts.
    tokens
        The token of every name; without them anyone can submit under any name.
    operator
        The token that gives everything away, to whoever shuffles or analyses.
    certificate
        Files of a certificate chain and its private key.
    origin
        The origin of a page (``https://study.example``) from which browsers may send; ``None``: browsers may send from
        the collector's own origin alone.
    rate
        Requests of one address in a minute; 0 for no limit (behind a proxy all come from one address).
    until
        Stop after so many clients.
    limits
        Deadlines and places of connections.  Behind a proxy places are not counted by address.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(
        self,
        manifest: Manifest,
        folder: Path,
        port: int = 0,
        *,
        host: str = "127.0.0.1",
        tokens: Mapping[str, str] | None = None,
        operator: str | None = None,
        certificate: tuple[Path, Path] | None = None,
        behind_proxy: bool = False,
        origin: str | None = None,
        rate: int = 0,
        until: int | None = None,
        limits: CollectorLimits | None = None,
    ) -> None:
        if host not in ("127.0.0.1", "::1", "localhost"):
            if tokens is None:
                raise ParameterError("a collector that other machines reach needs tokens, or anyone could use any name")
            if certificate is None and not behind_proxy:
                raise ParameterError("a collector that other machines reach needs a certificate, its own or a proxy's")
        if origin is not None and not _ORIGIN.fullmatch(origin):
            raise ParameterError("an origin is written https://study.example, without a path")
        self.manifest, self.folder, self.limit, self.origin = manifest, folder, limit_of(manifest), origin
        self._tokens, self._operator, self._until, self._lock = tokens, operator, until, threading.Lock()
        self._rate, self._asked = rate, dict[str, tuple[int, int]]()
        self.limits = CollectorLimits() if limits is None else limits
        self.places = _Places(self.limits, by_address=not behind_proxy)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.clients = sum(1 for name in os.listdir(folder) if NAME.fullmatch(name))
        self._most = manifest.n_max if manifest.protocol == "shuffle" else _MOST
        super().__init__((host, port), _Handler)
        self._tls = certificate is not None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            try:
                context.load_cert_chain(*certificate)
            except (OSError, ssl.SSLError):
                self.server_close()
                raise ParameterError("the certificate and its key could not be read") from None
            # The handshake is done in the connection's own thread, not here.
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self.places.enter(request, client_address):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            self._end(request)  # no thread can be started

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            if self._tls:
                request.settimeout(self.limits.headers)
                request.do_handshake()
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            self._end(request)

    def _end(self, request: Any) -> None:
        self.places.leave(request)
        self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broken connection is no news."""

    def may_ask(self, address: str) -> bool:
        """Whether an address is within its rate."""
        if not self._rate:
            return True
        minute = int(time.monotonic() // 60)
        with self._lock:
            if len(self._asked) > _ADDRESSES:
                self._asked.clear()
            begun, asked = self._asked.get(address, (minute, 0))
            asked = asked + 1 if begun == minute else 1
            self._asked[address] = (minute, asked)
            return asked <= self._rate

    def knows(self, name: str, header: str) -> bool:
        """Whether this name may submit."""
        if self._tokens is None:
            return True
        return _same(header, self._tokens.get(name, "")) and name in self._tokens

    def operates(self, header: str) -> bool:
        """Whether this is the operator."""
        return self._operator is not None and _same(header, self._operator)

    def kept(self, name: str) -> bytes | None:
        """What this name sent."""
        path = self.folder / name
        return path.read_bytes() if path.exists() else None

    def take(self, name: str, body: bytes) -> int:
        """Keep a submission; the status to answer with."""
        fault = fault_of(self.manifest, body)
        if fault is not None:
            return _STATUS.get(fault, 422)
        with self._lock:
            before = self.kept(name)
            if before is not None:
                return 204 if before == body else 409
            if self.clients >= self._most:
                return 503
            try:
                if keep_once(self.folder / name, body) != body:
                    return 409
            except OSError:
                return 503
            self.clients += 1
            if self._until is not None and self.clients >= self._until:
                threading.Thread(target=self.shutdown, daemon=True).start()
            return 204


def _same(header: str, token: str) -> bool:
    return hmac.compare_digest(f"Bearer {token}".encode(), header.encode())
