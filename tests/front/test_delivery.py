"""A result that is paid for is never lost: not to an encoding, a full disk, a closed pipe, or a kill before it is
shown."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import privpac as pp
from privpac.cli import app as cli
from privpac.errors import LedgerUnavailable
from privpac.ledger import file
from privpac.result import Released

MAIN = "import sys; from privpac.cli.app import main; main()"
COMMANDS = {
    "learn": ["learn", "t.csv", "--user", "who", "--label", "krank", "--feature", "größe=0:99", "--epsilon", "1"],
    "distribution": [
        "distribution",
        "t.csv",
        "--user",
        "who",
        "--feature",
        "größe=0:99",
        "--bins",
        "4",
        "--max-records",
        "2",
        "--epsilon",
        "1",
    ],
    "select": [
        *["select", "t.csv", "--user", "who", "--feature", "größe=0:99", "--candidate", "ä=randint:low=0,high=100"],
        *[
            "--candidate",
            "ö=randint:low=0,high=50",
            "--candidates-are",
            "public",
            "--records-per-user",
            "2",
            "--epsilon",
            "1",
        ],
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = "".join(f"u{i % 40},{(7 * i) % 100},{int((7 * i) % 100 > 50)}\n" for i in range(80))
    (tmp_path / "t.csv").write_text("who,größe,krank\n" + rows, encoding="utf-8")
    budget = pp.Guarantee(5, unit="user", neighbours="add-remove")
    pp.BudgetLedger.create(tmp_path / "b.db", budget, dataset="d").close()
    return tmp_path


def run(
    folder: Path, words: list[str], shell: str = "", code: str = MAIN, **more: Any
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, its output redirected by the shell."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C.UTF-8"}
    command = ["sh", "-c", f'"$@" {shell}', "sh", sys.executable, "-c", code, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, **more)


Here = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    """The command in this process, its streams redirected to files that hold nothing but ASCII."""

    def run_here(words: list[str], out: str = "stdout") -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["privpac", *words])
        monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
        with (
            suppress(OSError),  # of closing what is full
            open(out, "w", encoding="ascii") as told,
            open("stderr", "w", encoding="ascii") as wrong,
            monkeypatch.context() as streams,
        ):
            streams.setattr(sys, "stdout", told)
            streams.setattr(sys, "stderr", wrong)
            with pytest.raises(SystemExit) as stop:
                cli.main()
        shown = Path(out).read_text() if out == "stdout" else ""
        return subprocess.CompletedProcess(words, int(stop.value.code or 0), shown, Path("stderr").read_text())

    return run_here


def spends(folder: Path) -> int:
    with pp.BudgetLedger.open(folder / "b.db") as book:
        return len(book.history())


def spares(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.result.json"))


def kept(folder: Path, said: str) -> Released:
    """The one result that was kept, named in the message and readable by its owner only."""
    (spare,) = spares(folder)
    assert stat.S_IMODE(spare.stat().st_mode) == 0o600
    assert spare.name in said
    assert said.isascii()
    assert said.count("\n") == 1
    return pp.load(spare)


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in COMMANDS if name != "learn"]


@pytest.mark.parametrize("name", ["learn", *OTHERS])
def test_letters_that_stdout_cannot_encode_are_escaped(folder: Path, name: str) -> None:
    done = run(folder, [*COMMANDS[name], "--ledger", "b.db"])
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\xf6" in done.stdout or name == "select"
    assert (spends(folder), spares(folder)) == (1, [])


@pytest.mark.parametrize(
    ("name", "form", "shell", "reason"),
    [
        ("learn", ["--json"], ">/dev/full", "No space left on device"),
        *(pytest.param(name, [], ">/dev/full", "No space left on device", marks=pytest.mark.slow) for name in COMMANDS),
        ("learn", [], ">&-", "it is closed"),
    ],
)
def test_a_paid_result_that_cannot_be_shown_is_kept_beside_the_ledger(
    folder: Path, name: str, form: list[str], shell: str, reason: str
) -> None:
    done = run(folder, [*COMMANDS[name], "--ledger", "b.db", *form], shell)
    assert done.returncode == 1
    assert f"is not shown, but standard output cannot be written to ({reason}); it is kept in" in done.stderr
    assert kept(folder, done.stderr).outcome in ("released", "default")
    assert spends(folder) == 1


def test_a_reader_that_goes_away_takes_nothing_along(folder: Path) -> None:
    code = f"import os; r, w = os.pipe(); os.close(r); os.dup2(w, 1)\n{MAIN}"
    done = run(folder, [*COMMANDS["learn"], "--ledger", "b.db"], code=code)
    assert done.returncode == 1
    assert kept(folder, done.stderr)


def test_a_result_that_was_saved_is_not_kept_twice(folder: Path, here: Here) -> None:
    done = here([*COMMANDS["learn"], "--ledger", "b.db", "--out", "m.json"], "/dev/full")
    assert done.returncode == 1
    assert "it is saved in 'm.json'" in done.stderr
    assert spares(folder) == []
    assert pp.load(folder / "m.json")


def test_without_a_ledger_the_result_is_kept_in_the_current_folder(folder: Path, here: Here) -> None:
    done = here(COMMANDS["learn"], "/dev/full")
    assert done.returncode == 1
    assert kept(folder, done.stderr)
    assert spares(folder)[0].name.startswith("privpac-rule.")


def test_with_neither_stdout_nor_stderr_the_result_is_still_kept(folder: Path) -> None:
    done = run(folder, [*COMMANDS["learn"], "--ledger", "b.db"], ">&- 2>&-")
    assert done.returncode == 1
    assert len(spares(folder)) == 1
    with pp.BudgetLedger.open(folder / "b.db") as book:  # and no stream's number was given to a file of ours
        book.verify()
        assert len(book.history()) == 1


@pytest.fixture
def small(folder: Path) -> Iterator[Path]:
    """A file system without room."""
    place = folder / "small"
    place.mkdir()
    if (
        shutil.which("mount") is None
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4k", "none", str(place)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("mount is refused here")
    try:
        (place / "rest").write_bytes(b"x" * 4096)
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("option", ["--out", "--report"])
def test_a_result_that_cannot_be_saved_is_shown_and_kept(folder: Path, small: Path, option: str, here: Here) -> None:
    words = [*COMMANDS["learn"], "--ledger", "b.db", option, "small/x.html"]
    done = here(words) if option == "--report" else run(folder, words)
    assert done.returncode == 1
    assert "krank" in done.stdout
    assert "is shown above, but cannot write" in done.stderr
    assert kept(folder, done.stderr)


@pytest.mark.parametrize(("where", "found"), [("_show", 1), ("_keep", 0)])
def test_a_kill_before_it_is_shown_leaves_the_file_and_one_before_the_file_has_released_nothing(
    folder: Path, where: str, found: int
) -> None:
    code = f"import os; from privpac.cli import deliver; deliver.{where} = lambda *_: os.kill(os.getpid(), 9)\n{MAIN}"
    done = run(folder, [*COMMANDS["learn"], "--ledger", "b.db"], code=code)
    assert (done.returncode, done.stdout) in ((-signal.SIGKILL, ""), (128 + signal.SIGKILL, ""))
    assert (spends(folder), len(spares(folder))) == (1, found)
    for spare in spares(folder):
        assert json.loads(spare.read_text())["format"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_ledger_in_a_folder_that_cannot_keep_a_result_is_refused_before_anything_is_spent(folder: Path) -> None:
    for place in (folder, *folder.parents[:-2]):
        place.chmod(0o755)
    (folder / "b.db").chmod(0o666)
    code = f"import numpy, privpac.cli.learn, os; os.setuid(65534)\n{MAIN}"
    done = run(folder, [*COMMANDS["learn"], "--ledger", "b.db"], code=code)
    assert done.returncode == 2
    assert "no file can be made beside the ledger" in done.stderr
    assert spends(folder) == 0


def test_a_spend_that_may_count_is_not_told_as_nothing_spent(
    folder: Path, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(handle: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr(file, "_sync", fails)
        done = here([*COMMANDS["learn"], "--ledger", "b.db"])
    assert done.returncode == 1
    assert "nothing may be released" in done.stderr
    assert done.stdout == ""
    assert not LedgerUnavailable("x").uncertain
    assert spends(folder) == 1


def test_a_session_whose_place_is_full_is_kept_beside_the_ledger(folder: Path, small: Path, here: Here) -> None:
    pytest.importorskip("cryptography")
    words = [
        "serve",
        "fit",
        "t.csv",
        "-u",
        "who",
        "-y",
        "krank",
        "-f",
        "größe=0:99",
        "-e",
        "1",
        "-k",
        "3",
        "--ledger",
        "b.db",
    ]
    done = run(folder, [*words, "--key-file", "k", "--out", "small/s.ppm"])
    assert done.returncode == 1
    (spare,) = folder.glob("*.result.ppm")
    assert spare.name in done.stderr
    again = here(["serve", "keys", "new", spare.name, "--name", "ann"])
    assert again.returncode == 0
