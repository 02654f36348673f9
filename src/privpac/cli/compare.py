"""``privpac compare``: what the methods cost, on public or generated people."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from privpac.cli.app import working
from privpac.cli.declared import FurtherSchema, spec_of
from privpac.cli.jobs import command
from privpac.cli.options import (
    METHOD,
    HeaderLine,
    Json,
    Label,
    LabelMap,
    Names,
    OnInvalidLabelOption,
    OnInvalidOption,
    RuleOption,
    Separator,
    User,
    check_targets,
    csv_format,
    table_argument,
)
from privpac.data import UserData
from privpac.data.readers import AS_USUAL, CsvFormat
from privpac.data.spec import TableSpec
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours, one_of
from privpac.planning.comparison import STANDARD, Comparison, all_contenders, named_contenders
from privpac.planning.comparison import compare as compare_methods
from privpac.rules.named import default_rule, rule_class
from privpac.rules.populations import Population, generated_population, public_population

MEASURING, GENERATED = "Measuring", "Generated people"

_REFUSED = (
    "compare shows errors and the best rule of the table itself, which no guarantee covers: say --public if this table "
    "is public already, "
    "or leave the table out and compare on --generated people"
)


@command(
    compare_methods,
    panels={MEASURING: "runs seed", METHOD: "delta cap"},
    flags={
        "epsilon": ("--epsilon", "-e"),
        "methods": ("--method",),
        "n_users": ("--people", "-n"),
        "delta": ("--delta", "-d"),
    },
    help={
        "epsilon": "Privacy loss per person, e.g. 1 or 0.5. Repeat.",
        "methods": f"{', '.join(STANDARD)} (all of these by default), {', '.join(all_contenders())}. Repeat.",
        "n_users": "People in a data set; all of a table. Repeat.",
        "runs": "Runs on each data set of methods without an exact law.",
        "delta": "For methods that need one, such as trimmed: the promise may fail by this much.",
        "cap": "Records per person under group privacy.",
        "seed": "Seed of the drawn data sets.",
    },
)
def compare_command(
    table: Annotated[
        str | None, table_argument("A public .parquet or .csv file, or a glob of them.", show_default=False)
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="The table is public: its errors may be shown.")] = False,
    generated: Annotated[
        bool, typer.Option("--generated", help="People of the stated model instead of a table.")
    ] = False,
    user: User = None,
    label: Label = None,
    feature: Annotated[
        list[str] | None, typer.Option("--feature", "-f", help="name=lo:hi, as for learn. Repeat.")
    ] = None,
    rule: RuleOption = None,
    draws: Annotated[
        int, typer.Option(help="Data sets drawn for each number of people.", rich_help_panel=MEASURING)
    ] = 5,
    noise: Annotated[
        str | None,
        typer.Option(help="The chance that a label is wrong. Default 0.2.", rich_help_panel=GENERATED),
    ] = None,
    records_per_user: Annotated[
        int | None,
        typer.Option("--records-per-user", "-m", help="Records of each person. Default 16.", rich_help_panel=GENERATED),
    ] = None,
    on_invalid: OnInvalidOption = None,
    on_invalid_label: OnInvalidLabelOption = None,
    label_map: LabelMap = None,
    schema: FurtherSchema = None,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    report: Annotated[Path | None, typer.Option(help="Write a self-contained HTML report with a picture.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write the picture alone, as .png or .svg.", rich_help_panel=MEASURING)
    ] = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Excess error of the methods at the same epsilon per person, on a public table or generated people.

    privpac compare flights.parquet --public --user tailnum --label late --feature dep_delay=-60:300 --epsilon 1

    privpac compare --generated --noise 0.1 --records-per-user 16 --people 50 --people 200 --epsilon 1
    """
    if plot is not None and plot.suffix.lower() not in (".png", ".svg"):
        raise ParameterError(f"--plot writes .png or .svg, got {str(plot)!r}")
    one_of(Neighbours, options["neighbours"], "neighbours")
    named_contenders(options["methods"] or STANDARD)  # unknown names are refused before the table is read
    check_targets({"--report": report, "--plot": plot}, {"the table": table, "--schema": schema})
    options |= {"methods": options["methods"] or None, "n_users": options["n_users"] or None, "draws": draws}
    if generated:
        if table is not None or public or user or label or feature or rule or label_map or schema:
            raise ParameterError(
                "--generated people have one column x and a cut: leave out the table and what belongs to it"
            )
        model: dict[str, Any] = {"noise": noise, "records_per_user": records_per_user}
        people = generated_population(**{name: value for name, value in model.items() if value is not None})
        options["n_users"] = options["n_users"] or [100]
    else:
        if noise is not None or records_per_user is not None:
            raise ParameterError("--noise and --records-per-user describe --generated people; a table has its own")
        reading: dict[str, Any] = {"on_invalid": on_invalid, "on_invalid_label": on_invalid_label}
        reading |= {"label": label, "label_map": label_map}
        spec = None if not public else spec_of(schema, user=user, feature=feature, labelled=True, **reading)
        people = public_people(table, spec, rule, csv_format(separator, header, names))
    with working("comparing"):
        comparison = compare_methods(people, **options)
    _show(comparison, report, plot, json)


def _show(comparison: Comparison, report: Path | None, plot: Path | None, json: bool) -> None:
    """Write the page and the picture, print the tables."""
    if report is not None or plot is not None:
        from privpac.report.compare import write_comparison, write_comparison_plot

        if report is not None:
            write_comparison(comparison, report)
        if plot is not None:
            write_comparison_plot(comparison, plot)
    if json:
        typer.echo(json_format.dumps(comparison.to_dict(), indent=2))
        return
    console = Console(highlight=False)
    console.print(comparison.headline(), markup=False, soft_wrap=True)
    for grid in comparison.tables():
        console.print(grid)
    written = [
        f"{name} written to {path}" for name, path in (("report", report), ("picture", plot)) if path is not None
    ]
    for line in (*comparison.notes(), *written):
        console.print(line, markup=False, soft_wrap=True)


def public_people(
    table: str | None, spec: TableSpec | None, rule: str | None, written: CsvFormat = AS_USUAL
) -> Population:
    """The people of a table declared public; nothing of it is read before that is said (``spec`` is None)."""
    if table is None:
        raise ParameterError("name a public table (with --public), or compare on --generated people")
    if spec is None:
        raise ParameterError(_REFUSED)
    if spec.user is None:
        raise ParameterError("--user is missing: a table needs --user, --label and --feature, or a --schema file")
    concept = rule_class(rule or default_rule(spec.domains), spec.domains)
    with working("reading the table"):
        data = UserData.of_files(table, spec, written)
    return public_population(data, concept, name=Path(table).name)
