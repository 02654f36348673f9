"""The clip of pairwise selection and what it certifies, from public numbers only (certificate C2).

Where the probabilities ``P(W)`` of all pairs are known, what clipping takes is computed from binomial laws, else
bounded.

*Rounding.*  Comparisons use ``q / L`` for ``P(W)``, off by at most ``1 / (2 L)``, and the clip ``ceil(L tau) / L``.  A
good candidate's score may thus be larger by the rounding and a bad one's smaller (``a0 + 1/(2 L)``, ``a1 - 1/(2 L)``),
and the rate is that of the clip in use.

The clip ``tau`` is given, or planned from the declared records per user; it is never inferred from the data: a clip
taken from the largest number of records in the data is not private, because one user then changes everybody's
contribution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, log2
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.bounds.certificate import Certificate
from privpac.bounds.selection.pairwise import certify_pairwise, plan_pairwise
from privpac.bounds.selection.scheffe import certify_scheffe, plan_scheffe
from privpac.errors import InfeasibleError, ParameterError
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int
from privpac.parameters import DEFAULT_BETA, bounds, fraction_or_none, named, probability, whole_or_none

__all__ = ["ClipAim", "ClipPlan", "KnownPairs", "default_resolution", "read_top"]

MAX_TOP = 1 << 28
"""With at most 2**32 users scores then span less than 2**62."""

MAX_RESOLUTION = 1 << 24
_MAX_CLIPS = 1 << 14
_LEAST_MARGIN = Fraction(1, 10**8)
_MAX_MEANS = 1 << 20
"""Probabilities times records, and times clips, up to which means are computed exactly."""


def default_resolution(alpha: Fraction) -> int:
    """``2**ceil(log2(100 / alpha))``: rounding ``P(W)`` costs a user at most ``m / (2 L) <= alpha m / 200``."""
    return 1 << max(2, ceil(log2(100 / alpha)))


def read_top(unit: int, tau: Fraction) -> int:
    """The integer clip ``T = ceil(L tau)``."""
    top = ceil(unit * tau)
    if not 1 <= top <= MAX_TOP:
        raise ParameterError(f"resolution * tau must be between 1 and {MAX_TOP}, got {top}; change tau or resolution")
    return top


@frozen(slots=False, field_transformer=named)
class ClipAim:
    """What sets the clip of a selection among distributions, and what its certificate is about.  All public.

    Parameters
    ----------
    records_per_user : int, optional
        Records that every user holds; sets the clip unless ``tau`` is given.
    tau : number, optional
        The clip, in records.
    beta : number
        How often the aim may be missed; default 1/20.
    public_n_users : int, optional
        A lower bound on the number of users, for accuracy statements.
    """

    records_per_user: int | None = field(
        default=None, kw_only=True, converter=whole_or_none, metadata=bounds(maximum=1 << 31)
    )
    tau: Fraction | None = field(default=None, kw_only=True, converter=fraction_or_none, metadata=bounds(above=0))
    beta: Fraction = field(default=DEFAULT_BETA, kw_only=True, converter=probability)
    public_n_users: int | None = field(default=None, kw_only=True, converter=whole_or_none, metadata=bounds(minimum=0))


@dataclass(frozen=True)
class KnownPairs:
    """The probabilities ``q / unit`` of all pairs' sets, right up to ``rounding``, and the public cap on a user's
    records."""

    likely: tuple[int, ...]
    unit: int
    rounding: Fraction
    cap: int | None

    @staticmethod
    def of(q: NDArray[np.int64], unit: int, rounding: Fraction, cap: int | None) -> KnownPairs | None:
        """None where the probabilities are too many for exact means."""
        distinct = np.unique(q)
        return KnownPairs(tuple(distinct.tolist()), unit, rounding, cap) if len(distinct) <= _MAX_CLIPS else None


@dataclass(frozen=True)
class ClipPlan:
    """What C2 needs to know; ``tau`` is the declared clip or None, ``pairs`` is None where ``P(W)`` is not known well
    enough.

    ``unit`` is the resolution ``L`` of ``P(W)`` and of the clip; None stands for exact probabilities and clips.
    """

    log_size: float
    epsilon: Fraction
    alpha0: Fraction
    alpha1: Fraction
    beta: Fraction
    records_per_user: int | None
    tau: Fraction | None
    neighbours: Neighbours
    pairs: KnownPairs | None = None
    unit: int | None = None

    @property
    def rounding(self) -> Fraction:
        """How far the probabilities in use may be from ``P(W)``."""
        if self.pairs is not None:
            return self.pairs.rounding
        return Fraction(0) if self.unit is None else Fraction(1, 2 * self.unit)

    def used(self, tau: Fraction) -> Fraction:
        """The clip that ``T = ceil(L tau)`` stands for."""
        unit = self.unit if self.pairs is None else self.pairs.unit
        return tau if unit is None else Fraction(ceil(unit * tau), unit)

    @property
    def certificate(self) -> Certificate | None:
        """The certificate at the declared records per user, None where that number is not declared."""
        return _certificate(self)

    @property
    def clip(self) -> Fraction:
        """The clip, in records."""
        if self.tau is not None:
            return self.tau
        found = self.certificate
        if found is None:
            raise ParameterError(
                "declare records_per_user (public) or tau: the clip must not be read off the data; "
                "privpac.private_cap buys a private cap for part of the budget"
            )
        return rational(found["tau"])

    def shortfall(self, n_users: int) -> str | None:
        """Words for too few users, None if the certificate covers that many."""
        found = self.certificate
        if found is None or (found.n_users is not None and found.n_users <= n_users):
            return None
        needed = "no number of users is" if found.n_users is None else f"{found.n_users} users are"
        reached = self._reached(n_users)
        tail = "nothing is certified" if reached is None else f"score differences of {float(reached):.3g} are certified"
        return f"{needed} certified for a score difference of {float(self.alpha1):.3g}; with {n_users} users {tail}"

    def _reached(self, n_users: int) -> Fraction | None:
        """The smallest ``alpha1`` on a grid of 64 that is certified with this many users."""
        step = (1 - self.alpha0) / 64
        low, high = 0, 64
        while low < high:
            middle = (low + high) // 2
            found = None
            if middle:
                found = _certificate(ClipPlan(**{**self.__dict__, "alpha1": self.alpha0 + step * middle}))
            if found is not None and found.n_users is not None and found.n_users <= n_users:
                high = middle
            else:
                low = middle + 1
        return self.alpha0 + step * low if low <= 63 else None


@lru_cache(maxsize=256)
def _certificate(plan: ClipPlan) -> Certificate | None:
    if plan.records_per_user is None:
        return None
    if plan.alpha1 <= plan.alpha0:
        raise InfeasibleError(
            f"alpha1 = {float(plan.alpha1):.3g} must exceed alpha0 = {float(plan.alpha0):.3g}; ask for less accuracy "
            "or use a finer cover"
        )
    if plan.tau is not None:
        return _certify(plan, plan.used(plan.tau))
    found = _certify(plan, None)
    planned = rational(found["tau"])
    return found if plan.used(planned) == planned else _certify(plan, plan.used(planned))


def _certify(plan: ClipPlan, tau: Fraction | None) -> Certificate:
    """C2 for this clip, or for the best one."""
    m, off, pairs = plan.records_per_user, plan.rounding, plan.pairs
    assert m is not None
    shared: dict[str, Any] = {
        "log_size": plan.log_size,
        "epsilon": plan.epsilon,
        "alpha0": plan.alpha0,
        "alpha1": plan.alpha1,
        "beta": plan.beta,
        "records_per_user": m,
        "neighbours": plan.neighbours,
    }
    if pairs is not None and len(pairs.likely) * m <= _MAX_MEANS:
        shared |= {"probabilities": np.array(pairs.likely) / pairs.unit, "rounding": off, "max_records": pairs.cap}
        if tau is not None:
            return certify_scheffe(**shared, tau=tau)
        return plan_scheffe(**shared, clip_step=_step(m, min(_MAX_CLIPS, _MAX_MEANS // max(1, len(pairs.likely)))))
    # Where rounding takes the whole margin a clip is still needed, but nothing is certified.
    lost = plan.alpha1 - plan.alpha0 - 2 * off < _LEAST_MARGIN
    if not lost:
        shared |= {"alpha0": plan.alpha0 + off, "alpha1": plan.alpha1 - off}
    clip: dict[str, Any] = {"clip_step": _step(m, _MAX_CLIPS)} if tau is None else {"tau": tau}
    found = (plan_pairwise if tau is None else certify_pairwise)(**shared, width=1, **clip)
    assumption = f"users with equally many records from one law, and a candidate of score at most {plan.alpha0}"
    return replace(found, n_users=None if lost else found.n_users, assumption=assumption)


def _step(m: int, clips: int) -> Fraction:
    """Quarters of a record, or coarser if these are too many clips."""
    return min(Fraction(max(1, -(-4 * m // clips)), 4), Fraction(m))


def read_plan(
    log_size: float,
    epsilon: Fraction,
    alpha0: Fraction,
    alpha1: Fraction,
    beta: Rational,
    records_per_user: int | None,
    tau: Rational | None,
    neighbours: Neighbours,
    cap: int | None,
    pairs: KnownPairs | None = None,
    unit: int | None = None,
) -> ClipPlan:
    """Check the public numbers of a plan; records beyond the cap are never read, so they count for nothing."""
    m = None if records_per_user is None else positive_int(records_per_user, "records_per_user", maximum=1 << 31)
    return ClipPlan(
        log_size,
        epsilon,
        alpha0,
        alpha1,
        rational(beta, "beta", above=0, below=1),
        m if m is None or cap is None else min(m, cap),
        None if tau is None else rational(tau, "tau", above=0),
        neighbours,
        pairs,
        unit,
    )
