"""Hostile HTTP: requests that no honest client sends, and a strict reader of whatever comes back.

Everything is a function of a seed.  :func:`attacks` yields raw requests, valid ones among them; :func:`exchange` sends
one and reads until the server closes; :func:`responses` refuses anything but whole, well-formed responses that carry
every security header.
"""

from __future__ import annotations

import json
import random
import re
import socket
from collections.abc import Iterator

from attrs import frozen

from privpac.serve.responses import HEADERS

__all__ = ["Response", "attacks", "exchange", "responses"]

_METHODS = [
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "PATCH",
    "get",
    "P\x00ST",
    "PRI",
    "A" * 300,
]
_TARGETS = [
    "/",
    "/predict",
    "/budget",
    "/guarantee",
    "/healthz",
    "/openapi.json",
    "/static/console.js",
    "/static/..%2f..%2fetc/passwd",
]
_TARGETS += [
    "/console/api/keys",
    "/console/api/keys/%00",
    "/static/%ff",
    "*",
    "http://elsewhere/",
    "//x",
    "/budget/",
    "/predict?x=1#y",
    "/" * 900,
]
_VERSIONS = ["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1 ", ""]
_ODD = [
    "Content-Length: 5",
    "Content-Length: -1",
    "Content-Length: +3",
    "Content-Length: 1e3",
    "Content-Length: 99999999999999999999",
    "Content-Length: 1, 2",
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: identity",
    "Transfer-Encoding : chunked",
    "Connection: close",
    "Connection: upgrade\r\nUpgrade: websocket",
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c",
    "Expect: 100-continue",
    "Expect: the unexpected",
    "Host: elsewhere",
    "Host: a\r\nHost: b",
    "Range: bytes=" + ",".join(f"{i}-" for i in range(400)),
    "Authorization: Basic eDp5",
    "Authorization: Bearer",
    "Content-Type: text/plain",
    "Content-Type: multipart/form-data; boundary=x",
    "Content-Encoding: gzip",
    "X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Host: elsewhere",
    " folded: yes",
    "no colon",
    ": no name",
    "Nul: \x00",
    "Bare: a\nb",
    "Cookie: " + "x=y; " * 2000,
    "Huge: " + "h" * 20_000,
]
_BODIES = [
    b"",
    b"{",
    b"null",
    b'{"records": [{"x": 1, "x": 2}]}',
    b'{"records": [], "records": [{"x": 1}]}',
    b'{"records": [{"x": 1e999}]}',
    b'{"records": [{"\\u0078": 0.5}]}',
    b'{"records": ' + b"[" * 3000,
    b"\xff\xfe\x00",
    b'{"name": "a", "role": "operator", "name": "b"}',
    b"a=b&c=d",
]
_CHUNKS = [
    b"0\r\n\r\n",
    b"5\r\nab",
    b"zz\r\n",
    b"-1\r\nx\r\n0\r\n\r\n",
    b"1;ext=1\r\n{\r\n0\r\nTrailer: x\r\n\r\n",
    b"FFFFFFFFFFFFFFFFF\r\n",
    b"1\r\n{" * 50,
]


def attacks(seed: int, count: int, key: str) -> Iterator[bytes]:
    """Raw requests: some whole and odd, some mutated bytes, some several at once."""
    rng = random.Random(seed)
    for number in range(count):
        raw = b"".join(_request(rng, key, number) for _ in range(rng.choice([1, 1, 1, 2, 5])))
        if rng.random() < 0.3:
            raw = _mutated(rng, raw)
        yield raw


def _request(rng: random.Random, key: str, number: int) -> bytes:
    body = rng.choice([*_BODIES, json.dumps({"records": [{"x": number % 40}]}).encode()])
    method = rng.choice(["GET", "POST", "POST", *_METHODS]) if rng.random() < 0.5 else "POST"
    target = rng.choice(_TARGETS) if rng.random() < 0.6 else "/predict"
    lines = [f"{method} {target} {rng.choice(_VERSIONS) if rng.random() < 0.1 else 'HTTP/1.1'}", "Host: localhost"]
    if rng.random() < 0.6:
        lines.append(f"Authorization: Bearer {key}" if rng.random() < 0.8 else f"Authorization: Bearer {key[:-1]}")
    if rng.random() < 0.1:
        lines.append(f"Authorization: Bearer {key}")
    if rng.random() < 0.8:
        lines.append("Content-Type: application/json")
    if rng.random() < 0.7:
        lines.append(f"Content-Length: {len(body)}")
    elif rng.random() < 0.6:
        lines.append("Transfer-Encoding: chunked")
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body and rng.random() < 0.6 else rng.choice(_CHUNKS)
    lines += rng.sample(_ODD, rng.choice([0, 0, 0, 1, 2]))
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def _mutated(rng: random.Random, raw: bytes) -> bytes:
    data = bytearray(raw)
    for _ in range(rng.randint(1, 6)):
        place = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            data[place:place] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 9)))
        elif kind == 1:
            del data[place : place + rng.randint(1, 30)]
        elif kind == 2 and place < len(data):
            data[place] ^= 1 << rng.randrange(8)
        else:
            data[place:place] = data[place : place + 40] * 2
    return bytes(data)


def exchange(address: tuple[str, int], raw: bytes, seconds: float = 30) -> bytes:
    """Send, say that nothing more comes, and read to the end; a server that never ends is a ``TimeoutError``."""
    found = bytearray()
    with socket.create_connection(address, timeout=seconds) as link:
        try:
            link.sendall(raw)
            link.shutdown(socket.SHUT_WR)
            while part := link.recv(1 << 16):
                found += part
        except (ConnectionResetError, BrokenPipeError):
            pass
    return bytes(found)


@frozen(slots=False)
class Response:
    """One response, read strictly."""

    status: int
    headers: dict[str, str]
    body: bytes


def responses(raw: bytes) -> list[Response]:
    """All responses in ``raw``, without interim ones; ``AssertionError`` for anything that is no whole response."""
    found: list[Response] = []
    while raw:
        head, end, raw = raw.partition(b"\r\n\r\n")
        assert end, "a head without its end"
        line, *fields = head.split(b"\r\n")
        match = re.fullmatch(rb"HTTP/1\.1 ([1-5][0-9]{2}) [ -~]*", line)
        assert match, line
        if match[1] == b"100":
            assert not fields
            continue
        pairs = [field.partition(b": ") for field in fields]
        assert all(
            re.fullmatch(rb"[A-Za-z0-9-]+", name) and re.fullmatch(rb"[ -~]*", value) for name, _, value in pairs
        ), fields
        headers = {name.decode().lower(): value.decode() for name, _, value in pairs}
        assert len(headers) == len(pairs), "a header twice"
        for name, value in HEADERS.items():
            assert headers.get(name) == value, name
        length = int(headers["content-length"])
        # A response to HEAD has the length of what it leaves out; ours are then the last bytes, or the next head
        # follows at once.
        body, raw = (b"", raw) if not raw or raw.startswith(b"HTTP/1.1 ") else (raw[:length], raw[length:])
        assert len(body) in (0, length)
        found.append(Response(int(match[1]), headers, body))
    return found
