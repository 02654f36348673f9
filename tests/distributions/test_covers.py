"""Covers: literal all-pairs scores, radii tried on random members of the families, sizes and limits."""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privpac.data import Categories, Floats, Grid, Integers, UserData
from privpac.distributions import CoverLearner, Discrete, DiscreteCover, Gaussian, GaussianDistribution, Independent
from privpac.errors import AccuracyWarning, ParameterError, TooLargeError
from privpac.papers.few_examples_per_user.covers import (
    GridCover,
    LocationCover,
    ProductCover,
    ScaleCover,
    covariance_cover,
    covariance_grid,
    grid_cover,
    location_cover,
    round_to_cover,
    scale_cover,
)

sys.path.insert(0, str(Path(__file__).parent))
from literal import scores, users_of

R = Fraction


# Mass functions


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 5),
    st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=6),
    st.integers(1, 30),
)
def test_discrete_scores_equal_the_literal_score_over_all_pairs(
    k: int, units: int, users: list[list[int]], top: int
) -> None:
    users = [[z % k for z in user] for user in users]
    cover = DiscreteCover("x", Integers(0, k - 1), units)
    members = [cover.composition(i) for i in range(cover.size)]
    assert members == sorted(c for c in product(range(units + 1), repeat=k) if sum(c) == units)

    def q(p: int, r: int) -> int:
        return sum(a for a, b in zip(members[p], members[r], strict=True) if a > b)

    expected = scores(users, cover.size, lambda p, r, z: members[p][z] > members[r][z], q, units, top)
    assert cover.scores(users_of(users, x=Integers(0, k - 1)), top).tolist() == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=7).filter(any), st.integers(1, 40))
def test_rounding_stays_within_the_radius(weights: list[int], units: int) -> None:
    counts = round_to_cover(weights, units)
    assert sum(counts) == units
    away = sum(abs(R(w, sum(weights)) - R(c, units)) for w, c in zip(weights, counts, strict=True)) / 2
    assert away <= R(len(weights), 4 * units)
    assert all(abs(R(w, sum(weights)) * units - c) < 1 for w, c in zip(weights, counts, strict=True))


def test_sizes_named_in_the_theory() -> None:
    sizes = [DiscreteCover.of({"x": Integers(1, k)}, R(1, 50)).size for k in range(2, 7)]
    assert sizes[:5] == [26, 780, 23_426, 766_480, math.comb(75 + 5, 5)]
    assert location_cover("x", Floats(), R(10), R(1), R(1, 50), 512).size == 200
    assert grid_cover({"a": Floats(), "b": Floats()}, R(3), R(1), R(1, 25), 256).size <= 1849
    assert scale_cover("x", Floats(), R(10), R(1), R(4), R(1, 50), 512).size == 4879


# Products


@pytest.mark.parametrize("sizes", [(2, 2), (3, 2), (2, 2, 2)])
def test_product_scores_equal_the_literal_score_over_all_pairs(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(sum(sizes))
    units = 3 if len(sizes) == 2 else 2
    names = "abc"[: len(sizes)]
    domains = {name: Integers(0, size - 1) for name, size in zip(names, sizes, strict=True)}
    cover = ProductCover(tuple(DiscreteCover(name, domain, units) for name, domain in domains.items()))
    parts = [[c for c in product(range(units + 1), repeat=size) if sum(c) == units] for size in sizes]
    members = list(product(*parts))
    assert cover.size == len(members)
    users = [[tuple(int(rng.integers(0, size)) for size in sizes) for _ in range(m)] for m in (0, 1, 2, 5, 9)]

    def mass(member: tuple[Any, ...], z: tuple[int, ...]) -> int:
        return math.prod(part[value] for part, value in zip(member, z, strict=True))

    cells = list(product(*(range(size) for size in sizes)))

    def q(p: int, r: int) -> int:
        return sum(mass(members[p], z) for z in cells if mass(members[p], z) > mass(members[r], z))

    expected = scores(users, cover.size, lambda p, r, z: mass(members[p], z) > mass(members[r], z), q, cover.unit, 7)
    assert cover.scores(users_of(users, **domains), 7).tolist() == expected
    member = cover.member(cover.size - 2)
    for z in cells:
        row = {name: [value] for name, value in zip(names, z, strict=True)}
        assert member.score_samples(row)[0] == pytest.approx(
            math.log(mass(members[-2], z) / cover.unit) if mass(members[-2], z) else -math.inf
        )


# Normal laws


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 7),
    st.lists(st.lists(st.integers(-16, 16), max_size=6), max_size=6),
    st.integers(1, 60),
    st.integers(1, 3),
)
def test_location_scores_equal_the_literal_score_also_on_ties(
    size: int, eighths: list[list[int]], top: int, steps: int
) -> None:
    """Records lie on multiples of 1/8, middles too: many ties, and a tie is in neither set."""
    step = R(steps, 4)
    cover = LocationCover("x", Grid(-10, 10, "0.125"), -R(1), step, size, R(1), 32)
    users = [[v / 8 for v in user] for user in eighths]
    means = [-1 + step * i for i in range(size)]

    def q(p: int, r: int) -> int:
        return math.floor(32 * stats.norm.cdf(float(step) * abs(p - r) / 2) + 0.5)

    def inside(p: int, r: int, z: float) -> bool:
        return abs(R(z) - means[p]) < abs(R(z) - means[r])

    assert cover.scores(users_of(users, x=Grid(-10, 10, "0.125")), top).tolist() == scores(
        users, size, inside, q, 32, top
    )


PLANE = {"a": Floats(), "b": Floats()}
PLANE_COVERS = [
    grid_cover(PLANE, R(1), R(2), R(1, 10), 64),
    # Half steps of 1/4 and records on multiples of 1/8: many exact ties, and a tie is in neither set.
    GridCover(PLANE, np.array([(i, j) for i in range(-3, 4, 2) for j in range(-3, 4, 2)]), 0.25, 1.0, 64, R(1, 10)),
]


@pytest.mark.parametrize(("cover", "tied"), [(PLANE_COVERS[0], False), (PLANE_COVERS[1], True)])
def test_grid_scores_equal_the_literal_score(cover: GridCover, tied: bool) -> None:
    rng = np.random.default_rng(1)
    assert 10 < cover.size < 200
    means = [cover.member(i).mean for i in range(cover.size)]  # type: ignore[attr-defined]
    places = [rng.normal(0.2, 1.4, (m, 2)) for m in (0, 1, 3, 3, 6, 12)]
    users = [[tuple(row) for row in (np.round(rows * 8) / 8 if tied else rows).tolist()] for rows in places]

    def q(p: int, r: int) -> int:
        return math.floor(64 * stats.norm.cdf(math.dist(means[p], means[r]) / cover.deviation / 2) + 0.5)

    def inside(p: int, r: int, z: Any) -> bool:
        return sum((R(x) - R(c)) ** 2 for x, c in zip(z, means[p], strict=True)) < sum(
            (R(x) - R(c)) ** 2 for x, c in zip(z, means[r], strict=True)
        )

    assert cover.scores(users_of(users, **PLANE), 40).tolist() == scores(users, cover.size, inside, q, 64, 40)


def test_scale_scores_equal_the_literal_score() -> None:
    rng = np.random.default_rng(2)
    cover = scale_cover("x", Floats(), R(1), R(1), R(2), R(1, 8), 128)
    assert isinstance(cover, ScaleCover)
    assert 10 < cover.size < 200
    users = [rng.normal(0.4, 1.2, m).tolist() for m in (0, 1, 4, 4, 7, 30)]
    ends = [-math.inf, *cover.edges.tolist(), math.inf]
    sets = {}
    for p in range(cover.size):
        start, end, outside, q = cover.intervals(p)
        for r in range(cover.size):
            sets[p, r] = (ends[start[r]], ends[end[r]], bool(outside[r]), int(q[r]))

    def inside(p: int, r: int, z: float) -> bool:
        lo, hi, outside, _ = sets[p, r]
        return (lo <= z < hi) != outside

    expected = scores(users, cover.size, inside, lambda p, r: sets[p, r][3], 128, 300)
    assert cover.scores(users_of(users, x=Floats()), 300).tolist() == expected
    # The moved sets are Scheffé sets up to the width of an edge: likelihoods agree away from the ends.
    laws = [stats.norm(m, s) for m, s in zip(cover.means, cover.deviations, strict=True)]
    for p, r in [(0, 5), (5, 0), (3, cover.size - 1), (cover.size - 1, 2), (7, 8)]:
        lo, hi, outside, q = sets[p, r]
        drawn = laws[p].rvs(2000, random_state=1)
        gap = laws[p].logpdf(drawn) - laws[r].logpdf(drawn)
        clear = np.minimum(np.abs(drawn - lo), np.abs(drawn - hi)) > 2 * (cover.edges[1] - cover.edges[0])
        assert ((gap > 0) == [inside(p, r, z) for z in drawn])[clear].all()
        assert abs(q / 128 - np.mean(gap > 0)) < 0.06


@settings(max_examples=60, deadline=None)
@given(st.floats(-1, 1), st.floats(0, 1))
def test_every_normal_of_the_family_is_near_a_member(at: float, height: float) -> None:
    c, ratio, reach = 0.1, 3.0, 2.0
    cover = scale_cover("x", Floats(), R(reach), R(1), R(3), R(1, 10), 128)
    mean, deviation = at * reach, math.exp(height * math.log(ratio) / 2)
    near = np.argsort(np.abs(np.log(cover.deviations / deviation)) + np.abs(cover.means - mean) / deviation)[:40]
    x = np.linspace(-15, 15, 6001)
    own = stats.norm(mean, deviation).pdf(x)
    away = min(
        np.abs(own - stats.norm(cover.means[i], cover.deviations[i]).pdf(x)).sum() * (x[1] - x[0]) / 2 for i in near
    )
    assert away <= c + 1e-6
    line = location_cover("x", Floats(), R(reach), R(1), R(1, 10), 128)
    gaps = [abs(float(line.start + line.step * i) - mean) for i in range(line.size)]
    assert 2 * stats.norm.cdf(min(gaps) / 2) - 1 <= c + 1e-9


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 2 * math.pi), st.floats(0, 1))
def test_every_mean_vector_is_near_a_member(angle: float, far: float) -> None:
    cover = grid_cover({"a": Floats(), "b": Floats()}, R(2), R(1), R(1, 10), 128)
    mean = 2 * math.sqrt(far) * np.array([math.cos(angle), math.sin(angle)])
    gap = np.sqrt(((cover.points * cover.half - mean) ** 2).sum(axis=1)).min()
    assert 2 * stats.norm.cdf(gap / 2) - 1 <= 0.1 + 1e-9


def test_every_covariance_is_near_a_grid_matrix() -> None:
    rng = np.random.default_rng(0)
    ratio, c = 1.5, 0.2
    grid = covariance_grid(2, ratio, c)
    for _ in range(300):
        turn, _ = np.linalg.qr(rng.normal(size=(2, 2)))
        true = turn @ np.diag(rng.uniform(1, ratio, 2)) @ turn.T
        assert np.sqrt(((grid - true) ** 2).sum(axis=(1, 2))).min() <= c + 1e-9


def test_covariance_covers_select_the_right_shape() -> None:
    rng = np.random.default_rng(7)
    domains = {"a": Floats(), "b": Floats()}
    cover = covariance_cover(domains, R(1, 5), R(1), R(14, 5), R(9, 20), 64)
    assert 2 < cover.size <= 256
    true = np.array([[2.0, 0.7], [0.7, 1.9]])
    x = rng.multivariate_normal([0, 0], true, 400 * 20)
    data = UserData.from_arrays(x, users=np.repeat(np.arange(400), 20), features=domains)
    best = int(np.argmin(cover.scores(data, 64 * 8)))
    chosen = cover.member(best)
    assert isinstance(chosen, GaussianDistribution)
    assert np.abs(np.array(chosen.covariance) - true).max() < 0.7
    users = [[tuple(row) for row in rng.normal(0, 1.5, (m, 2)).tolist()] for m in (0, 1, 4)]
    comparison = cover.comparison
    laws = [stats.multivariate_normal(m.mean, m.covariance) for m in cover.members]
    logs = {z: [float(law.logpdf(z)) for law in laws] for user in users for z in user}
    larger, share = lambda p, r, z: logs[tuple(z)][p] > logs[tuple(z)][r], lambda p, r: int(comparison.q[p, r])
    expected = scores(users, cover.size, larger, share, 64, 50)
    assert cover.scores(users_of(users, **domains), 50).tolist() == expected


# The learner


def test_learning_finds_the_population() -> None:
    rng = np.random.default_rng(3)
    n, m = 3000, 10
    x = rng.choice(3, n * m, p=[0.6, 0.3, 0.1])
    data = UserData.from_arrays(
        x[:, None], users=np.repeat(np.arange(n), m), features={"x": Categories(["0", "1", "2"])}
    )
    learner = CoverLearner("discrete", 1, alpha="0.2", records_per_user=m)
    released = learner.learn(data)
    assert released.guarantee == learner.guarantee
    away = np.abs(released.value.probabilities - [0.6, 0.3, 0.1]).sum() / 2
    assert away < 0.2  # certified: fails with probability below 1/20 at far fewer users than these
    certificate = learner.certificate_for(data.features)  # type: ignore[arg-type]
    assert certificate is not None
    assert certificate.n_users is not None
    assert certificate.n_users < n / 10


def test_too_large_covers_name_the_alternative_before_data_are_touched() -> None:
    with pytest.raises(TooLargeError, match="ClippedHistogram"):
        CoverLearner("discrete", 1, alpha="0.2", records_per_user=1).cover({"x": Integers(1, 8)})
    with pytest.raises(TooLargeError, match="ClippedHistogram"):
        CoverLearner(Independent(), 1, alpha="0.2", records_per_user=1).cover({c: Integers(1, 3) for c in "abc"})
    with pytest.raises(TooLargeError, match="CoarseToFineMean"):
        CoverLearner(Gaussian(10**6), 1, alpha="0.2", records_per_user=1).cover({"x": Floats()})
    with pytest.raises(TooLargeError, match="CoarseToFineMean"):
        CoverLearner(Gaussian(3), 1, alpha="0.1", records_per_user=1).cover({c: Floats() for c in "abc"})
    with pytest.raises(TooLargeError, match="CoarseToFineGaussian"):
        CoverLearner(Gaussian(10, 1, 9), 1, alpha="0.1", records_per_user=1).cover({"x": Floats()})
    with pytest.raises(TooLargeError, match="CoarseToFineGaussian"):
        CoverLearner(Gaussian(1, 1, 9), 1, alpha="0.1", records_per_user=1).cover({c: Floats() for c in "ab"})


def test_wrong_parameters_are_refused_with_what_is_allowed() -> None:
    with pytest.raises(ParameterError, match="records_per_user"):
        CoverLearner("discrete", 1, alpha="0.2")
    with pytest.raises(ParameterError, match="alpha / 3"):
        CoverLearner("discrete", 1, alpha="0.2", cover_radius="0.1", records_per_user=1)
    with pytest.raises(ParameterError, match="public ranges"):
        CoverLearner("gaussian", 1, alpha="0.2", records_per_user=1)
    with pytest.raises(ParameterError, match="'discrete'"):
        CoverLearner("pareto", 1, alpha="0.2", records_per_user=1)
    with pytest.raises(TypeError):
        CoverLearner(7, 1, alpha="0.2", records_per_user=1)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="max_variance"):
        Gaussian(1, 2, 1)
    with pytest.raises(ParameterError, match="use family='product'"):
        CoverLearner(Discrete(), 1, alpha="0.5", records_per_user=1).cover({"a": Integers(0, 1), "b": Integers(0, 1)})
    with pytest.raises(ParameterError, match="do not hold numbers"):
        CoverLearner(Gaussian(1), 1, alpha="0.5", records_per_user=1).cover({"a": Categories(["x"])})


def test_few_public_users_are_reported() -> None:
    data = users_of([[0], [1]], x=Integers(0, 1))
    learner = CoverLearner("discrete", 1, alpha="0.2", records_per_user=1, neighbours="replace")
    with pytest.warns(AccuracyWarning, match="certified"):
        assert learner.bind(data).warnings
