"""Collecting submissions over HTTP.

    GET  /manifest          the manifest's bytes
    GET  /receipt/<name>    204: nothing from this name yet; 200 and a digest: what it sent
    POST /submit/<name>     a client's messages, once
    GET  /submissions       everything, for the shuffler or analyzer, with the operator's token

A submission is judged **when it arrives**: bytes of another run (421), of another version (426), cut (422) or too large
(413) are refused and leave the name free for the right ones.  The first whole submission of a name is kept, on disk
before the answer leaves; the same bytes again are fine (204) and others are refused (409).  With ``tokens`` every name
needs its own (``Authorization: Bearer ...``).  Every address may ask ``rate`` times a minute, and so many connections
are served at once; others wait.  Answers are status codes and the run's id: nothing that was sent is echoed or logged.

The standard library's server, one thread per connection, with TLS if a certificate is given; a proxy with encryption in
front does as well.
"""

from __future__ import annotations

import hmac
import os
import re
import ssl
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from privpac.errors import ParameterError
from privpac.protocols.files import NAME, fault_of, limit_of, pack_folder
from privpac.protocols.manifest import VERSION, Manifest
from privpac.protocols.submit import receipt, submit
from privpac.released_write import keep_once

__all__ = ["Collector", "submit"]

_PATIENCE = 20.0
_MOST = 10**6
_DRAIN = 1 << 16
_AT_ONCE = 64
_ADDRESSES = 1 << 16
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:-]{1,255}")
_STATUS = {"foreign": 421, "version": 426}


class _Handler(BaseHTTPRequestHandler):
    server: Collector
    timeout = _PATIENCE
    server_version, sys_version = "privpac", ""

    def log_message(self, format: str, *args: Any) -> None:
        """Who sent what and when is nobody's business."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        # The library's own page quotes the request.
        self._answer(code)

    def _answer(self, code: int, body: bytes = b"") -> None:
        self.close_connection = True
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
            self._answer(200, self.server.manifest.write())
        elif self.path == "/submissions" and self.server.operates(self._bearer):
            self._answer(200, pack_folder(self.server.manifest, self.server.folder))
        elif self.path.startswith("/receipt/") and NAME.fullmatch(self.path[9:]):
            self._answer(*self._receipt(self.path[9:]))
        else:
            self._answer(404)

    def _receipt(self, name: str) -> tuple[int, bytes]:
        if self._version() != VERSION:
            return 426, b""
        if not self.server.knows(name, self._bearer):
            return 401, b""
        kept = self.server.kept(name)
        return (204, b"") if kept is None else (200, receipt(kept).encode())

    def _version(self) -> int:
        text = self.headers.get("Privpac-Version", str(VERSION))
        return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0

    def do_POST(self) -> None:
        self._answer(self._judge())

    def _judge(self) -> int:
        """The status of a submission."""
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or len(length) > 12:
            return 411
        # Read what was sent before refusing it, within reason: closing on unread bytes would lose the answer.
        try:
            body = self.rfile.read(min(int(length), max(self.server.limit, _DRAIN)))
        except OSError:
            return 400
        if not self.server.may_ask(self.client_address[0]):
            return 429
        head, name = self.path[:8], self.path[8:]
        if head != "/submit/" or not NAME.fullmatch(name):
            return 404
        if not self.server.knows(name, self._bearer):
            return 401
        if self._version() != VERSION:
            return 426
        if int(length) > self.server.limit:
            return 413
        return self.server.take(name, body) if len(body) == int(length) else 400


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
        self._rate, self._asked, self._room = rate, dict[str, tuple[int, int]](), threading.BoundedSemaphore(_AT_ONCE)
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

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self._room:
            if self._tls:
                try:
                    request.settimeout(_PATIENCE)
                    request.do_handshake()
                except (OSError, ssl.SSLError):
                    self.shutdown_request(request)
                    return
            super().process_request_thread(request, client_address)

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
