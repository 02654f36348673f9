"""How good is it: learn with a part set aside, evaluate, select-model and best-error, in Python, command and
estimator."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from commands import Command

import privpac as pp
from privpac.errors import IncompatibleGuarantees, ItemLevelWarning, ParameterError
from privpac.evaluation import Evaluation, EvaluationCertificate
from privpac.report import evaluation_html, report_html

CUT = 40
BASE = ["--user", "who", "--label", "ill", "--epsilon", "1"]


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    """900 people with four visits each; one label in ten is wrong."""
    rng = np.random.default_rng(1)
    age = rng.integers(0, 100, 3600)
    ill = (age > CUT) ^ (rng.random(3600) < 0.1)
    said = (age > CUT + 5).astype(int)
    return pl.DataFrame({"who": [f"u{k % 900}" for k in range(3600)], "age": age, "ill": ill.astype(int), "said": said})


@pytest.fixture
def table(tmp_path: Path, frame: pl.DataFrame) -> Path:
    frame.write_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


@pytest.fixture(scope="module")
def people(frame: pl.DataFrame) -> pp.UserData:
    features = {"age": pp.Integers(0, 99), "said": pp.Integers(0, 1)}
    return pp.UserData.from_frame(frame, user="who", features=features, label="ill")


CUTS = pp.Thresholds(feature="age")


def test_one_guarantee_covers_rule_evaluation_and_certificate(people: pp.UserData, tmp_path: Path) -> None:
    budget = pp.Guarantee(1, unit="user", neighbours="add-remove")
    with pp.BudgetLedger.create(tmp_path / "b.db", budget, dataset="t") as ledger:
        rule = pp.learn(people, CUTS, epsilon=1, evaluate="1/5", certify="1/4", records_per_user=4, ledger=ledger)
        assert ledger.remaining().epsilon == 0
    assert rule.guarantee is not None
    assert rule.guarantee.summary == "(1, 0)-DP per user, add-remove"
    assert isinstance(rule.evaluation, Evaluation)
    assert isinstance(rule.certificate, EvaluationCertificate)
    assert 100 < rule.evaluation.n_people.value < 260
    assert rule.certificate.excess_one_law < rule.certificate.excess < 0.5
    lines = str(rule).splitlines()
    assert lines[1].startswith("wrong for ")
    assert "at most" in lines[3]
    rule.save(tmp_path / "rule.json")
    assert pp.load(tmp_path / "rule.json") == rule
    assert rule.predict([[10], [90]]).tolist() == [0, 1]


@pytest.mark.parametrize(("ids", "spent"), [("private", "1/2"), ("public", "1")])
def test_replace_halves_the_budget_of_the_parts_unless_ids_are_public(
    people: pp.UserData, ids: str, spent: str
) -> None:
    rule = pp.learn(people, CUTS, epsilon=1, neighbours="replace", evaluate="1/5", ids=ids)
    assert rule.guarantee is not None
    assert rule.guarantee.summary == "(1, 0)-DP per user, replace"
    rate = rule.evaluation.noise * rule.evaluation.levels * Fraction(19, 16)  # sums and products of four cells
    assert rate == (pp.Guarantee(spent, unit="user", neighbours="replace").epsilon / (1 if ids == "private" else 2))


def test_what_cannot_be_evaluated_is_said_before_any_data() -> None:
    nothing: Any = object()
    for asked in ({"certify": "1/4"}, {"evaluate": 1}, {"evaluate": "1/5", "certify": 1}, {"evaluate": 0}):
        with pytest.raises(ParameterError):
            pp.learn(nothing, CUTS, epsilon=1, **asked)
    with pytest.raises(ParameterError, match="ids"):
        pp.learn(nothing, CUTS, epsilon=1, evaluate="1/5", ids="secret")
    with pytest.raises((IncompatibleGuarantees, ParameterError)):
        pp.learn(nothing, CUTS, epsilon=1, evaluate="1/5", neighbours="replace", method="empirical")


@pytest.mark.parametrize("users", [[], [[]], [[(3, 1)]], [[]] * 50])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_nobody_one_person_and_people_without_records(users: list[Any], neighbours: str) -> None:
    data = pp.UserData.from_users(users, features={"age": pp.Integers(0, 9)})
    rule = pp.learn(data, pp.Thresholds(), epsilon="0.01", evaluate="1/5", certify="1/4", neighbours=neighbours)
    for rate in rule.evaluation.rates.values():
        assert -1 <= rate.sample.lo <= rate.sample.hi <= 1
        assert -1 <= rate.population.lo <= rate.population.hi <= 1
    assert 0 <= rule.certificate.excess <= 1
    assert str(rule)
    assert pp.select_model({"a": lambda t: t["age"], "b": lambda t: 1}, data, epsilon=1, neighbours=neighbours)
    pp.evaluate(rule, data, epsilon=200, neighbours=neighbours, cells="error")


def test_epsilons_at_both_ends(people: pp.UserData) -> None:
    rule = pp.Thresholds(pp.Integers(0, 99), feature="age").decode(CUT + 1)
    exact = pp.evaluate(rule, people, epsilon=200).value
    assert exact.n_people.value == pytest.approx(900, abs=0.1)
    assert abs(exact.error.value - 0.1) < 0.02
    assert exact.error.sample.hi - exact.error.sample.lo < 0.004
    for tiny in ("1e-12", "1e-25"):
        vague = pp.evaluate(rule, people, epsilon=tiny).value
        assert 0 <= vague.error.population.lo <= vague.error.population.hi <= 1
        assert str(vague)
    with pytest.raises(ParameterError, match="epsilon must be at least"):
        pp.evaluate(rule, people, epsilon="1e-40")
    with pytest.raises(ParameterError, match="epsilon must be at least"):
        pp.best_error(people, CUTS, epsilon="1e-40")


def test_without_people_records_are_spoken_of(frame: pl.DataFrame) -> None:
    data = pp.UserData.from_frame(frame, user=None, features={"age": pp.Integers(0, 99)}, label="ill")
    with pytest.warns(ItemLevelWarning):
        found = pp.learn(data, CUTS, epsilon=1, evaluate="1/5")
    assert "of records (" in str(found)
    assert "new records from the same population" in str(found)
    assert "new people from the same population" not in str(found.evaluation)


def test_few_people_and_no_gain_are_said(people: pp.UserData) -> None:
    wide = pp.Intervals(pp.Integers(0, 4999), feature="age")
    data = pp.UserData.from_users([[(k, 1)] for k in range(10)], features={"age": pp.Integers(0, 4999)})
    found = pp.learn(data, wide, epsilon="1/2", evaluate="1/2", confidence="0.9999999")  # a constant is never wrong
    assert any("too few people to tell" in line for line in found.warnings)
    likely = pp.learn(data, wide, epsilon="1/2", evaluate="1/2", confidence="1/2")  # more than 60 by noise: below 1e-6
    assert any("very few people" in line for line in likely.warnings)
    declared = pp.learn(data, wide, epsilon=1, public_n_users=20, method="regret")
    assert any("very few people" in line for line in declared.warnings)
    fine = pp.learn(people, CUTS, epsilon=1, evaluate="1/5")
    assert not any("very few" in line for line in fine.warnings)


def test_choose_finds_the_best_and_evaluates_it_on_others(people: pp.UserData, tmp_path: Path) -> None:
    models = {
        "always": lambda table: np.ones(len(table)),
        "good": pp.Thresholds(pp.Integers(0, 99), feature="age").decode(CUT + 1),
        "broken": lambda table: 1 / 0,
        "column": "said",
    }
    found = pp.select_model(models, people, epsilon=1, evaluate="1/4")
    assert found.value.name in ("good", "column")
    assert found.evaluation.error.value < 0.35
    assert found.guarantee is not None
    assert found.guarantee.epsilon == 1
    found.save(tmp_path / "c.json")
    assert pp.load(tmp_path / "c.json") == found
    with pytest.raises(ParameterError):
        pp.select_model({}, people, epsilon=1)


def test_choose_scores_models_as_plain_counting_does(people: pp.UserData) -> None:
    from privpac.evaluation import Candidates
    from privpac.evaluation.best_error import MeanError

    models = {f"m{c}": pp.Thresholds(pp.Integers(0, 99), feature="age").decode(c) for c in range(0, 101, 7)}
    mine = Candidates(models).profile(people, MeanError(840))
    theirs = CUTS.profile(people, MeanError(840))
    assert [mine.score(i) for i in range(len(models))] == [theirs.score(c) for c in range(0, 101, 7)]


# The command


def test_learn_evaluate_and_certify_on_the_command_line(command: Command, table: Path) -> None:
    learned = command("learn", "t.parquet", *BASE, "--feature", "age=0:99", "--evaluate", "1/5", "--certify", "1/4",
                      "--out", "rule.json", "--report", "rule.html")  # fmt: skip
    assert learned.code == 0, learned
    assert "wrong for" in learned.out
    assert "best rule of its kind" in learned.out
    assert "How good it is" in Path("rule.html").read_text()
    run = command("evaluate", "rule.json", "t.parquet", "--user", "who", "--label", "ill", "--epsilon", ".5",
                  "--report", "good.html", "--out", "good.json")  # fmt: skip
    assert run.code == 0, run
    assert re.search(r"wrong for [\d.]+ % of a person's records \([\d.]+ % to [\d.]+ %\); always saying yes", run.out)
    page = Path("good.html").read_text()
    assert page.count("<svg") == 2
    assert "a constant: wrong" in page
    assert pp.load("good.json").value.cells == "table"
    shown = json.loads(command("evaluate", "column:said", "t.parquet", *BASE, "--json").out)
    assert 0 < shown["rates"]["error"]["value"] < 0.4
    streamed = command("learn", "t.parquet", *BASE, "--feature", "age=0:99", "--evaluate", "1/5", "--engine", "stream")
    assert "wrong for" in streamed.out, streamed
    for engine in ("stream", "memory"):
        assert command("evaluate", "rule.json", "t.parquet", *BASE, "--engine", engine, "--cells", "error").code == 0


def test_select_model_and_best_error_on_the_command_line(command: Command, table: Path) -> None:
    command("learn", "t.parquet", *BASE, "--feature", "age=0:99", "--out", "rule.json")
    run = command("select-model", "t.parquet", "--model", "mine=rule.json", "--model", "theirs=column:said", *BASE,
                  "--evaluate", "1/4")  # fmt: skip
    assert run.code == 0, run
    assert "chosen from mine, theirs" in run.out
    low = command("best-error", "t.parquet", *BASE, "--feature", "age=0:99", "--out", "low.json")
    assert low.code == 0, low
    assert "no rule of this kind is wrong less often than" in low.out
    assert 0 <= pp.load("low.json").value.lower() < 0.2


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "nothing.json", "t.parquet", *BASE),
        ("evaluate", "column:", "t.parquet", *BASE),
        ("evaluate", "column:nowhere", "t.parquet", *BASE),
        ("evaluate", "column:age", "t.parquet", *BASE),
        ("evaluate", "column:said", "t.parquet", *BASE, "--cells", "both"),
        ("evaluate", "column:said", "t.parquet", *BASE, "--weight", "record"),
        ("evaluate", "column:said", "t.parquet", *BASE, "--confidence", "2"),
        ("select-model", "t.parquet", "--model", "a", *BASE),
        ("select-model", "t.parquet", "--model", "a=column:said", "--model", "a=column:said", *BASE),
        ("learn", "t.parquet", *BASE, "--feature", "age=0:99", "--certify", "1/4"),
        ("learn", "t.parquet", *BASE, "--feature", "age=0:99", "--evaluate", "5"),
        ("best-error", "t.parquet", *BASE, "--feature", "age=0:99", "--rule", "nonsense"),
    ],
)
def test_bad_questions_are_refused_in_one_line(command: Command, table: Path, words: tuple[str, ...]) -> None:
    run = command(*words)
    assert run.code == 2, run
    assert run.err.count("\n") == 1
    assert "Traceback" not in run.err


def test_plans_of_an_evaluation(command: Command) -> None:
    run = command("plan", "evaluation", "--epsilon", "1", "--people", "2000")
    assert run.code == 0, run
    assert run.out.startswith("2,000 people, epsilon 1, add-remove: an error of 10 % is known to")
    found = json.loads(command("plan", "evaluation", "--epsilon", "1", "--alpha", "0.02", "--json").out)
    assert found["population"] <= 0.02
    assert found["n_users"] == pp.plan_evaluation(epsilon=1, half_width="0.02").n_users
    for bad in (["--epsilon", "1"], ["--people", "20"], ["--epsilon", "1", "--people", "20", "--alpha", "0.1"]):
        assert command("plan", "evaluation", *bad).code == 2


def test_files_with_damaged_findings_are_refused(people: pp.UserData) -> None:
    from privpac.errors import ModelFileError

    whole = json.loads(pp.learn(people, CUTS, epsilon=1, evaluate="1/5", certify="1/4").to_json())
    assert pp.Released.from_json(json.dumps(whole)).evaluation is not None
    for change in (
        {"findings": []},
        {"findings": {"evaluation": {"kind": "nowhere"}}},
        {"findings": {"evaluation": whole["findings"]["evaluation"] | {"sums": [1, 2]}}},
        {"findings": {"evaluation": whole["findings"]["evaluation"] | {"noise": "1/0"}}},
        {"findings": {"evaluation": whole["findings"]["evaluation"] | {"products": None}}},
        {"findings": {"evaluation": whole["findings"]["evaluation"] | {"products": [1, 2, 3]}}},
        {"findings": {"evaluation": whole["findings"]["evaluation"] | {"products": [1, 2, 3, 4, 5, "6"]}}},
        {"findings": {"evaluation": whole["findings"]["evaluation"] | {"product_weight": "0/1"}}},
        {"findings": {"evaluation": whole["findings"]["evaluation"] | {"noise": 10**-300}}},
        {"findings": {"certificate": whole["findings"]["certificate"] | {"least": 3}}},
        {"findings": {"evaluation": 5}},
    ):
        with pytest.raises(ModelFileError):
            pp.Released.from_json(json.dumps(whole | change))


def test_files_of_earlier_versions_keep_their_meaning(people: pp.UserData) -> None:
    """Without products a file says version 1 and nothing new; with them it says version 2, also in a certificate."""
    plain = pp.evaluate(lambda table: table["age"] > CUT, people, epsilon=1, moments=False)
    old = json.loads(plain.to_json())
    assert old["version"] == 1
    assert not {"products", "product_weight"} & old["value"].keys()
    assert pp.Released.from_json(json.dumps(old)) == plain
    whole = json.loads(pp.learn(people, CUTS, epsilon=1, evaluate=True, certify="1/4").to_json())
    assert whole["version"] == 2
    assert len(whole["findings"]["certificate"]["evaluation"]["products"]) == 6
    before = Evaluation(
        (400_000, 30_000, 50_000, 320_000), "table", "user", 840, Fraction(1, 840), "add-remove", "0.95"
    )  # type: ignore[arg-type]
    values = before.to_dict()
    assert Evaluation.from_dict(values) == before
    assert before.error.population is not None
    assert before.error.population.lo < 0.1 < before.error.population.hi


def test_the_share_that_evaluates(people: pp.UserData) -> None:
    for options, share in (({}, "1/3"), ({"public_n_users": 900}, "1/2"), ({"public_n_users": 5000}, "11/50")):
        found = pp.learn(people, CUTS, epsilon=1, evaluate=True, method="regret" if options else "auto", **options)
        assert found.parameters["evaluated on"] == f"{share} of the people"
    models = {"a": lambda table: table["age"] > CUT, "b": lambda table: table["age"] < CUT}
    chosen = pp.select_model(models, people, epsilon=1, evaluate=True)
    assert chosen.parameters["evaluated on"] == "1/3 of the people"
    assert chosen.evaluation.better_than_constant
    assert pp.learn(people, CUTS, epsilon=1, evaluate=False).evaluation is None


# The estimator


def test_the_estimator_evaluates_and_certifies(frame: pl.DataFrame) -> None:
    from privpac.sklearn import PrivateRuleClassifier

    X, y = frame.select("age").to_numpy(), frame["ill"].to_numpy()
    model = PrivateRuleClassifier(
        rule="threshold", epsilon=1, domains=[pp.Integers(0, 99)], evaluate="1/5", certify="1/4"
    ).fit(X, y, groups=frame["who"].to_numpy())
    assert model.evaluation_.error.value < 0.4
    assert model.certificate_.excess <= 1
    assert model.guarantee_.epsilon == 1
    plain = PrivateRuleClassifier(rule="threshold", epsilon=1).fit(X, y, groups=frame["who"].to_numpy())
    with pytest.raises(AttributeError, match="evaluate="):
        _ = plain.evaluation_
    assert not hasattr(plain, "certificate_")


def test_pages_show_what_was_measured_and_nothing_else(people: pp.UserData) -> None:
    rule = pp.learn(people, CUTS, epsilon=1, evaluate="1/5", certify="1/4")
    page = report_html(rule, CUTS)
    assert "best rule of its kind" in page
    assert "Before the data, with all of epsilon" in page
    assert "new people from the same population" in page
    assert "typical, not guaranteed" in page
    assert re.search(r"better than the constant by</td><td class='n'>[\d.]+ points", page)
    assert "Right and wrong" not in report_html(pp.learn(people, CUTS, epsilon=1))
    found = pp.evaluate(lambda table: table["age"] > CUT, people, epsilon=1, cells="error", neighbours="replace")
    assert evaluation_html(found).count("<svg") == 1
    same = pp.evaluate(rule, people, epsilon=1, same_people=True)
    assert "learned from" in evaluation_html(same, subject="<b>")
    assert "<b>?" not in evaluation_html(same, subject="<b>")
    with pytest.raises(ParameterError):
        evaluation_html(rule)


# Every class of rules


def test_a_points_card_is_evaluated() -> None:
    from privpac.rules.named import RULES

    users = [[(k % 2, k // 2 % 2, k % 2)] for k in range(300)]
    features = {"a": pp.Integers(0, 1), "b": pp.Integers(0, 1)}
    data = pp.UserData.from_users(users, features=features)
    found = pp.learn(data, RULES["scorecard"](features), epsilon=2, delta="1e-6", evaluate="1/4")
    assert found.guarantee is not None
    assert found.guarantee.epsilon == 2
    assert found.evaluation.error.value <= 1


@pytest.mark.parametrize("rule", ["threshold-both", "stump", "small-tree", "point", "interval", "rectangle",
    "conjunction", "disjunction", "parity", "decision-list", "halfspace"])  # fmt: skip
def test_every_kind_of_rule_is_evaluated_and_certified(rule: str) -> None:
    from privpac.methods.registry import named_class

    rng = np.random.default_rng(2)
    single = rule in ("threshold-both", "point", "interval")
    features = {name: pp.Integers(0, 1) for name in (["a"] if single else ["a", "b", "c"])}
    users = [[tuple(map(int, rng.integers(0, 2, len(features) + 1))) for _ in range(3)] for _ in range(150)]
    data = pp.UserData.from_users(users, features=features)
    concept = named_class(rule, features, "auto")
    found = pp.learn(data, concept, epsilon=1, evaluate="1/3", certify="1/4")
    assert found.evaluation.error.value <= 1
    assert 0 <= found.certificate.least.lower() <= 1
    assert pp.Released.from_json(found.to_json()) == found


def test_trees_with_open_and_counted_vocabularies_are_evaluated() -> None:
    data = pp.UserData.from_users([[("lib/net", 1), ("lib/gui", 0)]] * 300, features={"at": pp.Texts()})
    found = pp.learn(data, pp.PrefixTree(4), epsilon=2, delta="1e-6", setting="realizable", evaluate="1/4")
    assert found.evaluation.error.value <= 1
    paths = pp.UserData.from_users([[(3, 1), (5, 0)]] * 200, features={"x": pp.Integers(1, 8)})
    counted = pp.learn(paths, pp.PathTree(8), epsilon=1, evaluate="1/4", certify="1/4")
    assert counted.certificate is not None


def test_the_estimator_has_chances_of_any_rule_that_is_evaluated(frame: pl.DataFrame) -> None:
    from privpac.sklearn import PrivateRuleClassifier

    rows = frame.to_pandas()
    X, y, groups = rows[["age"]], rows["ill"], rows["who"]
    model = PrivateRuleClassifier(rule="threshold", epsilon=4, domains=[pp.Integers(0, 99)], classes=[0, 1])
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model.fit(X, y, groups=groups), "decision_function")
    model = model.set_params(evaluate="1/3").fit(X, y, groups=groups)
    chances, said = model.predict_proba(X), model.predict(X)
    assert np.allclose(chances.sum(axis=1), 1)
    assert ((chances[:, 1] > 0.5) == (said == 1)).all()
    assert ((model.decision_function(X) > 0) == (said == 1)).all()
    assert (model.classes_[chances.argmax(axis=1)] == said).all()


def test_a_page_shows_the_curve_and_the_calibration_of_regions(people: pp.UserData) -> None:
    """A tree with chances of its own has both; one without has the curve; a cut-off has one point, and neither."""
    kinds = {"both": {"calibrate": "1/4"}, "curve": {}}
    for kind, options in kinds.items():
        released = pp.learn(people, pp.SmallTrees(), epsilon=4, evaluate="1/3", **options)
        text = report_html(released)
        assert "ROC curve" in text
        assert ("How far its chances are right" in text) == (kind == "both")
        assert "area under the ROC curve" in str(released.evaluation)
    plain = pp.learn(people, CUTS, epsilon=4, evaluate="1/3")
    assert "ROC curve" not in report_html(plain)
