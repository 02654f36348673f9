"""Seal and lines: the two things a ledger's file is made of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from privpac.ledger.index import LIMIT
from privpac.ledger.rows import FIRST, START, Spend, chained
from privpac.ledger.state import LedgerState, Place, Source, read_checkpoint

__all__ = ["CHECKPOINT_EVERY", "FIRST", "MAGIC", "START", "Reading", "Seal", "as_line", "chained", "read_seal"]

MAGIC = b"privpac ledger 2\n"
CHECKPOINT_EVERY = 1024
"""Spends and answers between two checkpoints: what a process that opens the ledger reads one by one."""


class Seal(NamedTuple):
    """The first sector: what the file holds at least, and where its last checkpoint stands (0, 0: nowhere)."""

    lines: int
    end: int
    head: str
    checkpoint: tuple[int, int] = (0, 0)

    def __bytes__(self) -> bytes:
        more = "".join(f" {place:020d}" for place in self.checkpoint if place)
        body = MAGIC + f"{self.lines:020d} {self.end:020d} {self.head}{more}\n".encode()
        text = body + hashlib.sha256(body).hexdigest().encode()
        return text.ljust(START - 1) + b"\n"


def read_seal(data: bytes) -> Seal:
    """``ValueError`` for anything but a seal."""
    if not data.startswith(MAGIC):
        raise ValueError
    lines, end, head, *places = data[len(MAGIC) :].split(b"\n")[0].decode("ascii").split(" ")
    at, stop = map(int, places or (0, 0))
    found = Seal(int(lines), int(end), head, (at, stop))
    if bytes(found) != data or not (places == [] or START < at < stop <= found.end):
        raise ValueError
    return found


def as_line(head: str, entry: Any) -> tuple[str, bytes]:
    """The new head and the bytes of a line."""
    text = json.dumps(entry, separators=(",", ":")).encode()
    digest = chained(head, text)
    return digest, digest.encode() + b" " + text + b"\n"


class Reading:
    """How far a file was read: the state, and the place, number and hash of the last line."""

    def __init__(
        self,
        source: Source,
        passes: tuple[int, str] = (START, FIRST),
        visit: Callable[[str, Spend | None], None] | None = None,
    ) -> None:
        self.state = LedgerState(source, visit)
        self.lines, self.begin, self.end, self.head, self.before = 0, START, START, FIRST, FIRST
        self._settings: Place = (START, START, FIRST)
        self._checkpoint: Place | None = None
        self._passes, self.passed = passes, passes == (self.end, self.head)  # an end and a head that were seen before

    @classmethod
    def resumed(cls, source: Source, place: tuple[int, int], passes: tuple[int, str]) -> Reading:
        """A reading that begins at the checkpoint at this place, or at an earlier one if ``passes`` is before it.

        One of ``DAMAGE`` is raised if the checkpoint is none.
        """
        self = cls(source, passes)
        while True:
            at, end = place
            line = source.fetch(at, end)
            body = read_checkpoint(line, at)
            if len(line) != end - at or not line.endswith(b"\n"):
                raise ValueError
            if passes == (START, FIRST) or end <= passes[0]:
                break
            if body["previous"] is None:
                return self  # what was seen is before the first checkpoint
            *earlier, digest = body["previous"]
            if (
                not START < earlier[0] < earlier[1] <= at
                or source.fetch(earlier[0], earlier[0] + 64) != digest.encode()
            ):
                raise ValueError
            place = earlier[0], earlier[1]
        self._settings = START, *body["settings"]
        first = source.fetch(*self._settings[:2])
        kind, meta = json.loads(first[65:-1])
        if kind != "settings" or not self._settings[2] == chained(FIRST, first[65:-1]) == first[:64].decode("ascii"):
            raise ValueError
        self.state.agree(meta)
        digest = line[:64].decode("ascii")
        self.lines, self.begin, self.end, self.head, self.before = body["lines"] + 1, at, end, digest, body["before"]
        self._checkpoint = at, end, digest
        self.state.resume(self._checkpoint, body)
        self.passed |= self._passes in ((end, digest), (START, FIRST))
        return self

    def take(self, line: bytes) -> bool:
        """Read one more line; False if its hash is not its own, one of ``DAMAGE`` if it breaks a rule."""
        digest, space, text = line[:64].decode("ascii", "replace"), line[64:65], line[65:-1]
        if space != b" " or not line.endswith(b"\n") or digest != chained(self.head, text):
            return False
        place = self.end, self.end + len(line), digest
        if text.startswith(b'["checkpoint"'):
            entry = self._checkpoint_entry()
            if json.dumps(entry, separators=(",", ":")).encode() != text:
                raise ValueError
            self._checkpoint = place
            self.state.pass_checkpoint(place, entry[1])
        else:
            self.state.take(json.loads(text), self.end, line)
        if self.lines == 0:
            self._settings = place
        self.lines, self.begin, self.end = self.lines + 1, *place[:2]
        self.before, self.head = self.head, digest
        self.passed |= self._passes == (self.end, self.head)
        return True

    def lines_for(self, entry: Any) -> list[bytes]:
        """The line that adds this entry, behind a checkpoint if it is time for one."""
        if self.state.recent < CHECKPOINT_EVERY or self.end >= LIMIT:
            return [as_line(self.head, entry)[1]]
        head, checkpoint = as_line(self.head, self._checkpoint_entry())
        return [checkpoint, as_line(head, entry)[1]]

    def _checkpoint_entry(self) -> list[Any]:
        body = {"lines": self.lines, "at": self.end, "before": self.head, "settings": self._settings[1:]}
        return ["checkpoint", {**body, "previous": self._checkpoint, **self.state.summary()}]

    def seal(self) -> Seal:
        return Seal(self.lines, self.end, self.head, self._checkpoint[:2] if self._checkpoint else (0, 0))
