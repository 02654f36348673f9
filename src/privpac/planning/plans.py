"""Certified numbers for every applicable method, next to what no method can beat and to what a stated model lets
expect.

A plan is a pure function of public numbers: what is to be learned, epsilon, the accuracy ``alpha`` and failure
probability ``beta`` wanted, and how many records each user is known to hold.  It answers one of three questions: how
many users are needed, or which ``alpha``, or which epsilon, so many users can be promised.  Certified numbers hold for
every law the stated assumption allows and are pessimistic for milder ones.  Predictions hold for the model they name,
and are made when they are first looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import polars as pl

from privpac.bounds.certificate import Certificate
from privpac.errors import ParameterError, PrivpacError, TooLargeError
from privpac.guarantee import positive_int
from privpac.planning.choice import Choice
from privpac.planning.inversion import least_values
from privpac.planning.predictions import predicted_rows
from privpac.planning.rows import PlanRow, written
from privpac.planning.tables import NAMES, as_text, meanings, plan_grid, plan_words
from privpac.planning.targets.certified_runs import CertifiedRun
from privpac.planning.targets.target import Asked, PlannedMethod, Target
from privpac.released_shown import Shown

__all__ = ["InversePlan", "InverseRow", "Plan", "PlanRow", "invert", "plan_target"]


@dataclass(frozen=True)
class Plan(Shown):
    """Rows of methods against numbers of records per user; ``quantity`` is what the numbers are: "users" needed, or the
    least "alpha" or "epsilon" for so many users."""

    target: dict[str, Any]
    records_per_user: tuple[int, ...]
    rows: tuple[PlanRow, ...]
    asked: Asked | None = field(default=None, compare=False, repr=False)
    quantity: str = "users"

    # What the numbers are

    @property
    def title(self) -> str:
        return "users needed" if self.quantity == "users" else f"least {self.quantity}"

    @property
    def caption(self) -> str:
        return "- : no number of users" if self.quantity == "users" else "- : nothing is certified"

    def written(self, value: Any) -> str:
        """A number as it is printed."""
        return written(value, self.quantity)

    @property
    def place(self) -> int:
        """Where the number of records stands that stands for all."""
        return len(self.records_per_user) // 2

    def row(self, method: str) -> PlanRow:
        """The row of a method."""
        for row in self.rows:
            if row.method == method:
                return row
        raise ParameterError(
            f"the plan has no method {method!r}; it has {', '.join(repr(row.method) for row in self.rows)}"
        )

    def rows_of(self, method: str) -> list[PlanRow]:
        """The certified rows of a method, by its key or its name: its own, and the one that knows a bound on the
        noise."""
        return [row for row in self.rows if row.kind == "certified" and method in (row.key, row.method)]

    def best(self, method: str, place: int = 0) -> Any:
        """The least number that is certified for a method; None where nothing is."""
        values = [row.values[place] for row in self.rows_of(method)]
        return min((value for value in values if value is not None), default=None)

    def epsilon_at(self, place: int) -> Fraction:
        """The epsilon found for the default method, or the least one found, for one number of records; 1 where there is
        none."""
        rows = self.rows if self.quantity == "epsilon" else ()
        values = {row.method: row.values[place] for row in rows if row.kind == "certified"}
        known = [values["two voices"]] if "two voices" in values else [*values.values()]
        return min((value for value in known if value), default=None) or Fraction(1)

    # What is made when it is looked at

    @cached_property
    def predicted(self) -> tuple[PlanRow, ...]:
        """The number at which a method's mean loss on the stated model is at most ``alpha``, or that mean: simulated,
        not certified."""
        return predicted_rows(self)

    @property
    def quick(self) -> bool:
        """Whether the predictions take a moment only, judged from the sizes asked for."""
        return self.asked is None or self.asked.target.quick(self)

    @property
    def note(self) -> str:
        """What is left out, and why; and which method to name where its certificate is better than the default's."""
        return self.asked.target.remark(self) if self.asked else ""

    @cached_property
    def recommendation(self) -> Choice | None:
        """The method to use and the reason, from public numbers only; for the middle one of the numbers of records per
        user.  None for a plan that was put together by hand."""
        return None if self.asked is None else self.asked.target.recommend(self)

    @cached_property
    def cost_per_record(self) -> dict[str, tuple[float | None, ...]]:
        """For each certified method, users times records against one record per user, for the same promise.

        1: a further record of the same person is worth as much as one of somebody new; 10: it takes ten times as many
        records in all.
        """
        rows = [row for row in self.rows if row.kind == "certified"]
        cost = self._cost_of_users if self.quantity == "users" else self._cost_of_value
        return {row.method: tuple(cost(row, place) for place in range(len(self.records_per_user))) for row in rows}

    def _cost_of_users(self, row: PlanRow, place: int) -> float | None:
        known = dict(zip(self.records_per_user, row.values))
        alone = known[1] if 1 in known else self._alone(row.method)
        return _share(row.values[place], self.records_per_user[place], alone)

    def _cost_of_value(self, row: PlanRow, place: int) -> float | None:
        m, value = self.records_per_user[place], row.values[place]
        if value is None or self.asked is None:
            return None
        return 1.0 if m == 1 else _share(self.asked.n_users, m, self._alone(row.method, **{self.quantity: value}))

    def _alone(self, method: str, **changed: Fraction) -> int | None:
        """Users with one record each."""
        if self.asked is None:
            return None
        return self.asked.target.changed(**changed).certified_users(method, 1, self.asked.setting)

    # What is run

    def run(self, row: Any, records_per_user: int | None = None) -> CertifiedRun:
        """The learner of a certified row before it is built, for one of the plan's numbers of records per user (the
        middle one if none is named)."""
        name = row if isinstance(row, str) else row.method
        shown = self.row(name)
        if self.asked is None or shown.kind != "certified":
            raise ParameterError(
                f"the row {name!r} is no certificate of a learner; take a certified row of privpac.plan"
            )
        place = self._place(records_per_user)
        m, target, certificate = self.records_per_user[place], self.asked.target, None
        if shown.values[place] is not None and self.quantity != "users":
            assert self.asked.n_users is not None
            target = target.exactly(self.asked.n_users).changed(**{self.quantity: shown.values[place]})
        method = target.method(name, self.asked.setting)
        if shown.values[place] is not None:
            certificate = shown.certificates[place] if shown.certificates else method.certify(m)
        if certificate is None or certificate.n_users is None:
            raise ParameterError(
                f"{name!r} certifies nothing for {m} records per user, so there is no learner to run; take another row"
            )
        assert method.run is not None
        return method.run(m, certificate, self.asked)

    def _place(self, records_per_user: int | None) -> int:
        if records_per_user is None:
            return self.place
        if records_per_user not in self.records_per_user:
            listed = ", ".join(map(str, self.records_per_user))
            raise ParameterError(
                f"the plan is for {listed} records per user, got {records_per_user}; plan for that number first"
            )
        return self.records_per_user.index(records_per_user)

    def learner(self, row: Any, *, records_per_user: int | None = None) -> Any:
        """The learner that a certified row speaks of, with exactly the parameters that are certified.

        It is a learner, a protocol (agreement without a curator) or an ``InteriorPoint`` (medians).

        >>> import privpac as pp
        >>> planned = pp.plan(pp.Thresholds(pp.Integers(0, 99)), epsilon=1, alpha="0.1", records_per_user=4)
        >>> planned.learner("realizable selection").max_records
        4
        """
        return self.run(row, records_per_user).learner()

    def command(self, row: Any, *, records_per_user: int | None = None) -> str:
        """The command that runs a certified row."""
        return self.run(row, records_per_user).command()

    def runs_for(self, records_per_user: int) -> dict[str, dict[str, Any]]:
        """Method, parameters and command of every certified row, for one number of records per user."""
        runs: dict[str, dict[str, Any]] = {}
        for row in self.rows if self.asked is not None else ():
            if row.kind == "certified":
                with suppress(PrivpacError):  # nothing is certified there
                    runs[row.method] = self.run(row, records_per_user).to_dict()
        return runs

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        """For each certified row and number of records: the method, its certified parameters, and the command or why
        there is none."""
        return {str(m): self.runs_for(m) for m in self.records_per_user}

    # How it is shown

    def to_dict(self, *, predict: bool = True) -> dict[str, Any]:
        """Plain values for JSON; ``predict=False`` leaves the predictions out."""
        choice = self.recommendation
        return {
            **({} if self.quantity == "users" else {"quantity": self.quantity}),
            "target": self.target,
            "records_per_user": list(self.records_per_user),
            "rows": [row.to_dict() for row in self.rows],
            "note": self.note,
            "cost_per_record": {method: list(costs) for method, costs in self.cost_per_record.items()},
            "recommendation": None if choice is None else {"method": choice.method, "reason": choice.reason},
            "meaning": {NAMES[kind]: said for kind, said in meanings(self).items()},
            "runs": self.runs,
            "predicted": [row.to_dict() for row in self.predicted] if predict else [],
        }

    def to_frame(self, *, predict: bool | None = None) -> pl.DataFrame:
        """One line for each method and number of records per user, as a polars frame.

        Parameters
        ----------
        predict : bool, optional
            Whether simulated numbers are among them; by default where they take a moment only.

        Returns
        -------
        polars.DataFrame
            Columns ``method``, ``kind`` ("certified", "lower bound", "predicted"), ``records_per_user``, the quantity
            that was asked for (``users``, ``alpha`` or ``epsilon``; null where there is none) and ``assumption``.

        Examples
        --------
        >>> import privpac as pp
        >>> planned = pp.plan(pp.Thresholds(pp.Integers(0, 99)), epsilon=1, records_per_user=(1, 4))
        >>> planned.to_frame(predict=False).columns
        ['method', 'kind', 'records_per_user', 'users', 'assumption']
        """
        rows = [*self.rows, *(self.predicted if (self.quick if predict is None else predict) else ())]
        number = pl.Int64 if self.quantity == "users" else pl.Float64
        plain = (lambda value: value) if self.quantity == "users" else float
        lines = [
            (row.method, row.kind, m, None if value is None else plain(value), row.assumption)
            for row in rows
            for m, value in zip(self.records_per_user, row.values)
        ]
        schema = {"method": pl.String, "kind": pl.String, "records_per_user": pl.Int64, self.quantity: number}
        return pl.DataFrame(lines, schema=schema | {"assumption": pl.String}, orient="row")

    def table(self, *, predict: bool = True) -> Any:
        """A rich table for the terminal."""
        return plan_grid(self, predict=predict)

    def words(self, *, predict: bool = True) -> list[str]:
        """What the rows rest on, and the recommendation."""
        return plan_words(self, predict=predict)

    def __str__(self) -> str:
        predict = self.quick
        return as_text(self.table(predict=predict), self.words(predict=predict))


InversePlan, InverseRow = Plan, PlanRow
"""A plan for a given number of users, and its rows: the same classes, with another ``quantity``."""


def _share(n: int | None, m: int, alone: int | None) -> float | None:
    """Records in all, against as many users with one record."""
    return None if n is None or not alone else n * m / alone


# Answers


def plan_target(target: Target, sizes: Iterable[int], stated: dict[str, str], setting: str | None = None) -> Plan:
    """Users needed: one row for each of the target's methods.  ``stated``: the question in words."""
    records = tuple(sizes)
    rows = [_users_row(method, records) for method in target.methods(setting)]
    return Plan(dict(stated), records, target.annotated(rows, records), Asked(target, setting))


def _users_row(method: PlannedMethod, sizes: tuple[int, ...]) -> PlanRow:
    """One method for all sizes; a bound that refuses a size (too many records to scan, epsilon too small) leaves it
    open and says why."""
    certificates: list[Certificate | None] = []
    assumption = note = ""
    for m in sizes:
        try:
            certificate = method.certify(m)
        except (ParameterError, TooLargeError) as error:
            certificates.append(None)
            note = note or f"not computed for {m} records: {error}"
        else:
            certificates.append(certificate)
            assumption = certificate.assumption + method.assumes
    users = tuple(None if certificate is None else certificate.n_users for certificate in certificates)
    return PlanRow(method.name, method.kind, assumption, users, note, key=method.key, certificates=tuple(certificates))


def invert(
    target: Target,
    *,
    quantity: str,
    n_users: int,
    sizes: Iterable[int],
    stated: dict[str, str],
    setting: str | None = None,
) -> Plan:
    """The least ``alpha`` or ``epsilon`` for ``n_users`` users, method by method."""
    n, records = positive_int(n_users, "n_users"), tuple(sizes)
    rows = []
    for method, values, assumption in least_values(target, quantity, n, records, setting):
        rows.append(PlanRow(method.name, method.kind, assumption, values, quantity=quantity, key=method.key))
    return Plan(dict(stated), records, tuple(rows), Asked(target, setting, n), quantity)
