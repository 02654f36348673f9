"""Names are text on every page: a hostile column, category, dataset, label or warning changes nothing but itself."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import pytest

import privpac as pp
from privpac.auditing import Audit
from privpac.distributions.results import DiscreteDistribution, GaussianDistribution
from privpac.guarantee import Guarantee
from privpac.planning import Plan
from privpac.planning.comparison import Comparison, Measured
from privpac.report import audit_html, comparison_html, distribution_html, plan_html, report_html
from privpac.report.pages import page, standing
from privpac.result import Released
from privpac.rules.base import Frozen
from privpac.rules.boxes import Box, Conjunction
from privpac.rules.cuts import Threshold

PROMISE = Guarantee(1, unit="user", neighbours="add-remove")
HOSTILE = {
    "script": "</title></style><script>alert(1)</script>",
    "attribute": "\"'><img src=x onerror=alert(1)> --><!-- ` =",
    "template": "{{7*7}}{% for i in (1,2) %}{{ config }}{% endfor %}{# gone #}",
    "formula": r"$\frac{$ $x^2$ _hidden \N{BULLET} %s {}",
    "backwards": "\u202egnihton\u202c \u2067x\u2069 \u200f\x1b[31m\x07 שלום",
    "long": "a" * 3000 + " " + "<b>" * 300,
    "entities": "&lt;script&gt;&amp;amp; &#x3c;b&#x3e;",
}
TAGS = {"html", "head", "meta", "title", "style", "body", "main", "section", "h1", "h2", "p", "b", "div", "span"}
TAGS |= {
    "table",
    "tr",
    "th",
    "td",
    "ul",
    "li",
    "pre",
    "svg",
    "g",
    "defs",
    "path",
    "rect",
    "use",
    "clippath",
    "image",
    "code",
    "details",
    "summary",
}


def rule_pages(name: str) -> dict[str, str]:
    few, kinds = pp.Integers(0, 9), pp.Categories([name, f"{name}2", "other"])
    two = pp.Categories([name, "no"])
    more: dict[str, Any] = {"learner": name, "warnings": (name,)}
    tree = pp.Taxonomy({name: "root", f"{name}2": name}).with_columns({name: pp.Texts()})
    rules = {
        "cut": Threshold(name, kinds, 1, label=name),
        "map": Box(Frozen(((name, few), (f"{name}2", few))), ((1, 5), (2, 7)), label=name),
        "cases": Conjunction(Frozen(((name, two), ("b", few.__class__(0, 1)))), (1, 0), label=name),
        "tree": tree.rule(tree.node(f"{name}2")),
    }
    pages = {key: report_html(Released(rule, PROMISE, {f"its {name}": name}, **more)) for key, rule in rules.items()}
    planned = pp.plan(pp.Thresholds(few), epsilon=1, records_per_user=(1, 4))
    pages["planned"] = report_html(Released(rules["cut"], None, {}, **more), planned=planned)
    return pages


def distribution_pages(name: str) -> dict[str, str]:
    bars = DiscreteDistribution(name, pp.Categories([name, "b"]), (1, 2))
    steps = DiscreteDistribution(name, pp.Integers(0, 3), (1, 2, 3, 4))
    bells = GaussianDistribution((name, "y"), (0.0, 5.0), ((1.0, 0.5), (0.5, 1.0)))
    candidates = {name: steps, f"{name}2": DiscreteDistribution(name, pp.Integers(0, 3), (4, 3, 2, 1))}
    more: dict[str, Any] = {"learner": name, "warnings": (name,)}
    pages = {
        str(i): distribution_html(Released(law, PROMISE, {f"its {name}": name}, **more))
        for i, law in enumerate((bars, bells))
    }
    return pages | {"selected": distribution_html(Released(steps, PROMISE, {"name": name}, **more), candidates)}


def audit_pages(name: str) -> dict[str, str]:
    def mechanism(data: Any) -> str:
        return name if data else "nothing"

    mechanism.__qualname__ = mechanism.__name__ = name
    found: Audit = pp.audit(mechanism, datasets=([name], []), epsilon=1, runs=40)
    return {"audit": audit_html(found)}


def comparison_pages(name: str) -> dict[str, str]:
    def measured(method: str, n: int) -> Measured:
        return Measured(method, "1", n, 0.01, 0.001, name)

    rows = tuple(measured(method, n) for method in (name, "other") for n in (10, 40))
    about = {name: name, "other": name}
    many = Comparison(name, 0.1, 0.4, 2, 3, rows, about, (name,))
    one = Comparison(name, 0.1, 0.4, 2, 3, tuple(row for row in rows if row.n_users == 10), about, (name,))
    return {"lines": comparison_html(many), "bars": comparison_html(one)}


def plan_pages(name: str) -> dict[str, str]:
    planned: Plan = pp.plan(pp.Thresholds(pp.Integers(0, 9), name), epsilon=1, records_per_user=1)
    return {"plan": plan_html(planned=planned, predict=False)}


PAGES = {
    "rules": rule_pages,
    "distributions": distribution_pages,
    "audits": audit_pages,
    "comparisons": comparison_pages,
    "plans": plan_pages,
}


class Reader(HTMLParser):
    """What a browser would see: tags, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {key for key, _ in attrs}
        for key, value in attrs:
            assert "href" not in key or (value or "").startswith(("#", "data:image/png;")), (tag, key, value)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@cache
def calm_pages(kind: str) -> dict[str, Reader]:
    return {key: Reader(text) for key, text in PAGES[kind]("calm").items()}


# The pictures of a plan, which take the time, have no name in them: two names are enough for them every day.
RARELY = {("plans", which) for which in HOSTILE if which not in ("script", "formula")}
CASES = [
    pytest.param(which, kind, marks=[pytest.mark.slow] if (kind, which) in RARELY else [])
    for which in HOSTILE
    for kind in PAGES
]


@pytest.mark.parametrize(("which", "kind"), CASES)
def test_a_hostile_name_is_text_on_every_page(which: str, kind: str) -> None:
    name = HOSTILE[which]
    calm = calm_pages(kind)
    for key, text in PAGES[kind](name).items():
        seen = Reader(text)
        assert seen.tags <= TAGS, key
        assert seen.tags == calm[key].tags, f"{key}: a name brought a tag with it"
        assert seen.attributes == calm[key].attributes, f"{key}: a name brought an attribute with it"
        assert not re.search("[\u200e\u200f\u202a-\u202e\u2066-\u2069\x00-\x08\x0b-\x1f]", text), key
        if kind not in ("plans", "audits"):  # a plan has no names of its own, an audit shows them as Python does
            assert standing(name) in "".join(seen.texts), key


def test_the_console_is_the_same_page_with_its_own_links() -> None:
    text = page("console.html")
    assert text.startswith("<!doctype html>")
    assert '<link rel="stylesheet" href="/static/style.css">' in text
    assert "<style" not in text
    script = (files("privpac.serve") / "static" / "console.js").read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", script)


def test_reports_forbid_the_browser_to_fetch_or_run_anything() -> None:
    text = report_html(Released(Threshold("age", pp.Integers(0, 9), 3), PROMISE, {"x": Fraction(1, 2)}))
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text


def test_no_template_turns_escaping_off_and_all_are_package_data() -> None:
    folder = files("privpac.report") / "templates"
    found = {item.name: item.read_text() for item in folder.iterdir()}
    assert {"base.html", "style.css", "parts.html", "console.html"} < set(found)
    for name, text in found.items():
        assert not re.search(r"\|\s*safe|autoescape|forceescape", text), name
        assert ("<!doctype" in text) == (name == "base.html"), "one page for all"
