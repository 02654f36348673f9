"""Histograms with Gaussian noise: the promise decided exactly for one cell, norms by brute force, and the front."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pytest

import privpac as pp
from privpac.auditing import audit_exact, datasets
from privpac.composition import zcdp_epsilon
from privpac.data import Integers, UserData
from privpac.distributions import AveragedHistogram, GaussianHistogram
from privpac.errors import ParameterError
from privpac.mechanisms.gaussian import DiscreteGaussian


def holds(noise: DiscreteGaussian, epsilon: Fraction, delta: Fraction) -> bool:
    def law(people: tuple[Any, ...]) -> Any:
        return noise.law(len(people), bounds=(-60, 60))

    return audit_exact(law, datasets([0], 2), neighbours="add-remove", epsilon=epsilon, delta=delta).holds


def test_one_cell_keeps_the_promise_and_less_noise_does_not() -> None:
    learner = GaussianHistogram(2, delta="1e-3", levels=1)
    noise = learner.noise_of(1)
    assert holds(noise, Fraction(2), Fraction(1, 1000))
    less = DiscreteGaussian(16 * noise.rho, 1, delta="1e-3", unit="user", neighbours="add-remove")
    assert not holds(less, Fraction(2), Fraction(1, 1000))


def test_the_largest_rho_that_fits_is_taken() -> None:
    learner = GaussianHistogram(1, delta="1e-6")
    step = learner.rho / 2**15
    assert zcdp_epsilon(learner.rho, "1e-6", "optimal") <= 1 < zcdp_epsilon(learner.rho + step, "1e-6", "optimal")


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_norm_is_the_largest_that_one_person_moves(neighbours: str) -> None:
    levels, cells = 4, 3
    vectors = [v for v in product(range(levels + 1), repeat=cells) if sum(v) in (0, levels)]
    nobody = (0,) * cells
    others = [nobody] if neighbours == "add-remove" else vectors
    moved = max(sum((a - b) ** 2 for a, b in zip(v, w)) for v in vectors for w in others)
    learner = GaussianHistogram(1, delta="1e-6", levels=levels, neighbours=neighbours)
    assert learner.noise_of(1).sensitivity2 == moved


def test_it_pays_for_many_columns_only() -> None:
    gauss, laplace = GaussianHistogram(1, delta="1e-6"), AveragedHistogram(1)
    assert gauss.variance(1) > laplace.variance(1)
    assert gauss.variance(20) < laplace.variance(20)


def test_through_the_front() -> None:
    rows = [[tuple([k % 2] * 12)] for k in range(600)]
    data = UserData.from_users(rows, features={f"c{j}": Integers(0, 1) for j in range(12)}, labelled=False)
    released = pp.learn_distribution(data, epsilon=1, method="gaussian", delta="1e-6")
    assert released.guarantee is not None
    assert released.guarantee.delta == Fraction(1, 10**6)
    assert released.parameters["noise"] == "discrete Gaussian"
    for delta in (None, 0, 2):
        with pytest.raises(ParameterError, match="delta"):
            pp.learn_distribution(data, epsilon=1, method="gaussian", delta=delta)
