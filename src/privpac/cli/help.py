"""Help in two pages: what most people need first, everything on request.

An option with a ``rich_help_panel`` belongs to a group of its own and is shown by ``--help-all`` only; one without is
on the first page.  Every option works, whichever page shows it.  ``tests/front/test_words.py`` keeps the first page of
every command at twelve options or fewer.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand

from privpac.errors import PrivpacError

__all__ = ["Commands", "PagedCommand", "in_flags"]

ALL = "--help-all"


class PagedCommand(TyperCommand):
    """A command whose ``--help`` leaves out the groups of less common options."""

    @property
    def further(self) -> list[Any]:
        """Options of the second page."""
        return [
            param
            for param in self.params
            if getattr(param, "rich_help_panel", None) and not getattr(param, "hidden", False)
        ]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """``--help-all`` is ``--help`` with every group."""
        options = args[: args.index("--")] if "--" in args else args
        if ALL in options:
            ctx.meta[ALL] = True
            args = ["--help"]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run it; an error learns which options there were, so that it can speak of them."""
        try:
            return super().invoke(ctx)
        except PrivpacError as error:
            error.__dict__["options"] = frozenset(option for param in self.params for option in param.opts)
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The first page, or both."""
        further = self.further
        page = self
        if further and ALL not in ctx.meta:
            page = copy.copy(self)
            page.params = [param for param in self.params if all(param is not other for other in further)]
            page.epilog = f"{ALL} shows {len(further)} further options: {_groups(further)}."
        TyperCommand.format_help(page, ctx, formatter)


def _groups(options: list[Any]) -> str:
    """The names of the groups, in the order of their options."""
    return ", ".join(dict.fromkeys(option.rich_help_panel.lower() for option in options))


class Commands(typer.Typer):
    """A Typer application whose commands have paged help, and whose parser is built once for the commands it has."""

    _parser: tuple[Any, Any] = ((), None)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        return super().command(name, **{"cls": PagedCommand, **settings})

    def __call__(self, *words: Any, **settings: Any) -> Any:
        """Run the command that was called; the parser is built again where commands have come since."""
        known = _registered(self)
        if self._parser[0] != known:
            self._parser = known, typer.main.get_command(self)
        return self._parser[1](*words, **settings)


def _registered(app: typer.Typer | None) -> tuple[Any, ...]:
    """How many commands, in the app and in each of its groups."""
    if app is None:
        return ()
    return len(app.registered_commands), *(_registered(group.typer_instance) for group in app.registered_groups)


# Errors

_NAME = r"(?<![-\w'\"/.])([a-z][a-z_]*)"
_GIVEN = re.compile(_NAME + r"=(?:'([^']*)'|([\w./^-]+))?")
_FURTHER = re.compile(r"(--[a-z-]+ \w+) or '(\w+)'")
_IDENTIFIER = re.compile(r"(?<![-\w'\"/.])([a-z]+(?:_[a-z]+)+)(?![\w=])")
_ASKED = re.compile(r"(?:(?<=leave out )|(?<=declare )|(?<=needs )|(?<=give ))([a-z]+)\b|^([a-z]+)(?= must )")


def in_flags(error: Exception) -> str:
    """What an error of the library says, in the words of the command that met it: options, not Python's arguments.

    >>> error = PrivpacError("people='odd' needs public_n_users; epsilon must be > 0")
    >>> error.__dict__["options"] = {"--people", "--people-are", "--epsilon"}
    >>> in_flags(error)
    '--people-are odd needs --people; epsilon must be > 0'
    """
    from privpac.learners.settings import flag

    options: frozenset[str] = getattr(error, "options", frozenset())

    def known(match: re.Match[str], after: str = "") -> str:
        option = flag(match.group(1) or match.group(2))
        return option + after if option in options else match.group(0)

    def given(match: re.Match[str]) -> str:
        value = match.group(2) if match.group(2) is not None else match.group(3)
        opened = match.string[match.end() : match.end() + 1] in ("[", "{", "(")
        return known(match, f" {value}" if value else " " if opened else "")

    said = str(error)
    if "--header" in options:
        said = said.replace("header=False", "--no-header").replace("header=True", "--header")
    text = _GIVEN.sub(given, said.replace("0.5, '1/2' or Fraction(1, 2)", "0.5 or 1/2"))
    return _ASKED.sub(known, _IDENTIFIER.sub(known, _FURTHER.sub(r"\1 or \2", text)))
