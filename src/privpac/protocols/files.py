"""Submissions as files: a folder with one file per client, all of them in one piece, and the shuffler's output.

The file's name is the client's name; what authenticates it is the channel it came through.  A file is read up to a
public limit and never beyond.  A file that is cut, of another run or of another version is an error with a count, never
a silent loss: a collector refuses such bytes when they arrive, so here they mean damage or the wrong manifest.  What a
run has released is kept beside the submissions and given again, byte for byte, because a second draw would be a second
release.

    submissions = "PPF1" || run_id || u64 clients  || (u16 length || name || u32 length || bundle)* || check
    shuffled    = "PPS2" || run_id || u64 clients || u64 messages || bundle || check      (little-endian)
    check       = BLAKE2b-256 of all before it
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from privpac.device.manifest import MAX_BYTES, Manifest
from privpac.device.submit import NAME
from privpac.device.wire import HEAD, PLAIN, SEALED, bundle, frame, pack_shuffled, unbundle
from privpac.errors import ParameterError
from privpac.files import keep_once

Submitted = list[tuple[str, list[bytes]]]
_FOLDER, _SHUFFLED = b"PPF1", b"PPS2"
_CHECK = 32

FAULTS = {
    "strange": "not messages",
    "version": "of another version",
    "foreign": "of another run",
    "sealing": "sealed where the run is not, or the other way round",
    "cut": "cut or damaged",
    "many": "more messages than a client may send",
}
"""What can be wrong with a submission before anyone reads it."""


def read_manifest(path: Path) -> Manifest:
    """A manifest's file."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ParameterError(f"cannot read the manifest {str(path)!r}: {error.strerror}") from None
    return Manifest.read(data)


def limit_of(manifest: Manifest) -> int:
    """Bytes of the largest submission an honest client can make."""
    return manifest.most_messages * (4 + manifest.message_bytes)


def fault_of(manifest: Manifest, data: bytes) -> str | None:
    """What is wrong with the outside of a submission (a key of ``FAULTS``); ``None`` if it is one of this run.

    What is inside is not looked at: it may be sealed, and a liar may have sealed anything.
    """
    if data[4:7] not in (PLAIN[:3], SEALED[:3]):
        return "strange"
    listed = unbundle(data)
    if bundle(listed) != data:
        return "cut"
    if len(listed) > manifest.most_messages:
        return "many"
    right = frame(manifest.kind, manifest.run, PLAIN if manifest.analyzer is None else SEALED)
    for message in listed:
        head = message[:HEAD]
        if head[:4] not in (PLAIN, SEALED):
            return "version"
        if head[4:] != right[4:]:
            return "foreign"
        if head != right:
            return "sealing"
        fixed = manifest.protocol != "central" or manifest.analyzer is not None
        if len(message) > manifest.message_bytes or (fixed and len(message) != manifest.message_bytes):
            return "cut"
    return None


def read_folder(manifest: Manifest, folder: Path, *, skip: bool = False) -> Submitted:
    """Every client's name and messages, by name.

    Parameters
    ----------
    manifest
        The run.
    folder
        One file per client; hidden files are left alone.
    skip
        Leave out what is not a whole submission of this run, as one malformed message each, instead of raising.
    """
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        raise ParameterError(f"cannot read the folder {str(folder)!r}: {error.strerror}") from None
    found = [(name, _read(folder / name, limit_of(manifest))) for name in names]
    return _checked(manifest, found, f"the folder {str(folder)!r}", skip)


def _checked(manifest: Manifest, found: Sequence[tuple[str, bytes | None]], where: str, skip: bool) -> Submitted:
    faults: Counter[str] = Counter()
    out: Submitted = []
    for name, data in found:
        fault = "strange" if data is None or not NAME.fullmatch(name) else fault_of(manifest, data)
        faults[fault or ""] += 1
        out.append((name, [b""] if fault else unbundle(data or b"")))
    bad = sum(count for fault, count in faults.items() if fault)
    if bad and not skip:
        listed = ", ".join(f"{faults[fault]} {words}" for fault, words in FAULTS.items() if faults[fault])
        raise ParameterError(
            f"{bad} of {len(found)} submissions in {where} are not whole ones of this run ({listed}); "
            f"is run {manifest.run[:8].hex()} the right manifest? Nothing was analysed"
        )
    return out


def _read(path: Path, limit: int) -> bytes | None:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return None
            data = file.read(limit + 1)
    except OSError:
        return None
    return data if len(data) <= limit else None


def once(folder: Path, manifest: Manifest, make: Callable[[], bytes]) -> bytes:
    """What this run released from this folder: made the first time, the same bytes ever after."""
    place = folder / f".{manifest.run.hex()}.released"
    try:
        return place.read_bytes() if place.exists() else keep_once(place, make())
    except OSError as error:
        raise ParameterError(
            f"cannot keep the release in {str(folder)!r}: {error.strerror}; it must be writable"
        ) from None


# All submissions in one piece


def pack_folder(manifest: Manifest, folder: Path) -> bytes:
    """What the collector gives to the shuffler: every whole submission with its name."""
    parts = []
    for name in sorted(name for name in os.listdir(folder) if NAME.fullmatch(name)):
        data = _read(folder / name, limit_of(manifest))
        if data is not None:
            parts.append(len(name).to_bytes(2, "little") + name.encode() + len(data).to_bytes(4, "little") + data)
    return _with_check(_FOLDER + manifest.run + len(parts).to_bytes(8, "little") + b"".join(parts))


def unpack_folder(manifest: Manifest, data: bytes, *, skip: bool = False) -> Submitted:
    """The same as :func:`read_folder`."""
    body = _opened(manifest, data, _FOLDER, "the collector's submissions")
    found: list[tuple[str, bytes | None]] = []
    at = 8
    for _ in range(int.from_bytes(body[:8], "little")):
        name = body[at + 2 : at + 2 + int.from_bytes(body[at : at + 2], "little")]
        at += 2 + len(name)
        size = int.from_bytes(body[at : at + 4], "little")
        found.append((name.decode("ascii"), body[at + 4 : at + 4 + size]))
        at += 4 + size
    return _checked(manifest, found, "what the collector gave", skip)


def _with_check(data: bytes) -> bytes:
    return data + hashlib.blake2b(data, digest_size=_CHECK).digest()


def _opened(manifest: Manifest, data: bytes, magic: bytes, what: str) -> bytes:
    """What is between the run and the check; raises if the bytes are cut, or of another run."""
    if data[:3] != magic[:3]:
        raise ParameterError(f"{what}: these bytes are something else; nothing was analysed")
    if data[:4] != magic:
        raise ParameterError(f"{what} are of another version; use the programs of one release")
    if data[4:36] != manifest.run:
        raise ParameterError(
            f"{what} are of run {data[4:12].hex()}, this manifest is run {manifest.run[:8].hex()}; nothing was analysed"
        )
    if _with_check(data[:-_CHECK]) != data:
        seen = f"{len(data)} bytes are there"
        if magic == _SHUFFLED and len(data) >= 52:
            count = int.from_bytes(data[44:52], "little")
            seen = f"at most {min(len(unbundle(data[52:], 1 << 40)), count)} of {count} messages are there"
        raise ParameterError(f"{what} are cut or damaged ({seen}); nothing was analysed")
    return data[36:-_CHECK]


# The shuffler's output


def write_shuffled(manifest: Manifest, messages: Sequence[bytes | int], clients: int) -> bytes:
    """The shuffled messages (or buckets) of so many clients."""
    packed = [pack_shuffled(manifest.run, each) if isinstance(each, int) else each for each in messages]
    counts = clients.to_bytes(8, "little") + len(packed).to_bytes(8, "little")
    return _with_check(_SHUFFLED + manifest.run + counts + bundle(packed))


def read_shuffled(manifest: Manifest, data: bytes) -> tuple[list[bytes], int]:
    """Messages and the number of clients; what is cut or of another run is an error."""
    body = _opened(manifest, data, _SHUFFLED, "the shuffled messages")
    return unbundle(body[16:], 1 << 40), int.from_bytes(body[:8], "little")
