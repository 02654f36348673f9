"""The certificate of coarse-to-fine means, step by step against exact laws, and refused where its assumptions fail."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln, ndtr

from privpac.bisection import least
from privpac.distributions import CoarseToFineMean
from privpac.distributions.gaussian import (
    _FAR,
    _SPREAD,
    CELL,
    STEPS,
    TAU,
    _cell_found,
    _deviations,
    _laplace,
    certify_mean,
)
from privpac.errors import ParameterError


def far_cell(cells: int, own: int, inside: float, n: int, rate: float) -> float:
    """Pr[the cell chosen is further than 1 from ``own``], exactly: over all ways n users fall into the cells."""
    ends = np.array([-np.inf, *(CELL * (j + 1) for j in range(cells - 1)), np.inf])
    chances = np.log(np.maximum(np.diff(ndtr((ends - CELL * own - inside) / STEPS)), 1e-300))
    total = 0.0
    for head in itertools.product(range(n + 1), repeat=cells - 1):
        if sum(head) > n:
            continue
        counts = np.array([*head, n - sum(head)])
        weight = math.exp(gammaln(n + 1) - gammaln(counts + 1).sum() + counts @ chances)
        if weight > 1e-12:
            windows = np.array([counts[max(0, j - 1) : j + 2].sum() for j in range(cells)])
            law = np.exp(rate * (windows - windows.max()))
            total += weight * float(law[np.abs(np.arange(cells) - own) > 1].sum() / law.sum())
    return total


@pytest.mark.parametrize(("cells", "rate", "failure"), [(3, 0.5, 0.3), (3, 2.0, 0.01), (4, 2.0, 0.3), (4, 300.0, 0.05)])
def test_far_cells_are_chosen_no_more_often_than_certified(cells: int, rate: float, failure: float) -> None:
    n = least(lambda users: _cell_found(users, cells - 1, rate, failure))
    assert n is not None
    worst = max(far_cell(cells, own, inside, n, rate) for own in range(cells) for inside in (0.0, 64.0, 127.9))
    assert worst <= failure
    assert far_cell(cells, 0, 127.9, 1, rate) > 0.01  # one user alone does miss it


def test_two_cells_need_nobody() -> None:
    assert _cell_found(1, 1, 1e-3, 1e-9)


def test_the_clipped_rounded_mean_is_biased_and_spread_no_more_than_stated() -> None:
    """Over every place of the mean in the window: exact means and exact moments of clip(round(v) - center)."""
    w = (TAU - _FAR) / STEPS
    bias = STEPS * (math.exp(-w * w / 2) / math.sqrt(2 * math.pi) - w * float(ndtr(-w))) + float(ndtr(-w))
    y = np.arange(-TAU - 1000, TAU + 1001)
    clipped, tilts = np.clip(y, -TAU, TAU), np.concatenate([np.linspace(-0.15, -1e-3, 20), np.linspace(1e-3, 0.15, 20)])
    seen, spread = 0.0, 0.0
    for away in np.linspace(-192.5, 192.5, 23).tolist():
        law = ndtr((y + 0.5 - away) / STEPS) - ndtr((y - 0.5 - away) / STEPS)
        mean = float(law @ clipped)
        seen = max(seen, abs(mean - away))
        moments = np.log(law @ np.exp(np.outer(clipped - mean, tilts)))
        spread = max(spread, float((2 * moments / tilts**2).max()))
    assert 0.5 * bias < seen <= bias
    assert STEPS**2 < spread <= _SPREAD**2  # without the rounding's share the bound would be wrong


@pytest.mark.parametrize("rate", [1e-4, 0.3, 2.0, 900.0])
@pytest.mark.parametrize("failure", [0.9, 0.05, 1e-10])
def test_noise_beyond_its_reach_has_the_exact_tail(rate: float, failure: float) -> None:
    x = _laplace(rate, failure)

    def log_tail(value: int) -> float:
        return math.log(2) - rate * (value + 1) - math.log1p(math.exp(-rate))

    assert log_tail(x) <= math.log(failure) + 1e-12
    assert x == 0 or log_tail(x - 1) > math.log(failure) - 1e-9


def test_a_cap_below_the_declared_records_is_refused() -> None:
    """Means of fewer records scatter more than the axis assumes: 16 declared and one read would be four times the
    spread."""
    capped = CoarseToFineMean(1, radius=10, records_per_user=16, max_records=1)
    with pytest.raises(ParameterError, match="never read"):
        certify_mean(capped, alpha="0.1", beta="0.05")
    with pytest.raises(ParameterError, match="never read"):
        certify_mean(CoarseToFineMean(1, radius=10, records_per_user=4, unit="item"), alpha="0.1", beta="0.05")
    plain, wide = (CoarseToFineMean(1, radius=10, records_per_user=16, max_records=cap) for cap in (None, 16))
    assert certify_mean(plain, alpha="0.1", beta="0.05").n_users == certify_mean(wide, alpha="0.1", beta="0.05").n_users


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_more_budget_never_needs_more_users(neighbours: Any) -> None:
    found = []
    for epsilon in ("0.1", 1, 10, 50, 100, 200):
        learner = CoarseToFineMean(epsilon, radius=1000, records_per_user=4, neighbours=neighbours)
        n = certify_mean(learner, alpha="0.2", beta="0.05").n_users
        assert n is not None
        found.append(n)
    assert found == sorted(found, reverse=True)


def test_distances_at_both_ends_keep_their_digits() -> None:
    assert math.isclose(_deviations("1e-12"), 1e-12 * math.sqrt(math.pi / 2), rel_tol=1e-12)
    for alpha, expected in (("0.5", 0.6744897501960817), ("0.9", 1.6448536269514722), ("0.999999999999", 7.130510)):
        assert math.isclose(_deviations(alpha), expected, rel_tol=1e-6)
    assert certify_mean(CoarseToFineMean(1, radius=10, records_per_user=4), alpha="1e-12", beta="0.05").n_users is None
