"""Stable histograms over open vocabularies: (epsilon, delta) decided over every neighbouring pair of a small universe,
values that one table alone holds included; and the mistakes that the same check finds."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import pytest
from attrs import evolve

from privpac.auditing import Universe, audit_exact, datasets
from privpac.data import Integers, Texts, UserData
from privpac.distributions import VocabularyHistogram
from privpac.distributions.vocabulary import HeldShares
from privpac.law.blocks import FiniteLaw
from privpac.mechanisms import StableWeights

EVERYBODY = [tuple(held) for size in (0, 1, 2) for held in combinations_with_replacement("abc", size)]
"""Up to two records of three words; nobody knows which words there are."""
ALL = datasets(EVERYBODY, 2)
MORE = datasets([(), ("a",), ("b",), ("a", "a"), ("a", "b"), ("a", "c")], 2)
"""The same up to the names of the words, nearly."""


def build(people: tuple[Any, ...]) -> UserData:
    return UserData.from_users([list(person) for person in people], features={"word": Texts()}, labelled=False)


def law(learner: VocabularyHistogram, people: tuple[Any, ...], reach: int = 1) -> Any:
    return learner.law(build(people), most=learner.stable.threshold + reach, people=(0, 3))


def audit(learner: VocabularyHistogram, universe: Any = MORE, **claimed: Any) -> Any:
    told = {"neighbours": learner.neighbours, "epsilon": learner.epsilon, "delta": learner.delta} | claimed
    return audit_exact(lambda people: law(learner, people), universe, **told)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("epsilon", "delta"), [(3, "1/50"), (6, "1/1000")])
@pytest.mark.parametrize(("levels", "values"), [(2, 2), (2, 1), (3, 2)])
def test_the_promise_holds_for_every_pair_of_neighbours(
    epsilon: int, delta: str, levels: int, values: int, neighbours: str
) -> None:
    learner = VocabularyHistogram(epsilon, delta=delta, levels=levels, max_values=values, neighbours=neighbours)
    assert audit(learner).holds


@pytest.mark.slow
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_promise_holds_for_everybody(neighbours: str) -> None:
    assert audit(VocabularyHistogram(3, delta="1/50", levels=2, max_values=2, neighbours=neighbours), ALL).holds


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("values", [1, 2])
def test_a_threshold_one_lower_breaks_it(values: int, neighbours: str) -> None:
    """The threshold is the least that keeps the promise: delta is charged exactly."""
    learner = VocabularyHistogram(6, delta="1/1000", levels=2, max_values=values, neighbours=neighbours)
    lower = evolve(learner)
    lower.stable.__dict__["threshold"] = learner.stable.threshold - 1
    assert not audit(lower).holds


def test_all_of_delta_is_the_chance_that_ones_own_words_show() -> None:
    """Delta as enumerated equals the closed form, to the last digit that balls hold."""
    for epsilon, values in ((6, 1), (6, 2), ("1/2", 2)):
        learner = VocabularyHistogram(epsilon, delta="1/1000", levels=2, max_values=values)
        alone, nobody = law(learner, (("a", "b") if values == 2 else ("a", "a"),)), law(learner, ())
        found = alone.hockey_stick(nobody, learner.epsilon)
        x = (-learner.stable.eta).__float__()
        p = [2.718281828459045 ** (x * (learner.stable.threshold - v)) / (1 + 2.718281828459045**x) for v in (1, 2)]
        closed = 1 - (1 - p[0]) ** 2 if values == 2 else p[1]
        assert float(found.hi) == pytest.approx(closed, rel=1e-9)


def test_the_number_of_people_must_be_paid_for() -> None:
    learner = VocabularyHistogram(3, delta="1/50", levels=2, max_values=2)
    assert not audit(learner, epsilon=learner.stable.epsilon).holds


def test_noise_for_comers_and_leavers_is_not_enough_for_replacement() -> None:
    """Where both words are held by others as well, one leaves and the other comes: twice the loss."""
    told: dict[str, Any] = {"delta": "1/1000", "levels": 2, "max_values": 1}
    crowd = Universe(((("a",),) * 3 + (("b",),) * 2, (("a",),) * 2 + (("b",),) * 3))
    assert not audit(VocabularyHistogram(6, **told), crowd, neighbours="replace").holds
    assert audit(VocabularyHistogram(6, neighbours="replace", **told), crowd).holds


def test_a_person_with_more_values_than_declared_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutation: the kernel forgets the cut to ``max_values``."""
    learner = VocabularyHistogram(6, delta="1/1000", levels=2, max_values=1)
    original = HeldShares.chunk

    def uncut(self: HeldShares, users: UserData) -> Any:
        return original(HeldShares(self.column, self.levels, self.levels, self.open), users)

    monkeypatch.setattr(HeldShares, "chunk", uncut)
    # 2 p(1) against p(2): with two steps and a small epsilon per step the two words of one person show more often.
    small = VocabularyHistogram("1/2", delta="1/1000", levels=2, max_values=1)
    assert not audit(small).holds
    assert audit(learner).holds  # here one word of two steps is the worse one


def test_weights_that_do_not_add_up_to_the_same_break_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutation: every record counts, so that two records weigh twice."""
    original = HeldShares.chunk

    def doubled(self: HeldShares, users: UserData) -> Any:
        found = original(self, users)
        object.__setattr__(found, "weights", 2 * found.weights)
        return found

    monkeypatch.setattr(HeldShares, "chunk", doubled)
    assert not audit(VocabularyHistogram(6, delta="1/1000", levels=2, max_values=2)).holds


def test_values_shown_without_noise_break_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutation: who passes the threshold is shown with the exact weight."""

    def bare(self: StableWeights, weights: Any, most: int) -> Any:
        noisy = original(self, weights, most)
        return noisy.map(lambda shown: tuple((item, weights[item]) for item, _ in shown))

    original = StableWeights.law
    monkeypatch.setattr(StableWeights, "law", bare)
    assert not audit(VocabularyHistogram(6, delta="1/1000", levels=2, max_values=2)).holds


def test_a_listed_domain_is_private_in_the_same_way() -> None:
    learner = VocabularyHistogram(4, delta="1/100", levels=2, max_values=2)

    def numbers(people: tuple[Any, ...]) -> Any:
        rows = [["abc".index(word) << 60 for word in person] for person in people]
        data = UserData.from_users(rows, features={"code": Integers(0, (1 << 63) - 1)}, labelled=False)
        return learner.law(data, most=learner.stable.threshold + 1, people=(0, 3))

    assert audit_exact(numbers, MORE, neighbours="add-remove", epsilon=4, delta=Fraction(1, 100)).holds


def test_the_law_is_a_law() -> None:
    mechanism = StableWeights(2, "1/20", levels=2, values=2, unit="user", neighbours="add-remove")
    made = mechanism.law({"a": 3, "b": 1}, mechanism.threshold + 3)
    assert isinstance(made, FiniteLaw)
    total = sum(float(made.prob(shown).hi) for shown in made.values())
    assert total == pytest.approx(1, abs=1e-12)
