"""The documentation site: notebooks are current and run, commands of the first ten minutes run, pictures are drawn by
their script, the reference holds every public name, and the built site fetches nothing."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import privpac as pp
from privpac.cli import app as cli

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SOURCES = sorted((DOCS / "notebooks").glob("*.py"))
NAV = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def script(name: str) -> ModuleType:
    """A module of ``docs/_site``."""
    sys.path.insert(0, str(DOCS / "_site"))
    try:
        spec = importlib.util.spec_from_file_location(f"site_{name}", DOCS / "_site" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found
    finally:
        sys.path.remove(str(DOCS / "_site"))


# Notebooks


def test_there_are_three_notebooks_in_the_navigation() -> None:
    assert len(SOURCES) == 3
    for source in SOURCES:
        assert f"notebooks/{source.stem}.md" in NAV


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_an_executed_notebook_is_that_of_its_source(source: Path) -> None:
    """Cells and hash agree, every cell ran, none failed; else: docs/_site/notebooks.py."""
    notebooks = script("notebooks")
    text = source.read_text(encoding="utf-8")
    book = json.loads(source.with_suffix(".ipynb").read_text(encoding="utf-8"))
    assert book["metadata"]["privpac"]["source"] == notebooks.fingerprint(text), "the source changed: execute it again"
    shown = [(cell["cell_type"], "".join(cell["source"])) for cell in book["cells"]]
    assert shown == notebooks.cells(text)
    for cell in book["cells"]:
        assert cell["cell_type"] == "markdown" or cell["execution_count"]
        assert all(output["output_type"] != "error" for output in cell.get("outputs", ()))


@pytest.mark.slow
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_notebook_runs_as_plain_python(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__notebook__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind, text in script("notebooks").cells(source.read_text(encoding="utf-8")):
            if kind == "code":
                exec(compile(ast.parse(text), source.name, "exec"), names)


# The first ten minutes


def test_every_command_of_the_first_ten_minutes_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (DOCS / "start.md").read_text(encoding="utf-8")
    commands = [
        line
        for block in re.findall(r"^ *```sh\n(.*?)^ *```", page, re.MULTILINE | re.DOTALL)
        for line in textwrap.dedent(block).splitlines()
    ]
    assert len(commands) > 5
    monkeypatch.chdir(tmp_path)
    warnings.simplefilter("ignore")
    exec(page.partition("```python\n")[2].partition("```")[0], {})  # writes the table
    for line in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as stop:
            cli.main()
        assert not stop.value.code, line
    assert {path.name for path in tmp_path.iterdir()} >= {
        "budget.ledger",
        "rule.html",
        "rule.json",
        "tests.csv",
        "predictions.csv",
    }


def test_readme_speaks_plainly_before_the_fold() -> None:
    fold = (ROOT / "README.md").read_text(encoding="utf-8").split("## ")[0]
    for word in ("law", "clipped", "regret", "realizable", "agnostic", "hypothes", "mechanism"):
        assert not re.search(rf"\b{word}", fold, re.IGNORECASE), word
    assert 'pip install "privpac' in fold
    assert fold.count("![") == 1


# Pictures


def test_pictures_are_drawn_by_their_script(tmp_path: Path) -> None:
    pictures = script("pictures")
    for path in pictures.write(tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert (DOCS / "img" / path.name).exists()


def test_every_picture_of_a_page_exists_and_says_what_it_shows() -> None:
    for page in DOCS.glob("*.md"):
        for alt, target in re.findall(r"!\[(.*?)\]\((.*?)\)", page.read_text(encoding="utf-8")):
            assert (DOCS / target).exists(), (page.name, target)
            assert len(alt) > 20, (page.name, target)


# The gallery


def test_the_gallery_shows_what_its_kept_releases_say() -> None:
    """Else: docs/_site/gallery.py run."""
    gallery = script("gallery")
    shown = gallery.examples()
    assert {example.name for example in shown} == set(gallery.PICTURES)
    assert len(shown) == 8
    for example in shown:
        assert example.calls, example.name
        assert example.commands, example.name
        release = gallery.kept(example.name)
        if isinstance(release, pp.Released):
            assert str(release).splitlines()[0] == example.printed.splitlines()[0], example.name
        else:
            assert set(map(len, release.values())) == {len(gallery.EPSILONS)}


def test_every_command_of_the_gallery_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    warnings.simplefilter("ignore")
    for example in script("gallery").examples():
        for block in example.tables:
            exec(compile(block, "gallery.md", "exec", dont_inherit=True), {})
        for line in example.commands:
            monkeypatch.setattr(sys, "argv", shlex.split(line))
            with pytest.raises(SystemExit) as stop:
                cli.main()
            assert not stop.value.code, line


def test_the_pictures_of_the_gallery_are_drawn_by_their_script(tmp_path: Path) -> None:
    gallery = script("gallery")
    written = gallery.write(tmp_path)
    assert {path.stem for path in written} == set(gallery.PICTURES)
    for path in written:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert (DOCS / "img" / "gallery" / path.name).exists()


# The reference and the navigation


def test_the_reference_holds_every_public_name_and_every_command() -> None:
    hooks = script("hooks")
    assert sorted(name for names in hooks.groups().values() for name in names) == sorted(pp.__all__)
    pages = hooks.python_pages()
    assert {f"reference/{hooks.slug(title)}.md" for title in hooks.groups()} < set(pages)
    for path in (*pages, "reference/command-line.md"):
        assert path in NAV, path
    said = hooks.command_line()
    from privpac.cli.commands import HOMES

    for name in HOMES:
        assert f"privpac {name}" in said
    assert "`--epsilon` `-e`" in said


def test_every_page_has_a_place_in_the_navigation() -> None:
    for page in DOCS.glob("*.md"):
        assert re.search(rf"(: |- ){re.escape(page.name)}$", NAV, re.MULTILINE), page.name


@pytest.mark.slow
def test_the_site_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=\"(https?:[^\"]*)", text)
        loaded += re.findall(r"<link[^>]*rel=\"(?:stylesheet|preconnect|icon)\"[^>]*href=\"(https?:[^\"]*)", text)
        assert loaded == [], page.name
    assert (tmp_path / "site" / "search" / "search_index.js").exists(), "search works without a server"
