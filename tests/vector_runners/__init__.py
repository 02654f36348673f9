"""Runners of the vector files, found by name.

A module ``<file stem>.py`` or ``<file stem>_<anything>.py`` in this folder exposes ``RUNNERS``: kind -> function.  A
runner takes the case, or the case and the whole file (for keys and notes shared by its cases), and asserts.  The kind
of a case is its section's name; in the sections ``cases`` and ``vectors`` it is the case's own ``kind`` or ``op``.
Sections that are objects are one case.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from attrs import frozen

from privpac.exact import Ball

__all__ = ["Case", "agrees", "cases", "runners"]

Runner = Callable[..., None]
_ABOUT = {"about", "conventions", "format", "note", "notes", "seed", "seed_file", "set", "source", "spec"}
_MIXED = {"cases", "vectors"}


@frozen(slots=False)
class Case:
    """One case of a vector file."""

    stem: str
    kind: str
    index: int
    value: Any
    file: Any

    def __str__(self) -> str:
        return f"vector-{self.stem}-{self.kind}-{self.index}"

    def run(self, runner: Runner) -> None:
        wants_file = len(inspect.signature(runner).parameters) > 1
        runner(self.value, self.file) if wants_file else runner(self.value)


def cases(path: Path) -> Iterator[Case]:
    """The cases of one file, in its order; indices count within a kind."""
    file = json.loads(path.read_text())
    seen: dict[str, int] = {}
    for section, value in [("cases", file)] if isinstance(file, list) else file.items():
        if section in _ABOUT or not isinstance(value, (list, dict)):
            continue
        for case in value if isinstance(value, list) else [value]:
            kind = section
            if section in _MIXED:
                kind = case.get("kind") or case["op"]
            yield Case(path.stem, kind, seen.setdefault(kind, 0), case, file)
            seen[kind] += 1


def runners(stem: str) -> dict[str, Runner]:
    """All runners for one file stem."""
    out: dict[str, Runner] = {}
    for path in sorted(Path(__file__).parent.glob(f"{stem}*.py")):
        if path.stem != stem and not path.stem.startswith(f"{stem}_"):
            continue
        module = importlib.import_module(f"{__name__}.{path.stem}")
        for kind, runner in getattr(module, "RUNNERS", {}).items():
            if kind in out and out[kind] is not runner:
                raise RuntimeError(f"two runners for {stem} {kind}")
            out[kind] = runner
    return out


def agrees(value: Ball | Fraction, printed: str, digits: int = 38) -> bool:
    """Whether an enclosure lies within ``10**-digits`` (relative) of a printed number; a printed 0 means exactly 0."""
    expected = Fraction(printed)
    lo, hi = (value.lo, value.hi) if isinstance(value, Ball) else (value, value)
    margin = abs(expected) / 10**digits if expected else Fraction(1, 10**60)
    return expected - margin <= lo and hi <= expected + margin
