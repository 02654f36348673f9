"""Lower bound <= measured number of users <= certified number, by the law of the output on seeded data."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest

from privpac.planning import plan_users

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
METHODS = (
    "realizable selection",
    "regret selection",
    "regret selection, bounded noise",
    "per-user mean",
    "pairwise selection",
    "user agnostic selection",
)
QUICK = METHODS[:-1]


@pytest.fixture(scope="module")
def sandwich() -> Iterator[ModuleType]:
    known = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("sandwich")
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in {"sandwich", "common"} - known:
            sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("epsilon", "records", "method"), [*((1, 16, method) for method in METHODS), *((4, 64, method) for method in QUICK)]
)
def test_measured_lies_between_the_lower_bound_and_the_certificate(sandwich: ModuleType, epsilon: int, records: int, method: str) -> None:
    line = sandwich.measure(sandwich.Cell(epsilon, Fraction(1, 10), records), method, 2 if method in QUICK else 1)
    assert line.inside, line
    assert line.above_lower, line
    assert 0 < line.lower <= min(line.measured) <= max(line.measured) <= line.certified


def test_the_certified_numbers_are_those_of_the_plan(sandwich: ModuleType) -> None:
    cell = sandwich.Cell(1, Fraction(1, 20), 16)
    planned = plan_users(sandwich.CONCEPT, epsilon=1, alpha="1/20", beta=sandwich.BETA, records_per_user=16, noise=max(sandwich.NOISE))
    assert {row.method: row.n_users[0] for row in planned.rows} == {name: bound.n_users for name, bound in cell.certificates.items()}


@pytest.mark.parametrize("noise", [Fraction(1, 10), Fraction(3, 10)])
def test_the_measured_law_is_the_law_of_the_learner(sandwich: ModuleType, noise: Fraction) -> None:
    """Where an estimate comes first its law is mixed in; compared with the exact law of the released rule."""
    cell, method = sandwich.Cell(4, Fraction(1, 10), 16), "user agnostic selection"
    certificate, world = cell.certificates[method], sandwich.World(noise, 16, 1)
    (data,) = world.first(12)
    exact = sandwich.agnostic_learner(certificate, cell).rule_law(data)
    bad = sum(float(exact.prob(cut)) for cut, excess in enumerate(world.excess) if excess > float(cell.alpha))
    assert 0.001 < bad < 0.999
    assert sandwich.failure(method, certificate, cell, world, data) == pytest.approx(bad, rel=1e-9)


def test_data_sets_are_nested(sandwich: ModuleType) -> None:
    world = sandwich.World(Fraction(1, 10), 4, 2)
    for few, many in zip(world.first(3), world.first(9)):
        assert few.codes["x"].tolist() == many.codes["x"][:12].tolist()
        assert few.labels.tolist() == many.labels[:12].tolist()


def test_least_finds_the_first_sufficient_number(sandwich: ModuleType) -> None:
    assert [sandwich.least(lambda n, k=k: n >= k, 20) for k in range(1, 21)] == list(range(1, 21))
    assert sandwich.least(lambda n: n > 1000, 20) == 20
