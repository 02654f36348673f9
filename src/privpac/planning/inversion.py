"""The other way round: what can be promised with so many users, and which epsilon does it take?

For every method the least ``alpha`` (or ``epsilon``) at which its certified number of users is at most the number there
is, found by bisection on a logarithmic grid and rounded up to three digits.  A promise is checked with exactly the
number of users asked for, with the parameters that the learner has then; for the lower bound the value below which no
private learner can promise anything with so few users, rounded down.  Pure functions of public numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from fractions import Fraction
from itertools import count

from privpac.bounds.certificate import Certificate
from privpac.errors import ParameterError, TooLargeError
from privpac.least import halved, narrow
from privpac.parameters import MAX_EPSILON
from privpac.planning.targets.target import PlannedMethod, Target

__all__ = ["least_for", "least_values"]

_COARSE, _FINE = 16, 256
_RANGES = {"alpha": (1e-4, 0.9), "epsilon": (1e-3, float(MAX_EPSILON))}

Least = tuple[PlannedMethod, tuple[Fraction | None, ...], str]
"""A method, its least value for each number of records, and what that assumes."""


def least_values(
    target: Target,
    quantity: str,
    n_users: int,
    sizes: tuple[int, ...],
    setting: str | None,
    among: Collection[str] | None = None,
) -> Iterator[Least]:
    """The least value of every method (or of some, by name) that is certified for exactly ``n_users`` users."""
    if quantity not in _RANGES:
        raise ParameterError(f"quantity must be 'alpha' or 'epsilon', got {quantity!r}")
    probe = target.exactly(n_users)
    for place, method in enumerate(target.methods(setting)):
        if among is not None and method.name not in among:
            continue
        assumed: list[str] = []

        def certify(value: Fraction, m: int, place: int = place, assumed: list[str] = assumed) -> Certificate:
            certificate = probe.changed(**{quantity: value}).methods(setting)[place].certify(m)
            assumed[:] = [certificate.assumption]
            return certificate

        values, start = [], _COARSE // 2
        for m in sizes:
            value, start = _least(certify, m, n_users, quantity, start, lower=method.kind == "lower bound")
            values.append(value)
        yield method, tuple(values), "".join([*assumed, method.assumes]) if assumed else ""


def least_for(
    target: Target, methods: Collection[str], *, quantity: str, n_users: int, records: int, setting: str | None
) -> Fraction | None:
    """The least value that some of these methods certify for exactly ``n_users`` users."""
    values = [values[0] for _, values, _ in least_values(target, quantity, n_users, (records,), setting, methods)]
    return min((value for value in values if value is not None), default=None)


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
    guesses = count()

    def middle(low: int, high: int) -> int:
        """A guess, then its neighbour, which often ends the search, then the middle."""
        return _guess(low, high, users[low], users[high], n) if next(guesses) % 3 < 2 else halved(low, high)

    low, high = narrow(enough, low, high, middle=middle, wide=lambda low, high: high - low > 1)
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
