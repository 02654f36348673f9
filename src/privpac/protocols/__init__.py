"""Protocols: manifests, wire format, devices, shuffler and analyzers for data that stay with the people.

Names are resolved on first use: a device that imports ``privpac.protocols.client`` needs the standard library and numpy
only.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "Analysis": "analyzer",
    "CentralProtocol": "protocol",
    "ChunkedHadamard": "hadamard",
    "Client": "client",
    "HadamardSelection": "hadamard",
    "LocalProtocol": "protocol",
    "Manifest": "manifest",
    "ShuffleProtocol": "protocol",
    "ShuffleSelection": "shuffle",
    "Shuffler": "shuffler",
    "analyze_central": "analyzer",
    "analyze_local": "analyzer",
    "analyze_shuffled": "analyzer",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'privpac.protocols' has no attribute {name!r}")
    value = getattr(import_module(f"privpac.protocols.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
