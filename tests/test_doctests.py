"""Every example in a docstring is run."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import privpac

ROOT = Path(privpac.__file__).parent
SHOWN = sorted(
    ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", SHOWN)
def test_examples_do_what_they_say(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    ran = doctest.testmod(import_module(name))
    assert ran.attempted > 0
    assert ran.failed == 0


def test_a_wrong_example_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(wrong).failed == 1
    assert "Expected" in capsys.readouterr().out
