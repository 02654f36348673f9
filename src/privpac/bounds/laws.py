"""Laws of ``scipy.stats``, imported on first use: that module alone takes as long to load as this package."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["binom", "nbinom"]


class _Law:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        found = getattr(getattr(import_module("scipy.stats"), self._name), method)
        setattr(self, method, found)
        return found

    def __call__(self, *parameters: Any) -> Any:
        return getattr(import_module("scipy.stats"), self._name)(*parameters)


binom: Any = _Law("binom")
nbinom: Any = _Law("nbinom")
