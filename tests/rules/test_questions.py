"""Rules over yes/no questions about numbers and names, against what each rule says record by record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.data import Integers, Missing
from privpac.errors import ParameterError
from privpac.result import rule_from_dict, rule_to_dict
from privpac.rules.binarized import ASKED, Binarized, BinarizedRule, Question
from privpac.rules.boxes import Conjunctions
from privpac.rules.named import name_of, rule_class
from privpac.rules.profile import Exceeds

AGE, SITE, SMOKES = pp.Integers(0, 9), pp.Categories(["a", "b", "c"]), pp.Categories(["no", "yes"])
COLUMNS = {"age": AGE, "site": SITE, "smokes": SMOKES}
RECORD = st.tuples(st.integers(0, 9), st.sampled_from("abc"), st.sampled_from(["no", "yes"]), st.integers(0, 1))


@settings(max_examples=25, deadline=None)
@given(
    over=st.sampled_from(sorted(ASKED)),
    users=st.lists(st.lists(RECORD, max_size=4), max_size=4),
    seed=st.integers(0, 99),
)
def test_profiles_are_those_of_the_rules_one_by_one(over: str, users: Any, seed: int) -> None:
    concept = Binarized(over, COLUMNS, cuts={"age": [3, 6]})
    data = pp.UserData.from_users(users, features=COLUMNS)
    profile = concept.profile(data, Exceeds(0))
    for h in np.random.default_rng(seed).integers(0, concept.size, 12).tolist():
        rule = concept.decode(h)
        wrong = 0
        for user in users:
            said = rule.predict([record[:3] for record in user]) if user else np.zeros(0)
            mistakes = sum(int(a) != record[3] for a, record in zip(said, user))
            wrong += mistakes > 0
        assert profile.score(h) == wrong


@pytest.mark.parametrize("over", sorted(ASKED))
def test_rules_are_saved_and_read_in_the_users_units(over: str) -> None:
    concept = Binarized(over, COLUMNS, cuts={"age": [3, 6]})
    for h in range(0, concept.size, max(1, concept.size // 40)):
        rule = concept.decode(h, "ill")
        assert rule_from_dict(rule_to_dict(rule)) == rule
        assert " = 1" not in str(rule)
        assert "not age" not in str(rule)
        assert set(rule.reads) <= set(COLUMNS)
        part = {name: np.zeros(1, np.uint64) for name in rule.reads}
        assert rule.predict_codes(part).shape == (1,), "a frame needs only the columns that are read"


def test_columns_of_two_values_alone_are_the_plain_class() -> None:
    plain = rule_class("conjunction", {"smokes": SMOKES})
    assert isinstance(plain, Conjunctions)
    assert name_of(plain) == "conjunction"
    assert name_of(rule_class("decision-list", COLUMNS)) == "decision-list"


@pytest.mark.parametrize("over", sorted(ASKED))
def test_every_front_takes_numbers_by_name(over: str) -> None:
    """600 people agree: ill above 5 and smoking.  At epsilon 60 a rule that errs often has probability below 1e-20."""
    rng = np.random.default_rng(1)
    users = [
        [(int(x), "abc"[x % 3], ("no", "yes")[s], int(x > 5 and s)) for x, s in zip(*draws)]
        for draws in zip(rng.integers(0, 10, (600, 3)), rng.integers(0, 2, (600, 3)))
    ]
    data = pp.UserData.from_users(users, features=COLUMNS)
    found = pp.learn(data, over, epsilon=60)
    assert isinstance(found.value, BinarizedRule)
    flat = [record for user in users for record in user]
    error = float(np.mean(found.predict([r[:3] for r in flat]) != [r[3] for r in flat]))
    assert error < (0.06 if over in ("conjunction", "decision-list") else 0.45)
    assert pp.learn(data, Binarized(over, cuts={"age": [5]}), epsilon=1).guarantee.epsilon == 1


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Binarized("forest", COLUMNS), "over must be one of"),
        (lambda: Binarized("parity", {"x": pp.Floats()}), "cut points must be given"),
        (lambda: Binarized("parity", {"x": Missing(AGE, "own")}), "no third answer"),
        (lambda: Binarized("parity", {"x": pp.Integers(1, 1)}), "nothing to ask"),
        (lambda: Binarized("parity", {"x": AGE}, cuts={"x": [9]}), "nothing to ask"),
        (lambda: Binarized("parity", {"x": AGE}, cuts={"x": [4, 4]}), "must increase"),
        (lambda: Binarized("parity", {"x": AGE}, cuts={"y": 3}), "not among"),
        (lambda: Binarized("parity").size, "no columns yet"),
        (lambda: BinarizedRule(Conjunctions(["a"]).features, (Question("b", 1, True),), None), "must be about"),  # type: ignore[arg-type]
    ],
)
def test_bad_questions_are_refused(make: Any, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        make()


def test_cut_points_follow_the_domain_and_never_the_data() -> None:
    asked = Binarized("conjunction", {"age": pp.Integers(0, 99)}).questions
    assert [question.code for question in asked] == [100 * i // 11 for i in range(1, 11)]
    assert Binarized("conjunction", {"x": pp.Floats()}, cuts={"x": [0.5]}).size == 4


def test_a_typical_range_is_asked_about() -> None:
    """Five questions about a column of ten million values, among those that are declared to be common."""
    wide = Integers(0, 10**7, typical=(10_000, 200_000))
    asked = Binarized("conjunction", {"income": wide, "age": Integers(0, 99)}).questions
    assert [question.code for question in asked if question.column == "income"] == [
        10_000,
        57_501,
        105_001,
        152_501,
        200_001,
    ]
    assert [question.code for question in Binarized("parity", {"income": wide}, cuts=1).questions] == [105_000]
