"""``privpac methods``: the ways to learn a rule, as a table."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from privpac.api.methods import list_methods as table_of_methods
from privpac.cli.app import app
from privpac.cli.options import Json, features_of
from privpac.methods.registry import named_class

__all__ = ["methods"]


@app.command()
def methods(
    rule: Annotated[str | None, typer.Option("--rule", "-r", help="Only methods for this kind of rule.")] = None,
    setting: Annotated[str | None, typer.Option(help="Only methods for these labels: agnostic or realizable.")] = None,
    neighbours: Annotated[
        str | None, typer.Option("--neighbours", help="Only methods for this relation: add-remove or replace.")
    ] = None,
    json: Json = False,
) -> None:
    """Every method of learn: what it learns and promises, what it needs, when to use it.

    privpac methods --rule threshold --neighbours replace
    """
    concept = None if rule is None else named_class(rule, features_of(["x=0:9"]), "auto")
    found = table_of_methods(concept, setting=setting, neighbours=neighbours)
    if json:
        typer.echo(found.to_json())
    else:
        Console(highlight=False).print(found.table())
