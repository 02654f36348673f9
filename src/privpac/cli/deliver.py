"""Handing over what was paid for: neither a full disk nor a closed pipe may take it away.

With a ledger the released JSON is on disk beside it, in a file of its own that only its owner may read, **before**
anything is printed or any ``--out`` or ``--report`` is written; it is removed once all of that has worked, and
otherwise named in the message.  Without a ledger nothing durable was spent: then such a file is written to the current
folder, and only if something failed.  A process killed between spend and draw has released nothing, and one killed
between draw and this file has shown nothing to anybody: the budget is gone.
"""

from __future__ import annotations

import errno
import os
import secrets
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import typer

from privpac.cli.app import FAILED, NOTHING, errors, fail, silence
from privpac.errors import ParameterError, PrivpacError
from privpac.files import write_durably
from privpac.result import Released

Writes = Mapping[str, tuple[Path | None, Callable[[Path], None]]]


def check_recovery(ledger: Path | None) -> None:
    """Whether a result could be kept beside the ledger; asked before anything is spent."""
    if ledger is None:
        return
    try:
        with tempfile.TemporaryFile(dir=_beside(ledger)):
            pass
    except OSError as error:
        raise ParameterError(
            f"no file can be made beside the ledger {str(ledger)!r} ({error.strerror}), where a paid result is kept "
            "until it is shown; "
            "keep the ledger in a writable folder"
        ) from None


def deliver(
    released: Released, what: str, text: str, writes: Writes, ledger: Path | None, *, note: bool = True
) -> None:
    """Write a result, show ``text`` (with a ``note`` of what was written), leave with the right code; whatever fails,
    nothing is lost."""
    spare = None if ledger is None else _keep(released, _beside(ledger), ledger.name)
    try:
        wanted = {name: path for name, (path, _) in writes.items() if path is not None}
        tried = {name: _tried(partial(writes[name][1], path), name) for name, path in wanted.items()}
        troubles = {name: trouble for name, trouble in tried.items() if trouble is not None}
        written = "".join(
            f"\n{name} written to {path}" for name, path in wanted.items() if note and name not in troubles
        )
        silent = _tried(partial(_show, _coloured(text, released) + written), "standard output")
    except BaseException:  # stopped by hand
        if spare is not None:
            errors.print(f"privpac: the {what} is paid for and kept in {str(spare)!r}")
        raise
    saved = wanted.get(what) if what not in troubles else None
    if troubles or silent:
        if saved is None and spare is None:
            spare = _keep(released, Path(), f"privpac-{what}")
        raise fail(_message(what, troubles, silent, saved, spare), FAILED)
    _remove(spare)
    if not released:
        raise typer.Exit(NOTHING)


def _message(what: str, troubles: Mapping[str, str], silent: str | None, saved: Path | None, spare: Path | None) -> str:
    seen = "is not shown" if silent else "is shown above"
    if saved is not None:
        _remove(spare)
        place = f"it is saved in {str(saved)!r}"
    elif spare is not None:
        place = f"it is kept in {str(spare)!r}"
    else:
        place = "no file could be made to keep it in"
    return (
        f"the {what} was released and {seen}, but {'; '.join([*troubles.values(), *([silent] if silent else [])])}; "
        f"{place}"
    )


def _tried(action: Callable[[], None], name: str) -> str | None:
    """What went wrong, in words, if anything."""
    try:
        action()
    except PrivpacError as error:
        return str(error)
    except OSError as error:
        return f"{name} cannot be written to ({error.strerror})"
    except Exception as error:
        return f"{name} failed ({type(error).__name__})"
    return None


def _coloured(text: str, released: Released) -> str:
    """On a terminal a weak promise is red, and warnings are yellow: also that single records are protected."""
    promise, terminal = released.guarantee, sys.stdout is not None and sys.stdout.isatty()
    if not terminal or "NO_COLOR" in os.environ:
        return text
    for line in {f"warning: {line}" for line in released.warnings}:
        text = text.replace(line, typer.style(line, fg="yellow"))
    if promise is not None and promise.strength.alarming:
        text = text.replace(promise.odds, typer.style(promise.odds, fg="red", bold=True))
    return text


def _show(text: str) -> None:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed")
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except OSError:
        silence()
        raise


def _beside(ledger: Path) -> Path:
    return Path(os.path.realpath(ledger)).parent


def _keep(released: Released, folder: Path, name: str) -> Path | None:
    """The result in a file of its own, on disk; None where that is impossible."""
    for place in dict.fromkeys((folder, Path(tempfile.gettempdir()))):
        spare = place / f"{name}.{secrets.token_hex(4)}.result.json"
        with suppress(PrivpacError):
            write_durably(spare, (released.to_json() + "\n").encode(), 0o600)
            return spare
    return None


def _remove(spare: Path | None) -> None:
    if spare is not None:
        with suppress(OSError):
            spare.unlink()
