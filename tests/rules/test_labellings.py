"""Fast relabelling scores are the enumerated ones, and every labelling is listed exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Floats, Integers, UserData
from privpac.errors import ParameterError, TooLargeError
from privpac.rules import FiniteClass, Intervals, Points, Rectangles, Stumps, Thresholds
from privpac.rules.base import ConceptClass, Loss
from privpac.rules.cuts import cut_labellings
from privpac.rules.hierarchies import PrefixTree, VC1Tree
from privpac.rules.intervals import range_labellings

Record = tuple[int, ...]
Users = list[list[Record]]
TOP = (1 << 64) - 1


def enumerated(
    concept: ConceptClass,
    points: list[Record],
    rest: Users,
    A: int,
    B: int,
    levels: int,
    units: Sequence[int] | None = None,
) -> dict[bytes, int]:
    """Q of every labelling from the definition: all rules, all labellings."""
    names = list(concept.with_columns(dict(concept.declared())).declared())  # type: ignore[arg-type]

    def says(rule: int, records: list[Record]) -> np.ndarray:
        codes = {str(name): np.array([r[i] for r in records], dtype=np.uint64) for i, name in enumerate(names)}
        return concept.predictions(codes, rule).astype(np.uint8)

    on_t = [says(rule, points) for rule in range(concept.size)]
    loss = []
    for rule in range(concept.size):
        wrong = [(sum(int(a != r[-1]) for a, r in zip(says(rule, user), user)), len(user)) for user in rest]
        loss.append(sum(levels * mistakes // m for mistakes, m in wrong if m))
    unit = list(range(len(points))) if units is None else list(units)

    def apart(a: np.ndarray, b: np.ndarray) -> int:
        return len({unit[i] for i in np.flatnonzero(a != b)})

    return {h.tobytes(): min(A * apart(h, f) + B * e for f, e in zip(on_t, loss)) for h in on_t}


def found(
    concept: ConceptClass,
    points: list[Record],
    rest: Users,
    A: int,
    B: int,
    levels: int,
    offsets: list[int] | None = None,
) -> dict[bytes, int]:
    domains = {str(name): domain for name, domain in concept.declared().items()}
    data = UserData.from_users(rest, features=domains)
    codes = {name: np.array([p[i] for p in points], dtype=np.uint64) for i, name in enumerate(domains)}
    where = None if offsets is None else np.array(offsets, dtype=np.int64)
    listed = concept.labellings(codes, data, A, B, levels, where)
    out = {listed.labels(i).tobytes(): int(listed.scores[i]) for i in range(listed.count)}
    assert len(out) == listed.count, "a labelling is listed twice"
    assert all(listed.labels(i).dtype == np.uint8 and len(listed.labels(i)) == len(points) for i in range(listed.count))
    return out


def one(n: int) -> dict[str, Integers]:
    return {"x": Integers(0, n - 1)}


def two(n: int) -> dict[str, Integers]:
    return {"x": Integers(0, n - 1), "y": Integers(0, n - 1)}


TABLE = np.array([[0, 1, 0, 1, 1], [1, 1, 0, 0, 1], [0, 0, 0, 0, 0], [1, 1, 0, 0, 1], [0, 1, 1, 1, 0]], dtype=np.uint8)
CLASSES: dict[str, ConceptClass] = {
    "above": Thresholds(Integers(0, 4), "x"),
    "below": Thresholds(Integers(0, 4), "x", "below"),
    "both directions": Thresholds(Integers(0, 4), "x", "both"),
    "one value": Thresholds(Integers(0, 0), "x", "both"),
    "points": Points(Integers(0, 4), "x"),
    "points and zero": Points(Integers(0, 4), "x", zero=True),
    "one point": Points(Integers(0, 0), "x"),
    "intervals": Intervals(Integers(0, 4), "x"),
    "stumps": Stumps(two(4)),
    "stumps above": Stumps(two(3), "above"),
    "one stump": Stumps({"x": Integers(0, 4)}),
    "values": Stumps({"x": Categories([0, 1, 2, 3])}),
    "values one way": Stumps({"x": Categories([0, 1, 2])}, "above"),
    "no value": Stumps({"x": Categories([0, 1, 2]), "y": Categories([0, 1])}, "below"),
    "values and cuts": Stumps({"x": Categories([0, 1, 2]), "y": Integers(0, 3), "z": Categories([0, 1])}),
    "boxes": Rectangles(two(3), cuts=3),
    "table": FiniteClass(TABLE, Integers(0, 4), "x"),
}


def codes_of(concept: ConceptClass) -> st.SearchStrategy[Record]:
    return st.tuples(*(st.integers(0, domain.size - 1) for domain in concept.declared().values() if domain is not None))


@pytest.mark.parametrize("name", CLASSES)
@settings(max_examples=35, deadline=None)
@given(st.data())
def test_scores_are_the_enumerated_ones(name: str, data: st.DataObject) -> None:
    concept = CLASSES[name]
    point = codes_of(concept)
    points = data.draw(st.lists(point, min_size=1, max_size=7))
    record = st.tuples(point, st.integers(0, 1)).map(lambda r: (*r[0], r[1]))
    rest = data.draw(st.lists(st.lists(record, max_size=data.draw(st.sampled_from([1, 4]))), max_size=6))
    A, B, levels = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6)), data.draw(st.sampled_from([1, 4]))
    assert found(concept, points, rest, A, B, levels) == enumerated(concept, points, rest, A, B, levels)


@pytest.mark.parametrize("name", ["above", "intervals", "stumps", "table"])
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_units_with_several_records_differ_if_any_record_does(name: str, data: st.DataObject) -> None:
    concept = CLASSES[name]
    point = codes_of(concept)
    groups = data.draw(st.lists(st.lists(point, min_size=1, max_size=2), min_size=1, max_size=3))
    rest = data.draw(
        st.lists(
            st.lists(st.tuples(point, st.integers(0, 1)).map(lambda r: (*r[0], r[1])), min_size=1, max_size=3),
            max_size=4,
        )
    )
    points = [p for group in groups for p in group]
    units = [i for i, group in enumerate(groups) for _ in group]
    offsets = [0, *np.cumsum([len(group) for group in groups]).tolist()]
    assert found(concept, points, rest, 3, 2, 4, offsets) == enumerated(concept, points, rest, 3, 2, 4, units)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1)), max_size=10),
)
def test_huge_domains_cost_nothing(points: list[int], records: list[tuple[int, int]]) -> None:
    """Only order matters: codes 0..8 spread over 64 bits, with both ends and neighbours among them, score the same."""
    spread = [0, 1, 5, 1 << 40, (1 << 40) + 1, 1 << 63, TOP - 2, TOP - 1, TOP]
    # On the small side codes that are neighbours stay so, and the others have a free code between them.
    small = [0, 1, 3, 5, 6, 8, 10, 11, 12]
    near = [[(small[x], y)] for x, y in records]
    far = [[(spread[x], y)] for x, y in records]
    for make in (lambda d: Thresholds(d, "x", "both"), lambda d: Points(d, "x", zero=True), lambda d: Stumps({"x": d})):
        expected = found(make(Integers(0, 12)), [(small[x],) for x in points], near, 3, 2, 1)
        assert found(make(Integers(0, TOP)), [(spread[x],) for x in points], far, 3, 2, 1) == expected
    values, labels = (
        np.array([spread[x] for x, _ in records], dtype=np.uint64),
        np.array([y for _, y in records], dtype=np.uint8),
    )
    ranges = range_labellings(np.array([spread[x] for x in points], dtype=np.uint64), values, labels, 3, 2)
    listed = {ranges.labels(i).tobytes(): int(ranges.scores[i]) for i in range(ranges.count)}
    assert listed == found(Intervals(Integers(0, 12), "x"), [(small[x],) for x in points], near, 3, 2, 1)


TREES: dict[str, tuple[VC1Tree, list[int | str]]] = {
    "path": (VC1Tree.from_matrix([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]], root=0), [0, 1, 2]),
    "center": (
        VC1Tree.from_matrix([[0, 0, 0, 1], [1, 0, 0, 1], [1, 1, 0, 1], [0, 0, 1, 1], [0, 0, 0, 0]]),
        [0, 1, 2, 3],
    ),
    "addresses": (PrefixTree(4), ["", "a", "a/b", "a/c", "d", "a/b/e", "a/b/e/f/g", "d/h"]),
}


@pytest.mark.parametrize("name", TREES)
@settings(max_examples=35, deadline=None)
@given(st.data())
def test_paths_of_a_tree_are_scored_as_enumerated(name: str, data: st.DataObject) -> None:
    tree, values = TREES[name]
    points = data.draw(st.lists(st.sampled_from(values), max_size=6))
    rest = data.draw(st.lists(st.lists(st.tuples(st.sampled_from(values), st.integers(0, 1)), max_size=4), max_size=5))
    A, B, levels = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6)), data.draw(st.sampled_from([1, 4]))
    bound, users = tree.bind(
        UserData.from_users([[(x, 0)] for x in points] + rest, features={"x": next(iter(tree.declared().values()))})
    )
    assert isinstance(users, UserData)
    listed = bound.part_labellings(
        users.take(np.arange(len(points))), users.take(np.arange(len(points), users.n_users)), A, B, levels
    )
    found_ = {listed.labels(i).tobytes(): int(listed.scores[i]) for i in range(listed.count)}
    assert len(found_) == listed.count
    # Every node is an occurring one or behaves like its deepest occurring ancestor, so all nodes of the values are
    # enough.
    nodes = {tree.node(x) for x in values} - {None} | {tree.root}

    def says(v: Hashable, x: int | str) -> int:
        u = tree.node(x)
        return tree.base_label(x) ^ int(u is not None and u != tree.root and tree.is_ancestor(u, v))

    on_t = {v: np.array([says(v, x) for x in points], dtype=np.uint8) for v in nodes}
    loss = {}
    for v in nodes:
        known = [[(x, y) for x, y in user if tree.node(x) is not None] for user in rest]
        loss[v] = sum(levels * sum(says(v, x) != y for x, y in user) // len(user) for user in known if user)
    expected = {h.tobytes(): min(A * int((h != on_t[f]).sum()) + B * loss[f] for f in nodes) for h in on_t.values()}
    assert found_ == expected


def test_floats_are_labelled_by_their_order() -> None:
    rest = UserData.from_users([[(0.5, 1)], [(-0.25, 0)], [(1e300, 1)]], features={"x": Floats()})
    codes, _ = Floats().encode([-0.0, 0.0, 2.5, -1e-300])
    listed = Thresholds(Floats(), "x").labellings({"x": codes}, rest, 1, 1)
    assert listed.count == 4  # -0.0 is 0.0
    best = int(np.argmin(listed.scores))
    assert listed.scores[best] == 0
    assert listed.labels(best).tolist() in ([0, 0, 1, 0], [1, 1, 1, 0], [1, 1, 1, 1])


def test_no_points_have_one_labelling_and_no_rest_scores_zero() -> None:
    empty = UserData.from_users([], features={"x": Integers(0, 4)})
    nothing = CLASSES["above"].labellings({"x": np.zeros(0, dtype=np.uint64)}, empty, 5, 5)
    assert nothing.count == 1
    assert nothing.labels(0).tolist() == []
    for name in ("above", "both directions", "points", "intervals", "table"):
        listed = CLASSES[name].labellings({"x": np.array([1, 1, 3], dtype=np.uint64)}, empty, 7, 4)
        assert set(listed.scores.tolist()) == {0}


def test_constants_of_every_column_are_listed_once() -> None:
    """Listing the constants once per column and direction would make a labelling of the rest extend in more than two
    ways."""
    concept = Stumps({name: Integers(0, 9) for name in "abcd"})
    column = np.array([1, 4, 7], dtype=np.uint64)
    rest = UserData.from_users([[(1, 2, 3, 4, 1)]], features=dict.fromkeys("abcd", Integers(0, 9)))
    listed = concept.labellings(dict.fromkeys("abcd", column), rest, 1, 1)
    assert listed.count == 6  # four equal columns: two constants, two cuts in two directions


def test_each_labelling_of_the_rest_extends_once_or_twice() -> None:
    """What the proof needs: dropping one position maps the labellings onto those of the rest, one or two to one."""
    rest = UserData.from_users([[(1, 1, 0)], [(2, 0, 1)]], features=two(4))
    rng = np.random.default_rng(5)
    for _ in range(40):
        points = rng.integers(0, 4, (5, 2)).astype(np.uint64)
        for name in ("stumps", "boxes"):
            concept = Stumps(two(4)) if name == "stumps" else Rectangles(two(4), cuts=4)
            all_of = concept.labellings({"x": points[:, 0], "y": points[:, 1]}, rest, 2, 3)
            less = concept.labellings({"x": points[1:, 0], "y": points[1:, 1]}, rest, 2, 3)
            heads = [all_of.labels(i)[1:].tobytes() for i in range(all_of.count)]
            assert set(heads) == {less.labels(i).tobytes() for i in range(less.count)}
            assert max(heads.count(head) for head in heads) <= 2


def test_listing_a_labelling_once_per_column_breaks_the_counted_step() -> None:
    """The proof counts at most two extensions of a labelling of the rest; with copies of the constants there are
    six."""
    concept = Stumps(two(4))
    points = {"x": np.array([1, 2, 3], dtype=np.uint64), "y": np.array([3, 1, 2], dtype=np.uint64)}
    copies = [labels for name in "xy" for labels, _, _ in cut_labellings(points[name], 4, concept.directions)]
    rest = UserData.from_users([], features=two(4))
    listed = concept.labellings(points, rest, 1, 1)
    for bits, most in ((copies, 6), ([listed.labels(i) for i in range(listed.count)], 2)):
        heads = Counter(labels[1:].astype(np.uint8).tobytes() for labels in bits)
        assert max(heads.values()) == most


def test_large_classes_are_refused_from_public_numbers() -> None:
    wide = Rectangles({name: Integers(0, 99) for name in "ab"}, cuts=16)
    wide.check_labellings()
    wide.check_labellings(units=50_000)
    with pytest.raises(TooLargeError, match="Thresholds, Points"):
        wide.check_labellings(units=60_000)
    wider = Rectangles({name: Integers(0, 99) for name in "ab"}, cuts=24)
    with pytest.raises(TooLargeError, match="pairs of labellings"):
        wider.check_labellings()
    wider.check_labellings(split_size=12)  # twelve points have at most 4096 labellings
    with pytest.raises(TooLargeError, match="several records per unit"):
        Thresholds(Floats(), "x").check_labellings(whole=True)
    Thresholds(Floats(), "x").check_labellings()
    Stumps({"x": Floats(), "y": Floats()}).check_labellings(units=10**9)


def test_loss_is_a_rounded_share_within_its_levels() -> None:
    assert [Loss(4).value(e, 0, 3) for e in range(4)] == [0, 1, 2, 4]
    assert Loss(16).value(0, 0, 0) == 0
    for bad in (0, -1, 1 << 32):
        with pytest.raises(ParameterError):
            Loss(bad)
