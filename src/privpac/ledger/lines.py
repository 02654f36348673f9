"""Seal and lines: the two things a ledger's file is made of."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from privpac.ledger.state import LedgerState

__all__ = ["FIRST", "MAGIC", "START", "Reading", "as_line", "chained", "read_seal", "seal"]

MAGIC = b"privpac ledger 2\n"
START = 512  # the seal fills one sector, which a disk writes wholly or not at all
FIRST = "0" * 64


def seal(lines: int, end: int, head: str) -> bytes:
    """The first sector: what the file holds at least."""
    body = MAGIC + f"{lines:020d} {end:020d} {head}\n".encode()
    text = body + hashlib.sha256(body).hexdigest().encode()
    return text.ljust(START - 1) + b"\n"


def read_seal(data: bytes) -> tuple[int, int, str]:
    """Lines, end and head; ``ValueError`` for anything but a seal."""
    if not data.startswith(MAGIC):
        raise ValueError
    lines, end, head = data[len(MAGIC) :].split(b"\n")[0].decode("ascii").split(" ")
    if seal(int(lines), int(end), head) != data:
        raise ValueError
    return int(lines), int(end), head


def chained(head: str, text: bytes) -> str:
    return hashlib.sha256(b"privpac.ledger.v2" + head.encode() + text).hexdigest()


def as_line(head: str, entry: Any) -> tuple[str, bytes]:
    """The new head and the bytes of a line."""
    text = json.dumps(entry, separators=(",", ":")).encode()
    digest = chained(head, text)
    return digest, digest.encode() + b" " + text + b"\n"


class Reading:
    """How far a file was read: the state, and the place, number and hash of the last line."""

    def __init__(self, passes: tuple[int, str] = (START, FIRST), hashes: set[str] | None = None) -> None:
        self.state = LedgerState(hashes)
        self.lines, self.begin, self.end, self.head, self.before = 0, START, START, FIRST, FIRST
        self._passes, self.passed = passes, passes == (self.end, self.head)  # an end and a head that were seen before

    def take(self, line: bytes) -> bool:
        """Read one more line; False if its hash is not its own, ``ValueError`` and the like if it breaks a rule."""
        digest, space, text = line[:64].decode("ascii", "replace"), line[64:65], line[65:-1]
        if space != b" " or not line.endswith(b"\n") or digest != chained(self.head, text):
            return False
        self.state.take(json.loads(text))
        self.lines, self.begin, self.end = self.lines + 1, self.end, self.end + len(line)
        self.before, self.head = self.head, digest
        self.passed |= self._passes == (self.end, self.head)
        return True

    def seal(self) -> bytes:
        return seal(self.lines, self.end, self.head)
