"""Certificates of small trees: the figures of the table, the moment bound, and attempts to refute them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from privpac.data import Integers, UserData
from privpac.errors import InfeasibleError
from privpac.exact import as_arb, precision
from privpac.methods.small_tree import (
    SmallTreeLearner,
    certified_users,
    exact_records,
    moment,
    two_terms_excess,
    users_by_two_terms,
    users_of_tree,
)
from privpac.rules.small_trees import SmallTrees, TreeShape

BETA = Fraction(1, 20)


@cache
def shape(columns: int = 10, bins: int = 16, depth: int = 2) -> TreeShape:
    return SmallTrees({f"x{j}": Integers(0, bins - 1) for j in range(columns)}, depth=depth).shape


def users(alpha: str, best_error: Any, of: TreeShape) -> int:
    return users_of_tree(of.power, of.least, theta=1, alpha=alpha, beta=BETA, best_error=best_error)[0]


@pytest.mark.parametrize(("alpha", "expected"), [("0.05", (670, 2419, 7462, 16693)), ("0.1", (330, 770, 2051, 4160))])
def test_ten_columns_of_sixteen_bins(alpha: str, expected: tuple[int, ...]) -> None:
    found = [users(alpha, e, shape()) for e in (0, "0.05", "0.2", None)]
    assert all(abs(a - b) <= 1 for a, b in zip(found, expected)), found


def test_one_question() -> None:
    found = [users("0.1", e, shape(depth=1)) for e in (0, "0.2", None)]
    assert all(abs(a - b) <= 1 for a, b in zip(found, (144, 926, 1878))), found


def test_two_terms_are_never_below() -> None:
    """Where the two terms certify an excess, so many users are certified by the other bound too."""
    for of in (shape(), shape(depth=1), shape(2, 4)):
        for n in (200, 2000, 18650, 10**6):
            for theta in (Fraction(1, 2), Fraction(1)):
                excess = two_terms_excess(of.least, of.least, theta=theta, n_users=n, beta=BETA)
                if Fraction(1, 20) <= excess < 1:
                    found, _ = users_of_tree(of.power, of.least, theta=theta, alpha=excess, beta=BETA)
                    assert found <= n
    least = shape().least
    assert abs(users_by_two_terms(least, least, theta=1, alpha="0.05", beta=BETA) - 18650) <= 10
    for alpha in ("0.0001", "0.05", "0.3"):
        for theta in (Fraction(1, 50), Fraction(20)):
            for of in (shape(), shape(2, 4)):
                goal = {"theta": theta, "alpha": Fraction(alpha), "beta": BETA}
                assert certified_users(of.power, of.least, **goal) <= users_by_two_terms(of.least, of.least, **goal)


def test_every_power_is_tried() -> None:
    """No power of a finer grid certifies fewer users, and those of the coarse one certify hardly more where they
    reach."""
    for of, theta, best_error in itertools.product(
        (shape(), shape(depth=1)), map(Fraction, ("1/20", "1", "7/2")), (Fraction(0), None)
    ):
        found = certified_users(
            of.power, of.least, theta=theta, alpha=Fraction(1, 20), beta=BETA, best_error=best_error
        )
        p = min(Fraction(1) if best_error is None else best_error, Fraction(19, 40))
        with precision(128):
            for i in range(1, 40):
                log_f = moment(theta * i / 40, Fraction(1, 20), p).log()
                s = Fraction(i, 40)
                log_sum = of.power(s).log() - as_arb(s) * as_arb(of.least).log() - as_arb(BETA).log()
                assert not log_sum + (found - 1) * log_f < 0
        assert (
            theta > 1
            or found
            <= users_of_tree(of.power, of.least, theta=theta, alpha="1/20", beta=BETA, best_error=best_error)[0]
            <= 1.01 * found + 1
        )


def test_the_moment_bound_holds_for_three_point_laws() -> None:
    rng = np.random.default_rng(1)
    for _ in range(400):
        alpha, best = float(rng.uniform(0.01, 0.9)), float(rng.uniform(0, 1))
        # A law on {-1, x, 1} with mean at least alpha and negative part at most min(best, (1 - alpha)/2).
        low = float(rng.uniform(0, min(best, (1 - alpha) / 2)))
        high = alpha + low
        x = float(rng.uniform(-1, 1))
        share = float(rng.uniform(0, 1)) * (1 - low - high)
        mean = high - low + share * x
        if mean < alpha or low + share * max(-x, 0) > min(best, (1 - alpha) / 2):
            continue
        tau = float(rng.uniform(0.01, 3))
        value = low * np.exp(tau) + high * np.exp(-tau) + share * np.exp(-tau * x) + (1 - low - high - share)
        p = Fraction(min(best, (1 - alpha) / 2))
        with precision(64):
            bound = float(moment(Fraction(tau), Fraction(alpha), p).upper())
        assert value <= bound + 1e-12


def test_rounding_and_what_the_grid_does_not_reach() -> None:
    assert [exact_records(720_720, m) for m in (1, 16, 17, 1 << 60)] == [1, 16, 16, 16]
    assert [exact_records(levels, 3) for levels in (1, 4, 6)] == [1, 2, 3]
    certain = SmallTrees({"x": Integers(0, 1)}).shape
    with pytest.raises(InfeasibleError):
        users_of_tree(certain.power, certain.least, theta=200, alpha="1/1000", beta=BETA)
    goal = {"alpha": Fraction(1, 1000), "beta": BETA}
    assert certified_users(certain.power, certain.least, theta=Fraction(200), **goal) < 2 * 7 * 10**6


# Refuting: exact failure probabilities on made-up people


def failure(law: Any, excess: np.ndarray[tuple[int], np.dtype[np.float64]], alpha: float) -> float:
    """The probability of trees whose true excess is ``alpha`` or more."""
    trees = range(law.shape.size)
    logs = np.array([float(law.rate) * law.gain(t) + np.log(float(law.shape.of_tree(t))) for t in trees])
    weights = np.exp(logs - logs.max())
    return float(weights[excess >= alpha].sum() / weights.sum())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "epsilon", "alpha"), [(0.0, 1, 0.1), (0.1, 1, 0.2), (0.3, 1, 0.2), (0.1, "1/2", 0.25)]
)
def test_certified_users_are_enough_for_the_xor_of_two_halves(noise: float, epsilon: Any, alpha: float) -> None:
    """Two columns of four bins whose labels are the XOR of their halves, flipped with some probability."""
    concept = SmallTrees({"a": Integers(0, 3), "b": Integers(0, 3)})
    cells = {name: grid.reshape(-1).astype(np.uint64) for name, grid in zip("ab", np.meshgrid(range(4), range(4)))}
    truth = (cells["a"] >= 2) ^ (cells["b"] >= 2)
    wrong = np.array([np.mean(concept.predictions(cells, t) != truth) for t in range(concept.size)])
    excess = (wrong * (1 - noise) + (1 - wrong) * noise) - noise
    assert excess.min() == 0
    learner = SmallTreeLearner(concept, epsilon)
    n, _ = users_of_tree(
        concept.shape.power,
        concept.shape.least,
        theta=learner.epsilon,
        alpha=Fraction(str(alpha)),
        beta=BETA,
        best_error=Fraction(str(noise)),
    )
    rng = np.random.default_rng(2)
    for _ in range(2):
        a, b = rng.integers(0, 4, n), rng.integers(0, 4, n)
        y = ((a >= 2) ^ (b >= 2)) ^ (rng.random(n) < noise)
        people = UserData.from_arrays(np.stack([a, b], axis=1), y.astype(int), np.arange(n), features=["a", "b"])
        assert failure(learner.law(people), excess, alpha) < 1e-3
    # The refuter can tell: a tenth of the users is too few.
    few = UserData.from_arrays(
        np.stack([a, b], axis=1)[: n // 20], y[: n // 20].astype(int), np.arange(n // 20), features=["a", "b"]
    )
    assert failure(learner.law(few), excess, alpha) > 0.05
