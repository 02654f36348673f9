"""The command line: one command for every job, one clear line for every error.

Exit codes: 0 released (or a public default), 2 bad input or parameters (nothing spent), 3 no release (a covered
output), 4 budget exhausted, 5 an audit refutes its claim; 1 if the machine or the program itself fails (what was spent
stays spent), 130 stopped by hand.  No traceback and no local variable is ever shown: they may hold rows.
"""

from __future__ import annotations

import copy
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from privpac import __version__
from privpac.errors import BudgetExhausted, EngineError, EntropyError, LedgerUnavailable, PrivpacError, Undecided
from privpac.lazy import WHEN_COMPILING

# Help in two pages: what most people need first, everything on request.
#
# An option with a ``rich_help_panel`` belongs to a group of its own and is shown by ``--help-all`` only; one without is
# on the first page.  Every option works, whichever page shows it.  ``tests/front/test_words.py`` keeps the first page
# of every command at twelve options or fewer.


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
            error.__dict__["parameters"] = {str(param.name): max(param.opts, key=len) for param in self.params}
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
_WITH_VALUE = re.compile(_NAME + r"=(?:'([^']*)'|([\w./^-]+))?")
_FURTHER = re.compile(r"(--[a-z-]+ \w+) or '(\w+)'")
_IDENTIFIER = re.compile(r"(?<![-\w'\"/.])([a-z]+(?:_[a-z]+)+)(?![\w=])")
_VERBS = "must|takes|names|goes|go|plans|describes?"
_LISTED = re.compile(
    r"(?:(?<=leave out )|(?<=declare )|(?<=needs )|(?<=give )|(?<=described by )|(?<=does not use ))"
    r"([a-z]+(?:, [a-z]+)*)\b"
    rf"|^([a-z]+)(?= (?:{_VERBS}) )"
)


def in_flags(error: Exception) -> str:
    """What an error of the library says, in the words of the command that met it: options, not Python's arguments.

    >>> error = PrivpacError("people='odd' needs public_n_users; epsilon must be > 0")
    >>> error.__dict__["options"] = {"--people", "--people-are", "--epsilon"}
    >>> in_flags(error)
    '--people-are odd needs --people; epsilon must be > 0'
    """
    from privpac.methods.registry import flag

    options: frozenset[str] = getattr(error, "options", frozenset())
    parameters: dict[str, str] = getattr(error, "parameters", {})

    def option_of(name: str) -> str | None:
        """What this command calls a parameter: most have its name, and the table of ``flag`` has the rest."""
        option = parameters.get(name, flag(name))
        return option if option in options and option.startswith("--") else None

    def known(match: re.Match[str], after: str = "") -> str:
        option = option_of(match.group(1) or match.group(2))
        return match.group(0) if option is None else option + after

    def listed(match: re.Match[str]) -> str:
        """One name, or several in a row."""
        return ", ".join(option_of(name) or name for name in (match.group(1) or match.group(2)).split(", "))

    def with_value(match: re.Match[str]) -> str:
        value = match.group(2) if match.group(2) is not None else match.group(3)
        opened = match.string[match.end() : match.end() + 1] in ("[", "{", "(")
        return known(match, f" {value}" if value else " " if opened else "")

    message = str(error)
    if "--header" in options:
        message = message.replace("header=False", "--no-header").replace("header=True", "--header")
    text = _WITH_VALUE.sub(with_value, message.replace("0.5, '1/2' or Fraction(1, 2)", "0.5 or 1/2"))
    return _LISTED.sub(listed, _IDENTIFIER.sub(known, _FURTHER.sub(r"\1 or \2", text)))


_OVERVIEW = {"-h", "--help", "--version", "--install-completion", "--show-completion"}
FAILED, BAD, NOTHING, EXHAUSTED, STOPPED = 1, 2, 3, 4, 130


def _empty() -> Commands:
    return Commands(
        name="privpac",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


app = _empty()
errors = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"privpac {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Learn decision rules from people's data while protecting each person, not each row.

    Exit codes: 0 released (or a public default); 2 bad input or parameters, nothing was spent; 3 nothing was released,
    which the promise covers and the budget paid for; 4 the budget is exhausted; 5 an audit refutes its claim; 1 the
    machine or the program failed, what was spent stays spent; 130 stopped by hand.
    """


def fail(message: str, code: int = BAD) -> typer.Exit:
    """One line on stderr; raise what this returns."""
    with suppress(OSError, ValueError):  # without stderr the code has to say it
        errors.print(f"privpac: {' '.join(message.split())}")
    return typer.Exit(code)


def silence() -> None:
    """Nobody can be told on stdout any more: say nothing there, also not at exit."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def working(what: str) -> Iterator[None]:
    """A moving bar with the time passed, on a terminal only."""
    if not errors.is_terminal:
        yield
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        progress.add_task(what, total=None)
        yield


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    # Other libraries' warnings may quote values of the table.
    if category.__module__.startswith("privpac."):
        errors.print(f"privpac: warning: {' '.join(str(message).split())}", style="yellow")


def _say_compiling() -> None:
    with suppress(OSError, ValueError):
        errors.print("privpac: compiling loops for this machine, once; the next run starts at once")


def main() -> None:
    """Entry point of the ``privpac`` command."""
    _prepare_streams()
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    WHEN_COMPILING[:] = [_say_compiling]
    sys.exit(_run())


def _called() -> Commands:
    """The app with the command that was called, or one with nothing but the names of all."""
    from privpac.cli.commands import HOMES, load_commands, outline

    words, completing = sys.argv[1:], "_PRIVPAC_COMPLETE" in os.environ
    if completing:  # the shell asks what could come next
        words = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()[1:]
    if all(word in _OVERVIEW for word in words) or (completing and words[0] not in HOMES):
        names = _empty()
        names.callback()(_options)
        outline(names)
        return names
    load_commands(words)
    return app


def _prepare_streams() -> None:
    """No file of ours may come to sit where a closed stream was, and no letter that a stream cannot encode may stop the
    output."""
    for handle in range(3):
        try:
            os.fstat(handle)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _run() -> int:
    try:
        code = _called()(standalone_mode=False)  # an Exit inside a command comes back as its code
        if sys.stdout is not None:
            sys.stdout.flush()
    except (typer.Abort, KeyboardInterrupt):
        return fail("stopped", STOPPED).exit_code
    except BrokenPipeError:  # the reader has gone
        silence()
        return FAILED
    except BudgetExhausted as error:
        return fail(in_flags(error), EXHAUSTED).exit_code
    except (EngineError, EntropyError, Undecided) as error:
        return fail(in_flags(error), FAILED).exit_code
    except PrivpacError as error:
        uncertain = isinstance(error, LedgerUnavailable) and error.uncertain
        return fail(in_flags(error), FAILED if uncertain else BAD).exit_code
    except OSError as error:
        silence()
        return fail(f"the system refused to read or write ({error.strerror})", FAILED).exit_code
    except SystemExit:
        raise
    except BaseException as error:  # a panic of a library's native code is no Exception
        if hasattr(error, "format_message"):  # usage errors of the option parser
            message = error.format_message().rstrip(". ")
            return fail(f"{message}; see --help").exit_code if message else BAD  # without arguments: the help was shown
        return fail(f"internal error ({type(error).__name__}); please report it", FAILED).exit_code
    return code if isinstance(code, int) else 0
