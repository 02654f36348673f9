"""The command line: one command for every job, one clear line for every error.

Exit codes: 0 released (or a public default), 2 bad input or parameters (nothing spent), 3 no release (a covered
output), 4 budget exhausted, 5 an audit refutes its claim; 1 if the machine or the program itself fails (what was spent
stays spent), 130 stopped by hand.  No traceback and no local variable is ever shown: they may hold rows.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer
from rich.console import Console

from privpac import __version__
from privpac.cli.help import Commands, in_flags
from privpac.errors import BudgetExhausted, EngineError, EntropyError, LedgerUnavailable, PrivpacError, Undecided
from privpac.lazy import WHEN_COMPILING

__all__ = ["EXHAUSTED", "FAILED", "NOTHING", "app", "fail", "main", "silence", "working"]

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


def _version(asked: bool) -> None:
    if asked:
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
    from privpac.cli.commands import HOMES, load, outline

    words, completing = sys.argv[1:], "_PRIVPAC_COMPLETE" in os.environ
    if completing:  # the shell asks what could come next
        words = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()[1:]
    if all(word in _OVERVIEW for word in words) or (completing and words[0] not in HOMES):
        names = _empty()
        names.callback()(_options)
        outline(names)
        return names
    load(words)
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
            said = error.format_message().rstrip(". ")
            return fail(f"{said}; see --help").exit_code if said else BAD  # without arguments: the help was shown
        return fail(f"internal error ({type(error).__name__}); please report it", FAILED).exit_code
    return code if isinstance(code, int) else 0
