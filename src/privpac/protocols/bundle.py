"""Messages one after another in one file or request, each after its length (u32, little-endian)."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["bundle", "unbundle"]


def bundle(messages: Sequence[bytes]) -> bytes:
    """Messages one after another.

    >>> bundle([b"ab", b""]).hex()
    '02000000616200000000'
    """
    return b"".join(len(message).to_bytes(4, "little") + message for message in messages)


def unbundle(data: bytes, limit: int = 1 << 20) -> list[bytes]:
    """The messages of a bundle; what cannot be read ends it."""
    out: list[bytes] = []
    at = 0
    while at + 4 <= len(data) and len(out) < limit:
        size = int.from_bytes(data[at : at + 4], "little")
        if at + 4 + size > len(data):
            break
        out.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return out
