"""Quantiles: costs against brute force, statements about ranks and intervals against exact laws, bad input."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.bounds import certify_quantile
from privpac.data import Categories, Dates, Floats, Grid, Integers, Missing, Texts, UserData
from privpac.distributions.quantiles import QuantileLearner, Quantiles, WalkQuantile
from privpac.distributions.quantiles.ranks import WeightedValues
from privpac.errors import InfeasibleError, ItemLevelWarning, ParameterError
from privpac.guarantee import Neighbours
from privpac.mechanisms.interior_point import InteriorPoint

TOP = 6
People = list[list[int]]
people_of = st.lists(st.lists(st.integers(0, TOP), max_size=4), max_size=5)
Q = st.sampled_from([Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)])


def users(people: People, domain: Any = None) -> UserData:
    return UserData.from_users(people, features={"x": domain or Integers(0, TOP)}, labelled=False)


def plain_votes(held: list[int], q: Fraction, linear: bool) -> list[int]:
    """Both votes of somebody for their own quantile, as the specification says it."""
    low = next(v for v in held if sum(w <= v for w in held) >= q * len(held))
    high = next(v for v in reversed(held) if sum(w >= v for w in held) >= (1 - q) * len(held))
    return [(low + high) // 2, -(-(low + high) // 2)] if linear else [low, high]


def plain_weights(people: People, weight: str, levels: int, q: Fraction, linear: bool = True) -> dict[int, int]:
    found: dict[int, int] = {}
    for person in people:
        held, m = sorted(person), len(person)
        if weight == "own":
            counted = [(vote, 1) for vote in (plain_votes(held, q, linear) if held else [])]
        else:
            share = [levels * (i + 1) // m - levels * i // m if weight == "user" else 1 for i in range(m)]
            counted = list(zip(held, share))
        for value, w in counted:
            found[value] = found.get(value, 0) + w
    return {value: w for value, w in found.items() if w}


def plain_cost(held: dict[int, int], z: int, q: Fraction, end: str, shift: int) -> int:
    a, b = q.as_integer_ratio()
    whole = sum(held.values())
    left = b * sum(w for v, w in held.items() if v < z) - a * whole
    right = b * sum(w for v, w in held.items() if v > z) - (b - a) * whole
    if end == "lower":
        return max(left + (shift if z > 0 else 0), right - shift)
    if end == "upper":
        return max(left - shift, right + (shift if z < TOP else 0))
    return max(left, right)


@given(people_of, Q, st.sampled_from(["user", "own", "record"]), st.integers(0, 5), st.booleans())
def test_weights_are_the_plain_ones_and_merge(people: People, q: Fraction, weight: str, cut: int, linear: bool) -> None:
    kernel = WeightedValues("x", weight, 12, q, linear)
    whole = kernel.chunk(users(people))
    parts = kernel.merge(kernel.chunk(users(people[:cut])), kernel.chunk(users(people[cut:])))
    wanted = plain_weights(people, weight, 12, q, linear)
    for found in (whole, parts, kernel.merge(kernel.zero(), whole)):
        assert dict(zip(found.codes.tolist(), found.weights.tolist())) == wanted


@given(people_of, Q, st.sampled_from(["point", "lower", "upper"]))
@settings(deadline=None)
def test_costs_are_the_plain_ones(people: People, q: Fraction, end: str) -> None:
    learner = QuantileLearner(2, q, weight="own")
    ranks = learner.ranks(q, Integers(0, TOP))
    values = WeightedValues("x", "own", 2, q, linear=True).chunk(users(people))
    starts, ends, costs = ranks.costs(values, end)
    held = plain_weights(people, "own", 2, q)
    found = {z: int(c) for lo, hi, c in zip(starts, ends, costs) for z in range(int(lo), int(hi) + 1)}
    assert found == {z: plain_cost(held, z, q, end, ranks.reach) for z in range(TOP + 1)}


@given(people_of, Q, st.sampled_from(["user", "own"]), st.sampled_from(["add-remove", "replace"]))
@settings(deadline=None)
def test_statements_hold_for_all_data(people: People, q: Fraction, weight: str, neighbours: str) -> None:
    """Exactly: the law's mass where a statement is false is at most what one draw may miss."""
    learner = QuantileLearner(4, q, neighbours=neighbours, weight=weight, interval=True, confidence="0.7")
    ranks = learner.ranks(q, Integers(0, TOP))
    held = plain_weights(people, weight, learner.levels, q)
    whole = sum(held.values())

    def below(z: int) -> int:
        return sum(w for v, w in held.items() if v < z)

    def above(z: int) -> int:
        return sum(w for v, w in held.items() if v > z)

    room = ranks.missed * learner.levels
    false = {
        "point": lambda z: below(z) > q * whole + room or above(z) > (1 - q) * whole + room,
        "lower": lambda z: below(z) > q * whole,
        "upper": lambda z: above(z) > (1 - q) * whole,
    }
    for end, wrong in false.items():
        law = learner.law(users(people), end=end)
        mass = sum(float(law.prob(z)) for z in range(TOP + 1) if wrong(z))
        assert mass <= float(ranks.beta) * (1 + 1e-9)


def test_a_smaller_shift_would_not_hold() -> None:
    """The refuter above can fail: without a shift the lower end is too high about half of the time."""
    people = [[k] for k in range(TOP + 1)]
    law = QuantileLearner("1/4", "1/2", weight="own").law(users(people))
    assert sum(float(law.prob(z)) for z in range(4, TOP + 1)) > 0.2


@pytest.mark.parametrize(
    ("domain", "low", "high", "between"),
    [
        (Integers(0, 10), 0, 10, [5]),
        (Missing(Integers(-5, 10), "drop"), -4, 9, [2, 3]),
        (Grid(0, 5, "0.5"), 0, 5, [2.5]),
        (Dates("2024-01-01", "2024-01-11"), "2024-01-02", "2024-01-08", ["2024-01-05"]),
        (Integers(0, (1 << 64) - 1), 0, (1 << 64) - 1, [(1 << 63) - 1, 1 << 63]),
        (Floats(), 1.0, 100.0, [1.0, 100.0]),
        (Categories(["a", "b", "c", "d"], ordered=True), "a", "d", ["a", "d"]),
    ],
    ids=str,
)
def test_an_even_number_of_records_has_its_median_in_the_middle(domain: Any, low: Any, high: Any, between: Any) -> None:
    """Everybody holds the same two (or eight) values: the median of their own medians lies between both, not at the
    lower one."""
    for person in ([low, high], [low] * 4 + [high] * 4):
        data = users([person] * 400, domain)
        law = QuantileLearner(8, "1/2", weight="own").law(data)
        codes = domain.encode(between)[0].tolist()
        if domain.linear:
            assert sum(law.prob_float(code) for code in codes) > 1 - 1e-9
        else:  # both middles alike, and whatever lies between
            assert float(law.prob(codes[0])) == pytest.approx(float(law.prob(codes[-1])))
    for weight, q in (("own", "1/3"), ("own", "1/2")):  # an odd number, or no whole place: one value
        law = QuantileLearner(8, q, weight=weight).law(users([[low, low, high, high, high]] * 400, domain))
        wanted = domain.encode([high if q == "1/2" else low])[0][0]
        assert float(law.prob(int(wanted))) > 1 - 1e-9


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("q", ["1/2", "1/3", "9/10"])
def test_two_votes_for_one_value_are_the_law_of_one_vote(neighbours: str, q: str) -> None:
    people = users([[3], [1, 1, 5], [], [0], [6], [2]], Integers(0, TOP))  # no place is whole for 1/2 and 9/10
    people = users([[3], [0], [], [6]], Integers(0, TOP)) if q == "1/3" else people
    two = QuantileLearner(1, q, neighbours=neighbours, weight="own")
    one = QuantileLearner(1, q, neighbours=neighbours, weight="own", max_records=1)
    assert (two.levels, one.levels) == (2, 1)
    kernel = WeightedValues("x", "own", 1, two.q[0])
    single = one.ranks(two.q[0], Integers(0, TOP)).law(kernel.chunk(people))
    double = two.law(people)
    assert [double.prob_float(z) for z in range(TOP + 1)] == pytest.approx(
        [single.prob_float(z) for z in range(TOP + 1)], rel=1e-12
    )
    errors = [learner.ranks(learner.q[0], Integers(0, TOP)).missed for learner in (one, two)]
    assert errors[0] <= errors[1] <= errors[0] + Fraction(1, 2 * two.q[0].denominator)


# Releases


def test_several_quantiles_with_intervals_are_ordered_saved_and_loaded(tmp_path: Path) -> None:
    people = users([[k, k + 1] for k in range(2000)], Integers(0, 5000))
    released = pp.quantile(people, "x", q=["1/4", "1/2", "3/4"], epsilon=20, interval=True)
    found = released.value
    assert list(found.values) == sorted(found.values)
    for value, (low, high), true in zip(found.values, found.intervals, (500, 1000, 1500)):
        assert low <= value <= high
        assert low - 1 <= true <= high + 1
        assert high - low < 200
    assert found["1/2"] == found.values[1]
    released.save(tmp_path / "q.json")
    assert pp.load(tmp_path / "q.json").value == found
    assert "9 " not in str(released.guarantee)
    assert released.parameters["numbers released"] == 9


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        (Floats(), [0.5, -3.25, 1e300]),
        (Grid(0, 1, "0.25"), [0.25, 0.5, 1]),
        (Dates("2020-01-01", "2020-12-31"), ["2020-02-03", "2020-05-01"]),
        (Categories(["low", "middle", "high"], ordered=True), ["low", "high"]),
        (Integers(-(2**63), 2**63 - 1), [0, 1, -5]),
        (Integers(7, 7), [7]),
    ],
)
def test_ordered_domains_of_every_kind(domain: Any, values: list[Any]) -> None:
    held = users([[v] for v in values] * 40, domain)
    found = pp.quantile(held, epsilon=3, interval=True).value
    assert found.domain == domain
    assert str(found).startswith("x: median ")


def test_nobody_and_people_without_records_are_no_error() -> None:
    for people in ([], [[]], [[], [3]]):
        assert pp.quantile(users(people), epsilon=1, q="0.9").outcome == "released"


def test_big_domains_are_accurate() -> None:
    held = users([[10.0 + k / 100] for k in range(1000)], Floats())
    found = pp.quantile(held, epsilon=1).value
    assert 13 < found.value < 17
    assert 47 < found.rank_error < 48
    assert found.off_by(1000) < 0.05


def test_heavy_people_count_once() -> None:
    held = users([[0] * 10_000, *([[5]] * 60)], Integers(0, TOP))
    assert pp.quantile(held, epsilon=8).value.value == 5
    assert pp.quantile(held, epsilon=8, weight="record", max_records=10_000).value.rank_error > 1000


def test_the_spend_is_in_the_ledger(tmp_path: Path) -> None:
    ledger = pp.BudgetLedger.create(
        tmp_path / "b.db", pp.Guarantee(2, unit="user", neighbours="add-remove"), dataset="made up"
    )
    released = pp.quantile(users([[1], [2]]), epsilon="3/2", q=["1/4", "3/4"], ledger=ledger)
    assert ledger.remaining().epsilon == Fraction(1, 2)
    assert "budget left" in released.parameters


# Bad input


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"q": 0}, "> 0"),
        ({"q": []}, "one quantile"),
        ({"q": ["1/2", "0.5"]}, "different"),
        ({"q": "0.12345"}, "denominator"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": "1e-30"}, "too small"),
        ({"weight": "people"}, "weight must be"),
        ({"weight": "record"}, "max_records"),
        ({"confidence": 1}, "confidence"),
        ({"method": "magic"}, "method must be"),
        ({"method": "walks", "delta": "1e-6", "weight": "own"}, "public_n_users"),
        ({"method": "walks", "weight": "own", "public_n_users": 9999}, "delta"),
        ({"method": "walks", "delta": "1e-6", "public_n_users": 9999}, "one vote"),
        ({"method": "walks", "delta": "1e-6", "public_n_users": 5, "weight": "own"}, "people are needed"),
        ({"neighbours": "some"}, "neighbours"),
        ({"delta": -1}, "delta"),
    ],
)
def test_bad_parameters_are_refused_before_a_spend(options: dict[str, Any], words: str) -> None:
    with pytest.raises((ParameterError, InfeasibleError), match=words):
        pp.quantile(users([[1]]), **{"epsilon": 1, **options})


def test_columns_without_order_or_name_are_refused() -> None:
    two = UserData.from_users([[(1, 2)]], features={"x": Integers(0, 9), "y": Integers(0, 9)}, labelled=False)
    with pytest.raises(ParameterError, match="name the column"):
        pp.quantile(two, epsilon=1)
    texts = UserData.from_users([["a"]], features={"word": Texts()}, labelled=False)
    with pytest.raises(ParameterError, match="no order"):
        pp.quantile(texts, epsilon=1)


def test_missing_values_have_no_rank() -> None:
    people = [[1], [2]]
    with pytest.raises(ParameterError, match="no place in the order"):
        pp.quantile(users(people, Missing(Integers(0, TOP), "own")), epsilon=1)
    assert pp.quantile(users(people, Missing(Integers(0, TOP), "drop")), epsilon=1).value.value <= TOP


def test_an_epsilon_too_small_for_one_of_several_is_refused_before_a_spend() -> None:
    assert QuantileLearner("1e-11", "1/2")
    for q in (["999/1000"], ["1/2", "999/1000"], ["1/1000", "1/2"]):
        with pytest.raises(ParameterError, match="too small"):
            QuantileLearner("1e-11", q)


def test_items_are_said_loudly() -> None:
    import polars as pl

    table = UserData.from_frame(pl.DataFrame({"x": [1, 2, 3]}), user=None, features={"x": Integers(0, 9)})
    with pytest.warns(ItemLevelWarning):
        released = pp.quantile(table, epsilon=1)
    assert released.warnings
    assert released.value.rounding == 0


def test_damaged_files_are_refused() -> None:
    found = Quantiles("x", Integers(0, 9), (Fraction(1, 2),), (3,))
    body = found.to_dict()
    assert Quantiles.from_dict(body) == found
    for change in ({"codes": [99]}, {"codes": []}, {"q": [2]}, {"codes": [1.5]}, {"domain": {"kind": "none"}}):
        with pytest.raises((ParameterError, TypeError)):
            Quantiles.from_dict(body | change)


# Hidden walks, interior points


def test_walks_find_the_median_with_enough_people() -> None:
    held = users([[k] for k in range(2000)], Integers(0, 1 << 20))
    learner = WalkQuantile(1, "1/2", weight="own", delta="1e-6", public_n_users=2000)
    assert learner.guarantee.delta == Fraction(1, 10**6)
    released = pp.quantile(held, epsilon=1, method="walks", delta="1e-6", public_n_users=2000, weight="own")
    if released:
        off = float(released.value.rank_error)
        assert abs(released.value.value - 1000) <= off + 1
    ranks = pp.quantile(held, epsilon=1, weight="own").value
    assert ranks.rank_error < learner.missed_by(learner.point(Integers(0, 1 << 20)))


def test_interior_points_are_released_through_a_ledger(tmp_path: Path) -> None:
    point = InteriorPoint.median(2, top=2**200, n_users=2000)
    ledger = pp.BudgetLedger.create(
        tmp_path / "b.db", pp.Guarantee(2, unit="user", neighbours="add-remove"), dataset="made up"
    )
    released = pp.release(point, [2**100 + k for k in range(2000)], ledger=ledger)
    assert 2**100 <= released.value < 2**100 + 2000
    assert ledger.remaining().epsilon == 0
    with pytest.raises(TypeError):
        pp.release(point, ["no number"])


# The certificate


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_certified_people_suffice(neighbours: Neighbours) -> None:
    """Exactly, on data that make it hard: two clusters far apart, and all on one value."""
    size, alpha, beta = 64, Fraction(1, 5), Fraction(1, 10)
    n = certify_quantile(1, beta, alpha, size=size, neighbours=neighbours).n_users
    assert n is not None
    learner = QuantileLearner(1, "1/2", neighbours=neighbours, weight="own", confidence=1 - beta)
    for values in ([0] * (n // 2) + [size - 1] * (n - n // 2), [7] * n, list(np.arange(n) % size)):
        law = learner.law(users([[int(v)] for v in values], Integers(0, size - 1)))
        held = np.array(values)
        wrong = [z for z in range(size) if max((held < z).sum(), (held > z).sum()) > (Fraction(1, 2) + alpha) * n]
        assert sum(float(law.prob(z)) for z in wrong) <= beta
