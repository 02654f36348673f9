"""Rules that commands read from files."""

from __future__ import annotations

from pathlib import Path

from privpac.api.learn import load
from privpac.errors import ModelFileError, NoReleaseError
from privpac.result import Released
from privpac.rules.base import Rule


def saved_rule(path: str | Path, without: str) -> Rule:
    """The rule in a file that ``learn --out`` wrote; ``without`` says what cannot be done where none was released."""
    return rule_and_result(path, without)[0]


def rule_and_result(path: str | Path, without: str) -> tuple[Rule, Released]:
    """The same with the whole result, whose evaluation may know chances."""
    released = load(path)
    if not released:
        raise NoReleaseError(f"{str(path)!r} holds no rule: nothing was released, so {without}")
    rule = released.value
    if not isinstance(rule, Rule):
        raise ModelFileError(f"{str(path)!r} holds a {type(rule).__name__}, not a rule: it does not predict")
    return rule, released
