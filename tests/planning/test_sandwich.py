"""Lower bound <= measured number of users <= certified number: a handful of cells of the benchmarks, by the law of the
output."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from privpac.planning import plan_users

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MODULES = ("sandwich", "sandwich_hard", "sandwich_more")
METHODS = (
    "realizable selection",
    "regret selection",
    "regret selection, bounded noise",
    "per-user mean",
    "pairwise selection",
    "user agnostic selection",
)
TENTH = Fraction(1, 10)


@pytest.fixture(scope="module")
def at() -> Iterator[SimpleNamespace]:
    """The benchmarks' modules by name."""
    known = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in {*MODULES, "common"} - known:
            sys.modules.pop(name, None)


# Selection of rules


@pytest.mark.parametrize(
    ("epsilon", "neighbours", "method"),
    [
        *((1, "add-remove", method) for method in METHODS),
        pytest.param(4, "replace", "regret selection", marks=pytest.mark.slow),
        pytest.param(4, "replace", "pairwise selection", marks=pytest.mark.slow),
    ],
)
def test_certified_numbers_are_enough_on_a_mild_law(
    at: SimpleNamespace, epsilon: int, neighbours: str, method: str
) -> None:
    cell = at.sandwich.Cell(at.sandwich.CUTS, epsilon, TENTH, 16, at.sandwich.Neighbours(neighbours))
    line = at.sandwich.measure(cell, method, 1)
    assert line.inside, line
    assert 0 < line.lower <= line.certified
    assert max(line.measured) <= line.certified


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4], ids=["stump", "point", "interval", "conjunction", "rectangle"])
@pytest.mark.parametrize("method", ["realizable selection"])
def test_certified_numbers_are_enough_for_other_classes(at: SimpleNamespace, place: int, method: str) -> None:
    line = at.sandwich.measure(at.sandwich.Cell(at.sandwich.CLASSES[place], 1, TENTH, 16), method, 1)
    assert line.inside, line


@pytest.mark.parametrize("method", [*METHODS[:-1], "selection, one record each"])
@pytest.mark.parametrize(("place", "neighbours"), [(None, "add-remove"), (1, "replace")], ids=["cuts", "points"])
def test_on_hard_laws_the_measured_number_lies_between_the_bounds(
    at: SimpleNamespace, place: int | None, neighbours: str, method: str
) -> None:
    rules = at.sandwich.CUTS if place is None else at.sandwich.CLASSES[place]
    cell = at.sandwich.Cell(rules, 4, TENTH, 1 if "one record" in method else 4, at.sandwich.Neighbours(neighbours))
    if method not in cell.certificates:
        assert "bounded noise" in method
        return
    line = at.sandwich_hard.hard_line(cell, method)
    assert line.inside, line
    assert line.above_lower, line
    # The hard law is hard: a third of what is certified for clean labels is not enough.
    if method == "realizable selection":
        assert line.measured[0] > line.certified / 3


def test_the_certified_numbers_are_those_of_the_plan(at: SimpleNamespace) -> None:
    cell = at.sandwich.Cell(at.sandwich.CUTS, 1, Fraction(1, 20), 16)
    planned = plan_users(
        cell.rules.concept,
        epsilon=1,
        alpha="1/20",
        beta=at.sandwich.BETA,
        records_per_user=16,
        noise=max(at.sandwich.NOISE),
        every_method=True,
    )
    listed = {row.method: row.n_users[0] for row in planned.rows if row.kind in ("certified", "lower bound")}
    assert listed == {name: bound.n_users for name, bound in cell.planned.items()}


@pytest.mark.parametrize("noise", [Fraction(1, 10), Fraction(3, 10)])
def test_the_measured_law_is_the_law_of_the_learner(at: SimpleNamespace, noise: Fraction) -> None:
    """Where an estimate comes first its law is mixed in; compared with the exact law of the released rule."""
    sandwich = at.sandwich
    cell, method = sandwich.Cell(sandwich.CUTS, 4, TENTH, 16), "user agnostic selection"
    certificate, world = cell.certificates[method], sandwich.World(sandwich.CUTS, noise, 16, 1)
    (data,) = world.first(12)
    exact = sandwich.agnostic_learner(certificate, cell).rule_law(data)
    bad = sum(float(exact.prob(cut)) for cut, excess in enumerate(world.excess) if excess > float(cell.alpha))
    assert 0.001 < bad < 0.999
    assert sandwich.failure(method, certificate, cell, world, data) == pytest.approx(bad, rel=1e-9)


@pytest.mark.parametrize("method", ["regret selection", "per-user mean", "pairwise selection"])
@pytest.mark.parametrize("place", [None, 1], ids=["cuts", "points"])
def test_the_law_on_one_point_is_that_of_the_learner(at: SimpleNamespace, place: int | None, method: str) -> None:
    """What all users together prefer decides the law: compared with the learner's own scores on the whole data set."""
    sandwich, hard = at.sandwich, at.sandwich_hard
    rules = sandwich.CUTS if place is None else sandwich.CLASSES[place]
    cell = sandwich.Cell(rules, 1, TENTH, 3)
    coin, rng = hard.Coin(cell, method), np.random.default_rng(0)
    ones = rng.integers(0, 4, 9)
    swing, rate = coin.swings(9)
    labels = np.concatenate([np.arange(3) < k for k in ones])
    data = hard.one_user(rules, np.tile(coin._point, (27, 1)), labels)
    data = sandwich.UserData.from_arrays(
        np.tile(coin._point, (27, 1)),
        labels,
        np.repeat(np.arange(9), 3),
        features={name: data.features[name] for name in data.features},
    )
    ((_, profile, exact),) = sandwich.scored(method, cell.certificates[method], cell, data, 9)
    law = np.exp(-float(exact) * (hard.dense(profile) - hard.dense(profile).min()))
    told = coin.bad(np.array([swing[ones].sum()]), rate, True)
    assert told[0] == pytest.approx(law[~coin.yes].sum() / law.sum(), rel=1e-9)


def test_sums_of_independent_values_are_convolved(at: SimpleNamespace) -> None:
    values, chance = np.array([-1, 2]), np.array([0.25, 0.75])
    total, mass = at.sandwich_hard._summed(values, chance, 3)
    found = {int(t): float(p) for t, p in zip(total, mass) if p > 1e-12}
    assert found == pytest.approx({-3: 1 / 64, 0: 9 / 64, 3: 27 / 64, 6: 27 / 64})


def test_data_sets_are_nested(at: SimpleNamespace) -> None:
    world = at.sandwich.World(at.sandwich.CUTS, TENTH, 4, 2)
    for few, many in zip(world.first(3), world.first(9)):
        assert few.codes["x0"].tolist() == many.codes["x0"][:12].tolist()
        assert few.labels.tolist() == many.labels[:12].tolist()


def test_least_finds_the_first_sufficient_number(at: SimpleNamespace) -> None:
    least = at.sandwich.least
    assert [least(lambda n, k=k: n >= k, 20) for k in range(1, 21)] == list(range(1, 21))
    assert least(lambda n: n > 1000, 20) == 20


# Other families


@pytest.mark.parametrize("family", ["votes", "points"])
def test_other_families_lie_between_their_bounds(at: SimpleNamespace, family: str) -> None:
    for row in at.sandwich_more.rows([family], quick=True):
        assert row.inside, row
        assert row.above_lower, row


@pytest.mark.parametrize("shape", ["path of 256", "star of 64, δ = 1e-6"], ids=["path", "star"])
def test_trees_lie_between_their_bounds(at: SimpleNamespace, shape: str) -> None:
    row = at.sandwich_more.tree_row(shape, 16, "add-remove")
    assert row.inside, row
    assert row.above_lower, row
    # The law is close to the worst: half of the certified number is not enough.
    assert row.measured > 0.5 * row.certified


def test_users_without_a_telling_record_change_nothing_once_there_are_enough(at: SimpleNamespace) -> None:
    more = at.sandwich_more
    tree, delta, points, target = more.SHAPES["path of 256"]
    learner = more.TreeLearner(tree, 2, delta, hi=1, K=6)
    missed = more.tree_missed(learner, points, 2, target)
    for told, users in ((3, 12), (5, 30), (2, 4)):
        rows = [[points[0], points[1]]] * told + [[points[0]] * 2] * (users - told)
        law = learner.law(more.UserData.from_users(rows, features={"x": tree.domain}))
        assert missed(told, users) == pytest.approx(1 - float(law.prob(target)), rel=1e-12)


def test_counted_runs_are_bounded_and_not_taken_at_their_word(at: SimpleNamespace) -> None:
    few = at.sandwich_more.Row("votes", "m", "s", 1, 5, 10, 0.0, runs=20)
    assert few.at_most > 0.1
    assert not few.inside
    assert at.sandwich_more.Row("votes", "m", "s", 1, 5, 10, 0.0, runs=400).inside
