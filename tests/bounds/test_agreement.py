"""Numbers of records and users for learning by agreement."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from privpac.errors import ParameterError
from privpac.mechanisms.randomized_response import keep_probability
from privpac.mechanisms.votes import PureSelection, StableHistogram
from privpac.methods.agreement.plurality import (
    lower_agreement_packing,
    lower_agreement_representation,
    records_list,
    records_queries,
    records_representation,
    users_histogram,
    users_local,
    users_plurality,
    users_shuffle,
)


def test_histogram_users_are_the_first_that_do() -> None:
    def fails(n: int) -> float:
        return sum(binom.pmf(c, n, 0.9) for c in range(n + 1) if 2 * c - n < 2 * 5 + 1)

    n = users_histogram(5, beta="0.1").n_users
    assert n is not None
    assert fails(n) <= 0.1 / 3
    assert all(fails(k) > 0.1 / 3 for k in range(1, n))


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_planned_users_win_by_the_exact_law(relation: str) -> None:
    rng = np.random.default_rng(5)
    histogram, pure = (
        StableHistogram(1, delta="1e-3", neighbours=relation),
        PureSelection(1, universe=64, neighbours=relation),
    )
    for select, n in (
        (histogram, users_histogram(histogram.K, beta="0.3").n_users),
        (pure, users_plurality(1 / pure.q, 64, beta="0.3").n_users),
    ):
        assert n is not None
        wins = []
        for c in rng.binomial(n, 0.9, size=200).tolist():
            law = select.law({3: c, 9: n - c})
            wins.append(float(law.prob(3)))
        # Expected failure at most 0.1; with 200 draws the mean stays below 0.2 except with probability below 1e-6
        # (Hoeffding gives 2e-4, the votes' variance, at most 0.1, Bernstein 1e-6).
        assert 1 - np.mean(wins) <= 0.2


def test_numbers_move_the_right_way() -> None:
    assert users_plurality(2, 2**10, beta="0.1").n_users < users_plurality(2, 2**40, beta="0.1").n_users
    assert (
        users_local(keep_probability(1), 64, beta="0.1").n_users
        < users_local(keep_probability("1/2"), 64, beta="0.1").n_users
    )
    assert users_shuffle(45, "0.45", 65, beta="0.1").n_users <= users_shuffle(45, "0.45", 1025, beta="0.1").n_users
    assert (
        records_representation(16, alpha="0.2", beta="0.1")[1] < records_representation(17, alpha="0.2", beta="0.1")[1]
    )
    assert records_list(16, eta="0.5", beta="0.1")[1] < records_list(16, eta="0.4", beta="0.1")[1]
    assert records_queries(10, 10, beta="1/10") == (30 * 10 * 10 // 2 * 10) ** 2


def test_lower_bounds_stay_below_what_suffices() -> None:
    for universe in (2**10, 2**20):
        select = PureSelection(1, universe=universe, neighbours="replace")
        upper = users_plurality(1 / select.q, universe, beta="1/4").n_users
        lower = lower_agreement_packing(universe, epsilon=1).n_users
        assert lower is not None
        assert upper is not None
        assert lower <= upper
    assert lower_agreement_representation(0, epsilon=1).n_users == 0
    # With delta the bound saturates instead of growing for ever.
    assert lower_agreement_packing(2**900, epsilon=1, delta="1e-3").n_users <= 8


@pytest.mark.parametrize("wrong", [0, -1, "nan", 1.5])
def test_bad_parameters(wrong: object) -> None:
    with pytest.raises((ParameterError, TypeError)):
        users_histogram(14, beta=wrong)  # type: ignore[arg-type]
    with pytest.raises((ParameterError, TypeError)):
        users_local(wrong, 64, beta="0.1")  # type: ignore[arg-type]
    with pytest.raises((ParameterError, TypeError)):
        records_representation(wrong, alpha="0.1", beta="0.1")  # type: ignore[arg-type]


def test_tasks_have_a_limit() -> None:
    with pytest.raises(ParameterError):
        lower_agreement_packing(2**1001, epsilon=1)


def test_certified_users_hold_for_every_larger_number() -> None:
    """By parity a bound may hold at 45 users and not at 46."""
    from scipy.stats import binom

    n = users_histogram(14, beta="0.1", named=2).n_users
    assert n is not None
    assert n > users_histogram(14, beta="0.1").n_users  # type: ignore[operator]
    for more in range(n, 4 * n):
        assert binom.cdf(max((more + 30) // 2, 30) - 1, more, 0.9) <= 0.1 / 3
