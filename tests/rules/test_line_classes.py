"""Thresholds, stumps, points and intervals: kernels against brute force, words, labellings, dimensions."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Dates, Domain, Floats, Grid, Integers, UserData
from privpac.rules import Intervals, Points, Stumps, Thresholds
from privpac.rules.base import ConceptClass
from privpac.rules.profile import Exceeds, Mean, Regret, Statistic

sys.path.insert(0, str(Path(__file__).parent))
import brute

SEVEN: dict[str, Domain] = {"x": Integers(-3, 3)}
ONE: dict[str, Domain] = {"x": Integers(5, 5)}
TWO: dict[str, Domain] = {"x": Categories(["no", "yes"], ordered=True)}
THREE: dict[str, Domain] = {"a": Integers(0, 3), "b": Grid(0, 1, 0.5), "c": Categories(["u", "v"])}
NAMES: dict[str, Domain] = {"x": Categories(["b", "a", "d", "c"])}
BESIDE: dict[str, Domain] = {"n": Integers(0, 2), "k": Categories(["b", "a", "c"]), "l": Categories([True])}
WORDS: dict[str, Domain] = {"x": Integers(0, 2**64 - 1)}
FLOATS: dict[str, Domain] = {"x": Floats()}
MIXED: dict[str, Domain] = {"a": Floats(), "b": Integers(0, 4), "c": Integers(-(2**63), 2**63 - 1)}
DIRECTIONS = ["above", "below", "both"]

SMALL: list[tuple[ConceptClass, dict[str, Domain]]] = [
    *((Thresholds(columns["x"], direction=d), columns) for columns in (SEVEN, ONE, TWO) for d in DIRECTIONS),
    *((Stumps(columns, direction=d), columns) for columns in (SEVEN, ONE, THREE, NAMES, BESIDE) for d in DIRECTIONS),
    *((Points(columns["x"], zero=zero), columns) for columns in (SEVEN, ONE, TWO, NAMES) for zero in (False, True)),
    *((Intervals(columns["x"]), columns) for columns in (SEVEN, ONE, TWO)),
]
LARGE: list[tuple[ConceptClass, dict[str, Domain]]] = [
    *((Thresholds(columns["x"], direction=d), columns) for columns in (WORDS, FLOATS) for d in DIRECTIONS),
    *((Stumps(MIXED, direction=d), MIXED) for d in DIRECTIONS),
    *((Points(columns["x"], zero=zero), columns) for columns in (WORDS, FLOATS) for zero in (False, True)),
]
small = st.sampled_from(SMALL)
statistics = st.sampled_from(brute.STATISTICS)


def deciding(concept: ConceptClass, columns: dict[str, Domain], users: brute.Users) -> list[int]:
    """Ids in which every behaviour on the data occurs, with their neighbours and the ends of the class."""
    codes = [{point[j] for user in users for point, _ in user} for j in range(len(columns))]
    ids = {0, concept.size - 1}
    if isinstance(concept, Points):
        ids |= {c + k for c in codes[0] for k in (-1, 0, 1)}
        ids.add(next(c for c in range(100) if c not in codes[0]))
    else:
        directions = concept.directions  # type: ignore[attr-defined]
        base = 0
        for domain, held in zip(columns.values(), codes):
            for _ in directions:
                ids |= {base + cut for cut in (0, domain.size)} | {base + c + k for c in held for k in (-1, 0, 1, 2)}
                base += domain.size + 1
    return sorted(h for h in ids if 0 <= h < concept.size)


@settings(deadline=None, max_examples=400)
@given(st.data(), small, statistics)
def test_profile_is_brute_force_on_small_domains(draw: Any, case: Any, statistic: Statistic) -> None:
    concept, columns = case
    brute.check_profile(concept, columns, draw.draw(brute.tables(columns)), statistic)


@settings(deadline=None, max_examples=200)
@given(st.data(), st.sampled_from(LARGE), statistics)
def test_profile_is_brute_force_on_domains_of_2_to_the_64(draw: Any, case: Any, statistic: Statistic) -> None:
    concept, columns = case
    users = draw.draw(brute.tables(columns))
    brute.check_profile(concept, columns, users, statistic, deciding(concept, columns, users))


@settings(deadline=None, max_examples=150)
@given(st.data(), st.sampled_from(SMALL + LARGE), statistics)
def test_profiles_add_up_over_disjoint_users(draw: Any, case: Any, statistic: Statistic) -> None:
    concept, columns = case
    tables = brute.tables(columns, most=4)
    brute.check_addition(concept, columns, draw.draw(tables), draw.draw(tables), statistic)


@pytest.mark.parametrize(("concept", "columns"), SMALL, ids=str)
def test_rules_print_save_and_predict_alike(concept: ConceptClass, columns: dict[str, Domain]) -> None:
    brute.check_rules(concept.with_columns(columns), columns, range(concept.size), brute.grid(columns))


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(LARGE))
def test_rules_of_huge_domains_print_save_and_predict_alike(draw: Any, case: Any) -> None:
    concept, columns = case
    users = draw.draw(brute.tables(columns, most=2))
    points = [point for user in users for point, _ in user]
    brute.check_rules(concept.with_columns(columns), columns, deciding(concept, columns, users), points)


@settings(deadline=None, max_examples=200)
@given(st.data(), small)
def test_labellings_and_consistent_rules_are_brute_force(draw: Any, case: Any) -> None:
    concept, columns = case
    brute.check_labellings(
        concept.with_columns(columns), columns, draw.draw(st.lists(brute.records(columns), max_size=6))
    )


@settings(deadline=None, max_examples=60)
@given(st.data(), st.sampled_from(LARGE))
def test_labellings_of_huge_domains_count_every_rule_once(draw: Any, case: Any) -> None:
    concept, columns = case
    bound = concept.with_columns(columns)
    user = draw.draw(st.lists(brute.records(columns), max_size=5))
    codes = brute.columns_of(columns, [point for point, _ in user])
    listed = list(bound.dichotomies(codes))
    assert sum(count for _, _, count in listed) == concept.size
    for labels, first, _ in listed:
        assert bound.predictions(codes, first).tolist() == labels.tolist()
        assert first == 0 or bound.predictions(codes, first - 1).tolist() != labels.tolist()


@settings(deadline=None, max_examples=60)
@given(st.data(), small)
def test_erm_is_the_first_best_rule(draw: Any, case: Any) -> None:
    concept, columns = case
    brute.check_erm(concept, columns, draw.draw(brute.tables(columns)))


@pytest.mark.parametrize(("concept", "columns"), [case for case in SMALL if not isinstance(case[0], Stumps)], ids=str)
def test_growth_and_vc_dimension_are_exact(concept: ConceptClass, columns: dict[str, Domain]) -> None:
    said = brute.matrix(concept, columns)
    assert concept.vc_dimension == brute.vc_dimension(said)
    assert [concept.growth(n) for n in range(10)] == [brute.growth(said, n) for n in range(10)]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "columns", [SEVEN, ONE, THREE, {"a": Integers(0, 2), "b": Integers(0, 2)}, {"a": TWO["x"], "b": TWO["x"]}]
)
def test_growth_and_vc_dimension_of_stumps_are_upper_bounds(columns: dict[str, Domain], direction: str) -> None:
    concept = Stumps(columns, direction=direction)
    said = brute.matrix(concept, columns)
    points = range(min(said.shape[1], 5 if said.shape[1] <= 12 else 3) + 1)
    assert all(concept.growth(n) >= brute.growth(said, n) for n in points)
    exact = max(n for n in points if brute.growth(said, n) == 1 << n)
    assert concept.vc_dimension >= exact
    if len(columns) == 1:
        assert concept.vc_dimension == exact


def test_vc_dimension_of_stumps_on_wide_columns_is_that_of_chains() -> None:
    wide = [Stumps({f"x{j}": Integers(0, 99) for j in range(d)}).vc_dimension for d in (1, 2, 3, 4, 5, 10)]
    assert wide == [2, 3, 4, 4, 5, 6]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Thresholds(Integers(0, 1440), "minute").decode(1034, "late"), "late when minute > 1033"),
        (Thresholds(Integers(0, 1440), "minute", "below").decode(1034), "1 when minute <= 1033"),
        (Thresholds(Integers(0, 1440), direction="both").decode(1442), "1 never"),
        (Thresholds(Floats()).decode(2**63 + 1), "1 when x > 0.0"),
        (Thresholds(Floats()).decode(0x0010000000000000), "1 always"),
        (Thresholds(Floats()).decode(2**64), "1 never"),
        (Thresholds(Dates("2020-01-01", "2020-12-31"), "day").decode(31), "1 when day > 2020-01-31"),
        (Stumps({"a": Integers(0, 9), "b": Grid(0, 1, 0.25)}).decode(22 + 6 + 2, "hot"), "hot when b <= 0.25"),
        (Points(Integers(0, 9)).decode(4), "1 when x = 4"),
        (Points(Integers(0, 9), zero=True).decode(10), "1 never"),
        (Points(Floats()).decode(2**63), "1 when x = 0.0"),
        (Points(Floats()).decode(2**63 - 1), "1 never"),
        (Points(Floats()).decode(2**64 - 1), "1 never"),
        (Intervals(Integers(0, 9)).decode(0), "1 never"),
        (Intervals(Integers(0, 9)).decode(1), "1 when x = 0"),
        (Intervals(Integers(0, 9)).decode(2), "1 when x <= 1"),
        (Intervals(Integers(0, 9)).decode(10), "1 always"),
        (Intervals(Integers(0, 9)).decode(12), "1 when 1 <= x <= 2"),
        (Intervals(Integers(0, 9)).decode(19), "1 when x >= 1"),
    ],
    ids=str,
)
def test_rules_print_in_the_units_of_the_domain(rule: Any, words: str) -> None:
    assert str(rule) == words


@given(st.integers(1, 60), st.data())
def test_interval_ids_and_ranges_are_inverse(n: int, draw: Any) -> None:
    concept = Intervals(Integers(1, n))
    h = draw.draw(st.integers(0, concept.size - 1))
    low, high = concept.split(h)
    assert 0 <= low <= high <= n
    assert concept.id_of(low, high) == h


@pytest.mark.parametrize(
    ("concept", "statistic"),
    [
        pytest.param(
            concept, statistic, marks=[] if i == 0 or i % 3 == j else pytest.mark.slow, id=f"{concept}-{statistic}"
        )
        for i, concept in enumerate(
            [Thresholds(), Thresholds(direction="both"), Points(zero=True), Stumps(), Intervals()]
        )
        for j, statistic in enumerate([Exceeds({0: 0, 2: 9000}), Mean(), Regret({0: 1, 2: 300})])
    ],
)
def test_one_heavy_user_beside_many_light_ones_is_brute_force(concept: ConceptClass, statistic: Statistic) -> None:
    """Both paths of every sort, with all threads."""
    rng, m = np.random.default_rng(7), 40_000
    size = 60 if isinstance(concept, Intervals) else 1 << 40
    held = np.unique(np.concatenate([[0, 1, size - 1], rng.integers(0, size, 40)]))
    x, y = rng.choice(held, 2 * m), (rng.random(2 * m) < 0.4).astype(np.int64)
    y[:m] ^= x[:m] > held[20]
    columns: dict[str, Domain] = {"x": Integers(0, size - 1)}
    who = np.where(np.arange(2 * m) < m, -1, np.arange(2 * m))
    profile = concept.profile(UserData.from_arrays(x[:, None], y, who, features=columns), statistic)
    bound = concept.with_columns(columns)
    few = [[((int(c),), 0) for c in held]]
    ids = list(range(bound.size)) if size == 60 else deciding(bound, columns, few)
    wrong = np.array([bound.predictions({"x": x.astype(np.uint64)}, h) != y for h in ids])
    heavy, least = wrong[:, :m].sum(axis=1), wrong[:, m:].min(axis=0)
    for h, mistakes, single in zip(ids, heavy.tolist(), wrong[:, m:]):
        one_wrong = [statistic.value(e, b, 1) for e in (0, 1) for b in (0, 1)]
        counts = np.bincount(2 * single + least, minlength=4)
        assert profile.score(h) == statistic.value(mistakes, int(heavy.min()), m) + int(counts @ one_wrong)


@pytest.mark.parametrize("concept", [Thresholds(direction="both"), Points(), Intervals()], ids=str)
def test_profiles_may_be_folded_from_several_threads_at_once(concept: ConceptClass) -> None:
    rng = np.random.default_rng(4)
    x, y, who = rng.integers(0, 500, 80_000), rng.integers(0, 2, 80_000), rng.integers(0, 9000, 80_000)
    users = UserData.from_arrays(x[:, None], y, who, features={"x": Integers(0, 499)})
    expected = concept.profile(users, Regret(3)).blocks()
    with ThreadPoolExecutor(4) as pool:
        assert all(
            blocks == expected for blocks in pool.map(lambda _: concept.profile(users, Regret(3)).blocks(), range(8))
        )


def test_a_class_takes_the_only_feature_or_all_of_them() -> None:
    users = UserData.from_users([[(1, 0, 1), (2, 3, 0)]], features={"a": Integers(0, 4), "b": Integers(0, 4)})
    assert Stumps().bind(users)[0] == Stumps({"a": Integers(0, 4), "b": Integers(0, 4)})
    assert Stumps(["b"]).bind(users)[0] == Stumps({"b": Integers(0, 4)})
    assert Thresholds(feature="b").bind(users)[0] == Thresholds(Integers(0, 4), "b")
