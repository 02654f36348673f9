"""Certified numbers of users for every applicable method, next to what no method can beat and to what a stated model
lets expect.

A plan is a pure function of public numbers: what is to be learned, epsilon, the accuracy ``alpha`` and failure
probability ``beta`` wanted, and how many records each user is known to hold.  Certified numbers hold for every law the
stated assumption allows and are pessimistic for milder ones.  Predictions hold for the model they name, and are made
when they are first looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from privpac.bounds.certificate import Certificate
from privpac.concepts.base import ConceptClass
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.planning.tables import Shown, found_row, share
from privpac.planning.targets.rule_targets import MAX_EPSILON, Target

if TYPE_CHECKING:
    from privpac.planning.comparison.population import Population

__all__ = [
    "MAX_EPSILON",
    "STANDARD_RECORDS",
    "Asked",
    "Plan",
    "PlanRow",
    "Target",
    "plan_row",
    "plan_target",
    "plan_users",
    "read_records",
    "read_setting",
    "rule_target",
]

STANDARD_RECORDS = (1, 4, 16, 64, 256)
"""Numbers of records per user that are planned for when none is declared."""


@dataclass(frozen=True)
class PlanRow:
    """One method: how many users for each number of records per user; None where there is no such number.

    ``kind``: "certified" (enough), "lower bound" (fewer are not) or "predicted" (on the model that ``assumption``
    names).
    """

    method: str
    kind: str
    assumption: str
    n_users: tuple[int | None, ...]
    note: str = ""
    states: str = ""
    """Of a prediction: what is so at these numbers (a mean, not a probability)."""
    standard_error: float | None = None
    """Of a prediction, as a share; 0 where every comparison was clear."""
    certificates: tuple[Certificate | None, ...] = field(default=(), compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "kind": self.kind,
            "assumption": self.assumption,
            "n_users": list(self.n_users),
            "note": self.note,
            **({} if self.standard_error is None else {"states": self.states, "standard_error": self.standard_error}),
        }

    def words(self) -> str:
        """What the row rests on, in a line."""
        return f"{self.method}: " + "; ".join(
            [*([f"assumes {self.assumption}"] if self.assumption else []), *([self.note] if self.note else [])]
        )

    def cells(self) -> list[str]:
        """The numbers as they are printed."""
        return ["-" if n is None else f"{n:,}" for n in self.n_users]


@dataclass(frozen=True)
class Asked:
    """The question behind a plan, so that a recommendation, costs and predictions can be made when they are looked
    at."""

    target: Any
    setting: str | None = None
    n_users: int | None = None
    source: tuple[str, ...] = ()
    """How the class was written on the command line, where its name and domains do not say."""

    def certify(self, method: str, m: int, **changed: Any) -> int | None:
        """Users certified for one row, perhaps at another ``alpha`` or ``epsilon``; None where nothing is."""
        from dataclasses import replace

        target = replace(self.target, **changed) if changed else self.target
        for name, certify, _, _ in target.methods(self.setting):
            if name == method:
                try:
                    found: Certificate = certify(m)
                except (ParameterError, TooLargeError):
                    return None
                return found.n_users
        return None


@dataclass(frozen=True)
class Plan(Shown):
    """Rows of methods against numbers of records per user."""

    target: dict[str, Any]
    records_per_user: tuple[int, ...]
    rows: tuple[PlanRow, ...]
    asked: Asked | None = field(default=None, compare=False, repr=False)
    caption: ClassVar[str] = "- : no number of users"

    @property
    def title(self) -> str:
        return "users needed"

    def row(self, method: str) -> PlanRow:
        return found_row(self.rows, method)

    @cached_property
    def predicted(self) -> tuple[PlanRow, ...]:
        """Users at which a method's mean excess error on the stated model is at most ``alpha``: simulated, not
        certified."""
        from privpac.planning.predictions import predicted_rows

        return predicted_rows(self)

    @cached_property
    def cost_per_record(self) -> dict[str, tuple[float | None, ...]]:
        """For each certified method, users times records against one record per user.

        1: a further record of the same person is worth as much as one of somebody new; 10: it takes ten times as many
        records in all.
        """
        costs: dict[str, tuple[float | None, ...]] = {}
        for row in self.rows:
            if row.kind == "certified":
                known = dict(zip(self.records_per_user, row.n_users))
                alone = known[1] if 1 in known else self.asked.certify(row.method, 1) if self.asked else None
                costs[row.method] = tuple(share(n, m, alone) for m, n in zip(self.records_per_user, row.n_users))
        return costs


def plan_users(
    concept: ConceptClass,
    *,
    epsilon: Rational,
    alpha: Rational = "0.05",
    beta: Rational = "0.05",
    records_per_user: int | Iterable[int] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    noise: Rational | None = None,
    setting: str | None = None,
    users: str | None = None,
    population: Population | None = None,
    model_noise: Rational | None = None,
    every_method: bool = False,
) -> Plan:
    """How many users are certified to suffice for excess error at most ``alpha`` with probability ``1 - beta``?

    ``noise`` (thresholds): each label is wrong with at most this probability at every x, which certifies far fewer
    users. ``setting`` restricts the plan to ``"realizable"`` or ``"agnostic"`` methods.  ``users``, ``population`` and
    ``model_noise`` set the model of the predictions, as for :func:`privpac.plan`.  Where a method certifies nothing, or
    its bound is out of reach for these numbers, its row says so.

    >>> import privpac as pp
    >>> plan_users(pp.Thresholds(pp.Integers(0, 1440)), epsilon=1,
    ...     records_per_user=16).row("realizable selection").n_users
    (24,)
    """
    task = rule_target(concept, epsilon, alpha, beta, neighbours, noise, users, population, model_noise, every_method)
    shown = {"epsilon": str(epsilon), "alpha": str(alpha), "beta": str(beta), "neighbours": str(task.neighbours)}
    shown |= {} if noise is None else {"noise": str(noise)}
    return plan_target(task, read_records(records_per_user), shown, read_setting(setting))


def rule_target(
    concept: ConceptClass,
    epsilon: Rational,
    alpha: Rational,
    beta: Rational,
    neighbours: Neighbours | str,
    noise: Rational | None,
    users: str | None = None,
    population: Population | None = None,
    model_noise: Rational | None = None,
    every_method: bool = False,
) -> Target:
    """The numbers, read and checked."""
    from privpac.planning.comparison.declared_people import read_users
    from privpac.planning.comparison.population import Population

    if not isinstance(concept, ConceptClass):
        raise TypeError(
            f"concept must be a class of rules such as Thresholds(Integers(0, 100)), got {type(concept).__name__}"
        )
    if population is not None and not isinstance(population, Population):
        raise TypeError(
            f"population must come from public_population or sampled_population, got {type(population).__name__}"
        )
    if population is not None and (users is not None or model_noise is not None):
        raise ParameterError("a population is a model of the people: leave out users and model_noise")
    if population is not None and type(population.concept) is not type(concept):
        raise ParameterError(
            f"the population has rules of {type(population.concept).__name__}, asked for are {type(concept).__name__}"
        )
    relation = one_of(Neighbours, neighbours, "neighbours")
    eps = rational(epsilon, "epsilon", above=0, maximum=MAX_EPSILON)
    a, b = rational(alpha, "alpha", above=0, below=1), rational(beta, "beta", above=0, below=1)
    flips = None if noise is None else rational(noise, "noise", minimum=0, below="1/2")
    concept.size  # noqa: B018  # a class without its domains is refused here, once, and not in every row
    known = None if users is None else read_users(users)
    modelled = None if model_noise is None else rational(model_noise, "model_noise", minimum=0, below="1/2")
    return Target(concept, eps, a, b, relation, flips, known, population, modelled, bool(every_method))


def read_setting(setting: str | None) -> str | None:
    if setting not in (None, "realizable", "agnostic"):
        raise ParameterError(f"setting must be 'realizable' or 'agnostic', got {setting!r}")
    return setting


def read_records(records: int | Iterable[int] | None) -> tuple[int, ...]:
    if records is None:
        return STANDARD_RECORDS
    given = list(records) if isinstance(records, Iterable) and not isinstance(records, str) else [records]
    if not given:
        raise ParameterError("records_per_user needs at least one number")
    return tuple(positive_int(m, "records_per_user") for m in given)


def plan_target(target: Any, sizes: Iterable[int], shown: dict[str, str], setting: str | None = None) -> Plan:
    """The plan of any target: one row for each of its methods.

    A target is a frozen dataclass with fields ``alpha`` and ``epsilon``, ``methods(setting)``, a list of (name,
    certify(m) -> Certificate, what else is assumed, kind), and ``run(name, m, certificate, asked)``, the learner of a
    certified row.  It may have ``recommend(n_users, records_per_user) -> Choice`` (else the method with the fewest
    certified users is recommended), ``simulations(setting) -> list[MeanSimulation]``, and a ``note``.  ``shown``: the
    numbers as they were typed.
    """
    records = tuple(sizes)
    rows = [plan_row(method, certify, records, also, kind) for method, certify, also, kind in target.methods(setting)]
    return Plan(dict(shown), records, tuple(rows), Asked(target, setting))


def plan_row(
    method: str, certify: Callable[[int], Certificate], sizes: Iterable[int], also: str = "", kind: str = "certified"
) -> PlanRow:
    """One method for all sizes; a bound that refuses a size (too many records to scan, epsilon too small) leaves it
    open and says why."""
    found: list[Certificate | None] = []
    assumption = note = ""
    for m in sizes:
        try:
            certificate = certify(m)
        except (ParameterError, TooLargeError) as error:
            found.append(None)
            note = note or f"not computed for {m} records: {error}"
        else:
            found.append(certificate)
            assumption = certificate.assumption + also
    numbers = tuple(None if certificate is None else certificate.n_users for certificate in found)
    return PlanRow(method, kind, assumption, numbers, note, certificates=tuple(found))
