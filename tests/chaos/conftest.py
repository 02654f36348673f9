"""The chaos suite runs only when it is named (``make test-chaos``), and ends with one table: all but the tries must be
0."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("front", "data", "protocols"))]

COLUMNS = ("tries", "unpaid", "lost", "torn", "crashes")
_seen: dict[str, dict[str, int]] = {}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether a path inside this folder is left out: unless the folder or something in it was asked for by name."""
    named = [Path(str(word).split("::")[0]).absolute() for word in config.args]
    return None if any(place == HERE or HERE in place.parents for place in named) else True


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    for name, value in report.user_properties if report.when == "call" else ():
        if name == "chaos":
            found = json.loads(str(value))
            kind = _seen.setdefault(found["kind"], dict.fromkeys(COLUMNS, 0))
            for column in COLUMNS:
                kind[column] += found[column]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not _seen:
        return
    terminalreporter.section("chaos")
    for kind, counts in [
        *sorted(_seen.items()),
        ("all", {c: sum(kind[c] for kind in _seen.values()) for c in COLUMNS}),
    ]:
        terminalreporter.write_line(f"{kind:<28} " + " · ".join(f"{column} {counts[column]:>5}" for column in COLUMNS))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if any(counts[column] for counts in _seen.values() for column in COLUMNS[1:]):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
