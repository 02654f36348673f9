"""The mechanism sections of the foundations vectors."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

_TESTS = Path(__file__).parents[1]
_KINDS = ("permute_and_flip", "clamped_laplace", "tdlap", "krr", "choosing_two_stage")


def _runners() -> Any:
    spec = importlib.util.spec_from_file_location(
        "foundations_mechanisms", _TESTS / "vector_runners" / "foundations_mechanisms.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _cases() -> list[Any]:
    content = json.loads((_TESTS / "vectors" / "foundations.json").read_text())
    return [pytest.param(kind, case, id=f"{kind}-{i}") for kind in _KINDS for i, case in enumerate(content[kind])]


@pytest.mark.parametrize(("kind", "case"), _cases())
def test_vector(kind: str, case: dict[str, Any]) -> None:
    getattr(_runners(), f"run_{kind}")(case)


def test_vector_runner_refuses_a_changed_digit() -> None:
    runners = _runners()
    case = json.loads((_TESTS / "vectors" / "foundations.json").read_text())["permute_and_flip"][0]
    digits = case["block_prob"][0]
    case["block_prob"][0] = digits[:30] + str((int(digits[30]) + 1) % 10) + digits[31:]
    with pytest.raises(AssertionError):
        runners.run_permute_and_flip(case)
