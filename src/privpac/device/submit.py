"""Sending a client's bundle to a collector, and fetching what it serves.

Only the collector itself counts as an answer: status 204 with the run's own id in ``Privpac-Run``.  A redirect is an
error and is not followed (its target might be anyone), and so is the page of a captive portal.  Before anything is
sent the collector is asked for what this name sent before: if that is something else, a second message would be a
second release, and nothing is sent.  Standard library only.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import ssl
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from privpac.device.manifest import VERSION
from privpac.errors import ParameterError

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,99}")
"""A client's name, and so that of a file at the collector: no separators, not hidden."""

_PATIENCE = 20
_MOST = 1 << 32
_TOKEN = 4096


class _Stay(urllib.request.HTTPRedirectHandler):
    """Redirects are errors."""

    def redirect_request(self, *args: object, **more: object) -> None:
        return None


def receipt(body: bytes) -> str:
    """What a collector answers for a submission it keeps: the BLAKE2b-256 of its bytes.

    >>> receipt(b"")[:8]
    '0e5751c0'
    """
    return hashlib.blake2b(body, digest_size=32).hexdigest()


def read_token(path: str | Path | None, variable: str = "PRIVPAC_TOKEN") -> str | None:
    """A token from a file ("-" is standard input), else from the environment; never from the arguments of a command,
    which every user of a machine can read."""
    if path is None:
        return os.environ.get(variable) or None
    try:
        text = sys.stdin.read(_TOKEN + 1) if str(path) == "-" else Path(path).read_text(encoding="ascii")
    except OSError as error:
        raise ParameterError(f"cannot read the token's file {str(path)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        text = ""
    token = text.strip()
    if not token or len(token) > _TOKEN or len(token.split()) != 1 or not token.isprintable():
        raise ParameterError(f"{str(path)!r} must hold the token alone, on one line")
    return token


def submit(
    url: str, name: str, body: bytes, token: str | None = None, *, run: bytes, authority: str | None = None
) -> None:
    """Send a client's bundle to a collector; raises if it was not taken.

    Parameters
    ----------
    url
        The collector's address.
    name, token
        The client's name there, and its token.
    body
        The bundle of messages.
    run
        The run's id: a collector of another run is refused before anything is sent.
    authority
        A file of certificates to trust in place of the system's.
    """
    if not NAME.fullmatch(name):
        raise ParameterError("a client's name has 1 to 100 letters, digits and . _ - @, and does not start with a dot")
    status, data = _ask(url, f"/receipt/{name}", run, token, authority=authority)
    if status == 200:
        if data.decode("ascii", "replace") == receipt(body):
            return  # it is there already
        raise ParameterError(
            "the collector did not take the submission (status 409: this name has sent something else in this run, "
            "perhaps from another store); nothing was sent"
        )
    status, _ = _ask(url, f"/submit/{name}", run, token, body, authority)
    if status != 204:
        raise ParameterError(
            f"the answer (status {status}) is not that of a collector of this run; send again with the same store"
        )


def fetch(url: str, path: str, run: bytes, token: str | None = None, authority: str | None = None) -> bytes:
    """The body of a GET."""
    status, data = _ask(url, path, run, token, authority=authority)
    if status != 200:
        raise ParameterError(f"the collector gave nothing (status {status})")
    return data


def _ask(
    url: str, path: str, run: bytes, token: str | None, body: bytes | None = None, authority: str | None = None
) -> tuple[int, bytes]:
    if not url.startswith(("http://", "https://")):
        raise ParameterError("the collector's address starts with http:// or https://")
    request = urllib.request.Request(f"{url.rstrip('/')}{path}", data=body, method="GET" if body is None else "POST")
    request.add_header("Content-Type", "application/octet-stream")
    request.add_header("Privpac-Version", str(VERSION))
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    handlers: list[urllib.request.BaseHandler] = [_Stay()]
    # A collector on this machine is never reached through a proxy.
    if urllib.parse.urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1"):
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        if url.startswith("https://"):
            handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=authority)))
        with urllib.request.build_opener(*handlers).open(request, timeout=_PATIENCE) as answer:
            served, status, data = answer.headers.get("Privpac-Run", ""), answer.status, answer.read(_MOST)
    except urllib.error.HTTPError as error:
        error.close()
        redirect = "a redirect, which is not followed; nothing was sent on" if error.code < 400 else "unknown"
        why = _WHY.get(error.code, redirect)
        raise ParameterError(f"the collector did not take the submission (status {error.code}: {why})") from None
    except ssl.SSLError:
        raise ParameterError("the collector's certificate could not be verified; nothing was sent") from None
    except (OSError, ValueError, http.client.HTTPException):
        raise ParameterError("the collector could not be reached; send again with the same --store") from None
    if served != run[:8].hex():
        raise ParameterError(
            "the answer is not that of a collector of this run (another run's collector, or a network that asks for a "
            "login); send again with the same store"
        )
    return status, data


_WHY = {
    401: "the token is not that of this name",
    404: "the address is not that of a collector",
    409: "this name has sent something else before",
    413: "larger than this run allows",
    421: "the collector serves another run; fetch its manifest",
    422: "the messages are cut or damaged",
    426: "the collector speaks another version; update the client",
    429: "too many requests; wait a minute and send again with the same store",
    503: "no more clients are taken",
}
