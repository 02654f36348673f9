"""The command, run in this process from a temporary folder."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from commands import Command, Run

from privpac.cli import app as cli


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """``command("learn", ...)``: exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)

    def run(*words: Any) -> Run:
        monkeypatch.setattr(sys, "argv", ["privpac", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        said = capsys.readouterr()
        return Run(int(stop.value.code or 0), said.out, said.err)

    return run
