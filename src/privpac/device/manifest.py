"""The manifest: everything that is fixed and published before anyone reads their data.

It names the rule to learn, the columns with their public domains, the public seed, the mechanism and the guarantee it
claims.  ``read`` refuses what it does not know, and recomputes the guarantee from the mechanism: a manifest that
promises more than its mechanism keeps is never accepted.  What is published carries the coordinator's signature
(:mod:`privpac.device.keys`); a manifest that names a coordinator was signed by it, or does not exist.  Standard
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

from privpac.device.columns import DeviceColumn, exact
from privpac.device.correlated_sampling import MAX_DENOMINATOR
from privpac.device.keys import OVERHEAD, CoordinatorKey, Signature
from privpac.device.randomizers import MAX_CAP, ChunkedHadamard, ShuffleSelection, keeps_local, shuffle_delta
from privpac.device.tasks import Task, check_work
from privpac.device.wire import KIND_OF, canonical, message_size, run_id
from privpac.errors import ManifestError, ParameterError, PrivpacError, TooLargeError

MAX_BYTES = 1 << 20
"""A manifest and its signature, as they are published."""

VERSION = 2
_KEYS = {"v", "protocol", "rule", "parameters", "features", "label", "seed", "m_min", "m_cap", "default"}
_KEYS |= {"beta", "mechanism", "guarantee", "analyzer"}
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
        except ManifestError:
            raise
        except (ParameterError, TooLargeError) as error:
            raise ManifestError(f"the manifest is refused: {error}") from None
        except (PrivpacError, TypeError, LookupError, ValueError, ArithmeticError, AttributeError, RecursionError):
            raise ManifestError("the manifest is refused: an entry has a wrong type or is too large") from None

    @classmethod
    def read(cls, data: bytes | str) -> Manifest:
        """From JSON text: what a coordinator published, or a bare manifest."""
        try:
            text = data.encode() if isinstance(data, str) else data
            if len(text) > MAX_BYTES:
                raise ManifestError(f"a manifest has at most {MAX_BYTES} bytes")
            values = json.loads(text.decode(), parse_float=_refuse, parse_constant=_refuse, object_pairs_hook=_once)
        except ManifestError:
            raise
        except (ValueError, RecursionError):
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
        # Another version has other entries and other arithmetic: nothing of it can be judged here.
        if "v" not in self.values:
            raise ManifestError("key 'v' is missing")
        if self.values["v"] != VERSION:
            seen = self.values["v"] if isinstance(self.values["v"], int) else "unknown"
            raise ManifestError(
                f"the manifest has version {seen} of the protocol and this program speaks version {VERSION}; use the "
                "client and the manifest of one release"
            )
        strange, missing = set(self.values) - _KEYS, _KEYS - set(self.values)
        if strange:
            raise ManifestError(f"the manifest has an unknown key {sorted(strange)[0][:40]!r}")
        if missing:
            raise ManifestError(f"key {sorted(missing)[0]!r} is missing")
        if self.protocol not in _MECHANISM:
            raise ManifestError(f"protocol must be one of {', '.join(_MECHANISM)}")
        if set(self._mechanism) != _MECHANISM[self.protocol] or set(self._claim) != _CLAIM:
            holds, claims = ", ".join(sorted(_MECHANISM[self.protocol])), ", ".join(sorted(_CLAIM))
            raise ManifestError(f"mechanism must hold {holds}, guarantee {claims}")
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
            learner, universe = self.task.learner, self.task.learner.universe
            if universe.item(universe.number(self.default)) != self.default or learner.decode(self.default) is None:
                raise ManifestError("the default is no rule of this class")
        if len(self.analyzer or bytes(32)) != 32:
            raise ManifestError("the analyzer's public key is 64 hexadecimal digits in small letters, or an empty text")
        check_work(self.task)
        if not 0 < self.beta < 1:
            raise ManifestError("beta, the chance that noise is released as a rule, is above 0 and below 1")
        self._keeps()

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
        elif self.selector not in ("histogram", "pure") or self.neighbours not in ("add-remove", "replace"):
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
        read = dict(parameters)
        if _RATE.fullmatch(str(read.get("Gamma"))):
            read["Gamma"] = int(read["Gamma"])
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
        return message_size(self.kind, self.item_bytes) + (0 if self.analyzer is None else OVERHEAD)

    @property
    def most_messages(self) -> int:
        """What one client may send."""
        return self.shuffle.cap if self.protocol == "shuffle" else 1

    @cached_property
    def local(self) -> ChunkedHadamard:
        m = self._mechanism
        return ChunkedHadamard(self.task.learner.universe.bits, exact(m["keep"]), _count(m["width"]))

    @cached_property
    def shuffle(self) -> ShuffleSelection:
        m = self._mechanism
        size, noise = self.task.learner.universe.size, (exact(m["r"]), exact(m["p"]))
        width = 0 if m["width"] == 0 else _count(m["width"])
        return ShuffleSelection(size, *noise, _count(m["n_min"]), _count(m["cap"]), width, m["direction"])

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


def _hex_of(value: object) -> bytes | None:
    """Bytes from small hexadecimal digits, written in the one way that every client reads."""
    return bytes.fromhex(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else None


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ManifestError(f"{name} must be an object")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ManifestError("a count is an integer of at least 1")
    return value


# What a person is told before anything is sent: who sees what, what it costs, and whom that trusts.

_SEES = {
    "local": (
        "The collector sees that you took part{sealed}. The message is private by itself: whoever reads it, alone or "
        "with everybody else, learns almost nothing about your records."
    ),
    "shuffle": (
        "The shuffler sees that you took part and how many messages you sent{sealed}. The analyzer sees everybody's "
        "messages mixed, without names. This holds while shuffler and analyzer do not work together and at least "
        "{n_min} honest people take part."
    ),
    "central": (
        "The collector sees that you took part{sealed}. The analyzer reads the rule that your records lead to, without "
        "noise, and must be trusted with it; the promise is about what the analyzer publishes."
    ),
}


def told(manifest: Manifest) -> str:
    """The promise in words a person can read."""
    sealed = "; the content is sealed to the analyzer" if manifest.analyzer is not None else " and can read the message"
    n_min = manifest.shuffle.n_min if manifest.protocol == "shuffle" else 0
    small = f", delta = {manifest.delta}" if manifest.delta else ""
    cost = f"This run costs epsilon = {manifest.epsilon}{small} of your total."
    return f"{_SEES[manifest.protocol].format(sealed=sealed, n_min=n_min)} {cost}"
