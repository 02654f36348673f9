"""The private range of a column is eta-DP per user, decided exactly over every outcome and neighbour, and what Gaussian
accounting charges for it covers it; wrong weights are caught.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from math import inf

import pytest
from flint import arb

from privpac.auditing import Universe, audit_exact
from privpac.data import Integers, UserData
from privpac.exact import as_arb, precision
from privpac.guarantee import Neighbours
from privpac.law import Law
from privpac.methods.private_ranges import GAUSSIAN, SHARE, RangeFamily, RangeSearch, family, range_kernel
from privpac.rules.wide_columns import binned

User = tuple[int | None, ...]
RELATIONS = ["add-remove", "replace"]
X = Integers(-7, 32)
(COLUMN,) = binned({"x": X}, missing=("x",))
FAMILY = family(X)
LEVELS = 4
KINDS: list[User] = [
    *[user for m in range(3) for user in combinations_with_replacement((-7, 4, 32), m)],
    (4,) * 3,
    (None,),
    (None, 4),
    (4,) * 7,
    (4,) * 3 + (32,) * 4,
]
BASES: list[tuple[User, ...]] = [(), (KINDS[1],), ((3,),) * 12, ((3,),) * 40]
UNIVERSE = Universe(
    tuple(
        dict.fromkeys(
            tuple(sorted(base + more, key=repr)) for base in BASES for more in [(), *((kind,) for kind in KINDS)]
        )
    )
)


def cells_of(data: Sequence[User]) -> list[int]:
    """As the learner folds them."""
    users = UserData.from_users([[(x, 0) for x in user] for user in data], features=["x"]).bind({"x": COLUMN.domain})
    kernel = range_kernel([COLUMN], LEVELS)
    (cells,) = kernel.split(users.fold(kernel))
    return cells


def scores_of(data: Sequence[User], weight: Callable[[User, Sequence[User]], int]) -> list[int]:
    """From the definition: who lies in which interval."""
    found = []
    for low, high, _ in FAMILY.intervals:
        inside = [sum(x is not None and low <= x + 7 <= high for x in user) for user in data]
        found.append(sum(weight(user, data) * count for user, count in zip(data, inside) if user))
    return [*found, 0]


def own_share(user: User, data: Sequence[User]) -> int:
    return LEVELS // len(user)


def law_of(scores: Sequence[int], rate: Fraction) -> Law:
    return Law.from_blocks(score=[-s for s in scores], eta=rate, counts=list(FAMILY.multiplicities))


@pytest.mark.parametrize("relation", RELATIONS)
def test_private_ranges_are_private(relation: str) -> None:
    search = RangeSearch(("x",), Fraction(1), Neighbours(relation), LEVELS)
    found = audit_exact(
        lambda data: FAMILY.law(cells_of(data), search.rate), UNIVERSE, neighbours=relation, epsilon=search.eta
    )
    assert found.holds
    assert found.epsilon_found > Fraction(3, 4)


def test_the_fold_is_the_definition() -> None:
    for data in list(UNIVERSE)[::5]:
        assert FAMILY.scores(cells_of(data)) == scores_of(data, own_share)


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
def test_wrong_scores_are_caught(name: str) -> None:
    weight, relation, epsilon = MUTATIONS[name]

    def law(data: Sequence[User]) -> Law:
        return law_of(scores_of(data, weight), Fraction(epsilon, LEVELS))

    found = audit_exact(law, UNIVERSE, neighbours=relation, epsilon=epsilon)
    assert not found.holds
    assert found.epsilon_found > Fraction(11, 10)


def test_weights_that_follow_the_data_are_caught() -> None:
    """Intervals count more where somebody is."""

    def law(data: Sequence[User]) -> Law:
        scores = scores_of(data, own_share)
        counts = [count * (9 if score else 1) for count, score in zip(FAMILY.multiplicities, scores)]
        return Law.from_weights(
            {i: [(count, Fraction(score, LEVELS))] for i, (count, score) in enumerate(zip(counts, scores))}
        )

    assert not audit_exact(law, UNIVERSE, neighbours="add-remove", epsilon=1).holds


def test_a_family_that_follows_the_data_is_caught() -> None:
    """The anchor at the least value that occurs; what is released is the interval."""

    def law(data: Sequence[User]) -> Law:
        seen = [x + 7 for user in data for x in user if x is not None] or [0]
        own = RangeFamily(X.size, min(seen))
        return Law.from_weights({repr(interval): count for interval, count in zip(own.intervals, own.multiplicities)})

    found = audit_exact(law, UNIVERSE, neighbours="add-remove", epsilon=1)
    assert not found.holds
    assert found.epsilon_found == inf


# The family


@pytest.mark.parametrize(
    ("size", "anchor"), [(33, 0), (33, 32), (40, 7), (10**7 + 1, 0), (10**7, 5 * 10**6), (2**64, 1)]
)
def test_the_family_is_what_it_is_said_to_be(size: int, anchor: int) -> None:
    """Every level has its two ends, the anchor, the interval around it, and up to level 6 steps of half a width."""
    listed = RangeFamily(size, anchor).intervals
    assert listed[0] == (0, size - 1, 0)
    assert all(0 <= low <= high < size for low, high, _ in listed)
    most = min(14, (size - 1).bit_length() - 1 - 3)
    assert {t for _, _, t in listed} == set(range(most + 1))
    for t in range(1, most + 1):
        own, width = [(low, high) for low, high, level in listed if level == t], Fraction(size, 2**t)
        assert len(own) <= (2 ** (t + 1) - 1 if t <= 6 else 2) + 2
        assert all(high - low + 1 in (width // 1, -(-width // 1)) for low, high in own)
        assert own[0][0] == 0
        assert own[-1][1] == size - 1
        assert any(low <= anchor <= high for low, high in own)
        assert any(low <= max(0, anchor - width / 3) and anchor + width / 3 >= high - width for low, high in own)


# What it costs


@pytest.mark.parametrize("eta", [Fraction(k, 100) for k in (1, 10, 50, 100, 200, 400, 1000)])
def test_gaussian_accounting_covers_it(eta: Fraction) -> None:
    """G(k) <= k at the kink k = 1/(1 + e**eta): Phi(mu/2) >= e**eta/(1 + e**eta)."""

    def covered(factor: Fraction) -> bool:
        with precision(192):
            half, top = as_arb(factor * eta / 2), as_arb(eta).exp()
            return bool(1 - (half / arb(2).sqrt()).erfc() / 2 >= top / (1 + top))

    assert covered(GAUSSIAN)
    assert not covered(Fraction(6267, 10000))  # the rate of bounded range needs another proof


def test_the_price_is_the_share() -> None:
    rho = Fraction(29375, 1048576)
    for columns in (["a"], [f"x{j}" for j in range(20)]):
        search = RangeSearch.of(columns, rho, Neighbours.REPLACE, 10**6)
        assert search is not None
        spent = len(columns) * (GAUSSIAN * search.eta) ** 2 / 2
        assert spent <= SHARE * rho
        assert spent > SHARE * rho * Fraction(9999, 10000)
        assert search.rate == search.eta / search.levels / 2
        assert len(columns) * search.eta**2 / 8 <= spent


def test_nothing_is_spent_where_nothing_would_be_found() -> None:
    rho = Fraction(29375, 1048576)
    assert RangeSearch.of([], rho, Neighbours.ADD_REMOVE, 10**6) is None
    assert RangeSearch.of(["x"], rho, Neighbours.ADD_REMOVE, None) is None
    assert RangeSearch.of(["x"], rho, Neighbours.ADD_REMOVE, 50) is None
    found = RangeSearch.of(["x"], rho, Neighbours.ADD_REMOVE, 1000)
    assert found is not None
    assert 1000 * found.eta >= 12
