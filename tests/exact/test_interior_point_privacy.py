"""Interior points: the lemmas and the complete laws, decided over every neighbouring pair of small universes.

Lemmas 1 to 3 are the sharp tests (the last two stages blur what the walk shows); complete laws are compared at the
exact ``e**epsilon`` and ``delta`` of the guarantee.  Mutations that must fail show that the tests can see the mistakes
they look for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import pytest

from privpac.auditing.exact import audit_exact, datasets
from privpac.exact import as_arb, up
from privpac.mechanisms import interior_point as hidden_walk
from privpac.mechanisms.interior_point import (
    InteriorPoint,
    Level,
    PairLevel,
    PrefixInteriorPoint,
    WalkReduction,
    active_steps,
    delta1,
    kept_law,
    step,
    walk_paths,
)

Masses = dict[Any, Fraction]
Node = tuple[int, int]


def excess(p: Masses, q: Masses, factor: Fraction) -> Fraction:
    """The hockey stick of P against Q at ``factor``."""
    return sum((max(Fraction(0), mass - factor * q.get(value, Fraction(0))) for value, mass in p.items()), Fraction(0))


def multisets(top: int, n: int) -> list[tuple[int, ...]]:
    return list(combinations_with_replacement(range(top + 1), n))


def neighbour_pairs(top: int, n: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Ordered pairs of multisets that differ in one replaced element, once for every common part."""
    for common in multisets(top, n - 1):
        for x in range(top + 1):
            for y in range(top + 1):
                if x != y:
                    yield tuple(sorted((*common, x))), tuple(sorted((*common, y)))


def worst_excess(law: Callable[[tuple[int, ...]], Masses], top: int, n: int, factor: Fraction) -> tuple[Fraction, int]:
    """The largest hockey stick over all pairs.

    Doubles rank the pairs; every pair within 1e-9 of the largest is compared exactly.
    """
    exact = {data: law(data) for data in multisets(top, n)}
    rough = {data: {value: float(p) for value, p in masses.items()} for data, masses in exact.items()}
    f, worst, count = float(factor), Fraction(0), 0
    for a, b in neighbour_pairs(top, n):
        p, q = rough[a], rough[b]
        count += 1
        if sum(max(0.0, p[v] - f * q.get(v, 0.0)) for v in p) >= float(worst) - 1e-9:
            worst = max(worst, excess(exact[a], exact[b], factor))
    return worst, count


# Lemma 1


@pytest.mark.parametrize("r", ["5/4", "3/2", "2", "3", "4295396812/4294967296"])
def test_one_unit_of_weight_is_a_small_change_of_the_step(r: str) -> None:
    base = Fraction(r)
    for kappa in range(1, 13):
        small, tight = delta1(base, kappa), 0
        for d in range(-kappa - 2, kappa + 3):
            here = step(d, base, kappa)
            assert 0 <= here <= 1
            assert here + step(-d, base, kappa) == 1
            for near in (step(d + 1, base, kappa), step(d - 1, base, kappa)):
                assert near <= base * here + small
                assert 1 - near <= base * (1 - here) + small
                tight += near == base * here + small
        assert tight >= kappa


# Lemma 2: the common prefix of two walks


def weight(data: Sequence[int], node: Node, bits: int) -> int:
    depth, prefix = node
    return sum(x >> (bits - depth) == prefix for x in data)


def children(node: Node) -> tuple[Node, Node]:
    depth, prefix = node
    return (depth + 1, 2 * prefix), (depth + 1, 2 * prefix + 1)


def common_prefix_law(common: Sequence[int], x: int, bits: int, level: Level) -> Masses:
    """The walk of ``common + x``, cut as soon as ``common`` weighs at most ``T``; node by node, by the definition."""
    data = (*common, x)
    out: Masses = {}
    open_: list[tuple[tuple[Node, ...], Fraction]] = [(((0, 0),), Fraction(1))]
    while open_:
        path, share = open_.pop()
        node = path[-1]
        if weight(common, node, bits) <= level.T or node[0] == bits:
            out[path] = out.get(path, Fraction(0)) + share
            continue
        left, right = children(node)
        p = step(weight(data, left, bits) - weight(data, right, bits), level.r, level.kappa)
        open_ += [((*path, child), share * q) for child, q in ((left, p), (right, 1 - p)) if q]
    return out


def lemma_two_excess(n: int, bits: int, level: Level, factor: Fraction) -> Fraction:
    worst = Fraction(0)
    for common in multisets(2**bits - 1, n - 1):
        laws = [common_prefix_law(common, x, bits, level) for x in range(2**bits)]
        worst = max([worst, *(excess(p, q, factor) for p in laws for q in laws)])
    return worst


LEMMA_TWO = Level(3, 2, 3, 1, 2, "1/100", 2)


def test_common_prefixes_are_indistinguishable() -> None:
    """n = 7, two bits: tight to 5 percent."""
    J = active_steps(7, 3, 3)
    allowed = (J + 2) * delta1(Fraction(2), 3)
    assert J == 2
    worst = lemma_two_excess(7, 2, LEMMA_TWO, Fraction(2) ** (J + 1))
    assert Fraction(27, 100) < worst <= allowed


@pytest.mark.parametrize(
    ("n", "bits", "level"), [(6, 3, Level(2, "3/2", 2, 1, 2, "1/9", 2)), (8, 2, Level(2, "5/4", 4, 1, 2, "1/9", 2))]
)
def test_common_prefixes_are_indistinguishable_for_other_parameters(n: int, bits: int, level: Level) -> None:
    J = active_steps(n, level.T, level.kappa)
    assert lemma_two_excess(n, bits, level, level.r ** (J + 1)) <= (J + level.r) * delta1(level.r, level.kappa)


def test_one_unit_less_for_each_path_is_not_enough() -> None:
    """Mutation: the step where the two values part costs two units; forgetting one (``r**J``, ``J delta1``) is
    visible."""
    J = active_steps(7, 3, 3)
    assert lemma_two_excess(7, 2, LEMMA_TWO, Fraction(2) ** J) > J * delta1(Fraction(2), 3)


# Lemma 3: windows given the common prefix


def literal_walks(
    data: Sequence[int], bits: int, level: Level
) -> Iterator[tuple[tuple[Node, ...], tuple[int, ...], Fraction]]:
    """Every complete walk: its path, the depths at which values were left, its probability."""
    open_: list[tuple[tuple[Node, ...], tuple[int, ...], Fraction]] = [(((0, 0),), (), Fraction(1))]
    while open_:
        path, fallen, share = open_.pop()
        node = path[-1]
        held = weight(data, node, bits)
        if held <= level.T or node[0] == bits:
            yield path, fallen + ((bits,) * held if node[0] == bits else ()), share
            continue
        left, right = children(node)
        p = step(weight(data, left, bits) - weight(data, right, bits), level.r, level.kappa)
        for child, other, q in ((left, right, p), (right, left, 1 - p)):
            if q:
                open_.append(((*path, child), fallen + (node[0],) * weight(data, other, bits), share * q))


Windows = dict[tuple[Node, ...], set[tuple[int, ...]]]


def windows_by_prefix(common: Sequence[int], x: int, bits: int, level: Level, *, drop: bool = True) -> Windows:
    """All windows that can follow each common prefix; the mutant keeps values still together at the stop instead of
    dropping ``T``."""
    data = (*common, x)
    out: Windows = {}
    for path, fallen, _ in literal_walks(data, bits, level):
        stop = next(i for i, node in enumerate(path) if weight(common, node, bits) <= level.T or node[0] == bits)
        kept = (
            sorted(fallen)[: len(data) - level.T]
            if drop
            else [*sorted(fallen), *[path[-1][0]] * (len(data) - len(fallen))]
        )
        out.setdefault(path[: stop + 1], set()).add(tuple(kept[level.B - 1 :]))
    return out


def replaced(one: Sequence[int], two: Sequence[int]) -> int:
    return sum(max(0, one.count(v) - two.count(v)) for v in set(one))


def most_replaced(n: int, bits: int, level: Level, *, drop: bool = True) -> int:
    """Over every common part, every pair of added values, every common prefix and all further coins of both walks."""
    worst = 0
    for common in multisets(2**bits - 1, n - 1):
        windows = [windows_by_prefix(common, x, bits, level, drop=drop) for x in range(2**bits)]
        for one in windows:
            for two in windows:
                for prefix in one.keys() & two.keys():
                    worst = max([worst, *(replaced(a, b) for a in one[prefix] for b in two[prefix])])
    return worst


WINDOWS = [
    (6, 2, Level(1, 3, 2, 1, 2, "1/9", 2)),
    (7, 2, Level(2, 2, 3, 2, 2, "1/9", 2)),
    (5, 3, Level(1, 3, 1, 2, 2, "1/9", 2)),
]


@pytest.mark.parametrize(("n", "bits", "level"), WINDOWS)
def test_windows_differ_in_one_element_given_the_common_prefix(n: int, bits: int, level: Level) -> None:
    assert most_replaced(n, bits, level) == 1


def test_keeping_the_values_at_the_stop_moves_more_than_one_element() -> None:
    assert max(most_replaced(*case, drop=False) for case in WINDOWS) > 1


@pytest.mark.parametrize("level", [Level(1, 3, 1, 1, 2, "1/9", 2), Level(2, "3/2", 3, 1, 2, "1/9", 2)])
def test_the_law_of_windows_is_the_literal_one(level: Level) -> None:
    for data in multisets(7, 5):
        literal: Masses = {}
        for _, fallen, share in literal_walks(data, 3, level):
            kept = tuple(sorted(fallen)[: 5 - level.T])
            literal[kept] = literal.get(kept, Fraction(0)) + share
        assert kept_law(data, 3, level) == literal


# Complete laws


ONE = (Level(3, 2, 3, 1, "5/4", "1/100", "9/8"),)
TWO = (*ONE, Level(2, 2, 2, 1, "5/4", "1/100", "9/8"))


@pytest.mark.parametrize("top", [7, 4])
@pytest.mark.parametrize("levels", [ONE, TWO], ids=["one", "two"])
def test_complete_laws_are_private_on_every_neighbouring_pair(top: int, levels: tuple[Level, ...]) -> None:
    point = WalkReduction(levels, "9/8", top, 6)
    assert point.delta < Fraction(1, 3)
    worst, pairs = worst_excess(point.masses, top, 6, point.multiplicative)
    assert worst <= point.delta
    assert pairs == {7: 44352, 4: 2520}[top]


@pytest.mark.slow
def test_two_reductions_of_seven_values_are_private_on_every_neighbouring_pair() -> None:
    point = WalkReduction(TWO, "9/8", 7, 7)
    assert point.delta < 1
    worst, pairs = worst_excess(point.masses, 7, 7, point.multiplicative)
    assert worst <= point.delta
    assert pairs == 96096


def epsilon_of(factor: Fraction) -> Fraction:
    return up(lambda: as_arb(factor).log())


def test_the_audit_decides_the_same() -> None:
    """The library's own audit, on the law that is sampled, at the rounded-up epsilon."""
    point = WalkReduction((Level(2, 2, 2, 1, "3/2", "1/50", "3/2"),), "3/2", 3, 5)
    universe = datasets(range(4), 5, n_min=5)
    assert audit_exact(
        point.law, universe, neighbours="replace", epsilon=epsilon_of(point.multiplicative), delta=point.delta
    ).holds
    assert not audit_exact(point.law, universe, neighbours="replace", epsilon="1/20").holds


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_mechanism_keeps_its_promise_over_users(neighbours: str) -> None:
    """A window of ranks 2..4 of any number of users, padded with the public 0."""
    point = InteriorPoint("1/2", top=3, size=3, hi=2, neighbours=neighbours)
    audit = audit_exact(point, datasets(range(4), 5, n_min=5 if neighbours == "replace" else 0))
    assert audit.holds


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_mechanism_with_a_reduction_keeps_its_promise_over_users(neighbours: str) -> None:
    point = InteriorPoint(8, "1/5", top=6, levels=1, beta="9/10", neighbours=neighbours)
    size = point.size
    assert size is not None
    assert size <= 10
    assert point.reductions == 1
    audit = audit_exact(point, datasets((0, 2, 5, 6), size, n_min=size - 1))
    assert audit.holds


# Random pairs


PAIR = PairLevel(1, 1, "5/4", "1/50", "5/4")


@pytest.mark.parametrize(("size", "top", "levels"), [(4, 7, (PAIR,)), (6, 3, (PairLevel(2, 1, "5/4", "1/50", "5/4"),))])
def test_pairs_are_private_on_every_neighbouring_pair(size: int, top: int, levels: tuple[PairLevel, ...]) -> None:
    point = PrefixInteriorPoint(levels, "5/4", top, size)
    worst, _ = worst_excess(point.masses, top, size, point.multiplicative)
    assert worst <= point.delta


@pytest.mark.parametrize("top", [2, 3])
def test_two_levels_of_pairs_are_private_on_every_neighbouring_pair(top: int) -> None:
    point = PrefixInteriorPoint((PAIR, PAIR), "5/4", top, 8)
    worst, _ = worst_excess(point.masses, top, 8, point.multiplicative)
    assert worst <= point.delta == Fraction(1, 25)


def test_pairs_need_the_factor_of_every_stage() -> None:
    """Mutation: without the factor of the depth the same universe violates the claim."""
    point = PrefixInteriorPoint((PAIR,), 4, 3, 4)
    worst, _ = worst_excess(point.masses, 3, 4, point.multiplicative / 16)
    assert worst > point.delta


# Mutations of the whole mechanism


HEAVY = sorted([1] * 32 + [8] * 11 + [10] * 5 + [12] * 11 + [14] * 5)
HEAVY_NEIGHBOUR = sorted([*HEAVY[1:], 15])
DEEP, DEEP_NEIGHBOUR = sorted([1] * 25 + [4] * 7 + [8] * 8), sorted([1] * 24 + [4] * 7 + [8] * 9)


def level_of(B: int) -> Level:
    return Level(20, "5/4", 24, B, "5/4", "1/1000", "5/4")


def both_ways(point: WalkReduction, one: list[int], two: list[int]) -> Fraction:
    p, q = point.masses(one), point.masses(two)
    return max(excess(p, q, point.multiplicative), excess(q, p, point.multiplicative))


def test_always_the_heavier_child_is_not_private(monkeypatch: pytest.MonkeyPatch) -> None:
    point = WalkReduction([level_of(31)], 2, 15, 64)
    assert both_ways(point, HEAVY, HEAVY_NEIGHBOUR) == 0
    monkeypatch.setattr(hidden_walk, "step", lambda d, r, kappa: Fraction(1, 2) if d == 0 else Fraction(d > 0))
    assert Fraction(3, 10) < both_ways(point, HEAVY, HEAVY_NEIGHBOUR)
    assert point.delta < Fraction(9, 1000)


def test_keeping_the_deepest_values_at_the_stop_is_not_private(monkeypatch: pytest.MonkeyPatch) -> None:
    level = level_of(1)
    point = WalkReduction([level], 2, 15, 40)
    assert both_ways(point, DEEP, DEEP_NEIGHBOUR) == 0

    def keep_all(values: Sequence[int], bits: int, level: Level) -> dict[tuple[int, ...], Fraction]:
        out: dict[tuple[int, ...], Fraction] = {}
        for fallen, share in walk_paths(values, bits, level):
            stop = fallen[-1] + 1 if fallen else 0
            kept = fallen + (stop,) * (len(values) - len(fallen))
            out[kept] = out.get(kept, Fraction(0)) + share
        return out

    mutant = WalkReduction([level], 2, 15, 40)
    mutant.__dict__["inner"] = WalkReduction((), 2, 4, 40)
    monkeypatch.setattr(hidden_walk, "kept_law", keep_all)
    assert both_ways(mutant, DEEP, DEEP_NEIGHBOUR) > Fraction(1, 2) > 50 * point.delta
