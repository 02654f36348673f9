"""Where each command lives; a module adds its commands to the app when it is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

HOMES = {
    "audit": "audit",
    "bounds": "bounds",
    "cap": "cap",
    "check": "check",
    "select-model": "evaluate",
    "compare": "compare",
    "distribution": "distribution",
    "domains": "domains",
    "evaluate": "evaluate",
    "export": "export",
    "learn": "learn",
    "best-error": "evaluate",
    "ledger": "ledger",
    "methods": "methods",
    "plan": "plan",
    "predict": "predict",
    "protocol": "protocol",
    "quantile": "quantile",
    "select": "distribution",
    "serve": "serve",
    "studio": "studio",
    "user-level": "user_level",
}


def load_commands(words: Sequence[str]) -> None:
    """Import the command that these words begin with; all of them for the overview, or if there is no such command."""
    named = HOMES.get(words[0]) if words else None
    for home in sorted(set(HOMES.values())) if named is None else [named]:
        import_module(f"privpac.cli.{home}")


def outline(app: Any) -> None:
    """What :func:`load` does, for a process that will run no command: names and first lines are read off the source."""
    commands = [command for home in sorted(Path(__file__).parent.rglob("*.py")) for command in _commands(home)]
    for _, name, help in sorted(commands, key=lambda command: command[0]):  # groups after commands, as Typer has them
        app.command(name, help=help)(lambda: None)


def _commands(source: Path) -> Iterator[tuple[bool, str, str]]:
    """Commands of the app in a file (whether a group, name, what it says of itself: its docstring, or its help)."""
    groups: dict[str, str] = {}
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                kind = ast.unparse(mark.func) if isinstance(mark, ast.Call) else ""
                grouped = isinstance(mark, ast.Call) and any(keyword.arg == "group" for keyword in mark.keywords)
                if isinstance(mark, ast.Call) and kind in ("app.command", "command") and not grouped:
                    names = mark.args if kind == "app.command" else []
                    name = ast.literal_eval(names[0]) if names else node.name.removesuffix("_command").replace("_", "-")
                    yield False, name, (ast.get_docstring(node) or "").partition("\n\n")[0]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for keyword in node.value.keywords:
                if keyword.arg == "help":
                    groups[ast.unparse(node.targets[0])] = ast.literal_eval(keyword.value)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            if ast.unparse(call.func) == "app.add_typer":
                yield True, ast.literal_eval(call.keywords[0].value), groups[ast.unparse(call.args[0])]
