"""The other way round: what can be promised with so many users, and which epsilon does it take?

For every method the least ``alpha`` (or ``epsilon``) at which its certified number of users is at most the number there
is, found by bisection on a logarithmic grid and rounded up to three digits.  A promise is checked with exactly the
number of users asked for, with the parameters that the learner has then; for the lower bound the value below which no
private learner can promise anything with so few users, rounded down.  Pure functions of public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from privpac.bounds.certificate import Certificate
from privpac.concepts.base import ConceptClass
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import Rational
from privpac.guarantee import Neighbours, positive_int
from privpac.planning.plans import MAX_EPSILON, Asked, read_records, read_setting, rule_target
from privpac.planning.tables import Shown, found_row, share

if TYPE_CHECKING:
    from privpac.planning.comparison.population import Population

__all__ = ["InversePlan", "InverseRow", "invert", "least_alpha", "least_epsilon", "least_for"]

_COARSE, _FINE = 16, 256
_TINY = Fraction(1, 10**6)
_RANGES = {"alpha": (1e-4, 0.9), "epsilon": (1e-3, float(MAX_EPSILON))}


@dataclass(frozen=True)
class InverseRow:
    """One method: the least value for each number of records per user; None where nothing is certified.

    ``kind``, ``states`` and ``standard_error`` as in :class:`PlanRow`; a predicted row names its model in
    ``assumption``.
    """

    method: str
    kind: str
    values: tuple[Fraction | None, ...]
    assumption: str = ""
    note: str = ""
    states: str = ""
    standard_error: float | None = None

    def to_dict(self) -> dict[str, Any]:
        values = [None if v is None else float(v) for v in self.values]
        shown = {"method": self.method, "kind": self.kind, "assumption": self.assumption, "values": values}
        if self.standard_error is None:
            return shown
        return {**shown, "note": self.note, "states": self.states, "standard_error": self.standard_error}

    def words(self) -> str:
        """What the row rests on, in a line."""
        said = [*([f"assumes {self.assumption}"] if self.assumption else []), *([self.note] if self.note else [])]
        return f"{self.method}: {'; '.join(said)}" if said else self.method

    def cells(self) -> list[str]:
        """The numbers as they are printed."""
        return ["-" if v is None else f"{float(v):.3g}" if v >= _TINY else "< 1e-6" for v in self.values]


@dataclass(frozen=True)
class InversePlan(Shown):
    """What so many users can be promised: ``quantity`` is "alpha" or "epsilon"."""

    quantity: str
    target: dict[str, Any]
    records_per_user: tuple[int, ...]
    rows: tuple[InverseRow, ...]
    asked: Asked | None = field(default=None, compare=False, repr=False)

    caption: ClassVar[str] = "- : nothing is certified"

    @property
    def title(self) -> str:
        return f"least {self.quantity}"

    def row(self, method: str) -> InverseRow:
        return found_row(self.rows, method)

    @cached_property
    def predicted(self) -> tuple[InverseRow, ...]:
        """The excess error that so many users of the stated model lead to, or the epsilon it takes there: simulated,
        not certified."""
        from privpac.planning.predictions import predicted_values

        return predicted_values(self)

    @cached_property
    def cost_per_record(self) -> dict[str, tuple[float | None, ...]]:
        """For each certified method, all records of these users against users with one record each, for the same
        promise."""
        costs: dict[str, tuple[float | None, ...]] = {}
        for row in self.rows:
            if row.kind == "certified":
                costs[row.method] = tuple(
                    self._cost(row.method, m, value) for m, value in zip(self.records_per_user, row.values)
                )
        return costs

    def to_dict(self, *, predict: bool = True) -> dict[str, Any]:
        return {"quantity": self.quantity, **super().to_dict(predict=predict)}

    def _cost(self, method: str, m: int, value: Fraction | None) -> float | None:
        if value is None or self.asked is None:
            return None
        return 1.0 if m == 1 else share(self.asked.n_users, m, self.asked.certify(method, 1, **{self.quantity: value}))


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
    users: str | None = None,
    population: Population | None = None,
    model_noise: Rational | None = None,
    every_method: bool = False,
) -> InversePlan:
    spent = (1 if epsilon is None else epsilon, "1/2" if alpha is None else alpha)
    base = rule_target(concept, *spent, beta, neighbours, noise, users, population, model_noise, every_method)
    shown = {
        "users": str(n_users),
        **({"epsilon": str(epsilon)} if alpha is None else {"alpha": str(alpha)}),
        "beta": str(beta),
    }
    shown |= {"neighbours": str(base.neighbours)} | ({} if noise is None else {"noise": str(noise)})
    sizes = read_records(records_per_user)
    return invert(base, quantity=quantity, n_users=n_users, sizes=sizes, shown=shown, setting=read_setting(setting))


def invert(
    target: Any, *, quantity: str, n_users: int, sizes: Iterable[int], shown: dict[str, str], setting: str | None = None
) -> InversePlan:
    """The least ``alpha`` or ``epsilon`` of any target (see :func:`plan_target`) for ``n_users`` users, method by
    method.

    A target whose learners follow the number of users, or whose certificates are dear, has a field ``within``: only
    whether exactly so many users are enough is then asked.
    """
    if quantity not in _RANGES:
        raise ParameterError(f"quantity must be 'alpha' or 'epsilon', got {quantity!r}")
    n, records = positive_int(n_users, "n_users"), tuple(sizes)
    rows, probe = [], replace(target, within=n) if hasattr(target, "within") else target
    for place, (method, _, also, kind) in enumerate(target.methods(setting)):
        assumed: list[str] = []

        def certify(value: Fraction, m: int, place: int = place, assumed: list[str] = assumed) -> Certificate:
            found: Certificate = replace(probe, **{quantity: value}).methods(setting)[place][1](m)
            assumed[:] = [found.assumption]
            return found

        values, start = [], _COARSE // 2
        for m in records:
            value, start = _least(certify, m, n, quantity, start, lower=kind == "lower bound")
            values.append(value)
        rows.append(InverseRow(method, kind, tuple(values), "".join([*assumed, also]) if assumed else ""))
    return InversePlan(quantity, dict(shown), records, tuple(rows), Asked(target, setting, n))


def least_for(
    target: Any, methods: Collection[str], *, quantity: str, n_users: int, records: int, setting: str | None
) -> Fraction | None:
    """The least value that some of these methods certify for exactly ``n_users`` users: what an inverse plan says of
    them."""
    probe = replace(target, within=n_users) if hasattr(target, "within") else target
    found = []
    for place, (method, _, _, _) in enumerate(target.methods(setting)):
        if method in methods:

            def certify(value: Fraction, m: int, place: int = place) -> Certificate:
                certificate: Certificate = replace(probe, **{quantity: value}).methods(setting)[place][1](m)
                return certificate

            found.append(_least(certify, records, n_users, quantity, _COARSE // 2, lower=False)[0])
    return min((value for value in found if value is not None), default=None)


def _least(
    certify: Callable[[Fraction, int], Certificate], m: int, n: int, quantity: str, start: int, *, lower: bool
) -> tuple[Fraction | None, int]:
    """The least value at which ``n`` users are certified (or, for a lower bound, no longer excluded).

    On a fine logarithmic grid.  Some bounds have ranges of their own, so the largest value need not be the easiest:
    coarse steps first, outwards from ``start``, where the last search ended; then the fine step, guessed from the
    numbers of users on both sides.
    """
    first, last = (math.log(end) for end in _RANGES[quantity])
    users: dict[int, int | None] = {}

    def value(step: int) -> Fraction:
        return _rounded(math.exp(first + (last - first) * step / (_COARSE * _FINE)), up=not lower)

    def enough(step: int) -> bool:
        if step not in users:
            try:
                users[step] = certify(value(step), m).n_users
            except (ParameterError, TooLargeError):
                users[step] = None
        found = users[step]
        return lower if found is None else found <= n

    place = _coarse_place(lambda i: enough(i * _FINE), start)
    if place is None or (lower and place == 0):  # a lower bound that excludes nothing in the whole range says nothing
        return None, start
    low, high = max(place - 1, 0) * _FINE, place * _FINE
    # Always: enough at ``high``, not at ``low``.  A guess is followed by its neighbour, which often ends the search.
    guesses = 0
    while high - low > 1:
        step = _guess(low, high, users[low], users[high], n) if guesses % 3 < 2 else (low + high) // 2
        guesses += 1
        low, high = (low, step) if enough(step) else (step, high)
    return value(low if lower else high), place


def _coarse_place(enough: Callable[[int], bool], start: int) -> int | None:
    """A coarse step that is enough while the one before is not, near ``start``; None if none is enough."""
    upwards = next((i for i in range(start, _COARSE + 1) if enough(i)), None)
    place = upwards if upwards is not None else next((i for i in range(start - 1, -1, -1) if enough(i)), None)
    while place is not None and place > 0 and enough(place - 1):
        place -= 1
    return place


def _guess(low: int, high: int, users_low: int | None, users_high: int | None, n: int) -> int:
    """Where a power law through both ends reaches ``n`` users: the step that is then just enough, or the one before
    it."""
    if not users_low or not users_high or users_low <= users_high:
        return (low + high) // 2
    share = (math.log(users_low) - math.log(max(n, 1))) / (math.log(users_low) - math.log(users_high))
    return min(high - 1, max(low + 1, round(low + share * (high - low))))


def _rounded(value: float, *, up: bool) -> Fraction:
    """Two significant digits and a half: a value a reader can type again."""
    scale = 10 ** (2 - math.floor(math.log10(value)))
    return Fraction(math.ceil(value * scale) if up else math.floor(value * scale)) / Fraction(scale)
