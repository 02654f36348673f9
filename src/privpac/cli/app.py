"""The command line: one command for every job, one clear line for every error.

Exit codes: 0 released (or a public default), 2 bad input or parameters (nothing spent), 3 no release (a covered
output), 4 budget exhausted.  No traceback and no local variable is ever shown: they may hold rows.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console

from privpac.errors import BudgetExhausted, PrivpacError

__all__ = ["EXHAUSTED", "NOTHING", "app", "fail", "main", "working"]

BAD, NOTHING, EXHAUSTED = 2, 3, 4

app = typer.Typer(
    name="privpac",
    help="Learn decision rules from people's data while protecting each person, not each row.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
errors = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)


def fail(message: str, code: int = BAD) -> typer.Exit:
    """One line on stderr; raise what this returns."""
    errors.print(f"privpac: {' '.join(message.split())}")
    return typer.Exit(code)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner with the time passed, on a terminal only."""
    if not errors.is_terminal:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=errors, transient=True) as progress:
        progress.add_task(what)
        yield


def _show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    errors.print(f"privpac: warning: {' '.join(str(message).split())}")


def main() -> None:
    """Entry point of the ``privpac`` command."""
    import privpac.cli.commands  # noqa: F401  # each module adds its command to the app

    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        app(standalone_mode=False)
    except typer.Exit as exit_:
        sys.exit(exit_.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        errors.print("privpac: stopped")
        sys.exit(130)
    except BudgetExhausted as error:
        sys.exit(fail(str(error), EXHAUSTED).exit_code)
    except (PrivpacError, TypeError, ValueError) as error:
        known = isinstance(error, PrivpacError)
        sys.exit(fail(str(error) if known else f"internal error ({type(error).__name__}); please report it").exit_code)
    except Exception as error:
        if hasattr(error, "format_message"):  # usage errors of the option parser
            sys.exit(fail(error.format_message() + "; see --help").exit_code)
        sys.exit(fail(f"internal error ({type(error).__name__}); please report it").exit_code)
