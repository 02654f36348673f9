"""Representations by name in a plan, and rules by their names."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve

import privpac as pp
from privpac.auditing import rule_laws as drawn_rules
from privpac.auditing.claims import plan_claims
from privpac.auditing.refutation import refute
from privpac.errors import ParameterError
from privpac.planning.rules import rule_target

ROW = "surrogate selection"
HUGE = pp.Points(pp.Integers(0, 2**60), "code")


def goal(**changed: Any) -> Any:
    told: dict[str, Any] = {"epsilon": 1, "alpha": "0.2", "beta": "0.05", "representation": "hashed"}
    return rule_target(HUGE, **told | changed)


def test_a_plan_shows_size_and_certificate_and_its_learner_is_the_certified_one() -> None:
    plan = pp.plan(HUGE, epsilon=1, alpha="0.2", records_per_user=4, representation="hashed", setting="agnostic")
    row = plan.row(ROW)
    assert "hashed: " in row.assumption
    assert "rules; within" in row.assumption
    learner, certificate = plan.learner(ROW), row.certificates[0]
    assert learner.max_records == 1
    assert learner.public_set.representation == "hashed"
    assert learner.public_set.representation_beta == Fraction(1, 100)
    assert learner.public_set.representation_alpha == certificate.parameters["representation_alpha"]
    assert "--set representation=hashed" in plan.command(ROW)
    assert ROW not in [other.method for other in pp.plan(HUGE, epsilon=1, records_per_user=1).rows]


@pytest.mark.parametrize(("name", "says"), [("auto", "hashed: "), ("class", "every rule stands for itself")])
def test_other_names(name: str, says: str) -> None:
    assert says in goal(representation=name).method(ROW).certify(1).assumption


def test_a_set_too_large_to_select_from_is_not_certified_and_the_row_says_so() -> None:
    row = pp.plan(HUGE, epsilon=1, records_per_user=1, representation="boosted", setting="agnostic").row(ROW)
    assert row.values == (None,)
    assert "too many to select from" in row.note
    cuts = pp.Thresholds(pp.Integers(0, 99))
    row = pp.plan(cuts, epsilon=1, records_per_user=1, representation="hashed", setting="agnostic").row(ROW)
    assert "single values" in row.note
    few = pp.Points(pp.Integers(0, 3))
    learned = rule_target(few, 1, "0.5", "0.05", representation="learned").method(ROW).certify(1)
    assert learned.n_users is not None
    assert "learned: " in learned.assumption


@pytest.mark.parametrize(
    ("name", "values"),
    [("epsilon", ("0.2", 1, 4)), ("alpha", ("0.05", "0.1", "0.12", "0.3")), ("beta", ("0.01", "0.05", "0.2"))],
)
def test_more_budget_error_or_failure_never_certify_more_people(name: str, values: tuple[Any, ...]) -> None:
    numbers = [goal(**{name: value}).method(ROW).certify(1).n_users or 1 << 60 for value in values]
    assert all(later <= earlier for earlier, later in pairwise(numbers))


def test_the_certificate_is_tried_with_a_set_drawn_anew_and_far_too_few_break_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(drawn_rules, "RUNS", 20)
    target = rule_target(pp.Points(pp.Integers(0, 99)), 8, "0.4", "0.1", "replace", representation="hashed")
    claims, _ = plan_claims(target, 1, "agnostic")
    (claim,) = (claim for claim in claims if claim.name == ROW)
    first = evolve(claim, starts=claim.starts[1:])
    assert not refute(first, multiples=(1,), steps=0).refuted
    assert refute(evolve(first, n_users=2), multiples=(1,), steps=0).attacks[0].failure.probability > 0.2


def test_unknown_representations_are_refused() -> None:
    with pytest.raises(ParameterError, match="representation must be one of"):
        goal(representation="tiny")
    with pytest.raises(TypeError, match="representation must be a name"):
        goal(representation=3)
    with pytest.raises(ParameterError, match="representation goes with classes of rules"):
        pp.plan("histogram", bins=3, epsilon=1, representation="hashed")


# Rules by their names


def test_a_rule_by_its_name_is_planned_as_its_class() -> None:
    ages = pp.Integers(0, 99)
    named = pp.plan("threshold", features={"age": ages}, epsilon=1, records_per_user=4)
    assert named.rows == pp.plan(pp.Thresholds(ages, "age"), epsilon=1, records_per_user=4).rows
    local = pp.plan("threshold", features={"age": ages}, epsilon=1, model="local", records_per_user=400)
    assert local.rows
    with pytest.raises(ParameterError, match="needs its columns"):
        pp.plan("stump", epsilon=1)
    with pytest.raises(ParameterError, match="a class brings its own columns"):
        pp.plan(pp.Thresholds(ages), features={"age": ages}, epsilon=1)
    with pytest.raises(ParameterError, match="one column, got 2"):
        pp.plan("threshold", features={"a": ages, "b": ages}, epsilon=1)
