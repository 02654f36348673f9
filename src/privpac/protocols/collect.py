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

Connections are those of :mod:`privpac.connections`: a client that says nothing, or says it slowly, costs one of
``CollectorLimits.connections`` places and loses it to whoever comes next.  A body is read after the headers have shown
a token.  With a certificate the handshake costs a place as well; a proxy with encryption in front does as well.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import ssl
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvicorn
from attrs import evolve, frozen

from privpac.connections import KEY, ConnectionLimiter, Headers, Limits, Receive, Scope, Send, listen, server_config
from privpac.device.manifest import VERSION, Manifest
from privpac.device.submit import NAME, receipt
from privpac.errors import ParameterError
from privpac.files import keep_once
from privpac.protocols.files import fault_of, limit_of, pack_folder

_MOST = 10**6
_ADDRESSES = 1 << 16
_PIECE = 1000
"""Bytes that a packet carries at least, while a body comes."""
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:-]{1,255}")
_STATUS = {"foreign": 421, "version": 426}


@frozen(slots=False)
class CollectorLimits(Limits):
    """What clients may hold on to; times in seconds, and one second more for every 64 KiB of a body or an answer."""

    connections: int = 256
    per_address: int = 64
    idle: float = 20.0
    pace: float = 1 << 16


class Collector:
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
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.clients = sum(1 for name in os.listdir(folder) if NAME.fullmatch(name))
        self._most = manifest.n_max if manifest.protocol == "shuffle" else _MOST
        context = None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            try:
                context.load_cert_chain(*certificate)
            except (OSError, ssl.SSLError):
                raise ParameterError("the certificate and its key could not be read") from None
        self._headers = self._common_headers()
        common, chosen = self._headers, CollectorLimits() if limits is None else limits
        if behind_proxy:  # everyone has the proxy's address
            chosen = evolve(chosen, per_address=chosen.connections)
        chosen = evolve(chosen, pieces=chosen.pieces + self.limit // _PIECE, leftover=max(chosen.leftover, self.limit))

        class CollectorConnection(ConnectionLimiter):
            limits, tls = chosen, context

            @staticmethod
            def refusal(status: int) -> tuple[Headers, bytes]:
                return common, b""

        quiet: dict[str, Any] = {"log_level": "critical", "lifespan": "off", "timeout_graceful_shutdown": 5}
        self._server = uvicorn.Server(server_config(self._serve, CollectorConnection, **quiet))
        self._idle = threading.Event()
        self._idle.set()
        self._socket = listen(host, port)
        self.server_port = int(self._socket.getsockname()[1])

    def _common_headers(self) -> Headers:
        found = [(b"privpac-run", self.manifest.run[:8].hex().encode())]
        if self.origin is not None:
            found += [
                (b"access-control-allow-origin", self.origin.encode()),
                (b"access-control-expose-headers", b"Privpac-Run"),
                (b"access-control-allow-methods", b"GET, POST"),
                (b"access-control-allow-headers", b"Authorization, Content-Type, Privpac-Version"),
            ]
        return found

    # Running

    def serve_forever(self) -> None:
        """Answer until :meth:`shutdown`, or until Ctrl-C."""
        self._idle.clear()
        try:
            self._server.run([self._socket])
        finally:
            self._idle.set()

    def shutdown(self) -> None:
        """Stop soon; what is being answered is answered."""
        self._server.should_exit = True

    def server_close(self) -> None:
        """Stop, and let the address go."""
        self.shutdown()
        self._idle.wait(10)
        self._socket.close()

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *error: object) -> None:
        self.server_close()

    # Requests

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; every answer ends its connection."""
        try:
            status, body = await self._answer(scope, receive)
        except Exception:  # what it says may be somebody's
            status, body = 500, b""
        ends = [(b"connection", b"close"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": self._headers + ends})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        method, query = scope["method"], scope["query_string"]
        path = (scope["raw_path"] + (b"?" + query if query else b"")).decode("latin-1")
        if method == "OPTIONS":  # a browser asks before it sends from another origin
            return (404 if self.origin is None else 204), b""
        if method not in ("GET", "POST"):
            return 501, b""
        if not self.may_ask(scope["client"][0]):
            return 429, b""
        bearer = _header(scope, b"authorization", "")
        place, _, name = path[1:].partition("/")
        if method == "GET" and path == "/manifest":
            return 200, self.manifest.published()
        if method == "GET" and path == "/submissions" and self.operates(bearer):
            scope[KEY] = "operator"
            return 200, await asyncio.to_thread(pack_folder, self.manifest, self.folder)
        if (method, place) not in (("GET", "receipt"), ("POST", "submit")) or not NAME.fullmatch(name):
            return 404, b""
        known, current = self.knows(name, bearer), self._version(scope) == VERSION
        if not known and (current or place == "submit"):
            return 401, b""
        if not current:
            return 426, b""
        scope[KEY] = name
        if place == "submit":
            return await self._submitted(scope, receive, name), b""
        kept = await asyncio.to_thread(self.kept, name)
        return (204, b"") if kept is None else (200, receipt(kept).encode())

    def _version(self, scope: Scope) -> int:
        text = _header(scope, b"privpac-version", str(VERSION))
        return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0

    async def _submitted(self, scope: Scope, receive: Receive, name: str) -> int:
        """The status of a submission; its body is read when nothing in the headers speaks against it."""
        text = _header(scope, b"content-length", "")
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            return 411
        if int(text) > self.limit:
            return 413
        parts, more = list[bytes](), True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return 400  # the client has gone, and is not told
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        return await asyncio.to_thread(self.take, name, b"".join(parts))

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
                self.shutdown()
            return 204


def _same(header: str, token: str) -> bool:
    return hmac.compare_digest(f"Bearer {token}".encode(), header.encode())


def _header(scope: Scope, name: bytes, default: str) -> str:
    return next((value.decode("latin-1") for found, value in scope["headers"] if found == name), default)
