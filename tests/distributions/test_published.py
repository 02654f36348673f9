"""Published distributions: densities that sum to one, samples that follow them, files that read back."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privpac.data import Categories, Integers
from privpac.distributions import (
    DiscreteDistribution,
    Distribution,
    FamilyDistribution,
    GaussianDistribution,
    HistogramDistribution,
    NamedCandidate,
    ProductDistribution,
)
from privpac.errors import ModelFileError, ParameterError, SchemaError
from privpac.guarantee import Guarantee
from privpac.result import Released
from privpac.rng import PublicCoins

CITY = DiscreteDistribution("city", Categories(["a", "b", "c"]), (5, 0, 10**30))
AGE = HistogramDistribution("age", (0, Fraction(1, 3), 2), (1, 3))
PAIR = GaussianDistribution(("x", "y"), (1, -2), ((2, 0.5), (0.5, 1)))
WAIT = FamilyDistribution("wait", "gamma", (2.0, 0.0, 3.0))
CALLS = FamilyDistribution("calls", "poisson", (4.0, 0.0))
ALL: list[Any] = [CITY, AGE, PAIR, WAIT, CALLS, ProductDistribution((CITY, AGE)), NamedCandidate(3, "mine")]
COINS = bytes(range(32))


@pytest.mark.parametrize("shown", ALL, ids=lambda d: type(d).__name__)
def test_files_read_back_the_same_distribution(shown: Any) -> None:
    released = Released(shown, Guarantee(1, unit="user", neighbours="add-remove"), {"m": 1})
    again = Released.from_json(released.to_json())
    assert again.value == shown
    assert str(again.value) == str(shown)


def test_masses_and_densities() -> None:
    small = DiscreteDistribution("k", Integers(3, 6), (1, 2, 0, 1))
    assert small.pmf([3, 4, 5, 6, 7]).tolist() == [0.25, 0.5, 0.0, 0.25, 0.0]
    assert small.score_samples([5]).tolist() == [-math.inf]
    assert AGE.pdf([-0.1, 0.0, 0.2, 0.5, 2.0, 2.1]).tolist() == pytest.approx([0, 0.75, 0.75, 0.45, 0.45, 0])
    points = np.array([[0.3, -1.0], [2.0, 2.0]])
    assert PAIR.score_samples(points) == pytest.approx(
        stats.multivariate_normal([1, -2], [[2, 0.5], [0.5, 1]]).logpdf(points)
    )
    assert WAIT.pdf([2.0])[0] == pytest.approx(stats.gamma(2, scale=3).pdf(2.0))
    assert CALLS.pmf([2])[0] == pytest.approx(stats.poisson(4).pmf(2))
    joint = ProductDistribution((CITY, AGE))
    assert joint.pmf({"city": ["a"], "age": [0.1]})[0] == pytest.approx(CITY.pmf(["a"])[0] * 0.75)


def test_samples_follow_the_distribution() -> None:
    """20 000 draws from public coins; every tolerance is over 6 standard deviations (false alarms below 1e-8; the coins
    are fixed)."""
    size = 20_000
    small = DiscreteDistribution("k", Integers(3, 6), (1, 2, 0, 1))
    drawn = small.sample(size, PublicCoins(COINS))
    assert np.abs(np.array([np.mean(drawn == v) for v in (3, 4, 5, 6)]) - [0.25, 0.5, 0, 0.25]).max() < 0.025
    ages = AGE.sample(size, PublicCoins(COINS))
    assert abs(np.mean(ages < 1 / 3) - 0.25) < 0.02
    assert ages.min() >= 0
    assert ages.max() <= 2
    pairs = PAIR.sample(size, PublicCoins(COINS))
    assert pairs.shape == (size, 2)
    assert np.abs(pairs.mean(axis=0) - [1, -2]).max() < 0.07
    assert np.abs(np.cov(pairs.T) - [[2, 0.5], [0.5, 1]]).max() < 0.15
    assert abs(CALLS.sample(size, PublicCoins(COINS)).mean() - 4) < 0.1
    both = ProductDistribution((CITY, AGE)).sample(50)
    assert both.shape == (50, 2)
    assert set(both[:, 0]) <= {"a", "c"}
    assert CITY.sample(0).shape == (0,)


def test_words_are_in_the_users_units() -> None:
    assert str(DiscreteDistribution("k", Integers(3, 6), (1, 2, 0, 1))) == "k: 4 0.5, 3 0.25, 6 0.25, 5 0"
    assert "and 92 more values" in str(DiscreteDistribution("k", Integers(0, 99), (1,) * 100))
    assert str(WAIT) == "wait: gamma(2, 0, 3)"
    assert "[0, 0.333333) 0.25" in str(AGE)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DiscreteDistribution("k", Integers(0, 1), (1,)),
        lambda: DiscreteDistribution("k", Integers(0, 1), (0, 0)),
        lambda: DiscreteDistribution("k", Integers(0, 1), (-1, 2)),
        lambda: HistogramDistribution("k", (0, 1), (1, 1)),
        lambda: HistogramDistribution("k", (1, 0), (1,)),
        lambda: GaussianDistribution(("x",), (math.nan,), ((1,),)),
        lambda: GaussianDistribution(("x",), (0,), ((-1,),)),
        lambda: GaussianDistribution(("x", "y"), (0, 0), ((1, 2), (2, 1))),
        lambda: GaussianDistribution(("x", "y"), (0, 0), ((1, 0), (0.5, 1))),
        lambda: FamilyDistribution("x", "__class__", ()),
        lambda: FamilyDistribution("x", "os.system", ()),
        lambda: FamilyDistribution("x", "describe", ()),
        lambda: ProductDistribution(()),
    ],
)
def test_ill_formed_distributions_are_refused(make: Any) -> None:
    with pytest.raises(ParameterError):
        make()


def test_damaged_files_are_unreadable_and_run_nothing() -> None:
    text = Released(WAIT, None).to_json()
    for family in ("describe", "rv_histogram", "__class__"):
        with pytest.raises(ModelFileError):
            Released.from_json(text.replace('"gamma"', f'"{family}"'))


def test_rows_that_are_no_numbers_are_refused() -> None:
    shown: Distribution = PAIR
    with pytest.raises(SchemaError):
        shown.score_samples([["a", "b"]])
    with pytest.raises(SchemaError):
        shown.score_samples([[1.0, math.nan]])
    with pytest.raises(SchemaError):
        shown.score_samples([[1.0]])
