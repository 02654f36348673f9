"""``privpac studio``: one local page to work on."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from privpac.cli.app import app
from privpac.errors import MissingExtra, ParameterError
from privpac.lazy import EXTRAS

_LOCAL = "127.0.0.1"


@app.command()
def studio(
    folder: Annotated[Path, typer.Argument(help="The folder with the tables; results are written there.")] = Path("."),
    ledger: Annotated[
        Path | None, typer.Option(help="One budget ledger for all tables; else TABLE.budget.db beside each.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser, or only print its link.")
    ] = True,
) -> None:
    """Work on one local page: choose a table, declare its columns, plan, learn, evaluate, read the report.

    privpac studio data/

    The page is for this machine and this browser alone: its link works once. Every action shows the command that does
    the same.
    """
    missing = [name for name in ("fastapi", "uvicorn", "pyarrow", "matplotlib") if find_spec(name) is None]
    if missing:
        extras = ",".join(dict.fromkeys(EXTRAS[name] for name in missing))
        raise MissingExtra(
            f'privpac studio needs {", ".join(missing)}, not installed; install with: pip install "privpac[{extras}]"',
            name=missing[0],
        )
    if not folder.is_dir():
        raise ParameterError(f"there is no folder {str(folder)!r}; name one that holds .csv or .parquet files")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ParameterError(f"{str(folder)!r} cannot be written to ({error.strerror}); results belong there") from None
    import uvicorn

    from privpac.connections import server_config
    from privpac.studio.app import create_studio
    from privpac.studio.desk import Desk
    from privpac.studio.guard import Locks, StudioConnection
    from privpac.studio.plans import warm_plans

    listener = _listen(port)
    port = int(listener.getsockname()[1])
    _leave_on_signals()
    desk, locks = Desk(folder, None if ledger is None else ledger.absolute()), Locks()
    try:
        link = f"http://{_LOCAL}:{port}/?token={locks.token}"
        typer.echo(f"the studio is open; its link works once:\n\n  {link}\n\nCtrl-C closes it")
        sys.stdout.flush()
        quiet = {"log_level": "critical", "timeout_graceful_shutdown": 5}
        config = server_config(create_studio(desk, locks, port), StudioConnection, **quiet)
        threading.Thread(target=warm_plans, daemon=True).start()
        if browser:
            _open(link, desk.private)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run([listener])
    finally:
        _leave_alone()  # nobody stops the studio while it removes the tables that were handed in
        desk.close()


_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def _leave_alone() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _leave_on_signals() -> None:
    """SIGTERM and SIGHUP end the studio as Ctrl-C does, so that nothing stays that was handed in.

    While it serves, uvicorn catches SIGTERM, lets requests end, and raises it again for the handler here.  A SIGHUP
    that the studio was started to ignore (nohup) stays ignored.
    """

    def leave(number: int, frame: Any) -> NoReturn:
        _leave_alone()
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) != signal.SIG_IGN:
        signal.signal(hangup, lambda number, frame: signal.raise_signal(signal.SIGTERM))


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((_LOCAL, port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise ParameterError(f"cannot listen on port {port}: {error.strerror}; choose another --port, or 0") from None
    return listener


def _open(link: str, private: Path) -> None:
    """Open the link in a browser with windows, from a private file: others see the words a program is started with."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    place = private / "open.html"
    with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={link}">')
    with suppress(webbrowser.Error):
        webbrowser.open(place.as_uri())
