"""Clients of other languages: tested where their tools are, skipped by name elsewhere."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # cases
HOME = Path(__file__).parents[2] / "clients" / "js"
NODE = shutil.which("node")

Ask = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def node() -> Callable[..., str]:
    """Runs a script of the client's folder; the text it writes."""
    said = (
        "" if NODE is None else subprocess.run([NODE, "--version"], capture_output=True, text=True, check=False).stdout
    )
    if NODE is None or int(said.strip("v\n").split(".")[0]) < 20:
        pytest.skip("no node 20 on this machine: apt install nodejs npm")
    if not (HOME / "node_modules" / "@noble").is_dir():
        pytest.skip("the packages of clients/js are not installed: make test-clients installs them")

    def run(script: str, *arguments: str, given: str = "") -> str:
        command = [NODE, "--max-old-space-size=512", script, *arguments]
        done = subprocess.run(command, cwd=HOME, input=given, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def ask(node: Callable[..., str]) -> Ask:
    """What the client in JavaScript makes of manifests, records and words."""

    def answers(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(node("test/answer.js", given=json.dumps(cases)))
        return found

    return answers
