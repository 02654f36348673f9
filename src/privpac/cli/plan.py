"""``privpac plan``: how many users do I need, which error can so many be promised, which epsilon does it take?"""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer
from attrs import evolve
from rich.console import Console

from privpac import planning as library
from privpac.cli.app import working
from privpac.cli.compare import public_people
from privpac.cli.declared import SchemaFile, spec_of
from privpac.cli.jobs import command
from privpac.cli.options import (
    METHOD,
    PEOPLE,
    TREE_RULES,
    HeaderLine,
    Json,
    Names,
    Separator,
    TreeText,
    check_targets,
    csv_format,
    wants_tree,
)
from privpac.data import Integers
from privpac.errors import ParameterError
from privpac.evaluation.evaluator import plan_evaluation
from privpac.exact import rational
from privpac.parameters import DEFAULT_BETA
from privpac.planning import Plan
from privpac.planning.query import PLANNED_FAMILIES
from privpac.rules.base import RULES
from privpac.rules.hierarchies import parse_tree

SHAPE, PREDICTIONS = "Distributions", "Predictions"
_PLURALS = {"parities": "parity", "branches": "branch"}
_REFUSED = (
    "a prediction from a table is a function of that table, which no guarantee covers: say --public if it is public "
    "already, or leave --population out and let a stated model stand in"
)


@command(
    library.plan,
    leave_out="population features",
    panels={
        METHOD: "beta setting every_method delta model representation queries",
        PEOPLE: "noise",
        PREDICTIONS: "model_noise",
    },
    flags={
        "epsilon": ("--epsilon", "-e"),
        "n_users": ("--people", "-n"),
        "records_per_user": ("--records-per-user", "-m"),
        "every_method": ("--all",),
        "delta": ("--delta", "-d"),
        "queries": ("--queries", "-q"),
    },
    help={
        "epsilon": "Privacy loss, e.g. 1, 0.5 or 1/3.",
        "alpha": "Excess error wanted (0.05); of a distribution: total variation (0.1).",
        "beta": f"Failure probability allowed ({float(DEFAULT_BETA)}).",
        "n_users": "With --epsilon: which alpha can be promised; with --alpha: which epsilon.",
        "records_per_user": "Records each person holds. Repeat.",
        "setting": "Only realizable or only agnostic methods.",
        "delta": "With --tree, --model, --queries or vocabulary: the promise may fail so often, e.g. 1e-6.",
        "model": "Learning by agreement in this trust model: central, local or shuffle.",
        "model_noise": "Label noise of the stated model of predictions; --noise, or 0.2, if not given.",
        "every_method": "All methods, also the papers' that another one dominates in ordinary use.",
        "queries": "So many answers of a prediction service, instead of a rule.",
        "representation": (
            "Also selection from a public set that stands in for the class: hashed, learned, boosted, auto."
        ),
    },
)
def plan_command(
    rule: Annotated[
        str, typer.Argument(help=f"{', '.join(RULES)}; tree with --tree; {', '.join(PLANNED_FAMILIES)}; evaluation.")
    ],
    domain: Annotated[str | None, typer.Option(help="Number of values of the one feature, e.g. 1441 or 2^64.")] = None,
    feature: Annotated[
        list[str] | None, typer.Option("--feature", "-f", help="name=lo:hi, as for learn. Repeat.")
    ] = None,
    schema: SchemaFile = None,
    tree: TreeText = None,
    values: Annotated[
        int | None,
        typer.Option(
            "--values", "--bins", "-k", help="Values of a column, bins, or candidates.", rich_help_panel=SHAPE
        ),
    ] = None,
    columns: Annotated[int | None, typer.Option(help="Number of columns.", rich_help_panel=SHAPE)] = None,
    radius: Annotated[
        str | None, typer.Option(help="gaussian: the mean is at most this far from 0.", rich_help_panel=SHAPE)
    ] = None,
    variance: Annotated[
        str | None, typer.Option(help="gaussian: the variance, or the least one.", rich_help_panel=SHAPE)
    ] = None,
    max_variance: Annotated[
        str | None, typer.Option(help="gaussian: the largest variance, if it is not known.", rich_help_panel=SHAPE)
    ] = None,
    max_values: Annotated[
        int | None, typer.Option(help="vocabulary: so many values of a person count.", rich_help_panel=SHAPE)
    ] = None,
    population: Annotated[
        str | None,
        typer.Option(help="A public table as the model of predictions; needs --public.", rich_help_panel=PREDICTIONS),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="The table of --population is public.", rich_help_panel=PREDICTIONS)
    ] = False,
    user: Annotated[
        str | None,
        typer.Option("--user", "-u", help="--population: column with the person's id.", rich_help_panel=PREDICTIONS),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", "-y", help="--population: column with the 0/1 label.", rich_help_panel=PREDICTIONS),
    ] = None,
    separator: Separator = None,
    header: HeaderLine = None,
    names: Names = None,
    predict: Annotated[
        bool | None,
        typer.Option(
            "--predict/--no-predict",
            help="Simulate the model; by default where that takes a moment.",
            rich_help_panel=PREDICTIONS,
        ),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page with curves.")] = None,
    json: Json = False,
    **options: Any,
) -> None:
    """Certified numbers of users for each method, what no method can beat, a prediction and a recommendation; from
    public numbers only.

    privpac plan thresholds --domain 2^64 --records-per-user 16 --epsilon 1 --alpha 0.05

    privpac plan threshold --domain 1441 --people 500 --epsilon 1     (which error can 500 people be promised?)

    privpac plan threshold --domain 1441 --people 500 --epsilon 1 --report plan.html     (the same with curves)

    privpac plan threshold --domain 1024 --model shuffle --epsilon 1 --delta 1e-6     (by agreement, without a curator)

    privpac plan histogram --bins 100 --epsilon 1 --alpha 0.1

    privpac plan evaluation --epsilon 1 --people 2000     (how well will an error be known? --alpha: how many people?)

    privpac plan threshold --domain 1441 --queries 100 --epsilon 1 --delta 1e-6     (a service that publishes no rule)

    privpac plan tree --tree path:/:32 --epsilon 1 --delta 1e-6 --alpha 0.1 -m 1 -m 10
    """
    if rule == "evaluation":
        _plan_evaluation(options, json)
        return
    check_targets({"--report": report}, {"--population": population})
    if population is None and (public or user or label):
        raise ParameterError(
            "--public, --user and --label describe the table of --population; name it, or leave them out"
        )
    name = _singular(rule)
    options |= {"values": values, "columns": columns, "radius": radius, "variance": variance}
    options |= {"max_variance": max_variance, "max_values": max_values}
    options["records_per_user"] = options["records_per_user"] or None
    concept: Any = name
    if wants_tree(name if name in TREE_RULES or tree is not None else None, tree):
        concept = parse_tree(tree or "")
        if domain is not None:
            raise ParameterError("a tree says itself which points there are: leave out --domain")
    elif name not in PLANNED_FAMILIES and (domain is None) == (not feature and schema is None):
        raise ParameterError("give either --domain (a number of values), one or more --feature, or a --schema file")
    if options["queries"] is not None and (concept is not name or name in PLANNED_FAMILIES):
        raise ParameterError("--queries plans a service of rules such as threshold, not of trees and distributions")
    if name in PLANNED_FAMILIES and domain is not None:
        options["domain"] = _domain(domain)
    elif domain is not None:
        options["features"] = {"x": _domain(domain)}
    if feature or schema is not None:
        options["features"] = spec_of(schema, user=None, feature=feature).domains
    if population is not None:
        if not public:
            raise ParameterError(_REFUSED)
        spec = spec_of(schema, user=user, feature=feature, label=label, labelled=True)
        options["population"] = public_people(population, spec, name, csv_format(separator, header, names))
    with working("planning"):
        planned = library.plan(concept, **options)
    if tree is not None:  # a tree does not say how it was written
        columns_of = [word for column in concept.declared() for word in ("--feature", column or "COLUMN")]
        assert planned.asked is not None
        planned = evolve(planned, asked=evolve(planned.asked, source=("--tree", tree, *columns_of)))
    _show(planned, predict, report, json, bool(options.get("every_method")))


def _show(planned: Plan, predict: bool | None, report: Path | None, json: bool, every_method: bool) -> None:
    """Write the page, print the table."""
    predicted = planned.predicts if predict is None else predict
    if report is not None:
        from privpac.report.plan import write_plan_report

        with working("drawing"):
            write_plan_report(report, planned=planned)
    if json:
        with working("predicting"):
            body = planned.to_dict(predict=predicted)
        typer.echo(json_format.dumps(body, indent=2))
        return
    console = Console(highlight=False)
    with working("predicting"):
        answer = planned.answer(predict=predicted)
        table, lines = planned.table(predict=predicted), planned.words(predict=predicted)
    console.print(answer, markup=False, soft_wrap=True)
    console.print()
    console.print(table)
    if every_method and not predicted and predict is None:
        lines = [*lines, "predictions take a while for this question: --predict makes them"]
    if report is not None:
        lines = [*lines, f"report written to {report}"]
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _plan_evaluation(options: dict[str, Any], json: bool) -> None:
    """How wide will the intervals of an error be, or how many people does a width take?"""
    if options["epsilon"] is None or (options["n_users"] is None) == (options["alpha"] is None):
        raise ParameterError(
            "a plan of an evaluation needs --epsilon, and --people (how wide?) or --alpha (the half-width: how many?)"
        )
    beta = DEFAULT_BETA if options["beta"] is None else rational(options["beta"], "beta", above=0, below=1)
    planned = plan_evaluation(
        options["n_users"],
        epsilon=options["epsilon"],
        half_width=options["alpha"],
        error="0.1" if options["noise"] is None else options["noise"],
        confidence=1 - beta,
        neighbours=options["neighbours"] or "add-remove",
    )
    typer.echo(json_format.dumps(planned.to_dict(), indent=2) if json else str(planned))


def _singular(rule: str) -> str:
    """``thresholds`` as well as ``threshold``."""
    known = (*RULES, *PLANNED_FAMILIES, *TREE_RULES)
    return rule if rule in known else _PLURALS.get(rule, rule.removesuffix("s"))


def _domain(text: str) -> Integers:
    """As many whole numbers as ``1024`` or ``2^64``."""
    base, power, exponent = text.partition("^")
    try:
        size = int(base) ** min(int(exponent), 65) if power else int(base)
    except (ValueError, ZeroDivisionError):
        size = 0
    if not 1 <= size <= 1 << 64 or (power and size == 1):
        raise ParameterError(
            f"--domain takes a number of values from 1 to 2^64, such as 1441 or 2^64, got {text[:40]!r}"
        ) from None
    return Integers(0, int(size) - 1)
