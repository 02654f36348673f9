"""Intervals for new people: the moments of the noise, the curvature, the edges, and a search for a law of people for
which a test rejects too often."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from attrs import evolve, frozen
from scipy.stats import binom

from privpac.evaluation import population
from privpac.evaluation.intervals import Range
from privpac.evaluation.population import FORMS, NoisyTable, excludes, population_range, typical_range

LEVELS = 720_720


@pytest.mark.parametrize("rate", [Fraction(1, 855_855), Fraction(1, 7), Fraction(3), Fraction(900)])
def test_the_moments_of_the_noise(rate: Fraction) -> None:
    """Against the sum over the law (where it is short), at the rate's ends, and never below the truth."""
    table = NoisyTable((1, 1, 1, 1), 1, rate)
    v = float(rate) * np.array([0.0, 1e-9, 0.01, 0.5, 0.99, 1.0, 3.0])
    found = table.log_moment(v)
    assert found[0] == 0
    assert np.isinf(found[-2:]).all()
    assert np.array_equal(table.log_moment(-v), found)
    assert (np.diff(found[:-1]) >= 0).all()
    for share, value in zip(v[1:5], found[1:5]):
        # sinh by its series for small rates, by exponentials for large ones
        exact = -math.log1p(-(math.exp(share - float(rate)) * (math.expm1(-share) / math.expm1(-float(rate))) ** 2))
        assert exact <= value <= exact * (1 + 1e-9) + 1e-15
    if Fraction(1, 10) < rate < 100:
        z = np.arange(-40_000, 40_001)
        exponents = -float(rate) * np.abs(z)
        for share, value in zip(v[1:5], found[1:5]):
            exact = math.log(np.exp(exponents + share * z).sum() / np.exp(exponents).sum())
            assert value == pytest.approx(exact, rel=1e-6, abs=1e-12)


def test_the_curvature_joins_its_series() -> None:
    """(-ln(1 - x) - x)/l**2 from above and below the point where the series takes over; half the square at 0."""
    from mpmath import log, mp, mpf

    mp.dps = 40
    for x in (0.0, 1e-12, 1e-4, 0.0099999, 0.0100001, 0.3, 0.999):
        least = np.array([[0.7]])
        found = float(population._curvature(np.array([[x / 0.7]]), least)[0, 0])
        exact = (-log(1 - mpf(x)) - mpf(x)) / mpf("0.7") ** 2 if x else mpf(0)
        assert found == pytest.approx(float(exact), rel=1e-12, abs=1e-40)
    assert population._curvature(np.array([[0.5]]), np.array([[0.0]]))[0, 0] == 0.125


def test_nobody_and_tiny_budgets_exclude_nothing() -> None:
    for table in (
        NoisyTable((0, 0, 0, 0), LEVELS, Fraction(1, LEVELS)),
        NoisyTable((-1000 * 840, 500 * 840, 0, 0), 840, Fraction(1, 840)),
        NoisyTable((40 * LEVELS, 3 * LEVELS, 2 * LEVELS, 30 * LEVELS), LEVELS, Fraction(1, 10**15), (0,) * 6),
        NoisyTable((0,), LEVELS, Fraction(1, LEVELS), people=0),
    ):
        for name in ["wrong"] if len(table.sums) == 1 else [name for name in FORMS if name != "wrong"]:
            assert population_range(table, name, Fraction(1, 20)) == Range(-1.0 if name == "gain" else 0.0, 1.0)


@pytest.mark.parametrize("doubt", [Fraction(1, 10**12), Fraction(1, 10**40), Fraction(1, 10**400), Fraction(999, 1000)])
def test_every_confidence_has_an_interval(doubt: Fraction) -> None:
    """The surer, the wider; what floating point cannot hold says nothing, and nothing is raised."""
    table = NoisyTable((600 * LEVELS, 30 * LEVELS, 40 * LEVELS, 330 * LEVELS), LEVELS, Fraction(1, LEVELS), (0,) * 6)
    found, usual = (population_range(table, "error", level) for level in (doubt, Fraction(1, 20)))
    assert (found.hi - found.lo > usual.hi - usual.lo) == (doubt < Fraction(1, 20))
    assert (found == Range(0.0, 1.0)) == (doubt < Fraction(1, 10**300))
    typical = typical_range(table, "error", doubt)
    assert typical.lo < 0.07 < typical.hi


def test_more_noise_more_cells_and_unlike_people_widen() -> None:
    """Products say how alike people are; each finer cell brings a noise of its own."""
    sums = (535 * LEVELS, 40 * LEVELS, 60 * LEVELS, 365 * LEVELS)
    alike = tuple(LEVELS * p // 2 for p in (21, 32, 195, 2, 14, 21))  # everybody's shares are those of all
    with_products = NoisyTable(sums, LEVELS, Fraction(16, 19 * LEVELS), alike)
    widths = []
    for table in (
        with_products,
        evolve(with_products, finer=(4, 4, 4, 4)),
        evolve(with_products, products=(0,) * 6),
        evolve(with_products, products=(0,) * 6, noise=Fraction(1, 20 * LEVELS)),
    ):
        found = population_range(table, "error", Fraction(1, 20))
        assert found.lo < 0.1 < found.hi
        assert typical_range(table, "error", Fraction(1, 20)).hi <= found.hi
        widths.append(found.hi - found.lo)
    assert widths == sorted(widths)
    assert widths[2] > 1.7 * widths[0]
    assert evolve(with_products, finer=(1, 1, 1, 1)).rounding == with_products.rounding == 1 / LEVELS


# A search for a law of people


@frozen(slots=False)
class Law:
    """Kinds of people: their tables in steps of ``LEVELS``, and how frequent they are."""

    tables: np.ndarray
    shares: np.ndarray

    @property
    def products(self) -> np.ndarray:
        first, second = np.triu_indices(4, 1)
        return self.tables[:, first] * self.tables[:, second] // (2 * LEVELS)

    def truth(self, rate: str) -> float:
        """Where the form of the rate has mean 0."""
        mean = self.shares @ self.tables / LEVELS
        return min(float(mean @ form.base / (mean @ form.slope)) for form in FORMS[rate])


def random_law(rng: np.random.Generator) -> Law:
    """Few kinds, some of them rare, with one record or with several in any cells."""
    kinds = int(rng.integers(2, 6))
    records = rng.choice([1, 2, 16])
    counts = rng.multinomial(records, rng.dirichlet([0.4] * 4), size=kinds)
    counts[0] = (0, 0, 0, records)  # so that every rate is one
    shares = rng.dirichlet([0.3] * kinds) * 0.98 + 0.02 / kinds
    return Law(counts * (LEVELS // records), shares / shares.sum())


def near(law: Law, rng: np.random.Generator) -> Law:
    """The same kinds, otherwise frequent."""
    shares = law.shares * np.exp(rng.normal(0, 0.7, len(law.shares)))
    return Law(law.tables, shares / shares.sum())


def rejections(law: Law, rate: str, *, n: int, epsilon: float, upper: bool, datasets: int, seed: int) -> int:
    """How often the truth itself is rejected, where it may be in a twentieth of the datasets."""
    rng, eta = np.random.default_rng(seed), epsilon * 16 / 19 / LEVELS
    p, out = -math.expm1(-eta), 0
    people = rng.multinomial(n, law.shares, size=datasets)
    whole = np.concatenate([people @ law.tables, people @ law.products], axis=1)
    noise = rng.geometric(p, whole.shape) - rng.geometric(p, whole.shape)
    truth = np.array([law.truth(rate)])
    for sums in (whole + noise).tolist():
        table = NoisyTable(tuple(sums[:4]), LEVELS, Fraction(16, 19) * Fraction(epsilon) / LEVELS, tuple(sums[4:]))
        level = 0.025 if upper and rate == "gain" else 0.05
        each = [bool(excludes(table, form, truth, upper=upper, beta=level)[0]) for form in FORMS[rate]]
        out += any(each) if upper else all(each)
    return out


DATASETS, LAWS = 200, 24
TOO_MANY = int(binom.isf(1e-8, DATASETS, 0.05)) + 1
"""As many rejections of the truth come about with probability at most 1e-8: with a hundred laws of each cell, 1e-6."""


def worst_of_search(rate: str, *, n: int, epsilon: float, seed: int) -> int:
    """Random laws, then neighbours of the worst one."""
    rng = np.random.default_rng(seed)
    worst, most = random_law(rng), -1
    for turn in range(LAWS):
        law = random_law(rng) if turn < LAWS // 2 else near(worst, rng)
        upper = bool(rng.integers(2))
        found = rejections(law, rate, n=n, epsilon=epsilon, upper=upper, datasets=DATASETS, seed=seed + turn)
        if found > most:
            worst, most = law, found
    return most


@pytest.mark.parametrize(
    ("rate", "n", "epsilon"),
    [("error", 40, 1.0), ("gain", 300, 0.25), ("precision", 100, 3.0), ("sensitivity", 1000, 1.0)],
)
def test_no_law_is_found_whose_truth_is_rejected_too_often(rate: str, n: int, epsilon: float) -> None:
    assert worst_of_search(rate, n=n, epsilon=epsilon, seed=n) < TOO_MANY


@pytest.mark.parametrize(("planted", "n", "epsilon"), [("noise", 30, 0.25), ("squares", 200, 3.0), ("pairs", 200, 3.0)])
def test_the_search_finds_a_wrong_bound(planted: str, n: int, epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that costs nothing, squares that are forgotten, and products that are read at twice their size."""
    if planted == "noise":
        monkeypatch.setattr(NoisyTable, "noise_of", lambda table, form: np.zeros(np.shape(form)[:-1]))
    elif planted == "squares":
        monkeypatch.setattr(population, "_curvature", lambda bets, least: np.full(bets.shape, 1e-9))
    else:
        pairs = NoisyTable.__dict__["pairs"].func
        monkeypatch.setattr(NoisyTable, "pairs", property(lambda table: 2 * pairs(table)))
    assert worst_of_search("error", n=n, epsilon=epsilon, seed=5) >= TOO_MANY
