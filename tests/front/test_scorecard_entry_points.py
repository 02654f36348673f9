"""Scorecards at the doors: learn, the command line, the estimator, the report, and the default of wide tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from commands import Command

import privpac as pp
from privpac.errors import ParameterError
from privpac.methods.registry import default_rules
from privpac.report import report_html
from privpac.rules.scorecards import Scorecard
from privpac.sklearn import PrivateRuleClassifier

TEN = pp.Integers(0, 9)
DOMAINS = {f"x{j}": TEN for j in range(6)}


def frame(users: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(2)
    made = {name: rng.integers(0, 10, 2 * users) for name in DOMAINS}
    late = made["x0"] + made["x1"] - made["x2"] > 5
    return pl.DataFrame({"who": np.repeat(np.arange(users), 2), **made, "late": late.astype(np.int8)})


def data(users: int = 300) -> pp.UserData:
    return pp.UserData.from_frame(frame(users), user="who", features=DOMAINS, label="late")


def test_learned_by_name_and_by_class(tmp_path: Path) -> None:
    rule = pp.learn(data(), pp.Scorecards(), epsilon=4, delta="1e-6")
    assert isinstance(rule.value, Scorecard)
    assert str(rule.guarantee) == "(4, 1e-06)-DP per user, add-remove"
    assert str(rule).startswith("late when the points exceed ")
    rule.save(tmp_path / "scorecard.json")
    assert pp.load(tmp_path / "scorecard.json") == rule
    truth = frame()["late"].to_numpy()
    assert (rule.predict(frame()) == truth).mean() > 0.8


@pytest.mark.parametrize(
    ("facts", "method"),
    [
        ({}, "small-tree"),
        ({"delta": "1e-6"}, "small-tree"),
        ({"public_n_users": 10**6}, "small-tree"),
        ({"delta": "1e-6", "public_n_users": 499}, "small-tree"),
        ({"delta": "1e-6", "public_n_users": 500}, "scorecard"),
        ({"delta": "1e-6", "public_n_users": 999, "neighbours": "replace"}, "small-tree"),
        ({"delta": "1e-6", "public_n_users": 1000, "neighbours": "replace"}, "scorecard"),
        ({"delta": "1e-6", "method": "scorecard"}, "scorecard"),
        ({"delta": "1e-6", "public_n_users": 10**6, "method": "small-tree"}, "small-tree"),
    ],
)
def test_the_default_of_wide_tables(facts: dict[str, Any], method: str) -> None:
    assert default_rules(DOMAINS, epsilon=1, **facts).method == method


def test_the_default_says_why() -> None:
    rule = pp.learn(data(), epsilon=1, delta="1e-6", public_n_users=600)
    assert rule.learner == "scorecard"
    assert "600 people declared, times theta = 1 at least 500: a scorecard" in rule.parameters["chosen because"]


def test_refusals_name_what_to_do() -> None:
    with pytest.raises(ParameterError, match="delta > 0"):
        pp.learn(data(5), pp.Scorecards(), epsilon=1)
    with pytest.raises(ParameterError, match="use the method 'scorecard'"):
        pp.learn(data(5), pp.Scorecards(), epsilon=1, method="mean")
    with pytest.raises(ParameterError, match="scorecards"):
        pp.learn(data(5), pp.Stumps(), epsilon=1, delta="1e-6", method="scorecard")


def test_nothing_is_certified_and_nothing_is_made_up() -> None:
    """No plan of other methods stands in for a scorecard, neither on its own nor in a report."""
    with pytest.raises(ParameterError, match="measured, not certified"):
        pp.plan(pp.Scorecards(DOMAINS), epsilon=1)
    rule = pp.learn(data(20), pp.Scorecards(), epsilon=1, delta="1e-6")
    assert "How many people rules" not in report_html(rule, pp.Scorecards())


def test_the_command(tmp_path: Path, command: Command) -> None:
    frame().write_parquet(tmp_path / "t.parquet")
    words = ["t.parquet", "--user", "who", "--label", "late", "--epsilon", "2", "--delta", "1e-6"]
    words += [word for name in DOMAINS for word in ("--feature", f"{name}=0:9")]
    run = command(
        "learn", *words, "--rule", "scorecard", "--json", "--report", "scorecard.html", "--out", "scorecard.json"
    )
    assert run.code == 0, run.err
    assert json.loads(run.out)["value"]["kind"] == "points-scorecard"
    page = (tmp_path / "scorecard.html").read_text()
    assert "The scorecard" in page
    assert "Look up the points" in page
    for engine in ("memory", "stream"):
        wide = command("learn", *words, "--people", "300", "--engine", engine)
        assert wide.code == 0, wide.err
        assert "the points exceed" in wide.out
    set_ = command("learn", *words, "--rule", "scorecard", "--method", "scorecard", "--set", "calibrate=1/4")
    assert "points and how often" in set_.out, set_.err
    refused = command("learn", *[word for word in words if word not in ("--delta", "1e-6")], "--rule", "scorecard")
    assert refused.code == 2
    assert "delta > 0" in refused.err


def test_the_estimator() -> None:
    table = frame()
    X, y = table.select(list(DOMAINS)).to_pandas(), table["late"].to_pandas()
    model = PrivateRuleClassifier(rule="scorecard", epsilon=4, delta="1e-6", domains=DOMAINS)
    model.fit(X, y, groups=table["who"].to_numpy())
    assert model.score(X, y) > 0.8
    assert ((model.predict_proba(X)[:, 1] > 0.5) == (model.predict(X) == model.classes_[1])).all()
    assert ((model.decision_function(X) > 0) == (model.predict(X) == model.classes_[1])).all()
    told = PrivateRuleClassifier(rule="scorecard", epsilon=4, delta="1e-6", domains=DOMAINS, calibrate="1/4")
    chances = told.fit(X, y, groups=table["who"].to_numpy()).predict_proba(X)
    assert chances.shape == (len(X), 2)
    assert np.allclose(chances.sum(axis=1), 1)
    assert chances[y.to_numpy() == 1, 1].mean() > chances[y.to_numpy() == 0, 1].mean() + 0.2
    by_class = PrivateRuleClassifier(rule=pp.Scorecards(top=9), epsilon=4, delta="1e-6", domains=DOMAINS)
    assert by_class.fit(X, y, groups=table["who"].to_numpy()).rule_.top == 9
    with pytest.raises(ParameterError, match="delta"):
        PrivateRuleClassifier(rule="stump", delta="1e-6", domains=DOMAINS).fit(X, y, groups=table["who"].to_numpy())


def test_the_report_shows_the_card() -> None:
    rule = pp.learn(data(), pp.Scorecards(), epsilon=4, delta="1e-6", calibrate="1/4")
    page = report_html(rule)
    assert "<svg" in page
    assert f"more than {rule.value.threshold} of {rule.value.most} points" in page
    assert "measured on the people it was learned from" in page
    never = pp.learn(data(0), pp.Scorecards({"x0": TEN}), epsilon="1/100", delta="1e-6", public_n_users=1)
    assert "<html" in report_html(never)


def test_hostile_names_stay_text() -> None:
    name = "<script>$x$\n"
    table = frame(20).rename({"x0": name})
    users = pp.UserData.from_frame(table, user="who", features={name: TEN, "x1": TEN}, label="late")
    page = report_html(pp.learn(users, pp.Scorecards(), epsilon=50, delta="1e-6"))
    assert "<script>$x" not in page
