"""A promise for single records is said by every command that makes one, in yellow on a terminal, and in its result."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import polars as pl
import pytest
from commands import Command

import privpac as pp
from privpac.errors import ItemLevelWarning
from privpac.methods.base import ITEM_LEVEL
from privpac.studio.words import started

Y = [int(i % 10 > 4) for i in range(200)]
TABLE = pl.DataFrame({"x": [i % 10 for i in range(200)], "y": Y, "z": Y})
LEARN = ("learn", "t.csv", "--label", "y", "--feature", "x=0:9", "--epsilon", "9", "--out", "rule.json")
COMMANDS = {
    "learn": LEARN,
    "evaluate": ("evaluate", "rule.json", "t.csv", "--label", "y", "--epsilon", "1"),
    "select-model": (
        "select-model",
        "t.csv",
        "--model",
        "a=rule.json",
        "--model",
        "b=column:z",
        "--label",
        "y",
        "--epsilon",
        "1",
    ),
    "best-error": ("best-error", "t.csv", "--label", "y", "--feature", "x=0:9", "--epsilon", "1"),
    "distribution": ("distribution", "t.csv", "--feature", "x=0:9", "--epsilon", "1"),
    "quantile": ("quantile", "t.csv", "--feature", "x=0:9", "--q", "0.5", "--epsilon", "1"),
}


@pytest.mark.filterwarnings("always::privpac.errors.ItemLevelWarning")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_without_a_user_column_says_what_is_protected(name: str, command: Command) -> None:
    TABLE.write_csv("t.csv")
    if name != "learn":
        assert command(*LEARN).code == 0
    run = command(*COMMANDS[name])
    assert run.code == 0, run.err
    assert run.err.count(ITEM_LEVEL) == 1
    assert run.out.count(f"warning: {ITEM_LEVEL}") == 1  # and so in every file that keeps it


def test_results_carry_it_and_python_warns_before_the_spend(tmp_path: Path) -> None:
    data = pp.UserData.from_frame(TABLE, user=None, features={"x": pp.Integers(0, 9)}, label="y")
    with pytest.warns(ItemLevelWarning, match="single records are protected") as seen:
        found = pp.evaluate(lambda table: table["x"] > 4, data, epsilon=1)
    assert seen[0].filename == __file__
    assert found.warnings.count(ITEM_LEVEL) == 1
    assert f"<p class='warn'>{ITEM_LEVEL}</p>" in found.report(tmp_path / "report.html").read_text()
    people = pp.UserData.from_frame(
        TABLE.with_row_index("who"), user="who", features={"x": pp.Integers(0, 9)}, label="y"
    )
    assert ITEM_LEVEL not in pp.evaluate(lambda table: table["x"] > 4, people, epsilon=1).warnings


def test_on_a_terminal_it_is_yellow(tmp_path: Path) -> None:
    TABLE.write_csv(tmp_path / "t.csv")
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "PYTHONPATH")}
    environment |= {"TERM": "xterm", "COLUMNS": "200"}
    process = subprocess.Popen(started(LEARN), cwd=tmp_path, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        shown += part
    os.close(ours)
    assert process.wait(60) == 0
    text = shown.decode()
    assert f"\x1b[33mprivpac: warning: {ITEM_LEVEL}\x1b[0m" in text
    assert f"\x1b[33mwarning: {ITEM_LEVEL}\x1b[0m" in text
