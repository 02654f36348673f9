"""Coarse to fine: steps and windows literally, means, variances and covariances that land where they should."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma

from privpac.data import Categories, Floats, Grid, UserData
from privpac.distributions import (
    CoarseToFineCovariance,
    CoarseToFineGaussian,
    CoarseToFineMean,
    CoarseToFineVariance,
    GaussianDistribution,
)
from privpac.distributions.gaussian import (
    TAU,
    Axis,
    Quantities,
    cell_law,
    cell_scores,
    fine_sum,
    log_variance_of,
    moment_of,
    project_eigenvalues,
)
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours
from privpac.testing import SeededRng, insecure_randomness

sys.path.insert(0, str(Path(__file__).parent))
from literal import clip, users_of


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.integers(-300, 300)), max_size=12),
    st.integers(1, 40),
    st.integers(-9, 0),
    st.integers(0, 9),
)
def test_scores_equal_the_literal_windows(y: list[int | None], cell: int, first: int, last: int) -> None:
    filled = [v for v in y if v is not None]
    data = Quantities(np.array(filled, dtype=np.int64), len(y))
    places, scores = cell_scores(data, cell, first, last)
    got = np.repeat(scores, np.diff(np.append(places, last - first + 1))).tolist()
    cells = [min(max(v // cell, first), last) for v in filled]
    assert got == [len(y) - sum(abs(c - j) <= 1 for c in cells) for j in range(first, last + 1)]
    assert fine_sum(data, 7, 20) == sum(clip(v - 7, 20) for v in filled)


def test_a_grid_of_2_to_the_45_cells_costs_a_few_blocks() -> None:
    axis = Axis(1.0, -(2.0**52), 2.0**52)
    data = Quantities(np.array([-(1 << 52), 5, 9, 1 << 52]), 4)
    law = cell_law(data, axis.cell, axis.limits, Fraction(1), Neighbours.ADD_REMOVE)
    first, last = axis.limits
    assert last - first == 1 << 46
    assert first + law.mode in (-1, 0, 1)


def test_tau_and_units_are_those_of_the_theory() -> None:
    assert TAU == 387
    assert CoarseToFineMean(1, radius=1, records_per_user=4).axis.unit == 1 / 128


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_error_times_sqrt_m_does_not_grow(neighbours: str) -> None:
    """n = 200, epsilon = 1: the median error over 15 data sets times sqrt(m) stays about the same from m = 1 to 256."""
    rng = np.random.default_rng(6)
    scaled = []
    with insecure_randomness():
        for m in (1, 16, 256):
            away = []
            for run in range(15):
                x = rng.normal(2.5, 1, 200 * m)
                data = UserData.from_arrays(x[:, None], users=np.repeat(np.arange(200), m), features={"x": Floats()})
                learner = CoarseToFineMean(1, radius=20, records_per_user=m, neighbours=neighbours)
                away.append(abs(learner.learn(data, rng=SeededRng(run)).value.mean[0] - 2.5))
            scaled.append(float(np.median(away)) * math.sqrt(m))
    assert max(scaled) < 0.4
    assert max(scaled) < 6 * min(scaled)


def test_means_of_several_columns_and_known_variance() -> None:
    rng = np.random.default_rng(1)
    true = np.array([3.0, -1.0, 0.5])
    x = rng.normal(true, 2, (4000 * 4, 3))
    data = UserData.from_arrays(x, users=np.repeat(np.arange(4000), 4), features={c: Floats() for c in "abc"})
    released = CoarseToFineMean(2, radius=10, records_per_user=4, variance=4).learn(data)
    assert isinstance(released.value, GaussianDistribution)
    assert released.value.covariance == ((4.0, 0.0, 0.0), (0.0, 4.0, 0.0), (0.0, 0.0, 4.0))
    # Laplace noise of scale 387 / (2/6) units of 1/64 over 4000 users is 0.0045: 0.3 is beyond any doubt (below 1e-20).
    assert np.abs(np.array(released.value.mean) - true).max() < 0.3
    assert released.guarantee is not None
    assert released.guarantee.epsilon == 2
    assert "users (noisy)" in released.parameters


@pytest.mark.parametrize("end", [-1.0, 1.0])
def test_a_mean_at_the_end_of_its_range_is_not_pulled_inwards(end: float) -> None:
    """Half of the users lie beyond the end; cut off there their mean would be 1/4 off.  At this epsilon the noise of
    the sum is about 0.1, so that it moves the mean of 1000 users by more than 0.01 with probability below 1e-20."""
    data = users_of([[end - 0.5], [end + 0.5]] * 500, x=Grid(-9, 9, 0.5))
    found = CoarseToFineMean(200, radius=1, records_per_user=1).learn(data).value.mean[0]
    assert abs(found - end) < 0.01


def test_a_variance_at_the_end_of_its_range_is_not_pulled_inwards() -> None:
    """2000 users of 16 records: the mean of ln v has a standard error of 0.012; cut off at ln 2 it would be 0.2 off."""
    x = np.random.default_rng(8).normal(0, math.sqrt(2), 2000 * 16)
    data = UserData.from_arrays(x[:, None], users=np.repeat(np.arange(2000), 16), features={"x": Floats()})
    found = CoarseToFineVariance(200, max_variance=2, records_per_user=16).learn(data).value
    assert abs(math.log(found / 2)) < 0.06


def test_variance_steps_follow_the_definition() -> None:
    users = [[1.0, 2.0, 4.0, 4.5], [0.0, 1.0, 0.0], [3.0, 3.0, 3.0, 3.0, 9.0], [], [5.0, 1.0, 2.0, 2.0, 0.0, 3.0]]
    data = users_of(users, x=Floats())
    got = log_variance_of("x", Floats())(data)
    for user, value in zip(users, got, strict=True):
        nu = len(user) // 2
        if nu < 2:
            assert math.isnan(value)
            continue
        v = sum((user[2 * k] - user[2 * k + 1]) ** 2 for k in range(nu)) / (2 * nu)
        expected = math.log(v or 5e-324) - digamma(nu / 2) + math.log(nu / 2)
        assert value == pytest.approx(expected)


def test_moments_follow_the_definition() -> None:
    users = [[(1.0, 2.0), (2.0, 0.0), (0.0, 1.0), (1.0, 1.5), (9.0, 9.0)], [(1.0, 1.0)]]
    data = users_of(users, a=Floats(), b=Floats())
    got = moment_of(("a", "b"), data.features)(data)  # type: ignore[arg-type]
    assert got[0] == pytest.approx(((1 - 2) * (2 - 0) + (0 - 1) * (1 - 1.5)) / 4)
    assert math.isnan(got[1])


def test_variances_covariances_and_normal_laws_are_found() -> None:
    rng = np.random.default_rng(2)
    n, m = 20_000, 16
    true = np.array([[2.0, 0.7], [0.7, 1.5]])
    x = rng.multivariate_normal([1.0, -2.0], true, n * m)
    data = UserData.from_arrays(x, users=np.repeat(np.arange(n), m), features={"a": Floats(), "b": Floats()})
    variance = CoarseToFineVariance(2, max_variance=9, records_per_user=m, features="a").learn(data).value
    assert abs(variance - 2) < 0.2
    matrix = np.array(CoarseToFineCovariance(4, max_variance=4, records_per_user=m).learn(data).value)
    assert np.abs(matrix - true).max() < 0.3
    assert np.linalg.eigvalsh(matrix)[0] >= 1 - 1e-9
    law = CoarseToFineGaussian(6, radius=10, max_variance=4, records_per_user=m).learn(data)
    assert np.abs(np.array(law.value.mean) - [1, -2]).max() < 0.2
    assert np.abs(np.array(law.value.covariance) - true).max() < 0.3
    assert law.guarantee is not None
    assert law.guarantee.epsilon == 6
    one = CoarseToFineGaussian(
        4, radius=10, max_variance=9, records_per_user=m, features="b", neighbours="replace"
    ).learn(data)
    assert abs(one.value.covariance[0][0] - 1.5) < 0.3
    assert abs(one.value.mean[0] + 2) < 0.2


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=9, max_size=9))
def test_projection_bounds_the_eigenvalues(entries: list[float]) -> None:
    out = project_eigenvalues(np.array(entries).reshape(3, 3), 1.0, 2.0)
    values = np.linalg.eigvalsh(out)
    assert values[0] >= 1 - 1e-9
    assert values[-1] <= 2 + 1e-9
    assert (out == out.T).all()


@pytest.mark.parametrize("users", [[], [[]], [[0.5]]])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_no_users_or_one_are_ordinary(users: list[list[float]], neighbours: str) -> None:
    data = users_of(users, x=Grid(-5, 5, 0.5))
    learner = CoarseToFineMean(1, radius=20, records_per_user=1, neighbours=neighbours)
    released = learner.learn(data)
    assert -20 <= released.value.mean[0] <= 20
    if not any(users):
        law = learner.coarse_law(data)
        first, last = learner.axis.limits
        assert law.prob_float(0) == pytest.approx(1 / (last - first + 1))
    wide = CoarseToFineGaussian(1, radius=5, max_variance=2, records_per_user=4, neighbours=neighbours)
    assert 1 <= wide.learn(data).value.covariance[0][0] <= 2 + 1e-9


def test_huge_values_do_not_break_the_release() -> None:
    data = users_of([[1e308, 1e308, -1e308, 1e308], [1e-308] * 4], x=Floats())
    for learner in (
        CoarseToFineMean(1, radius=5, records_per_user=4),
        CoarseToFineVariance(1, max_variance=5, records_per_user=4),
        CoarseToFineCovariance(1, max_variance=5, records_per_user=4),
    ):
        assert learner.learn(data)


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ParameterError, match="records_per_user"):
        CoarseToFineVariance(1, max_variance=2, records_per_user=3)
    with pytest.raises(ParameterError, match="max_variance"):
        CoarseToFineVariance(1, max_variance=1, records_per_user=4)
    with pytest.raises(ParameterError, match="steps"):
        CoarseToFineMean(1, radius=10**300, records_per_user=4)
    with pytest.raises(ParameterError, match="shares"):
        CoarseToFineMean(1, radius=1, records_per_user=4, shares=("1/2", "1/2", 0))
    assert (
        CoarseToFineMean(1, radius=1, records_per_user=4, shares=("1/2", "1/2", 0), neighbours="replace").shares[2] == 0
    )
    with pytest.raises(ParameterError, match="epsilon"):
        CoarseToFineMean(0, radius=1, records_per_user=4)
    with pytest.raises(ParameterError, match="do not hold numbers"):
        CoarseToFineMean(1, radius=1, records_per_user=4).bind(users_of([["a"]], x=Categories(["a"])))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_short_axes_have_no_first_step_and_their_clip_pays_for_itself(
    neighbours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the budget that the count does not take is the sum's, whose change is at most the clip (twice, under
    replace)."""
    rates: list[Fraction] = []
    monkeypatch.setattr("privpac.distributions.gaussian.discrete_laplace", lambda eta, rng: rates.append(eta) or 0)
    monkeypatch.setattr("privpac.distributions.gaussian.cell_law", None)
    learner = CoarseToFineMean(1, radius=1, records_per_user=1, neighbours=neighbours)
    center, tau = learner.axis.window
    assert (learner.idle, center, tau) == (True, 0, 64 + 195)
    learner.learn(users_of([[0.5], [-2.0]], x=Floats()))
    count = learner.shares[2]
    people = [count] if neighbours == "add-remove" else []  # whose number is public under replace
    assert rates == [*people, (1 - count) / ((1 if neighbours == "add-remove" else 2) * tau)]
    widest = [fine_sum(Quantities(learner.axis.steps(np.array([v])), 1), center, tau) for v in (-1e300, 0.0, 1e300)]
    assert widest == [-tau, 0, tau]
    with pytest.raises(ParameterError, match="no first step"):
        learner.coarse_law(users_of([[0.5]], x=Floats()))


def test_a_mean_within_one_deviation_is_no_worse_than_a_clipped_mean() -> None:
    """Total variation at 50 people with one record each was 0.12 with a first step; a mean of values clipped at 4 has
    0.073."""
    rng, found, clipped = np.random.default_rng(1), [], []
    learner = CoarseToFineMean(1, radius=1, records_per_user=1)
    with insecure_randomness():
        secret = SeededRng(3)
        for _ in range(200):
            x = rng.normal(0.5, 1, 50)
            data = UserData.from_arrays(x[:, None], None, np.arange(50), features={"x": Floats()})
            found.append(abs(learner.learn(data, rng=secret).value.mean[0] - 0.5))
            noisy = np.clip(x, -4, 4).sum() + rng.laplace(0, 4 / 0.875)
            clipped.append(abs(noisy / max(1, 50 + rng.laplace(0, 8)) - 0.5))
    assert np.mean(found) < 1.15 * np.mean(clipped)


def test_longer_axes_choose_a_cell() -> None:
    for neighbours, radius in (("add-remove", 4), ("replace", 10)):
        learner = CoarseToFineMean(1, radius=radius, records_per_user=1, neighbours=neighbours)
        assert not learner.idle
        assert "cells, clipped sums" in learner.guarantee.derivation[0]
