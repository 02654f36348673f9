"""The shape of the package: imports point one way and never in a circle, the package loads lazily, the library keeps
quiet, and the public API reaches everything but the papers' studies."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import privpac
from privpac.methods.registry import METHODS

ROOT = Path(privpac.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

GROUND = {
    "arrays",
    "bisection",
    "composition",
    "connections",
    "display",
    "errors",
    "exact",
    "files",
    "guarantee",
    "lazy",
    "lower_bounds",
    "parameters",
    "result",
    "rng",
    "sample_size",
    "special",
}
LOWER = {"ground", "law", "ledger", "mechanisms", "data", "rules", "device"}
METHODS_AND_MORE = LOWER | {"methods", "distributions", "evaluation", "protocols"}
EVERYTHING = METHODS_AND_MORE | {
    "bounds",
    "planning",
    "auditing",
    "papers",
    "api",
    "sklearn",
    "cli",
    "serve",
    "studio",
    "report",
}
MAY_IMPORT = {
    "ground": {"ground"},
    "law": {"ground"},
    "ledger": {"ground"},
    "mechanisms": {"ground", "law"},
    "data": {"ground"},
    "device": {"errors", "files", "lazy", "rng"},
    "rules": {"ground", "law", "data"},
    "methods": LOWER,
    "distributions": LOWER | {"methods"},
    "evaluation": LOWER | {"methods"},
    "protocols": LOWER | {"methods", "distributions"},
    "bounds": {"ground"},
    "planning": METHODS_AND_MORE | {"bounds"},
    "auditing": METHODS_AND_MORE | {"bounds", "planning"},
    **dict.fromkeys(("api", "sklearn", "cli", "serve", "studio", "report", "testing", "papers"), EVERYTHING),
}
SPEAKING = {"cli", "report"}
MADE_UP = {"methods/simulation.py", "rules/populations.py"}
"""People who are made up with public seeds; whoever simulates takes its generator from here."""


@cache
def parsed_text(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def parsed(path: Path) -> ast.Module:
    return parsed_text(path.read_text())


def room_of(top: str) -> str:
    """The layer of a top-level name; the package itself belongs to the public API."""
    if top in {"__init__", "__main__"}:
        return "api"
    return "ground" if top in GROUND else top


def top_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


@cache
def imported(tree: ast.AST, path: Path) -> tuple[str, ...]:
    """Full names of the privpac modules a module imports, wherever in the file; lazy imports count."""
    return tuple(_imported(tree, path))


def _imported(tree: ast.AST, path: Path) -> Iterator[str]:
    package = ["privpac", *path.relative_to(ROOT).parts[:-1]]
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


@cache
def is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def identity(path: Path) -> str:
    return str(path.relative_to(ROOT))


def broken(source: str, path: Path) -> list[str]:
    """Imports that do not point left."""
    room = room_of(top_of(path))
    targets = [name for name in imported(parsed_text(source), path) if name.startswith("privpac.") and is_module(name)]
    return [
        name
        for name in targets
        if (top := name.split(".")[1]) != top_of(path) and not {top, room_of(top)} & MAY_IMPORT.get(room, set())
    ]


@pytest.mark.parametrize("path", MODULES, ids=identity)
def test_imports_point_left_only(path: Path) -> None:
    assert room_of(top_of(path)) in MAY_IMPORT, "no layer of the package has this name"
    assert not broken(path.read_text(), path)


def test_the_import_rule_can_fail() -> None:
    assert broken("def f():\n    from privpac.mechanisms.exponential import X", ROOT / "law" / "x.py") == [
        "privpac.mechanisms.exponential"
    ]
    assert broken("from ..mechanisms import exponential", ROOT / "data" / "x.py") == [
        "privpac.mechanisms",
        "privpac.mechanisms.exponential",
    ]
    assert broken("from privpac import exact, rng", ROOT / "device" / "x.py") == ["privpac.exact"]
    assert broken("import privpac.guarantee\nfrom privpac.law import Law", ROOT / "mechanisms" / "x.py") == []
    assert broken("from . import base", ROOT / "law" / "x.py") == []


def test_testing_is_never_imported_by_the_rest() -> None:
    for path in MODULES:
        if path.name != "testing.py":
            assert "privpac.testing" not in set(imported(parsed(path), path)), identity(path)


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
    assert {name for name in loaded if name.startswith("privpac")} == {"privpac", "privpac.lazy"}


DEVICE = ["privpac.errors", "privpac.rng", "privpac.device", "privpac.device.client"]


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


def test_a_lazy_name_is_never_also_a_module_beside_it() -> None:
    """Else ``package.name`` would be the function or the module, by what was imported first."""
    for stub in ROOT.rglob("__init__.pyi"):
        for node in ast.parse(stub.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                names = {alias.asname or alias.name for alias in node.names}
                assert not {n for n in names if is_module(".".join([*stub.parent.relative_to(ROOT.parent).parts, n]))}


def test_a_class_has_its_name_to_itself() -> None:
    trees = (parsed(path) for path in MODULES)
    names = Counter(node.name for tree in trees for node in nodes(tree) if isinstance(node, ast.ClassDef))
    assert not {name for name, times in names.items() if times > 1}


@pytest.mark.parametrize("path", MODULES, ids=identity)
def test_files_explain_themselves(path: Path) -> None:
    if path.read_text().strip():
        assert ast.get_docstring(parsed(path)), "a module says what it is"


@pytest.mark.parametrize("path", MODULES, ids=identity)
def test_the_library_does_not_print(path: Path) -> None:
    if top_of(path) in SPEAKING:
        return
    calls = [node.func for node in nodes(parsed(path)) if isinstance(node, ast.Call)]
    assert not [call for call in calls if isinstance(call, ast.Name) and call.id in {"print", "breakpoint", "input"}]


@pytest.mark.parametrize("path", MODULES, ids=identity)
def test_no_generator_but_ours_and_no_pickle(path: Path) -> None:
    """Private code draws from the system; seeds, Mersenne twisters and unpickled models have no place in it."""
    names = {name.split(".")[0] for name in imported(parsed(path), path)}
    assert not names & {"random", "pickle", "dill", "joblib"}
    if top_of(path) not in {"planning", "testing", "cli", "report"} and identity(path) not in MADE_UP:
        assert not re.search(r"\bnp\.random\b|\bnumpy\.random\b", path.read_text())


# Circles and shelves: who imports whom

Graph = dict[str, set[str]]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {module_name(path): path for path in MODULES}
PACKAGES = {name for name, path in NAMES.items() if path.name == "__init__.py"}


def runs(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes that can run, in functions too; what is imported for types alone cannot."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)):
            yield node
            yield from runs(node)


def imports_from(tree: ast.AST, path: Path) -> Iterator[tuple[str, str]]:
    """Pairs of a module of ours and a name taken from it; the name is empty where the module itself is imported."""
    package = ["privpac", *path.relative_to(ROOT).parts[:-1]]
    for node in runs(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name in NAMES)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield from ((module, alias.name) for alias in node.names if module in NAMES)


@cache
def listed(package: str) -> dict[str, str]:
    """Where a package has its names from: its stub, or its own imports."""
    stub = NAMES[package].with_suffix(".pyi")
    path = stub if stub.exists() else NAMES[package]
    return {name: module for module, name in imports_from(parsed(path), path)}


def source(module: str, name: str) -> set[str]:
    """The modules on the way from a name to where it is written."""
    if f"{module}.{name}" in NAMES:
        return {f"{module}.{name}"}
    further = listed(module).get(name) if module in PACKAGES else None
    return {module} if further in (None, module) else {module} | source(further, name)


@cache
def graph() -> Graph:
    """What each module imports, wherever in the file, and where lazy names lead."""
    found: Graph = {}
    for name, path in NAMES.items():
        pairs = imports_from(parsed(path), path)
        found[name] = {target for module, taken in pairs for target in source(module, taken)} - {name}
    return found


def reached(start: Iterable[str], edges: Graph) -> set[str]:
    """Everything that can be come to from ``start``, start included."""
    seen: set[str] = set()
    ahead = list(start)
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead += edges[name]
    return seen


def circles(edges: Graph) -> set[frozenset[str]]:
    """Sets of modules each of which imports, in the end, all others of its set."""
    ahead = {name: reached(edges[name], edges) for name in edges}
    return {frozenset(other for other in ahead[name] if name in ahead[other]) for name in edges if name in ahead[name]}


def test_no_imports_go_in_a_circle() -> None:
    assert not [sorted(circle) for circle in circles(graph())]


def test_circles_are_found_also_inside_functions() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}
    tree = ast.parse("if TYPE_CHECKING:\n    import privpac.rng\ndef f():\n    from privpac.law import Law")
    assert list(imports_from(tree, ROOT / "x.py")) == [("privpac.law", "Law")]


# A module is on the front if somebody who calls the front runs it: what a name of ``privpac`` is made of, or a name of
# a room that the front itself shows (``pp.bounds``, ``pp.auditing``), a command, an estimator, the service, a report, a
# device, or what tests of others use.  That a room lists a name (``privpac.methods.X``) is no use yet.
DOORS = ("cli", "sklearn", "serve", "studio", "report", "testing", "device.client")


def written_in(value: Any) -> Iterator[str]:
    """The modules behind a public value; of a room, behind all that it lists."""
    if isinstance(value, ModuleType) and hasattr(value, "__all__"):
        for name in value.__all__:
            yield from written_in(getattr(value, name))
    yield getattr(value, "__module__", None) or type(value).__module__


STUDIES = {"papers.correlated_sampling", "papers.noisy_min", "papers.two_stage_choosing"}
"""What serves proofs and comparisons only."""
PARTS_OF_NOISY_MIN = {"level_numbers", "race_block", "race_law", "winner"}


def named_in(tree: ast.AST) -> set[str]:
    """Modules that a text of the code names."""
    texts = {node.value for node in nodes(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {text.partition(":")[0] for text in texts} & set(NAMES) - PACKAGES


def test_planning_and_auditing_import_no_paper() -> None:
    for name, targets in graph().items():
        if name.split(".")[1:2] in (["planning"], ["auditing"], ["methods"], ["distributions"]):
            assert not {target for target in targets if target.startswith("privpac.papers.")}, name


def test_the_public_api_reaches_everything_but_the_studies() -> None:
    start = {module for name in privpac.__all__ for module in written_in(getattr(privpac, name))} & set(NAMES)
    start |= {name for name in NAMES for door in DOORS if f"{name}.".startswith(f"privpac.{door}.")}
    start |= {method.load().__module__ for method in METHODS.values()}  # run by ``learn`` under a name
    # Records and lines of plans name what they load: "module:attribute".
    start |= {module for path in MODULES for module in named_in(parsed(path))}
    # A package that lists its rooms imports them all and calls none, unless somebody goes through all of it; the
    # registry of methods takes single learners by name.
    values = {
        f"{module}.{name}"
        for path in MODULES
        for module, name in imports_from(parsed(path), path)
        if f"{module}.{name}" in PACKAGES - {"privpac.methods"}
    }
    listing = {name: {home for names in listed(name).items() for home in source(name, names[0])} for name in values}
    edges = {
        name: listing.get(name, set()) if name in PACKAGES - start else targets for name, targets in graph().items()
    }
    missed = {name.removeprefix("privpac.") for name in set(NAMES) - PACKAGES - reached(start, edges)}
    assert missed == STUDIES


def test_the_page_of_research_names_what_is_there() -> None:
    page = (REPOSITORY / "docs" / "research.md").read_text()
    for study in STUDIES:
        module = import_module(f"privpac.{study}")
        names = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        public = {name for name in names if not name.startswith("_")}
        assert public
        assert all(f"`{name}`" in page for name in public - {"ListPlan", "StableHypothesis", *PARTS_OF_NOISY_MIN})


# One way to write a file


def test_files_are_written_in_one_place() -> None:
    """Renames, links and syncs are the business of ground; the ledger holds a lock on its draft and keeps its own."""
    for path in MODULES:
        if top_of(path) in {"files", "ledger"}:
            continue
        calls = {ast.unparse(n.func) for n in nodes(parsed(path)) if isinstance(n, ast.Call)}
        assert not calls & {"os.replace", "os.rename", "os.link", "os.fsync"}, identity(path)


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
