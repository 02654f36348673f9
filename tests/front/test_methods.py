"""The table of methods is the registry, in Python and on the command line."""

from __future__ import annotations

import json

import pytest
from commands import Command

import privpac as pp
from privpac.errors import ParameterError
from privpac.methods.registry import METHODS


def test_every_method_has_a_row_that_says_everything() -> None:
    table = pp.list_methods(all=True)
    assert table.keys == tuple(METHODS)
    assert pp.list_methods().keys == (
        *("hybrid", "regret", "mean", "realizable", "trimmed"),
        *("agreement", "tree", "small-tree", "scorecard"),
    )
    for row in table:
        assert all(row.values()), row
    assert "hybrid" in str(table)
    assert repr(table) == str(table)


def test_rows_are_those_that_fit() -> None:
    assert "search" not in pp.list_methods(pp.Points(pp.Integers(0, 9)), all=True).keys
    with pytest.raises(ParameterError, match="or give all=True"):
        pp.list_methods()["search"]
    assert "realizable" not in pp.list_methods(setting="agnostic").keys
    assert "trimmed" in pp.list_methods(neighbours="replace").keys
    with pytest.raises(ParameterError, match="does not fit"):
        pp.list_methods(setting="agnostic")["realizable"]
    for wrong in ({"setting": "none"}, {"neighbours": "none"}):
        with pytest.raises(ParameterError):
            pp.list_methods(**wrong)


def test_every_method_that_fits_a_class_is_accepted_for_it() -> None:
    cuts = pp.Thresholds(pp.Integers(0, 9))
    from privpac.methods.registry import check_learns

    for key in pp.list_methods(cuts, all=True).keys:
        check_learns(key, cuts)


def test_the_command_shows_the_table(command: Command) -> None:
    run = command("methods", "--rule", "threshold", "--json")
    assert run.code == 0, run.err
    assert [row["method"] for row in json.loads(run.out)] == list(
        pp.list_methods(pp.Thresholds(pp.Integers(0, 9))).keys
    )
    assert "hybrid" in command("methods").out
    assert "private binary search" not in command("methods").out
    every = json.loads(command("methods", "--all", "--json").out)
    assert [row["method"] for row in every] == list(METHODS)
    assert command("methods", "--rule", "nothing").code == 2


def test_user_level_says_which_way_and_why(command: Command) -> None:
    run = command("user-level", "--item-epsilon", "0.25", "--epsilon", "1")
    assert run.code == 0, run.err
    assert "up to 4 records" in run.out
    body = json.loads(command("user-level", "--item-epsilon", "3", "--epsilon", "1", "--json").out)
    assert body["chosen"] == "sampling"
    assert command("user-level", "--item-epsilon", "3", "--epsilon", "1", "--strategy", "group").code == 2
