"""A release that fails after its data were touched says so in fixed words, and never with the exit code of "nothing
spent"."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import privpac as pp
from privpac.cli import app as command
from privpac.cli.commands import load_commands
from privpac.distributions import ClippedHistogram
from privpac.errors import EngineError, LawError, ParameterError, SchemaError, TooLargeError
from privpac.methods import RegretSelection

SECRET = "the largest value is 5001"


def failing(error: type[Exception]) -> Any:
    def draw(*_: Any) -> Any:
        raise error(SECRET)

    return draw


@pytest.mark.parametrize(
    "error", [ParameterError, SchemaError, LawError, TooLargeError, ValueError, IndexError, KeyError]
)
def test_what_went_wrong_is_not_told_once_data_were_touched(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RegretSelection, "draw", failing(error))
    data = pp.UserData.from_users([[(3, 0), (8, 1)]], features={"x": pp.Integers(0, 9)})
    book = pp.BudgetLedger.create(tmp_path / "a.db", pp.Guarantee(3, unit="user", neighbours="add-remove"), dataset="d")
    learner = RegretSelection(pp.Thresholds(), 1)
    releases: list[Callable[[], Any]] = [
        lambda: learner.learn(data, ledger=book),
        lambda: pp.learn(data, pp.Thresholds(), epsilon=1, method="regret", ledger=book),
    ]
    for release in releases:
        with pytest.raises(EngineError, match="stays spent, and why is not told") as told:
            release()
        assert SECRET not in str(told.value)
        assert told.value.__context__ is None
    assert next(spend.label for spend in book.history()) == "RegretSelection"
    assert len(book.history()) == 2


@pytest.mark.parametrize("error", [ParameterError, SchemaError, LawError, IndexError, MemoryError])
def test_the_command_never_says_that_nothing_was_spent(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ClippedHistogram, "draw", failing(error))
    pl.DataFrame({"u": [1, 2], "x": [3, 4]}).write_parquet(tmp_path / "a.parquet")
    pp.BudgetLedger.create(tmp_path / "a.db", pp.Guarantee(3, unit="user", neighbours="add-remove"), dataset="d")
    words = ["distribution", str(tmp_path / "a.parquet"), "-u", "u", "-f", "x=0:9", "-e", "1", "--max-records", "5"]
    monkeypatch.setattr(sys, "argv", ["privpac", *words, "--ledger", str(tmp_path / "a.db")])
    load_commands(sys.argv[1:])
    assert command._run() == command.FAILED
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err
    assert len(pp.BudgetLedger.open(tmp_path / "a.db").history()) == 1


def test_a_panic_of_native_code_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def panic(**_: Any) -> None:
        raise pl.exceptions.PanicException(SECRET)

    monkeypatch.setattr(command, "_called", lambda: panic)
    assert command._run() == command.FAILED
    assert capsys.readouterr().err == "privpac: internal error (PanicException); please report it\n"
