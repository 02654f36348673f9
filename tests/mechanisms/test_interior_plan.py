"""Plans of interior points: every condition of the certificate, exact privacy, surplus and lack of values, bad
parameters."""

from __future__ import annotations

import random
import warnings
from fractions import Fraction
from typing import Any

import pytest

from privpac.errors import AccuracyWarning, InfeasibleError, ParameterError
from privpac.exact import ExpSum
from privpac.mechanisms.interior_point import (
    InteriorPoint,
    Level,
    PairLevel,
    PrefixInteriorPoint,
    WalkReduction,
    plan_interior_point,
)
from privpac.papers.vc_dimension_one.interior_sample_size import pairs_failure, walk_failure

BUDGET = (1, "1e-6", "0.05")


# Plans


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("bits", [2, 64, 65536, 2**64, 2**65536], ids=["2", "64", "2^16", "2^64", "2^65536"])
def test_every_condition_of_the_certificate_holds(bits: int, levels: int) -> None:
    plan = plan_interior_point(*BUDGET, bits=bits, levels=levels)
    failure = walk_failure(plan.levels, plan.rz, plan.size, bits=bits)
    assert failure <= 0.05
    left = plan.size
    for level in plan.levels:
        assert level.B % 2 == 1
        assert level.B + level.kappa - 1 <= level.T
        left = level.inner_size(left)
    assert left >= 1
    if bits < 10**6:
        point = WalkReduction(plan.levels, plan.rz, 2**bits - 1, plan.size)
        assert (ExpSum.exp(Fraction(1)) - ExpSum.of(point.multiplicative)).sign() >= 0
        assert point.delta <= point.delta_up <= Fraction(1, 10**6)
        assert point.delta_up - point.delta < Fraction(1, 10**20)


def test_size_does_not_fall_with_the_number_of_bits() -> None:
    for levels, engine in ((0, "walk"), (1, "walk"), (2, "walk"), (1, "pairs")):
        sizes = [
            plan_interior_point(*BUDGET, bits=b, levels=levels, engine=engine).size
            for b in (1, 4, 16, 64, 1024, 2**16, 2**40)
        ]
        assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    ("bits", "reductions"), [(16, 0), (64, 0), (128, 0), (256, 1), (65536, 1), (2**64, 1), (2**256, 2)]
)
def test_auto_takes_the_number_of_reductions_of_least_size(bits: int, reductions: int) -> None:
    plan = plan_interior_point(*BUDGET, bits=bits)
    assert len(plan.levels) == reductions
    assert plan.size == min(plan_interior_point(*BUDGET, bits=bits, levels=k).size for k in range(4))


def test_reductions_cost_what_the_pages_say() -> None:
    sizes = {b: plan_interior_point(*BUDGET, bits=b, levels=1).size for b in (64, 256, 65536)}
    assert sizes[64] <= 388
    assert sizes[256] <= 406
    assert sizes[65536] <= 474 < 638 <= plan_interior_point(*BUDGET, bits=65536, levels=1, engine="pairs").size + 10
    assert plan_interior_point(*BUDGET, bits=65536, levels=0).size == 181_717


@pytest.mark.parametrize("engine", ["walk", "pairs"])
@pytest.mark.parametrize("levels", [0, 1, 2])
def test_a_surplus_goes_into_the_window(levels: int, engine: str) -> None:
    least = plan_interior_point(*BUDGET, bits=300, levels=levels, engine=engine)
    for size in (least.size + 2, 2 * least.size, 40_000):
        point = InteriorPoint(1, "1e-6", top=2**300 - 1, levels=levels, engine=engine, size=size)
        assert point.size == size
        assert point.reduction is not None
        assert point.reduction.size == size
        assert point.reduction.delta_up <= Fraction(1, 10**6)
        certify: Any = pairs_failure if engine == "pairs" and levels else walk_failure
        assert certify(point.plan.levels, point.plan.rz, size, bits=300) <= 0.05


def test_too_few_values_run_with_a_warning_that_says_what_is_needed() -> None:
    needed = InteriorPoint(1, "1e-6", top=2**300 - 1).size
    assert needed is not None
    with pytest.warns(AccuracyWarning, match=f"{needed} values would certify 0.05"):
        point = InteriorPoint(1, "1e-6", top=2**300 - 1, size=needed - 60)
    assert Fraction(1, 20) < point.failure < 1
    assert walk_failure(point.plan.levels, point.plan.rz, needed - 60, bits=300) <= point.failure
    assert point.guarantee.delta == Fraction(1, 10**6)
    with pytest.warns(AccuracyWarning):
        tiny = InteriorPoint(1, "1e-6", top=2**300 - 1, size=1)
    assert tiny.reductions == 0
    assert tiny.failure == 1
    with pytest.raises(InfeasibleError, match=f"and {needed} for the one asked"):
        InteriorPoint(1, "1e-6", top=2**300 - 1, size=20, levels=1)


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 5, 50, 200])
@pytest.mark.parametrize("delta", ["1e-100", "1e-6", "0.4"])
def test_extreme_budgets_plan_and_keep_their_promise(epsilon: float, delta: str) -> None:
    for engine in ("walk", "pairs"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            point = InteriorPoint(epsilon, delta, top=2**200 - 1, levels=1, engine=engine)
            assert point.reduction is not None
            assert point.reduction.delta_up <= point.guarantee.delta
            certify: Any = pairs_failure if engine == "pairs" else walk_failure
            assert point.size is not None
            if point.size < 50_000:
                assert certify(point.plan.levels, point.plan.rz, point.size, bits=200) <= 0.05


# Bad input


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"epsilon": 0}, ParameterError),
        ({"epsilon": float("inf")}, ParameterError),
        ({"epsilon": "1e-9"}, ParameterError),
        ({"epsilon": 1e6}, ParameterError),
        ({"epsilon": [1]}, TypeError),
        ({"delta": -1e-9}, ParameterError),
        ({"delta": 1}, ParameterError),
        ({"delta": "1e-400"}, ParameterError),
        ({"beta": 0}, ParameterError),
        ({"beta": 1}, ParameterError),
        ({"top": -1}, ParameterError),
        ({"top": 2.5}, TypeError),
        ({"size": 0}, ParameterError),
        ({"size": 400.0}, TypeError),
        ({"hi": 0}, ParameterError),
        ({"levels": "many"}, ParameterError),
        ({"levels": -1}, ParameterError),
        ({"levels": 65}, ParameterError),
        ({"levels": 1.0}, TypeError),
        ({"engine": "slices"}, ParameterError),
        ({"engine": 3}, TypeError),
        ({"engine": "pairs", "levels": 1, "size": 999}, ParameterError),
        ({"unit": "row"}, ParameterError),
        ({"neighbours": "swap"}, ParameterError),
    ],
)
def test_bad_parameters_are_refused_before_any_data(change: dict[str, Any], error: type[Exception]) -> None:
    good: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "top": 2**300}
    with pytest.raises(error):
        InteriorPoint(**(good | change))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"kappa": 0}, ParameterError),
        ({"kappa": 4}, ParameterError),
        ({"T": 0}, ParameterError),
        ({"B": 0}, ParameterError),
        ({"r": 1}, ParameterError),
        ({"rL": 1}, ParameterError),
        ({"rc": 1}, ParameterError),
        ({"delta_L": 0}, ParameterError),
        ({"delta_L": "2/3"}, InfeasibleError),
        ({"T": 2.0}, TypeError),
    ],
)
def test_bad_levels_are_refused(change: dict[str, Any], error: type[Exception]) -> None:
    good: dict[str, Any] = {"kappa": 2, "r": 2, "T": 3, "B": 1, "rL": 2, "delta_L": "1/9", "rc": 2}
    assert Level(**good).inner_size(5) == 2
    with pytest.raises(error):
        Level(**(good | change))


def test_levels_must_leave_a_value() -> None:
    level = Level(2, 2, 3, 2, 2, "1/9", 2)
    with pytest.raises(ParameterError, match="at least 5"):
        WalkReduction([level], 2, 7, 4)
    assert WalkReduction([level], 2, 7, 5).inner.size == 1
    with pytest.raises(TypeError):
        WalkReduction(["level"], 2, 7, 9)  # type: ignore[list-item]
    with pytest.raises(ParameterError):
        WalkReduction([level], 1, 7, 9)
    with pytest.raises(ParameterError):
        PrefixInteriorPoint([PairLevel(3, 2, 2, "1/9", 2)], 2, 7, 6)
    with pytest.raises(ParameterError):
        PrefixInteriorPoint([PairLevel(1, 1, 2, "1/9", 2)], 2, 7, 5)
    with pytest.raises(TypeError):
        PrefixInteriorPoint([], 2, 7, 4)
    with pytest.raises(InfeasibleError):
        PairLevel(1, 1, "5/4", "1/2", 2)


@pytest.mark.parametrize("values", [[1.5], [None], "12", [True], [float("nan")]])
def test_values_must_be_integers(values: Any) -> None:
    with pytest.raises(TypeError):
        InteriorPoint(1, top=9).sample(values)


def test_a_seed_is_not_a_source_of_secrets() -> None:
    with pytest.raises(TypeError):
        InteriorPoint(1, top=9).sample([1, 2], rng=random.Random(1))  # type: ignore[arg-type]
