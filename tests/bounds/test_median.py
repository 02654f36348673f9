"""Bounds for medians and interior points: closed forms against plans, certificates that can fail, bad input."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privpac.errors import ParameterError
from privpac.mechanisms.choosing import ChoosingMechanism
from privpac.mechanisms.interior_point import Level, plan_interior_point
from privpac.mechanisms.rank import RankMechanism
from privpac.papers.vc_dimension_one.interior_sample_size import (
    certify_rank,
    choosing_votes,
    interior_point_closed_form,
    interior_point_exponential,
    log_star,
    pairs_failure,
    reductions_to_constant,
    walk_failure,
)


def test_log_star_counts_logarithms() -> None:
    def literal(bits: int) -> int:
        x, times = float(bits), 1  # log2 of 2**bits
        while x > 1:
            x, times = log(x, 2), times + 1
        return times

    assert log_star(0) == 0
    assert all(log_star(b) == literal(b) for b in [*range(1, 2000), 65535, 65537, 10**9])


def test_reductions_reach_a_constant_within_log_star() -> None:
    assert all(reductions_to_constant(b) <= log_star(b) for b in range(1, 300_000))
    assert reductions_to_constant(2**65536) <= log_star(2**65536) == 6


@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_the_plan_is_several_times_better_than_the_closed_form(k: int) -> None:
    bound = interior_point_closed_form(1, "1e-6", "0.05", bits=65536, reductions=k).n_users
    assert bound is not None
    planned = plan_interior_point(1, "1e-6", "0.05", bits=65536, levels=k).size
    assert 5 < bound / planned < 10


def test_the_closed_form_is_its_formula() -> None:
    certificate = interior_point_closed_form(1, "1e-6", "0.05", bits=65536, reductions=1)
    n = certificate.n_users
    assert n is not None
    width = log(max(n, 10 / 1e-6, 65536) * 3 / 0.05)
    assert n // 4 == 4 + -(-(2 * 4 * 4 * width) // 1)
    assert certificate["J"] == 3
    with pytest.raises(ParameterError):
        interior_point_closed_form(5, "1e-6", "0.05", bits=65536, reductions=1)


def test_the_exponential_mechanism_grows_with_the_domain() -> None:
    sizes = [interior_point_exponential(1, "0.05", bits=b).n_users for b in (16, 64, 128, 256, 1024, 65536)]
    assert sizes == [57, 189, 367, 721, 2851, 181_717]
    assert interior_point_exponential(1, "0.05", top=2**16 - 1).n_users == 57
    for wrong in ({}, {"top": 4, "bits": 3}):
        with pytest.raises(ParameterError):
            interior_point_exponential(1, "0.05", **wrong)


@given(st.sampled_from(["0.1", "0.5", "2"]), st.sampled_from(["1e-4", "1e-8"]), st.sampled_from(["0.3", "0.01"]))
def test_choosing_votes_agree_with_the_mechanism(epsilon: str, delta: str, beta: str) -> None:
    hi, failure = choosing_votes(epsilon, delta, beta)
    exact = ChoosingMechanism(epsilon, delta, 1, "replace", unit="user").votes_needed(beta)
    assert hi <= exact <= hi + 1
    assert failure <= float(beta)


def test_choosing_votes_refuse_a_delta_that_is_too_large() -> None:
    with pytest.raises(ParameterError):
        choosing_votes("0.01", "0.5", "0.1")


@pytest.mark.parametrize("d", [1, 50, 2**64 - 1])
@pytest.mark.parametrize("hi", [1, 7])
def test_the_rank_certificate_is_least(d: int, hi: int) -> None:
    certificate = certify_rank("1/2", "0.05", d=d, hi=hi)
    opt, K = certificate["opt"], certificate["K"]
    assert certificate.n_users == opt + hi
    mechanism = RankMechanism("1/2", hi=hi, K=K, d=d, unit="user", neighbours="replace")
    assert mechanism.opt == opt
    assert d * exp(-(opt + 1) / 4) <= 0.05 * (1 + 1e-9) < d * exp(-opt / 4) + 1e-12


def test_a_walk_certificate_sees_every_broken_condition() -> None:
    plan = plan_interior_point(1, "1e-6", "0.05", bits=256, levels=1)
    level = plan.levels[0]

    def failure(size: int = plan.size, **change: Any) -> float:
        values = {name: getattr(level, name) for name in ("kappa", "r", "T", "B", "rL", "delta_L", "rc")}
        return walk_failure([Level(**(values | change))], plan.rz, size, bits=256)

    assert failure() <= 0.05
    assert failure(size=plan.size - 20) > 0.05
    assert failure(B=level.B + 2) == 1.0
    assert failure(B=level.B - 8) > 0.05
    assert failure(T=level.kappa) == 1.0
    assert failure(delta_L=Fraction(1, 10**40)) > 0.05
    assert failure(size=level.T) == 1.0


def test_a_pairs_certificate_can_fail() -> None:
    plan = plan_interior_point(1, "1e-6", "0.05", bits=256, levels=1, engine="pairs")
    assert pairs_failure(plan.levels, plan.rz, plan.size, bits=256) <= 0.05
    assert pairs_failure(plan.levels, plan.rz, plan.size - 40, bits=256) > 0.05
    assert pairs_failure(plan.levels, plan.rz, 2, bits=256) == 1.0


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "x"])
def test_bad_numbers_are_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError):
        certify_rank(wrong, "0.05", d=9)
    with pytest.raises(ParameterError):
        interior_point_exponential(1, wrong, bits=9)
    with pytest.raises(ParameterError):
        choosing_votes(1, wrong, "0.1")
    with pytest.raises(TypeError):
        log_star(1.5)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        reductions_to_constant(0)
