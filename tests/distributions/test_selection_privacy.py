"""Privacy decided by enumeration: the table's range is right, half of it is wrong, and a clip read off the data is
wrong.

Universes: all user types over a tiny domain on top of 0, 6, 12 or 24 copies of one or two types, so that the mechanism
is seen far from its centre, where its loss approaches epsilon.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privpac.auditing.exact import audit_exact, user_universe
from privpac.data import Domain, Floats, Integers, UserData
from privpac.distributions import CoverLearner, Gaussian, HypothesisSelector
from privpac.distributions.gaussian import Quantities, cell_law
from privpac.distributions.histogram import deviation_scales
from privpac.guarantee import Neighbours
from privpac.law import Law
from privpac.mechanisms import ExponentialMechanism

sys.path.insert(0, str(Path(__file__).parent))
from literal import clip, users_of

User = tuple[Any, ...]
RELATIONS = ["add-remove", "replace"]


def piled(types: Iterable[User], copies: Iterable[int] = (6, 12, 24)) -> Iterator[tuple[User, ...]]:
    """No user or one of any type, on top of nothing or of copies of one or two types."""
    kinds = list(types)
    piles: list[tuple[User, ...]] = [()]
    for r in copies:
        piles += [(a,) * r for a in kinds if a]
    piles += [(a,) * 6 + (b,) * 6 for a, b in combinations(kinds, 2) if a]
    for pile in piles:
        yield pile
        for user in kinds:
            yield tuple(sorted((*pile, user)))


def build(domain: Domain) -> Callable[[tuple[User, ...]], UserData]:
    return lambda users: users_of([list(user) for user in users], x=domain)


def selector(neighbours: str, **changes: Any) -> HypothesisSelector:
    settings: dict[str, Any] = {"tau": "1/4", "resolution": 4, "candidates_are": "public", "neighbours": neighbours}
    return HypothesisSelector([["1/4", "3/4"], ["3/4", "1/4"]], 1, **(settings | changes))


def halved(learner: HypothesisSelector) -> Callable[[UserData], Law]:
    """The mutation: the same scores at twice the rate."""

    def law(data: UserData) -> Law:
        bound = learner.bind(data)
        scores = bound.plan.scores(bound.users, learner.top_for(bound.plan))
        rate = 2 * learner.epsilon / learner.range_of(bound.plan)  # type: ignore[operator]
        return Law.from_blocks(np.arange(len(scores)), np.arange(len(scores)), scores, rate)

    return law


TYPES = user_universe([0, 1], 2)


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"max_records": 1, "tau": 1, "resolution": 4},
        {"tau": 2, "resolution": 3},
        {"tau": None, "records_per_user": 2, "resolution": 8},
    ],
)
def test_selection_is_private_on_every_neighbouring_pair(neighbours: str, changes: dict[str, Any]) -> None:
    learner = selector(neighbours, **changes)
    audit = audit_exact(learner, list(piled(TYPES)), build=build(Integers(0, 1)))
    assert audit.holds
    assert audit.epsilon_found <= 1


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("changes", [{}, {"max_records": 1, "tau": 1}])
def test_half_the_range_is_not_enough(neighbours: str, changes: dict[str, Any]) -> None:
    """The table is attained in the limit: 24 copies bring the loss to 0.98 epsilon or more; half the range doubles
    it."""
    learner = selector(neighbours, **changes)
    universe = list(piled(TYPES))
    right = audit_exact(learner, universe, build=build(Integers(0, 1)))
    assert right.holds
    assert right.epsilon_found > Fraction(98, 100)
    wrong = audit_exact(halved(learner), universe, neighbours=neighbours, epsilon=1, build=build(Integers(0, 1)))
    assert not wrong.holds
    assert wrong.epsilon_found > Fraction(19, 10)


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_three_candidates_on_three_values_are_private(neighbours: str) -> None:
    learner = HypothesisSelector(
        [[1, 2, 3], [3, 2, 1], [2, 2, 2]],
        "1/2",
        tau="1/2",
        resolution=6,
        candidates_are="public",
        neighbours=neighbours,
    )
    universe = list(piled(user_universe([0, 1, 2], 2), copies=(6,)))
    assert audit_exact(learner, universe, build=build(Integers(0, 2))).holds


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_normals_on_floats_are_private(neighbours: str) -> None:
    learner = HypothesisSelector(
        [stats.norm(0, 1), stats.norm(1, 2), stats.laplace(0, 1)],
        1,
        tau=1,
        bins=None,
        candidates_are="public",
        neighbours=neighbours,
    )
    universe = list(piled(user_universe([-1.5, 0.25, 4.0], 2), copies=(8,)))
    assert audit_exact(learner, universe, build=build(Floats())).holds


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_clip_read_off_the_data_is_not_private(neighbours: str) -> None:
    """tau = the largest number of records in the data looks harmless and loses many epsilon with 49 users of at most 3
    records."""

    def law(users: tuple[User, ...]) -> Law:
        most = max((len(user) for user in users), default=1)
        return selector(neighbours, tau=max(1, most), resolution=4).law(build(Integers(0, 1))(users))

    pile = ((0,),) * 48
    universe = [pile, *((*pile, user) for user in user_universe([0, 1], 3))]
    audit = audit_exact(law, universe, neighbours=neighbours, epsilon=1)
    assert not audit.holds
    assert audit.epsilon_found > 3


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("cap", [None, 1])
def test_the_cover_of_mass_functions_is_private_and_half_its_range_is_not(neighbours: str, cap: int | None) -> None:
    tau = Fraction(1, 4) if cap is None else 1
    learner = CoverLearner(
        "discrete", 1, alpha="0.9", cover_radius="0.12", tau=tau, max_records=cap, neighbours=neighbours
    )
    domains = {"x": Integers(0, 1)}
    cover = learner.cover(domains)
    assert cover.size == 6
    universe = list(piled(TYPES))
    right = audit_exact(learner, universe, build=build(Integers(0, 1)))
    assert right.holds
    assert right.epsilon_found > Fraction(7, 10)

    def twice(data: UserData) -> Law:
        bound = learner.bind(data)
        top = -(-cover.unit * Fraction(tau) // 1)
        reach = cover.range(int(top), learner.cap, Neighbours(neighbours))
        select = ExponentialMechanism(2, reach, unit="user", neighbours=neighbours)
        return select.law(cover.scores(bound.users, int(top)))

    assert not audit_exact(twice, universe, neighbours=neighbours, epsilon=1, build=build(Integers(0, 1))).holds


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("family", [Gaussian("0.5"), Gaussian("0.5", 1, 2)])
def test_covers_of_normal_laws_are_private(neighbours: str, family: Gaussian) -> None:
    learner = CoverLearner(family, 1, alpha="0.9", cover_radius="0.2", tau="1/2", neighbours=neighbours)
    universe = list(piled(user_universe([-1.0, 0.0, 2.0], 2), copies=(10,)))
    assert audit_exact(learner, universe, build=build(Floats())).holds


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_products_are_private(neighbours: str) -> None:
    learner = CoverLearner("product", 1, alpha=1, cover_radius="0.3", tau="1/2", neighbours=neighbours)
    records = [(a, b) for a in (0, 1) for b in (0, 1)]
    universe = list(piled(user_universe(records, 1), copies=(10,)))

    def make(users: tuple[User, ...]) -> UserData:
        return users_of([list(user) for user in users], a=Integers(0, 1), b=Integers(0, 1))

    assert audit_exact(learner, universe, build=make).holds


# Coarse step


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_the_coarse_step_is_private_and_half_its_range_is_not(neighbours: str) -> None:
    types = [(), *((y,) for y in (-20, -3, 0, 9, 30))]

    def law_at(epsilon: int) -> Callable[[tuple[User, ...]], Law]:
        def law(users: tuple[User, ...]) -> Law:
            data = Quantities(np.array([user[0] for user in users if user], dtype=np.int64), len(users))
            return cell_law(data, 8, (-4, 4), Fraction(epsilon), Neighbours(neighbours))

        return law

    universe = list(piled(types))
    right = audit_exact(law_at(1), universe, neighbours=neighbours, epsilon=1)
    assert right.holds
    assert right.epsilon_found > Fraction(99, 100)
    assert not audit_exact(law_at(2), universe, neighbours=neighbours, epsilon=1).holds


# Clipped histogram: the loss of independent discrete Laplace noise is sum |change of G_j| / b_j, exactly


def _deviations(user: User, a: list[int], taus: list[int], a0: int) -> list[int]:
    return [clip(a0 * user.count(j) - len(user) * a[j], taus[j]) for j in range(len(a))]


@pytest.mark.parametrize("factor", [1, 2])
@pytest.mark.parametrize(
    ("a", "taus"), [([16, 32, 16], [20, 30, 20]), ([60, 2, 2], [4, 90, 37]), ([21, 21, 22], [1, 1, 1])]
)
def test_deviations_are_private_and_half_the_scale_may_not_be(factor: int, a: list[int], taus: list[int]) -> None:
    types = user_universe([0, 1, 2], 4)
    epsilon = Fraction(1, 2)
    scales = deviation_scales(np.array(taus), factor, epsilon)
    profiles = [_deviations(user, a, taus, 64) for user in types]
    zero = [0, 0, 0]
    pairs = [(p, r) for p in profiles for r in profiles] if factor == 2 else [(p, zero) for p in profiles]
    worst = max(sum(Fraction(abs(x - y), b) for x, y, b in zip(p, r, scales, strict=True)) for p, r in pairs)
    assert worst <= epsilon
    assert 4 * worst > epsilon
    if taus == [1, 1, 1]:
        assert 2 * worst > epsilon


@pytest.mark.parametrize("factor", [1, 2])
def test_counts_are_private_and_the_bound_is_attained(factor: int) -> None:
    types = user_universe([0, 1, 2], 3)
    eta = Fraction(1, factor * 3)
    profiles = [[user.count(j) for j in range(3)] for user in types]
    pairs = [(p, r) for p in profiles for r in profiles] if factor == 2 else [(p, [0, 0, 0]) for p in profiles]
    worst = max(sum(abs(x - y) * eta for x, y in zip(p, r, strict=True)) for p, r in pairs)
    assert worst == 1
