"""Rule files whose leaves are something else: refused, or a rule that can be shown and saved again."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from privpac.data import Categories, Integers
from privpac.distributions import DiscreteDistribution, FamilyDistribution, GaussianDistribution, HistogramDistribution
from privpac.errors import ModelFileError, PrivpacError
from privpac.result import Released, rule_to_dict
from privpac.rules import DecisionLists, FiniteClass, Intervals, Parities, Points, Rectangles, Stumps, Thresholds
from privpac.rules.small_trees import SmallTrees

TEN, BIT = Integers(0, 9), Integers(0, 1)
RULES: list[Any] = [
    Thresholds(TEN, "x", "both").decode(3),
    Points(TEN, "x").decode(3),
    Intervals(TEN, "x").decode(7),
    Stumps({"x": TEN, "z": BIT}).decode(5),
    SmallTrees({"x": TEN, "k": Categories(["a", "b", "c"])}, missing=["x"]).decode(4321),
    Parities({"a": BIT, "b": BIT}).decode(3),
    FiniteClass([[0, 1], [1, 0]], BIT, "x", names=["one", "two"]).decode(1),
    Rectangles({"x": TEN, "z": TEN}).decode(9),
    DecisionLists({"a": BIT, "b": BIT}).decode(5),
    DiscreteDistribution("x", Categories(["a", "b"]), (1, 2)),
    HistogramDistribution("x", (0, 1, 2), (1, 2)),
    GaussianDistribution(("x", "z"), (0.0, 1.0), ((1.0, 0.0), (0.0, 1.0))),
    FamilyDistribution("x", "expon", (0.0, 2.0)),
]
NAMES = ("feature", "features", "label", "name", "names", "family")
OTHERS: list[Any] = [None, 5, -1, "x", [], {}, "1/2", True, 1 << 70, 3.5, ["x"], {"name": 3}, "9" * 24, "é\n"]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    if path:
        yield path


def changed(body: Any, path: tuple[Any, ...], value: Any) -> str:
    body = copy.deepcopy(body)
    place = body
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(body)


def body_of(rule: Any) -> Any:
    return json.loads(Released(rule, None).to_json())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_names_that_are_no_text_are_refused(rule: Any) -> None:
    body = body_of(rule)
    names = [path for path in leaves(body["value"], ("value",)) if set(path) & set(NAMES) and "parameters" not in path]
    assert names
    for path in names:
        for value in (5, True, ["x", 3], {"a": 1}, 3.5):
            with pytest.raises(ModelFileError):
                Released.from_json(changed(body, path, value))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_changed_files_are_refused_or_can_be_shown_and_saved(rule: Any) -> None:
    random_ = random.Random(7)
    body = body_of(rule)
    paths = list(leaves(body))
    for _ in range(150):
        text = changed(body, random_.choice(paths), random_.choice(OTHERS))
        try:
            found = Released.from_json(text)
        except PrivpacError:
            continue
        assert str(found)
        assert repr(found)
        assert Released.from_json(found.to_json()).to_json() == found.to_json()


def test_the_rules_cover_the_registered_kinds_of_these_rooms() -> None:
    assert len({rule_to_dict(rule)["kind"] for rule in RULES}) == len(RULES)
