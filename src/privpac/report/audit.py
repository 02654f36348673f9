"""One self-contained HTML file about one audit: the verdict, the bound, and the pair of datasets behind it.

The page shows datasets, so they were made up or declared public by whoever ran the audit.  It fetches nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from math import inf
from pathlib import Path

from attrs import frozen
from markupsafe import Markup

from privpac.auditing.report import Audit, shown_data
from privpac.report.pages import page, write_page
from privpac.report.plots import INK, LINES, NO, YES, figure_of, plain_name, svg

_FIRST, _SECOND, _BAD = LINES[0], LINES[1], LINES[4]
_MOST_USERS = 20
_MOST_NAME = 30
_SAID = {"audited", "claim", "found", "verdict"}
"""Rows of an audit that stand at the top already."""


def audit_html(audit: Audit) -> str:
    """The page as one HTML text."""
    if not isinstance(audit, Audit):
        raise TypeError(f"audit_html takes the result of pp.audit, not {type(audit).__name__}")
    bad = not audit.holds
    x, y = audit.worst
    people = isinstance(x, tuple) and isinstance(y, tuple)
    return page(
        "audit.html",
        audit=audit,
        bad=bad,
        bound="No finite epsilon holds"
        if audit.epsilon_lower == inf
        else f"Epsilon is at least {audit.epsilon_lower:.4g}",
        claim=_claim(audit),
        sure="decided exactly" if audit.method == "exact" else f"with confidence {float(audit.confidence):.9g}",
        scale=_scale(audit),
        users=_users(x, y) if people else None,
        datasets=[(name, shown_data(data)) for name, data in zip(("first", "second"), (x, y))],
        outcomes=[
            (o.label, f"{o.first:.4g}", f"{o.second:.4g}", f"{o.first / o.second:.3g}" if o.second else "-")
            for o in audit.outcomes
        ],
        outcomes_picture=_outcomes(audit) if audit.outcomes else "",
        how=[row for row in audit.rows() if row[0] not in _SAID],
    )


def _claim(audit: Audit) -> str:
    if audit.epsilon is None:
        return f"no claim; delta {float(audit.delta):g}, {audit.neighbours.value}"
    return f"claim: ({float(audit.epsilon):g}, {float(audit.delta):g})-DP, {audit.neighbours.value}"


def _scale(audit: Audit) -> Markup | str:
    """The bound as a bar against the claim."""
    if audit.epsilon_lower == inf:
        return ""
    claim = None if audit.epsilon is None else float(audit.epsilon)
    figure, axes = figure_of(0.75)
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
    axes.spines[["top", "right", "left"]].set_visible(False)
    return svg(figure, f"epsilon found {audit.epsilon_lower:.4g}" + ("" if claim is None else f", claimed {claim:g}"))


@frozen(slots=False)
class _Row:
    """One user as each dataset has them."""

    first: str
    second: str
    times: int = 1
    differs: bool = False


def _users(x: tuple[object, ...], y: tuple[object, ...]) -> list[_Row]:
    """User by user, those in common first; the one that differs is marked."""
    common = Counter(x) & Counter(y)
    rows = [_Row(_user(user), _user(user), times) for user, times in list(common.items())[:_MOST_USERS]]
    if len(common) > _MOST_USERS:
        more = f"{len(common) - _MOST_USERS} more"
        rows.append(_Row(more, more))
    first, second = list((Counter(x) - common).elements()), list((Counter(y) - common).elements())
    for i in range(max(len(first), len(second))):
        here, there = (_user(side[i]) if i < len(side) else "nobody" for side in (first, second))
        rows.append(_Row(here, there, differs=True))
    return rows


def _user(user: object) -> str:
    """A user of several records without the outer brackets."""
    if isinstance(user, tuple) and all(isinstance(record, tuple) for record in user):
        return ", ".join(map(repr, user)) or "no records"
    return shown_data(user)


def _outcomes(audit: Audit) -> Markup:
    """What the mechanism does on the one and on the other, drawn."""
    names = [outcome.label for outcome in audit.outcomes]
    figure, axes = figure_of(0.5 + 0.34 * len(names))
    places = range(len(names))
    for shift, color, values, label in (
        (-0.2, _FIRST, [outcome.first for outcome in audit.outcomes], "first dataset"),
        (0.2, _SECOND, [outcome.second for outcome in audit.outcomes], "second dataset"),
    ):
        axes.barh([place + shift for place in places], values, height=0.36, color=color, label=label)
    axes.set_yticks(list(places), [plain_name(name, _MOST_NAME) for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("probability" if audit.method == "exact" else "share of the measured runs")
    axes.grid(axis="x", color=NO, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.legend(fontsize=9, frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2)
    axes.spines[["top", "right"]].set_visible(False)
    return svg(figure, "probabilities of the outcomes on both datasets")


def write_audit_report(audit: Audit, path: str | os.PathLike[str]) -> Path:
    """Write the page to ``path``, whole or not at all."""
    return write_page(audit_html(audit), path)
