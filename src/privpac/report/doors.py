"""The page of any release, found by what was released."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from privpac.errors import PrivpacError
from privpac.evaluation import Evaluation
from privpac.report.distribution import distribution_figure, write_distribution_report
from privpac.report.evaluation import write_evaluation_report
from privpac.report.rule import write_report
from privpac.result import Released
from privpac.rules.base import ConceptClass, Rule
from privpac.rules.named import RULES, rule_class

__all__ = ["class_of", "write_released"]


def write_released(released: Released, path: str | os.PathLike[str]) -> Path:
    """Write the page of a rule, a distribution or an evaluation."""
    found = released.hypothesis
    if isinstance(found, Evaluation):
        return write_evaluation_report(released, path)
    if distribution_figure(found) is not None:
        return write_distribution_report(released, path)
    return write_report(released, class_of(released), path)


def class_of(released: Released) -> ConceptClass | None:
    """The class that a rule was chosen from, rebuilt from its public name, columns and number of rules;
    None where they tell of no class.  Directions of cuts are not among them: they do not change a plan.

    >>> import privpac as pp
    >>> from privpac.guarantee import Guarantee
    >>> rules = pp.Stumps({"a": pp.Integers(0, 9), "b": pp.Integers(0, 4)})
    >>> promise = Guarantee(1, unit="user", neighbours="add-remove")
    >>> class_of(Released(rules.decode(3), promise, {"class": "Stumps", "size": rules.size})) == rules
    True
    >>> class_of(Released(rules.decode(3), promise, {"class": "Stumps", "size": 7})) is None
    True
    """
    rule, told = released.hypothesis, released.parameters
    if not isinstance(rule, Rule):
        return None
    for name in RULES:
        try:
            concept: Any = rule_class(name, dict(rule.features))
        except (PrivpacError, TypeError):  # no class of this name reads these columns
            continue
        if type(concept).__name__ == told.get("class") and getattr(concept, "size", None) == told.get("size"):
            return concept if isinstance(concept, ConceptClass) else None
    return None
