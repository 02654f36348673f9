"""Trimmed selection: the sweep equals the table, the distance moves by one step at most, and nothing leaks about a
failed test."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from privpac.bounds import width_iid
from privpac.data import Floats, Integers, UserData
from privpac.errors import IncompatibleGuarantees, InfeasibleError, NoReleaseError, ParameterError, TooLargeError
from privpac.guarantee import Guarantee
from privpac.law import BOTTOM
from privpac.ledger import BudgetLedger
from privpac.methods import TrimmedSelection, WithFallback, group_privacy, one_record_per_user
from privpac.methods.regret import RegretSelection
from privpac.methods.trimmed import (
    MAX_TRIM_CELLS,
    NOTHING,
    TrimDesign,
    contributions,
    distance_of,
    spreads,
    trimmed_profile,
    trimmed_sums,
)
from privpac.result import NoRelease, Released
from privpac.rules import FiniteClass, Intervals, Points, Stumps, Thresholds
from privpac.testing import SeededRng, insecure_randomness

TOP = (1 << 64) - 1
values = st.sampled_from([0, 1, 2, 5, 1 << 63, TOP])
users_of = st.lists(st.lists(st.tuples(values, st.integers(0, 1)), max_size=4), min_size=3, max_size=9)


def brute(
    said: Any, labels: Any, offsets: Any, levels: int, counts: bool, trim: int, ladder: int, width: int
) -> tuple[list[int], int]:
    """Trimmed sums of the listed rules (records by rules) and the distance, by the definition."""
    n = len(offsets) - 1
    sums, worst = [], [0] * (ladder + 1)
    for h in range(said.shape[1]):
        xs = []
        for u in range(n):
            own = range(offsets[u], offsets[u + 1])
            wrong, m = sum(int(said[r, h] != labels[r]) for r in own), len(own)
            rate = levels // 2 if m == 0 else int(Fraction(levels * wrong, m) + Fraction(1, 2))
            xs.append(min(wrong, levels) if counts else rate)
        xs.sort()
        sums.append(sum(xs[trim : n - trim]))
        for k in range(ladder + 1):
            worst[k] = max(worst[k], *(xs[n - trim + a] - xs[trim - 1 - (k - a)] for a in range(k + 1)))
    return sums, next((j for j in range(ladder + 1) if worst[ladder - j] <= width), ladder + 1)


def cut_said(codes: Any, cuts: Sequence[int], above: bool) -> Any:
    return np.array([[int((int(c) >= cut) == above) for cut in cuts] for c in codes]).reshape(len(codes), len(cuts))


# The sweep


@given(users_of, st.integers(1, 6), st.booleans(), st.integers(1, 3), st.data())
@settings(deadline=None, max_examples=150)
def test_the_sweep_over_2_64_values_equals_the_definition(
    users: list[list[tuple[int, int]]], levels: int, counts: bool, width: int, data: st.DataObject
) -> None:
    trim = data.draw(st.integers(1, (len(users) - 1) // 2))
    ladder = data.draw(st.integers(0, trim - 1))
    design = TrimDesign(trim, ladder, width, Fraction(1, 2), 0.0)
    concept = Thresholds(Integers(0, TOP), "x", "both")
    bound = UserData.from_users(users, features={"x": Integers(0, TOP)})
    found = trimmed_profile(
        concept, bound.codes, bound.labels, bound.offsets, levels=levels, counts=counts, design=design
    )
    cuts = [0, 1, 2, 3, 5, 6, 1 << 63, (1 << 63) + 1, TOP, TOP + 1]
    said = np.concatenate([cut_said(bound.codes["x"], cuts, above) for above in (True, False)], axis=1)
    sums, distance = brute(said, bound.labels, bound.offsets, levels, counts, trim, ladder, width)
    ids = [*cuts, *(TOP + 2 + cut for cut in cuts)]
    assert [found.profile.score(h) for h in ids] == sums
    assert found.distance == distance


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=40)
def test_sweep_of_stumps_equals_the_table_of_the_same_rules(seed: int) -> None:
    rng = random.Random(seed)
    n = rng.randrange(3, 12)
    users = [
        [(rng.randrange(4), rng.randrange(3), rng.randrange(2)) for _ in range(rng.randrange(5))] for _ in range(n)
    ]
    features = {"a": Integers(0, 3), "b": Integers(0, 2)}
    data = UserData.from_users(users, features=features)
    stumps = Stumps(features)
    points = {
        name: np.array([a if name == "a" else b for a in range(4) for b in range(3)], dtype=np.uint64)
        for name in features
    }
    table = FiniteClass(np.stack([stumps.predictions(points, h) for h in range(stumps.size)]), features)
    trim = rng.randrange(1, (n - 1) // 2 + 1)
    design = TrimDesign(trim, rng.randrange(trim), rng.randrange(1, 4), Fraction(1, 2), 0.0)
    given_: dict[str, Any] = {"levels": rng.randrange(1, 9), "counts": rng.random() < 0.5, "design": design}
    swept = trimmed_profile(stumps, data.codes, data.labels, data.offsets, **given_)
    dense = trimmed_profile(table, data.codes, data.labels, data.offsets, **given_)
    assert [swept.profile.score(h) for h in range(stumps.size)] == [dense.profile.score(h) for h in range(stumps.size)]
    assert swept.distance == dense.distance


def test_classes_without_a_sweep_are_tabulated() -> None:
    rng = random.Random(3)
    users = [[(rng.randrange(5), rng.randrange(2)) for _ in range(rng.randrange(4))] for _ in range(9)]
    data = UserData.from_users(users, features={"x": Integers(0, 4)})
    design = TrimDesign(3, 2, 1, Fraction(1, 2), 0.0)
    for concept in (Intervals(Integers(0, 4), "x"), Points(Integers(0, 4), "x")):
        found = trimmed_profile(concept, data.codes, data.labels, data.offsets, levels=3, counts=False, design=design)
        said = np.stack([concept.predictions(data.codes, h) for h in range(concept.size)], axis=1)
        sums, distance = brute(said, data.labels, data.offsets, 3, False, 3, 2, 1)
        assert [found.profile.score(h) for h in range(concept.size)] == sums
        assert found.distance == distance


# Order statistics


@given(st.lists(st.integers(0, 6), min_size=3, max_size=11), st.integers(0, 10), st.integers(0, 6), st.data())
@settings(deadline=None, max_examples=150)
def test_one_user_moves_the_distance_by_one_and_a_close_sum_by_the_width(
    xs: list[int], i: int, new: int, data: st.DataObject
) -> None:
    trim = data.draw(st.integers(1, (len(xs) - 1) // 2))
    ladder, width = data.draw(st.integers(0, trim - 1)), data.draw(st.integers(1, 6))
    ys = [*xs]
    ys[i % len(xs)] = new
    found = []
    for values_ in (xs, ys):
        column = np.sort(np.array(values_))[:, None]
        wide = spreads(column, trim, ladder)
        assert (np.diff(wide) >= 0).all()
        found.append(
            (
                distance_of(int(np.searchsorted(wide, width, side="right")) - 1, ladder),
                int(trimmed_sums(column, trim)[0]),
            )
        )
    assert abs(found[0][0] - found[1][0]) <= 1
    if min(found[0][0], found[1][0]) <= ladder:
        assert abs(found[0][1] - found[1][1]) <= width


@given(
    users_of,
    st.integers(0, 8),
    st.lists(st.tuples(values, st.integers(0, 1)), max_size=5),
    st.booleans(),
    st.integers(1, 4),
)
@settings(deadline=None, max_examples=80)
def test_replacing_a_user_by_any_list_moves_the_distance_by_one(
    users: list[list[tuple[int, int]]], i: int, new: list[tuple[int, int]], counts: bool, width: int
) -> None:
    other = [*users]
    other[i % len(users)] = new
    trim = (len(users) - 1) // 2
    design = TrimDesign(trim, trim - 1, width, Fraction(1, 2), 0.0)
    far = []
    for crowd in (users, other):
        data = UserData.from_users(crowd, features={"x": Integers(0, TOP)})
        concept = Thresholds(Integers(0, TOP), "x", "both")
        found = trimmed_profile(concept, data.codes, data.labels, data.offsets, levels=4, counts=counts, design=design)
        far.append(found.distance)
    assert abs(far[0] - far[1]) <= 1


def test_contributions_are_rates_in_exact_steps() -> None:
    mistakes, sizes = np.array([[0, 1, 2, 3]] * 2), np.array([3, 0])
    assert contributions(mistakes, sizes, 10, counts=False).tolist() == [[0, 3, 7, 10], [5] * 4]
    assert contributions(mistakes, sizes, 2, counts=True).tolist() == [[0, 1, 2, 2]] * 2


# The learner


def learner(**changes: Any) -> TrimmedSelection:
    given_: dict[str, Any] = {"delta": "1e-3", "levels": 4, "trim": 4, "ladder": 3, "width": 1, "share": "1/2"}
    return TrimmedSelection(Thresholds(), 8, **(given_ | changes))


def crowd(n: int = 20, odd: int = 0) -> UserData:
    """Users who agree on the cut 5, and some who say the opposite."""
    records = [(2, 0), (4, 0), (5, 1), (9, 1)]
    return UserData.from_users(
        [*[records] * n, *[[(x, 1 - y) for x, y in records]] * odd], features={"x": Integers(0, 9)}
    )


def test_the_order_of_users_and_records_does_not_matter() -> None:
    rng = random.Random(1)
    users = [[(rng.randrange(10), rng.randrange(2)) for _ in range(rng.randrange(5))] for _ in range(11)]
    features = {"x": Integers(0, 9)}
    law = learner().law(UserData.from_users(users, features=features))
    shuffled = [rng.sample(user, len(user)) for user in rng.sample(users, len(users))]
    assert learner().law(UserData.from_users(shuffled, features=features)).satisfies(law, 0)


@pytest.mark.parametrize("n", [9, 20])
def test_equal_users_are_at_distance_0(n: int) -> None:
    """n = 2 trim + 1 included."""
    few = learner()
    bound = few.bind(crowd(n))
    assert few.scores(bound).distance == 0
    assert few.law(crowd(n)).prob_exact(BOTTOM) == 1 - few._test(Fraction(1, 2), 3).curve[0]


def test_a_ladder_of_nothing_is_allowed() -> None:
    law = learner(trim=1, ladder=0).law(crowd(3))
    assert law.prob_exact(BOTTOM) == 1 - Fraction(1, 1000)


def test_outliers_bring_the_distance_up_step_by_step() -> None:
    few = learner()
    far = [few.scores(few.bind(crowd(20, odd))).distance for odd in range(6)]
    assert far == [0, 1, 2, 3, 4, 4]


def test_a_release_and_nothing_both_carry_the_guarantee_and_no_diagnostics() -> None:
    with insecure_randomness():
        some = learner().learn(crowd(), rng=SeededRng(1))
        none = learner().learn(crowd(20, 10), rng=SeededRng(1))
    assert some.outcome == "released"
    assert str(some.value) == "1 when x > 4"
    assert (none.outcome, none.value, bool(none)) == ("none", NoRelease, False)
    assert set(none.parameters) == set(some.parameters) - {"size"}
    assert none.parameters == {name: some.parameters[name] for name in none.parameters}
    assert none.warnings == (NOTHING,)
    with pytest.raises(NoReleaseError):
        none.predict([[1]])
    assert Released.from_json(none.to_json()) == none
    real = learner().learn(crowd(20, 10))
    assert str(real.guarantee) == "(8, 0.001)-DP per user, replace"
    assert NOTHING in str(real)


def test_the_budget_is_spent_also_when_nothing_comes_out(tmp_path: Any) -> None:
    budget = Guarantee(10, "1e-2", unit="user", neighbours="replace")
    ledger = BudgetLedger(tmp_path / "budget.db", budget, dataset="made up")
    assert learner().learn(crowd(20, 10), ledger=ledger).outcome == "none"
    assert ledger.remaining().epsilon == 2


def test_fallbacks_are_declared_and_paid_for() -> None:
    bad, rule = crowd(20, 10), Thresholds(Integers(0, 9), "x").decode(5)
    stood_in = WithFallback(learner(), rule).learn(bad)
    assert (stood_in.outcome, stood_in.value, stood_in.warnings) == ("default", rule, ())
    assert str(stood_in.guarantee) == "(8, 0.001)-DP per user, replace"
    second = WithFallback(learner(), RegretSelection(Thresholds(), 1, neighbours="replace"))
    for data in (bad, crowd()):
        found = second.learn(data)
        assert found.outcome == "released"
        assert (found.guarantee.epsilon, found.guarantee.delta) == (9, Fraction(1, 1000))
    with pytest.raises(IncompatibleGuarantees):
        WithFallback(learner(), RegretSelection(Thresholds(), 1))
    with pytest.raises(TypeError):
        WithFallback(learner(), None)
    with pytest.raises(TypeError):
        WithFallback("x", 1)  # type: ignore[arg-type]


def test_designs_follow_from_public_numbers_and_answer_with_independent_users() -> None:
    """The width fails at most once in a thousand; of 60 crowds, more than 3 fail with probability below 1e-6."""
    m, n, failures = 40, 240, 0
    few = TrimmedSelection(Thresholds(), 4, delta="1e-4", records_per_user=m)
    rng = np.random.default_rng(8)
    for _ in range(60):
        x = rng.integers(0, 100, (n, m))
        y = (x >= 50) ^ (rng.random((n, m)) < 0.2)
        data = UserData.from_arrays(
            x.reshape(-1, 1), y.ravel().astype(int), np.repeat(np.arange(n), m), features={"x": Integers(0, 99)}
        )
        bound = few.bind(data)
        failures += few.scores(bound).distance > 0
    assert binom.sf(3, 60, 0.001) < 1e-6
    assert failures <= 3
    assert bound.design.width < m


def test_ideal_users_are_answered_whatever_their_number_of_records() -> None:
    """Nothing is answered at most once in a thousand crowds; of 36, more than 2 fail with probability below 1e-6 (half
    is the coin's)."""
    failures = 0
    for m in (1, 2, 5, 10, 20, 30, 50, 64, 100):
        learner = TrimmedSelection(Thresholds(), 1, delta="1e-6", records_per_user=m)
        for seed in range(4):
            rng = np.random.default_rng((m, seed))
            n = 5000 if m <= 30 else 1000
            x = rng.integers(0, 40, n * m)
            y = (x >= 16) ^ (rng.random(n * m) < 0.2)
            data = UserData.from_arrays(x, y.astype(int), np.repeat(np.arange(n), m), features={"x": Integers(0, 39)})
            bound = learner.bind(data)
            failures += learner.scores(bound).distance > 0
    assert binom.sf(2, 36, 0.0005) < 1e-6
    assert failures <= 2


def test_the_failure_is_shared_by_test_and_width() -> None:
    learner = TrimmedSelection(Thresholds(), 2, delta="1e-5", records_per_user=10, failure="1/100")
    design = learner.design(600, 50)
    assert learner._test(design.share, design.ladder).curve[0] >= 1 - Fraction(1, 200)
    assert design.width >= width_iid(600, 10, design.trim, design.ladder, 50, "1/200")


def test_cuts_at_users_own_values_leave_their_holder_out_of_the_count() -> None:
    """2^64 cuts are at most as many as there are values, but the user who holds the value is not independent of the
    cut."""
    learner = TrimmedSelection(Thresholds(), 2, delta="1e-5", records_per_user=10)
    many, column = learner.design(600, (1 << 64) + 1), learner.design(600, 2 << 64, columns=2)
    few = learner.design(600, 6001)
    assert many.width >= width_iid(599, 10, many.trim - 1, many.ladder, 6001, "1/2000") >= 1
    assert few.noise <= many.noise <= column.noise
    pairs = TrimmedSelection(Intervals(), 2, delta="1e-5", records_per_user=10)
    assert (
        pairs.design(600, 1 << 40).noise >= few.noise
    )  # all rules: no two values of users fix an interval of their own


def test_rates_with_other_scales_have_scaled_widths() -> None:
    few = TrimmedSelection(Thresholds(), 4, delta="1e-4", records_per_user=40)
    fine = few.with_(levels=400)
    assert fine.design(240, 100).width >= 10 * few.design(240, 100).width
    counts = few.with_(contribution="counts", levels=10)
    assert counts.design(240, 100).width <= 10
    partly = few.with_(trim=60)
    assert partly.design(240, 100).trim == 60
    assert 1 <= partly.design(240, 100).width <= 40


def test_floats_tables_and_baselines() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=400)
    frame = pd.DataFrame({"who": np.repeat(np.arange(40), 10), "x": x, "y": (x > 0.3).astype(int)})
    data = UserData.from_frame(frame, user="who", features={"x": Floats()}, label="y")
    wide = TrimmedSelection(Thresholds(), 8, delta="1e-3", levels=10, trim=8, ladder=5, width=4, share="1/2")
    assert wide.learn(data).outcome in ("released", "none")
    narrow = wide.with_(levels=1, width=1)
    assert one_record_per_user(narrow).learn(data).outcome in ("released", "none")
    assert one_record_per_user(narrow, "random").learn(data).outcome in ("released", "none")
    group = group_privacy(narrow.with_(max_records=2), 2)
    assert group.guarantee.epsilon == 8
    assert Fraction(999, 10**6) < group.guarantee.delta <= Fraction(1, 1000)
    assert group.learn(data).guarantee == group.guarantee


def test_a_random_record_is_uniform_over_each_users_own() -> None:
    data = UserData.from_users([[(0, 0), (1, 1)], [(1, 0)], []], features={"x": Integers(0, 1)})
    inner = RegretSelection(Thresholds(), 1, public_n_users=3)
    law = one_record_per_user(inner, "random").law(data)
    parts = [
        inner.law(UserData.from_users(users, features={"x": Integers(0, 1)}))
        for users in ([[(0, 0)], [(1, 0)], []], [[(1, 1)], [(1, 0)], []])
    ]
    for h in range(3):
        mean = sum(float(part.prob(h)) for part in parts) / 2
        assert float(law.prob(h)) == pytest.approx(mean, rel=1e-12)
    many = UserData.from_users([[(0, 0)] * 9] * 9, features={"x": Integers(0, 1)})
    with pytest.raises(TooLargeError, match="choices"):
        one_record_per_user(inner, "random").law(many)
    with pytest.raises(ParameterError, match="record"):
        one_record_per_user(inner, "best")


# Public failures, before data are read


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"width": 0}, "width"),
        ({"delta": 0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"trim": 3}, "trim must exceed ladder"),
        ({"trim": 0}, "trim"),
        ({"share": 1}, "share"),
        ({"contribution": "sums"}, "contribution"),
        ({"levels": 1 << 40}, "levels"),
        ({"levels": None}, "records_per_user"),
        ({"width": None}, "width"),
        ({"neighbours": "add-remove"}, "declare slots"),
        ({"slots": 9}, "leave slots out"),
        ({"failure": 0}, "failure"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_parameters_are_refused_when_the_learner_is_made(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        learner(**changes)


def test_too_few_users_and_too_many_rules_are_refused_from_public_numbers() -> None:
    with pytest.raises(InfeasibleError, match="needs more than 8"):
        learner().bind(crowd(8))
    with pytest.raises(InfeasibleError, match="too few users"):
        TrimmedSelection(Thresholds(), 1, delta="1e-6", records_per_user=4).bind(crowd())
    with pytest.raises(InfeasibleError):
        learner(neighbours="add-remove", slots=8).bind(crowd())
    big = TrimmedSelection(Intervals(), 8, delta="1e-3", levels=4, trim=4, ladder=3, width=1)
    wide = UserData.from_users([[(1, 0)]] * 100, features={"x": Integers(0, 4_999)})
    assert Intervals(Integers(0, 4_999)).size * 100 > MAX_TRIM_CELLS
    with pytest.raises(TooLargeError, match="users times rules"):
        big.bind(wide)
    with pytest.raises(ParameterError, match="larger trim or share"):
        TrimmedSelection(Thresholds(), 1, delta="1e-6", levels=4, trim=4, width=1).bind(crowd())
    with pytest.raises(TypeError, match="UserData"):
        learner().learn([[1, 2]])  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="epsilon"):
        TrimmedSelection(Thresholds(), 0, delta="1e-3", levels=4, width=1)
