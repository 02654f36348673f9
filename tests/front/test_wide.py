"""Wide tables through every door: which rules are learned where none are named, and small trees by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from commands import Command

import privpac as pp
from privpac.api.learn import prepare
from privpac.data import Categories, Floats, Integers, Missing
from privpac.errors import ParameterError
from privpac.methods import registry
from privpac.methods.registry import WideDefault, default_rules
from privpac.report import report_html
from privpac.rules.small_trees import SmallTree, SmallTrees
from privpac.sklearn import PrivateRuleClassifier

TEN = Integers(0, 9)


def frame(columns: int = 6, people: int = 60, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rows = people * 3
    x = {f"x{j}": rng.integers(0, 10, rows) for j in range(columns)}
    late = (x["x0"] > 4) ^ (x["x1"] > 6) if columns > 1 else x["x0"] > 4
    return pl.DataFrame({**x, "late": late.astype(int), "who": np.repeat(np.arange(people), 3)})


def data(columns: int = 6) -> pp.UserData:
    return pp.UserData.from_frame(
        frame(columns), user="who", features={f"x{j}": TEN for j in range(columns)}, label="late"
    )


# Without a class


@pytest.mark.parametrize(
    ("columns", "kind", "why"),
    [
        (1, "Thresholds", "a cut"),
        (2, "Stumps", "best cut"),
        (4, "Stumps", "best cut"),
        (5, "SmallTrees", "a small tree"),
    ],
)
def test_the_number_of_columns_decides(columns: int, kind: str, why: str) -> None:
    released = pp.learn(data(columns), epsilon=1)
    assert released.parameters["class"] == kind
    assert why in released.parameters["chosen because"]
    assert released.guarantee is not None
    assert (released.guarantee.epsilon, released.guarantee.delta) == (1, 0)


def test_a_named_method_decides_too() -> None:
    assert pp.learn(data(2), epsilon=1, method="small-tree").parameters["class"] == "SmallTrees"
    assert pp.learn(data(6), epsilon=1, method="mean").parameters["class"] == "Stumps"
    with pytest.raises(ParameterError, match="small trees"):
        pp.learn(data(2), pp.Stumps(), epsilon=1, method="small-tree")
    with pytest.raises(ParameterError, match="small-tree"):
        pp.learn(data(2), pp.SmallTrees(), epsilon=1, method="mean")


def test_a_delta_and_enough_people_open_the_door_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "WIDE", {"mean": WideDefault("mean", 200, lambda columns: pp.Stumps(columns))})
    features = dict.fromkeys((f"x{j}" for j in range(6)), TEN)

    def method(**facts: Any) -> str:
        return default_rules(features, epsilon=1, **facts).method

    assert method() == method(delta="1e-6") == method(public_n_users=10**6) == "small-tree"
    assert method(delta="1e-6", public_n_users=199) == "small-tree"
    assert method(delta="1e-6", public_n_users=200) == "mean"
    assert method(delta="1e-6", public_n_users=399, neighbours="replace") == "small-tree"
    assert method(delta="1e-6", public_n_users=400, neighbours="replace") == "mean"
    assert method(delta=0, public_n_users=10**6) == "small-tree"
    few = prepare(None, features=features, epsilon=1, delta="1e-6", public_n_users=10)
    assert few.learner.guarantee.delta == 0
    assert "not used" in few.choice.reason


def test_columns_without_domains_are_named() -> None:
    loose = pp.UserData.from_frame(frame(), user="who", features=[f"x{j}" for j in range(6)], label="late")
    with pytest.raises(ParameterError, match="have no domain"):
        pp.learn(loose, epsilon=1)


# By name


def test_a_tree_is_saved_reported_and_predicts(tmp_path: Path) -> None:
    released = pp.learn(data(), pp.SmallTrees(), epsilon=5)
    assert isinstance(released.value, SmallTree)
    assert set(released.predict(frame()).tolist()) <= {0, 1}
    released.save(tmp_path / "m.json")
    again = pp.load(tmp_path / "m.json")
    assert again == released
    assert np.array_equal(again.predict(frame()), released.predict(frame()))
    stored = json.loads((tmp_path / "m.json").read_text())["value"]
    assert stored["kind"] == "small-tree"
    assert stored["id"] == str(released.value.id)
    page = report_html(released)
    assert "The questions of the rule" in page
    assert "<svg" in page


def test_a_ledger_is_charged_once(tmp_path: Path) -> None:
    book = pp.BudgetLedger(tmp_path / "b.db", pp.Guarantee(2, unit="user", neighbours="add-remove"), dataset="people")
    released = pp.learn(data(), epsilon=1, ledger=book)
    assert len(book.history()) == 1
    assert "budget left" in released.parameters


def test_an_audit_decides_small_trees() -> None:
    learner = pp.SmallTreeLearner(SmallTrees({"x": Integers(0, 2)}, levels=2), 1)
    assert pp.audit(learner, n_users=2, records=1).verdict == "consistent with the claim"
    assert pp.audit(learner, n_users=2, records=1, neighbours="replace").verdict == "violates the claim"


def test_the_command_line(command: Command) -> None:
    frame().write_parquet("t.parquet")
    words = ["learn", "t.parquet", "--user", "who", "--label", "late", "--epsilon", "1"]
    wide = [*words, *(part for j in range(6) for part in ("--feature", f"x{j}=0:9"))]
    run = command(*wide, "--out", "m.json", "--report", "r.html")
    assert run.code == 0
    assert pp.load("m.json").parameters["class"] == "SmallTrees"
    named = command(*words, "--feature", "x0=0:9", "--feature", "x1=0:9,missing=own", "--rule", "small-tree", "--json")
    assert named.code == 0
    assert json.loads(named.out)["value"]["kind"] == "small-tree"
    assert command("predict", "m.json", "t.parquet").code == 0


# scikit-learn


def test_the_estimator() -> None:
    table = frame()
    X = table.select([f"x{j}" for j in range(6)]).to_numpy().astype(float)
    y = table["late"].to_numpy()
    model = PrivateRuleClassifier(rule="small-tree", epsilon=5, domains=[TEN] * 6)
    model.fit(X, y, groups=table["who"].to_numpy())
    assert isinstance(model.rule_, SmallTree)
    assert set(model.predict(X)) <= {0, 1}
    holes = X.copy()
    holes[::7, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(holes, y, groups=table["who"].to_numpy())
    owned = PrivateRuleClassifier(rule="small-tree", epsilon=5, domains=[Missing(TEN, "own"), *[TEN] * 5])
    owned.fit(holes, y, groups=table["who"].to_numpy())
    assert len(owned.predict(holes)) == len(holes)
    with pytest.raises(ParameterError, match="cuts must be public"):
        PrivateRuleClassifier(rule="small-tree", domains=[Floats()] * 6).fit(X, y, groups=table["who"].to_numpy())


def test_categories_and_item_level() -> None:
    people = pp.UserData.from_frame(
        frame().with_columns(kind=pl.Series(["a", "b", "c"] * 60)),
        user=None,
        features={"kind": Categories(["a", "b", "c"]), "x0": TEN},
        label="late",
    )
    with pytest.warns(pp.errors.ItemLevelWarning):
        released = pp.learn(people, pp.SmallTrees(), epsilon=1)
    assert "for each record" in str(released)


# More than two classes

MEALS = ["fish", "meat", "none"]


def meals(rows: int = 400) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    x, z = rng.integers(0, 10, rows), rng.integers(0, 10, rows)
    code = np.where(x > 4, 1, np.where(z > 4, 2, 0))
    return pl.DataFrame({"x": x, "z": z, "meal": [MEALS[c] for c in code], "who": np.arange(rows) // 2})


def eaters(**more: Any) -> pp.UserData:
    return pp.UserData.from_frame(meals(), user="who", features={"x": TEN, "z": TEN}, label="meal", **more)


def test_small_trees_name_one_of_many_labels(tmp_path: Path) -> None:
    released = pp.learn(eaters(classes=MEALS), pp.SmallTrees(), epsilon=50)
    said = released.predict(meals())
    assert set(said.tolist()) <= set(MEALS)
    assert np.mean(said == meals()["meal"].to_numpy()) > 0.9
    assert "meat" in str(released)
    released.save(tmp_path / "m.json")
    assert pp.load(tmp_path / "m.json") == released
    assert "<svg" in report_html(released)
    same = pp.learn(eaters(classes=MEALS), pp.SmallTrees(classes=MEALS), epsilon=1)
    assert same.value.names == tuple(MEALS)


def test_other_rules_stay_binary_and_say_so(tmp_path: Path) -> None:
    book = pp.BudgetLedger(tmp_path / "b.db", pp.Guarantee(1, unit="user", neighbours="add-remove"), dataset="people")
    for concept in (pp.Stumps(), pp.Thresholds(TEN, "x")):
        with pytest.raises(ParameterError, match="3 classes"):
            pp.learn(eaters(classes=MEALS), concept, epsilon=1, ledger=book)
    with pytest.raises(ParameterError, match="an evaluation knows two"):
        pp.evaluate(pp.Stumps({"x": TEN, "z": TEN}).decode(0), eaters(classes=MEALS), epsilon=1)
    with pytest.raises(ParameterError, match="in the data too"):
        pp.learn(data(2), pp.SmallTrees(classes=MEALS), epsilon=1, ledger=book)
    with pytest.raises(ParameterError, match="differ"):
        pp.learn(eaters(classes=MEALS), pp.SmallTrees(classes=["a", "b", "c"]), epsilon=1, ledger=book)
    assert not book.history()
    with pytest.raises(ParameterError, match="either classes or label_map"):
        eaters(classes=MEALS, label_map={"fish": 1})
    with pytest.raises(pp.errors.SchemaError, match="meal"):
        eaters(classes=["fish", "meat"])


def test_many_labels_are_private() -> None:
    """Decided over three labels: everybody with up to two records on two values."""
    from privpac.auditing import audit_exact, datasets, user_universe

    concept = SmallTrees({"x": Integers(0, 1)}, levels=2, depth=1)
    records = [(x, y) for x in (0, 1) for y in "abc"]

    def build(people: Any) -> pp.UserData:
        return pp.UserData.from_users(people, features={"x": Integers(0, 1)}, classes=["a", "b", "c"])

    kinds = user_universe(records, 2)
    few = datasets(kinds, 2)
    found = audit_exact(pp.SmallTreeLearner(concept, 1), few, build=build)
    assert found.holds
    assert found.epsilon_found > 0.5
    wrong = audit_exact(
        pp.SmallTreeLearner(concept, 1), datasets(kinds, 1), build=build, epsilon="1/4", neighbours="add-remove"
    )
    assert not wrong.holds


def test_many_labels_at_the_other_doors(command: Command) -> None:
    meals().write_parquet("t.parquet")
    words = ["learn", "t.parquet", "--user", "who", "--label", "meal", "--epsilon", "9", "--classes", "fish,meat,none"]
    run = command(*words, "--feature", "x=0:9", "--feature", "z=0:9", "--rule", "small-tree", "--out", "m.json")
    assert run.code == 0
    assert command("predict", "m.json", "t.parquet").code == 0
    scanned = pp.scan("t.parquet", user="who", features={"x": TEN, "z": TEN}, label="meal", classes=MEALS)
    learner = pp.SmallTreeLearner(SmallTrees(), 1)
    assert learner.law(scanned).cells.same(learner.law(eaters(classes=MEALS)).cells)
    model = PrivateRuleClassifier(rule="small-tree", epsilon=50, domains=[TEN, TEN])
    table = meals()
    X = table.select("x", "z").to_numpy()
    model.fit(X, table["meal"].to_numpy(), groups=table["who"].to_numpy())
    assert list(model.classes_) == MEALS
    assert np.mean(model.predict(X) == table["meal"].to_numpy()) > 0.9
    with pytest.raises(ValueError, match="Only binary"):
        PrivateRuleClassifier(domains=[TEN, TEN]).fit(X, table["meal"].to_numpy(), groups=table["who"].to_numpy())
