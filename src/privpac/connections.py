"""Connections of an HTTP server: how long a client may take, and how many connections it may hold.

The prediction service, the collector of submissions and the studio run on :mod:`uvicorn` with its protocol for
:mod:`h11`, which parses every byte that comes.  :class:`ConnectionLimiter` is that protocol with limits.  A client that
says nothing, or says it slowly, costs a place among ``Limits.connections`` and loses it to whoever comes next:

* **Time.**  Line and headers, a body, and a response that nobody reads each have a deadline, counted from their
  beginning; more bytes do not move it.
* **Places.**  Where an address, or the whole server, has no place left, the connection that has waited longest for its
  client is closed, first those that never showed a valid key.  A newcomer is refused only while every place is being
  worked for.  Without a place left in the whole server the address that holds most pays, so that one address cannot
  drive out the others.
* **Bodies** that did not come along with their headers stay in the socket until the application asks for them, which it
  does after it has seen the key in the headers.
"""

from __future__ import annotations

import asyncio
import http
import ipaddress
import logging
import math
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

import h11
import uvicorn
from attrs import frozen
from uvicorn.protocols.http.h11_impl import H11Protocol

from privpac.errors import ParameterError

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

KEY = "privpac.key"
"""Where an application puts into a request's scope whom it has recognised."""
BACKLOG = 256
"""Connections that may wait to be accepted; they are accepted together, so that many more descriptors may be open for a
moment."""


@frozen(slots=False)
class Limits:
    """What clients may hold on to; times in seconds."""

    connections: int = 1024
    per_address: int = 256
    headers: float = 10.0
    body: float = 20.0
    idle: float = 15.0
    """Silence between requests, and the time to read a response."""
    linger: float = 5.0
    """The time to read a refusal."""
    pace: float = math.inf
    """Bytes of a body or a response for which there is one second more."""
    header_bytes: int = 16_384
    pieces: int = 2_000
    """Pieces a body may come in: each costs the parser the same, whatever its length."""
    leftover: int = 1 << 22
    """Bytes read and thrown away after a refusal, so that the client is still there to read it."""

    def within(self, descriptors: int) -> int:
        """Connections that leave room for those waiting to be accepted and for the server's own files."""
        if descriptors == resource.RLIM_INFINITY:
            return self.connections
        return max(8, min(self.connections, descriptors - BACKLOG - 64))


def neighbourhood(peer: object) -> str:
    """Whom a connection is counted with: an IPv4 address, or the 64 bits of IPv6 that one household gets."""
    if not isinstance(peer, tuple):
        return ""
    try:
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    except ValueError:
        return str(peer[0])
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or int(address) >> 64)
    return str(address)


class ConnectionPlaces:
    """The connections of one server, and which of them wait for their clients."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._places = limits.within(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._held: Counter[str] = Counter()
        self._inside: set[ConnectionLimiter] = set()
        self._waiting: dict[ConnectionLimiter, None] = {}  # in the order in which they began to wait

    def enter(self, connection: ConnectionLimiter) -> bool:
        """Give a newcomer a place, if need be that of a connection that waits; whether there was one."""
        free = True
        if self._held[connection.address] >= self._limits.per_address:
            free = self._send_away(connection.address)
        if free and len(self._inside) >= self._places:
            (crowd, _), *_ = self._held.most_common(1)
            free = self._send_away(crowd) or self._send_away(None)
        self._inside.add(connection)
        self._held[connection.address] += 1
        self.wait(connection)
        return free

    def _send_away(self, address: str | None) -> bool:
        candidates = (each for each in self._waiting if address is None or each.address == address)
        longest = min(candidates, key=lambda each: each.known, default=None)  # of equals the first
        if longest is None:
            return False
        self.leave(longest)
        longest.transport.abort()
        return True

    def wait(self, connection: ConnectionLimiter) -> None:
        if connection in self._inside:
            self._waiting.setdefault(connection)

    def work(self, connection: ConnectionLimiter) -> None:
        self._waiting.pop(connection, None)

    def leave(self, connection: ConnectionLimiter) -> None:
        self._waiting.pop(connection, None)
        if connection in self._inside:
            self._inside.remove(connection)
            self._held[connection.address] -= 1
            if not self._held[connection.address]:
                del self._held[connection.address]


class _Parser(h11.Connection):
    """The parser, strict where two readers could take a request for two different ones; ``fault`` is the status of what
    it refuses."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(h11.SERVER, limits.header_bytes)
        self._limits, self._pieces, self.fault = limits, 0, 400

    def next_event(self) -> Any:
        before = len(self.trailing_data[0]) if self.their_state is h11.IDLE else 0
        try:
            event = super().next_event()
        except h11.RemoteProtocolError as error:
            raise self._refusal(431 if error.error_status_hint == 431 else 400) from None
        if isinstance(event, h11.Request):
            self._pieces, names = 0, [name for name, _ in event.headers]
            if before - len(self.trailing_data[0]) > self._limits.header_bytes:
                raise self._refusal(431)  # the parser itself counts only what is not yet whole
            if names.count(b"authorization") > 1 or {b"transfer-encoding", b"content-length"} <= set(names):
                raise self._refusal(400)
        elif isinstance(event, h11.Data):
            self._pieces += 1
            if self._pieces > self._limits.pieces:
                raise self._refusal(413)
        # The end of a connection is no event for the protocol; it closes when everything is answered.
        return h11.NEED_DATA if isinstance(event, h11.ConnectionClosed) else event

    def _refusal(self, status: int) -> h11.RemoteProtocolError:
        self.fault = status
        return h11.RemoteProtocolError("refused", error_status_hint=status)


class ConnectionLimiter(H11Protocol):
    """One connection, with deadlines and a place; a server names a subclass as its ``http`` protocol."""

    limits = Limits()
    tls: ssl.SSLContext | None = None

    @staticmethod
    def refusal(status: int) -> tuple[Headers, bytes]:
        """Headers and body with which the server itself refuses."""
        return [], b""

    def __init__(self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._application, self.app = self.app, self._limited
        self.conn: _Parser = _Parser(self.limits)
        self.logger = _quiet
        self.timeout_keep_alive = self.limits.idle  # type: ignore[assignment]
        if not hasattr(server_state, "places"):
            server_state.places = ConnectionPlaces(self.limits)
        self._places: ConnectionPlaces = server_state.places
        self._timer: asyncio.TimerHandle | None = None
        self._leaving = self._ended = False
        self._early, self._leftover, self._patience = b"", 0, self.limits.idle
        self.address, self.known = "", False

    @property
    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    # What the socket says

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        with suppress(OSError, AttributeError):
            # Headers and body of a response are two writes; neither must wait for an acknowledgement.
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = neighbourhood(transport.get_extra_info("peername"))
        free = self._places.enter(self)
        if self.tls is not None:
            transport.pause_reading()
            self.tasks.add(task := self.loop.create_task(self._handshake(transport, free)))
            task.add_done_callback(self.tasks.discard)
        else:
            self._begin(transport, free)

    async def _handshake(self, transport: asyncio.Transport, free: bool) -> None:
        try:
            if not free:
                raise ConnectionError
            secured = await self.loop.start_tls(
                transport,
                self,
                self.tls,  # type: ignore[arg-type]
                server_side=True,
                ssl_handshake_timeout=self.limits.headers,
                ssl_shutdown_timeout=self.limits.linger,
            )
            if secured is None or secured.is_closing():
                raise ConnectionError
        except OSError:
            self._places.leave(self)
            transport.abort()
        else:
            self._begin(secured, True)

    def _begin(self, transport: asyncio.Transport, free: bool) -> None:
        super().connection_made(transport)
        self._arm(self.limits.headers)
        if not free:
            self._refuse(503)
        elif self._early:
            self.data_received(self._early)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._disarm()
        self._places.leave(self)

    def data_received(self, data: bytes) -> None:
        if self.flow is None:
            self._early += data  # came along with the end of a handshake
            return
        if not self._leaving:
            super().data_received(data)
            return
        self._leftover += len(data)
        if self._leftover > self.limits.leftover:
            self.transport.abort()

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client says no more; what it asked before is still answered."""
        if self.flow is not None and not self._leaving and not self._ended:
            self._ended = True
            self.conn.receive_data(b"")
            self.handle_events()
        return self._busy and not self._leaving

    def pause_writing(self) -> None:
        super().pause_writing()
        self._places.wait(self)
        self._arm(self._patience)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._disarm()
        if self._busy and not self._leaving:
            self._places.work(self)
        elif self._leaving or self.transport.is_closing():
            self._arm(self.limits.linger)
        else:
            self._arm(self.limits.idle)
            self.flow.resume_reading()
            self.handle_events()

    # Deadlines

    def _arm(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self._late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        begun = self._busy or bool(self.conn.trailing_data[0])  # something of a request came, and not the rest
        if begun and not self._leaving and not self.flow.write_paused and not self.transport.is_closing():
            self._refuse(408)
        else:
            self.transport.abort()

    def timeout_keep_alive_handler(self) -> None:
        self.transport.abort()

    # Requests and responses

    def handle_events(self) -> None:
        if self._leaving or self.transport.is_closing():
            return
        if self.flow.write_paused and not self._busy:
            self.flow.pause_reading()  # who does not read its response is given no other
            return
        before = self.cycle
        super().handle_events()
        if self._leaving:
            return
        if self.cycle is not before:
            self._disarm()
            self._places.work(self)
            if self.cycle.more_body:
                self.flow.pause_reading()
        elif not self._busy:
            if self._ended:
                self.transport.close()
            elif self._timer is None and self.conn.trailing_data[0]:
                self._unset_keepalive_if_required()
                self._arm(self.limits.headers)

    async def _limited(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The application, with a deadline for the body, and an end of the connection where the body is not read."""
        cycle, head = self.cycle, dict[str, Any]()
        self._patience = self.limits.idle

        async def limited_receive() -> Message:
            if cycle.more_body and not cycle.body:
                self.known = True  # the application asks for no body without a key
                if self._timer is None:
                    length = next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)
                    self._arm(self.limits.body + length / self.limits.pace)
                self._places.wait(self)
            message = await receive()
            if not self._leaving:
                self._places.work(self)
                if not message.get("more_body", False):
                    self._disarm()
            return message

        async def limited_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                head.update(message)
                return
            more = message.get("more_body", False)
            self._patience = self.limits.idle + len(message.get("body", b"")) / self.limits.pace
            if head:
                last = cycle.more_body or not cycle.keep_alive or (self._ended and not self.conn.trailing_data[0])
                ends = [(b"connection", b"close")] if last else []
                headers = [pair for pair in head["headers"] if not ends or pair[0] != b"connection"]
                await send({**head, "headers": headers + ends})
                head.clear()
            await send({**message, "more_body": more or cycle.more_body})
            if cycle.more_body and not more and not cycle.disconnected:
                self._leave()

        try:
            await self._application(scope, limited_receive, limited_send)
        finally:
            self.known |= scope.get(KEY) is not None

    def on_response_complete(self) -> None:
        self._places.wait(self)
        super().on_response_complete()
        if self.flow.write_paused:
            self._unset_keepalive_if_required()
        elif self.transport.is_closing():
            self._arm(self.limits.linger)  # for what is still to be written

    def send_400_response(self, msg: str) -> None:
        self._refuse(self.conn.fault)

    def _refuse(self, status: int) -> None:
        """Say so and leave; nothing of the request is looked at any more."""
        if self._busy and self.cycle.response_started:
            self.transport.abort()
            return
        headers, body = self.refusal(status)
        headers = [*self.server_state.default_headers, *headers, (b"content-length", b"%d" % len(body))]
        lines = [b"HTTP/1.1 %d %s" % (status, http.HTTPStatus(status).phrase.encode())]
        lines += [name + b": " + value for name, value in (*headers, (b"connection", b"close"))]
        self.transport.write(b"\r\n".join([*lines, b"", body]))
        self._leave()

    def _leave(self) -> None:
        """Close after the client has had time to read: a socket closed over unread bytes would take the response
        along."""
        self._leaving = True
        if self._busy:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._places.wait(self)
        self._unset_keepalive_if_required()
        self._arm(self.limits.linger)
        if self._ended or not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self.flow.resume_reading()

    def shutdown(self) -> None:
        if self._leaving or self.transport.is_closing() or self.flow is None:
            self.transport.close()
        else:
            super().shutdown()


_quiet = logging.Logger("privpac.connections", logging.CRITICAL + 1)
"""What a client sends, and what an application fails with, is nobody's business."""


def listen(host: str, port: int) -> socket.socket:
    """The address, held before anything is said about it.

    Raises
    ------
    ParameterError
        If the address is taken, or is none of this machine's.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a connection is a descriptor
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)  # another listener on the same port is noticed here at the latest
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ParameterError(
            f"cannot listen on {host} port {port}: {error.strerror}; choose another --port or --host"
        ) from None
    listener.set_inheritable(True)
    return listener


def server_config(app: App | str, connection: type[ConnectionLimiter], **more: Any) -> uvicorn.Config:
    """How all servers of the package run: no address is taken from headers, nothing about requests is logged."""
    fixed: dict[str, Any] = {"interface": "asgi3", "ws": "none", "loop": "asyncio", "backlog": BACKLOG}
    fixed |= {"log_level": "warning", "proxy_headers": False, "access_log": False, "server_header": False}
    fixed |= {"timeout_graceful_shutdown": 30}
    return uvicorn.Config(app, http=connection, **(fixed | more))
