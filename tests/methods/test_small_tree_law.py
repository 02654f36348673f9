"""The one law over small trees against listing: normaliser, draws, mode, divergences, and the doubles that filter."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from scipy.stats import chi2

from privpac.data import Categories, Integers, UserData
from privpac.errors import TooLargeError
from privpac.exact import Ball, ExpSum, ball_of, precision
from privpac.law.divergence import max_divergence
from privpac.methods import small_tree as tree_law
from privpac.methods.small_tree import SmallTreeLaw, SmallTreeLearner, TreeFilter, corners
from privpac.rules.small_trees import Side, SmallTrees, TreeCells, TreeShape
from privpac.testing import SeededRng, insecure_randomness


def random_law(
    rng: np.random.Generator, *, tests: int = 3, labels: int = 2, depth: int = 2, size: int = 40, rate: str = "1/12"
) -> SmallTreeLaw:
    """Cells that need not come from a table: the algebra holds for all of them."""
    weights = rng.integers(1, 6, tests)
    prior = tuple(Fraction(int(w), int(weights.sum())) for w in weights)

    def some(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return rng.integers(-size, size + 1, (labels - 1, *shape))

    both = some(tests, tests)
    cells = TreeCells(some(), some(tests), both + both.transpose(0, 2, 1), int(rng.integers(0, size)))
    return SmallTreeLaw(TreeShape(prior, Fraction(7, 10), labels, depth), cells, Fraction(rate))


def listed(law: SmallTreeLaw) -> list[ExpSum]:
    return [ExpSum.exp(law.rate * law.gain(t), law.shape.of_tree(t)) for t in range(law.shape.size)]


SHAPES = [(3, 2, 2), (2, 3, 2), (5, 2, 1), (1, 2, 2), (2, 4, 1)]


@pytest.mark.parametrize(("tests", "labels", "depth"), SHAPES)
def test_the_normaliser_is_the_sum_over_all_trees(tests: int, labels: int, depth: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(6):
        law = random_law(rng, tests=tests, labels=labels, depth=depth)
        assert law.total.sum == ExpSum(term for weight in listed(law) for term in weight)
        with precision(192):
            assert law.total.arb().overlaps(law.total.sum.arb())
        assert sum(float(law.prob(t)) for t in range(law.shape.size)) == pytest.approx(1, abs=1e-12)


def test_ids_and_parts_go_both_ways() -> None:
    for tests, labels, depth in SHAPES:
        shape = TreeShape((Fraction(1, tests),) * tests, Fraction(7, 10), labels, depth)
        assert [shape.id(*shape.parts(t)) for t in range(shape.size)] == list(range(shape.size))
        assert sum(shape.of_tree(t) for t in range(shape.size)) == 1
        assert shape.least == min(shape.of_tree(t) for t in range(shape.size))
        with precision(128):
            half = sum(float(shape.of_tree(t)) ** 0.5 for t in range(shape.size))
            assert float(shape.power(Fraction(1, 2))) == pytest.approx(half)


@pytest.mark.parametrize(("tests", "labels", "depth"), SHAPES)
def test_the_mode_is_the_first_most_likely_tree(tests: int, labels: int, depth: int) -> None:
    rng = np.random.default_rng(2)
    for size in (1, 2, 40):
        for _ in range(4):
            law = random_law(rng, tests=tests, labels=labels, depth=depth, size=size, rate="1/3")
            assert law.mode == law.as_finite().mode


@pytest.mark.parametrize(("tests", "labels", "depth"), SHAPES[:3])
def test_the_largest_divergence_is_that_of_the_list(tests: int, labels: int, depth: int) -> None:
    rng = np.random.default_rng(3)
    for _ in range(4):
        first = random_law(rng, tests=tests, labels=labels, depth=depth)
        other = random_law(rng, tests=tests, labels=labels, depth=depth)
        other.shape = first.shape
        found, slow = first.max_divergence(other), max_divergence(first.as_finite(), other.as_finite())
        assert isinstance(found, Ball)
        assert isinstance(slow, Ball)
        assert found.lo <= slow.hi
        assert slow.lo <= found.hi
        for epsilon in (found.lo * Fraction(99, 100), found.hi):
            assert first.dominated_by(other, epsilon) is (epsilon == found.hi)


# Drawing


def exact_quotients(weights: list[object]) -> list[Ball]:
    running, out = weights[0] * 0, []  # type: ignore[operator]
    for weight in weights:
        running = running + weight
        out.append(running)
    return [ball_of(part / running) for part in out]


def test_the_filter_errs_less_than_it_says() -> None:
    """60 laws: every cumulative quotient of roots, options and labels against balls."""
    rng, worst = np.random.default_rng(4), 0.0
    for i in range(60):
        labels = 2 + i % 3
        law = random_law(rng, tests=1 + i % 7, labels=labels, size=10 ** (1 + i % 6), rate=f"1/{1 + 60 * (i % 5)}")
        with precision(256):
            yes, no = corners(law.cells, 0, 1)
            checks = [
                (law.filter.roots, exact_quotients(law._roots())),
                (law.filter.options(0, True), exact_quotients(law._options(yes))),
                (law.filter.options(0, False), exact_quotients(law._options(no))),
            ]
        for (quotients, error), balls in checks:
            for quotient, ball in zip(quotients.tolist(), balls):
                off = max(abs(Fraction(quotient) - ball.lo), abs(Fraction(quotient) - ball.hi))
                assert off <= error
                worst = max(worst, float(off) / error)
    assert worst < 0.5


def test_a_coarse_filter_keeps_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a margin of 0.05 many draws go on to balls; the law stays the same (false alarm below 1e-6)."""
    law = random_law(np.random.default_rng(5), tests=2, size=10)
    open_ = []
    plain = TreeFilter._quotients
    monkeypatch.setattr(TreeFilter, "_quotients", staticmethod(lambda w, units: (plain(w, units)[0], 0.05)))
    settled = tree_law.settled

    def counted(quotients: np.ndarray[tuple[int], np.dtype[np.float64]], error: float, u: int) -> int | None:
        found = settled(quotients, error, u)
        open_.append(found is None)
        return found

    monkeypatch.setattr(tree_law, "settled", counted)
    runs = 3000
    with insecure_randomness():
        source = SeededRng(6)
        drawn = Counter(law.sample(source) for _ in range(runs))
    assert sum(open_) > runs / 10
    probabilities = [float(law.prob(t)) for t in range(law.shape.size)]
    # Trees that are rare are counted together, so that every cell expects 5 draws or more.
    common = [t for t, p in enumerate(probabilities) if p * runs >= 5]
    expected = [probabilities[t] * runs for t in common]
    seen = [drawn[t] for t in common]
    expected.append(runs - sum(expected))
    seen.append(runs - sum(seen))
    statistic = sum((s - e) ** 2 / e for s, e in zip(seen, expected) if e > 0)
    assert statistic < chi2.isf(1e-7, len(expected) - 1) + 3 * sqrt(2)


def test_a_tree_is_drawn_with_the_product_of_its_choices() -> None:
    law = random_law(np.random.default_rng(7), tests=3)
    with precision(256):
        roots = law._roots()
        total = sum(roots[1:], roots[0])
        for root in range(3):
            yes, no = corners(law.cells, root, root + 1)
            sides = [law._options(corner) for corner in (yes, no)]
            for tree in (
                law.shape.id(root, Side(None, (1,)), Side(2, (0, 1))),
                law.shape.id(root, Side(0, (1, 1)), Side(1, (0, 0))),
            ):
                _, first, second = law.shape.parts(tree)
                chance = roots[root] / total
                for corner, options, side in zip((yes, no), sides, (first, second)):
                    chance *= options[0 if side.test is None else side.test + 1] / sum(options[1:], options[0])
                    cells = (
                        [corner.side[:, 0]]
                        if side.test is None
                        else [corner.held[:, 0, side.test], corner.failed[:, 0, side.test]]
                    )
                    for cell, label in zip(cells, side.labels):
                        chance *= (law._leaf(cell) - 1 if label else 1) / law._leaf(cell)
                assert chance.overlaps(law.number(tree).arb())


# From tables


def table(rng: np.random.Generator, users: int = 12) -> list[list[tuple[object, ...]]]:
    sizes = rng.choice([0, 1, 2, 3, 5, 17], users)
    return [
        [
            (
                None if rng.random() < 0.2 else int(rng.integers(0, 4)),
                str(rng.choice(["a", "b", "c"])),
                int(rng.integers(0, 2)),
                int(rng.integers(0, 2)),
            )
            for _ in range(m)
        ]
        for m in sizes
    ]


CONCEPT = SmallTrees(
    {"x": Integers(0, 3), "k": Categories(["a", "b", "c"]), "b": Integers(0, 1)}, missing=["x"], levels=12
)


def test_scores_are_the_votes_of_wrong_records() -> None:
    """The law's score of a tree against its predictions on the table, for every tree."""
    people = table(np.random.default_rng(8))
    learner = SmallTreeLearner(CONCEPT, 1)
    concept, bound = CONCEPT.bind(UserData.from_users(people, features=["x", "k", "b"]))
    law = learner.law(UserData.from_users(people, features=["x", "k", "b"]))
    assert isinstance(bound, UserData)
    votes = np.repeat(np.where(bound.sizes > 0, 12 // np.maximum(bound.sizes, 1), 0), bound.sizes)
    for tree in range(0, concept.size, 97):
        rule = concept.decode(tree)
        wrong = rule.predict_codes(bound.codes) != bound.labels
        assert law.score(tree) == int(votes[wrong].sum())
        shown = type(rule)(rule.columns, rule.root, rule.shown(rule.yes, True), rule.shown(rule.no, False), 2, tree)
        assert np.array_equal(shown.predict_codes(bound.codes), rule.predict_codes(bound.codes))


def test_the_order_of_users_and_records_does_not_matter_and_columns_permute() -> None:
    rng = np.random.default_rng(9)
    people = table(rng)
    mixed = [
        [user[i] for i in rng.permutation(len(user))] for user in (people[i] for i in rng.permutation(len(people)))
    ]
    learner = SmallTreeLearner(CONCEPT, 1)
    law = learner.law(UserData.from_users(people, features=["x", "k", "b"]))
    assert law.cells.same(learner.law(UserData.from_users(mixed, features=["x", "k", "b"])).cells)
    assert CONCEPT.columns is not None
    names = ["b", "x", "k"]
    turned = SmallTrees({name: CONCEPT.columns[name] for name in names}, missing=["x"], levels=12)
    other = SmallTreeLearner(turned, 1).law(UserData.from_users(people, features=["x", "k", "b"]))
    new = {(turned.binned[t.column].name, t.kind, t.value): i for i, t in enumerate(turned.tests)}
    at = [new[CONCEPT.binned[t.column].name, t.kind, t.value] for t in CONCEPT.tests]

    def moved(side: Side) -> Side:
        return Side(None if side.test is None else at[side.test], side.labels)

    for tree in range(0, CONCEPT.size, 501):
        root, yes, no = law.shape.parts(tree)
        twin = other.shape.id(at[root], moved(yes), moved(no))
        assert other.score(twin) == law.score(tree)
        assert other.shape.of_tree(twin) == law.shape.of_tree(tree)


def test_large_laws_are_not_listed() -> None:
    law = SmallTreeLearner(SmallTrees({f"x{j}": Integers(0, 99) for j in range(3)}), 1).law(
        UserData.from_users([[(1, 2, 3, 1)], [(80, 2, 3, 0)]], features=["x0", "x1", "x2"])
    )
    for listing in (law.support, law.as_finite):
        with pytest.raises(TooLargeError, match="too many to list"):
            list(listing())  # type: ignore[call-overload]
    assert 0 < float(law.prob(law.mode)) < 1


def test_a_corner_may_be_larger_than_every_cell() -> None:
    """Weights beyond the table of doubles: the bound of corners is by cells, and gaps never leave the table."""
    law = random_law(np.random.default_rng(10), tests=6, size=10**15, rate="1/720720")
    with insecure_randomness():
        assert law.sample(SeededRng(1)) == law.mode
