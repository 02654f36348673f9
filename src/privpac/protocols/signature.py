"""Signed manifests: a device takes the analyzer's key, and everything else, from the coordinator it trusts and from
nobody on the way.

    published   = {"coordinator": public key, "manifest": {...}, "signature": Ed25519 of the text}      (JSON)
    text        = "privpac manifest v1" || 0 || canonical bytes of the manifest
    fingerprint = first 16 bytes of BLAKE2b-256("privpac coordinator v1" || 0 || public key), in groups of four digits

The signature stands beside the manifest, so it changes neither the canonical bytes nor the ``run_id``.  A person's
store holds the public keys that the person trusts (:mod:`privpac.protocols.device`).  The curve comes from the
``cryptography`` package, loaded when the first signature is made or checked.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from privpac.errors import ManifestError, ParameterError

__all__ = ["CoordinatorKey", "Signature", "fingerprint", "sound_key"]

_TEXT = b"privpac manifest v1\0"
_NAME = b"privpac coordinator v1\0"
_FILE = re.compile(rb"privpac-coordinator-(key|public) ([0-9a-f]{64})\n?")

# Points of small order: whoever pinned one would take any signature.  Their y, in the field of 2**255 - 19 elements;
# the last two belong to the points of order eight.
_FIELD = (1 << 255) - 19
_EIGHTH = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
_SMALL = {0, 1, _FIELD - 1, _EIGHTH, _FIELD - _EIGHTH}


def _curve() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ParameterError(
            "signed manifests need the package 'cryptography'; install it with: pip install cryptography"
        ) from None
    return ed25519


def sound_key(key: Any) -> bytes:
    """A coordinator's public key; refuses what is no key, written in a second way, or a point of small order."""
    if not isinstance(key, bytes) or len(key) != 32:
        raise ParameterError("a coordinator's public key has 32 bytes")
    y = int.from_bytes(key, "little") & ((1 << 255) - 1)
    if y >= _FIELD or y in _SMALL:
        raise ParameterError("this coordinator's public key is no key: anyone could sign for it")
    return key


def fingerprint(key: bytes) -> str:
    """What people compare: 32 hexadecimal digits in groups of four.

    >>> fingerprint(bytes(range(32)))
    'a08c c09e a9a8 e281 a13e 463b 1bde 0508'
    """
    digits = hashlib.blake2b(_NAME + key, digest_size=32).hexdigest()[:32]
    return " ".join(digits[at : at + 4] for at in range(0, 32, 4))


@dataclass(frozen=True)
class Signature:
    """Who signed a manifest, and the 64 bytes that show it."""

    coordinator: bytes
    value: bytes

    def check(self, manifest: bytes) -> None:
        """Raises unless these canonical bytes are what the coordinator signed."""
        try:
            key = sound_key(self.coordinator)
        except ParameterError as error:
            raise ManifestError(f"the manifest is refused: {error}") from None
        curve = _curve()
        from cryptography.exceptions import InvalidSignature

        try:
            # The library refuses a second way to write the same signature (S of the group's order or more).
            curve.Ed25519PublicKey.from_public_bytes(key).verify(self.value, _TEXT + manifest)
        except (InvalidSignature, ValueError):
            raise ManifestError(
                "the manifest is not what its coordinator signed: it, its signature or the key was changed on the way; "
                "fetch it again from the coordinator"
            ) from None


@dataclass(frozen=True, repr=False)
class CoordinatorKey:
    """The coordinator's private key; people pin ``public``.

    >>> key = CoordinatorKey.new()
    >>> key.sign(b"{}").check(b"{}")
    """

    private: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.private, bytes) or len(self.private) != 32:
            raise ParameterError("a private key has 32 bytes")

    @classmethod
    def new(cls) -> CoordinatorKey:
        """A fresh key, from the system's generator."""
        return cls(secrets.token_bytes(32))

    @cached_property
    def _own(self) -> Any:
        return _curve().Ed25519PrivateKey.from_private_bytes(self.private)

    @cached_property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return bytes(self._own.public_key().public_bytes_raw())

    def sign(self, manifest: bytes) -> Signature:
        """The signature of a manifest's canonical bytes; :meth:`Manifest.signed` is what is published."""
        return Signature(self.public, bytes(self._own.sign(_TEXT + manifest)))

    # Files

    def write(self) -> tuple[bytes, bytes]:
        """The private file and the public one."""
        return (
            b"privpac-coordinator-key " + self.private.hex().encode() + b"\n",
            b"privpac-coordinator-public " + self.public.hex().encode() + b"\n",
        )

    @classmethod
    def read(cls, data: bytes) -> CoordinatorKey:
        """From the private file."""
        return cls(_hex(data, b"key"))

    @staticmethod
    def read_public(data: bytes) -> bytes:
        """From the public file."""
        return sound_key(_hex(data, b"public"))


def _hex(data: bytes, kind: bytes) -> bytes:
    found = _FILE.fullmatch(data)
    if found is None or found[1] != kind:
        wanted = "private" if kind == b"key" else "public"
        raise ParameterError(
            f"this is not the {wanted} file of a coordinator's key; make one with: privpac protocol keys coordinator "
            "--coordinator"
        )
    return bytes.fromhex(found[2].decode())
