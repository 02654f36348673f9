"""The shuffler: takes each client's messages once, mixes all of them, and releases nothing below ``n_min`` clients.

It sees who sent how many messages, and must not collude with the analyzer.  Clients are told apart by an authenticated
name; the first submission of a name counts, later ones are dropped (an honest client sends the same bytes again).  A
submission over the public cap, or beyond ``n_max`` clients, is dropped whole; a message that is not of this run is
dropped by itself.  Nothing a client sends raises.

A release closes the run: were later messages mixed in and released again, the difference would be those of a few
clients.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from privpac.errors import ParameterError
from privpac.protocols.manifest import Manifest
from privpac.protocols.shuffle import mixed
from privpac.protocols.wire import SHUFFLE, parse
from privpac.rng import Rng, secret_rng

__all__ = ["Dropped", "Shuffler"]


@dataclass
class Dropped:
    """What was left out; all of it is public knowledge of the collector."""

    malformed: int = 0
    repeated: int = 0
    over_cap: int = 0
    too_many_clients: int = 0
    late: int = 0

    @property
    def total(self) -> int:
        return self.malformed + self.repeated + self.over_cap + self.too_many_clients + self.late


@dataclass
class Shuffler:
    """Collects for one run."""

    manifest: Manifest
    dropped: Dropped = field(default_factory=Dropped)
    _seen: set[Hashable] = field(default_factory=set, repr=False)
    _messages: list[int] = field(default_factory=list, repr=False)
    _mixed: list[int] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.manifest.protocol != "shuffle":
            raise ParameterError(f"this run is {self.manifest.protocol}, nothing to shuffle")

    @property
    def clients(self) -> int:
        """Distinct clients whose submission was taken: public."""
        return len(self._seen)

    def submit(self, client: Hashable, messages: Iterable[object]) -> bool:
        """Take one client's messages; whether they were taken."""
        select = self.manifest.shuffle
        if self._mixed is not None:
            self.dropped.late += 1
            return False
        listed: list[object] = []
        for message in messages:
            if len(listed) > select.cap:
                break
            listed.append(message)
        if client in self._seen:
            self.dropped.repeated += 1
            return False
        if len(listed) > select.cap:
            self.dropped.over_cap += 1
            return False
        if len(self._seen) >= self.manifest.n_max:
            self.dropped.too_many_clients += 1
            return False
        good = [
            read[0]
            for read in (parse(self.manifest.run, message, SHUFFLE) for message in listed)
            if read and read[0] < select.buckets
        ]
        self.dropped.malformed += len(listed) - len(good)
        if not good:
            return False  # an honest client sends at least one message; who sends none adds no noise and is not counted
        self._seen.add(client)
        self._messages += good
        return True

    def release(self, rng: Rng | None = None) -> list[int] | None:
        """The buckets of all messages in random order, always the same ones; ``None`` while fewer than ``n_min``
        clients took part."""
        if self.clients < self.manifest.shuffle.n_min:
            return None
        if self._mixed is None:
            self._mixed = mixed(list(self._messages), secret_rng(rng))
        return list(self._mixed)
