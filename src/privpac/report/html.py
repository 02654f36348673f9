"""One self-contained HTML file about one release.

Everything in it is a function of the released rule, its guarantee, its public parameters and plans for standard numbers: no
count, range, score, error, run time or path of the table.
"""

from __future__ import annotations

import html
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from privpac.concepts.base import ConceptClass, Rule
from privpac.planning import Plan, plan
from privpac.released import Released
from privpac.report.plots import plan_picture, rule_picture

__all__ = ["report_html", "write_report"]

_STYLE = """
:root{color-scheme:light}body{font:16px/1.55 system-ui,-apple-system,'Segoe UI',sans-serif;color:#24292f;background:#f6f8f9;margin:0}
main{max-width:46rem;margin:0 auto;padding:2rem 1.2rem 4rem}section{background:#fff;border:1px solid #dfe4e8;border-radius:10px;padding:1.1rem 1.3rem;margin:1rem 0}
h1{font-size:1.25rem;color:#5a6570;font-weight:600;margin:.2rem 0}.rule{font-size:1.75rem;font-weight:650;line-height:1.25;margin:.3rem 0 .8rem}
h2{font-size:1.05rem;margin:.1rem 0 .6rem}.promise{display:inline-block;background:#e7f3ee;color:#0b6e4f;border-radius:6px;padding:.15rem .6rem;font-weight:600}
table{border-collapse:collapse;width:100%;font-size:.92rem}th,td{text-align:left;padding:.3rem .5rem;border-bottom:1px solid #edf0f2;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}svg{max-width:100%;height:auto}.key span{display:inline-block;width:.9em;height:.9em;border-radius:2px;margin:0 .35em -0.1em 0}
.quiet{color:#5a6570;font-size:.92rem}.scroll{overflow-x:auto}.bad{background:#fdecea;color:#a3160a}
"""


def report_html(released: Released, concept: ConceptClass, *, planned: Plan | None = None) -> str:
    """The report as one HTML text; ``planned`` defaults to a plan for standard numbers of records per user."""
    rule = released.hypothesis
    guarantee = released.guarantee
    text = html.escape
    if planned is None and guarantee is not None and guarantee.epsilon > 0:
        planned = plan(concept, epsilon=guarantee.epsilon, neighbours=guarantee.neighbours)
    said = text(str(rule)) if released else "No rule was released"
    promise = text(guarantee.summary) if guarantee else "INSECURE RANDOMNESS: no guarantee"
    parts = [
        f"<section><h1>A rule learned with differential privacy</h1><div class='rule'>{said}</div>"
        f"<span class='promise{'' if guarantee else ' bad'}'>{promise}</span></section>"
    ]
    if isinstance(rule, Rule):
        picture = rule_picture(rule)
        if picture:
            key = (
                f"<p class='key quiet'><span style='background:#0b6e4f'></span>{text(rule.label)} &nbsp; "
                f"<span style='background:#e3e7ea'></span>not {text(rule.label)}</p>"
            )
            parts.append(f"<section><h2>The rule over its declared domain</h2>{picture}{key}</section>")
    if guarantee is not None:
        lines = "".join(f"<p>{text(line)}</p>" for line in guarantee.explain().splitlines()[1:])
        parts.append(f"<section><h2>What is promised</h2>{lines}</section>")
    parts.append(_public(released))
    if planned is not None:
        parts.append(_planned(planned))
    parts.append(
        "<p class='quiet'>Nothing on this page depends on the table except the released rule and released numbers named above. "
        "Certified numbers of users hold for every law that the stated assumption allows and are pessimistic for milder ones.</p>"
    )
    body = "\n".join(parts)
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' content='width=device-width,initial-scale=1'>"
        f"<title>{said}</title><style>{_STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )


def _table(rows: Iterable[tuple[str, Any]]) -> str:
    cells = "".join(f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows)
    return f"<div class='scroll'><table>{cells}</table></div>"


def _public(released: Released) -> str:
    rows: list[tuple[str, Any]] = [("method", released.learner), ("outcome", released.outcome)]
    rows += list(released.parameters.items())
    rule = released.hypothesis
    if isinstance(rule, Rule):
        rows += [(f"domain of {name}", domain.describe()) for name, domain in rule.features.items()]
    rows += [("warning", warning) for warning in released.warnings]
    return f"<section><h2>What was public, and what was released besides the rule</h2>{_table(rows)}</section>"


def _planned(planned: Plan) -> str:
    head = "".join(f"<th class='n'>{m}</th>" for m in planned.records_per_user)
    rows = ""
    for row in planned.rows:
        numbers = "".join(f"<td class='n'>{'–' if n is None else f'{n:,}'}</td>" for n in row.n_users)
        rows += f"<tr title='{html.escape(row.assumption)}'><td>{html.escape(row.method)} <span class='quiet'>({row.kind})</span></td>{numbers}</tr>"
    target = ", ".join(f"{name} {value}" for name, value in planned.target.items())
    assumptions = "".join(f"<li>{html.escape(row.method)}: {html.escape(row.assumption)}</li>" for row in planned.rows)
    return (
        f"<section><h2>How many users such a rule needs</h2><p class='quiet'>{html.escape(target)}. The first column is one record per user.</p>"
        f"{plan_picture(planned)}<div class='scroll'><table><tr><th>records per user</th>{head}</tr>{rows}</table></div>"
        f"<p class='quiet'>Assumptions:</p><ul class='quiet'>{assumptions}</ul></section>"
    )


def write_report(released: Released, concept: ConceptClass, path: str | os.PathLike[str], *, planned: Plan | None = None) -> Path:
    """Write the report to ``path``."""
    target = Path(path)
    target.write_text(report_html(released, concept, planned=planned), encoding="utf-8")
    return target
