"""A clip that follows the number of users: what is certified stays certified when more people come."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from privpac.bounds import (
    Certificate,
    certify_clip_at,
    certify_own_clip,
    certify_regret_agnostic,
    certify_regret_bounded_noise,
    certify_regret_regular,
)
from privpac.data import Integers
from privpac.planning.query import least_alpha
from privpac.planning.rules import rule_target
from privpac.rules import Thresholds
from privpac.rules.profile import ClipRule

COMMON = {"theta": 1, "alpha": 0.02, "beta": 0.1, "levels": 840}


def noisy(m: int, tau: int, noise: float, enough: int | None = None) -> Certificate:
    return certify_regret_bounded_noise(
        records_per_user=m, tau=tau, noise=noise, log_size=math.log(1025), enough=enough, **COMMON
    )


def regular(m: int, tau: int, noise: float, enough: int | None = None) -> Certificate:
    return certify_regret_regular(records_per_user=m, tau=tau, noise=noise, size=1025, **COMMON)


def agnostic(m: int, tau: int, noise: float, enough: int | None = None) -> Certificate:
    return certify_regret_agnostic(
        records_per_user=m, tau=tau, log_size=math.log(1025), enough=enough, **COMMON | {"alpha": 0.1}
    )


# The numbers at which the certificate was published to hold are lower where it lapses again: 246 of 16 records, 62 and
# 63 of 64.
@pytest.mark.parametrize(
    ("m", "noise", "users"),
    [(4, 0, None), (16, 0, 285), (64, 0, 70), (16, 0.1, None), (64, 0.1, None), (16, 0.3, None)],
)
@pytest.mark.parametrize("certify", [noisy, regular, agnostic])
def test_the_own_clip_stays_certified_with_every_larger_number_of_users(
    m: int, noise: float, users: int | None, certify: object
) -> None:
    def fixed(tau: int, enough: int | None = None) -> Certificate:
        return certify(m, tau, noise, enough)  # type: ignore[operator]

    def clip(n: int) -> int:
        return ClipRule(Fraction(1), n, 11)(m)

    found = certify_own_clip(clip, fixed)
    assert found.n_users is not None
    known = {tau: fixed(tau).n_users for tau in range(1, m + 1)}
    holds = {n: (known[clip(n)] or 10**9) <= n for n in range(1, 4 * max(found.n_users, 96 * 11))}
    assert all(holds[n] for n in holds if n >= found.n_users)
    assert not holds[found.n_users - 1]
    assert found["tau"] == clip(found.n_users)
    if certify is noisy and users is not None:
        assert abs(found.n_users - users) <= 1


def test_a_number_of_users_may_be_certified_while_larger_ones_are_not() -> None:
    def fixed(tau: int, enough: int | None = None) -> Certificate:
        return noisy(16, tau, 0, enough)

    def clip(n: int) -> int:
        return ClipRule(Fraction(1), n, 11)(16)

    assert (certify_clip_at(clip, fixed, 250).n_users or 0) <= 250
    assert (certify_clip_at(clip, fixed, 260).n_users or 10**9) > 260


def test_a_noisy_count_asks_for_all_clips_it_may_lead_to() -> None:
    def fixed(tau: int, enough: int | None = None) -> Certificate:
        return noisy(16, tau, 0.1, enough)

    def clip(n: int) -> int:
        return ClipRule(Fraction(1), n, 11)(16)

    known = {tau: fixed(tau).n_users or 10**9 for tau in range(1, 17)}
    exact = certify_own_clip(clip, fixed).n_users or 0
    for spread in (0, 7, 40):
        n = certify_own_clip(clip, fixed, spread=spread).n_users
        assert n is not None
        assert n >= exact
        for users in range(n, 1500):
            assert all(known[clip(max(1, users + off))] <= users for off in range(-spread, spread + 1))
        assert any(known[clip(max(1, n - 1 + off))] > n - 1 for off in range(-spread, spread + 1))


# On these laws 461 and 258 users fail with probability .35 and .25 at beta .05; 451 and 250 were certified.
@pytest.mark.parametrize(
    ("cuts", "epsilon", "m", "neighbours", "failing", "most"),
    [(1 << 20, "1/2", 5, "add-remove", 500, 700), (1441, 1, 4, "replace", 258, 400)],
)
def test_plans_certify_no_number_beyond_which_the_clip_fails(
    cuts: int, epsilon: object, m: int, neighbours: str, failing: int, most: int
) -> None:
    target = rule_target(Thresholds(Integers(0, cuts - 1)), epsilon, "0.05", "0.05", neighbours, "0.1")  # type: ignore[arg-type]
    found = target.method("regret selection, bounded noise").certify(m)
    assert failing < (found.n_users or 0) < most
    assert found.parameters == {"max_records": m, "public_n_users": found.n_users}


def test_an_inverse_plan_is_checked_at_the_number_asked_for() -> None:
    cuts = Thresholds(Integers(0, (1 << 20) - 1))
    for n, certified in ((451, True), (461, False)):
        found = least_alpha(cuts, n_users=n, epsilon="1/2", records_per_user=5, noise="0.1", setting="agnostic")
        (value,) = found.row("regret selection, bounded noise").values
        assert value is not None
        assert (value <= Fraction(1, 20)) == certified
