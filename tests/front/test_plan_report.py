"""The page of a plan shows the plan's own numbers, keeps predictions apart, and fetches nothing."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import privpac as pp
from privpac.cli import app as cli
from privpac.errors import ParameterError
from privpac.planning import Plan
from privpac.planning.curves import Curves
from privpac.planning.plans import NAMES, meanings
from privpac.report.plan import plan_html, write_plan_report
from privpac.rules import PathTree

CUTS = pp.Thresholds(pp.Integers(0, 1440))
QUESTION: dict[str, Any] = {"epsilon": 1, "alpha": "0.2", "records_per_user": (1, 8), "every_method": True}


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", re.sub(r"<(svg|style).*?</\1>", "", page, flags=re.S)))


@pytest.fixture(scope="module")
def page() -> str:
    return plan_html(CUTS, **QUESTION)


def test_the_page_shows_the_certified_numbers_of_the_plan(page: str) -> None:
    planned = pp.plan(CUTS, **QUESTION)
    for row in planned.rows:
        cells = "".join(f"<td class=n>{n:,}</td>" for n in row.n_users)
        assert cells in page, row.method
    assert f"{planned.row('hybrid selection').n_users[1]:,} people with 8 records each" in page


def test_the_page_has_three_curves_and_fetches_nothing(page: str) -> None:
    assert page.count("<svg ") == 3
    assert not re.search(r"<script|<link|<img|src=|url\(['\"]?http", page)


def test_pictures_have_at_most_four_series_and_the_page_begins_with_the_answer() -> None:
    planned = pp.plan(CUTS, epsilon=1, alpha="0.2", records_per_user=(1, 8))
    page = plan_html(planned=planned)
    assert html.escape(planned.answer()) in page.split("</section>")[0]
    legend = html.unescape(" ".join(re.findall(r"<svg.*?</svg>", page, flags=re.S)))
    drawn = {row.method for row in planned.main_rows(predict=True)}
    assert 2 <= len(planned.main_rows(predict=True)) <= 4
    assert "hybrid selection" in drawn
    for row in planned.rows:
        assert (f">{row.method}" in legend or f"<!-- {row.method}" in legend) == (row.method in drawn), row.method


def test_predictions_stand_apart_from_certificates(page: str) -> None:
    certified, predicted = page.split("What is typical: simulated, not certified")
    assert "A simulation of one model" in predicted
    rows = pp.plan(CUTS, **QUESTION).predicted
    for row in rows:
        assert "".join(f"<td class=n>{n:,}</td>" for n in row.n_users) in predicted, row.method
    assert rows[1].assumption in text_of(predicted)
    assert "Recommended method: hybrid" in certified
    assert "a simulation says so (not a certificate)" in certified


def test_cost_of_a_record_is_users_times_records_against_one_record_each(page: str) -> None:
    alone, eight = pp.plan(CUTS, **QUESTION).row("hybrid selection").n_users
    said = text_of(page).split("What a record costs")[1]
    assert f"{eight * 8 / alone:.2g}×" in said


@pytest.mark.slow
def test_the_same_question_gives_the_same_page(page: str) -> None:
    assert plan_html(CUTS, **{**QUESTION, "records_per_user": iter((1, 8))}) == page


@pytest.mark.slow
def test_a_bound_on_the_noise_is_used() -> None:
    planned = pp.plan(CUTS, epsilon=1, records_per_user=1, noise="0.1")
    least = planned.row("hybrid selection, bounded noise").n_users[0]
    assert least < planned.row("hybrid selection").n_users[0]
    page = text_of(plan_html(CUTS, epsilon=1, records_per_user=1, noise="0.1"))
    assert f"{least:,} people with 1 record each" in page
    assert "label noise 1/10" in page


@pytest.mark.parametrize("given", ["epsilon", "alpha"])
def test_the_inverse_question_is_answered_at_the_top(given: str) -> None:
    question: dict[str, Any] = {"n_users": 500, "records_per_user": 4, "setting": "realizable", given: "0.5"}
    planned = pp.plan(CUTS, **question)
    said = text_of(plan_html(CUTS, planned=planned, **question))
    words = "excess error at most" if given == "epsilon" else "epsilon"
    assert f"500 people with 4 records each: {words} {float(planned.rows[0].values[0]):.4g}" in said
    assert "realizable selection: assumes users with at least the declared number of records" in said


def test_a_tree_has_a_page_with_predictions_apart() -> None:
    tree = text_of(plan_html(PathTree(16), epsilon=1, alpha="0.2", records_per_user=1))
    assert "Recommended method: tree" in tree
    assert "What is typical: simulated, not certified" in tree
    assert "the cut-off in the middle" in tree
    back = text_of(plan_html(PathTree(16), epsilon=1, n_users=304, records_per_user=1))
    assert "304 people with 1 record each: excess error at most" in back


@pytest.mark.slow
def test_predictions_are_left_out_on_request() -> None:
    points = pp.plan(pp.Points(pp.Integers(0, 9)), epsilon=1, records_per_user=2)
    assert "What is typical" not in plan_html(planned=points, predict=False)
    assert "What is typical" in plan_html(planned=points)


@pytest.mark.parametrize(
    ("what", "question", "said"),
    [
        ("histogram", {"k": 20}, "total variation at most 0.1"),
        ("median", {"domain": pp.Integers(0, 99)}, "share of ranks at most 0.1"),
        pytest.param(
            CUTS, {"model": "shuffle", "delta": "1e-6"}, "Recommended method: agreement", marks=pytest.mark.slow
        ),
    ],
    ids=["histogram", "median", "shuffle"],
)
def test_families_and_agreement_have_pages(what: Any, question: dict[str, Any], said: str) -> None:
    planned = pp.plan(what, epsilon=1, records_per_user=(1, 4), **question)
    page = plan_html(planned=planned)
    assert said in text_of(page)
    for row in planned.rows:
        assert "".join(f"<td class=n>{'–' if n is None else f'{n:,}'}</td>" for n in row.n_users) in page, row.method


def test_a_plan_put_together_by_hand_has_no_curves() -> None:
    planned = pp.plan(CUTS, epsilon=1, records_per_user=1)
    with pytest.raises(ParameterError, match="by hand"):
        plan_html(planned=Plan(planned.target, planned.records_per_user, planned.rows))


@pytest.mark.parametrize(
    "bad", [{}, {"epsilon": 0}, {"epsilon": float("nan")}, {"epsilon": 1, "alpha": 1}, {"epsilon": 1, "n_users": 0}]
)
def test_bad_questions_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        plan_html(CUTS, **bad)


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="cannot write"):
        write_plan_report(
            tmp_path / "no" / "plan.html",
            pp.Points(pp.Integers(0, 9)),
            epsilon=1,
            records_per_user=1,
            setting="realizable",
            predict=False,
        )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("place", "code"), [("plan.html", 0), ("no/plan.html", 2)])
def test_the_command_writes_the_page_or_says_why_not(
    place: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = "plan threshold --domain 100 -m 4 --epsilon 1 --setting realizable --report"
    monkeypatch.setattr(sys, "argv", ["privpac", *words.split(), place])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert int(stop.value.code or 0) == code
    said = capsys.readouterr()
    if code:
        assert "--report cannot be written" in said.err
        assert not list(tmp_path.iterdir())
    else:
        assert "report written to plan.html" in said.out
        assert "Recommended method: realizable" in text_of((tmp_path / place).read_text(encoding="utf-8"))


@pytest.mark.slow
def test_one_number_has_one_meaning_on_the_page() -> None:
    """The promise for 300 people stood at the top as one number and in the last table as another, read off a coarse
    curve."""
    planned = pp.plan(CUTS, epsilon=1, n_users=300, records_per_user=6, setting="agnostic")
    page = plan_html(planned=planned)
    view = Curves(planned)
    assert view.promised is not None
    promised = f"{float(view.promised):.4g}"
    assert f"300 people with 6 records each: excess error at most {promised}" in text_of(page)
    last = page.split("typical and certified")[1]
    (line,) = [row for row in last.split("<tr>") if row.startswith("<td class='n'>300</td><td class='n'>6</td>")]
    assert line.endswith(f"<td class='n'>{promised}</td></tr>")
    # Every certified number of that table is what an inverse plan says of exactly so many people.
    for n in (75, 1200):
        least = min(
            row.values[0]
            for row in pp.plan(CUTS, epsilon=1, n_users=n, records_per_user=6).rows
            if row.method in _own(view)
        )
        assert view.certified_alpha(n, 6) == least


def _own(view: Curves) -> set[str]:
    return {row.method for row in view.planned.rows_of(view.method)}


def test_the_page_says_what_each_kind_of_number_means(page: str) -> None:
    planned = pp.plan(CUTS, **QUESTION)
    head = html.unescape(text_of(page.split("</section>")[0]))
    for kind, said in meanings(planned).items():
        assert f"{NAMES[kind]}: {said}" in head.replace(" :", ":"), kind


def test_the_page_has_the_commands_of_what_is_certified(page: str) -> None:
    planned = pp.plan(CUTS, **QUESTION)
    assert html.escape(planned.command("user agnostic selection", records_per_user=8)) in page.split("How to run it")[1]
