"""Users from which on the regret learner's *own* clip is certified: it follows the number of users, so that a
certificate may lapse.

The learner's clip grows with the number ``n`` of users until it is the number of records (the per-user mean).  A
certificate for a fixed clip holds for its number of users and all larger ones, but a larger clip is a weaker vote: what
is certified with 451 users may be false with 461, where the clip has taken its next step.  A number in a plan must hold
for **every** larger number of people (:func:`certify_own_clip`); an inverse plan asks about one number only
(:func:`certify_clip_at`).

The clip also grows with the budget, so the same happens there, and :func:`plan_own_clip` asks for **every larger
budget** too: more of either never certifies more users.  Records beyond what helps are not read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from privpac.bounds.certificate import LIMIT, MOST_READ, Certificate, numbers_up_to
from privpac.exact import Rational, rational
from privpac.guarantee import positive_int
from privpac.least import least

__all__ = ["certify_clip_at", "certify_own_clip", "plan_own_clip"]

Clip = Callable[[int], int]
"""The clip with so many users; it never falls, and ends at the number of records."""


class Certify(Protocol):
    """The certificate of a fixed clip, for its number of users and all larger ones; the search may end at ``enough``
    users."""

    def __call__(self, tau: int, enough: int | None = None) -> Certificate: ...


class ClipRules(Protocol):
    """A learner's clip as a public function of its rate, records per user and users, and the certificates of fixed
    clips."""

    def clip(self, rate: Fraction, records: int, n: int) -> int:
        """The clip in use: exact, as the learner's is."""

    def rate_below(self, tau: int, records: int, n: int) -> float:
        """The largest rate at which the clip with ``n`` users is still below ``tau``."""

    def certify(self, rate: float, records: int, tau: int, enough: int | None) -> Certificate:
        """The certificate of a fixed clip at a rate."""

    @property
    def exponent(self) -> float:
        """``ln(|H|/beta)/alpha``: nothing below ``exponent tau/(rate m)`` users is ever certified, as a vote is worth
        ``alpha m/tau``."""


def certify_own_clip(clip: Clip, certify: Certify, *, start: int = 1, spread: int = 0) -> Certificate:
    """The least number of users, at least ``start``, from which on the learner's own clip is certified, and stays so.

    With ``n`` users the own clip is certified if ``certify(clip(n)).n_users <= n``.  Each clip is in use on a range
    ``first..last`` and fails on ``first..min(last, certified - 1)`` of it; the last failing number, found from the
    largest clip down, ends the search.

    ``spread``: the clip follows some number within ``n - spread .. n + spread`` instead of ``n`` (a noisy count, except
    with a probability that ``certify`` must leave room for); then every clip of that range must be certified with ``n``
    users.

    >>> needed = {1: 10, 2: 25}  # users for the clips 1 and 2; the latter is in use from 21 on
    >>> def certify(tau, enough=None):
    ...     return Certificate.upper(needed[tau], "demonstration", "nothing")
    >>> certify_own_clip(lambda n: 1 if n <= 20 else 2, certify).n_users
    25
    """
    slack = positive_int(spread, "spread", minimum=0)
    last, tau = LIMIT, positive_int(clip(LIMIT), "clip(n)")
    while True:
        first = _first(clip, tau)
        begin = max(start, first - slack)
        found = certify(tau, begin)
        failing = last + slack if found.n_users is None else min(last + slack, found.n_users - 1)
        if failing >= LIMIT:
            return replace(found, n_users=None, method=f"{found.method}, own clip")
        if failing >= begin or begin == start:
            n = failing + 1 if failing >= begin else start
            used = certify(clip(n))
            return replace(used, n_users=n, method=f"{used.method}, own clip")
        last, tau = first - 1, positive_int(clip(first - 1), "clip(n)")


def certify_clip_at(clip: Clip, certify: Certify, n_users: int) -> Certificate:
    """The learner's own clip with exactly ``n_users`` users: at most that many are certified, or it fails there.

    Nothing is said of other numbers of users.
    """
    n = positive_int(n_users, "n_users")
    return certify(positive_int(clip(n), "clip(n)"), n)


def plan_own_clip(
    records_per_user: int, rate: Rational, rules: ClipRules, *, largest_rate: float, within: int | None = None
) -> Certificate:
    """The records to read, at most those given, with which the own clip is certified for the fewest users.

    The number holds for every larger number of users and every rate from ``rate`` to ``largest_rate``.  ``within`` asks
    about exactly so many users at exactly ``rate``: at most that many are certified if they are enough.

    Candidates for the records read are the same for everyone (:func:`~privpac.bounds.certificate.numbers_up_to`), so
    that who holds more needs no more users.  The certificate's parameters are ``max_records`` and ``public_n_users``.
    """
    best: Certificate | None = None
    theta = rational(rate, "rate", above=0)
    for records in numbers_up_to(min(positive_int(records_per_user, "records_per_user"), MOST_READ)):
        own = _Own(rules, theta, records)
        # What would be an improvement: one user less than the best so far, or the number asked about.
        aim = within if within is not None or best is None or best.n_users is None else best.n_users - 1
        if aim is not None:
            if aim < 1 or rules.exponent * own.clip(aim) > float(theta) * records * aim * (1 + 1e-9):
                continue
            found = certify_clip_at(own.clip, own.certify, aim)
            if found.n_users is None or found.n_users > aim:
                continue
        if within is None:
            found = certify_own_clip(own.clip, own.certify, start=own.for_larger_rates(largest_rate))
        if best is None or (found.n_users is not None and (best.n_users is None or found.n_users < best.n_users)):
            best = found.run_with(max_records=records, public_n_users=within or found.n_users)
        if within is not None:
            break
    return best or replace(rules.certify(float(theta), 1, 1, None), n_users=None)


@dataclass(frozen=True)
class _Own:
    """One number of records to read."""

    rules: ClipRules
    rate: Fraction
    records: int

    def clip(self, n: int) -> int:
        return self.rules.clip(self.rate, self.records, n)

    def certify(self, tau: int, enough: int | None = None) -> Certificate:
        return self.rules.certify(float(self.rate), self.records, tau, enough)

    def for_larger_rates(self, largest: float) -> int:
        """Users that are enough at every rate from this one up, whose clips are larger: the next clip at the least rate
        it is used with.

        With ``n`` users a clip is first in use at a rate ``c(n)`` that falls no faster than ``1/n``, and the proven
        exponent of a vote grows less than in proportion to the rate, so ``n`` times the exponent at ``c(n)`` grows:
        what holds for ``n`` holds for more.
        """
        n = 1
        for tau in range(self.clip(1), self.records + 1):

            def fits(n: int, tau: int = tau) -> bool:
                lowest = max(float(self.rate), self.rules.rate_below(tau, self.records, n))
                if lowest >= largest or self.clip(n) > tau:
                    return True
                users = self.rules.certify(lowest, self.records, tau, n).n_users
                return users is not None and users <= n

            n = least(fits, start=n) or n
        return n


def _first(clip: Clip, tau: int) -> int:
    """The least ``n >= 1`` whose clip is at least ``tau``."""
    found = least(lambda n: clip(n) >= tau)
    assert found is not None
    return found
