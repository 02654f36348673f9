"""Learn decision rules from people's data while protecting each person, not each row.

Names are resolved on first use, so that the light parts (``privpac.agreement``, ``privpac.protocols.client``)
import nothing but the standard library and numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "BOTTOM": "law",
    "BudgetLedger": "ledger",
    "Guarantee": "guarantee",
    "Law": "law",
    "Model": "guarantee",
    "Neighbours": "guarantee",
    "NoRelease": "released",
    "Released": "released",
    "Unit": "guarantee",
    "release": "ledger",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'privpac' has no attribute {name!r}")
    value = getattr(import_module(f"privpac.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
