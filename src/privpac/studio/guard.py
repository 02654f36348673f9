"""Who may use the page: whoever was given the link, in one browser, from pages of this address.

The studio listens on the loopback address alone.  That keeps other machines out, but not the web pages that the same
browser shows, nor other people and programs of this machine.  So

* the link holds a **token** that works once; it is exchanged for a cookie (``HttpOnly``, ``SameSite=Strict``);
* whatever reads or does anything also needs the **key** of the page, which travels in the link's fragment, is kept in
  the browser's storage for this address *and port*, and is sent as a header.  A cookie alone opens nothing but the
  empty page: browsers send cookies to every port of a host, hence to other people's programs on this machine;
* the ``Host`` must be one of this address's own names: a foreign name that was made to point here is refused;
* what changes anything must come from a page of this address (``Origin``), and says so in its own content type.

Refusals have fixed bodies.  Nothing that was sent is echoed, nothing is logged.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import MutableMapping
from typing import Any
from urllib.parse import parse_qs

from privpac.connections import ConnectionLimiter, Headers, Limits, Receive, Scope, Send
from privpac.serve.responses import HEADERS

KEY = "x-privpac-key"
"""The header with the key of the page."""
MAX_BODY, MAX_UPLOAD = 1 << 20, 1 << 32
UPLOAD = "/api/upload"
REPORT = "/report/"

_PROBLEMS = {
    400: "The request could not be read.",
    403: "Open the link that privpac studio printed; it works once. If it was used already, start the studio again.",
    404: "There is nothing here.",
    413: "This is too large.",
    415: "This address takes another type of content.",
    421: "This page is only served under its own address.",
    500: "Something failed; nothing more is said about it here.",
}
_OPENING = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>privpac studio</title>'
    '<meta http-equiv="refresh" content="0;url=/#{key}"><p>Opening the studio. <a href="/#{key}">Go on</a></p></html>'
)
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'"
)
_CLOSED = (
    "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
_REPORT = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"


class Locks:
    """The secrets of one run of the studio."""

    def __init__(self) -> None:
        self.token: str | None = secrets.token_urlsafe(32)
        self.cookie, self.key = secrets.token_urlsafe(32), secrets.token_urlsafe(32)

    def take(self, token: str) -> bool:
        """Whether the token is right; it is gone afterwards, right or used."""
        if self.token is None or not _same(token, self.token):
            return False
        self.token = None
        return True


def _same(a: str, b: str) -> bool:
    return hmac.compare_digest(a.encode(), b.encode())


class _Refused(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class Guard:
    """ASGI middleware around the whole studio."""

    def __init__(self, app: Any, locks: Locks, port: int) -> None:
        self._app, self._locks = app, locks
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self._cookie = f"privpac_studio_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no sockets here
            return
        seen, started = 0, False
        most = MAX_UPLOAD if scope["path"] == UPLOAD else MAX_BODY

        async def bounded() -> MutableMapping[str, Any]:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > most:
                raise _Refused(413)
            return message

        async def marked(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": [*message["headers"], *_headers(scope["path"])]}
            await send(message)

        try:
            headers = _Headers(scope)
            host = self._host(headers)
            token = parse_qs(scope["query_string"].decode("latin-1")).get("token")
            if scope["path"] == "/" and token:
                await self._exchange(scope, token, marked)
                return
            self._admit(scope, headers, host, most)
            await self._app(scope, bounded, marked)
        except _Refused as refused:
            if not started:
                await _answer(refused.status, marked)
        except Exception:  # what it says may be the data's
            if not started:
                await _answer(500, marked)

    def _host(self, headers: _Headers) -> str:
        host = headers.one("host")
        if host not in self._hosts:
            raise _Refused(421)
        return host

    async def _exchange(self, scope: Scope, token: list[str], send: Send) -> None:
        """The link: its token for a cookie, and the key of the page in the fragment of where it leads."""
        if scope["method"] != "GET" or len(token) != 1 or not self._locks.take(token[0]):
            raise _Refused(403)
        cookie = f"{self._cookie}={self._locks.cookie}; Path=/; HttpOnly; SameSite=Strict"
        body = _OPENING.format(key=self._locks.key).encode()
        headers = [(b"content-type", b"text/html; charset=utf-8"), (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _admit(self, scope: Scope, headers: _Headers, host: str, most: int) -> None:
        """Refuse whatever the headers, and nothing but they, do not let in."""
        if headers.get("sec-fetch-site") not in (None, "same-origin", "none"):
            raise _Refused(403)
        if not _same(headers.cookie(self._cookie), self._locks.cookie):
            raise _Refused(403)
        if scope["path"].startswith("/api/") and not _same(headers.get(KEY) or "", self._locks.key):
            raise _Refused(403)
        if scope["method"] not in ("GET", "HEAD"):
            if headers.one("origin") != f"http://{host}":
                raise _Refused(403)
            wanted = "application/octet-stream" if scope["path"] == UPLOAD else "application/json"
            if (headers.get("content-type") or "").partition(";")[0].strip().lower() != wanted:
                raise _Refused(415)
        length = headers.get("content-length") or "0"
        if not length.isdecimal() or len(length) > 15 or int(length) > most:
            raise _Refused(413)


class _Headers:
    """The headers of a request."""

    def __init__(self, scope: Scope) -> None:
        self._pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]

    def get(self, name: str) -> str | None:
        return next((value for found, value in self._pairs if found == name), None)

    def one(self, name: str) -> str:
        """The value of a header that must be there once."""
        values = [value for found, value in self._pairs if found == name]
        return values[0] if len(values) == 1 else ""

    def cookie(self, name: str) -> str:
        pairs = [
            pair.strip().partition("=") for key, line in self._pairs if key == "cookie" for pair in line.split(";")
        ]
        values = [value for found, _, value in pairs if found == name]
        return values[0] if len(values) == 1 else ""


def _headers(path: str) -> list[tuple[bytes, bytes]]:
    own = dict(HEADERS) | {"content-security-policy": _POLICY + _CLOSED}
    if path.startswith(REPORT):
        own |= {"content-security-policy": _REPORT, "x-frame-options": "SAMEORIGIN"}
    return [(name.encode(), value.encode()) for name, value in own.items()]


async def _answer(status: int, send: Send) -> None:
    body = json.dumps({"error": _PROBLEMS.get(status, _PROBLEMS[400])}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close")] if status in (413, 500) else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class StudioConnection(ConnectionLimiter):
    """A connection of the studio: tables that are handed in may be large, and come from this machine."""

    limits = Limits(connections=256, pace=1 << 20, pieces=1 << 24)

    @staticmethod
    def refusal(status: int) -> tuple[Headers, bytes]:
        body = json.dumps({"error": _PROBLEMS.get(status, _PROBLEMS[400])}).encode()
        return [(b"content-type", b"application/json"), *_headers("/")], body
