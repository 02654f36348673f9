"""Pages that are made when the site is built: the reference of Python names, the command line, and the notebooks.

* Python names: one page for each group of the package's docstring, by mkdocstrings, from the docstrings themselves.
* The command line: from the app, every command with all its options.
* Notebooks: from the executed files beside their sources (``notebooks.py``).

Nothing is fetched, and nothing that is made here is kept in the repository.
"""

from __future__ import annotations

import ast
import re
import sys
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NOTEBOOKS = HERE.parent / "notebooks"
sys.path[:0] = [str(ROOT / "src"), str(HERE)]

MODULES = {"auditing", "bounds"}


def on_files(files: Files, config: Any) -> Files:
    pages = {**python_pages(), "reference/command-line.md": command_line(), **notebook_pages()}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_content(html: str, page: Any, config: Any, files: Files) -> str:
    """Lines of text are wrapped; what is drawn or aligned with letters keeps its lines and scrolls."""
    blocks = re.split(r'(?=<div class="language-text highlight">)', html)
    return "".join(
        block.replace("language-text", "language-text drawn", 1)
        if block.startswith('<div class="language-text') and re.search(r"[│┃]|\S {3,}\S", block.split("</pre>")[0])
        else block
        for block in blocks
    )


# Python


def groups() -> dict[str, list[str]]:
    """The public names by the groups of the package's docstring."""
    import privpac

    lines = (privpac.__doc__ or "").split("\n")
    ruler = [i for i, line in enumerate(lines) if line.startswith("====")]
    column = lines[ruler[0]].index(" ")
    found: dict[str, list[str]] = {}
    for line in lines[ruler[0] + 1 : ruler[-1]]:
        title = line[:column].strip() or list(found)[-1]
        found.setdefault(title, []).extend(re.findall(r"\w+", line[column:]))
    return found


def homes(package: str = "privpac") -> dict[str, str]:
    """Where each public name is defined, from the package's typed stub."""
    stub = ROOT / "src" / package.replace(".", "/") / "__init__.pyi"
    found = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = ".".join(filter(None, (package, node.module, alias.name)))
    return found


def defined(name: str, package: str = "privpac") -> str:
    """The module and name of the definition itself, which packages may hand on."""
    import importlib

    found = getattr(importlib.import_module(package), name)
    return f"{found.__module__}.{found.__qualname__}" if hasattr(found, "__qualname__") else homes(package)[name]


def slug(title: str) -> str:
    return title.lower().replace(" ", "-")


def python_pages() -> dict[str, str]:
    pages = {}
    for title, names in groups().items():
        body = [
            f"# Python: {title[0].lower()}{title[1:]}\n",
            f"`import privpac as pp`, then `pp.{names[0]}` and so on.\n",
        ]
        for name in names:
            if name in MODULES:
                inner = ", ".join(f"`{each}`" for each in homes(f"privpac.{name}"))
                body.append(f"## {name}\n\nThe module `privpac.{name}`: {inner}.\n")
            else:
                body.append(f"::: {defined(name)}\n")
        pages[f"reference/{slug(title)}.md"] = "\n".join(body)
    estimators = [f"::: {defined(name, 'privpac.sklearn')}\n" for name in sklearn_names()]
    lead = "`from privpac.sklearn import …`; the guide is [In scikit-learn](../scikit-learn.md).\n"
    pages["reference/scikit-learn.md"] = "\n".join(["# Python: scikit-learn\n", lead, *estimators])
    return pages


def sklearn_names() -> list[str]:
    import privpac.sklearn

    return sorted(name for name in privpac.sklearn.__all__ if isinstance(getattr(privpac.sklearn, name), type))


# The command line


def command_line() -> str:
    """Every command with all its options, as the app declares them."""
    from typer.main import get_command

    from privpac.cli.app import app
    from privpac.cli.commands import load_commands

    load_commands(())
    root = get_command(app)
    lead = [
        "# Command line\n",
        "Made from the app itself. `--help` shows the options most people need, `--help-all` all of them, as here. "
        "Exit codes: [words](../glossary.md#exit-codes).\n",
    ]
    return "\n".join([*lead, *(described(f"privpac {name}", command, 2) for name, command in sorted(children(root)))])


def children(command: Any) -> list[tuple[str, Any]]:
    return [(name, each) for name, each in getattr(command, "commands", {}).items() if not each.hidden]


def described(path: str, command: Any, level: int) -> str:
    below = sorted(children(command))
    lines = [f"{'#' * level} {path}\n", *paragraphs(command.help or "")]
    if below:
        return "\n".join([*lines, *(described(f"{path} {name}", each, level + 1) for name, each in below)])
    shown_ones = [each for each in command.params if not getattr(each, "hidden", False)]
    arguments = [each for each in shown_ones if each.param_type_name == "argument"]
    usage = " ".join([path, *(each.name.upper() for each in arguments), "[options]"])
    lines.append(f"```text\n{usage}\n```\n")
    panels: dict[str, list[Any]] = {}
    for each in shown_ones:
        panels.setdefault(getattr(each, "rich_help_panel", None) or "", []).append(each)
    for panel, some in sorted(panels.items(), key=lambda item: item[0] != ""):
        lines += [
            '<div class="options" markdown>\n',
            f"| {panel or 'option'} | |\n|---|---|",
            *(row(each) for each in some),
            "\n</div>\n",
        ]
    return "\n".join(lines)


def paragraphs(text: str) -> list[str]:
    """Help as Markdown: examples that begin with the command are code."""
    out = []
    for part in re.split(r"\n\s*\n", text.replace("\b", "").strip()):
        said = " ".join(part.split())
        if said:
            out.append(f"```text\n{said}\n```\n" if said.startswith("privpac ") else f"{escaped(said)}\n")
    return out


def row(parameter: Any) -> str:
    """One argument or option: its names, what it is for, and what it is by default."""
    argument = parameter.param_type_name == "argument"
    names = [parameter.name.upper()] if argument else [*parameter.opts, *parameter.secondary_opts]
    said = escaped(" ".join((parameter.help or "").split()))
    default = parameter.default
    if parameter.required and not argument:
        said += " **Required.**"
    elif isinstance(default, (str, int, float)) and not isinstance(default, bool) and default != "":
        said += f" Default: `{default}`."
    return f"| {' '.join(f'`{name}`' for name in names)} | {said} |"


def escaped(text: str) -> str:
    """Words of the app inside Markdown and a table."""
    return re.sub(r"([\\`*_{}\[\]<>|])", r"\\\1", text)


# Notebooks


def notebook_pages() -> dict[str, str]:
    import nbformat

    pages = {}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        book = nbformat.read(path, as_version=4)
        lines = [part for cell in book.cells for part in cell_parts(cell)]
        pages[f"notebooks/{path.stem}.md"] = "\n".join(lines)
    return pages


def cell_parts(cell: Any) -> list[str]:
    if cell.cell_type == "markdown":
        return [cell.source, ""]
    return [f"```python\n{cell.source}\n```\n", *(shown(output) for output in cell.outputs)]


def shown(output: Any) -> str:
    """What a cell put out: cards and pictures as they are, text as text."""
    if output.output_type == "stream":
        return f"```text\n{output.text.rstrip()}\n```\n"
    for kind in ("text/html", "image/svg+xml"):
        if kind in output.get("data", {}):
            flat = re.sub(r"\n\s*\n", "\n", output.data[kind].strip())
            return f'<div class="output">{flat}</div>\n'
    text = output.get("data", {}).get("text/plain", "")
    return f'<pre class="output">{escape(text)}</pre>\n'
