"""``privpac learn``: a table in, a private rule out."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.api.learn import prepare, prepare_default, release_prepared
from privpac.api.tables import choose_engine, read_users
from privpac.cli.app import app, working
from privpac.cli.declared import SchemaFile, table_facts
from privpac.cli.deliver import check_recovery, deliver
from privpac.cli.options import (
    METHOD,
    Classes,
    Delta,
    Engine,
    Epsilon,
    Features,
    HeaderLine,
    Json,
    Label,
    LabelMap,
    Ledger,
    LedgerHead,
    MaxRecords,
    Names,
    NeighboursOption,
    OnInvalid,
    OnInvalidLabel,
    People,
    PeopleAre,
    Positive,
    RecordsPerUser,
    Report,
    Separator,
    Tables,
    TreeText,
    User,
    check_targets,
    csv_options,
    spending_ledger,
    tree_of,
    wants_tree,
    with_settings,
)
from privpac.data import UserData
from privpac.ledger import check_room
from privpac.methods.registry import METHODS, named_class
from privpac.methods.settings import read_settings
from privpac.planning import Plan
from privpac.result import Released
from privpac.rules.base import ConceptClass
from privpac.rules.hierarchies import VC1Tree
from privpac.rules.named import RULES

__all__ = ["learn"]

EVALUATION = "How good the rule is"


@app.command()
def learn(
    table: Tables,
    epsilon: Epsilon,
    label: Label = None,
    feature: Features = None,
    user: User = None,
    schema: SchemaFile = None,
    rule: Annotated[
        str | None,
        typer.Option(
            "--rule",
            "-r",
            help=(
                f"{', '.join(RULES)}; branch for --tree. Default by the number of columns: a cut, the best cut of two "
                "to four, a small tree of more."
            ),
            show_default=False,
        ),
    ] = None,
    tree: TreeText = None,
    delta: Delta = None,
    setting: Annotated[
        str,
        typer.Option(help="agnostic (labels may be wrong) or realizable (some rule is right).", rich_help_panel=METHOD),
    ] = "agnostic",
    method: Annotated[str, typer.Option(help=f"auto, {', '.join(METHODS)}.")] = "auto",
    neighbours: NeighboursOption = "add-remove",
    max_records: MaxRecords = None,
    people: People = None,
    records_per_user: RecordsPerUser = None,
    people_are: PeopleAre = None,
    evaluate: Annotated[
        str | None,
        typer.Option(
            help="Share of the people set aside to measure how good the rule is, such as 1/5.",
            rich_help_panel=EVALUATION,
        ),
    ] = None,
    certify: Annotated[
        str | None,
        typer.Option(
            help="With --evaluate: share of epsilon, such as 1/4, for how far from the best rule it can be.",
            rich_help_panel=EVALUATION,
        ),
    ] = None,
    ids: Annotated[
        str,
        typer.Option(
            help="With --evaluate under replace: private, or public (known to all, and fixed).",
            rich_help_panel=EVALUATION,
        ),
    ] = "private",
    confidence: Annotated[
        str, typer.Option(help="With --evaluate: of each interval on its own.", rich_help_panel=EVALUATION)
    ] = "0.95",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any other parameter of the method: name=value, such as radius=1/16. Repeat.",
            show_default=False,
            rich_help_panel=METHOD,
        ),
    ] = None,
    on_invalid: OnInvalid = None,
    on_invalid_label: OnInvalidLabel = None,
    label_map: LabelMap = None,
    positive: Positive = None,
    classes: Classes = None,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    engine: Engine = "auto",
    ledger: Ledger = None,
    ledger_head: LedgerHead = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the released rule as JSON.")] = None,
    report: Report = None,
    json: Json = False,
) -> None:
    """Learn one rule with differential privacy per person.

    privpac learn visits.parquet --user patient --label event --feature glucose=40:400 --epsilon 1

    privpac learn visits.parquet --user patient --label event --feature glucose=40:400 --epsilon 1 --evaluate 1/5

    privpac learn visits.parquet --schema visits.toml --epsilon 1 --ledger budget.db     (columns as declared in a file)

    privpac learn answers.csv --user who --label inside --feature path --tree path:/ --epsilon 1 --delta 1e-6
    """
    # All that can go wrong goes wrong here: that there is no table, parameters, places to write to, room in the ledger,
    # then what the table holds; only then is anything spent.
    concept: ConceptClass | VC1Tree | None
    if wants_tree(rule, tree):
        concept = tree_of(tree or "", feature or [])
        columns: Any = concept.columns
    else:
        columns = feature
        concept = None
    written = csv_options(separator, header, names)
    facts = table_facts(
        schema,
        user=user,
        feature=columns,
        label=label,
        labelled=True,
        on_invalid=on_invalid,
        on_invalid_label=on_invalid_label,
        label_map=label_map,
        positive=positive,
        classes=classes,
    )
    features = facts.features
    if concept is None:
        concept = None if rule is None else named_class(rule, features, method)
    options: dict[str, Any] = {
        "setting": setting,
        "method": method,
        "neighbours": neighbours,
        "max_records": max_records,
    }
    options |= {
        "public_n_users": people,
        "records_per_user": records_per_user,
        "delta": delta,
        "people": people_are,
    }
    options |= {"evaluate": evaluate, "certify": certify, "ids": ids, "confidence": confidence}
    options = with_settings(options, read_settings(method, settings or []))
    prepared = (
        prepare_default(features, epsilon=epsilon, unit=facts.unit, labels=facts.labels, **options)
        if concept is None
        else prepare(concept, epsilon=epsilon, unit=facts.unit, **options)
    )
    check_targets({"--out": out, "--report": report}, {"the table": table, "--ledger": ledger, "--schema": schema})
    book = spending_ledger(ledger, ledger_head)
    check_recovery(ledger)
    check_room(prepared.learner, book)
    engine = choose_engine(table, engine)
    bar = nullcontext if engine == "stream" else working  # streams show the rows they read
    with bar("reading the table"):
        data = read_users(table, engine=engine, **facts.reading, **written)
    planned = None
    if report is not None:
        from privpac.report import plan_for_report

        with working("planning"):
            planned = plan_for_report(concept or prepared.learner.concept, prepared.learner.guarantee)  # type: ignore[attr-defined]
    records = f" from {data.n_records:,} records" if isinstance(data, UserData) else ""
    with bar(f"learning{records}"):  # on a terminal, for the curator
        released = release_prepared(prepared, data, ledger=book)
    # From here on the rule is paid for.
    writes = {"rule": (out, released.save), "report": (report, lambda path: _report(released, path, planned))}
    deliver(released, "rule", released.to_json() if json else str(released), writes, ledger, note=not json)


def _report(released: Released, path: Path, planned: Plan | None) -> None:
    from privpac.report import write_report

    write_report(released, None, path, planned=planned)
