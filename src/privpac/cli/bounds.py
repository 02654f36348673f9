"""``privpac bounds``: the papers' tables of rates, with the users they mean at your numbers."""

from __future__ import annotations

import json as json_format
from typing import Annotated

import typer
from rich.console import Console

from privpac.cli.app import app, working
from privpac.cli.options import Json, NeighboursOption
from privpac.errors import ParameterError
from privpac.exact import dyadic_base, rational
from privpac.mechanisms.release_test import smallest_K
from privpac.papers.rates import TABLES, table
from privpac.parameters import DEFAULT_BETA, read_epsilon


@app.command("bounds")
def bounds_command(
    name: Annotated[str, typer.Argument(help=f"Which table: {', '.join(TABLES)}.")],
    epsilon: Annotated[str, typer.Option("--epsilon", "-e", help="Privacy loss.")] = "1",
    delta: Annotated[str, typer.Option("--delta", "-d", help="For (epsilon, delta)-DP.")] = "1e-6",
    alpha: Annotated[str, typer.Option(help="Excess error, or distance of distributions.")] = "0.1",
    beta: Annotated[str, typer.Option(help="Failure probability allowed.")] = str(float(DEFAULT_BETA)),
    records_per_user: Annotated[int, typer.Option("--records-per-user", "-m", help="Records each person holds.")] = 16,
    size: Annotated[str, typer.Option(help="Number of rules, e.g. 1024 or 2^20.")] = "2^20",
    vc: Annotated[int, typer.Option(help="VC dimension.")] = 1,
    categories: Annotated[
        int, typer.Option(help="Values of a discrete distribution.", rich_help_panel="Distributions")
    ] = 4,
    dimension: Annotated[
        int, typer.Option(help="Attributes or coordinates of a distribution.", rich_help_panel="Distributions")
    ] = 2,
    neighbours: NeighboursOption = "add-remove",
    json: Json = False,
) -> None:
    """The papers' tables of rates with certified numbers of users, from public numbers only.

    privpac bounds 002-1 --epsilon 1 --alpha 0.1 --records-per-user 16 --size 2^20
    """
    with working("computing"):
        rates = table(
            name,
            epsilon=epsilon,
            delta=delta,
            alpha=alpha,
            beta=beta,
            records_per_user=records_per_user,
            size=_size(size),
            vc=vc,
            categories=categories,
            dimension=dimension,
            neighbours=neighbours,
            ladder=_ladder(epsilon, delta) if name == "002-2" else None,
        )
    if json:
        typer.echo(json_format.dumps(rates.to_dict(), indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False)
    console.print(rates.table())
    for line in rates.notes:
        console.print(line, markup=False, soft_wrap=True)


def _size(text: str) -> int:
    base, power, exponent = text.partition("^")
    if not (base.isdecimal() and (not power or exponent.isdecimal())) or len(base) > 160 or len(exponent) > 4:
        raise ParameterError(f"--size takes a number of rules such as 1024 or 2^20, got {text[:40]!r}")
    return int(base) ** min(int(exponent), 600) if power else int(base)


def _ladder(epsilon: str, delta: str) -> int | None:
    d = rational(delta, "delta", minimum=0, below=1)
    return int(smallest_K(dyadic_base(read_epsilon(epsilon) / 3), d / 2)) if d else None
