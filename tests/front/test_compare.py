"""``privpac compare``: only on public or generated people, and nothing of a table is read or shown before that is
said."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import Command, Run

from privpac.errors import ParameterError
from privpac.planning.comparison import Comparison, Measured
from privpac.report.compare import comparison_html, comparison_picture, write_comparison, write_comparison_plot

TABLE = ["--user", "who", "--label", "ill", "--feature", "age=0:99", "--epsilon", "1"]
OURS = ["--method", "default", "--method", "mean", "--method", "erm"]
MODEL = ["--generated", "--noise", "0.1", "--records-per-user", "4", "--people", "30", "--epsilon", "1"]


@pytest.fixture
def privpac(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs ``privpac compare`` in this process, from the temporary folder."""
    monkeypatch.setenv("COLUMNS", "120")
    return partial(command, "compare")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    age = rng.integers(0, 100, 300)
    frame = pl.DataFrame({"who": [f"u{k % 30}" for k in range(300)], "age": age, "ill": (age > 40).astype(int)})
    frame.write_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def one_line(run: Run) -> str:
    assert run.code == 2, run
    assert run.out == ""
    assert run.err.count("\n") == 1
    assert run.err.startswith("privpac: ")
    return run.err


# Who may be compared


def test_a_table_is_refused_unless_it_is_declared_public(privpac: Command, table: Path) -> None:
    assert "--public" in one_line(privpac(table, *TABLE, *OURS))


def test_the_refusal_comes_before_the_table_is_looked_at(privpac: Command, tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"no table")
    assert "--public" in one_line(privpac(tmp_path / "broken.parquet", *TABLE))
    assert "no file matches" in one_line(privpac(tmp_path / "missing.parquet", *TABLE))


def test_a_public_table_is_compared_in_numbers_and_words(privpac: Command, table: Path) -> None:
    run = privpac(table, "--public", *TABLE, *OURS)
    assert run.code == 0
    assert run.err == ""
    for word in ("t.parquet", "default", "mean", "erm", "30 users", "(1, 0)-DP per user, add-remove", "not private"):
        assert word in run.out


def test_json_holds_every_row_with_its_promise(privpac: Command, table: Path) -> None:
    run = privpac(
        table, "--public", *TABLE, *OURS, "--epsilon", "4", "--people", "10", "--people", "20", "--draws", "2", "--json"
    )
    found = json.loads(run.out)
    assert run.code == 0
    assert len(found["rows"]) == 3 * 2 * 2
    assert {row["epsilon"] for row in found["rows"]} == {"1", "4"}
    assert {row["n_users"] for row in found["rows"]} == {10, 20}
    assert found["best_error"] == 0
    assert all(row["promise"] for row in found["rows"])
    least = {row["method"]: row["excess"] for row in found["rows"] if row["epsilon"] == "4" and row["n_users"] == 20}
    assert least["erm"] >= 0
    assert 0 <= least["default"] <= least["mean"] + 0.01


def test_generated_people_need_no_table_and_the_seed_decides_them(privpac: Command) -> None:
    first, again, other = (json.loads(privpac(*MODEL, *OURS, "--json", "--seed", seed).out) for seed in (1, 1, 2))
    assert first == again
    assert first["rows"] != other["rows"]
    assert "label noise 1/10" in first["population"]
    assert first["best_error"] == pytest.approx(0.1)


def test_the_standard_list_is_compared_when_nothing_is_named(privpac: Command) -> None:
    run = privpac(*MODEL, "--runs", "1", "--draws", "1")
    assert run.code == 0
    assert "one-record" in run.out


def test_replaced_users_are_protected_on_request_and_named_methods_run(privpac: Command) -> None:
    asked = [
        "--method",
        "default",
        "--method",
        "pairwise",
        "--method",
        "tree",
        "--method",
        "agreement",
        "--method",
        "group",
    ]
    run = privpac(*MODEL, *asked, "--neighbours", "replace", "--runs", "2", "--json")
    assert run.code == 0, run
    found = json.loads(run.out)
    assert found["neighbours"] == "replace"
    assert {row["promise"] for row in found["rows"]} == {"(1, 0)-DP per user, replace"}
    assert [row["method"] for row in found["rows"]] == ["default", "pairwise", "tree", "agreement", "group"]
    many = [
        "--generated",
        "--people",
        "200",
        "--epsilon",
        "8",
        "--delta",
        "1e-3",
        "--method",
        "trimmed",
        "--neighbours",
        "replace",
    ]
    (trimmed,) = json.loads(privpac(*many, "--draws", "1", "--json").out)["rows"]
    assert trimmed["promise"] == "(8, 0.001)-DP per user, replace"
    assert 0 <= trimmed["excess"] < 0.1


def test_a_table_of_one_user_with_one_record_is_compared(privpac: Command, tmp_path: Path) -> None:
    pl.DataFrame({"who": ["a"], "age": [5], "ill": [1]}).write_csv(tmp_path / "tiny.csv")
    run = privpac(
        tmp_path / "tiny.csv", "--public", *TABLE, *OURS, "--method", "one-record", "--method", "group", "--json"
    )
    assert run.code == 0
    rows = {row["method"]: row for row in json.loads(run.out)["rows"]}
    assert rows["erm"]["excess"] == 0
    assert 0 < rows["default"]["excess"] < 1


# Bad input


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--epsilon", "1"], "--generated"),
        ([*MODEL, "--public"], "leave out"),
        ([*MODEL, "--method", "magic"], "magic"),
        ([*MODEL, "--method", "diffprivlib"], "diffprivlib"),
        ([*MODEL, "--plot", "x.gif"], ".png"),
        ([*MODEL, "--report", "no/such/folder/x.html"], "--report"),
        ([*MODEL, "--noise", "0.5"], "noise"),
        ([*MODEL, "--noise", "nan"], "noise"),
        ([*MODEL, "--epsilon", "0"], "epsilon"),
        ([*MODEL, "--epsilon", "-1"], "epsilon"),
        ([*MODEL, "--people", "0"], "--people"),
        ([*MODEL, "--draws", "0"], "draws"),
        ([*MODEL, "--cap", "0"], "cap"),
        ([*MODEL, "--delta", "0"], "delta"),
        ([*MODEL, "--neighbours", "swap"], "neighbours"),
        ([*MODEL, "--method", "trimmed"], "replace"),
        (["--generated"], "epsilon"),
    ],
    ids=lambda value: " ".join(value[-2:]) if isinstance(value, list) else None,
)
def test_bad_words_are_one_line_and_exit_code_2(privpac: Command, words: list[str], said: str) -> None:
    assert said in one_line(privpac(*words))


@pytest.mark.parametrize(
    ("drop", "add"),
    [
        ("--user", []),
        ("--label", []),
        ("--feature", []),
        ("", ["--noise", "0.1"]),
        ("", ["--people", "31"]),
        ("", ["--rule", "magic"]),
        ("--feature", ["--feature", "age=0:10"]),
        ("--feature", ["--feature", "weight=0:10"]),
    ],
)
def test_a_table_needs_its_columns_and_domains(privpac: Command, table: Path, drop: str, add: list[str]) -> None:
    kept = [word for i, word in enumerate(TABLE) if drop not in (word, TABLE[i - 1] if i else None) or not drop]
    one_line(privpac(table, "--public", *kept, *OURS, *add))


def test_a_missing_table_is_one_line(privpac: Command, tmp_path: Path) -> None:
    one_line(privpac(tmp_path / "missing.parquet", "--public", *TABLE))


# Report and picture


def comparison(n_users: tuple[int, ...], epsilons: tuple[str, ...], name: str = "people") -> Comparison:
    rows = tuple(
        Measured(
            method,
            epsilon,
            n,
            0.1 / n,
            0.001 if method == "default" else None,
            "(1, 0)-DP" if method == "default" else "none: not private",
        )
        for method in ("default", "erm")
        for epsilon in epsilons
        for n in n_users
    )
    return Comparison(name, 0.1, 0.4, 2, 3, rows, {"default": "ours", "erm": "best"}, ("dp-sgd: not <here>",))


@pytest.mark.parametrize(
    ("n_users", "epsilons"), [((10,), ("1",)), ((10, 40), ("1", "1/2")), ((10,), ("0.5", "1", "2"))]
)
def test_pictures_are_svg_and_the_same_every_time(n_users: tuple[int, ...], epsilons: tuple[str, ...]) -> None:
    found = comparison(n_users, epsilons)
    picture = comparison_picture(found)
    assert picture.startswith("<svg")
    assert picture == comparison_picture(found)


def test_the_page_is_self_contained_says_it_is_not_private_and_escapes_names() -> None:
    page = comparison_html(comparison((10, 40), ("1",), "<b>table</b>"))
    assert "nothing on this page is private" in page
    assert "&lt;b&gt;table" in page
    assert "<b>table" not in page
    assert "not &lt;here&gt;" in page
    assert "0.0100" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<script" not in page


def test_the_command_writes_report_and_pictures(privpac: Command, tmp_path: Path) -> None:
    run = privpac(*MODEL, *OURS, "--report", tmp_path / "c.html", "--plot", tmp_path / "c.png")
    assert run.code == 0
    assert "report written to" in run.out
    assert (tmp_path / "c.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.html", "c.png"]


def test_an_unwritable_place_is_a_parameter_error(tmp_path: Path) -> None:
    found = comparison((10,), ("1",))
    for write, name in ((write_comparison, "c.html"), (write_comparison_plot, "c.svg")):
        with pytest.raises(ParameterError, match="cannot write"):
            write(found, tmp_path / "none" / name)
    with pytest.raises(ParameterError, match="png"):
        write_comparison_plot(found, tmp_path / "c.gif")


def test_lines_run_from_left_to_right_in_whatever_order_epsilons_were_asked_for() -> None:
    from matplotlib.figure import Figure

    from privpac.report.compare import _lines

    axes = Figure().subplots()
    _lines(axes, comparison((10,), ("2", "1/2", "1")), None)
    assert axes.lines
    for line in axes.lines:
        assert list(line.get_xdata()) == [0.5, 1.0, 2.0]
