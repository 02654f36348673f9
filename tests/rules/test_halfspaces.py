"""Halfspaces on public grids: kernel against brute force, exact arithmetic, words in the user's units."""

from __future__ import annotations

import pickle
import sys
from fractions import Fraction
from itertools import product
from math import gcd
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers, UserData
from privpac.errors import ModelFileError, ParameterError, TooLargeError
from privpac.result import rule_from_dict, rule_to_dict
from privpac.rules.halfspaces import Halfspace, Halfspaces
from privpac.rules.profile import Mean, Statistic

sys.path.insert(0, str(Path(__file__).parent))
import enumerated as brute

PLANE: dict[str, Domain] = {"x": Integers(-2, 3), "y": Integers(0, 4)}
COARSE: dict[str, Domain] = {"x": Integers(0, 22), "y": Integers(10, 16)}
DECIMAL: dict[str, Domain] = {"x": Grid(-0.5, 1, 0.25), "y": Integers(0, 3)}
LINE: dict[str, Domain] = {"x": Integers(3, 9)}
SPACE: dict[str, Domain] = {"x": Integers(0, 2), "b": Integers(0, 1), "k": Integers(5, 5)}
Case = tuple[Halfspaces, dict[str, Domain]]
CASES: list[Case] = [
    (Halfspaces(PLANE), PLANE),
    (Halfspaces(PLANE, weights=[-1, 3]), PLANE),
    (Halfspaces(COARSE, weights=1, cuts=4), COARSE),
    (Halfspaces(COARSE, weights=range(-2, 3), cuts={"x": 3}), COARSE),
    (Halfspaces(DECIMAL), DECIMAL),
    (Halfspaces(LINE), LINE),
    (Halfspaces(LINE, cuts=2), LINE),
    (Halfspaces(SPACE), SPACE),
]
cases = st.sampled_from(CASES)
statistics = st.sampled_from(brute.STATISTICS)


@settings(max_examples=60, deadline=None)
@given(st.data(), cases, statistics)
def test_profile_equals_brute_force(data: st.DataObject, case: Case, statistic: Statistic) -> None:
    concept, columns = case
    brute.check_profile(concept, columns, data.draw(brute.users_of(columns)), statistic)


@settings(max_examples=30, deadline=None)
@given(st.data(), cases, statistics)
def test_profiles_of_disjoint_users_add_up(data: st.DataObject, case: Case, statistic: Statistic) -> None:
    concept, columns = case
    draw = brute.users_of(columns)
    brute.check_addition(concept, columns, data.draw(draw), data.draw(draw), statistic)


@pytest.mark.parametrize(("concept", "columns"), CASES)
def test_rules_predict_print_and_reload_alike(concept: Halfspaces, columns: dict[str, Domain]) -> None:
    brute.check_rules(concept, columns)


@pytest.mark.parametrize(("concept", "columns"), CASES)
def test_the_printed_condition_is_the_prediction(concept: Halfspaces, columns: dict[str, Domain]) -> None:
    points = brute.grid(columns)
    for h in range(concept.size):
        rule = concept.decode(h)
        said = rule.predict(brute.frame(columns, points)).tolist()
        assert said == [int(brute.readable(rule.condition(), columns, point)) for point in points]


def wanted_functions(concept: Halfspaces, weights: list[int]) -> set[tuple[int, ...]]:
    """Truth tables straight from the definition, in rationals and over far more thresholds than matter."""
    domains = list(concept._columns.values())
    points = list(product(*(range(domain.size) for domain in domains)))
    out = {(0,) * len(points), (1,) * len(points)}
    for vector in product(weights, repeat=len(domains)):
        if any(vector):
            common = gcd(*vector)
            totals = [
                sum(Fraction(w // common * c, s) for w, c, s in zip(vector, point, concept.strides)) for point in points
            ]
            reach = int(max(map(abs, totals))) + 2
            out |= {tuple(int(total > t) for total in totals) for t in range(-reach, reach + 1)}
    return out


@pytest.mark.parametrize(
    ("concept", "weights"),
    [
        (Halfspaces(PLANE), [-2, -1, 0, 1, 2]),
        (Halfspaces(PLANE, weights=[-1, 3]), [-1, 3]),
        (Halfspaces(PLANE, weights=[2, 4]), [2, 4]),
        (Halfspaces(COARSE, weights=1, cuts=4), [-1, 0, 1]),
        (Halfspaces(LINE, cuts=2), [-2, -1, 0, 1, 2]),
    ],
)
def test_the_class_holds_all_rules_of_the_definition(concept: Halfspaces, weights: list[int]) -> None:
    points = list(product(*(range(domain.size) for domain in concept._columns.values())))
    codes = {name: np.array([p[j] for p in points], dtype=np.uint64) for j, name in enumerate(concept._columns)}
    got = {tuple(concept.predictions(codes, h).tolist()) for h in range(concept.size)}
    assert got == wanted_functions(concept, weights)
    constants = [h for h in range(concept.size) if len(set(concept.predictions(codes, h).tolist())) == 1]
    assert constants == [0, 1]


@settings(max_examples=40, deadline=None)
@given(st.data(), cases)
def test_labellings_and_consistent_rules(data: st.DataObject, case: Case) -> None:
    concept, columns = case
    records = [record for user in data.draw(brute.users_of(columns)) for record in user]
    brute.check_labellings(concept, columns, records[:6])


@settings(max_examples=20, deadline=None)
@given(brute.users_of(PLANE))
def test_erm_is_the_first_rule_of_least_mean_error(users: brute.Users) -> None:
    concept = Halfspaces(PLANE, weights=1)
    totals = brute.brute_profile(concept, PLANE, users, Mean(1 << 20))
    assert concept.erm(brute.data_of(PLANE, users)) == totals.index(min(totals))


@pytest.mark.parametrize(
    ("shape", "weights"),
    [((1,), 1), ((2,), 1), ((4,), 1), ((4,), [1]), ((2, 2), 1), ((3, 3), 2), ((2, 2, 2), 1), ((4, 3), [0, 1])],
)
def test_vc_dimension_is_an_upper_bound(shape: tuple[int, ...], weights: int | list[int]) -> None:
    columns: dict[str, Domain] = {f"x{j}": Integers(0, count - 1) for j, count in enumerate(shape)}
    concept = Halfspaces(columns, weights=weights)
    true = brute.brute_dimension(concept, columns)
    assert true <= concept.vc_dimension <= len(shape) + 1
    if weights in (1, 2) and min(shape) > 1:
        assert concept.vc_dimension == true


def test_words() -> None:
    def said(domains: dict[str, Domain], **options: object) -> set[str]:
        concept = Halfspaces(domains, **options)  # type: ignore[arg-type]
        return {concept.decode(h).condition() for h in range(concept.size)}

    assert "2*x - 3*y > 7" in said({"x": Integers(0, 9), "y": Integers(0, 9)}, weights=3)
    assert {"x > 3", "x < 4", "never", "always"} <= said({"x": Integers(0, 9)})
    money = said({"age": Integers(0, 99), "income": Grid(0, 99000, 1000)}, cuts=10)
    assert "1000*age + income > 50000" in money
    assert "-2000*age + income > 0" in money
    assert {"x > 0.35", "-x + y > -0.1"} <= said({"x": Grid(0, 1, 0.05), "y": Grid(0, 1, 0.05)}, weights=1, cuts=30)
    assert "(day - 2020-01-01) > 40" in said({"day": Dates("2020-01-01", "2020-12-31")}, cuts=40)


def test_units_are_round_and_few() -> None:
    columns: dict[str, Domain] = {
        "a": Integers(0, 15),
        "b": Integers(0, 16),
        "c": Integers(0, 99),
        "d": Integers(1, 3 * 10**6),
    }
    concept = Halfspaces(columns, weights=[0, 1])
    assert concept.strides == (1, 2, 10, 200000)
    assert Halfspaces(columns, weights=[0, 1], cuts={"d": 3}).strides == (1, 2, 10, 10**6)


def test_wide_domains_stay_exact() -> None:
    columns: dict[str, Domain] = {"x": Integers(0, 2**50), "y": Integers(0, 2**50)}
    concept = Halfspaces(columns, weights=1, cuts=8)
    edge = concept.strides[0]
    users: brute.Users = [[(edge, 1, 1), (edge, 0, 0), (edge - 1, 0, 0)], [(edge - 1, 1, 0), (2**50, 2**50, 1)]]
    data = UserData.from_users(users, features=columns)
    assert brute.scores(concept, data, Mean()) == brute.brute_profile(concept, columns, users, Mean())
    rules = [concept.decode(h) for h in range(concept.size)]
    sharp = next(rule for rule in rules if rule.weights == (1, 1) and rule.threshold == 1)
    assert sharp.condition() == f"x + y > {edge}"
    assert sharp.predict({"x": [edge, edge], "y": [1, 0]}).tolist() == [1, 0]


@pytest.mark.parametrize(
    "build",
    [
        lambda: Halfspaces({f"x{j}": Integers(0, 9) for j in range(9)}),
        lambda: Halfspaces({f"x{j}": Integers(0, 9) for j in range(40)}, weights=1),
        lambda: Halfspaces({"x": Integers(0, 9), "y": Integers(0, 9)}, weights=10**6),
        lambda: Halfspaces({"x": Integers(0, 999), "y": Integers(0, 999)}, weights=30, cuts=1000),
        lambda: Halfspaces({"x": Integers(0, 2**64 - 1), "y": Integers(0, 9)}),
        lambda: Halfspaces(["x", "y"]).with_columns({"x": Integers(0, 2**63), "y": Integers(0, 2**63)}),
    ],
)
def test_large_classes_are_refused_from_public_numbers(build: object) -> None:
    with pytest.raises(TooLargeError, match=r"fewer|coarser"):
        build()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("domains", "weights", "cuts", "error"),
    [
        ({}, 1, 16, ParameterError),
        ({"x": Floats()}, 1, 16, ParameterError),
        ({"x": Categories(["a", "b"])}, 1, 16, ParameterError),
        ("x", 1, 16, TypeError),
        (PLANE, 0, 16, ParameterError),
        (PLANE, -1, 16, ParameterError),
        (PLANE, 1.5, 16, TypeError),
        (PLANE, "12", 16, TypeError),
        (PLANE, [], 16, ParameterError),
        (PLANE, [0], 16, ParameterError),
        (PLANE, [0.5], 16, TypeError),
        (PLANE, [float("nan")], 16, TypeError),
        (PLANE, [2**40], 16, ParameterError),
        (PLANE, 1, 0, ParameterError),
        (PLANE, 1, None, TypeError),
        (PLANE, 1, {"x": [1, 2]}, TypeError),
        (PLANE, 1, {"q": 2}, ParameterError),
    ],
)
def test_bad_parameters_are_refused(domains: object, weights: object, cuts: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        Halfspaces(domains, weights, cuts)  # type: ignore[arg-type]


def test_classes_are_values() -> None:
    a, b = Halfspaces(PLANE, weights=2), Halfspaces(dict(PLANE), weights=[2, 1, 0, -1, -2])
    assert a == b
    assert hash(a) == hash(b)
    assert pickle.loads(pickle.dumps(a)) == a


def test_damaged_halfspaces_are_not_read() -> None:
    good = rule_to_dict(Halfspaces(PLANE).decode(9))
    assert isinstance(rule_from_dict(good), Halfspace)
    for bad in (
        {"weights": [1]},
        {"strides": ["0", "1"]},
        {"threshold": str(2**70)},
        {"weights": [2**62, 1]},
        {"strides": None},
    ):
        with pytest.raises(ModelFileError):
            rule_from_dict(good | bad)
