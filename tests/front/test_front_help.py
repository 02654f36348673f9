"""What ``help`` and ``dir`` tell a newcomer."""

from __future__ import annotations

import inspect
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import privpac as pp
from privpac.api.audit import audit

FUNCTIONS = sorted(name for name in dir(pp) if inspect.isfunction(getattr(pp, name)))


def test_the_package_groups_all_its_names_once() -> None:
    assert pp.__doc__ is not None
    table = pp.__doc__.split("=\n", 1)[1].split("====", 1)[0]
    groups = " ".join(line[26:] for line in table.splitlines())
    listed = re.findall(r"\w+", groups)
    assert sorted(listed) == sorted(name for name in dir(pp) if not name.startswith("_"))


@pytest.mark.parametrize("name", [*FUNCTIONS, "audit"])
def test_public_functions_list_their_parameters(name: str) -> None:
    function = audit if name == "audit" else getattr(pp, name)
    said = inspect.getdoc(function) or ""
    assert "Parameters\n----------" in said
    listed = said.split("Parameters\n----------")[1].split("\n\n")[0]
    heads = " ".join(line.split(" : ")[0] for line in listed.splitlines() if line and not line.startswith(" "))
    for parameter in inspect.signature(function).parameters:
        assert re.search(rf"\b{parameter}\b", heads), f"{name} does not say what {parameter} is"


def test_help_of_learn_has_three_examples() -> None:
    said = inspect.getdoc(pp.learn) or ""
    examples = said.split("Examples\n--------")[1]
    assert len(re.findall(r"pp\.learn\(", examples)) >= 3
    assert '"interval"' in examples, "rules by name"


def test_there_is_one_version() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert "version" in project["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+\w*", pp.__version__)
    assert version("privpac") == pp.__version__, "installed from another version: make install"


def test_the_map_names_files_that_exist() -> None:
    root = Path(__file__).parents[2]
    text = (root / "CONTRIBUTING.md").read_text()
    table = text[text.index("| your line") : text.index("Imports point one way")]
    for name in re.findall(r"`([a-z_/]+\.py)`", table):
        assert (root / "src/privpac" / name).exists(), name
    for name in re.findall(r"`((?:src|tests|docs)/[\w./]+)`", text):
        assert (root / name).exists(), name
