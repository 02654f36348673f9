"""One method of a comparison, and what all of them share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from privpac.data import UserData
from privpac.guarantee import Neighbours
from privpac.planning.comparison.population import Floats64, Population

__all__ = ["Contender", "Setting", "runs_in_words"]


@dataclass(frozen=True, eq=False)
class Setting:
    """What all contenders share."""

    population: Population
    epsilons: tuple[Fraction, ...]
    delta: Fraction
    cap: int
    runs: int
    seed: int
    peers: Path | None = None
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    sizes: tuple[int, ...] = ()
    """The numbers of users that will be drawn."""


@dataclass(frozen=True)
class Contender:
    """One method: who is protected, how it is measured, and the measurement: excess by (epsilon, data set, run)."""

    name: str
    about: str
    how: str | Callable[[Setting], str]
    """In words, how it is measured."""
    promise: Callable[[Setting, Fraction], str]
    run: Callable[[Setting, Sequence[UserData]], Floats64]
    ready: Callable[[Setting], str | None] = lambda setting: None
    """Why it cannot run here, or None."""
    family: str = ""
    """The name that stands for several contenders together."""


def runs_in_words(setting: Setting) -> str:
    """How a method without an affordable law is measured."""
    return f"{setting.runs} runs a data set"
