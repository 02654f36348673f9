"""``method="reduction"``: the transformation by name keeps the promise asked for and refuses what is not proved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import privpac as pp
from privpac.data import Integers, Texts, UserData
from privpac.errors import InfeasibleError, ParameterError
from privpac.methods import AgnosticReduction, NamedReduction
from privpac.rules import PrefixTree, Thresholds
from privpac.sklearn import PrivateRuleClassifier

CUTS = Thresholds(Integers(0, 99))


def people(n: int = 1500) -> UserData:
    rng = np.random.default_rng(2)
    rows = [[(int(x), int((x > 40) ^ (rng.random() < 0.1))) for x in rng.integers(0, 100, 3)] for _ in range(n)]
    return UserData.from_users(rows, features={"age": Integers(0, 99)})


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_the_promise_asked_for_is_kept_and_the_transformation_runs(neighbours: str) -> None:
    released = pp.learn(
        people(), CUTS, epsilon=1, method="reduction", public_n_users=1500, neighbours=neighbours
    )  # fmt: skip
    assert released.guarantee is not None
    assert 0.9 < float(released.guarantee.epsilon) <= 1
    assert released.learner.startswith("agnostic reduction")
    direct = NamedReduction(CUTS, 1, neighbours, public_n_users=1500)
    assert isinstance(direct.reduction, AgnosticReduction)
    assert direct.guarantee == released.guarantee


def test_an_open_vocabulary_is_learned_as_a_tree() -> None:
    words = ["a/b", "a/c", "d/e"]
    rng = np.random.default_rng(3)
    rows = [[(words[i], int(i == 0))] for i in rng.integers(0, 3, 3000)]
    data = UserData.from_users(rows, features={"path": Texts()})
    told: dict[str, Any] = {"epsilon": 2, "delta": "1e-6", "method": "reduction", "public_n_users": 3000}
    released = pp.learn(data, PrefixTree(3), **told)
    assert released.guarantee is not None
    assert released.guarantee.delta <= pp.Guarantee(1, "1e-6", unit="user", neighbours="add-remove").delta
    with pytest.raises(ParameterError, match="delta above 0"):
        pp.learn(data, PrefixTree(3), **{**told, "delta": 0})


def test_the_empirical_wrapper_is_for_replace_and_says_why() -> None:
    with pytest.raises(ParameterError, match="keeps that number private"):
        NamedReduction(CUTS, 1, public_n_users=1500, empirical=True)
    learner = NamedReduction(
        CUTS, 1, "replace", public_n_users=1500, empirical=True, split_size=150, draws=50, inner_epsilon="1/10"
    )  # fmt: skip
    assert learner.learn(people()).outcome == "released"
    with pytest.raises(ParameterError, match="split_size"):
        NamedReduction(CUTS, 1, "replace", public_n_users=1500, empirical=True)
    with pytest.raises(ParameterError, match="draws"):
        NamedReduction(CUTS, 1, "replace", public_n_users=1500, draws=3)


def test_what_is_missing_or_out_of_reach_is_refused_before_data() -> None:
    with pytest.raises(ParameterError, match="needs public_n_users"):
        pp.learn(people(), CUTS, epsilon=1, method="reduction")
    with pytest.raises(ParameterError, match="in the class itself"):
        NamedReduction(Thresholds(), 1, public_n_users=1500)
    assert pp.learn(people(), Thresholds(), epsilon=1, method="reduction", public_n_users=1500)
    with pytest.raises(InfeasibleError):
        NamedReduction(CUTS, "1e-6", public_n_users=3, inner_epsilon=5)


def test_the_estimator_runs_it() -> None:
    data = people(600)
    X = np.asarray(data.codes["age"], float).reshape(-1, 1)
    groups = np.repeat(np.arange(600), 3)
    model = PrivateRuleClassifier(
        epsilon=2, method="reduction", public_n_users=600, domains=[Integers(0, 99)]
    )  # fmt: skip
    model.fit(X.astype(int), data.labels, groups=groups)
    assert model.released_.learner.startswith("agnostic reduction")
