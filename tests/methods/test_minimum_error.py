"""Comparisons and estimates of the least error: tables, steps, laws, declared sizes, edge cases."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Integers, UserData
from privpac.errors import ParameterError, TooLargeError
from privpac.methods.base import Bound
from privpac.papers.pure_agnostic import minimum_error
from privpac.papers.pure_agnostic.minimum_error import MinimumError, PrivateCompare, _entry, estimate_rounds
from privpac.papers.pure_agnostic.sizes import AdmissibleUsers, read_sizes, size_counts
from privpac.rules.cuts import Thresholds
from privpac.special import MAX_RECORDS, cross, psi_exact
from privpac.testing import SeededRng, insecure_randomness

DOMAIN = Integers(0, 3)


def people(users: list[list[tuple[int, int]]]) -> UserData:
    return UserData.from_users(users, features={"x": DOMAIN})


USERS = st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), max_size=5), max_size=6)


# Tables and steps


@given(st.integers(1, 60), st.fractions(0, "9/10", max_denominator=40), st.fractions("1/40", 1, max_denominator=40))
def test_the_share_is_the_middle_of_two_tails(m: int, value: Fraction, width: Fraction) -> None:
    q = min(Fraction(1), value + width)
    t, tau = _entry(m, value, q)
    middle = (psi_exact(m, value, t) + psi_exact(m, q, t)) / 2
    assert tau.denominator <= 1 << 32
    assert -Fraction(1, 1 << 33) < tau - middle <= Fraction(1, 1 << 33)
    assert 0 <= t < m


def test_users_beyond_the_search_limit_have_an_entry_too() -> None:
    t, tau = _entry(3 * MAX_RECORDS, Fraction(1, 4), Fraction(1, 2))
    assert Fraction(1, 4) < Fraction(t, 3 * MAX_RECORDS) < Fraction(1, 2)
    assert 0 <= tau <= 1


@pytest.mark.parametrize(
    ("sizes", "neighbours"), [((4,), "replace"), ((0, 4), "replace"), ((1, 2, 4), "add-remove"), (None, "add-remove")]
)
def test_the_step_is_one_for_one_size_or_add_remove(sizes: Any, neighbours: str) -> None:
    assert PrivateCompare(Thresholds(), epsilon=1, sizes=sizes, neighbours=neighbours).sensitivity == 1


def test_the_step_without_declared_sizes_covers_every_table() -> None:
    assert PrivateCompare(Thresholds(), epsilon=1, neighbours="replace").sensitivity == 2
    capped = PrivateCompare(Thresholds(), epsilon=1, neighbours="replace", max_records=6)
    taus = [capped.entry(m)[1] for m in range(1, 7)]
    assert capped.sensitivity == 1 + max(taus) - min(taus)
    assert PrivateCompare(Thresholds(), epsilon=1, neighbours="replace", max_records=1 << 20).sensitivity == 2


@given(USERS)
@settings(deadline=None)
def test_the_difference_equals_its_definition(users: list[Any]) -> None:
    learner = PrivateCompare(Thresholds(), epsilon=1, value="1/5", width="1/4")
    counts = []
    for cut in range(5):
        bad = [sum((x >= cut) != y for x, y in user) > learner.entry(len(user))[0] for user in users]
        counts.append(sum(bad))
    expected = min(counts) - sum((learner.entry(len(user))[1] for user in users), Fraction(0))
    assert learner.difference(people(users)) == expected


# Declared sizes


@given(USERS, st.sets(st.integers(0, 4), min_size=1))
@settings(deadline=None)
def test_users_are_cut_down_to_the_next_admissible_size(users: list[Any], sizes: set[int]) -> None:
    kept = tuple(sorted(sizes))
    cut = [user[: max([s for s in kept if s <= len(user)], default=0)] for user in users]
    bound = AdmissibleUsers(people(users), kept)
    expected: dict[int, int] = {}
    for user in cut:
        expected[len(user)] = expected.get(len(user), 0) + 1
    found = size_counts(bound)
    assert {m: n for m, n in found.items() if m and n} == {m: n for m, n in expected.items() if m}
    learner = PrivateCompare(Thresholds(), epsilon=1)
    assert learner.with_(sizes=kept).difference(people(users)) == learner.difference(people(cut))


class _Chunked:
    """Users that live elsewhere: folded in pieces of one user."""

    def __init__(self, data: UserData) -> None:
        self.data, self.features, self.unit, self.label_name = data, data.features, data.unit, data.label_name

    def bind(self, domains: Any, on_invalid: Any = None) -> _Chunked:
        return _Chunked(self.data.bind(domains, on_invalid))

    def max_records(self, cap: int, rule: Any = None, salt: bytes = b"privpac") -> _Chunked:
        return _Chunked(self.data.max_records(cap, rule, salt))

    def pieces(self) -> Iterator[UserData]:
        return (self.data.take([i]) for i in range(self.data.n_users))

    def fold(self, kernel: Any) -> Any:
        out = kernel.zero()
        for piece in self.pieces():
            out = kernel.merge(out, kernel.chunk(piece))
        return out


def test_data_elsewhere_give_the_same_law() -> None:
    data = people([[(0, 0), (3, 1), (1, 1)], [(2, 0)], [], [(1, 1), (1, 0)]])
    for sizes in (None, (0, 2)):
        for estimator in ("oneshot", "bisect"):
            learner = MinimumError(Thresholds(), epsilon=1, sizes=sizes, radius="1/4", estimator=estimator)
            assert learner.law(data).satisfies(learner.law(_Chunked(data)), 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [[], [-1], [1.5], "12", 3])
def test_bad_sizes_are_refused(bad: Any) -> None:
    with pytest.raises((ParameterError, TypeError)):
        read_sizes(bad)


def test_sizes_and_a_cap_together() -> None:
    assert PrivateCompare(Thresholds(), epsilon=1, sizes=[8, 1, 4], max_records=4).sizes == (1, 4)
    assert PrivateCompare(Thresholds(), epsilon=1, sizes=[8], max_records=4).sizes == (0,)


# Estimates


@pytest.mark.parametrize(("radius", "rounds"), [("1/2", 1), ("1/3", 2), ("1/4", 2), ("1/5", 3), ("1/256", 8)])
def test_bisection_rounds(radius: str, rounds: int) -> None:
    assert estimate_rounds(Fraction(radius)) == rounds


@pytest.mark.parametrize("estimator", ["oneshot", "bisect"])
@pytest.mark.parametrize("users", [[], [[]], [[], []], [[(1, 1)]]])
def test_no_data_is_ordinary(estimator: str, users: list[Any]) -> None:
    learner = MinimumError(Thresholds(), epsilon=1, radius="1/4", estimator=estimator)
    law = learner.law(people(users))
    total = sum(law.prob_float(value) for value in law.support())
    assert total == pytest.approx(1)
    assert 0 <= learner.learn(people(users)).value <= 1


def test_without_users_a_comparison_is_a_fair_coin() -> None:
    assert PrivateCompare(Thresholds(), epsilon=1).law(people([[], []])).prob_exact(0) == Fraction(1, 2)


def test_without_users_the_oneshot_estimate_is_uniform() -> None:
    law = MinimumError(Thresholds(), epsilon=1, radius="3/16").law(people([]))
    assert {law.prob_exact(cell) for cell in law.support()} == {Fraction(1, 8)}


def test_a_coarse_estimate_needs_no_data() -> None:
    law = MinimumError(Thresholds(), epsilon=1, radius="3/4").law(people([[(0, 1)]]))
    assert law.prob_exact(Fraction(3, 4)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["oneshot", "bisect"])
def test_drawing_follows_the_law(estimator: str) -> None:
    data = people([[(0, 0), (3, 1), (1, 1)], [(2, 0)], [], [(1, 1), (1, 0)]])
    learner = MinimumError(Thresholds(), epsilon=3, radius="1/4", estimator=estimator)
    law, bound, runs = learner.law(data), learner.bind(data), 1200
    seen: dict[Fraction, int] = {}
    with insecure_randomness():
        rng = SeededRng("estimate")
        for _ in range(runs):
            value = learner.sample(bound, rng)
            seen[value] = seen.get(value, 0) + 1
    # Hoeffding for at most 8 values and two estimators: false alarm below 32 e**(-2 * 1200 * 0.09**2) < 1e-6.
    for value in law.support():
        assert abs(seen.get(value, 0) / runs - law.prob_float(value)) < 0.09  # type: ignore[call-overload]
    assert isinstance(bound, Bound)


@pytest.mark.parametrize(("estimator", "radius", "n", "m"), [("bisect", "1/8", 900, 9), ("oneshot", "1/8", 900, 9)])
def test_the_estimate_is_within_its_radius(estimator: str, radius: str, n: int, m: int) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 4, (n, m))
    y = ((x >= 2) ^ (rng.random((n, m)) < 0.25)).astype(int)
    data = people([list(zip(a, b)) for a, b in zip(x.tolist(), y.tolist())])
    law = MinimumError(Thresholds(), epsilon=1, sizes=(m,), radius=radius, estimator=estimator).law(data)
    inside = sum(law.prob_float(v) for v in law.support() if abs(v - Fraction(1, 4)) <= Fraction(radius))  # type: ignore[operator]
    assert inside > 0.95


def test_what_is_released_names_public_parameters_only() -> None:
    released = MinimumError(Thresholds(), epsilon=1, radius="1/4").learn(people([[(0, 0)]]))
    assert dict(released.parameters) == {"class": "Thresholds", "radius": Fraction(1, 4), "estimator": "oneshot"}
    assert str(released.guarantee) == "(1, 0)-DP per user, add-remove"
    again = type(released).from_json(released.to_json())
    assert again.value == released.value
    compared = PrivateCompare(Thresholds(), epsilon=1).learn(people([]))
    assert compared.value in (0, 1)


@pytest.mark.parametrize(
    "bad",
    [
        {"radius": 0},
        {"radius": 1},
        {"radius": "1e-9"},
        {"estimator": "best"},
        {"epsilon": -1},
        {"radius": float("nan")},
        {"sizes": []},
    ],
)
def test_bad_parameters_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        MinimumError(Thresholds(), **({"epsilon": 1} | bad))


@pytest.mark.parametrize("bad", [{"value": 1}, {"value": -1}, {"width": 0}, {"width": 2}, {"value": "x"}])
def test_bad_comparisons_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        PrivateCompare(Thresholds(), epsilon=1, **bad)


def test_a_law_of_too_many_comparisons_is_refused() -> None:
    with pytest.raises(TooLargeError, match="oneshot"):
        MinimumError(Thresholds(), epsilon=1, radius="1/4096", estimator="bisect").law(people([]))


def test_four_comparisons_and_one_selection_have_the_same_zcdp_cost() -> None:
    oneshot, bisect = (
        MinimumError(Thresholds(), epsilon=1, estimator=e, radius="1/16").guarantee.rho for e in ("oneshot", "bisect")
    )
    assert oneshot == bisect == Fraction(1, 8)


@pytest.mark.parametrize(("value", "width"), [("0", "1/12"), ("1/12", "1/12"), ("3/8", "1/4"), ("7/8", "1/4")])
def test_tables_are_the_rounded_middles_of_exact_tails(value: str, width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And rationals of hundreds of digits are needed for near ties only: all sizes up to 1000 must not cost seconds."""
    asked: list[int] = []
    monkeypatch.setattr(minimum_error, "psi_exact", lambda m, p, t: asked.append(m) or psi_exact(m, p, t))
    p, q = Fraction(value), min(Fraction(1), Fraction(value) + Fraction(width))
    compare = PrivateCompare(Thresholds(), epsilon=1, value=p, width=Fraction(width))
    for m in (1, 2, 3, 4, 7, 12, 50, 300, 1000):
        t, tau = compare.entry(m)
        assert t == cross(m, p, q)
        middle = (psi_exact(m, p, t) + psi_exact(m, q, t)) / 2
        assert tau == Fraction(floor(middle * (1 << 32) + Fraction(1, 2)), 1 << 32)
    asked.clear()
    minimum_error._entries(np.arange(1, 1001), p, q)
    assert len(asked) <= 200
