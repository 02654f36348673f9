"""Rounded probabilities and rounded clips in certificates of selections: what the comparisons use, not what was asked
for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from attrs import evolve
from scipy.stats import binom

from privpac.data import Floats, Integers, UserData
from privpac.distributions import CoverLearner, Gaussian, HypothesisSelector
from privpac.distributions.selection.accuracy import plan_pairwise, plan_scheffe, read_top


def selector(laws: Any, **given: Any) -> HypothesisSelector:
    return HypothesisSelector(laws, **({"epsilon": 4, "candidates_are": "public", "records_per_user": 1} | given))


def test_a_coarse_resolution_certified_too_few_users_and_no_longer_does() -> None:
    """P(W) = 0.76 counts as 1 and Q(W') = 0.74 as 1/2, so 24 of 26 points of the margin are gone: exact failure at the
    old number."""
    learner = selector([[76, 24], [26, 74]], resolution=2, tau=1, alpha="0.45", beta="0.05")
    unrounded = evolve(learner.plan, unit=None).certificate
    assert unrounded is not None
    n = unrounded.n_users
    assert n is not None

    def wrong(zeros: int) -> float:
        data = UserData.from_users([[0]] * zeros + [[1]] * (n - zeros), features={"v": Integers(0, 1)}, labelled=False)
        return float(learner.law(data).prob(1))

    assert sum(float(binom.pmf(c, n, 0.76)) * wrong(c) for c in range(n + 1)) > 0.05
    assert learner.certificate is not None
    assert learner.certificate.n_users is None
    assert learner.plan.shortfall(10**6) is not None


@pytest.mark.parametrize("m", [1, 4, 16])
def test_the_rounding_is_taken_from_both_sides_of_the_margin(m: int) -> None:
    learner = selector([[1, 1], [1, 3], [3, 1]], records_per_user=m, alpha="0.3", opt="0.02", resolution=64)
    off = Fraction(1, 128)
    same: dict[str, Any] = {
        "log_size": learner.plan.log_size,
        "epsilon": 4,
        "beta": "0.05",
        "records_per_user": m,
        "width": 1,
    }
    expected = plan_pairwise(
        alpha0=Fraction(1, 50) + off, alpha1=Fraction(13, 50) - off, clip_step=Fraction(1, 4), **same
    )
    found = learner.certificate
    assert found is not None
    assert (found.n_users, found["tau"]) == (expected.n_users, expected["tau"])
    assert found.assumption.endswith("score at most 1/50")
    finer = selector(
        [[1, 1], [1, 3], [3, 1]], records_per_user=m, alpha="0.3", opt="0.02", resolution=1 << 20
    ).certificate
    assert finer is not None
    assert finer.n_users is not None
    assert expected.n_users is not None
    assert finer.n_users <= expected.n_users


@pytest.mark.parametrize(
    ("family", "domains"),
    [(Gaussian(1), {"a": Floats(), "b": Floats()}), (Gaussian(1, 1, 2), {"a": Floats()})],
    ids=["grid", "scales"],
)
def test_covers_whose_sets_are_not_listed_pay_for_the_rounding_too(family: Any, domains: Any) -> None:
    learner = CoverLearner(family, "0.01", alpha="0.9", records_per_user=8)
    plan = learner.plan(learner.cover(domains))
    assert plan.pairs is None
    assert plan.rounding == Fraction(1, 2 * learner.cover(domains).unit)
    exact, found = evolve(plan, unit=None).certificate, plan.certificate
    assert exact is not None
    assert found is not None
    assert exact.n_users is not None
    assert found.n_users is not None
    assert exact.n_users < found.n_users


def test_certificates_are_for_the_clip_in_use() -> None:
    """A quarter of a record is no multiple of 1/38: comparisons are cut off at the next one, and noise is that of the
    larger clip."""
    learner = CoverLearner("discrete", 1, alpha="0.2", records_per_user=3)
    cover = learner.cover({"v": Integers(0, 2)})
    plan = learner.plan(cover)
    found = plan.certificate
    assert found is not None
    assert cover.unit == 38
    assert plan.clip == found["tau"]
    assert read_top(cover.unit, plan.clip) == cover.unit * found["tau"]
    again = plan_scheffe(
        probabilities=cover.likely() / cover.unit,
        log_size=plan.log_size,
        epsilon=1,
        alpha0=plan.alpha0,
        alpha1=plan.alpha1,
        beta=plan.beta,
        records_per_user=3,
        tau=found["tau"],
    )
    assert again.n_users == found.n_users
    # A declared clip far below the resolution is the resolution's.
    coarse = selector([[1, 0], [0, 1]], resolution=1, tau="0.01", alpha="1").plan
    assert coarse.used(Fraction(1, 100)) == 1
    whole = evolve(coarse, unit=None, tau=Fraction(1)).certificate
    assert whole is not None
    assert whole.n_users is not None


def test_a_declared_clip_is_certified_as_used() -> None:
    learner = selector([[1, 3], [3, 1]], resolution=10, tau="0.31", alpha="0.45", records_per_user=4)
    given: dict[str, Any] = {
        "log_size": learner.plan.log_size,
        "epsilon": 4,
        "beta": "0.05",
        "records_per_user": 4,
        "width": 1,
    }
    expected = plan_pairwise(alpha0=Fraction(1, 20), alpha1=Fraction(2, 5), tau="0.4", **given)
    assert learner.certificate is not None
    assert learner.certificate.n_users == expected.n_users
    assert read_top(10, learner.plan.clip) == 4
