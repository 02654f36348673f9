"""Packs the modules that a device needs, taken from privpac as they are: one source, two distributions.

What ``protocols.client`` and ``protocols.submit`` import, directly or not, is copied under the name ``privpac_client``;
the only changes are that name, the command's, and ``arrays`` in place of numpy.  A source
distribution holds the copies.
"""

from __future__ import annotations

import ast
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "privpac_client"
ROOTS = ("privpac.protocols.client", "privpac.protocols.submit")
CHANGES = (
    (re.compile(r"^(\s*)from privpac(?=[. ])", re.MULTILINE), rf"\1from {NAME}"),
    (re.compile(r"^import numpy as np$", re.MULTILINE), f"from {NAME} import arrays as np"),
    (re.compile(r"^from numpy\.typing import NDArray$", re.MULTILINE), f"from {NAME}.arrays import NDArray"),
    (re.compile(r"python -m privpac\.protocols\.client|privpac protocol (?=device|trust)"), "privpac-client "),
    (re.compile(r"privpac-client  +"), "privpac-client "),
)


def needed(source: Path) -> list[str]:
    """The modules reached from the roots."""
    found: set[str] = set()
    todo = list(ROOTS)
    while todo:
        module = todo.pop()
        if module in found:
            continue
        found.add(module)
        tree = ast.parse((source / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
        imports = (node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module)
        todo += [name for name in imports if name.split(".")[0] == "privpac"]
    return sorted(found)


def written(home: Path, source: Path, target: Path) -> None:
    """The package, from the modules in ``source``."""
    for module in needed(source):
        place = target.joinpath(*module.split(".")[1:]).with_suffix(".py")
        place.parent.mkdir(parents=True, exist_ok=True)
        text = (source / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        for pattern, new in CHANGES:
            text = pattern.sub(new, text)
        place.write_text(text, encoding="utf-8")
    for folder in [path for path in target.rglob("*") if path.is_dir()]:
        (folder / "__init__.py").write_text('"""Modules of privpac, for a device."""\n', encoding="utf-8")
    shutil.copy(home / "front.py", target / "__init__.py")
    shutil.copy(home / "arrays.py", target / "arrays.py")
    (target / "py.typed").touch()


class Sources(BuildHookInterface[Any]):
    """Writes the package into a folder of its own, or takes that of a source distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        home = Path(self.root)
        source, packed = home.parents[1] / "src", home / NAME
        if not packed.is_dir():
            self._made = Path(tempfile.mkdtemp())
            packed = self._made / NAME
            written(home, source, packed)
        build_data["force_include"][str(packed)] = NAME

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_made"):
            shutil.rmtree(self._made)
