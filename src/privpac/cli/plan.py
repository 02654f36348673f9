"""``privpac plan``: how many users do I need?"""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from privpac.cli.app import app, working
from privpac.cli.options import TREE_RULES, Delta, Json, NeighboursOption, TreeText, check_targets, features_of, wants_tree
from privpac.concepts.base import ConceptClass
from privpac.concepts.named import RULES, rule_class
from privpac.concepts.trees import VC1Tree, parse_tree
from privpac.data import Domain, Integers
from privpac.errors import ParameterError
from privpac.planning import Plan, plan_of_tree
from privpac.planning import plan as ask

__all__ = ["plan"]


def _size(text: str) -> int:
    """A domain size: ``1024`` or ``2^64``."""
    base, power, exponent = text.partition("^")
    try:
        size = int(base) ** min(int(exponent), 65) if power else int(base)
    except (ValueError, ZeroDivisionError):
        size = 0
    if not 1 <= size <= 1 << 64 or (power and size == 1):
        raise ParameterError(f"--domain takes a number of values from 1 to 2^64, such as 1441 or 2^64, got {text[:40]!r}") from None
    return int(size)


@app.command()
def plan(
    rule: Annotated[str, typer.Argument(help=f"{', '.join(RULES)}, or tree with --tree.")],
    epsilon: Annotated[str | None, typer.Option("--epsilon", "-e", help="Privacy loss, e.g. 1, 0.5 or 1/3.")] = None,
    users: Annotated[
        int | None, typer.Option("--users", "-n", help="With --epsilon: which alpha can be promised; with --alpha: which epsilon.")
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Number of values of the one feature, e.g. 1441 or 2^64.")] = None,
    feature: Annotated[list[str] | None, typer.Option("--feature", "-f", help="name=lo:hi, as for learn. Repeat.")] = None,
    records_per_user: Annotated[
        list[int] | None, typer.Option("--records-per-user", "-m", help="Records each person holds. Repeat.")
    ] = None,
    alpha: Annotated[str | None, typer.Option(help="Excess error wanted (0.05).")] = None,
    beta: Annotated[str, typer.Option(help="Failure probability allowed.")] = "0.05",
    tree: TreeText = None,
    delta: Delta = None,
    noise: Annotated[str | None, typer.Option(help="Each label is wrong with at most this probability (thresholds).")] = None,
    neighbours: NeighboursOption = "add-remove",
    setting: Annotated[str | None, typer.Option(help="Only realizable or only agnostic methods.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page with curves.")] = None,
    json: Json = False,
) -> None:
    """Certified numbers of users for each method, from public numbers only.

    privpac plan threshold --domain 2^64 --records-per-user 16 --epsilon 1 --alpha 0.05

    privpac plan threshold --domain 1441 --users 500 --epsilon 1     (which error can 500 people be promised?)

    privpac plan threshold --domain 1441 --users 500 --epsilon 1 --report plan.html     (the same with curves)

    privpac plan tree --tree path:/:32 --epsilon 1 --delta 1e-6 --alpha 0.1 -m 1 -m 10
    """
    check_targets({"--report": report}, {})
    question: dict[str, Any] = {"epsilon": epsilon, "alpha": alpha, "beta": beta, "n_users": users, "noise": noise, "setting": setting}
    question |= {"records_per_user": records_per_user or None, "neighbours": neighbours}
    concept: ConceptClass | VC1Tree
    if wants_tree(rule if rule in TREE_RULES or tree is not None else None, tree):
        if domain or feature or noise or users or setting == "agnostic":
            raise ParameterError(
                "a tree brings its own domain and is planned for labels without noise: leave out --domain, --feature, --noise, --users"
            )
        concept, question["delta"] = parse_tree(tree or ""), delta or 0
        result: Any = _plan_tree(concept, delta, epsilon, alpha, beta, records_per_user, neighbours)
    else:
        if (domain is None) == (not feature):
            raise ParameterError("give either --domain (a number of values) or one or more --feature")
        if delta is not None:
            raise ParameterError("--delta goes with --tree; the other methods need none")
        features: dict[str, Domain] = features_of(feature) if feature else {"x": Integers(0, _size(domain or "1") - 1)}
        concept = rule_class(rule if rule in RULES else rule.removesuffix("s"), features)
        with working("planning"):
            result = ask(concept, **question)
    if report is not None:
        from privpac.report.plan import write_plan_report

        with working("drawing"):
            write_plan_report(report, concept, planned=result, **question)
    if json:
        typer.echo(json_format.dumps(result.to_dict(), indent=2))
    else:
        console = Console(highlight=False)
        console.print(result.table())
        for row in result.rows if isinstance(result, Plan) else ():
            console.print(row.words(), markup=False, soft_wrap=True)
        if report is not None:
            console.print(f"report written to {report}", markup=False, soft_wrap=True)


def _plan_tree(
    tree: VC1Tree, delta: str | None, epsilon: str | None, alpha: str | None, beta: str, records_per_user: list[int] | None, neighbours: str
) -> Plan:
    """The same for a node of a tree."""
    if epsilon is None:
        raise ParameterError("give --epsilon")
    goal: dict[str, Any] = {"epsilon": epsilon, "delta": delta or 0, "alpha": alpha or "0.05", "beta": beta}
    with working("planning"):
        return plan_of_tree(tree, records_per_user=records_per_user or None, neighbours=neighbours, **goal)
