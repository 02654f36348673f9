"""Certificates of noisy counts, tried against exact failure probabilities and exact tails of the noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from flint import arb, arb_poly
from scipy.stats import binom

from privpac.distributions.histogram import certify_counts, noise_quantile
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import precision


def failure_of_two_cells(records: int, p: float, eta: float, alpha: float) -> float:
    """Pr[distance > alpha], exactly: the counts are binomial, both get discrete Laplace noise, are cut off at 0 and
    normalised."""
    r, reach = math.exp(-eta), math.ceil(32 / eta) + 1
    z = np.arange(-reach, reach + 1)
    noise, total = (1 - r) / (1 + r) * r ** np.abs(z), 0.0
    for c, weight in enumerate(binom.pmf(np.arange(records + 1), records, p).tolist()):
        if weight < 1e-14:
            continue
        x, y = np.maximum(0, c + z)[:, None], np.maximum(0, records - c + z)[None, :]
        share = np.where(x + y > 0, x / np.maximum(x + y, 1), 0.5)
        total += weight * float(noise @ (np.abs(share - p) > alpha + 1e-12) @ noise)
    return total


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("epsilon", "m", "alpha", "beta"),
    [
        (2, 1, 0.3, 0.3),
        (2, 3, 0.6, 0.05),
        (20, 1, 0.3, 0.05),
        (20, 3, 0.6, 0.001),
        (1, 1, 0.95, 0.3),
        (20, 4, 0.95, 1e-6),
    ],
)
def test_two_cells_fail_no_more_often_than_certified(
    neighbours: str, epsilon: int, m: int, alpha: float, beta: float
) -> None:
    n = certify_counts(2, epsilon=epsilon, alpha=alpha, beta=beta, records_per_user=m, neighbours=neighbours).n_users
    assert n is not None
    eta = epsilon / (m * (1 if neighbours == "add-remove" else 2))
    assert max(failure_of_two_cells(n * m, p, eta, alpha) for p in (0.0, 0.02, 0.2, 0.5)) <= beta


def test_few_users_do_fail() -> None:
    n = certify_counts(2, epsilon=2, alpha=0.3, beta=0.05, records_per_user=1).n_users
    assert n is not None
    assert failure_of_two_cells(n // 5, 0.5, 2, 0.3) > 0.05


def exact_tail(cells: int, eta: float, x: int) -> arb:
    """Pr[sum of |Z| > x], enclosed: the law of the sum by polynomial powers."""
    r = (-arb(eta)).exp()
    one = [(1 - r) / (1 + r)] + [2 * (1 - r) / (1 + r) * r**k for k in range(1, x + 1)]
    power = arb_poly([1])
    for _ in range(cells):
        power = arb_poly((power * arb_poly(one)).coeffs()[: x + 1])
    return 1 - sum(power.coeffs(), arb(0))


@pytest.mark.parametrize("cells", [1, 2, 5])
@pytest.mark.parametrize("failure", [0.5, 0.01, 1e-9, 6e-11])
@pytest.mark.parametrize("eta", [0.7, 3.0, 40.0])
def test_noise_passes_its_quantile_no_more_often_than_stated(cells: int, failure: float, eta: float) -> None:
    found = noise_quantile(cells, eta, failure)
    with precision(300):
        assert exact_tail(cells, eta, found) <= arb(failure)
        assert found == 0 or exact_tail(cells, eta, found - 1) > arb(failure) * arb("0.9999")


def test_quantiles_of_many_cells_and_of_noise_at_both_ends_are_finite_and_close_to_the_mean() -> None:
    assert noise_quantile(7, 800.0, 1e-9) == 0  # e**-800 is no float, and no noise
    eta, cells = 1e-9, 1 << 17
    mean, deviation = cells / eta, math.sqrt(cells) / eta  # of exponentials of this rate
    found = noise_quantile(cells, eta, 0.01)
    assert mean + 2.3 * deviation < found < mean + 2.4 * deviation


def test_columns_of_one_value_cost_nothing_but_their_share_of_the_budget() -> None:
    given: dict[str, Any] = {"alpha": "0.1", "beta": "0.05", "records_per_user": 4}
    assert certify_counts([1, 1], epsilon=1, **given).n_users == 1
    assert certify_counts([6, 1], epsilon=2, **given).n_users == certify_counts(6, epsilon=1, **given).n_users


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"cells": 0}, ParameterError),
        ({"cells": []}, ParameterError),
        ({"cells": True}, TypeError),
        ({"cells": 4.0}, TypeError),
        ({"cells": None}, TypeError),
        ({"cells": 1 << 18}, TooLargeError),
        ({"alpha": 1}, ParameterError),
        ({"beta": "1e-12"}, ParameterError),
        ({"epsilon": 0}, ParameterError),
        ({"epsilon": "1e-30"}, TooLargeError),
        ({"records_per_user": 0}, ParameterError),
    ],
    ids=range(11),
)
def test_bad_input_is_refused(wrong: dict[str, Any], error: type[Exception]) -> None:
    given: dict[str, Any] = {"cells": 4, "epsilon": 1, "alpha": "0.1", "beta": "0.05", "records_per_user": 1} | wrong
    with pytest.raises(error):
        certify_counts(given.pop("cells"), **given)


@pytest.mark.parametrize(("cells", "eta"), [(6, 1.36e-8), (3, 1.15e-8), (12, 2.6e-7), (40, 1e-3)])
@pytest.mark.parametrize("failure", [0.05, 1e-4])
def test_the_tail_of_tiny_rates_is_that_of_rigorous_balls(cells: int, eta: float, failure: float) -> None:
    """The sum of geometric variables by incomplete beta functions in 128 bits: the number suffices, and one a millionth
    smaller does not."""

    def beyond(x: int) -> arb:
        r = (-arb(eta)).exp()
        likely = 2 * r / (1 + r)
        terms = [
            arb(math.comb(cells, j)) * likely**j * (1 - likely) ** (cells - j) * r.beta_lower(x - j + 1, j, True)
            for j in range(1, cells + 1)
        ]
        return sum(terms, arb(0))

    found = noise_quantile(cells, eta, failure)
    with precision(128):
        assert beyond(found) <= arb(failure)
        assert beyond(found - found // 10**6 - 1) > arb(failure)
