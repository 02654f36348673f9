"""Selection for realizable data: the law is exponential in the number of users with too many mistakes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Integers, UserData
from privpac.errors import ParameterError
from privpac.methods.realizable import RealizableSelection
from privpac.rules import Thresholds

DOMAIN = Integers(0, 4)
CUTS = 6
Users = list[list[tuple[int, int]]]
users_lists = st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), max_size=6), max_size=5)


def forgiven(tolerance: Any, m: int) -> int:
    if isinstance(tolerance, dict):
        return int(tolerance[max(key for key in tolerance if key <= m)])
    return int(tolerance(m)) if callable(tolerance) else int(tolerance)


@settings(max_examples=60, deadline=None)
@given(
    users_lists,
    st.sampled_from([0, 1, {0: 0, 3: 1}, lambda m: m // 2]),
    st.sampled_from(["add-remove", "replace"]),
    st.sampled_from([None, 1, 3]),
)
def test_law_is_exponential_in_users_with_more_mistakes_than_forgiven(
    users: Users, tolerance: Any, neighbours: str, cap: int | None
) -> None:
    learner = RealizableSelection(
        Thresholds(), Fraction(3, 2), neighbours=neighbours, tolerance=tolerance, max_records=cap
    )  # type: ignore[arg-type]
    law = learner.law(UserData.from_users(users, features={"x": DOMAIN}))
    kept = [user[:cap] for user in users]  # lists keep their first records
    scores = [
        sum(sum((x >= cut) != bool(y) for x, y in user) > forgiven(tolerance, len(user)) for user in kept if user)
        for cut in range(CUTS)
    ]
    eta = Fraction(3, 2) if neighbours == "add-remove" else Fraction(3, 4)
    with mpmath.workdps(60):
        weights = [mpmath.exp(-mpmath.mpf(eta.numerator) / eta.denominator * s) for s in scores]
        for cut, weight in enumerate(weights):
            ball = law.prob(cut)
            assert (
                abs(mpmath.mpf(ball.lo.numerator) / ball.lo.denominator * mpmath.fsum(weights) / weight - 1)
                < mpmath.mpf(10) ** -40
            )


@settings(max_examples=40, deadline=None)
@given(users_lists, st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), max_size=6))
def test_one_more_user_changes_no_probability_by_more_than_epsilon(users: Users, extra: list[tuple[int, int]]) -> None:
    learner = RealizableSelection(Thresholds(), Fraction(1, 2))
    one, other = (learner.law(UserData.from_users(u, features={"x": DOMAIN})) for u in (users, [*users, extra]))
    assert one.satisfies(other, "1/2")
    assert other.satisfies(one, "1/2")


def test_the_doubled_rate_would_break_the_promise_under_replace() -> None:
    """Mutation: the add-remove rate is not private under replace, so the check above can fail."""
    rest: Users = [[(0, 1)]] * 20
    for neighbours, private in (("add-remove", False), ("replace", True)):
        learner = RealizableSelection(Thresholds(), Fraction(1, 2), neighbours=neighbours)  # type: ignore[arg-type]
        one, other = (
            learner.law(UserData.from_users([*rest, u], features={"x": Integers(0, 0)})) for u in ([(0, 0)], [(0, 1)])
        )
        assert one.satisfies(other, "1/2") is private


@pytest.mark.parametrize(
    ("tolerance", "error"),
    [
        (-1, ParameterError),
        (0.5, TypeError),
        (True, TypeError),
        ("1", TypeError),
        (None, TypeError),
        ({}, ParameterError),
        ({3: 1}, ParameterError),
        ({1: -1}, ParameterError),
        (lambda m: m - 2, ParameterError),
        (lambda m: None, TypeError),
    ],
)
def test_bad_tolerances_are_refused_before_any_data(tolerance: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        RealizableSelection(Thresholds(DOMAIN), 1, tolerance=tolerance)  # type: ignore[arg-type]


def test_result_says_what_was_forgiven() -> None:
    data = UserData.from_users([[(1, 0), (3, 1)]], features={"x": DOMAIN})
    for tolerance, shown in ((1, 1), ({0: 0, 4: 1}, {"0": 0, "4": 1}), (lambda m: 0, "a function of the record count")):
        released = RealizableSelection(Thresholds(), 1, tolerance=tolerance).learn(data)  # type: ignore[arg-type]
        assert released.parameters["tolerance"] == shown
        assert released.learner == "realizable selection"
        assert released.guarantee is not None
        assert released.guarantee.rho == Fraction(1, 8)
