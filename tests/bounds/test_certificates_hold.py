"""At the certified number of users the failure probability is at most beta: seeded data, exact law of the exponential
mechanism.

Each figure is a mean over data sets of an exact probability.  The seeds are fixed, so nothing here can fail by chance
twice; the certified failure is far enough below beta that the mean over data sets is not near it.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from privpac.bounds import (
    certify_realizable,
    certify_regret_agnostic,
    certify_regret_bounded_noise,
    certify_regret_regular,
)

LEVELS = 840
BETA = 0.1
CUTS = 1025


def failure(scores: NDArray[np.int64], copies: NDArray[np.float64], bad: NDArray[np.bool_], rate: float) -> float:
    """Mean over rows (data sets) of the law's mass on bad rules; ``copies`` rules share one score."""
    weight = copies * np.exp(-rate * (scores - scores.min(axis=1, keepdims=True)))
    return float((weight[:, bad].sum(axis=1) / weight.sum(axis=1)).mean())


def clipped(mistakes: NDArray[np.int64], tau: int) -> NDArray[np.int64]:
    """The contribution of each user (axis 1) to each rule (axis 2), summed over users."""
    regret = mistakes - mistakes.min(axis=2, keepdims=True)
    return np.asarray((LEVELS * np.minimum(regret, tau) // tau).sum(axis=1))


def atoms_scores(n: int, m: int, tau: int, noise: float, alpha: float, sets: int, seed: int) -> NDArray[np.int64]:
    """Hard x law: one good cut, all others at excess just above alpha or worse; blocks: first, left, good, right,
    last."""
    rng = np.random.default_rng(seed)
    near = alpha * 1.0001 / (1 - 2 * noise)
    counts = rng.multinomial(m, [(1 - 2 * near) / 2, near, near, (1 - 2 * near) / 2], size=(sets, n))
    # Atoms a < b < c < d, the good cut between b and c: labels 0, 0, 1, 1 up to noise.
    wrong = rng.binomial(counts, noise)
    right = counts - wrong
    a, b, c, d = range(4)
    base = wrong.sum(axis=2)
    swing = right - wrong
    columns = [
        base + swing[..., a] + swing[..., b],
        base + swing[..., b],
        base,
        base + swing[..., c],
        base + swing[..., c] + swing[..., d],
    ]
    return clipped(np.stack(columns, axis=2), tau)


@pytest.mark.parametrize(
    ("m", "tau", "noise", "alpha"),
    [(4, 2, 0.0, 0.05), (16, 4, 0.1, 0.05), (16, 6, 0.3, 0.05), (64, 8, 0.1, 0.02), (9, 9, 0.2, 0.1)],
)
def test_bounded_noise_certificate_holds_on_the_hard_x_law(m: int, tau: int, noise: float, alpha: float) -> None:
    given = {
        "records_per_user": m,
        "tau": tau,
        "theta": 1,
        "alpha": alpha,
        "beta": BETA,
        "noise": noise,
        "levels": LEVELS,
    }
    n = certify_regret_bounded_noise(**given, log_size=math.log(CUTS)).n_users
    assert n is not None
    copies = np.array([1, 511, 1, 511, 1], dtype=float)
    bad = np.array([True, True, False, True, True])
    scores = atoms_scores(n, m, tau, noise, alpha, 400, seed=1)
    assert failure(scores, copies, bad, 1 / LEVELS) <= BETA
    # The test can fail: a third of the users is not enough on this law.
    few = atoms_scores(n // 3, m, tau, noise, alpha, 400, seed=1)
    assert failure(few, copies, bad, 1 / LEVELS) > BETA


@pytest.mark.parametrize(("m", "tau", "noise"), [(4, 2, 0.0), (16, 5, 0.1), (64, 8, 0.3)])
def test_regular_certificate_holds_on_uniform_x(m: int, tau: int, noise: float) -> None:
    alpha, size = 0.05, 257
    given = {
        "records_per_user": m,
        "tau": tau,
        "theta": 1,
        "alpha": alpha,
        "beta": BETA,
        "noise": noise,
        "levels": LEVELS,
    }
    n = certify_regret_regular(**given, size=size).n_users
    assert n is not None
    rng, best = np.random.default_rng(2), size // 2
    excess = np.abs(np.arange(size) - best) / (size - 1) * (1 - 2 * noise)
    total = []
    for _ in range(40):
        x = rng.integers(0, size - 1, size=(n, m))
        y = (x >= best) ^ (rng.random((n, m)) < noise)
        # Cut u predicts 1 for x >= u: passing x adds a mistake if the label is 1, removes one if it is 0.
        moves = np.zeros((n, size), dtype=np.int64)
        np.add.at(moves, (np.repeat(np.arange(n), m), x.ravel() + 1), np.where(y, 1, -1).ravel())
        mistakes = (m - y.sum(axis=1))[:, None] + np.cumsum(moves, axis=1)
        total.append(failure(clipped(mistakes[None], tau), np.ones(size), excess > alpha, 1 / LEVELS))
    assert float(np.mean(total)) <= BETA


@pytest.mark.parametrize(("m", "tau", "alpha"), [(64, 28, 0.05), (64, 64, 0.05), (256, 64, 0.05)])
def test_any_labels_certificate_holds_on_one_atom_with_coin_like_labels(m: int, tau: int, alpha: float) -> None:
    given = {"records_per_user": m, "tau": tau, "theta": 1, "alpha": alpha, "beta": BETA, "levels": LEVELS}
    n = certify_regret_agnostic(**given, log_size=math.log(CUTS)).n_users
    assert n is not None
    rng = np.random.default_rng(3)

    def fails(users: int) -> float:
        ones = rng.binomial(m, (1 + 1.0001 * alpha) / 2, size=(600, users))
        scores = clipped(np.stack([m - ones, ones], axis=2), tau)
        return failure(scores, np.array([1.0, CUTS - 1.0]), np.array([False, True]), 1 / LEVELS)

    assert fails(n) <= BETA
    assert fails(n // 4) > BETA


@pytest.mark.parametrize(("m", "neighbours"), [(1, "replace"), (8, "replace"), (8, "add-remove"), (20, "add-remove")])
def test_realizable_certificate_holds_on_the_hard_x_law(m: int, neighbours: str) -> None:
    alpha, beta, size = 0.1, 0.05, 257
    n = certify_realizable(
        log_size=math.log(size), epsilon=1, alpha=alpha, beta=beta, records_per_user=m, neighbours=neighbours
    ).n_users
    assert n is not None
    rate = 1.0 if neighbours == "add-remove" else 0.5
    rng = np.random.default_rng(4)

    def fails(users: int) -> float:
        hit = rng.binomial(users, 1 - (1 - alpha * 1.0001) ** m, size=(4000, 1))
        return failure(
            np.concatenate([np.zeros_like(hit), hit], axis=1),
            np.array([1.0, size - 1.0]),
            np.array([False, True]),
            rate,
        )

    assert fails(n) <= beta
    assert fails(n // 3) > beta
