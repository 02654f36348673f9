"""Every block of the theorem index runs, and its page and its check exist."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
THEOREM = re.compile(r"^### (.*?)\n(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = THEOREM.findall(PAGE)


def fact(block: str, name: str) -> str:
    (found,) = re.findall(rf"^- \*\*{name}:\*\* (.*)", block, re.MULTILINE)
    return str(found)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    (block,) = CODE.findall(THEOREM.sub("", PAGE))
    exec(compile(block, "papers.md", "exec", dont_inherit=True), found)
    return found


def test_the_blocks_are_read() -> None:
    assert len(BLOCKS) > 20
    assert len(BLOCKS) == PAGE.count("\n### ")
    assert not re.search(r"^\|", PAGE, re.MULTILINE), "blocks, no tables: the page is read on phones too"


@pytest.mark.parametrize(("title", "block"), BLOCKS, ids=[title[:40] for title, _ in BLOCKS])
def test_the_call_runs_and_page_and_check_exist(title: str, block: str, names: dict[str, Any]) -> None:
    (call,) = CODE.findall(block)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert eval(call, names) is not None
    (target,) = re.findall(r"\]\((.*?)\)", fact(block, "Explained in"))
    assert (ROOT / "docs" / target).exists()
    assert (ROOT / fact(block, "Checked by").strip("`")).exists()
    assert fact(block, "Corrected")
    assert fact(block, "Certified")
    assert title
    words = block.split("```")[0].strip()
    assert words.endswith("."), "what the theorem says, in plain words"
