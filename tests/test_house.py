"""The house rules: rooms import to the left, the package opens lazily, files stay small, and the library keeps
quiet."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import privpac

ROOT = Path(privpac.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

GROUND = {"errors", "exact", "rng", "guarantee", "composition", "law", "ledger", "released"}
MIDDLE = {"ground", "bounds", "agreement", "mechanisms", "data", "concepts"}
EVERYTHING = MIDDLE | {
    "learners",
    "distributions",
    "evaluation",
    "protocols",
    "planning",
    "audit",
    "engines",
    "api",
    "sklearn",
    "cli",
    "serve",
    "report",
}
MAY_IMPORT = {
    "ground": {"ground"},
    "bounds": {"ground"},
    "agreement": {"errors", "rng"},
    "mechanisms": {"ground"},
    "data": {"ground"},
    "concepts": {"ground", "data"},
    "learners": MIDDLE,
    "distributions": MIDDLE | {"learners"},
    "evaluation": MIDDLE | {"learners"},
    "protocols": MIDDLE | {"learners", "distributions"},
    "planning": MIDDLE | {"learners", "distributions", "protocols"},
    "audit": MIDDLE | {"learners", "distributions", "protocols", "planning"},
    "engines": {"ground", "data", "concepts"},
    **dict.fromkeys(("api", "sklearn", "cli", "serve", "report", "testing"), EVERYTHING),
}
SPEAKING = {"cli", "report"}


def room_of(top: str) -> str:
    """The room of a top-level name; ground may be split (``ledger_file``), the package itself and ``api_*`` are the
    front."""
    if top in {"__init__", "__main__"} or top.startswith("api_"):
        return "api"
    return "ground" if top.split("_")[0] in GROUND else top


def top_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(tree: ast.AST, path: Path) -> Iterator[str]:
    """Full names of the privpac modules a module imports, wherever in the file; lazy imports count."""
    package = ["privpac", *path.relative_to(ROOT).parts[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def identity(path: Path) -> str:
    return str(path.relative_to(ROOT))


def broken(source: str, path: Path) -> list[str]:
    """Imports that do not point left."""
    room = room_of(top_of(path))
    targets = [name for name in imported(ast.parse(source), path) if name.startswith("privpac.") and is_module(name)]
    return [
        name
        for name in targets
        if (top := name.split(".")[1]) != top_of(path) and not {top, room_of(top)} & MAY_IMPORT.get(room, set())
    ]


@pytest.mark.parametrize("path", MODULES, ids=identity)
def test_imports_point_left_only(path: Path) -> None:
    assert room_of(top_of(path)) in MAY_IMPORT, "no room of the house has this name"
    assert not broken(path.read_text(), path)


def test_the_import_rule_can_fail() -> None:
    assert broken("def f():\n    from privpac.mechanisms.exponential import X", ROOT / "law" / "x.py") == [
        "privpac.mechanisms.exponential"
    ]
    assert broken("from ..mechanisms import exponential", ROOT / "data" / "x.py") == [
        "privpac.mechanisms",
        "privpac.mechanisms.exponential",
    ]
    assert broken("from privpac import exact, rng", ROOT / "agreement" / "x.py") == ["privpac.exact"]
    assert broken("import privpac.ledger\nfrom privpac.law import Law", ROOT / "mechanisms" / "x.py") == []
    assert broken("from . import base", ROOT / "law" / "x.py") == []


def test_testing_is_never_imported_by_the_rest() -> None:
    for path in MODULES:
        if path.name != "testing.py":
            assert "privpac.testing" not in set(imported(ast.parse(path.read_text()), path)), identity(path)


def loaded_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint('\\n'.join(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in run.stdout.split()} | set(run.stdout.split())


HEAVY = {
    "flint",
    "numpy",
    "scipy",
    "numba",
    "polars",
    "pyarrow",
    "sklearn",
    "matplotlib",
    "rich",
    "typer",
    "pandas",
    "fastapi",
    "pyspark",
}


def test_import_privpac_is_lazy() -> None:
    loaded = loaded_after("import privpac")
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("privpac")} == {"privpac"}


DEVICE = ["privpac.errors", "privpac.rng", "privpac.agreement", "privpac.protocols.client"]


@pytest.mark.parametrize("name", [name for name in DEVICE if is_module(name)])
def test_device_code_needs_only_numpy(name: str) -> None:
    assert not loaded_after(f"import {name}") & (HEAVY - {"numpy"})


def test_every_advertised_name_resolves() -> None:
    for stub in ROOT.rglob("__init__.pyi"):
        package = import_module(".".join(stub.parent.relative_to(ROOT.parent).parts))
        for name in package.__all__:
            assert getattr(package, name) is not None
    with pytest.raises(AttributeError):
        privpac.nothing_of_this_name  # noqa: B018
    assert set(privpac.__all__) == set(dir(privpac))


@pytest.mark.parametrize("path", MODULES, ids=identity)
def test_files_are_small_and_explain_themselves(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) < 440
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "a module says what it is"


@pytest.mark.parametrize("path", MODULES, ids=identity)
def test_the_library_does_not_print(path: Path) -> None:
    if top_of(path) in SPEAKING:
        return
    calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call, ast.Name) and call.id in {"print", "breakpoint", "input"}]


@pytest.mark.parametrize("path", MODULES, ids=identity)
def test_no_generator_but_ours_and_no_pickle(path: Path) -> None:
    """Private code draws from the system; seeds, Mersenne twisters and unpickled models have no place in it."""
    names = {name.split(".")[0] for name in imported(ast.parse(path.read_text()), path)}
    assert not names & {"random", "pickle", "dill", "joblib"}
    if top_of(path) not in {"planning", "testing", "cli", "report"}:
        assert not re.search(r"\bnp\.random\b|\bnumpy\.random\b", path.read_text())


PLACES = re.compile("|".join(f"/{place}/" for place in ("root", "home", "Users", "work", "opt")))
LATER = re.compile("|".join(rf"\b{word}\b" for word in ("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")))
REPOSITORY = ROOT.parents[1]
TEXTS = [
    path
    for folder in ("src", "tests", "benchmarks", "docs", "examples", ".ci")
    for path in sorted((REPOSITORY / folder).rglob("*"))
    if path.is_file()
    and path.suffix in {"", ".py", ".md", ".toml", ".txt", ".json", ".yml", ".html"}
    and path != Path(__file__)
]


def test_no_machine_paths_and_nothing_left_for_later() -> None:
    texts = [
        *TEXTS,
        *(REPOSITORY / name for name in ("README.md", "Makefile", "pyproject.toml") if (REPOSITORY / name).exists()),
    ]
    assert len(texts) > len(MODULES)
    for path in texts:
        text = path.read_text(errors="ignore")
        assert not PLACES.search(text), f"{path.relative_to(REPOSITORY)} names a place on one machine"
        assert not LATER.search(text), f"{path.relative_to(REPOSITORY)} leaves something for later"
