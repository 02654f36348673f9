"""Coin optimism: the domination against enumeration, the bias against the true minimiser, and the certificates against
the exact law."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpac.bounds import Certificate, certify_regret_agnostic
from privpac.errors import ParameterError, TooLargeError
from privpac.methods import regret as room
from privpac.methods.regret import certify_regret_charged, certify_regret_coin, coin_bias

LEVELS, BETA, CUTS = 840, 0.1, 1025
LOG_SIZE = math.log(CUTS)
Ints = NDArray[np.int64]


def coin(m: int, tau: int, **changes: Any) -> Certificate:
    given: dict[str, Any] = {"theta": 1, "alpha": 0.05, "beta": BETA, "log_size": LOG_SIZE, "levels": LEVELS}
    return certify_regret_coin(records_per_user=m, tau=tau, **(given | changes))


def charged(m: int, tau: int, **changes: Any) -> Certificate:
    given: dict[str, Any] = {"theta": 1, "alpha": 0.02, "beta": BETA, "log_size": LOG_SIZE, "levels": LEVELS}
    return certify_regret_charged(records_per_user=m, tau=tau, **(given | changes))


def users(found: Certificate) -> float:
    return math.inf if found.n_users is None else found.n_users


# The theorem, by enumeration


def all_users(masses: list[int], m: int) -> tuple[NDArray[np.float64], Ints, NDArray[np.float64]]:
    """Every user of ``m`` records on a few atoms (label 0 and 1 at each): probabilities, mistakes per cut, errors of
    the cuts."""
    share = np.array(masses, dtype=float) / sum(masses)
    atoms = len(masses) // 2
    # Cut u predicts 1 from atom u on; kind 2 i + y is atom i with label y.
    wrong = np.array([[int((kind // 2 >= u) != bool(kind % 2)) for u in range(atoms + 1)] for kind in range(2 * atoms)])
    kinds = np.array(list(product(range(2 * atoms), repeat=m)))
    return share[kinds].prod(axis=1), wrong[kinds].sum(axis=1), share @ wrong


LAWS = st.lists(st.integers(0, 6), min_size=6, max_size=6).filter(lambda masses: sum(masses) > 0)


@given(LAWS, st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_own_luck_and_overshoot_are_dominated_for_every_law(masses: list[int], m: int) -> None:
    chance, mistakes, errors = all_users(masses, m)
    regret = mistakes - mistakes.min(axis=1, keepdims=True)
    best = int(np.argmin(errors))
    cells = room._cells(m)
    for t in range(m + 1):
        assert chance @ np.minimum(regret[:, best], t) <= room._own_optimism(m)[t] + 1e-9
        for h, excess in enumerate(errors - errors.min()):
            row = min(int(np.searchsorted(cells.high, excess - 1e-12)), len(cells.high) - 1)
            assert chance @ np.maximum(regret[:, h] - t, 0) <= cells.over[row, t] + 1e-9


@given(LAWS, st.integers(1, 5), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_bias_bounds_the_minimiser_and_gain_bounds_the_mean_vote(masses: list[int], m: int, tau: int) -> None:
    tau = min(tau, m)
    chance, mistakes, errors = all_users(masses, m)
    votes = chance @ np.minimum(mistakes - mistakes.min(axis=1, keepdims=True), tau)
    excess, best = errors - errors.min(), int(np.argmin(errors))
    bias = float(coin_bias(records_per_user=m, tau=tau))
    preferred = votes <= votes.min() + 1e-12
    assert excess[preferred].max() <= bias + 1e-9
    cells = room._cells(m)
    gain = room._gain(m, tau, cells.low, cells.over[:, tau])
    for h in np.flatnonzero(excess >= room.LEAST_EXCESS):
        row = min(int(np.searchsorted(cells.high, excess[h] - 1e-12)), len(cells.high) - 1)
        assert votes[h] - votes[best] >= gain[row] - 1e-9


def test_coin_labels_attain_the_own_luck() -> None:
    """One record per atom cannot be had with finitely many; the maximum of the walk itself can: equality for h* at the
    end."""
    for m in (1, 2, 5, 9):
        paths = np.cumsum(np.array(list(product((-1, 1), repeat=m))), axis=1)
        tops = np.maximum(paths.max(axis=1), 0)
        for t in range(m + 1):
            assert np.minimum(tops, t).mean() <= room._own_optimism(m)[t] + 1e-9
            assert np.mean(tops >= t) == pytest.approx(room._record_law(m, m)[t])
        # Two walks of k and m - k steps have the same mean maximum as one of m: nothing is lost at t = m.
        assert tops.mean() == pytest.approx(room._own_optimism(m)[m], abs=1e-9)


# Values and relations


def test_square_root_clip_is_certified_where_the_plain_certificate_refuses() -> None:
    given: dict[str, Any] = {"theta": 1, "alpha": 0.05, "beta": BETA, "log_size": LOG_SIZE, "levels": LEVELS}
    assert not certify_regret_agnostic(records_per_user=256, tau=16, **given).certified
    assert coin(256, 16).certified
    assert charged(256, 16).certified
    assert not coin(256, 16, alpha=float(charged(256, 16)["bias"]) * 0.99).certified


@pytest.mark.slow
@pytest.mark.parametrize("m", [64, 256, 1024])
def test_never_worse_than_the_plain_certificate_by_more_than_the_cells(m: int) -> None:
    for c in (2, 2.5, 3, 4, 6):
        for alpha in (0.02, 0.05, 0.2):
            tau = math.ceil(c * math.sqrt(m))
            given: dict[str, Any] = {"theta": 1, "alpha": alpha, "beta": BETA, "log_size": LOG_SIZE, "levels": LEVELS}
            plain = certify_regret_agnostic(records_per_user=m, tau=tau, **given)
            assert users(coin(m, tau, alpha=alpha)) <= 1.03 * users(plain) + 1


def test_bias_falls_with_the_clip_and_hardly_depends_on_the_records() -> None:
    for m in (64, 256):
        scaled = [
            float(coin_bias(records_per_user=m, tau=math.ceil(c * math.sqrt(m)))) * math.sqrt(m) for c in (1, 1.5, 2, 3)
        ]
        assert scaled == sorted(scaled, reverse=True)
        # Above the excess by which coin labels were measured to favour extreme rules.
        assert all(bound >= measured for bound, measured in zip(scaled, (0.064, 0.033, 0.011, 0.0)))
        assert scaled[0] < 0.3
        assert scaled[2] < 0.02
    assert coin_bias(records_per_user=9, tau=9) == 0
    assert 0.5 < coin_bias(records_per_user=2, tau=1) < 1
    assert charged(2, 1, alpha=0.5).n_users is None


def test_more_accuracy_confidence_or_privacy_needs_more_users() -> None:
    for name, values in (
        ("alpha", (0.3, 0.1, 0.05, 0.03)),
        ("beta", (0.5, 0.1, 0.01)),
        ("theta", (3, 1, 0.5, 0.1)),
        ("levels", (64, 840, 37)),
        ("log_size", (1, 7, 40)),
    ):
        for certify in (coin, charged):
            counts = [users(certify(64, 16, **{name: value})) for value in values]
            assert counts == sorted(counts), name
    assert charged(64, 16)["excess"] == charged(64, 16)["bias"] + Fraction("0.02")


# The exact law at the certified number of users


def failure(scores: Ints, bad: NDArray[np.bool_], copies: NDArray[np.float64]) -> float:
    weight = copies * np.exp(-(scores - scores.min()) / LEVELS)
    return float(weight[bad].sum() / weight.sum())


def scores_of(mistakes: Ints, tau: int) -> Ints:
    """Users by cuts to the score of each cut."""
    regret = mistakes - mistakes.min(axis=1, keepdims=True)
    return np.asarray((LEVELS * np.minimum(regret, tau) // tau).sum(axis=0))


def one_atom(rng: np.random.Generator, sets: int, n: int, m: int, excess: float) -> Ints:
    """Data sets by users by cuts: one cut labels the only atom as most people do, all others do not."""
    ones = rng.binomial(m, (1 + excess) / 2, size=(sets, n))
    return np.stack([m - ones, ones], axis=2)


def two_atoms(rng: np.random.Generator, sets: int, n: int, m: int, excess: float) -> Ints:
    """Labels are nearly coins on both atoms; only the cut between them is good, the cuts on either side are worse by
    ``excess``."""
    left = rng.binomial(m, 0.5, size=(sets, n))
    wrong_left, wrong_right = rng.binomial(left, 0.5 - excess), rng.binomial(m - left, 0.5 - excess)
    return np.stack(
        [left - wrong_left + wrong_right, wrong_left + wrong_right, wrong_left + m - left - wrong_right], axis=2
    )


def coin_labels(rng: np.random.Generator, n: int, m: int, cuts: int, tilt: float) -> Ints:
    """Uniform x, labels a coin with ``tilt`` for the right side: excess ``tilt`` times the distance to the middle."""
    x = rng.integers(0, cuts - 1, size=(n, m))
    y = rng.random((n, m)) < 0.5 + np.where(x >= cuts // 2, tilt / 2, -tilt / 2)
    moves = np.zeros((n, cuts), dtype=np.int64)
    np.add.at(moves, (np.repeat(np.arange(n), m), x.ravel() + 1), np.where(y, 1, -1).ravel())
    return np.asarray((m - y.sum(axis=1))[:, None] + np.cumsum(moves, axis=1))


def worst_failure(n: int, m: int, tau: int, excess: float) -> float:
    """The largest of three mean failure probabilities: one atom, two atoms, coin labels on 65 blocks of cuts."""
    rng, more = np.random.default_rng(7), excess * 1.001
    one = [
        failure(scores_of(rows, tau), np.array([False, True]), np.array([1.0, CUTS - 1]))
        for rows in one_atom(rng, 40, n, m, more)
    ]
    wings = np.array([CUTS // 2, 1.0, CUTS // 2])
    two = [
        failure(scores_of(rows, tau), np.array([True, False, True]), wings) for rows in two_atoms(rng, 40, n, m, more)
    ]
    bad = 4 * excess * np.abs(np.arange(65) - 32) / 64 > excess
    wide = [
        failure(scores_of(coin_labels(rng, n, m, 65, 4 * excess), tau), bad, np.full(65, CUTS / 65)) for _ in range(3)
    ]
    return float(max(np.mean(one), np.mean(two), np.mean(wide)))


@pytest.mark.parametrize(
    ("m", "tau", "alpha", "loose"),
    [
        (16, 8, 0.1, 6),
        (64, 8, 0.2, 16),
        (64, 16, 0.1, 4),
        (256, 16, 0.1, 32),
        (256, 32, 0.05, 4),
        (1024, 32, 0.05, 32),
        (1024, 64, 0.05, 3),
    ],
)
def test_certificate_holds_and_is_loose_by_no_more_than_a_factor(m: int, tau: int, alpha: float, loose: int) -> None:
    n = coin(m, tau, alpha=alpha).n_users
    assert n is not None
    assert worst_failure(n, m, tau, alpha) <= BETA
    assert worst_failure(max(1, n // loose), m, tau, alpha) > BETA


@pytest.mark.parametrize(("m", "tau", "alpha"), [(64, 10, 0.1), (256, 16, 0.05), (1024, 32, 0.02)])
def test_charged_certificate_holds(m: int, tau: int, alpha: float) -> None:
    plan = charged(m, tau, alpha=alpha)
    assert plan.n_users is not None
    assert worst_failure(plan.n_users, m, tau, float(plan["excess"])) <= BETA
    assert worst_failure(max(1, plan.n_users // 60), m, tau, float(plan["excess"])) > BETA


# Bad parameters

BAD: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"alpha": 0}, ParameterError),
    ({"alpha": 1}, ParameterError),
    ({"alpha": 1e-9}, ParameterError),
    ({"alpha": math.nan}, ParameterError),
    ({"alpha": None}, TypeError),
    ({"beta": 0}, ParameterError),
    ({"beta": 1.5}, ParameterError),
    ({"theta": -1}, ParameterError),
    ({"theta": 1e6}, ParameterError),
    ({"log_size": -1}, ParameterError),
    ({"levels": 0}, ParameterError),
    ({"levels": 8.5}, TypeError),
    ({"tau": 0}, ParameterError),
    ({"tau": 17}, ParameterError),
    ({"tau": True}, TypeError),
    ({"records_per_user": 0}, ParameterError),
    ({"records_per_user": "16"}, TypeError),
    ({"records_per_user": 10**6}, TooLargeError),
]


@pytest.mark.parametrize(("change", "error"), BAD)
@pytest.mark.parametrize("tau", [2, 8])
@pytest.mark.parametrize("function", [certify_regret_coin, certify_regret_charged])
def test_bad_parameters(function: Any, tau: int, change: dict[str, Any], error: type[Exception]) -> None:
    given: dict[str, Any] = {
        "records_per_user": 16,
        "tau": tau,
        "theta": 1,
        "alpha": 0.1,
        "beta": 0.1,
        "log_size": 5,
        "levels": 840,
    }
    with pytest.raises(error):
        function(**(given | change))
    if set(change) <= {"tau", "records_per_user"}:
        with pytest.raises(error):
            coin_bias(**({"records_per_user": 16, "tau": tau} | change))
