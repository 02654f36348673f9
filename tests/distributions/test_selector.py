"""Hypothesis selection: fast paths against literal sums, every way to write candidates, every kind of column."""

from __future__ import annotations

import sys
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privpac.data import Categories, Floats, Grid, Integers, UserData
from privpac.distributions import Density, GaussianDistribution, HypothesisSelector, scheffe_probability
from privpac.distributions.selection.candidates import read_candidates
from privpac.distributions.selection.comparison import (
    DensityComparison,
    RankComparison,
    compare,
    exact_masses,
    line_sets,
    normal_cuts,
    rank,
    read_bins,
)
from privpac.errors import AccuracyWarning, ParameterError
from privpac.result import Released
from privpac.rng import SystemRng
from privpac.testing import SeededRng, insecure_randomness

sys.path.insert(0, str(Path(__file__).parent))
from literal import scores, users_of

PUBLIC: dict[str, Any] = {"candidates_are": "public"}


# Mass functions: everything exact


@st.composite
def pmf_cases(draw: st.DrawFn) -> tuple[Any, ...]:
    k = draw(st.integers(1, 5))
    weights = st.lists(st.integers(0, 6), min_size=k, max_size=k).filter(any)
    candidates = draw(st.lists(weights, min_size=1, max_size=5))
    users = draw(st.lists(st.lists(st.integers(0, k - 1), max_size=7), max_size=6))
    return k, candidates, users, draw(st.integers(1, 40)), draw(st.integers(1, 90))


@settings(max_examples=60, deadline=None)
@given(pmf_cases())
def test_scores_of_mass_functions_equal_the_literal_sums(case: tuple[Any, ...]) -> None:
    k, candidates, users, unit, top = case
    masses = [[Fraction(w, sum(c)) for w in c] for c in candidates]

    def q(p: int, r: int) -> int:
        return int(unit * sum(a for a, b in zip(masses[p], masses[r], strict=True) if a > b) + Fraction(1, 2))

    selector = HypothesisSelector(candidates, 1, tau=Fraction(top, unit), resolution=unit, **PUBLIC)
    data = users_of(users, x=Integers(0, k - 1))
    comparison = selector.bind(data).plan
    expected = scores(users, len(candidates), lambda p, r, z: masses[p][z] > masses[r][z], q, unit, top)
    assert selector.top == top
    assert comparison.scores(data, top).tolist() == expected


@pytest.mark.parametrize("size", [3, 40, 300])
def test_many_records_many_candidates_and_wide_clips_take_the_same_values(size: int) -> None:
    """Users beyond 255 records leave the 8-bit counters, more than 254 candidates the 8-bit ranks, long sums the 32-bit
    ones."""
    rng = np.random.default_rng(size)
    k, unit = 7, 1 << 20
    candidates = rng.integers(0, 9, (size, k)) + np.eye(k, dtype=int)[np.arange(size) % k]
    users = [rng.integers(0, k, m).tolist() for m in (0, 1, 2, 3, 254, 255, 256, 700, 1500)]
    data = users_of(users, x=Integers(0, k - 1))
    cells = compare(read_candidates(list(map(list, candidates))), {"x": Integers(0, k - 1)}, "auto", unit, 1, bytes(32))
    shares = [[Fraction(int(w), int(sum(c))) for w in c] for c in candidates]
    counts = np.array([np.bincount(user, minlength=k) if user else np.zeros(k, int) for user in users])
    for top in (unit // 3, 2 * unit, 200 * unit):
        got = cells.chunk(data, top)
        for p, r in rng.integers(0, size, (30, 2)).tolist():
            inside = np.array([a > b for a, b in zip(shares[p], shares[r], strict=True)])
            sums = [
                max(-top, min(top, int(c.sum()) * int(cells.q[p, r]) - unit * int(c[inside].sum()))) for c in counts
            ]
            assert got[p, r] == sum(sums)


def test_masses_with_huge_denominators_stay_exact() -> None:
    big = 10**40
    candidates = [[Fraction(1, 2) + Fraction(1, big), Fraction(1, 2) - Fraction(1, big)], ["1/2", "1/2"]]
    selector = HypothesisSelector(candidates, 1, tau=1, resolution=1000, **PUBLIC)
    comparison = selector.comparison({"x": Integers(0, 1)})
    assert comparison.q.tolist() == [[0, 500], [500, 0]]


def test_rank_never_places_nan_above_or_below() -> None:
    above, below = rank(np.array([[1.0, np.nan, -np.inf, 1.0, -np.inf]]))
    inside = above[0][:, None] > below[0][None, :]
    assert inside.astype(int).tolist() == [[0, 0, 1, 0, 1], [0] * 5, [0] * 5, [0, 0, 1, 0, 1], [0] * 5]


# One column of numbers


def test_bins_give_each_candidate_its_masses_exactly() -> None:
    edges = [-1, 0, "1/2", 2]
    rows = [c.edge_masses(read_bins(edges), Floats()) for c in read_candidates([stats.norm(0, 1), stats.expon()])]
    masses, total = exact_masses(rows)
    assert masses.sum(axis=1).tolist() == [total, total]
    ends = np.array([-np.inf, -1, 0, 0.5, 2, np.inf])
    for row, law in zip(masses, [stats.norm(0, 1), stats.expon()], strict=True):
        assert np.abs(row / total - np.diff(law.cdf(ends))).max() < 1e-11


@pytest.mark.parametrize("bins", ["auto", 64, None, [-2, -1, 0, 1, 2]])
def test_normals_on_floats_equal_the_literal_sums(bins: Any) -> None:
    rng = np.random.default_rng(5)
    laws = [stats.norm(0, 1), stats.norm(1, 1), stats.norm(0, 2), stats.laplace(0.3, 1), stats.uniform(-1, 3)]
    users = [rng.normal(0.5, 1, m).tolist() for m in (0, 1, 3, 8, 20)]
    data = users_of(users, x=Floats())
    selector = HypothesisSelector(laws, 1, records_per_user=8, bins=bins, **PUBLIC)
    comparison = selector.bind(data).plan
    ranked = comparison.ranked
    # Membership again, from the edges as real numbers.
    index = dict(zip(np.concatenate(users).tolist(), ranked.cells.index(data).tolist(), strict=True))

    def inside(p: int, r: int, z: float) -> bool:
        cell = index[z]
        return bool(ranked.above[cell, p] > ranked.below[cell, r])

    expected = scores(users, len(laws), inside, lambda p, r: int(comparison.q[p, r]), comparison.unit, selector.top)
    assert comparison.scores(data, selector.top).tolist() == expected
    if bins is None:
        for p, r in ((0, 1), (2, 0), (3, 0), (4, 1)):
            for user in users:
                for z in user:
                    assert inside(p, r, z) == (laws[p].logpdf(z) > laws[r].logpdf(z))
            exact, _ = scheffe_probability(laws[p], laws[r])
            assert comparison.q[p, r] == int(np.floor(comparison.unit * exact + 0.5))


@settings(max_examples=40, deadline=None)
@given(
    st.tuples(st.integers(-40, 40), st.integers(1, 40), st.integers(-40, 40), st.integers(1, 40)),
    st.lists(st.floats(-30, 30), min_size=1, max_size=20),
)
def test_normal_crossings_separate_the_signs(numbers: tuple[int, int, int, int], points: list[float]) -> None:
    m1, s1, m2, s2 = (Fraction(v, 8) for v in numbers)
    cuts = normal_cuts(m1, s1, m2, s2)
    assert len(cuts) <= 2
    if len(cuts) < 2 and s1 != s2:
        raise AssertionError("normals of different spread cross twice")
    outside = s1 > s2
    for z in points:
        gap = stats.norm(float(m1), float(s1)).logpdf(z) - stats.norm(float(m2), float(s2)).logpdf(z)
        if abs(gap) < 1e-7:
            continue
        if s1 == s2:
            expected = (z > cuts[0]) == (m1 > m2)
        else:
            expected = not (cuts[0] < z < cuts[1]) if outside else cuts[0] < z < cuts[1]
        assert (gap > 0) == expected


def test_a_record_on_a_crossing_is_in_neither_set() -> None:
    ranked = line_sets(read_candidates([stats.norm(0, 1), stats.norm(1, 1)]), "x", Grid(-5, 5, 0.25))
    cells = ranked.cells.index(users_of([[0.25, 0.5, 0.75]], x=Grid(-5, 5, 0.25)))
    signs = [int(ranked.above[c, 0] > ranked.below[c, 1]) - int(ranked.above[c, 1] > ranked.below[c, 0]) for c in cells]
    assert signs == [1, 0, -1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (stats.gamma(2, scale=1), stats.expon(scale=2)),
        (stats.t(3), stats.norm(0, 1)),
        (stats.uniform(0, 1), stats.uniform(0.5, 2)),
        (stats.beta(2, 5), stats.beta(5, 2)),
        (stats.cauchy(), stats.norm(0, 3)),
        (stats.laplace(1000, 5), stats.norm(1003, 4)),
    ],
)
def test_scheffe_probabilities_equal_numerical_integrals(first: Any, second: Any) -> None:
    for p, r in ((first, second), (second, first)):
        levels = (np.arange(400_000) + 0.5) / 400_000
        mean = float(np.mean(p.logpdf(x := p.ppf(levels)) > r.logpdf(x)))
        assert abs(scheffe_probability(p, r)[0] - mean) < 2e-5


@pytest.mark.parametrize("domain", [Integers(0, 200), Integers(-(1 << 40), 1 << 40), Floats()])
def test_integer_laws_compare_on_every_integer(domain: Any) -> None:
    laws = [stats.poisson(3), stats.poisson(7), stats.geom(0.2)]
    selector = HypothesisSelector(laws, 1, records_per_user=4, bins=None, resolution=1 << 20, **PUBLIC)
    comparison = selector.comparison({"x": domain})
    k = np.arange(200)
    for p in range(3):
        for r in range(3):
            if p != r:
                exact = laws[p].pmf(k)[laws[p].logpmf(k) > laws[r].logpmf(k)].sum()
                assert abs(int(comparison.q[p, r]) - exact * (1 << 20)) <= 1


def test_histogram_candidates_compare_densities_on_the_common_refinement() -> None:
    from privpac.distributions import HistogramDistribution

    one = HistogramDistribution("x", (0, 1, 3), (1, 1))  # density 1/2, then 1/4
    two = HistogramDistribution("x", (0, 2, 3), (3, 1))  # density 3/8, then 1/4
    comparison = HypothesisSelector([one, two], 1, tau=1, resolution=16, bins=None, **PUBLIC).comparison(
        {"x": Floats()}
    )
    # one > two on [0, 1); two > one on [1, 2); equal on [2, 3).
    assert comparison.q.tolist() == [[0, 8], [6, 0]]


# Several columns, any density


def test_normals_of_several_columns_equal_the_literal_sums() -> None:
    rng = np.random.default_rng(8)
    laws = [
        stats.multivariate_normal([0, 0], [[1, 0.3], [0.3, 2]]),
        stats.multivariate_normal([1, 0], [[1, 0], [0, 1]]),
        stats.multivariate_normal([0, 1], [[2, 0], [0, 1]]),
    ]
    users = [[tuple(row) for row in rng.normal(0.3, 1, (m, 2)).tolist()] for m in (0, 1, 2, 9)]
    data = users_of(users, a=Floats(), b=Floats())
    selector = HypothesisSelector(laws, 1, records_per_user=4, samples=40_000, **PUBLIC)
    comparison = selector.bind(data).plan
    assert isinstance(comparison, DensityComparison)
    expected = scores(
        users,
        3,
        lambda p, r, z: bool(laws[p].logpdf(z) > laws[r].logpdf(z)),
        lambda p, r: int(comparison.q[p, r]),
        comparison.unit,
        selector.top,
    )
    assert comparison.scores(data, selector.top).tolist() == expected
    # Monte Carlo from public coins: error at most sqrt(ln(2 K^2 / eta) / (2 S)) = 0.018 with eta = 1e-10.
    drawn = laws[0].rvs(400_000, random_state=3)
    assert abs(comparison.q[0, 1] / comparison.unit - np.mean(laws[0].logpdf(drawn) > laws[1].logpdf(drawn))) < 0.02


def test_normals_of_one_covariance_have_closed_form_probabilities() -> None:
    laws = [GaussianDistribution(("a", "b"), mean, ((4, 0), (0, 1))) for mean in ((0, 0), (2, 0), (0, 3))]
    comparison = HypothesisSelector(laws, 1, tau=1, resolution=10**6, **PUBLIC).comparison(
        {"a": Floats(), "b": Floats()}
    )
    assert comparison.q[0, 1] == round(10**6 * stats.norm.cdf(0.5))
    assert comparison.q[2, 0] == round(10**6 * stats.norm.cdf(1.5))


def test_a_record_is_judged_alone_whatever_it_is_batched_with() -> None:
    rng = np.random.default_rng(3)
    laws = read_candidates([stats.multivariate_normal(rng.normal(0, 1, 3), np.eye(3) + 0.2) for _ in range(7)])
    comparison = DensityComparison(np.zeros((7, 7), np.int64), 1, tuple(laws), {})
    points = rng.normal(0, 1, (1000, 3))
    together = comparison.log_density(points)
    for size in (1, 2, 3, 7, 33):
        at = rng.integers(0, 1000 - size)
        assert (comparison.log_density(np.ascontiguousarray(points[at : at + size])) == together[at : at + size]).all()


def test_any_function_is_a_candidate_and_its_failures_are_ties() -> None:
    def broken(z: Any) -> Any:
        if np.any(np.asarray(z) > 6):
            warnings.warn("about this record", RuntimeWarning, stacklevel=1)
            raise RuntimeError("no density here")
        return np.where(np.asarray(z) > 4, np.nan, 0.2)

    fair = Density(lambda z: np.zeros(np.shape(z)[0]), sample=lambda n, seed: np.linspace(0, 9, n))
    other = Density(lambda z: np.log(broken(z)), sample=lambda n, seed: np.linspace(0, 4, n))
    selector = HypothesisSelector({"fair": fair, "broken": other}, 1, tau=1, bins=None, samples=1000, **PUBLIC)
    users = [[1.0, 8.0], [5.0], []]
    law = selector.law(users_of(users, x=Floats()))
    assert float(law.prob(0)) + float(law.prob(1)) == pytest.approx(1)
    comparison = selector.comparison({"x": Floats()})
    assert isinstance(comparison, DensityComparison)
    density = comparison.log_density(np.array([[1.0], [5.0], [8.0]]))
    assert np.isnan(density[1:, 1]).all()
    assert np.isfinite(density[0]).all()


def test_plain_functions_on_a_small_grid_become_masses() -> None:
    up, down = (lambda z: np.asarray(z) + 1.0), (lambda z: 10.0 - np.asarray(z))
    selector = HypothesisSelector([up, down], 1, tau=1, resolution=55, **PUBLIC)
    comparison = selector.comparison({"x": Integers(0, 9)})
    assert isinstance(comparison, RankComparison)
    assert comparison.q.tolist() == [[0, 40], [40, 0]]


def test_bins_of_several_columns() -> None:
    laws = [stats.multivariate_normal([m, 0], np.eye(2)) for m in (-1, 1)]
    edges = np.linspace(-6, 6, 25).tolist()
    selector = HypothesisSelector(laws, 1, tau=1, bins={"a": edges, "b": edges}, resolution=10**5, **PUBLIC)
    comparison = selector.comparison({"a": Floats(), "b": Floats()})
    assert abs(comparison.q[0, 1] / 10**5 - stats.norm.cdf(1)) < 0.01
    data = users_of([[(-1.0, 0.0), (-2.0, 99.0)], [(-1.5, 0.2)]] * 20, a=Floats(), b=Floats())
    assert selector.law(data).mode == 0


# Learning


def test_learning_publishes_the_chosen_distribution_and_public_numbers_only(tmp_path: Path) -> None:
    people = users_of([["a", "a"], ["a"], []] * 10, city=Categories(["a", "b", "c"]))
    selector = HypothesisSelector(
        {"mostly a": {"a": 8, "b": 1, "c": 1}, "even": [1, 1, 1]}, 1, records_per_user=2, **PUBLIC
    )
    with insecure_randomness():
        released = selector.learn(people, rng=SeededRng(1))
    assert released.insecure
    assert released.value.pmf(["a", "b", "c"]).sum() == pytest.approx(1)
    assert set(released.parameters) == {"candidate", "name", "candidates", "candidates_are", "tau", "resolution"}
    released.save(tmp_path / "r.json")
    assert Released.load(tmp_path / "r.json").value == released.value
    real = selector.learn(people)
    assert real.guarantee == selector.guarantee


@pytest.mark.parametrize("users", [[], [[]], [[], [], []]])
def test_without_records_the_law_is_uniform(users: list[list[int]]) -> None:
    selector = HypothesisSelector([[1, 2], [2, 1], [1, 1]], 1, records_per_user=3, **PUBLIC)
    law = selector.law(users_of(users, x=Integers(0, 1)))
    assert [law.prob_float(i) for i in range(3)] == pytest.approx([1 / 3] * 3)


def test_one_candidate_is_always_chosen() -> None:
    selector = HypothesisSelector([[1, 2]], 1, records_per_user=3, **PUBLIC)
    assert selector.law(users_of([[0], [1, 1]], x=Integers(0, 1))).prob_float(0) == 1


def test_equal_candidates_are_kept_and_reported() -> None:
    selector = HypothesisSelector({"p": [1, 2], "p again": [2, 4], "r": [2, 1]}, 1, records_per_user=3, **PUBLIC)
    data = users_of([[0], [0, 0]], x=Integers(0, 1))
    with pytest.warns(AccuracyWarning, match="p = p again"):
        bound = selector.bind(data)
    assert bound.plan.size == 3
    assert bound.plan.scores(data, selector.top)[0] == bound.plan.scores(data, selector.top)[1]
    assert "p = p again" in selector.draw(bound, SystemRng()).warnings[0]


def test_accuracy_is_judged_from_public_numbers_only() -> None:
    data = users_of([[0], [1]], x=Integers(0, 1))
    candidates = [[1, 9], [9, 1]]
    hidden = HypothesisSelector(candidates, 1, records_per_user=1, alpha="1/5", **PUBLIC)
    assert hidden.bind(data).warnings == ()
    declared = HypothesisSelector(candidates, 1, records_per_user=1, alpha="1/5", public_n_users=2, **PUBLIC)
    with pytest.warns(AccuracyWarning, match="with 2 users"):
        assert declared.bind(data).warnings
    public = HypothesisSelector(candidates, 1, records_per_user=1, alpha="1/5", neighbours="replace", **PUBLIC)
    with pytest.warns(AccuracyWarning, match="users are certified"):
        assert public.bind(data).warnings
    enough = HypothesisSelector(candidates, 1, records_per_user=1, alpha="1/5", public_n_users=10**6, **PUBLIC)
    assert enough.bind(data).warnings == ()


def test_the_certificate_holds_where_it_is_tried() -> None:
    """At the certified number of users the exact failure probability, averaged over 30 data sets, is below beta."""
    rng = np.random.default_rng(11)
    candidates = [[20, 80], [50, 50], [80, 20]]
    for m in (1, 16):
        selector = HypothesisSelector(candidates, 1, records_per_user=m, alpha="1/4", beta="1/20", **PUBLIC)
        certificate = selector.certificate_for({"x": Integers(0, 1)})
        assert certificate is not None
        n = certificate.n_users
        assert n is not None
        wrong = 0.0
        for _ in range(30):
            x = (rng.random((n, m)) < 0.5).astype(int).ravel()
            data = UserData.from_arrays(x[:, None], users=np.repeat(np.arange(n), m), features={"x": Integers(0, 1)})
            wrong += 1 - selector.law(data).prob_float(1)
        assert wrong / 30 <= 0.05


def test_clipping_makes_many_records_worth_more() -> None:
    """Mean distance of the output at 60 users falls with the records per user, below what unclipped sums reach."""
    rng = np.random.default_rng(4)
    cover = [[i, 50 - i] for i in range(1, 50)]
    clipped, plain = [], []
    for m in (1, 16, 256):
        x = (rng.random((60, m)) < 0.5).astype(int).ravel()
        data = UserData.from_arrays(x[:, None], users=np.repeat(np.arange(60), m), features={"x": Integers(0, 1)})
        away = np.abs(np.arange(1, 50) / 50 - 0.5)
        for tau, out in ((np.sqrt(m), clipped), (m, plain)):
            law = HypothesisSelector(cover, 1, tau=float(tau), max_records=m, **PUBLIC).law(data)
            out.append(sum(law.prob_float(i) * a for i, a in enumerate(away)))
    assert clipped[0] > clipped[1] > clipped[2]
    assert clipped[2] < plain[2] / 3


def test_masses_against_densities_need_bins() -> None:
    mixed = [stats.norm(3, 1), stats.poisson(3)]
    with pytest.raises(ParameterError, match="bins="):
        HypothesisSelector(mixed, 1, tau=1, bins=None, **PUBLIC).comparison({"x": Floats()})
    binned = HypothesisSelector(mixed, 1, tau=1, bins=[0, 1, 2, 3, 4, 5, 6], **PUBLIC).comparison({"x": Floats()})
    assert 0 < binned.q[0, 1] < binned.unit
