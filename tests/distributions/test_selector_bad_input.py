"""Bad candidates, bad parameters, bad columns: refused before data are touched, with what was seen and what is
allowed."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import privpac.distributions as room
from privpac.data import Categories, Floats, Integers, UserData
from privpac.distributions import Density, HypothesisSelector
from privpac.errors import IncompatibleGuarantees, ParameterError, PrivpacError, SchemaError, TooLargeError

sys.path.insert(0, str(Path(__file__).parent))
from literal import users_of

GOOD: dict[str, Any] = {"candidates_are": "public", "records_per_user": 2}


@pytest.mark.parametrize(
    ("candidates", "error"),
    [
        ([], ParameterError),
        ({}, ParameterError),
        ("normal", TypeError),
        (3, TypeError),
        ([object()], TypeError),
        (["normal"], TypeError),
        ([[0, 0]], ParameterError),
        ([[-1, 2]], ParameterError),
        ([[math.nan, 1]], ParameterError),
        ([[]], ParameterError),
        ([stats.norm([0, 1], 1)], ParameterError),
        ([stats.norm(0, -1)], ParameterError),
        ([[1, 1]] * 5000, TooLargeError),
        ([stats.multivariate_normal], TypeError),
        ([stats.norm], TypeError),
    ],
)
def test_bad_candidates_are_refused(candidates: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        HypothesisSelector(candidates, 1, **GOOD).comparison({"x": Integers(0, 1)})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"tau": 0}, "tau"),
        ({"tau": "1/10000", "resolution": 1, "records_per_user": None}, None),
        ({"tau": 10**9}, "resolution"),
        ({"resolution": 0}, "resolution"),
        ({"alpha": 0}, "alpha"),
        ({"alpha": 2}, "alpha"),
        ({"beta": 1}, "beta"),
        ({"opt": "1/10"}, "alpha1"),
        ({"candidates_are": "mine"}, "candidates_are"),
        ({"candidates_are": "dp-released"}, "candidates_epsilon"),
        ({"candidates_epsilon": 1}, "candidates_epsilon"),
        ({"records_per_user": None}, "declare records_per_user"),
        ({"records_per_user": 0}, "records_per_user"),
        ({"neighbours": "add"}, "neighbours"),
        ({"unit": "person"}, "unit"),
        ({"bins": "many"}, "bins"),
        ({"bins": [2, 1]}, "bins"),
        ({"bins": 1}, "bins"),
        ({"max_records": 0}, "max_records"),
        ({"public_seed": b"short"}, "public_seed"),
        ({"features": []}, "features"),
    ],
)
def test_bad_parameters_are_refused(changes: dict[str, Any], words: str | None) -> None:
    if words is None:
        assert HypothesisSelector([[1, 2], [2, 1]], 1, **(GOOD | changes)).top == 1
        return
    settings = {"epsilon": 1} | GOOD | changes
    with pytest.raises(PrivpacError, match=words):
        HypothesisSelector([[1, 2], [2, 1]], **settings)


def test_saying_where_candidates_come_from_is_required() -> None:
    with pytest.raises(TypeError, match="candidates_are"):
        HypothesisSelector([[1, 2]], 1, records_per_user=1)  # type: ignore[call-arg]


def test_released_candidates_add_their_budget() -> None:
    selector = HypothesisSelector(
        [[1, 2], [2, 1]], 1, candidates_are="dp-released", candidates_epsilon="1/2", records_per_user=1
    )
    assert selector.guarantee.epsilon == 1
    assert float(selector.total_guarantee.epsilon) == 1.5
    assert "1/2" in selector.guarantee.derivation[0]


def test_columns_must_fit_the_candidates() -> None:
    with pytest.raises(ParameterError, match="2 masses, the declared domain has 3"):
        HypothesisSelector([[1, 2]], 1, **GOOD).bind(users_of([[0]], x=Integers(0, 2)))
    with pytest.raises(ParameterError, match="masses of its values"):
        HypothesisSelector([stats.norm()], 1, **GOOD).bind(users_of([["a"]], x=Categories(["a"])))
    with pytest.raises(ParameterError, match="normal candidates"):
        HypothesisSelector([stats.multivariate_normal([0, 0, 0])], 1, **GOOD).bind(
            users_of([[(0.0, 1.0)]], a=Floats(), b=Floats())
        )
    with pytest.raises(SchemaError):
        HypothesisSelector([[1, 2]], 1, features="y", **GOOD).bind(users_of([[0]], x=Integers(0, 1)))
    with pytest.raises(ParameterError, match="no domain"):
        HypothesisSelector([[1, 2]], 1, **GOOD).bind(UserData.from_users([[0]], labelled=False))
    with pytest.raises(ParameterError, match="sample"):
        HypothesisSelector([Density(lambda z: np.zeros(len(z)))] * 2, 1, bins=None, **GOOD).bind(
            users_of([[0.0]], x=Floats())
        )
    with pytest.raises(TooLargeError, match="bins"):
        HypothesisSelector([[1] * 10], 1, **GOOD).bind(users_of([[0]], x=Integers(0, 1 << 40)))


def test_item_data_need_an_item_promise() -> None:
    items = UserData.from_arrays(np.array([[0], [1]]), features={"x": Integers(0, 1)})
    with pytest.raises(IncompatibleGuarantees):
        HypothesisSelector([[1, 2], [2, 1]], 1, **GOOD).bind(items)
    selector = HypothesisSelector([[1, 2], [2, 1]], 1, candidates_are="public", unit="item")
    assert selector.cap == 1
    # At item level psi has width 1: the range is L under add-remove and 2 L under replace.
    unit = selector.resolution
    assert unit is not None
    assert selector.range_of(selector.comparison({"x": Integers(0, 1)})) <= 2 * unit
    assert selector.law(items).prob_float(0) == pytest.approx(0.5)


def test_every_advertised_name_resolves() -> None:
    for name in room.__all__:
        assert getattr(room, name) is not None
    with pytest.raises(AttributeError):
        room.nothing  # noqa: B018


# Laws without a formula: the work is bounded by public numbers, and the alternative named


STABLE, HEAVY, LIGHT = stats.levy_stable(1.5, 0.5), stats.zipf(1.01), stats.logser(0.5)


@pytest.mark.parametrize(
    ("candidates", "domain", "bins", "words"),
    [
        ([STABLE, stats.norm(0, 1)], Integers(-50, 50), None, "quantiles of levy_stable would take minutes.*bins="),
        (
            [HEAVY, stats.poisson(3)],
            Integers(0, 10**7),
            None,
            "function of zipf is a sum of more than 2.20 masses.*bins=.*zipfian",
        ),
        ([HEAVY, stats.expon(3)], Integers(0, 99), 20, "function of zipf"),
        ([HEAVY, stats.expon(3)], Integers(0, 10**12), [5, 50, 10**9], "function of zipf"),
    ],
)
def test_laws_that_would_take_minutes_are_refused_at_once(candidates: Any, domain: Any, bins: Any, words: str) -> None:
    with pytest.raises(TooLargeError, match=words):
        HypothesisSelector(candidates, 1, bins=bins, **GOOD).comparison({"x": domain})


def test_the_same_laws_are_compared_where_they_are_cheap() -> None:
    for candidates, domain, bins in (
        ([STABLE, stats.norm(0, 1)], Integers(-50, 50), list(range(-50, 50, 5))),
        ([HEAVY, stats.poisson(3)], Integers(0, 99), None),
        ([HEAVY, stats.expon(3)], Integers(0, 99), [5, 50, 1000]),
        ([LIGHT, stats.poisson(3)], Integers(0, 10**7), None),
        ([stats.zipfian(1.5, 1000), stats.poisson(3)], Integers(0, 10**7), None),
    ):
        HypothesisSelector(candidates, 1, bins=bins, **GOOD).comparison({"x": domain})
