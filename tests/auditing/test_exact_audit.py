"""The exact audit: right verdicts, right pairs, exact at equality."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import inf
from typing import Any

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from privpac.auditing import ExactAudit, Universe, audit_exact, datasets, neighbouring, user_universe
from privpac.errors import LawError, ParameterError
from privpac.guarantee import Guarantee, Neighbours
from privpac.law import BOTTOM, Law

F = Fraction
RECORDS = [(x, y) for x in range(4) for y in (0, 1)]


def thresholds(eta: Any) -> Any:
    """The exponential mechanism over the five cuts of four points; one record per user."""

    def law(data: tuple[tuple[int, int], ...]) -> Law:
        cuts = list(range(5))
        return Law.from_blocks(cuts, cuts, [sum((x >= cut) != y for x, y in data) for cut in cuts], eta)

    return law


# Universes and neighbours


def test_user_universe_lists_every_multiset_of_records() -> None:
    users = user_universe([0, 1, 2], 3)
    assert len(users) == len(set(users)) == 1 + 3 + 6 + 10
    assert user_universe([0, 1], 2, min_records=1) == ((0,), (1,), (0, 0), (0, 1), (1, 1))
    assert len(user_universe([0, 1], 2, ordered=True)) == 1 + 2 + 4
    assert user_universe([], 2) == ((),)


def test_datasets_lists_every_multiset_of_users() -> None:
    assert list(datasets("ab", 2)) == [(), ("a",), ("b",), ("a", "a"), ("a", "b"), ("b", "b")]
    assert list(datasets("ab", 2, n_min=2, ordered=True)) == list(product("ab", repeat=2))
    assert len(datasets(user_universe([0, 1], 1), 3)) == 1 + 3 + 6 + 10


def less_one(data: tuple[Any, ...]) -> list[Counter[Any]]:
    return [Counter(data[:i] + data[i + 1 :]) for i in range(len(data))]


@given(st.integers(1, 3), st.integers(0, 3), st.sampled_from(list(Neighbours)))
def test_neighbours_of_multisets_are_all_pairs_one_user_apart(n_types: int, n_max: int, relation: Neighbours) -> None:
    universe = datasets(range(n_types), n_max)
    got = [frozenset(pair) for pair in neighbouring(universe, relation)]
    assert len(got) == len(set(got))
    for x in universe:
        for y in universe:
            if x == y:
                continue
            if relation is Neighbours.REPLACE:
                near = len(x) == len(y) and any(a == b for a in less_one(x) for b in less_one(y))
            else:
                near = Counter(x) in less_one(y) or Counter(y) in less_one(x)
            assert (frozenset((x, y)) in got) == near


def test_in_an_ordered_universe_a_replaced_user_keeps_their_place() -> None:
    pairs = {frozenset(pair) for pair in neighbouring(datasets("ab", 2, n_min=2, ordered=True), "replace")}
    expected = {
        frozenset((x, y))
        for x in product("ab", repeat=2)
        for y in product("ab", repeat=2)
        if sum(a != b for a, b in zip(x, y)) == 1
    }
    assert pairs == expected
    plain = {frozenset(pair) for pair in neighbouring(list(product("ab", repeat=2)), "replace")}
    assert expected < plain


def test_replacing_may_change_the_number_of_records() -> None:
    universe = datasets(user_universe(["r"], 2), 1, n_min=1)
    assert {frozenset(pair) for pair in neighbouring(universe, "replace")} == {
        frozenset({((),), (("r",),)}),
        frozenset({((),), (("r", "r"),)}),
        frozenset({(("r",),), (("r", "r"),)}),
    }


# Verdicts


def test_exponential_mechanism_is_private_on_all_512_datasets() -> None:
    replace = audit_exact(
        thresholds("1/2"), datasets(RECORDS, 3, n_min=3, ordered=True), neighbours="replace", epsilon=1
    )
    assert replace.holds
    assert replace.pairs == 512 * 3 * 7
    assert float(replace.epsilon_found) == pytest.approx(0.9131, abs=5e-5)
    add_remove = audit_exact(thresholds(1), datasets(RECORDS, 3), neighbours="add-remove", epsilon=1)
    assert add_remove.holds
    assert float(add_remove.epsilon_found) == pytest.approx(0.9791, abs=5e-5)


def test_a_rate_twice_too_large_fails_under_replace() -> None:
    audit = audit_exact(thresholds(1), datasets(RECORDS, 3, n_min=3), neighbours="replace", epsilon=1)
    assert not audit
    assert float(audit.epsilon_found) == pytest.approx(1.92, abs=5e-3)
    assert audit.slack < 0
    assert "violated" in audit.explain()
    x, y = audit.worst
    law = thresholds(1)
    assert not law(x).satisfies(law(y), 1)


def keeps(probability: Fraction) -> Any:
    """Randomised response on one bit per user; the report of all of them."""

    def law(data: tuple[int, ...]) -> Law:
        out = Law.point(())
        for bit in data:
            report = Law.from_weights({bit: probability, 1 - bit: 1 - probability})
            out = out.product(report).map(lambda pair: (*pair[0], pair[1]))
        return out

    return law


def test_equality_is_decided_exactly() -> None:
    universe = datasets([0, 1], 2, n_min=2, ordered=True)
    law = keeps(F(3, 4))  # the loss is ln 3
    tight = audit_exact(law, universe, neighbours="replace", epsilon=0, delta="1/2")
    assert tight.holds
    assert tight.slack >= 0
    assert not audit_exact(law, universe, neighbours="replace", epsilon=0, delta=F(1, 2) - F(1, 10**80)).holds
    exponential = audit_exact(
        lambda data: Law.from_blocks([0, 1], [0, 1], [data.count(0), data.count(1)], "1/3"),
        datasets([0, 1], 1, n_min=1),
        neighbours="replace",
        epsilon="1/3",
    )
    assert exponential.holds
    assert exponential.epsilon_found == F(1, 3)
    assert exponential.slack == 0


def test_a_difference_below_any_double_is_seen() -> None:
    def law(data: tuple[int, ...]) -> Law:
        return Law.from_weights({0: 1, 1: 1 + F(len(data), 10**60)})

    assert not audit_exact(law, datasets([0], 1), neighbours="add-remove", epsilon=0).holds
    assert audit_exact(law, datasets([0], 1), neighbours="add-remove", epsilon=F(1, 10**59)).holds


def test_delta_pays_for_an_outcome_only_one_side_has() -> None:
    delta = F(1, 1000)

    def law(data: tuple[int, ...]) -> Law:
        return Law.mixture([(1 - delta, Law.point(BOTTOM)), (delta, Law.point(sum(data)))])

    universe = datasets([1], 2)
    assert audit_exact(law, universe, neighbours="add-remove", epsilon=0, delta=delta).holds
    broken = audit_exact(law, universe, neighbours="add-remove", epsilon=50, delta=delta - F(1, 10**30))
    assert not broken.holds
    assert broken.epsilon_found == inf
    assert broken.slack == -inf
    assert "inf" in broken.explain()
    assert audit_exact(law, universe, neighbours="add-remove", epsilon=50).epsilon_found == inf


@given(st.sampled_from([F(0), F(1, 20), F(1, 5)]), st.sampled_from([F(1, 4), F(1, 2), F(2)]))
def test_the_epsilon_found_holds_and_nothing_clearly_smaller_does(delta: Fraction, eta: Fraction) -> None:
    universe = datasets(RECORDS[:4], 2)
    audit = audit_exact(thresholds(eta), universe, neighbours="add-remove", epsilon=5, delta=delta)
    found = audit.epsilon_found
    assert isinstance(found, Fraction)
    assert audit_exact(thresholds(eta), universe, neighbours="add-remove", epsilon=found, delta=delta).holds
    if found > 0:
        less = audit_exact(thresholds(eta), universe, neighbours="add-remove", epsilon=found * F(99, 100), delta=delta)
        assert not less.holds
        x, y = less.worst
        assert thresholds(eta)(x).hockey_stick(thresholds(eta)(y), found * F(99, 100)).lo > delta


# Objects with a law and a guarantee


@frozen(slots=False)
class Counting:
    """A mechanism as the audit sees one."""

    guarantee: Guarantee

    def law(self, scores: list[int]) -> Law:
        return Law.from_blocks([0, 1], [0, 1], scores, self.guarantee.epsilon)


def test_an_object_is_audited_against_its_own_guarantee() -> None:
    mechanism = Counting(Guarantee("1/2", unit="user", neighbours="add-remove"))
    audit = audit_exact(mechanism, datasets([0, 1], 3), build=lambda data: [data.count(0), data.count(1)])
    assert audit.holds
    assert (audit.epsilon, audit.delta, audit.neighbours) == (F(1, 2), F(0), Neighbours.ADD_REMOVE)
    assert not audit_exact(
        mechanism, datasets([0, 1], 3), neighbours="replace", build=lambda data: [data.count(0), data.count(1)]
    )


def test_each_law_is_computed_once() -> None:
    seen: Counter[Any] = Counter()

    def law(data: tuple[int, ...]) -> Law:
        seen[data] += 1
        return Law.from_blocks([0, 1], [0, 1], [len(data), 0], 1)

    audit_exact(law, datasets([0, 1], 3), neighbours="add-remove", epsilon=1)
    assert set(seen.values()) == {1}
    assert len(seen) == len(datasets([0, 1], 3))


def test_the_result_is_frozen_and_truthy_when_it_holds() -> None:
    audit = audit_exact(thresholds(1), datasets(RECORDS[:2], 1), neighbours="add-remove", epsilon=1)
    assert isinstance(audit, ExactAudit)
    assert bool(audit)
    assert "holds" in audit.explain()
    with pytest.raises(AttributeError):
        audit.holds = False  # type: ignore[misc]


# Bad input


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"epsilon": -1}, ParameterError),
        ({"epsilon": None}, ParameterError),
        ({"epsilon": float("nan")}, ParameterError),
        ({"epsilon": True}, TypeError),
        ({"delta": -1}, ParameterError),
        ({"delta": 1}, ParameterError),
        ({"neighbours": None}, ParameterError),
        ({"neighbours": "swap"}, ParameterError),
        ({"neighbours": 3}, TypeError),
    ],
)
def test_bad_claims_are_refused(change: dict[str, Any], error: type[Exception]) -> None:
    good: dict[str, Any] = {"neighbours": "add-remove", "epsilon": 1}
    with pytest.raises(error):
        audit_exact(thresholds(1), datasets(RECORDS, 1), **{**good, **change})


@pytest.mark.parametrize("universe", [[], [()], [(1,), (2, 2)], Universe(((),))])
def test_a_universe_without_neighbours_is_refused(universe: Any) -> None:
    with pytest.raises(ParameterError, match="nothing to audit"):
        audit_exact(lambda data: Law.point(0), universe, neighbours="add-remove", epsilon=1)


@pytest.mark.parametrize("law_of", [3, None, "law"])
def test_what_is_not_a_law_function_is_refused(law_of: Any) -> None:
    with pytest.raises(TypeError):
        audit_exact(law_of, datasets([0], 1), neighbours="add-remove", epsilon=1)


def test_a_function_that_returns_no_law_is_refused() -> None:
    with pytest.raises(TypeError, match="Law"):
        audit_exact(len, datasets([0], 1), neighbours="add-remove", epsilon=1)


def test_datasets_must_be_tuples() -> None:
    with pytest.raises(TypeError, match="tuple"):
        audit_exact(lambda data: Law.point(0), [[1], []], neighbours="add-remove", epsilon=1)  # type: ignore[list-item]


def test_a_domain_that_depends_on_the_data_is_an_error() -> None:
    with pytest.raises(LawError):
        audit_exact(
            lambda data: Law.from_blocks([0], [len(data)], [0], 1), datasets([0], 1), neighbours="add-remove", epsilon=1
        )


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: datasets([], 2), ParameterError),
        (lambda: datasets([0], -1), ParameterError),
        (lambda: datasets([0], 1, n_min=2), ParameterError),
        (lambda: datasets([0], 1.5), TypeError),  # type: ignore[arg-type]
        (lambda: user_universe([0], -1), ParameterError),
        (lambda: user_universe([0], 1, min_records=2), ParameterError),
        (lambda: user_universe([0], True), TypeError),
    ],
)
def test_bad_universes_are_refused(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
