"""The commands that ``privpac plan`` prints for distributions and agreement run, with the certified parameters."""

from __future__ import annotations

import json
import shlex
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.front.commands import Command

OWN = {
    "TABLE.parquet": "t.csv",
    "USER": "who",
    "LABEL": "y",
    "COLUMN": "x0",
    "LO": "0",
    "HI": "9",
    "COLUMN1": "x0",
    "COLUMN2": "x1",
}


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    rows = [f"{i // 4},{a},{b},{int(a > 4)}" for i, (a, b) in enumerate(rng.integers(0, 3, (240, 2)).tolist())]
    Path("t.csv").write_text("\n".join(["who,x0,x1,y", *rows]) + "\n")


def _planned(command: Command, *words: str) -> dict[str, Any]:
    run = command("plan", *words, "-m", "4", "--no-predict", "--json")
    assert (run.code, run.err) == (0, "")
    found: dict[str, Any] = json.loads(run.out)["runs"]["4"]
    return found


def _filled(command: str) -> list[str]:
    """The command with the reader's own words."""
    words = []
    for word in shlex.split(command)[1:]:
        for name in sorted(OWN, key=len, reverse=True):
            word = word.replace(name, OWN[name])
        words.append(word)
    return words


@pytest.mark.parametrize(
    "words",
    [
        ["histogram", "--bins", "5", "--epsilon", "1"],
        ["histogram", "--bins", "5", "--columns", "2", "--epsilon", "1", "--neighbours", "replace"],
        ["discrete", "--values", "3", "--epsilon", "1", "--alpha", "0.3", "--beta", "0.1"],
        ["product", "--values", "3", "--columns", "2", "--epsilon", "1", "--alpha", "0.8"],
        ["gaussian", "--radius", "10", "--epsilon", "1", "--alpha", "0.2", "--variance", "1/3"],
        ["gaussian", "--radius", "10", "--epsilon", "1", "--people", "300"],
    ],
)
def test_commands_of_distributions_run_with_the_certified_parameters(command: Command, words: list[str]) -> None:
    found = _planned(command, *words)
    assert len(found) >= 2 or words[0] == "gaussian"
    for row, told in found.items():
        run = command(*_filled(told["command"]), "--json")
        assert (run.code, run.err) == (0, ""), row
        shown = json.loads(run.out)["parameters"]
        compared = [name for name in told["parameters"] if name in shown]
        assert compared, row
        for name in compared:
            seen = set(shown[name].values()) if isinstance(shown[name], dict) else {shown[name]}
            assert {Fraction(value) for value in seen} == {Fraction(told["parameters"][name])}, (row, name)


def test_the_command_of_a_selection_runs_with_the_reader_s_laws(command: Command) -> None:
    told = _planned(command, "selection", "--values", "2", "--epsilon", "1", "--alpha", "0.2", "--beta", "0.1")[
        "hypothesis selection"
    ]
    words = [word.replace("LAW", f"poisson:mu={i}") for i, word in enumerate(_filled(told["command"]), 1)]
    run = command(*words, "--json")
    assert (run.code, run.err) == (0, "")
    assert json.loads(run.out)["parameters"]["candidates"] == 2


@pytest.mark.parametrize(
    ("model", "delta"),
    [("central", ["--delta", "1e-6"]), ("central", []), ("local", []), ("shuffle", ["--delta", "1e-6"])],
)
def test_commands_of_agreement_run(command: Command, model: str, delta: list[str]) -> None:
    found = _planned(command, "threshold", "--feature", "x0=0:9", "--model", model, "--epsilon", "1", *delta)
    (told,) = found.values()
    if model == "shuffle":
        assert command("protocol", "keys", "ANALYZER").code == 0
    if model != "central":
        assert command("protocol", "keys", "COORDINATOR", "--coordinator").code == 0
    run = command(*_filled(told["command"]), "--json")
    assert (run.code, run.err) == (0, "")
    written = json.loads(run.out)
    written = written.get("manifest", written)
    if model == "central":
        assert Fraction(written["guarantee"]["epsilon"]) == 1
        assert Fraction(written["guarantee"]["delta"]) == (Fraction("1e-6") if delta else 0)
    else:
        assert (written["protocol"], written["m_min"]) == (model, 4)
        for name in ("n_min", "n_max", "width") if model == "shuffle" else ("width",):
            assert written["mechanism"][name] == told["parameters"][name]


def test_plans_print_the_commands_or_say_why_there_is_none(command: Command) -> None:
    for words, said in (
        (
            ["histogram", "--bins", "5"],
            "privpac distribution TABLE.parquet --user USER --feature COLUMN=LO:HI --bins COLUMN=5",
        ),
        (
            ["gaussian", "--radius", "10"],
            "--method coarse-to-fine --epsilon 1 --radius 10 --variance 1 --records-per-user 4",
        ),
        (
            ["threshold", "--domain", "100", "--model", "shuffle", "--delta", "1e-6"],
            "privpac protocol new RUN.json --model shuffle",
        ),
        (
            ["median", "--domain", "100", "--all"],
            "no command runs this row; in Python: plan.learner('median by the exponential mechanism')",
        ),
    ):
        run = command("plan", *words, "--epsilon", "1", "-m", "4", "--no-predict")
        assert (run.code, run.err) == (0, "")
        assert said in run.out
