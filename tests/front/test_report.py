"""A report fetches nothing and is a function of the release alone."""

from __future__ import annotations

import hashlib
import math
import re
from datetime import date
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from attrs import evolve

import privpac as pp
from privpac.errors import ParameterError
from privpac.guarantee import Guarantee
from privpac.methods.regret import RegretSelection
from privpac.planning import Plan, PlanRow
from privpac.report import plan_for_report, report_html, write_report
from privpac.report.plots import plan_picture
from privpac.report.rule import rule_picture
from privpac.result import NoRelease, Released
from privpac.rules.base import Frozen, Rule
from privpac.rules.boxes import Box, Conjunction
from privpac.rules.cuts import Threshold
from privpac.rules.halfspaces import Halfspace
from privpac.rules.intervals import Interval
from privpac.rules.points import Point
from privpac.rules.scorecards import Scorecard
from privpac.rules.stumps import Stump
from privpac.testing import SeededRng, insecure_randomness

PROMISE = Guarantee(1, unit="user", neighbours="add-remove")
AGE = pp.Integers(0, 99)
YES_NO = Frozen((("a", pp.Integers(0, 1)), ("b", pp.Categories(["no", "yes"])), ("c", pp.Integers(0, 1))))
PAIR = Frozen((("age", AGE), ("dose", pp.Grid(0, 5, "0.1"))))
TRIPLE = Frozen((*PAIR.items(), ("visits", pp.Grid(0, 20, "0.5"))))
DATED = Frozen((("day", pp.Dates("2024-01-01", "2024-12-31")), *PAIR.items()))
FLOAT = pp.Floats()
RULES: dict[str, Rule] = {
    "threshold": Threshold("age", AGE, 60, label="ill"),
    "always": Threshold("age", AGE, 0, label="ill"),
    "huge domain": Threshold("x", pp.Integers(0, 2**64 - 1), 2**63),
    "float": Threshold("x", FLOAT, int(FLOAT.encode([12.5])[0][0]) + 1),
    "largest float": Threshold("x", FLOAT, FLOAT.value_range()[1]),
    "least float": Threshold("x", FLOAT, FLOAT.value_range()[0] + 1, "below"),
    "date": Threshold("day", pp.Dates("2024-01-01", "2024-12-31"), 31),
    "category": Threshold("site", pp.Categories(["south", "$north$", "a name that is much too long for an axis"]), 2),
    "one value": Point("site", pp.Categories(["only"]), 0),
    "point": Point("age", pp.Integers(0, 10**6), 777_777),
    "interval": Interval("age", AGE, 18, 65, label="adult"),
    "stump": Stump({"age": AGE, "dose": pp.Floats()}, "dose", 1 << 63),
    "box": Box(PAIR, ((10, 20), (5, 40)), label="ill"),
    "box on one side": Box(PAIR, ((10, 99), (0, 50)), label="ill"),
    "empty box": Box(PAIR, None),
    "conjunction": Conjunction(YES_NO, (1, None, 0), label="ill"),
    "three literals": Conjunction(YES_NO, (1, 1, 0)),
    "halfspace": Halfspace(PAIR, (1, -2), (1, 1), 3),
    "halfspace of three": Halfspace(TRIPLE, (1, -2, 2), (1, 1, 10), 3, label="ill"),
    "halfspace of dates": Halfspace(DATED, (-1, -2, -2), (1, 1, 10), -400),
    "three columns": Halfspace(Frozen((*PAIR.items(), ("c", pp.Integers(0, 9)))), (1, -2, 3), (1, 1, 1), 3),
    "left out when missing": Point("site", pp.Missing(pp.Categories(["north", "south"]), "drop"), 1),
    "script": Threshold("<script>alert(1)</script>", AGE, 60, label="<b>&\"'"),
}


def released(rule: Any, **more: Any) -> Released:
    return Released(
        rule, PROMISE, {"class": "Thresholds", "size": 101, "epsilon_count": Fraction(1, 16)}, learner="test", **more
    )


class Fetches(HTMLParser):
    """Collects everything that a browser would load, and checks that tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "iframe", "object", "embed", "base", "form", "audio", "video"):
            self.found.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "action", "poster", "background", "data") and not (
                value or ""
            ).startswith(("#", "data:image/png;")):
                self.found.append(f"{tag} {name}={value}")
            if name.startswith("on"):
                self.found.append(name)
        if tag not in ("meta", "br", "img", "use", "path", "rect", "image"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize("name", list(RULES))
def test_report_of_every_kind_of_rule_is_self_contained_and_well_formed(name: str) -> None:
    text = report_html(released(RULES[name]))
    page = Fetches(text)
    assert page.found == []
    assert page.open == []
    assert "@import" not in text
    assert "url(" not in re.sub(r"url\(#\w+\)", "", text)
    # What is left of http are names of XML vocabularies, which nobody fetches.
    assert set(re.findall(r"https?://[^\s\"'<]*", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    shown = " ".join(page.texts)
    assert str(RULES[name]) in shown
    assert PROMISE.summary in shown
    for feature, domain in RULES[name].features.items():
        assert feature in shown
        assert domain.describe() in shown


@pytest.mark.parametrize("name", list(RULES))
def test_pictures_exist_exactly_where_there_is_something_to_show(name: str) -> None:
    picture = rule_picture(RULES[name])
    constant = RULES[name].condition() in ("always", "never")
    beyond_any_axis = name in ("largest float", "least float")
    assert (picture == "") == (constant or beyond_any_axis or (len(RULES[name].reads) > 3 and not RULES[name].pulls))
    assert picture == rule_picture(RULES[name]), "no dates or random ids in it"


def test_a_single_value_stays_visible_in_a_long_band() -> None:
    """The green patch of one value among a million is a 250th of the width, not nothing."""
    at_end = Point("age", pp.Integers(0, 10**6), 10**6)
    for rule in (RULES["point"], at_end):
        assert "#0b6e4f" in rule_picture(rule)
    assert "#0b6e4f" not in rule_picture(evolve(RULES["point"], code=None)) == ""  # type: ignore[call-arg]


def test_small_rules_are_shown_as_a_table_of_all_cases() -> None:
    text = report_html(released(RULES["three literals"]))
    rows = re.findall(r"<tr><td>(\d)</td><td>(\w+)</td><td>(\d)</td><td(?: class=yes)?>(\d)</td></tr>", text)
    assert len(rows) == 8
    assert [row for row in rows if row[3] == "1"] == [("1", "yes", "0", "1")]


def test_script_in_a_column_name_stays_text() -> None:
    text = report_html(released(RULES["script"], warnings=("<i>",)))
    assert "<script" not in text
    assert "<b>&" not in text
    assert "<i>" not in text


def test_two_tables_with_the_same_released_rule_give_the_same_report() -> None:
    one = pp.UserData.from_users([[(30, 0), (80, 1)]] * 3, features={"age": AGE})
    two = pp.UserData.from_users([[(k % 100, 1)] * 50 for k in range(400)], features={"age": AGE})
    learner = RegretSelection(pp.Thresholds(), "1e-9", public_n_users=100)  # type: ignore[arg-type]
    with insecure_randomness():
        pairs = ([learner.learn(data, rng=SeededRng(seed)) for data in (one, two)] for seed in range(10**4))
        results = next(pair for pair in pairs if pair[0].value == pair[1].value)
    assert results[0] == results[1]
    texts = [report_html(result, pp.Thresholds(AGE, "age")) for result in results]
    assert texts[0] == texts[1]
    assert "INSECURE RANDOMNESS" in texts[0]
    signed = [report_html(evolve(result, guarantee=learner.guarantee, insecure=False)) for result in results]
    assert signed[0] == signed[1]


def test_nothing_of_the_table_is_in_the_report(tmp_path: Path) -> None:
    """Counts and ids that occur nowhere else: 7919 records of 613 users with ids around 5550000."""
    rng = np.random.default_rng(0)
    who = np.concatenate([np.arange(613), rng.integers(0, 613, 7919 - 613)]) + 5_550_000
    age = rng.integers(17, 83, 7919)
    data = pp.UserData.from_arrays(age[:, None], (age > 40).astype(int), who, features={"age": AGE})
    rule = pp.learn(data, pp.Thresholds(), epsilon=1, public_n_users=500)
    shown = " ".join(Fetches(report_html(rule)).texts)
    for private in ("7919", "7,919", "613", "555"):
        assert private not in shown


# What is said


def test_outcomes_are_told_apart() -> None:
    none = Released(NoRelease, PROMISE, outcome="none", learner="test")
    assert "No rule was released" in report_html(none, pp.Thresholds(AGE))
    default = released(RULES["threshold"], outcome="default")
    assert "the public default stands in" in report_html(default)


def test_warnings_and_item_level_are_at_the_top() -> None:
    item = evolve(
        released(RULES["threshold"], warnings=("single records are protected",)),
        guarantee=evolve(PROMISE, unit="item"),
    )  # type: ignore[arg-type]
    text = report_html(item)
    assert text.index("single records are protected") < text.index("What is promised")
    assert "This protects records, not people" in text


def test_who_is_protected_comes_first_and_the_exact_statement_last() -> None:
    text = report_html(released(RULES["threshold"]))
    first = text.index("ε = 1 for each person")
    assert first < text.index("The rule over its declared domain") < text.index("What is promised")
    assert text.index("What this does not protect from") < text.index("About this release")
    assert text.index("About this release") < text.index("(1, 0)-DP per user, add-remove")
    assert "(2, 0)-DP per user, replace" in text


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("unit", ["user", "item"])
def test_the_example_is_that_of_bayes(unit: Any, neighbours: Any) -> None:
    promise = Guarantee("1/2", "1e-6", unit=unit, neighbours=neighbours)
    shown = " ".join(Fetches(report_html(evolve(released(RULES["threshold"]), guarantee=promise))).texts)
    least = 100 * 0.1 * math.exp(0.5) / (0.9 + 0.1 * math.exp(0.5))
    assert f"at most about {least:.2g} % sure" in shown
    assert "A failure of probability at most 1e-06" in shown
    assert ("certain person" in shown) == (unit == "user")


def test_a_signed_page_says_who_what_when_and_how_to_check_it(tmp_path: Path) -> None:
    visits = pl.DataFrame({"patient": [k // 4 for k in range(400)], "age": [k % 100 for k in range(400)]})
    visits = visits.with_columns(ill=(pl.col("age") > 50).cast(int))
    people = pp.UserData.from_frame(visits, user="patient", label="ill", features={"age": AGE})
    budget = Guarantee(3, unit="user", neighbours="add-remove")
    with pp.BudgetLedger(tmp_path / "b.ledger", budget, dataset="visits") as ledger:
        rule = pp.learn(people, epsilon=1, ledger=ledger)
        receipt = ledger.history()[-1].spend_id
    text = rule.report(tmp_path / "r.html", purpose="triage <b>", contact="dpo@example.org").read_text()
    shown = " ".join(Fetches(text).texts)
    rule.save(tmp_path / "r.json")
    assert hashlib.sha256((tmp_path / "r.json").read_bytes()).hexdigest() in shown
    for said in ("visits", receipt, "triage <b>", "dpo@example.org", "by the column 'patient'", "ε = 2 of 3"):
        assert said in shown, said
    assert rule.about["released"] in shown
    assert pp.__version__ in shown
    assert str(tmp_path) not in text
    again = pp.load(tmp_path / "r.json")
    assert again.about == rule.about
    assert report_html(again) == report_html(rule)


@pytest.mark.parametrize("label", ["above", "1", "compare: above", "not", "ill"])
def test_a_scorecard_says_when_it_answers_what_whatever_the_label_is_called(label: str) -> None:
    columns = pp.Scorecards({"a": pp.Integers(0, 3), "b": pp.Integers(0, 3)}, cuts=3).binned
    card = Scorecard(columns, ((0, 3, 5, 9), (0, 0, 2, 9)), 9, 20, label)
    shown = " ".join(" ".join(Fetches(report_html(released(card))).texts).split())
    other = "0" if label == "1" else f"not {label}"
    assert f"With more than 9 of 18 points the answer is {label} , otherwise {other} ." in shown
    assert "above above" not in shown


def test_plan_is_shown_for_a_class_whose_domains_were_left_to_the_data() -> None:
    text = report_html(released(RULES["threshold"]), pp.Thresholds())
    assert "How many people rules of this kind need" in text
    assert "their number declared (public_n_users)" in text


def test_without_a_sensible_plan_the_report_is_written_all_the_same() -> None:
    strong = Guarantee(5000, unit="user", neighbours="add-remove")
    assert plan_for_report(pp.Thresholds(AGE), strong) is None
    text = report_html(evolve(released(RULES["threshold"]), guarantee=strong), pp.Thresholds(AGE))
    assert "How many people rules" not in text


def test_plan_picture_leaves_out_what_is_not_certified() -> None:
    row = PlanRow("m", "certified", "a", (None, 5))
    assert "<svg" in plan_picture(Plan({}, (1, 4), (row, PlanRow("n", "lower bound", "b", (1, 1)))))
    assert plan_picture(Plan({}, (1, 4), (evolve(row, values=(None, None)),))) == ""
    assert plan_picture(Plan({}, (4,), (evolve(row, values=(5,)),))) == ""


def test_large_numbers_and_dates_read_well() -> None:
    rule = evolve(
        released(RULES["huge domain"]), parameters={"size": 2**64 + 1, "levels": 840, "n": 12345, "tau": {"1": 1}}
    )
    shown = " ".join(Fetches(report_html(rule)).texts)
    assert "about 2^64" in shown
    assert "12,345" in shown
    assert "steps of a user's vote" in shown
    assert str(date(2024, 1, 31)) in " ".join(Fetches(report_html(released(RULES["date"]))).texts)


# Files


def test_report_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "r.html"
    assert write_report(released(RULES["threshold"]), None, target) == target
    before = target.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(ParameterError, match="No space left on device"):
        write_report(released(RULES["box"]), None, target)
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_unwritable_place_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="cannot write") as caught:
        write_report(released(RULES["threshold"]), None, tmp_path / "no" / "r.html")
    assert "\n" not in str(caught.value)
