"""A client: needs the manifest, its own records and the person's store, nothing else.

    python -m privpac.device.client device STORE --person ann --epsilon 1 --coordinator-key coordinator.pub
    python -m privpac.device.client send manifest.json records.csv message.bin --store STORE

**Guarantee.**  Local: the message is ``epsilon``-private by itself, whoever reads it.  Shuffle: the messages are
private once those of ``n_min`` clients were shuffled.  The claim in the manifest is recomputed from the mechanism
before anything is read, and refused if it is weaker than ``max_epsilon``, ``max_delta``.

A user with fewer than ``m_min`` valid records sends what someone with nothing to say sends, never silence.  A message
is drawn **once**: with ``store`` (:mod:`privpac.device.store`) it is charged to the person's total, kept, and sent
again byte for byte, because a second draw would be a second release.  A store takes manifests of the coordinators its
person trusts and no others, so nobody on the way can put in an analyzer's key of their own; without a store (in
simulations, where nothing leaves the process) no signature is asked for.  Where the manifest names the analyzer's key
every message is sealed to it.  Standard library and numpy only; signatures and sealing need the package
``cryptography``.
"""

from __future__ import annotations

import csv
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from privpac.device.columns import check_columns, encode
from privpac.device.keys import CoordinatorKey, fingerprint, seal
from privpac.device.manifest import Manifest, told
from privpac.device.store import ACCEPTED, Device, Drawn
from privpac.device.submit import read_token, submit
from privpac.device.wire import bundle, pack_item, pack_report, pack_shuffled
from privpac.errors import ManifestError, ParameterError, PrivpacError
from privpac.files import write_durably
from privpac.rng import Rng, secret_rng

NamedRecords = Iterable[Mapping[str, object]]
"""A person's own, by column name."""


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

    def item(self, records: NamedRecords) -> bytes | None:
        """The user's item: a function of these records and of public numbers only.  It must not leave the device as it
        is."""
        return self.item_of_codes(*encode(self.manifest.columns, self.manifest.label, records))

    def item_of_codes(self, x: object, y: object) -> bytes | None:
        """The same from codes of the columns (one row per record) and labels."""
        return self.manifest.task.learner.item(x, y, self.manifest.seed)

    def messages(
        self,
        records: NamedRecords,
        *,
        rng: Rng | None = None,
        store: Device | Path | None = None,
        person: str | None = None,
    ) -> list[bytes]:
        """What to send.

        Parameters
        ----------
        records
            The person's own, by column name.
        rng
            For tests.
        store
            The person's store: the run is charged to it and the messages are kept for sending again.  Without one every
            call is a release of its own.
        person
            Whose records these are; refused if the store is somebody else's.
        """
        return self.kept(records, rng=rng, store=store, person=person).messages

    def kept(
        self,
        records: NamedRecords,
        *,
        rng: Rng | None = None,
        store: Device | Path | None = None,
        person: str | None = None,
    ) -> Drawn:
        """:meth:`messages`, and whether they were drawn before."""
        if store is None:
            return Drawn(self.send(self.item(records), rng), False)
        device = Device.open(store) if isinstance(store, Path) else store
        return device.messages(self.manifest, lambda: self.send(self.item(records), rng), person=person)

    def send(self, item: bytes | None, rng: Rng | None = None) -> list[bytes]:
        """The messages for an item, or for nothing to say.  Every call is a release of its own."""
        plain, analyzer = self._plain(item, secret_rng(rng)), self.manifest.analyzer
        if analyzer is None:
            return plain
        return [seal(self.manifest.run, self.manifest.kind, analyzer, message) for message in plain]

    def _plain(self, item: bytes | None, source: Rng) -> list[bytes]:
        manifest, run = self.manifest, self.manifest.run
        if manifest.protocol == "central":
            return [pack_item(run, item or b"", 0 if manifest.analyzer is None else manifest.item_bytes)]
        number = None if item is None else manifest.task.learner.universe.number(item)
        if manifest.protocol == "local":
            return [pack_report(run, *manifest.local.report(number, source))]
        return [pack_shuffled(run, bucket) for bucket in manifest.shuffle.messages(number, source)]


def main(arguments: Sequence[str] | None = None) -> int:
    """The commands of the module's first lines; read CSV, write one bundle, say nothing about the records."""
    parser = ArgumentParser(prog="python -m privpac.device.client", description="A light client.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    new = verbs.add_parser("device", help="make a person's store")
    new.add_argument("store", type=Path)
    new.add_argument("--person", required=True)
    new.add_argument("--epsilon", required=True, help="the total of all runs")
    new.add_argument("--delta", default="0")
    new.add_argument("--accept", action="append", help="local, shuffle or central; repeat")
    more = verbs.add_parser("trust", help="take runs of another coordinator, too")
    more.add_argument("store", type=Path)
    for each in (new, more):
        each.add_argument(
            "--coordinator-key",
            type=Path,
            action="append",
            required=True,
            help="public key of a coordinator, got from them and not from the collector; repeat",
        )
    answer = verbs.add_parser("send", help="turn records into messages")
    for name in ("manifest", "records", "out"):
        answer.add_argument(name, type=Path)
    answer.add_argument("--store", type=Path, required=True)
    answer.add_argument("--url", help="send them to this collector, too; the token is in PRIVPAC_TOKEN")
    answer.add_argument("--token-file", help="a file with the token instead; - is standard input")
    answer.add_argument("--authority", help="certificates to trust, for a collector with its own")
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        if options.verb != "send":
            keys = [CoordinatorKey.read_public(path.read_bytes()) for path in options.coordinator_key]
            if options.verb == "device":
                accepted = options.accept or ACCEPTED
                Device.new(options.store, options.person, options.epsilon, options.delta, accepted, coordinators=keys)
            for key in keys:
                if options.verb == "trust":
                    Device.open(options.store).trust(key)
                sys.stderr.write(f"trusts the coordinator {fingerprint(key)}: compare it with what they told you\n")
        else:
            token = read_token(options.token_file) if options.url else None
            own = Device.open(options.store)
            client = Client(Manifest.read(options.manifest.read_bytes()))
            own.agrees(client.manifest)
            body = bundle(client.messages(read_records(client.manifest, options.records), store=own))
            write_durably(options.out, body)
            sys.stderr.write(f"{told(client.manifest)}\n")
            if options.url:
                submit(options.url, own.person, body, token, run=client.manifest.run, authority=options.authority)
    except PrivpacError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except (OSError, ValueError, ArithmeticError) as error:
        sys.stderr.write(f"a file or number could not be read or written ({type(error).__name__})\n")
        return 2
    return 0


def read_records(manifest: Manifest, path: Path) -> list[dict[str, Any]]:
    """A person's CSV file; a column that the run needs and the file lacks is an error, before anything is drawn."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            rows, header = list(reader), reader.fieldnames or []
    except OSError as error:
        raise ParameterError(f"cannot read the records {str(path)!r}: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise ParameterError(f"{str(path)!r} is not a CSV file in UTF-8") from None
    check_columns(manifest.columns, manifest.label, header)
    return rows


if __name__ == "__main__":
    sys.exit(main())
