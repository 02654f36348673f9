"""Every row of "every theorem and its door" runs, and its page and its check exist."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| result")
]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    (block,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(block, "papers.md", "exec", dont_inherit=True), found)
    return found


def test_the_table_is_read() -> None:
    assert len(ROWS) > 20
    assert all(len(row) == 5 for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:40] for row in ROWS])
def test_the_call_runs_and_page_and_check_exist(row: list[str], names: dict[str, Any]) -> None:
    _, call, page, check, corrected = row
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert eval(call.strip("`"), names) is not None
    (target,) = re.findall(r"\]\((.*?)\)", page)
    assert (ROOT / "docs" / target).exists()
    assert (ROOT / check.strip("`")).exists()
    assert corrected
