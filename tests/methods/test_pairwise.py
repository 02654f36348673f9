"""Pairwise selection: fast scores equal the definition, competitors are other rules, parameters are public and
checked."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privpac.bounds import plan_pairwise
from privpac.data import Domain, Floats, Integers, UserData
from privpac.errors import AccuracyWarning, IncompatibleGuarantees, ParameterError, SchemaError, TooLargeError
from privpac.methods.trimmed import Gather, joined
from privpac.papers.few_examples_per_user import pairwise_scores as fold
from privpac.papers.few_examples_per_user.pairwise import PairwiseSelection, growing_clip
from privpac.papers.few_examples_per_user.pairwise_scores import gains_of
from privpac.rules import (
    Conjunctions,
    DecisionLists,
    FiniteClass,
    Halfspaces,
    Intervals,
    Parities,
    Points,
    Rectangles,
    Stumps,
    Thresholds,
)
from privpac.rules.base import ConceptClass
from privpac.rules.profile import Profile
from privpac.testing import SeededRng, insecure_randomness

Columns = Mapping[str, Domain]
Users = list[list[tuple[int, ...]]]

LINE: Columns = {"x": Integers(0, 5)}
PLANE: Columns = {"x": Integers(0, 3), "y": Integers(0, 1)}
BITS: Columns = {"a": Integers(0, 1), "b": Integers(0, 1)}

SWEPT: dict[str, tuple[ConceptClass, Columns]] = {
    "above": (Thresholds(), LINE),
    "below": (Thresholds(direction="below"), LINE),
    "both": (Thresholds(direction="both"), LINE),
    "stumps": (Stumps(), PLANE),
    "stumps above": (Stumps(direction="above"), PLANE),
    "points": (Points(), LINE),
    "points and zero": (Points(zero=True), LINE),
}
TABLED: dict[str, tuple[ConceptClass, Columns]] = {
    "intervals": (Intervals(), LINE),
    "rectangles": (Rectangles(PLANE), PLANE),
    "conjunctions": (Conjunctions(BITS), BITS),
    "decision lists": (DecisionLists(BITS, length=1), BITS),
    "parities": (Parities(BITS), BITS),
    "halfspaces": (Halfspaces(BITS, weights=1, cuts=2), BITS),
    "finite": (
        FiniteClass(
            np.array([[0, 1, 1, 0, 0, 1], [1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 0]]), Integers(0, 5)
        ),
        LINE,
    ),
    "one rule": (FiniteClass(np.array([[0, 1, 1, 0, 0, 1]]), Integers(0, 5)), LINE),
}

OPTIONS: list[dict[str, Any]] = [
    {"tau": 1},
    {"tau": 2},
    {"tau": 100},
    {"tau": 2, "max_records": 3},
    {"tau": 3, "weighted": True, "levels": 5},
    {"tau": {0: 1, 2: 2, 5: 7}, "weighted": True, "levels": 12},
    {"tau": 1 << 80, "weighted": True, "levels": 2},
    {"weighted": True},
]


def data_of(columns: Columns, users: Users) -> UserData:
    return UserData.from_users(users, features=dict(columns))


def users_of(columns: Columns) -> st.SearchStrategy[Users]:
    record = st.tuples(*(st.integers(0, domain.size - 1) for domain in columns.values()), st.integers(0, 1))
    return st.lists(st.lists(record, max_size=7), max_size=5)


def round_odd(x: Fraction) -> int:
    return int(abs(x) + Fraction(1, 2)) * (1 if x >= 0 else -1)


def literal(learner: PairwiseSelection, columns: Columns, users: Users) -> list[int]:
    """The definition, rule by rule and user by user."""
    bound = learner.bind(data_of(columns, users))
    rules = [bound.concept.decode(h) for h in range(bound.concept.size)]
    clip: Any = bound.clip

    def tau(m: int) -> int:
        if callable(clip):
            return int(clip(m))
        return int(clip[max(k for k in clip if k <= m)]) if isinstance(clip, Mapping) else int(clip)

    sums = [[0] * len(rules) for _ in rules]
    for user in users:
        kept = user[: learner.max_records]
        if kept:
            truth = np.array([record[-1] for record in kept])
            frame = {name: [record[j] for record in kept] for j, name in enumerate(columns)}
            wrong = [int((rule.predict(frame) != truth).sum()) for rule in rules]
            t = tau(len(kept))
            for a, mine in enumerate(wrong):
                for b, theirs in enumerate(wrong):
                    cut = max(-t, min(t, mine - theirs))
                    sums[a][b] += round_odd(Fraction(learner.levels * cut, t)) if learner.weighted else cut
    return [max((row[b] for b in range(len(rules)) if b != a), default=0) for a, row in enumerate(sums)]


def listed(profile: Profile) -> list[int]:
    return [score for first, last, score in profile.blocks() for _ in range(first, last + 1)]


def forced(learner: PairwiseSelection, data: UserData, method: str) -> Profile:
    bound = learner.bind(data)
    columns = tuple(name for name in bound.concept.declared() if name is not None)
    records = joined(bound.users.fold(Gather(columns)), columns)
    return fold.pairwise_profile(
        bound.concept, *records, clip=bound.clip, levels=learner.levels if learner.weighted else None, method=method
    )


# Scores


@pytest.mark.parametrize("name", [*SWEPT, *TABLED])
@given(data=st.data())
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_scores_equal_the_definition(name: str, data: st.DataObject) -> None:
    concept, columns = (SWEPT | TABLED)[name]
    users = data.draw(users_of(columns))
    learner = PairwiseSelection(concept, 1, **data.draw(st.sampled_from(OPTIONS)))
    expected = literal(learner, columns, users)
    table = data_of(columns, users)
    assert listed(learner.profile(table)) == expected
    if name in SWEPT:
        assert [listed(forced(learner, table, method)) for method in ("row", "tree")] == [expected, expected]


@given(st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_both_forms_of_the_row_agree_on_larger_tables(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 12, 60)
    users = np.repeat(np.arange(60), sizes)
    x = rng.integers(0, rng.choice([8, 300]), sizes.sum())
    y = rng.integers(0, 2, sizes.sum())
    table = UserData.from_arrays(x[:, None], y, users, features={"x": Integers(0, 1 << 40)})
    for concept in (Thresholds(direction="both"), Points()):
        for options in ({"tau": 2}, {"weighted": True, "levels": 9}):
            learner = PairwiseSelection(concept, 1, **options)  # type: ignore[arg-type]
            assert (
                forced(learner, table, "row").blocks()
                == forced(learner, table, "tree").blocks()
                == learner.profile(table).blocks()
            )


def test_cuts_and_a_table_of_the_same_cuts_agree() -> None:
    """The sweep against the dense tiles, on more rules than one tile holds."""
    rng = np.random.default_rng(3)
    n = 700
    concept = FiniteClass((np.arange(n)[None, :] >= np.arange(n + 1)[:, None]).astype(int), Integers(0, n - 1))
    x, users = rng.integers(0, n, 900), np.repeat(np.arange(90), 10)
    table = UserData.from_arrays(
        x[:, None], (x > 300) ^ (rng.random(900) < 0.3), users, features={"x": Integers(0, n - 1)}
    )
    for options in ({"tau": 2}, {"tau": 3, "weighted": True}, {"tau": 10}):
        mine = PairwiseSelection(Thresholds(), 1, **options).profile(table)  # type: ignore[arg-type]
        assert mine.blocks() == PairwiseSelection(concept, 1, **options).profile(table).blocks()  # type: ignore[arg-type]


def test_users_in_parts_give_the_same_scores() -> None:
    rng = np.random.default_rng(5)
    users: Users = [[(int(rng.integers(6)), int(rng.integers(2))) for _ in range(rng.integers(6))] for _ in range(20)]
    whole = data_of(LINE, users)
    gather = Gather(("x",))
    parts = gather.zero()
    for piece in (users[:7], [], users[7:]):
        parts = gather.merge(parts, gather.chunk(data_of(LINE, piece)))
    bound = PairwiseSelection(Thresholds(), 1, tau=2).bind(whole)
    expected = PairwiseSelection(Thresholds(), 1, tau=2).profile(whole).blocks()
    assert fold.pairwise_profile(bound.concept, *joined(parts, ("x",)), clip=2, levels=None).blocks() == expected
    none = fold.pairwise_profile(bound.concept, *joined([], ("x",)), clip=2, levels=None)
    assert none.blocks() == [(0, 6, 0)]


@pytest.mark.parametrize("domain", [Integers(0, (1 << 64) - 1), Floats()])
def test_domains_of_2_to_the_64_values(domain: Domain) -> None:
    table = UserData.from_users([[(1, 0), (7, 1)], [(3, 0), (9, 1)], [(3, 0)]], features={"x": domain})
    for direction in ("above", "below", "both"):
        law = PairwiseSelection(Thresholds(direction=direction), 1, tau=1).law(table)
        assert sum(
            len(cell) if isinstance(cell, range) and cell.stop < 1 << 62 else cell.stop - cell.start
            for cell in law.support()
        ) == ((2 if direction == "both" else 1) * (domain.size + 1))


def test_contributions_are_odd_and_round_halves_away_from_zero() -> None:
    gains = gains_of(np.array([4, 4, 1]), {1: 1, 4: 4}, 2)
    row = gains.values[gains.centre[0] - 4 : gains.centre[0] + 5]
    assert row.tolist() == [-2, -2, -1, -1, 0, 1, 1, 2, 2]
    assert gains.values[gains.centre[2] - 1 : gains.centre[2] + 2].tolist() == [-2, 0, 2]


# Competitors and edge cases


def test_a_lone_rule_may_score_below_zero_and_one_with_a_twin_may_not() -> None:
    table = data_of({"x": Integers(0, 1)}, [[(0, 1)]] * 5)
    apart = FiniteClass(np.array([[1, 0], [0, 0]]), Integers(0, 1))
    twins = FiniteClass(np.array([[1, 0], [1, 1], [0, 0]]), Integers(0, 1))
    assert listed(PairwiseSelection(apart, 1, tau=1).profile(table)) == [-5, 5]
    assert listed(PairwiseSelection(twins, 1, tau=1).profile(table)) == [0, 0, 5]
    assert listed(PairwiseSelection(apart, 1, tau=9).profile(table)) == [-5, 5]
    assert listed(PairwiseSelection(twins, 1, tau=9).profile(table)) == [0, 0, 5]


@pytest.mark.parametrize("users", [[], [[]], [[], [], []]])
@pytest.mark.parametrize("name", [*SWEPT, *TABLED])
def test_no_users_and_empty_users_give_the_uniform_law(name: str, users: Users) -> None:
    concept, columns = (SWEPT | TABLED)[name]
    for options in ({"tau": 1}, {"weighted": True}):
        learner = PairwiseSelection(concept, 1, **options)  # type: ignore[arg-type]
        table = data_of(columns, users)
        size = learner.bind(table).concept.size
        assert listed(learner.profile(table)) == [0] * size


def test_one_rule_is_a_point_mass_and_epsilon_zero_is_uniform() -> None:
    concept, columns = TABLED["one rule"]
    assert PairwiseSelection(concept, 1, tau=1).law(data_of(columns, [[(0, 1)]])).prob_exact(0) == 1
    law = PairwiseSelection(Thresholds(), 0, tau=1).law(data_of(LINE, [[(0, 1)]]))
    assert {law.prob_float(cut) for cut in range(7)} == {1 / 7}


# The rate


@pytest.mark.parametrize(("neighbours", "factor"), [("add-remove", 2), ("replace", 4)])
def test_the_rate_follows_the_clip_the_cap_and_the_levels(neighbours: str, factor: int) -> None:
    def rho(**options: Any) -> int:
        learner = PairwiseSelection(Thresholds(Integers(0, 9)), 1, neighbours=neighbours, **options)
        return learner.range_sensitivity(learner.clip_for(learner.concept))

    assert rho(tau=7) == factor * 7
    assert rho(tau=7, max_records=3) == factor * 3
    assert rho(tau=3, max_records=7) == factor * 3
    assert rho(tau=3, max_records=1, weighted=True, levels=5) == factor * 5


@given(st.integers(1, 10**6), st.fractions(min_value=Fraction(1, 1000), max_value=1))
def test_the_growing_clip_is_the_least_integer_above_alpha_m_plus_root_m(m: int, alpha: Fraction) -> None:
    clip = growing_clip(alpha)(m)
    assert 1 <= clip <= m
    if clip < m:
        assert clip - alpha * m >= 0
        assert (clip - alpha * m) ** 2 >= m
    assert clip == 1 or clip - 1 - alpha * m < 0 or (clip - 1 - alpha * m) ** 2 < m


def test_the_clip_follows_from_declared_records() -> None:
    concept = Thresholds(Integers(0, 255))
    learner = PairwiseSelection(concept, 1, records_per_user=64, alpha="1/20", beta="1/10")
    plan = plan_pairwise(log_size=concept.log_size, epsilon=1, alpha1="1/20", beta="1/10", records_per_user=64)
    assert learner.clip_for(concept) == plan["tau"] < 64
    assert learner.with_(max_records=4).clip_for(concept) <= 4


# Accuracy


@pytest.mark.parametrize("m", [1, 8, 32])
def test_the_certified_number_of_users_suffices(m: int) -> None:
    """Cuts on 256 values, one label in five wrong: the exact law puts at most beta on cuts of excess error above
    alpha."""
    domain, alpha, beta, noise = Integers(0, 255), Fraction(1, 5), Fraction(1, 20), 0.2
    concept = Thresholds(domain)
    plan = plan_pairwise(log_size=concept.log_size, epsilon=1, alpha1=alpha, beta=beta, records_per_user=m)
    assert plan.n_users is not None
    learner = PairwiseSelection(concept, 1, tau=plan["tau"])
    near = int(alpha / Fraction(3, 5) * 256)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 256, plan.n_users * m)
        y = (x >= 128) ^ (rng.random(len(x)) < noise)
        law = learner.law(
            UserData.from_arrays(x[:, None], y, np.repeat(np.arange(plan.n_users), m), features={"x": domain})
        )
        good = sum(law.prob_float(cut) for cut in range(128 - near, 129 + near))
        assert 1 - good <= beta


def test_more_records_need_fewer_users() -> None:
    users = [
        plan_pairwise(log_size=6, epsilon=1, alpha1="1/10", beta="1/20", records_per_user=m).n_users
        for m in (1, 4, 16, 64, 256)
    ]
    assert all(n is not None for n in users)
    assert users == sorted(users, reverse=True)  # type: ignore[type-var]


# Release


def test_learn_releases_a_rule_with_public_parameters_only() -> None:
    table = data_of(LINE, [[(0, 0), (5, 1)]] * 30)
    with insecure_randomness():
        released = PairwiseSelection(Thresholds(), 2, tau=1).learn(table, rng=SeededRng(1))
    assert dict(released.parameters) == {"class": "Thresholds", "size": 7, "tau": 1}
    assert 1 <= released.value.cut <= 5
    weighted = PairwiseSelection(Thresholds(), 2, weighted=True, records_per_user=2, max_records=2).learn(table)
    assert set(weighted.parameters) == {"class", "size", "tau", "levels", "records_per_user", "max_records"}
    assert str(weighted.guarantee) == "(2, 0)-DP per user, add-remove"


def test_too_few_users_are_said_under_replace_or_when_declared_and_never_read_under_add_remove() -> None:
    table = data_of(LINE, [[(0, 0), (5, 1)]] * 3)
    options: dict[str, Any] = {"epsilon": 1, "records_per_user": 2}
    with pytest.warns(AccuracyWarning, match="not for 3"):
        released = PairwiseSelection(Thresholds(), neighbours="replace", **options).learn(table)
    assert len(released.warnings) == 1
    with pytest.warns(AccuracyWarning, match=r"not for 7000; for that many, 0\.\d+ is"):
        PairwiseSelection(Thresholds(), public_n_users=7000, alpha="1/100", **options).bind(table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PairwiseSelection(Thresholds(), **options).learn(table).warnings == ()
        PairwiseSelection(Thresholds(), public_n_users=10**6, **options).bind(table)
        PairwiseSelection(Thresholds(), neighbours="replace", weighted=True, **options).bind(table)


# Bad input


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({}, ParameterError, "declare records_per_user"),
        ({"tau": 0}, ParameterError, "tau must be at least 1"),
        ({"tau": -3}, ParameterError, "tau must be at least 1"),
        ({"tau": 1.5}, TypeError, "tau must be an integer"),
        ({"tau": True}, TypeError, "tau must be an integer"),
        ({"tau": math.nan}, TypeError, "tau must be an integer"),
        ({"tau": "3"}, TypeError, "tau must be an integer"),
        ({"tau": {1: 2}}, ParameterError, "weighted=True"),
        ({"tau": lambda m: m}, ParameterError, "weighted=True"),
        ({"tau": lambda m: m - 1, "weighted": True}, ParameterError, "tau must be at least 1"),
        ({"tau": {2: 2}, "weighted": True}, ParameterError, "entry for users with 1 record"),
        ({"tau": {}, "weighted": True}, ParameterError, "entry for users with 1 record"),
        ({"tau": {1: 0}, "weighted": True}, ParameterError, "tau must be at least 1"),
        ({"tau": {"1": 1}, "weighted": True}, TypeError, "a key of tau"),
        ({"tau": 1, "weighted": 1}, TypeError, "weighted must be True or False"),
        ({"tau": 1, "levels": 0}, ParameterError, "levels"),
        ({"tau": 1, "levels": 1 << 21}, ParameterError, "levels"),
        ({"tau": 1, "alpha": 0}, ParameterError, "alpha"),
        ({"tau": 1, "beta": 1}, ParameterError, "beta"),
        ({"tau": 1, "records_per_user": 0}, ParameterError, "records_per_user"),
        ({"tau": 1, "public_n_users": -1}, ParameterError, "public_n_users"),
        ({"tau": 1, "epsilon": -1}, ParameterError, "epsilon"),
        ({"tau": 1, "epsilon": math.inf}, ParameterError, "epsilon"),
        ({"tau": 1, "max_records": 0}, ParameterError, "max_records"),
    ],
)
def test_bad_parameters_are_refused_before_any_data(
    options: dict[str, Any], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        PairwiseSelection(Thresholds(), **({"epsilon": 1} | options))


def test_what_does_not_fit_is_refused_before_a_spend() -> None:
    large = FiniteClass(np.zeros((8193, 1), dtype=int), Integers(0, 0))
    with pytest.raises(TooLargeError, match="RegretSelection"):
        PairwiseSelection(large, 1, tau=1).bind(data_of({"x": Integers(0, 0)}, []))
    with pytest.raises(TooLargeError, match="RegretSelection"):
        PairwiseSelection(Intervals(), 1, tau=1).bind(data_of({"x": Integers(0, 999)}, []))
    items = UserData.from_arrays([[1]], [1], None, features={"x": Integers(0, 5)})
    with pytest.raises(IncompatibleGuarantees, match="per user"):
        PairwiseSelection(Thresholds(), 1, tau=1).bind(items)
    with pytest.raises(SchemaError):
        PairwiseSelection(Thresholds(Integers(0, 5)), 1, tau=1).bind(UserData.from_users([[(9, 1)]]))


def test_nothing_is_shown_of_the_data() -> None:
    learner = PairwiseSelection(Thresholds(), 1, tau=1)

    def shown(table: UserData) -> list[str]:
        values = [learner.profile(table), learner.law(table), learner.bind(table)]
        return [re.sub("0x[0-9a-f]+", "", repr(value)) for value in values]

    assert shown(data_of(LINE, [[(0, 0), (5, 1)]] * 3)) == shown(data_of(LINE, []))
