"""How a plan moves when one of its numbers does: users against records, users against epsilon, accuracy against users.

The numbers that are not varied are those asked for; the usual alpha where the question was which alpha, the epsilon
found where it was which epsilon, and the middle one of the numbers of records.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property

from attrs import frozen

from privpac.errors import ParameterError
from privpac.methods.planned import Asked, Target
from privpac.methods.simulation import MOST_SIMULATED_RECORDS, Prediction, Simulation, simulable
from privpac.parameters import MAX_EPSILON
from privpac.planning.plans import Plan, least_for, plan_target

EPSILONS = tuple(Fraction(2) ** k for k in range(-3, 4))
ALPHAS = tuple(
    Fraction(a) for a in ("0.01", "0.015", "0.02", "0.03", "0.04", "0.05", "0.07", "0.1", "0.15", "0.2", "0.3")
)


@frozen(slots=False)
class Curves:
    """The plans around one plan."""

    planned: Plan

    def __attrs_post_init__(self) -> None:
        if self.planned.asked is None:
            raise ParameterError("curves are drawn around a plan of privpac.plan, not around one put together by hand")

    # What was asked

    @property
    def _asked(self) -> Asked:
        assert self.planned.asked is not None
        return self.planned.asked

    @property
    def place(self) -> int:
        """The number of records that stands for those asked for."""
        return self.planned.place

    @property
    def records(self) -> int:
        return self.planned.records_per_user[self.place]

    @property
    def n_users(self) -> int | None:
        return self._asked.n_users

    @cached_property
    def target(self) -> Target:
        """The target with a number for what was asked for."""
        target, quantity = self._asked.target, self.planned.quantity
        if quantity == "alpha":
            target = target.changed(alpha=target.usual_alpha)
        elif quantity == "epsilon":
            target = target.changed(epsilon=self.planned.epsilon_at(self.place))
        return target.drawn

    @property
    def measure(self) -> str:
        """What ``alpha`` bounds."""
        return self.target.measure

    # Plans

    def plan(self, records: Iterable[int] | None = None, **changed: Fraction) -> Plan:
        """The plan of these numbers, with some of them changed."""
        return plan_target(self.target.changed(**changed), records or (self.records,), {}, self._asked.setting)

    @cached_property
    def here(self) -> Plan:
        return self.plan()

    @cached_property
    def by_records(self) -> Plan:
        sizes = tuple(sorted({1, *self.planned.records_per_user, *self.target.drawn_records}))
        same = sizes == self.planned.records_per_user and self.target is self._asked.target
        return self.planned if same else self.plan(sizes)

    @cached_property
    def by_epsilon(self) -> list[tuple[Fraction, Plan]]:
        tried = [self.target.epsilon * factor for factor in (EPSILONS[1:6:2] if self.target.slow else EPSILONS)]
        return [(epsilon, self.plan(epsilon=epsilon)) for epsilon in tried if epsilon <= MAX_EPSILON]

    @cached_property
    def by_alpha(self) -> list[tuple[Fraction, Plan]]:
        return [
            (a, self.plan(alpha=a))
            for a in sorted({*(ALPHAS[2:10:3] if self.target.slow else ALPHAS), self.target.alpha})
        ]

    # The recommended method

    @cached_property
    def method(self) -> str:
        choice = self.planned.recommendation
        return "" if choice is None else choice.method

    @property
    def enough(self) -> int | None:
        """Users certified for the recommended method."""
        enough: int | None = self.here.best(self.method)
        return enough

    @property
    def promised(self) -> Fraction | None:
        """The value found for the recommended method, where a value was asked for."""
        value: Fraction | None = (
            None if self.planned.quantity == "users" else self.planned.best(self.method, self.place)
        )
        return value

    def certified_alpha(self, n: int, m: int) -> Fraction | None:
        """The least alpha that is certified for exactly so many users of the recommended method: what an inverse plan
        says of them."""
        if n == self.n_users and m == self.records and self.planned.quantity == "alpha":
            return self.promised
        rows = {row.method for row in self.planned.rows_of(self.method)}
        return least_for(self.target, rows, quantity="alpha", n_users=n, records=m, setting=self._asked.setting)

    def number(self, kind: str) -> str | None:
        """The "lower bound" of the plan's setting, or what is "predicted" of the recommended method, as printed; None
        if there is none."""
        row = self.planned.answering(predict=kind == "predicted").get(kind)
        cell = "-" if row is None else row.cells()[self.place]
        return None if cell == "-" else cell

    # Predictions

    @cached_property
    def simulation(self) -> Simulation | None:
        """The recommended method on its model; None where it cannot be simulated."""
        wanted = {row.method for row in self.planned.rows_of(self.method)}
        made = self.target.simulations(self._asked.setting)  # at the epsilon found, where that was asked for
        return next((found for found in made if found.method in wanted), None)

    def predicted_errors(self, factors: Iterable[Fraction]) -> list[tuple[int, int, Prediction]]:
        """Users, records and the predicted error, around the number of users asked for or else certified."""
        users = self.n_users or self.enough
        if self.simulation is None or users is None:
            return []
        sizes = sorted({simulable(max(1, round(users * factor)), self.records) for factor in factors})
        tried = (
            (n, m, self.simulation.at(m, n, self.target.epsilon))
            for n, m in sizes
            if n * m <= 4 * MOST_SIMULATED_RECORDS
        )
        return [(n, m, found) for n, m, found in tried if found is not None]
