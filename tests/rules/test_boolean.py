"""Conjunctions and disjunctions: kernel against brute force, words against predictions, sizes and dimensions."""

from __future__ import annotations

import pickle
import sys
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Domain, Grid, Integers, UserData
from privpac.errors import ModelFileError, ParameterError, TooLargeError
from privpac.result import rule_from_dict, rule_to_dict
from privpac.rules.boxes import Conjunction, Conjunctions, Disjunction, Disjunctions
from privpac.rules.profile import Exceeds, Mean, Statistic

sys.path.insert(0, str(Path(__file__).parent))
import enumerated as brute

THREE: dict[str, Domain] = {"a": Integers(0, 1), "b": Categories(["no", "yes"]), "c": Integers(0, 1)}
FOUR: dict[str, Domain] = {f"b{j}": Integers(0, 1) for j in range(4)}
ONE: dict[str, Domain] = {"a": Integers(0, 1)}
Case = tuple[Conjunctions | Disjunctions, dict[str, Domain]]
CASES: list[Case] = [
    (kind(columns, negations), columns)
    for kind in (Conjunctions, Disjunctions)
    for columns in (ONE, THREE, FOUR)
    for negations in (True, False)
]
cases = st.sampled_from(CASES)
statistics = st.sampled_from(brute.STATISTICS)


@settings(max_examples=80, deadline=None)
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
def test_rules_predict_print_and_reload_alike(concept: Conjunctions | Disjunctions, columns: dict[str, Domain]) -> None:
    brute.check_rules(concept, columns)


@pytest.mark.parametrize(("concept", "columns"), [case for case in CASES if case[1] is not THREE])
def test_the_printed_condition_is_the_prediction(
    concept: Conjunctions | Disjunctions, columns: dict[str, Domain]
) -> None:
    points = brute.grid(columns)
    for h in range(concept.size):
        rule = concept.decode(h)
        said = rule.predict(brute.frame(columns, points)).tolist()
        assert said == [int(brute.readable(rule.condition(), columns, point)) for point in points]


@settings(max_examples=40, deadline=None)
@given(st.data(), cases)
def test_labellings_and_consistent_rules(data: st.DataObject, case: Case) -> None:
    concept, columns = case
    records = [record for user in data.draw(brute.users_of(columns)) for record in user]
    brute.check_labellings(concept, columns, records[:6])


@settings(max_examples=20, deadline=None)
@given(brute.users_of(THREE))
def test_erm_is_the_first_rule_of_least_mean_error(users: brute.Users) -> None:
    concept = Disjunctions(THREE)
    totals = brute.brute_profile(concept, THREE, users, Mean(1 << 20))
    assert concept.erm(brute.data_of(THREE, users)) == totals.index(min(totals))


@pytest.mark.parametrize("kind", [Conjunctions, Disjunctions])
@pytest.mark.parametrize("negations", [True, False])
@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_vc_dimension_is_exact(kind: type[Conjunctions | Disjunctions], negations: bool, d: int) -> None:
    columns: dict[str, Domain] = {f"x{j}": Integers(0, 1) for j in range(d)}
    concept = kind(columns, negations=negations)
    assert concept.vc_dimension == brute.brute_dimension(concept, columns)


@pytest.mark.parametrize("negations", [True, False])
def test_every_function_of_the_class_is_there_once(negations: bool) -> None:
    columns: dict[str, Domain] = {name: Integers(0, 1) for name in "abc"}
    points = list(product((0, 1), repeat=3))
    asked = (None, 1, 0) if negations else (None, 1)
    terms = list(product(asked, repeat=3))
    wanted = {tuple(int(all(want in (None, x) for want, x in zip(term, p))) for p in points) for term in terms} | {
        (0,) * 8
    }
    concept = Conjunctions(columns, negations=negations)
    got = [tuple(concept.decode(h).predict(brute.frame(columns, points)).tolist()) for h in range(concept.size)]
    assert len(set(got)) == len(got)
    assert set(got) == wanted
    opposite = {tuple(int(any(want == x for want, x in zip(term, p))) for p in points) for term in terms} | {(1,) * 8}
    concept_or = Disjunctions(columns, negations=negations)
    got = [tuple(concept_or.decode(h).predict(brute.frame(columns, points)).tolist()) for h in range(concept_or.size)]
    assert len(set(got)) == len(got)
    assert set(got) == opposite


def test_words() -> None:
    columns: dict[str, Domain] = {"a": Integers(0, 1), "b": Categories([False, True]), "sex": Categories(["f", "m"])}
    both = Conjunctions(columns)
    said = {str(both.decode(h, label="late")) for h in range(both.size)}
    assert {
        "late never",
        "late always",
        "late when a and not b",
        "late when not a and sex = m",
        "late when b and sex = f",
    } <= said
    either = {str(Disjunctions(columns).decode(h)) for h in range(28)}
    assert {"1 always", "1 never", "1 when a or not b or sex = f"} <= either
    assert Conjunctions(columns, negations=False).size == 9
    assert not any("not" in str(Conjunctions(columns, negations=False).decode(h)) for h in range(9))


def test_boolean_columns_are_read_as_booleans() -> None:
    columns: dict[str, Domain] = {"a": Integers(0, 1), "b": Integers(0, 1)}
    data = UserData.from_users([[(True, False, 1), (True, True, 0)], [(False, False, 0)]], features=columns)
    best = Conjunctions(columns).decode(Conjunctions(columns).erm(data))
    assert str(best) == "1 when a and not b"
    assert best.predict({"a": [True, False], "b": [False, False]}).tolist() == [1, 0]


@pytest.mark.parametrize("kind", [Conjunctions, Disjunctions])
def test_too_many_columns_are_refused_from_public_numbers(kind: type[Conjunctions | Disjunctions]) -> None:
    assert kind([f"x{j}" for j in range(12)]).size == 3**12 + 1
    assert kind([f"x{j}" for j in range(19)], negations=False).size == 2**19 + 1
    with pytest.raises(TooLargeError, match="negations=False"):
        kind([f"x{j}" for j in range(13)])
    with pytest.raises(TooLargeError, match="fewer columns"):
        kind([f"x{j}" for j in range(20)], negations=False)
    with pytest.raises(TooLargeError):
        kind([f"x{j}" for j in range(5000)])


@pytest.mark.parametrize(
    ("features", "negations", "error"),
    [
        ([], True, ParameterError),
        ("ab", True, TypeError),
        ({"a": Integers(0, 2)}, True, ParameterError),
        ({"a": Integers(0, 0)}, True, ParameterError),
        ({"a": Categories(["x", "y", "z"])}, True, ParameterError),
        ({"a": 1}, True, TypeError),
        (["a", "a"], True, ParameterError),
        (["a"], 1, TypeError),
        (["a"], None, TypeError),
    ],
)
def test_bad_parameters_are_refused(features: object, negations: object, error: type[Exception]) -> None:
    for kind in (Conjunctions, Disjunctions):
        with pytest.raises(error):
            kind(features, negations)  # type: ignore[arg-type]


def test_domains_may_come_from_the_data() -> None:
    users: brute.Users = [[(0, 1.5, 1), (1, 0.5, 0)], []]
    columns: dict[str, Domain] = {"a": Integers(0, 1), "b": Grid(0.5, 1.5, 1)}
    named, declared = Conjunctions(["a", "b"]), Conjunctions(columns)
    data = UserData.from_users(users, features=columns)
    assert named.profile(data, Mean()).blocks() == declared.profile(data, Mean()).blocks()
    with pytest.raises(ParameterError, match="no domain"):
        named.decode(3)
    with pytest.raises(ParameterError, match="two values"):
        named.profile(UserData.from_users(users, features={"a": Integers(0, 1), "b": Grid(0, 2, 0.5)}), Exceeds(0))


def test_classes_are_values() -> None:
    assert Conjunctions(THREE) == Conjunctions(dict(THREE))
    assert hash(Conjunctions(THREE)) == hash(Conjunctions(dict(THREE)))
    assert Conjunctions(THREE) != Disjunctions(THREE)
    assert pickle.loads(pickle.dumps(Disjunctions(THREE))) == Disjunctions(THREE)


def test_damaged_rules_are_not_read() -> None:
    for concept, kind in ((Conjunctions(THREE), Conjunction), (Disjunctions(THREE), Disjunction)):
        good = rule_to_dict(concept.decode(7))
        assert isinstance(rule_from_dict(good), kind)
        for bad in ({"values": [1, 0]}, {"values": [2, 0, 1]}, {"values": 5}, {"columns": [{"name": "a"}]}):
            with pytest.raises(ModelFileError):
                rule_from_dict(good | bad)
