"""Lower bounds: the least wrong probability by brute force, special cases in closed form, and classes that need
nobody."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import privpac.bounds
from privpac.bounds import (
    Certificate,
    gilbert_varshamov,
    lower_agnostic_vc,
    lower_discrete,
    lower_fano,
    lower_gauss_mean,
    lower_littlestone,
    lower_packing,
    lower_representation,
    lower_sparse,
    lower_statistics,
    lower_testing,
    lower_two_points,
)
from privpac.errors import ParameterError, TooLargeError
from privpac.lower_bounds import log_least_wrong


@given(st.integers(0, 60), st.floats(0.01, 0.99), st.floats(0.01, 4), st.floats(0.05, 0.95))
@settings(max_examples=80)
def test_least_wrong_probability_by_filling_from_the_top(n: int, g: float, epsilon: float, success: float) -> None:
    left, value = success, 0.0
    for h in range(n, -1, -1):
        used = min(left, float(binom.pmf(h, n, g)))
        value += used * math.exp(-epsilon * h)
        left -= used
    assert math.isclose(log_least_wrong(n, g, epsilon, success), math.log(value), rel_tol=1e-7, abs_tol=1e-7)
    assert log_least_wrong(n, g, epsilon, success) <= math.log(value) + 1e-12


def test_packing_without_overlap_is_the_closed_form() -> None:
    for tasks, epsilon in ((2, 1.0), (1000, 0.3), (10**40, 2.0)):
        expected = math.ceil(math.log((tasks - 1) * 2) / epsilon - 1e-9)
        assert lower_packing(tasks, 1, epsilon=epsilon).n_users == expected
    assert lower_packing(1, "1/2", epsilon=1).n_users == 0
    assert lower_packing(5, 0, epsilon=1).n_users is None


def test_packing_reaches_the_condition_and_not_before() -> None:
    n = lower_packing(1000, 0.2, epsilon=1).n_users
    assert n is not None
    wrong = [2 / 3 + 999 * math.exp(log_least_wrong(k, 0.2, 1, 2 / 3)) for k in (n - 1, n)]
    assert wrong[1] <= 1 < wrong[0]


def test_huge_codes_do_not_underflow() -> None:
    # 2**4096 tasks: the share of a wrong answer is far below the smallest float.
    bound = lower_packing(1 << 4096, 0.5, epsilon=1).n_users
    assert bound is not None
    assert 4096 * math.log(2) < bound < 4 * 4096


def test_privacy_and_records_move_the_bounds_the_right_way() -> None:
    def learn(kind: Any, size: int, **changes: Any) -> int:
        given: dict[str, Any] = {"alpha": "1/20", "epsilon": 1, "records_per_user": 4}
        found: int | None = kind(size, **(given | changes)).n_users
        assert found is not None
        return found

    for kind in (lower_agnostic_vc, lower_discrete, lower_gauss_mean, lower_littlestone):
        assert learn(kind, 20, epsilon=0.1) >= learn(kind, 20, epsilon=1) >= learn(kind, 20, epsilon=3)
        assert learn(kind, 20, records_per_user=1) >= learn(kind, 20, records_per_user=16)
        assert learn(kind, 40) >= learn(kind, 10)
        assert learn(kind, 20, success=0.9) >= learn(kind, 20, success=0.6)
        # Add-remove is the same bound at twice the epsilon.
        assert learn(kind, 20, neighbours="add-remove") == learn(kind, 20, epsilon=2)


def test_statistical_bounds_in_closed_form() -> None:
    assert lower_fano(1024, 0.01, records_per_user=5).n_users == math.ceil(
        (2 / 3 * math.log(1024) - math.log(2)) / 0.05
    )
    assert lower_fano(2, 0.01, records_per_user=5).n_users == 0
    assert lower_two_points(0.01, records_per_user=5).n_users == math.ceil(max(2 / 9, -math.log(8 / 9)) / 0.05)
    assert gilbert_varshamov(8, 3) == 7
    assert gilbert_varshamov(5, 9) == 1


def test_a_class_with_one_concept_needs_nobody() -> None:
    """The number of drawn outputs is a whole number: near failure probability 1 a single rule represents everything."""
    for epsilon in (0.01, 1, 10):
        assert lower_representation(ldim=0, alpha=0.1, beta=0.05, epsilon=epsilon).n_users == 0
        assert lower_representation(ldim=1, alpha=0.1, beta=0.05, epsilon=epsilon).n_users == 0
        assert lower_representation(ldim=64, alpha=0.5, beta=0.05, epsilon=epsilon).n_users == 0
        assert lower_sparse(ldim=1, alpha=0.01, beta=0.05, epsilon=epsilon, records_per_user=1).n_users == 0
        assert lower_littlestone(0, alpha="1/10", epsilon=epsilon, records_per_user=1).n_users == 0


def test_representation_bounds_grow_with_the_class() -> None:
    sizes = [lower_representation(ldim=d, alpha=0.1, beta=0.05, epsilon=0.5).n_users for d in (4, 16, 64, 256, 10**20)]
    assert sizes == sorted(sizes)
    sparse = [
        lower_sparse(ldim=d, alpha=0.01, beta=0.05, epsilon=0.5, records_per_user=2).n_users for d in (16, 64, 256)
    ]
    assert sparse == sorted(sparse)


def test_majority_needs_an_odd_number_of_records() -> None:
    n = lower_statistics(alpha=0.2, beta=0.1, records_per_user=1).n_users
    assert n is not None
    assert n % 2 == 1
    assert binom.cdf((n - 1) // 2, n, 0.6) <= 0.1 < binom.cdf((n - 3) // 2, n - 2, 0.6)
    assert lower_statistics(alpha=0.2, beta=0.6, records_per_user=1).n_users == 0
    assert lower_statistics(alpha=0.01, beta=0.01, records_per_user=1, dimension=10**4).n_users == math.ceil(
        10**4 / (320 * 0.01**2)
    )


def test_testing_bound_is_at_least_what_group_privacy_demands() -> None:
    for epsilon in (0.1, 1):
        n = lower_testing(alpha=0.9, beta=0.01, epsilon=epsilon, records_per_user=50, neighbours="replace").n_users
        assert n is not None
        assert n >= math.log(99) / epsilon - 1e-9


def test_certificates_are_values() -> None:
    bound = lower_packing(10, 0.5, epsilon=1)
    assert bound == lower_packing(10, 0.5, epsilon=1)
    assert hash(bound) == hash(lower_packing(10, 0.5, epsilon=1))
    assert "users are needed" in str(bound)
    assert bound.to_dict()["kind"] == "lower"
    assert "not certified" in str(Certificate.upper(None, "x", "y"))
    with pytest.raises(KeyError):
        bound["nothing"]
    for name in privpac.bounds.__all__:
        assert getattr(privpac.bounds, name) is not None
    assert set(dir(privpac.bounds)) == set(privpac.bounds.__all__)
    with pytest.raises(AttributeError):
        privpac.bounds.nothing_of_this_name  # noqa: B018


LEARN: dict[str, Any] = {"alpha": 0.1, "epsilon": 1, "records_per_user": 4}


@pytest.mark.parametrize("kind", [lower_agnostic_vc, lower_discrete, lower_gauss_mean, lower_littlestone])
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"alpha": 0}, ParameterError),
        ({"alpha": 1}, ParameterError),
        ({"alpha": math.nan}, ParameterError),
        ({"alpha": None}, TypeError),
        ({"epsilon": 0}, ParameterError),
        ({"epsilon": 1e-9}, ParameterError),
        ({"epsilon": math.inf}, ParameterError),
        ({"success": 0}, ParameterError),
        ({"success": 1}, ParameterError),
        ({"records_per_user": 0}, ParameterError),
        ({"records_per_user": 1.5}, TypeError),
        ({"neighbours": "none"}, ParameterError),
    ],
)
def test_bad_parameters_of_the_learning_bounds(kind: Any, change: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        kind(10, **(LEARN | change))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: lower_packing(0, 0.5, epsilon=1), ParameterError),
        (lambda: lower_packing(5, 1.5, epsilon=1), ParameterError),
        (lambda: lower_packing(5.0, 0.5, epsilon=1), TypeError),
        (lambda: lower_fano(5, 0, records_per_user=1), ParameterError),
        (lambda: lower_two_points(-1, records_per_user=1), ParameterError),
        (lambda: gilbert_varshamov(0, 1), ParameterError),
        (lambda: gilbert_varshamov(5, 0), ParameterError),
        (lambda: gilbert_varshamov(10**6, 3), ParameterError),
        (lambda: lower_agnostic_vc(10**6, **LEARN), TooLargeError),
        (lambda: lower_discrete(1, **LEARN), ParameterError),
        (lambda: lower_littlestone(-1, **LEARN), ParameterError),
        (lambda: lower_littlestone(5, **LEARN, masses=[0]), ParameterError),
        (lambda: lower_gauss_mean(5, **(LEARN | {"alpha": 0.6})), ParameterError),
        (lambda: lower_representation(ldim=-1, alpha=0.1, beta=0.1, epsilon=1), ParameterError),
        (lambda: lower_representation(ldim=5, alpha=0.1, beta=0.1, epsilon=1, grid=1), ParameterError),
        (lambda: lower_sparse(ldim=5, alpha=0.1, beta=0.8, epsilon=1, records_per_user=1), ParameterError),
        (lambda: lower_testing(alpha=0.1, beta=0.1, epsilon=1e-9, records_per_user=1), ParameterError),
        (lambda: lower_testing(alpha=0.1, beta=0, epsilon=1, records_per_user=1), ParameterError),
        (lambda: lower_statistics(alpha=0.1, beta=0.1, records_per_user=0), ParameterError),
        (lambda: lower_statistics(alpha=1e-12, beta=0.1, records_per_user=1), ParameterError),
    ],
)
def test_bad_parameters(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
