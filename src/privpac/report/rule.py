"""One self-contained HTML file about one release.

Everything in it is a function of the released rule, its guarantee, its public parameters and plans for standard
numbers: no count, range, score, error, run time or path of the table.  It fetches nothing: style and pictures are
inside.
"""

from __future__ import annotations

import os
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import Guarantee
from privpac.planning import Plan, plan_of_tree, plan_users
from privpac.report.drawn import rule_picture
from privpac.report.evaluation import before_the_data, evaluated_section
from privpac.report.pages import WORDS, page, promise_lines, write_page
from privpac.report.plots import NO, YES, cards_of, plan_picture
from privpac.result import Released
from privpac.rules.base import ConceptClass, Rule
from privpac.rules.hierarchies import VC1Tree

__all__ = ["plan_for_report", "report_html", "write_report"]

_CELLS = 16
_LEVELS = 12


def report_html(
    released: Released, concept: ConceptClass | VC1Tree | None = None, *, planned: Plan | None = None
) -> str:
    """The report as one HTML text.

    ``planned`` defaults to a plan for standard numbers of records per user, if the class of rules is given.
    """
    rule, guarantee = released.hypothesis, released.guarantee
    if planned is None and concept is not None and guarantee is not None:
        planned = plan_for_report(_bound(concept, rule), guarantee)
    label = rule.label if isinstance(rule, Rule) else "1"
    return page(
        "rule.html",
        released=released,
        said=_said(rule) if released else "No rule was released",
        says="the rule says" if label == "1" else label,
        label=label,
        asks=getattr(rule, "picture", "") == "questions",
        colours=(YES, NO),
        path=_path(rule) if isinstance(rule, Rule) and rule.picture == "regions" else None,
        cases=_cases(rule) if isinstance(rule, Rule) and rule.picture == "domain" else None,
        picture=rule_picture(rule) if getattr(rule, "picture", "") in ("domain", "questions") else "",
        cards=cards_of(rule),
        promise=promise_lines(guarantee),
        public=_public(released),
        planned=None if planned is None else _planned(planned),
        evaluated=evaluated_section(released.evaluation, released.certificate, before_the_data(released)),
    )


def _said(rule: Any) -> str:
    """The rule in one line; a card's points stand in a table of their own."""
    return str(rule).splitlines()[0]


def plan_for_report(concept: ConceptClass | VC1Tree, guarantee: Guarantee) -> Plan | None:
    """The plan that a report shows, None where there is nothing to plan (epsilon beyond all use, a class without
    domains)."""
    try:
        if isinstance(concept, VC1Tree):
            spent = {"epsilon": guarantee.epsilon, "delta": guarantee.delta, "neighbours": guarantee.neighbours}
            return plan_of_tree(concept, simple=False, **spent)  # type: ignore[arg-type]
        return plan_users(concept, epsilon=guarantee.epsilon, neighbours=guarantee.neighbours)
    except (ParameterError, TooLargeError):
        return None


def _bound(concept: ConceptClass | VC1Tree, rule: Any) -> ConceptClass | VC1Tree:
    """The class with the columns and domains of its rule, if they were left to the data."""
    if not isinstance(rule, Rule) or all(
        name is not None and domain is not None for name, domain in concept.declared().items()
    ):
        return concept
    return concept.with_columns(dict(rule.features))


def _path(rule: Any) -> dict[str, Any] | None:
    """The regions a rule says 1 on, from the whole down to its node; None for a gap."""
    tree: Any = rule.tree
    node: Any = rule.node
    depth = tree.depth(node)
    if depth == 0:
        return None
    shown = range(depth + 1) if depth < _LEVELS else [*range(4), *range(depth - _LEVELS + 5, depth + 1)]
    regions: list[tuple[int, str | None]] = []
    for z in shown:
        if regions and z != regions[-1][0] + 1:
            regions.append((z - 1, None))
        regions.append((z, tree.describe(tree.ancestor(node, z))))
    return {"column": next(iter(rule.features)), "regions": regions}


def _cases(rule: Rule) -> dict[str, Any] | None:
    """All cases of a rule that reads a few values; None otherwise."""
    reads = {name: rule.features[name] for name in rule.reads}
    if (
        len(reads) < 2
        or prod(domain.size for domain in reads.values()) > _CELLS
        or rule.condition() in ("always", "never")
    ):
        return None
    cases = list(product(*(range(domain.size) for domain in reads.values())))
    said = rule.predict_codes(
        {name: np.array([case[i] for case in cases], dtype=np.uint64) for i, name in enumerate(reads)}
    )
    texts = [[domain.text(code) for domain, code in zip(reads.values(), case)] for case in cases]
    return {"columns": list(reads), "rows": list(zip(texts, said.tolist()))}


def _public(released: Released) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [("method", released.learner), ("outcome", released.outcome)]
    rows += [(WORDS.get(name, name), value) for name, value in released.parameters.items()]
    rule = released.hypothesis
    if isinstance(rule, Rule):
        rows += [(f"domain of {name}", domain.describe()) for name, domain in rule.features.items()]
    return rows


def _planned(planned: Plan) -> dict[str, Any]:
    names = {"alpha": "excess error at most", "beta": "with failure probability at most"}
    rows = [
        (
            row.method,
            "" if row.kind == "certified" else row.kind,
            ["–" if n is None else f"{n:,}" for n in row.n_users],
        )
        for row in planned.rows
    ]
    return {
        "target": ", ".join(f"{names.get(name, name)} {value}" for name, value in planned.target.items()),
        "picture": plan_picture(planned),
        "sizes": [f"{m:,}" for m in planned.records_per_user],
        "rows": rows,
        "words": [row.words() for row in planned.rows],
    }


def write_report(
    released: Released,
    concept: ConceptClass | VC1Tree | None,
    path: str | os.PathLike[str],
    *,
    planned: Plan | None = None,
) -> Path:
    """Write the report to ``path``, whole or not at all."""
    return write_page(report_html(released, concept, planned=planned), path)
