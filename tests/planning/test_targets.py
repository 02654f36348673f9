"""One engine for every target: a target of one's own is planned, inverted, predicted and drawn; nothing tells targets
apart."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import FunctionType

import pytest
from attrs import frozen

import privpac
from privpac.auditing.claims import plan_claims
from privpac.data import Integers
from privpac.errors import ParameterError
from privpac.guarantee import Neighbours
from privpac.methods.planned import Asked, CertifiedRun, PlannedMethod, Target
from privpac.methods.simulation import Simulation
from privpac.planning import InversePlan, InverseRow, Plan, PlanRow, choose_method
from privpac.planning import plan as ask
from privpac.planning.curves import Curves
from privpac.planning.plans import invert_plan, plan_target
from privpac.rules import Thresholds
from privpac.sample_size import Certificate

ROOT = Path(privpac.__file__).parent
CUTS = Thresholds(Integers(0, 99))


# A target of one's own


@frozen(slots=False)
class Coin(Simulation):
    """A loss of 1/(epsilon n)."""

    target: CoinTarget

    method = "half the users"
    model = "a coin"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        return lambda i: float(1 / (epsilon * n_users * records_per_user))

    def between(self, records_per_user: int) -> tuple[int, int]:
        return 1, 1 << 12


@frozen(slots=False)
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
    planned = invert_plan(target, quantity=quantity, n_users=40, sizes=(1, 5), stated={})
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


def test_a_certificate_that_nobody_attacks_is_an_error() -> None:
    with pytest.raises(LookupError, match="name the hard_laws"):
        plan_claims(CoinTarget(), 5)


# One record, one plan, one name


def test_an_inverse_plan_is_a_plan() -> None:
    assert InversePlan is Plan
    assert InverseRow is PlanRow


def test_plan_is_the_function_and_no_module() -> None:
    assert isinstance(importlib.import_module("privpac.planning").plan, FunctionType)
    assert not (ROOT / "planning" / "plan.py").exists()
    importlib.import_module("privpac.planning.query")
    assert isinstance(importlib.import_module("privpac.planning").plan, FunctionType)


def test_a_choice_carries_what_its_reason_rests_on() -> None:
    default = choose_method(CUTS, epsilon=1)
    assert default.because == f"it is {default.reason}"
    predicted = choose_method(CUTS, epsilon=1, public_n_users=30, records_per_user=4)
    assert predicted.because.startswith("a simulation says so (not a certificate): predicted excess error")


def test_a_model_says_as_many_records_as_the_column_whatever_it_was_made_with() -> None:
    """Only people made with 16 records were renamed once: the number was looked for in the name."""
    from privpac.rules.populations import generated_population

    for records in (4, 16):
        people = generated_population("0.1", records_per_user=records, values=64)
        planned = ask(Thresholds(Integers(0, 63), "x"), epsilon=1, alpha="0.2", population=people, records_per_user=4)
        models = {row.assumption for row in planned.predicted}
        assert len(models) == 1
        assert "label noise 1/10, as many records per user as the column says" in models.pop()


# The house: nobody tells targets, plans or rows apart, and nobody reads what is written for people


LISTED = ("Target", "Plan", "PlanRow")
OF_A_PLAN = {"target", "plan", "planned", "asked", "row", "choice", "goal", "view", "method", "simulation"}
WORDS = {"reason", "because", "name", "method", "assumption", "assumes", "note", "model", "kind", "law", "title"}
PARSED = {"startswith", "endswith", "split", "rsplit", "partition", "rpartition", "replace", "removeprefix"}
PARSED |= {"removesuffix", "find", "index", "count", "match", "search", "fullmatch"}


def named_types(node: ast.AST) -> bool:
    """Whether a type of target, plan or row is named."""
    names = [part.id if isinstance(part, ast.Name) else getattr(part, "attr", "") for part in ast.walk(node)]
    return any(name.endswith(LISTED) for name in names)


def last_name(node: ast.AST) -> str:
    """``target`` of ``target``, ``self.target`` and ``plan.asked.target``."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def family_of_a_target(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "family" and last_name(node.value) in OF_A_PLAN


def told_apart(tree: ast.AST) -> Iterator[int]:
    """Lines on which targets, plans or rows are told apart: by type, by what they have, or by the name of a family."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            kind = node.func.id
            if kind in ("isinstance", "issubclass") and named_types(node.args[1]):
                yield node.lineno
            named = len(node.args) > 1 and isinstance(node.args[1], ast.Constant)  # one thing, not a list of fields
            if kind in ("hasattr", "getattr") and named and last_name(node.args[0]) in OF_A_PLAN:
                yield node.lineno
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            typed = any(isinstance(side, ast.Call) and last_name(side.func) == "type" for side in sides)
            if (typed and any(map(named_types, sides))) or any(map(family_of_a_target, sides)):
                yield node.lineno
        elif isinstance(node, ast.MatchClass) and named_types(node.cls):
            yield node.lineno


def parsed_text(tree: ast.AST) -> Iterator[int]:
    """Lines on which a reason, a name or another text of a plan is taken to pieces."""
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in PARSED and last_name(called.value) in WORDS:
            yield called.lineno


def read_by() -> Iterator[tuple[str, ast.Module]]:
    """What makes, tries or shows plans."""
    rooms = [*(ROOT / "planning").rglob("*.py"), *(ROOT / "auditing").rglob("*.py"), *ROOT.rglob("*_plan.py")]
    for path in sorted(
        [
            *rooms,
            *ROOT.rglob("plan_rows.py"),
            ROOT / "methods" / "planned.py",
            ROOT / "report" / "plan.py",
            ROOT / "cli" / "plan.py",
        ]
    ):
        yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_nobody_tells_targets_or_plans_apart(path: Path) -> None:
    assert not [*told_apart(ast.parse(path.read_text()))]


def test_no_text_of_a_plan_is_parsed() -> None:
    seen = dict(read_by())
    assert len(seen) > 20
    assert not {path for path, tree in seen.items() if [*parsed_text(tree)]}


@pytest.mark.parametrize(
    "ladder",
    [
        "isinstance(x, RuleTarget)",
        "isinstance(x, (int, targets.MedianTarget))",
        "issubclass(kind, FamilyTarget)",
        "type(plan) is InversePlan",
        "hasattr(target, 'simulations')",
        "getattr(self.asked.target, 'note', '')",
        "getattr(plan, 'quantity', 'users')",
        "target.family == 'gaussian'",
        "target.family in ('product', 'gaussian')",
        "match target:\n    case TreeTarget():\n        pass",
    ],
)
def test_a_ladder_over_targets_is_seen(ladder: str) -> None:
    assert [*told_apart(ast.parse(ladder))]


@pytest.mark.parametrize(
    "reading",
    [
        "choice.reason.startswith('predicted')",
        "people.name.replace('16 records', 'as many records')",
        "row.method.split(',')[0]",
        "name.split(',')",
        "self.row.method.endswith('bounded noise')",
    ],
)
def test_reading_what_is_written_for_people_is_seen(reading: str) -> None:
    assert [*parsed_text(ast.parse(reading))]
