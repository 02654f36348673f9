"""Predictions are the exact law's expectation on the model they name: checked against enumeration of tiny classes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privpac as pp
from privpac.errors import ParameterError
from privpac.law import Law
from privpac.methods import PairwiseSelection, RealizableSelection, RegretSelection, UserAgnosticLearner
from privpac.methods.simulation import excess_on, predict_excess, predict_on, predicted_users, standard_population
from privpac.rules import populations as populations
from privpac.rules.populations import (
    declared_population,
    generated_population,
    mean_distance,
    public_population,
    sampled_population,
)

NOISE = Fraction(1, 5)
YES_NO = {name: pp.Integers(0, 1) for name in "abc"}
CLASSES: dict[str, Any] = {
    "above": pp.Thresholds(pp.Integers(0, 6), "x"),
    "below": pp.Thresholds(pp.Integers(0, 7), "x", "below"),
    "both": pp.Thresholds(pp.Integers(3, 10), "x", "both"),
    "stumps": pp.Stumps({"x": pp.Integers(0, 4), "z": pp.Integers(0, 2)}),
    "stumps-below": pp.Stumps({"x": pp.Integers(0, 5), "z": pp.Integers(0, 2)}, "below"),
    "points": pp.Points(pp.Integers(0, 5), "x"),
    "points-zero": pp.Points(pp.Integers(0, 4), "x", zero=True),
    "intervals": pp.Intervals(pp.Integers(0, 5), "x"),
    "boxes": pp.Rectangles({"x": pp.Integers(0, 3), "z": pp.Integers(0, 3)}),
    "conjunctions": pp.Conjunctions(YES_NO),
    "disjunctions": pp.Disjunctions(YES_NO),
    "parities": pp.Parities(YES_NO),
    "lists": pp.DecisionLists(YES_NO, 2),
    "halfspaces": pp.Halfspaces({"x": pp.Integers(0, 4), "z": pp.Integers(0, 4)}, weights=1),
    "table": pp.FiniteClass(np.array([[0, 1, 1, 0], [0, 0, 1, 1], [1, 1, 1, 0]]), pp.Integers(0, 3), "x"),
}
CUTS = CLASSES["above"]
SMALL = pp.Thresholds(pp.Integers(0, 63), "x")


# The literal model: every point with its weight and the chance of a label 1 there, users weighing the same


def points_of(concept: Any) -> dict[str, np.ndarray[Any, Any]]:
    domains = dict(concept.declared())
    rows = np.array(list(product(*(range(domain.size) for domain in domains.values()))), dtype=np.uint64)
    return {name: rows[:, i] for i, name in enumerate(domains)}


def literal_excess(concept: Any, weight: Any, chance: Any) -> np.ndarray[Any, Any]:
    codes = points_of(concept)
    said = np.stack([concept.predictions(codes, h) for h in range(concept.size)])
    error = np.where(said == 1, 1 - chance, chance) @ weight
    return np.asarray(error - error.min())


def noisy(right: Any) -> Any:
    return np.where(np.asarray(right, bool), 1 - float(NOISE), float(NOISE))


def literal_model(concept: Any) -> tuple[Any, Any]:
    """Weights of the points and chances of a label 1, as the standard model says."""
    codes = points_of(concept)
    n = len(next(iter(codes.values())))
    if isinstance(concept, pp.Points):
        values, at = n, n // 2
        weight = np.where(np.arange(n) == at, 0.5, 0.5 / (values - 1))
        return weight, noisy(np.arange(n) == at)
    if isinstance(concept, (pp.Thresholds, pp.Stumps)):
        domain = next(iter(concept.declared().values()))
        over = codes["x"] >= domain.size // 2
        return np.full(n, 1 / n), noisy(over if concept.directions[0] == "above" else ~over)
    shares = [abs(float(concept.predictions(codes, h).mean()) - 0.5) for h in range(concept.size)]
    return np.full(n, 1 / n), noisy(concept.predictions(codes, int(np.argmin(shares))))


def literal_mean(law: Law, excess: Any) -> float:
    return sum(float(law.prob(h)) * float(value) for h, value in enumerate(excess))


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("users", ["alike", "differ"])
def test_expected_excess_equals_enumeration_of_the_class(name: str, users: str) -> None:
    concept = CLASSES[name]
    people = declared_population(users, concept, records_per_user=3, noise=NOISE)
    assert people is not None
    weight, chance = literal_model(concept)
    if users == "differ":
        chance = 0.75 * 0.5 + 0.25 * chance
    excess = literal_excess(concept, weight, chance)
    for learner in (RegretSelection(concept, 2, public_n_users=9), RealizableSelection(concept, 1)):  # type: ignore[arg-type]
        data = people.draw(9, np.random.default_rng(5))
        law = learner.law(data)
        assert people.expected_excess(law) == pytest.approx(literal_mean(law, excess), abs=1e-6)  # type: ignore[arg-type]
        assert excess_on(learner, data, people) == people.expected_excess(law)  # type: ignore[arg-type]
    for h in range(concept.size):
        assert people.excess_of(h) == pytest.approx(float(excess[h]), abs=1e-6)
    assert excess[people.best] == pytest.approx(0, abs=1e-12)
    ones = float(weight @ chance)
    assert people.constant_error == pytest.approx(min(ones, 1 - ones), abs=1e-6)


@pytest.mark.parametrize("name", sorted(set(CLASSES) - {"points", "points-zero", "table"}))
def test_heavy_people_count_as_much_as_the_others(name: str) -> None:
    concept = CLASSES[name]
    people = declared_population("heavy", concept, records_per_user=4, noise=NOISE)
    assert people is not None
    data = people.draw(20_000, np.random.default_rng(1))
    assert data.labels is not None
    assert 0.31 < float(np.mean(data.sizes > 8)) < 0.36
    assert int(data.sizes.max()) == 32
    # Users' errors lie in 0..1: by Hoeffding's bound a mean is off by 0.025 with probability below 1e-10.
    for h in range(0, concept.size, max(1, concept.size // 8)):
        wrong = (concept.predictions(data.codes, h) != data.labels).astype(float)
        error = float(np.mean(np.add.reduceat(wrong, data.offsets[:-1]) / data.sizes))
        assert error - people.best_error == pytest.approx(people.excess_of(h), abs=0.025), h


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("users", ["alike", "differ"])
def test_drawn_users_follow_the_truth(name: str, users: str) -> None:
    concept = CLASSES[name]
    people = declared_population(users, concept, records_per_user=3, noise=NOISE)
    assert people is not None
    data = people.draw(20_000, np.random.default_rng(2))
    assert data.labels is not None
    assert data.n_users == 20_000
    for h in range(0, concept.size, max(1, concept.size // 8)):
        error = float(np.mean(concept.predictions(data.codes, h) != data.labels))
        assert error - people.best_error == pytest.approx(people.excess_of(h), abs=0.025), h


@given(st.integers(-60, 60), st.integers(1, 80))
def test_mean_distance_over_a_block_is_the_literal_mean(first: int, count: int) -> None:
    literal = sum(abs(u) for u in range(first, first + count)) / count
    assert float(mean_distance(np.array([first], float), np.array([count], float))[0]) == pytest.approx(literal)


@pytest.mark.parametrize("direction", ["above", "both"])
def test_a_domain_of_all_doubles_costs_blocks_and_not_values(direction: str) -> None:
    concept = pp.Thresholds(pp.Floats(), "x", direction)
    people = standard_population(concept, records_per_user=4, noise=NOISE)
    assert people is not None
    law: Any = RegretSelection(concept, 1, public_n_users=20).law(people.draw(20, np.random.default_rng(3)))  # type: ignore[arg-type]
    n, best = 1 << 64, 1 << 63
    total = mean = 0.0
    for block, score in law.blocks:
        first, last = block.start % (n + 1), (block.stop - 1) % (n + 1)
        far = Fraction(total_distance(first - best, last - best), len_of(block) * n)
        weight = len_of(block) / n * float(np.exp(-float(law.eta) * (score - law.best)))
        total += weight
        mean += weight * float(far if block.start <= n else 1 - far)
    assert people.expected_excess(law) == pytest.approx(mean / total * (1 - 2 * float(NOISE)), rel=1e-9)


def len_of(block: range) -> int:
    return block.stop - block.start  # more than len() can say


def total_distance(a: int, b: int) -> int:
    """``sum of |u| for a <= u <= b``."""

    def up_to(k: int) -> int:
        return k * (k + 1) // 2

    if a <= 0 <= b:
        return up_to(-a) + up_to(b)
    near, far = sorted((abs(a), abs(b)))
    return up_to(far) - up_to(near - 1)


@pytest.mark.parametrize("name", ["above", "intervals", "boxes"])
def test_listed_and_refined_errors_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    concept = CLASSES[name]
    users = [[(int(x), int(x > 2)) for x in range(4)] for _ in range(3)]
    if name == "boxes":
        users = [[(int(x), int(z), int(x + z > 2)) for x in range(4) for z in range(2)] for _ in range(3)]  # type: ignore[misc]
    data = pp.UserData.from_users(users, features=dict(concept.declared()))
    people = public_population(data, concept)
    law: Any = RegretSelection(concept, 1, public_n_users=3).law(data)  # type: ignore[arg-type]
    fast = people.expected_excess(law)
    monkeypatch.setattr(populations, "DENSE", 0)
    assert people.expected_excess(law) == pytest.approx(fast, rel=1e-12)


# Learners that buy something first


def test_an_estimate_is_averaged_over_its_law() -> None:
    learner = UserAgnosticLearner(CUTS, 2, records_per_user=3)  # type: ignore[arg-type]
    people = standard_population(CUTS, records_per_user=3, noise=NOISE)
    assert people is not None
    assert learner.estimates
    data = people.draw(12, np.random.default_rng(0))
    excess = literal_excess(CUTS, *literal_model(CUTS))
    assert excess_on(learner, data, people) == pytest.approx(literal_mean(learner.rule_law(data), excess), abs=1e-7)


def test_a_noisy_count_is_taken_at_the_true_number() -> None:
    people = standard_population(CUTS, records_per_user=3)
    assert people is not None
    data = people.draw(12, np.random.default_rng(0))
    learner: Any = RegretSelection(CUTS, 1)  # type: ignore[arg-type]
    assert learner.needs_count
    assert excess_on(learner, data, people) == people.expected_excess(learner.law(data, given=12))


def test_a_prediction_is_the_mean_over_data_sets_and_names_its_model() -> None:
    people = standard_population(SMALL, records_per_user=4, noise="0.1")
    assert people is not None
    learner = RegretSelection(SMALL, 1, public_n_users=30)  # type: ignore[arg-type]
    found = predict_on(learner, people, n_users=30, repeats=5, seed=7)
    each = [excess_on(learner, people.draw(30, np.random.default_rng([7, i])), people) for i in range(5)]
    assert found.excess == pytest.approx(np.mean(each))
    assert found.error == pytest.approx(np.std(each, ddof=1) / 5**0.5)
    assert (
        found.model == "x uniform on 64 values, right cut in the middle, label noise 1/10, 4 records per user; 30 users"
    )
    assert predict_excess(learner, n_users=30, records_per_user=4, noise="0.1", repeats=5, seed=7) == found
    assert np.isnan(predict_on(learner, people, n_users=30, repeats=1).error)


def test_predictions_fall_with_records_and_with_users() -> None:
    def excess(n: int, m: int) -> float:
        return predict_excess(RegretSelection(SMALL, 1, public_n_users=n), n_users=n, records_per_user=m).excess  # type: ignore[arg-type]

    assert excess(40, 16) < excess(40, 2)
    assert excess(160, 4) < excess(20, 4)


# Numbers of users


def regret(n: int) -> Any:
    return RegretSelection(SMALL, 1, public_n_users=n)  # type: ignore[arg-type]


@pytest.mark.parametrize(("alpha", "m"), [("0.1", 4), ("0.05", 16), ("0.02", 4), ("0.01", 8)])
def test_predicted_users_bracket_alpha(alpha: str, m: int) -> None:
    people = standard_population(SMALL, records_per_user=m)
    assert people is not None
    found = predicted_users(regret, people, alpha=alpha, repeats=4, seed=3)
    assert found is not None

    def mean(n: int) -> float:
        return float(np.mean([excess_on(regret(n), people.growing((3, i))(n), people) for i in range(4)]))

    assert mean(found) <= float(alpha)
    fewer = found - max(1, found // 64)
    assert mean(fewer) > float(alpha)


def test_more_records_need_no_more_users_and_less_excess_needs_more() -> None:
    def users(alpha: str, m: int) -> int:
        people = standard_population(SMALL, records_per_user=m)
        assert people is not None
        found = predicted_users(regret, people, alpha=alpha)
        assert found is not None
        return found

    assert users("0.05", 16) < users("0.05", 2)
    assert users("0.01", 16) > users("0.05", 16)


def test_out_of_reach_is_none() -> None:
    people = standard_population(SMALL, records_per_user=2)
    assert people is not None
    assert predicted_users(regret, people, alpha="0.001", most=40) is None
    table = public_population(people.draw(20, np.random.default_rng(0)), SMALL)
    assert predicted_users(regret, table, alpha="0.0001") is None
    assert predicted_users(regret, table, alpha="0.9") == 1


def nested(first: Callable[[int], pp.UserData], few: int, many: int) -> None:
    short, long = first(few), first(many)
    assert (short.n_users, long.n_users) == (few, many)
    assert short.to_lists() == long.to_lists()[:few]


def test_growing_data_sets_are_nested() -> None:
    people = generated_population("0.1", records_per_user=3, values=64)
    nested(people.growing((1, 2)), 5, 37)
    nested(people.growing((1, 2)), 32, 33)
    assert people.growing((1, 2))(4).to_lists() != people.growing((1, 3))(4).to_lists()
    heavy = declared_population("heavy", SMALL, records_per_user=4)
    assert heavy is not None
    nested(heavy.growing((0,)), 7, 9)
    table = public_population(people.draw(30, np.random.default_rng(0)), people.concept)
    nested(table.growing((4,)), 11, 30)
    assert sorted(map(str, table.growing((4,))(30).to_lists())) == sorted(map(str, table.users.to_lists()))


# Models of one's own


def draw(n: int, rng: np.random.Generator) -> pp.UserData:
    x = rng.integers(0, 64, (n, 3))
    return pp.UserData.from_arrays(
        x.reshape(-1, 1), (x >= 20).ravel(), np.repeat(np.arange(n), 3), features={"x": pp.Integers(0, 63)}
    )


def test_a_model_of_ones_own_is_predicted_on() -> None:
    people = sampled_population(draw, SMALL, truth_users=2000, name="mine")
    assert people.best == 20
    assert people.best_error == 0
    assert people.largest() is None
    found = predict_on(RealizableSelection(SMALL, 1), people, n_users=40)  # type: ignore[arg-type]
    assert 0 < found.excess < 0.2
    assert found.model == "mine; 40 users"
    again = sampled_population(draw, SMALL, truth_users=2000)
    assert predict_on(RealizableSelection(SMALL, 1), again, n_users=40).excess == found.excess  # type: ignore[arg-type]


def test_what_a_drawing_function_must_not_return() -> None:
    with pytest.raises(TypeError, match="must be a function"):
        sampled_population(3, SMALL)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="UserData"):
        sampled_population(lambda n, rng: [1], SMALL)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="user ids"):
        sampled_population(
            lambda n, rng: pp.UserData.from_arrays([[1]] * n, [1] * n, features={"x": pp.Integers(0, 63)}), SMALL
        )
    with pytest.raises(ParameterError, match="asked for 10 users and made 9"):
        sampled_population(lambda n, rng: draw(n - 1, rng), SMALL, truth_users=10)
    with pytest.raises(ParameterError, match="no user with records"):
        sampled_population(
            lambda n, rng: pp.UserData.from_users([[]] * n, features={"x": pp.Integers(0, 63)}), SMALL, truth_users=10
        )
    with pytest.raises(ParameterError, match="truth_users"):
        sampled_population(draw, SMALL, truth_users=0)


# What cannot be predicted, and bad input


def test_classes_without_an_affordable_model_have_none() -> None:
    assert standard_population(pp.Stumps(), records_per_user=4) is None
    assert standard_population(pp.Points(), records_per_user=4) is None
    assert (
        standard_population(
            pp.Rectangles({"x": pp.Integers(0, 99), "z": pp.Integers(0, 99)}, cuts=32), records_per_user=4
        )
        is None
    )
    with pytest.raises(ParameterError, match="no affordable model"):
        predict_excess(RegretSelection(pp.Points(), 1), n_users=3, records_per_user=2)  # type: ignore[arg-type]


def test_what_stands_for_a_large_domain_is_in_the_name() -> None:
    wide = standard_population(pp.Rectangles({"x": pp.Integers(0, 999), "z": pp.Integers(0, 999)}), records_per_user=4)
    assert wide is not None
    assert "1024 points, drawn once" in wide.name
    long = standard_population(pp.Intervals(pp.Integers(0, 3999)), records_per_user=4, noise="0.4999")
    assert long is not None
    assert "a grid in 4000" in long.name
    assert "label noise 99/200" in long.name


def test_the_same_seed_gives_the_same_public_points() -> None:
    boxes = pp.Rectangles({"x": pp.Integers(0, 999), "z": pp.Integers(0, 999)})
    found: list[Any] = [standard_population(boxes, records_per_user=4, seed=seed) for seed in (1, 1, 2)]
    one, two, three = (people.users.codes["x"] for people in found)
    assert (one == two).all()
    assert (one != three).any()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"records_per_user": 0}, "records_per_user"),
        ({"records_per_user": -3}, "records_per_user"),
        ({"records_per_user": 1 << 60}, "records_per_user"),
        ({"noise": "1/2"}, "noise"),
        ({"noise": -0.1}, "noise"),
        ({"noise": float("nan")}, "noise"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_numbers_of_a_model_are_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        standard_population(SMALL, **{"records_per_user": 4, **change})


def test_bad_questions_are_named() -> None:
    people = standard_population(SMALL, records_per_user=2)
    assert people is not None
    with pytest.raises(TypeError, match="concept"):
        standard_population("stump", records_per_user=2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="learner"):
        predict_on("regret", people, n_users=3)
    with pytest.raises(TypeError, match="population"):
        predict_on(regret(3), "people", n_users=3)  # type: ignore[arg-type]
    for change in ({"n_users": 0}, {"n_users": 3, "repeats": 0}, {"n_users": 3, "seed": -1}):
        with pytest.raises(ParameterError):
            predict_on(regret(3), people, **change)
    for alpha in ("0", "1", "nan", "-1"):
        with pytest.raises(ParameterError, match="alpha"):
            predicted_users(regret, people, alpha=alpha)
    with pytest.raises(ParameterError, match="at most that"):
        predict_on(regret(3), public_population(people.draw(3, np.random.default_rng(0)), SMALL), n_users=4)
    with pytest.raises(ParameterError, match="blocks of rules"):
        excess_on(type("Odd", (), {"law": lambda self, data: Law.point(3)})(), people.users, people)


def test_pairwise_selection_is_predicted_without_its_warnings() -> None:
    people = standard_population(SMALL, records_per_user=4)
    assert people is not None
    learner = PairwiseSelection(SMALL, 1, records_per_user=4, public_n_users=10)  # type: ignore[arg-type]
    assert predict_on(learner, people, n_users=10, repeats=2).excess > 0
