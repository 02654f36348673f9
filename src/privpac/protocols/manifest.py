"""The manifest: everything that is fixed and published before anyone reads their data.

It names the rule to learn, the columns with their public domains, the public seed, the mechanism and the guarantee it
claims.  ``read`` refuses what it does not know, and recomputes the guarantee from the mechanism: a manifest that
promises more than its mechanism keeps is never accepted.  What is published carries the coordinator's signature
(:mod:`privpac.protocols.signature`); a manifest that names a coordinator was signed by it, or does not exist.  Standard
library and numpy only; a signature needs the package ``cryptography``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from privpac.device.correlated_sampling import MAX_DENOMINATOR
from privpac.device.tasks import Task
from privpac.device.work import check_work
from privpac.errors import ManifestError, ParameterError, PrivpacError, TooLargeError
from privpac.protocols.columns import DeviceColumn, exact
from privpac.protocols.hadamard import ChunkedHadamard
from privpac.protocols.seal import OVERHEAD
from privpac.protocols.shuffle import ShuffleSelection
from privpac.protocols.signature import CoordinatorKey, Signature
from privpac.protocols.verify import MAX_CAP, keeps_local, shuffle_delta
from privpac.protocols.wire import KIND_OF, canonical, run_id, size_of

__all__ = ["MAX_BYTES", "VERSION", "Manifest"]

MAX_BYTES = 1 << 20
"""A manifest and its signature, as they are published."""

VERSION = 2
_KEYS = {
    "v",
    "protocol",
    "rule",
    "parameters",
    "features",
    "label",
    "seed",
    "m_min",
    "m_cap",
    "default",
    "beta",
    "mechanism",
    "guarantee",
    "analyzer",
}
_MECHANISM = {
    "central": {"selector"},
    "local": {"keep", "width"},
    "shuffle": {"r", "p", "n_min", "n_max", "cap", "width", "direction"},
}
_CLAIM = {"epsilon", "delta", "neighbours", "unit"}
_PUBLISHED = {"coordinator", "manifest", "signature"}
_DIGITS = re.compile(r"([0-9a-f]{2})*")
_RATE = re.compile(r"[0-9]{1,20}")
_RATIONAL = re.compile(r"[+-]?[0-9]{1,400}(/[0-9]{1,400}|(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?)")
_RATIONALS = {"alpha", "share", "theta", "stop", "ridge"}


@dataclass(frozen=True)
class Manifest:
    """A run of the protocol.  ``values`` is the JSON object itself; build one with the protocols of
    ``privpac.protocols``.  With ``signature`` it is what a coordinator published."""

    values: Mapping[str, Any]
    signature: Signature | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        try:
            # A copy of its own: what was checked is what is used.
            data = canonical(self.values)
            if self.signature is not None:
                self.signature.check(data)
            object.__setattr__(self, "values", json.loads(data))
            self._check()
        except (
            PrivpacError,
            TypeError,
            LookupError,
            ValueError,
            ArithmeticError,
            AttributeError,
            RecursionError,
        ) as error:
            if isinstance(error, ManifestError):
                raise
            said = (
                error
                if isinstance(error, (ParameterError, TooLargeError))
                else "an entry has a wrong type or is too large"
            )
            raise ManifestError(f"the manifest is refused: {said}") from None

    @classmethod
    def read(cls, data: bytes | str) -> Manifest:
        """From JSON text: what a coordinator published, or a bare manifest."""
        try:
            text = data.encode() if isinstance(data, str) else data
            if len(text) > MAX_BYTES:
                raise ManifestError(f"a manifest has at most {MAX_BYTES} bytes")
            values = json.loads(text.decode(), parse_float=_refuse, parse_constant=_refuse, object_pairs_hook=_once)
        except (ValueError, RecursionError) as error:
            if isinstance(error, ManifestError):
                raise
            raise ManifestError("the manifest is not JSON of strings and integers") from None
        if not isinstance(values, dict):
            raise ManifestError("the manifest must be a JSON object")
        if not _PUBLISHED & set(values):
            return cls(values)
        key, signature = (_hex_of(values.get(name)) for name in ("coordinator", "signature"))
        if set(values) != _PUBLISHED or key is None or signature is None or (len(key), len(signature)) != (32, 64):
            raise ManifestError(
                "a signed manifest holds coordinator (64 hexadecimal digits in small letters), manifest and signature "
                "(128 of them), and nothing else"
            )
        return cls(_object(values["manifest"], "manifest"), Signature(key, signature))

    def write(self) -> bytes:
        """The canonical bytes."""
        return canonical(self.values)

    def signed(self, key: CoordinatorKey) -> Manifest:
        """The same run, signed by its coordinator."""
        return Manifest(self.values, key.sign(self.write()))

    def published(self) -> bytes:
        """What everyone may read: the manifest with its signature, or as it is."""
        if self.signature is None:
            return self.write()
        signature = {"coordinator": self.signature.coordinator.hex(), "signature": self.signature.value.hex()}
        return canonical({**signature, "manifest": self.values})

    @property
    def coordinator(self) -> bytes | None:
        """Whose signature it carries."""
        return None if self.signature is None else self.signature.coordinator

    def _check(self) -> None:
        self._speaks()
        strange, missing = set(self.values) - _KEYS, _KEYS - set(self.values)
        if strange or missing:
            raise ManifestError(
                f"the manifest has an unknown key {sorted(strange)[0][:40]!r}"
                if strange
                else f"key {sorted(missing)[0]!r} is missing"
            )
        if self.protocol not in _MECHANISM:
            raise ManifestError(f"protocol must be one of {', '.join(_MECHANISM)}")
        if set(self._mechanism) != _MECHANISM[self.protocol] or set(self._claim) != _CLAIM:
            raise ManifestError(
                f"mechanism must hold {', '.join(sorted(_MECHANISM[self.protocol]))}, guarantee "
                f"{', '.join(sorted(_CLAIM))}"
            )
        if self._claim["unit"] != "user" or not isinstance(self.values["label"], str):
            raise ManifestError("the unit is the user, and the label is a column's name")
        if any(_hex_of(self.values[key]) is None for key in ("default", "analyzer", "seed")):
            raise ManifestError("seed, default and analyzer are hexadecimal digits in small letters")
        names = [column.name for column in self.columns]
        if len({*names, self.label}) != len(names) + 1:
            raise ManifestError("columns must have different names")
        if len(self.seed) != 32:
            raise ManifestError("the seed is 64 hexadecimal digits in small letters")
        if self.default is not None:
            learner = self.task.learner
            if learner.universe.item(learner.universe.number(self.default)) != self.default:
                raise ManifestError("the default is no rule of this class")
            if learner.decode(self.default) is None:
                raise ManifestError("the default is no rule of this class")
        if len(self.analyzer or bytes(32)) != 32:
            raise ManifestError("the analyzer's public key is 64 hexadecimal digits in small letters, or an empty text")
        check_work(self.task)
        if not 0 < self.beta < 1:
            raise ManifestError("beta, the chance that noise is released as a rule, is above 0 and below 1")
        self._keeps()

    def _speaks(self) -> None:
        """Another version has other entries and other arithmetic: nothing of it can be judged here."""
        if "v" not in self.values:
            raise ManifestError("key 'v' is missing")
        if self.values["v"] != VERSION:
            seen = self.values["v"] if isinstance(self.values["v"], int) else "unknown"
            raise ManifestError(
                f"the manifest has version {seen} of the protocol and this program speaks version {VERSION}; use the "
                "client and the manifest of one release"
            )

    def _keeps(self) -> None:
        """The mechanism keeps what is claimed."""
        if not (self.epsilon > 0 and 0 <= self.delta < 1):
            raise ManifestError("the guarantee needs epsilon > 0 and 0 <= delta < 1")
        if self.protocol == "local":
            if self._claim["neighbours"] != "replace" or not keeps_local(self.local.keep, self.epsilon):
                raise ManifestError("the reports lose more than the guarantee claims")
        elif self.protocol == "shuffle":
            if self._claim["neighbours"] != "replace" or not self.shuffle.n_min <= self.n_max <= 1 << 40:
                raise ManifestError("a shuffled count is private under replace, for n_min to n_max clients")
            if self.shuffle.cap > MAX_CAP:
                raise ManifestError(f"a client sends at most {MAX_CAP} messages")
            if shuffle_delta(self.shuffle, self.n_max, self.epsilon) > self.delta:
                raise ManifestError("the noise is too small for the guarantee claimed")
        elif self._mechanism["selector"] not in ("histogram", "pure") or self._claim["neighbours"] not in (
            "add-remove",
            "replace",
        ):
            raise ManifestError("a central selector is 'histogram' or 'pure'")
        elif (self.selector == "pure") != (self.delta == 0):
            raise ManifestError("the selector 'pure' has delta 0, the selector 'histogram' a larger one")

    # What it says

    @cached_property
    def run(self) -> bytes:
        """The ``run_id``."""
        return run_id(self.values)

    @property
    def protocol(self) -> str:
        return str(self.values["protocol"])

    @property
    def _mechanism(self) -> Mapping[str, Any]:
        return _object(self.values["mechanism"], "mechanism")

    @property
    def _claim(self) -> Mapping[str, Any]:
        return _object(self.values["guarantee"], "guarantee")

    @property
    def epsilon(self) -> Fraction:
        return exact(self._claim["epsilon"])

    @property
    def delta(self) -> Fraction:
        return exact(self._claim["delta"])

    @property
    def neighbours(self) -> str:
        return str(self._claim["neighbours"])

    @property
    def label(self) -> str:
        return str(self.values["label"])

    @property
    def seed(self) -> bytes:
        return bytes.fromhex(self.values["seed"])

    @cached_property
    def columns(self) -> tuple[DeviceColumn, ...]:
        listed = self.values["features"]
        if not isinstance(listed, list) or not listed:
            raise ManifestError("features must list at least one column")
        return tuple(DeviceColumn.read(entry) for entry in listed)

    @cached_property
    def task(self) -> Task:
        parameters = _object(self.values["parameters"], "parameters")
        if max(records := [_count(self.values[key]) for key in ("m_min", "m_cap")]) > MAX_DENOMINATOR:
            raise ManifestError(f"m_min and m_cap are at most {MAX_DENOMINATOR}")
        # Integers beyond 2**53 travel as text.
        read = {
            name: int(value) if name == "Gamma" and _RATE.fullmatch(str(value)) else value
            for name, value in parameters.items()
        }
        for name, value in parameters.items():
            if name in _RATIONALS and isinstance(value, str) and not _RATIONAL.fullmatch(value):
                raise ManifestError(f"{name} is a number such as '1/20' or '0.05', of at most 400 digits")
        sizes = tuple(column.size for column in self.columns)
        return Task(self.values["rule"], sizes, tuple(read.items()), *records)

    @property
    def default(self) -> bytes | None:
        """The item that stands in when nothing is released."""
        text = self.values["default"]
        return bytes.fromhex(text) if text else None

    @property
    def beta(self) -> Fraction:
        """Where no two people agree, a rule is released with at most this probability."""
        return exact(self.values["beta"])

    @property
    def analyzer(self) -> bytes | None:
        """The public key to which messages are sealed; ``None``: they are not."""
        return bytes.fromhex(self.values["analyzer"]) or None

    @property
    def kind(self) -> int:
        """The kind of this run's messages."""
        return KIND_OF[self.protocol]

    @property
    def item_bytes(self) -> int:
        """The longest item."""
        universe = self.task.learner.universe
        return int(getattr(universe, "longest", -(-universe.bits // 8)))

    @property
    def message_bytes(self) -> int:
        """Bytes of one message on the wire (of the longest, where nothing is sealed)."""
        return size_of(self.kind, self.item_bytes) + (0 if self.analyzer is None else OVERHEAD)

    @property
    def most_messages(self) -> int:
        """What one client may send."""
        return self.shuffle.cap if self.protocol == "shuffle" else 1

    @cached_property
    def local(self) -> ChunkedHadamard:
        return ChunkedHadamard(
            self.task.learner.universe.bits, exact(self._mechanism["keep"]), _count(self._mechanism["width"])
        )

    @cached_property
    def shuffle(self) -> ShuffleSelection:
        m = self._mechanism
        size, width = self.task.learner.universe.size, m["width"] if m["width"] == 0 else _count(m["width"])
        return ShuffleSelection(
            size, exact(m["r"]), exact(m["p"]), _count(m["n_min"]), _count(m["cap"]), width, m["direction"]
        )

    @property
    def n_max(self) -> int:
        return _count(self._mechanism["n_max"])

    @property
    def selector(self) -> str:
        return str(self._mechanism["selector"])


def _refuse(text: str) -> None:
    raise ValueError(text)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two readers could take different ones of two equal keys."""
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)


def _hex_of(value: Any) -> bytes | None:
    """Bytes from small hexadecimal digits, written in the one way that every client reads."""
    return bytes.fromhex(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else None


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ManifestError(f"{name} must be an object")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ManifestError("a count is an integer of at least 1")
    return value
