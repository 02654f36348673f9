"""Places for connections: whoever waits longest makes room.

Where an address, or the whole service, has no place left, the connection that has waited longest for its client goes,
first those that never showed a valid key; a newcomer is refused only while every place is being worked for.  Without a
place left in the whole service the address that holds most pays, so that one address cannot drive out the others.
"""

from __future__ import annotations

import ipaddress
import resource
from collections import Counter
from typing import Any, Protocol

from attrs import frozen

from privpac.serve.limits import MAX_BODY

BACKLOG = 256
"""Connections that may wait to be accepted; they are accepted together, so that many more descriptors may be open for a
moment."""


class Guest(Protocol):
    """A connection, as far as its place is concerned."""

    address: str
    known: bool
    """Whether it has shown a valid key."""

    def abort(self) -> None: ...


@frozen(slots=False)
class Limits:
    """What clients may hold on to; times in seconds."""

    connections: int = 1024
    per_address: int = 256
    headers: float = 10.0
    body: float = 20.0
    idle: float = 15.0
    linger: float = 5.0
    header_bytes: int = 16_384
    pieces: int = 2_000
    """Pieces a body may come in: each costs the parser the same, whatever its length."""
    leftover: int = 4 * MAX_BODY
    """Bytes read and thrown away after a refusal, so that the client is still there to read it."""

    def within(self, descriptors: int) -> int:
        """Connections that leave room for those waiting to be accepted and for the service's own files."""
        if descriptors == resource.RLIM_INFINITY:
            return self.connections
        return max(8, min(self.connections, descriptors - BACKLOG - 64))


def neighbourhood(peer: Any) -> str:
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


class Hall:
    """The connections of one server, and which of them wait for their clients."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._places = limits.within(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._held: Counter[str] = Counter()
        self._inside: set[Guest] = set()
        self._waiting: dict[Guest, None] = {}  # in the order in which they began to wait

    def enter(self, door: Guest) -> bool:
        """Give a newcomer a place, if need be that of a connection that waits; whether there was one."""
        room = True
        if self._held[door.address] >= self._limits.per_address:
            room = self._send_away(door.address)
        if room and len(self._inside) >= self._places:
            (crowd, _), *_ = self._held.most_common(1)
            room = self._send_away(crowd) or self._send_away(None)
        self._inside.add(door)
        self._held[door.address] += 1
        return room

    def _send_away(self, address: str | None) -> bool:
        candidates = (door for door in self._waiting if address is None or door.address == address)
        longest = min(candidates, key=lambda door: door.known, default=None)  # of equals the first
        if longest is None:
            return False
        self.leave(longest)
        longest.abort()
        return True

    def wait(self, door: Guest) -> None:
        if door in self._inside:
            self._waiting.setdefault(door)

    def work(self, door: Guest) -> None:
        self._waiting.pop(door, None)

    def leave(self, door: Guest) -> None:
        self._waiting.pop(door, None)
        if door in self._inside:
            self._inside.remove(door)
            self._held[door.address] -= 1
            if not self._held[door.address]:
                del self._held[door.address]
