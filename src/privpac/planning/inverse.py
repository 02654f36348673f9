"""The other way round: what can be promised with so many users, and which epsilon does it take?

For every method the least ``alpha`` (or ``epsilon``) at which its certified number of users is at most the number there is, found by
bisection on a logarithmic grid and rounded up to three digits; for the lower bound the value below which no private learner can promise
anything with so few users, rounded down.  Pure functions of public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from io import StringIO
from typing import Any

from privpac.bounds.certificate import Certificate
from privpac.concepts.base import ConceptClass
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, one_of, positive_int
from privpac.planning.plan import MAX_EPSILON, Target, read_records

__all__ = ["InversePlan", "InverseRow", "least_alpha", "least_epsilon"]

_COARSE, _FINE = 16, 8
_RANGES = {"alpha": (1e-4, 0.9), "epsilon": (1e-3, float(MAX_EPSILON))}


@dataclass(frozen=True)
class InverseRow:
    """One method: the least value for each number of records per user; None where nothing is certified."""

    method: str
    kind: str
    values: tuple[Fraction | None, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"method": self.method, "kind": self.kind, "values": [None if v is None else float(v) for v in self.values]}


@dataclass(frozen=True)
class InversePlan:
    """What so many users can be promised: ``quantity`` is "alpha" or "epsilon"."""

    quantity: str
    target: dict[str, Any]
    records_per_user: tuple[int, ...]
    rows: tuple[InverseRow, ...]

    def row(self, method: str) -> InverseRow:
        for row in self.rows:
            if row.method == method:
                return row
        raise ParameterError(f"the plan has no method {method!r}; it has {', '.join(repr(row.method) for row in self.rows)}")

    def to_dict(self) -> dict[str, Any]:
        rows = [row.to_dict() for row in self.rows]
        return {"quantity": self.quantity, "target": self.target, "records_per_user": list(self.records_per_user), "rows": rows}

    def table(self) -> Any:
        """A rich table for the terminal."""
        from rich.table import Table

        title = f"least {self.quantity}: " + ", ".join(f"{name} {value}" for name, value in self.target.items())
        table = Table(title=title, title_justify="left", caption="- : nothing is certified", caption_justify="left")
        table.add_column("records per user →", overflow="fold")
        for m in self.records_per_user:
            table.add_column(str(m), justify="right", no_wrap=True)
        for row in self.rows:
            table.add_row(f"{row.method} ({row.kind})", *("-" if v is None else f"{float(v):.3g}" for v in row.values))
        return table

    def __str__(self) -> str:
        from rich.console import Console

        out = Console(file=StringIO(), width=110, force_terminal=False)
        out.print(self.table())
        return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())  # type: ignore[attr-defined]


def least_alpha(concept: ConceptClass, *, n_users: int, epsilon: Rational, **more: Any) -> InversePlan:
    """The excess error that each method can promise ``n_users`` users.

    >>> import privpac as pp
    >>> cuts = pp.Thresholds(pp.Integers(0, 1440))
    >>> least_alpha(cuts, n_users=500, epsilon=1, records_per_user=16, setting="realizable").rows[0].values
    (Fraction(41, 20000),)
    """
    return _inverse("alpha", concept, n_users, epsilon=epsilon, alpha=None, **more)


def least_epsilon(concept: ConceptClass, *, n_users: int, alpha: Rational, **more: Any) -> InversePlan:
    """The privacy loss at which each method promises ``n_users`` users an excess error of ``alpha``."""
    return _inverse("epsilon", concept, n_users, epsilon=None, alpha=alpha, **more)


def _inverse(
    quantity: str,
    concept: ConceptClass,
    n_users: int,
    *,
    epsilon: Rational | None,
    alpha: Rational | None,
    beta: Rational = "0.05",
    records_per_user: int | Iterable[int] | None = None,
    neighbours: Neighbours | str = Neighbours.ADD_REMOVE,
    noise: Rational | None = None,
    setting: str | None = None,
) -> InversePlan:
    if not isinstance(concept, ConceptClass):
        raise TypeError(f"concept must be a class of rules such as Thresholds(Integers(0, 100)), got {type(concept).__name__}")
    n, relation = positive_int(n_users, "n_users"), one_of(Neighbours, neighbours, "neighbours")
    sizes = read_records(records_per_user)
    eps = Fraction(1) if epsilon is None else rational(epsilon, "epsilon", above=0, maximum=MAX_EPSILON)
    a = Fraction(1, 2) if alpha is None else rational(alpha, "alpha", above=0, below=1)
    flips = None if noise is None else rational(noise, "noise", minimum=0, below="1/2")
    base = Target(concept, eps, a, rational(beta, "beta", above=0, below=1), relation, flips)
    rows = []
    for place, (method, _, _, kind) in enumerate(base.methods(setting)):

        def certify(value: Fraction, m: int, place: int = place) -> Certificate:
            asked: Target = replace(base, alpha=value) if quantity == "alpha" else replace(base, epsilon=value)
            found: Certificate = asked.methods(setting)[place][1](m)
            return found

        rows.append(InverseRow(method, kind, tuple(_least(certify, m, n, quantity, lower=kind == "lower bound") for m in sizes)))
    fixed = {"users": str(n), **({"epsilon": str(epsilon)} if alpha is None else {"alpha": str(alpha)}), "beta": str(beta)}
    return InversePlan(quantity, {**fixed, "neighbours": str(relation)}, sizes, tuple(rows))


def _least(certify: Callable[[Fraction, int], Certificate], m: int, n: int, quantity: str, *, lower: bool) -> Fraction | None:
    """The least value at which ``n`` users are certified (or, for a lower bound, no longer excluded)."""

    def enough(exponent: float) -> bool:
        try:
            users = certify(_rounded(math.exp(exponent), up=not lower), m).n_users
        except (ParameterError, TooLargeError):
            return lower
        return lower if users is None else users <= n

    # Some bounds have ranges of their own, so the largest value need not be the easiest: look along a coarse grid first.
    first, last = (math.log(end) for end in _RANGES[quantity])
    grid = [first + (last - first) * i / _COARSE for i in range(_COARSE + 1)]
    place = next((i for i, exponent in enumerate(grid) if enough(exponent)), None)
    if place is None:
        return None
    low, high = grid[max(place - 1, 0)], grid[place]
    for _ in range(_FINE if place else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return _rounded(math.exp(low if lower else high), up=not lower)


def _rounded(value: float, *, up: bool) -> Fraction:
    """Two significant digits and a half: a value a reader can type again."""
    scale = 10 ** (2 - math.floor(math.log10(value)))
    return Fraction(math.ceil(value * scale) if up else math.floor(value * scale)) / Fraction(scale)
