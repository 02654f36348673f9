"""Comparisons: the truth is the truth, expectations are those of the exact law, and every contender keeps the promise
it names."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import privpac as pp
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours
from privpac.law import BOTTOM
from privpac.methods.regret import RegretSelection
from privpac.planning.comparison import diffprivlib_models, expected_error, noisy_gradients
from privpac.planning.comparison.comparing import Comparison, Measured, compare
from privpac.planning.comparison.expected_error import count_points, error_by_rule
from privpac.planning.comparison.methods_compared import (
    STANDARD,
    Contender,
    Setting,
    all_contenders,
    dp_sgd,
    named_contenders,
    own_learner,
    peer_rows,
)
from privpac.planning.comparison.noisy_gradients import NoisyGradients, epsilon_spent, noise_multiplier, train
from privpac.planning.populations import generated_population, public_population

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


# DP-SGD


def gaussian_delta(epsilon: float, sigma: float) -> float:
    """The exact delta of one Gaussian with shift 1 (Balle and Wang 2018)."""
    a, b = 1 / (2 * sigma), epsilon * sigma
    return float(norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b))


@pytest.mark.parametrize(("epsilon", "delta", "steps"), [(1.0, 1e-6, 1), (0.5, 1e-5, 40), (4.0, 1e-6, 300)])
def test_the_noise_multiplier_meets_epsilon_and_delta_by_the_accountant_and_by_the_formula(
    epsilon: float, delta: float, steps: int
) -> None:
    pytest.importorskip("dp_accounting")
    noise = noise_multiplier(epsilon, delta, steps=steps)
    assert epsilon_spent(noise, delta, steps=steps) <= epsilon
    assert gaussian_delta(epsilon, noise / math.sqrt(steps)) <= delta
    assert gaussian_delta(epsilon, noise / 1.03 / math.sqrt(steps)) > delta


def test_composed_steps_are_accounted_like_the_library_composes_them() -> None:
    accounting = pytest.importorskip("dp_accounting")
    noise = noise_multiplier(2.0, 1e-5, steps=4)
    event = accounting.SelfComposedDpEvent(accounting.GaussianDpEvent(noise), 4)
    assert noisy_gradients._accountant().compose(event).get_epsilon(1e-5) == pytest.approx(2.0, rel=0.04)


def test_sampled_users_need_less_noise_and_still_meet_the_target() -> None:
    pytest.importorskip("dp_accounting")
    noise = noise_multiplier(1.0, 1e-5, steps=10, sampling=0.25)
    assert epsilon_spent(noise, 1e-5, steps=10, sampling=0.25) <= 1.0
    assert noise < noise_multiplier(1.0, 1e-5, steps=10)


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_replaced_users_need_twice_the_noise_since_they_move_a_sum_by_two_clips(epsilon: float) -> None:
    pytest.importorskip("dp_accounting")
    how = NoisyGradients(40, 0.3, 8.0)
    noise = how.noise(epsilon, "1e-5", "replace")
    # In units of the shift of two clips the noise of the composed steps is half of it, over the root of their number.
    assert gaussian_delta(epsilon, noise / 2 / math.sqrt(40)) <= 1e-5
    assert gaussian_delta(epsilon, noise / 2 / 1.03 / math.sqrt(40)) > 1e-5
    assert noise == pytest.approx(2 * how.noise(epsilon, "1e-5"))


def test_replaced_users_with_sampling_pay_for_one_who_leaves_and_one_who_comes() -> None:
    pytest.importorskip("dp_accounting")
    how = NoisyGradients(5, 1.0, 1.0, 0.25)
    noise = how.noise(2, "1e-5", Neighbours.REPLACE)
    delta = 1e-5 / (1 + math.e)
    assert epsilon_spent(noise, delta, steps=5, sampling=0.25) <= 1.0
    assert noise > how.noise(2, "1e-5")


VALUES = st.floats(-1, 1, allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.tuples(VALUES, st.integers(0, 1)), max_size=4), min_size=1, max_size=5),
    st.lists(st.floats(-50, 50), min_size=2, max_size=2),
    st.sampled_from([0.01, 0.3, 5.0]),
)
def test_whoever_leaves_moves_the_sum_by_at_most_the_clip(users: Any, weights: Any, clip: float) -> None:
    def summed(some: Any) -> Any:
        rows = [record for records in some for record in records]
        offsets = np.cumsum([0, *(len(records) for records in some)])
        features = np.array([x for x, _ in rows]).reshape(-1, 1)
        points, held, ones = noisy_gradients._by_user(features, np.array([y for _, y in rows]), offsets)
        return noisy_gradients._summed(points, held, ones, np.array([weights]), clip, None)

    def gradient(records: Any) -> Any:
        each = [(1 / (1 + math.exp(-(weights[0] * x + weights[1]))) - y) * np.array([x, 1.0]) for x, y in records]
        mean = np.mean(each, axis=0) if each else np.zeros(2)
        return mean * min(1.0, clip / max(float(np.linalg.norm(mean)), 1e-300))

    everyone = summed(users)
    assert everyone[0] == pytest.approx(sum(gradient(records) for records in users), abs=1e-9)
    for i in range(len(users)):
        moved = everyone - summed(users[:i] + users[i + 1 :])
        assert float(np.linalg.norm(moved)) <= clip * (1 + 1e-9)
        # A replaced user is one who leaves and one who comes.
        moved = everyone - summed([*users[:i], users[0], *users[i + 1 :]])
        assert float(np.linalg.norm(moved)) <= 2 * clip * (1 + 1e-9)


def test_training_without_noise_finds_the_cut_and_with_much_noise_does_not() -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 400)
    offsets = np.arange(0, 401, 4)
    how = NoisyGradients(200, 1.0, 8.0)
    calm, wild = train(x[:, None], x > 0.3, offsets, how, np.array([0.0, 1e5]), np.random.default_rng(1))
    assert -calm[1] / calm[0] == pytest.approx(0.3, abs=0.1)
    assert np.linalg.norm(wild) > 100 * np.linalg.norm(calm)


def test_a_step_that_samples_nobody_moves_by_noise_alone() -> None:
    how = NoisyGradients(1, 1.0, 1.0, 1e-12)
    still = train(np.ones((2, 1)), np.ones(2), np.array([0, 1, 2]), how, np.array([0.0]), np.random.default_rng(0))
    assert not still.any()


@pytest.mark.parametrize(
    "bad", [{"steps": 0}, {"clip": 0}, {"clip": math.nan}, {"rate": -1.0}, {"sampling": 1.5}, {"rate": "fast"}]
)
def test_parameters_of_dp_sgd_are_checked(bad: dict[str, Any]) -> None:
    with pytest.raises((ParameterError, TypeError)):
        NoisyGradients(**bad)


def test_without_the_accountant_dp_sgd_is_left_out_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_gradients, "find_spec", lambda name: None)
    people = generated_population("0.1", records_per_user=2, values=8)
    found = compare(people, epsilon=1, n_users=10)
    assert "dp-sgd" not in found.methods
    assert any("dp-accounting" in line for line in found.left_out)
    with pytest.raises(ParameterError, match="dp-accounting"):
        compare(people, epsilon=1, n_users=10, methods=["dp-sgd"])
    with pytest.raises(ParameterError, match="dp-accounting"):
        NoisyGradients().noise(1, "1e-6")


def test_dp_sgd_says_its_delta_and_learns_from_many_users() -> None:
    pytest.importorskip("dp_accounting")
    people = generated_population("0", records_per_user=4, values=16)
    calm = dp_sgd(NoisyGradients(50, 1.0, 8.0))
    row = compare(people, epsilon=4, methods=[calm], n_users=3000, runs=2, delta="1e-5").rows[0]
    assert row.promise.startswith("(4, 1e-05)-DP per user, add-remove")
    assert row.excess < 0.05
    changed = compare(people, epsilon=4, methods=[calm], n_users=50, runs=1, delta="1e-5", neighbours="replace").rows[0]
    assert changed.promise.startswith("(4, 1e-05)-DP per user, replace")


# diffprivlib, through a package of its name


FAKE = """
import numpy as np
class LogisticRegression:
    def __init__(self, epsilon, random_state, data_norm):
        self.epsilon = epsilon
    def fit(self, x, y):
        self.low = float(x.min())
        self.rows = len(x)
        return self
    def predict(self, x):
        # All ones at the epsilon of a single row, all zeros at that of a group.
        return np.full(len(x), int(self.epsilon == 1.0))
"""


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "diffprivlib").mkdir()
    (tmp_path / "diffprivlib" / "__init__.py").write_text("")
    (tmp_path / "diffprivlib" / "models.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return sys.executable


def test_peers_get_epsilon_per_row_or_a_share_of_it_per_row_of_a_group(peer: str) -> None:
    users = [[(1, 0), (4, 1)], [(2, 0), (5, 1)], [(5, 1)], [(5, 1)]]
    found = compare(
        people_of(users),
        epsilon=1,
        methods=["diffprivlib-logistic-one", "diffprivlib-logistic-group"],
        cap=2,
        peers=peer,
        runs=2,
    )
    errors = brute_errors(users, 7, lambda u, x: int(x >= u))
    one, group = found.rows
    assert one.excess == pytest.approx(errors[0] - min(errors))
    assert group.excess == pytest.approx(errors[-1] - min(errors))
    assert "one row per user" in one.promise
    assert "2 rows at 0.5" in group.promise


@settings(max_examples=60, deadline=None)
@given(RECORDS.filter(any), RECORDS, st.integers(1, 4), st.data())
def test_a_replaced_user_changes_at_most_the_rows_of_the_group_and_never_their_number(
    users: Any, others: Any, cap: int, draw: Any
) -> None:
    i = draw.draw(st.integers(0, len(users) - 1))
    changed = [*users[:i], others[0], *users[i + 1 :]]
    people = people_of([*users, *(other for other in changed if other)])

    def rows(some: Any) -> Any:
        data = pp.UserData.from_users(some, features={"x": pp.Integers(0, 5)})
        return np.column_stack(peer_rows(people, data, cap, Neighbours.REPLACE))

    before, after = rows(users), rows(changed)
    assert len(before) == len(after) == cap * len(users)
    assert int((before != after).any(axis=1).sum()) <= cap
    kept = np.concatenate([np.arange(len(before)) // cap != i])
    assert (before[kept] == after[kept]).all()


def test_rows_of_someone_with_few_records_are_theirs_over_and_over() -> None:
    people = people_of([[(1, 0), (4, 1)], [(5, 1)], [(0, 0)] * 9])
    features, labels = peer_rows(people, people.users, 3, Neighbours.REPLACE)
    assert features.ravel() == pytest.approx([-0.6, 0.6, -0.6, 1, 1, 1, -1, -1, -1])
    assert labels.tolist() == [0, 1, 0, 1, 1, 1, 0, 0, 0]
    few, said = peer_rows(people, people.users, 3, Neighbours.ADD_REMOVE)
    assert len(few) == len(said) == 6


def test_peers_promise_users_replaced_when_asked(peer: str) -> None:
    both = ["diffprivlib-logistic-one", "diffprivlib-logistic-group"]
    found = compare(
        people_of([[(1, 0), (4, 1)], [(5, 1)]]),
        epsilon=1,
        methods=both,
        cap=2,
        peers=peer,
        runs=1,
        neighbours="replace",
    )
    one, group = found.rows
    assert one.promise == "(1, 0)-DP per user, replace, one row per user"
    assert group.promise == "(1, 0)-DP per user, replace, by group privacy: 2 rows at 0.5"


def test_data_of_one_label_count_as_its_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    job: dict[str, Any] = {"model": "tree", "runs": 1, "epsilons": np.array([1.0]), "datasets": 2, "seed": 0}
    job |= {"points": np.zeros((2, 1)), "costs": np.array([[0.1, 0.2], [0.3, 0.4]])}
    job |= {"x0": np.zeros((3, 1)), "y0": np.ones(3), "x1": np.zeros((0, 1)), "y1": np.zeros(0)}
    monkeypatch.setattr(diffprivlib_models, "fit", lambda *args: pytest.fail("one label is not fitted"))
    assert diffprivlib_models.errors(job) == [[[pytest.approx(0.7)], [pytest.approx(0.3)]]]


def test_a_python_without_diffprivlib_is_refused_in_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho \"No module named 'diffprivlib'\" >&2\nexit 1\n")
    broken.chmod(0o755)
    people = generated_population("0.1", records_per_user=2, values=8)
    for python, word in ((broken, "diffprivlib"), (tmp_path / "none", "cannot be run")):
        with pytest.raises(ParameterError, match=word):
            compare(people, epsilon=1, n_users=20, methods=["diffprivlib-tree-one"], peers=python)
    with pytest.raises(ParameterError, match="--peers"):
        compare(people, epsilon=1, n_users=20, methods=["diffprivlib"])


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


def test_names_stand_for_contenders_and_diffprivlib_for_all_of_its_models() -> None:
    assert [one.name for one in named_contenders(["mean", "mean"])] == ["mean"]
    assert len(named_contenders(["diffprivlib"])) == 2 * len(diffprivlib_models.MODELS)
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
