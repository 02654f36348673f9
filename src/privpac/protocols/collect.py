"""Collecting submissions over HTTP, on this machine's own address.

    GET  /manifest          the manifest's bytes
    POST /submit/<name>     a client's messages, once

The standard library's server, one thread per connection.  A body needs a ``Content-Length`` of at most what an honest
client sends; the first submission of a name is kept and a second one is refused unless it is the same, byte for byte.
With ``tokens`` every name needs its own (``Authorization: Bearer ...``).  Answers are status codes: nothing that was
sent is ever echoed or logged.  Put a proxy with encryption in front to collect from other machines.
"""

from __future__ import annotations

import hmac
import os
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from privpac.errors import ParameterError
from privpac.protocols.files import NAME, limit_of
from privpac.protocols.manifest import Manifest
from privpac.released_write import write_whole

__all__ = ["Collector", "submit"]

_PATIENCE = 20.0
_MOST = 10**6
_DRAIN = 1 << 16


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
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if self.path == "/manifest":
            self._answer(200, self.server.manifest.write())
        else:
            self._answer(404)

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
        head, name = self.path[:8], self.path[8:]
        if head != "/submit/" or not NAME.fullmatch(name):
            return 404
        if not self.server.knows(name, self.headers.get("Authorization", "")):
            return 401
        if int(length) > self.server.limit:
            return 413
        return self.server.take(name, body) if len(body) == int(length) else 400


class Collector(ThreadingHTTPServer):
    """Listens on loopback and keeps one file per client in ``folder``; port 0 takes a free one (``server_port``).

    ``until`` stops the server after so many clients.
    """

    daemon_threads = True

    def __init__(
        self,
        manifest: Manifest,
        folder: Path,
        port: int = 0,
        *,
        tokens: Mapping[str, str] | None = None,
        until: int | None = None,
    ) -> None:
        self.manifest, self.folder, self.limit = manifest, folder, limit_of(manifest)
        self._tokens, self._until, self._lock = tokens, until, threading.Lock()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.clients = sum(1 for name in os.listdir(folder) if NAME.fullmatch(name))
        self._most = manifest.n_max if manifest.protocol == "shuffle" else _MOST
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A broken connection is no news."""

    def knows(self, name: str, header: str) -> bool:
        """Whether this name may submit."""
        if self._tokens is None:
            return True
        return (
            hmac.compare_digest(f"Bearer {self._tokens.get(name, '')}".encode(), header.encode())
            and name in self._tokens
        )

    def take(self, name: str, body: bytes) -> int:
        """Keep a submission; the status to answer with."""
        with self._lock:
            path = self.folder / name
            if path.exists():
                return 204 if path.read_bytes() == body else 409
            if self.clients >= self._most:
                return 503
            try:
                write_whole(path, body, 0o600)
            except OSError:
                return 503
            self.clients += 1
            if self._until is not None and self.clients >= self._until:
                threading.Thread(target=self.shutdown, daemon=True).start()
            return 204


def submit(url: str, name: str, body: bytes, token: str | None = None) -> None:
    """Send a client's bundle to a collector; raises if it was not taken."""
    if not url.startswith(("http://", "https://")):
        raise ParameterError("the collector's address starts with http:// or https://")
    if not NAME.fullmatch(name):
        raise ParameterError("a client's name has 1 to 100 letters, digits and . _ - @, and does not start with a dot")
    request = urllib.request.Request(f"{url.rstrip('/')}/submit/{name}", data=body, method="POST")
    request.add_header("Content-Type", "application/octet-stream")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    # A collector on this machine is never reached through a proxy.
    here = urllib.parse.urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if here else []))
    try:
        with opener.open(request, timeout=_PATIENCE):
            return
    except urllib.error.HTTPError as error:
        raise ParameterError(
            f"the collector did not take the submission (status {error.code}: {_WHY.get(error.code, 'unknown')})"
        ) from None
    except (OSError, ValueError):
        raise ParameterError("the collector could not be reached; send again with the same --store") from None


_WHY = {
    401: "the token is not that of this name",
    409: "this name has sent something else before",
    413: "larger than this run allows",
    503: "no more clients are taken",
}
