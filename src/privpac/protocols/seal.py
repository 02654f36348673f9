"""Sealed messages: what a client sends can be read by the analyzer alone, and every message has the same length.

    sealed = "PPX1" || kind || run_id[0:8] || ephemeral public key (32) || ciphertext || tag (16)
    key    = HKDF-SHA256(X25519(ephemeral, analyzer), salt = run_id,
                         info = "privpac seal v1" || 0 || ephemeral || analyzer)
    text   = ChaCha20-Poly1305(key, nonce = 12 zero bytes, associated data = run_id)

A key is used once (the ephemeral key is fresh), so the nonce may be fixed.  Whoever carries the messages sees who sent
how many, and nothing of what they say; a message moved to another run does not open.  The curve and the cipher come
from the ``cryptography`` package, loaded when the first message is sealed or opened.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from privpac.errors import ParameterError
from privpac.protocols.wire import HEAD, SEALED, frame

__all__ = ["OVERHEAD", "AnalyzerKey", "seal"]

_INFO = b"privpac seal v1\0"
_POINT, _TAG = 32, 16
OVERHEAD: Final = HEAD + _POINT + _TAG
"""Bytes that sealing adds to a message."""

_FILE = re.compile(rb"privpac-analyzer-(key|public) ([0-9a-f]{64})\n?")


def _curve() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import x25519
    except ImportError:
        raise ParameterError(
            "this run is sealed, which needs the package 'cryptography'; install it with: pip install cryptography"
        ) from None
    return x25519


def _cipher(shared: bytes, run: bytes, ephemeral: bytes, analyzer: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    derived = HKDF(SHA256(), 32, salt=run, info=_INFO + ephemeral + analyzer).derive(shared)
    return ChaCha20Poly1305(derived)


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
    curve = _curve()
    own = curve.X25519PrivateKey.from_private_bytes(secrets.token_bytes(32) if ephemeral is None else ephemeral)
    public = own.public_key().public_bytes_raw()
    try:
        shared = own.exchange(curve.X25519PublicKey.from_public_bytes(analyzer))
    except ValueError:
        raise ParameterError("the analyzer's public key is a point of small order; nothing was sealed") from None
    text = bytes(_cipher(shared, run, public, analyzer).encrypt(bytes(12), message, run))
    return frame(kind, run, SEALED) + bytes(public) + text


@dataclass(frozen=True, repr=False)
class AnalyzerKey:
    """The analyzer's private key; ``public`` is published in the manifest.

    >>> key = AnalyzerKey.new()
    >>> key.open(bytes(32), 2, seal(bytes(32), 2, key.public, b"hello"))
    b'hello'
    """

    private: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.private, bytes) or len(self.private) != 32:
            raise ParameterError("a private key has 32 bytes")

    @classmethod
    def new(cls) -> AnalyzerKey:
        """A fresh key, from the system's generator."""
        return cls(secrets.token_bytes(32))

    @cached_property
    def _own(self) -> Any:
        return _curve().X25519PrivateKey.from_private_bytes(self.private)

    @cached_property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return bytes(self._own.public_key().public_bytes_raw())

    def open(self, run: bytes, kind: int, message: Any) -> bytes | None:
        """What was sealed for this run, or ``None`` for anything else; never raises on what a stranger sent."""
        if not isinstance(message, (bytes, bytearray, memoryview)):
            return None
        data = bytes(message)
        if len(data) < OVERHEAD or data[:HEAD] != frame(kind, run, SEALED):
            return None
        from cryptography.exceptions import InvalidTag

        point = data[HEAD : HEAD + _POINT]
        try:
            shared = self._own.exchange(_curve().X25519PublicKey.from_public_bytes(point))
            return bytes(_cipher(shared, run, point, self.public).decrypt(bytes(12), data[HEAD + _POINT :], run))
        except (InvalidTag, ValueError):
            return None

    # Files

    def write(self) -> tuple[bytes, bytes]:
        """The private file and the public one."""
        return (
            b"privpac-analyzer-key " + self.private.hex().encode() + b"\n",
            b"privpac-analyzer-public " + self.public.hex().encode() + b"\n",
        )

    @classmethod
    def read(cls, data: bytes) -> AnalyzerKey:
        """From the private file."""
        return cls(_hex(data, b"key"))

    @staticmethod
    def read_public(data: bytes) -> bytes:
        """From the public file."""
        return _hex(data, b"public")


def _hex(data: bytes, kind: bytes) -> bytes:
    found = _FILE.fullmatch(data)
    if found is None or found[1] != kind:
        wanted = "private" if kind == b"key" else "public"
        raise ParameterError(
            f"this is not the {wanted} file of an analyzer's key; make one with: privpac protocol keys"
        )
    return bytes.fromhex(found[2].decode())
