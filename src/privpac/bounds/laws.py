"""Laws of ``scipy.stats``, imported on first use: that module alone takes as long to load as this package."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any

__all__ = ["binom", "nbinom"]


class _Law:
    def __init__(self, name: str) -> None:
        self._name = name

    @cached_property
    def _law(self) -> Any:
        return getattr(import_module("scipy.stats"), self._name)

    def __getattr__(self, method: str) -> Any:
        return getattr(self._law, method)

    def __call__(self, *parameters: Any) -> Any:
        return self._law(*parameters)


binom: Any = _Law("binom")
nbinom: Any = _Law("nbinom")
