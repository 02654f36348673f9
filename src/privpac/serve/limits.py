"""The outer wall of the service: keys before bodies, bounded requests, fixed answers to whatever goes wrong, a log
without content.

Every error has one of a few fixed bodies; nothing a client sent is ever echoed, and no traceback, local variable or
library message leaves the process or reaches the log.  The log says method, path pattern and status: no bodies, no
query strings, no keys, no answers, no times.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from privpac.errors import ModelFileError
from privpac.serve.keys import KeyStore, Role

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MAX_BODY = 1 << 20
"""Bytes of a request's body."""
KEY = "privpac.key"
"""Where the scope of a request has the key that was checked."""
OPERATORS = "/console/api"
"""Addresses that only an operator's key opens begin like this."""

PROBLEMS = {
    400: ("bad request", "The request could not be read."),
    401: ("unauthorized", "Send a valid key: Authorization: Bearer pp_..."),
    403: ("forbidden", "This needs the operator's key."),
    404: ("not found", "There is nothing here; see /openapi.json."),
    405: ("method not allowed", "This address takes another method; see /openapi.json."),
    408: ("too slow", "The request did not come in time."),
    413: ("too large", f"A request may have {MAX_BODY} bytes."),
    422: (
        "invalid request",
        "The body does not fit: every record needs a readable value for every feature; see /guarantee for the "
        "features.",
    ),
    429: (
        "budget exhausted",
        "Fewer new answers are left than asked for; nothing was answered or counted. Repeated queries stay free.",
    ),
    431: ("headers too large", "The headers of the request are too long."),
    500: ("internal error", "Something failed; nothing more is said about it here."),
    503: (
        "unavailable",
        "The service cannot answer right now, try again later; no answer leaves without being counted.",
    ),
}

_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}

HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
}

_EXTRA = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_log = logging.getLogger("privpac.serve")


def problem(status: int) -> dict[str, str]:
    """The fixed body of a status."""
    error, detail = PROBLEMS.get(status, PROBLEMS[400 if status < 500 else 500])
    return {"error": error, "detail": detail}


class Refusal(Exception):
    """A request ends with one of the fixed bodies; ``more`` are numbers that belong to it."""

    def __init__(self, status: int, **more: int) -> None:
        super().__init__(status)
        self.status, self.more = status, more


class _TooLarge(Exception):
    """The body is longer than allowed."""


class Wall:
    """ASGI middleware around the whole application: **the key is checked from the headers, before a byte of the body is
    asked for**.

    A valid key is put into the scope under ``KEY``.  Without one, what takes a body or tells anything but public facts
    is refused.
    """

    def __init__(self, app: App, keys: KeyStore, max_body: int = MAX_BODY) -> None:
        self._app, self._keys, self._max_body = app, keys, max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen, status = 0, 0

        async def bounded() -> MutableMapping[str, Any]:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max_body:
                raise _TooLarge
            return message

        async def marked(message: MutableMapping[str, Any]) -> None:
            if seen > self._max_body:
                if message["type"] == "http.response.start":
                    await _refuse(413, marked_at_once)
                return  # the application's own answer to a body cut short is dropped
            await marked_at_once(message)

        async def marked_at_once(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                names = {name for name, _ in message["headers"]}
                message = {
                    **message,
                    "headers": [*message["headers"], *(pair for pair in _EXTRA if pair[0] not in names)],
                }
            await send(message)

        try:
            self._admit(scope)
            await self._app(scope, bounded, marked)
        except Refusal as refusal:
            if not status:
                await _refuse(refusal.status, marked_at_once, **refusal.more)
        except _TooLarge:
            if not status:
                await _refuse(413, marked_at_once)
        except Exception as error:
            # The class name is the program's; the message may be the data's.
            _log.error("internal error: %s", type(error).__name__)
            if not status:
                await _refuse(500, marked_at_once)
        route = scope.get("route")
        _log.info("%s %s %s", scope["method"], getattr(route, "path", "-"), status)

    def _admit(self, scope: Scope) -> None:
        """``Refusal`` unless the headers, and nothing but they, let the request in."""
        operators = scope["path"].startswith(OPERATORS)
        if operators or scope["path"] == "/budget" or scope["method"] not in ("GET", "HEAD"):
            try:
                key = self._keys.check(_token(scope))
            except ModelFileError as error:
                _log.error("unavailable: %s", type(error).__name__)
                raise Refusal(503) from None
            if key is None:
                raise Refusal(401)
            scope[KEY] = key
            if operators and key.role is not Role.OPERATOR:
                raise Refusal(403)
        if _declared(scope) > self._max_body:
            raise Refusal(413)


def _token(scope: Scope) -> str | None:
    found = [value for name, value in scope["headers"] if name == b"authorization"]
    kind, _, token = found[0].partition(b" ") if len(found) == 1 else (b"", b"", b"")
    return token.strip().decode("latin-1") if kind.lower() == b"bearer" else None


def _declared(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() and len(value) < 20 else 0
    return 0


async def _refuse(status: int, send: Send, **more: int) -> None:
    body = json.dumps(problem(status) | more).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status in (413, 500):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
