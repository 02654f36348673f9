"""One word for one thing: the table of docs/glossary.md against every public signature."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from test_help import COMMANDS

import privpac as pp
import privpac.sklearn
from privpac.methods.registry import METHODS, RECOMMENDED, flag
from privpac.rules.named import RULES

PAGE = Path(pp.__file__).parents[2] / "docs" / "glossary.md"
OLD = {"--users", "--users-are", "--public-n-users", "--n-users"}
SAME = {"n_users": "public_n_users"}
"""Counts of people share an option."""


def words(cell: str) -> list[str]:
    return re.findall(r"`(-{0,2}[a-z][a-z_-]*)(?: [^`]*)?`", cell)


def rows() -> list[list[list[str]]]:
    options = PAGE.read_text().partition("## Options")[2]
    lines = [line for line in options.splitlines() if line.startswith("|") and "---" not in line]
    table = lines[1 : next(i for i, line in enumerate(lines) if line.startswith("| code"))]
    return [[words(cell) for cell in line.strip("|").split("|")[1:]] for line in table]


def signatures() -> dict[str, set[str]]:
    """Parameters of what ``pp.`` offers, by name: functions, constructors and the ways to make data."""
    callables: dict[str, Any] = {name: getattr(pp, name) for name in dir(pp)}
    callables |= {f"UserData.{how}": getattr(pp.UserData, how) for how in ("from_frame", "read", "from_arrays")}
    callables["audit"] = import_module("privpac.api.audit").audit
    found = {}
    for name, value in callables.items():
        if callable(value):
            try:
                found[name] = set(inspect.signature(value).parameters)
            except ValueError:
                continue
    return found


def estimators() -> dict[str, set[str]]:
    kinds = [getattr(privpac.sklearn, name) for name in privpac.sklearn.__all__]
    return {kind.__name__: set(inspect.signature(kind.__init__).parameters) - {"self"} for kind in kinds}


OPTIONS = {name: {option for param in node.params for option in param.opts} for name, node in COMMANDS}


@pytest.mark.parametrize("row", rows(), ids=lambda row: ",".join(row[0]) if row[0] else "set")
def test_every_word_of_the_table_is_used(row: list[list[str]]) -> None:
    python, command, sklearn = row
    known = set().union(*signatures().values()) | {"people", "public_n_users", "records_per_user", "delta"}
    assert set(python) <= known
    assert set(command) <= set().union(*OPTIONS.values())
    assert set(sklearn) - {"groups", "fit"} <= set().union(*estimators().values())


@pytest.mark.parametrize("row", [row for row in rows() if row[0] and row[1]], ids=lambda row: ",".join(row[0]))
def test_errors_and_plans_know_the_same_option(row: list[list[str]]) -> None:
    for name, option in zip(row[0], row[1]):
        assert flag(name) == option or (name, option) == ("features", "--feature")


def test_no_command_has_an_old_word() -> None:
    assert {name: options & OLD for name, options in OPTIONS.items() if options & OLD} == {}


def test_options_that_the_table_names_are_called_so_in_every_command() -> None:
    """``--people`` is a number and ``--people-are`` a word, wherever they are."""
    for name, node in COMMANDS:
        for param in node.params:
            if "--people" in param.opts:
                assert "int" in str(param.type_descriptor if hasattr(param, "type_descriptor") else param.type).lower()
            if "--people-are" in param.opts:
                assert param.name in ("people", "people_are"), name


def test_users_is_never_a_count() -> None:
    for name, value in ((name, getattr(pp, name)) for name in dir(pp)):
        if callable(value):
            try:
                parameters = inspect.signature(value).parameters
            except ValueError:
                continue
            if "users" in parameters:
                assert "int" not in str(parameters["users"].annotation), name


def test_python_and_scikit_learn_share_their_words() -> None:
    """What ``learn`` or ``from_frame`` have too is called the same; the rest is the estimator's own."""
    shared = set(inspect.signature(pp.learn).parameters) | set(inspect.signature(pp.UserData.from_frame).parameters)
    shared |= {"public_n_users", "records_per_user", "people", "delta", "calibrate"}  # options of learn
    own = {"domains", "tree", "unit"}
    assert estimators()["PrivateRuleClassifier"] - shared == own


def test_rules_and_methods_have_one_name_each() -> None:
    helped = {name: next((p.help for p in node.params if "--rule" in p.opts), "") for name, node in COMMANDS}
    for name in RULES:
        assert name in helped["learn"]
    shown = next(p.help for p in dict(COMMANDS)["learn"].params if "--method" in p.opts)
    assert all((key in shown.split(";")[0].replace(",", "").split()) == (key in RECOMMENDED) for key in METHODS)
    assert "privpac methods --all" in shown


def test_exit_codes_are_those_of_the_program() -> None:
    from privpac.cli import app
    from privpac.cli.audit import VIOLATED

    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)}
    assert codes == {0, app.FAILED, app.BAD, app.NOTHING, app.EXHAUSTED, VIOLATED, app.STOPPED}
