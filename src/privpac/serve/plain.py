"""Plain requests, read at once: what almost every client sends, without the machinery for the rest.

A request is plain if it is all there and there is one way to read it: HTTP/1.1, one host, printable headers on one line
each, a body of declared length, or none.  **Whatever this module reads, the parser of :mod:`h11` reads in the same
way**; all other bytes, wrong ones included, are not judged here and go to that parser.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = rb"[-!#$%&'*+.^_`|~0-9A-Za-z]+"
_VALUE = rb"[!-~](?:[ -~]*[!-~])?"
_HEAD = re.compile(rb"(GET|POST|DELETE) (/[!-~]*) HTTP/1\.1\r\n((?:" + _TOKEN + rb": " + _VALUE + rb"\r\n)+)\r\n")
_HEADER = re.compile(rb"([^:]+): ([^\r]+)\r\n")
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,6}")
_ONCE = (b"host", b"content-length", b"authorization", b"content-type")
_OTHER = (b"transfer-encoding", b"expect", b"upgrade")


class Plain(NamedTuple):
    """One request, and the bytes after it."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    rest: bytes


def read_plain(data: bytes, header_bytes: int) -> Plain | None:
    """The request that ``data`` begins with, if it is plain and its line and headers have at most ``header_bytes``."""
    found = _HEAD.match(data, 0, header_bytes)
    if found is None:
        return None
    method, target, lines = found.groups()
    headers = [(name.lower(), value) for name, value in _HEADER.findall(lines)]
    values = dict(headers)
    if b"host" not in values or any(name in values for name in _OTHER):
        return None
    if len(values) < len(headers):
        names = [name for name, _ in headers]
        if any(names.count(name) > 1 for name in _ONCE):
            return None
    length = values.get(b"content-length", b"0")
    if _LENGTH.fullmatch(length) is None:
        return None
    start, end = found.end(), found.end() + int(length)
    return Plain(method, target, headers, data[start:end], data[end:]) if len(data) >= end else None
