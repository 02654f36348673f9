"""Seed repetition: the tagged votes, their law, and that several seeds help where one is unlucky."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from attrs import evolve

import privpac as pp
from privpac.errors import ParameterError
from privpac.law import BOTTOM
from privpac.methods.agreement.agreement_learner import AgreementLearner
from privpac.testing import SeededRng, insecure_randomness

CUTS = pp.Thresholds(pp.Integers(0, 15), "x")


def people(n: int = 30, m: int = 40) -> pp.UserData:
    rng = np.random.default_rng(3)
    x = rng.integers(0, 16, size=n * m)
    y = (x > 7) ^ (rng.random(n * m) < 0.1)
    return pp.UserData.from_arrays(x[:, None], y.astype(int), np.arange(n * m) // m, features={"x": pp.Integers(0, 15)})


def learner(**changed: Any) -> AgreementLearner:
    return AgreementLearner(CUTS, 4, seed=bytes(32), **changed)


@pytest.mark.parametrize("delta", [0, "1e-4"])
def test_votes_are_those_of_every_seed_side_by_side(delta: Any) -> None:
    data, many = people(), learner(delta=delta, repeats=3)
    bound = many.bind(data)
    size = many.task_of(bound).learner.universe.size
    expected = Counter[int]()
    for j, seed in enumerate(many.all_seeds):
        one = evolve(many, repeats=1, seed=seed)
        expected.update({j * size + item: count for item, count in one._votes(bound).items()})
    assert many._votes(bound) == dict(expected)
    assert len(set(many.all_seeds)) == 3
    assert learner().all_seeds == (bytes(32),)


@pytest.mark.parametrize("delta", [0, "1e-4"])
def test_what_is_drawn_is_an_item_of_the_law(delta: Any) -> None:
    data, many = people(), learner(delta=delta, repeats=2)
    bound = many.bind(data)
    universe = many.task_of(bound).learner.universe
    law = many.law(data)
    top = law.mode
    with insecure_randomness():
        drawn = [many.draw(bound, SeededRng(i)) for i in range(30)]
    assert all(one.parameters["repeats"] == 2 for one in drawn)
    names = Counter(one.value.item if one.outcome == "released" else BOTTOM for one in drawn)
    likely = BOTTOM if top is BOTTOM else universe.item(top % universe.size)
    assert names.most_common(1)[0][0] == likely
    assert str(many.guarantee) == ("(4, 0.0001)-DP per user, add-remove" if delta else "(4, 0)-DP per user, add-remove")


def test_the_best_of_several_seeds_is_named_by_at_least_as_many_people() -> None:
    data = people()
    shares = []
    for repeats in (1, 2, 4, 8):
        many = learner(repeats=repeats)
        votes = many._votes(many.bind(data))
        shares.append(max(votes.values()))
    assert shares[1:] == sorted(shares[1:])  # each has the seeds of the one before
    assert shares[-1] > min(shares)


def test_by_name_from_the_front_and_refused_where_it_makes_no_sense() -> None:
    found = pp.learn(people(), CUTS, epsilon=4, method="agreement", repeats=4)
    assert found.parameters["repeats"] == 4
    assert found.guarantee.epsilon == 4
    for wrong in (0, 65):
        with pytest.raises(ParameterError, match="repeats"):
            learner(repeats=wrong)
