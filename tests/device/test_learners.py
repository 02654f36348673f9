"""Every stable learner keeps the same contract: bytes or nothing, one user only, hostile records are dropped, items
name rules."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac.device
from privpac.device.correlated_sampling import rate
from privpac.device.decision_lists import KDecisionList, SQDecisionLists, StagewiseDecisionList
from privpac.device.items import Hypothesis, ItemUniverse, NumberedItems, Padded, StableLearner, clean, distinct
from privpac.device.littlestone import ListRaceLearner, PointsReductionList, Rows, VersionSpaceList
from privpac.device.scores import CutScores, ParityScores, ParitySolver, PointScores, RaceLearner
from privpac.device.separators import RoundedSeparator, SQEllipsoid
from privpac.device.statistical_queries import SQConjunctions, SQDisjunctions, SQNaiveBayes
from privpac.errors import ParameterError
from privpac.papers.correlated_sampling import SQPerceptron, TableScores

SEED = bytes(range(32))
GAMMA = rate(20)
TABLE = [[int(x >= u) for x in range(6)] for u in range(7)]

# name: (learner, columns, values per column)
LEARNERS: dict[str, tuple[StableLearner, int, int]] = {
    "thresholds": (RaceLearner(CutScores((6,), ("above",)), GAMMA), 1, 6),
    "thresholds flat": (RaceLearner(CutScores((6,)), GAMMA, race="indexed"), 1, 6),
    "stumps": (RaceLearner(CutScores((2, 6)), GAMMA), 2, 2),
    "points": (RaceLearner(PointScores(6), GAMMA), 1, 6),
    "parities": (RaceLearner(ParityScores(3), GAMMA), 3, 2),
    "table": (RaceLearner(TableScores(TABLE), GAMMA), 1, 6),
    "table flat": (RaceLearner(TableScores(TABLE), GAMMA, race="indexed"), 1, 6),
    "solver": (ParitySolver(3), 3, 2),
    "conjunctions": (SQConjunctions(3, grid=10), 3, 2),
    "disjunctions": (SQDisjunctions(3, grid=10), 3, 2),
    "lists": (SQDecisionLists(3, grid=40, max_rules=4), 3, 2),
    "2-lists": (KDecisionList(3, 2, grid=40, max_rules=4), 3, 2),
    "stagewise lists": (StagewiseDecisionList(3, GAMMA, stages=3), 3, 2),
    "perceptron": (SQPerceptron(3, 8, 2, grid=20), 3, 2),
    "ellipsoid": (SQEllipsoid(3, 16, 4, 5, 12, grid=32), 3, 2),
    "rounded separator": (RoundedSeparator(3, grid=4), 3, 2),
    "bayes": (SQNaiveBayes((2, 2, 2), grid=20), 3, 2),
    "version spaces": (ListRaceLearner(VersionSpaceList(Rows(TABLE)), 2, 2, GAMMA), 1, 6),
    "point lists": (ListRaceLearner(PointsReductionList(6), 2, 2, GAMMA), 1, 6),
}
every = pytest.mark.parametrize("name", sorted(LEARNERS))


def drawn(columns: int, values: int, m: int, seed: int) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    x = random.integers(0, values, (m, columns))
    return (x[:, 0] if columns == 1 else x), random.integers(0, 2, m)


# The contract


@every
def test_items_are_bytes_of_the_universe_that_name_rules(name: str) -> None:
    learner, columns, values = LEARNERS[name]
    assert isinstance(learner, StableLearner)
    assert isinstance(learner.universe, ItemUniverse)
    for seed in range(12):
        x, y = drawn(columns, values, 5 + 7 * seed, seed)
        if seed % 2:
            y = (np.asarray(x).reshape(len(y), -1)[:, 0] > 0).astype(int)
        item = learner.item(x, y, SEED)
        if item is None:
            continue
        assert isinstance(item, bytes)
        number = learner.universe.number(item)
        assert 0 <= number < learner.universe.size <= 1 << learner.universe.bits
        assert learner.universe.item(number) == item
        rule = learner.decode(item)
        assert isinstance(rule, Hypothesis)
        said = rule.predict(x)
        assert said.dtype == np.int8
        assert set(said.tolist()) <= {0, 1}
        assert len(said) == len(y)


@every
def test_the_item_depends_on_records_seed_and_parameters_only(name: str) -> None:
    """Same input, same item; the container's type and, except for lists of sub-samples, the order do not matter."""
    learner, columns, values = LEARNERS[name]
    x, y = drawn(columns, values, 30, 3)
    item = learner.item(x, y, SEED)
    assert learner.item(x, y, SEED) == item
    assert learner.item(x.tolist(), y.tolist(), SEED) == item
    assert learner.item(x.astype(float), y.astype(bool), SEED) == item
    assert learner.item(x.astype(object), y.astype(np.uint8), SEED) == item
    if not isinstance(learner, ListRaceLearner):
        order = np.random.default_rng(1).permutation(30)
        assert learner.item(x[order], y[order], SEED) == item


@every
def test_no_records_give_no_item(name: str) -> None:
    learner, columns, _ = LEARNERS[name]
    empty = np.zeros((0, columns))
    assert learner.item(empty, [], SEED) is None
    assert learner.item([], [], SEED) is None
    x = np.full((9, columns), np.nan)
    assert learner.item(x, np.zeros(9), SEED) is None
    assert learner.item(np.zeros((9, columns)), np.full(9, 7), SEED) is None


@every
def test_hostile_records_are_dropped_one_by_one(name: str) -> None:
    learner, columns, values = LEARNERS[name]
    x, y = drawn(columns, values, 20, 5)
    rows = np.asarray(x).reshape(20, columns).astype(object)
    bad: list[Any] = [np.nan, np.inf, -np.inf, 10**30, -(10**30), 0.5, "1", None, b"1", 1e300, [1], 1 + 2j]
    wrong = np.empty((len(bad), columns), dtype=object)
    for i, value in enumerate(bad):
        wrong[i] = 0
        wrong[i, i % columns] = value
    labels = np.array([*y.tolist(), *[1] * len(bad)], dtype=object)
    assert learner.item(np.concatenate([rows, wrong]), labels, SEED) == learner.item(x, y, SEED)
    marks: list[Any] = [2, -1, np.nan, "1", None, 0.5, 10**40]
    zeros = np.zeros((len(marks), columns), dtype=object)
    mixed = np.array([*y.tolist(), *marks], dtype=object)
    assert learner.item(np.concatenate([rows, zeros]), mixed, SEED) == learner.item(x, y, SEED)


@every
def test_shapes_and_seeds_are_checked(name: str) -> None:
    learner, columns, values = LEARNERS[name]
    x, y = drawn(columns, values, 8, 1)
    with pytest.raises(ParameterError):
        learner.item(x, y[:-1], SEED)
    with pytest.raises(ParameterError):
        learner.item(np.zeros((8, columns + 1)), y, SEED)
    with pytest.raises(ParameterError):
        learner.item(x, y, SEED[:-1])
    with pytest.raises(TypeError):
        learner.item(x, y, "seed")  # type: ignore[arg-type]


@settings(max_examples=25)
@given(st.binary(max_size=40))
def test_bytes_that_are_no_rule_decode_to_nothing_or_to_a_rule(text: bytes) -> None:
    for learner, columns, values in LEARNERS.values():
        rule = learner.decode(text)
        if rule is not None:
            x, y = drawn(columns, values, 4, 0)
            assert len(rule.predict(x)) == len(y)


@every
def test_most_items_differ_between_rules(name: str) -> None:
    """Two items that decode to the same object would split votes; decoding is injective on the numbers tried."""
    learner, _, _ = LEARNERS[name]
    size = learner.universe.size
    numbers = range(size) if size <= 300 else sorted({(i * size) // 300 for i in range(300)})
    items = [learner.universe.item(number) for number in numbers]
    assert [learner.universe.number(item) for item in items] == list(numbers)
    rules = [rule for rule in map(learner.decode, items) if rule is not None]
    assert len(set(rules)) == len(rules)


def test_too_few_records_give_no_item_and_too_many_are_not_read() -> None:
    x, y = drawn(1, 6, 10, 1)
    few = RaceLearner(CutScores((6,)), GAMMA, min_records=11)
    assert few.item(x, y, SEED) is None
    capped = RaceLearner(CutScores((6,)), GAMMA, max_records=7)
    assert capped.item(x, y, SEED) == capped.item(x[:7], y[:7], SEED)
    queries = SQConjunctions(2, grid=5, min_records=3)
    assert queries.item([[0, 1]] * 2, [1, 1], SEED) is None
    assert queries.item([[0, 1]] * 3, [1, 1, 1], SEED) is not None


# Universes and records


@given(st.integers(1, 2**70), st.data())
def test_numbers_round_trip(size: int, data: Any) -> None:
    universe = NumberedItems(size)
    number = data.draw(st.integers(0, size - 1))
    assert universe.number(universe.item(number)) == number
    with pytest.raises(ParameterError):
        universe.item(size)
    with pytest.raises(ParameterError):
        universe.number((256**universe.width).to_bytes(universe.width + 1, "little"))


@given(st.integers(0, 4), st.binary(max_size=12))
def test_short_items_are_padded_without_collisions(rules: int, text: bytes) -> None:
    universe = Padded(3 * 4 + 1, 3)
    item = (text * 13)[: 3 * rules].ljust(3 * rules, b"\0") + b"\1"
    assert universe.item(universe.number(item)) == item
    with pytest.raises(ParameterError):
        universe.number(b"\0" * 14)
    with pytest.raises(ParameterError):
        Padded(4).number(b"\0" * 3)


@given(st.lists(st.tuples(st.integers(-3, 9), st.integers(-3, 9), st.integers(-1, 2)), max_size=12))
def test_cleaning_keeps_exactly_the_valid_records(rows: list[tuple[int, int, int]]) -> None:
    x, y = [row[:2] for row in rows], [row[2] for row in rows]
    kept = [row for row in rows if 0 <= row[0] <= 5 and -2 <= row[1] <= 7 and row[2] in (0, 1)]
    for kind in (np.int64, np.float64, np.int16, object):
        table = np.array(x, dtype=kind).reshape(len(rows), 2)
        found = clean(table, np.array(y, dtype=kind), ((0, 5), (-2, 7)))
        assert [(*a, b) for a, b in zip(found.x.tolist(), found.y.tolist())] == kept
    single, counts = distinct(found)
    assert [(*a, b) for a, b in zip(single.x.tolist(), single.y.tolist())] == sorted(set(kept))
    assert counts.tolist() == [kept.count(row) for row in sorted(set(kept))]


def test_the_largest_codes_stay_exact() -> None:
    top = 2**64 - 1
    for x in ([top, 3], np.array([top, 3], dtype=np.uint64), np.array([top, 3], dtype=object)):
        assert clean(x, [1, 0], ((0, top),), flat=True).x.tolist() == [top, 3]
    assert clean(np.array([2.0**64, 2.0**63]), [1, 0], ((0, top),), flat=True).x.tolist() == [2**63]
    assert clean(np.array([-1, 3]), [1, 0], ((0, top),), flat=True).x.tolist() == [3]


def test_a_ragged_table_is_refused() -> None:
    with pytest.raises(ParameterError, match="rectangular"):
        clean([[1], [1, 2]], [0, 1], ((0, 1),))


# A device can run it


ROOM = Path(privpac.device.__file__).parent
PLANS = {"correlated_sampling", "decision_lists", "littlestone", "separators", "statistical_queries", "tasks"}
RATIONALS = {"columns", "randomizers", "store"}
"""Modules in which values of a manifest are exact rationals, or paths are joined."""


def test_importing_the_room_loads_nothing_heavier_than_numpy() -> None:
    names = sorted(path.stem for path in ROOM.glob("*.py") if path.stem != "__init__")
    code = "import sys\nimport privpac.device\n" + "".join(f"import privpac.device.{name}\n" for name in names)
    code += "print('\\n'.join({name.split('.')[0] for name in sys.modules}))\nprint('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "numpy" in loaded
    assert not loaded & {
        "scipy",
        "numba",
        "flint",
        "polars",
        "pyarrow",
        "narwhals",
        "sklearn",
        "rich",
        "typer",
        "matplotlib",
        "pandas",
    }
    rooms = {name for name in loaded if name.startswith("privpac.") and not name.startswith("privpac.device")}
    assert rooms == {"privpac.errors", "privpac.files", "privpac.lazy", "privpac.rng"}


def test_importing_the_room_itself_loads_no_module_of_it() -> None:
    code = (
        "import sys\nimport privpac.device\nprint(*[n for n in sys.modules if n.startswith('privpac') or n == 'numpy'])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) == {"privpac", "privpac.lazy", "privpac.device"}


@pytest.mark.parametrize("path", sorted(ROOM.glob("*.py")), ids=lambda path: path.stem)
def test_no_floating_point_on_the_device(path: Path) -> None:
    """No float literal, no float type beyond recognising one in the input; ``/`` only where public parameters are exact
    rationals."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            assert path.stem == "columns"  # reads the person's own floats
        if isinstance(node, ast.Attribute):
            assert node.attr not in {"float64", "float32", "log2", "log", "exp", "sqrt", "mean", "true_divide"}
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            assert path.stem in PLANS | RATIONALS
        if isinstance(node, ast.Name) and node.id == "float":
            assert path.stem in {"items", "columns", "correlated_sampling"}


def test_every_public_name_resolves() -> None:
    for name in privpac.device.__all__:
        assert getattr(privpac.device, name) is not None
    assert set(dir(privpac.device)) == set(privpac.device.__all__)
    with pytest.raises(AttributeError):
        privpac.device.nothing_of_this_name  # noqa: B018


def test_one_bad_entry_of_a_list_does_not_spoil_the_others() -> None:
    found = clean([1, "x", 3, 10**40, None, 2.0], [0, 1, 1, 0, 1, 1], ((0, 9),), flat=True)
    assert found.x.tolist() == [1, 3, 2]
    assert found.y.tolist() == [0, 1, 1]
