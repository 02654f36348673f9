"""Small trees as something to plan for: certified users, whatever the best tree's error, or with a bound on it.

Certificates (``bounds.small_trees``) hold for any joint law of records, labels and numbers of records up to the one
that is planned for; the number of records enters only through the rounding of votes.  They are loose where the best
error is not small, so what a stated model lets expect (``models.small_tree_models``) stands beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from privpac.bounds.certificate import LIMIT, Certificate
from privpac.bounds.small_trees import certified_users, exact_records
from privpac.concepts.small_trees import SmallTrees
from privpac.errors import ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours
from privpac.planning.choice import Choice
from privpac.planning.models.simulation import Simulation
from privpac.planning.models.small_tree_models import SmallTreeSimulation
from privpac.planning.models.standard_models import DEFAULT_NOISE
from privpac.planning.targets.rule_runs import rule_run
from privpac.planning.targets.target import PlannedMethod, Target, read_goal

if TYPE_CHECKING:
    from privpac.planning.plans import Plan

__all__ = ["SmallTreeTarget", "small_tree_target"]

_KEY = "small-tree"
_MOST_PAIRS = 1 << 17
"""Pairs of questions, over all numbers of records, up to which predictions take some seconds: 150 questions at five."""
_RIGHT, _ANY = "small tree, some tree is right", "small tree"


@dataclass(frozen=True)
class SmallTreeTarget(Target):
    """Excess error ``alpha`` with probability ``1 - beta`` for a small tree, at ``epsilon``."""

    concept: SmallTrees
    epsilon: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    noise: Fraction | None = None
    """At most this error is made by the best tree, where it is declared."""
    delta: Fraction = Fraction(0)
    model_noise: Fraction | None = None
    """How often labels are wrong in predictions; None: as often as the best tree errs, or else the usual noise."""

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        learned = partial(rule_run, self, _KEY)
        lines = []
        if setting != "agnostic":
            right = partial(self.certificate, best_error=Fraction(0), said="some tree is right for every record")
            lines.append(PlannedMethod(_RIGHT, right, run=learned, key=_KEY))
        if setting != "realizable":
            said = "any labels" if self.noise is None else f"the best tree errs on at most {self.noise} of the records"
            any_ = partial(self.certificate, best_error=self.noise, said=said)
            lines.append(PlannedMethod(_ANY, any_, run=learned, key=_KEY))
        return lines

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        made: list[Simulation] = []
        if setting != "agnostic" and self.model_noise is None:
            made.append(SmallTreeSimulation(self, Fraction(0), _RIGHT))
        if setting != "realizable":
            wrong = DEFAULT_NOISE if self.noise is None else self.noise
            made.append(SmallTreeSimulation(self, wrong if self.model_noise is None else self.model_noise, _ANY))
        return made

    def certificate(self, m: int, *, best_error: Fraction | None, said: str) -> Certificate:
        """Users with up to ``m`` records each.

        Votes of so many records that they do not divide the levels are rounded, which costs users; so no more are read.
        Those that are kept by hash are a random part of a person's records: the mean share of mistakes among them is
        that among all, and people stay independent.
        """
        shape, read = self.concept.shape, exact_records(self.concept.levels, m)
        theta = self.epsilon if self.neighbours is Neighbours.ADD_REMOVE else self.epsilon / 2
        n = certified_users(
            shape.power, shape.least, theta=theta, alpha=self.alpha, beta=self.beta, best_error=best_error
        )
        name = _ANY if best_error != 0 else _RIGHT
        some = f", of which {read} are read, chosen by hash or otherwise at random" if read < m else ""
        found = Certificate.upper(n if n <= LIMIT else None, name, f"{said}, at most {m} records each{some}")
        return found.run_with(max_records=read) if read < m else found

    def quick(self, plan: Plan) -> bool:
        return len(self.concept.tests) ** 2 * len(plan.records_per_user) <= _MOST_PAIRS

    def recommend(self, plan: Plan) -> Choice:
        return Choice(_KEY, "the one method that learns these rules")

    @property
    def shown(self) -> dict[str, str]:
        columns, tests = len(self.concept.binned), len(self.concept.tests)
        return {"class": f"small trees of depth {self.concept.depth}, {tests} questions about {columns} columns"}


def small_tree_target(
    concept: SmallTrees,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    noise: Rational | None = None,
    model_noise: Rational | None = None,
    **model: Any,
) -> SmallTreeTarget:
    """The numbers, read and checked; the model of the people to predict on is one of its own."""
    strange = [name for name, value in model.items() if value]
    if strange:
        raise ParameterError(f"{strange[0]} is not known for small trees; leave it out")
    concept.size  # noqa: B018  # a class without its domains is refused here
    goal = read_goal(epsilon, alpha, beta, neighbours)
    most = 1 - Fraction(1, concept.labels)
    return SmallTreeTarget(
        concept,
        **goal,
        noise=None if noise is None else rational(noise, "noise", minimum=0, below=1),
        model_noise=None if model_noise is None else rational(model_noise, "model_noise", minimum=0, below=most),
    )
