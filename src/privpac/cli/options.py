"""Options that several commands share, and the classes of rules by name."""

from __future__ import annotations

from typing import Annotated

import typer

from privpac.data import Domain, parse_feature
from privpac.errors import ParameterError

__all__ = ["Epsilon", "Features", "Json", "Label", "NeighboursOption", "Rule", "User", "features_of"]

Features = Annotated[
    list[str],
    typer.Option(
        "--feature", "-f", help="name=lo:hi (whole numbers), name=lo:hi:step (grid), name={a,b,c}, or name alone (any number). Repeat."
    ),
]
User = Annotated[str | None, typer.Option("--user", "-u", help="Column with the person's id. Without it single records are protected.")]
Label = Annotated[str, typer.Option("--label", "-y", help="Column with the 0/1 label.")]
Epsilon = Annotated[str, typer.Option("--epsilon", "-e", help="Privacy loss, e.g. 1, 0.5 or 1/3.")]
NeighboursOption = Annotated[str, typer.Option("--neighbours", help="add-remove (the number of people stays private) or replace.")]
Rule = Annotated[
    str,
    typer.Option(
        "--rule",
        "-r",
        help="threshold, threshold-below, threshold-both, stump, point, interval, rectangle, conjunction, disjunction, parity, decision-list, halfspace.",
    ),
]
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
