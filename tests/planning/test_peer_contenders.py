"""The benchmarks' contenders: DP-SGD and diffprivlib's models keep the promises they name."""

from __future__ import annotations

import math
import sys
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
from privpac.planning.comparison import compare
from privpac.rules.populations import generated_population, public_population

RECORDS = st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1)), max_size=5), min_size=1, max_size=6)
BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")
sys.path.insert(0, BENCHMARKS)
try:
    import diffprivlib_models
    import noisy_gradients
    from noisy_gradients import NoisyGradients, epsilon_spent, noise_multiplier, train
    from peer_contenders import diffprivlib_model, diffprivlib_models_of, dp_sgd, peer_rows
finally:
    sys.path.remove(BENCHMARKS)


def people_of(users: Any) -> Any:
    return public_population(pp.UserData.from_users(users, features={"x": pp.Integers(0, 5)}), pp.Thresholds())


def brute_errors(users: Any, size: int, predict: Any) -> list[float]:
    """The error of every rule: the mean over users with records of the share of mistakes."""
    full = [records for records in users if records]
    return [
        float(np.mean([np.mean([predict(u, x) != y for x, y in records]) for records in full])) for u in range(size)
    ]


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


def test_without_the_accountant_dp_sgd_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_gradients, "find_spec", lambda name: None)
    people = generated_population("0.1", records_per_user=2, values=8)
    with pytest.raises(ParameterError, match="dp-accounting"):
        compare(people, epsilon=1, n_users=10, methods=["mean", dp_sgd()])
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
        methods=[diffprivlib_model("logistic", way, peer) for way in ("one", "group")],
        cap=2,
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
    both = [diffprivlib_model("logistic", way, peer) for way in ("one", "group")]
    found = compare(
        people_of([[(1, 0), (4, 1)], [(5, 1)]]),
        epsilon=1,
        methods=both,
        cap=2,
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
            compare(people, epsilon=1, n_users=20, methods=[diffprivlib_model("tree", "one", python)])
    assert len(diffprivlib_models_of(sys.executable)) == 2 * len(diffprivlib_models.MODELS)
