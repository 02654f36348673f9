"""What a bound says: a number of users, and what it rests on.

Every function of this room is a pure function of public numbers and returns a :class:`Certificate`: an *upper* bound
("with this many users the promised accuracy holds") or a *lower* bound ("with fewer users no algorithm of this kind can
keep it").  Numbers are computed in double precision from sums of positive terms and then moved outward by
:data:`SLACK`, which is far above the rounding error: an upper bound may be one user too large, a lower bound one user
too small, never the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from attrs import evolve, frozen

from privpac.errors import ParameterError
from privpac.exact import rational
from privpac.parameters import relation as relation

SLACK = 1e-11
"""Relative outward rounding of a per-user factor or of the two sides of a condition."""

LIMIT = 1 << 60
"""Numbers of users beyond this are reported as "not certified"."""

MOST_READ = 1024
"""Records of a user that are ever planned to be read where fewer may certify more: each number takes proofs of its
own."""


@frozen(slots=False)
class Certificate:
    """A bound on the number of users.

    ``n_users`` is ``None`` when no number of users is certified by this method.  ``details`` holds the public numbers
    that were chosen on the way (a clip, a truncation, a tilt) and is read with ``certificate["tau"]``.  ``settings``
    are the parameters of the *learner* that an upper bound speaks of, beside the class, epsilon and the relation: with
    any other, nothing is promised.  Read them as ``certificate.parameters``, a dict of keyword arguments.

    An upper bound holds for its number of users **and every larger one**, with these same parameters; where a parameter
    follows the number of users (``public_n_users``), also with the true number, or any from ``n_users`` up to it, put
    in its place.

    >>> c = Certificate.upper(17, "demonstration", "nothing", tau=3).run_with(max_records=4)
    >>> c.n_users, c["tau"], c.parameters, str(c)
    (17, 3, {'max_records': 4}, 'demonstration: 17 users suffice (assuming nothing; tau = 3)')
    """

    n_users: int | None
    method: str
    assumption: str
    kind: str = "upper"
    details: tuple[tuple[str, Any], ...] = ()
    settings: tuple[tuple[str, Any], ...] = ()

    @staticmethod
    def upper(n_users: int | None, method: str, assumption: str, **details: object) -> Certificate:
        """That many users suffice."""
        return Certificate(n_users, method, assumption, "upper", tuple(details.items()))

    @staticmethod
    def lower(n_users: int | None, method: str, assumption: str, **details: object) -> Certificate:
        """No fewer users can do."""
        return Certificate(n_users, method, assumption, "lower", tuple(details.items()))

    def run_with(self, **parameters: object) -> Certificate:
        """The same bound, with (further) parameters of the learner it speaks of."""
        return evolve(self, settings=tuple((self.parameters | parameters).items()))

    @property
    def parameters(self) -> dict[str, Any]:
        """What the learner must be run with, as keyword arguments."""
        return dict(self.settings)

    @property
    def certified(self) -> bool:
        return self.n_users is not None

    def __getitem__(self, name: str) -> Any:
        return dict(self.details)[name]

    def __str__(self) -> str:
        verb = "suffice" if self.kind == "upper" else "are needed"
        count = f"{self.n_users} users {verb}" if self.certified else "not certified for any number of users"
        notes = ", ".join(
            f"{name} = {value}" for name, value in self.details if isinstance(value, (int, float, str, Fraction))
        )
        return f"{self.method}: {count} (assuming {self.assumption}{'; ' + notes if notes else ''})"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; rationals as text."""
        details, parameters = (
            {name: str(value) if isinstance(value, Fraction) else value for name, value in pairs}
            for pairs in (self.details, self.settings)
        )
        said = {"n_users": self.n_users, "kind": self.kind, "method": self.method, "assumption": self.assumption}
        return {**said, "details": details, "parameters": parameters}


def best(certificates: list[Certificate]) -> Certificate:
    """The smallest certified number of users; the first one when none is certified."""
    return min(certificates, key=lambda c: math.inf if c.n_users is None else c.n_users)


# Reading parameters


def open_unit(value: object, name: str) -> float:
    """A number strictly between 0 and 1."""
    number = _finite(rational(value, name, above=0, below=1), name)
    if number >= 1:
        raise ParameterError(f"{name} must be below 1 by more than 1e-16; use a value of practical size")
    return number


def positive(value: object, name: str) -> float:
    """A number above 0 that a float can hold."""
    return _finite(rational(value, name, above=0), name)


def log_size_of(value: object, name: str = "log_size") -> float:
    """The natural logarithm of the number of rules."""
    return _finite(rational(value, name, minimum=0), name)


def _finite(value: Fraction, name: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 <= number < 1e100 or (value > 0 and number < 1e-100):
        raise ParameterError(f"{name} must lie between 1e-100 and 1e100; use a value of practical size")
    return number


# Rounding and searching


def numbers_up_to(limit: int) -> list[int]:
    """1, 2, 3, ... in steps that grow: at most four leading bits, the largest first.

    Candidates for a public number that may be chosen lower than allowed (records read).  What is allowed more never has
    fewer of them, so that the best over them never gets worse.

    >>> numbers_up_to(40)[:12]
    [40, 36, 32, 30, 28, 26, 24, 22, 20, 18, 16, 15]
    """
    return [
        k << shift
        for shift in reversed(range(limit.bit_length()))
        for k in range(15, 0 if shift == 0 else 7, -1)
        if k << shift <= limit
    ]


def fewest(
    records: int,
    certify: Callable[[int, int | None], Certificate],
    at_least: Callable[[int], float],
    beat: int | None = None,
) -> Certificate:
    """The number of records to read, at most those given (and :data:`MOST_READ`), that certifies the fewest users.

    ``certify(records, beat)``: where that is no fewer users than ``beat``, any number from there on will do, or none.
    ``at_least(records)`` is a number of users below which nothing is certified, to save proofs; ``beat``: of more users
    than that nothing is asked, and the first fewer ones will do.  The choice is a parameter: ``max_records``.
    """
    found, asked = None, beat
    for size in numbers_up_to(min(records, MOST_READ)):
        if found is not None and asked is not None and at_least(size) >= asked:
            continue
        tried = certify(size, asked)
        if found is None or (tried.n_users is not None and (found.n_users is None or tried.n_users < found.n_users)):
            found = tried.run_with(max_records=size)
            if beat is not None and found.n_users is not None and found.n_users < beat:
                break
        asked = beat if beat is not None else found.n_users
    assert found is not None
    return found


def users_for(log_ratio: float, rate: float) -> int | None:
    """The least integer ``n`` with ``n * rate >= log_ratio``, rounded up safely; ``None`` if ``rate`` is not
    positive."""
    if not rate > 0:
        return None
    n = log_ratio / rate * (1 + SLACK)
    return max(1, math.ceil(n)) if n < LIMIT else None
