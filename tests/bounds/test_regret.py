"""Certificates of clipped-regret selection: against direct sums, against the published table, and monotone where they
must be."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from privpac.bounds import (
    Certificate,
    amplification,
    certify_regret_agnostic,
    certify_regret_bounded_noise,
    certify_regret_regular,
    clip_candidates,
    plan_clip,
    regret_agnostic_corollary,
    regret_bias_bound,
    regret_split,
)
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.methods.regret import cells

LOG_SIZE = math.log(1025)


def noisy(m: int, tau: int, noise: float, **changes: Any) -> Certificate:
    given: dict[str, Any] = {"theta": 1, "alpha": 0.02, "beta": 0.1, "log_size": LOG_SIZE, "levels": 840}
    return certify_regret_bounded_noise(records_per_user=m, tau=tau, noise=noise, **(given | changes))


def regular(m: int, tau: int, noise: float, **changes: Any) -> Certificate:
    given: dict[str, Any] = {"theta": 1, "alpha": 0.02, "beta": 0.1, "size": 1025, "levels": 840}
    return certify_regret_regular(records_per_user=m, tau=tau, noise=noise, **(given | changes))


def agnostic(m: int, tau: int, **changes: Any) -> Certificate:
    given: dict[str, Any] = {"theta": 1, "alpha": 0.05, "beta": 0.1, "log_size": LOG_SIZE, "levels": 840}
    return certify_regret_agnostic(records_per_user=m, tau=tau, **(given | changes))


# Values


def cell_laws(m: int, a1: float, a2: float, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """The walk of one cell, by repeated convolution, and the tails of the records between the two cuts."""
    minus = min(noise * a2 / (1 - 2 * noise), (1 - a1) / 2)
    plus = a1 + minus
    law = np.array([1.0])
    for _ in range(m):
        law = np.convolve(law, [minus, 1 - plus - minus, plus])
    return law, binom.sf(np.arange(2 * m + 1), m, min(1.0, a2 / (1 - 2 * noise)))


def direct_factor(m: int, tau: int, laws: tuple[np.ndarray, np.ndarray], noise: float, theta: float) -> float:
    """The factor of the bounded-noise certificate, term by term as in its statement."""
    q, t, (law, tails) = noise / (1 - noise), theta / tau, laws
    w = np.arange(-m, m + 1)

    def capped(u: int) -> float:
        return float((law * np.exp(-t * np.minimum(w, u))).sum())

    if tau >= m:
        return capped(m)
    f = (1 - q) * sum(q**j * capped(tau - j) for j in range(tau)) + q**tau * capped(0)
    f += math.exp(-theta) * sum(
        (math.exp(t * j) - math.exp(t * (j - 1))) * q**j * float(tails[tau + j]) for j in range(1, tau + 1)
    )
    return f + q ** (tau + 1) * (capped(0) - math.exp(-theta))


@given(
    st.integers(1, 10),
    st.integers(1, 10),
    st.sampled_from([0.0, 0.05, 0.2, 0.4]),
    st.sampled_from([0.05, 0.1, 0.3, 0.6]),
    st.sampled_from([0.25, 1.0, 3.0]),
    st.sampled_from([1, 7, 840]),
)
@settings(max_examples=40, deadline=None)
def test_bounded_noise_equals_the_sum_in_its_statement(
    m: int, tau: int, noise: float, alpha: float, theta: float, levels: int
) -> None:
    tau = min(tau, m)
    laws = [cell_laws(m, a1, a2, noise) for a1, a2 in zip(*cells(alpha, noise))]

    def needed(tilt: float) -> float:
        rate = -math.log(max(direct_factor(m, tau, law, noise, tilt) for law in laws)) - (
            tilt / levels if levels % tau else 0
        )
        return (LOG_SIZE - math.log(0.1)) / rate if rate > 1e-9 else math.inf

    grid = min(needed(tilt) for tilt in theta * np.arange(1, 65) / 64)
    found = noisy(m, tau, noise, alpha=alpha, theta=theta, levels=levels)
    if found.n_users is None:
        assert grid == math.inf
    else:
        # Every tilt proves its number; the search may stand between two steps of the grid, and is never worse than the
        # grid.
        assert needed(found["tilt"]) <= found.n_users <= grid * (1 + 1e-6) + 1


@pytest.mark.parametrize(
    ("noise", "any_x", "regular_x"),
    [
        (0, (293, 131, 62, 30), (149, 66, 32, 16)),
        (0.1, (338, 136, 63, 31), (184, 73, 33, 16)),
        (0.3, (None, 235, 70, 32), (None, 148, 43, 20)),
    ],
)
def test_square_root_clip_reproduces_the_published_table(
    noise: float, any_x: tuple[int, ...], regular_x: tuple[int, ...]
) -> None:
    sizes = (4, 16, 64, 256)
    assert tuple(noisy(m, math.isqrt(m), noise).n_users for m in sizes) == any_x
    assert tuple(regular(m, math.isqrt(m), noise).n_users for m in sizes) == regular_x


@pytest.mark.parametrize(
    ("alpha", "m", "users"), [(0.05, 64, 185), (0.05, 256, 71), (0.05, 1024, 39), (0.02, 256, 266), (0.02, 1024, 94)]
)
def test_any_labels_reproduces_the_published_table(alpha: float, m: int, users: int) -> None:
    assert plan_clip(m, lambda size, tau: agnostic(size, tau, alpha=alpha), truncate=False).n_users == users
    assert agnostic(m, math.isqrt(m), alpha=alpha).n_users is None


# Relations that must hold


def test_corollary_is_never_below_the_certificate_at_its_clip() -> None:
    for m in (64, 256, 1024, 10**4, 10**6):
        for scale in (0.004, 0.02, 0.1, 0.3, 1.0):
            for theta in (0.01, 0.1, 0.5, 1):
                alpha = scale / math.sqrt(m) * (1 + 1e-12)
                if alpha * math.sqrt(m) > 1:
                    alpha = 1 / math.sqrt(m) * (1 - 1e-12)
                closed = regret_agnostic_corollary(
                    records_per_user=m, theta=theta, alpha=alpha, beta=0.1, log_size=LOG_SIZE
                )
                exact = agnostic(m, closed["tau"], alpha=alpha, theta=theta, levels=closed["tau"])
                assert exact.n_users is not None
                assert closed.n_users is not None
                assert exact.n_users <= closed.n_users


@pytest.mark.parametrize("certify", [noisy, regular, lambda m, tau, noise, **k: agnostic(m, tau, **k)])
def test_more_accuracy_confidence_or_privacy_needs_more_users(certify: Any) -> None:
    def users(**changes: Any) -> float:
        found = certify(64, 32, 0.1, **changes).n_users
        return math.inf if found is None else found

    for name, values in (
        ("alpha", (0.3, 0.1, 0.05, 0.02)),
        ("beta", (0.5, 0.1, 0.01)),
        ("theta", (3, 1, 0.5, 0.1)),
        ("levels", (64, 840, 37)),
    ):
        counts = [users(**{name: value}) for value in values]
        assert counts == sorted(counts), name


def test_more_noise_or_more_rules_need_more_users() -> None:
    assert [noisy(16, 8, x).n_users for x in (0, 0.1, 0.2, 0.3)] == sorted(
        noisy(16, 8, x).n_users or 0 for x in (0, 0.1, 0.2, 0.3)
    )
    few, many = (noisy(16, 8, 0.1, log_size=size).n_users for size in (1, 40))
    assert few is not None
    assert many is not None
    assert few < many
    # Regular x: the number of rules hardly matters, the spread does.
    assert regular(16, 8, 0.1, size=10**9).n_users == pytest.approx(regular(16, 8, 0.1, size=10**18).n_users, abs=1)
    assert (regular(16, 8, 0.1, kappa=4).n_users or 0) > (regular(16, 8, 0.1, kappa=1).n_users or 0)


def test_the_mean_always_certifies_and_a_finite_class_needs_more_than_thresholds() -> None:
    for m in (1, 2, 5, 64):
        assert noisy(m, m, 0.45).certified
        assert agnostic(m, m).certified
    one, many = agnostic(1024, 200).n_users, agnostic(1024, 200, log_class_size=LOG_SIZE).n_users
    assert one is not None
    assert many is not None
    assert one <= many


def test_accuracy_beyond_the_declared_noise_is_still_certified() -> None:
    # Excess above 1 - 2 noise exists when the noise is lower than declared; one cell covers it.
    assert noisy(16, 8, 0.3, alpha=0.5).certified
    assert regular(16, 8, 0.3, alpha=0.5).certified
    assert noisy(9, 9, 0.45, alpha=0.9).certified


def test_truncation_helps_the_plan_and_never_hurts() -> None:
    free = plan_clip(64, lambda m, tau: noisy(m, tau, 0.4))
    fixed = plan_clip(64, lambda m, tau: noisy(m, tau, 0.4), truncate=False)
    assert free.n_users is not None
    assert fixed.n_users is not None
    assert free.n_users <= fixed.n_users
    assert clip_candidates(1) == (1,)
    assert {1, 2, 4, 8, 16, 64} <= set(clip_candidates(64))


# Bias and budget


@given(st.lists(st.lists(st.integers(0, 12), min_size=3, max_size=3), min_size=1, max_size=6), st.integers(1, 12))
def test_bias_bound_on_any_users(mistakes: list[list[int]], tau: int) -> None:
    """Users with 12 records and any mistakes of three rules; the minimiser of the clipped score is within the bound."""
    m, n = 12, len(mistakes)
    regrets = [[e - min(user) for e in user] for user in mistakes]
    errors = [Fraction(sum(user[h] for user in mistakes), n * m) for h in range(3)]
    own = Fraction(sum(min(user) for user in mistakes), n * m)
    clipped = [Fraction(sum(min(user[h], tau) for user in regrets), n * tau) for h in range(3)]
    loud = amplification(m, tau)
    for h in range(3):
        assert errors[h] - own <= clipped[h] <= loud * (errors[h] - own)
    chosen = min(range(3), key=lambda h: clipped[h])
    assert errors[chosen] - min(errors) <= regret_bias_bound(
        records_per_user=m, tau=tau, best_error=min(errors), own_error=own
    )


def test_split_spends_exactly_the_budget() -> None:
    for neighbours in ("add-remove", "replace"):
        for declared in (None, 0, 100):
            split = regret_split("1/3", neighbours, declared)
            assert split.count_epsilon + split.selection_epsilon == Fraction(1, 3)
            assert (split.count_epsilon > 0) == (neighbours == "add-remove" and declared is None)
    assert regret_split(2, "add-remove").count_epsilon == Fraction(1, 8)


# Bad parameters

BAD: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"alpha": 0}, ParameterError),
    ({"alpha": 1}, ParameterError),
    ({"alpha": math.nan}, ParameterError),
    ({"alpha": "many"}, ParameterError),
    ({"alpha": None}, TypeError),
    ({"beta": -0.1}, ParameterError),
    ({"beta": 1.5}, ParameterError),
    ({"theta": 0}, ParameterError),
    ({"theta": math.inf}, ParameterError),
    ({"theta": 1e6}, ParameterError),
    ({"levels": 0}, ParameterError),
    ({"levels": 8.5}, TypeError),
    ({"tau": 0}, ParameterError),
    ({"tau": 17}, ParameterError),
    ({"tau": True}, TypeError),
    ({"records_per_user": 0}, ParameterError),
    ({"records_per_user": "16"}, TypeError),
]


@pytest.mark.parametrize(("change", "error"), BAD)
@pytest.mark.parametrize("kind", ["noise", "regular", "agnostic"])
def test_bad_parameters(kind: str, change: dict[str, Any], error: type[Exception]) -> None:
    given: dict[str, Any] = {"records_per_user": 16, "tau": 4, "theta": 1, "alpha": 0.1, "beta": 0.1, "levels": 840}
    choices: dict[str, tuple[dict[str, Any], Any]] = {
        "noise": ({"noise": 0.1, "log_size": 5}, certify_regret_bounded_noise),
        "regular": ({"noise": 0.1, "size": 99}, certify_regret_regular),
        "agnostic": ({"log_size": 5}, certify_regret_agnostic),
    }
    more, function = choices[kind]
    with pytest.raises(error):
        function(**(given | more | change))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: noisy(4, 2, 0.5), ParameterError),
        (lambda: noisy(4, 2, -0.1), ParameterError),
        (lambda: noisy(4, 2, 0.1, log_size=-1), ParameterError),
        (lambda: noisy(10**6, 2, 0.1), TooLargeError),
        (lambda: regular(2000, 2, 0.1), TooLargeError),
        (lambda: regular(4, 2, 0.1, kappa=0.5), ParameterError),
        (lambda: regular(4, 2, 0.1, size=0), ParameterError),
        (lambda: regret_split(0, "replace"), ParameterError),
        (lambda: regret_split(1, "add"), ParameterError),
        (lambda: regret_split(1, "replace", -1), ParameterError),
        (lambda: regret_bias_bound(records_per_user=4, tau=1, best_error=0.1, own_error=0.2), ParameterError),
        (
            lambda: regret_agnostic_corollary(records_per_user=9, theta=1, alpha=0.1, beta=0.1, log_size=3),
            InfeasibleError,
        ),
        (
            lambda: regret_agnostic_corollary(records_per_user=900, theta=2, alpha=0.01, beta=0.1, log_size=3),
            InfeasibleError,
        ),
        (lambda: plan_clip(0, lambda m, tau: noisy(m, tau, 0.1)), ParameterError),
    ],
)
def test_bad_parameters_of_the_others(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
