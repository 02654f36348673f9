"""The command: one clear line for every error, no value of the table anywhere, exit codes that mean what they say."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from commands import Command, Run

import privpac as pp
from privpac.result import NoRelease, Released

SECRET_ID, SECRET = "user-5551234", 987654321
LEARN = ["--user", "who", "--label", "ill", "--feature", "age=0:99", "--epsilon", "1"]


@pytest.fixture
def privpac(command: Command) -> Command:
    """Runs the command in this process, from the temporary folder."""
    return command


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """60 people with ids that must never be shown; ill from age 41 on."""
    rng = np.random.default_rng(1)
    age = rng.integers(0, 100, 600)
    who = [SECRET_ID if k % 60 == 0 else f"u{k % 60}" for k in range(600)]
    site = rng.choice(["north", "south"], 600)
    frame = pl.DataFrame(
        {"who": who, "age": age, "ill": (age > 40).astype(int), "site": site, "smokes": rng.integers(0, 2, 600)}
    )
    frame.write_csv(tmp_path / "t.csv")
    frame.write_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def one_line(run: Run, code: int = 2) -> str:
    assert run.code == code, run
    assert run.out == ""
    assert run.err.count("\n") == 1
    assert run.err.startswith("privpac: ")
    for never in ("Traceback", SECRET_ID, str(SECRET), 'File "'):
        assert never not in run.err
    return run.err


# The main job


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_learn_prints_rule_unit_and_relation(privpac: Command, table: Path, name: str) -> None:
    run = privpac("learn", name, *LEARN)
    assert run.code == 0
    assert run.err == ""
    first, promise = run.out.splitlines()
    assert first.startswith("ill ")
    assert promise.startswith("ε = 1 for each person: someone who was 50 % sure that a given person is in the data")


@pytest.mark.parametrize(
    ("rule", "features"),
    [
        ("threshold", ["age=0:99"]),
        ("threshold-below", ["age=0:99:0.5"]),
        ("threshold-both", ["age"]),
        ("stump", ["age=0:99", "site={north,south}"]),
        ("interval", ["age=0:99"]),
        ("point", ["site={north,south}"]),
        ("rectangle", ["age=0:99", "smokes=0:1"]),
        ("conjunction", ["smokes=0:1", "site={north,south}"]),
        ("disjunction", ["smokes=0:1", "site={north,south}"]),
        ("parity", ["smokes=0:1", "site={north,south}"]),
        ("decision-list", ["smokes=0:1", "site={north,south}"]),
        ("halfspace", ["age=0:99", "smokes=0:1"]),
    ],
)
def test_every_rule_can_be_learned_saved_and_applied(
    privpac: Command, table: Path, rule: str, features: list[str]
) -> None:
    options = [word for feature in features for word in ("--feature", feature)]
    run = privpac("learn", table, "-u", "who", "-y", "ill", *options, "-e", "1", "-r", rule, "-o", "m.json", "--json")
    assert (run.code, run.err) == (0, "")
    assert json.loads(run.out) == json.loads(Path("m.json").read_text())
    predicted = privpac("predict", "m.json", "t.csv", "--json")
    assert predicted.code == 0
    expected = pp.load("m.json").value.predict(pl.read_parquet(table))
    assert json.loads(predicted.out) == expected.tolist()


def test_saved_model_stores_epsilon_delta_unit_and_relation(privpac: Command, table: Path) -> None:
    privpac("learn", table, *LEARN, "--neighbours", "replace", "--out", "m.json")
    stored = json.loads(Path("m.json").read_text())["guarantee"]
    assert {name: stored[name] for name in ("epsilon", "delta", "unit", "neighbours")} == {
        "epsilon": "1",
        "delta": "0",
        "unit": "user",
        "neighbours": "replace",
    }


def test_options_reach_the_learner(privpac: Command, table: Path) -> None:
    run = privpac("learn", table, *LEARN, "--setting", "realizable", "--max-records", 3, "--people", 50, "--json")
    body = json.loads(run.out)
    assert body["learner"] == "realizable selection"
    assert body["parameters"]["max_records"] == 3
    run = privpac("learn", table, *LEARN, "--method", "mean", "--json")
    assert json.loads(run.out)["parameters"]["statistic"] == "mean"


def test_invalid_rows_can_be_dropped_and_labels_mapped(privpac: Command) -> None:
    Path("t.csv").write_text("who,age,ill\na,5,no\nb,,yes\n,7,yes\nc,1000,yes\n")
    Path("words.csv").write_text("who,age,ill\na,5,no\nb,6,yes\n")
    base = ["learn", "t.csv", *LEARN]
    refused = one_line(privpac("learn", "words.csv", *LEARN))
    assert "column 'ill': 2 not 0 or 1 (number of records)" in refused
    assert "name the labels with --positive, --classes or --label-map; correct" in refused
    for policy in ("drop", "clamp"):
        assert one_line(privpac("learn", "words.csv", *LEARN, "--on-invalid", policy)) == refused
        dropped = privpac("learn", "words.csv", *LEARN, "--on-invalid", policy, "--on-invalid-label", "drop")
        assert dropped.code == 0
    assert "--on-invalid-label must be one of" in one_line(
        privpac("learn", "words.csv", *LEARN, "--on-invalid-label", "clamp")
    )
    assert "no record has the label 'Yes' (--positive)" in one_line(
        privpac("learn", "words.csv", *LEARN, "--positive", "Yes")
    )
    assert privpac("learn", "words.csv", *LEARN, "--positive", "yes").code == 0
    mapped = [*base, "--label-map", "yes=1", "--label-map", "no=0"]
    assert "user ids are missing" in one_line(privpac(*mapped))
    assert privpac(*mapped, "--on-invalid", "drop").code == 0
    assert privpac(*mapped, "--on-invalid", "clamp").code == 0
    assert "value=0 or value=1" in one_line(privpac(*base, "--label-map", "yes=2"))


# The ledger


def make_ledger(privpac: Command, epsilon: Any = 2, *more: Any) -> None:
    assert privpac("ledger", "new", "b.db", "--epsilon", epsilon, "--dataset", "visits", *more).code == 0


def spends(path: str = "b.db") -> int:
    with pp.BudgetLedger.open(path) as book:
        return len(book.history())


def test_ledger_is_spent_shown_and_verified(privpac: Command, table: Path) -> None:
    make_ledger(privpac)
    assert "nothing was spent yet" in privpac("ledger", "show", "b.db").out
    run = privpac("learn", table, *LEARN, "--ledger", "b.db")
    assert "budget left: ε = 1 of 2" in run.out
    run = privpac("learn", table, *LEARN, "--ledger", "b.db", "--json")
    assert json.loads(run.out)["parameters"]["budget left"] == "ε = 0 of 2"
    exhausted = one_line(privpac("learn", table, *LEARN, "--ledger", "b.db"), code=4)
    assert "budget exhausted" in exhausted
    assert spends() == 2
    shown = privpac("ledger", "show", "b.db").out
    assert shown.count("HybridSelection") == 2
    assert "left (0, 0)" in shown
    assert len(json.loads(privpac("ledger", "show", "b.db", "--json").out)["spends"]) == 2
    head = json.loads(privpac("ledger", "verify", "b.db", "--json").out)["head"]
    assert head in privpac("ledger", "verify", "b.db", "--published", head).out
    assert "does not extend" in one_line(privpac("ledger", "verify", "b.db", "--published", "0" * 64))


def test_ledgers_are_made_on_purpose_only(privpac: Command, table: Path) -> None:
    assert "privpac ledger new" in one_line(privpac("learn", table, *LEARN, "--ledger", "none.db"))
    assert not Path("none.db").exists()
    for command in ("show", "verify"):
        one_line(privpac("ledger", command, "none.db"))
    make_ledger(privpac)
    assert "exists already" in one_line(privpac("ledger", "new", "b.db", "--epsilon", 9, "--dataset", "visits"))
    for bad in (
        ["--epsilon", "0"],
        ["--epsilon", "x"],
        ["--epsilon", "1", "--delta", "2"],
        ["--epsilon", "1", "--rule", "renyi"],
    ):
        one_line(privpac("ledger", "new", "c.db", "--dataset", "d", *bad))
    assert not Path("c.db").exists()


def test_zcdp_ledger_shows_rho(privpac: Command, table: Path) -> None:
    make_ledger(privpac, 1, "--rule", "zcdp", "--delta", "1e-6")
    assert (
        privpac(
            "learn", table, "--user", "who", "--label", "ill", "--feature", "age=0:99", "-e", "0.1", "--ledger", "b.db"
        ).code
        == 0
    )
    assert "rho" in privpac("ledger", "show", "b.db").out


@pytest.mark.parametrize(
    ("budget", "more", "said"),
    [
        (
            ["--neighbours", "add-remove"],
            ["--neighbours", "replace"],
            "add-remove ledger cannot pay for a replace learner",
        ),
        (["--unit", "item"], [], "different promises"),
    ],
)
def test_a_ledger_of_another_relation_or_unit_is_refused(
    privpac: Command, table: Path, budget: list[str], more: list[str], said: str
) -> None:
    make_ledger(privpac, 5, *budget)
    assert said in one_line(privpac("learn", table, *LEARN, *more, "--ledger", "b.db"))
    assert spends() == 0


def test_a_file_that_is_no_ledger_is_refused(privpac: Command, table: Path) -> None:
    Path("b.db").write_text("not a ledger")
    one_line(privpac("learn", table, *LEARN, "--ledger", "b.db"))
    assert Path("b.db").read_text() == "not a ledger"


# Bad input, tried on purpose


def replaced(option: str, value: str) -> list[str]:
    words = list(LEARN)
    words[words.index(option) + 1] = value
    return words


PARAMETERS: list[tuple[list[str], str]] = [
    (replaced("--label", "illness"), "no column 'illness'"),
    (replaced("--user", "whom"), "no column 'whom'"),
    (replaced("--feature", "height=0:9"), "no column 'height'"),
    (replaced("--feature", "age=9:0"), "lo <= hi"),
    (replaced("--feature", "age=0:9:7"), "multiple of step"),
    (replaced("--feature", "age=low:high"), "a domain must be"),
    (replaced("--feature", "=0:9"), "a feature must be"),
    (replaced("--feature", "age={}"), "empty"),
    (replaced("--feature", "age=0:40"), "outside whole numbers 0..40"),
    (replaced("--feature", "who=0:9"), "two roles"),
    (replaced("--feature", "site=0:9"), "600 not a number"),
    ([*LEARN, "--feature", "age=0:9"], "named twice"),
    ([*LEARN, "--feature", "smokes=0:1", "--rule", "threshold"], "one column"),
    ([*LEARN, "--rule", "forest"], "rule must be one of"),
    ([*LEARN, "--method", "best"], "method must be"),
    ([*LEARN, "--setting", "easy"], "setting must be"),
    ([*LEARN, "--neighbours", "swap"], "neighbours must be one of"),
    ([*LEARN, "--on-invalid", "guess"], "--on-invalid must be one of"),
    ([*LEARN, "--max-records", "0"], "--max-records"),
    ([*LEARN, "--max-records", "few"], "--max-records"),
    ([*LEARN, "--people", "-3"], "--people"),
    ([*LEARN, "--bogus"], "No such option"),
    (replaced("--epsilon", "0"), "--epsilon must be > 0"),
    (replaced("--epsilon", "-1"), "epsilon"),
    (replaced("--epsilon", "nan"), "epsilon"),
    (replaced("--epsilon", "inf"), "epsilon"),
    (replaced("--epsilon", "much"), "epsilon"),
    (replaced("--epsilon", "1e400"), "epsilon"),
    (LEARN[:-2], "Missing option '--epsilon'"),
    (LEARN[2:4] + LEARN[6:], "name at least one feature: --feature"),
    ([*LEARN, "--out", "nowhere/m.json"], "--out cannot be written"),
    ([*LEARN, "--report", "nowhere/r.html"], "--report cannot be written"),
    ([*LEARN, "--out", "."], "is a folder"),
    ([*LEARN, "--report", "."], "is a folder"),
    ([*LEARN, "--report", "r.pdf"], "saved as .html or .htm, got 'r.pdf'"),
    ([*LEARN, "--out", "b.db"], "--ledger name the same file"),
    ([*LEARN, "--report", "t.parquet"], "the table name the same file"),
    ([*LEARN, "--out", "x", "--report", "x"], "name the same file"),
]


@pytest.mark.parametrize(("words", "said"), PARAMETERS, ids=range(len(PARAMETERS)))
def test_bad_parameters_are_one_clear_line_and_spend_nothing(
    privpac: Command, table: Path, words: list[str], said: str
) -> None:
    make_ledger(privpac, 5)
    assert said in one_line(privpac("learn", "t.parquet", *words, "--ledger", "b.db"))
    assert spends() == 0
    assert sorted(path.name for path in table.parent.glob("*") if not path.name.startswith("b.db")) == [
        "t.csv",
        "t.parquet",
    ]


def test_huge_epsilon_spends_nothing(privpac: Command, table: Path) -> None:
    """The count's own limit on epsilon must be met before the ledger pays."""
    make_ledger(privpac, "1e12")
    run = privpac("learn", table, *replaced("--epsilon", "1e9"), "--ledger", "b.db")
    assert run.code == 2
    assert "epsilon must be <= 200" in run.err
    assert spends() == 0


def csv(text: str) -> Callable[[Path], None]:
    return lambda path: path.with_suffix(".csv").write_text(text) and None


def parquet(**columns: Any) -> Callable[[Path], None]:
    return lambda path: pl.DataFrame(columns, strict=False).write_parquet(path.with_suffix(".parquet"))


GOOD = {"who": ["a", SECRET_ID], "age": [1, 2], "ill": [0, 1]}
TABLES: list[tuple[str, Callable[[Path], None], str]] = [
    ("NaN", parquet(**GOOD | {"age": [1.0, float("nan")]}), "column 'age': 1 missing or NaN"),
    ("infinity", parquet(**GOOD | {"age": [1.0, float("inf")]}), "column 'age': 1 outside"),
    ("null", parquet(**GOOD | {"age": [1, None]}), "column 'age': 1 missing or NaN"),
    ("missing id", parquet(**GOOD | {"who": ["a", None]}), "column 'who': 1 user ids are missing"),
    ("label 2", parquet(**GOOD | {"ill": [0, 2]}), "column 'ill': 1 not 0 or 1"),
    ("label NaN", parquet(**GOOD | {"ill": [0.0, float("nan")]}), "column 'ill': 1 missing or NaN"),
    ("label text", parquet(**GOOD | {"ill": ["no", SECRET_ID]}), "column 'ill' has type String"),
    ("outside", parquet(**GOOD | {"age": [1, SECRET]}), "column 'age': 1 outside whole numbers 0..99"),
    ("fraction", parquet(**GOOD | {"age": [1.5, 2.0]}), "column 'age': 1 not whole numbers"),
    ("text", parquet(**GOOD | {"age": ["1", SECRET_ID]}), "column 'age': 1 not a number"),
    ("csv outside", csv(f"who,age,ill\na,1,0\nb,{SECRET},1\n"), "column 'age': 1 outside"),
    ("csv text", csv(f"who,age,ill\na,1,0\nb,{SECRET_ID},1\n"), "column 'age': 1 not a number"),
    ("csv label 2", csv("who,age,ill\na,1,0\nb,2,2\n"), "column 'ill': 1 not 0 or 1"),
    ("csv missing id", csv("who,age,ill\na,1,0\n,2,1\n"), "1 user ids are missing"),
    ("csv broken line", csv(f"who,age,ill\na,1,0\n{SECRET_ID},2,1,{SECRET},7\n"), "not a well-formed CSV table"),
    ("csv open quote", csv(f'who,age,ill\na,1,0\n"{SECRET_ID},2,1\n'), "not a well-formed CSV table"),
    ("csv twice", csv("who,age,age,ill\na,1,1,0\n"), "2 columns named 'age'"),
    ("csv no column", csv("who,ill\na,1\n"), "no column 'age'"),
    ("csv zero bytes", csv(""), "is empty"),
    ("parquet zero bytes", lambda path: path.with_suffix(".parquet").touch(), "is empty"),
    (
        "not parquet",
        lambda path: path.with_suffix(".parquet").write_text(f"{SECRET_ID},{SECRET}\n") and None,
        "not a readable Parquet file",
    ),
    (
        "not text",
        lambda path: path.with_suffix(".csv").write_bytes(b"\xff\xfe\x00\x01") and None,
        "not a CSV table in UTF-8",
    ),
    ("folder", lambda path: path.with_suffix(".csv").mkdir(), "is a folder"),
    ("other kind", lambda path: path.with_suffix(".xlsx").touch(), "must be .parquet or .csv"),
    ("missing", lambda path: None, "no file matches"),
]


@pytest.mark.parametrize(("make", "said"), [case[1:] for case in TABLES], ids=[case[0] for case in TABLES])
def test_bad_tables_are_one_clear_line_without_values_and_spend_nothing(
    privpac: Command, tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    make_ledger(privpac, 5)
    make(tmp_path / "bad")
    found = [path.name for path in tmp_path.iterdir() if path.stem == "bad"]
    line = one_line(privpac("learn", *(found or ["bad.parquet"]), *LEARN, "--ledger", "b.db"))
    assert said in line
    assert spends() == 0


@pytest.mark.parametrize(
    "make",
    [
        csv("who,age,ill\n"),
        parquet(
            who=pl.Series([], dtype=pl.String), age=pl.Series([], dtype=pl.Int64), ill=pl.Series([], dtype=pl.Int64)
        ),
        parquet(who=["a"], age=[3], ill=[1]),
        parquet(who=["a"] * 50, age=[3] * 50, ill=[1] * 50),
    ],
    ids=["csv without rows", "parquet without rows", "one user", "one user with many records"],
)
def test_small_tables_are_no_errors_and_give_no_warning(
    privpac: Command, tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "small")
    (name,) = [path.name for path in tmp_path.iterdir()]
    run = privpac("learn", name, *LEARN)
    assert (run.code, run.err) == (0, "")
    assert run.out.startswith("ill ")


def test_nothing_of_the_table_reaches_any_file_or_output(privpac: Command, table: Path) -> None:
    make_ledger(privpac, 5)
    words = ("--ledger", "b.db", "--out", "m.json", "--report", "r.html", "--purpose", "a <b>", "--contact", "x@y.z")
    run = privpac("learn", table, *LEARN, *words)
    assert run.code == 0
    assert re.search(r"rule written to m\.json\nreport written to r\.html\n$", run.out)
    for text in (
        run.out,
        Path("m.json").read_text(),
        Path("r.html").read_text(),
        *(p.read_bytes().decode("latin-1") for p in Path().glob("b.db*")),
    ):
        assert SECRET_ID not in text
        assert str(table.parent) not in text
    assert "600" not in run.out + Path("m.json").read_text()
    page = Path("r.html").read_text()
    assert all(said in page for said in ("budget left", "a &lt;b&gt;", "x@y.z"))


def test_a_rule_that_is_paid_for_is_shown_even_if_it_cannot_be_saved(
    privpac: Command, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    make_ledger(privpac, 5)
    monkeypatch.setattr("os.replace", full)
    run = privpac("learn", table, *LEARN, "--ledger", "b.db", "--out", "m.json")
    assert run.code == 1
    assert run.out.startswith("ill ")
    assert "was released and is shown above, but cannot write 'm.json': No space left on device" in run.err
    assert spends() == 1


def test_internal_errors_show_no_traceback(privpac: Command, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise KeyError(SECRET_ID)

    monkeypatch.setattr("privpac.data.users.UserData.of_files", broken)
    assert "internal error (KeyError)" in one_line(privpac("learn", table, *LEARN), code=1)


def test_no_release_is_exit_code_3(privpac: Command, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = Released(NoRelease, pp.Guarantee(1, unit="user", neighbours="add-remove"), outcome="none")
    monkeypatch.setattr("privpac.cli.learn.release_prepared", lambda *_, **__: nothing)
    run = privpac("learn", table, *LEARN, "--out", "m.json", "--report", "r.html")
    assert run.code == 3
    assert run.out.startswith("nothing was released")
    assert "No rule was released" in Path("r.html").read_text()
    assert "holds no rule" in one_line(privpac("predict", "m.json", "t.csv"))


# Predicting


@pytest.fixture
def rule(privpac: Command, tmp_path: Path) -> str:
    concept = pp.Thresholds(pp.Integers(0, 99), "age")
    Released(concept.decode(41, "ill"), pp.Guarantee(1, unit="user", neighbours="add-remove")).save(tmp_path / "m.json")
    return "m.json"


def test_predictions_keep_the_order_and_number_of_rows(privpac: Command, rule: str) -> None:
    Path("new.csv").write_text("name,age\nx,41\ny,-5\nz,40\nv,500\n")
    assert privpac("predict", rule, "new.csv").out == "prediction\n1\n0\n0\n1\n"
    assert privpac("predict", rule, "new.csv", "--json").out == "[1, 0, 0, 1]\n"
    assert privpac("predict", rule, "new.csv", "--out", "p.csv") == Run(0, "", "")
    assert Path("p.csv").read_text() == "prediction\n1\n0\n0\n1\n"
    privpac("predict", rule, "new.csv", "--out", "p.parquet")
    assert pl.read_parquet("p.parquet")["prediction"].to_list() == [1, 0, 0, 1]
    Path("none.csv").write_text("age\n")
    assert privpac("predict", rule, "none.csv", "--json").out == "[]\n"


def test_chances_and_a_threshold_of_ones_own(privpac: Command, rule: str) -> None:
    """A rule without chances is refused; a small tree with chances says them, column by column."""
    Path("new.csv").write_text("age,b\n41,1\n-5,0\n40,1\n500,0\n")
    for words in (["--probabilities"], ["--threshold", "1/3"]):
        assert "evaluate='1/5'" in one_line(privpac("predict", rule, "new.csv", *words))
    tree = pp.SmallTrees({"age": pp.Integers(0, 99), "b": pp.Integers(0, 1)})
    each = [[(i % 100, i % 2, int(i % 100 > 40))] for i in range(900)]
    people = pp.UserData.from_users(each, features={"age": pp.Integers(0, 99), "b": pp.Integers(0, 1)})
    pp.learn(people, tree, epsilon=4, calibrate="1/4").save("tree.json")
    found = json.loads(privpac("predict", "tree.json", "new.csv", "--probabilities", "--json").out)
    assert [set(row) for row in found] == [{"prediction", "chance_0", "chance_1"}] * 4
    assert all(abs(row["chance_0"] + row["chance_1"] - 1) < 1e-12 for row in found)
    assert [row["prediction"] for row in found] == [int(row["chance_1"] > 0.5) for row in found]
    assert privpac("predict", "tree.json", "new.csv", "--threshold", "0").out == "prediction\n1\n1\n1\n1\n"
    assert privpac("predict", "tree.json", "new.csv", "--threshold", "1").out == "prediction\n0\n0\n0\n0\n"
    assert "threshold" in one_line(privpac("predict", "tree.json", "new.csv", "--threshold", "2"))
    kept = privpac("predict", "tree.json", "new.csv", "--probabilities", "--keep", "chance_1")
    assert "chances are called so" in one_line(kept)


def test_a_missing_value_is_refused_rather_than_skipped(privpac: Command, rule: str) -> None:
    """A dropped row would shift every later prediction to another person."""
    Path("new.csv").write_text(f"name,age\n{SECRET_ID},\ny,50\n")
    assert "column 'age': 1 missing" in one_line(privpac("predict", rule, "new.csv"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["none.json", "new.csv"], "cannot read"),
        (["new.csv", "new.csv"], "not a readable privpac result"),
        (["m.json", "none.csv"], "no file matches"),
        (["m.json", "other.csv"], "no column 'age'"),
        (["m.json", "new.csv", "--out", "p.txt"], "must end in .csv or .parquet"),
        (["m.json", "new.csv", "--out", "nowhere/p.csv"], "cannot be written"),
        (["m.json", "new.csv", "--out", "new.csv"], "same file"),
        (["value.json", "new.csv"], "does not predict"),
    ],
)
def test_bad_predictions_are_one_clear_line(privpac: Command, rule: str, words: list[str], said: str) -> None:
    Path("new.csv").write_text("age\n1\n")
    Path("other.csv").write_text("height\n1\n")
    Released(17, None).save("value.json")
    assert said in one_line(privpac("predict", *words))


def test_a_missing_table_is_said_before_anything_else(privpac: Command) -> None:
    for words in (
        ["learn", "nofile.csv"],
        ["learn", "nofile.csv", "--max-records", "many", "--ledger", "none.db"],
        ["learn", "--rule", "oak", "nofile.csv", "-e", "x"],
        ["evaluate", "norule.json", "nofile.csv"],
        ["predict", "norule.json", "nofile.csv"],
        ["quantile", "nofile.csv"],
        ["distribution", "nofile.csv", "--family", "flat"],
    ):
        assert "nofile.csv" in one_line(privpac(*words)), words
    assert "Usage" in privpac("learn", "nofile.csv", "--help").out


# Planning, and the command itself


def test_plan_prints_a_table_or_json(privpac: Command) -> None:
    run = privpac("plan", "threshold", "--domain", "2^64", "-m", 16, "-e", 1, "--alpha", "0.05")
    assert run.code == 0
    assert run.out.startswith("About ")
    assert "no method is certain" in run.out
    assert "recommended: hybrid, because" in run.out
    run = privpac("plan", "threshold", "--domain", "2^64", "-m", 16, "-e", 1, "--alpha", "0.05", "--all")
    assert run.code == 0
    assert "certified:" in run.out
    assert "no method can:" in run.out
    assert "typical:" in run.out
    assert "assumes" in run.out
    assert "recommended: hybrid, because" in run.out
    body = json.loads(
        privpac(
            "plan", "thresholds", "--domain", 1441, "-m", 4, "-m", 16, "-e", 1, "--setting", "realizable", "--json"
        ).out
    )
    assert body["records_per_user"] == [4, 16]
    assert body["rows"][0]["n_users"] == list(
        pp.plan(pp.Thresholds(pp.Integers(0, 1440)), epsilon=1, records_per_user=(4, 16), setting="realizable")
        .rows[0]
        .n_users
    )
    assert body["predicted"][0]["kind"] == "predicted"
    assert body["recommendation"]["method"] == "realizable"
    quiet = privpac(
        "plan", "stumps", "-f", "a=0:9", "-f", "b=0:1:0.1", "-e", 1, "-m", 4, "--setting", "realizable", "--no-predict"
    )
    assert quiet.code == 0
    assert "typical" not in quiet.out


def test_plan_answers_the_other_way_round_and_for_other_things(privpac: Command) -> None:
    for words, quantity, value in (
        (["threshold", "--domain", 1441, "-n", 500, "-e", 1, "-m", 16, "--setting", "realizable"], "alpha", 0.00205),
        (["histogram", "--bins", 20, "-e", 1, "-m", 4, "-n", 2000], "alpha", None),
        (["tree", "--tree", "thresholds:1:16", "-n", 304, "-e", 1, "-m", 1], "alpha", None),
        (
            ["parities", "-f", "a=0:1", "-f", "b=0:1", "-n", 400, "--alpha", "0.1", "-m", 4, "--setting", "realizable"],
            "epsilon",
            None,
        ),
    ):
        run = privpac("plan", *words, "--json")
        assert run.code == 0, run.err
        body = json.loads(run.out)
        assert body["quantity"] == quantity
        found = body["rows"][0]["values"][0]
        assert found == value if value is not None else found > 0
    for words, said in (
        (["histogram", "--bins", 100, "-e", 1, "-m", 4], "clipped histogram"),
        (["medians", "--domain", "2^32", "-e", 1, "-m", 1], "exponential mechanism"),
        (["threshold", "--domain", 1024, "--model", "shuffle", "-e", 1, "-d", "1e-6", "-m", 1], "shuffle agreement"),
        (["threshold", "--domain", 99, "-e", 1, "-m", 4, "--all", "--no-predict"], "threshold search"),
        (["threshold", "--domain", 99, "-e", 1, "-m", 16, "--people-are", "differ"], "keep one label"),
    ):
        run = privpac("plan", *words)
        assert run.code == 0, run.err
        assert said in run.out


def test_plan_predicts_on_a_table_only_if_it_is_public(privpac: Command) -> None:
    rows = [f"{user},{x},{int(x > 5)}" for user in range(60) for x in (user % 10, (3 * user) % 10)]
    Path("people.csv").write_text("who,x,late\n" + "\n".join(rows) + "\n")
    words = ["plan", "threshold", "-f", "x=0:9", "-e", 1, "--alpha", "0.1", "-m", 2, "--population", "people.csv"]
    assert "--public" in one_line(privpac(*words, "--user", "who", "--label", "late"))
    assert "name the column to predict with --label" in one_line(privpac(*words, "--user", "who", "--public"))
    assert "describe the table" in one_line(privpac(*words[:-2], "--public"))
    body = json.loads(privpac(*words, "--user", "who", "--label", "late", "--public", "--json").out)
    assert all("people.csv" in row["assumption"] for row in body["predicted"])
    assert body["predicted"][0]["n_users"][0] <= 60


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["threshold", "-e", 1], "either --domain"),
        (["threshold", "-e", 1, "--domain", 5, "-f", "a=0:3"], "either --domain"),
        (["threshold", "-e", 1, "--domain", "many"], "--domain takes"),
        (["threshold", "-e", 1, "--domain", "2^999999999999"], "--domain takes"),
        (["threshold", "-e", 1, "--domain", 0], "--domain takes"),
        (["threshold", "-e", 1, "--domain", "2^-1"], "--domain takes"),
        (["forest", "-e", 1, "--domain", 9], "rule must be one of"),
        (["threshold", "-e", 0, "--domain", 9], "epsilon"),
        (["threshold", "-e", 1, "--domain", 9, "--alpha", 2], "alpha"),
        (["threshold", "-e", 1, "--domain", 9, "--beta", "x"], "beta"),
        (["threshold", "-e", 1, "--domain", 9, "--noise", "0.7"], "noise"),
        (["threshold", "-e", 1, "--domain", 9, "-m", 0], "--records-per-user"),
        (["threshold", "-e", 1, "--domain", 9, "--setting", "x"], "setting"),
        (["interval", "-e", 1, "--domain", "2^64"], "at most 5000 values"),
        (["histogram", "-e", 1], "needs --values"),
        (["histogram", "-e", 1, "--bins", 4, "--radius", 3], "not described by --radius"),
        (["gaussian", "-e", 1, "-f", "x=0:3"], "leave out --feature"),
        (["threshold", "-e", 1, "--domain", 9, "--bins", 4], "--values describes"),
        (["threshold", "-e", 1, "--domain", 9, "--model", "shuffle"], "delta"),
        (["threshold", "-e", 1, "--domain", 9, "--people-are", "odd"], "--people-are must be one of"),
        (["threshold", "-e", 1, "--domain", 9, "--model-noise", 1], "--model-noise"),
        (["threshold", "-n", 5, "--domain", 9], "with --people give --epsilon"),
    ],
)
def test_bad_plans_are_one_clear_line(privpac: Command, words: list[Any], said: str) -> None:
    assert said in one_line(privpac("plan", *words))


def test_help_version_and_unknown_commands(privpac: Command) -> None:
    assert privpac("--version").out == f"privpac {pp.__version__}\n"
    assert "--max-records" in privpac("learn", "--help-all").out
    assert privpac().code == 2
    assert "No such command" in one_line(privpac("teach"))
    assert "Missing argument" in one_line(privpac("learn"))


# In a process of its own: warnings, terminals, pipes


def command(*words: Any) -> list[str]:
    return [sys.executable, "-c", "from privpac.cli.app import main; main()", *map(str, words)]


def test_item_level_and_weak_epsilon_are_warned_of_on_stderr(table: Path) -> None:
    words = ["learn", table, "--label", "ill", "--feature", "age=0:99", "--epsilon", "20"]
    run = subprocess.run(command(*words), capture_output=True, text=True, check=True)
    lines = run.stderr.splitlines()
    assert sum("single records are protected, not people" in line for line in lines) == 1
    assert any("promises very little" in line for line in lines)
    assert all(line.startswith("privpac: warning: ") for line in lines)
    assert "ε = 20 for each record (no protection)" in run.stdout


def test_progress_is_drawn_on_a_terminal_only(table: Path) -> None:
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        command("learn", table, *LEARN), stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm"}
    )
    os.close(theirs)
    drawn = b""
    try:
        while chunk := os.read(ours, 4096):
            drawn += chunk
    except OSError:  # the other side is closed
        pass
    out, _ = run.communicate()
    os.close(ours)
    assert run.returncode == 0
    assert b"learning from 600 records" in drawn
    assert b"reading" not in out
    assert out.startswith(b"ill ")


def test_a_closed_pipe_is_no_traceback(table: Path) -> None:
    (table.parent / "long.csv").write_text("age\n" + "1\n" * 200_000)
    concept = pp.Thresholds(pp.Integers(0, 99), "age")
    Released(concept.decode(41), pp.Guarantee(1, unit="user", neighbours="add-remove")).save(table.parent / "m.json")
    run = subprocess.Popen(
        command("predict", table.parent / "m.json", table.parent / "long.csv"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert run.stdout is not None
    run.stdout.close()
    assert run.stderr is not None
    assert run.stderr.read() == b""
    run.stderr.close()
    assert run.wait() == 1
