"""The door of the service: one object for every connection, with a limit for everything a client can hold on to.

A protocol for the server (:mod:`uvicorn`), with the parser of :mod:`h11` and a shorter way for requests that come whole
and plain (:mod:`privpac.serve.plain`).  A client that says nothing, or says it slowly, costs a place among
``Limits.connections`` and nothing else, and it loses that place to whoever comes next:

* **Time.**  Request lines and headers, bodies, and responses that nobody reads each have a deadline, counted from their
  beginning; more bytes do not move it.
* **Places** are given by the hall (:mod:`privpac.serve.hall`), if need be those of connections that wait for their
  clients.
* **Bodies** that did not come along with their headers are left in the socket until the application asks for them,
  which it does after it has seen the key in the headers.

Every response, of the application or of this door, is one write and carries the same security headers.
"""

from __future__ import annotations

import asyncio
import http
import json
import socket
import weakref
from collections.abc import Iterable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

import h11

from privpac.serve.hall import Hall, Limits, neighbourhood
from privpac.serve.limits import HEADERS, KEY, problem
from privpac.serve.plain import read_plain

Message = MutableMapping[str, Any]
Headers = list[tuple[bytes, bytes]]
_SECURITY = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_ASGI = {"version": "3.0", "spec_version": "2.3"}


_halls: weakref.WeakKeyDictionary[Any, Hall] = weakref.WeakKeyDictionary()


class Door(asyncio.Protocol):
    """One connection; the server makes it, as it makes its own protocols."""

    limits = Limits()

    def __init__(
        self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._app = config.loaded_app
        self._loop = _loop or asyncio.get_event_loop()
        self._server, self._app_state = server_state, app_state
        if server_state not in _halls:
            _halls[server_state] = Hall(self.limits)
        self._hall = _halls[server_state]
        self.address, self.known = "", False
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        self._timer: asyncio.TimerHandle | None = None
        self._deadline: float | None = None
        self._ends: tuple[Any, Any] = None, None
        self._conn = self._parser()
        self._busy = self._begun = self._gone = self._leaving = self._blocked = False
        self._last = False
        """Whether the connection ends after the present response."""
        self._half = False
        """Whether the client has said all it will say."""
        self._plain: bytes | None = None
        """The body of a plain request."""
        self._rest = b""
        """What came after a plain request."""
        self._arrived: asyncio.Event = asyncio.Event()
        self._method = b""
        self._head: Message = {}
        self._body: list[bytes] = []
        self._pieces = self._leftover = 0

    def _parser(self) -> h11.Connection:
        return h11.Connection(h11.SERVER, self.limits.header_bytes)

    # What the server and the socket say

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        with suppress(OSError, AttributeError):
            # A response is one write; it must not wait for the acknowledgement of the one before.
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ends = _end(transport.get_extra_info("sockname")), _end(transport.get_extra_info("peername"))
        self.address = neighbourhood(transport.get_extra_info("peername"))
        self._server.connections.add(self)
        if not self._hall.enter(self):
            self._refuse(503)
            return
        self._hall.wait(self)
        self._arm(self.limits.headers)

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._arrived.set()
        self._disarm()
        if self._timer is not None:
            self._timer.cancel()
        self._server.connections.discard(self)
        self._hall.leave(self)

    def data_received(self, data: bytes) -> None:
        if self._leaving:
            self._leftover += len(data)
            if self._leftover > self.limits.leftover:
                self.abort()
            return
        if not self._busy:
            self._begin(data)
        elif self._plain is not None:
            self._rest += data
            self._transport.pause_reading()  # what comes next can wait
        else:
            self._conn.receive_data(data)
            self._arrived.set()

    def eof_received(self) -> bool:
        self._half = True
        if self._plain is not None:
            return not self._leaving  # what came before the end is still answered
        self._last = True
        if self._busy:
            with suppress(h11.RemoteProtocolError):
                self._conn.receive_data(b"")
            self._arrived.set()
        return self._busy and not self._leaving  # the response is still written

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        if not self._busy and not self._leaving:
            self._next()

    def shutdown(self) -> None:
        """The server stops: idle connections close, the others after their response."""
        self._last = True
        if not self._busy:
            self._transport.close()

    def abort(self) -> None:
        """Close at once, whatever is still to be written."""
        self._gone = True
        self._transport.abort()

    # Deadlines

    # The timer is not moved with every deadline: one that comes too early looks again, so that a busy connection costs
    # no timers.

    def _arm(self, seconds: float) -> None:
        self._deadline = self._loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._look)

    def _disarm(self) -> None:
        self._deadline = None

    def _look(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        elif self._begun and not self._leaving and not self._blocked:
            self._refuse(408)  # something of a request came, and not the rest
        else:
            self.abort()

    # One request after another

    def _begin(self, data: bytes) -> None:
        """Bytes between two responses."""
        whole = None if self._blocked or self._conn.trailing_data[0] else read_plain(data, self.limits.header_bytes)
        if whole is None:
            self._conn.receive_data(data)
            if self._half:
                self._conn.receive_data(b"")
            self._next()
        else:
            self._plain, self._rest = whole.body, whole.rest
            self._request(whole.method, whole.target, whole.headers, b"1.1")

    def _next(self) -> None:
        """Begin the next request, if all of its headers have come and its client reads what it is sent."""
        if self._blocked:
            self._transport.pause_reading()
            return
        here = len(self._conn.trailing_data[0])
        try:
            event = self._conn.next_event()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint if error.error_status_hint == 431 else 400)
            return
        if isinstance(event, h11.Request):
            if here - len(self._conn.trailing_data[0]) > self.limits.header_bytes:
                self._refuse(431)  # the parser counts only what is not yet whole
            else:
                self._parsed(event.method, event.target, list(event.headers), event.http_version)
        elif event is h11.NEED_DATA:
            self._transport.resume_reading()
            if not self._begun and self._conn.trailing_data[0]:
                self._begun = True
                self._arm(self.limits.headers)
        else:
            self._transport.close()

    def _parsed(self, method: bytes, target: bytes, headers: Headers, version: bytes) -> None:
        """A request of the parser: what is not plain is looked at more closely."""
        names = [name for name, _ in headers]
        if names.count(b"authorization") > 1 or {b"transfer-encoding", b"content-length"} <= set(names):
            self._refuse(400)  # two readers could take it for two different requests
        else:
            self._transport.pause_reading()
            self._request(method, target, headers, version)

    def _request(self, method: bytes, target: bytes, headers: Headers, version: bytes) -> None:
        self._disarm()
        self._hall.work(self)
        self._method, self._busy, self._begun, self._pieces, self._head, self._body = method, True, True, 0, {}, []
        asked = [
            token.strip().lower() for name, value in headers if name == b"connection" for token in value.split(b",")
        ]
        self._last |= b"close" in asked or version != b"1.1"
        path, _, query = target.partition(b"?")
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version.decode("ascii"),
            "server": self._ends[0],
            "client": self._ends[1],
            "scheme": "http",
            "method": method.decode("ascii"),
            "root_path": "",
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "headers": headers,
            "state": self._app_state.copy(),
        }
        task = self._loop.create_task(self._answer(scope))
        self._server.tasks.add(task)
        task.add_done_callback(self._server.tasks.discard)

    async def _answer(self, scope: Message) -> None:
        try:
            await self._app(scope, self._receive, self._send)
        finally:
            self.known |= scope.get(KEY) is not None
            if not self._gone and not self._leaving:
                self._respond()

    async def _receive(self) -> Message:
        """The next part of the body; deadlines run only while it has not come."""
        if self._plain is not None and not self._gone and not self._leaving:
            body, self._plain = self._plain, b""
            return {"type": "http.request", "body": body, "more_body": False}
        pieces: list[bytes] = []
        while not self._gone and not self._leaving:
            try:
                event = self._conn.next_event()
            except h11.RemoteProtocolError:
                self._refuse(400)
                break
            if event is h11.NEED_DATA and not pieces:
                await self._more()
            elif isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
                self._pieces += 1
                if self._pieces > self.limits.pieces:
                    self._refuse(413)
                    break
            else:  # the end, or nothing more for now
                return {"type": "http.request", "body": b"".join(pieces), "more_body": event is h11.NEED_DATA}
        return {"type": "http.disconnect"}

    async def _more(self) -> None:
        if self._conn.they_are_waiting_for_100_continue:
            self._transport.write(self._conn.send(h11.InformationalResponse(status_code=100, headers=[])) or b"")
        if self._deadline is None:
            self._arm(self.limits.body)
        self.known = True  # the application reads no body without a key
        self._arrived.clear()
        self._hall.wait(self)
        self._transport.resume_reading()
        await self._arrived.wait()
        self._hall.work(self)
        if not self._gone:
            self._transport.pause_reading()

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._head = message
        else:
            self._body.append(message.get("body", b""))

    # Responses

    def _respond(self) -> None:
        """Write what the application said; the connection goes on if the request was read to its end."""
        self._disarm()
        status, body = self._head.get("status", 500), b"".join(self._body)
        headers = [(name, value) for name, value in self._head.get("headers", _SECURITY) if name != b"content-length"]
        complete = self._ended()
        plain = self._plain is not None
        rest = self._rest if plain else self._conn.trailing_data[0]
        self._last |= not complete or (self._half and not rest) or (b"connection", b"close") in headers
        self._write(status, headers, body)
        self._busy, self._begun, self._method, self._plain, self._rest = False, False, b"", None, b""
        if self._last:
            self._leave(complete)
            return
        if not plain:
            self._conn = self._parser()
        self._hall.wait(self)
        self._arm(self.limits.idle)
        if rest:
            self._begin(rest)
        elif plain and not self._blocked:
            self._transport.resume_reading()
        else:
            self._next()

    def _ended(self) -> bool:
        """Whether the whole request is here; a short body that was not asked for is thrown away."""
        if self._plain is not None:
            return True
        with suppress(h11.RemoteProtocolError):
            for _ in range(8):
                if self._conn.their_state is not h11.SEND_BODY or self._conn.next_event() is h11.NEED_DATA:
                    break
        return self._conn.their_state in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)

    def _write(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        lines = [b"HTTP/1.1 %d %s" % (status, _phrase(status))]
        lines += [
            name + b": " + value for name, value in (*self._server.default_headers, *headers) if name != b"connection"
        ]
        lines += [
            b"content-length: %d" % len(body),
            b"connection: close" if self._last else b"connection: keep-alive",
            b"",
            b"",
        ]
        text = b"\r\n".join(lines)
        if text.count(b"\r") + text.count(b"\n") != 2 * (len(lines) - 1):
            raise ValueError("a header has more than one line")
        self._transport.write(text if self._method == b"HEAD" else text + body)

    def _refuse(self, status: int) -> None:
        """Say so and leave; nothing of the request is looked at any more."""
        if self._leaving or self._gone:
            return
        self._last = True
        self._write(status, [(b"content-type", b"application/json"), *_SECURITY], json.dumps(problem(status)).encode())
        self._leave(False)
        self._arrived.set()

    def _leave(self, complete: bool) -> None:
        """Close, after the client has had time to read: a socket closed over unread bytes would take the response
        along."""
        self._leaving = True
        self._hall.wait(self)
        self._arm(self.limits.linger)
        if complete:
            self._transport.close()
            return
        with suppress(OSError, RuntimeError):
            self._transport.write_eof()
        self._transport.resume_reading()


def _end(name: Any) -> Any:
    return name[:2] if isinstance(name, tuple) else None  # of IPv6 without flow and scope


def _phrase(status: int) -> bytes:
    try:
        return http.HTTPStatus(status).phrase.encode()
    except ValueError:
        return b"Status"
