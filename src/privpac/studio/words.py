"""Every action of the page as a command: the words that are shown are the words that are run.

Checking, learning and evaluating happen in a process of their own, by exactly these words, so that the page can promise
nothing that the command line does not keep, and a failure has the one line and the exit code that it has there.

The process works in the folder where the studio was started, because the words name files as they are typed there.
That folder may hold anything, so Python runs isolated: nothing is imported from the working directory, from
``PYTHONPATH`` or from the user's own packages.  The one place that is added is the folder that holds this very package,
for a package that is not installed where isolated Python looks (a source tree, ``pip install --user``).
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import privpac

# The package itself is found first in its own folder; everything else, where isolated Python looks, and there last.
_START = (
    "import sys; home = sys.argv[1]; sys.argv[:2] = ['privpac']; sys.path.insert(0, home); import privpac; "
    "sys.path.remove(home); sys.path.append(home); from privpac.cli.app import main; main()"
)
_HEAD_SHOWN = 16
"""Digits of a ledger's head that tell it from every other one."""


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def command_line(words: Iterable[str]) -> str:
    """The words as they are typed into a terminal."""
    return "privpac " + shlex.join(words)


def started(words: Iterable[str]) -> list[str]:
    """What the system is asked to start for a command."""
    return [sys.executable, "-I", "-c", _START, str(Path(privpac.__file__).parents[1]), *words]


class Runner:
    """Commands in a folder, without a terminal; they end with the studio."""

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder, self._lock = folder, lock
        self._running: set[subprocess.Popen[str]] = set()
        self._closed = False

    def __call__(self, words: Sequence[str]) -> Ran:
        """Run a command to its end."""
        process = subprocess.Popen(
            started(words),
            cwd=self._folder,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            pass_fds=[self._lock],  # a studio that is killed leaves the tables to the command that still reads them
        )
        self._running.add(process)
        try:
            if self._closed:
                process.terminate()
            out, err = process.communicate()
        finally:
            self._running.discard(process)
        return Ran(process.returncode, out.strip(), err.strip().removeprefix("privpac: "))

    def close(self) -> None:
        """Stop what runs; what it has spent stays spent."""
        self._closed = True
        for process in tuple(self._running):
            process.terminate()


class TextFormat(NamedTuple):
    """How a text file is written, where it is not as usual: what is not said is not passed on."""

    separator: str = ""
    names: tuple[str, ...] = ()

    @property
    def options(self) -> dict[str, object]:
        """For the readers in Python; names are given for a file whose first line holds none."""
        told: dict[str, object] = {"separator": self.separator} if self.separator else {}
        return told | ({"header": False, "names": list(self.names)} if self.names else {})

    @property
    def words(self) -> list[str]:
        """For the command line."""
        header = ["--no-header", *_options(names=",".join(self.names))] if self.names else []
        return [*_options(separator=self.separator or None), *header]


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
    reading: TextFormat,
    user: str | None,
    label: str | None,
    positive: str | None,
    missing: str,
    on_invalid: str,
    out: str,
) -> list[str]:
    """Write the schema file."""
    words = ["domains", _place(table), *reading.words]
    words += _options(user=user, unit=None if user else "item", label=label)
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


def check_words(table: str, schema: str, reading: TextFormat) -> list[str]:
    """What is read and what is left out: for the curator's eyes."""
    return ["check", _place(table), *reading.words, *_options(schema=_place(schema)), "--json"]


class ReleasePlaces(NamedTuple):
    """What a release is paid from, and where it is written; the head is that of the balance that was shown."""

    ledger: str
    head: str
    out: str
    report: str

    @property
    def words(self) -> list[str]:
        told = _options(ledger=_place(self.ledger), ledger_head=self.head[:_HEAD_SHOWN])
        return [*told, *_options(out=_place(self.out), report=_place(self.report))]


def learn_command_words(
    table: str,
    schema: str,
    *,
    reading: TextFormat,
    epsilon: str,
    rule: str | None,
    evaluate: str | None,
    places: ReleasePlaces,
) -> list[str]:
    """Learn a rule."""
    told = _options(schema=_place(schema), epsilon=epsilon, rule=rule, evaluate=evaluate)
    return ["learn", _place(table), *reading.words, *told, *places.words]


def evaluate_words(
    rule: str, table: str, schema: str, *, reading: TextFormat, epsilon: str, same_people: bool, places: ReleasePlaces
) -> list[str]:
    """Measure a rule."""
    told = [*_options(schema=_place(schema), epsilon=epsilon), *(["--same-people"] if same_people else [])]
    return ["evaluate", _place(rule), _place(table), *reading.words, *told, *places.words]
