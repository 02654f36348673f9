"""Discrete Gaussian noise, composed: the promise against sums over all outcomes, with what must fail."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.composition import zcdp_epsilon
from privpac.errors import InfeasibleError
from privpac.exact import precision
from privpac.mechanisms.gaussian import MOST_COORDINATES, SMOOTHING, gaussian_delta, gaussian_within

EPSILONS = [0.0, 0.1, 0.5, 1.0, 2.0, 4.0]


def law(sigma2: float, mean: int, reach: int) -> np.ndarray:
    """Probabilities of ``-reach..reach``; beyond it there is nothing in doubles."""
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-((k - mean) ** 2) / (2 * sigma2))
    return np.asarray(weights / weights.sum())


def beyond(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """The least delta: the sum of what ``p`` has more than ``e**epsilon`` times ``q``."""
    return float(np.maximum(p - exp(epsilon) * q, 0).sum())


def promised(rho: Fraction, epsilon: float) -> float:
    with precision(128):
        return float(gaussian_delta(rho, Fraction(epsilon)).upper())


@pytest.mark.parametrize("rho", ["1/50", "1/4", "1", "4"])
@pytest.mark.parametrize("moves", [(1,), (2,), (1, 1), (1, -2), (1, 1, 1)])
def test_coordinates_of_one_release(rho: str, moves: tuple[int, ...]) -> None:
    """A vector moved by integers, all outcomes summed."""
    share = Fraction(rho)
    sigma2 = float(Fraction(sum(m * m for m in moves)) / (2 * share) + SMOOTHING)
    reach = int(12 * sigma2**0.5) + 3 if len(moves) == 1 else int(9 * sigma2**0.5) + 3
    if (2 * reach + 1) ** len(moves) > 3_000_000:
        reach = int(3_000_000 ** (1 / len(moves))) // 2
        if reach < 6 * sigma2**0.5:
            pytest.skip("too many outcomes to sum")
    p, q = np.ones(1), np.ones(1)
    for m in moves:
        p, q = np.outer(p, law(sigma2, 0, reach)).ravel(), np.outer(q, law(sigma2, m, reach)).ravel()
    for epsilon in EPSILONS:
        for one, other in ((p, q), (q, p)):
            assert beyond(one, other, epsilon) <= promised(share, epsilon) * (1 + 1e-9) + 1e-8


@pytest.mark.parametrize("rho", ["1/10", "1", "3"])
@pytest.mark.parametrize("times", [2, 5, 40])
def test_many_releases(rho: str, times: int) -> None:
    """Releases of the same move: losses depend on the sum of the noises alone, whose law is a convolution."""
    share = Fraction(rho) / times
    sigma2 = float(1 / (2 * share) + SMOOTHING)
    one = law(sigma2, 0, int(14 * sigma2**0.5) + 4)
    total = np.ones(1)
    for _ in range(times):
        total = np.convolve(total, one)
    s = np.arange(len(total)) - (len(total) - 1) // 2
    loss = (2 * s - times) / (2 * sigma2)  # ln of P(moved by 1) over P: sum of (2 x - 1) / (2 sigma2)
    q = total * np.exp(loss)
    assert abs(q.sum() - 1) < 1e-9
    for epsilon in EPSILONS:
        for a, b in ((total, q), (q, total)):
            assert beyond(a, b, epsilon) <= promised(Fraction(rho), epsilon) * (1 + 1e-9) + 1e-12


def adaptive(share: Fraction, smoothing: int, epsilon: float) -> float:
    """Two releases, both neighbours: move and variance of the second follow the first; all pairs of outcomes."""
    first = float(1 / (2 * share) + smoothing)
    reach = int(10 * first**0.5) + 3
    p, q = law(first, 0, reach), law(first, 1, reach)
    out = 0.0
    for x, a, b in zip(range(-reach, reach + 1), p.tolist(), q.tolist()):
        moved = 1 + abs(x) % 3
        sigma2 = float(Fraction(moved**2) / (2 * share) + smoothing)
        wide = int(10 * sigma2**0.5) + 4
        # The worse direction after each first outcome is taken by whoever chose the data beforehand: the same for all.
        out += float(np.maximum(a * law(sigma2, 0, wide) - exp(epsilon) * b * law(sigma2, -moved, wide), 0).sum())
    return out


@pytest.mark.parametrize("rho", ["1/10", "1", "4"])
def test_a_release_may_follow_the_one_before(rho: str) -> None:
    share = Fraction(rho) / 2
    for epsilon in EPSILONS:
        assert adaptive(share, SMOOTHING, epsilon) <= promised(Fraction(rho), epsilon) * (1 + 1e-9) + 1e-12


def test_without_the_smoothing_it_would_not_hold() -> None:
    """The mutation: at a small variance discrete noise hides less than continuous noise of the same."""
    broken = [
        beyond(law(float(1 / (2 * rho)), 0, 60), law(float(1 / (2 * rho)), 1, 60), epsilon) / promised(rho, epsilon)
        for rho in (Fraction(1), Fraction(2), Fraction(4))
        for epsilon in EPSILONS
    ]
    assert max(broken) > 1.05


def test_roundings_are_as_close_as_the_proof_says() -> None:
    """``k < 2**-111`` for one coordinate, and 2**40 of them within the slack."""
    with precision(256):
        q = (-8 * arb.pi() ** 2).exp()
        eta = 2 * q / (1 - q)
        k = ((1 + eta) / (1 - eta)).log()
        assert k < arb(2) ** -111
        assert MOST_COORDINATES * k < arb(2) ** -60


def test_a_rounded_normal_is_nearly_a_discrete_gaussian() -> None:
    """The kernel of the proof, by numerical integration, at a smaller smoothing where the difference can be seen."""
    t2, s2 = 0.5, 3.0
    x = np.arange(-60, 60, 1e-2)
    density = np.exp(-(x**2) / (2 * s2)) / np.sqrt(2 * np.pi * s2) * 1e-2
    y = np.arange(-12, 13)
    kernel = np.exp(-((y[:, None] - x) ** 2) / (2 * t2))
    norm = np.exp(-((np.arange(-80, 81)[:, None] - x) ** 2) / (2 * t2)).sum(axis=0)
    rounded = (kernel / norm * density).sum(axis=1)
    exact = law(s2 + t2, 0, 60)[48:73]
    eta = 2 * exp(-2 * np.pi**2 * t2) / (1 - exp(-2 * np.pi**2 * t2))
    gap = np.abs(np.log(rounded / exact)).max()
    assert gap <= log((1 + eta) / (1 - eta)) + 1e-9
    assert gap > 1e-8  # it is there


@given(st.fractions(Fraction(1, 100), 20), st.integers(2, 12))
@settings(max_examples=40, deadline=None)
def test_the_budget_is_kept_and_never_below_that_of_zcdp(epsilon: Fraction, digits: int) -> None:
    delta = Fraction(1, 10**digits)
    rho = gaussian_within(epsilon, delta)
    with precision(256):
        assert gaussian_delta(rho, epsilon) < arb(1) * arb(str(float(delta))) * (1 + arb(2) ** -40)
        assert gaussian_delta(rho * (1 + Fraction(1, 1 << 14)), epsilon) > arb(str(float(delta))) * (1 - arb(2) ** -40)
    assert zcdp_epsilon(rho, delta, "optimal") > epsilon  # what zCDP alone would say of the same noise


def test_no_budget_is_said() -> None:
    with pytest.raises(InfeasibleError, match="leaves no budget"):
        gaussian_within(Fraction(1, 1 << 62), Fraction(1, 10**6))
