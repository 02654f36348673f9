"""The part of the build that is ours: wheels for Linux on x86-64 get the compiled loops; others go without, and their
dependencies name numba."""

from __future__ import annotations

import platform
import sys
from importlib import util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent


def _compiled_here() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64"


def _compiler() -> Any:
    found = util.spec_from_file_location("privpac_kernels", HERE / "compile.py")
    assert found is not None
    assert found.loader is not None
    module = util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


class KernelsHook(BuildHookInterface[Any]):
    """Compile before the wheel is packed, also for an editable install."""

    def dependencies(self) -> list[str]:
        if not _compiled_here() or self.target_name != "wheel":
            return []
        return ["numba>=0.61", *([] if _compiler().has_compiler() else ["ziglang>=0.13"])]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if not _compiled_here():
            return
        found = _compiler().build(Path(self.root, "src", "privpac"))
        if version == "editable":  # the source tree is the package
            return
        for made in found:
            build_data["force_include"][str(made)] = f"privpac/data/{made.name}"
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-linux_x86_64"
