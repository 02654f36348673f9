"""What running the command in this process gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

__all__ = ["Command", "Run"]


class Run(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Run]
