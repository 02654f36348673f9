"""What may be planned for, as one idea: a target says what is wanted, which methods are known for it, what can be
simulated of them, and which one to use.

A concrete target is a frozen dataclass of public numbers.  One :class:`PlannedMethod` for each line of its plan; the
plan itself (:mod:`privpac.planning.plans`) knows of no particular target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Self

from privpac.bounds.certificate import Certificate
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of
from privpac.parameters import read_epsilon
from privpac.planning.choice import Choice

if TYPE_CHECKING:
    from privpac.planning.models.simulation import Simulation
    from privpac.planning.plans import Plan
    from privpac.planning.rows import PlanRow
    from privpac.planning.targets.certified_runs import CertifiedRun

__all__ = ["STANDARD_RECORDS", "Asked", "PlannedMethod", "Target", "read_goal"]

STANDARD_RECORDS = (1, 4, 16, 64, 256)
"""Numbers of records per user that are planned for when none is declared."""


@dataclass(frozen=True)
class PlannedMethod:
    """One line of a plan.

    ``certify(m)`` is the bound on the number of users with ``m`` records each, ``kind`` what sort of number that is
    ("certified" or "lower bound"), and ``assumes`` what must hold beside what the certificate says.  ``run(m,
    certificate, asked)`` is the learner that a certified line speaks of.
    """

    name: str
    certify: Callable[[int], Certificate]
    assumes: str = ""
    kind: str = "certified"
    run: Callable[[int, Certificate, Asked], CertifiedRun] | None = None
    key: str = ""
    """The method itself, by which recommendations and claims know it: its lines on several assumptions share it."""
    bounded_noise: bool = False
    """Whether it is for labels that are wrong with at most the declared probability."""


@dataclass(frozen=True)
class Asked:
    """The question behind a plan, so that a recommendation, costs and predictions can be made when they are looked
    at."""

    target: Target
    setting: str | None = None
    n_users: int | None = None
    source: tuple[str, ...] = ()
    """How the class was written on the command line, where its name and domains do not say."""


class Target(ABC):
    """What is wanted at ``epsilon``: a loss of at most ``alpha`` with probability ``1 - beta``."""

    if TYPE_CHECKING:  # fields or properties of the concrete ones

        @property
        def epsilon(self) -> Fraction: ...
        @property
        def alpha(self) -> Fraction: ...
        @property
        def beta(self) -> Fraction: ...
        @property
        def delta(self) -> Fraction: ...
        @property
        def neighbours(self) -> Neighbours: ...

    measure: ClassVar[str] = "excess error"
    """What ``alpha`` bounds."""
    usual_alpha: ClassVar[Fraction] = Fraction(1, 20)
    slow: ClassVar[bool] = False
    """Whether a certificate takes a second: curves then have fewer points."""
    drawn_records: ClassVar[tuple[int, ...]] = STANDARD_RECORDS
    """Numbers of records per user at which curves are drawn."""

    @property
    def _goal(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "alpha": self.alpha, "beta": self.beta, "neighbours": self.neighbours}

    # What is known

    @abstractmethod
    def methods(self, setting: str | None = None) -> list[PlannedMethod]:
        """The lines of the plan, perhaps for one setting only."""

    def method(self, name: str, setting: str | None = None) -> PlannedMethod:
        """The line with a name."""
        return next(method for method in self.methods(setting) if method.name == name)

    def certified_users(self, name: str, records_per_user: int, setting: str | None = None) -> int | None:
        """Users of the line with a name; None where there is no such line, or no number."""
        try:
            known = [method for method in self.methods(setting) if method.name == name]
            return known[0].certify(records_per_user).n_users if known else None
        except (ParameterError, TooLargeError):
            return None

    def simulations(self, setting: str | None = None) -> list[Simulation]:
        """What is predicted on a stated model."""
        return []

    def exactly(self, n_users: int) -> Self:
        """The same target where only whether exactly so many users are enough is asked: for learners that follow the
        number of users, and for dear certificates."""
        return self

    # What is said

    @property
    def shown(self) -> dict[str, str]:
        """What is planned for in words, for a title."""
        return {}

    def stated(self, typed: Mapping[str, str]) -> dict[str, str]:
        """The question in words; ``typed`` are its numbers as they were given."""
        numbers = {name: typed[name] for name in ("users", "epsilon", "alpha") if name in typed}
        if self.delta > 0:
            numbers["delta"] = f"{float(self.delta):g}"
        rest = {"beta": typed["beta"], "neighbours": str(self.neighbours)}
        return {**self.shown, **numbers, **rest, **({"noise": typed["noise"]} if "noise" in typed else {})}

    @property
    def note(self) -> str:
        """What is left out of the plan, and why."""
        return ""

    def remark(self, plan: Plan) -> str:
        """The note, or which method to name."""
        return self.note

    def annotated(self, rows: Sequence[PlanRow], sizes: Sequence[int]) -> tuple[PlanRow, ...]:
        """The rows of a plan with remarks that take several of them."""
        return tuple(rows)

    def recommend(self, plan: Plan) -> Choice:
        """The method for the middle one of the numbers of records per user: the one with the best certified number."""
        m = plan.records_per_user[plan.place]
        held = f"with {m:,} record{'s' * (m != 1)} per user"
        numbers = {row.method: row.values[plan.place] for row in plan.rows if row.kind == "certified"}
        known = sorted(
            ((float(value), method) for method, value in numbers.items() if value is not None), key=lambda pair: pair[0]
        )
        if not known:
            return Choice(next(iter(numbers), "none"), f"nothing is certified {held}")
        compared = ", ".join(f"{method} {plan.written(value)}" for value, method in known)
        return Choice(known[0][1], f"the least certified {plan.quantity} {held}: {compared}", "least")

    # How it is looked at

    def quick(self, plan: Plan) -> bool:
        """Whether the predictions of a plan take a moment only, judged from the sizes asked for."""
        assert plan.asked is not None
        return all(made.quick for made in self.simulations(plan.asked.setting))

    @property
    def drawn(self) -> Self:
        """The target whose curves are drawn."""
        return self

    def changed(self, **numbers: Any) -> Self:
        """The same target at another ``alpha`` or ``epsilon``."""
        return replace(self, **numbers) if numbers else self  # type: ignore[type-var]


def read_goal(
    epsilon: Rational, alpha: Rational, beta: Rational, neighbours: Neighbours | str, *delta: Rational | None
) -> dict[str, Any]:
    """The numbers that all targets share, read and checked; with a ``delta`` for those that have one, None being 0."""
    given = [rational(0 if one is None else one, "delta", minimum=0, below=1) for one in delta]
    return {
        "epsilon": read_epsilon(epsilon),
        "alpha": rational(alpha, "alpha", above=0, below=1),
        "beta": rational(beta, "beta", above=0, below=1),
        "neighbours": one_of(Neighbours, neighbours, "neighbours"),
        **dict(zip(("delta",), given)),
    }
