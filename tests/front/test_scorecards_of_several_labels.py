"""Scorecards for more than two labels: one against the rest for each, at every door and on every engine."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from attrs import define
from commands import Command

import privpac as pp
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours
from privpac.methods import scorecard as kernels
from privpac.methods.scorecard import (
    CentrePass,
    DescentState,
    NormPass,
    ScorecardLearner,
    StepPass,
    centre_clip,
    norm_cap,
    pack_answers,
    passes_over,
)
from privpac.report import report_html
from privpac.rules.scorecards import CalibrationBin, Scorecard, ScorecardPerLabel
from privpac.sklearn import PrivateRuleClassifier
from privpac.testing import SeededRng, insecure_randomness

TEN = pp.Integers(0, 9)
DOMAINS = {f"x{j}": TEN for j in range(5)}
MEALS = ["meat", "fish", "none"]
PROMISE = {"epsilon": 6, "delta": "1e-6"}


def frame(users: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    made = {name: rng.integers(0, 10, 2 * users) for name in DOMAINS}
    place = np.clip((made["x0"] + made["x1"]) // 7, 0, 2)
    return pl.DataFrame({"who": np.repeat(np.arange(users), 2), **made, "meal": np.array(MEALS)[place]})


def eaters(users: int = 300, **more: Any) -> pp.UserData:
    return pp.UserData.from_frame(frame(users), user="who", features=DOMAINS, label="meal", classes=MEALS, **more)


def test_learned_printed_saved(tmp_path: Path) -> None:
    rule = pp.learn(eaters(), pp.Scorecards(), **PROMISE)
    assert isinstance(rule.value, ScorecardPerLabel)
    assert rule.value.names == tuple(MEALS)
    assert str(rule.guarantee) == "(6, 1e-06)-DP per user, add-remove"
    assert str(rule).startswith("meal: the label whose points are furthest above its threshold")
    assert all(f" {meal}, threshold " in str(rule) for meal in MEALS)
    said = rule.predict(frame())
    assert set(said) <= set(MEALS)
    assert (said == frame()["meal"].to_numpy()).mean() > 0.7
    rule.save(tmp_path / "scorecards.json")
    assert pp.load(tmp_path / "scorecards.json") == rule
    chances = rule.value.predict_proba(frame())
    assert np.allclose(chances.sum(axis=1), 1)
    assert rule.value.decision_function(frame()).shape == chances.shape == (600, 3)
    with pytest.raises(ParameterError, match="two labels"):
        rule.predict(frame(), threshold="1/3")


def test_chances_are_those_of_the_cards_made_to_add_up() -> None:
    rule = pp.learn(eaters(), pp.Scorecards(), calibrate="1/4", **PROMISE).value
    chances = rule.predict_proba(frame())
    assert chances.shape == (600, 3)
    assert np.allclose(chances.sum(axis=1), 1)
    right = np.array([MEALS.index(meal) for meal in frame()["meal"]])
    assert chances[np.arange(600), right].mean() > 0.5
    assert "points and how often" in str(rule)


def test_two_classes_are_one_card() -> None:
    table = frame().with_columns(meal=pl.col("meal").replace("none", "fish"))
    two = pp.UserData.from_frame(table, user="who", features=DOMAINS, label="meal", classes=["fish", "meat"])
    assert isinstance(pp.learn(two, pp.Scorecards(), **PROMISE).value, Scorecard)


def test_the_default_asks_for_more_people() -> None:
    """``500 sqrt(3)`` of them at epsilon 1."""
    chosen = {n: pp.learn(eaters(20), epsilon=1, delta="1e-6", public_n_users=n).learner for n in (865, 866)}
    assert chosen == {865: "small tree", 866: "scorecard"}


def test_refusals_before_anything_is_spent() -> None:
    with pytest.raises(ParameterError, match="differ"):
        pp.learn(eaters(3), pp.Scorecards(classes=["a", "b", "c"]), **PROMISE)
    plain = pp.UserData.from_users([[(1, 0)]], features={"x": TEN})
    with pytest.raises(ParameterError, match="in the data too"):
        pp.learn(plain, pp.Scorecards(classes=MEALS), **PROMISE)
    for rule, promise in ((pp.Scorecards(), PROMISE), (pp.SmallTrees(), {"epsilon": 1})):
        with pytest.raises(ParameterError, match="two labels"):
            pp.learn(eaters(20), rule, evaluate="1/5", **promise)


def test_the_command(tmp_path: Path, command: Command) -> None:
    frame().write_parquet(tmp_path / "t.parquet")
    words = ["t.parquet", "--user", "who", "--label", "meal", "--classes", ",".join(MEALS)]
    words += ["--epsilon", "6", "--delta", "1e-6", "--rule", "scorecard"]
    words += [word for name in DOMAINS for word in ("--feature", f"{name}=0:9")]
    for engine in ("memory", "stream"):
        more = ["--engine", engine, "--json", "--report", "scorecards.html", "--out", "scorecards.json"]
        run = command("learn", *words, *more)
        assert run.code == 0, run.err
        assert json.loads(run.out)["value"]["kind"] == "scorecards"
    page = (tmp_path / "scorecards.html").read_text()
    assert "one scorecard for each label" in page
    assert page.count("<svg") >= 3
    told = command("predict", "scorecards.json", "t.parquet", "--out", "said.csv")
    assert told.code == 0, told.err
    assert set(pl.read_csv(tmp_path / "said.csv")["prediction"]) <= set(MEALS)


def test_the_estimator() -> None:
    table = frame()
    X, y = table.select(list(DOMAINS)).to_pandas(), table["meal"].to_pandas()
    for rule in ("scorecard", pp.Scorecards()):
        model = PrivateRuleClassifier(rule=rule, domains=DOMAINS, calibrate="1/4", **PROMISE)
        model.fit(X, y, groups=table["who"].to_numpy())
        assert model.score(X, y) > 0.6
        assert model.predict_proba(X).shape == (len(X), 3)
        assert model.classes_.tolist() == sorted(MEALS)


def test_the_report_of_labels_that_are_hostile() -> None:
    names = ["<b>", "$x$", "c"]
    users = [[(x, names[x % 3])] for x in range(10)] * 20
    data = pp.UserData.from_users(users, features={"x": TEN}, classes=names)
    page = report_html(pp.learn(data, pp.Scorecards(), epsilon=50, delta="1e-6"))
    assert "<b>:" not in page
    assert "<b>&lt;b&gt;</b> (threshold" in page


# Rules


def scorecard(label: str, points: tuple[int, ...], threshold: int, bins: tuple[CalibrationBin, ...] = ()) -> Scorecard:
    column = pp.Scorecards({"x": pp.Integers(0, len(points) - 1)}).binned
    return Scorecard(column, (points,), threshold, 20, label, bins)


def test_the_largest_excess_wins_and_the_first_of_ties() -> None:
    rule = ScorecardPerLabel((scorecard("a", (9, 0, 0), 5), scorecard("b", (0, 9, 0), 5), scorecard("c", (0, 0, 8), 4)))
    assert rule.predict([[0], [1], [2]]).tolist() == ["a", "b", "c"]
    even = ScorecardPerLabel((scorecard("a", (1, 1, 0), 0), scorecard("b", (1, 0, 1), 0)))
    assert even.predict([[0], [1], [2]]).tolist() == ["a", "a", "b"]
    constant = ScorecardPerLabel((scorecard("a", (1, 0, 0), 9), scorecard("b", (0, 0, 0), -1)), "meal")
    assert str(constant) == "meal: b, whatever the points"
    assert constant.picture == "none"


def test_chances_of_rates_that_are_all_zero_are_alike() -> None:
    zero = (CalibrationBin(1, Fraction(0), Fraction(0), Fraction(1)),)
    rule = ScorecardPerLabel((scorecard("a", (1, 0), 0, zero), scorecard("b", (0, 1), 0, zero)))
    assert rule.predict_proba([[0], [1]]).tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_cards_that_do_not_go_together_are_refused() -> None:
    one, each_bin = scorecard("a", (1, 0), 0), (CalibrationBin(1, Fraction(0), Fraction(0), Fraction(1)),)
    for others in ((one,), (one, one), (one, scorecard("b", (1, 0, 0), 0)), (one, scorecard("b", (1, 0), 0, each_bin))):
        with pytest.raises(ParameterError):
            ScorecardPerLabel(others)


# Engines and privacy


@define(slots=False)
class Far:
    """Users elsewhere: kernels and sums travel as bytes, users come in two parts."""

    users: pp.UserData
    distributed: bool = True

    def fold(self, kernel: Any) -> Any:
        sent = pickle.loads(pickle.dumps(kernel))
        half = np.arange(self.users.n_users) < self.users.n_users // 2
        parts = [sent.chunk(self.users.take(part)) for part in (half, ~half)]
        return sent.merge(pickle.loads(pickle.dumps(parts[0])), parts[1])


def test_every_engine_has_the_same_sums_and_the_same_cards(tmp_path: Path) -> None:
    frame(60).sample(fraction=1.0, shuffle=True, seed=1).write_parquet(tmp_path / "t.parquet")
    scanned = pp.scan(tmp_path / "t.parquet", user="who", features=DOMAINS, label="meal", classes=MEALS)
    learner = ScorecardLearner(pp.Scorecards(steps=3), 6, delta="1e-6", calibrate="1/4")
    with insecure_randomness():
        here, there = (learner.learn(data, rng=SeededRng(3)) for data in (eaters(60), scanned))
    assert here == there
    concept, bound = pp.Scorecards().bind(eaters(60))
    table, centre = concept.codes, (7,) * concept.codes.coordinates
    states = tuple(DescentState((k,) * (table.coordinates + 1), centre) for k in (0, 1 << 20, -(1 << 22)))
    near, far = passes_over(concept.binned, bound), passes_over(concept.binned, Far(bound))  # type: ignore[arg-type]
    for work in (
        CentrePass(table, centre_clip(5)),
        NormPass(table, centre, norm_cap(5), (0, 1, 2)),
        StepPass(table, states, (500, 900, 1500), (0, 1, 2)),
    ):
        assert near(work) == far(work)
        assert len(near(work)) == work.size


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_one_person_costs_no_more_than_all_shares(neighbours: Neighbours) -> None:
    """What one person moves in the passes of all scorecards together, over twice the variances, is within the budget;
    with the whole budget for every scorecard (the mutation) it is not."""
    concept, bound = pp.Scorecards().bind(eaters(60))
    packed, table = pack_answers(concept.binned, bound), concept.codes
    budget = ScorecardLearner(pp.Scorecards(), 1, delta="1e-6", neighbours=neighbours, public_n_users=60).budget(5, 3)
    assert sum(budget.parts) == budget.rho
    state = DescentState(
        tuple(np.random.default_rng(1).integers(-(1 << 24), 1 << 24, table.coordinates + 1).tolist()),
        (0,) * table.coordinates,
    )
    spent, greedy = Fraction(0), Fraction(0)
    for answer in range(3):
        for clip in (409, 700):
            rows = np.array([kernels.clip(g, clip) for g in kernels.gradients(table, packed, state, answer)])
            apart = rows[:, None] - rows[None] if neighbours is Neighbours.REPLACE else rows[:, None]
            moved = int((apart**2).sum(axis=2).max())
            assert Fraction(moved) / (2 * budget.step_variance(clip)) <= budget.step
        spent += budget.step
        greedy += 3 * budget.step
    assert budget.steps * spent == Fraction(83, 100) * budget.rest < budget.steps * greedy
