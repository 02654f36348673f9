"""A client: needs the manifest and its own records, nothing else.

    python -m privpac.protocols.client manifest.json records.csv message.bin

**Guarantee.**  Local: the message is ``epsilon``-private by itself, whoever reads it.  Shuffle: the messages are
private once those of ``n_min`` clients were shuffled.  The claim in the manifest is recomputed from the mechanism
before anything is read, and refused if it is weaker than ``max_epsilon``, ``max_delta``.

A user with fewer than ``m_min`` valid records sends what someone with nothing to say sends, never silence.  A message
is drawn **once**: with ``store`` it is kept and sent again byte for byte, because a second draw would be a second
release.  Standard library and numpy only.
"""

from __future__ import annotations

import csv
import errno
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from privpac.errors import ManifestError, ModelFileError, ParameterError
from privpac.protocols.columns import encode
from privpac.protocols.manifest import Manifest
from privpac.protocols.wire import pack_item, pack_report, pack_shuffled
from privpac.released_write import write_durably, write_whole
from privpac.rng import Rng, secret_rng

__all__ = ["Client", "bundle", "keep_once", "main", "unbundle"]

Records = Iterable[Mapping[str, Any]]
_NO_LINKS = {errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""What a file system without links says."""


@dataclass(frozen=True)
class Client:
    """Sends one user's part of a run; ``max_epsilon`` and ``max_delta`` are the user's own limits."""

    manifest: Manifest
    max_epsilon: Fraction | int | None = None
    max_delta: Fraction | int | None = None

    def __post_init__(self) -> None:
        for name, claimed, most in (
            ("epsilon", self.manifest.epsilon, self.max_epsilon),
            ("delta", self.manifest.delta, self.max_delta),
        ):
            if most is not None and claimed > most:
                raise ManifestError(f"the run asks for {name} = {claimed}, above your limit {most}; nothing was sent")

    def item(self, records: Records) -> bytes | None:
        """The user's item: a function of these records and of public numbers only.  It must not leave the device as it
        is."""
        return self.item_of_codes(*encode(self.manifest.columns, self.manifest.label, records))

    def item_of_codes(self, x: Any, y: Any) -> bytes | None:
        """The same from codes of the columns (one row per record) and labels."""
        return self.manifest.task.learner.item(x, y, self.manifest.seed)

    def messages(self, records: Records, *, rng: Rng | None = None, store: Path | None = None) -> list[bytes]:
        """What to send.  ``store`` names a folder of the device's own in which the messages are kept for sending
        again."""
        if store is None:
            return self.send(self.item(records), rng)
        place = store / f"{self.manifest.run.hex()}.ppm"
        try:
            return _kept(
                place.read_bytes() if place.exists() else keep_once(place, bundle(self.send(self.item(records), rng)))
            )
        except OSError as error:
            raise ParameterError(
                f"cannot keep the messages in {str(store)!r}: {error.strerror}; choose a writable folder"
            ) from None

    def send(self, said: bytes | None, rng: Rng | None = None) -> list[bytes]:
        """The messages for an item, or for nothing to say.  Every call is a release of its own."""
        source, run = secret_rng(rng), self.manifest.run
        if self.manifest.protocol == "central":
            return [] if said is None else [pack_item(run, said)]
        number = None if said is None else self.manifest.task.learner.universe.number(said)
        if self.manifest.protocol == "local":
            return [pack_report(run, *self.manifest.local.report(number, source))]
        return [pack_shuffled(run, bucket) for bucket in self.manifest.shuffle.messages(number, source)]


def bundle(messages: Sequence[bytes]) -> bytes:
    """Messages one after another, each after its length (u32, little-endian)."""
    return b"".join(len(message).to_bytes(4, "little") + message for message in messages)


def unbundle(data: bytes, limit: int = 1 << 20) -> list[bytes]:
    """The messages of a bundle; what cannot be read ends it."""
    out: list[bytes] = []
    at = 0
    while at + 4 <= len(data) and len(out) < limit:
        size = int.from_bytes(data[at : at + 4], "little")
        if at + 4 + size > len(data):
            break
        out.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return out


def _kept(data: bytes) -> list[bytes]:
    found = unbundle(data)
    if bundle(found) != data:  # a part of the messages would carry a part of the noise
        raise ParameterError(
            "the messages kept in the store are damaged; nothing was sent, and no others may be drawn for this run"
        )
    return found


def keep_once(place: Path, data: bytes) -> bytes:
    """On disk before anything is sent, readable by the owner only; of two that draw at once the first wins, and both
    send its bytes."""
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        write_whole(place, data, 0o600, over=False)
    except FileExistsError:
        return place.read_bytes()
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        write_whole(place, data, 0o600)
    return data


def main(arguments: Sequence[str] | None = None) -> int:
    """The command of the module's first lines; reads CSV, writes one bundle, says nothing about the records."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) not in (3, 4):
        sys.stderr.write(
            "usage: python -m privpac.protocols.client manifest.json records.csv message.bin [store folder]\n"
        )
        return 2
    try:
        client = Client(Manifest.read(Path(given[0]).read_bytes()))
        with open(given[1], newline="", encoding="utf-8-sig") as file:
            sent = client.messages(list(csv.DictReader(file)), store=Path(given[3]) if len(given) == 4 else None)
        write_durably(Path(given[2]), bundle(sent))
    except (ManifestError, ModelFileError, ParameterError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        sys.stderr.write(f"a file could not be read or written ({type(error).__name__})\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
