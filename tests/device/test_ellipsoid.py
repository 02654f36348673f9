"""Ellipsoids keep every true separator, in exact rationals; wrong constants are caught at the rim, where whole runs
would forgive them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import isqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privpac.device.separators as module
from privpac.device.items import Records, distinct
from privpac.device.separators import UNIT, Constants, Ellipsoid, SQEllipsoid, constants, normalise, plan_ellipsoid
from privpac.device.statistical_queries import RoundedAnswers
from privpac.errors import ParameterError

SEED = bytes(range(32))
Vector = list[Fraction]


def root(value: Fraction) -> Fraction:
    """A square root to 200 bits."""
    return Fraction(isqrt((value.numerator << 400) // value.denominator), 1 << 200)


def dot(a: Any, b: Any) -> Fraction:
    return sum((Fraction(x) * y for x, y in zip(a, b)), Fraction(0))


def unit(a: Any) -> Vector:
    length = root(dot(a, a))
    return [Fraction(x) / length for x in a]


def solve(matrix: list[list[int]], target: Vector) -> Vector:
    rows = [[*map(Fraction, row), right] for row, right in zip(matrix, target)]
    for k in range(len(rows)):
        pivot = next(i for i in range(k, len(rows)) if rows[i][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [a / rows[k][k] for a in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][k]:
                rows[i] = [a - rows[i][k] * b for a, b in zip(rows[i], rows[k])]
    return [row[-1] for row in rows]


def inside(body: Ellipsoid, w: Vector) -> bool:
    z = solve(body.shape, [a - c for a, c in zip(w, body.centre)])
    return dot(z, z) <= 1


# The rim


class NewShift(Ellipsoid):
    """A mistake: the centre moves along the stretched axes."""

    def _stretch(self, g: list[int], a: int, b: int) -> list[int]:
        super()._stretch(g, a, b)
        return [sum(entry * part for entry, part in zip(row, g)) for row in self.shape]


def rim_kept(
    kind: str,
    D: int,
    seed: int,
    change: Callable[[Constants], Constants] = lambda c: c,
    form: type[Ellipsoid] = Ellipsoid,
) -> bool:
    """Whether points just inside the unit ball, at the edge of what a move keeps, lie in the new ellipsoid."""
    random = np.random.default_rng(seed)
    body = form(D, 50)
    body.constants = change(body.constants)
    body.shape = [
        [int(a) << 64 for a in row] for row in (random.integers(-9, 9, (D, D)) + 40 * np.eye(D, dtype=int)).tolist()
    ]
    body.centre = [int(c) << 64 for c in random.integers(-20, 20, D)]
    direction = [int(a) for a in random.integers(-40, 40, D)]
    direction[0] = direction[0] or 7
    g = unit(direction)
    across = [int(a) for a in random.integers(-30, 30, D)]
    p = unit([a - dot(across, g) * b for a, b in zip(across, g)])
    size = 1 - Fraction(1, 10**12)
    if kind == "cut":
        heights = [-Fraction(1, 4 * (D + 1)), Fraction(1, 3), size - Fraction(1, 10**9)]
    else:
        edge = 1 / (2 * root(Fraction(D)))
        heights = [-edge, edge, Fraction(0)]
    points = []
    for height in heights:
        for side in (1, -1):
            out = side * root(size**2 - height**2)
            z = [height * a + out * b for a, b in zip(g, p)]
            points.append([c + dot(row, z) for c, row in zip(body.centre, body.shape)])
    assert all(inside(body, w) for w in points)
    (body.cut if kind == "cut" else body.slab)(direction)
    return all(inside(body, w) for w in points)


@pytest.mark.parametrize("D", [2, 3, 5])
@pytest.mark.parametrize("kind", ["cut", "slab"])
def test_moves_keep_the_rim(kind: str, D: int) -> None:
    assert all(rim_kept(kind, D, seed) for seed in range(4))


def floored(D: int) -> Constants:
    kappa, one = Fraction(1, 4 * (D + 1)), 1 << UNIT
    return replace(
        constants(D),
        cut_a=int(one * Fraction(D * (4 * D + 5), 4 * (D + 1) ** 2)),
        cut_b=int(one * root(Fraction(D * D, D * D - 1) * (1 - kappa**2))),
        slab_a=one >> 1,
        slab_b=int(one * root(Fraction(4 * D - 1, 4 * (D - 1)))),
    )


def deep(D: int) -> Constants:
    """The constants of a cut exactly through the centre, kappa = 0."""
    up, one = Fraction((1 << 20) + 1, 1 << 20), 1 << UNIT
    return replace(
        constants(D),
        cut_a=int(up * one * Fraction(D, D + 1)),
        cut_b=int(up * one * root(Fraction(D * D, D * D - 1))),
        shift=(1, D + 1),
    )


@pytest.mark.parametrize("D", [2, 3, 5])
def test_wrong_constants_lose_the_rim(D: int) -> None:
    assert not all(rim_kept("cut", D, seed, lambda _: deep(D)) for seed in range(4))
    assert not all(rim_kept("cut", D, seed, lambda _: floored(D)) for seed in range(4))
    assert not all(rim_kept("slab", D, seed, lambda _: floored(D)) for seed in range(4))
    assert not all(rim_kept("slab", D, seed, lambda c: replace(c, slab_a=c.slab_a // 2)) for seed in range(4))
    assert not all(
        rim_kept("cut", D, seed, lambda c: replace(c, shift=(2 * c.shift[0], c.shift[1]))) for seed in range(4)
    )
    assert not all(rim_kept("cut", D, seed, form=NewShift) for seed in range(4))


@pytest.mark.parametrize("D", [2, 3, 5, 11, 35])
def test_every_move_lowers_the_volume(D: int) -> None:
    """``log(a b^(D-1)) <= -1/(5(D+1))``, exactly: ``a b^(D-1)`` to the power 5(D+1), times e, stays below 1."""
    c, one = constants(D), 1 << UNIT
    for a, b in ((c.cut_a, c.cut_b), (c.slab_a, c.slab_b)):
        volume = Fraction(a, one) * Fraction(b, one) ** (D - 1)
        assert volume ** (5 * (D + 1)) * Fraction(27182818285, 10**10) < 1


@given(st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=6).filter(any))
def test_normalised_directions_have_length_one(direction: list[int]) -> None:
    g = normalise(direction)
    assert abs(sum(a * a for a in g) - (1 << 60)) <= (len(g) + 1) << 32
    assert all(abs(Fraction(a, 1 << 30) - b) <= Fraction(1, 1 << 29) for a, b in zip(g, unit(direction)))


# Whole runs


class Adversary(RoundedAnswers):
    """Answers within one step of the truth, chosen by somebody else."""

    def __init__(self, how: str, grid: int, weights: Any) -> None:
        super().__init__(SEED, "adversary", grid, weights)
        self._how, self._random = how, np.random.default_rng(5)

    def round(self, top: int, bottom: int) -> int:
        up = top % bottom != 0 and (
            self._how == "ceiling" or (self._how == "random" and bool(self._random.integers(2)))
        )
        self.given.append(top // bottom + up)
        return self.given[-1]


@pytest.mark.parametrize("how", ["floor", "ceiling", "random"])
@pytest.mark.parametrize("weights", [(2, 4, 8, 16, -15), (2, 2, 2, 2, -3), (6, -4, 2, 0, -1)])
def test_a_known_separator_stays_inside_and_the_error_is_small(
    how: str, weights: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Ellipsoid] = []
    truth = [Fraction(w << 64) for w in weights]

    class Watched(Ellipsoid):
        def cut(self, direction: Any) -> None:
            super().cut(direction)
            assert inside(self, truth)
            seen.append(self)

        def slab(self, direction: Any) -> None:
            super().slab(direction)
            assert inside(self, truth)
            seen.append(self)

    monkeypatch.setattr(module, "Ellipsoid", Watched)
    x = np.array(list(product((0, 1), repeat=4)))
    y = (np.concatenate([x, np.ones((16, 1), dtype=int)], axis=1) @ np.array(weights) > 0).astype(np.int64)
    counts = np.random.default_rng(1).integers(1, 50, 16)
    learner = SQEllipsoid.certified(4, "1/50")
    run = learner.run(Records(x, y), Adversary(how, learner.grid, counts))
    assert run.status == "done"
    assert run.steps == len(seen) <= 80
    wrong = np.array([sum(a * c for a, c in zip((*row, 1), run.centre)) > 0 for row in x.tolist()]) != y
    assert counts[wrong].sum() <= counts.sum() / 50


def test_slabs_solve_a_line_of_a_million_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two values next to each other among 10**6: relative margin 10**-12."""
    moves: list[str] = []

    class Watched(Ellipsoid):
        def slab(self, direction: Any) -> None:
            moves.append("slab")
            super().slab(direction)

    monkeypatch.setattr(module, "Ellipsoid", Watched)
    x = np.array([[499_999]] * 6 + [[500_000]] * 6)
    y = (x[:, 0] >= 500_000).astype(np.int64)
    learner = SQEllipsoid.certified(1, "1/10", bound=10**6)
    records, weights = distinct(Records(x, y))
    run = learner.run(records, RoundedAnswers(SEED, learner.label, learner.grid, weights))
    assert run.status == "done"
    assert run.steps < 60
    assert moves
    item = learner.item(x, y, SEED)
    assert item is not None
    rule = learner.decode(item)
    assert rule is not None
    assert np.array_equal(rule.predict(x), y)


def test_all_labels_equal_need_one_cut() -> None:
    learner = SQEllipsoid.certified(3, "1/10")
    x = np.array(list(product((0, 1), repeat=3)))
    for label in (0, 1):
        y = np.full(8, label)
        assert (
            learner.run(
                Records(x, y), RoundedAnswers(SEED, learner.label, learner.grid, np.ones(8, dtype=np.int64))
            ).steps
            <= 1
        )
        rule = learner.decode(learner.item(x, y, SEED) or b"")
        assert rule is not None
        assert np.array_equal(rule.predict(x), y)


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_noise_ends_with_an_item_all_the_same(seed: int) -> None:
    random = np.random.default_rng(seed)
    x, y = random.integers(-5, 6, (30, 2)), random.integers(0, 2, 30)
    learner = SQEllipsoid(2, 4, 1, 3, 40, bound=5, grid=12)
    item = learner.item(x, y, SEED)
    assert item is not None
    assert len(item) == learner.universe.bits // 8
    assert learner.decode(item) is not None


@pytest.mark.parametrize("slack", [1, 2, 3, 5, 20, 128])
def test_slack_inequalities_of_the_proof(slack: int) -> None:
    """The thin slab: sqrt(theta + sqrt(D) t) over the square root of the largest second moment stays below 1/(2 sqrt
    D)."""
    D = max(2, slack)
    error = Fraction(1, 100)
    theta = error / (10 * D * D)
    grid = 50 * D * D * (D + 1) * root(Fraction(D)) / error
    t = Fraction(5, 4) / grid
    heavy = error / 2 / D - 2 * t
    assert root((theta + root(Fraction(D)) * t) / heavy) + Fraction(6, 100) / (D * (D + 1)) <= 1 / (
        2 * root(Fraction(D))
    )


@pytest.mark.parametrize(
    ("D", "alpha", "bound"),
    [(1, "1/5", None), (129, "1/5", None), (3, 0, None), (3, 1, None), (3, "1/5", 2**31), (60, "1/10", None)],
)
def test_plans_outside_the_theorem_are_refused(D: int, alpha: Any, bound: Any) -> None:
    with pytest.raises(ValueError):
        plan_ellipsoid(D, alpha, bound)


def test_the_largest_dimension_at_a_tenth_is_35() -> None:
    assert plan_ellipsoid(35, "1/10").grid <= 2**27
    with pytest.raises(ParameterError, match=r"2\*\*27"):
        plan_ellipsoid(36, "1/10")


BAD = [{"d": 0}, {"d": 200}, {"theta2": 0}, {"stop": -1}, {"radius": 0}, {"steps": 0}, {"bound": 0}, {"grid": 1 << 28}]


@pytest.mark.parametrize("bad", BAD)
def test_parameters_are_checked(bad: Any) -> None:
    with pytest.raises(ParameterError):
        SQEllipsoid(**{"d": 3, "theta2": 4, "stop": 1, "radius": 5, "steps": 10, "grid": 30, **bad})


def test_the_certified_number_of_records_is_what_the_theorem_says() -> None:
    assert 4 * 10**23 < SQEllipsoid.certified(4, "1/10").plan("1/10") < 5 * 10**23
