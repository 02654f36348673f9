"""What the service says when something goes wrong: one of a few fixed bodies, with the headers of every response.

Nothing a client sent is ever echoed, and no traceback, local variable or library message leaves the process.
"""

from __future__ import annotations

import json

from privpac.connections import ConnectionLimiter, Headers, Send

MAX_BODY = 1 << 20
"""Bytes of a request's body."""

PROBLEMS = {
    400: ("bad request", "The request could not be read."),
    401: ("unauthorized", "Send a valid key: Authorization: Bearer pp_..."),
    403: ("forbidden", "This needs the operator's key."),
    404: ("not found", "There is nothing here; see /openapi.json."),
    405: ("method not allowed", "This address takes another method; see /openapi.json."),
    408: ("too slow", "The request did not come in time."),
    413: ("too large", f"A request may have {MAX_BODY} bytes."),
    422: (
        "invalid request",
        "The body does not fit: every record needs a readable value for every feature; see /guarantee for the "
        "features.",
    ),
    429: (
        "budget exhausted",
        "Fewer new answers are left than asked for; nothing was answered or counted. Repeated queries stay free.",
    ),
    431: ("headers too large", "The headers of the request are too long."),
    500: ("internal error", "Something failed; nothing more is said about it here."),
    503: (
        "unavailable",
        "The service cannot answer right now, try again later; no answer leaves without being counted.",
    ),
}

_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self'",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}

HEADERS = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
}

SECURITY: Headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


def problem(status: int) -> dict[str, str]:
    """The fixed body of a status."""
    error, detail = PROBLEMS.get(status, PROBLEMS[400 if status < 500 else 500])
    return {"error": error, "detail": detail}


class Refusal(Exception):
    """A request ends with one of the fixed bodies; ``more`` are numbers that belong to it."""

    def __init__(self, status: int, **more: int) -> None:
        super().__init__(status)
        self.status, self.more = status, more


async def refuse(status: int, send: Send, **more: int) -> None:
    body = json.dumps(problem(status) | more).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status in (413, 500):
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class ServiceConnection(ConnectionLimiter):
    """A connection of the service, which refuses as the service does."""

    @staticmethod
    def refusal(status: int) -> tuple[Headers, bytes]:
        return [(b"content-type", b"application/json"), *SECURITY], json.dumps(problem(status)).encode()
