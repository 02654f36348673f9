"""Boxes on public grids: kernel against brute force, printed words against predictions, sizes and limits."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers, UserData
from privpac.errors import ModelFileError, ParameterError, SchemaError, TooLargeError
from privpac.result import rule_from_dict, rule_to_dict
from privpac.rules.boxes import Box, Rectangles
from privpac.rules.profile import Exceeds, Mean, Statistic

sys.path.insert(0, str(Path(__file__).parent))
import enumerated as brute

PLANE: dict[str, Domain] = {"x": Integers(-2, 4), "y": Grid(0, 1, 0.25)}
SPACE: dict[str, Domain] = {"x": Integers(0, 3), "c": Categories(["a", "b", "c"], ordered=True), "z": Integers(5, 6)}
LINE: dict[str, Domain] = {"x": Integers(0, 5)}
ONE: dict[str, Domain] = {"x": Integers(0, 3), "k": Integers(7, 7)}
CASES = [
    (Rectangles(PLANE), PLANE),
    (Rectangles(PLANE, cuts=3), PLANE),
    (Rectangles(PLANE, cuts={"x": [0, 2], "y": 2}), PLANE),
    (Rectangles(SPACE), SPACE),
    (Rectangles(LINE, cuts=4), LINE),
    (Rectangles(ONE), ONE),
    (Rectangles(ONE, cuts=1), ONE),
]
cases = st.sampled_from(CASES)
statistics = st.sampled_from(brute.STATISTICS)


@settings(max_examples=60, deadline=None)
@given(st.data(), cases, statistics)
def test_profile_equals_brute_force(
    data: st.DataObject, case: tuple[Rectangles, dict[str, Domain]], statistic: Statistic
) -> None:
    concept, columns = case
    brute.check_profile(concept, columns, data.draw(brute.users_of(columns)), statistic)


@settings(max_examples=30, deadline=None)
@given(st.data(), cases, statistics)
def test_profiles_of_disjoint_users_add_up(
    data: st.DataObject, case: tuple[Rectangles, dict[str, Domain]], statistic: Statistic
) -> None:
    concept, columns = case
    draw = brute.users_of(columns)
    brute.check_addition(concept, columns, data.draw(draw), data.draw(draw), statistic)


@pytest.mark.parametrize(("concept", "columns"), CASES)
def test_rules_predict_print_and_reload_alike(concept: Rectangles, columns: dict[str, Domain]) -> None:
    brute.check_rules(concept, columns)


@pytest.mark.parametrize("concept", [Rectangles(PLANE), Rectangles(PLANE, cuts=3)])
def test_the_printed_condition_is_the_prediction(concept: Rectangles) -> None:
    points = brute.grid(PLANE)
    for h in range(concept.size):
        rule = concept.decode(h)
        said = rule.predict(brute.frame(PLANE, points)).tolist()
        assert said == [int(brute.readable(rule.condition(), PLANE, point)) for point in points]


@settings(max_examples=40, deadline=None)
@given(st.data(), cases)
def test_labellings_and_consistent_rules(data: st.DataObject, case: tuple[Rectangles, dict[str, Domain]]) -> None:
    concept, columns = case
    records = [record for user in data.draw(brute.users_of(columns)) for record in user]
    brute.check_labellings(concept, columns, records[:6])


@settings(max_examples=20, deadline=None)
@given(brute.users_of(PLANE))
def test_erm_is_the_first_rule_of_least_mean_error(users: brute.Users) -> None:
    concept = Rectangles(PLANE, cuts=3)
    totals = brute.brute_profile(concept, PLANE, users, Mean(1 << 20))
    assert concept.erm(brute.data_of(PLANE, users)) == totals.index(min(totals))


@pytest.mark.parametrize(
    "shape", [(1,), (2,), (3,), (4,), (2, 1), (2, 2), (3, 2), (3, 3), (4, 3), (2, 2, 2), (3, 2, 2), (1, 1)]
)
def test_vc_dimension_is_exact(shape: tuple[int, ...]) -> None:
    columns: dict[str, Domain] = {f"x{j}": Integers(0, count - 1) for j, count in enumerate(shape)}
    concept = Rectangles(columns)
    assert concept.vc_dimension == brute.brute_dimension(concept, columns)


def test_cells_come_from_the_domain_alone() -> None:
    concept = Rectangles({"x": Integers(0, 99), "y": Floats()}, cuts={"x": 4, "y": [-1.5, 0, 2.5]})
    assert concept.size == 1 + 10 * 10
    conditions = [concept.decode(h).condition() for h in range(concept.size)]
    assert conditions[0] == "never"
    assert conditions.count("always") == 1
    assert "25 <= x <= 49 and y >= 2.5" in conditions
    assert "x <= 24" in conditions
    shown = {float(c.split("y >= ")[1]) for c in conditions if "y >= " in c}
    assert shown == {-1.5, 0.0, 2.5}


def test_floats_and_dates_without_declared_cuts() -> None:
    concept = Rectangles({"x": Floats(), "day": Dates("2020-01-01", "2020-12-31")}, cuts=2)
    assert concept.size == 10
    users = [[(-3.5, "2020-03-01", 0), (2.0, "2020-11-05", 1)], [(1e300, "2020-12-31", 1)]]
    data = UserData.from_users(users, features=concept.declared())
    best = concept.erm(data)
    rule = concept.decode(best)
    assert rule.predict({"x": [-3.5, 2.0, 1e300], "day": ["2020-03-01", "2020-11-05", "2020-12-31"]}).tolist() == [
        0,
        1,
        1,
    ]


@pytest.mark.parametrize(("columns", "cells"), [(1, 16), (2, 16), (3, 8), (4, 5), (5, 3), (6, 3), (8, 2), (11, 2)])
def test_default_cells_keep_the_class_small(columns: int, cells: int) -> None:
    concept = Rectangles({f"x{j}": Integers(0, 999) for j in range(columns)})
    assert concept.size == 1 + (cells * (cells + 1) // 2) ** columns


def test_default_cells_leave_small_domains_whole() -> None:
    concept = Rectangles({"x": Integers(0, 1), "y": Integers(0, 4), "z": Integers(0, 10**6)})
    assert concept.size == 1 + 3 * 15 * 136


@pytest.mark.parametrize(
    "build",
    [
        lambda: Rectangles({f"x{j}": Integers(0, 9) for j in range(13)}),
        lambda: Rectangles({"x": Integers(0, 999), "y": Integers(0, 999)}, cuts=100),
        lambda: Rectangles(["x", "y"], cuts=100).with_columns({"x": Integers(0, 999), "y": Integers(0, 999)}),
    ],
)
def test_too_many_boxes_are_refused_from_public_numbers(build: object) -> None:
    with pytest.raises(TooLargeError, match="coarser Grid"):
        build()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("domains", "cuts", "error"),
    [
        ({}, None, ParameterError),
        ("xy", None, TypeError),
        (5, None, TypeError),
        ({"x": 5}, None, TypeError),
        ({1: Integers(0, 1)}, None, TypeError),
        (["x", "x"], None, ParameterError),
        (PLANE, 0, ParameterError),
        (PLANE, -3, ParameterError),
        (PLANE, 2.5, TypeError),
        (PLANE, True, TypeError),
        (PLANE, float("nan"), TypeError),
        (PLANE, {"q": 3}, ParameterError),
        (PLANE, {"x": "12"}, TypeError),
        (PLANE, {"x": [3, 1]}, ParameterError),
        (PLANE, {"x": [1, 1]}, ParameterError),
        (PLANE, {"x": [99]}, ParameterError),
        (PLANE, {"y": [0.3]}, ParameterError),
        (PLANE, {"y": [float("nan")]}, ParameterError),
    ],
)
def test_bad_parameters_are_refused(domains: object, cuts: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        Rectangles(domains, cuts)  # type: ignore[arg-type]


def test_an_unbound_class_asks_for_domains() -> None:
    unbound = Rectangles(["x", "y"])
    with pytest.raises(ParameterError, match="no domain"):
        _ = unbound.size
    with pytest.raises(ParameterError, match="no domain"):
        unbound.profile(UserData.from_users([[(1, 2, 0)]], features=["x", "y"]), Exceeds(0))
    with pytest.raises(SchemaError):
        unbound.profile(
            UserData.from_users([[(1, 2, 0)]], features={"x": Integers(0, 3), "q": Integers(0, 3)}), Exceeds(0)
        )
    with pytest.raises(ParameterError):
        Rectangles(PLANE).decode(-1)
    with pytest.raises(ParameterError):
        Rectangles(PLANE).decode(Rectangles(PLANE).size)


def test_classes_are_values() -> None:
    a, b = Rectangles(PLANE, cuts={"x": [0, 2]}), Rectangles(dict(PLANE), cuts={"x": (0, 2)})
    assert a == b
    assert hash(a) == hash(b)
    assert pickle.loads(pickle.dumps(a)) == a
    assert a != Rectangles({"y": PLANE["y"], "x": PLANE["x"]}, cuts={"x": [0, 2]})


def test_damaged_boxes_are_not_read() -> None:
    good = rule_to_dict(Rectangles(PLANE).decode(7))
    assert isinstance(rule_from_dict(good), Box)
    for bad in (
        {"bounds": [["3", "1"], ["0", "0"]]},
        {"bounds": [["0", "0"]]},
        {"bounds": [["0", "99"], ["0", "0"]]},
        {"columns": 3},
    ):
        with pytest.raises(ModelFileError):
            rule_from_dict(good | bad)


def test_many_users_in_chunks_equal_one_by_one() -> None:
    rng = np.random.default_rng(5)
    users = [
        [(int(x), float(y) / 4, int(b)) for x, y, b in zip(*rng.integers((-2, 0, 0), (5, 5, 2), (m, 3)).T)]
        for m in range(40)
    ] * 3
    concept, one_by_one = Rectangles(PLANE, cuts=4), Rectangles(PLANE, cuts=4).empty_profile()
    for user in users:
        one_by_one = one_by_one + concept.profile(brute.data_of(PLANE, [user]), Mean())
    assert concept.profile(brute.data_of(PLANE, users), Mean()).blocks() == one_by_one.blocks()
