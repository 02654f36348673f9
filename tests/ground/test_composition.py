"""Composition: each bound equals an independent computation, is attained where it is optimal, and is never rounded
down."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac import composition
from privpac.composition import (
    compose_advanced,
    compose_basic,
    compose_optimal,
    compose_parallel,
    compose_zcdp,
    parallel_replace,
    zcdp_budget,
    zcdp_epsilon,
)
from privpac.errors import IncompatibleGuarantees, InfeasibleError, ParameterError, TooLargeError
from privpac.exact import ExpSum
from privpac.guarantee import Guarantee, Model, Neighbours, Unit

F = Fraction
TESTS = Path(__file__).resolve().parents[1]


def promise(epsilon: Any, delta: Any = 0, *, unit: str = "user", neighbours: str = "replace", **more: Any) -> Guarantee:
    return Guarantee(epsilon, delta, unit=unit, neighbours=neighbours, **more)


def add_remove(epsilon: Any, delta: Any = 0, **more: Any) -> Guarantee:
    return promise(epsilon, delta, neighbours="add-remove", **more)


def real(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def is_rounded_up(value: Fraction, true: mpmath.mpf) -> bool:
    tiny = mpmath.mpf(10) ** -50
    return bool(true * (1 - tiny) <= real(value) <= true * (1 + mpmath.mpf(2) ** -60))


@pytest.fixture(autouse=True)
def _sixty_digits() -> Any:
    with mpmath.workdps(70):
        yield


epsilons = st.fractions(min_value=0, max_value=2, max_denominator=30)
deltas = st.sampled_from([F(0), F(0), F(1, 10**6), F(1, 3 * 10**7), F(1, 10**9)])
guarantees = st.builds(promise, epsilons, deltas)
lists = st.lists(guarantees, min_size=1, max_size=6)
slacks = st.sampled_from([F(1, 10), F(1, 10**5), F(1, 10**6), F(1, 10**12), F(999, 1000)])


# Vectors


def _runner() -> Callable[[dict[str, Any]], None]:
    spec = importlib.util.spec_from_file_location(
        "foundations_algebra", TESTS / "vector_runners" / "foundations_algebra.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run: Callable[[dict[str, Any]], None] = module.run_algebra
    return run


def _vectors() -> list[Any]:
    folders = [TESTS / "vectors", *map(Path, filter(None, [os.environ.get("PRIVPAC_VECTORS")]))]
    files = [folder / "foundations.json" for folder in folders if (folder / "foundations.json").exists()]
    cases = [(i, case) for file in files for i, case in enumerate(json.loads(file.read_text())["algebra"])]
    return [pytest.param(case, id=f"{case['op']}-{i}") for i, case in cases]


def test_the_algebra_vectors_are_there() -> None:
    assert _vectors(), "tests/vectors/foundations.json is missing"


@pytest.mark.parametrize("case", _vectors())
def test_algebra_vector(case: dict[str, Any]) -> None:
    _runner()(case)


def test_the_vector_runner_can_fail() -> None:
    right = {
        "op": "optimal-homogeneous",
        "k": 1,
        "eps": "1",
        "at_epsilon": "0",
        "delta": mpmath.nstr(mpmath.tanh(0.5), 45),
    }
    _runner()(right)
    for wrong in ({"at_epsilon": "1/1000"}, {"k": 3}, {"delta": "0.4621171572"}):
        with pytest.raises(AssertionError):
            _runner()(right | wrong)
    with pytest.raises(KeyError):
        _runner()({"op": "unknown"})


# Basic


@given(lists)
@settings(deadline=None, max_examples=40)
def test_basic_is_the_exact_sum(gs: list[Guarantee]) -> None:
    out = compose_basic(iter(gs))
    assert out.epsilon == sum(g.epsilon for g in gs)
    assert out.delta == sum(g.delta for g in gs)
    assert out.tags == gs[0].tags
    assert "basic composition" in out.derivation[-1]


def test_a_tenth_three_times_fits_three_tenths() -> None:
    assert compose_basic([promise(0.1), promise(0.2)]).implies(promise(0.3))


def test_basic_keeps_a_known_rho_but_not_through_an_unknown_one() -> None:
    sharp, pure, approximate = promise("0.4", rho="0.02"), promise("0.2"), promise("0.2", "1e-6")
    assert compose_basic([sharp, sharp]).rho == F(4, 100)
    assert compose_basic([sharp, pure]).rho == F(2, 100) + F(2, 100)
    assert compose_basic([sharp, approximate]).rho is None
    assert compose_basic([pure, pure]).rho is None
    assert compose_basic([promise("0.2", rho=5), sharp]).rho == F(4, 100), (
        "a stated rho above e**2 / 2 is not the better one"
    )


def test_sums_over_unlike_denominators_are_rounded_up_and_stay_storable() -> None:
    gs = [promise(F(1, d)) for d in range(10**6 + 1, 10**6 + 4001)]
    exact = sum(g.epsilon for g in gs)
    out = compose_basic(gs)
    assert exact <= out.epsilon <= exact * (1 + F(1, 2**62))
    assert Guarantee.from_dict(out.to_dict()) == out


def test_a_sum_of_deltas_that_reaches_one_is_infeasible() -> None:
    half = promise(1, "0.5")
    with pytest.raises(InfeasibleError, match="delta >= 1"):
        compose_basic([half, half])
    with pytest.raises(InfeasibleError):
        compose_zcdp([half, half], "1e-6")


def test_the_derivation_lists_the_parts_once_and_keeps_earlier_steps() -> None:
    part = promise("0.1", neighbours="add-remove").to_replace()
    out = compose_basic([part] * 100 + [promise("0.5")])
    assert out.derivation[:-1] == part.derivation
    assert out.derivation[-1] == "basic composition of 100 x (0.2, 0), (0.5, 0)"
    many = compose_basic([promise(F(i, 100)) for i in range(1, 41)])
    assert many.derivation[-1].endswith("and 35 other kinds")


# Advanced


def advanced_reference(gs: list[Guarantee], slack: Fraction) -> mpmath.mpf:
    e = [real(g.epsilon) for g in gs]
    drift, squares = (
        mpmath.fsum(x * (mpmath.exp(x) - 1) / (mpmath.exp(x) + 1) for x in e),
        mpmath.fsum(x * x for x in e),
    )
    logs = (mpmath.log(1 / real(slack)), mpmath.log(mpmath.e + mpmath.sqrt(squares) / real(slack)))
    return min(mpmath.fsum(e), *(drift + mpmath.sqrt(2 * squares * log) for log in logs))


@given(lists, slacks)
@settings(deadline=None, max_examples=50)
def test_advanced_is_the_least_of_three_bounds(gs: list[Guarantee], slack: Fraction) -> None:
    out = compose_advanced(gs, slack)
    assert is_rounded_up(out.epsilon, advanced_reference(gs, slack))
    spent = out.epsilon < compose_basic(gs).epsilon
    left = mpmath.fprod(1 - real(g.delta) for g in gs) * (1 - real(slack) * spent)
    assert is_rounded_up(out.delta, 1 - left) or out.delta == 0 == 1 - left
    assert out.delta <= slack + compose_basic(gs).delta


def test_advanced_uses_the_smaller_logarithm_on_either_side() -> None:
    few, many = [promise("0.01")] * 50, [promise("0.1")] * 3000
    assert compose_advanced(few, "0.5").epsilon < F(1, 2)
    for gs, slack in ((few, F(1, 10**6)), (many, F(1, 10**6)), (many, F(9, 10))):
        assert is_rounded_up(compose_advanced(gs, slack).epsilon, advanced_reference(gs, slack))


def test_advanced_does_not_spend_slack_it_does_not_need() -> None:
    out = compose_advanced([promise(1), promise(1, "1e-6")], "1e-5")
    assert (out.epsilon, out.delta) == (F(2), F(1, 10**6))
    assert compose_advanced([promise(0)], "1e-5").epsilon == 0
    many = compose_advanced([promise("0.01", "1e-9")] * 1000, "1e-6")
    assert many.delta < F(2, 10**6)
    assert "slack 1/1000000" in many.derivation[-1]


# Optimal


def literal_delta(epsilons: list[Fraction], target: Fraction) -> ExpSum:
    """The hockey stick of the product of randomised responses, outcome by outcome, times prod (1 + e**e)."""
    total = ExpSum()
    for answer in itertools.product((0, 1), repeat=len(epsilons)):
        here = sum((e for e, bit in zip(epsilons, answer) if bit), F(0))
        there = sum((e for e, bit in zip(epsilons, answer) if not bit), F(0))
        excess = ExpSum.exp(here) - ExpSum.exp(target + there)
        total = total + excess if excess.sign() > 0 else total
    return total


def literal_value(epsilons: list[Fraction], target: Fraction) -> mpmath.mpf:
    total = mpmath.fsum(real(a) * mpmath.exp(real(x)) for x, a in literal_delta(epsilons, target))
    return total / mpmath.fprod(1 + mpmath.exp(real(e)) for e in epsilons)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("epsilon", [F(1, 10), F(1, 2), F(1), F(7, 3)])
def test_homogeneous_closed_form_equals_the_literal_product_and_the_library(k: int, epsilon: Fraction) -> None:
    for target in (k * epsilon * F(i, 7) for i in range(7)):
        wins = [j for j in range(k + 1) if (2 * j - k) * epsilon > target]
        closed = sum(
            (comb(k, j) * (ExpSum.exp(j * epsilon) - ExpSum.exp(target + (k - j) * epsilon)) for j in wins), ExpSum()
        )
        assert closed == literal_delta([epsilon] * k, target)
        assert is_rounded_up(compose_optimal([promise(epsilon)] * k, target), literal_value([epsilon] * k, target))


@given(
    st.lists(st.fractions(F(1, 30), 2, max_denominator=30), min_size=1, max_size=5),
    st.fractions(0, 1, max_denominator=50),
)
@settings(deadline=None, max_examples=40)
def test_heterogeneous_delta_equals_the_literal_product_on_a_common_grid(es: list[Fraction], share: Fraction) -> None:
    target = share * sum(es)
    got = compose_optimal([promise(e) for e in es], target)
    if share == 1:
        assert got == 0
    elif compose_grid_divides(es):
        assert is_rounded_up(got, literal_value(es, target))
    else:
        assert real(got) >= literal_value(es, target)


def compose_grid_divides(es: list[Fraction]) -> bool:
    step, factors = composition._on_grid(Counter(es))
    return sum((a * n for a, n in factors.items()), 0) * step == sum(es)


@given(st.lists(st.integers(1, 10**12), min_size=2, max_size=5), st.fractions(0, 1, max_denominator=50))
@settings(deadline=None, max_examples=25)
def test_off_the_grid_delta_is_a_close_upper_bound(numerators: list[int], share: Fraction) -> None:
    es = [F(n, 10**12) for n in numerators]
    target = share * sum(es, F(0))
    got, true = compose_optimal([promise(e) for e in es], target), literal_value(es, target)
    assert real(got) >= true * (1 - mpmath.mpf(10) ** -50)
    # Raising each epsilon by one step of 2**-14 of the total raises delta by at most the change in total variation.
    assert real(got) <= true + len(es) * real(sum(es, F(0))) / 2**14


def test_deltas_combine_with_the_tail() -> None:
    es, ds, target = [F(1, 2), F(1), F(1, 2)], [F(1, 100), F(1, 50), F(0)], F(1)
    got = compose_optimal([promise(e, d) for e, d in zip(es, ds)], target)
    kept = mpmath.mpf(99) / 100 * 49 / 50
    assert is_rounded_up(got, 1 - kept * (1 - literal_value(es, target)))
    assert compose_optimal([promise(0, "1e-6")] * 2, 0) <= F(2, 10**6)
    assert compose_optimal([promise(1, F(1, 3))], 1) == F(1, 3), "one guarantee implies itself, exactly"
    assert compose_optimal([promise(1, F(1, 3))], 10**400) == F(1, 3)


def test_thousandfold_delta_from_an_independent_sum() -> None:
    """1000 times 1/100: the tail of a binomial, at three targets down to 1e-22."""
    gs, e = [promise("0.01")] * 1000, mpmath.mpf(1) / 100
    p = 1 / (1 + mpmath.exp(-e))
    for target in (1, 2, 3):
        wins = range(501 + 50 * target, 1001)
        true = mpmath.fsum(
            comb(1000, j) * p**j * (1 - p) ** (1000 - j) * (1 - mpmath.exp(target - (2 * j - 1000) * e)) for j in wins
        )
        assert is_rounded_up(compose_optimal(gs, target), true)
    assert mpmath.nstr(real(compose_optimal(gs, 2)), 12) == "1.39348272085e-11"


def test_many_unlike_epsilons_stay_between_their_neighbours() -> None:
    rough = [F(i * i % 997 + 1, 9970) for i in range(50)]
    exact = compose_optimal([promise(e) for e in rough], 1)
    nudged = [e + F(1, 10**9 + 7 * i) for i, e in enumerate(rough)]
    assert exact <= compose_optimal([promise(e) for e in nudged], 1) <= exact * F(102, 100)


@given(lists, st.fractions(0, 3, max_denominator=20))
@settings(deadline=None, max_examples=25)
def test_optimal_falls_in_epsilon_and_grows_with_every_part(gs: list[Guarantee], target: Fraction) -> None:
    here = compose_optimal(gs, target)
    assert 0 <= here <= 1
    assert compose_optimal(gs, target + F(1, 7)) <= here
    margin = 1 + F(1, 100)  # parts off the common grid are raised to different grids
    assert here <= compose_optimal([*gs, promise("1/30", "1e-7")], target) * margin


@given(lists, slacks)
@settings(deadline=None, max_examples=60)
def test_no_rule_beats_the_optimal_one(gs: list[Guarantee], slack: Fraction) -> None:
    """Whatever another rule promises from the parameters alone must hold for randomised responses."""
    for out in (
        compose_basic(gs),
        compose_advanced(gs, slack),
        compose_zcdp(gs, slack),
        compose_zcdp(gs, slack, form="optimal"),
    ):
        rough = compose_optimal(gs, out.epsilon)
        assert rough <= out.delta * F(101, 100)


def test_order_does_not_matter() -> None:
    gs = [promise("0.1", "1e-6"), promise("0.7"), promise("0.25", "1e-9"), promise("0.1")]
    rules: list[Callable[[list[Guarantee]], object]] = [compose_basic, lambda x: compose_advanced(x, "1e-6")]
    rules += [lambda x: compose_zcdp(x, "1e-6"), lambda x: compose_optimal(x, "0.5")]
    for rule in rules:
        assert rule(gs) == rule(gs[::-1])


def test_extreme_epsilons() -> None:
    huge = promise(10**400)
    assert compose_optimal([huge], 3) == 1
    assert compose_optimal([huge, promise(1)], 3) == 1
    assert compose_advanced([huge] * 3, "1e-6").epsilon == 3 * 10**400
    assert compose_zcdp([huge] * 3, "1e-6").epsilon == 3 * 10**400
    tiny = promise(F(1, 10**400))
    assert 0 < compose_optimal([tiny] * 3, 0) < F(1, 10**399)


def test_work_is_limited_by_public_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(composition, "_MAX_DEGREE", 8)
    few, many = [promise(1)] * 128, [promise(1)] * 129
    assert 0 < compose_optimal(few, 1) < 1
    assert 0 < compose_optimal([promise(1), promise(3)] * 2, 1) < 1
    for gs in (many, [promise(1), promise(3)] * 3):
        with pytest.raises(TooLargeError, match=r"at most (8|128) are allowed; use compose_advanced"):
            compose_optimal(gs, 1)


# Parallel


@given(lists)
@settings(deadline=None, max_examples=40)
def test_parallel_is_the_largest_of_each(gs: list[Guarantee]) -> None:
    moved = [promise(g.epsilon, g.delta, neighbours="add-remove") for g in gs]
    for parts, split in ((gs, "public"), (moved, "public"), (moved, "data")):
        out = compose_parallel(parts, split)
        assert out.epsilon == max(g.epsilon for g in gs)
        assert out.delta == max(g.delta for g in gs)
        assert out.tags == parts[0].tags
        assert out.implies(compose_basic(parts))


def test_a_data_dependent_split_of_replace_parts_is_refused_because_it_is_false() -> None:
    """Each part prints its number of units, which is (0, 0)-DP under replace; a unit that moves changes both."""
    parts = [promise(0), promise(0)]
    with pytest.raises(IncompatibleGuarantees, match="depends on the data"):
        compose_parallel(parts, "data")

    def release(users: tuple[int, ...]) -> tuple[int, int]:
        return sum(u == 0 for u in users), sum(u == 1 for u in users)

    assert release((0, 0, 1)) != release((0, 1, 1))
    assert compose_parallel(parts, "public").epsilon == 0


def clamped_laplace(value: int, rate: Fraction, reach: int) -> list[tuple[ExpSum, ExpSum]]:
    """Discrete Laplace noise around ``value``, clamped to -reach..reach, as exact fractions."""
    step = ExpSum.exp(-rate)
    tails = {k: ExpSum.exp(-rate * abs(k - value)) for k in range(-reach, reach + 1)}
    return [(tail if abs(k) == reach else tail * (ExpSum.of(1) - step), 1 + step) for k, tail in tails.items()]


def test_a_replaced_unit_that_stays_in_its_part_takes_two_steps_there() -> None:
    """One part sums values -1 or 1 with noise (add-remove loss 1), the other is constant (loss 0).  Replacing -1 by 1
    inside the first part has loss 2, so the sum of the two largest, 1 + 0, does not cover it; 2 does, exactly."""
    parts = [add_remove(1), add_remove(0)]
    before, after = clamped_laplace(-1, F(1), 3), clamped_laplace(1, F(1), 3)
    ratios = [(a * d - ExpSum.exp(F(2)) * c * b).sign() for (a, b), (c, d) in zip(before, after)]
    assert max(ratios) == 0, "the loss is exactly 2"
    assert parallel_replace(parts).epsilon == 2
    assert parallel_replace(parts, interchangeable=True).epsilon == 1


def test_histogram_cells_lose_the_two_largest_steps() -> None:
    """Counts of two cells with noise of rates 1 and 1/2: a unit that changes cell costs 3/2, exactly; nothing else
    changes."""
    rates = (F(1), F(1, 2))
    worst = -1
    for one, two in itertools.product(range(7), repeat=2):
        a, b = clamped_laplace(1, rates[0], 3)[one], clamped_laplace(0, rates[1], 3)[two]
        c, d = clamped_laplace(0, rates[0], 3)[one], clamped_laplace(1, rates[1], 3)[two]
        worst = max(worst, (a[0] * b[0] * c[1] * d[1] - ExpSum.exp(F(3, 2)) * c[0] * d[0] * a[1] * b[1]).sign())
    assert worst == 0
    assert parallel_replace([add_remove(r) for r in rates], interchangeable=True).epsilon == F(3, 2)


@given(lists)
@settings(deadline=None, max_examples=50)
def test_replace_from_add_remove_parts(gs: list[Guarantee]) -> None:
    parts = [add_remove(g.epsilon, g.delta) for g in gs]
    moves, stays = parallel_replace(parts, interchangeable=True), parallel_replace(parts)
    pairs = list(itertools.combinations(gs, 2)) or [(gs[0], promise(0))]
    assert moves.epsilon == max(a.epsilon + b.epsilon for a, b in pairs)
    assert moves.delta == max(a.delta + b.delta for a, b in pairs)
    assert moves.implies(stays)
    assert all(p.to_replace().implies(stays) for p in parts)
    assert stays.implies(compose_parallel(parts, "data").to_replace())
    assert stays.neighbours is moves.neighbours is Neighbours.REPLACE


def test_parallel_rho() -> None:
    parts = [add_remove(1, rho="1/8"), add_remove("1/2")]
    assert compose_parallel(parts, "data").rho == F(1, 8)
    assert parallel_replace(parts).rho == F(1, 2)
    assert parallel_replace(parts, interchangeable=True).rho == F(1, 4)
    assert compose_parallel([add_remove(1, "1e-6"), parts[0]], "data").rho is None


def test_parallel_replace_starts_from_add_remove() -> None:
    with pytest.raises(IncompatibleGuarantees, match="add-remove"):
        parallel_replace([promise(1)])


@pytest.mark.parametrize(
    ("split", "error"),
    [("Public", ParameterError), ("", ParameterError), (None, TypeError), (True, TypeError), (["data"], TypeError)],
)
def test_bad_splits_are_refused(split: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="split must be"):
        compose_parallel([promise(1)], split)


@pytest.mark.parametrize("flag", [1, "yes", None, np.ones(2)])
def test_bad_flags_are_refused(flag: Any) -> None:
    with pytest.raises(TypeError, match="interchangeable must be"):
        parallel_replace([add_remove(1)], interchangeable=flag)


# Zero-concentrated


def optimal_reference(rho: mpmath.mpf, delta: mpmath.mpf) -> mpmath.mpf:
    """The least epsilon of the stated inequality by bisection on epsilon, minimising over the order by golden
    section."""

    def log_delta(epsilon: mpmath.mpf) -> mpmath.mpf:
        def at(t: mpmath.mpf) -> mpmath.mpf:
            a = 1 + mpmath.exp(t)
            return (a - 1) * (a * rho - epsilon) + a * mpmath.log(1 - 1 / a) - mpmath.log(a - 1)

        lo, hi, golden = mpmath.mpf(-25), mpmath.mpf(25), (mpmath.sqrt(5) - 1) / 2
        for _ in range(75):
            x, y = hi - golden * (hi - lo), lo + golden * (hi - lo)
            lo, hi = (lo, y) if at(x) < at(y) else (x, hi)
        return at((lo + hi) / 2)

    low, high = mpmath.mpf(0), rho + 2 * mpmath.sqrt(-rho * mpmath.log(delta))
    for _ in range(45):
        middle = (low + high) / 2
        low, high = (low, middle) if log_delta(middle) <= mpmath.log(delta) else (middle, high)
    return high


@pytest.mark.parametrize(("rho", "delta"), [("1/8", "1e-6"), ("5/4", "1e-6"), ("0.001", "1e-9"), ("20", "1e-3")])
def test_optimal_conversion_solves_the_stated_inequality(rho: str, delta: str) -> None:
    with mpmath.workdps(30):
        true = optimal_reference(real(F(rho)), real(F(delta)))
        assert abs(real(zcdp_epsilon(rho, delta, "optimal")) / true - 1) < 1e-12


def test_conversions_of_the_prediction_service() -> None:
    """k answers at gamma 1/20 and delta 1e-6 have rho k / 800."""
    assert round(float(zcdp_epsilon("100/800", "1e-6", form="optimal")), 2) == 2.42
    assert round(float(zcdp_epsilon("1000/800", "1e-6", form="optimal")), 2) == 8.85


@given(
    st.fractions(F(1, 10**6), 100, max_denominator=10**6),
    st.sampled_from([F(1, 10), F(1, 10**6), F(1, 10**12), F(99, 100)]),
)
@settings(deadline=None, max_examples=50)
def test_conversions_are_ordered_and_monotone(rho: Fraction, delta: Fraction) -> None:
    simple, optimal = zcdp_epsilon(rho, delta), zcdp_epsilon(rho, delta, "optimal")
    assert is_rounded_up(simple, real(rho) + 2 * mpmath.sqrt(real(rho) * mpmath.log(1 / real(delta))))
    assert 0 <= optimal <= simple
    slightly = 1 + F(1, 2**60)
    for form, value in (("simple", simple), ("optimal", optimal)):
        assert value <= zcdp_epsilon(rho * 2, delta, form) * slightly
        assert value <= zcdp_epsilon(rho, delta / 2, form) * slightly


def test_a_gaussian_meets_the_conversions() -> None:
    """Noise of variance 1/(2 rho) at distance 1 is rho-zCDP; its own delta at the converted epsilon is below delta."""
    for rho, delta in ((F(1, 8), F(1, 10**6)), (F(2), F(1, 10**5)), (F(1, 50), F(1, 10**3))):
        s = 1 / mpmath.sqrt(2 * real(rho))
        for form in ("simple", "optimal"):
            e = real(zcdp_epsilon(rho, delta, form))
            own = mpmath.ncdf(1 / (2 * s) - e * s) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * s) - e * s)
            assert own <= real(delta)


@given(st.fractions(F(1, 10**9), 50, max_denominator=10**9), st.sampled_from([F(1, 10), F(1, 10**6), F(1, 10**30)]))
@settings(deadline=None, max_examples=50)
def test_the_budget_is_the_largest_rho_that_fits(epsilon: Fraction, delta: Fraction) -> None:
    rho = zcdp_budget(epsilon, delta)
    root = mpmath.sqrt(real(rho) * mpmath.log(1 / real(delta)))
    assert real(rho) + 2 * root <= real(epsilon), "never above the budget"
    assert real(rho) + 2 * root >= real(epsilon) * (1 - mpmath.mpf(2) ** -60)


def test_zero_rho_and_zero_budget() -> None:
    assert zcdp_epsilon(0, "1e-6") == zcdp_epsilon(0, "1e-6", "optimal") == zcdp_budget(0, "1e-6") == 0
    assert zcdp_epsilon("1e-9", "0.5", "optimal") == 0, "a delta of a half covers it all"


def test_conversions_far_outside_the_doubles() -> None:
    tiny = F(1, 10**1000)
    assert 0 < zcdp_epsilon(tiny, tiny, "optimal") <= zcdp_epsilon(tiny, tiny) < F(1, 10**490)
    assert 10**300 < zcdp_epsilon(10**300, tiny, "optimal") <= zcdp_epsilon(10**300, tiny) < 2 * 10**300


@given(lists, slacks)
@settings(deadline=None, max_examples=50)
def test_zcdp_composition(gs: list[Guarantee], slack: Fraction) -> None:
    out, basic = compose_zcdp(gs, slack), compose_basic(gs)
    rho = mpmath.fsum(real(g.epsilon) ** 2 / 2 for g in gs)
    assert is_rounded_up(
        out.epsilon, min(real(basic.epsilon), rho + 2 * mpmath.sqrt(rho * mpmath.log(1 / real(slack))))
    )
    assert out.delta == basic.delta + (slack if out.epsilon < basic.epsilon else 0)
    assert out.rho == (None if basic.delta else sum(g.epsilon**2 / 2 for g in gs))
    assert compose_zcdp(gs, slack, form="optimal").epsilon <= out.epsilon


def test_zcdp_composition_uses_a_known_rho() -> None:
    selections = [promise(1, rho="1/8")] * 50
    out = compose_zcdp(selections, "1e-6")
    assert out.epsilon == zcdp_epsilon("50/8", "1e-6")
    assert out.rho == F(50, 8)
    assert out.delta == F(1, 10**6)
    assert "zCDP composition (simple conversion), slack 1/1000000 of 50 x (1, 0)" in out.derivation[-1]
    assert compose_zcdp([promise(1, rho=5)] * 50, "1e-6").rho == 25


def test_zcdp_results_compose_again_without_losing_rho() -> None:
    half = compose_zcdp([promise("0.1")] * 50, "1e-6")
    both = compose_zcdp([half, half], "1e-6")
    assert both.rho == F(1, 2)
    assert both.epsilon == zcdp_epsilon("0.5", "1e-6")
    assert both.delta == F(3, 10**6)


# Bad input

RULES: dict[str, Callable[[Any], Any]] = {
    "basic": compose_basic,
    "parallel": lambda gs: compose_parallel(gs, "public"),
    "parallel_replace": parallel_replace,
    "advanced": lambda gs: compose_advanced(gs, "1e-6"),
    "optimal": lambda gs: compose_optimal(gs, 1),
    "zcdp": lambda gs: compose_zcdp(gs, "1e-6"),
}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


@every_rule
def test_nothing_to_compose_is_refused(rule: Callable[[Any], Any]) -> None:
    nothing: list[Any] = [[], (), iter(())]
    for empty in nothing:
        with pytest.raises(ParameterError, match="no guarantees"):
            rule(empty)


@every_rule
@pytest.mark.parametrize("wrong", [None, 1, "text", b"x", True, [1], [None], ["(1, 0)"], [(1, 0)], np.ones(3), [[]]])
def test_only_lists_of_guarantees_are_composed(rule: Callable[[Any], Any], wrong: Any) -> None:
    with pytest.raises(TypeError, match="list of guarantees"):
        rule(wrong)


@every_rule
def test_a_single_guarantee_is_not_a_list(rule: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="list of guarantees"):
        rule(promise(1))


@every_rule
@pytest.mark.parametrize(
    "other", [{"unit": "item"}, {"neighbours": "add-remove"}, {"model": "local"}, {"model": "shuffle"}]
)
def test_mixed_tags_are_refused(rule: Callable[[Any], Any], other: dict[str, str]) -> None:
    with pytest.raises(IncompatibleGuarantees):
        rule([promise(1), promise(1), promise(1, **other)])


@every_rule
def test_tags_survive(rule: Callable[[Any], Any]) -> None:
    out = rule([add_remove("0.1", unit="item", model="shuffle")] * 2)
    assert not isinstance(out, Guarantee) or (out.unit, out.model) == (Unit.ITEM, Model.SHUFFLE)


BAD: list[tuple[Any, type[Exception]]] = [
    (True, TypeError),
    (None, TypeError),
    ([1], TypeError),
    (np.ones(2), TypeError),
    (1j, TypeError),
]
BAD += [
    (float("nan"), ParameterError),
    (float("inf"), ParameterError),
    ("abc", ParameterError),
    (-1, ParameterError),
    ("-1e-9", ParameterError),
]
BAD_OPEN = [*BAD, (0, ParameterError), (1, ParameterError), (2, ParameterError), (10**400, ParameterError)]


@pytest.mark.parametrize("compose", [compose_advanced, compose_zcdp])
@pytest.mark.parametrize(("slack", "error"), BAD_OPEN[:-1])
def test_bad_slacks_are_refused(compose: Callable[..., Any], slack: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="slack must be"):
        compose([promise(1)], slack)


@pytest.mark.parametrize("convert", [zcdp_epsilon, zcdp_budget])
@pytest.mark.parametrize(("delta", "error"), BAD_OPEN[:-1])
def test_bad_conversion_deltas_are_refused(convert: Callable[..., Any], delta: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="delta must be"):
        convert(1, delta)


@pytest.mark.parametrize(("value", "error"), BAD)
def test_bad_rhos_and_epsilons_are_refused(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="rho must be"):
        zcdp_epsilon(value, "1e-6")
    with pytest.raises(error, match="epsilon must be"):
        zcdp_budget(value, "1e-6")
    with pytest.raises(error, match="epsilon must be"):
        compose_optimal([promise(1)], value)


@pytest.mark.parametrize(
    ("form", "error"),
    [("best", ParameterError), ("", ParameterError), (None, TypeError), (True, TypeError), (["simple"], TypeError)],
)
def test_bad_forms_are_refused(form: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="form must be"):
        zcdp_epsilon(1, "1e-6", form)
    with pytest.raises(error, match="form must be"):
        zcdp_epsilon(0, "1e-6", form)
    with pytest.raises(error, match="form must be"):
        compose_zcdp([promise(1)], "1e-6", form)


# Another accountant


@pytest.mark.parametrize(
    ("k", "epsilon", "target"), [(10, "0.1", "0.6"), (6, "1", "4"), (100, "0.05", "1"), (1000, "0.01", "1")]
)
def test_dp_accounting_agrees_to_1e_9(k: int, epsilon: str, target: str) -> None:
    accounting = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    common = pytest.importorskip("dp_accounting.pld.common")
    one = accounting.from_privacy_parameters(
        common.DifferentialPrivacyParameters(float(epsilon), 0.0), value_discretization_interval=float(epsilon)
    )
    theirs = one.self_compose(k).get_delta_for_epsilon(float(target))
    assert abs(float(compose_optimal([promise(epsilon)] * k, target)) - theirs) < 1e-9
