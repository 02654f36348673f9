"""Private learners: parameters in, a guarantee before any data, one exact draw out."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "RealizableSelection": "realizable",
    "RegretSelection": "regret",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'privpac.learners' has no attribute {name!r}")
    value = getattr(import_module(f"privpac.learners.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
