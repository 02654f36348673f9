"""A person's own store on the device: what all runs together may cost, and the messages already drawn.

One file, made on purpose (:meth:`Device.new`) for one person, with a total epsilon and delta over all runs, the trust
models this person agrees to, and the public keys of the coordinators this person trusts: a manifest that none of them
signed is refused before anything is drawn or charged, whoever handed it over.  A run is charged and its messages are
kept **in one durable transaction, before anything is sent**: whatever happens to the program then, the same bytes are
sent again and nothing is charged twice.  What would exceed the total is refused before the records are read.

**Guarantee.**  Let run i promise ``(epsilon_i, delta_i)``.  In every model that covers exchanging a person's message
for that of somebody with nothing to say (replace), or leaving it out (add-remove, where nothing to say is no vote).
So, whatever everybody learns from all runs of this store together, they would learn with almost the same probability,
within ``(sum of epsilon_i, sum of delta_i)``, had the device held no records at all.  Basic composition: the runs may
be chosen by anyone, one after another.  Standard library only.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from privpac.device.keys import fingerprint, sound_key
from privpac.device.manifest import Manifest
from privpac.device.wire import bundle, unbundle
from privpac.errors import BudgetExhausted, ManifestError, ParameterError
from privpac.files import keep_once

ACCEPTED = ("local", "shuffle")
"""What a device agrees to unless told otherwise; a central curator reads the person's own rule."""

_NAME = "device.db"
_PATIENCE = 30
_TABLES = """
CREATE TABLE owner (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL, person TEXT NOT NULL,
  epsilon TEXT NOT NULL, delta TEXT NOT NULL, accepts TEXT NOT NULL, unsealed INTEGER NOT NULL, runs INTEGER NOT NULL,
  mark BLOB NOT NULL);
CREATE TABLE coordinator (key BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE run (id BLOB PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL, messages BLOB NOT NULL,
  digest BLOB NOT NULL, coordinator BLOB NOT NULL);
"""
_FORMAT = 2


@dataclass(frozen=True)
class Drawn:
    """Messages to send, and whether they were drawn before."""

    messages: list[bytes]
    again: bool


@dataclass(frozen=True)
class Device:
    """A store in ``folder``; :meth:`new` makes one, :meth:`open` reads it."""

    folder: Path
    person: str
    epsilon: Fraction
    delta: Fraction
    accepts: tuple[str, ...] = ACCEPTED
    unsealed: bool = False
    coordinators: tuple[bytes, ...] = ()

    @classmethod
    def new(
        cls,
        folder: Path,
        person: str,
        epsilon: Fraction | int | str,
        delta: Fraction | int | str = 0,
        accepts: Sequence[str] = ACCEPTED,
        *,
        unsealed: bool = False,
        coordinators: Sequence[bytes] = (),
    ) -> Device:
        """Make a store; never over another one.

        Parameters
        ----------
        folder
            A folder of the device's own; made if it is not there.
        person
            Whose records these are: the name at the collector.
        epsilon, delta
            What all runs together may cost.
        accepts
            Trust models: "local", "shuffle" and, if named, "central", whose curator sees the person's own rule.
        unsealed
            Whether shuffled and central runs may be joined whose messages are not sealed.
        coordinators
            Public keys of those who may ask, 32 bytes each; :meth:`trust` adds one later.  From them and nobody else
            manifests are taken.
        """
        total, small = Fraction(epsilon), Fraction(delta)
        if not (total > 0 and 0 <= small < 1):
            raise ParameterError("a store's total needs epsilon > 0 and 0 <= delta < 1")
        strange = [model for model in accepts if model not in ("local", "shuffle", "central")]
        if strange or not accepts:
            raise ParameterError(f"a device accepts local, shuffle or central; got {', '.join(strange) or 'nothing'}")
        if not person or len(person) > 100:
            raise ParameterError("a store belongs to one person: give a name of 1 to 100 characters")
        pinned = tuple(sorted({sound_key(key) for key in coordinators}))
        store = cls(folder, person, total, small, tuple(accepts), unsealed, pinned)
        # The file of a store without runs; no two have equal bytes.
        values = (person, str(total), str(small), " ".join(accepts), int(unsealed))
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as ledger:
            ledger.execute("PRAGMA page_size = 1024")
            for statement in _TABLES.split(";")[:-1]:
                ledger.execute(statement)
            owner = (_FORMAT, *values, secrets.token_bytes(16))
            ledger.execute("INSERT INTO owner VALUES (1, ?, ?, ?, ?, ?, ?, 0, ?)", owner)
            ledger.executemany("INSERT INTO coordinator VALUES (?)", [(key,) for key in pinned])
            data = ledger.serialize()
        try:
            if keep_once(folder / _NAME, data) != data:
                raise ParameterError(
                    f"{str(folder)!r} is a store already, and a total is never changed; choose another folder"
                )
        except OSError as error:
            raise ParameterError(f"cannot make a store in {str(folder)!r}: {error.strerror}") from None
        return store

    @classmethod
    def open(cls, folder: Path) -> Device:
        """The store in a folder; a missing, emptied or damaged one is an error, never a new beginning."""
        found = cls(folder, "", Fraction(0), Fraction(0))
        with found._ledger() as ledger:
            row = ledger.execute("SELECT version, person, epsilon, delta, accepts, unsealed FROM owner").fetchone()
            if row is None or row[0] != _FORMAT:
                raise _emptied(folder)
            pinned = tuple(key for (key,) in ledger.execute("SELECT key FROM coordinator ORDER BY key"))
        return cls(folder, row[1], Fraction(row[2]), Fraction(row[3]), tuple(row[4].split()), bool(row[5]), pinned)

    def trust(self, coordinator: bytes) -> Device:
        """The same store, which takes runs of this coordinator, too; the total stays what it is."""
        key = sound_key(coordinator)
        with self._ledger() as ledger:
            ledger.execute("INSERT OR IGNORE INTO coordinator VALUES (?)", (key,))
        return Device.open(self.folder)

    @contextmanager
    def _ledger(self) -> Iterator[sqlite3.Connection]:
        place = self.folder / _NAME
        if not place.is_file():
            raise ParameterError(
                f"there is no store in {str(self.folder)!r}; make one with: privpac protocol device. If there was one, "
                "restore it: a message drawn anew would be a second release"
            )
        try:
            with closing(sqlite3.connect(place, timeout=_PATIENCE, isolation_level=None)) as ledger:
                ledger.execute("PRAGMA synchronous = EXTRA")
                yield ledger
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                raise _emptied(self.folder) from None
            raise ParameterError(f"the store in {str(self.folder)!r} cannot be used ({error})") from None
        except sqlite3.Error:
            raise _emptied(self.folder) from None

    # Spending

    @property
    def spent(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta of all runs so far."""
        with self._ledger() as ledger:
            return _spent(ledger, self.folder)

    def agrees(self, manifest: Manifest, person: str | None = None) -> None:
        """Raises unless this person takes part in such runs; what they cost is a matter of :meth:`messages`."""
        if person is not None and person != self.person:
            raise ParameterError(
                f"the store in {str(self.folder)!r} belongs to {self.person!r}, not to {person!r}; every person needs "
                "a store of their own"
            )
        if manifest.coordinator is None:
            raise ManifestError(
                "the manifest is not signed: whoever handed it over could have put in a key of their own; ask the "
                "coordinator for the signed one. Nothing was drawn or sent"
            )
        if manifest.coordinator not in self.coordinators:
            trusted = ", ".join(map(fingerprint, self.coordinators)) or "none"
            raise ManifestError(
                f"the manifest is signed with the key {fingerprint(manifest.coordinator)}, and this store trusts "
                f"{trusted}; if the coordinator told you this key themselves, add it with: privpac protocol trust. "
                "Nothing was drawn or sent"
            )
        if manifest.protocol not in self.accepts:
            raise ManifestError(
                f"this is a {manifest.protocol} run and the device accepts {', '.join(self.accepts)}; nothing was sent"
            )
        if manifest.protocol != "local" and manifest.analyzer is None and not self.unsealed:
            raise ManifestError(
                "the run names no analyzer's key: whoever carries the messages could read them; nothing was sent"
            )

    def messages(self, manifest: Manifest, draw: Callable[[], list[bytes]], *, person: str | None = None) -> Drawn:
        """The messages of a run: drawn and charged once, on disk before this returns, the same bytes ever after."""
        self.agrees(manifest, person)
        with self._ledger() as ledger:
            ledger.execute("BEGIN IMMEDIATE")
            try:
                messages = self._kept(ledger, manifest)
                if messages is None:
                    messages = Drawn(self._drawn(ledger, manifest, draw), False)
                ledger.execute("COMMIT")
            finally:
                if ledger.in_transaction:
                    ledger.execute("ROLLBACK")
        return messages

    def _kept(self, ledger: sqlite3.Connection, manifest: Manifest) -> Drawn | None:
        row = ledger.execute("SELECT messages, digest, coordinator FROM run WHERE id = ?", (manifest.run,)).fetchone()
        if row is None:
            return None
        if row[2] != manifest.coordinator:  # two coordinators may sign the same bytes: consent was given to one
            raise ManifestError(
                f"this run was answered for the coordinator {fingerprint(row[2])}; the same run signed by another one "
                "is not. Nothing was sent"
            )
        if _digest(manifest.run, row[0]) != row[1]:  # a part of the messages would carry a part of the noise
            raise ParameterError(
                "the messages kept in the store are damaged; nothing was sent, and no others may be drawn for this run"
            )
        return Drawn(unbundle(row[0]), True)

    def _drawn(self, ledger: sqlite3.Connection, manifest: Manifest, draw: Callable[[], list[bytes]]) -> list[bytes]:
        used = _spent(ledger, self.folder)
        for name, cost, before, total in (
            ("epsilon", manifest.epsilon, used[0], self.epsilon),
            ("delta", manifest.delta, used[1], self.delta),
        ):
            if before + cost > total:
                message = (
                    f"the run asks for {name} = {cost}; {before} of your total {total} are spent. Nothing was sent"
                )
                raise BudgetExhausted(total - before, cost, message)
        found = draw()
        data = bundle(found)
        row = (manifest.run, str(manifest.epsilon), str(manifest.delta), data, _digest(manifest.run, data))
        ledger.execute("INSERT INTO run VALUES (?, ?, ?, ?, ?, ?)", (*row, manifest.coordinator))
        ledger.execute("UPDATE owner SET runs = runs + 1")
        return found


def _spent(ledger: sqlite3.Connection, folder: Path) -> tuple[Fraction, Fraction]:
    rows = ledger.execute("SELECT epsilon, delta FROM run").fetchall()
    counted = ledger.execute("SELECT runs FROM owner").fetchone()
    if counted is None or counted[0] != len(rows):
        raise _emptied(folder)
    return sum((Fraction(row[0]) for row in rows), Fraction(0)), sum((Fraction(row[1]) for row in rows), Fraction(0))


def _digest(run: bytes, data: bytes) -> bytes:
    return hashlib.blake2b(run + data, digest_size=32).digest()


def _emptied(folder: Path) -> ParameterError:
    return ParameterError(
        f"the store in {str(folder)!r} was emptied or damaged; restore it: another draw would be a second release"
    )
