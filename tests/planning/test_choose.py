"""The choice of a method reads public quantities only, and every method can be reached by its name."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import privpac as pp
from privpac.api import learner_for
from privpac.errors import ParameterError
from privpac.learners import RegretSelection
from privpac.planning import choose_method
from privpac.planning.methods import METHODS
from privpac.planning.predict import _distance, predict_excess

CUTS = pp.Thresholds(pp.Integers(0, 1440))
PEOPLE = pp.UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)]], features={"x": pp.Integers(0, 9)})


def test_nothing_declared_is_the_default() -> None:
    assert choose_method(CUTS, epsilon=1).method == "regret"
    assert choose_method(CUTS, epsilon=1, setting="realizable").method == "realizable"
    assert choose_method(CUTS, epsilon=1, public_n_users=100).method == "regret"


def test_no_parameter_of_the_choice_can_hold_data() -> None:
    assert "data" not in inspect.signature(choose_method).parameters
    assert "users" not in inspect.signature(choose_method).parameters


class Built(Exception):
    """Raised in place of building a learner."""


def test_the_choice_is_made_before_the_data_are_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sealed:
        unit = "user"

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} was read")

    def built(method: str, *_: Any) -> Any:
        raise Built(method)

    monkeypatch.setattr("privpac.api.build_learner", built)
    sealed: Any = Sealed()
    with pytest.raises(Built, match=r"^regret$"):
        pp.learn(sealed, CUTS, epsilon=1, public_n_users=50, records_per_user=16)


def test_the_result_says_why() -> None:
    released = pp.learn(PEOPLE, pp.Thresholds(), epsilon=1, public_n_users=20, records_per_user=4)
    assert "predicted excess error" in str(released.parameters["chosen because"])
    assert "chosen because" not in pp.learn(PEOPLE, pp.Thresholds(), epsilon=1).parameters


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"trimmed"}))
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_every_method_releases_a_rule_with_the_guarantee_asked_for(method: str, neighbours: str) -> None:
    released = pp.learn(PEOPLE, pp.Thresholds(), epsilon="1/2", method=method, neighbours=neighbours, records_per_user=2, public_n_users=3)
    assert released.guarantee == pp.Guarantee("1/2", unit="user", neighbours=neighbours, rho=released.guarantee.rho)  # type: ignore[union-attr]
    assert set(released.predict([[0], [9]]).tolist()) <= {0, 1}


def test_trimmed_needs_a_delta_and_says_so() -> None:
    with pytest.raises(ParameterError, match="'trimmed' needs delta"):
        learner_for(CUTS, epsilon=1, method="trimmed", neighbours="replace", records_per_user=2)
    with pytest.raises(ParameterError, match="slots"):
        learner_for(CUTS, epsilon=1, method="trimmed", delta="1e-6", records_per_user=2)
    learner = learner_for(CUTS, epsilon=1, method="trimmed", delta="1e-6", neighbours="replace", records_per_user=2)
    assert learner.guarantee.summary == "(1, 1e-06)-DP per user, replace"


def test_unknown_methods_and_options_are_refused_by_name() -> None:
    with pytest.raises(ParameterError, match="'auto' or one of agnostic"):
        learner_for(CUTS, epsilon=1, method="magic")
    with pytest.raises(ParameterError, match="unknown option 'branch'"):
        learner_for(CUTS, epsilon=1, method="regret", branch="em")


def test_prediction_falls_with_records_and_with_users() -> None:
    def excess(n: int, m: int) -> float:
        return predict_excess(RegretSelection(CUTS, 1, public_n_users=n), n_users=n, records_per_user=m).excess  # type: ignore[arg-type]

    assert excess(40, 16) < excess(40, 2)
    assert excess(160, 4) < excess(20, 4)


def test_mean_distance_over_a_block_equals_the_literal_mean() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, width, best = int(rng.integers(0, 50)), int(rng.integers(0, 40)), int(rng.integers(0, 90))
        literal = np.mean([abs(u - best) for u in range(a, a + width + 1)])
        fast = float(_distance(np.array([a], float), np.array([a + width], float), best)[0])
        assert abs(fast - literal) <= 0.5, (a, width, best)
