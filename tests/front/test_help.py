"""Help has two pages, and errors of commands speak of options."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from commands import Command

from privpac.cli.app import PagedCommand, app, in_flags
from privpac.cli.commands import load_commands
from privpac.errors import ParameterError

FIRST_PAGE = 12


def commands(node: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if hasattr(node, "commands"):
        for name, child in node.commands.items():
            yield from commands(child, (*path, name))
    else:
        yield " ".join(path), node


def every_command() -> list[tuple[str, Any]]:
    load_commands([])
    return list(commands(typer.main.get_command(app)))


COMMANDS = every_command()


@pytest.mark.parametrize(("name", "node"), COMMANDS, ids=[name for name, _ in COMMANDS])
def test_the_first_page_shows_at_most_twelve_options_and_every_option_has_help(name: str, node: Any) -> None:
    assert isinstance(node, PagedCommand), f"{name}: make it with Commands, not typer.Typer"
    options = [param for param in node.params if param.param_type_name == "option" and not param.hidden]
    first = [param.opts[0] for param in options if param not in node.further]
    assert len(first) + 1 <= FIRST_PAGE, f"{name} shows {first} and --help: give some a rich_help_panel"
    assert all(param.help for param in options)


def test_further_options_are_on_the_second_page_only_and_work(command: Command) -> None:
    first, both = command("learn", "--help").out, command("learn", "--help-all").out
    assert "--label-map" not in first
    assert "--help-all shows" in first
    for words in ("--label-map", "--people-are", "Reading the table", "--epsilon"):
        assert words in both
    assert "--help-all" not in command("methods", "--help").out.replace("--help-all shows 0", "")
    assert command("learn", "t.csv", "--", "--help-all").code == 2  # a file of that name, not a question


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("epsilon must be > 0, got 0", "--epsilon must be > 0, got 0"),
        ("people='odd' is unknown", "--people-are odd is unknown"),
        ("declare public_n_users and records_per_user too", "declare --people and --records-per-user too"),
        ("give either n_users= or max_records=3", "give either --people or --max-records 3"),
        ("the column 'max_records' is missing", "the column 'max_records' is missing"),
        ("no such file /tmp/max_records.csv", "no such file /tmp/max_records.csv"),
        ("radius must be > 0", "radius must be > 0"),  # the command has no such option
    ],
)
def test_errors_name_options(said: str, meant: str) -> None:
    error = ParameterError(said)
    error.__dict__["options"] = {"--epsilon", "--people", "--people-are", "--records-per-user", "--max-records"}
    assert in_flags(error) == meant
    assert in_flags(ParameterError(said)) == said


def test_errors_name_options_that_a_command_calls_differently(command: Command) -> None:
    Path("t.csv").write_text("who,x\n1,2\n")
    run = command("cap", "t.csv", "-u", "who", "-f", "x=0:9", "-e", "1", "--share", "2")
    assert (run.code, run.out) == (2, "")
    assert run.err.startswith("privpac: --share must be")
    run = command("compare", "--generated", "-e", "1", "--people", "0")
    assert run.code == 2
    assert "--people" in run.err


def test_exit_codes_are_listed(command: Command) -> None:
    shown = " ".join(command("--help").out.split())
    for words in ("0 released", "2 bad input", "3 nothing was released", "4 the budget", "5 an audit", "1 the machine"):
        assert words in shown


def test_the_overview_without_loading_commands_is_the_same() -> None:
    """``privpac --help`` reads names and first lines off the source."""
    begin = "import sys; from privpac.cli.commands import load_commands, outline; from privpac.cli.app import app\n"
    heavy = "sys.exit('loaded' if {'numpy', 'polars', 'flint', 'scipy', 'numba'} & set(sys.modules) else 0)"
    shown = []
    for start in ("load_commands([])", "outline(app)"):
        code = begin + f"{start}\napp(['--help'], standalone_mode=False)\n" + (heavy if start == "outline(app)" else "")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        shown.append(done.stdout)
    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    ("words", "first"), [("privpac lea", "learn"), ("privpac learn --eps", "--epsilon"), ("privpac", "audit")]
)
def test_the_shell_is_told_what_could_come_next(words: str, first: str) -> None:
    asked = {"_PRIVPAC_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(max(1, words.count(" ")))}
    code = "import sys; sys.argv = ['privpac']; from privpac.cli.app import main; main()"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True)
    assert first in done.stdout.split(), done.stderr
