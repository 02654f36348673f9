"""The certificate of a prediction service: its lemmas by enumeration, its promise by runs on hard laws, its doors."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.auditing import rule_laws as drawn_rules
from privpac.auditing.claims import plan_claims
from privpac.auditing.refutation import refute
from privpac.bounds import ServiceTask, certify_service, most_dissent, most_wrong_answers, voters_apart
from privpac.errors import AccuracyWarning, ParameterError
from privpac.lower_bounds import lower_testing
from privpac.methods.prediction.service_plan import answers, plan_service, service_target
from privpac.rules.populations import standard_population

CUTS = pp.Thresholds(pp.Integers(0, 63))


def task(**changed: Any) -> ServiceTask:
    told: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "queries": 20, "beta": "0.05", "levels": 840}
    return ServiceTask.read(**told | {"log_growth": lambda n: math.log(n + 1)} | changed)


# The lemmas


def longest_gap(values: int, hit: set[int]) -> int:
    """Two cut-offs that agree on the values hit differ on a run of others."""
    best = run = 0
    for value in range(values):
        run = 0 if value in hit else run + 1
        best = max(best, run)
    return best


@pytest.mark.parametrize(("values", "part"), [(3, 7), (4, 5), (6, 5)])
def test_one_voter_is_apart_as_seldom_as_the_lemma_says(values: int, part: int) -> None:
    """Every sample of cut-offs on uniform values, against ``2 Pi(N)**2 (s/N)**floor(x s)`` for ghosts of all sizes."""
    gaps = Counter(longest_gap(values, set(sample)) for sample in product(range(values), repeat=part))
    total, sharp = values**part, False
    for s in (1, 2, part, 4 * part, 16 * part):
        n = part + s
        pairs = min((n + 1) ** 2, (values + 1) ** 2)
        for gap in range(values):
            # P(g != g') > x for every x below the next multiple of 1/values
            x = Fraction(gap + 1, values) - Fraction(1, 10**9)
            chance = Fraction(sum(count for size, count in gaps.items() if size > gap), total)
            bound = 2 * pairs * Fraction(s, n) ** math.floor(x * s)
            assert chance <= bound
            sharp = sharp or (bound < 1 and chance > 0)
    assert sharp or part < 6


def test_a_pair_that_differs_on_j_records_has_them_all_among_the_new_ones_as_seldom_as_that() -> None:
    for old, new in product(range(1, 5), repeat=2):
        n = old + new
        for j in range(1, n + 1):
            ways = sum(all(place >= old for place in chosen) for chosen in combinations(range(n), j))
            exact = Fraction(ways, math.comb(n, j))
            assert exact == math.prod(Fraction(max(new - i, 0), n - i) for i in range(j))
            assert exact <= Fraction(new, n) ** j


def test_the_mean_over_voters_of_drawn_parts_stays_within_its_bound() -> None:
    """1000 services of uniform records: a failure of 0.02 is seen 0 times (the bound is a supremum, and generous)."""
    rng, part, voters = np.random.default_rng(0), 60, 8
    bound = voters_apart(part, voters, 0.02, lambda n: math.log(n + 1))
    draws = np.sort(rng.random((1000, voters, part)), axis=2)
    ends = np.concatenate([np.zeros((1000, voters, 1)), draws, np.ones((1000, voters, 1))], axis=2)
    assert (np.diff(ends, axis=2).max(axis=2).mean(axis=1) <= bound).all()
    assert bound < 0.5


@given(st.integers(1, 200), st.floats(0.01, 3), st.integers(1, 50), st.floats(0.001, 0.5))
@settings(max_examples=60, deadline=None)
def test_so_much_dissent_never_flips_an_answer_and_one_more_may(r: int, gamma: float, k: int, failure: float) -> None:
    j = most_dissent(gamma, r, k, failure)
    assert j <= r / 2
    if j >= 0:
        assert k / (1 + math.exp(gamma * (r - 2 * j))) <= failure
    else:
        assert k * math.exp(-gamma * r) > failure * (1 - 1e-9)


@given(st.integers(1, 40), st.fractions(0, 1, max_denominator=20), st.fractions("1/100", "1/2"))
@settings(max_examples=60, deadline=None)
def test_most_wrong_answers_is_the_quantile_of_a_binomial(k: int, share: Fraction, failure: Fraction) -> None:
    found = most_wrong_answers(k, share, failure)
    chances = [math.comb(k, i) * share**i * (1 - share) ** (k - i) for i in range(k + 1)]
    assert sum(chances[found + 1 :]) <= failure * (1 + Fraction(1, 10**9))
    assert found == 0 or sum(chances[found:]) > failure * (1 - Fraction(1, 10**9))


# The certificate


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_constants_keep_the_budget_and_the_promise_for_more_people_too(neighbours: str) -> None:
    asked = task(neighbours=neighbours)
    found = certify_service(asked, "0.1")
    assert found.n_users is not None
    assert not certify_service(asked, "0.1", n_users=found.n_users // 2).certified
    last = math.inf
    for times in (1, 2, 8):
        made = asked.best(times * found.n_users)
        assert made is not None
        assert made.excess <= min(last, 0.1)
        last = made.excess
    # The same constants with more people, whose number need not be known.
    made = asked.best(found.n_users)
    assert made is not None
    plan, more = made.split, 3
    sizes = (more * plan.split_size, more * (plan.n_users - plan.split_size))
    assert asked.excess(*sizes, float(plan.a), float(plan.b), made.voters, float(made.gamma)) <= made.excess
    service = plan_service(
        pp.Thresholds(pp.Floats(), "x"), epsilon=1, delta="1e-6", queries=20, public_n_users=found.n_users, alpha="0.1",
        neighbours=neighbours,
    )  # fmt: skip
    epsilon, delta = service.predictor.cost
    assert epsilon <= 1
    assert delta <= Fraction(1, 10**6)
    assert service.promised_excess <= 0.1
    assert service.predictor.voters == made.voters


def test_fewer_answers_more_budget_or_a_delta_never_need_more_people() -> None:
    numbers = [certify_service(task(queries=k), "0.2").n_users or 0 for k in (1, 20)]
    assert numbers == sorted(numbers)
    assert (certify_service(task(delta=0), "0.2").n_users or 0) >= numbers[-1]
    assert certify_service(task(levels=4), "0.2").n_users is None  # rounding alone is more than that


def test_a_delta_smaller_than_zero_answers_and_no_rules_are_refused() -> None:
    with pytest.raises(ParameterError, match="queries"):
        pp.plan(CUTS, epsilon=1, queries=0)
    with pytest.raises(TypeError, match="rules of a class"):
        pp.plan("histogram", epsilon=1, queries=3)
    for wrong in ({"noise": "0.1"}, {"setting": "agnostic"}, {"model": "local"}, {"bins": 3}):
        with pytest.raises(ParameterError, match="leave out"):
            pp.plan(CUTS, epsilon=1, queries=3, **wrong)


def test_more_people_are_asked_for_where_nothing_is_certified() -> None:
    with pytest.warns(AccuracyWarning, match="people certify it"):
        made = plan_service(
            CUTS.with_columns({"x": pp.Integers(0, 63)}), epsilon=8, queries=3, public_n_users=500, alpha="0.3"
        )
    assert made.promised_excess > 0.3
    assert made.most_wrong("0.1") == 3


# Refuting


def test_the_certified_service_keeps_its_promise_on_hard_laws_and_few_people_break_it(monkeypatch: Any) -> None:
    monkeypatch.setattr(drawn_rules, "RUNS", 24)
    target = service_target(CUTS, 5, epsilon=8, alpha="0.4", beta="0.2")
    (claim,), left = plan_claims(target, 1)
    assert not left
    first = evolve(claim, starts=claim.starts[1:])
    assert not refute(first, multiples=(1,), steps=0).refuted
    assert refute(evolve(first, n_users=3), multiples=(1,), steps=0).refuted


# The plan


def test_the_plan_has_a_certificate_a_lower_bound_and_a_prediction_that_lie_in_order() -> None:
    plan = pp.plan(CUTS, queries=4, epsilon=4, alpha="0.2", people="alike")
    certified, lower = plan.row("prediction service").n_users[0], plan.row("any private service").n_users[0]
    (predicted,) = plan.predicted
    assert max(lower, predicted.values[0]) < certified  # a mean on a mild model may be below what all people need
    assert "4 answers" in plan.target["service"]
    assert "of 4 answers are wrong" in plan.note
    assert plan.command("prediction service").startswith("privpac serve fit TABLE.parquet")
    service = plan.learner("prediction service")
    assert service.guarantee.epsilon == 4
    assert service.queries == 4
    assert f"--people {certified}" in plan.command("prediction service")


def test_the_other_two_questions() -> None:
    alpha = pp.plan(CUTS, queries=4, epsilon=4, n_users=200_000).row("prediction service").values[0]
    assert pp.plan(CUTS, queries=4, epsilon=4, alpha=alpha).row("prediction service").n_users[0] <= 203_000
    epsilon = pp.plan(CUTS, queries=4, alpha=alpha, n_users=200_000).row("prediction service").values[0]
    assert Fraction(7, 2) < epsilon < Fraction(9, 2)


def test_answers_are_the_noisy_majorities_of_the_voters() -> None:
    people = standard_population(CUTS, records_per_user=2, noise="0.2")
    assert people is not None
    said = answers(people, (32, 32, 32, 10), 0.5)
    x = people.points[next(iter(people.points))].astype(int)
    ones = 3 * (x >= 32) + (x >= 10)
    assert np.allclose(said, 1 / (1 + np.exp(-0.5 * (2 * ones - 4))))
    assert people.excess_of_answers((x >= 32).astype(float)) == pytest.approx(0, abs=1e-9)
    assert people.excess_of_answers((x < 32).astype(float)) == pytest.approx(0.6)


def test_a_delta_only_helps_private_testing() -> None:
    told: dict[str, Any] = {"alpha": "0.1", "beta": "0.05", "epsilon": "0.05", "records_per_user": 1}
    pure, tiny, large = (lower_testing(**told, delta=delta).n_users or 0 for delta in (0, "1e-9", "0.1"))
    assert pure >= tiny > large


def test_the_service_without_alpha_is_estimated_as_before_and_says_what_is_certified() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = plan_service(CUTS.with_columns({"x": pp.Integers(0, 63)}), epsilon=1, queries=5, public_n_users=2000)
    assert made.expected_error < 0.5
    assert made.promised_excess == 1
