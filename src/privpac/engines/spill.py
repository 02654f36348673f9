"""Rows parted by user into files on disk, in a private folder that does not outlive its use.

The part of a row is a run of bits of a hash of its user id, so all rows of a user land in one part, wherever they stood, and in
their given order.  A part that is larger than a chunk and holds more than one user is parted again by the next bits.  Ids
travel with the rows, so two users with one hash share a part and are told apart there.

*The folder.*  Mode 0700, a name of its own, and a lock that is held as long as it is in use.  It is removed when its owner is gone,
on errors, and at the end of the process; a folder whose lock nobody holds was left by a crash and is removed at the next start.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from privpac.data.group import mix
from privpac.data.jit import jit
from privpac.data.schema import Words, quietly
from privpac.data.truncate import hash_ids
from privpac.engines.chunks import identified
from privpac.errors import ParameterError

__all__ = ["Part", "SpillFolder", "packed", "part_rows", "read_parts"]

PREFIX = "privpac-spill-"
BITS = 8
"""Bits that one pass parts by: 256 open files."""
_LOCK = "lock"
_YOUNG = 60.0
FULL = "the folder for spilled rows cannot be written to or is full; name another with spill="


class SpillFolder:
    """A private folder that vanishes with this object, this process, or at the next start."""

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        place = tempfile.gettempdir() if parent is None else os.fspath(parent)
        if not os.path.isdir(place):
            raise ParameterError(f"spill must name an existing folder, got {place!r}")
        _sweep(Path(place))
        self.path, lock = _make(place)
        self._count = 0
        self.remove = weakref.finalize(self, _remove, str(self.path), lock, os.getpid())

    def file(self) -> Path:
        """A new name."""
        self._count += 1
        return self.path / str(self._count)


def _make(place: str) -> tuple[Path, int]:
    while True:
        try:
            path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))  # mode 0700
            lock = os.open(path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # swept between the two lines
        except OSError:
            raise ParameterError(FULL) from None
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (path / _LOCK).exists():
                return path, lock
        os.close(lock)


def _remove(path: str, lock: int, owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked child leaves its parent's folder alone
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        os.close(lock)


def _sweep(place: Path) -> None:
    """Remove folders of ours that nobody uses."""
    for path in place.glob(f"{PREFIX}*"):
        with suppress(OSError):
            found = path.lstat()
            if path.is_symlink() or not path.is_dir() or found.st_uid != os.geteuid():
                continue
            if not (path / _LOCK).exists():
                if time.time() - found.st_mtime > _YOUNG:
                    shutil.rmtree(path, ignore_errors=True)
                continue
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while somebody holds it
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


# Parting


@dataclass(frozen=True, repr=False)
class Part:
    """A file of whole users: its rows, and the least and the largest hash in it."""

    path: Path
    rows: int
    low: int
    high: int


@jit
def _mixed(keys: Words) -> Words:
    out = np.empty_like(keys)
    for i in range(keys.size):
        out[i] = mix(keys[i])
    return out


def _hashes(ids: pl.Series) -> Words:
    return _mixed(hash_ids(ids) if ids.dtype == pl.String else ids.to_numpy().view(np.uint64))


def part_rows(batches: Iterable[pl.DataFrame], user: str, folder: SpillFolder, *, total: int, rows: int) -> list[Part]:
    """All rows in parts of at most ``rows`` rows, or of users with one hash; ``total`` is the expected number of rows."""
    bits = _bits(total, rows)
    return _split(_pass(batches, user, folder, 0, bits), user, folder, bits, rows)


def _bits(total: int, rows: int) -> int:
    """So many that a part has at most 4/5 of ``rows`` rows if users are spread evenly, up to :data:`BITS` at a time."""
    return min(BITS, (5 * total // (4 * rows)).bit_length())


def _split(parts: list[Part], user: str, folder: SpillFolder, used: int, rows: int) -> list[Part]:
    out: list[Part] = []
    for part in parts:
        bits = min(max(1, _bits(part.rows, rows)), 64 - used)
        if part.rows <= rows or part.low == part.high or bits == 0:
            out.append(part)
            continue
        finer = _pass(_stored(part.path), user, folder, used, bits)
        part.path.unlink()
        out += _split(finer, user, folder, used + bits, rows)
    return out


def _pass(batches: Iterable[pl.DataFrame], user: str, folder: SpillFolder, used: int, bits: int) -> list[Part]:
    """Part by the ``bits`` bits of the hash after the first ``used``."""
    writers: dict[int, Any] = {}
    found: dict[int, list[Any]] = {}
    with ExitStack() as open_files:
        for batch in batches:
            frame, ids = identified(batch, user)
            if not len(frame):
                continue
            hashes = _hashes(ids)
            place = ((hashes << np.uint64(used)) >> np.uint64(64 - bits)).astype(np.uint8) if bits else np.zeros(len(hashes), np.uint8)
            order = np.argsort(place, kind="stable")
            table = frame[order].to_arrow(compat_level=pl.CompatLevel.oldest())
            ends = np.cumsum(np.bincount(place, minlength=1 << bits))
            for p, (a, b) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist())):
                if a == b:
                    continue
                if p not in writers:
                    path = folder.file()
                    writers[p] = _writing(lambda: _open(path, table.schema, open_files))  # noqa: B023
                    found[p] = [path, 0, (1 << 64) - 1, 0]
                _writing(lambda: writers[p].write_table(table.slice(a, b - a)))  # noqa: B023
                _note(found[p], hashes[order[a:b]])
    return [Part(*found[p]) for p in sorted(found)]


def _note(entry: list[Any], hashes: NDArray[np.uint64]) -> None:
    entry[1] += len(hashes)
    entry[2], entry[3] = min(entry[2], int(hashes.min())), max(entry[3], int(hashes.max()))


def _open(path: Path, schema: Any, open_files: ExitStack) -> Any:
    sink = open_files.enter_context(pa.OSFile(str(path), "wb"))
    return open_files.enter_context(pa.ipc.new_stream(sink, schema))


def _writing(action: Any) -> Any:
    try:
        return action()
    except OSError:
        pass
    raise ParameterError(FULL) from None


def _stored(path: Path) -> Iterator[pl.DataFrame]:
    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            yield pl.DataFrame(batch)


def read_parts(parts: Iterable[Part]) -> pl.DataFrame:
    """Some parts in memory."""
    frames = (frame for part in parts for frame in _stored(part.path))
    return quietly(lambda: pl.concat(frames, rechunk=True), "the spilled rows cannot be read any more")


def packed(parts: Iterable[Part], rows: int) -> Iterator[list[Part]]:
    """Neighbouring parts together, as long as they have at most ``rows`` rows."""
    waiting: list[Part] = []
    for part in parts:
        if waiting and sum(other.rows for other in waiting) + part.rows > rows:
            yield waiting
            waiting = []
        waiting.append(part)
    if waiting:
        yield waiting
