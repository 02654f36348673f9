"""Dimensions used for lower bounds are never too large: compared with the search over all rules and points of small
classes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import privpac as pp
from privpac.errors import ParameterError
from privpac.lower_bounds import lower_agnostic, mistake_depth
from privpac.rules import FiniteClass, Halfspaces, Rectangles
from privpac.rules.base import ConceptClass
from privpac.rules.decision_lists import DecisionLists
from privpac.rules.enumerated import littlestone_dimension, vc_dimension
from privpac.rules.named import RULES, rule_class

BITS = {f"c{i}": pp.Integers(0, 1) for i in range(3)}


def labels(concept: ConceptClass) -> Any:
    """Every rule on every point of the declared domains."""
    columns = {name: domain.size for name, domain in concept.declared().items()}
    points = np.array(list(product(*(range(size) for size in columns.values()))), dtype=np.uint64)
    codes = {name: points[:, i] for i, name in enumerate(columns)}
    return np.array([concept.predictions(codes, h) for h in range(concept.size)])


def small(name: str) -> ConceptClass:
    single = name.startswith("threshold") or name in ("point", "interval")
    two = {"a": pp.Integers(0, 3), "b": pp.Integers(0, 2)}
    columns: dict[str, Any] = (
        {"x": pp.Integers(0, 7)} if single else two if name in ("stump", "rectangle", "halfspace") else BITS
    )
    return rule_class(name, columns)


@pytest.mark.parametrize("name", [name for name in RULES if name != "scorecard"])  # whose rules cannot be listed
def test_no_dimension_is_overstated(name: str) -> None:
    concept = small(name)
    table = labels(concept)
    assert 1 <= concept.shattered_points <= vc_dimension(table)
    assert concept.shattered_points <= mistake_depth(concept) <= littlestone_dimension(table)


@pytest.mark.parametrize(
    "concept",
    [
        pp.Stumps({"a": pp.Integers(0, 2), "b": pp.Integers(0, 2), "c": pp.Integers(0, 2)}),
        pp.Stumps({"a": pp.Integers(0, 0)}),
        DecisionLists(BITS, length=1),
        DecisionLists(BITS, length=2, negations=False),
        Halfspaces({"a": pp.Integers(0, 3), "b": pp.Integers(0, 3)}, weights=[-1, 0, 1]),
        Halfspaces({"a": pp.Integers(0, 3), "b": pp.Integers(0, 3)}, weights=[1, 2]),
        Halfspaces({"a": pp.Integers(0, 5)}, weights=1, cuts=3),
        Rectangles({"a": pp.Integers(0, 4), "b": pp.Integers(0, 1)}),
        FiniteClass([[0, 0, 1], [0, 1, 1], [1, 1, 1], [1, 0, 1]], pp.Integers(0, 2)),
    ],
    ids=[
        "three columns",
        "one value",
        "one test",
        "no negations",
        "unit weights",
        "positive weights",
        "strides",
        "boxes",
        "table",
    ],
)
def test_no_dimension_of_an_odd_class_is_overstated(concept: ConceptClass) -> None:
    named = (
        concept
        if None not in concept.declared()
        else concept.with_columns({"x": next(iter(concept.declared().values()))})
    )  # type: ignore[dict-item]
    table = labels(named)
    assert named.shattered_points <= vc_dimension(table)
    assert mistake_depth(named) <= littlestone_dimension(table)


def test_large_domains_have_deep_trees() -> None:
    assert mistake_depth(pp.Thresholds(pp.Floats())) == 64
    assert mistake_depth(pp.Thresholds(pp.Integers(0, 9), direction="both")) == 3
    assert mistake_depth(pp.Intervals(pp.Integers(0, 1023))) == 18


def test_the_bound_grows_with_what_is_asked() -> None:
    goal: dict[str, Any] = {"beta": "0.05", "epsilon": 1, "records_per_user": 4, "neighbours": "replace"}
    from fractions import Fraction

    goal["beta"] = Fraction(1, 20)
    few, many = (
        lower_agnostic(pp.Thresholds(pp.Integers(0, 99)), alpha=Fraction(1, k), **goal).n_users or 0 for k in (5, 50)
    )
    assert 0 < few < many


def test_a_class_without_known_dimensions_has_no_lower_bound() -> None:
    class Strange(pp.Thresholds):
        pass

    known = Strange(pp.Integers(0, 9))
    assert known.shattered_points == 1  # a class of cut-offs by another name
    with pytest.raises(ParameterError):
        pp.plan(pp.Thresholds(), epsilon=1)
