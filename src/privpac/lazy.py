"""Packages that load their names on first use, with types that a checker can read.

A package's stub (``__init__.pyi``) holds nothing but ``from .module import Name as Name``: type checkers and editors
read it as it is, and :func:`attach_stub` reads it once to know where each name lives.  Standard library only, because
devices load ``privpac.device`` where nothing else is installed.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

#: What is to be called, once, when a loop has to be compiled: the command line says why it takes its time.
WHEN_COMPILING: list[Callable[[], None]] = []

#: Which extra of the package brings a module that the base install does without.
EXTRAS = {
    "cryptography": "serve",
    "fastapi": "serve",
    "matplotlib": "plots",
    "numba": "compile",
    "pyarrow": "tables",
    "pyspark": "spark",
    "sklearn": "sklearn",
    "uvicorn": "serve",
}


def need(module: str, what: str = "this") -> Any:
    """Import a module of an extra; where it is not installed, say what is missing and how to get it.

    Parameters
    ----------
    module
        The module's name, with dots.
    what
        What needs it, to begin the message with.

    >>> need("json").dumps([1])
    '[1]'
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] != package:
            raise
        from privpac.errors import MissingExtra

        extra = EXTRAS[package]
        raise MissingExtra(
            f'{what} needs {package}, which is not installed; install it with: pip install "privpac[{extra}]"',
            name=missing.name,
        ) from None


class LateModule:
    """A module of an extra, imported where one of its names is asked for.

    >>> LateModule("json").dumps([1])
    '[1]'
    """

    def __init__(self, module: str, what: str = "this") -> None:
        self._module, self._what = module, what

    def __getattr__(self, name: str) -> Any:
        return getattr(need(self._module, self._what), name)


def attach_stub(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package from the stub beside its ``__init__``.

    >>> load, names, public = attach_stub("privpac.bounds", import_module("privpac.bounds").__file__)
    >>> names() == public == sorted(public) and all(callable(load(name)) for name in public if name.startswith("plan_"))
    True
    """
    homes: dict[str, tuple[str, str]] = {}  # the name: its module, and its name there ("" where it is the module)
    for node in ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inside = f"{package}.{node.module or alias.name}"
                home = inside if node.level or node.module is None else node.module
                homes[alias.asname or alias.name] = (home, alias.name if node.module else "")

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home, there = homes[name]
        module = import_module(home)
        value = getattr(module, there) if there else module
        setattr(sys.modules[package], name, value)  # found at once from now on
        return value

    public = sorted(homes)
    return load, lambda: list(public), public
