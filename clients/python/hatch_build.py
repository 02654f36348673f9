"""Packs ``privpac.device`` as it is, with the three modules it imports: one source, two distributions.

The folder is copied under the name ``privpac_client``; the only changes are that name, the command's, and ``arrays`` in
place of numpy.  A source distribution holds the copies.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "privpac_client"
BESIDE = ("errors.py", "files.py", "rng.py")
"""What modules of a device may import of the rest of privpac, all of it standard library and numpy."""

CHANGES = (
    (re.compile(r"^(\s*)from privpac(?=[. ])", re.MULTILINE), rf"\1from {NAME}"),
    (re.compile(r"^import numpy as np$", re.MULTILINE), f"from {NAME} import arrays as np"),
    (re.compile(r"^from numpy\.typing import NDArray$", re.MULTILINE), f"from {NAME}.arrays import NDArray"),
    (re.compile(r"python -m privpac\.device\.client|privpac protocol (?=device|trust)"), "privpac-client "),
    (re.compile(r"privpac-client  +"), "privpac-client "),
)


def written(home: Path, source: Path, target: Path) -> None:
    """The package, from the modules in ``source``."""
    (target / "device").mkdir(parents=True)
    for path in [source / "privpac" / name for name in BESIDE] + sorted((source / "privpac" / "device").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        for pattern, new in CHANGES:
            text = pattern.sub(new, text)
        (target / path.relative_to(source / "privpac")).write_text(text, encoding="utf-8")
    (target / "device" / "__init__.py").write_text('"""Modules of privpac, for a device."""\n', encoding="utf-8")
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
