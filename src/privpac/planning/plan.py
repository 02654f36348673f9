"""Certified numbers of users for every applicable method, next to what no method can beat.

A plan is a pure function of public numbers: the class of rules, epsilon, the accuracy ``alpha`` and failure probability
``beta`` wanted, and how many records each user is known to hold.  Certified numbers hold for every law the stated assumption
allows and are pessimistic for milder ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from io import StringIO
from typing import Any

from privpac.bounds import (
    Certificate,
    certify_own_clip,
    certify_regret_agnostic,
    certify_regret_bounded_noise,
    lower_agnostic_vc,
    plan_pairwise,
    plan_realizable,
    plan_user_agnostic,
    regret_split,
)
from privpac.concepts.base import ConceptClass
from privpac.concepts.statistics import DEFAULT_LEVELS, ClipRule
from privpac.concepts.thresholds import Thresholds
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int

__all__ = ["MAX_EPSILON", "STANDARD_RECORDS", "Plan", "PlanRow", "Target", "plan_row", "plan_users", "read_records"]

STANDARD_RECORDS = (1, 4, 16, 64, 256)
"""Numbers of records per user that are planned for when none is declared."""

MAX_EPSILON = 100
"""Beyond this nothing is protected, and there is nothing to plan."""


@dataclass(frozen=True)
class PlanRow:
    """One method: how many users for each number of records per user; None where no number is certified."""

    method: str
    kind: str
    assumption: str
    n_users: tuple[int | None, ...]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "kind": self.kind,
            "assumption": self.assumption,
            "n_users": list(self.n_users),
            "note": self.note,
        }

    def words(self) -> str:
        """What the row rests on, in a line."""
        return f"{self.method}: " + "; ".join(
            [*([f"assumes {self.assumption}"] if self.assumption else []), *([self.note] if self.note else [])]
        )


@dataclass(frozen=True)
class Plan:
    """Rows of methods against numbers of records per user."""

    target: dict[str, Any]
    records_per_user: tuple[int, ...]
    rows: tuple[PlanRow, ...]

    def row(self, method: str) -> PlanRow:
        for row in self.rows:
            if row.method == method:
                return row
        raise ParameterError(f"the plan has no method {method!r}; it has {', '.join(repr(row.method) for row in self.rows)}")

    def to_dict(self) -> dict[str, Any]:
        return {"target": self.target, "records_per_user": list(self.records_per_user), "rows": [row.to_dict() for row in self.rows]}

    def table(self) -> Any:
        """A rich table for the terminal."""
        from rich.table import Table

        title = "users needed: " + ", ".join(f"{name} {value}" for name, value in self.target.items())
        table = Table(title=title, title_justify="left", caption="- : not certified at any number of users", caption_justify="left")
        table.add_column("records per user →", overflow="fold")
        for m in self.records_per_user:
            table.add_column(str(m), justify="right", no_wrap=True)
        for row in self.rows:
            table.add_row(f"{row.method} ({row.kind})", *("-" if n is None else f"{n:,}" for n in row.n_users))
        return table

    def __str__(self) -> str:
        from rich.console import Console

        out = Console(file=StringIO(), width=110, force_terminal=False)
        out.print(self.table())
        for row in self.rows:
            out.print(row.words(), markup=False, highlight=False)
        return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())  # type: ignore[attr-defined]


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
) -> Plan:
    """How many users are certified to suffice for excess error at most ``alpha`` with probability ``1 - beta``?

    ``noise`` (thresholds): each label is wrong with at most this probability at every x, which certifies far fewer users.
    ``setting`` restricts the plan to ``"realizable"`` or ``"agnostic"`` methods.  Where a method certifies nothing, or its bound is
    out of reach for these numbers, its row says so.

    >>> import privpac as pp
    >>> plan_users(pp.Thresholds(pp.Integers(0, 1440)), epsilon=1, records_per_user=16).row("realizable selection").n_users
    (24,)
    """
    if not isinstance(concept, ConceptClass):
        raise TypeError(f"concept must be a class of rules such as Thresholds(Integers(0, 100)), got {type(concept).__name__}")
    if setting not in (None, "realizable", "agnostic"):
        raise ParameterError(f"setting must be 'realizable' or 'agnostic', got {setting!r}")
    relation = one_of(Neighbours, neighbours, "neighbours")
    eps = rational(epsilon, "epsilon", above=0, maximum=MAX_EPSILON)
    a, b = rational(alpha, "alpha", above=0, below=1), rational(beta, "beta", above=0, below=1)
    flips = None if noise is None else rational(noise, "noise", minimum=0, below="1/2")
    sizes = read_records(records_per_user)
    task = Target(concept, eps, a, b, relation, flips)
    concept.size  # noqa: B018  # a class without its domains is refused here, once, and not in every row
    rows = [plan_row(method, certify, sizes, also, kind) for method, certify, also, kind in task.methods(setting)]
    target = {"epsilon": str(epsilon), "alpha": str(alpha), "beta": str(beta), "neighbours": str(relation)}
    if noise is not None:
        target["noise"] = str(noise)
    return Plan(target, sizes, tuple(rows))


def read_records(records: int | Iterable[int] | None) -> tuple[int, ...]:
    if records is None:
        return STANDARD_RECORDS
    given = list(records) if isinstance(records, Iterable) and not isinstance(records, str) else [records]
    if not given:
        raise ParameterError("records_per_user needs at least one number")
    return tuple(positive_int(m, "records_per_user") for m in given)


def plan_row(method: str, certify: Callable[[int], Certificate], sizes: Iterable[int], also: str = "", kind: str = "certified") -> PlanRow:
    """One method for all sizes; a bound that refuses a size (too many records to scan, epsilon too small) leaves it open and says why."""
    numbers: list[int | None] = []
    assumption = note = ""
    for m in sizes:
        try:
            certificate = certify(m)
        except (ParameterError, TooLargeError) as error:
            numbers.append(None)
            note = note or f"not computed for {m} records: {error}"
        else:
            numbers.append(certificate.n_users)
            assumption = certificate.assumption + also
    return PlanRow(method, kind, assumption, tuple(numbers), note)


@dataclass(frozen=True)
class Target:
    """What is wanted, as public numbers, and the certificates of every method for it."""

    concept: ConceptClass
    epsilon: Fraction
    alpha: Fraction
    beta: Fraction
    neighbours: Neighbours
    noise: Fraction | None

    def methods(self, setting: str | None) -> list[tuple[str, Callable[[int], Certificate], str, str]]:
        """Name, users certified for a number of records per user, what else is assumed, and the kind of number."""
        rows: list[tuple[str, Callable[[int], Certificate], str, str]] = []
        if setting != "agnostic":
            rows.append(("realizable selection", self.realizable, "", "certified"))
        if setting != "realizable":
            rows.append(("regret selection", self.regret, self.declared, "certified"))
            if self.noise is not None and self.on_a_line:
                rows.append(("regret selection, bounded noise", self.regret_noise, self.declared, "certified"))
            rows.append(("per-user mean", self.mean, "", "certified"))
            rows.append(("user agnostic selection", self.user_agnostic, "", "certified"))
            rows.append(("pairwise selection", self.pairwise, "", "certified"))
            rows.append(("any private agnostic learner", self.lower, "", "lower bound"))
        return rows

    @property
    def on_a_line(self) -> bool:
        return isinstance(self.concept, Thresholds) and self.concept.direction != "both"

    @property
    def _common(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "beta": self.beta}

    @property
    def declared(self) -> str:
        """The learner's clip follows a number of users: public under replace, to be declared under add-remove."""
        return ", their number declared (public_n_users)" if self.neighbours is Neighbours.ADD_REMOVE else ""

    def _own_clip(self, m: int, certify: Any) -> Certificate:
        """The learner's own clip grows with the number of users: the n at which its own rule is certified."""
        theta = regret_split(self.epsilon, self.neighbours, 1).theta
        return certify_own_clip(lambda n: ClipRule(theta, n, self.concept.bits)(m), lambda tau: certify(m, tau, theta))

    def realizable(self, m: int) -> Certificate:
        return plan_realizable(
            log_size=self.concept.log_size, epsilon=self.epsilon, records_per_user=m, neighbours=self.neighbours, **self._common
        )

    def _agnostic(self, m: int, tau: int, theta: Fraction) -> Certificate:
        """The better of the certificates at the learner's rate and at rate 1: the proof holds for every rate up to its own."""
        found = [
            certify_regret_agnostic(
                records_per_user=m,
                tau=tau,
                theta=rate,
                log_size=self.concept.log_size,
                levels=DEFAULT_LEVELS,
                log_class_size=None if self.on_a_line else self.concept.log_size,
                **self._common,
            )
            for rate in ((theta, Fraction(1)) if theta > 1 else (theta,))
        ]
        return min(found, key=lambda c: (c.n_users is None, c.n_users or 0))

    def regret(self, m: int) -> Certificate:
        return self._own_clip(m, self._agnostic)

    def regret_noise(self, m: int) -> Certificate:
        def certify(records: int, tau: int, theta: Fraction) -> Certificate:
            return certify_regret_bounded_noise(
                records_per_user=records,
                tau=tau,
                theta=theta,
                log_size=self.concept.log_size,
                noise=self.noise or 0,
                levels=DEFAULT_LEVELS,
                **self._common,
            )

        return self._own_clip(m, certify)

    def mean(self, m: int) -> Certificate:
        return self._agnostic(m, m, regret_split(self.epsilon, self.neighbours, 1).theta)

    def user_agnostic(self, m: int) -> Certificate:
        return plan_user_agnostic(
            log_size=self.concept.log_size,
            dimension=self.concept.vc_dimension,
            records_per_user=m,
            epsilon=self.epsilon,
            neighbours=self.neighbours,
            truncate=True,
            **self._common,
        )

    def pairwise(self, m: int) -> Certificate:
        return plan_pairwise(
            log_size=self.concept.log_size,
            epsilon=self.epsilon,
            alpha1=self.alpha,
            beta=self.beta,
            records_per_user=m,
            neighbours=self.neighbours,
        )

    def lower(self, m: int) -> Certificate:
        return lower_agnostic_vc(
            self.concept.vc_dimension,
            alpha=self.alpha,
            epsilon=self.epsilon,
            records_per_user=m,
            success=1 - self.beta,
            neighbours=self.neighbours,
        )
