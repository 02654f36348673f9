"""Comparisons: the truth is the truth, expectations are those of the exact law, and every contender keeps the promise
it names."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours
from privpac.law import BOTTOM
from privpac.methods import expected_error
from privpac.methods.expected_error import count_points, error_by_rule
from privpac.methods.regret import RegretSelection
from privpac.planning.comparison import (
    STANDARD,
    Comparison,
    Contender,
    Measured,
    Setting,
    all_contenders,
    compare,
    named_contenders,
    own_learner,
)
from privpac.rules.populations import generated_population, public_population

RECORDS = st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), max_size=5), min_size=1, max_size=6)


def people_of(users: Any, concept: Any = None) -> Any:
    data = pp.UserData.from_users(users, features={"x": pp.Integers(0, 5)})
    return public_population(data, pp.Thresholds() if concept is None else concept)


def brute_errors(users: Any, size: int, predict: Any) -> list[float]:
    """The error of every rule: the mean over users with records of the share of mistakes."""
    full = [records for records in users if records]
    return [
        float(np.mean([np.mean([predict(u, x) != y for x, y in records]) for records in full])) for u in range(size)
    ]


# The truth


@settings(max_examples=60, deadline=None)
@given(RECORDS.filter(any))
def test_errors_weigh_users_equally_and_leave_out_those_without_records(users: Any) -> None:
    people = people_of(users)
    errors = brute_errors(users, 7, lambda u, x: int(x >= u))
    assert people.best_error == pytest.approx(min(errors))
    assert errors[people.best] == pytest.approx(min(errors))
    for u, error in enumerate(errors):
        assert people.excess_of(u) == pytest.approx(error - min(errors), abs=1e-6)
        said = people.concept.predictions(people.points, u)
        assert float(people.error(said)) == pytest.approx(error)
    assert people.constant_error == pytest.approx(min(errors[0], errors[-1]))


@settings(max_examples=30, deadline=None)
@given(RECORDS.filter(any), st.sampled_from(["1/4", "1", "5"]), st.sampled_from(["above", "both"]))
def test_expected_excess_is_the_mean_over_the_exact_law(users: Any, epsilon: str, direction: str) -> None:
    people = people_of(users, pp.Thresholds(direction=direction))
    law: Any = RegretSelection(people.concept, epsilon, public_n_users=3).law(people.users)  # type: ignore[arg-type]
    mean = math.fsum(float(law.prob(h)) * people.excess_of(h) for h in range(people.concept.size))
    assert people.expected_excess(law) == pytest.approx(mean, abs=1e-9)


def test_expected_excess_counts_every_one_of_2_to_the_64_cuts() -> None:
    top = (1 << 64) - 1
    data = pp.UserData.from_users([[(5, 0), (top - 2, 1)]], features={"x": pp.Integers(0, top)})
    people = public_population(data, pp.Thresholds())
    law: Any = RegretSelection(people.concept, 1, public_n_users=1).law(people.users)  # type: ignore[arg-type]
    # Cuts 0..5 and the last three codes are wrong once, the other cuts never.
    wrong = 6 + (top + 2 - (top - 1))
    right = (1 << 64) + 1 - wrong
    loss = float(law.prob(0)) / float(law.prob(6))
    assert people.expected_excess(law) == pytest.approx(0.5 * wrong * loss / (wrong * loss + right), rel=1e-9)
    assert [people.excess_of(u) for u in (5, 6, top - 2, top - 1)] == pytest.approx([0.5, 0, 0, 0.5], abs=1e-6)


@pytest.mark.parametrize("noise", ["0", "0.1", "1/3"])
def test_the_generated_truth_is_the_model(noise: str) -> None:
    people = generated_population(noise, records_per_user=3, values=16)
    rate = float(Fraction(noise))
    assert people.best == 8
    assert people.best_error == pytest.approx(rate)
    for cut in range(17):
        assert people.excess_of(cut) == pytest.approx(abs(cut - 8) / 16 * (1 - 2 * rate), abs=1e-6)


def test_generated_data_sets_have_the_asked_size_and_are_those_of_their_seed() -> None:
    people = generated_population("0.1", records_per_user=5, values=32)
    first, again, other = (people.draw(40, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.n_users == 40
    assert set(first.sizes.tolist()) == {5}
    assert first.to_lists() == again.to_lists() != other.to_lists()


def test_a_draw_from_a_table_takes_whole_users_once() -> None:
    users = [[(i % 6, 1)] * (i + 1) for i in range(6)]
    people = people_of(users)
    drawn = people.draw(4, np.random.default_rng(0))
    assert drawn.n_users == 4
    assert len(set(drawn.sizes.tolist())) == 4
    assert people.draw(6, np.random.default_rng(0)) is people.users


@pytest.mark.parametrize("bad", ["0.5", "-0.1", "nan", "0.123456789"])
def test_noise_outside_the_model_is_refused(bad: str) -> None:
    with pytest.raises(ParameterError):
        generated_population(bad)


def test_populations_need_people_labels_and_records() -> None:
    rows = pp.UserData.from_arrays([[1], [2]], [0, 1], features={"x": pp.Integers(0, 5)})
    with pytest.raises(ParameterError, match="user column"):
        public_population(rows, pp.Thresholds())
    unlabelled = pp.UserData.from_users([[1]], features={"x": pp.Integers(0, 5)}, labelled=False)
    with pytest.raises(ParameterError, match="label"):
        public_population(unlabelled, pp.Thresholds())
    with pytest.raises(ParameterError, match="no user"):
        people_of([[], []])
    with pytest.raises(TypeError):
        public_population([[(1, 1)]], pp.Thresholds())  # type: ignore[arg-type]


# Our own learners


@pytest.mark.parametrize("sizes", [(3,), (1, 4, 9)])
def test_the_noisy_count_is_averaged_over_its_law(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(3)
    users = [[(int(x), int(x > 2)) for x in rng.integers(0, 6, sizes[i % len(sizes)])] for i in range(30)]
    people = people_of(users)
    learner = RegretSelection(people.concept, 1)  # type: ignore[arg-type]
    points = count_points(learner, people.concept.bits, people.users)
    assert sum(p for p, _ in points) == pytest.approx(1)
    rate = float(learner.epsilon_count)
    noise = np.arange(-400, 401)
    chance = np.exp(-rate * np.abs(noise))
    values: dict[int, float] = {}
    for p, n in zip(chance / chance.sum(), np.maximum(30 + noise, 0).tolist()):
        values[n] = values.get(n, 0.0) + p
    law: Any = learner.law
    exact = math.fsum(p * people.expected_excess(law(people.users, given=n)) for n, p in values.items() if p > 1e-12)
    found = compare(people, epsilon=1, methods=["regret"]).rows[0].excess
    assert found == pytest.approx(exact, abs=1e-7 if len(points) <= 3 else 1e-3)


def test_every_private_row_of_ours_promises_the_epsilon_asked_for_per_user() -> None:
    people = generated_population("0.1", records_per_user=4, values=16)
    found = compare(
        people, epsilon=["1/2", 2], methods=["default", "mean", "one-record", "group", "realizable"], n_users=20
    )
    for row in found.rows:
        assert row.promise == f"({'0.5' if row.epsilon == '1/2' else '2'}, 0)-DP per user, add-remove"


def test_methods_without_a_law_are_run() -> None:
    people = generated_population("0", records_per_user=8, values=8)
    row = compare(people, epsilon=50, methods=["agnostic"], n_users=60, runs=3).rows[0]
    assert 0 <= row.excess < 0.2


def test_more_users_and_more_epsilon_help_and_all_methods_see_the_same_data() -> None:
    people = generated_population("0.1", records_per_user=16, values=128)
    found = compare(
        people, epsilon=["0.5", "4"], methods=["default", "mean", "erm", "constant"], n_users=[20, 320], draws=4
    )
    for method in ("default", "mean"):
        assert found.of(method, "0.5", 20).excess > found.of(method, "0.5", 320).excess
        assert found.of(method, "0.5", 20).excess > found.of(method, "4", 20).excess
    assert found.of("erm", "0.5", 20).excess == found.of("erm", "4", 20).excess
    assert found.of("constant", "4", 20).excess == pytest.approx(0.4)
    again = compare(people, epsilon=["0.5", "4"], methods=["mean"], n_users=[20, 320], draws=4)
    assert again.of("mean", "4", 20) == found.of("mean", "4", 20)


def test_the_whole_table_is_one_data_set_without_spread() -> None:
    people = people_of([[(1, 0), (4, 1)], [(2, 0)], [(5, 1)]])
    row = compare(people, epsilon=1, methods=["mean"], draws=7).rows[0]
    assert row.n_users == 3
    assert row.spread is None


def setting_of(people: Any, **changes: Any) -> Setting:
    given: dict[str, Any] = {"epsilons": (Fraction(1),), "delta": Fraction(1, 100), "cap": 4, "runs": 2, "seed": 0}
    return Setting(people, **(given | changes))


@pytest.mark.parametrize(
    ("method", "epsilon", "neighbours"),
    [("pairwise", 1, "add-remove"), ("trimmed", 6, "replace"), ("tree", 2, "add-remove"), ("agreement", 1, "replace")],
)
def test_named_methods_are_averaged_over_their_exact_law(method: str, epsilon: int, neighbours: str) -> None:
    """Rule by rule, with the error of the released rule counted on the table itself."""
    rng = np.random.default_rng(5)
    users = [[(int(x), int(x > 2) ^ int(rng.random() < 0.2)) for x in rng.integers(0, 6, 7)] for _ in range(60)]
    people = people_of(users)
    errors = brute_errors(users, 7, lambda u, x: int(x >= u))
    setting = setting_of(people, epsilons=(Fraction(epsilon),), neighbours=Neighbours(neighbours), runs=1)
    learner: Any = own_learner(method, setting, Fraction(epsilon))
    given = {"given": len(users)} if getattr(learner, "needs_count", False) else {}
    law = learner.law(people.users, **given).as_finite()

    def error(value: Any) -> float:
        # Cut u = 6 says never; node v of the path is the cut that says 1 on the v highest values.
        return errors[6 if value is BOTTOM else 6 - value if method == "tree" else value]

    mean = math.fsum(float(law.prob(value)) * error(value) for value in law.values())
    found = compare(people, epsilon=epsilon, methods=[method], neighbours=neighbours, delta="1/100", runs=1).rows[0]
    assert found.excess == pytest.approx(mean - min(errors), abs=1e-6)
    assert 0 < found.excess < errors[6]


@pytest.mark.parametrize("concept", [pp.Points(), pp.Stumps({"x": pp.Integers(0, 5)})], ids=["points", "stumps"])
def test_agreement_on_other_classes_is_the_mean_over_public_seeds(concept: Any) -> None:
    people = people_of([[(x, int(x == 3)) for x in range(6)] * 20] * 30, concept)
    found = compare(people, epsilon=4, methods=["agreement"], runs=3)
    assert found.rows[0].excess < 0.05
    assert "3 public seeds" in found.about["agreement"]
    setting = setting_of(people)
    first, other = (own_learner("agreement", setting, Fraction(4), run) for run in (0, 1))
    assert first.seed != other.seed  # type: ignore[attr-defined]


def test_classes_too_large_to_list_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    people = generated_population("0", records_per_user=32, values=16)
    monkeypatch.setattr(expected_error, "MOST_RULES", 16)
    assert error_by_rule(own_learner("tree", setting_of(people), Fraction(1)), people) is None
    found = compare(people, epsilon=20, methods=["tree", "agreement"], n_users=60, runs=2)
    assert "2 runs" in found.about["tree"]
    assert "2 runs" in found.about["agreement"]
    assert found.of("tree", 20, 60).excess < 0.2


# Replaced users


OURS = ["default", "mean", "realizable", "pairwise", "tree", "agreement", "one-record", "group"]


def test_every_private_row_of_ours_promises_replace_when_asked() -> None:
    people = generated_population("0.1", records_per_user=4, values=16)
    found = compare(people, epsilon=2, methods=[*OURS, "trimmed"], n_users=150, runs=1, neighbours="replace")
    promises = {row.method: row.promise for row in found.rows}
    assert promises.pop("trimmed") == "(2, 1e-06)-DP per user, replace"
    assert set(promises.values()) == {"(2, 0)-DP per user, replace"}
    assert found.neighbours == "replace"
    assert found.to_dict()["neighbours"] == "replace"


def test_replace_costs_more_than_add_remove_for_the_same_scores() -> None:
    people = generated_population("0.1", records_per_user=4, values=64)
    come, change = (
        compare(people, epsilon=1, methods=["mean", "one-record", "group"], n_users=60, draws=4, neighbours=relation)
        for relation in ("add-remove", "replace")
    )
    for method in come.methods:
        assert come.of(method, 1, 60).excess < change.of(method, 1, 60).excess


def test_trimmed_refuses_add_remove_and_too_few_users_in_its_own_words() -> None:
    with pytest.raises(ParameterError, match=r"trimmed cannot run: .*replace"):
        compare(SMALL, epsilon=1, methods=["trimmed"], n_users=100)
    with pytest.raises(ParameterError, match=r"trimmed cannot run: .*too few users"):
        compare(SMALL, epsilon=1, methods=["trimmed"], n_users=[400, 20], neighbours="replace")


@pytest.mark.parametrize("bad", ["swap", "", None, 1])
def test_unknown_neighbours_are_refused(bad: Any) -> None:
    with pytest.raises((ParameterError, TypeError), match="neighbours"):
        compare(SMALL, epsilon=1, methods=["mean"], n_users=5, neighbours=bad)


# The call


SMALL = generated_population("0.1", records_per_user=2, values=8)


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": math.nan},
        {"epsilon": 201},
        {"epsilon": "one"},
        {"epsilon": []},
        {"n_users": 0},
        {"n_users": []},
        {"n_users": 1 << 40},
        {"n_users": None},
        {"methods": ["magic"]},
        {"methods": []},
        {"draws": 0},
        {"runs": 0},
        {"cap": 0},
        {"delta": 0},
        {"delta": 1},
        {"seed": -1},
    ],
    ids=lambda bad: next(f"{name}={str(value)[:12]}" for name, value in bad.items()),
)
def test_bad_parameters_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        compare(SMALL, **({"epsilon": 1, "n_users": 5, "methods": ["mean"]} | bad))


def test_a_method_that_does_not_fit_the_class_is_refused_in_its_own_words() -> None:
    people = people_of([[(1, 0), (4, 1)], [(2, 0)]], pp.Intervals())
    with pytest.raises(ParameterError, match="search cannot run"):
        compare(people, epsilon=1, methods=["mean", "search"])


def test_more_users_than_the_table_has_and_what_is_no_population_are_refused() -> None:
    with pytest.raises(ParameterError, match="at most"):
        compare(people_of([[(1, 1)]]), epsilon=1, n_users=2, methods=["mean"])
    with pytest.raises(TypeError, match="population"):
        compare([[(1, 1)]], epsilon=1)  # type: ignore[arg-type]


def test_names_stand_for_contenders() -> None:
    assert [one.name for one in named_contenders(["mean", "mean"])] == ["mean"]
    assert {one.name for one in named_contenders(STANDARD)} <= set(all_contenders())


def test_users_needed_is_the_least_number_from_which_on_the_excess_stays_small() -> None:
    excess = {25: 0.01, 50: 0.03, 100: 0.02, 200: 0.001}
    rows = tuple(Measured("m", "1", n, value, None, "") for n, value in excess.items())
    found = Comparison("people", 0.1, 0.5, 1, 1, rows, {"m": ""})
    assert found.users_needed("m", 1, 0.02) == 100
    assert found.users_needed("m", 1, 0.05) == 25
    assert found.users_needed("m", 1, 0.0001) is None
    with pytest.raises(ParameterError, match="nothing was measured"):
        found.of("m", 2, 25)


def test_a_contender_of_ones_own_is_run_beside_the_others() -> None:
    def run(setting: Setting, datasets: Any) -> Any:
        return np.full((len(setting.epsilons), len(datasets), 1), 0.25)

    own = Contender("mine", "a constant", "exact", lambda setting, epsilon: "none: not private", run)
    found = compare(SMALL, epsilon=1, n_users=5, methods=["mean", own])
    assert found.of("mine", 1, 5).excess == 0.25
    assert "mine" in str(found)
    assert all_contenders().keys().isdisjoint({"mine"})
