"""Options that several commands share, and the checks of files that come before any spend."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from privpac.concepts.named import RULES
from privpac.data import Domain, parse_feature
from privpac.errors import ParameterError
from privpac.ledger import BudgetLedger

__all__ = [
    "Epsilon",
    "Features",
    "Json",
    "Label",
    "NeighboursOption",
    "Rule",
    "User",
    "check_targets",
    "features_of",
    "label_map_of",
    "open_ledger",
]

Features = Annotated[
    list[str],
    typer.Option(
        "--feature",
        "-f",
        help="name=lo:hi (whole numbers or dates), name=lo:hi:step (grid), name={a,b,c}, or name alone (any number). Repeat.",
    ),
]
User = Annotated[str | None, typer.Option("--user", "-u", help="Column with the person's id. Without it single records are protected.")]
Label = Annotated[str, typer.Option("--label", "-y", help="Column with the 0/1 label.")]
Epsilon = Annotated[str, typer.Option("--epsilon", "-e", help="Privacy loss, e.g. 1, 0.5 or 1/3.")]
NeighboursOption = Annotated[str, typer.Option("--neighbours", help="add-remove (the number of people stays private) or replace.")]
Rule = Annotated[str, typer.Option("--rule", "-r", help=f"{', '.join(RULES)}.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


def features_of(texts: list[str]) -> dict[str, Domain]:
    """Parsed ``--feature`` options."""
    parsed = [parse_feature(text) for text in texts]
    if not parsed:
        raise ParameterError("name at least one feature: --feature glucose=40:400")
    names = [name for name, _ in parsed]
    if len(set(names)) != len(names):
        raise ParameterError("a feature is named twice")
    return dict(parsed)


def label_map_of(texts: list[str] | None) -> dict[str, int] | None:
    """Parsed ``--label-map`` options: ``yes=1`` and ``no=0``."""
    pairs = [text.rpartition("=") for text in texts or []]
    if any(not name or value not in ("0", "1") for name, _, value in pairs):
        raise ParameterError("a label map is written value=0 or value=1, such as --label-map yes=1 --label-map no=0")
    return {name: int(value) for name, _, value in pairs} or None


def open_ledger(path: Path) -> BudgetLedger:
    """An existing ledger; one is never made by the way."""
    if not path.exists():
        raise ParameterError(f"there is no ledger {str(path)!r}; make one with: privpac ledger new {path} --epsilon 2 --dataset NAME")
    return BudgetLedger.open(path)


def check_targets(targets: Mapping[str, Path | None], sources: Mapping[str, str | Path | None]) -> None:
    """Files to be written: their places exist, can be written to, and are neither each other nor a file that is read."""
    read = {name: _real(found) for name, path in sources.items() if path is not None for found in _matching(path)}
    seen: dict[str, str] = {}
    for name, path in targets.items():
        if path is None:
            continue
        clash = next((other for other, place in {**read, **seen}.items() if place == _real(path)), None)
        if clash is not None:
            raise ParameterError(f"{name} and {clash} name the same file {str(path)!r}; choose another place")
        seen[name] = _real(path)
        if path.is_dir():
            raise ParameterError(f"{name} must name a file, but {str(path)!r} is a folder")
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise ParameterError(f"{name} cannot be written to {str(path)!r}: {error.strerror}; choose a writable place") from None


def _matching(path: str | Path) -> list[str]:
    return [str(path), *glob.glob(str(path), recursive=True)]


def _real(path: str | Path) -> str:
    return os.path.realpath(path)
