"""``privpac protocol demo``: hundreds of simulated devices in one command; ``simulate``: how far would people agree?"""

from __future__ import annotations

import json as json_format
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from privpac.agreement.tasks import KINDS
from privpac.cli.app import working
from privpac.cli.options import (
    METHOD,
    Features,
    HeaderLine,
    Json,
    Label,
    Names,
    Separator,
    User,
    check_targets,
    csv_options,
    features_of,
    table_argument,
)
from privpac.cli.protocol_commands import roles
from privpac.cli.protocol_commands.base import protocol, task_parameters
from privpac.concepts.named import RULES, rule_class
from privpac.data import Domain, UserData
from privpac.errors import ParameterError
from privpac.exact import rational
from privpac.guarantee import positive_int
from privpac.learners.agreement.simulate import simulate_agreement
from privpac.planning.models.standard_models import standard_population
from privpac.protocols.demo import Demo
from privpac.protocols.demo import demo as run_demo
from privpac.report.protocol import write_demo_report

__all__ = ["demo", "roles", "simulate"]

REFUSED = (
    "this shows how people's own records vote, which no guarantee covers: say --public if the table is public already, "
    "or leave the table out and let made-up people stand in"
)
_MOST_RECORDS = 1 << 22


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


@protocol.command()
def simulate(
    feature: Features,
    table: Annotated[str | None, table_argument("A public table; made-up people if left out.")] = None,
    public: Annotated[bool, typer.Option("--public", help="The table is public.")] = False,
    user: User = None,
    label: Label = None,
    rule: Annotated[str, typer.Option("--rule", "-r", help=f"{', '.join(KINDS)}.")] = "threshold",
    people: Annotated[int, typer.Option("--people", "-n", help="Made-up people.", min=2, max=100_000)] = 40,
    records: Annotated[int, typer.Option("--records-per-user", "-m", help="Records each made-up person holds.")] = 200,
    noise: Annotated[str, typer.Option(help="Share of wrong labels of made-up people.")] = "0.1",
    seeds: Annotated[int, typer.Option(help="Public seeds to try; a run has one.", min=1, max=1000)] = 8,
    gamma: Annotated[
        str | None, typer.Option(help="How sharply errors count in a race, e.g. 60.", rich_help_panel=METHOD)
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another public parameter of the rule: grid=20. Repeat.", rich_help_panel=METHOD),
    ] = None,
    min_records: Annotated[
        int, typer.Option(help="Records below which a device has nothing to say.", rich_help_panel=METHOD)
    ] = 1,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    json: Json = False,
) -> None:
    """How far would people agree?  On a public table, or on made-up people, before a manifest is written.

    privpac protocol simulate --feature age=0:99 --rule threshold --people 40 --records-per-user 200

    privpac protocol simulate public.parquet --public --user id --label ill --feature age=0:99
    """
    features, task = features_of(feature), task_parameters(rule, gamma, parameter or [])
    if table is None:
        if public or user or label:
            raise ParameterError("--public, --user and --label describe a table: name it, or leave them out")
        data = _made_up(rule, features, people, positive_int(records, "--records-per-user"), noise)
    else:
        if not public:
            raise ParameterError(REFUSED)
        if user is None or label is None:
            raise ParameterError("a table needs --user and --label")
        with working("reading the table"):
            written = csv_options(separator, header, names)
            data = UserData.read(table, user=user, features=features, label=label, **written)
    with working("asking everybody"):
        found = simulate_agreement(rule, data, task=task, seeds=seeds, min_records=min_records, public=True)
    if json:
        typer.echo(json_format.dumps({**asdict(found), "share": found.share, "error": found.error}, indent=1))
    else:
        typer.echo(str(found))


def _made_up(rule: str, features: dict[str, Domain], people: int, records: int, noise: str) -> UserData:
    """People of the standard model of the rule."""
    if people * records > _MOST_RECORDS:
        raise ParameterError(f"--people times --records-per-user may be at most {_MOST_RECORDS:,}")
    model = None
    if rule in RULES:
        model = standard_population(rule_class(rule, features), records_per_user=records, noise=noise)
    if model is None:
        raise ParameterError(f"there is no model of people for the rule {rule!r}: give a public table, with --public")
    return model.draw(people, np.random.default_rng(0))


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
