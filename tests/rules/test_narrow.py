"""Users whose mistakes fit a byte, and others: every kernel of listed rules against the formula, rule by rule."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privpac.data import Domain, Integers, UserData
from privpac.data import grouping as group
from privpac.rules import enumerated as dense
from privpac.rules.boxes import Conjunctions, Disjunctions, Rectangles
from privpac.rules.decision_lists import DecisionLists
from privpac.rules.enumerated import EnumeratedClass, FiniteClass, distinct_rows
from privpac.rules.halfspaces import Halfspaces
from privpac.rules.kernels import grouped
from privpac.rules.profile import Exceeds, HybridStatistic, Mean, Regret, Statistic, own_clip, own_optimism

Ints = NDArray[np.int64]
LEVELS = [1, 2, 7, 255, 840, 1001, 65535]
PLANE: dict[str, Domain] = {"x": Integers(0, 6), "y": Integers(0, 4)}
WIDE: dict[str, Domain] = {"x": Integers(0, 11), "y": Integers(0, 11)}
SPACE: dict[str, Domain] = {"x": Integers(0, 3), "y": Integers(0, 2), "z": Integers(0, 3), "w": Integers(0, 1)}
LINE: dict[str, Domain] = {"x": Integers(0, 8)}
BITS: dict[str, Domain] = {f"b{j}": Integers(0, 1) for j in range(6)}
CLASSES: dict[str, EnumeratedClass] = {
    "boxes": Rectangles(PLANE),
    "boxes of lines": Rectangles(WIDE),
    "boxes of four columns": Rectangles(SPACE),
    "boxes of one column": Rectangles(LINE),
    "conjunctions": Conjunctions(BITS),
    "disjunctions": Disjunctions(BITS),
    "without negations": Disjunctions(BITS, negations=False),
    "halfspaces": Halfspaces(PLANE, weights=2),
    "lists": DecisionLists(dict(list(BITS.items())[:3])),
    "a finite class": FiniteClass(np.random.default_rng(1).integers(0, 2, (70, 9)), LINE["x"], "x"),
}
STATISTICS: list[Statistic] = [
    Exceeds(0),
    Exceeds({0: 0, 3: 2, 200: 300}),
    *(Mean(levels) for levels in (1, 840, 65535, 70000)),
    *(Regret(tau, levels=levels) for tau in (1, 11, 33, 255, 256, 1000) for levels in (1, 840, 70000)),
    *(HybridStatistic(levels=levels) for levels in (1, 840, 70000)),
]


def columns_of(concept: EnumeratedClass) -> dict[str, Domain]:
    return {str(name): domain for name, domain in concept.declared().items() if domain is not None}


def mistakes_of(concept: EnumeratedClass, codes: Mapping[str, NDArray[np.uint64]], labels: Ints) -> Ints:
    wrong: Ints = (concept.table(codes, 0, concept.size) != labels[:, None]).sum(axis=0)
    return wrong


def expected(concept: EnumeratedClass, users: UserData, statistic: Statistic) -> tuple[list[int], int]:
    """The formula of the statistics, one score after the other, and the optimism of two."""
    out, optimism = np.zeros((statistic.n_scores, concept.size), dtype=np.int64), 0
    assert users.labels is not None
    for a, b in pairwise(users.offsets.tolist()):
        m = b - a
        if m:
            codes = {name: column[a:b] for name, column in users.codes.items()}
            e = mistakes_of(concept, codes, users.labels[a:b].astype(np.int64))
            least = int(e.min())
            for row, cap in zip(out, statistic.caps_of(m)):
                v = np.clip(e - least * statistic.uses_minimum - statistic.offset_of(m), 0, cap)
                row += statistic.bound * v // cap
            if statistic.n_scores == 2:
                room = statistic.bound - statistic.bound * (int(e.max()) - least) // m
                optimism += min(own_optimism(m, least, statistic.bound), room)
    return out.reshape(-1).tolist(), optimism


def people(concept: EnumeratedClass, sizes: list[tuple[int, int]], seed: int, noise: float) -> UserData:
    """Users with these numbers of records and multiplicities; a rule explains their labels but for noise."""
    rng, columns = np.random.default_rng(seed), columns_of(concept)
    codes: dict[str, list[NDArray[np.uint64]]] = {name: [] for name in columns}
    labels, offsets = [], [0]
    rule = int(rng.integers(concept.size))
    for m, times in sizes:
        drawn = {name: rng.integers(0, domain.size, m).astype(np.uint64) for name, domain in columns.items()}
        label = concept.predictions(drawn, rule).astype(np.uint8) ^ (rng.random(m) < noise).astype(np.uint8)
        for _ in range(times):
            again = rng.permutation(m)  # equal users need not list their records alike
            for name in columns:
                codes[name].append(drawn[name][again])
            labels.append(label[again])
            offsets.append(offsets[-1] + m)
    values = {
        name: [columns[name].value(int(c)) for c in np.concatenate([np.empty(0, np.uint64), *parts])]
        for name, parts in codes.items()
    }
    marks = np.concatenate([np.empty(0, np.uint8), *labels]).tolist()
    rows = list(zip(*values.values(), marks))
    return UserData.from_users([rows[a:b] for a, b in pairwise(offsets)], features=columns)


def check(concept: EnumeratedClass, users: UserData, statistic: Statistic) -> None:
    profile = concept.profile(users, statistic)
    got = [score for first, last, score in profile.blocks() for _ in range(first, last + 1)]
    assert (got, profile.optimism) == expected(concept, users, statistic)


counts = st.one_of(st.integers(0, 25), st.sampled_from([0, 1, 2, 40, 100, 210, 254, 255, 256, 280, 300, 420]))
some = st.lists(st.tuples(counts, st.sampled_from([1, 1, 1, 2, 60])), max_size=12)


@settings(max_examples=15, deadline=None)
@given(some, st.sampled_from(STATISTICS), st.integers(0, 1 << 20), st.sampled_from([0.0, 0.2, 0.5]))
@pytest.mark.parametrize("name", CLASSES)
def test_profile_equals_the_formula(
    name: str, sizes: list[tuple[int, int]], statistic: Statistic, seed: int, noise: float
) -> None:
    check(CLASSES[name], people(CLASSES[name], sizes, seed, noise), statistic)


@pytest.mark.parametrize("statistic", STATISTICS, ids=repr)
def test_sums_of_bytes_and_pairs_are_settled_before_they_overflow(statistic: Statistic) -> None:
    concept = FiniteClass([[0, 1, 0], [1, 0, 1], [1, 1, 1], [0, 0, 0]], Integers(0, 2), "x")
    sizes = [(m, times) for m in (1, 2, 20, 20, 33, 255) for times in (1, 5)] * 8 + [(1, 300), (256, 2), (9, 90)]
    check(concept, people(concept, sizes, 3, 0.4), statistic)


@pytest.mark.parametrize("statistic", [Exceeds(1), Mean(), Regret(11), HybridStatistic()], ids=repr)
def test_blocks_of_rules_share_the_own_minimum(statistic: Statistic, monkeypatch: pytest.MonkeyPatch) -> None:
    concept = CLASSES["a finite class"]
    users = people(concept, [(1, 3), (20, 1), (255, 2), (256, 1), (7, 40), (0, 1)], 5, 0.3)
    monkeypatch.setattr(dense, "_TABLE", 9 * 16)
    check(concept, users, statistic)


@pytest.mark.parametrize("name", CLASSES)
def test_sorting_points_and_marking_them_make_the_same_users(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    users = people(CLASSES[name], [(3, 2), (20, 1), (255, 1), (280, 1), (300, 2), (1, 5)], 7, 0.5)
    marked = CLASSES[name].profile(users, HybridStatistic()).blocks()
    monkeypatch.setattr(grouped, "_FEW_POINTS", 0)
    monkeypatch.setattr(group, "_RANKED", 0)
    assert CLASSES[name].profile(users, HybridStatistic()).blocks() == marked


def test_one_column_of_many_cells_needs_no_table_of_them() -> None:
    concept = Rectangles({"x": Integers(0, 499)}, cuts=400)
    assert concept._shape.table.size == 1
    check(concept, people(concept, [(5, 1), (30, 2), (300, 1)], 2, 0.1), HybridStatistic())


def shares(levels: int, cap: int, off: int = 0) -> Ints:
    """All contributions of a cap by the multiplication, with the constant off by some."""
    p, factor = grouped.scaled.py_func(levels, cap)
    assert 0 <= factor < 1 << 16
    v = np.arange(cap + 1)
    result: Ints = p * v + ((v * (factor + off)) >> 16)
    return result


def test_the_multiplication_is_the_division_for_every_cap_and_excess() -> None:
    for levels in LEVELS:
        for cap in range(1, 256):
            assert (shares(levels, cap) == levels * np.arange(cap + 1) // cap).all()


@pytest.mark.parametrize("off", [-1, 2])
def test_another_constant_would_not_do(off: int) -> None:
    wrong = [
        not (shares(levels, cap, off) == levels * np.arange(cap + 1) // cap).all()
        for levels in LEVELS
        for cap in range(1, 256)
    ]
    assert any(wrong)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1))
def test_distinct_rows_counted_and_sorted_agree(rows: list[tuple[int, int]]) -> None:
    columns = [np.array([row[j] for row in rows], dtype=np.uint64) for j in range(2)]
    for sizes in ([4, 5], [4, 1 << 40], [1 << 40, 1 << 40]):
        points, place = distinct_rows(columns, sizes)
        assert points[place].tolist() == [list(row) for row in rows]
        assert points.tolist() == sorted(map(list, set(rows)))


def test_own_clips_of_bytes_stay_small() -> None:
    assert max(own_clip(m) for m in range(1, grouped.MOST_RECORDS + 1)) <= grouped._FEW
