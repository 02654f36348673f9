"""Every action of the page as a command: the words that are shown are the words that are run.

Learning and evaluating happen in a process of their own, by exactly these words, so that the page can promise nothing
that the command line does not keep, and a failure has the one line and the exit code that it has there.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["Ran", "command_line", "domains_words", "evaluate_words", "learn_words", "ledger_words", "plan_words", "run"]

_MAIN = "from privpac.cli.app import main; main()"


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def command_line(words: Iterable[str]) -> str:
    """The words as they are typed into a terminal."""
    return "privpac " + shlex.join(words)


def run(words: Iterable[str], folder: Path) -> Ran:
    """Run a command in a folder, without a terminal."""
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", _MAIN, *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    return Ran(done.returncode, done.stdout.strip(), done.stderr.strip().removeprefix("privpac: "))


def _place(path: str) -> str:
    """A path that no option can be mistaken for."""
    return f"./{path}" if path.startswith("-") else path


def _options(**told: str | None) -> list[str]:
    """``--name value`` for what is said; a value that looks like an option is tied to its name."""
    words: list[str] = []
    for name, value in told.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            words += [f"{option}={value}"] if value.startswith("-") else [option, value]
    return words


def domains_words(
    table: str,
    features: Mapping[str, str],
    *,
    user: str | None,
    label: str | None,
    positive: str | None,
    missing: str,
    on_invalid: str,
    out: str,
) -> list[str]:
    """Write the schema file."""
    words = ["domains", _place(table), *_options(user=user, unit=None if user else "item", label=label)]
    words += _options(positive=positive, missing=missing, on_invalid=on_invalid)
    words += [word for name, domain in features.items() for word in _options(feature=f"{name}={domain}")]
    return [*words, *_options(out=_place(out)), "--overwrite"]


def plan_words(schema: str, rule: str, epsilon: str, alpha: str, records: int, people: int | None) -> list[str]:
    """How many people, or with a known number of them which error."""
    known = _options(alpha=alpha) if people is None else _options(people=str(people))
    return [
        "plan",
        rule,
        *_options(schema=_place(schema), epsilon=epsilon),
        *known,
        *_options(records_per_user=str(records)),
    ]


def ledger_words(path: str, epsilon: str, dataset: str, unit: str) -> list[str]:
    """Make a budget."""
    told = _options(epsilon=epsilon, dataset=dataset, unit=None if unit == "user" else unit)
    return ["ledger", "new", _place(path), *told]


def learn_words(
    table: str,
    schema: str,
    *,
    epsilon: str,
    rule: str | None,
    evaluate: str | None,
    ledger: str,
    out: str,
    report: str,
) -> list[str]:
    """Learn a rule."""
    told = _options(schema=_place(schema), epsilon=epsilon, rule=rule, evaluate=evaluate)
    return ["learn", _place(table), *told, *_options(ledger=_place(ledger), out=_place(out), report=_place(report))]


def evaluate_words(
    rule: str, table: str, schema: str, *, epsilon: str, same_people: bool, ledger: str, out: str, report: str
) -> list[str]:
    """Measure a rule."""
    told = [*_options(schema=_place(schema), epsilon=epsilon), *(["--same-people"] if same_people else [])]
    places = _options(ledger=_place(ledger), out=_place(out), report=_place(report))
    return ["evaluate", _place(rule), _place(table), *told, *places]
