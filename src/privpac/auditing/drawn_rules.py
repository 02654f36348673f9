"""Certificates of rules whose output depends on all users at once: the learner itself, on drawn data sets of the hard
laws.

* *Selection with an estimate*: the learner's exact law given the data, averaged over data sets.
* *The search, the agnostic reduction*: runs, each on a data set of its own.
* *The prediction service*: runs; a law has so few values that a session answers a query at each of them, and what it
  says there is a rule.

Seeds are fixed.  Either way a refutation needs a lower confidence bound above ``beta``
(:class:`~privpac.auditing.refute.Failure`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.auditing.few_values import FewValueLaw, law_at, shape_of
from privpac.auditing.refutation import Claim, Failure, Point
from privpac.auditing.rule_laws import Trial, mean_failure
from privpac.bounds.certificate import Certificate
from privpac.concepts.base import ConceptClass
from privpac.data import UserData
from privpac.errors import PrivpacWarning
from privpac.guarantee import Neighbours
from privpac.learners.agnostic.search import ThresholdSearch
from privpac.learners.prediction.session import vote_law
from privpac.learners.prediction.voters import VotePredictor
from privpac.learners.reduction.learner import AgnosticReduction
from privpac.learners.selection.realizable import RealizableSelection
from privpac.learners.selection.surrogate import SurrogateSelection
from privpac.planning.models.fixed_draws import fixed_draws
from privpac.planning.models.simulation import ModelRng
from privpac.planning.service import plan_service
from privpac.planning.targets.target import PlannedMethod

__all__ = ["estimating_claim", "reduction_claim", "search_claim", "service_claim", "surrogate_claim", "users_of"]

SETS, RUNS = 40, 60
MOST_RULES, MOST_RECORDS = 1 << 12, 1 << 19

CORNERS: tuple[Point, ...] = ((0.0, 0.0, 0.0, 0.0, 0.0, 0.0), (0.9, 0.5, 0.0, 0.0, 0.0, 0.0))
"""Fewer laws to start from: each costs many data sets."""


def users_of(law: FewValueLaw, concept: ConceptClass, counts: NDArray[np.int64]) -> UserData:
    """Users with these counts of (value, 0) and (value, 1), as a learner reads them."""
    features = {name or "x": domain for name, domain in concept.declared().items() if domain is not None}
    k, held = law.values, counts.sum(axis=1)
    cells = np.repeat(np.tile(np.arange(2 * k), len(counts)), counts.ravel())
    columns = [np.array(law.places(domain.size))[cells % k] for domain in features.values()]
    return UserData.from_arrays(
        np.stack(columns, axis=1), cells >= k, np.repeat(np.arange(len(counts)), held), features=features
    )


def _codes(law: FewValueLaw, concept: ConceptClass) -> dict[str, NDArray[np.uint64]]:
    """The values of the law as a rule reads them."""
    sizes = {name or "x": domain.size for name, domain in concept.declared().items() if domain is not None}
    return {name: np.array(law.places(size), dtype=np.uint64) for name, size in sizes.items()}


def _error(law: FewValueLaw, says: NDArray[Any]) -> NDArray[np.float64]:
    """Of rules that say so on the values of the law."""
    ones = np.array(law.ones)
    return np.asarray(np.where(says == 1, 1 - ones, ones) @ np.array(law.mass))


@dataclass(frozen=True)
class _Drawn:
    """One row: the learner for ``n`` users, and how it is asked."""

    target: Any
    records: int
    noise: float
    learner: Callable[[int], Any]
    runs: bool
    turned: bool = False
    """Labels the other way round: where nobody votes, the default of a class is then wrong."""

    def law(self, point: Point) -> FewValueLaw:
        law = law_at(point, float(self.target.alpha), self.noise, *shape_of(self.target.concept))
        return replace(law, ones=tuple(1 - share for share in law.ones)) if self.turned else law

    def about(self, point: Point) -> str:
        return str(self.law(point))

    def failure(self, point: Point, n: int) -> Failure:
        law, learner, rng, found = self.law(point), self.learner(n), fixed_draws(n), []
        concept, allowed = self.target.concept, float(law.errors.min()) + float(self.target.alpha)
        codes = _codes(law, concept)
        good = [] if self.runs else np.flatnonzero(self._errors(law, codes) <= allowed).tolist()
        for i in range(RUNS if self.runs else SETS):
            data = users_of(law, concept, rng.multinomial(self.records, law.cells, size=n))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivpacWarning)  # nothing is released
                if self.runs:
                    rule = learner.draw(learner.bind(data), ModelRng(n, i)).hypothesis
                    found.append(float(_error(law, rule.predict_codes(codes)) > allowed))
                else:
                    drawn = learner.rule_law(data)
                    found.append(max(0.0, 1 - sum(drawn.prob_float(rule) for rule in good)))
        return Failure.counted(round(sum(found)), RUNS) if self.runs else mean_failure(np.array(found))

    def _errors(self, law: FewValueLaw, codes: dict[str, NDArray[np.uint64]]) -> NDArray[np.float64]:
        """Of all rules of the class."""
        concept = self.target.concept
        bound = concept.with_columns({name or "x": domain for name, domain in concept.declared().items()})
        return _error(law, np.array([bound.predictions(codes, rule) for rule in range(concept.size)]))

    def claim(self, name: str, n: int) -> Claim | str:
        size, most = self.target.concept.size, 4 * n * self.records
        if size > MOST_RULES and not self.runs:
            return (
                f"needs all users at once, and {size:,} rules are too many to go through on every data set: asked on "
                "smaller classes"
            )
        if most > MOST_RECORDS:
            return (
                f"needs all users at once, and {most:,} records (4 times the certified users) are too many to draw "
                f"{SETS} times"
            )
        return Claim(name, n, float(self.target.beta), CORNERS, self.failure, self.about)


def estimating_claim(target: Any, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """User agnostic selection where it estimates the least error."""
    assert found.n_users is not None
    trial = Trial(replace(target), method, found.parameters, records_per_user)
    m = min(records_per_user, trial.learner(found.n_users).max_records or records_per_user)
    return _Drawn(target, m, trial.noise, trial.learner, False).claim(method.name, found.n_users)


def search_claim(target: Any, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """The search for a cut, by runs: its law takes seconds even on few values."""
    assert found.n_users is not None
    given: dict[str, Any] = {
        "concept": target.concept,
        "epsilon": target.epsilon,
        "neighbours": target.neighbours,
        **found.parameters,
    }
    learner = ThresholdSearch(**given)
    m = min(records_per_user, learner.max_records or records_per_user)
    return _Drawn(target, m, 0.5, lambda n: learner, True).claim(method.name, found.n_users)


def reduction_claim(target: Any, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """The reduction with selection inside, at the split of the budget that the certificate names."""
    assert found.n_users is not None
    inner = RealizableSelection(target.concept, found["eps_A"], target.neighbours)

    def learner(n: int) -> AgnosticReduction:
        return AgnosticReduction.for_target(
            inner, epsilon=target.epsilon, public_n_users=n, neighbours=target.neighbours
        )

    # One record each is as hard as any number: every user counts alike.
    return _Drawn(target, 1, 0.5, learner, True).claim(method.name, found.n_users)


@dataclass(frozen=True)
class _Answering:
    """A service as the harness asks it: every value of a law is one query, answered once."""

    service: VotePredictor

    def bind(self, data: UserData) -> Any:
        return self.service.relabelling.bind(data)

    def draw(self, bound: Any, rng: Any) -> Any:
        return _Session(self.service, bound.concept, self.service.fit(bound, rng), rng)


@dataclass(frozen=True)
class _Session:
    service: VotePredictor
    concept: ConceptClass
    voters: tuple[int, ...]
    rng: Any

    @property
    def hypothesis(self) -> _Session:
        return self

    def predict_codes(self, codes: dict[str, NDArray[np.uint64]]) -> NDArray[np.int64]:
        ones = np.sum([self.concept.predictions(codes, voter) for voter in self.voters], axis=0)
        laws = [vote_law(int(count), len(self.voters), self.service.gamma) for count in ones]
        return np.array([int(law.as_finite().sample(self.rng)) for law in laws])


def service_claim(target: Any, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """The service with its certified constants; more people find the same ones, where their number is not public."""
    certified = found.n_users
    assert certified is not None
    if target.queries < 4:
        return "laws have up to four values, and there are fewer answers"

    def service(n: int) -> VotePredictor:
        told: dict[str, Any] = {"epsilon": target.epsilon, "delta": target.delta, "queries": target.queries}
        told |= {"alpha": target.alpha, "beta": target.beta, "neighbours": target.neighbours}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivpacWarning)
            return plan_service(target.concept, public_n_users=n, **told).predictor

    fixed = service(certified) if target.neighbours is Neighbours.ADD_REMOVE else None

    def learner(n: int) -> _Answering:
        return _Answering(fixed or service(n))

    # One record each is as hard as any number: every person counts alike.
    return _Drawn(target, 1, 0.5, learner, True, turned=True).claim(method.name, certified)


@dataclass(frozen=True)
class _Redrawn:
    """A selection from a public set that is drawn anew for every run: it may be a bad one."""

    build: Callable[[bytes], Any]

    def bind(self, data: UserData) -> UserData:
        return data

    def draw(self, data: UserData, rng: Any) -> Any:
        learner = self.build(b"".join(rng.word().to_bytes(8, "big") for _ in range(4)))
        return learner.draw(learner.bind(data), rng)


def surrogate_claim(target: Any, method: PlannedMethod, found: Certificate, records_per_user: int) -> Claim | str:
    """Selection from a representation."""
    assert found.n_users is not None
    common = {"epsilon": target.epsilon, "neighbours": target.neighbours, **found.parameters}

    def build(seed: bytes) -> SurrogateSelection:
        return SurrogateSelection(target.concept, public_seed=seed, **common)

    return _Drawn(target, 1, 0.5, lambda n: _Redrawn(build), True).claim(method.name, found.n_users)
