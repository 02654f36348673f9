"""The manifest: everything that is fixed and published before anyone reads their data.

It names the rule to learn, the columns with their public domains, the public seed, the mechanism and the guarantee it
claims.  ``read`` refuses what it does not know, and recomputes the guarantee from the mechanism: a manifest that
promises more than its mechanism keeps is never accepted.  Standard library and numpy only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from privpac.agreement.tasks import Task
from privpac.agreement.work import check_work
from privpac.errors import ManifestError, ParameterError, PrivpacError, TooLargeError
from privpac.protocols.columns import DeviceColumn, exact
from privpac.protocols.hadamard import ChunkedHadamard
from privpac.protocols.seal import OVERHEAD
from privpac.protocols.shuffle import ShuffleSelection
from privpac.protocols.verify import MAX_CAP, keeps_local, shuffle_delta
from privpac.protocols.wire import KIND_OF, canonical, run_id, size_of

__all__ = ["VERSION", "Manifest"]

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


@dataclass(frozen=True)
class Manifest:
    """A run of the protocol.  ``values`` is the JSON object itself; build one with the protocols of
    ``privpac.protocols``."""

    values: Mapping[str, Any]

    def __post_init__(self) -> None:
        try:
            # A copy of its own: what was checked is what is used.
            object.__setattr__(self, "values", json.loads(canonical(self.values)))
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
        """From JSON text."""
        try:
            values = json.loads(data, parse_float=_refuse, parse_constant=_refuse, object_pairs_hook=_once)
        except (ValueError, RecursionError):
            raise ManifestError("the manifest is not JSON of strings and integers") from None
        if not isinstance(values, dict):
            raise ManifestError("the manifest must be a JSON object")
        return cls(values)

    def write(self) -> bytes:
        """The canonical bytes."""
        return canonical(self.values)

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
        if not all(isinstance(self.values[key], str) for key in ("default", "analyzer")):
            raise ManifestError("default and analyzer are hexadecimal texts, perhaps empty")
        names = [column.name for column in self.columns]
        if len({*names, self.label}) != len(names) + 1:
            raise ManifestError("columns must have different names")
        if len(self.values["seed"]) != 64 or self.seed.hex() != self.values["seed"]:
            raise ManifestError("the seed is 64 hexadecimal digits in small letters")
        if self.default is not None and self.task.learner.decode(self.default) is None:
            raise ManifestError("the default is no rule of this class")
        if self.analyzer is not None and self.analyzer.hex() != self.values["analyzer"]:
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
        # Integers beyond 2**53 travel as text.
        read = {name: int(value) if name == "Gamma" else value for name, value in parameters.items()}
        sizes = tuple(column.size for column in self.columns)
        return Task(
            self.values["rule"], sizes, tuple(read.items()), _count(self.values["m_min"]), _count(self.values["m_cap"])
        )

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
        text = self.values["analyzer"]
        if not text:
            return None
        if len(text) != 64:
            raise ManifestError("the analyzer's public key has 64 hexadecimal digits")
        return bytes.fromhex(text)

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


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ManifestError(f"{name} must be an object")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ManifestError("a count is an integer of at least 1")
    return value
