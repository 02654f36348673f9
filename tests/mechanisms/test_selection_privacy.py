"""Exact privacy of the selection mechanisms on a whole universe: thresholds on 4 points, 3 users, all 512 datasets."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import pytest

from privpac.exact import Ball
from privpac.mechanisms import ExponentialMechanism
from privpac.papers.noisy_min import NoisyMin

Scores = tuple[int, ...]
User = tuple[int, int]
USERS: list[User] = list(product(range(4), (0, 1)))
MECHANISMS = (ExponentialMechanism, NoisyMin)


def errors(users: tuple[User, ...]) -> Scores:
    """Mistakes of the five cuts: predict 1 iff ``x >= u``."""
    return tuple(sum((x >= u) != bool(y) for x, y in users) for u in range(5))


@lru_cache
def neighbours(relation: str) -> list[tuple[Scores, Scores]]:
    """Unordered pairs of score vectors of neighbouring datasets; both directions are decided for each."""

    def all_pairs() -> Iterator[tuple[Scores, Scores]]:
        for data in product(USERS, repeat=3):
            for i in range(3):
                if relation == "add-remove":
                    yield errors(data), errors(data[:i] + data[i + 1 :])
                else:
                    for other in USERS:
                        yield errors(data), errors((*data[:i], other, *data[i + 1 :]))

    return sorted({(min(a, b), max(a, b)) for a, b in all_pairs() if a != b})


def canonical(pairs: list[tuple[Scores, Scores]]) -> list[tuple[Scores, Scores]]:
    """One pair of each kind: both laws are unchanged by a common shift, and renaming candidates renames outcomes."""

    def shape(a: Scores, b: Scores) -> tuple[tuple[int, int], ...]:
        return tuple(sorted((x - min(a), y - min(b)) for x, y in zip(a, b)))

    kinds = {min(shape(a, b), shape(b, a)) for a, b in pairs}
    return [(tuple(x for x, _ in kind), tuple(y for _, y in kind)) for kind in sorted(kinds)]


def laws(mechanism: Any, pairs: list[tuple[Scores, Scores]]) -> dict[Scores, Any]:
    return {scores: mechanism.law(scores) for pair in pairs for scores in pair}


def loss(mechanism: Any, pairs: list[tuple[Scores, Scores]]) -> float:
    of, worst = laws(mechanism, pairs), 0.0
    for a, b in pairs:
        for p, q in ((a, b), (b, a)):
            ball = of[p].max_divergence(of[q])
            assert isinstance(ball, Ball)
            worst = max(worst, float(ball))
    return worst


def is_private(mechanism: Any, pairs: list[tuple[Scores, Scores]], epsilon: Any) -> bool:
    of = laws(mechanism, pairs)
    return all(of[a].satisfies(of[b], epsilon) for a, b in pairs)


def test_the_universe_is_complete() -> None:
    assert len(list(product(USERS, repeat=3))) == 512
    assert len(neighbours("replace")) == 756
    assert len(canonical(neighbours("replace"))) < 756


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("relation", "sensitivity"), [("replace", 2), ("add-remove", 1)])
def test_law_is_epsilon_dp_on_every_neighbouring_pair(mechanism: Any, relation: str, sensitivity: int) -> None:
    choice = mechanism(1, sensitivity, unit="user", neighbours=relation)
    assert is_private(choice, canonical(neighbours(relation)), choice.guarantee.epsilon)


@pytest.mark.parametrize(
    ("mechanism", "relation", "sensitivity", "expected"),
    [
        (ExponentialMechanism, "replace", 2, 0.9131),
        (ExponentialMechanism, "add-remove", 1, 0.9791),
        (NoisyMin, "replace", 2, 1.0),
        (NoisyMin, "add-remove", 1, 1.0),
    ],
)
def test_worst_loss_is_the_known_one(mechanism: Any, relation: str, sensitivity: int, expected: float) -> None:
    choice = mechanism(1, sensitivity, unit="user", neighbours=relation)
    assert loss(choice, canonical(neighbours(relation))) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(("mechanism", "expected"), [(ExponentialMechanism, 1.92), (NoisyMin, 2.0)])
def test_monotone_rate_under_replace_breaks_the_promise(mechanism: Any, expected: float) -> None:
    """The mutation that must fail: half the sensitivity, checked against replace neighbours."""
    careless = mechanism(1, 1, unit="user", neighbours="replace")
    pairs = canonical(neighbours("replace"))
    assert loss(careless, pairs) == pytest.approx(expected, abs=5e-3)
    assert not is_private(careless, pairs, 1)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_laws_are_shift_invariant_and_symmetric(mechanism: Any) -> None:
    """What reducing pairs to their kinds relies on."""
    choice = mechanism(1, 2, unit="user", neighbours="replace")
    scores, order = (3, 0, 1, 1, 2), (4, 2, 0, 1, 3)
    law = choice.law(scores)
    shifted, renamed = choice.law([s + 17 for s in scores]), choice.law([scores[i] for i in order])
    assert all(shifted.prob(i) == law.prob(i) for i in range(5))
    assert all(renamed.prob(j) == law.prob(i) for j, i in enumerate(order))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_far_candidates_keep_positive_probability(mechanism: Any) -> None:
    """Scores on which a floating-point exponential mechanism gives the last candidate 2**-53 and exactly 0."""
    choice = mechanism(1, 2, unit="user", neighbours="replace")
    near, far = choice.law([0, 0, 72]), choice.law([0, 0, 73])
    assert near.prob(2).lo > far.prob(2).lo > 0
    assert near.satisfies(far, 1)
    assert choice.law([0, 4000]).prob(1).lo > 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_zero_epsilon_is_uniform_and_one_candidate_is_certain(mechanism: Any) -> None:
    blind = mechanism(0, 1, unit="user", neighbours="replace")
    law = blind.law([0, 5, 9])
    assert [law.prob_exact(i) for i in range(3)] == [Fraction(1, 3)] * 3
    assert mechanism(1, 1, unit="user", neighbours="replace").law([7]).prob_exact(0) == 1


def test_rho_is_bounded_range_for_exponential_only() -> None:
    assert ExponentialMechanism(1, 2, unit="user", neighbours="replace").guarantee.rho == Fraction(1, 8)
    assert NoisyMin(1, 2, unit="user", neighbours="replace").guarantee.rho == Fraction(1, 2)
