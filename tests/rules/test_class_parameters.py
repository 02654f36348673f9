"""Bad parameters, damaged files and data that do not fit: refused in words, before any data are folded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import privpac.rules as concepts
from privpac.data import Categories, Floats, Grid, Integers, UserData
from privpac.errors import ModelFileError, ParameterError, SchemaError, TooLargeError
from privpac.result import rule_from_dict, rule_to_dict
from privpac.rules import FiniteClass, Intervals, Parities, Points, Stumps, Thresholds
from privpac.rules.cuts import Threshold
from privpac.rules.enumerated import TableRule
from privpac.rules.intervals import MAX_POINTS, Interval
from privpac.rules.parities import MAX_COLUMNS, Parity
from privpac.rules.points import Point
from privpac.rules.stumps import Stump

TEN = Integers(0, 9)
BIT = Integers(0, 1)
ROWS = [[0, 1], [1, 1]]

REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Thresholds(10), TypeError, "domain must be a Domain"),  # type: ignore[arg-type]
    (lambda: Thresholds(math.nan), TypeError, "domain must be a Domain"),  # type: ignore[arg-type]
    (lambda: Thresholds(TEN, direction="up"), ParameterError, "'above', 'below' or 'both', got 'up'"),
    (lambda: Thresholds().size, ParameterError, "no domain yet"),
    (lambda: Thresholds(TEN, direction="both").littlestone_dimension, ParameterError, "one direction"),
    (lambda: Threshold("x", TEN, 11), ParameterError, "cut must be at least 0 and at most 10, got 11"),
    (lambda: Threshold("x", TEN, -1), ParameterError, "cut must be at least 0"),
    (lambda: Threshold("x", TEN, 1.5), TypeError, "cut must be an integer"),  # type: ignore[arg-type]
    (lambda: Threshold("x", TEN, 1, "both"), ParameterError, "'above' or 'below'"),
    (lambda: Threshold("x", 10, 1), TypeError, "domain must be a Domain"),  # type: ignore[arg-type]
    (lambda: Stumps("age"), TypeError, "map names to domains"),
    (lambda: Stumps({}), ParameterError, "at least one column"),
    (lambda: Stumps(["a", "a"]), ParameterError, "a column twice"),
    (lambda: Stumps({"a": 3}), TypeError, "must be a Domain"),  # type: ignore[dict-item]
    (lambda: Stumps({1: TEN}), TypeError, "must be text"),  # type: ignore[dict-item]
    (lambda: Stumps({"a": TEN}, "sideways"), ParameterError, "got 'sideways'"),
    (lambda: Stumps().size, ParameterError, "no columns yet"),
    (lambda: Stumps(["a"]).size, ParameterError, "have no domain yet"),
    (lambda: Stump({"a": TEN}, "b", 1), ParameterError, "feature must be one of"),
    (lambda: Stump({"a": TEN}, "a", 12), ParameterError, "cut must be"),
    (lambda: Points("colour"), TypeError, "domain must be a Domain"),  # type: ignore[arg-type]
    (lambda: Points(TEN, zero=1), TypeError, "zero must be True or False"),  # type: ignore[arg-type]
    (lambda: Points().size, ParameterError, "no domain yet"),
    (lambda: Point("x", TEN, 10), ParameterError, "code must be"),
    (lambda: Intervals("hour"), TypeError, "domain must be a Domain"),  # type: ignore[arg-type]
    (lambda: Intervals(Floats()), TooLargeError, r"at most 5000 values, got \d+; .*Grid\(lo, hi, step\)"),
    (lambda: Intervals(Integers(1, MAX_POINTS + 1)), TooLargeError, "Grid"),
    (lambda: Intervals(TEN).id_of(3, 2), ParameterError, "high must be at least 3"),
    (lambda: Interval("x", TEN, 4, 3), ParameterError, "high must be at least 4"),
    (lambda: Interval("x", TEN, 4, 11), ParameterError, "at most 10"),
    (lambda: FiniteClass([0, 1]), ParameterError, "rules by values"),
    (lambda: FiniteClass([]), ParameterError, "rules by values"),
    (lambda: FiniteClass([["a", "b"]]), ParameterError, "rules by values"),
    (lambda: FiniteClass([[0, 2]]), ParameterError, "0 and 1"),
    (lambda: FiniteClass([[0, -1]]), ParameterError, "0 and 1"),
    (lambda: FiniteClass([[0.0, math.nan]]), ParameterError, "0 and 1"),
    (lambda: FiniteClass(ROWS, TEN), ParameterError, "2 columns, the domain 10 values"),
    (lambda: FiniteClass(ROWS, "x"), TypeError, "domain must be a Domain"),  # type: ignore[arg-type]
    (lambda: FiniteClass(ROWS, {"a": BIT}, feature="a"), ParameterError, "feature names the only column"),
    (lambda: FiniteClass(ROWS, BIT, names=["one"]), ParameterError, "2 rules and 1 names"),
    (lambda: FiniteClass(ROWS, BIT, names="ab"), TypeError, "list of texts"),
    (lambda: FiniteClass([lambda x: x]), ParameterError, "functions need a domain"),
    (lambda: FiniteClass([lambda x: x], Integers(0, 1 << 22)), TooLargeError, "evaluations"),
    (lambda: FiniteClass(np.zeros(((1 << 20) + 1, 1))), TooLargeError, "rules"),
    (lambda: FiniteClass(ROWS).decode(0), ParameterError, "have no domain yet"),
    (lambda: TableRule({"x": BIT}, "012"), ParameterError, "text of 0 and 1"),
    (lambda: TableRule({"x": BIT}, "011"), ParameterError, "one digit per value"),
    (lambda: Parities("smoker"), TypeError, "map names to domains"),
    (lambda: Parities([]), ParameterError, "at least one column"),
    (lambda: Parities({"a": Integers(0, 2)}), ParameterError, "must have two values"),
    (lambda: Parities([f"b{j}" for j in range(MAX_COLUMNS + 1)]), TooLargeError, "at most 20 columns"),
    (lambda: Parities().size, ParameterError, "no columns yet"),
    (lambda: Parity({"a": BIT}, 2), ParameterError, "mask must be"),
]


@pytest.mark.parametrize(("build", "error", "words"), REFUSED)
def test_bad_parameters_are_refused_in_words(build: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        build()


CLASSES = [
    Thresholds(TEN, "x", "both"),
    Stumps({"x": TEN}),
    Points(TEN, "x", zero=True),
    Intervals(TEN, "x"),
    FiniteClass(ROWS, BIT, "x"),
    Parities({"x": BIT}),
]


@pytest.mark.parametrize("concept", CLASSES, ids=str)
def test_ids_outside_the_class_are_refused(concept: Any) -> None:
    for hypothesis in (-1, concept.size, 1 << 80):
        with pytest.raises(ParameterError, match=f"ids go from 0 to {concept.size - 1}"):
            concept.decode(hypothesis)
        with pytest.raises(ParameterError, match="ids go from 0"):
            concept.predictions({"x": np.zeros(1, dtype=np.uint64)}, hypothesis)


@pytest.mark.parametrize("concept", CLASSES, ids=str)
def test_damaged_rules_are_one_error(concept: Any) -> None:
    good = rule_to_dict(concept.decode(1))
    for name in good:
        if name != "kind":
            with pytest.raises(ModelFileError):
                rule_from_dict({key: value for key, value in good.items() if key != name})
    for damage in (
        {"cut": "99"},
        {"cut": "x"},
        {"direction": "up"},
        {"code": "-3"},
        {"low": 9},
        {"high": 99},
        {"bits": "b0123"},
        {"mask": 7},
    ):
        if damage.keys() <= good.keys():
            with pytest.raises(ModelFileError):
                rule_from_dict(good | damage)


def test_data_that_do_not_fit_are_refused_before_any_fold() -> None:
    pair = UserData.from_users([[(1, 2, 1)]], features=["a", "b"])
    with pytest.raises(ParameterError, match="name the feature"):
        Thresholds(TEN).bind(pair)
    with pytest.raises(SchemaError, match="not among the features"):
        Thresholds(TEN, "c").bind(pair)
    with pytest.raises(ParameterError, match="have no domain"):
        Stumps().bind(pair)
    with pytest.raises(SchemaError, match="outside"):
        Points(Integers(5, 9), "a").bind(pair)
    with pytest.raises(ParameterError, match="must have two values"):
        Parities(["a"]).bind(pair.bind({"a": TEN}))
    with pytest.raises(TooLargeError, match="Grid"):
        Intervals(feature="a").bind(pair.bind({"a": Floats()}))
    with pytest.raises(ParameterError, match="2 columns, the domain 10 values"):
        FiniteClass(ROWS, feature="a").bind(pair.bind({"a": TEN}))
    unlabelled = UserData.from_users([[1, 2]], labelled=False, features={"x": TEN})
    for concept in CLASSES[:4]:
        with pytest.raises(ParameterError, match="no labels"):
            concept.bind(unlabelled)


def test_prediction_refuses_missing_values_and_wrong_shapes() -> None:
    stump = Stumps({"a": TEN, "b": Grid(0, 1, 0.5)}).decode(3)
    assert stump.predict({"a": [1, 99, -5], "b": [None, None, None]}).tolist() == [0, 1, 0]
    assert stump.predict(np.array([[2.0, math.nan], [9.0, 0.5]])).tolist() == [0, 1]
    with pytest.raises(SchemaError, match="1 missing"):
        stump.predict({"a": [1, None]})
    with pytest.raises(SchemaError, match="are missing"):
        stump.predict({"b": [0.5]})
    with pytest.raises(SchemaError, match="2 columns"):
        stump.predict(np.zeros((3, 1)))


def test_names_are_exported_lazily() -> None:
    assert set(concepts.__all__) <= set(dir(concepts))
    assert {
        "Thresholds",
        "Stumps",
        "Points",
        "Intervals",
        "FiniteClass",
        "Parities",
        "Exceeds",
        "Mean",
        "Regret",
    } <= set(concepts.__all__)
    for name in concepts.__all__:
        assert getattr(concepts, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Circles'"):
        concepts.Circles  # noqa: B018


def test_sizes_count_every_rule() -> None:
    assert Thresholds(Floats(), direction="both").size == 2 * (2**64 + 1)
    assert Stumps({"a": TEN, "b": Categories(["u", "v"])}).size == 2 * (11 + 3)
    assert (Points(TEN).size, Points(TEN, zero=True).size) == (10, 11)
    assert Intervals(Integers(1, MAX_POINTS)).size == 5000 * 5001 // 2 + 1
    assert Parities([f"b{j}" for j in range(20)]).size == 1 << 20
    assert Thresholds(Floats()).bits == 65
    assert Thresholds(Integers(1, 7)).littlestone_dimension == 3
    assert (Points(TEN).littlestone_dimension, Parities(["a", "b"]).littlestone_dimension) == (1, 2)
