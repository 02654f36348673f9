"""One engine for every target: a target of one's own is planned, inverted, predicted and drawn; nothing tells targets
apart."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import FunctionType

import pytest

import privpac
from privpac.bounds.certificate import Certificate
from privpac.concepts import Thresholds
from privpac.data import Integers
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours
from privpac.planning import InversePlan, InverseRow, Plan, PlanRow, choose_method
from privpac.planning import plan as ask
from privpac.planning.curves import Curves
from privpac.planning.models.simulation import Simulation
from privpac.planning.plans import invert, plan_target
from privpac.planning.targets.certified_runs import CertifiedRun
from privpac.planning.targets.target import Asked, PlannedMethod, Target

ROOT = Path(privpac.__file__).parent
CUTS = Thresholds(Integers(0, 99))


# A target of one's own


@dataclass(frozen=True)
class Coin(Simulation):
    """A loss of 1/(epsilon n)."""

    target: CoinTarget

    method = "half the users"
    model = "a coin"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        return lambda i: float(1 / (epsilon * n_users * records_per_user))

    def between(self, records_per_user: int) -> tuple[int, int]:
        return 1, 1 << 12


@dataclass(frozen=True)
class CoinTarget(Target):
    """Two methods and a bound, by formula."""

    epsilon: Fraction = Fraction(1)
    alpha: Fraction = Fraction(1, 10)
    beta: Fraction = Fraction(1, 20)
    neighbours: Neighbours = Neighbours.REPLACE
    delta: Fraction = Fraction(0)

    measure = "loss of the coin"

    def users(self, times: int, m: int) -> Certificate:
        if m > 100:
            raise ParameterError("so many records are not read")
        return Certificate.upper(-(-times // (self.epsilon * self.alpha * m)), "coin", "a fair coin")

    def lower(self, m: int) -> Certificate:
        return Certificate.lower(1, "coin", "any coin")

    def run_coin(self, m: int, certificate: Certificate, asked: Asked) -> CertifiedRun:
        return CertifiedRun("coin", certificate.n_users, {"m": m}, lambda: ("coin", m), lambda: ["coin"])

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        return [
            PlannedMethod("all the users", partial(self.users, 2), ", twice", run=self.run_coin, key="coin"),
            PlannedMethod("half the users", partial(self.users, 1), run=self.run_coin, key="coin"),
            PlannedMethod("no coin", self.lower, kind="lower bound"),
        ]

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        return [Coin(self)]

    @property
    def shown(self) -> dict[str, str]:
        return {"coin": "fair"}


def test_a_target_of_ones_own_is_planned_predicted_recommended_and_run() -> None:
    target = CoinTarget()
    stated = target.stated({"epsilon": "1", "alpha": "0.1", "beta": "0.05"})
    planned = plan_target(target, (1, 5, 200), stated)
    assert planned.row("all the users").n_users == (20, 4, None)
    assert planned.row("all the users").assumption == "a fair coin, twice"
    assert "so many records" in planned.row("all the users").note
    assert planned.predicted[0].n_users[:2] == (10, 2)
    assert planned.quick
    assert planned.recommendation is not None
    assert planned.recommendation.method == "half the users"
    assert planned.recommendation.because == "it has the least certified users with 5 records per user: " + (
        "half the users 2, all the users 4"
    )
    assert planned.learner("half the users", records_per_user=1) == ("coin", 1)
    assert planned.best("coin", 0) == 10
    assert planned.cost_per_record["half the users"][:2] == (1.0, 1.0)
    for text in ("coin fair", "loss of the coin", "half the users: privpac coin"):
        assert text in str(planned)
    with pytest.raises(ParameterError, match="certifies nothing for 200 records"):
        planned.learner("half the users", records_per_user=200)


@pytest.mark.parametrize("quantity", ["alpha", "epsilon"])
def test_the_same_target_is_inverted_and_drawn(quantity: str) -> None:
    target = CoinTarget()
    planned = invert(target, quantity=quantity, n_users=40, sizes=(1, 5), stated={})
    twice, once = planned.row("all the users").values, planned.row("half the users").values
    for m, value in zip((1, 5), twice):
        assert target.changed(**{quantity: value}).certified_users("all the users", m) <= 40
        assert target.changed(**{quantity: value * Fraction(9, 10)}).certified_users("all the users", m) > 40
    assert all(a > b for a, b in zip(twice, once))
    assert planned.row("all the users").n_users == ()
    assert planned.best("coin", 1) == once[1]
    view = Curves(planned)
    assert view.promised == once[1]
    assert view.certified_alpha(40, 5) is not None
    assert view.by_records.quantity == "users"
    assert view.measure == "loss of the coin"
    assert len(view.by_epsilon) > 3
    assert planned.to_dict()["quantity"] == quantity


# One record, one plan, one name


def test_an_inverse_plan_is_a_plan() -> None:
    assert InversePlan is Plan
    assert InverseRow is PlanRow


def test_plan_is_the_function_and_no_module() -> None:
    assert isinstance(importlib.import_module("privpac.planning").plan, FunctionType)
    assert not (ROOT / "planning" / "plan.py").exists()
    importlib.import_module("privpac.planning.questions")
    assert isinstance(importlib.import_module("privpac.planning").plan, FunctionType)


def test_a_choice_carries_what_its_reason_rests_on() -> None:
    default = choose_method(CUTS, epsilon=1)
    assert default.because == f"it is {default.reason}"
    predicted = choose_method(CUTS, epsilon=1, public_n_users=30, records_per_user=4)
    assert predicted.because.startswith("a simulation says so (not a certificate): predicted excess error")


def test_a_model_says_as_many_records_as_the_column_whatever_it_was_made_with() -> None:
    """Only people made with 16 records were renamed once: the number was looked for in the name."""
    from privpac.planning.comparison.population import generated_population

    for records in (4, 16):
        people = generated_population("0.1", records_per_user=records, values=64)
        planned = ask(Thresholds(Integers(0, 63), "x"), epsilon=1, alpha="0.2", population=people, records_per_user=4)
        models = {row.assumption for row in planned.predicted}
        assert len(models) == 1
        assert "label noise 1/10, as many records per user as the column says" in models.pop()


# The house


def planning_modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((ROOT / "planning").rglob("*.py")):
        yield ".".join(("privpac", *path.relative_to(ROOT).with_suffix("").parts)), ast.parse(path.read_text())


def imports_of(node: ast.AST) -> Iterator[str]:
    """Names imported anywhere, inside functions too, but for the type checker's sake."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
            yield str(child.module)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        yield from imports_of(child)


def test_planning_has_no_import_cycle() -> None:
    trees = dict(planning_modules())
    edges = {name: {other for other in imports_of(tree) if other in trees} - {name} for name, tree in trees.items()}
    assert sum(map(len, edges.values())) > 50
    while free := [name for name, others in edges.items() if not others & set(edges)]:
        for name in free:
            del edges[name]
    assert not edges, "these modules import each other in a circle"


def test_nobody_tells_targets_or_plans_apart() -> None:
    told = ("Target", "Plan", "PlanRow")
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                names = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                assert not [name for name in names if name.endswith(told)], f"{path.name}:{node.lineno}"
