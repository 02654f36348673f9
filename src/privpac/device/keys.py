"""Keys: whose manifests a device takes, and who can read what it sends.

**Signed manifests.**  A device takes the analyzer's key, and everything else, from the coordinator it trusts and from
nobody on the way.

    published   = {"coordinator": public key, "manifest": {...}, "signature": Ed25519 of the text}      (JSON)
    text        = "privpac manifest v1" || 0 || canonical bytes of the manifest
    fingerprint = first 16 bytes of BLAKE2b-256("privpac coordinator v1" || 0 || public key), in groups of four digits

The signature stands beside the manifest, so it changes neither the canonical bytes nor the ``run_id``.  A person's
store holds the public keys that the person trusts (:mod:`privpac.device.store`).

**Sealed messages.**  What a client sends can be read by the analyzer alone, and every message has the same length.

    sealed = "PPX1" || kind || run_id[0:8] || ephemeral public key (32) || ciphertext || tag (16)
    key    = HKDF-SHA256(X25519(ephemeral, analyzer), salt = run_id,
                         info = "privpac seal v1" || 0 || ephemeral || analyzer)
    text   = ChaCha20-Poly1305(key, nonce = 12 zero bytes, associated data = run_id)

A key is used once (the ephemeral key is fresh), so the nonce may be fixed.  Whoever carries the messages sees who sent
how many, and nothing of what they say; a message moved to another run does not open.

Curves and cipher come from the ``cryptography`` package, loaded when the first message is signed, checked, sealed or
opened.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from privpac.device.wire import HEAD, SEALED, frame
from privpac.errors import ManifestError, ParameterError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

_TEXT = b"privpac manifest v1\0"
_NAME = b"privpac coordinator v1\0"
_INFO = b"privpac seal v1\0"
_POINT, _TAG = 32, 16
OVERHEAD: Final = HEAD + _POINT + _TAG
"""Bytes that sealing adds to a message."""

# Points of small order: whoever pinned one would take any signature.  Their y, in the field of 2**255 - 19 elements;
# the last two belong to the points of order eight.
_FIELD = (1 << 255) - 19
_EIGHTH = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
_SMALL = {0, 1, _FIELD - 1, _EIGHTH, _FIELD - _EIGHTH}


def _curve(name: str) -> Any:
    """The module of a curve: "ed25519" signs, "x25519" seals."""
    try:
        return import_module(f"cryptography.hazmat.primitives.asymmetric.{name}")
    except ImportError:
        what = "signed manifests need" if name == "ed25519" else "this run is sealed, which needs"
        raise ParameterError(f"{what} the package 'cryptography'; install it with: pip install cryptography") from None


@dataclass(frozen=True, repr=False)
class PrivateKey:
    """32 secret bytes of a role, their public key, and the two files they are kept in."""

    private: bytes
    role: ClassVar[str]
    advice: ClassVar[str]

    def __post_init__(self) -> None:
        if not isinstance(self.private, bytes) or len(self.private) != 32:
            raise ParameterError("a private key has 32 bytes")

    @classmethod
    def new(cls) -> Self:
        """A fresh key, from the system's generator."""
        return cls(secrets.token_bytes(32))

    @cached_property
    def _own(self) -> Ed25519PrivateKey | X25519PrivateKey:
        raise NotImplementedError

    @cached_property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return bytes(self._own.public_key().public_bytes_raw())

    def write(self) -> tuple[bytes, bytes]:
        """The private file and the public one."""
        role = self.role
        return (
            f"privpac-{role}-key {self.private.hex()}\n".encode(),
            f"privpac-{role}-public {self.public.hex()}\n".encode(),
        )

    @classmethod
    def read(cls, data: bytes) -> Self:
        """From the private file."""
        return cls(cls._digits(data, "key", "private"))

    @classmethod
    def read_public(cls, data: bytes) -> bytes:
        """From the public file."""
        return cls._digits(data, "public", "public")

    @classmethod
    def _digits(cls, data: bytes, mark: str, kind: str) -> bytes:
        found = re.fullmatch(f"privpac-{cls.role}-{mark} ([0-9a-f]{{64}})\n?".encode(), data)
        if found is None:
            raise ParameterError(f"this is not the {kind} file of {cls.advice}")
        return bytes.fromhex(found[1].decode())


# Signatures


def sound_key(key: object) -> bytes:
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
        curve = _curve("ed25519")
        from cryptography.exceptions import InvalidSignature

        try:
            # The library refuses a second way to write the same signature (S of the group's order or more).
            curve.Ed25519PublicKey.from_public_bytes(key).verify(self.value, _TEXT + manifest)
        except (InvalidSignature, ValueError):
            raise ManifestError(
                "the manifest is not what its coordinator signed: it, its signature or the key was changed on the way; "
                "fetch it again from the coordinator"
            ) from None


class CoordinatorKey(PrivateKey):
    """The coordinator's private key; people pin ``public``.

    >>> key = CoordinatorKey.new()
    >>> key.sign(b"{}").check(b"{}")
    """

    role = "coordinator"
    advice = "a coordinator's key; make one with: privpac protocol keys coordinator --coordinator"

    @cached_property
    def _own(self) -> Ed25519PrivateKey:
        own: Ed25519PrivateKey = _curve("ed25519").Ed25519PrivateKey.from_private_bytes(self.private)
        return own

    def sign(self, manifest: bytes) -> Signature:
        """The signature of a manifest's canonical bytes; :meth:`Manifest.signed` is what is published."""
        return Signature(self.public, bytes(self._own.sign(_TEXT + manifest)))

    @classmethod
    def read_public(cls, data: bytes) -> bytes:
        """From the public file; refuses what is no key."""
        return sound_key(super().read_public(data))


# Seals


def _cipher(shared: bytes, run: bytes, ephemeral: bytes, analyzer: bytes) -> ChaCha20Poly1305:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return ChaCha20Poly1305(HKDF(SHA256(), 32, salt=run, info=_INFO + ephemeral + analyzer).derive(shared))


def seal(run: bytes, kind: int, analyzer: bytes, message: bytes, *, ephemeral: bytes | None = None) -> bytes:
    """A message that only the holder of the analyzer's private key can read.

    Parameters
    ----------
    run
        The run's id, 32 bytes.
    kind
        The kind of message.
    analyzer
        The analyzer's public key, 32 bytes.
    message
        What is sealed; the caller makes all messages of a run equally long.
    ephemeral
        The one-time private key.  For test vectors only: a key used twice gives the messages away.
    """
    curve = _curve("x25519")
    own = curve.X25519PrivateKey.from_private_bytes(secrets.token_bytes(32) if ephemeral is None else ephemeral)
    public = own.public_key().public_bytes_raw()
    try:
        shared = own.exchange(curve.X25519PublicKey.from_public_bytes(analyzer))
    except ValueError:
        raise ParameterError("the analyzer's public key is a point of small order; nothing was sealed") from None
    text = bytes(_cipher(shared, run, public, analyzer).encrypt(bytes(12), message, run))
    return frame(kind, run, SEALED) + bytes(public) + text


class AnalyzerKey(PrivateKey):
    """The analyzer's private key; ``public`` is published in the manifest.

    >>> key = AnalyzerKey.new()
    >>> key.open(bytes(32), 2, seal(bytes(32), 2, key.public, b"hello"))
    b'hello'
    """

    role = "analyzer"
    advice = "an analyzer's key; make one with: privpac protocol keys"

    @cached_property
    def _own(self) -> X25519PrivateKey:
        own: X25519PrivateKey = _curve("x25519").X25519PrivateKey.from_private_bytes(self.private)
        return own

    def open(self, run: bytes, kind: int, message: object) -> bytes | None:
        """What was sealed for this run, or ``None`` for anything else; never raises on what a stranger sent."""
        if not isinstance(message, (bytes, bytearray, memoryview)):
            return None
        data = bytes(message)
        if len(data) < OVERHEAD or data[:HEAD] != frame(kind, run, SEALED):
            return None
        from cryptography.exceptions import InvalidTag

        point = data[HEAD : HEAD + _POINT]
        try:
            shared = self._own.exchange(_curve("x25519").X25519PublicKey.from_public_bytes(point))
            return bytes(_cipher(shared, run, point, self.public).decrypt(bytes(12), data[HEAD + _POINT :], run))
        except (InvalidTag, ValueError):
            return None
