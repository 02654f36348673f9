"""Learning by agreement as something to plan for, in three trust models: users for the plurality, records for the
agreement.

====================  ==========================================  ======================================
===================== model                 who runs it                                 selection
relation ====================  ==========================================  ======================================
===================== ``central``           ``AgreementLearner``, ``CentralProtocol``   stable histogram, or pure (delta
= 0)   add-remove, replace ``local``             ``LocalProtocol``                           Hadamard reports, in chunks
or not      replace ``shuffle``           ``ShuffleProtocol``                         shuffled counts, in chunks or not
replace ====================  ==========================================  ======================================
=====================

Two rows for each model.  *Certified*: records per user are a requirement, mostly a very large one ((30/beta)**2, the
price of one public seed); below it nothing is certified.  *If 9 in 10 users agree*: the same number of users on the
assumption that agreement has been measured, on public or made-up people with fewer records.  Noise parameters are those
that the protocols themselves publish.

*Lower bound*: ``N`` rules of the class, each with a law of records for which no rule can be accurate on two of them,
force ``N p0(n) <= 1`` (:func:`privpac.bounds.lower_agreement_packing`) for any learner that names rules of the class,
in every model and for any number of records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from privpac.agreement.intervals import IntervalScores
from privpac.agreement.logarithms import ln_up
from privpac.agreement.queries.rounding import query_records
from privpac.agreement.races.flat import MAX_DENOMINATOR
from privpac.agreement.races.words import rate
from privpac.agreement.representation import RaceLearner, plan_race
from privpac.agreement.tasks import Task
from privpac.bounds.agreement.chunks import users_local_chunks
from privpac.bounds.agreement.plurality import (
    CLEAR,
    lower_agreement_packing,
    lower_agreement_representation,
    users_histogram,
    users_local,
)
from privpac.bounds.certificate import Certificate
from privpac.bounds.lower.general import gilbert_varshamov
from privpac.concepts.base import ConceptClass
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Model, Neighbours, one_of
from privpac.learners.agreement.classes import kind_of, own_parameters
from privpac.mechanisms.randomized_response import keep_probability
from privpac.mechanisms.votes import StableHistogram, vote_decay
from privpac.parameters import DEFAULT_BETA
from privpac.planning.choice import Choice
from privpac.planning.models.agreement_models import agreement_simulations
from privpac.planning.models.protocol_models import protocol_simulations
from privpac.planning.models.simulation import Simulation
from privpac.planning.targets.agreement_runs import agreement_run
from privpac.planning.targets.agreement_users import central_users, shuffled_users, width_of_reports
from privpac.planning.targets.certified_runs import CertifiedRun
from privpac.planning.targets.target import Asked, PlannedMethod, Target, read_goal

if TYPE_CHECKING:
    from privpac.planning.plans import Plan

__all__ = ["AgreementTarget", "agreement_target"]

_RACES = ("threshold", "threshold-below", "stump", "point", "interval", "parity")
_QUERIES = ("conjunction", "disjunction")
_MAX_CODE = 1 << 12


class Stability(NamedTuple):
    """A task with certified parameters, the records per user at which nine in ten agree, and whether labels may be
    noisy."""

    task: Task
    records: int
    agnostic: bool


@dataclass(frozen=True)
class AgreementTarget(Target):
    """What is wanted of a rule named by agreement: excess error at most ``alpha`` with probability ``1 - beta``.

    ``dimension``: the class's probabilistic representation dimension in bits, if known; it enters the lower bound.
    """

    task: Task
    model: Model
    epsilon: Fraction
    delta: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    dimension: Fraction | None = None
    concept: ConceptClass | None = field(default=None, compare=False)
    """The class with its columns, where one was given."""

    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        lines = []
        name = f"{self.model} agreement"
        promised = _races(self.task) or (self.task.kind in _QUERIES and setting != "agnostic")
        if promised:
            labels = "" if _races(self.task) else ", labels right"
            law = f", which is certified for independent records from one law{labels}"
            lines.append(PlannedMethod(name, self.certified, law, run=partial(self._run, True), key="agreement proved"))
        enough = ", and it is as accurate as wanted"
        agreed = f"{name}, if 9 in 10 users agree"
        lines.append(PlannedMethod(agreed, self.users, enough, run=partial(self._run, False), key="agreement measured"))
        if self.dimension is not None or self.tasks > 1:
            lines.append(PlannedMethod("any private learner naming such rules", self.lower, kind="lower bound"))
        return lines

    def _run(self, proved: bool, m: int, certificate: Certificate, asked: Asked) -> CertifiedRun:
        """The learner, or the protocol: the stable one where agreement itself is proved, else the task as given."""
        return agreement_run(self, self.stability.task if proved else self.task, m, certificate, asked.n_users)

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        return [*(agreement_simulations if self.model is Model.CENTRAL else protocol_simulations)(self)]

    def quick(self, plan: Plan) -> bool:
        few = len(plan.records_per_user) == 1 or self.model is not Model.CENTRAL
        return few and plan.quantity != "epsilon"

    @property
    def shown(self) -> dict[str, str]:
        """The class and the model in words, for a title."""
        columns = len(self.task.sizes)
        return {"rule": f"{self.task.kind} on {columns} column{'s' if columns > 1 else ''}", "model": str(self.model)}

    @property
    def note(self) -> str:
        words = []
        if not _races(self.task) and self.task.kind not in _QUERIES:
            words.append(f"no accuracy is proved for {self.task.kind} by agreement: measure it on public people")
        if self.model is Model.LOCAL and self.delta > 0:
            words.append("local reports are pure: delta is not used")
        words.append(
            f"where no two people agree a rule is released with probability at most {CLEAR}, else the public default"
        )
        return "; ".join(words)

    def recommend(self, plan: Plan) -> Choice:
        return self.advice(plan.asked.n_users if plan.asked else None, plan.records_per_user[plan.place])

    def advice(self, n_users: int | None, records_per_user: int) -> Choice:
        """Agreement in this model, and what must be measured before: the certified records are out of reach for most
        people."""
        try:
            needed = self.users(records_per_user).n_users
        except (ParameterError, TooLargeError) as error:
            return Choice("agreement", f"but no number of users is known to do: {error}")
        short = (
            "" if n_users is None or needed is None or n_users >= needed else f", more than the {n_users:,} there are"
        )
        words = [f"{'no number of' if needed is None else f'{needed:,}'} users name the rule if 9 in 10 agree{short}"]
        words.append(
            f"measure first, on public or made-up people with {records_per_user:,} records each, how many agree"
        )
        if self.model is Model.CENTRAL:
            words.append("a curator who may see the records needs no agreement: plan the class without a model")
        return Choice("agreement", "; ".join(words))

    # Records

    @property
    def stability(self) -> Stability:
        """The certified parameters; ``InfeasibleError`` where the task's own ones certify nothing, or no accuracy is
        proved."""
        return _stability(self.task, self.alpha, self.beta)

    def certified(self, m: int) -> Certificate:
        """Users, if ``m`` records are enough for certified agreement."""
        records = self.stability.records
        if records > MAX_DENOMINATOR:
            raise InfeasibleError(
                f"agreement is certified from {records:,} records per user on, more than the {MAX_DENOMINATOR:,} ever "
                "read"
            )
        if m < records:
            raise InfeasibleError(f"needs {records:,} records per user for agreement")
        return self.users(m)

    # Users

    def users(self, m: int) -> Certificate:
        """Users for the plurality, if nine in ten name the same item."""
        find = {Model.CENTRAL: self._central, Model.LOCAL: self._local, Model.SHUFFLE: self._shuffle}[self.model]
        return find()

    def _central(self) -> Certificate:
        if self.delta == 0:
            return central_users(
                1 / vote_decay(self.epsilon, self.neighbours), self.task.learner.universe.size, self.beta
            )
        return users_histogram(
            StableHistogram(self.epsilon, delta=self.delta, neighbours=self.neighbours).K, beta=self.beta, named=2
        )

    def _local(self) -> Certificate:
        bits, keep, told = (
            self.task.learner.universe.bits,
            keep_probability(self.epsilon),
            {"beta": self.beta, "clear": CLEAR},
        )
        width = width_of_reports(bits)
        # The transform runs over all values of so many bits, rules or not.
        return users_local(keep, 1 << bits, **told) if width >= bits else users_local_chunks(keep, bits, width, **told)

    def _shuffle(self) -> Certificate:
        return self.shuffled(1)

    def shuffled(self, clients: int) -> Certificate:
        """Users of a run that lets so many clients take part.

        For an epsilon so large that clients could not make the noise, a run with half of it, or a quarter, promises
        more and will do.
        """
        universe, beta = self.task.learner.universe, self.beta
        refused = InfeasibleError("no shuffled run is possible")
        for part in (1, 2, 4, 8):
            try:
                return shuffled_users(self.epsilon / part, self.delta, beta, universe.size, universe.bits, clients)
            except InfeasibleError as error:
                refused = error if part == 1 else refused
        raise refused

    # What nobody can beat

    @property
    def tasks(self) -> int:
        """How many rules of the class have laws on which no rule is accurate for two of them."""
        return min(_packing(self.task.kind, self.task.sizes, self.alpha), self.task.learner.universe.size, 1 << 999)

    def lower(self, m: int) -> Certificate:
        """The larger of the packing and, if the dimension is known, the representation bound."""
        told: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "beta": self.beta}
        found = [lower_agreement_packing(self.tasks, **told)]
        if self.dimension is not None:
            # Stated for failure 1/4 of the representation, and the class's dimension at the accuracy wanted.
            found.append(lower_agreement_representation(self.dimension, **told))
        return max(found, key=lambda c: math.inf if c.n_users is None else c.n_users)


def agreement_target(
    what: Task | ConceptClass,
    *,
    model: Model | str = Model.CENTRAL,
    epsilon: Rational,
    delta: Rational = 0,
    alpha: Rational = "0.05",
    beta: Rational = DEFAULT_BETA,
    neighbours: Neighbours | str | None = None,
    dimension: Rational | None = None,
) -> AgreementTarget:
    """What to plan for: rules of a class with its domains (or a ``Task``), named by agreement in a trust model.

    ``neighbours`` is add-remove in the central model unless given, and replace in the others.

    >>> target = agreement_target(Task("threshold", (1023,)), epsilon=1, delta="1e-6", beta="0.1")
    >>> {method.name: method.certify(1000).n_users for method in target.methods()[1:]}
    {'central agreement, if 9 in 10 users agree': 47, 'any private learner naming such rules': 7}
    """
    trust = one_of(Model, model, "model")
    relation = (
        (Neighbours.ADD_REMOVE if trust is Model.CENTRAL else Neighbours.REPLACE) if neighbours is None else neighbours
    )
    relation = one_of(Neighbours, relation, "neighbours")
    if trust is not Model.CENTRAL and relation is not Neighbours.REPLACE:
        raise ParameterError(
            f"the {trust} model protects the report of a person who takes part: neighbours must be 'replace'"
        )
    goal = read_goal(epsilon, alpha, beta, relation, delta)
    if trust is Model.SHUFFLE and goal["delta"] == 0:
        raise ParameterError("the shuffle model needs delta > 0; give a delta such as 1e-6")
    return AgreementTarget(
        _task_of(what),
        trust,
        **goal,
        dimension=None if dimension is None else rational(dimension, "dimension", minimum=0),
        concept=what if isinstance(what, ConceptClass) else None,
    )


def _task_of(what: Any) -> Task:
    if isinstance(what, Task):
        return what
    if not isinstance(what, ConceptClass):
        raise TypeError(
            f"give a class of rules such as Thresholds(Integers(0, 100)) or a Task, got {type(what).__name__}"
        )
    kind, domains = kind_of(what), list(what.declared().values())
    if not domains or any(domain is None for domain in domains):
        raise ParameterError(
            f"{type(what).__name__} needs the domain of every column to be planned, such as Thresholds(Integers(0, "
            "100))"
        )
    return Task(
        kind, tuple(domain.size for domain in domains if domain is not None), tuple(own_parameters(what).items())
    )


# Records for agreement


def _races(task: Task) -> bool:
    """Whether all rules of the class itself run in a race: other learners, and coarser cells, are not certified."""
    if task.kind not in _RACES or not isinstance(task.learner, RaceLearner):
        return False
    scores = task.learner.scores
    return not isinstance(scores, IntervalScores) or scores.cells == scores.size


def _stability(task: Task, alpha: Fraction, beta: Fraction) -> Stability:
    if _races(task):
        return _race(task, alpha, beta)
    if task.kind not in _QUERIES:
        raise InfeasibleError(f"no accuracy is proved for {task.kind} by agreement")
    given, literals = dict(task.parameters), 2 * len(task.sizes)
    kept = int(given.get("keep_at_most", 0)) + 1
    # A literal kept by mistake is 0 on less than kept/I of the records, and there are so many literals.
    grid = int(given.get("grid", math.ceil(literals * kept / alpha)))
    if literals * kept > grid * alpha:
        raise InfeasibleError(
            f"a grid of {grid} promises error {literals * kept}/{grid} only; take {math.ceil(literals * kept / alpha)}"
        )
    made = Task(task.kind, task.sizes, tuple({**given, "grid": grid}.items()))
    return Stability(made, query_records(literals, grid, beta), False)


def _race(task: Task, alpha: Fraction, beta: Fraction) -> Stability:
    given, size = dict(task.parameters), task.learner.universe.size
    least = plan_race(size, alpha, beta)
    if "Gamma" not in given:
        return Stability(
            Task(task.kind, task.sizes, tuple({**given, "Gamma": least.Gamma}.items())), least.records, True
        )
    assert isinstance(task.learner, RaceLearner)
    own = task.learner.Gamma
    if own < least.Gamma:
        raise InfeasibleError(f"Gamma = {own} is too slow a race for this alpha; take at least {least.Gamma}")
    # The records of ``plan_race`` at the task's own rate, rounded up.
    gamma = Fraction(own + 1, rate(1))
    records = gamma**2 * ln_up(Fraction(2 * size)) / 2 * (30 / beta) ** 2
    return Stability(task, math.ceil(records), True)


# Targets that exclude each other


def _packing(kind: str, sizes: tuple[int, ...], alpha: Fraction) -> int:
    """Rules with laws on which no rule of the class (for the last three kinds: no rule at all) errs on at most
    ``alpha`` of two.

    Cuts and points: all mass on the one or two values that only one rule explains.  Stumps: the same, other columns
    fixed, so that rules of other columns are constant there.  Conjunctions that fix every column: half on the point
    that fulfils it, the rest on its neighbours; a good one accepts the point and has all but a share ``2 alpha`` of the
    literals, so two at a distance of more than ``2 alpha d`` have none in common.  Parities and single literals (with
    the constants): uniform records, pairwise difference 1/2.
    """
    d, half = len(sizes), alpha < Fraction(1, 2)
    if kind == "hashed-point":
        return 2  # one bucket may be right for many values
    if kind == "point":
        return sizes[0]
    if kind == "interval":
        return 2 if half else 1  # one value, all labels 1 or all 0
    if kind in ("threshold", "threshold-below"):
        return sizes[0] + 1 if half else 1
    if kind == "stump":
        return 2 * sum(size - 1 for size in sizes) + 2 if half else 1
    if kind in ("conjunction", "disjunction"):
        return gilbert_varshamov(d, math.floor(2 * alpha * d) + 1) if half and d <= _MAX_CODE else 1
    if kind == "naive-bayes" or alpha >= Fraction(1, 4):
        return 1
    return 1 << d if kind == "parity" else 2 * d + 2
