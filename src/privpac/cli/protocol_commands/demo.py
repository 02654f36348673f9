"""``privpac protocol demo``: hundreds of simulated devices in one command."""

from __future__ import annotations

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from privpac.cli.app import working
from privpac.cli.options import Json, check_targets
from privpac.cli.protocol_commands import roles
from privpac.cli.protocol_commands.base import protocol
from privpac.exact import rational
from privpac.protocols.demo import Demo
from privpac.protocols.demo import demo as run_demo
from privpac.report.protocol import write_demo_report

__all__ = ["demo", "roles"]


@protocol.command()
def demo(
    people: Annotated[int, typer.Option(help="Simulated devices.", min=50, max=20_000)] = 500,
    records: Annotated[int, typer.Option(help="Records on each device.", min=20, max=10_000)] = 200,
    epsilon: Annotated[str, typer.Option("--epsilon", "-e", help="Of every run.")] = "1",
    seed: Annotated[int, typer.Option(help="Of the made-up people; the mechanisms draw from the system.")] = 7,
    report: Annotated[Path | None, typer.Option(help="Write a page with pictures.")] = None,
    json: Json = False,
) -> None:
    """Local, shuffled and central runs on the same made-up people, next to a learner that holds the table.

    privpac protocol demo --report demo.html
    """
    check_targets({"--report": report}, {})
    with working("running the devices"):
        found = run_demo(people, records, rational(epsilon, "epsilon", above=0), seed)
    if report is not None:
        write_demo_report(found, report)
    if json:
        typer.echo(json_format.dumps({**asdict(found), "epsilon": str(found.epsilon)}, indent=1))
        return
    _show(found)
    if report is not None:
        typer.echo(f"page written to {report}")


def _show(found: Demo) -> None:
    from rich.console import Console

    table = Table(title=f"{found.people} people with {found.records} records each; right: age > 40")
    for name in ("model", "promise", "rule", "error", "people needed", "bytes each"):
        table.add_column(name)
    for row in found.rows:
        needed = "" if row.needed is None else f"{row.needed:,}"
        said = row.rule if row.outcome == "released" else f"{row.rule} ({row.outcome})"
        table.add_row(row.model, row.guarantee, said, f"{row.error:.2f}", needed, str(row.bytes_per_person))
    Console().print(table)
    for row in found.rows:
        typer.echo(f"{row.model}: {row.saw}" + (f"; the rule was {row.support}" if row.support else ""))
