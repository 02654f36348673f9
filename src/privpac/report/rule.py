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
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from privpac.display import Picture
from privpac.errors import ParameterError, PrivpacError, TooLargeError
from privpac.evaluation import Evaluation, EvaluationCertificate
from privpac.evaluation.intervals import Range
from privpac.evaluation.results import MeasuredRate, percent, points, sure
from privpac.guarantee import Guarantee, Neighbours, Unit
from privpac.lazy import need
from privpac.methods.hybrid import certify_hybrid_any
from privpac.planning import Plan, plan_of_tree, plan_users
from privpac.report.curves import calibration_picture, roc_picture
from privpac.report.distribution import distribution_figure, write_distribution_report
from privpac.report.pages import WORDS, page, promise_section, release_facts, write_page
from privpac.report.plots import (
    INK,
    NO,
    QUIET,
    YES,
    domain_figure,
    figure_of,
    plain_name,
    plan_picture,
    questions_figure,
    scorecard_figure,
    scorecards_of,
    svg,
    weights_figure,
)
from privpac.result import BUDGET_LEFT, Released
from privpac.rules.base import RULES, ConceptClass, Rule
from privpac.rules.hierarchies import VC1Tree
from privpac.rules.named import rule_class

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How good a predictor is, as a page: the table as a picture, intervals as bars, the constant beside the rule.
#
# Everything is a function of released sums and public numbers.


# How good a predictor is: the section that the pages of rules and of evaluations share, and its pictures.


_WRONG = "#c2571a"
_NAMES = {
    "error": "wrong",
    "constant": "a constant: wrong",
    "lift": "better than the constant by",
    "sensitivity": "sensitivity (recall)",
    "specificity": "specificity",
    "precision": "precision",
    "balanced_accuracy": "balanced accuracy",
    "base_rate": "labelled yes",
    "accuracy": "right (accuracy)",
}
"""Rates in the words of the page."""


def evaluated_section(
    found: Evaluation | None, certificate: EvaluationCertificate | None, before: str | None = None
) -> dict[str, object] | None:
    """What the template shows; None without an evaluation.  ``before``: what was certified before the data."""
    if found is None:
        return None
    rates = {name: rate for name, rate in found.rates.items() if name in _NAMES}
    return {
        "sentence": found.sentence(),
        "sure": sure(found.confidence),
        "table": table_picture(found) if found.cells == "table" else "",
        "bars": bars_picture(found),
        "curve": roc_picture(found) if found.regions is not None else "",
        "area": str(found.auc) if found.regions is not None else "",
        "calibration": calibration_picture(found) if found.regions is not None and found.regions.chances else "",
        "rows": [_row(name, rate) for name, rate in rates.items()],
        "typical": any(rate.typical is not None for rate in rates.values()),
        "people": _people(found),
        "certificate": None if certificate is None else str(certificate),
        "least": None if certificate is None else str(certificate.least),
        "before": before,
    }


def before_the_data(released: Released) -> str | None:
    """What hybrid selection promised before the data, for independent people of any kind, beside the certificate after
    them.

    The least number of people for the certificate's own figure, against the number that was released with it.
    """
    certificate, guarantee, size = released.certificate, released.guarantee, released.parameters.get("size")
    if certificate is None or guarantee is None or released.learner != "hybrid selection" or not isinstance(size, int):
        return None
    excess = certificate.excess
    if not 0.0001 <= excess < 0.5:
        return None
    needed = certify_hybrid_any(
        records_per_user=None,
        size=size,
        effective_size=released.parameters.get("effective_size"),
        theta=guarantee.epsilon / (1 if guarantee.neighbours is Neighbours.ADD_REMOVE else 2),
        alpha=f"{excess:.4f}",
        beta=1 - certificate.evaluation.confidence,
        levels=released.parameters["levels"],
    ).n_users
    here = max(0, certificate.least.people)
    if needed is None:
        return None
    better = "the promise before the data was better" if here >= needed else "this certificate says more"
    return (
        f"Before the data, with all of epsilon and any people, {points(excess)} were promised from {needed:,} people "
        f"on; the rule was learned from about {here:,}: {better}"
    )


def _row(name: str, rate: MeasuredRate) -> tuple[str, ...]:
    """A rate in words: its name, the number, and its intervals."""
    value = points(rate.value) if name == "lift" else percent(rate.value)
    return _NAMES[name], value, *(_words(name, shown) for shown in (rate.sample, rate.population, rate.typical))


def _words(name: str, interval: Range | None) -> str:
    if interval is None:
        return "–"
    if name == "lift":
        return f"{points(interval.lo)} to {points(interval.hi)}"
    return f"{percent(interval.lo)} to {percent(interval.hi)}"


def _people(found: Evaluation) -> str:
    what = "people" if found.weight == "user" and found.unit is Unit.USER else "records"
    if found.people is not None:
        return f"{found.people:,} {what}, publicly known"
    counted = found.n_people
    return f"about {round(counted.value):,} {what} ({max(0, counted.sample.lo):,.0f} to {counted.sample.hi:,.0f})"


def table_picture(found: Evaluation) -> Markup:
    """The 2x2 table as areas: a column for each label, as wide as it is frequent, split into right and wrong."""
    cells = {name: max(0, value) for name, value in found.cell_sums.items()}
    whole = sum(cells.values()) or 1
    figure, axes = figure_of(2.6)
    left, gap = 0.0, 0.012
    for label, (right, wrong) in (("labelled no", ("tn", "fp")), ("labelled yes", ("tp", "fn"))):
        width = (cells[right] + cells[wrong]) / whole
        bottom = 0.0
        for cell, colour in ((right, YES), (wrong, _WRONG)):
            height = cells[cell] / whole / width if width else 0.0
            axes.bar(left, height, width=max(width - gap, 0), bottom=bottom, align="edge", color=colour, linewidth=0)
            if width > 0.12 and height > 0.09:
                said = "says no" if cell in ("tn", "fn") else "says yes"
                text = f"{said}\n{percent(cells[cell] / whole)}" if height > 0.2 else percent(cells[cell] / whole)
                middle = left + (width - gap) / 2
                axes.text(middle, bottom + height / 2, text, ha="center", va="center", color="white", fontsize=9)
            bottom += height
        if width > 0.05:
            axes.text(left + (width - gap) / 2, 1.03, f"{label}\n{percent(width)}", ha="center", va="bottom", color=INK)
        left += width
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_axis_off()
    shares = ", ".join(f"{name} {percent(value / whole)}" for name, value in cells.items())
    return svg(figure, f"right (green) and wrong (orange) for each label: {shares}")


def _shown_rates(found: Evaluation) -> list[tuple[str, MeasuredRate]]:
    wanted = ("error", "constant", "lift", "sensitivity", "specificity", "precision", "balanced_accuracy")
    return [(name, found.rates[name]) for name in wanted if name in found.rates]


def bars_picture(found: Evaluation) -> Markup:
    """Every rate with its intervals, as SVG text."""
    return svg(bars_figure(found), "; ".join(f"{_NAMES[name]} {rate}" for name, rate in _shown_rates(found)))


def bars_figure(found: Evaluation) -> Figure:
    """Every rate with its intervals: these people thick, new people from the same population thin; the constant beside
    the rule."""
    rates = _shown_rates(found)
    figure, axes = figure_of(0.5 + 0.34 * len(rates))
    low = 0.0
    for place, (name, rate) in enumerate(reversed(rates)):
        colour = QUIET if name == "constant" else _WRONG if name == "error" else YES
        low = min(low, rate.shown.lo)
        if rate.population is not None:
            axes.plot([rate.population.lo, rate.population.hi], [place, place], color=colour, linewidth=1.6)
            for end in (rate.population.lo, rate.population.hi):
                axes.plot([end, end], [place - 0.16, place + 0.16], color=colour, linewidth=1.6)
        axes.plot([rate.sample.lo, rate.sample.hi], [place, place], color=colour, linewidth=6, solid_capstyle="butt")
        axes.plot([rate.value], [place], marker="o", color="white", markeredgecolor=INK, markersize=5)
    axes.set_yticks(range(len(rates)), [_NAMES[name] for name, _ in reversed(rates)])
    axes.set_ylim(-0.6, len(rates) - 0.4)
    axes.set_xlim(max(-1.0, low - 0.02) if low < 0 else 0, 1)
    if low < 0:
        axes.axvline(0, color=QUIET, linewidth=0.8)
    axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %")
    axes.set_axisbelow(True)
    axes.grid(axis="x", color=NO, linewidth=0.8)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


def evaluation_html(released: Released, *, subject: str = "the predictor", **said: str) -> str:
    """The page of one evaluation as HTML text; ``subject`` says what was evaluated, in words; ``said`` as in
    :func:`privpac.report.pages.release_facts`."""
    found = released.value
    if not isinstance(found, Evaluation):
        raise ParameterError(f"this result is no evaluation but {type(found).__name__}; see pp.evaluate")
    public = [("weight", f"every {'person' if found.weight == 'user' else 'record'} counts the same")]
    public += [("steps of a person's share", str(found.levels))] if found.weight == "user" else []
    public += [("confidence of each interval", f"{100 * float(found.confidence):g} %")]
    public += [(name, str(value)) for name, value in released.parameters.items()]
    return page(
        "evaluation.html",
        released=released,
        subject=subject,
        said=found.sentence(),
        evaluated=evaluated_section(found, None),
        promise=promise_section(released.guarantee),
        facts=release_facts(released, {}, public, **said),
    )


def write_evaluation_report(
    released: Released, path: str | os.PathLike[str], *, subject: str = "the predictor", **said: str
) -> Path:
    """Write the page to ``path``, whole or not at all."""
    return write_page(evaluation_html(released, subject=subject, **said), path)


# One picture for one value: a rule over its columns, a distribution, or how good a predictor is.


_MANY = 3
_LINE = 46


def figure_of_rule(rule: object) -> Figure | None:
    """What shows where the rule says 1; None where a sentence says it better (constants, many columns, regions)."""
    if not isinstance(rule, Rule) or rule.condition() in ("always", "never"):
        return None
    if rule.picture == "questions":
        return questions_figure(rule)  # type: ignore[arg-type]
    if rule.picture == "scorecard":
        scorecards = rule.scorecards  # type: ignore[attr-defined]
        return scorecard_figure(scorecards[0]) if len(scorecards) == 1 and scorecards[0].table else None
    if rule.picture != "domain":
        return None
    return weights_figure(rule) if len(rule.pulls) >= _MANY else domain_figure(rule)


def rule_picture(rule: object) -> Markup | str:
    """The picture as SVG text, empty where there is none."""
    figure = figure_of_rule(rule)
    return "" if figure is None else svg(figure, str(rule))


def plot(value: object) -> Picture:
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
        figure = _words_figure(said)
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


def _words_figure(said: str) -> Figure:
    lines = [said[i : i + _LINE] for i in range(0, min(len(said), 6 * _LINE), _LINE)]
    figure, axes = figure_of(0.3 + 0.22 * len(lines))
    axes.set_axis_off()
    text = "\n".join(plain_name(line, _LINE) for line in lines)
    axes.text(0, 0.5, text, ha="left", va="center", fontsize=11, color=INK, transform=axes.transAxes)
    return figure


_CELLS = 16
_LEVELS = 12


def report_html(
    released: Released,
    concept: ConceptClass | VC1Tree | None = None,
    *,
    planned: Plan | None = None,
    **said: str,
) -> str:
    """The report as one HTML text.

    ``planned`` defaults to a plan for standard numbers of records per user, if the class of rules is given; ``said`` as
    in :func:`privpac.report.pages.release_facts`.
    """
    rule, guarantee = released.value, released.guarantee
    if planned is None and concept is not None and guarantee is not None:
        planned = plan_for_report(_bound(concept, rule), guarantee)
    label = rule.label if isinstance(rule, Rule) else "1"
    return page(
        "rule.html",
        released=released,
        said=_sentence(rule) if released else "No rule was released",
        says="the rule says" if label == "1" else label,
        label=label,
        asks=getattr(rule, "picture", "") == "questions",
        colours=(YES, NO),
        path=_path(rule) if isinstance(rule, Rule) and rule.picture == "regions" else None,
        cases=_cases(rule) if isinstance(rule, Rule) and rule.picture == "domain" else None,
        picture=rule_picture(rule) if getattr(rule, "picture", "") in ("domain", "questions") else "",
        scorecards=scorecards_of(rule),
        promise=promise_section(guarantee),
        facts=release_facts(
            released,
            {name: domain.describe() for name, domain in rule.features.items()} if isinstance(rule, Rule) else {},
            _public(released),
            **said,
        ),
        planned=None if planned is None else _planned(planned),
        evaluated=evaluated_section(released.evaluation, released.certificate, before_the_data(released)),
    )


def _sentence(rule: object) -> str:
    """The rule as it is printed, but for a scorecard's points, which stand in a table."""
    return str(rule).splitlines()[0] if getattr(rule, "picture", "") == "scorecard" else str(rule)


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


def _bound(concept: ConceptClass | VC1Tree, rule: object) -> ConceptClass | VC1Tree:
    """The class with the columns and domains of its rule, if they were left to the data."""
    if not isinstance(rule, Rule) or all(
        name is not None and domain is not None for name, domain in concept.declared().items()
    ):
        return concept
    return concept.with_columns(dict(rule.features))


def _path(rule: Any) -> dict[str, object] | None:
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


def _cases(rule: Rule) -> dict[str, object] | None:
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


def _public(released: Released) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = [("method", released.learner), ("outcome", released.outcome)]
    shown = {name: value for name, value in released.parameters.items() if name != BUDGET_LEFT}
    return rows + [(WORDS.get(name, name), value) for name, value in shown.items()]


def _planned(planned: Plan) -> dict[str, object]:
    names = {"alpha": "excess error at most", "beta": "with failure probability at most"}
    rows = [
        (row.method, "" if row.kind == "certified" else row.kind, [{"-": "–"}.get(cell, cell) for cell in row.cells()])
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
    **said: str,
) -> Path:
    """Write the report to ``path``, whole or not at all."""
    return write_page(report_html(released, concept, planned=planned, **said), path)


# The page of any release, found by what was released.


def write_released(released: Released, path: str | os.PathLike[str], **said: Any) -> Path:
    """Write the page of a rule, a distribution or an evaluation; ``said``: purpose, contact, name of the data."""
    name = Path(path).name
    if not name.lower().endswith((".html", ".htm")):
        raise ParameterError(f"a report is saved as .html or .htm, got {name[-40:]!r}; a browser prints it as PDF")
    found = released.value
    if isinstance(found, Evaluation):
        return write_evaluation_report(released, path, **said)
    if distribution_figure(found) is not None:
        return write_distribution_report(released, path, **said)
    return write_report(released, class_of(released), path, **said)


def class_of(released: Released) -> ConceptClass | None:
    """The class that a rule was chosen from, rebuilt from its public name, columns and number of rules;
    None where they tell of no class.  Directions of cuts are not among them: they do not change a plan.

    >>> import privpac as pp
    >>> from privpac.guarantee import Guarantee
    >>> rules = pp.Stumps({"a": pp.Integers(0, 9), "b": pp.Integers(0, 4)})
    >>> promise = Guarantee(1, unit="user", neighbours="add-remove")
    >>> class_of(Released(rules.decode(3), promise, {"class": "Stumps", "size": rules.size})) == rules
    True
    >>> class_of(Released(rules.decode(3), promise, {"class": "Stumps", "size": 7})) is None
    True
    """
    rule, told = released.value, released.parameters
    if not isinstance(rule, Rule):
        return None
    for name in RULES:
        try:
            concept: Any = rule_class(name, dict(rule.features))
        except (PrivpacError, TypeError):  # no class of this name reads these columns
            continue
        if type(concept).__name__ == told.get("class") and getattr(concept, "size", None) == told.get("size"):
            return concept if isinstance(concept, ConceptClass) else None
    return None
