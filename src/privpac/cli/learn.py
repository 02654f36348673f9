"""``privpac learn``: a table in, a private rule out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from privpac.api.learn import learn as learned
from privpac.api.learn import prepare, release_prepared
from privpac.cli.jobs import Job, command
from privpac.cli.options import (
    METHOD,
    Engine,
    Json,
    Ledger,
    LedgerHead,
    Report,
    TreeText,
    tree_of,
    wants_tree,
    with_settings,
)
from privpac.methods.registry import RECOMMENDED, named_class, read_settings
from privpac.planning import Plan
from privpac.result import Released
from privpac.rules.base import RULES, ConceptClass
from privpac.rules.hierarchies import VC1Tree

EVALUATION = "How good the rule is"


@command(
    learned,
    leave_out="ledger not_before",
    also="delta public_n_users records_per_user people",
    panels={METHOD: "setting neighbours", EVALUATION: "evaluate certify ids confidence"},
    help={
        "setting": "agnostic (labels may be wrong) or realizable (some rule is right).",
        "method": f"auto, {', '.join(RECOMMENDED)}; more: privpac methods --all.",
        "evaluate": "Share of the people set aside to measure how good the rule is, such as 1/5.",
        "certify": "With --evaluate: share of epsilon, such as 1/4, for how far from the best rule it can be.",
        "ids": "With --evaluate under replace: private, or public (known to all, and fixed).",
        "confidence": "With --evaluate: of each interval on its own.",
    },
    labels=True,
    classes=True,
    engine=Engine,
)
def learn_command(
    job: Job,
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
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Any other parameter of the method: name=value, such as radius=1/16. Repeat.",
            show_default=False,
            rich_help_panel=METHOD,
        ),
    ] = None,
    ledger: Ledger = None,
    ledger_head: LedgerHead = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the released rule as JSON.")] = None,
    report: Report = None,
    purpose: Annotated[
        str | None, typer.Option("--purpose", help="With --report: what the rule is for.", rich_help_panel="Report")
    ] = None,
    contact: Annotated[
        str | None, typer.Option("--contact", help="With --report: whom to ask.", rich_help_panel="Report")
    ] = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Learn one rule with differential privacy per person.

    privpac learn visits.parquet --user patient --label event --feature glucose=40:400 --epsilon 1

    privpac learn visits.parquet --user patient --label event --feature glucose=40:400 --epsilon 1 --evaluate 1/5

    privpac learn visits.parquet --schema visits.toml --epsilon 1 --ledger budget.db     (columns as declared in a file)

    privpac learn answers.csv --user who --label inside --feature path --tree path:/ --epsilon 1 --delta 1e-6
    """
    concept: ConceptClass | VC1Tree | None = None
    if wants_tree(rule, tree):
        concept = tree_of(tree or "", job.options["feature"] or [])
        job.columns.update(concept.columns)
    spec, method = job.spec, options["method"]
    if concept is None and rule is not None:
        concept = named_class(rule, spec.domains, method)
    options = with_settings(options, read_settings(method, settings or []))
    options |= {"unit": spec.unit, "labels": spec.n_labels} | ({"features": spec.domains} if concept is None else {})
    prepared = prepare(concept, **options)

    def plan() -> Plan | None:
        from privpac.report import plan_for_report

        return plan_for_report(concept or prepared.learner.concept, prepared.learner.guarantee)  # type: ignore[attr-defined]

    def write(released: Released, path: Path, planned: Plan | None) -> None:
        from privpac.report import write_report

        said = {name: text for name, text in (("purpose", purpose), ("contact", contact)) if text}
        write_report(released, None, path, planned=planned, **said)

    job.release(
        prepared.learner,
        "rule",
        "learning",
        release=lambda _, data, ledger: release_prepared(prepared, data, ledger=ledger),
        before=plan,
        report=write,
    )
