"""Selection among known candidates: exact means against enumeration, the scan against single clips, and failure
computed exactly."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.bounds import (
    Certificate,
    clipped_mean,
    lower_agnostic_vc,
    plan_pairwise,
    plan_scheffe,
)
from privpac.distributions import scheffe_range
from privpac.errors import InfeasibleError, ParameterError, TooLargeError

BASE: dict[str, Any] = {"log_size": math.log(20), "epsilon": 1, "alpha1": "1/5", "beta": 0.05, "records_per_user": 12}
PAIRS = ["3/10", "1/2", "9/10"]
TENTHS = st.fractions(0, 1, max_denominator=20)


def plan(**changes: Any) -> Certificate:
    return plan_scheffe(**(BASE | {"probabilities": PAIRS} | changes))


def certify(**changes: Any) -> Certificate:
    return plan_scheffe(**(BASE | {"probabilities": PAIRS, "tau": 3} | changes))


def literal_mean(m: int, p: Fraction, rate: Fraction, tau: Fraction) -> Fraction:
    """``E clip(m p - Bin(m, rate), -tau, tau)`` term by term."""
    return sum(
        (math.comb(m, c) * rate**c * (1 - rate) ** (m - c) * max(-tau, min(tau, m * p - c)) for c in range(m + 1)),
        Fraction(0),
    )


@given(m=st.integers(1, 30), p=TENTHS, rate=TENTHS, tau=st.integers(1, 140).map(lambda k: Fraction(k, 4)))
@settings(max_examples=200, deadline=None)
def test_the_mean_of_a_clipped_comparison_is_exact(m: int, p: Fraction, rate: Fraction, tau: Fraction) -> None:
    assert abs(clipped_mean(m, p, rate, tau) - literal_mean(m, p, rate, tau)) <= 1e-12 * m


@given(
    m=st.integers(1, 12),
    pairs=st.lists(TENTHS, min_size=1, max_size=4),
    tau=st.integers(1, 48).map(lambda k: Fraction(k, 4)),
    ends=st.tuples(st.integers(0, 4), st.integers(5, 10)),
)
@settings(max_examples=60, deadline=None)
def test_the_margin_is_the_least_over_all_populations(
    m: int, pairs: list[Fraction], tau: Fraction, ends: tuple[int, int]
) -> None:
    """No population on a grid has a smaller margin than the certificate uses, and one attains it: the users are those
    of C2 there."""
    a0, a1 = Fraction(ends[0], 20), Fraction(ends[1], 20)
    inside = [Fraction(k, 20) for k in range(21)]
    bad = [literal_mean(m, p, r, tau) for p in pairs for r in inside if p - r >= a1]
    good = [literal_mean(m, p, r, tau) for p in pairs for r in inside if p - r <= a0]
    found = plan_scheffe(
        **(BASE | {"records_per_user": m, "alpha0": a0, "alpha1": a1, "probabilities": pairs, "tau": tau})
    )
    # TENTHS includes thirds, sevenths and so on, where the grid misses the population that attains the bound.
    on_grid = all(20 % p.denominator == 0 for p in pairs)
    if not any(p >= a1 for p in pairs):
        assert found.n_users == 1
        return
    if not on_grid:
        pairs_bad = [literal_mean(m, p, p - a1, tau) for p in pairs if p >= a1]
        assert not bad or min(pairs_bad) <= min(bad)
        bad, good = pairs_bad, [literal_mean(m, p, max(Fraction(0), p - a0), tau) for p in pairs]
    margin = float(min(bad) - max(good))
    if margin < 1e-6:
        assert found.n_users is None or found.n_users > 10**6
    else:
        needed = math.ceil(least(margin, float(tau), m))
        assert found.n_users is not None
        assert needed - 1 <= found.n_users <= needed + 1 + needed // 10**6


def least(margin: float, tau: float, m: int) -> float:
    """C2 from a margin and a clip to users, under add-remove."""
    rate, size, beta = 1 / (2 * tau), 20, 0.05
    b, c = 2 * math.sqrt(m * math.log(4 * size / beta) / 2), math.log(2 * size / beta) / rate
    split = ((b + math.sqrt(b * b + 4 * margin * c)) / (2 * margin)) ** 2
    tilt = min(rate, margin / m)
    return max(1.0, min(split, math.log(size**2 / beta) / (tilt * margin - tilt**2 * m / 2)))


def test_the_plan_is_the_best_single_clip() -> None:
    for m, neighbours, cap in itertools.product((1, 5, 12), ("replace", "add-remove"), (None, 20)):
        shared = {"records_per_user": m, "neighbours": neighbours, "max_records": cap}
        single = [certify(tau=Fraction(k, 4), **shared).n_users for k in range(1, 4 * m + 1)]
        assert plan(**shared).n_users == min(n for n in single if n is not None)


def test_knowing_the_candidates_never_costs_users() -> None:
    every = np.arange(1, 50) / 50
    for m, a1, a0 in itertools.product((1, 4, 16, 100, 400), (0.4, 0.1), (0, 0.02)):
        shared = {"records_per_user": m, "alpha1": a1, "alpha0": a0}
        known = plan(probabilities=every, **shared).n_users
        usual = plan_pairwise(**(BASE | shared), width=1, clip_step="1/4").n_users
        assert known is not None
        assert usual is not None
        assert known <= usual
        for k in range(1, 4 * m, max(1, m // 2)):
            tau = Fraction(k, 4)
            bounded = plan_pairwise(**(BASE | shared), width=1, tau=tau).n_users
            exact = certify(probabilities=every, tau=tau, **shared).n_users
            assert bounded is None or (exact is not None and exact <= bounded)
    assert (
        plan(records_per_user=64).n_users
        < 0.85 * plan_pairwise(**(BASE | {"records_per_user": 64}), width=1, clip_step="1/4").n_users
    )


@pytest.mark.parametrize("width", [1, 2])
def test_a_clip_below_the_mean_keeps_only_itself(width: int) -> None:
    """A user with a comparison of 0.2 m is cut to tau there, so a clip far below cannot separate by more than tau."""
    shared = BASE | {"records_per_user": 1024, "log_size": math.log(100)}
    assert not plan_pairwise(**shared, width=width, tau=1).certified
    found = plan_pairwise(**shared, width=width)
    assert found["tau"] > 0.1 * 1024
    assert found.n_users is not None
    # Even separated without optimism, ln(100) and ln(20) must be paid at epsilon / 2 per user.
    assert found.n_users >= 2 * math.log(100)
    for m in (256, 1024, 4096):
        upper = plan_pairwise(**(shared | {"records_per_user": m, "log_size": 12 * math.log(2)})).n_users
        lower = lower_agnostic_vc(
            12, alpha="1/5", epsilon=1, success=0.95, records_per_user=m, neighbours="add-remove"
        ).n_users
        assert upper is not None
        assert lower is not None
        assert lower <= upper


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_cap_narrows_the_noise_as_the_selection_does(neighbours: str) -> None:
    """With a cap the rate is epsilon over the selection's own range: halving epsilon is the same as doubling the
    range."""
    unit, cap = 20, 12
    for tau in (2, 9, 12):
        reach = scheffe_range([6, 10, 18], unit, unit * tau, cap, neighbours)
        plain = unit * tau * (2 if neighbours == "add-remove" else 4)
        capped = certify(tau=tau, max_records=cap, neighbours=neighbours).n_users
        assert capped == certify(tau=tau, epsilon=Fraction(plain, reach), neighbours=neighbours).n_users
    assert (
        certify(tau=12, max_records=12, neighbours=neighbours).n_users < certify(tau=12, neighbours=neighbours).n_users
    )


def test_rounding_costs_users() -> None:
    counts = [plan(rounding=r).n_users for r in (0, "1/2000", "1/100", "1/20")]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    assert plan(rounding="1/9").n_users is None


def test_candidates_that_cannot_be_bad_need_one_user() -> None:
    assert plan(probabilities=["1/10", "3/20"]).n_users == 1
    assert plan(probabilities=[]).n_users == 1
    assert plan(probabilities=["1/5"]).n_users > 1
    assert plan(probabilities=np.array([0.1 + 0.1])).n_users > 1


@pytest.mark.parametrize("m", [1, 4, 16])
def test_failure_at_the_certified_users_is_below_beta(m: int) -> None:
    """Two candidates, the population is one of them: the law of the score difference is a convolution, so failure is
    exact."""
    p, q, beta = Fraction(7, 10), Fraction(9, 20), 0.05
    found = plan_scheffe(
        probabilities=[p, 1 - q],
        log_size=math.log(2),
        epsilon=1,
        alpha1="1/4",
        beta=beta,
        records_per_user=m,
        clip_step="1/4",
    )
    tau, n = Fraction(found["tau"]), found.n_users
    assert n is not None

    def failure(users: int) -> float:
        counts = range(m + 1)
        steps = [int(20 * (max(-tau, min(tau, m * p - c)) - max(-tau, min(tau, c - m * q)))) for c in counts]
        chances = [math.comb(m, c) * float(q) ** c * float(1 - q) ** (m - c) for c in counts]
        one = np.zeros(max(steps) - min(steps) + 1)
        for step, chance in zip(steps, chances):
            one[step - min(steps)] += chance
        law = np.ones(1)
        for _ in range(users):
            law = np.convolve(law, one)
        ahead = (np.arange(len(law)) + users * min(steps)) / 20
        return float(law @ (1 / (1 + np.exp(ahead / (2 * float(tau))))))

    assert failure(n) <= beta
    assert failure(max(1, n // 20)) > beta


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: plan(probabilities=[1.5]), ParameterError),
        (lambda: plan(probabilities=[-0.1]), ParameterError),
        (lambda: plan(probabilities=[math.nan]), ParameterError),
        (lambda: plan(probabilities=np.array([math.nan, 0.5])), ParameterError),
        (lambda: plan(probabilities=np.array([2.0])), ParameterError),
        (lambda: plan(probabilities=0.5), TypeError),
        (lambda: plan(probabilities="1/2"), TypeError),
        (lambda: plan(probabilities=[None]), TypeError),
        (lambda: plan(records_per_user=0), ParameterError),
        (lambda: plan(records_per_user=2.5), TypeError),
        (lambda: plan(records_per_user=1 << 24), TooLargeError),
        (lambda: certify(records_per_user=1 << 24), TooLargeError),
        (lambda: plan(clip_step=0), ParameterError),
        (lambda: plan(clip_step=13), ParameterError),
        (lambda: plan(max_records=11), ParameterError),
        (lambda: plan(rounding=-1), ParameterError),
        (lambda: plan(alpha1=0.1, alpha0=0.2), InfeasibleError),
        (lambda: plan(epsilon=0), ParameterError),
        (lambda: plan(beta=1), ParameterError),
        (lambda: plan(neighbours="swap"), ParameterError),
        (lambda: certify(tau=0), ParameterError),
        (lambda: clipped_mean(3, "1/2", 2, 1), ParameterError),
        (lambda: clipped_mean(0, "1/2", "1/2", 1), ParameterError),
    ],
)
def test_bad_parameters(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
