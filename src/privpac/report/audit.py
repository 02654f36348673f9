"""One self-contained HTML file about one audit: the verdict, the bound, and the pair of datasets behind it.

The page shows datasets, so they were made up or declared public by whoever ran the audit.  It fetches nothing.
"""

from __future__ import annotations

import html
import os
from collections import Counter
from math import inf
from pathlib import Path
from typing import Any

from privpac.audit.report import Audit, shown_data
from privpac.report.html import _STYLE, _table, write_whole
from privpac.report.plots import INK, LINES, NO, YES, _figure, _plain, _svg

__all__ = ["audit_html", "write_audit_report"]

_FIRST, _SECOND, _BAD = LINES[0], LINES[1], LINES[4]
_MOST_USERS = 20
_MOST_NAME = 30


def audit_html(audit: Audit) -> str:
    """The page as one HTML text."""
    if not isinstance(audit, Audit):
        raise TypeError(f"audit_html takes the result of pp.audit, not {type(audit).__name__}")
    parts = [_head(audit), _pair(audit), *_outcomes(audit), _how(audit)]
    parts.append("<p class='quiet'>The datasets on this page were made up, or declared public, for this audit.</p>")
    title = html.escape(f"Audit of {audit.subject}: {audit.verdict}")
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><meta name='viewport' "
        "content='width=device-width,initial-scale=1'>"
        f"<title>{title}</title><style>{_STYLE}</style></head><body><main>{chr(10).join(parts)}</main></body></html>\n"
    )


def _head(audit: Audit) -> str:
    bad = audit.claimed and not audit.holds
    bound = (
        "No finite epsilon holds" if audit.epsilon_lower == inf else f"Epsilon is at least {audit.epsilon_lower:.4g}"
    )
    sure = "decided exactly" if audit.method == "exact" else f"with confidence {float(audit.confidence):.9g}"
    promise = (
        ""
        if audit.epsilon is None
        else f"({float(audit.epsilon):g}, {float(audit.delta):g})-DP, {audit.neighbours.value}"
    )
    claim = f"claim: {promise}" if promise else f"no claim; delta {float(audit.delta):g}, {audit.neighbours.value}"
    badge = f"<span class='promise{' bad' if bad else ''}'>{html.escape(audit.verdict)}</span>" if audit.claimed else ""
    notes = "".join(f"<p class='{'warn' if bad else 'quiet'}'>{html.escape(line)}</p>" for line in audit.notes())
    return (
        f"<section><h1>Privacy audit of {html.escape(audit.subject)}</h1><div class='rule'>{bound}</div>"
        f"<p>{badge} <span class='quiet'>{html.escape(claim)}; "
        f"{html.escape(sure)}</span></p>{_scale(audit)}{notes}</section>"
    )


def _scale(audit: Audit) -> str:
    """The bound as a bar against the claim."""
    if audit.epsilon_lower == inf:
        return ""
    claim = None if audit.epsilon is None else float(audit.epsilon)
    figure, axes = _figure(0.75)
    axes.barh([0], [audit.epsilon_lower], height=0.5, color=YES if audit.holds else _BAD)
    top = max(audit.epsilon_lower, claim or 0.0) or 1.0
    if claim is not None:
        axes.axvline(claim, color=INK, linewidth=1.5)
        right = claim > 0.85 * top
        axes.text(claim, 0.62, "claim", ha="right" if right else "left", va="bottom", fontsize=9, color=INK)
    axes.set_xlim(0, 1.12 * top)
    axes.set_ylim(-0.5, 0.6)
    axes.set_yticks([])
    axes.set_xlabel("epsilon")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    return _svg(figure, f"epsilon found {audit.epsilon_lower:.4g}" + ("" if claim is None else f", claimed {claim:g}"))


def _pair(audit: Audit) -> str:
    x, y = audit.worst
    if isinstance(x, tuple) and isinstance(y, tuple):
        body = _users(x, y)
    else:
        body = _table((name, shown_data(data)) for name, data in zip(("first", "second"), (x, y)))
    return f"<section><h2>The two neighbouring datasets that show it</h2>{body}</section>"


def _users(x: tuple[Any, ...], y: tuple[Any, ...]) -> str:
    """User by user, those in common first; the one that differs is marked."""
    common = Counter(x) & Counter(y)
    rows = "".join(_row(_user(user), _user(user), times=times) for user, times in list(common.items())[:_MOST_USERS])
    if len(common) > _MOST_USERS:
        rows += _row(f"{len(common) - _MOST_USERS} more", f"{len(common) - _MOST_USERS} more")
    first, second = list((Counter(x) - common).elements()), list((Counter(y) - common).elements())
    for i in range(max(len(first), len(second))):
        rows += _row(*(_user(side[i]) if i < len(side) else "nobody" for side in (first, second)), differ=True)
    head = "<tr><th></th><th>first dataset</th><th>second dataset</th></tr>"
    return f"<div class='scroll'><table>{head}{rows or _row('nobody', 'nobody')}</table></div>"


def _user(user: Any) -> str:
    """A user of several records without the outer brackets."""
    if isinstance(user, tuple) and all(isinstance(record, tuple) for record in user):
        return ", ".join(map(repr, user)) or "no records"
    return shown_data(user)


def _row(first: str, second: str, *, times: int = 1, differ: bool = False) -> str:
    name = "<b>differs</b>" if differ else "in both" + (f", {times} times" if times > 1 else "")
    cells = "".join(
        f"<td>{f'<b>{html.escape(text)}</b>' if differ else html.escape(text)}</td>" for text in (first, second)
    )
    return f"<tr><td class='quiet'>{name}</td>{cells}</tr>"


def _outcomes(audit: Audit) -> list[str]:
    """What the mechanism does on the one and on the other, drawn and in numbers."""
    if not audit.outcomes:
        return []
    names = [outcome.label for outcome in audit.outcomes]
    figure, axes = _figure(0.5 + 0.34 * len(names))
    places = range(len(names))
    for shift, color, values, label in (
        (-0.2, _FIRST, [outcome.first for outcome in audit.outcomes], "first dataset"),
        (0.2, _SECOND, [outcome.second for outcome in audit.outcomes], "second dataset"),
    ):
        axes.barh([place + shift for place in places], values, height=0.36, color=color, label=label)
    axes.set_yticks(
        list(places), [_plain(name if len(name) <= _MOST_NAME else name[: _MOST_NAME - 3] + "...") for name in names]
    )
    axes.invert_yaxis()
    axes.set_xlabel("probability" if audit.method == "exact" else "share of the measured runs")
    axes.grid(axis="x", color=NO, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(fontsize=9, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    rows = "".join(
        f"<tr><td>{html.escape(o.label)}</td><td class='n'>{o.first:.4g}</td><td class='n'>{o.second:.4g}</td>"
        f"<td class='n'>{f'{o.first / o.second:.3g}' if o.second else '-'}</td></tr>"
        for o in audit.outcomes
    )
    head = "<tr><th>outcome</th><th class='n'>first</th><th class='n'>second</th><th class='n'>ratio</th></tr>"
    drawn = _svg(figure, "probabilities of the outcomes on both datasets")
    return [
        f"<section><h2>What comes out on each of them</h2>{drawn}<div "
        f"class='scroll'><table>{head}{rows}</table></div></section>"
    ]


def _how(audit: Audit) -> str:
    said = {"audited", "claim", "found", "verdict"}
    return f"<section><h2>How it was found</h2>{_table(row for row in audit.rows() if row[0] not in said)}</section>"


def write_audit_report(audit: Audit, path: str | os.PathLike[str]) -> Path:
    """Write the page to ``path``, whole or not at all."""
    return write_whole(audit_html(audit).encode(), path)
