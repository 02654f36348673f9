"""One picture for one value: a rule over its columns, a distribution, or how good a predictor is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from privpac.display import Picture
from privpac.evaluation import Evaluation
from privpac.lazy import need
from privpac.report.distribution import distribution_figure
from privpac.report.evaluation import bars_figure
from privpac.report.plots import (
    INK,
    NO,
    YES,
    card_figure,
    domain_figure,
    figure_of,
    plain_name,
    questions_figure,
    svg,
    weights_figure,
)
from privpac.rules.base import Rule

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["figure_of_rule", "plot", "rule_picture"]

_MANY = 3
_LINE = 46


def figure_of_rule(rule: Any) -> Figure | None:
    """What shows where the rule says 1; None where a sentence says it better (constants, many columns, regions)."""
    if not isinstance(rule, Rule) or rule.condition() in ("always", "never"):
        return None
    if rule.picture == "questions":
        return questions_figure(rule)  # type: ignore[arg-type]
    if rule.picture == "card":
        cards = rule.cards  # type: ignore[attr-defined]
        return card_figure(cards[0]) if len(cards) == 1 and cards[0].table else None
    if rule.picture != "domain":
        return None
    return weights_figure(rule) if len(rule.pulls) >= _MANY else domain_figure(rule)


def rule_picture(rule: Any) -> Markup | str:
    """The picture as SVG text, empty where there is none."""
    figure = figure_of_rule(rule)
    return "" if figure is None else svg(figure, str(rule))


def plot(value: Any) -> Picture:
    """A picture of a rule, a distribution or an evaluation; where nothing can be drawn, its words.

    >>> import privpac as pp
    >>> plot(pp.Thresholds(pp.Integers(0, 9), "x").decode(4))
    <Picture: 1 when x > 3>
    """
    said = str(value).splitlines()[0]
    figure: Figure | None
    if isinstance(value, Evaluation):
        figure, said = bars_figure(value), value.sentence()
    elif isinstance(value, Rule):
        figure = figure_of_rule(value)
        if figure is not None and value.picture == "domain":
            _key(figure, value.label)
    else:
        figure = distribution_figure(value)
    if figure is None:
        figure = _words(said)
    return Picture(str(svg(figure, said)), figure, said)


def _key(figure: Figure, label: str) -> None:
    """Which colour says what."""
    patch = need("matplotlib.patches").Patch
    figure.legend(
        handles=[patch(color=YES), patch(color=NO)],
        labels=[plain_name(label, 24), "0" if label == "1" else plain_name(f"not {label}", 24)],
        loc="upper left",
        bbox_to_anchor=(0, 0),
        ncols=2,
        frameon=False,
        fontsize=9,
    )


def _words(said: str) -> Figure:
    lines = [said[i : i + _LINE] for i in range(0, min(len(said), 6 * _LINE), _LINE)]
    figure, axes = figure_of(0.3 + 0.22 * len(lines))
    axes.set_axis_off()
    text = "\n".join(plain_name(line, _LINE) for line in lines)
    axes.text(0, 0.5, text, ha="left", va="center", fontsize=11, color=INK, transform=axes.transAxes)
    return figure
