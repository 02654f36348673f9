"""``privpac user-level``: what an item-level algorithm promises about people, and how it would have to be run."""

from __future__ import annotations

import json as json_format
from typing import Annotated

import typer

from privpac.cli.app import app
from privpac.cli.options import Epsilon, Json, NeighboursOption
from privpac.guarantee import Guarantee, Unit
from privpac.methods.user_level import STRATEGIES, ItemAlgorithm


@app.command(name="user-level")
def user_level(
    item_epsilon: Annotated[str, typer.Option("--item-epsilon", help="What the algorithm promises about one record.")],
    epsilon: Epsilon,
    item_delta: Annotated[str, typer.Option("--item-delta", help="Its delta, if any.")] = "0",
    delta: Annotated[str, typer.Option("--delta", "-d", help="What may be promised per person.")] = "0",
    strategy: Annotated[str, typer.Option("--strategy", help=f"{', '.join(STRATEGIES)}.")] = "auto",
    max_records: Annotated[int | None, typer.Option("--max-records", help="At most so many records a person.")] = None,
    neighbours: NeighboursOption = "add-remove",
    json: Json = False,
) -> None:
    """How an algorithm that protects single records can protect people; pp.at_user_level runs it.

    privpac user-level --item-epsilon 0.25 --epsilon 1
    """
    item = Guarantee(item_epsilon, item_delta, unit=Unit.ITEM, neighbours=neighbours)
    algorithm = ItemAlgorithm(len, item, epsilon, delta, strategy_named=strategy, max_records=max_records)
    if json:
        rows = [
            {"strategy": one.name, "records": one.records, "rate": str(one.rate), "guarantee": one.guarantee.to_dict()}
            for one in algorithm.strategies
        ]
        typer.echo(
            json_format.dumps(
                {"chosen": algorithm.strategy.name, "because": algorithm.reason, "strategies": rows}, indent=1
            )
        )
        return
    typer.echo(f"{algorithm.strategy}\nchosen because: {algorithm.reason}")
