"""Every case of every vector file, in ``tests/vectors`` and in the folder named by ``PRIVPAC_VECTORS``.

A kind that has no runner yet is skipped by name, never silently.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent


def _package() -> ModuleType:
    """The package ``vector_runners`` beside this file, importable whatever the working directory."""
    if "vector_runners" not in sys.modules:
        folder = HERE / "vector_runners"
        spec = importlib.util.spec_from_file_location(
            "vector_runners", folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["vector_runners"] = module
        spec.loader.exec_module(module)
    return sys.modules["vector_runners"]


def _folders() -> list[Path]:
    more = os.environ.get("PRIVPAC_VECTORS")
    if not more:
        return [HERE / "vectors"]
    if not Path(more).is_dir():
        raise NotADirectoryError("PRIVPAC_VECTORS must name a folder of vector files")
    return [HERE / "vectors", Path(more)]


def _cases() -> list[Any]:
    out = []
    for number, folder in enumerate(_folders()):
        for path in sorted(folder.glob("*.json")):
            out += [pytest.param(case, id=f"{case}-more" if number else str(case)) for case in _package().cases(path)]
    return out


@cache
def _runners(stem: str) -> dict[str, Any]:
    return dict(_package().runners(stem))


@pytest.mark.parametrize("case", _cases())
def test_vector(case: Any) -> None:
    runner = _runners(case.stem).get(case.kind)
    if runner is None:
        pytest.skip(f"no runner yet for {case.stem}: {case.kind}")
    case.run(runner)


def test_every_vector_file_is_here_and_has_cases() -> None:
    stems = {path.stem for path in (HERE / "vectors").glob("*.json")}
    assert {"foundations", "pure_agnostic", "regret_selection", "realizable_to_agnostic", "item_to_user"} <= stems
    assert {"clipped_selection", "vc1_trees", "log_star_median", "stability_and_protocols"} <= stems
    assert {"littlestone_and_separators", "two_voices"} <= stems
    for path in (HERE / "vectors").glob("*.json"):
        assert len(list(_package().cases(path))) >= 10


def test_every_runner_has_cases() -> None:
    """A runner whose kind no vector file has would never run."""
    for path in (HERE / "vectors").glob("*.json"):
        kinds = {case.kind for case in _package().cases(path)}
        assert set(_runners(path.stem)) <= kinds
