"""``privpac methods``: the ways to learn a rule, as a table."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from privpac.api.methods import list_methods as table_of_methods
from privpac.cli.app import app
from privpac.cli.options import Json, features_of
from privpac.methods.registry import named_class


@app.command()
def methods(
    rule: Annotated[str | None, typer.Option("--rule", "-r", help="Only methods for this kind of rule.")] = None,
    setting: Annotated[str | None, typer.Option(help="Only methods for these labels: agnostic or realizable.")] = None,
    neighbours: Annotated[
        str | None, typer.Option("--neighbours", help="Only methods for this relation: add-remove or replace.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Also results of the papers that another method dominates in ordinary use.")
    ] = False,
    json: Json = False,
) -> None:
    """The methods of learn: what each learns and promises, what it needs, when to use it.

    privpac methods --rule threshold --neighbours replace
    """
    concept = None if rule is None else named_class(rule, features_of(["x=0:9"]), "auto")
    listed = table_of_methods(concept, setting=setting, neighbours=neighbours, all=every)
    if json:
        typer.echo(listed.to_json())
    else:
        Console(highlight=False).print(listed.table())
