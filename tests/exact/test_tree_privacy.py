"""The tree learner's privacy, decided on every neighbouring pair of small universes; and mutations that must fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from attrs import frozen

from privpac.auditing.exact import audit_exact, datasets, neighbouring, user_universe
from privpac.data import Integers, UserData
from privpac.exact import ExpSum, dyadic_base
from privpac.law import BOTTOM, Law
from privpac.mechanisms.laplace import Laplace
from privpac.methods.hierarchy.tree_learner import NamedParts, NodeChoice, TreeLearner
from privpac.rules.hierarchies import StarTree, VC1Tree
from privpac.rules.hierarchies.base import Mode

MODES: tuple[Mode, ...] = ("closure", "exact", "erm")

# Root 0; 1 and 4 below it; 2 and 3 below 1; 5 below 4.
TREE = VC1Tree.from_matrix(
    [[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 1]], root=0
)
STAR = VC1Tree.from_matrix(np.vstack([np.zeros(6, dtype=int), np.eye(6, dtype=int)]), root=0)
R1, R2 = Fraction(330, 256), Fraction(410, 256)
DELTA = Fraction(1, 50)

Masses = dict[Hashable, Fraction]
Dataset = tuple[Any, ...]


def masses(law: Law, nodes: int) -> Masses:
    return {v: law.prob_exact(v) for v in (*range(nodes), BOTTOM)}


def hockey_stick(p: Masses, q: Masses, factor: Fraction) -> Fraction:
    return sum((max(Fraction(0), mass - factor * q[v]) for v, mass in p.items()), Fraction(0))


def worst(
    law_of: Callable[[Dataset], Masses], universe: Iterable[Dataset], relation: str, factor: Fraction
) -> Fraction:
    """The largest hockey stick over all neighbouring pairs, both orders."""
    held = cache(law_of)
    pairs = [pair for x, y in neighbouring(universe, relation) for pair in ((x, y), (y, x))]
    assert len(pairs) > 100
    return max(hockey_stick(held(x), held(y), factor) for x, y in pairs)


def nodes_law(tree: Any, choice: NodeChoice) -> Callable[[Dataset], Masses]:
    return lambda nodes: masses(choice.law(NamedParts(tree, nodes)), len(tree.parent))


# All vectors of part nodes


@pytest.mark.parametrize(("hi", "K"), [(1, 2), (2, 3), (3, 3)])
def test_replacing_one_part_is_private_for_every_vector_of_part_nodes(hi: int, K: int) -> None:
    choice = NodeChoice(TREE, hi, K, R1, R2, DELTA)
    found = worst(nodes_law(TREE, choice), datasets(range(6), 4, n_min=4), "replace", R1**2 * R2**2)
    assert 0 < found <= DELTA


@pytest.mark.parametrize(("hi", "K"), [(1, 1), (2, 3)])
def test_adding_or_removing_one_part_is_private_with_all_of_epsilon2_for_the_votes(hi: int, K: int) -> None:
    choice = NodeChoice(TREE, hi, K, R1, R2, DELTA)
    found = worst(nodes_law(TREE, choice), datasets(range(6), 4), "add-remove", R1**2 * R2)
    assert 0 < found <= DELTA


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_levels_drawn_without_delta_are_purely_private(relation: str) -> None:
    choice = NodeChoice(TREE, 2, 3, R1, R2, Fraction(0))
    universe = datasets(range(6), 4, n_min=4 if relation == "replace" else 0)
    assert worst(nodes_law(TREE, choice), universe, relation, R1**2 * R2 ** (2 if relation == "replace" else 1)) == 0


# Mutations


def test_votes_calibrated_for_add_remove_fail_under_replace() -> None:
    """Under replace one count falls and another rises."""
    delta, pair = Fraction(1, 100), VC1Tree.from_matrix([[0, 0], [1, 0], [0, 1]], root=0)
    choice = NodeChoice(pair, 1, 7, Fraction(9, 8), Fraction(3), delta)
    universe, held = datasets(range(3), 8, n_min=8), nodes_law(pair, choice)
    assert worst(held, universe, "replace", choice.r1**2 * choice.r2) > delta
    assert worst(held, universe, "replace", choice.r1**2 * choice.r2**2) <= delta
    assert worst(held, datasets(range(3), 8), "add-remove", choice.r1**2 * choice.r2) <= delta


@frozen(slots=False)
class LiteralParts:
    """Definition 16 as printed: to a part that no concept fits, every point is deterministic, so it votes for all of
    them."""

    tree: Any
    nodes: Dataset

    @property
    def depths(self) -> list[int]:
        return [self.tree.height if v == "contradictory" else self.tree.depth(v) for v in self.nodes]

    def votes(self, level: int) -> Counter[Hashable]:
        out: Counter[Hashable] = Counter()
        for v in self.nodes:
            if v == "contradictory":
                out.update(int(u) for u in np.flatnonzero(self.tree.layout.depth == level))
            elif self.tree.depth(v) >= level:
                out[self.tree.ancestor(v, level)] += 1
        return out


@pytest.mark.parametrize(("tree", "t"), [(TREE, 4), (STAR, 3)], ids=["five-nodes", "star"])
def test_a_contradictory_part_that_votes_for_everything_breaks_privacy(tree: Any, t: int) -> None:
    choice = NodeChoice(tree, 1, 2, Fraction(257, 256), Fraction(300, 256), DELTA)
    factor, size = choice.r1**2 * choice.r2**2, len(tree.parent)
    kinds = [*range(size), "contradictory"]
    literal = worst(
        lambda v: masses(choice.law(LiteralParts(tree, v)), size), datasets(kinds, t, n_min=t), "replace", factor
    )
    corrected = worst(nodes_law(tree, choice), datasets(range(size), t, n_min=t), "replace", factor)
    assert corrected <= DELTA < literal


@pytest.mark.parametrize("mode", MODES)
def test_a_contradictory_part_never_votes_for_two_nodes(mode: Mode) -> None:
    for user in user_universe([(x, y) for x in range(5) for y in (0, 1)], 3):
        parts = TREE.part_nodes(UserData.from_users([list(user)], features={"x": Integers(0, 4)}), mode)
        for level in range(1, TREE.height + 1):
            assert sum(parts.votes(level).values()) <= 1


# From data

SMALL = VC1Tree.from_matrix([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1]], root=0)
IMPROPER = VC1Tree.from_matrix([[0, 0, 0], [1, 1, 0], [1, 0, 1], [0, 0, 0]], root=0)
RECORDS = [(x, y) for x in range(3) for y in (0, 1)]


def configured(tree: VC1Tree, *numbers: Any, **options: Any) -> TreeLearner:
    return TreeLearner(tree, *numbers, **options)


def people(users: Dataset) -> UserData:
    return UserData.from_users([list(user) for user in users], features={"x": Integers(0, 2)})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tree", [SMALL, IMPROPER], ids=["closed", "improper"])
def test_every_dataset_of_four_records_in_random_halves_is_private(tree: Any, mode: Mode) -> None:
    """Both labels at every point, so most of the 1296 datasets (126 up to order) are not realizable; laws average the
    six splits."""
    learner = configured(
        tree, "1.5", "0.02", neighbours="replace", mode=mode, users_per_part=2, epsilon1="0.75", hi=1, K=1
    )
    choice = learner.choice(tree)
    factor = choice.r1**2 * choice.r2**2
    assert (ExpSum.exp(learner.guarantee.epsilon) - ExpSum.of(factor)).sign() >= 0
    halves = list(product(RECORDS, repeat=2))
    node = dict(zip(halves, tree.part_nodes(people(tuple(halves)), mode).nodes()))
    drawn = {(a, b): masses(choice.law(NamedParts(tree, (a, b))), 4) for a in range(4) for b in range(4)}

    def law(data: Dataset) -> Masses:
        sides = [(held, tuple(i for i in range(4) if i not in held)) for held in combinations(range(4), 2)]
        nodes = [tuple(node[tuple(data[i] for i in side)] for side in both) for both in sides]
        return {v: sum((drawn[pair][v] for pair in nodes), Fraction(0)) / 6 for v in (*range(4), BOTTOM)}

    found = worst(law, datasets(RECORDS, 4, n_min=4), "replace", factor)
    assert 0 < found <= learner.guarantee.delta
    for data in [RECORDS[:4], RECORDS[2:], [RECORDS[1]] * 4, [RECORDS[3], RECORDS[1], RECORDS[5], RECORDS[3]]]:
        assert masses(learner.law(people(tuple((record,) for record in data))), 4) == law(tuple(data))


def test_the_order_of_users_does_not_matter() -> None:
    learner = configured(SMALL, "1.5", "0.02", neighbours="replace", users_per_part=2, hi=1, K=1)
    data = (((0, 1),), ((1, 1),), ((2, 0),), ((2, 1),))
    assert masses(learner.law(people(data)), 4) == masses(learner.law(people(data[::-1])), 4)


@pytest.mark.parametrize("mode", MODES)
def test_users_with_up_to_two_records_are_private_under_add_remove(mode: Mode) -> None:
    learner = configured(SMALL, 1, "0.05", mode=mode, epsilon1="0.5", hi=1, K=1)
    factor = learner.choice(SMALL).r1 ** 2 * learner.choice(SMALL).r2
    universe = datasets(user_universe([(0, 1), (1, 1), (1, 0), (2, 1)], 2), 2)
    found = worst(lambda data: masses(learner.law(people(data)), 4), universe, "add-remove", factor)
    assert 0 < found <= learner.guarantee.delta


def test_parts_fixed_in_advance_are_private_under_add_remove() -> None:
    """A user who joins a part replaces its node, so votes are weighed by half of epsilon2."""
    learner = configured(SMALL, 2, "0.05", parts=2, epsilon1="0.5", hi=1, K=1)
    assert learner.choice(SMALL).r2 == dyadic_base("0.75")
    kinds = [(), ((0, 1),), ((1, 1),), ((2, 1),), ((0, 1), (1, 0))]
    audit = audit_exact(learner, datasets(kinds, 3), build=people)
    assert audit.holds
    assert audit.neighbours == "add-remove"


def test_the_guarantee_of_the_default_learner_is_audited() -> None:
    learner = configured(SMALL, 1, "0.05", hi=1, K=2)
    kinds = [(), ((0, 1),), ((1, 1),), ((2, 1),), ((2, 1), (1, 1))]
    assert audit_exact(learner, datasets(kinds, 3), build=people).holds
    pure = configured(SMALL, 1, hi=1, K=2)
    assert pure.guarantee.delta == 0
    assert audit_exact(pure, datasets(kinds, 3), build=people).holds


def test_an_open_vocabulary_is_private() -> None:
    learner = configured(StarTree(), 1, "0.05", hi=1, K=1)

    def build(users: Dataset) -> UserData:
        return UserData.from_users([list(user) for user in users])

    kinds = [(), (("a", 1),), (("b", 1),), (("a", 1), ("b", 1)), (("c", 0),)]
    audit = audit_exact(learner, datasets(kinds, 3), build=build)
    assert audit.holds
    assert not audit_exact(
        learner, datasets(kinds, 3), build=build, neighbours="add-remove", epsilon="0.1", delta="0.01"
    ).holds


# Ranks that follow the number of users


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_ranks_that_follow_a_public_number_are_private(neighbours: str) -> None:
    """Twelve users, so that both ranks lie above their constants."""
    learner = configured(
        SMALL, 1, "0.05", mode="erm", neighbours=neighbours, public_n_users=12 if neighbours == "add-remove" else None
    )
    kinds = [(), ((0, 1),), ((1, 1), (1, 1)), ((2, 1),)]
    crowds = [(kinds[2],) * 11, (kinds[2],) * 8 + (kinds[3],) * 3]
    universe = {tuple(sorted((*crowd, kind))) for crowd in crowds for kind in kinds}
    if neighbours == "add-remove":
        universe |= {tuple(sorted(crowd)) for crowd in crowds}
    assert audit_exact(learner, universe, build=people).holds


def test_the_noisy_count_and_the_node_together_keep_epsilon() -> None:
    """The ranks follow what the count said, not the users."""
    learner = configured(SMALL, 2, "0.05", mode="erm")
    assert learner.needs_count
    assert learner.epsilon_count + learner.split.epsilon1 + learner.split.epsilon2 == learner.guarantee.epsilon == 2
    kinds = [(), ((0, 1),), ((1, 1), (1, 1)), ((2, 1),)]

    def law(users: Dataset) -> Law:
        data, most = people(users), 600
        count = Laplace(learner.epsilon_count, 1, unit="user", neighbours="add-remove").law(
            len(users), bounds=(0, most)
        )
        nodes = [learner.law(data, given=200 * k).map(lambda node, k=k: (k, node)) for k in range(most // 200 + 1)]
        return count.bind(lambda n: nodes[n // 200])

    ranks = {learner._ranks(n) for n in range(0, 601, 200)}
    assert len(ranks) > 2
    universe = {
        tuple(sorted((*crowd, *more))) for crowd in [(), (kinds[2],) * 6] for more in [(), *((kind,) for kind in kinds)]
    }
    audit = audit_exact(law, universe, neighbours="add-remove", epsilon=2, delta="0.05")
    assert audit.holds, audit.explain()


def test_ranks_that_follow_the_true_number_of_users_are_caught() -> None:
    """The mistake that the count exists for: a user without records moves both ranks at once, hi by 1 and K by 2."""
    path = VC1Tree.from_matrix([[0], [1]], root=0)

    def law(users: Dataset) -> Law:
        learner = configured(path, 1, mode="erm", public_n_users=14 * len(users) // 5)
        return learner.law(UserData.from_users([list(user) for user in users], features={"x": Integers(0, 0)}))

    crowd = (((0, 1),),) * 62
    audit = audit_exact(law, [crowd, ((), *crowd)], neighbours="add-remove", epsilon=1)
    assert not audit.holds
    assert audit.epsilon_found > 1.15
