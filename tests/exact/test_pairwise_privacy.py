"""Pairwise selection and the private cap are epsilon-DP, decided on every neighbouring pair of small universes.

Bases are at most one user of any type, or up to 24 copies of one or two types, where the loss comes close to epsilon:
the promised rate is tight, and half of ``rho`` must be caught.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from privpac.auditing import audit_exact
from privpac.auditing.exact import Dataset, datasets, user_universe
from privpac.data import Integers, UserData
from privpac.guarantee import Neighbours
from privpac.law import Law
from privpac.methods.cap import CapSelection
from privpac.papers.few_examples_per_user.pairwise import PairwiseSelection
from privpac.rules import FiniteClass, Stumps, Thresholds

LINE = {"x": Integers(0, 1)}
PLANE = {"x": Integers(0, 1), "y": Integers(0, 1)}
TYPES = user_universe([(x, y) for x in range(2) for y in (0, 1)], 2)
RELATIONS = ["replace", "add-remove"]
THREE = FiniteClass(np.array([[0, 1], [1, 0], [1, 1]]), LINE["x"])


def build(users: Dataset) -> UserData:
    return UserData.from_users([list(user) for user in users], features=LINE)  # type: ignore[call-overload]


def around(bases: Iterable[Dataset], kinds: Iterable[Any] = TYPES) -> set[Dataset]:
    """Every base, and every base with one more user."""
    listed = list(kinds)
    return {tuple(sorted(base)) for base in bases} | {tuple(sorted((*base, kind))) for base in bases for kind in listed}


def crowds(copies: int, kinds: Iterable[Any]) -> list[Dataset]:
    """So many copies of one type, and of two types each."""
    listed = list(kinds)
    return [(a,) * copies for a in listed] + [
        (a,) * copies + (b,) * copies for i, a in enumerate(listed) for b in listed[:i]
    ]


class Halved(PairwiseSelection):
    """The mistake to catch: twice the rate."""

    def range_sensitivity(self, clip: Any) -> int:
        return super().range_sensitivity(clip) // 2


VARIANTS: list[dict[str, Any]] = [
    {"tau": 1},
    {"tau": 2},
    {"tau": 9, "max_records": 1},
    {"weighted": True, "levels": 3, "tau": {0: 1, 2: 2}},
    {"weighted": True, "levels": 2},
]


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("concept", [Thresholds(), THREE], ids=["thresholds", "finite"])
def test_every_neighbouring_pair_of_up_to_two_users(concept: Any, options: dict[str, Any], neighbours: str) -> None:
    learner = PairwiseSelection(concept, 1, neighbours=neighbours, **options)
    few = TYPES if neighbours == "add-remove" else TYPES[::2]
    audit = audit_exact(learner, datasets(few, 2), build=build)
    assert audit.holds, audit.explain()


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize(
    ("options", "concept"),
    [
        ({"tau": 1}, THREE),
        ({"tau": 2}, Thresholds()),
        ({"weighted": True, "levels": 3, "tau": {0: 1, 2: 2}}, Thresholds()),
    ],
    ids=["finite", "thresholds", "weighted"],
)
def test_crowds_come_close_to_epsilon_and_half_of_rho_fails(
    concept: Any, options: dict[str, Any], neighbours: str
) -> None:
    kinds = [(), ((0, 0),), ((1, 0), (1, 0)), ((0, 0), (0, 0)), ((0, 1), (0, 1)), ((1, 1), (1, 1))]
    universe = around(crowds(24, [kinds[2], kinds[4], kinds[5]]), kinds)
    audit = audit_exact(PairwiseSelection(concept, 1, neighbours=neighbours, **options), universe, build=build)
    assert audit.holds, audit.explain()
    assert audit.epsilon_found > 0.99
    wrong = audit_exact(Halved(concept, 1, neighbours=neighbours, **options), universe, build=build)
    assert not wrong.holds
    assert wrong.epsilon_found == pytest.approx(2, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("copies", [6, 12])
def test_crowds_of_every_one_or_two_types(copies: int, neighbours: str) -> None:
    kinds = TYPES[::2]
    for base in crowds(copies, kinds):
        audit = audit_exact(
            PairwiseSelection(Thresholds(), 1, neighbours=neighbours, tau=1), around([base], kinds), build=build
        )
        assert audit.holds, audit.explain()


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_stumps_and_both_directions(neighbours: str) -> None:
    records = [(x, y, label) for x in (0, 1) for y in (0, 1) for label in (0, 1)]
    kinds = [(), *((record,) for record in records), (records[0], records[0]), (records[1], records[6])]

    def plane(users: Dataset) -> UserData:
        return UserData.from_users([list(user) for user in users], features=PLANE)  # type: ignore[call-overload]

    learner = PairwiseSelection(Stumps(), 1, neighbours=neighbours, tau=1)
    assert audit_exact(
        learner, around([(), *((kind,) for kind in kinds[::2]), (kinds[1],) * 12], kinds), build=plane
    ).holds


def test_add_remove_says_nothing_about_replace_at_the_same_epsilon() -> None:
    universe = around(crowds(24, [((0, 0),)]))
    audit = audit_exact(PairwiseSelection(THREE, 1, tau=1), universe, neighbours="replace", epsilon=1, build=build)
    assert not audit.holds
    assert audit.epsilon_found == pytest.approx(2, abs=0.02)


def test_a_clip_read_from_the_data_is_caught() -> None:
    """The trap: ``tau``, and the rate with it, from the largest number of records found."""

    def law(users: Dataset) -> Law:
        most = max((len(user) for user in users), default=1)  # type: ignore[arg-type]
        return PairwiseSelection(THREE, 1, neighbours="replace", tau=max(1, most)).law(build(users))

    right = ((0, 0), (1, 1))
    crowd = (right[:1],) * 48
    universe = [(*crowd, right[:1]), (*crowd, (right[0],) * 3)]
    audit = audit_exact(law, universe, neighbours="replace", epsilon=1)
    assert not audit.holds
    assert audit.epsilon_found > 10
    fixed = PairwiseSelection(THREE, 1, neighbours="replace", tau=3)
    assert audit_exact(fixed, universe, build=build).holds


# The sign of the comparison


def swapped(law_of: PairwiseSelection, data: UserData) -> Law:
    """The comparison as printed, ``1[h = y] - 1[h' = y]``: every comparison with the other sign."""
    flipped = UserData.from_users([[(x, 1 - y) for x, y in user] for user in data.to_lists()], features=LINE)
    return law_of.law(flipped)


def test_the_printed_sign_picks_the_worst_rule() -> None:
    """40 users, one rule of three without mistakes: probability 0.99991, and 0.0034 with the printed sign."""
    concept = FiniteClass(np.array([[1, 0], [0, 0], [0, 1]]), LINE["x"])
    data = build((((0, 1),),) * 40)
    learner = PairwiseSelection(concept, "1/2", neighbours="replace", tau=1)
    assert learner.law(data).prob_float(0) == pytest.approx(0.99991, abs=5e-6)
    assert swapped(learner, data).prob_float(0) == pytest.approx(0.0034, abs=5e-5)


# The private cap


def held(users: Dataset) -> UserData:
    return UserData.from_users([[(0, 0)] * int(m) for m in users])  # type: ignore[call-overload]


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("quantile", ["9/10", "1/2", "1/3", 1])
def test_private_cap_on_every_neighbouring_pair(quantile: Any, neighbours: str) -> None:
    cap = CapSelection(1, quantile, (1, 2, 4), neighbours)
    audit = audit_exact(cap, datasets([0, 1, 2, 3, 9], 4), build=held)
    assert audit.holds, audit.explain()
    assert audit.epsilon_found > 0.3


def test_private_cap_at_four_times_the_rate_is_caught() -> None:
    for neighbours in RELATIONS:
        wrong: Callable[[Any], Law] = CapSelection(4, "1/2", (1, 2, 4), neighbours).law
        assert not audit_exact(
            wrong, datasets([1, 2, 9], 4), neighbours=Neighbours(neighbours), epsilon=1, build=held
        ).holds


def test_the_cap_and_what_is_learned_with_it_compose() -> None:
    """Cap (1/2), then pairwise selection (1/2) with the released cap as cap and clip: 1 in all."""
    cap = CapSelection("1/2", "1/2", (1, 2), "add-remove")

    def law(users: Dataset) -> Law:
        data = build(users)
        return cap.law(data).bind(
            lambda m: PairwiseSelection(THREE, "1/2", tau=m, max_records=m).law(data).map(lambda h: (m, h))
        )

    kinds = [(), ((0, 0),), ((0, 0), (1, 1)), ((1, 0), (1, 0))]
    audit = audit_exact(law, around([(), *((kind,) * 6 for kind in kinds)], kinds), neighbours="add-remove", epsilon=1)
    assert audit.holds
    assert math.isfinite(audit.epsilon_found)
