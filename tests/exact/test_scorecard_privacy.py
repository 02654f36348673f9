"""Privacy of a scorecard, pass by pass: over every pair of neighbouring small tables the sums move by no more than
what the noise was made for; with the mutations that must move them further.

What is released is the sum of a pass plus discrete Gaussian noise.  Its Renyi divergence is decided by the squared
distance of the sums (``tests/mechanisms/test_gaussian.py``), so privacy is decided by these distances, together with
the budget's shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import exp, log

import numpy as np
import pytest

from privpac.composition import zcdp_within
from privpac.guarantee import Neighbours
from privpac.methods import scorecard as kernels
from privpac.methods.scorecard import DescentState, Packed, ScorecardBudget, centre_clip, clip_size, norm_cap
from privpac.rules.scorecards import CodeShape, CodeTable, U, code_table

User = tuple[tuple[tuple[int, ...], int], ...]

SHAPES = {
    "numbers": (CodeShape(True, 4), CodeShape(True, 2)),
    "missing": (CodeShape(True, 3, True),),
    "mixed": (CodeShape(True, 3), CodeShape(False, 2, True)),
}


def packed(columns: int, users: Sequence[User]) -> Packed:
    records = [record for user in users for record in user]
    codes = np.array([codes for codes, _ in records], np.uint8).reshape(len(records), columns)
    labels = np.array([label for _, label in records], np.uint8)
    return Packed(codes, labels, np.cumsum([0, *(len(user) for user in users)]))


def people(shapes: tuple[CodeShape, ...]) -> list[User]:
    """All users of at most two records, and some of three."""
    records = [(codes, y) for codes in product(*(range(shape.codes) for shape in shapes)) for y in (0, 1)]
    few: list[User] = [user for size in range(3) for user in combinations_with_replacement(records, size)]
    return few + [(records[0], records[0], records[-1]), (records[-1], records[-1], records[1])]


def states(table: CodeTable) -> list[DescentState]:
    """Weights and centres at the ends of what can be released, and in between."""
    rng = np.random.default_rng(3)
    size = table.coordinates
    ends = [DescentState((w,) * (size + 1), (c,) * size) for w in (0, 1 << 30, -(1 << 30)) for c in (0, U, -U)]
    drawn = [
        DescentState(
            tuple(rng.integers(-(1 << 28), 1 << 28, size + 1).tolist()), tuple(rng.integers(-U, U + 1, size).tolist())
        )
        for _ in range(4)
    ]
    return ends + drawn


def moved(vectors: list[list[int]]) -> tuple[int, int]:
    """The largest squared distance by which one user moves a sum: added or removed, and replaced by another."""
    rows = np.array(vectors, np.int64)
    squares = (rows * rows).sum(axis=1)
    apart = squares[:, None] + squares[None, :] - 2 * rows @ rows.T
    return int(squares.max()), int(apart.max())


@pytest.mark.parametrize("name", SHAPES)
def test_sums_move_by_what_the_noise_is_made_for(name: str) -> None:
    """A sum over users moves by the vector of the user that comes or goes: integers add exactly, whoever else is there
    (``test_sums_are_sums_of_single_users``), so single users decide."""
    shapes = SHAPES[name]
    table, users = code_table(shapes), people(shapes)
    columns = len(shapes)
    data = packed(columns, users)
    cap = centre_clip(columns)
    added, replaced = moved([kernels.clip(mean, cap) for mean in kernels.means(table, data)])
    assert added <= cap**2
    assert replaced <= 4 * cap**2
    rho, most = zcdp_within(Fraction(1), Fraction(1, 10**6)), norm_cap(columns)
    far = 0.0
    for state in states(table):
        added, replaced = moved([[term] for term in kernels.norm_terms(table, data, state.centre, most)])
        assert added <= most**2
        assert replaced <= most**2  # not four times that
        vectors = kernels.gradients(table, data, state)
        for size in (409, 1000, 2 * most):
            added, replaced = moved([kernels.clip(g, size) for g in vectors])
            assert added <= size**2
            assert replaced <= 4 * size**2
            far = max(far, replaced / size**2)
            for neighbours, distance in ((Neighbours.ADD_REMOVE, added), (Neighbours.REPLACE, replaced)):
                budget = ScorecardBudget(rho, columns, 40, neighbours, True)
                assert Fraction(distance) / (2 * budget.step_variance(size)) <= budget.step
    # Mutation: noise for the distance C under replace would not do.
    assert far > 3.9


@pytest.mark.parametrize("name", SHAPES)
def test_sums_are_sums_of_single_users(name: str) -> None:
    shapes = SHAPES[name]
    table, users = code_table(shapes), people(shapes)
    columns, state, cap = len(shapes), states(code_table(shapes))[-1], 700
    rng = np.random.default_rng(7)
    for _ in range(20):
        base = [users[i] for i in rng.integers(0, len(users), rng.integers(0, 5))]
        extra = users[int(rng.integers(0, len(users)))]
        for work in (
            lambda some: kernels.gradient_sum(table, packed(columns, some), state, cap),
            lambda some: kernels.centre_sum(table, packed(columns, some), cap),
            lambda some: np.array([kernels.norm_sum(table, packed(columns, some), state.centre, cap)]),
        ):
            assert (work([*base, extra]) - work(base) == work([extra])).all()


def test_a_user_without_records_moves_nothing() -> None:
    shapes = SHAPES["mixed"]
    table = code_table(shapes)
    data = packed(2, [()])
    state = states(table)[-1]
    assert not kernels.gradient_sum(table, data, state, 500).any()
    assert not kernels.centre_sum(table, data, 500).any()
    assert kernels.norm_sum(table, data, state.centre, 500) == 0


# The clip follows the released norm


def renyi(order: float, shift: float, variance: float) -> float:
    return order * shift**2 / (2 * variance)


def joint(order: float, fixed: bool, users: int = 40, columns: int = 3) -> float:
    """The divergence of a noisy norm and a step noised by it, together, over what both may cost; the user moved is the
    worst there is: a norm of B0, then a gradient as long as the clip turned out to be.  ``fixed``: the mutation, noise
    for the least clip."""
    budget = ScorecardBudget(zcdp_within(Fraction(1), Fraction(1, 10**6)), columns, 40, Neighbours.ADD_REMOVE, False)
    most, base = norm_cap(columns), users * 2000
    deviation = float(budget.norm_variance) ** 0.5
    noises = np.arange(-8.0, 8.0, 0.005) * deviation
    total = weight = 0.0
    for noise in noises.tolist():
        clip = clip_size(round(base + noise), users, budget.rest, columns)
        variance = float(budget.step_variance(409 if fixed else clip))
        p = exp(-(noise**2) / (2 * deviation**2))
        # (p/q)**(order - 1) for q shifted by B0, times the factor of the step
        ratio = ((noise - most) ** 2 - noise**2) / (2 * deviation**2)
        total += p * exp((order - 1) * (ratio + renyi(order, clip, variance)))
        weight += p
    spent = log(total / weight) / (order - 1)
    return spent / (order * float(budget.norm + budget.step))


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0])
@pytest.mark.parametrize("users", [40, 300, 5000])
def test_norm_and_step_together_cost_their_shares(order: float, users: int) -> None:
    assert joint(order, fixed=False, users=users) < 1.001


def test_noise_for_the_least_clip_costs_more() -> None:
    """The mutation: a variance that does not follow the released clip."""
    assert joint(2.0, fixed=True, users=5000) > 3
