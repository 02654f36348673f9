"""A parameter of ``pp.plan`` that is None was left out: a plan or an error of ours, never one from inside."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import privpac as pp
from privpac.errors import ParameterError, PrivpacError

ONE, TWO = {"x": pp.Integers(0, 20)}, {"a": pp.Integers(0, 5), "b": pp.Integers(0, 6)}
CUTS = pp.Thresholds(pp.Integers(0, 20), "x")
SUBJECTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "threshold": ("threshold", {"features": ONE}),
    "stump": ("stump", {"features": TWO}),
    "conjunction": ("conjunction", {"features": TWO}),
    "small tree": ("small-tree", {"features": TWO}),
    "class": (CUTS, {}),
    "class without a domain": (pp.Thresholds(), {}),
    "path": (pp.PathTree(7), {}),
    "star": (pp.StarTree(pp.Integers(0, 7), "x"), {}),
    "open star": (pp.StarTree(), {"delta": "1e-6"}),
    "prefix": (pp.PrefixTree(8), {"delta": "1e-6"}),
    "histogram": ("histogram", {"bins": 4}),
    "discrete": ("discrete", {"values": 3}),
    "product": ("product", {"values": 2, "columns": 2}),
    "gaussian": ("gaussian", {"radius": 10}),
    "selection": ("selection", {"candidates": 3}),
    "vocabulary": ("vocabulary", {"delta": "1e-6"}),
    "median": ("median", {"bits": 16}),
    "central": (CUTS, {"model": "central"}),
    "local": (CUTS, {"model": "local"}),
    "shuffle": (CUTS, {"model": "shuffle", "delta": "1e-6"}),
    "service": (CUTS, {"queries": 3, "alpha": "0.3", "epsilon": 8}),
}
SHAPES = ("bins", "values", "candidates", "columns", "k", "d", "radius", "variance", "bits", "domain", "max_values")
OPTIONS = [one.name for one in inspect.signature(pp.plan).parameters.values() if one.kind is one.KEYWORD_ONLY]


QUICK = ("class without a domain", "path", "open star", "histogram", "vocabulary", "median", "central", "service")
ALL = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in SUBJECTS]


def _answer(subject: Any, told: dict[str, Any]) -> Any:
    """The rows of a plan, or the error of ours; any other error is a failure."""
    try:
        return pp.plan(subject, **told).rows
    except PrivpacError as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", ALL)
def test_none_is_left_out(name: str) -> None:
    subject, more = SUBJECTS[name]
    told = {"epsilon": 1, "records_per_user": 4, **more}
    plain = _answer(subject, told)
    for option in (*OPTIONS, *SHAPES):
        without = {key: value for key, value in told.items() if key != option}
        expected = plain if without == told else _answer(subject, without)
        assert _answer(subject, {**told, option: None}) == expected, option


@pytest.mark.parametrize("name", ALL)
def test_a_value_of_another_type_is_named(name: str) -> None:
    subject, more = SUBJECTS[name]
    for option in (*OPTIONS, *SHAPES):
        for odd in (object(), "x", [], -1, float("nan"), {}):
            said = ""
            try:
                pp.plan(subject, **{"epsilon": 1, "records_per_user": 4, **more, option: odd})
            except PrivpacError:
                pass
            except TypeError as error:  # of ours: names the parameter, or what was to be planned
                said = str(error)
            assert not said or said.split()[0] in (*OPTIONS, *SHAPES, "a", "give"), (option, odd)


def test_a_shape_does_not_go_with_agreement() -> None:
    with pytest.raises(ParameterError, match="radius describes a family"):
        pp.plan(CUTS, model="central", epsilon=1, radius=3)
