"""API keys: who may ask, and how much of the budget each may use.

A key is 256 random bits, shown once when it is made; the file keeps its SHA-256, which is enough because nothing that
random can be guessed from its hash.  ``share`` is the most new answers the key may get, kept by the ledger's own
transaction; without one the key may use whatever the session has left.  The role ``operator`` may also make, list and
revoke keys.

The file is JSON, replaced as a whole under a lock; every worker notices a change before the next request, so a revoked
key stops working at once.  A key's id and name are public and may be logged, the key itself never is.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen

from privpac.errors import ModelFileError, ParameterError
from privpac.files import write_whole
from privpac.guarantee import one_of, positive_int
from privpac.ledger.records import now
from privpac.parameters import plain_text

_FORMAT, _VERSION, _MAX_FILE = "privpac.keys", 1, 1 << 24
_TOKEN = re.compile(r"pp_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_MAX_SHARE = 1 << 40
_MAX_KEYS = 10_000


class Role(StrEnum):
    """What a key may do."""

    ANALYST = "analyst"
    OPERATOR = "operator"


@frozen(slots=False)
class ApiKey:
    """One key, without its secret."""

    id: str
    name: str
    role: Role
    share: int | None
    created: str
    revoked: str | None
    hash: str

    def public(self) -> dict[str, Any]:
        """What may be listed: everything but the hash."""
        return {name: value for name, value in asdict(self).items() if name != "hash"}


class KeyStore:
    """The keys of one service, in one file shared by all its workers."""

    patience = 5.0
    """Seconds to wait for another writer."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._keys: dict[str, ApiKey] = {}

    # Reading

    def all(self) -> tuple[ApiKey, ...]:
        """Every key, oldest first, revoked ones included; no file means no keys."""
        with self._lock:
            return tuple(self._fresh().values())

    def check(self, token: str | None) -> ApiKey | None:
        """The key behind a token, unless it is unknown or revoked."""
        match = _TOKEN.fullmatch(token) if isinstance(token, str) else None
        if match is None or token is None:
            return None
        with self._lock:
            key = self._fresh().get(match[1])
        if key is None or not hmac.compare_digest(key.hash, _hash(token)) or key.revoked is not None:
            return None
        return key

    def _fresh(self) -> dict[str, ApiKey]:
        try:
            found = self._stat()
        except FileNotFoundError:
            self._seen, self._keys = None, {}
            return self._keys
        except OSError as error:
            raise ModelFileError(f"cannot read the keys {self._path.name!r}: {error.strerror}") from None
        if exposed(found):
            raise ModelFileError(
                f"others may read or change the keys {self._path.name!r}; make them yours alone with: chmod 600"
            )
        if found.st_nlink == 0:
            raise ModelFileError(
                f"the keys {self._path.name!r} are mounted here by themselves, and were replaced under their other "
                "name; mount their folder"
            )
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp != self._seen:
            self._keys = self._read()
            self._seen = stamp
        return self._keys

    def _stat(self) -> os.stat_result:
        for _ in range(3):  # a file that is replaced between being found and being looked at has no name left, once
            found = os.stat(self._path)
            if found.st_nlink:
                break
        return found

    def _read(self) -> dict[str, ApiKey]:
        try:
            with open(self._path, "rb") as file:
                body = json.loads(file.read(_MAX_FILE))
            if body["format"] != _FORMAT or body["version"] != _VERSION:
                raise ValueError
            keys = [_checked(ApiKey(**{**entry, "role": Role(entry["role"])})) for entry in body["keys"]]
            return {key.id: key for key in keys}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            raise ModelFileError(
                f"the keys {self._path.name!r} cannot be read; restore the file, or make new keys elsewhere"
            ) from None

    # Writing

    def new(self, name: str, role: Role | str = Role.ANALYST, share: int | None = None) -> tuple[ApiKey, str]:
        """Make a key; the token is returned once and kept nowhere."""
        title = plain_text(name, "name", 60)
        part = None if share is None else positive_int(share, "share", minimum=0, maximum=_MAX_SHARE)
        kind = one_of(Role, role, "role")
        with self._changing() as keys:
            if len(keys) >= _MAX_KEYS:
                raise ParameterError(f"there are {_MAX_KEYS} keys already; start another key file")
            identity = secrets.token_hex(6)
            token = f"pp_{identity}_{secrets.token_urlsafe(32)}"
            keys[identity] = ApiKey(identity, title, kind, part, now(), None, _hash(token))
        return keys[identity], token

    def revoke(self, identity: str) -> ApiKey:
        """Stop a key from working, for good; what it used stays used."""
        with self._changing() as keys:
            if identity not in keys:
                raise ParameterError(f"there is no key of this id: {str(identity)[:20]!r}; see the list of keys")
            if keys[identity].revoked is None:
                keys[identity] = evolve(keys[identity], revoked=now())
        return keys[identity]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, ApiKey]]:
        """A copy of the keys, written back at the end; one writer at a time, in all processes."""
        target = Path(
            os.path.realpath(self._path)
        )  # a symbolic link stays one: whoever reads its file sees the change as well
        try:
            with self._gate(target):
                self._check_names(target)
                with self._lock:  # never held while the gate is waited for: keys are checked meanwhile
                    keys = dict(self._fresh())
                yield keys
                body = {"format": _FORMAT, "version": _VERSION, "keys": [asdict(key) for key in keys.values()]}
                write_whole(target, json.dumps(body, indent=1).encode(), 0o600)
        except OSError as error:
            raise ModelFileError(
                f"cannot write the keys {self._path.name!r}: {error.strerror}; choose a writable place"
            ) from None

    def _check_names(self, target: Path) -> None:
        with suppress(FileNotFoundError):
            if (names := os.stat(target).st_nlink) > 1:
                raise ModelFileError(
                    f"the keys {self._path.name!r} have {names} names (hard links); keep one: a change would reach "
                    "only one of them"
                )

    @contextmanager
    def _gate(self, target: Path) -> Iterator[None]:
        """One writer at a time.  Only the owner can open the lock, and whoever holds it too long stops no reader."""
        place = target.with_name(target.name + ".lock")
        handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(handle, 0o600)
            end = time.monotonic() + self.patience
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise ModelFileError(
                            f"another process is changing the keys {self._path.name!r}; try again"
                        ) from None
                    time.sleep(0.02)
            yield
        finally:
            os.close(handle)


def _checked(key: ApiKey) -> ApiKey:
    """A key whose parts are what they should be; ``ValueError`` and the like otherwise."""
    texts = (key.id, key.name, key.created, key.hash, "" if key.revoked is None else key.revoked)
    if not all(isinstance(text, str) for text in texts) or not re.fullmatch("[0-9a-f]{64}", key.hash):
        raise ValueError
    if key.share is not None:
        positive_int(key.share, "share", minimum=0, maximum=_MAX_SHARE)
    return key


def exposed(found: os.stat_result) -> bool:
    """Whether a secret's file may be read by all users, or changed by others than its owner; a group may be let in to
    read."""
    return bool(found.st_mode & 0o027)


def _hash(token: str) -> str:
    return hashlib.sha256(b"privpac.key" + token.encode()).hexdigest()
