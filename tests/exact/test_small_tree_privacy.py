"""Small trees are epsilon-DP per user, decided exactly over every tree and neighbour; wrong weights are caught.

Number columns of three bins, with and without a missing code, a number and a category, depth 1 and 2 (8 to 1296 trees).
Users hold up to two records of every kind, and some hold 3 to 7, so that ``floor(L/m) m < L`` and ``m > L`` occur;
bases are small data sets and crowds of one kind.  The reference weighs records by a function of its own, which the
mutations change; unchanged it is the learner's law.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

from privpac.auditing import Universe, audit_exact
from privpac.data import Categories, Integers, UserData
from privpac.law.blocks import FiniteLaw
from privpac.methods.small_tree import SmallTreeLaw, SmallTreeLearner
from privpac.rules.small_trees import SmallTrees, TreeCells, TreeShape

Record = tuple[Any, ...]
User = tuple[Record, ...]
LEVELS = 4
RELATIONS = ["add-remove", "replace"]
WORDS = Categories(["a", "b"])
CLASSES = {
    "number": (SmallTrees({"x": Integers(0, 2)}, levels=LEVELS), [0, 1, 2]),
    "missing": (SmallTrees({"x": Integers(0, 1)}, missing="own", levels=LEVELS), [0, 1, None]),
    "flat": (SmallTrees({"x": Integers(0, 2)}, depth=1, levels=LEVELS), [0, 1, 2]),
    "mixed": (SmallTrees({"x": Integers(0, 1), "k": WORDS}, levels=LEVELS), None),
    "scale-free": (SmallTrees({"x": Integers(-3, 5)}, cuts=1, steps=1, depth=1, levels=LEVELS), [-3, 0, 5]),
    "typical": (SmallTrees({"x": Integers(0, 9, typical=(2, 5))}, cuts=3, depth=1, levels=LEVELS), [0, 4, 9]),
}


def records(name: str) -> list[Record]:
    _, values = CLASSES[name]
    if values is None:
        return [(x, k, y) for x, k, y in product((0, 1), ("a", "b"), (0, 1))]
    return [(x, y) for x in values for y in (0, 1)]


def users(name: str) -> list[User]:
    kinds = records(name)
    most = 1 if name == "mixed" else 2
    few = [user for m in range(most + 1) for user in combinations_with_replacement(kinds, m)]
    zero, one = kinds[0], kinds[-1]
    return [
        *few,
        (zero,) * 3,
        (one,) * 3,
        (zero, zero, one),
        (one,) * 4,
        (one,) * 5,
        (zero,) * 7,
        (zero,) * 3 + (one,) * 4,
    ]


def universe(name: str) -> Universe:
    """Each kind of user beside some bases, and copies of one of them."""
    kinds = users(name)
    bases: list[tuple[User, ...]] = [
        (),
        *((kind,) for kind in kinds[1:4]),
        (kinds[-2],),
        (kinds[1],) * 24,
        (kinds[-4],) * 24,
    ]
    listed = [base + more for base in bases for more in [(), *((kind,) for kind in kinds)]]
    return Universe(tuple(dict.fromkeys(tuple(sorted(data, key=repr)) for data in listed)))


def build(name: str) -> Callable[[Sequence[User]], UserData]:
    concept, _ = CLASSES[name]
    assert concept.columns is not None
    return lambda data: UserData.from_users(data, features=list(concept.columns))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", CLASSES)
def test_small_trees_are_private(name: str, relation: str) -> None:
    learner = SmallTreeLearner(CLASSES[name][0], 1, neighbours=relation)
    found = audit_exact(learner, universe(name), build=build(name))
    assert found.holds
    assert found.epsilon_found > Fraction(99, 100), "the bound is attained"


# The reference, and mutations


def cells(concept: SmallTrees, data: Sequence[User], weight: Callable[[User, Sequence[User]], int]) -> TreeCells:
    """From the definition: the weight of every record, tests looked up one by one."""
    total, k = 0, len(concept.tests)
    single, both, others = np.zeros((1, k), dtype=np.int64), np.zeros((1, k, k), dtype=np.int64), 0
    for user in data:
        a = weight(user, data) if user else 0
        for *values, y in user:
            v = a if y else -a
            held = np.array([holds(concept, test, values) for test in concept.tests], dtype=np.int64)
            total += v
            others += a * y
            single[0] += v * held
            both[0] += v * np.outer(held, held)
    return TreeCells(np.array([total], dtype=np.int64), single, both, others)


def holds(concept: SmallTrees, test: Any, values: Sequence[Any]) -> bool:
    column, value = concept.binned[test.column], values[test.column]
    if value is None:
        return bool(test.kind == "is" and test.value == column.bins)
    code = column.domain.code(value)
    assert code is not None
    return code == test.value if test.kind == "is" else code >= column.edges[test.value - 1]


def own_share(user: User, data: Sequence[User]) -> int:
    return LEVELS // len(user)


def test_the_reference_is_the_learners_law() -> None:
    for name, (concept, _) in CLASSES.items():
        learner = SmallTreeLearner(concept, 1)
        for data in list(universe(name))[::7]:
            law = learner.law(build(name)(data))
            other = SmallTreeLaw(concept.shape, cells(concept, data, own_share), learner.vote_rate)
            assert law.cells.same(other.cells)
            assert law.cells.others == other.cells.others


MUTATIONS: dict[str, tuple[Callable[[User, Sequence[User]], int], str, int]] = {
    "the rate of add-remove under replace": (own_share, "replace", 1),
    "a vote rounded up": (lambda user, data: -(-LEVELS // len(user)), "add-remove", 1),
    "a full vote for every record": (lambda user, data: LEVELS, "add-remove", 1),
    "votes from the pooled number of records": (
        lambda user, data: LEVELS * len(data) // max(1, sum(map(len, data))),
        "add-remove",
        1,
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_wrong_weights_are_caught(name: str) -> None:
    weight, relation, epsilon = MUTATIONS[name]
    concept, _ = CLASSES["number"]

    def law(data: Sequence[User]) -> SmallTreeLaw:
        return SmallTreeLaw(concept.shape, cells(concept, data, weight), Fraction(epsilon, LEVELS))

    found = audit_exact(law, universe("number"), neighbours=relation, epsilon=epsilon)
    assert not found.holds
    assert found.epsilon_found > Fraction(5, 4)


def test_a_prior_that_follows_the_data_is_caught() -> None:
    """Tests at values that nobody holds would be rarer."""
    concept, _ = CLASSES["flat"]

    def law(data: Sequence[User]) -> SmallTreeLaw:
        seen = {x for user in data for x, _ in user}
        prior = tuple(Fraction(1 + 9 * (test.value in seen), 20) for test in concept.tests)
        shape = TreeShape(tuple(p / sum(prior) for p in prior), concept.split, depth=1)
        return SmallTreeLaw(shape, cells(concept, data, own_share), Fraction(1, LEVELS))

    few = Universe(((), *((user,) for user in users("flat")[:7])))
    assert not audit_exact(law, few, neighbours="add-remove", epsilon=1).holds


def test_cuts_that_follow_the_data_are_caught() -> None:
    """The same law over cuts beside the values that occur instead of public ones; what is released is the rule."""
    (x,) = CLASSES["scale-free"][0].declared().values()
    assert x is not None

    def law(data: Sequence[User], concept: SmallTrees) -> FiniteLaw:
        found = SmallTreeLearner(concept, 1).law(build("scale-free")(data))
        rules = [concept.decode(tree) for tree in range(concept.size)]
        return FiniteLaw([], {(r.columns[0].edges[r.root.value - 1], r.yes, r.no): found.number(r.id) for r in rules})

    def followed(data: Sequence[User]) -> FiniteLaw:
        seen = sorted({min(value, x.hi - 1) for user in data for value, _ in user}) or [0]
        return law(data, SmallTrees({"x": x}, cuts={"x": seen}, spacing="equal", depth=1, levels=LEVELS))

    few = Universe(((), *((user,) for user in users("scale-free")[:7])))
    public = CLASSES["scale-free"][0]
    assert [column.edges for column in public.binned] == [(2, 3, 4, 5, 6)]
    assert audit_exact(lambda data: law(data, public), few, neighbours="add-remove", epsilon=1).holds
    caught = audit_exact(followed, few, neighbours="add-remove", epsilon=1)
    assert not caught.holds
    assert caught.epsilon_found == float("inf")


def test_users_without_records_change_nothing() -> None:
    for relation in RELATIONS:
        learner = SmallTreeLearner(CLASSES["number"][0], 1, neighbours=relation)
        people = build("number")([((0, 1), (2, 0)), ((1, 1),)])
        more = build("number")([((0, 1), (2, 0)), (), ((1, 1),), ()])
        assert learner.law(people).satisfies(learner.law(more), 0)


def test_nobody_and_no_epsilon_give_the_prior() -> None:
    concept, _ = CLASSES["number"]
    for law in (
        SmallTreeLearner(concept, 1).law(build("number")([])),
        SmallTreeLearner(concept, 0).law(build("number")([((0, 1),)] * 9)),
    ):
        assert [law.prob_exact(t) for t in range(concept.size)] == [
            concept.shape.of_tree(t) for t in range(concept.size)
        ]
        assert sum(concept.shape.of_tree(t) for t in range(concept.size)) == 1
