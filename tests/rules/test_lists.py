"""Decision lists: the class against all lists, kernel against brute force, words, sizes and limits."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from itertools import pairwise, permutations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Domain, Integers
from privpac.errors import ModelFileError, ParameterError, TooLargeError
from privpac.result import rule_from_dict, rule_to_dict
from privpac.rules import enumerated as dense
from privpac.rules.decision_lists import DecisionList, DecisionLists
from privpac.rules.profile import Mean, Statistic

sys.path.insert(0, str(Path(__file__).parent))
import enumerated as brute

TWO: dict[str, Domain] = {"a": Integers(0, 1), "b": Categories(["no", "yes"])}
THREE: dict[str, Domain] = {name: Integers(0, 1) for name in "abc"}
FOUR: dict[str, Domain] = {name: Integers(0, 1) for name in "abcd"}
Case = tuple[DecisionLists, dict[str, Domain]]
CASES: list[Case] = [
    (DecisionLists(TWO, length=1), TWO),
    (DecisionLists(TWO, length=2), TWO),
    (DecisionLists(THREE), THREE),
    (DecisionLists(THREE, negations=False), THREE),
    (DecisionLists(FOUR, length=2), FOUR),
]
cases = st.sampled_from(CASES)
statistics = st.sampled_from(brute.STATISTICS)


def functions_of_all_lists(d: int, length: int, negations: bool) -> set[tuple[int, ...]]:
    """Truth tables of every list of at most ``length`` tests, built without any reduction."""
    points = list(product((0, 1), repeat=d))
    literals = list(product(range(d), (0, 1) if negations else (1,)))
    out: set[tuple[int, ...]] = set()
    for tests in range(length + 1):
        for chosen in product(literals, repeat=tests):
            for labels in product((0, 1), repeat=tests + 1):

                def says(p: tuple[int, ...], chosen=chosen, labels=labels) -> int:  # type: ignore[no-untyped-def]
                    return next((label for (j, v), label in zip(chosen, labels) if p[j] == v), labels[-1])

                out.add(tuple(says(p) for p in points))
    return out


@pytest.mark.parametrize("negations", [True, False])
@pytest.mark.parametrize(("d", "length"), [(1, 1), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3)])
def test_every_function_of_a_list_is_there_once(d: int, length: int, negations: bool) -> None:
    columns: dict[str, Domain] = {f"x{j}": Integers(0, 1) for j in range(d)}
    concept = DecisionLists(columns, length=length, negations=negations)
    points = list(product((0, 1), repeat=d))
    got = [tuple(concept.decode(h).predict(brute.frame(columns, points)).tolist()) for h in range(concept.size)]
    assert len(set(got)) == len(got) == concept.size
    assert set(got) == functions_of_all_lists(d, length, negations)


@pytest.mark.parametrize("negations", [True, False])
def test_four_columns_have_no_two_lists_alike(negations: bool) -> None:
    concept = DecisionLists(FOUR, length=4, negations=negations)
    codes = {
        name: np.array([p[j] for p in product((0, 1), repeat=4)], dtype=np.uint64) for j, name in enumerate("abcd")
    }
    assert len(np.unique(concept.table(codes, 0, concept.size).T, axis=0)) == concept.size
    # Sampled lists of four tests, in any order and with repeats, all belong to the class.
    known = {tuple(column.tolist()) for column in concept.table(codes, 0, concept.size).T}
    rng = np.random.default_rng(1)
    for _ in range(300):
        order = rng.integers(0, 4, 4)
        wants, labels = rng.integers(0 if negations else 1, 2, 4), rng.integers(0, 2, 5)
        names = "abcd"
        tests = tuple((names[j], int(v), int(b)) for j, v, b in zip(order, wants, labels))
        rule = DecisionList(concept.decode(0).columns, tests, int(labels[4]))
        assert tuple(rule.predict_codes(codes).tolist()) in known


def test_known_numbers_of_functions() -> None:
    # Nested canalizing functions of exactly n variables: 8, 64, 736 for n = 2, 3, 4.
    sizes = [DecisionLists(FOUR, length=n).size for n in (1, 2, 3, 4)]
    assert sizes == [2 + 4 * 2, 10 + 6 * 8, 58 + 4 * 64, 314 + 736]
    assert [DecisionLists(list("ab"), length=n, negations=False).size for n in (1, 2)] == [6, 12]
    assert DecisionLists(list("ab"), length=2).size == 14


@settings(max_examples=60, deadline=None)
@given(st.data(), cases, statistics)
def test_profile_equals_brute_force(data: st.DataObject, case: Case, statistic: Statistic) -> None:
    concept, columns = case
    brute.check_profile(concept, columns, data.draw(brute.users_of(columns)), statistic)


@settings(max_examples=30, deadline=None)
@given(st.data(), cases, statistics)
def test_profiles_of_disjoint_users_add_up(data: st.DataObject, case: Case, statistic: Statistic) -> None:
    concept, columns = case
    draw = brute.users_of(columns)
    brute.check_addition(concept, columns, data.draw(draw), data.draw(draw), statistic)


@pytest.mark.parametrize("statistic", brute.STATISTICS)
def test_blocks_of_rules_do_not_change_the_profile(statistic: Statistic, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    users = [[tuple(int(x) for x in row) for row in rng.integers(0, 2, (m, 5))] for m in (0, 1, 2, 5, 9, 30)]
    concept = DecisionLists(FOUR)
    whole = brute.scores(concept, brute.data_of(FOUR, users), statistic)
    monkeypatch.setattr(dense, "_TABLE", 100)
    assert brute.scores(concept, brute.data_of(FOUR, users), statistic) == whole
    brute.check_labellings(concept, FOUR, users[-1][:5])


def test_the_dense_kernel_reads_any_table() -> None:
    rng = np.random.default_rng(4)
    table = rng.integers(0, 2, (6, 37)).astype(np.uint8)
    table_of: Callable[[int, int], np.ndarray] = lambda first, last: table[:, first:last]  # noqa: E731
    offsets = np.array([0, 0, 3, 4, 4, 20])
    points, labels = rng.integers(0, 6, 20).astype(np.uint64), rng.integers(0, 2, 20).astype(np.uint8)
    for statistic in brute.STATISTICS:
        got = dense.dense_fold(points, labels, offsets, statistic, size=37, n_points=6, table=table_of)
        wanted = np.zeros(37, dtype=np.int64)
        for a, b in pairwise(offsets):
            mistakes = (table[points[a:b]] != labels[a:b, None]).sum(axis=0)
            wanted += [statistic.value(int(e), int(mistakes.min()), int(b - a)) for e in mistakes]
        assert [got.score(h) for h in range(37)] == wanted.tolist()


@pytest.mark.parametrize(("concept", "columns"), CASES)
def test_rules_predict_print_and_reload_alike(concept: DecisionLists, columns: dict[str, Domain]) -> None:
    brute.check_rules(concept, columns)


@settings(max_examples=40, deadline=None)
@given(st.data(), cases)
def test_labellings_and_consistent_rules(data: st.DataObject, case: Case) -> None:
    concept, columns = case
    records = [record for user in data.draw(brute.users_of(columns)) for record in user]
    brute.check_labellings(concept, columns, records[:6])


@settings(max_examples=20, deadline=None)
@given(brute.users_of(THREE))
def test_erm_is_the_first_rule_of_least_mean_error(users: brute.Users) -> None:
    concept = DecisionLists(THREE, length=2)
    totals = brute.brute_profile(concept, THREE, users, Mean(1 << 20))
    assert concept.erm(brute.data_of(THREE, users)) == totals.index(min(totals))


@pytest.mark.parametrize("negations", [True, False])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_vc_dimension_is_exact_for_full_lists_and_a_bound_for_short_ones(d: int, negations: bool) -> None:
    columns: dict[str, Domain] = {f"x{j}": Integers(0, 1) for j in range(d)}
    full = DecisionLists(columns, length=d, negations=negations)
    assert full.vc_dimension == brute.brute_dimension(full, columns) == d + 1
    for length in range(1, d):
        short = DecisionLists(columns, length=length, negations=negations)
        assert short.vc_dimension >= brute.brute_dimension(short, columns)


def test_words() -> None:
    said = [str(DecisionLists(THREE).decode(h)) for h in range(DecisionLists(THREE).size)]
    assert said[:4] == ["1 never", "1 always", "if a then 1 else 0", "if not a then 1 else 0"]
    assert "if a then 1 else if not b then 0 else if c then 0 else 1" in said
    assert str(DecisionLists(TWO).decode(6, label="late")) == "late: if a then 1 else if b then 1 else 0"
    named: dict[str, Domain] = {"sex": Categories(["f", "m"])}
    assert str(DecisionLists(named).decode(3)) == "if sex = f then 1 else 0"


def test_lists_longer_than_the_columns_add_nothing() -> None:
    assert DecisionLists(TWO, length=50).size == DecisionLists(TWO, length=2).size
    assert DecisionLists(TWO, length=10**9).decode(13) == DecisionLists(TWO, length=2).decode(13)


def test_large_classes_are_refused_from_public_numbers() -> None:
    assert DecisionLists([f"x{j}" for j in range(40)], length=3).size < 1 << 20
    assert DecisionLists([f"x{j}" for j in range(63)], length=1).size == 2 + 126
    for columns, length in ((8, 8), (63, 3), (12, 12), (63, 63)):
        with pytest.raises(TooLargeError, match="smaller length"):
            DecisionLists([f"x{j}" for j in range(columns)], length=length)
    with pytest.raises(TooLargeError, match="63 columns"):
        DecisionLists([f"x{j}" for j in range(64)], length=1)


@pytest.mark.parametrize(
    ("features", "length", "negations", "error"),
    [
        ([], 1, True, ParameterError),
        ("ab", 1, True, TypeError),
        ({"a": Integers(0, 5)}, 1, True, ParameterError),
        (["a"], 0, True, ParameterError),
        (["a"], -1, True, ParameterError),
        (["a"], 1.5, True, TypeError),
        (["a"], True, True, TypeError),
        (["a"], float("nan"), True, TypeError),
        (["a"], 1, "yes", TypeError),
    ],
)
def test_bad_parameters_are_refused(
    features: object, length: object, negations: object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        DecisionLists(features, length, negations)  # type: ignore[arg-type]


def test_classes_are_values() -> None:
    assert hash(DecisionLists(TWO)) == hash(DecisionLists(dict(TWO)))
    assert pickle.loads(pickle.dumps(DecisionLists(TWO))) == DecisionLists(TWO)
    assert all(
        DecisionLists(THREE).with_columns({n: THREE[n] for n in order}).size == 98 - 2 for order in permutations("abc")
    )


def test_damaged_lists_are_not_read() -> None:
    good = rule_to_dict(DecisionLists(THREE).decode(50))
    assert isinstance(rule_from_dict(good), DecisionList)
    for bad in (
        {"tests": [["q", 1, 1]]},
        {"tests": [["a", 2, 1]]},
        {"tests": [["a", 1]]},
        {"default": 3},
        {"columns": []},
    ):
        with pytest.raises(ModelFileError):
            rule_from_dict(good | bad)
