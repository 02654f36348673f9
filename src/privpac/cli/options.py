"""Options that several commands share, and the checks of files that come before any spend."""

from __future__ import annotations

import csv
import glob
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.data import Domain, parse_feature
from privpac.data.readers import CsvFormat, expand
from privpac.errors import ParameterError
from privpac.lazy import need
from privpac.ledger import BudgetLedger
from privpac.methods.registry import flag
from privpac.rules.base import RULES
from privpac.rules.hierarchies import VC1Tree, parse_tree

TREE_RULES = ("branch", "tree")
"""Names of the rule that a tree has."""

METHOD, PEOPLE, TABLE, TREES = "The method", "What is publicly known of the people", "Reading the table", "Hierarchies"
"""Groups of options that ``--help-all`` shows."""


def _there(ctx: typer.Context, path: str | None) -> str | None:
    """Say that there is no such table before anything else is looked at; addresses are left to who reads them."""
    if path is not None and not ctx.resilient_parsing and "://" not in path and not os.path.isdir(path):
        expand(path)
    return path


def table_argument(text: str, **settings: Any) -> Any:
    """A table that is read; the first thing to go wrong is that there is none."""
    return typer.Argument(help=text, callback=_there, is_eager=True, **settings)


TableArgument = Annotated[str, table_argument("A .parquet or .csv file, or a glob of them.")]
Tables = Annotated[str, table_argument("A .parquet or .csv file, a glob of them, or a folder of .parquet files.")]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator",
        help="Of a CSV file: what separates its fields, such as ';' or tab. Default: a comma.",
        show_default=False,
        rich_help_panel=TABLE,
    ),
]
HeaderLine = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of a CSV file names its columns. Default: it does, and must look like it.",
        show_default=False,
        rich_help_panel=TABLE,
    ),
]
Names = Annotated[
    str | None,
    typer.Option(
        "--names",
        help="With --no-header: the names of all columns, in order: a,b,c.",
        show_default=False,
        rich_help_panel=TABLE,
    ),
]
Ledger = Annotated[
    Path | None, typer.Option("--ledger", help="Budget ledger to spend from (made with: privpac ledger new).")
]
LedgerHead = Annotated[
    str | None,
    typer.Option(
        "--ledger-head",
        help="Spend only if nobody has spent since: the head that ledger verify showed, or its first 12 digits.",
        show_default=False,
        rich_help_panel=METHOD,
    ),
]
Report = Annotated[Path | None, typer.Option("--report", help="Write a self-contained HTML report.")]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        "-f",
        help=(
            "name=lo:hi (whole numbers or dates), name=lo:hi:step (grid), either with ~low:high where most values lie, "
            "name={a,b,c}, or name alone (any number; with --schema its domain there). Repeat."
        ),
    ),
]
User = Annotated[
    str | None,
    typer.Option("--user", "-u", help="Column with the person's id. Without it single records are protected."),
]
Label = Annotated[str | None, typer.Option("--label", "-y", help="Column with the 0/1 label.")]
Epsilon = Annotated[str, typer.Option("--epsilon", "-e", help="Privacy loss, e.g. 1, 0.5 or 1/3.")]
NeighboursOption = Annotated[
    str,
    typer.Option(
        "--neighbours", help="add-remove (the number of people stays private) or replace.", rich_help_panel=METHOD
    ),
]
People = Annotated[
    int | None,
    typer.Option("--people", "-n", help="A rough, publicly known number of people.", rich_help_panel=PEOPLE),
]
PeopleAre = Annotated[
    str | None,
    typer.Option(
        "--people-are",
        help="alike (one rule fits everybody), differ (more than x explains) or heavy (those with many records do).",
        rich_help_panel=PEOPLE,
    ),
]
RecordsPerUser = Annotated[
    int | None,
    typer.Option(
        "--records-per-user", "-m", help="Records each person is publicly known to hold.", rich_help_panel=PEOPLE
    ),
]
MaxRecords = Annotated[
    int | None,
    typer.Option(
        "--max-records",
        help="Public cap on the records read per person. Not needed for privacy.",
        rich_help_panel=TABLE,
    ),
]
OnInvalidOption = Annotated[
    str | None,
    typer.Option(
        "--on-invalid",
        help=(
            "Values outside their domain: raise refuses the table (the default), drop leaves the record out, clamp "
            "moves numbers to the nearest end. Missing values: drop and clamp leave the record out."
        ),
        show_default=False,
        rich_help_panel=TABLE,
    ),
]
OnInvalidLabelOption = Annotated[
    str | None,
    typer.Option(
        "--on-invalid-label",
        help="raise (the default), or drop records whose label is missing or none of the named ones.",
        show_default=False,
        rich_help_panel=TABLE,
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        "--positive",
        help="The label value that the rule predicts, such as dead; every other value is the opposite.",
        rich_help_panel=TABLE,
    ),
]
LabelMap = Annotated[
    list[str] | None,
    typer.Option("--label-map", help="Other label values: yes=1. Repeat for each value.", rich_help_panel=TABLE),
]
Classes = Annotated[
    str | None,
    typer.Option(
        "--classes",
        help="The labels where there are more than two: a,b,c. For small trees.",
        rich_help_panel=TABLE,
        show_default=False,
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        help="auto, memory, stream (Parquet larger than memory, also a folder of it) or spark; trees need memory.",
        rich_help_panel=TABLE,
    ),
]
RULE_HELP = f"{', '.join(RULES)}. Default: threshold, or stump for several columns and for unordered categories."
RuleOption = Annotated[str | None, typer.Option("--rule", "-r", help=RULE_HELP, show_default=False)]
Delta = Annotated[
    str | None,
    typer.Option(
        "--delta",
        "-d",
        help="The promise may fail with this probability, e.g. 1e-6. A scorecard and an open vocabulary need it.",
        rich_help_panel=TREES,
    ),
]
TreeText = Annotated[
    str | None,
    typer.Option(
        "--tree",
        "-t",
        help=(
            "A hierarchy: path:/ or path:/:16, prefix:1,3,4, chars:6, ip, ip6, points, thresholds:lo:hi, branch:lo:hi, "
            "taxonomy:file.csv."
        ),
        rich_help_panel=TREES,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


def features_of(texts: list[str] | None) -> dict[str, Domain]:
    """Parsed ``--feature`` options."""
    parsed = [parse_feature(text) for text in texts or []]
    if not parsed:
        raise ParameterError("name at least one feature: --feature glucose=40:400, or a --schema file")
    names = [name for name, _ in parsed]
    if len(set(names)) != len(names):
        raise ParameterError("a feature is named twice")
    return dict(parsed)


def wants_tree(rule: str | None, tree: str | None) -> bool:
    """Whether ``--rule`` and ``--tree`` ask for a node of a tree; they must agree."""
    if tree is None and rule in TREE_RULES:
        raise ParameterError(f"--rule {rule} needs --tree, such as --tree path:/ or --tree ip")
    if tree is not None and rule not in (None, *TREE_RULES):
        raise ParameterError(f"--tree goes with --rule branch, got --rule {rule}")
    return tree is not None


def tree_of(text: str, features: list[str]) -> VC1Tree:
    """The tree of ``--tree`` on the columns of ``--feature``; a column named alone has the tree's own domain."""
    tree = parse_tree(text)
    own = list(tree.declared().values())
    named = [(*parse_feature(feature), "=" in feature) for feature in features]
    names = [name for name, _, _ in named]
    if len(named) != len(own) or len(set(names)) != len(names):
        raise ParameterError(
            f"this tree reads {'one column' if len(own) == 1 else f'{len(own)} columns'}: give as many --feature, each "
            "once"
        )
    columns: dict[str, Domain] = {}
    for (name, domain, declared), fixed in zip(named, own):
        if declared and not (fixed is not None and fixed.open) and domain != fixed:
            raise ParameterError(f"--tree and --feature declare different domains for {name!r}; write --feature {name}")
        columns[name] = domain if declared or fixed is None else fixed
    return tree.named(names, columns)


def with_settings(options: dict[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The options with the parameters of ``--set`` beside them; a parameter that has an option is given once."""
    twice = next((name for name in settings if options.get(name) is not None), None)
    if twice is not None:
        raise ParameterError(f"{twice} is given twice, by --set and by {flag(twice)}; give it once")
    return options | dict(settings)


def label_map_of(texts: list[str] | None) -> dict[str, int] | None:
    """Parsed ``--label-map`` options: ``yes=1`` and ``no=0``."""
    pairs = [text.rpartition("=") for text in texts or []]
    if any(not name or value not in ("0", "1") for name, _, value in pairs):
        raise ParameterError("a label map is written value=0 or value=1, such as --label-map yes=1 --label-map no=0")
    return {name: int(value) for name, _, value in pairs} or None


def csv_format(separator: str | None, header: bool | None, names: str | None) -> CsvFormat:
    """How a CSV file is written."""
    listed = None if names is None else [name.strip() for name in next(csv.reader([names]), [])]
    return CsvFormat(separator, header, listed)


def open_ledger(path: Path, head: str | None = None) -> BudgetLedger:
    """An existing ledger, with the ``head`` that it must still have; one is never made by the way."""
    if not path.exists():
        raise ParameterError(
            f"there is no ledger {str(path)!r}; make one with: privpac ledger new {path} --epsilon 2 --dataset NAME"
        )
    return BudgetLedger.open(path, expected_head=head)


def spending_ledger(path: Path | None, head: str | None) -> BudgetLedger | None:
    """The ledger that ``--ledger`` and ``--ledger-head`` name."""
    if path is None and head is not None:
        raise ParameterError("--ledger-head is the head of a ledger: name its file with --ledger")
    return None if path is None else open_ledger(path, head)


def check_targets(targets: Mapping[str, Path | None], sources: Mapping[str, str | Path | None]) -> None:
    """Files to be written: their places exist, can be written to, and are neither each other nor a file that is
    read."""
    read = {name: _real(file) for name, path in sources.items() if path is not None for file in _matching(path)}
    seen: dict[str, str] = {}
    for name, path in targets.items():
        if path is None:
            continue
        if name in ("--report", "--plot"):
            need("matplotlib", name)
        clash = next((other for other, place in {**read, **seen}.items() if place == _real(path)), None)
        if clash is not None:
            raise ParameterError(f"{name} and {clash} name the same file {str(path)!r}; choose another place")
        seen[name] = _real(path)
        if path.is_dir():
            raise ParameterError(f"{name} must name a file, but {str(path)!r} is a folder")
        if name == "--report" and path.suffix.lower() not in (".html", ".htm"):
            raise ParameterError(
                f"a report is saved as .html or .htm, got {path.name[-40:]!r}; a browser prints it as PDF"
            )
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise ParameterError(
                f"{name} cannot be written to {str(path)!r}: {error.strerror}; choose a writable place"
            ) from None


def _matching(path: str | Path) -> list[str]:
    return [str(path), *glob.glob(str(path), recursive=True)]


def _real(path: str | Path) -> str:
    return os.path.realpath(path)
