"""Who is let in: the key is checked from the headers, before a byte of the body is asked for.

Around the whole application: bounded bodies, fixed answers to whatever goes wrong, a log without content.  The log says
method, path pattern and status: no bodies, no query strings, no keys, no answers, no times.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from privpac.connections import KEY, App, Receive, Scope, Send
from privpac.errors import ModelFileError
from privpac.serve.keys import KeyStore, Role
from privpac.serve.responses import MAX_BODY, SECURITY, Refusal, refuse

OPERATORS = "/console/api"
"""Addresses that only an operator's key opens begin like this."""
_log = logging.getLogger("privpac.serve")


class _TooLarge(Exception):
    """The body is longer than allowed."""


class AuthMiddleware:
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
                    await refuse(413, marked_at_once)
                return  # the application's own answer to a body cut short is dropped
            await marked_at_once(message)

        async def marked_at_once(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                names = {name for name, _ in message["headers"]}
                message = {
                    **message,
                    "headers": [*message["headers"], *(pair for pair in SECURITY if pair[0] not in names)],
                }
            await send(message)

        try:
            self._admit(scope)
            await self._app(scope, bounded, marked)
        except Refusal as refusal:
            if not status:
                await refuse(refusal.status, marked_at_once, **refusal.more)
        except _TooLarge:
            if not status:
                await refuse(413, marked_at_once)
        except Exception as error:
            # The class name is the program's; the message may be the data's.
            _log.error("internal error: %s", type(error).__name__)
            if not status:
                await refuse(500, marked_at_once)
        route = scope.get("route")
        _log.info("%s %s %s", scope["method"], getattr(route, "path", "-"), status)

    def _admit(self, scope: Scope) -> None:
        """``Refusal`` unless the headers, and nothing but they, let the request in."""
        if not scope["path"].isprintable():
            raise Refusal(404)  # a pattern of the router ends before a line feed as well
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
