"""Plans for the least error of a class: numbers that move the right way, hold when tried, and are what is run."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import privpac as pp
from privpac.data import Integers, UserData
from privpac.errors import ParameterError
from privpac.evaluation.best_error import certify_best_error

CUTS = pp.Thresholds(Integers(0, 49))
TOLD: dict[str, Any] = {"epsilon": 1, "radius": "1/8", "beta": "0.05", "dimension": 1, "log_size": 4.0}


def people(n: int, m: int, noise: float, seed: int) -> UserData:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 50, size=(n, m))
    y = (x > 20) ^ (rng.random((n, m)) < noise)
    rows = [list(zip(a.tolist(), b.astype(int).tolist())) for a, b in zip(x, y)]
    return UserData.from_users(rows, features={"x": Integers(0, 49)})


@pytest.mark.parametrize("method", ["sum", "oneshot", "bisect"])
def test_more_of_anything_never_needs_more_people(method: str) -> None:
    for name, values in {
        "epsilon": ("0.01", "0.1", "0.5", 1, 4),
        "radius": ("1/64", "1/32", "1/20", "1/8", "1/4"),
        "beta": ("0.01", "0.05", "0.2"),
        "records_per_user": (1, 2, 3, 5, 8, 17, 64, 300),
    }.items():
        found = [certify_best_error(method, **{"records_per_user": 4} | TOLD | {name: v}).n_users for v in values]
        assert all(n is not None for n in found)
        assert all(b <= a for a, b in pairwise(found)), (name, found)  # type: ignore[operator]
    here = {"records_per_user": 4} | TOLD
    replaced = certify_best_error(method, **here, neighbours="replace").n_users
    assert (replaced < certify_best_error(method, **here).n_users) == (method == "sum")  # type: ignore[operator]


def test_search_pays_for_many_records_only() -> None:
    few, many = (pp.plan_best_error(CUTS, epsilon=1, radius="1/32", records_per_user=m) for m in (1, 256))
    assert few.best == "sum"
    assert many.best != "sum"
    assert "fewest: " in str(many)
    with pytest.raises(ParameterError, match="method must be"):
        certify_best_error("best", records_per_user=1, **TOLD)
    with pytest.raises(TypeError):
        pp.plan_best_error("threshold", epsilon=1, records_per_user=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(("method", "m"), [("sum", 2), ("oneshot", 32), ("bisect", 32)])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_certified_people_are_enough(method: str, m: int, noise: float) -> None:
    """Twelve draws; more than five misses at beta = 1/20 would come with probability below 1e-5, and none comes."""
    plan = pp.plan_best_error(CUTS, epsilon=2, radius="1/8", records_per_user=m)
    certificate = plan[method]
    n = certificate.n_users
    assert n is not None
    options = {} if method == "sum" else {"max_records": certificate.parameters["max_records"], "radius": "1/8"}
    for seed in range(12):
        found = pp.best_error(people(n, m, noise, seed), CUTS, epsilon=2, method=method, **options).value
        value = found.value if method == "sum" else found
        assert abs(float(value) - noise) <= 1 / 8


def test_auto_runs_what_is_planned_and_needs_a_declared_number() -> None:
    data = people(200, 4, 0.1, 1)
    assert pp.best_error(data, CUTS, epsilon=1, method="auto", records_per_user=1).learner == "least error"
    told: dict[str, Any] = {"method": "auto", "records_per_user": 64, "radius": "1/8"}
    searched = pp.best_error(people(60, 64, 0.1, 1), CUTS, epsilon="1/10", **told)
    assert isinstance(searched.value, Fraction)
    assert searched.parameters["estimator"] in ("oneshot", "bisect")
    with pytest.raises(ParameterError, match="needs records_per_user"):
        pp.best_error(data, CUTS, epsilon=1, method="auto")
    with pytest.raises(ParameterError, match="or auto"):
        pp.best_error(data, CUTS, epsilon=1, method="best")
