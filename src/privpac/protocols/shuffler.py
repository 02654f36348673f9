"""The shuffler: takes each client's messages once, mixes all of them, and releases nothing below ``n_min`` clients.

It sees who sent how many messages, and must not collude with the analyzer.  Where the run is sealed it cannot read
them: it strips the names, mixes ciphertexts and hands them on.  Sealed local and central messages can be mixed in the
same way, so that the analyzer sees no sender.  Clients are told apart by an authenticated
name; the first submission of a name counts, later ones are dropped (an honest client sends the same bytes again).  A
submission over the public cap, or beyond ``n_max`` clients, is dropped whole; a message that is not of this run is
dropped by itself.  Nothing a client sends raises.

A release closes the run: were later messages mixed in and released again, the difference would be those of a few
clients.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import islice

from attrs import define, field

from privpac.device.manifest import Manifest
from privpac.device.randomizers import in_random_order
from privpac.device.wire import HEAD, SEALED, SHUFFLE, frame, parse
from privpac.errors import ParameterError
from privpac.rng import Rng, secret_rng


@define(slots=False)
class Dropped:
    """What was left out; all of it is public knowledge of the collector."""

    malformed: int = 0
    repeated: int = 0
    over_cap: int = 0
    too_many_clients: int = 0
    late: int = 0
    copied: int = 0

    @property
    def total(self) -> int:
        return sum(vars(self).values())

    def __str__(self) -> str:
        return ", ".join(f"{count} {_WHY[name]}" for name, count in vars(self).items() if count) or "none"


_WHY = {
    "malformed": "malformed",
    "repeated": "of a name that had sent before",
    "over_cap": "submissions over the cap",
    "too_many_clients": "beyond n_max clients",
    "late": "after the release",
    "copied": "copies of somebody else's message",
}


@define(slots=False)
class Shuffler:
    """Collects for one run."""

    manifest: Manifest
    dropped: Dropped = field(factory=Dropped)
    _seen: set[Hashable] = field(factory=set, repr=False)
    _copies: set[bytes] = field(factory=set, repr=False)
    _messages: list[int | bytes] = field(factory=list, repr=False)
    _mixed: list[int | bytes] | None = field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.manifest.protocol != "shuffle" and self.manifest.analyzer is None:
            raise ParameterError(f"this run is {self.manifest.protocol} and not sealed, nothing to shuffle")

    @property
    def clients(self) -> int:
        """Distinct clients whose submission was taken: public."""
        return len(self._seen)

    @property
    def fewest(self) -> int:
        """Clients below which nothing is released."""
        return self.manifest.shuffle.n_min if self.manifest.protocol == "shuffle" else 1

    def submit(self, client: Hashable, messages: Iterable[object]) -> bool:
        """Take one client's messages; whether they were taken."""
        cap = self.manifest.most_messages
        if self._mixed is not None:
            self.dropped.late += 1
            return False
        listed = list(islice(messages, cap + 1))
        if client in self._seen:
            self.dropped.repeated += 1
            return False
        if len(listed) > cap:
            self.dropped.over_cap += 1
            return False
        if self.manifest.protocol == "shuffle" and len(self._seen) >= self.manifest.n_max:
            self.dropped.too_many_clients += 1
            return False
        read = [self._read(message) for message in listed]
        good = [message for message in read if message is not None]
        self.dropped.malformed += len(read) - len(good)
        # A copy of another client's sealed message would count that person twice.
        fresh = [message for message in good if message not in self._copies]
        self.dropped.copied += len(good) - len(fresh)
        if not fresh:
            return False  # an honest client sends at least one message; who sends none adds no noise and is not counted
        self._copies.update(message for message in fresh if isinstance(message, bytes))
        self._seen.add(client)
        self._messages += fresh
        return True

    def _read(self, message: object) -> int | bytes | None:
        """A bucket, or a ciphertext that is outwardly one of this run."""
        manifest = self.manifest
        if manifest.analyzer is not None:
            if not isinstance(message, bytes) or len(message) != manifest.message_bytes:
                return None
            return message if message[:HEAD] == frame(manifest.kind, manifest.run, SEALED) else None
        read = parse(manifest.run, message, SHUFFLE)
        return int(read[0]) if read and read[0] < manifest.shuffle.buckets else None

    def release(self, rng: Rng | None = None) -> list[int | bytes] | None:
        """All messages in random order (buckets, or ciphertexts of a sealed run), always the same ones; ``None`` while
        fewer than ``n_min`` clients took part."""
        if self.clients < self.fewest:
            return None
        if self._mixed is None:
            self._mixed = in_random_order(list(self._messages), secret_rng(rng))
        return list(self._mixed)
