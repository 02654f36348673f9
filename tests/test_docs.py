"""Every Python example in README and docs runs as written, page by page."""

from __future__ import annotations

import re
import textwrap
import warnings
from pathlib import Path

import pytest

from privpac.rules.named import RULES

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")])
BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)  # indented in a tab


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_the_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = [textwrap.dedent(block) for _, block in BLOCK.findall(page.read_text(encoding="utf-8"))]
    names: dict[str, object] = {"__name__": "__page__"}
    known = set(RULES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in blocks:
            exec(compile(block, page.name, "exec", dont_inherit=True), names)
    for name in set(RULES) - known:  # a page may name a class of its own
        del RULES[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http:", "https:", "mailto:")):
            made = (
                target.replace("notebooks/", "docs/notebooks/").removesuffix(".md") + ".ipynb"
            )  # made from an executed one
            assert (page.parent / target).exists() or (ROOT / made).exists(), target
