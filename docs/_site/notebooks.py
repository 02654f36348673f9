"""Executes the notebooks of the site from their text sources.

    .venv/bin/python docs/_site/notebooks.py

A source ``docs/notebooks/NAME.py`` is Python in cells: ``# %%`` begins one of code, ``# %% [markdown]`` one of text in
comments, as editors know them.  Each is executed from top to bottom in a kernel of its own, in an empty folder, and
kept beside its source as ``NAME.ipynb`` with everything it put out and the source's hash: the site shows that file, and
a test compares the hash, so that what is shown was made by what is written.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "notebooks"


def cells(source: str) -> list[tuple[str, str]]:
    """Kind ("markdown" or "code") and text of each cell."""
    found = []
    for head, body in re.findall(r"^# %%(.*)\n((?:(?!# %%).*\n?)*)", source, re.MULTILINE):
        text = body.strip("\n")
        if "markdown" in head:
            text = "\n".join(re.sub(r"^# ?", "", line) for line in text.split("\n"))
        found.append(("markdown" if "markdown" in head else "code", text))
    return found


def fingerprint(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()


def execute(path: Path) -> Path:
    """Run one source and write the notebook beside it."""
    import nbformat
    from nbclient import NotebookClient

    source = path.read_text(encoding="utf-8")
    make = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    book = nbformat.v4.new_notebook(cells=[make[kind](text) for kind, text in cells(source)])
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    for number, cell in enumerate(book.cells):
        cell.id = f"cell-{number}"
        cell.metadata.clear()
    book.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "privpac": {"source": fingerprint(source)},
    }
    target = path.with_suffix(".ipynb")
    target.write_text(nbformat.writes(book) + "\n", encoding="utf-8")
    return target


if __name__ == "__main__":
    wanted = [FOLDER / f"{name}.py" for name in sys.argv[1:]] or sorted(FOLDER.glob("*.py"))
    for path in wanted:
        print(execute(path))
