"""The integers of a scorecard: codes, each user's vectors alone and together, clips, budget; with mutations."""

from __future__ import annotations

import random
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scorecard_reference import User, clip, gradient, mean, norm, packed

from privpac.composition import zcdp_epsilon, zcdp_within
from privpac.errors import ParameterError, TooLargeError
from privpac.guarantee import Neighbours
from privpac.methods import scorecard as kernels
from privpac.methods.scorecard import (
    LEAST_CLIP,
    MAX_SCORECARD_USERS,
    DescentState,
    Packed,
    ScorecardBudget,
    centre_clip,
    clip_size,
    norm_cap,
    scorecard_points,
    shrunk_centre,
    training_time,
)
from privpac.rules.scorecards import CodeShape, U, code_rows, code_table, sigmoid_table

# Codes


@pytest.mark.parametrize("bins", [*range(2, 40), 64, 99, 128, 200, 255, 256, 300])
def test_code_tables(bins: int) -> None:
    """Norm below 7U/6; reflecting the bins flips the odd waves and keeps the even ones."""
    rows = code_rows(CodeShape(True, bins))
    assert all(36 * sum(z * z for z in row) < 49 * U * U for row in rows)
    for row, mirrored in zip(rows, reversed(rows)):
        assert all(z == (-y if k % 2 == 0 else y) for k, (z, y) in enumerate(zip(row, mirrored)))
    if bins > 2:
        b, k = np.meshgrid(np.arange(bins), np.arange(1, min(3, bins - 1) + 1), indexing="ij")
        assert np.abs(np.array(rows) + U * np.cos(np.pi * k * (b + 0.5) / bins) / k).max() < 0.5 + 1e-9


@given(st.booleans(), st.integers(1, 40), st.booleans())
@settings(max_examples=60, deadline=None)
def test_entries_are_the_rows(ordered: bool, bins: int, missing: bool) -> None:
    shape = CodeShape(ordered, bins, missing)
    if shape.codes < 2:
        with pytest.raises(ParameterError):
            code_rows(shape)
        return
    table = code_table([CodeShape(False, 2), shape])
    for k in range(shape.width):
        weights = [0, 0, 0, *(int(i == k) for i in range(shape.width))]
        assert table.split(table.scores(weights))[1] == [row[k] for row in code_rows(shape)]


def test_too_many_coordinates_are_refused() -> None:
    with pytest.raises(TooLargeError, match="coordinates"):
        code_table([CodeShape(False, 1 << 17), CodeShape(False, 1 << 17)])


def test_sigmoid_table() -> None:
    table = sigmoid_table()
    assert len(table) == 8193
    assert table[4096] == U // 2
    assert (table + table[::-1] == U).all()
    assert (np.diff(table) >= 0).all()
    assert np.abs(table - U / (1 + np.exp(-np.arange(-4096, 4097) / 256))).max() < 0.5 + 1e-9


# Users


SHAPES = st.lists(
    st.tuples(st.booleans(), st.integers(2, 20), st.booleans()).map(lambda values: CodeShape(*values)),
    min_size=1,
    max_size=4,
)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[CodeShape], list[User], DescentState, int]:
    shapes = draw(SHAPES)
    record = st.tuples(st.tuples(*(st.integers(0, shape.codes - 1) for shape in shapes)), st.integers(0, 1))
    users = draw(st.lists(st.lists(record, max_size=7), max_size=6))
    width = sum(shape.width for shape in shapes)
    weights = draw(st.lists(st.integers(-(1 << 30), 1 << 30), min_size=width + 1, max_size=width + 1))
    centre = draw(st.lists(st.integers(-U, U), min_size=width, max_size=width))
    return shapes, users, DescentState(tuple(weights), tuple(centre)), draw(st.integers(LEAST_CLIP, 9000))


@given(tables())
@settings(max_examples=120, deadline=None)
def test_kernels_equal_the_definition(case: tuple[list[CodeShape], list[User], DescentState, int]) -> None:
    shapes, users, state, cap = case
    table, data = code_table(shapes), packed(len(shapes), users)
    wanted = [gradient(shapes, user, state.weights, state.centre) for user in users]
    assert kernels.gradients(table, data, state) == wanted
    summed = [sum(column) for column in zip(*(clip(g, cap) for g in wanted))] or [0] * (table.coordinates + 1)
    assert kernels.gradient_sum(table, data, state, cap).tolist() == summed
    found = [mean(shapes, user) for user in users]
    assert kernels.means(table, data) == found
    summed = [sum(column) for column in zip(*(clip(m, cap) for m in found))] or [0] * table.coordinates
    assert kernels.centre_sum(table, data, cap).tolist() == summed
    most = norm_cap(len(shapes))
    at_zero = [gradient(shapes, user, [0] * (table.coordinates + 1), state.centre) for user in users]
    terms = [norm(g, most) for g in at_zero]
    assert kernels.norm_terms(table, data, state.centre, most) == terms
    assert kernels.norm_sum(table, data, state.centre, most) == sum(terms)
    assert all(0 <= term <= most for term in terms)
    assert all(term == 0 for user, term in zip(users, terms) if not user)


@given(tables(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_a_users_vectors_do_not_depend_on_others(
    case: tuple[list[CodeShape], list[User], DescentState, int], order: random.Random
) -> None:
    """Alone, in any batch and in any order: the same vector; the batch is the sum of its users."""
    shapes, users, state, cap = case
    table = code_table(shapes)
    alone = [kernels.gradients(table, packed(len(shapes), [user]), state)[0] for user in users]
    assert kernels.gradients(table, packed(len(shapes), users), state) == alone
    places = list(range(len(users)))
    order.shuffle(places)
    mixed = kernels.gradients(table, packed(len(shapes), [users[i] for i in places]), state)
    assert mixed == [alone[i] for i in places]
    cut = len(users) // 2
    halves = [kernels.gradient_sum(table, packed(len(shapes), part), state, cap) for part in (users[:cut], users[cut:])]
    assert (sum(halves) == kernels.gradient_sum(table, packed(len(shapes), users), state, cap)).all()


def test_threads_give_the_same_sums() -> None:
    """More records than one thread takes: the parts add up to the sums of single users."""
    rng = np.random.default_rng(1)
    shapes = [CodeShape(True, 16), CodeShape(False, 5), CodeShape(True, 3, True)]
    table, rows = code_table(shapes), 90_000
    codes = np.stack([rng.integers(0, shape.codes, rows) for shape in shapes], axis=1).astype(np.uint8)
    offsets = np.concatenate([[0], np.sort(rng.integers(0, rows + 1, 20_000)), [rows]])
    data = Packed(codes, rng.integers(0, 2, rows).astype(np.uint8), offsets)
    state = DescentState(
        tuple(rng.integers(-(1 << 28), 1 << 28, table.coordinates + 1).tolist()),
        tuple(rng.integers(-U, U, table.coordinates).tolist()),
    )
    each = np.array([clip(g, 1500) for g in kernels.gradients(table, data, state)[:300]])
    start = Packed(data.codes, data.labels, offsets[:301])
    assert (kernels.gradient_sum(table, start, state, 1500) == each.sum(axis=0)).all()
    whole = kernels.gradient_sum(table, data, state, 1500)
    first, rest = Packed(codes, data.labels, offsets[:9001]), Packed(codes, data.labels, offsets[9000:])
    parts = kernels.gradient_sum(table, first, state, 1500) + kernels.gradient_sum(table, rest, state, 1500)
    assert (whole == parts).all()


def test_a_float_product_depends_on_the_batch() -> None:
    """The mutation: scores by a float32 product are not functions of one user alone."""
    rng = np.random.default_rng(0)
    rows, w = rng.normal(size=(4000, 120)).astype(np.float32), rng.normal(size=120).astype(np.float32)
    together = rows @ w
    alone = np.array([(rows[i : i + 1] @ w)[0] for i in range(len(rows))])
    sevens = np.concatenate([rows[i : i + 7] @ w for i in range(0, len(rows), 7)])
    assert (together != alone).any() or (together != sevens).any()


# Clips


EXTREMES = [0, 1, -1, 2047, -2048, 4096, -4096, 8192, -8191]


@given(st.lists(st.integers(-(1 << 13), 1 << 13), min_size=1, max_size=80), st.integers(1, 1 << 15))
@settings(max_examples=300, deadline=None)
def test_clipped_norms(g: list[int], cap: int) -> None:
    found = kernels.clip(g, cap)
    assert found == clip(g, cap)
    assert sum(x * x for x in found) <= cap * cap
    assert all(x * y >= 0 and abs(y) <= abs(x) for x, y in zip(g, found))


def test_extreme_vectors_and_a_shrink_that_rounds_to_nearest() -> None:
    """Norms reach the cap and never exceed it; the mutation (to the nearest integer) exceeds it."""
    rng = random.Random(5)
    reached, exceeded = 0.0, 0.0
    for _ in range(2000):
        g = [rng.choice(EXTREMES) for _ in range(rng.randrange(1, 200))]
        cap = rng.choice([409, 410, 1000, 2048, 5000, 9000])
        reached = max(reached, sum(x * x for x in kernels.clip(g, cap)) / cap**2)
        length = isqrt(max(sum(x * x for x in g) - 1, 0)) + 1
        if length > cap:
            nearest = [round(x * cap / length) for x in g]
            exceeded = max(exceeded, sum(x * x for x in nearest) / cap**2)
    assert 0.999 < reached <= 1
    assert exceeded > 1


def test_large_squares_are_rounded_up_exactly() -> None:
    for root in (1, 2, 3, 1000, 94906267, 2**31 - 1, 2**31 + 11):
        for n in (root * root - 1, root * root, root * root + 1):
            x = int(kernels.least_root(n))
            assert x * x >= n
            assert n == 0 == x or n > (x - 1) * (x - 1)


@given(st.integers(-(1 << 50), 1 << 50), st.integers(1, 1 << 37))
@settings(max_examples=300, deadline=None)
def test_division(x: int, m: int) -> None:
    for number in (x, (x // m) * m, (x // m) * m - 1):
        if abs(number // m) < 1 << 50:
            assert int(kernels.floor_divide(number, m, 1 / m)) == number // m


def test_the_centre_needs_its_clip() -> None:
    """Users at the ends of many columns have a longer mean code than R; the clip brings it down."""
    shapes = [CodeShape(True, 64)] * 9
    table, data = code_table(shapes), packed(9, [[((0,) * 9, 0)]])
    cap = centre_clip(9)
    longest = sum(x * x for x in kernels.means(table, data)[0])
    assert longest > 1.3 * cap**2
    assert sum(x * x for x in kernels.centre_sum(table, data, cap).tolist()) <= cap**2


def test_the_norm_needs_its_cap() -> None:
    """A centre far from a user makes the gradient at zero weights twice as long as B0."""
    shapes = [CodeShape(True, 64)] * 9
    table, data = code_table(shapes), packed(9, [[((0,) * 9, 0)]])
    centre, cap = [U] * table.coordinates, norm_cap(9)
    free = kernels.norm_terms(table, data, centre, 1 << 40)[0]
    assert free > 1.9 * cap
    assert kernels.norm_terms(table, data, centre, cap) == [cap]


# Clip size and training time


@given(
    st.one_of(st.integers(-(10**15), 10**18), st.integers(-(10**5), 10**8)),
    st.one_of(st.integers(1, 10**6), st.just(1), st.just(MAX_SCORECARD_USERS)),
    st.fractions(min_value=Fraction(1, 10**6), max_value=10, max_denominator=10**7),
    st.integers(1, 40),
)
@settings(max_examples=300, deadline=None)
def test_clip_size_is_the_floor_of_its_formula(noisy: int, users: int, rho: Fraction, columns: int) -> None:
    x, most = clip_size(noisy, users, rho, columns), 2 * norm_cap(columns)
    size = max(Fraction(noisy, users), Fraction(U, 10))
    sixth = Fraction(45, 100) ** 6 * size**6 * (users * users * 2 * rho) / 66**2
    assert LEAST_CLIP <= x <= max(most, LEAST_CLIP)
    assert x == LEAST_CLIP or x**6 <= sixth
    assert x in (most, LEAST_CLIP) or (x + 1) ** 6 > sixth


def test_clip_sizes_at_exact_integers() -> None:
    """rho such that the formula is an integer x: x itself, and x - 1 just below."""
    for x in (410, 777, 1234, 2000):
        users, noisy = 300, 300 * 3000
        q = 10 * noisy
        rho = Fraction(x**6 * 242 * 200**6 * users**4, 59049 * q**6)
        assert clip_size(noisy, users, rho, 20) == x
        assert clip_size(noisy, users, rho * (1 - Fraction(1, 10**30)), 20) == x - 1


def test_training_time_and_its_ends() -> None:
    assert training_time(1, Fraction(1, 10**6)) == 6
    assert training_time(MAX_SCORECARD_USERS, Fraction(1)) == 200
    for users in (50, 100, 333, 1000):
        rho = Fraction(25539, 1 << 20)
        wanted = 0.6 * users * float(2 * rho) ** 0.5
        assert training_time(users, rho) == min(max(int(wanted), 6), 200)


def test_a_noisy_centre_shrinks_to_nothing() -> None:
    assert shrunk_centre([10**9, -(10**9)], 10**6, Fraction(1)) == [1000, -1000]
    assert shrunk_centre([10**9, -(10**9), 5], 1, Fraction(1, 10**6)) == [U, -U, 5]
    assert shrunk_centre([4096], 1, Fraction(10**30)) == [0]


# Budget


@pytest.mark.parametrize("epsilon", ["1/10", "1/2", "1", "3", "8"])
@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-12"])
def test_rho_is_the_largest_of_sixteen_bits(epsilon: str, delta: str) -> None:
    rho, wanted = zcdp_within(Fraction(epsilon), Fraction(delta)), Fraction(epsilon)
    numerator = rho.numerator
    assert numerator.bit_length() <= 16
    assert rho.denominator & (rho.denominator - 1) == 0
    shift = 16 - numerator.bit_length()
    following = rho + Fraction(1, rho.denominator << shift)
    assert zcdp_epsilon(rho, delta, "optimal") <= wanted < zcdp_epsilon(following, delta, "optimal")


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("bought", [True, False])
@pytest.mark.parametrize("calibrate", [Fraction(0), Fraction(1, 10)])
def test_the_shares_add_up(neighbours: Neighbours, bought: bool, calibrate: Fraction) -> None:
    rho = zcdp_within(Fraction(1), Fraction(1, 10**6))
    budget = ScorecardBudget(rho, 7, 40, neighbours, bought, calibrate)
    assert sum(budget.parts) == rho
    assert len(budget.parts) == 44
    assert all(part >= 0 for part in budget.parts)
    doubled = 1 if neighbours is Neighbours.ADD_REMOVE else 4
    assert budget.centre_variance == doubled * Fraction(centre_clip(7) ** 2) / (2 * budget.centre)
    assert budget.step_variance(999) == doubled * Fraction(999**2) / (2 * budget.step)
    assert budget.norm_variance == Fraction(norm_cap(7) ** 2) / (2 * budget.norm)


# Points


@given(tables(), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_rounded_points_agree_where_the_score_is_clear(
    case: tuple[list[CodeShape], list[User], DescentState, int], top: int
) -> None:
    """Whole points err by at most half a point a column, the threshold by one: a score further away decides alike."""
    shapes, users, state, _ = case
    table = code_table(shapes)
    found = scorecard_points(table, state.weights, state.centre, top)
    scores = table.split(table.scores(state.weights))
    constant = state.weights[0] * U - sum(w * c for w, c in zip(state.weights[1:], state.centre))
    largest = max(max(column) - min(column) for column in scores)
    assert all(0 <= p <= top for column in found.points for p in column)
    assert largest == 0 or max(max(column) for column in found.points) == top
    for codes, _ in (record for user in users for record in user):
        score = constant + sum(column[code] for column, code in zip(scores, codes))
        said = sum(column[code] for column, code in zip(found.points, codes)) > found.threshold
        if largest == 0 or abs(score) * top > largest * (len(shapes) / 2 + 1):
            assert said == (score > 0)
