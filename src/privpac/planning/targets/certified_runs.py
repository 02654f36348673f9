"""A learner that a certificate speaks of, before it is built: what it is run with, and the command that runs it.

Every target of a plan makes the runs of its own rows: ``target.run(row, records_per_user, certificate, asked)``.  A row
that no command can run has a command that says so, and how Python runs it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from privpac.data import Domain
from privpac.data.declare import domain_text
from privpac.errors import ParameterError, PrivpacError
from privpac.guarantee import Neighbours
from privpac.learners.settings import flag, written

__all__ = ["TABLE", "CertifiedRun", "feature_words", "in_python", "learn_words", "option_words", "privacy_words"]

TABLE = ("TABLE.parquet", "--user", "USER")
"""The names in capitals are the reader's."""

_OPTIONS = ("max_records", "records_per_user", "public_n_users", "delta")
"""Parameters of ``learn`` with an option of their own."""


@dataclass(frozen=True)
class CertifiedRun:
    """The learner of a certified row with its parameters; ``words`` are those of its command, or raise."""

    method: str
    n_users: int | None
    parameters: Mapping[str, Any]
    build: Callable[[], Any]
    words: Callable[[], Iterable[str]]

    def learner(self) -> Any:
        """The learner itself."""
        return self.build()

    def command(self) -> str:
        """The command that runs it; the names in capitals are the reader's."""
        return shlex.join(["privpac", *self.words()])

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; without a command a ``note`` says why."""
        shown = {
            name: value if isinstance(value, (int, str)) else written(value) for name, value in self.parameters.items()
        }
        try:
            told: dict[str, Any] = {"command": self.command()}
        except PrivpacError as error:
            told = {"command": None, "note": str(error)}
        return {"method": self.method, "n_users": self.n_users, "parameters": shown, **told}


def in_python(how: str) -> Callable[[], Iterable[str]]:
    """Words of a row that no command runs."""

    def refuse() -> Iterable[str]:
        raise ParameterError(f"no command runs this row; in Python: {how}")

    return refuse


def feature_words(domains: Mapping[Any, Domain | None]) -> list[str]:
    """``--feature`` for every column."""
    return [word for name, domain in domains.items() for word in ("--feature", f"{name or 'x'}{domain_text(domain)}")]


def privacy_words(epsilon: Fraction, neighbours: Neighbours) -> list[str]:
    """``--epsilon``, and the relation where it is not the usual one."""
    return ["--epsilon", written(epsilon), *(["--neighbours", "replace"] if neighbours is Neighbours.REPLACE else [])]


def option_words(parameters: Mapping[str, Any]) -> list[str]:
    """``--name value`` for every parameter."""
    return [word for name, value in parameters.items() for word in (flag(name), written(value))]


def learn_words(
    source: Iterable[str], epsilon: Fraction, neighbours: Neighbours, method: str, parameters: Mapping[str, Any]
) -> list[str]:
    """``learn`` with these parameters; ``source`` is the class."""
    words = ["learn", *TABLE, "--label", "LABEL", *source, *privacy_words(epsilon, neighbours), "--method", method]
    for name, value in parameters.items():
        words += option_words({name: value}) if name in _OPTIONS else ["--set", f"{name}={written(value)}"]
    return words
