"""Plans for families of distributions: the learners' own numbers, certificates that hold, lower bounds below them, bad
shapes refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Floats, Grid, Integers, UserData
from privpac.distributions import ClippedHistogram, CoarseToFineMean, CoverLearner, Gaussian, HypothesisSelector
from privpac.distributions.family_plan import FAMILY_TARGETS, family_target
from privpac.distributions.gaussian import _holds, _splits, certify_mean
from privpac.distributions.histogram import certify_counts, noise_quantile
from privpac.distributions.selection.accuracy import ClipPlan, KnownPairs
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.guarantee import Neighbours
from privpac.testing import SeededRng, insecure_randomness

SHAPES: dict[str, dict[str, Any]] = {
    "selection": {"k": 8},
    "discrete": {"k": 4},
    "product": {"k": 2, "d": 2},
    "histogram": {"k": 20},
    "gaussian": {"radius": 10},
}
FEW, DRAWS, ALARM = "0.001", 45, 0.1
"""45 values in [0, 1] of expectation 0.001 or less have a mean above 0.1 with probability below 1e-7 (Chernoff: 45
KL(0.1, 0.001) > 16)."""


def numbers(target: Any, m: int) -> dict[str, Any]:
    return {method.name: method.certify(m).n_users for method in target.methods()}


def kinds(target: Any) -> dict[str, str]:
    return {method.name: method.kind for method in target.methods()}


# The learners' own numbers


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("m", [1, 16])
def test_selection_is_planned_with_the_certificate_of_the_selector(m: int, neighbours: str) -> None:
    laws = [[i + 1] + [1] * 7 for i in range(8)]
    learner = HypothesisSelector(
        laws,
        "0.7",
        candidates_are="public",
        records_per_user=m,
        alpha="0.2",
        beta="0.02",
        opt="0.01",
        neighbours=neighbours,
    )
    target = family_target("selection", epsilon="0.7", alpha="0.2", beta="0.02", neighbours=neighbours, k=8, opt="0.01")
    n = numbers(target, m)["hypothesis selection"]
    assert n == learner.certificate.n_users
    assert learner.plan.shortfall(n) is None
    assert learner.plan.shortfall(n - 1) is not None
    domains = {"v": Integers(0, 7)}
    given_laws = family_target(
        "selection",
        epsilon="0.7",
        alpha="0.2",
        beta="0.02",
        neighbours=neighbours,
        candidates=laws,
        domains=domains,
        opt="0.01",
    )
    assert numbers(given_laws, m) == {"hypothesis selection": learner.certificate_for(domains).n_users}
    assert given_laws.note


@pytest.mark.parametrize(
    ("family", "shape", "learned", "domains", "alpha"),
    [
        ("discrete", {"k": 4}, "discrete", {"a": Integers(1, 4)}, "0.1"),
        ("discrete", {"domain": Integers(1, 3)}, "discrete", {"a": Integers(1, 3)}, "0.2"),
        ("product", {"k": 2, "d": 2}, "product", {"a": Integers(0, 1), "b": Integers(0, 1)}, "0.3"),
        ("product", {"sizes": [2, 3]}, "product", {"a": Integers(0, 1), "b": Integers(0, 2)}, "0.8"),
        ("gaussian", {"radius": 5}, Gaussian(5), {"a": Grid(-9, 9, "0.5")}, "0.2"),
        ("gaussian", {"radius": 3, "max_variance": 2}, Gaussian(3, 1, 2), {"a": Floats()}, "0.3"),
    ],
    ids=["discrete", "domain", "product", "sizes", "gaussian", "spread"],
)
def test_covers_are_planned_with_the_certificate_of_the_cover_learner(
    family: str, shape: dict[str, Any], learned: Any, domains: dict[str, Any], alpha: str
) -> None:
    target = family_target(family, epsilon=1, alpha=alpha, **shape)
    for m in (1, 16):
        learner = CoverLearner(learned, 1, alpha=alpha, records_per_user=m)
        n = numbers(target, m)["selection from a cover"]
        assert n == learner.certificate_for(domains).n_users
        plan = learner.plan(learner.cover(domains))
        assert plan.shortfall(n) is None
        assert plan.shortfall(n - 1) is not None


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("m", "d"), [(1, 1), (16, 1), (16, 3)])
def test_means_are_planned_with_the_shares_and_the_axis_of_the_learner(m: int, d: int, neighbours: str) -> None:
    learner = CoarseToFineMean(1, radius=10, variance=4, records_per_user=m, neighbours=neighbours)
    target = family_target("gaussian", epsilon=1, alpha="0.1", radius=10, variance=4, d=d, neighbours=neighbours)
    n = target.methods()[0].certify(m).n_users
    assert n is not None
    assert n == certify_mean(learner, alpha="0.1", beta="0.05", dimension=d).n_users
    allowed = 2 * 0.1256613 * 64 * math.sqrt(m / d)
    assert any(_holds(learner, d, allowed, split, n) for split in _splits(learner, d, 0.05))
    assert not any(_holds(learner, d, allowed, split, n - 1) for split in _splits(learner, d, 0.05))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.floats(0.05, 3), st.floats(0.001, 0.5))
def test_the_quantile_of_summed_noise_is_that_of_its_exact_law(cells: int, eta: float, failure: float) -> None:
    r, x = math.exp(-eta), np.arange(math.ceil(60 / eta))
    one = np.where(x == 0, (1 - r) / (1 + r), 2 * (1 - r) / (1 + r) * r**x)
    law = np.ones(1)
    for _ in range(cells):
        law = np.convolve(law, one)
    found, tail = noise_quantile(cells, eta, failure), 1 - np.cumsum(law)
    assert tail[found] <= failure * (1 + 1e-9)
    assert found == 0 or tail[found - 1] > failure * (1 - 1e-9)


def test_rounded_probabilities_cost_margin_also_where_means_are_bounded() -> None:
    likely = tuple(range(1, 101))
    shared = (5.0, Fraction(1), Fraction(0), Fraction(1, 5), Fraction(1, 20), 1 << 14, None, Neighbours.ADD_REMOVE)
    exact, rough = (
        ClipPlan(*shared, KnownPairs(likely, 100, rounding, None)).certificate
        for rounding in (Fraction(0), Fraction(1, 50))
    )
    narrower = ClipPlan(5.0, Fraction(1), Fraction(1, 50), Fraction(9, 50), *shared[4:]).certificate
    assert exact is not None
    assert rough is not None
    assert narrower is not None
    assert exact.n_users is not None
    assert rough.n_users is not None
    assert exact.n_users < rough.n_users == narrower.n_users


# Certificates hold


def mean_failure(values: list[float]) -> float:
    assert len(values) == DRAWS
    return sum(values) / DRAWS


def drawn(law: list[float], n: int, m: int, seed: int) -> UserData:
    values = np.random.default_rng(seed).choice(len(law), size=(n, m), p=law)
    return UserData.from_users(values.tolist(), features={"v": Integers(0, len(law) - 1)}, labelled=False)


def distance(p: Any, q: Any) -> float:
    return float(np.abs(np.array(p, dtype=float) - np.array(q, dtype=float)).sum() / 2)


def test_selection_with_the_certified_number_of_users_fails_rarely() -> None:
    laws = [[0.4, 0.2, 0.2, 0.2], [0.2, 0.4, 0.2, 0.2], [0.3, 0.3, 0.2, 0.2], [0.25, 0.25, 0.25, 0.25]]
    weights = [[round(20 * p) for p in law] for law in laws]
    n = numbers(family_target("selection", epsilon=1, alpha="0.12", beta=FEW, k=4), 8)["hypothesis selection"]
    learner = HypothesisSelector(weights, 1, candidates_are="public", records_per_user=8, alpha="0.12", beta=FEW)
    bad = [i for i, law in enumerate(laws) if distance(law, laws[0]) > 0.12]
    assert bad

    def failures(users: int) -> list[float]:
        found = (learner.law(drawn(laws[0], users, 8, seed)) for seed in range(DRAWS))
        return [sum(float(law.prob(i)) for i in bad) for law in found]

    assert n is not None
    assert mean_failure(failures(n)) <= ALARM
    assert mean_failure(failures(n // 40)) > ALARM  # few users do fail, so the test can


def test_discrete_laws_learned_from_a_cover_fail_rarely() -> None:
    truth = [0.55, 0.3, 0.15]
    n = numbers(family_target("discrete", epsilon=1, alpha="0.4", beta=FEW, k=3), 8)["selection from a cover"]
    learner = CoverLearner("discrete", 1, alpha="0.4", beta=FEW, records_per_user=8)
    cover = learner.cover({"v": Integers(0, 2)})
    far = [i for i in range(cover.size) if distance(np.array(cover.composition(i)) / cover.unit, truth) > 0.4]

    def failures(users: int) -> list[float]:
        found = (learner.law(drawn(truth, users, 8, seed)) for seed in range(DRAWS))
        return [sum(float(law.prob(i)) for i in far) for law in found]

    assert n is not None
    assert mean_failure(failures(n)) <= ALARM
    assert mean_failure(failures(n // 40)) > ALARM


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_histograms_of_the_certified_number_of_users_fail_rarely(neighbours: str) -> None:
    truth, m = [0.4, 0.3, 0.1, 0.1, 0.05, 0.05], 5
    target = family_target("histogram", epsilon=1, alpha="0.15", beta=FEW, k=6, neighbours=neighbours)
    n = numbers(target, m)["clipped histogram, one stage"]
    learner = ClippedHistogram(1, max_records=m, stages=1, neighbours=neighbours)

    def failures(users: int) -> list[float]:
        out = []
        for seed in range(DRAWS):
            with insecure_randomness():
                found = learner.learn(drawn(truth, users, m, seed), rng=SeededRng(seed)).value
            out.append(float(distance(found.pmf(np.arange(6)), truth) > 0.15))
        return out

    assert n is not None
    assert mean_failure(failures(n)) <= ALARM
    assert mean_failure(failures(n // 20)) > ALARM


@pytest.mark.slow
@pytest.mark.parametrize("center", [-6.03, 0.0, 5.97])
def test_means_of_the_certified_number_of_users_fail_rarely(center: float) -> None:
    m, deviation = 9, 2.0
    n = (
        family_target("gaussian", epsilon=1, alpha="0.1", beta=FEW, radius=8, variance=4)
        .methods()[0]
        .certify(m)
        .n_users
    )
    learner = CoarseToFineMean(1, radius=8, variance=4, records_per_user=m)

    def failures(users: int) -> list[float]:
        out = []
        for seed in range(DRAWS):
            values = np.random.default_rng(seed).normal(center, deviation, size=(users, m))
            data = UserData.from_users(values.tolist(), features={"x": Floats()}, labelled=False)
            with insecure_randomness():
                found = learner.learn(data, rng=SeededRng(seed)).value
            out.append(float(math.erf(abs(found.mean[0] - center) / (2 * deviation * math.sqrt(2))) > 0.1))
        return out

    assert n is not None
    assert mean_failure(failures(n)) <= ALARM
    assert mean_failure(failures(n // 20)) > ALARM


# Shape of the numbers


@pytest.mark.parametrize("family", list(SHAPES))
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_lower_bounds_stay_below_certified_numbers(family: str, neighbours: str) -> None:
    for alpha in ("0.4", "0.6") if family == "product" else ("0.1", "0.3"):
        for epsilon in ("0.2", 1, 5):
            target = family_target(family, epsilon=epsilon, alpha=alpha, neighbours=neighbours, **SHAPES[family])
            for m in (1, 16, 64):
                found, kind = numbers(target, m), kinds(target)
                least = min(n for name, n in found.items() if kind[name] == "certified" and n is not None)
                assert all(n is not None and n <= least for name, n in found.items() if kind[name] == "lower bound"), (
                    alpha,
                    epsilon,
                    m,
                )


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_lower_bounds_of_many_columns_say_more_than_one_and_stay_below(neighbours: str) -> None:
    for sizes in ((8,) * 16, (200, 4, 4, 2)):
        for epsilon in ("0.2", 5):
            told: dict[str, Any] = {"epsilon": epsilon, "alpha": "0.2", "neighbours": neighbours}
            target = family_target("histogram", sizes=sizes, **told)
            alone = family_target("histogram", k=max(sizes), **told)
            for m in (1, 16):
                found, kind = numbers(target, m), kinds(target)
                least = min(n for name, n in found.items() if kind[name] == "certified" and n is not None)
                assert numbers(alone, m)["any private learner"] <= found["any private learner"] <= least
    assert found["any private learner"] > 0
    wide = numbers(family_target("gaussian", epsilon=1, alpha="0.1", radius=10, d=30, max_variance=20), 16)
    known = numbers(family_target("gaussian", epsilon=1, alpha="0.1", radius=10, d=30), 16)
    assert wide["any private learner"] > 3 * known["any private learner"]


@pytest.mark.parametrize("family", list(SHAPES))
def test_easier_wishes_never_need_more_users(family: str) -> None:
    base = family_target(family, epsilon=1, alpha="0.3", **SHAPES[family])
    easier = [
        evolve(base, epsilon=Fraction(2)),
        evolve(base, alpha=Fraction(2, 5)),
        evolve(base, beta=Fraction(1, 5)),
    ]
    before = numbers(base, 8)
    for target in easier:
        after = numbers(target, 8)
        assert all(after[name] <= before[name] for name in before), target


def test_the_worst_candidates_are_harder_for_more_candidates_and_none_is_trivial() -> None:
    found = [
        numbers(family_target("selection", epsilon=1, alpha="0.1", k=k), 4)["any private selection"]
        for k in (1, 2, 8, 64, 4096)
    ]
    assert found == sorted(found)
    assert found[0] == 0
    assert found[1] > 0


def test_more_columns_share_the_budget() -> None:
    one, three = (
        certify_counts([5] * d, epsilon=1, alpha="0.2", beta="0.05", records_per_user=16).n_users for d in (1, 3)
    )
    assert one is not None
    assert three is not None
    assert three > 3 * one


def test_delta_buys_nothing_and_takes_the_lower_bound_away() -> None:
    pure, loose = (family_target("discrete", epsilon=1, alpha="0.2", delta=delta, k=3) for delta in (0, "1e-6"))
    assert set(kinds(pure).values()) == {"certified", "lower bound"}
    assert set(kinds(loose).values()) == {"certified"}
    assert "delta" in loose.note
    assert "delta" not in pure.note


def test_what_is_out_of_reach_is_refused_by_its_row_only() -> None:
    wide: dict[str, Any] = {
        line.name: line.certify for line in family_target("discrete", epsilon=1, alpha="0.1", k=1000).methods()
    }
    with pytest.raises(TooLargeError, match="ClippedHistogram"):
        wide["selection from a cover"](4)
    assert wide["clipped histogram, one stage"](4).n_users > 1000
    narrow = {
        line.name: line.certify for line in family_target("gaussian", epsilon=1, alpha="0.2", radius="0.01").methods()
    }
    with pytest.raises(InfeasibleError, match="radius"):
        narrow["any private learner"](4)
    assert (
        family_target("gaussian", epsilon=1, radius=3, d=2, max_variance=4).methods()[0].name != "coarse-to-fine mean"
    )
    assert "selection from a cover" not in kinds(family_target("gaussian", epsilon=1, radius=3, d=9))


# Bad input


def test_an_unknown_family_is_told_the_families() -> None:
    wrong: Any
    for wrong in ("poisson", "", None, 3):
        with pytest.raises(
            ParameterError, match="selection, discrete, product, histogram, gaussian, vocabulary, median"
        ):
            family_target(wrong, epsilon=1)
    assert set(FAMILY_TARGETS) == {*SHAPES, "vocabulary"}  # which needs a delta: tests of its own


@pytest.mark.parametrize(
    ("family", "shape", "said"),
    [
        ("discrete", {}, "needs k: how many values"),
        ("selection", {}, "needs k: how many candidates"),
        ("product", {"k": 3}, "needs d: how many columns"),
        ("histogram", {"k": None}, "needs k: how many bins"),
        ("gaussian", {"d": 2}, "needs radius"),
        ("discrete", {"k": 3, "d": 2}, "not described by d; give k, domain"),
        ("gaussian", {"radius": 3, "k": 2}, "not described by k"),
        ("product", {"k": 3, "d": 2, "sizes": [3, 3]}, "not both"),
        ("product", {"sizes": []}, "at least one column"),
        ("discrete", {"k": 3, "domain": Integers(0, 4)}, "5 values"),
        ("selection", {"k": 3, "candidates": [[1, 2], [2, 1]]}, "2 candidates"),
        ("selection", {"k": 3, "domains": {"v": Integers(0, 1)}}, "domains go with candidates"),
        ("discrete", {"k": 0}, "k"),
        ("discrete", {"k": -2}, "k"),
        ("gaussian", {"radius": -1}, "radius"),
        ("gaussian", {"radius": float("nan")}, "radius"),
        ("gaussian", {"radius": 3, "d": 0}, "d"),
        ("selection", {"k": 3, "opt": 2}, "opt"),
    ],
    ids=range(18),
)
def test_bad_shapes_are_refused_with_what_to_give(family: str, shape: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        family_target(family, epsilon=1, **shape)


@pytest.mark.parametrize("wrong", [{"k": 2.5}, {"k": "many"}, {"domain": 4}], ids=["fraction", "text", "domain"])
def test_wrong_types_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ParameterError)):
        family_target("discrete", epsilon=1, **wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"epsilon": 1000},
        {"alpha": 0},
        {"alpha": 1},
        {"beta": 0},
        {"beta": 2},
        {"delta": 1},
        {"neighbours": "both"},
    ],
    ids=range(8),
)
def test_bad_wishes_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        family_target("discrete", **({"epsilon": 1, "k": 3} | wrong))
