"""Lower bounds of products and covariances: every step of the argument against brute force, and never above what an
algorithm reaches."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from privpac.bounds import lower_covariance, lower_product
from privpac.errors import ParameterError
from privpac.lower_bounds import _covariance_tasks, _product_tasks, _some_codes, column_distance, larger
from privpac.sample_size import Certificate

HARD: dict[str, Any] = {"alpha": "0.1", "epsilon": 1, "records_per_user": 4, "success": "0.95"}


def exact_distance(differing: list[int], pairs: int, bias: Fraction) -> Fraction:
    """Total variation of two products of columns of ``pairs`` tilted pairs, value by value."""
    columns = []
    for h in differing:
        one, other = [], []
        for pair in range(pairs):
            up, down = (1 + bias) / (2 * pairs), (1 - bias) / (2 * pairs)
            one += [up, down]
            other += [down, up] if pair < h else [up, down]
        columns.append((one, other))
    total = Fraction(0)
    for cell in product(range(2 * pairs), repeat=len(differing)):
        p = math.prod(columns[j][0][x] for j, x in enumerate(cell))
        q = math.prod(columns[j][1][x] for j, x in enumerate(cell))
        total += abs(p - q)
    return total / 2


@given(st.integers(1, 2), st.data())
@settings(max_examples=60, deadline=None)
def test_products_are_at_least_as_far_apart_as_is_said(pairs: int, data: st.DataObject) -> None:
    columns = data.draw(st.integers(1, 5 if pairs == 1 else 3))
    differing = data.draw(st.lists(st.integers(0, pairs), min_size=columns, max_size=columns))
    bias = Fraction(data.draw(st.integers(1, 19)), 20)
    exact = float(exact_distance(differing, pairs, bias))
    said = column_distance(columns, sum(differing) / pairs, float(bias))
    assert said <= exact * (1 + 1e-12)
    assert said >= exact / 3


def test_up_to_two_columns_and_for_many_the_distance_is_nearly_exact() -> None:
    assert math.isclose(column_distance(1, 1, 0.3), 0.3)
    assert math.isclose(column_distance(2, 2, 0.3), float(exact_distance([1, 1], 1, Fraction(3, 10))))
    five = float(exact_distance([1] * 5, 1, Fraction(3, 10)))
    assert 0.85 * five < column_distance(5, 5, 0.3) <= five


def test_a_plain_sum_over_columns_would_be_refuted() -> None:
    """A mutation: distances of columns do not add up."""
    assert float(exact_distance([1] * 5, 1, Fraction(3, 10))) < 5 * 0.3


@given(st.integers(1, 4), st.integers(1, 4), st.floats(0.01, 3), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_covariances_are_at_least_as_far_apart_as_is_said(p: int, r: int, size: float, random: Any) -> None:
    rng = np.random.default_rng(random.getrandbits(32))
    difference = rng.choice([-1.0, 1.0], size=(r, p)) * rng.integers(0, 2, size=(r, p))
    difference[0, 0] = 1.0
    difference *= size / np.linalg.norm(difference)
    x = rng.standard_normal((20000, p))
    each = 2 * norm.cdf(np.linalg.norm(x @ difference.T, axis=1) / 2) - 1
    # False alarms below 1e-6: five standard errors.
    assert each.mean() + 5 * each.std() / math.sqrt(len(x)) >= 2 / math.pi * math.atan(size / 2)


def test_one_entry_reaches_the_distance_and_the_divergence_is_exact() -> None:
    size = 0.8
    grid = (np.arange(40000) + 0.5) / 40000
    exact = float(np.mean(2 * norm.cdf(size * np.abs(norm.ppf(grid)) / 2) - 1))
    assert math.isclose(exact, 2 / math.pi * math.atan(size / 2), rel_tol=1e-6)
    rng = np.random.default_rng(1)
    a, b = rng.choice([-0.3, 0.3], size=(2, 3, 2))

    def covariance(slope: Any) -> Any:
        lower = np.block([[np.eye(2), np.zeros((2, 3))], [slope, np.eye(3)]])
        return lower @ lower.T

    one, other = covariance(a), covariance(b)
    kl = (np.trace(np.linalg.solve(other, one)) - 5 + math.log(np.linalg.det(other) / np.linalg.det(one))) / 2
    assert math.isclose(kl, float(np.sum((a - b) ** 2)) / 2)
    s = np.linalg.norm(a, 2)
    q = (s + math.hypot(s, 2)) / 2
    values = np.linalg.eigvalsh(one)
    assert math.isclose(values[0], q**-2)
    assert math.isclose(values[-1], q**2)


@pytest.mark.parametrize("m", [1, 7])
def test_tasks_are_just_too_far_apart_for_one_answer(m: int) -> None:
    for pairs, columns in ((1, 3), (3, 2), (2, 9)):
        listed = list(_product_tasks(pairs, columns, 0.1, m))
        assert 0 < len(listed) <= len(_some_codes(pairs * columns))
        assert all(tasks >= 2 and 0 < g <= 1 and kl > 0 for tasks, g, kl in listed)
    for tasks, g, kl in _covariance_tasks(9, 0.1, 100.0, m):
        assert tasks >= 2
        assert g <= 1
        assert kl > 0


# Never above what is reached


def reached_by_majority(alpha: float, success: float) -> int:
    """People with one record of two independent bits: the least odd number of them with which taking each column's
    share errs by more than ``alpha`` in total variation with probability at most ``1 - success``, whatever the shares
    on a grid; without privacy, which only helps."""
    for n in range(1, 400, 2):
        worst = 0.0
        for p in (0.5, 0.4, 0.3):
            k = np.arange(n + 1)
            mass = np.array([math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(n + 1)])
            bad = np.abs(k / n - p)
            apart = bad[:, None] + bad[None, :]  # an upper bound on the distance
            worst = max(worst, float((mass[:, None] * mass[None, :])[apart > alpha].sum()))
        if worst <= 1 - success:
            return n
    raise AssertionError


def test_no_bound_is_above_what_counting_reaches_without_privacy() -> None:
    """With a huge epsilon privacy costs nothing: the statistical part alone is left, and plain counting beats it."""
    for alpha, success in ((0.2, 0.9), (0.3, 0.8)):
        bound = lower_product([2, 2], alpha=str(alpha), epsilon=1000, records_per_user=1, success=str(success)).n_users
        assert bound is not None
        assert bound <= reached_by_majority(alpha, success)


# How they move


@pytest.mark.parametrize(
    "bound",
    [
        lambda **told: lower_product([4] * 12, **told),
        lambda **told: lower_product([2, 9, 300, 4], **told),
        lambda **told: lower_covariance(12, ratio=50, **told),
    ],
)
def test_more_of_anything_never_raises_a_bound(bound: Any) -> None:
    for name, values in {
        "epsilon": ("0.1", "0.5", 1, 2, 8),
        "alpha": ("0.02", "0.05", "0.1", "0.2", "0.3"),
        "records_per_user": (1, 2, 3, 5, 8, 64, 1000),
        "success": ("0.99", "0.95", "0.8", "0.6"),
    }.items():
        found = [bound(**HARD | {name: value}).n_users for value in values]
        assert all(later <= earlier for earlier, later in pairwise(found)), (name, found)
    assert bound(**HARD, neighbours="add-remove").n_users == bound(**HARD | {"epsilon": 2}).n_users


def test_bounds_grow_with_the_whole_family() -> None:
    """Twice the columns, or values, need about twice the people: the kd and d**2 parts."""
    told = HARD | {"records_per_user": 64}
    columns = [lower_product([8] * d, **told).n_users for d in (8, 16, 32, 64)]
    values = [lower_product([k] * 16, **told).n_users for k in (8, 16, 32, 64)]
    entries = [lower_covariance(d, ratio=1000, **told).n_users for d in (8, 16, 32, 64)]
    for found, least in ((columns, 1.7), (values, 1.7), (entries, 3.0)):
        assert all(later > least * earlier for earlier, later in pairwise(found)), found


def test_a_narrow_range_of_variances_allows_less() -> None:
    found = [lower_covariance(12, ratio=ratio, **HARD).n_users for ratio in (1, "1.5", 2, 4, 10, 100)]
    assert found == sorted(found)
    assert found[0] == 0
    assert found[-1] > 0


def test_small_and_odd_shapes() -> None:
    assert lower_covariance(1, ratio=4, **HARD).n_users == 0
    assert lower_product([1], **HARD).n_users == 0
    assert lower_product([1, 1, 1], **HARD).n_users == 0
    assert lower_product([3], **HARD).n_users == lower_product([2], **HARD).n_users
    assert lower_product([10**9] * 3, **HARD).n_users >= lower_product([64] * 3, **HARD).n_users
    assert lower_product([2] * 5000, **HARD).n_users > 0
    a, b = Certificate.lower(3, "x", "y"), Certificate.lower(None, "x", "y")
    assert larger(a, b) is a
    for bad in ({"alpha": 0}, {"epsilon": 0}, {"records_per_user": 0}, {"success": 1}):
        with pytest.raises(ParameterError):
            lower_product([2, 2], **HARD | bad)
        with pytest.raises(ParameterError):
            lower_covariance(3, ratio=4, **HARD | bad)
    with pytest.raises(ParameterError, match="at least one column"):
        lower_product([], **HARD)
    with pytest.raises(ParameterError):
        lower_covariance(3, ratio="0.5", **HARD)
