"""What a person adds to a table: against plain arithmetic, never more than its size, on any engine; and its privacy."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac as pp
from privpac.errors import NoReleaseError, ParameterError, SchemaError
from privpac.evaluation import Evaluator
from privpac.evaluation.evaluator import TableKernel, bind_predictor
from privpac.evaluation.results import CELLS, PRODUCT_WEIGHT
from privpac.parameters import EVALUATION_LEVELS
from privpac.result import NoRelease, Released
from privpac.rules.kernels.shares import user_moments, user_tables
from privpac.testing import SeededRng, insecure_randomness

AGE = {"x": pp.Integers(0, 9)}


def plain(counts: list[int], levels: int) -> list[int]:
    """Largest remainder, ties to the earlier cell, in fractions."""
    m = sum(counts)
    if not m:
        return [0] * len(counts)
    exact = [Fraction(levels * c, m) for c in counts]
    out = [int(x) for x in exact]
    order = sorted(range(len(counts)), key=lambda c: (-(exact[c] - out[c]), c))
    for c in order[: levels - sum(out)]:
        out[c] += 1
    return out


@given(st.lists(st.lists(st.integers(0, 3), max_size=30), max_size=8), st.sampled_from([1, 2, 7, 840]))
@settings(max_examples=150, deadline=None)
def test_sums_are_the_largest_remainders(users: list[list[int]], levels: int) -> None:
    offsets = np.concatenate([[0], np.cumsum([len(u) for u in users])]).astype(np.int64)
    cells = np.array([c for u in users for c in u], np.uint8)
    tables = [plain([u.count(c) for c in range(4)], levels) for u in users]
    assert all(sum(t) == (levels if u else 0) for t, u in zip(tables, users))
    expected = np.sum(tables, axis=0) if users else np.zeros(4)
    assert user_tables(offsets, cells, 4, levels, True, -1).tolist() == list(expected)
    counted = user_tables(offsets, cells, 4, levels, False, -1)
    assert counted.tolist() == np.bincount(cells, minlength=4).tolist()


@given(st.lists(st.integers(0, 40), min_size=4, max_size=4).filter(any), st.integers(1, 900))
@settings(max_examples=200, deadline=None)
def test_rounding_moves_a_cell_and_any_two_of_them_by_at_most_one_step(counts: list[int], levels: int) -> None:
    m, told = sum(counts), plain(counts, levels)
    off = [t - Fraction(levels * c, m) for t, c in zip(told, counts)]
    assert all(abs(x) < 1 for x in off)
    assert all(abs(a + b) <= 1 and abs(a - b) <= 1 for i, a in enumerate(off) for b in off[:i])


# Predictors


def people(*users: list[tuple[int, int]]) -> pp.UserData:
    return pp.UserData.from_users(list(users), features=AGE)


def sums(predictor: Any, data: pp.UserData, **options: Any) -> list[int]:
    bound, users = bind_predictor(predictor, data, **options)
    return list(users.fold(TableKernel(bound, "table", "user", 12)).tolist())


def test_every_kind_of_predictor_gives_the_same_table(tmp_path: Path) -> None:
    from sklearn.tree import DecisionTreeClassifier

    data = people([(1, 0), (8, 1)], [(9, 0)], [(2, 1), (7, 1), (3, 0)])
    cut = 4
    concept = pp.Thresholds(pp.Integers(0, 9), feature="x")
    rule = next(r for h in range(concept.size) if (r := concept.decode(h)).condition() == "x > 4")
    released = Released(rule, pp.Guarantee(1, unit="user", neighbours="add-remove"))
    model = DecisionTreeClassifier().fit(np.arange(10)[:, None], (np.arange(10) > cut).astype(int))
    expected = sums(rule, data)
    assert sum(expected) == 36
    assert sums(released, data) == expected
    assert sums(lambda table: table["x"] > cut, data) == expected
    assert sums(lambda table: table["x"] > cut, data, rowwise=True) == expected
    assert sums(model, data) == expected
    told = pp.UserData.from_users(
        [[(x, int(x > cut), y) for x, y in user] for user in data.to_lists()],
        features={"x": pp.Integers(0, 9), "said": None},
    )
    assert sums("said", told) == expected
    words = sums(lambda table: np.where(table["x"] > cut, "yes", "no"), data, labels=("no", "yes"))
    assert words == expected


def test_a_record_on_which_the_predictor_fails_is_wrong_and_moves_nobody_else() -> None:
    def moody(table: Any) -> Any:
        if (table["x"] == 9).any():
            raise RuntimeError("9 is not a number I know")
        return (table["x"] > 4).astype(int)

    others = [[(1, 0), (8, 1)], [(2, 0)]]
    alone = np.array(sums(moody, people(*others)))
    for rowwise in (False, True):
        with_bad = np.array(sums(moody, people(*others, [(9, 1), (8, 1)]), rowwise=rowwise))
        assert (with_bad - alone).tolist() == [0, 0, 6, 6]
    assert sums(lambda table: ["maybe"] * len(table), people([(1, 0), (8, 1)])) == [0, 6, 6, 0]
    assert sums(lambda table: [[1]] * 3, people([(1, 0)])) == [0, 12, 0, 0]


def test_bad_predictors_are_refused_before_the_spend(tmp_path: Path) -> None:
    budget = pp.Guarantee(1, unit="user", neighbours="add-remove")
    data, ledger = people([(1, 0)]), pp.BudgetLedger.create(tmp_path / "b.db", budget, dataset="t")
    for bad, error in (
        (Released(NoRelease, None, outcome="none"), NoReleaseError),
        ("nowhere", SchemaError),
        (7, TypeError),
    ):
        with pytest.raises(error):
            pp.evaluate(bad, data, epsilon=1, ledger=ledger)
    with pytest.raises(ParameterError, match="max_records"):
        pp.evaluate(lambda t: t["x"], data, epsilon=1, weight="record", ledger=ledger)
    assert ledger.remaining().epsilon == 1


def test_streams_and_memory_give_the_same_sums_and_the_same_parts(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(
        {"who": rng.integers(0, 300, 4000), "x": rng.integers(0, 10, 4000), "y": rng.integers(0, 2, 4000)}
    )
    frame.write_parquet(tmp_path / "t.parquet")
    memory = pp.UserData.from_frame(frame, user="who", features=AGE, label="y")
    stream = pp.scan(str(tmp_path / "t.parquet"), user="who", features=AGE, label="y", chunk_rows=1000, progress=False)
    rule = pp.learn(memory, pp.Thresholds(), epsilon=1).value

    def totals(users: Any) -> list[int]:
        bound, ready = bind_predictor(rule, users)
        found: list[int] = ready.fold(TableKernel(bound, "table", "user", EVALUATION_LEVELS, moments=True)).tolist()
        assert len(found) == 10
        return found

    assert totals(memory) == totals(stream)
    key = bytes(range(16))
    here, there = (users.split({"a": "1/3", "b": "1/2"}, key=key) for users in (memory, stream))
    assert [totals(here[name]) for name in "ab"] == [totals(there[name]) for name in "ab"]
    assert here["a"].n_users + here["b"].n_users < 300


# Privacy, decided on everything a small universe holds

RULE = {0: 0, 1: 1}
USERS = [tuple(u) for k in range(4) for u in combinations_with_replacement(list(product((0, 1), (0, 1))), k)]


def table_of(user: tuple[tuple[int, int], ...], levels: int, cells: str, normalise: bool = True) -> np.ndarray:
    """The contribution of one user by the kernel itself (or, as a mutation, raw counts)."""
    said = np.array([RULE[x] for x, _ in user], np.uint8)
    labels = np.array([y for _, y in user], np.uint8)
    found = (2 * labels + said if cells == "table" else (said != labels)).astype(np.uint8)
    offsets = np.array([0, len(user)], np.int64)
    return np.asarray(user_tables(offsets, found, len(CELLS[cells]), levels, normalise, -1))  # type: ignore[index]


@pytest.mark.parametrize("cells", ["table", "error"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_privacy_is_decided_by_distance_and_the_mutation_fails(cells: str, neighbours: str) -> None:
    """The log-ratio of product Laplaces at distance d is at most rate * |d|_1, and reaches it: distances decide."""
    levels = 2
    learner = Evaluator(lambda t: t, 1, neighbours, cells=cells, levels=levels, moments=False)  # type: ignore[arg-type]
    rate = learner.noise

    def worst(normalise: bool) -> Fraction:
        tables = [table_of(u, levels, cells, normalise) for u in USERS]
        if learner.knows_people:  # only the wrong ones are released; nobody there counts as wrong
            tables = [np.array([levels]) if not u else t[1:] for u, t in zip(USERS, tables)]
        if neighbours == "add-remove":
            return rate * max(int(np.abs(t).sum()) for t in tables)
        return rate * max(int(np.abs(a - b).sum()) for a in tables for b in tables)

    assert worst(True) == 1
    assert worst(False) > 1


SHARES = 32
"""Steps in which a quarter and a half of a person are whole, and the products of two of them."""


def released_of(user: tuple[tuple[int, int], ...], learner: Evaluator, weight: Fraction = PRODUCT_WEIGHT) -> list[int]:
    """What one user adds to the release, by the kernel itself; ``weight`` may be a wrong one."""
    said = np.array([RULE[x] for x, _ in user], np.uint8)
    labels = np.array([y for _, y in user], np.uint8)
    cells = (2 * labels + said if learner.cells == "table" else (said != labels)).astype(np.uint8)
    offsets, size = np.array([0, len(user)], np.int64), len(CELLS[learner.cells])
    empty = 1 if learner.knows_people else -1
    found = user_moments(offsets, cells, np.arange(size), size, SHARES, int(SHARES / weight), empty).tolist()
    return list(found[1:] if learner.knows_people else found)


@pytest.mark.parametrize("cells", ["table", "error"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_privacy_with_products_is_decided_by_distance_and_the_mutations_fail(cells: Any, neighbours: str) -> None:
    """As above, with products of shares: a forgotten product in the reach, one that weighs twice as much, and a
    replaced person who counts once each break the promise."""
    users = [*USERS, *combinations_with_replacement(list(product((0, 1), (0, 1))), 4)]
    learner = Evaluator(lambda t: t, 1, neighbours, cells=cells, levels=SHARES)
    assert learner.has_products

    def worst(rate: Fraction, weight: Fraction = PRODUCT_WEIGHT) -> Fraction:
        tables = np.unique([released_of(u, learner, weight) for u in users], axis=0)
        others = np.zeros((1, tables.shape[1]), np.int64) if neighbours == "add-remove" else tables
        return rate * int(np.abs(tables[:, None] - others[None]).sum(axis=2).max())

    if neighbours == "add-remove":
        assert worst(learner.noise) == 1
        assert worst(learner.epsilon / SHARES) > 1
        assert worst(learner.noise, 2 * PRODUCT_WEIGHT) > 1
    else:  # two people whose tables are as far from nobody's as can be share a product, so the bound is not reached
        assert Fraction(4, 5) < worst(learner.noise) <= 1
        if not learner.knows_people:
            assert worst(learner.epsilon / learner.reach) > 1
        assert worst(learner.noise, 8 * PRODUCT_WEIGHT) > 1


@given(st.lists(st.lists(st.integers(0, 7), max_size=20), max_size=6), st.sampled_from([8, 840, 720_720]))
@settings(max_examples=100, deadline=None)
def test_products_are_those_of_the_shares_of_groups(users: list[list[int]], levels: int) -> None:
    offsets = np.concatenate([[0], np.cumsum([len(u) for u in users])]).astype(np.int64)
    cells, groups = np.array([c for u in users for c in u], np.uint8), np.arange(8) % 4
    expected = np.zeros(8 + 6, np.int64)
    for user in users:
        shares = plain([user.count(c) for c in range(8)], levels)
        held = [shares[c] + shares[c + 4] for c in range(4)]
        expected += [*shares, *(held[a] * held[b] // (2 * levels) for a in range(4) for b in range(a + 1, 4))]
    assert user_moments(offsets, cells, groups, 4, levels, 2 * levels, -1).tolist() == expected.tolist()


def test_products_are_released_where_they_say_something() -> None:
    def reach(**options: Any) -> tuple[Fraction, Fraction]:
        made = Evaluator(lambda t: t, 1, **options)
        return made.reach / made.steps, made.noise * made.steps

    assert reach() == (Fraction(19, 16), Fraction(16, 19))
    assert reach(neighbours="replace") == (Fraction(19, 16), Fraction(8, 19))
    assert reach(cells="error") == (Fraction(9, 8), Fraction(8, 9))
    assert reach(cells="error", neighbours="replace") == (Fraction(9, 8), Fraction(8, 9))
    for options in (
        {"moments": False},
        {"weight": "record", "max_records": 5},
        {"max_records": 1},
        {"unit": "item"},
        {"same_people": True},
    ):
        assert reach(**options) == (1, 1)
        assert reach(**options, neighbours="replace") == (1, Fraction(1, 2))


def test_draws_follow_the_exact_law_of_the_noise() -> None:
    data = people([(1, 0)], [(8, 1)])
    learner = Evaluator(lambda t: t["x"] > 4, 8, cells="error", levels=1, moments=False)
    rng, seen = SeededRng(3), []
    bound = learner.bind(data)
    with insecure_randomness():
        for _ in range(400):
            seen.append(learner.draw(bound, rng).value.sums[0] - 2)
    assert abs(np.mean(np.array(seen) == 0) - 0.9993) < 0.02


# The split


@given(st.lists(st.text(max_size=200), unique=True, max_size=20), st.binary(min_size=16, max_size=64))
@settings(max_examples=60, deadline=None)
def test_the_hash_is_blake2b(ids: list[str], key: bytes) -> None:
    import hashlib

    from privpac.data.split import keyed_words

    words = keyed_words(pl.Series(ids, dtype=pl.String), key)
    assert words.tolist() == [
        int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, key=key).digest(), "little") for text in ids
    ]


def test_a_part_depends_on_who_people_are_and_on_nothing_else() -> None:
    frame = pl.DataFrame({"who": ["a", "b", "b", "c", "d"] * 40, "x": list(range(10)) * 20, "y": [0, 1] * 100})
    frame = frame.with_columns(who=pl.col("who") + pl.Series([str(i // 5) for i in range(200)]))
    key = b"0123456789abcdef"

    def members(table: pl.DataFrame, name: str) -> set[str]:
        data = pp.UserData.from_frame(table, user="who", features=AGE, label="y")
        part = data.split({"learn": "3/4", "rest": "1/4"}, key=key)[name]
        return set() if part._ids is None else set(part._ids.to_list())

    first = members(frame, "learn")
    assert members(frame.with_columns(y=1 - pl.col("y"), x=9 - pl.col("x")), "learn") == first  # not the label, not x
    fewer = frame.filter(pl.col("who") != next(iter(first)))
    assert members(fewer, "learn") == first - {next(iter(first))}
    assert members(frame, "rest") == set(frame["who"]) - first
    with pytest.raises(ParameterError, match="16"):
        pp.UserData.from_frame(frame, user="who", features=AGE, label="y").split({"a": 1}, key=b"short")
    with pytest.raises(ParameterError, match="more than all"):
        people([(1, 0)]).split({"a": "2/3", "b": "1/2"})
    parts = people(*[[(1, 0)]] * 100).split({"a": "1/2", "b": "1/2"})
    assert parts["a"].n_users + parts["b"].n_users == 100
