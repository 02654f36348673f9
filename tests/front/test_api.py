"""``pp.learn`` and ``pp.load``: everything derived from epsilon, the unit said, the budget told, bad input refused
before a spend."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import privpac as pp
from privpac.api.learn import METHODS, learner_for
from privpac.composition import compose_parallel
from privpac.errors import (
    BudgetExhausted,
    IncompatibleGuarantees,
    ItemLevelWarning,
    LedgerBusy,
    LedgerUnavailable,
    ModelFileError,
    ParameterError,
    SchemaError,
    WeakGuaranteeWarning,
)
from privpac.methods.realizable import RealizableSelection
from privpac.methods.regret import RegretSelection
from privpac.rules.named import RULES, rule_class

SECRET = 987654321
AGES = {"age": pp.Integers(0, 99)}


def people(**more: Any) -> pp.UserData:
    return pp.UserData.from_users([[(30, 0), (80, 1)], [(20, 0)], [(90, 1), (50, 1)]], features=AGES, **more)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[pp.BudgetLedger]:
    with pp.BudgetLedger.create(
        tmp_path / "b.db", pp.Guarantee(2, unit="user", neighbours="add-remove"), dataset="visits"
    ) as ledger:
        yield ledger


# What people ask for


def test_epsilon_and_a_class_are_enough() -> None:
    rule = pp.learn(people(), pp.Thresholds(), epsilon=0.1)
    assert rule.guarantee == pp.Guarantee("0.1", unit="user", neighbours="add-remove", rho=rule.guarantee.rho)
    assert rule.outcome == "released"
    assert rule.warnings == ()
    assert set(rule.parameters) == {"class", "size", "levels"}


def test_result_says_the_rule_and_what_is_promised() -> None:
    rule = pp.learn(people(), pp.Thresholds(), epsilon=1)
    said, promise = str(rule).splitlines()
    assert said == str(rule.value)
    assert promise.startswith("ε = 1 for each person: someone who was 50 % sure that a given person is in the data")
    assert rule.exact_promise == ("(1, 0)-DP per user, add-remove", "hence (2, 0)-DP per user, replace")
    assert rule.learner == "hybrid selection"


def test_label_column_gives_the_rule_its_name() -> None:
    frame = pl.DataFrame({"who": ["a", "b"], "age": [3, 90], "sick": [False, True]})
    rule = pp.learn(pp.UserData.from_frame(frame, user="who", features=AGES, label="sick"), pp.Thresholds(), epsilon=1)
    assert str(rule.value).startswith("sick ")


def test_with_a_ledger_the_result_says_what_is_left(book: pp.BudgetLedger) -> None:
    first = pp.learn(people(), pp.Thresholds(), epsilon="0.5", ledger=book)
    second = pp.learn(people(), pp.Thresholds(), epsilon="1/2", ledger=book)
    assert first.parameters["budget left"] == "ε = 1.5 of 2"
    assert "budget left: ε = 1 of 2" in str(second)
    assert [spend.label for spend in book.history()] == ["HybridSelection of Thresholds"] * 2


def test_a_busy_ledger_does_not_take_a_paid_rule_away(book: pp.BudgetLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(self: pp.BudgetLedger) -> None:
        raise LedgerBusy("busy")

    monkeypatch.setattr(pp.BudgetLedger, "remaining", busy)
    rule = pp.learn(people(), pp.Thresholds(), epsilon=1, ledger=book)
    assert rule
    assert "budget left" not in rule.parameters
    assert len(book.history()) == 1


def test_saved_model_holds_epsilon_delta_unit_and_relation(tmp_path: Path) -> None:
    rule = pp.learn(people(), pp.Thresholds(), epsilon="1/3", neighbours="replace")
    rule.save(tmp_path / "m.json")
    read = pp.load(tmp_path / "m.json")
    assert read == rule
    assert read.guarantee is not None
    assert (read.guarantee.epsilon, read.guarantee.delta) == (Fraction(1, 3), 0)
    assert (read.guarantee.unit, read.guarantee.neighbours) == ("user", "replace")


def test_rules_from_disjoint_users_compose_in_parallel() -> None:
    rules = [pp.learn(people(), pp.Thresholds(), epsilon=eps) for eps in (1, "1/2")]
    guarantees = [rule.guarantee for rule in rules if rule.guarantee is not None]
    assert compose_parallel(guarantees, split="data").summary == "(1, 0)-DP per user, add-remove"
    by_replace = pp.learn(people(), pp.Thresholds(), epsilon=1, neighbours="replace").guarantee
    assert by_replace is not None
    with pytest.raises(IncompatibleGuarantees):
        compose_parallel([by_replace, by_replace], split="data")


def test_item_level_is_said_loudly() -> None:
    rows = pp.UserData.from_arrays([[1], [2]], [0, 1], features=AGES)
    with pytest.warns(ItemLevelWarning, match="single records are protected, not people"):
        rule = pp.learn(rows, pp.Thresholds(), epsilon=1)
    assert rule.guarantee is not None
    assert rule.guarantee.summary == "(1, 0)-DP per item, add-remove"
    assert "warning: no user column" in str(rule)
    assert "protects records, not people" in rule.guarantee.explain()


def test_weak_epsilon_is_said_in_the_result() -> None:
    with pytest.warns(WeakGuaranteeWarning):
        rule = pp.learn(people(), pp.Thresholds(), epsilon=50)
    assert "warning: epsilon above 10 promises very little" in str(rule)


# Not errors, and no warning


EDGES: dict[str, pp.UserData] = {
    "no rows": pp.UserData.from_frame(
        pl.DataFrame({"who": [], "age": [], "y": []}, schema={"who": pl.String, "age": pl.Int64, "y": pl.Int64}),
        user="who",
        features=AGES,
        label="y",
    ),
    "no users": pp.UserData.from_users([], features=AGES),
    "one user": pp.UserData.from_users([[(3, 1)]], features=AGES),
    "users without records": pp.UserData.from_users([[], [(3, 1)], []], features=AGES),
    "a million records of one user": pp.UserData.from_arrays(
        np.arange(10**6)[:, None] % 100, np.arange(10**6) % 2, np.zeros(10**6, int), features=AGES
    ),
}


@pytest.mark.parametrize("edge", list(EDGES))
@pytest.mark.parametrize(
    "options", [{}, {"neighbours": "replace"}, {"setting": "realizable"}, {"method": "mean"}], ids=str
)
def test_edge_cases_give_a_rule_by_the_same_law_without_any_warning(edge: str, options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rule = pp.learn(EDGES[edge], pp.Thresholds(), epsilon=1, **options)
    assert rule.outcome == "released"
    assert rule.warnings == ()
    assert rule.value.cut in range(101)


def test_a_user_of_a_million_records_counts_as_one() -> None:
    law = RegretSelection(pp.Thresholds(), epsilon=1, public_n_users=1).law(EDGES["a million records of one user"])
    empty = RegretSelection(pp.Thresholds(), epsilon=1, public_n_users=1).law(EDGES["no users"])
    assert law.satisfies(empty, 1)
    assert empty.satisfies(law, 1)


# Methods and options


def test_auto_follows_the_setting() -> None:
    assert isinstance(learner_for(pp.Thresholds(), epsilon=1), pp.HybridSelection)
    assert isinstance(learner_for(pp.Thresholds(), epsilon=1, neighbours="replace"), pp.HybridSelection)
    assert isinstance(learner_for(pp.Thresholds(), epsilon=1, method="regret"), RegretSelection)
    assert isinstance(learner_for(pp.Thresholds(), epsilon=1, setting="realizable"), RealizableSelection)
    for own in ({"statistic": "mean"}, {"tau": 3}):
        assert isinstance(learner_for(pp.Thresholds(), epsilon=1, **own), RegretSelection), (
            "who gives its parameters has chosen it"
        )
    by_mean = learner_for(pp.Thresholds(), epsilon=1, method="mean", levels=10)
    assert isinstance(by_mean, RegretSelection)
    assert (by_mean.statistic, by_mean.levels) == ("mean", 10)


def test_every_method_runs_and_takes_a_public_number_of_users() -> None:
    for method in set(METHODS) - {"trimmed"}:
        wide: dict[str, Any] = {"small-tree": pp.SmallTrees(), "scorecard": pp.Scorecards()}
        facts: dict[str, Any] = {"public_n_users": 100, "records_per_user": 2, "max_records": 2}
        facts |= {"delta": "1e-6"} if method == "scorecard" else {}
        assert pp.learn(people(), wide.get(method, pp.Thresholds()), epsilon=1, method=method, **facts)


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"epsilon": 0}, ParameterError, "epsilon must be > 0"),
    ({"epsilon": -1}, ParameterError, "epsilon"),
    ({"epsilon": float("nan")}, ParameterError, "epsilon must be a finite number"),
    ({"epsilon": float("inf")}, ParameterError, "epsilon"),
    ({"epsilon": "much"}, ParameterError, "epsilon"),
    ({"epsilon": 1e9}, ParameterError, "epsilon must be <="),
    ({"epsilon": None}, TypeError, "epsilon"),
    ({"method": "best"}, ParameterError, "method must be"),
    ({"setting": "easy"}, ParameterError, "setting must be"),
    ({"neighbours": "swap"}, ParameterError, "neighbours"),
    ({"max_records": 0}, ParameterError, "max_records"),
    ({"max_records": "3"}, TypeError, "max_records"),
    ({"public_n_users": -5}, ParameterError, "public_n_users"),
    ({"tolerance": 1}, ParameterError, "unknown option 'tolerance': the method 'hybrid' takes levels"),
    ({"method": "realizable", "tau": 1}, ParameterError, "the method 'realizable' takes tolerance"),
    ({"method": "mean", "statistic": "regret"}, ParameterError, "unknown option 'statistic'"),
    ({"rng": 3}, ParameterError, "unknown option 'rng'"),
    ({"concept": "circle"}, ParameterError, "rule must be one of"),
    ({"concept": 3}, TypeError, "class of rules"),
    ({"data": pl.DataFrame({"age": [1]})}, TypeError, r"UserData\.from_frame"),
    ({"concept": pp.Thresholds(pp.Integers(0, 5))}, ParameterError, "declared twice"),
    ({"concept": pp.Thresholds(feature="height")}, SchemaError, "height"),
    ({"concept": pp.Stumps({"age": pp.Integers(0, 99), "height": pp.Floats()})}, SchemaError, "height"),
    ({"data": pp.UserData.from_users([[3], [4]], features=AGES, labelled=False)}, ParameterError, "no labels"),
    ({"neighbours": "replace"}, IncompatibleGuarantees, "add-remove ledger cannot pay"),
    ({"data": pp.UserData.from_arrays([[1]], [1], features=AGES)}, IncompatibleGuarantees, "item"),
    ({"epsilon": "2.5"}, BudgetExhausted, "budget exhausted"),
    (
        {
            "data": pp.UserData.from_users([[(SECRET, 1)]], features=["age"]),
            "concept": pp.Thresholds(pp.Integers(0, 99)),
        },
        SchemaError,
        "1 outside",
    ),
]


@pytest.mark.parametrize(("change", "error", "said"), BAD, ids=range(len(BAD)))
def test_bad_input_is_refused_clearly_and_nothing_is_spent(
    change: dict[str, Any], error: type[Exception], said: str, book: pp.BudgetLedger
) -> None:
    given: dict[str, Any] = {"data": people(), "concept": pp.Thresholds(), "epsilon": 1} | change
    with pytest.raises(error, match=said) as caught:
        pp.learn(given.pop("data"), given.pop("concept"), ledger=book, **given)
    assert str(SECRET) not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert book.history() == ()


def test_a_replace_ledger_takes_add_remove_learners_at_twice_the_price(tmp_path: Path) -> None:
    budget = pp.Guarantee(2, unit="user", neighbours="replace")
    with pp.BudgetLedger.create(tmp_path / "r.db", budget, dataset="d") as book:
        rule = pp.learn(people(), pp.Thresholds(), epsilon=1, ledger=book)
        assert rule.parameters["budget left"] == "ε = 0 of 2"
        assert rule.guarantee is not None
        assert rule.guarantee.summary == "(1, 0)-DP per user, add-remove"


def test_opening_a_ledger_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable):
        pp.BudgetLedger.open(tmp_path / "none.db")


# Saved and loaded


def one_of_each() -> dict[str, pp.Released]:
    """A released rule of every class by name, over every kind of domain."""
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {
            "who": rng.integers(0, 20, 200),
            "n": rng.integers(-5, 6, 200),
            "g": rng.integers(0, 11, 200) / 10,
            "f": rng.normal(size=200),
            "d": [f"2024-01-{1 + k:02d}" for k in rng.integers(0, 28, 200)],
            "c": rng.choice(["lo", "mid", "hi"], 200),
            "a": rng.integers(0, 2, 200),
            "b": rng.choice(["no", "yes"], 200),
            "y": rng.integers(0, 2, 200),
        }
    )
    domains = {
        "n": pp.Integers(-5, 5),
        "g": pp.Grid(0, 1, "0.1"),
        "f": pp.Floats(),
        "d": pp.Dates("2024-01-01", "2024-01-31"),
        "c": pp.Categories(["lo", "mid", "hi"]),
        "a": pp.Integers(0, 1),
        "b": pp.Categories(["no", "yes"]),
    }
    columns = {"threshold": "f", "threshold-below": "g", "threshold-both": "d", "point": "c", "interval": "n"}
    columns |= {"stump": "ngfdc", "rectangle": "ng", "halfspace": "ngd", "scorecard": "ngdcab", "small-tree": "ngdc"}
    out = {}
    for name in RULES:
        features = {column: domains[column] for column in columns.get(name, "ab")}
        data = pp.UserData.from_frame(frame, user="who", features=features, label="y")
        needed: dict[str, Any] = {"delta": "1e-6"} if name == "scorecard" else {}
        out[name] = pp.learn(data, rule_class(name, features), epsilon=1, **needed)
    table = pp.FiniteClass([[0, 1, 1], [1, 0, 0]], domains["c"], feature="c")
    data = pp.UserData.from_frame(frame, user="who", features={"c": domains["c"]}, label="y")
    return out | {"finite": pp.learn(data, table, epsilon=1)}


def test_every_rule_loads_identically_in_a_fresh_process(tmp_path: Path) -> None:
    rules = one_of_each()
    for name, rule in rules.items():
        rule.save(tmp_path / f"{name}.json")
        assert pp.load(tmp_path / f"{name}.json") == rule
    code = (
        "import sys, pathlib, privpac as pp\n"
        "for path in sorted(pathlib.Path(sys.argv[1]).glob('*.json')):\n"
        "    rule = pp.load(path)\n"
        "    rule.save(path.with_suffix('.again'))\n"
        "    print(path.stem, '|', str(rule.value).replace(chr(10), ' '))\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert dict(line.split(" | ", 1) for line in run.stdout.splitlines()) == {
        name: str(rule.value).replace("\n", " ") for name, rule in rules.items()
    }
    for name in rules:
        assert (tmp_path / f"{name}.again").read_bytes() == (tmp_path / f"{name}.json").read_bytes()


def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.json").touch()
    (tmp_path / "other.json").write_text('{"format": "something"}')
    for name in ("empty.json", "other.json", "missing.json", "."):
        with pytest.raises(ModelFileError):
            pp.load(tmp_path / name)
