"""``privpac plan``: how many users do I need, which error can so many be promised, which epsilon does it take?"""

from __future__ import annotations

import json as json_format
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from privpac.cli.app import app, working
from privpac.cli.compare import public_people
from privpac.cli.declared import SchemaFile, spec_of
from privpac.cli.options import (
    METHOD,
    PEOPLE,
    TREE_RULES,
    HeaderLine,
    Json,
    Names,
    NeighboursOption,
    PeopleAre,
    Separator,
    TreeText,
    check_targets,
    csv_format,
    wants_tree,
)
from privpac.data import Domain, Integers
from privpac.errors import ParameterError
from privpac.evaluation.evaluator import plan_evaluation
from privpac.exact import rational
from privpac.parameters import DEFAULT_BETA
from privpac.planning import plan as ask
from privpac.planning.query import PLANNED_FAMILIES
from privpac.rules.base import RULES
from privpac.rules.hierarchies import parse_tree
from privpac.rules.named import rule_class

# ``privpac plan evaluation``: how wide will the interval be, or how many people does a width take?


def show_plan(
    epsilon: str | None, users: int | None, width: str | None, beta: str, error: str | None, neighbours: str, json: bool
) -> None:
    """The half-width of the error's intervals with ``users`` people, or the least number of people for ``width``."""
    if epsilon is None or (users is None) == (width is None):
        raise ParameterError(
            "a plan of an evaluation needs --epsilon, and --people (how wide?) or --alpha (the half-width: how many?)"
        )
    planned = plan_evaluation(
        users,
        epsilon=epsilon,
        half_width=width,
        error="0.1" if error is None else error,
        confidence=1 - rational(beta, "beta", above=0, below=1),
        neighbours=neighbours or "add-remove",
    )
    if not json:
        typer.echo(str(planned))
        return
    body: dict[str, Any] = {
        "n_users": planned.n_users,
        "sample": planned.sample,
        "population": planned.population,
        "cells": planned.cells,
    }
    body |= {name: str(getattr(planned, name)) for name in ("epsilon", "error", "confidence", "neighbours")}
    typer.echo(json_format.dumps(body, indent=2))


SHAPE, PREDICTIONS = "Distributions", "Predictions"

_PLURALS = {"parities": "parity", "branches": "branch"}
_SHAPES = {"k": "--values", "d": "--columns", "domain": "--domain"}
_SHAPES |= {"max_values": "--max-values"}
_SHAPES |= {"radius": "--radius", "variance": "--variance", "max_variance": "--max-variance"}

_REFUSED = (
    "a prediction from a table is a function of that table, which no guarantee covers: say --public if it is public "
    "already, "
    "or leave --population out and let a stated model stand in"
)


@app.command()
def plan(
    rule: Annotated[
        str, typer.Argument(help=f"{', '.join(RULES)}; tree with --tree; {', '.join(PLANNED_FAMILIES)}; evaluation.")
    ],
    epsilon: Annotated[str | None, typer.Option("--epsilon", "-e", help="Privacy loss, e.g. 1, 0.5 or 1/3.")] = None,
    people: Annotated[
        int | None,
        typer.Option(
            "--people", "-n", help="With --epsilon: which alpha can be promised; with --alpha: which epsilon."
        ),
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Number of values of the one feature, e.g. 1441 or 2^64.")] = None,
    feature: Annotated[
        list[str] | None, typer.Option("--feature", "-f", help="name=lo:hi, as for learn. Repeat.")
    ] = None,
    schema: SchemaFile = None,
    records_per_user: Annotated[
        list[int] | None, typer.Option("--records-per-user", "-m", help="Records each person holds. Repeat.")
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="Excess error wanted (0.05); of a distribution: total variation (0.1).")
    ] = None,
    beta: Annotated[str, typer.Option(help="Failure probability allowed.", rich_help_panel=METHOD)] = str(
        float(DEFAULT_BETA)
    ),
    noise: Annotated[
        str | None,
        typer.Option(help="Each label is wrong with at most this probability (thresholds).", rich_help_panel=PEOPLE),
    ] = None,
    neighbours: NeighboursOption = "",
    setting: Annotated[
        str | None, typer.Option(help="Only realizable or only agnostic methods.", rich_help_panel=METHOD)
    ] = None,
    every_method: Annotated[
        bool,
        typer.Option(
            "--all",
            help="All methods, also the papers' that another one dominates in ordinary use.",
            rich_help_panel=METHOD,
        ),
    ] = False,
    delta: Annotated[
        str | None,
        typer.Option(
            "--delta",
            "-d",
            help="With --tree, --model, --queries or vocabulary: the promise may fail so often, e.g. 1e-6.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    tree: TreeText = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Learning by agreement in this trust model: central, local or shuffle.", rich_help_panel=METHOD
        ),
    ] = None,
    representation: Annotated[
        str | None,
        typer.Option(
            help="Also selection from a public set that stands in for the class: hashed, learned, boosted, auto.",
            rich_help_panel=METHOD,
        ),
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option(
            "--queries",
            "-q",
            help="So many answers of a prediction service, instead of a rule.",
            rich_help_panel=METHOD,
        ),
    ] = None,
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
        int | None,
        typer.Option(help="vocabulary: so many values of a person count.", rich_help_panel=SHAPE),
    ] = None,
    people_are: PeopleAre = None,
    model_noise: Annotated[
        str | None,
        typer.Option(
            help="Label noise of the stated model of predictions; --noise, or 0.2, if not given.",
            rich_help_panel=PREDICTIONS,
        ),
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
        show_plan(epsilon, people, alpha, beta, noise, neighbours, json)
        return
    check_targets({"--report": report}, {"--population": population})
    name = _singular(rule)
    question: dict[str, Any] = {
        "epsilon": epsilon,
        "alpha": alpha,
        "beta": beta,
        "n_users": people,
        "noise": noise,
        "setting": setting,
    }
    question |= {
        "records_per_user": records_per_user or None,
        "neighbours": neighbours or None,
        "model": model,
        "people": people_are,
    }
    question |= {"model_noise": model_noise, "delta": delta or 0, "every_method": every_method, "queries": queries}
    question |= {"representation": representation}
    shape = {"k": values, "d": columns, "radius": radius, "variance": variance, "max_variance": max_variance}
    shape |= {"max_values": max_values}
    given: dict[str, Any] = {part: value for part, value in shape.items() if value is not None}
    if not population and (public or user or label):
        raise ParameterError(
            "--public, --user and --label describe the table of --population; name it, or leave them out"
        )
    if queries is not None and (population or name in PLANNED_FAMILIES or name in TREE_RULES or tree):
        raise ParameterError(
            "--queries plans a service of rules such as threshold: leave out --population, --tree and distributions"
        )
    if name in PLANNED_FAMILIES:
        if feature or schema or tree or population or noise:
            raise ParameterError(
                f"a {name} is described by numbers such as --values: leave out --feature, --schema, --tree, "
                "--population and --noise"
            )
        what: Any = name
        given |= {} if domain is None else {"domain": Integers(0, _size(domain) - 1)}
        _check_shape(name, given)
        question |= given
    elif given:
        raise ParameterError(
            f"{_SHAPES[next(iter(given))]} describes a distribution such as histogram or gaussian, not a rule"
        )
    elif wants_tree(name if name in TREE_RULES or tree is not None else None, tree):
        if domain or feature or schema or noise or model or population:
            raise ParameterError(
                "a tree brings its own domain: leave out --domain, --feature, --noise, --model and --population"
            )
        what = parse_tree(tree or "")
    else:
        if delta is not None and model is None and queries is None:
            raise ParameterError("--delta goes with --tree, --model or --queries; the other methods need none")
        if (domain is None) == (not feature and schema is None):
            raise ParameterError("give either --domain (a number of values), one or more --feature, or a --schema file")
        features: dict[str, Domain] = {"x": Integers(0, _size(domain or "1") - 1)}
        if domain is None:
            features = spec_of(schema, user=None, feature=feature).domains
        what = rule_class(name, features)
        if population is not None:
            if not public:
                raise ParameterError(_REFUSED)
            spec = spec_of(schema, user=user, feature=feature, label=label, labelled=True)
            question["population"] = public_people(population, spec, name, csv_format(separator, header, names))
    with working("planning"):
        result = ask(what, **question)
    if tree is not None:  # a tree does not say how it was written
        columns_of = [word for column in what.declared() for word in ("--feature", column or "COLUMN")]
        assert result.asked is not None
        result = replace(result, asked=replace(result.asked, source=("--tree", tree, *columns_of)))
    show = result.predicts if predict is None else predict
    if report is not None:
        from privpac.report.plan import write_plan_report

        with working("drawing"):
            write_plan_report(report, what, planned=result)
    if json:
        with working("predicting"):
            body = result.to_dict(predict=show)
        typer.echo(json_format.dumps(body, indent=2))
        return
    console = Console(highlight=False)
    with working("predicting"):
        answer, table, lines = result.answer(predict=show), result.table(predict=show), result.words(predict=show)
    console.print(answer, markup=False, soft_wrap=True)
    console.print()
    console.print(table)
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    if every_method and not show and predict is None:
        console.print("predictions take a while for this question: --predict makes them", markup=False, soft_wrap=True)
    if report is not None:
        console.print(f"report written to {report}", markup=False, soft_wrap=True)


def _singular(rule: str) -> str:
    """``thresholds`` as well as ``threshold``."""
    known = (*RULES, *PLANNED_FAMILIES, *TREE_RULES)
    return rule if rule in known else _PLURALS.get(rule, rule.removesuffix("s"))


def _check_shape(family: str, given: dict[str, Any]) -> None:
    from privpac.distributions.family_plan import shape_of_family

    taken = shape_of_family(family)
    strange = [option for part, option in _SHAPES.items() if part in given and part not in taken]
    if strange:
        takes = [option for part, option in _SHAPES.items() if part in taken]
        raise ParameterError(f"a {family} is not described by {strange[0]}; give {', '.join(takes)}")


def _size(text: str) -> int:
    """A domain size: ``1024`` or ``2^64``."""
    base, power, exponent = text.partition("^")
    try:
        size = int(base) ** min(int(exponent), 65) if power else int(base)
    except (ValueError, ZeroDivisionError):
        size = 0
    if not 1 <= size <= 1 << 64 or (power and size == 1):
        raise ParameterError(
            f"--domain takes a number of values from 1 to 2^64, such as 1441 or 2^64, got {text[:40]!r}"
        ) from None
    return int(size)
