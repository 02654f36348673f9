"""``--ledger-head``: nothing is spent from a ledger that somebody has spent from since it was looked at."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from commands import Command

from privpac.errors import LedgerError, ParameterError
from privpac.guarantee import Guarantee
from privpac.ledger import BudgetLedger

ONE = Guarantee(1, unit="user", neighbours="add-remove")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A ledger with a budget of 9."""
    path = tmp_path / "budget.db"
    BudgetLedger.create(path, Guarantee(9, unit="user", neighbours="add-remove"), dataset="d").close()
    return path


def test_the_head_is_compared_where_the_spend_is_written(place: Path) -> None:
    seen = BudgetLedger.open(place).head()
    mine, theirs = BudgetLedger.open(place, expected_head=seen), BudgetLedger.open(place)
    theirs.spend(ONE, "theirs")
    with pytest.raises(LedgerError, match="nothing was spent now"):
        mine.spend(ONE, "mine")
    with pytest.raises(LedgerError, match="was spent from since"):
        BudgetLedger.open(place, expected_head=seen)
    assert [spend.label for spend in theirs.history()] == ["theirs"]
    again = BudgetLedger.open(place, expected_head=theirs.head()[:12])
    again.spend(ONE, "second")
    again.spend(ONE, "third")  # its own spends are no surprise
    theirs.spend(ONE, "fourth")
    with pytest.raises(LedgerError):
        again.spend(ONE, "fifth")
    assert len(theirs.history()) == 4


@pytest.mark.parametrize("head", ["", "x" * 64, "0123456789a", "0" * 65, "ABCDEF012345"])
def test_what_is_no_head_is_refused(place: Path, head: str) -> None:
    with pytest.raises(ParameterError, match="first 12 or more digits"):
        BudgetLedger.open(place, expected_head=head)


def test_commands_spend_from_the_head_they_name(place: Path, command: Command) -> None:
    pl.DataFrame({"who": range(50), "x": [i % 10 for i in range(50)], "y": [i % 10 > 4 for i in range(50)]}).write_csv(
        "t.csv"
    )
    line = ("t.csv", "--user", "who", "--label", "y", "--epsilon", "1")
    learn = ("learn", *line, "--feature", "x=0:9", "--out", "rule.json")
    assert "name its file with --ledger" in command(*learn, "--ledger-head", "0" * 64).err
    with BudgetLedger.open(place) as book:
        head = book.head()
    assert command(*learn, "--ledger", place, "--ledger-head", head[:16]).code == 0
    for words in (learn, ("evaluate", "rule.json", *line)):
        run = command(*words, "--ledger", place, "--ledger-head", head)
        assert run.code == 2
        assert "was spent from since" in run.err
    with BudgetLedger.open(place) as book:
        assert len(book.history()) == 1
