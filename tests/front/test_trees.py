"""Trees from the front: learn, command, predict, plan, estimator, saved rules, and bad input refused before anything is
spent."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from commands import Command, Run

import privpac as pp
from privpac.api.learn import UNCERTIFIED, learner_for
from privpac.errors import AccuracyWarning, InfeasibleError, ItemLevelWarning, ParameterError, SchemaError
from privpac.methods import TreeLearner
from privpac.methods.hierarchy.tree_plan import rules_of
from privpac.planning import choose_method, plan_of_tree
from privpac.report import report_html
from privpac.rules import PathTree, TreeRule, glue
from privpac.sklearn import PrivateRuleClassifier
from privpac.testing import SeededRng, insecure_randomness

TARGET, SECRET = "usr/lib/python", "secret-4711"
REGIONS = ["usr", "usr/lib", "usr/lib/python", "usr/lib/perl", "usr/bin", "var", "var/log"]


def answers(n_users: int = 300, records: int = 6, seed: int = 3) -> pl.DataFrame:
    """Does this region contain the target?  One person has a name that must never be shown."""
    rng = np.random.default_rng(seed)
    shown = rng.choice(REGIONS, n_users * records)
    who = [SECRET if u == 0 else f"u{u}" for u in np.repeat(np.arange(n_users), records)]
    return pl.DataFrame({"who": who, "path": shown, "inside": [int(f"{TARGET}/".startswith(f"{r}/")) for r in shown]})


@pytest.fixture(scope="module")
def people() -> pp.UserData:
    return pp.UserData.from_frame(answers(), user="who", features=["path"], label="inside")


# learn


def test_learn_names_the_path_with_its_promise(people: pp.UserData) -> None:
    released = pp.learn(people, pp.PrefixTree(8), epsilon=8, delta="1e-6", setting="realizable")
    assert str(released.value) == f"inside when path is {TARGET} or contains it"
    assert str(released.guarantee) == "(8, 1e-06)-DP per user, add-remove"
    assert released.parameters["mode"] == "closure"
    assert "open" in released.parameters["chosen because"]
    assert not released.warnings
    assert released.predict({"path": ["usr", "usr/lib/python", "usr/lib/python/x", "never/seen"]}).tolist() == [
        1,
        1,
        0,
        0,
    ]


def test_noisy_labels_are_learned_by_fewest_mistakes_and_say_what_is_missing(people: pp.UserData) -> None:
    with pytest.warns(AccuracyWarning, match="no accuracy is certified"):
        released = pp.learn(people, pp.PrefixTree(8), epsilon=8, delta="1e-6")
    assert released.parameters["mode"] == "erm"
    assert UNCERTIFIED in released.warnings
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            pp.learn(people, pp.PrefixTree(8), epsilon=8, delta="1e-6", mode="closure").parameters["mode"] == "closure"
        )


def test_auto_and_tree_build_the_same_learner() -> None:
    tree = pp.PrefixTree(8)
    auto = learner_for(tree, epsilon=1, delta="1e-6", setting="realizable")
    assert auto == TreeLearner(tree, 1, "1e-6", mode="closure")
    assert auto == learner_for(tree, epsilon=1, delta="1e-6", setting="realizable", method="tree")
    planned = learner_for(tree, epsilon=1, delta="1e-6", alpha="0.1", records_per_user=10, setting="realizable")
    assert isinstance(planned, TreeLearner)
    assert planned.users_needed is not None
    assert planned.users_needed < 200


def test_trees_and_classes_do_not_mix() -> None:
    with pytest.raises(ParameterError, match="methods auto, tree, reduction"):
        learner_for(pp.PrefixTree(8), epsilon=1, delta="1e-6", method="regret")
    for concept in (pp.Stumps({"a": pp.Integers(0, 9)}), pp.Thresholds(pp.Integers(0, 9), direction="both")):
        with pytest.raises(ParameterError, match=f"not {type(concept).__name__}"):
            learner_for(concept, epsilon=1, method="tree")
    with pytest.raises(ParameterError, match="needs the domain"):
        learner_for(pp.Thresholds(), epsilon=1, method="tree")
    with pytest.raises(ParameterError, match="unknown option 'delta'"):
        learner_for(pp.Thresholds(pp.Integers(0, 9)), epsilon=1, delta="1e-6")
    with pytest.raises(ParameterError, match="unknown option 'split'"):
        learner_for(pp.PrefixTree(8), epsilon=1, delta="1e-6", split=1)


def test_cutoffs_and_points_are_trees_on_request() -> None:
    cut = pp.learn(_numbers(), pp.Thresholds(direction="below"), epsilon=12, method="tree", setting="realizable")
    assert str(cut.value) == "1 when x <= 4"
    assert str(cut.guarantee) == "(12, 0)-DP per user, add-remove"
    point = learner_for(pp.Points(pp.Integers(1, 8), "x"), epsilon=1, method="tree", setting="realizable")
    assert point == TreeLearner(pp.StarTree(pp.Integers(1, 8), "x"), 1)


@pytest.mark.parametrize("delta", [None, 0, "0"])
def test_an_open_vocabulary_without_delta_is_refused_before_any_spend(
    people: pp.UserData, tmp_path: Path, delta: Any
) -> None:
    with pp.BudgetLedger.create(
        tmp_path / "b.db", pp.Guarantee(5, "1e-3", unit="user", neighbours="add-remove"), dataset="d"
    ) as book:
        with pytest.raises(ParameterError, match="open vocabulary needs delta > 0"):
            pp.learn(people, pp.PrefixTree(8), epsilon=1, delta=delta, ledger=book)
        assert book.remaining().epsilon == 5
        released = pp.learn(people, pp.PrefixTree(8), epsilon=1, delta="1e-6", ledger=book, setting="realizable")
        assert book.remaining().epsilon == 4
        assert "budget left" in released.parameters


@pytest.mark.parametrize("delta", [-1, 1, "x", float("nan")])
def test_a_bad_delta_is_refused(people: pp.UserData, delta: Any) -> None:
    with pytest.raises(ParameterError, match="delta"):
        pp.learn(people, pp.PrefixTree(8), epsilon=1, delta=delta)


def test_a_delta_too_large_for_epsilon_is_refused(people: pp.UserData) -> None:
    with pytest.raises(InfeasibleError, match="delta"):
        pp.learn(people, pp.PrefixTree(8), epsilon="0.001", delta="0.5")


def test_no_users_and_one_user_are_no_errors() -> None:
    for n in (0, 1):
        few = pp.UserData.from_frame(answers(n), user="who", features={"path": pp.Texts()}, label="inside")
        with insecure_randomness():
            released = TreeLearner(pp.PrefixTree(8), 1, "1e-6").learn(few, rng=SeededRng(n))
        assert isinstance(released.value, TreeRule)
        assert released.outcome == "default" or str(released.value)


def test_missing_paths_are_a_schema_error_without_values() -> None:
    holes = answers(20).with_columns(path=pl.when(pl.col("who") == SECRET).then(None).otherwise(pl.col("path")))
    with pytest.raises(SchemaError, match="path") as error:
        pp.UserData.from_frame(holes, user="who", features={"path": pp.Texts()}, label="inside")
    assert SECRET not in str(error.value)
    kept = pp.UserData.from_frame(holes, user="who", features={"path": pp.Texts()}, label="inside", on_invalid="drop")
    assert kept.n_records == 19 * 6


def test_no_user_column_is_item_level_and_said() -> None:
    rows = pp.UserData.from_frame(answers(), user=None, features={"path": pp.Texts()}, label="inside")
    with pytest.warns(ItemLevelWarning):
        released = pp.learn(rows, pp.PrefixTree(8), epsilon=1, delta="1e-6", setting="realizable")
    assert str(released.guarantee) == "(1, 1e-06)-DP per item, add-remove"


# Every tree


def _numbers() -> pp.UserData:
    rng = np.random.default_rng(0)
    return pp.UserData.from_users(
        [[(int(x), int(x <= 4)) for x in rng.integers(1, 9, 8)] for _ in range(200)], features={"x": pp.Integers(1, 8)}
    )


TREES: dict[str, tuple[Callable[[], pp.VC1Tree], Any]] = {
    "path": (lambda: PathTree(8), 0),
    "star": (lambda: pp.StarTree(pp.Integers(1, 8)), 0),
    "open star": (lambda: pp.StarTree(), "1e-6"),
    "taxonomy": (lambda: pp.Taxonomy({str(k): str(k // 2) for k in range(2, 9)}), 0),
    "matrix": (lambda: pp.VC1Tree.from_matrix(np.tri(9, 8, -1), domain=pp.Integers(1, 8)), 0),
    "glued": (lambda: glue(pp.StarTree(pp.Integers(1, 4)), pp.StarTree(pp.Integers(5, 8))), 0),
}


@pytest.mark.parametrize("name", TREES)
def test_every_tree_is_learned_saved_and_loaded(name: str, tmp_path: Path) -> None:
    build, delta = TREES[name]
    released = pp.learn(_numbers(), build(), epsilon=2, delta=delta, setting="realizable")
    released.save(tmp_path / "rule.json")
    loaded = pp.load(tmp_path / "rule.json")
    probe = {"x": list(range(1, 9))}
    assert loaded.predict(probe).tolist() == released.predict(probe).tolist()
    assert str(loaded.value) == str(released.value)
    page = report_html(loaded)
    assert str(released.value).replace("<", "&lt;") in page


def test_branches_with_two_columns_have_a_report_too() -> None:
    rng = np.random.default_rng(0)
    rows = [[(str(rng.choice(["a", "b"])), int(p)) for p in rng.integers(1, 50, 5)] for _ in range(300)]
    users = pp.UserData.from_users(
        [[(line, p, int(line == "b" and p <= 20)) for line, p in row] for row in rows],
        features={"line": pp.Texts(), "build": pp.Integers(1, 50)},
    )
    released = pp.learn(users, pp.BranchThresholds(pp.Integers(1, 50)), epsilon=4, delta="1e-6", setting="realizable")
    assert released.value.condition().startswith("line = b and build <= ")
    assert "line = b" in report_html(released)


def test_a_saved_rule_loads_in_a_fresh_process(people: pp.UserData, tmp_path: Path) -> None:
    pp.learn(people, pp.PrefixTree(8), epsilon=8, delta="1e-6", setting="realizable").save(tmp_path / "rule.json")
    code = "import sys, privpac as pp; print(pp.load(sys.argv[1]).value)"
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "rule.json")], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == f"inside when path is {TARGET} or contains it"


# Choosing and planning


def test_small_classes_are_told_of_selection() -> None:
    assert choose_method(pp.PrefixTree(8), epsilon=1, delta="1e-6").method == "tree"
    assert choose_method(PathTree(100), epsilon=1).method == "hybrid"
    said = choose_method(PathTree(100), epsilon=1, setting="realizable")
    assert said.method == "tree"
    assert "Thresholds" in said.reason
    assert "may need fewer users" in said.reason
    counted = choose_method(PathTree(100), epsilon=1, setting="realizable", records_per_user=10)
    assert "certified users" in counted.reason
    far = choose_method(PathTree(100), epsilon=500, setting="realizable", records_per_user=10)
    assert "may need fewer users" in far.reason  # nothing to plan there
    assert "too many" in choose_method(pp.AddressTree(6), epsilon=1).reason


def test_rules_are_counted() -> None:
    assert rules_of(PathTree(2**64)) == 2**64 + 1
    assert rules_of(pp.StarTree()) is None
    assert rules_of(pp.StarTree(pp.Integers(1, 8))) == 9
    assert rules_of(pp.BranchThresholds(pp.Integers(1, 5), pp.Categories(["a", "b"]))) == 11
    assert rules_of(pp.BranchThresholds(pp.Integers(1, 5))) is None
    assert rules_of(glue(pp.StarTree(pp.Integers(1, 4)), pp.StarTree(pp.Integers(5, 8)))) == 9
    assert rules_of(pp.Taxonomy({"b": "a", "c": "a"})) == 3
    assert rules_of(pp.VC1Tree.from_matrix(np.tri(9, 8, -1))) == 9


def test_the_plan_says_plainly_where_selection_needs_fewer_users() -> None:
    thresholds = plan_of_tree(PathTree(2**16), epsilon=1, alpha="0.1", records_per_user=[10], neighbours="replace")
    tree, every = thresholds.row("tree learner"), thresholds.row("selection from all rules")
    assert every.n_users[0] is not None
    assert tree.n_users[0] is not None
    assert every.n_users[0] < tree.n_users[0]
    assert "FEWER users" in every.note
    wide = plan_of_tree(
        pp.AddressTree(6), epsilon=1, delta="1e-6", alpha="0.1", records_per_user=[10], neighbours="replace"
    )
    assert "no fewer users" in wide.row("selection from all rules").note
    lower = wide.row("any private learner").n_users[0]
    assert lower is not None
    assert (
        lower < (wide.row("tree learner").n_users[0] or 0) <= (wide.row("tree learner, simple bound").n_users[0] or 0)
    )


def test_plans_of_trees_refuse_what_makes_no_sense() -> None:
    with pytest.raises(ParameterError, match="open vocabulary"):
        plan_of_tree(pp.PrefixTree(8), epsilon=1)
    with pytest.raises(TypeError, match="VC1Tree"):
        plan_of_tree(pp.Thresholds(pp.Integers(0, 9)), epsilon=1)
    with pytest.raises(ParameterError):
        plan_of_tree(PathTree(9), epsilon=0)
    with pytest.raises(ParameterError):
        plan_of_tree(PathTree(9), epsilon=1, records_per_user=[])
    alone = plan_of_tree(pp.PrefixTree(0), epsilon=1, delta="1e-6", records_per_user=1)
    assert alone.row("tree learner").n_users == (0,)


def test_the_report_of_a_path_shows_what_contains_it(people: pp.UserData) -> None:
    released = pp.learn(people, pp.PrefixTree(8), epsilon=8, delta="1e-6", setting="realizable")
    page = report_html(released)
    for region in ("everything", "usr", "usr/lib", "<b>usr/lib/python</b>"):
        assert f"<td>{region}</td><td class='yes'>1</td>" in page
    assert SECRET not in page
    deep = pp.AddressTree(4).with_columns({"<net>": pp.Texts()})
    shown = report_html(pp.Released(deep.rule(deep.node("203.0.113.77")), released.guarantee))
    assert "…" in shown
    assert "203.0.113.77/32" in shown
    assert "&lt;net&gt;" in shown


# The command


@pytest.fixture
def privpac(command: Command) -> Command:
    answers().write_csv("t.csv")
    return command


LEARN = ["--user", "who", "--label", "inside", "--epsilon", "8", "--delta", "1e-6"]


@pytest.mark.parametrize("feature", ["path", "path=text"])
def test_the_command_prints_the_path_saves_and_predicts(
    privpac: Callable[..., Run], tmp_path: Path, feature: str
) -> None:
    asked = [
        *LEARN,
        "--rule",
        "branch",
        "--tree",
        "path:/",
        "--feature",
        feature,
        "--setting",
        "realizable",
        "--out",
        "m.json",
    ]
    run = privpac("learn", "t.csv", *asked)
    assert run.code == 0, run
    assert f"inside when path is {TARGET} or contains it" in run.out
    assert "ε = 8, δ = 1e-06 for each person" in run.out
    assert run.err == ""
    pl.DataFrame({"path": ["usr", "var", "usr/lib/python"]}).write_csv(tmp_path / "new.csv")
    assert privpac("predict", "m.json", "new.csv").out.split() == ["prediction", "1", "0", "1"]
    pl.DataFrame({"path": ["usr", None]}).write_parquet(tmp_path / "holes.parquet")
    refused = privpac("predict", "m.json", "holes.parquet")
    assert refused.code == 2
    assert "missing" in refused.err


def test_the_command_writes_json_and_a_report(privpac: Callable[..., Run], tmp_path: Path) -> None:
    run = privpac("learn", "t.csv", *LEARN, "--tree", "path:/:4", "--feature", "path", "--json", "--report", "r.html")
    assert run.code == 0, run
    said = json.loads(run.out)
    assert said["value"]["kind"] == "branch"
    assert said["parameters"]["mode"] == "erm"
    assert said["warnings"] == [UNCERTIFIED]
    page = (tmp_path / "r.html").read_text()
    assert "The rule on the hierarchy" in page
    assert "How many people rules of this kind need" in page
    assert SECRET not in page + run.out + run.err


def test_the_command_learns_branches_from_two_columns(privpac: Callable[..., Run], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    line, build = rng.choice(["alpha", "beta"], 2000), rng.integers(1, 100, 2000)
    frame = pl.DataFrame(
        {
            "who": np.arange(2000) // 5,
            "line": line,
            "build": build,
            "bad": ((line == "beta") & (build <= 40)).astype(int),
        }
    )
    frame.write_parquet(tmp_path / "b.parquet")
    asked = [
        "--user",
        "who",
        "--label",
        "bad",
        "-e",
        "8",
        "-d",
        "1e-6",
        "--tree",
        "branch:1:99",
        "-f",
        "line",
        "-f",
        "build",
    ]
    run = privpac("learn", "b.parquet", *asked, "--setting", "realizable")
    assert run.code == 0, run
    assert "bad when line = beta and build <= " in run.out


BAD = {
    "no tree": (["--rule", "branch", "-f", "path"], "needs --tree"),
    "another rule": (["--rule", "stump", "--tree", "path:/", "-f", "path"], "--rule branch"),
    "unknown tree": (["--tree", "pth:/", "-f", "path"], "a tree must be"),
    "no separator": (["--tree", "path:", "-f", "path"], "separator"),
    "no file": (["--tree", "taxonomy:none.csv", "-f", "path"], "cannot read"),
    "two columns": (["--tree", "path:/", "-f", "path", "-f", "who"], "one column"),
    "one column": (["--tree", "branch:0:9", "-f", "path"], "2 columns"),
    "the same twice": (["--tree", "branch:0:9", "-f", "path", "-f", "path"], "each once"),
    "two domains": (["--tree", "thresholds:0:9", "-f", "path=0:8"], "different domains"),
    "another method": (["--tree", "path:/", "-f", "path", "--method", "regret"], "methods auto, tree, reduction"),
    "no such column": (["--tree", "path:/", "-f", "folder"], "folder"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_code_2(privpac: Callable[..., Run], name: str) -> None:
    words, said = BAD[name]
    run = privpac("learn", "t.csv", *LEARN, *words)
    assert run.code == 2, run
    assert run.out == ""
    assert run.err.count("\n") == 1
    assert said in run.err
    assert SECRET not in run.err


def test_delta_zero_is_refused_by_the_command_and_nothing_is_spent(privpac: Callable[..., Run]) -> None:
    assert privpac("ledger", "new", "b.db", "--epsilon", "2", "--dataset", "d").code == 0
    words = ["--user", "who", "--label", "inside", "-e", "1", "--tree", "path:/", "-f", "path", "--ledger", "b.db"]
    run = privpac("learn", "t.csv", *words)
    assert run.code == 2
    assert "open vocabulary needs --delta > 0" in run.err
    with pp.BudgetLedger.open("b.db") as book:
        assert book.remaining().epsilon == 2
    exhausted = privpac("learn", "t.csv", *words, "--delta", "1e-6")
    assert exhausted.code == 4  # the ledger has no delta to give


def test_an_empty_table_and_missing_paths(privpac: Callable[..., Run], tmp_path: Path) -> None:
    answers(1).head(0).write_parquet(tmp_path / "none.parquet")
    words = [*LEARN, "--tree", "path:/", "-f", "path", "--setting", "realizable"]
    assert privpac("learn", "none.parquet", *words).code == 0
    answers(1).write_parquet(tmp_path / "one.parquet")
    assert privpac("learn", "one.parquet", *words).code == 0
    answers(9).with_columns(path=pl.lit(None, dtype=pl.String)).write_parquet(tmp_path / "holes.parquet")
    refused = privpac("learn", "holes.parquet", *words)
    assert refused.code == 2
    assert "path" in refused.err
    (tmp_path / "empty.csv").write_text("")
    assert privpac("learn", "empty.csv", *words).code == 2


def test_the_plan_command(privpac: Callable[..., Run]) -> None:
    goal = ["--epsilon", "1", "--alpha", ".1", "--beta", ".05", "-m", "10"]
    run = privpac("plan", "tree", "--tree", "path:/:32", "--delta", "1e-6", *goal, "--json")
    assert run.code == 0, run
    rows = {row["method"]: row for row in json.loads(run.out)["rows"]}
    assert rows["tree learner"]["n_users"] == [126]
    assert "selection from all rules" not in rows
    shown = privpac("plan", "tree", "--tree", "thresholds:1:65536", "--all", *goal)
    assert "FEWER users" in shown.out
    assert "no method can" in shown.out
    for words, said in (
        (["tree"], "needs --tree"),
        (["tree", "--tree", "path:/"], "open vocabulary"),
        (["tree", "--tree", "path:/", "--delta", "1e-6", "--domain", "9"], "leave out --domain"),
        (["tree", "--tree", "nothing"], "a tree must be"),
        (["threshold", "--tree", "ip"], "--rule branch"),
        (["threshold", "--domain", "9", "--delta", "1e-6"], "leave out --delta, or name a model"),
    ):
        refused = privpac("plan", *words, *goal)
        assert refused.code == 2
        assert said in refused.err


# The estimator


def test_the_estimator_learns_a_path_from_texts() -> None:
    table = answers().to_pandas()
    model = PrivateRuleClassifier(rule="tree", tree=pp.PrefixTree(8), epsilon=8, delta="1e-6", setting="realizable")
    model.fit(table[["path"]], table["inside"], groups=table["who"])
    assert str(model.rule_) == f"inside when path is {TARGET} or contains it"
    assert str(model.guarantee_) == "(8, 1e-06)-DP per user, add-remove"
    assert model.predict(pd.DataFrame({"path": ["usr", "var"]})).tolist() == [1, 0]
    named = PrivateRuleClassifier(rule="branch", tree="path:/", epsilon=8, delta="1e-6", setting="realizable")
    array = np.array(table[["path"]], dtype=object)
    said = np.where(table["inside"] == 1, "yes", "no")
    assert named.fit(array, said, groups=table["who"]).predict(np.array([["usr"], ["var"]], dtype=object)).tolist() == [
        "yes",
        "no",
    ]


def test_the_estimator_refuses_what_does_not_fit() -> None:
    X, y = pd.DataFrame({"path": ["usr", "var"]}), [1, 0]
    groups = ["a", "b"]
    for parameters, said in (
        ({"rule": "tree"}, "needs tree="),
        ({"tree": "path:/"}, "rule='tree'"),
        ({"rule": "stump", "delta": "1e-6"}, "delta="),
        ({"rule": "tree", "tree": "path:/"}, "open vocabulary"),
        ({"rule": "tree", "tree": "nothing", "delta": "1e-6"}, "a tree must be"),
        ({"rule": "tree", "tree": "branch:0:9", "delta": "1e-6"}, "2 columns"),
        ({"rule": "tree", "tree": "path:/", "delta": "1e-6", "method": "regret"}, "methods auto, tree, reduction"),
    ):
        with pytest.raises(ParameterError, match=said):
            PrivateRuleClassifier(**parameters).fit(X, y, groups=groups)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="VC1Tree"):
        PrivateRuleClassifier(rule="tree", tree=7, delta="1e-6").fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="0 sample"):
        PrivateRuleClassifier(rule="tree", tree="path:/", delta="1e-6").fit(X.head(0), [], groups=[])
    holes = pd.DataFrame({"path": ["usr", None]})
    with pytest.raises(SchemaError, match="path"):
        PrivateRuleClassifier(rule="tree", tree="path:/", delta="1e-6").fit(holes, y, groups=groups)
