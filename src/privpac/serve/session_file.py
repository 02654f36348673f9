"""Session files: voters at rest, encrypted, never pickled.

Layout: 8 bytes ``PPMSESS1``, 4 bytes length of the header (big-endian), the header (JSON: format, version, session id,
key derivation, salt, nonce), then the state as JSON under AES-256-GCM with all that comes before as associated data;
nothing of the file can be changed without being noticed.  The operator's secret is a **key** of 64 hexadecimal digits
or a **passphrase** of at least 12 characters; a passphrase goes through scrypt (n = 2**17, r = 8, p = 1), a key through
HKDF, both with a salt of the file's own.

The length of the file depends on public numbers only: rules are written as numbers of a fixed width.  The state holds
the voters, public constants and the secret under which the ledger's rows are keyed, **no counter**: that lives in the
ledger, so an old copy of the file brings back no spent answer, and a session that no ledger counts cannot be saved.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from fractions import Fraction
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from privpac.data import Domain
from privpac.errors import LedgerMismatch, ModelFileError, ParameterError
from privpac.files import write_durably, write_whole
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger
from privpac.methods.prediction.session import PredictionSession
from privpac.rules.base import RULES, ConceptClass
from privpac.rules.cuts import stored_in_order
from privpac.rules.named import CUT_RULES, name_of, rule_class
from privpac.serve.keys import exposed

SECRET_VARIABLE = "PRIVPAC_SESSION_KEY"
_MAGIC, _FORMAT, _VERSION = b"PPMSESS1", "privpac.session", 1
_MAX_FILE, _MAX_HEADER = 1 << 26, 1 << 12
_LOG_N, _MAX_SECRET = 17, 4096
_REFUSED = "wrong key or a damaged file; nothing was read from it"


# The operator's secret


def new_secret(path: str | os.PathLike[str]) -> None:
    """Write a fresh random key, whole or not at all, to a file that only its owner can read; an existing file is
    refused."""
    try:
        write_whole(Path(path), (secrets.token_hex(32) + "\n").encode(), 0o600, over=False)
    except OSError as error:
        raise ParameterError(
            f"cannot write the key file {str(path)!r}: {error.strerror}; choose a writable place with room"
        ) from None


def operator_secret(key_file: str | os.PathLike[str] | None = None) -> str:
    """The secret from a key file or, without one, from the environment variable ``PRIVPAC_SESSION_KEY``."""
    if key_file is not None:
        try:
            with open(key_file) as file:
                if exposed(os.fstat(file.fileno())):
                    raise ParameterError(
                        f"others may read the key file {str(key_file)!r}; make it yours alone with: chmod 600"
                    )
                text = file.read(_MAX_SECRET).strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise ParameterError(f"cannot read the key file {str(key_file)!r}: {reason}") from None
        return _checked_secret(text, f"the key file {str(key_file)!r}")
    found = os.environ.get(SECRET_VARIABLE)
    if not found:
        raise ParameterError(
            f"session files are encrypted: give --key-file, or set {SECRET_VARIABLE} to a key or a passphrase"
        )
    return _checked_secret(found.strip(), SECRET_VARIABLE)


def _checked_secret(text: str, where: str) -> str:
    if not 12 <= len(text) <= 1024:
        raise ParameterError(
            f"{where} must hold a key of 64 hexadecimal digits or a passphrase of 12 to 1024 characters"
        )
    return text


def _file_key(secret: str, header: dict[str, Any]) -> bytes:
    salt = bytes.fromhex(header["salt"])
    if header["kdf"] == "scrypt":
        return Scrypt(salt=salt, length=32, n=1 << header["log_n"], r=8, p=1).derive(secret.encode())
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=_MAGIC).derive(bytes.fromhex(secret))


# Writing


def rule_name(concept: ConceptClass) -> str:
    """The name under which ``rule_class`` rebuilds a bound class; other classes cannot be saved
    (``ParameterError``)."""
    found = None if None in concept.declared() else name_of(concept)
    if found is not None:
        return found
    raise ParameterError(
        f"a session of this {type(concept).__name__} cannot be saved; use one of the rules {', '.join(RULES)}"
    )


def save_session(session: PredictionSession, path: str | os.PathLike[str], secret: str) -> None:
    """Write the encrypted file whole or not at all, readable by its owner only."""
    if not session.durable or session.insecure or session.guarantee is None:
        raise ParameterError(
            "only a session that a ledger counts can be saved: learn it with ledger=, or its file would reset the count"
        )
    width = -(-(session.concept.size - 1).bit_length() // 4) or 1
    state = {
        "rule": rule_name(session.concept),
        "features": {name: domain.to_dict() for name, domain in session.features.items()},
        "label": session.label,
        "guarantee": session.guarantee.to_dict(),
        "parameters": dict(session.parameters),
        "queries": session.queries,
        "gamma": str(session.gamma),
        "voters": [[f"{voter:0{width}x}" for voter in epoch] for epoch in session._voters],
        "secret": session._secret.hex(),
    }
    derived = {"kdf": "hkdf"} if _is_key(secret) else {"kdf": "scrypt", "log_n": _LOG_N}
    header: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, "session_id": session.session_id, **derived}
    header |= {"salt": secrets.token_hex(16), "nonce": secrets.token_hex(12)}
    text = json.dumps(header).encode()
    start = _MAGIC + len(text).to_bytes(4, "big") + text
    sealed = AESGCM(_file_key(secret, header)).encrypt(
        bytes.fromhex(header["nonce"]), json.dumps(state).encode(), start
    )
    write_durably(Path(path), start + sealed, 0o600)


def _is_key(secret: str) -> bool:
    return re.fullmatch(r"[0-9a-fA-F]{64}", secret) is not None


# Reading


def load_session(path: str | os.PathLike[str], secret: str, ledger: BudgetLedger) -> PredictionSession:
    """Read a session and join it to the ledger that counts its answers; ``ModelFileError`` for anything else."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise ModelFileError(f"cannot read {str(path)!r}: {error.strerror}") from None
    session = _open(data, secret, ledger)
    if ledger.queries.limit(session.session_id) != session.queries:
        raise LedgerMismatch("the ledger counts this session with another limit; use the ledger that paid for it")
    return session


def _open(data: bytes, secret: str, ledger: BudgetLedger) -> PredictionSession:
    try:
        header, start = _header(data)
        key = _file_key(secret, header)
        state = json.loads(AESGCM(key).decrypt(bytes.fromhex(header["nonce"]), data[start:], data[:start]))
        return _session(header, state, ledger)
    except ModelFileError:
        raise
    except InvalidTag:
        raise ModelFileError(f"the session cannot be opened: {_REFUSED}") from None
    except Exception:  # one situation, one class, and no word about what is inside
        raise ModelFileError("not a readable session file") from None


def _header(data: bytes) -> tuple[dict[str, Any], int]:
    if len(data) > _MAX_FILE or data[:8] != _MAGIC:
        raise ModelFileError("not a privpac session file")
    start = 12 + int.from_bytes(data[8:12], "big")
    if not 12 < start <= min(len(data), _MAX_HEADER):
        raise ModelFileError(f"the session cannot be opened: {_REFUSED}")
    header = json.loads(data[12:start])
    if header["format"] != _FORMAT or header["version"] != _VERSION:
        raise ModelFileError(f"this privpac reads session files of version {_VERSION}; update privpac")
    # Work is bounded before the tag is checked: the header is not trusted yet.
    if header["kdf"] not in ("hkdf", "scrypt") or (header["kdf"] == "scrypt" and header["log_n"] != _LOG_N):
        raise ModelFileError("the session file asks for an unknown key derivation")
    return header, start


def _session(header: dict[str, Any], state: dict[str, Any], ledger: BudgetLedger) -> PredictionSession:
    # What a voter's number means must not change with what categories without the field mean now.
    read = stored_in_order if state["rule"] in CUT_RULES else Domain.from_dict
    features = {name: read(values) for name, values in state["features"].items()}
    concept = rule_class(state["rule"], features)
    voters = tuple(tuple(int(voter, 16) for voter in epoch) for epoch in state["voters"])
    return PredictionSession(
        concept,
        state["label"],
        Guarantee.from_dict(state["guarantee"]),
        state["parameters"],
        state["queries"],
        Fraction(state["gamma"]),
        header["session_id"],
        voters=voters,
        secret=bytes.fromhex(state["secret"]),
        log=ledger.queries,
    )
