"""A method that the package does not know: everything that learns, plans, predicts, audits, saves and reports takes it.

It is defined here as anyone would define it: a learner, a certificate, a simulation, the hard laws that attack the
certificate, and one record that names them.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve, frozen
from typer.testing import CliRunner

import privpac as pp
from privpac.auditing import plan_claims, refute
from privpac.auditing.refutation import Claim
from privpac.auditing.rule_laws import rule_claim, selection_votes
from privpac.cli.app import app
from privpac.cli.commands import load_commands as load_commands
from privpac.data import Users
from privpac.errors import ParameterError
from privpac.law import Law
from privpac.methods.base import Bound, Selection, drawn_id, profile_of
from privpac.methods.planned import RuleGoal
from privpac.methods.registry import METHODS, RIGHT_RULE, Method, PlannedMethod, register_method
from privpac.methods.simulation import Simulation, excess_on, fixed_draws
from privpac.parameters import named
from privpac.report import report_html
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.populations import standard_population
from privpac.rules.profile import Exceeds
from privpac.sample_size import Certificate
from privpac.sklearn import PrivateRuleClassifier

KEY, ROW = "strict", "strict selection"


@frozen(slots=False, field_transformer=named)
class StrictSelection(Selection):
    """A rule loses a user who sees it err: each user adds 0 or 1 to the score of a rule."""

    forgiven: int = 0

    @property
    def statistic(self) -> Exceeds:
        return Exceeds(self.forgiven)

    def law(self, data: Users) -> Law:
        return profile_of(self.bind(data), self.statistic).law(self.rate(self.epsilon, 1))

    def draw(self, bound: Bound, rng: Rng) -> Released:
        chosen = drawn_id(bound, self.statistic, self.rate(self.epsilon, 1), rng)
        return self.release_id(bound, chosen, {"forgiven": self.forgiven}, ROW)


def certified(goal: RuleGoal, m: int) -> Certificate:
    """Some rule is right, so its score is 0; a rule of error above alpha loses a user with probability at least ``p = 1
    - (1 - alpha)**m``, and is drawn with probability at most ``(1 - p (1 - exp(-theta)))**n``."""
    p = -math.expm1(m * math.log1p(-float(goal.alpha)))
    each = -math.log1p(p * math.expm1(-float(goal.theta)))
    n = math.ceil((goal.concept.log_size - math.log(goal.beta)) / each * (1 + 1e-9))
    return Certificate.upper(n, ROW, "people from one law, and a rule that is right").run_with(forgiven=0)


def strict_rows(goal: RuleGoal) -> list[PlannedMethod]:
    return [PlannedMethod(ROW, partial(certified, goal))]


@frozen(slots=False)
class StrictSimulation(Simulation):
    """Right labels on the standard model of the class."""

    kind: str
    target: RuleGoal

    method = ROW
    key = KEY
    model = "right labels on uniform values"

    def run(self, records_per_user: int, n_users: int, epsilon: Fraction) -> Callable[[int], float] | None:
        people = standard_population(self.target.concept, records_per_user=records_per_user, noise=0)
        if people is None or n_users > 4096:
            return None
        learner = StrictSelection(people.concept, epsilon, self.target.neighbours)
        return lambda i: excess_on(learner, people.draw(n_users, fixed_draws(i)), people)

    def between(self, records_per_user: int) -> tuple[int, int]:
        return 2, 4096


def strict_claim(target: Any, line: PlannedMethod, found: Certificate, records_per_user: int) -> Claim:
    def votes(learner: StrictSelection, bits: int, n: int) -> Any:
        return selection_votes(learner.statistic, float(learner.rate(learner.epsilon, 1)))

    return rule_claim(target, line, found, records_per_user, votes)


RECORD = Method(
    KEY,
    ROW,
    StrictSelection,
    "users who see a rule err",
    "Some rule is right, and one slip is one too many.",
    setting="realizable",
    accuracy=RIGHT_RULE,
    rows=strict_rows,
    simulation=StrictSimulation,
    hard_laws=strict_claim,
)

CUTS = pp.Thresholds(pp.Integers(0, 63), "x")
PEOPLE = pp.UserData.from_users(
    [[(x, int(x >= 20)) for x in range(u % 7, 64, 9)] for u in range(200)], features={"x": pp.Integers(0, 63)}
)


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    register_method(RECORD)
    try:
        yield
    finally:
        del METHODS[KEY]


def test_it_learns_saves_and_is_evaluated(tmp_path: Path) -> None:
    rule = pp.learn(PEOPLE, CUTS, epsilon=4, method=KEY)
    assert rule.guarantee is not None
    assert rule.guarantee.summary == "(4, 0)-DP per user, add-remove"
    assert rule.parameters["forgiven"] == 0
    rule.save(tmp_path / "rule.json")
    again = pp.load(tmp_path / "rule.json")
    assert again.predict([[63], [0]]).tolist() == rule.predict([[63], [0]]).tolist()
    assert ROW in report_html(again)
    measured = pp.learn(PEOPLE, CUTS, epsilon=4, method=KEY, evaluate="1/5")
    assert measured.evaluation is not None
    assert pp.evaluate(rule, PEOPLE, epsilon=1, same_people=True).value.error.value < 0.5
    with pytest.raises(ParameterError, match="takes forgiven"):
        pp.learn(PEOPLE, CUTS, epsilon=4, method=KEY, tau=3)


def test_a_plan_has_its_row_its_prediction_and_its_learner(tmp_path: Path) -> None:
    plan = pp.plan(CUTS, epsilon=1, alpha="0.1", records_per_user=4)
    row = plan.row(ROW)
    assert row.kind == "certified"
    assert row.key == KEY
    assert plan.learner(ROW) == StrictSelection(CUTS, Fraction(1), max_records=None, forgiven=0)
    assert f"--method {KEY}" in plan.command(ROW)
    predicted = {one.method: one.values[0] for one in plan.predicted}
    assert 1 < predicted[ROW] < row.n_users[0]
    assert ROW in str(pp.plan(CUTS, epsilon=1, alpha="0.1", records_per_user=4, every_method=True))
    inverse = pp.plan(CUTS, epsilon=1, n_users=200, records_per_user=4, setting="realizable")
    assert 0 < inverse.row(ROW).values[0] < Fraction(1, 10)
    assert ROW not in [one.method for one in pp.plan(CUTS, epsilon=1, records_per_user=1, setting="agnostic").rows]
    from privpac.report.plan import write_plan_report

    write_plan_report(tmp_path / "plan.html", CUTS, epsilon=1, records_per_user=4, setting="realizable", predict=False)
    assert ROW in (tmp_path / "plan.html").read_text()


def test_its_privacy_is_audited_and_its_certificate_attacked() -> None:
    learner = StrictSelection(pp.Thresholds(pp.Integers(0, 2), "x"), 1, "replace")
    found = pp.audit(learner, n_users=2, records=1)
    assert found
    target = pp.plan(CUTS, epsilon=1, alpha="0.1", records_per_user=2, setting="realizable").asked
    assert target is not None
    claims, left = plan_claims(target.target, 2, "realizable")
    (claim,) = (claim for claim in claims if claim.name == ROW)
    assert ROW not in left
    assert not refute(claim, steps=2).refuted
    assert refute(evolve(claim, n_users=max(2, claim.n_users // 8)), multiples=(1,), steps=0).refuted


def test_the_lists_and_the_command_line_know_it(tmp_path: Path) -> None:
    assert KEY in pp.list_methods().keys
    assert pp.list_methods(CUTS, setting="realizable")[KEY]["accuracy"] == RIGHT_RULE
    load_commands([])
    run = CliRunner()
    listed = json.loads(run.invoke(app, ["methods", "--json"]).stdout)
    assert KEY in [row["method"] for row in listed]
    words = ["plan", "threshold", "--domain", "64", "--epsilon", "1", "-m", "4", "--json", "--no-predict"]
    planned = json.loads(run.invoke(app, words).stdout)
    assert ROW in [row["method"] for row in planned["rows"]]
    lines = [f"{u},{x},{int(x >= 20)}" for u in range(60) for x in range(u % 7, 64, 9)]
    (tmp_path / "t.csv").write_text("\n".join(["who,x,y", *lines]) + "\n")
    words = ["learn", str(tmp_path / "t.csv"), "--user", "who", "--label", "y", "--feature", "x=0:63"]
    words += ["--rule", "threshold", "--epsilon", "4", "--method", KEY, "--set", "forgiven=1", "--json"]
    told = run.invoke(app, [*words, "--out", str(tmp_path / "rule.json")])
    assert told.exit_code == 0, told.output
    assert pp.load(tmp_path / "rule.json").parameters["forgiven"] == 1


def test_the_estimator_runs_it() -> None:
    x = np.concatenate([np.arange(u % 7, 64, 9) for u in range(200)])
    users = np.repeat(np.arange(200), [len(range(u % 7, 64, 9)) for u in range(200)])
    model = PrivateRuleClassifier(
        epsilon=4, rule="threshold", domains=[pp.Integers(0, 63)], classes=["no", "yes"], method=KEY
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model.fit(x[:, None], np.where(x >= 20, "yes", "no"), groups=users)
    assert fitted.score(x[:, None], np.where(x >= 20, "yes", "no")) > 0.6


def test_a_key_is_taken_once() -> None:
    with pytest.raises(ParameterError, match="already"):
        register_method(RECORD)
