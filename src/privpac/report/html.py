"""One self-contained HTML file about one release.

Everything in it is a function of the released rule, its guarantee, its public parameters and plans for standard
numbers: no count, range, score, error, run time or path of the table.  It fetches nothing: style and pictures are
inside.
"""

from __future__ import annotations

import html
import os
import secrets
import warnings
from collections.abc import Iterable
from contextlib import suppress
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from privpac.concepts.base import ConceptClass, Rule
from privpac.concepts.trees import VC1Tree
from privpac.errors import ParameterError, TooLargeError, WeakGuaranteeWarning
from privpac.guarantee import Guarantee
from privpac.planning import Plan, plan_of_tree, plan_users
from privpac.released import Released
from privpac.report.plots import NO, YES, plan_picture, rule_picture

__all__ = ["plan_for_report", "report_html", "write_report"]

_STYLE = """
:root{color-scheme:light}*{box-sizing:border-box}
body{font:16px/1.55 system-ui,-apple-system,'Segoe UI',sans-serif;color:#24292f;background:#f6f8f9;margin:0}
main{max-width:46rem;margin:0 auto;padding:1.5rem 1rem 3rem}
section{background:#fff;border:1px solid #dfe4e8;border-radius:10px;padding:1.1rem 1.3rem;margin:1rem 0}
h1{font-size:1.1rem;color:#5a6570;font-weight:600;margin:.1rem 0}
h2{font-size:1.05rem;margin:.1rem 0 .6rem}p{margin:.5rem 0}
.rule{font-size:1.7rem;font-weight:650;line-height:1.25;margin:.3rem 0 .8rem;overflow-wrap:anywhere}
.promise{display:inline-block;background:#e7f3ee;color:#0b6e4f;border-radius:6px;padding:.15rem .6rem;font-weight:600}
.bad{background:#fdecea;color:#a3160a}
.warn{background:#fff4e0;border-left:4px solid #d98a00;padding:.5rem .8rem;border-radius:4px}
table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:left;padding:.3rem .5rem;border-bottom:1px solid #edf0f2;vertical-align:top}
th{font-weight:600}td{overflow-wrap:anywhere}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;overflow-wrap:normal}
svg{display:block;width:100%;max-width:32rem;height:auto;margin:.4rem 0}.key{margin:.6rem 0 0}
.key span{display:inline-block;width:.9em;height:.9em;border-radius:2px;margin:0 .35em -.1em 0}
.yes{color:#0b6e4f;font-weight:600}
.quiet{color:#5a6570;font-size:.92rem}ul.quiet{padding-left:1.2rem;margin:.3rem 0}.scroll{overflow-x:auto}
@media(max-width:32rem){main{padding:.4rem .6rem 2rem}section{padding:.8rem .8rem;margin:.6rem 0}
.rule{font-size:1.35rem}
table{font-size:.85rem}th,td{padding:.3rem .3rem}}
@media print{body{background:#fff}section{break-inside:avoid}}
"""

_WORDS = {
    "class": "class of rules",
    "size": "number of rules",
    "levels": "steps of a user's vote",
    "noisy_n_users": "number of users (noisy)",
    "public_n_users": "number of users (public)",
    "epsilon_count": "epsilon spent on that number",
    "max_records": "records read per user, at most",
    "tau": "clip of a user's regret, in records",
    "tolerance": "mistakes forgiven per user",
    "mode": "how a user's records name a node",
    "hi": "users at least as deep as the node, at least",
    "K": "users deeper than the node, at most",
    "epsilon1": "epsilon spent on the depth",
    "epsilon2": "epsilon spent on the node",
}
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
    parts = [
        _head(released),
        *(_picture(rule) if isinstance(rule, Rule) else []),
        *([] if guarantee is None else [_promise(guarantee)]),
    ]
    parts += [_public(released), *([] if planned is None else [_planned(planned)])]
    parts.append(
        "<p class='quiet'>Nothing on this page depends on the table except the released rule and the released numbers "
        "named above. "
        "Certified numbers of users hold for every law that the stated assumption allows and are pessimistic for "
        "milder ones.</p>"
    )
    body = "\n".join(parts)
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
        "content='width=device-width,initial-scale=1'>"
        f"<title>{_said(released)}</title><style>{_STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


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


def _said(released: Released) -> str:
    return html.escape(str(released.hypothesis)) if released else "No rule was released"


def _head(released: Released) -> str:
    guarantee = released.guarantee
    promise = (
        html.escape(guarantee.summary)
        if guarantee
        else "INSECURE RANDOMNESS: no guarantee"
        if released.insecure
        else "no guarantee"
    )
    said = "".join(f"<p class='warn'>{html.escape(line)}</p>" for line in released.warnings)
    default = (
        "<p class='quiet'>The mechanism gave no answer; the public default stands in.</p>"
        if released.outcome == "default"
        else ""
    )
    return (
        f"<section><h1>A rule learned with differential privacy</h1><div class='rule'>{_said(released)}</div>"
        f"<span class='promise{'' if guarantee else ' bad'}'>{promise}</span>{default}{said}</section>"
    )


def _picture(rule: Rule) -> list[str]:
    if rule.picture != "domain":
        return _path(rule) if rule.picture == "regions" else []
    drawn = _truth_table(rule) or rule_picture(rule)
    if not drawn:
        return []
    label = html.escape("1" if rule.label == "1" else rule.label)
    not_label = "0" if rule.label == "1" else f"not {label}"
    key = (
        f"<p class='key quiet'><span style='background:{YES}'></span>{label} &nbsp; <span "
        f"style='background:{NO}'></span>{not_label}</p>"
        if drawn.startswith("<svg")
        else ""
    )
    return [f"<section><h2>The rule over its declared domain</h2>{drawn}{key}</section>"]


def _path(rule: Any) -> list[str]:
    """The regions a rule says 1 on, from the whole down to its node."""
    tree, node = rule.tree, rule.node
    depth = tree.depth(node)
    if depth == 0:
        return []
    shown = range(depth + 1) if depth < _LEVELS else [*range(4), *range(depth - _LEVELS + 5, depth + 1)]
    rows, last = "", -1
    for z in shown:
        if z != last + 1:
            rows += "<tr><td></td><td class='quiet'>…</td><td></td></tr>"
        above: Any = tree.ancestor(node, z)
        region = html.escape(tree.describe(above))
        rows += (
            f"<tr><td class='n'>{z}</td><td>{f'<b>{region}</b>' if z == depth else region}</td><td "
            "class='yes'>1</td></tr>"
        )
        last = z
    said = "the rule says" if rule.label == "1" else html.escape(rule.label)
    head = f"<tr><th class='n'>depth</th><th>{html.escape(next(iter(rule.features)))}</th><th>{said}</th></tr>"
    rest = "<tr><td></td><td class='quiet'>everything else, also what lies inside the last one</td><td>0</td></tr>"
    return [
        f"<section><h2>The rule on the hierarchy</h2><div "
        f"class='scroll'><table>{head}{rows}{rest}</table></div></section>"
    ]


def _truth_table(rule: Rule) -> str:
    """All cases of a rule that reads a few values; empty text otherwise."""
    reads = {name: rule.features[name] for name in rule.reads}
    if (
        len(reads) < 2
        or prod(domain.size for domain in reads.values()) > _CELLS
        or rule.condition() in ("always", "never")
    ):
        return ""
    cases = list(product(*(range(domain.size) for domain in reads.values())))
    said = rule.predict_codes(
        {name: np.array([case[i] for case in cases], dtype=np.uint64) for i, name in enumerate(reads)}
    )
    head = "".join(
        f"<th>{html.escape(name)}</th>" for name in [*reads, "the rule says" if rule.label == "1" else rule.label]
    )
    rows = ""
    for case, answer in zip(cases, said.tolist()):
        cells = "".join(f"<td>{html.escape(domain.text(code))}</td>" for domain, code in zip(reads.values(), case))
        rows += f"<tr>{cells}<td{' class=yes' if answer else ''}>{answer}</td></tr>"
    return f"<div class='scroll'><table><tr>{head}</tr>{rows}</table></div>"


def _promise(guarantee: Guarantee) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakGuaranteeWarning)  # said at the top already
        lines = guarantee.explain().splitlines()[1:]
    return f"<section><h2>What is promised</h2>{''.join(f'<p>{html.escape(line)}</p>' for line in lines)}</section>"


def _table(rows: Iterable[tuple[str, Any]]) -> str:
    cells = "".join(
        f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(_value(value))}</td></tr>" for name, value in rows
    )
    return f"<table>{cells}</table>"


def _value(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63:
        return f"about 2^{value.bit_length() - 1}"
    return (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else str(dict(value) if hasattr(value, "keys") else value)
    )


def _public(released: Released) -> str:
    rows: list[tuple[str, Any]] = [("method", released.learner), ("outcome", released.outcome)]
    rows += [(_WORDS.get(name, name), value) for name, value in released.parameters.items()]
    rule = released.hypothesis
    if isinstance(rule, Rule):
        rows += [(f"domain of {name}", domain.describe()) for name, domain in rule.features.items()]
    return f"<section><h2>What was public, and what was released besides the rule</h2>{_table(rows)}</section>"


def _planned(planned: Plan) -> str:
    head = "".join(f"<th class='n'>{m:,}</th>" for m in planned.records_per_user)
    rows = ""
    for row in planned.rows:
        numbers = "".join(f"<td class='n'>{'–' if n is None else f'{n:,}'}</td>" for n in row.n_users)
        kind = "" if row.kind == "certified" else f" <span class='quiet'>({html.escape(row.kind)})</span>"
        rows += f"<tr><td>{html.escape(row.method)}{kind}</td>{numbers}</tr>"
    names = {"alpha": "excess error at most", "beta": "with failure probability at most"}
    target = ", ".join(f"{names.get(name, name)} {value}" for name, value in planned.target.items())
    assumptions = "".join(f"<li>{html.escape(row.words())}</li>" for row in planned.rows)
    return (
        f"<section><h2>How many users such a rule needs</h2><p class='quiet'>{html.escape(target)}; "
        f"certified numbers, from public numbers only. Columns: records per user.</p>"
        f"{plan_picture(planned)}<div class='scroll'><table><tr><th>records per "
        f"user</th>{head}</tr>{rows}</table></div>"
        f"<ul class='quiet'>{assumptions}</ul></section>"
    )


def write_report(
    released: Released,
    concept: ConceptClass | VC1Tree | None,
    path: str | os.PathLike[str],
    *,
    planned: Plan | None = None,
) -> Path:
    """Write the report to ``path``, whole or not at all."""
    return write_whole(report_html(released, concept, planned=planned).encode(), path)


def write_whole(content: bytes, path: str | os.PathLike[str]) -> Path:
    """Write a page or a picture to ``path``, whole or not at all."""
    target = Path(path)
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}.new")
    try:
        draft.write_bytes(content)
        os.replace(draft, target)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        raise ParameterError(f"cannot write {str(path)!r}: {error.strerror}; choose a writable place") from None
    return target
