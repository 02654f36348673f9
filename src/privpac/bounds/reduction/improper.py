"""Accuracy of the transformation with an inner learner that may release rules outside the class (Lemma 17 of Li, Wang
and Ye, *Realizable-to-Agnostic*, with constants).

A proper learner's rule g and the rule behind the relabelling belong to one class, so that what they differ on in T says
how far apart they are on everybody.  An improper g may remember T.  What it cannot do, being private, is fit T much
better than fresh records.  Notation of :mod:`privpac.bounds.reduction.accuracy`; the inner learner is ``(eps_A,
delta_A)``-DP under **replace** (an add-remove promise counts as ``(2 eps_A, (1 + e**eps_A) delta_A)``), and on any
realizable T has at most a share ``alpha_A`` of wrong labels but for ``b_A``.  ``K = G**2 e**(2a + eps_A)``.

**Theorem D.**  Off events of total probability ``b0 + b1 + b2 + b3 + bs + bz``,

    error(g) <= best + alpha1 + alpha0 + 1/levels + L/(b w) + omega(L/(a t)) + s + z,
    s = (ln(2 Pi(N)**2 N/r) + ln(1/bs)) / (r ln(N/r)),  N = v + r for any r,   v = ceil(t/2),  u = floor(t/2),
    z = (K (alpha_A + b_A + (log2 Pi(t) + 2)/u) + delta_A) / bz.

*Proof.*  Let f' be a rule of the class with the new labels h on T: ``err(f') <= best + (all terms before s)``.  Split T
by coins of one's own into V and U of v and u records; that split is made in the proof only, so it is independent of T,
h and g.  Let h' be a rule of the class that agrees with h on V, chosen by V and its labels alone.

1. *f' and h'* agree on V: ``P(f' != h') <= s`` but for bs (step 1 of :mod:`privpac.bounds.service`, for one part).
2. *h and h' on U.*  Given T and h, a labelling of T by the class that differs from h on j records has all of them
   outside V with probability at most ``2**-j``, and there are at most ``Pi(t)``: the number J of differences on U has
   ``Pr[J >= j] <= Pi(t) 2**-j``, so ``E J <= log2 Pi(t) + 2``.
3. *g and h' on U.*  U is a uniform half of T, whatever g: ``E dis_U(g, h) = E dis_T(g, h) <= alpha_A + b_A``.  With
   2., ``E dis_U(g, h') <= alpha_A + b_A + (log2 Pi(t) + 2)/u``.  (The paper bounds ``dis_U`` by ``dis_T``, which is
   false for a single split.)
4. *g and h' on everybody.*  Fix V and W.  The map from U to the pair (g, h') is ``(ln K, delta_A)``-DP under replace:
   for a labelling c of all of T but the changed record, its extensions have total weight in ``e**-m(c) [e**-a, G]`` on
   both sides, so the law of c moves by at most ``G**2 e**(2a)``; c fixes the labels of V and with them h'; given c the
   inner inputs are neighbours.  Exchange the i-th record of U with a fresh one: ``Pr[g != h' at a fresh record] <= K
   Pr[g != h' at the i-th record] + delta_A``.  Averaged over i, ``E P(g != h') <= K E dis_U(g, h') + delta_A``.
5. Markov's inequality: ``P(g != h') <= z`` but for bz.

The price of leaving the class is the factor ``K/bz``; it holds in expectation without ``1/bz``.  For every share of T
and every cost a of the fixed grids the bound falls with the number of people and with b, so a certified number holds
for every larger one and more budget never needs more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.bounds.certificate import SLACK
from privpac.bounds.reduction.accuracy import InnerError, LogGrowth, at_least, by_size, relative
from privpac.bounds.reduction.plan import Objective
from privpac.bounds.service import voters_apart
from privpac.guarantee import Neighbours

__all__ = ["fresh_records", "improper_objective"]

_ROOM = 1e-3
"""Costs are judged this share larger in K than aimed at."""


def fresh_records(
    t: int, K: float, inner: float, failure: float, delta: float, log_growth: LogGrowth, share: float
) -> float:
    """``z``: how often g differs from a rule of the class that agrees with half of the labels, on fresh records, but
    for ``share``; ``inner`` is ``alpha_A`` and ``failure`` is ``b_A``."""
    half = t // 2
    if half < 1:
        return math.inf
    seen = inner + failure + (log_growth(t) / math.log(2) + 2) / half
    return (K * seen + delta) / share * (1 + SLACK)


def improper_objective(
    *,
    beta: float,
    log_growth: LogGrowth,
    inner_error: InnerError,
    neighbours: Neighbours,
    levels: int | None = None,
    inner_delta: float = 0.0,
    labellings: int = 2,
) -> Callable[[Fraction], Objective]:
    """The promised excess of a matrix of candidates, as ``excess_objective`` for proper learners.

    Half of ``beta`` for the events of the relabelling, an eighth for V, a quarter for Markov's inequality, an eighth
    for the sizes under add-remove; ``b_A`` is ``1/t``.
    """
    rounding = 0.0 if levels is None else 1 / levels
    poisson = neighbours is Neighbours.ADD_REMOVE

    def of(eps_a: Fraction) -> Objective:
        spent = float(eps_a) * (2 if poisson else 1)
        leak = inner_delta * (1 + math.exp(float(eps_a)) if poisson else 1.0)

        def row(t: int, w: int) -> tuple[float, ...]:
            if poisson:
                t, w = at_least(t, beta / 16), at_least(w, beta / 16)
            if t < 4 or w < 1:
                return (math.inf, math.inf, math.inf, math.inf, 1.0, 1.0)
            inside = inner_error(t, float(eps_a), 1 / t)
            again = fresh_records(t, 1.0, inside, 1 / t, 0.0, log_growth, beta / 4)
            apart = voters_apart(-(-t // 2), 1, beta / 8, log_growth)
            size, square, convergence = by_size(t, w, beta / 8, log_growth)
            return (size, square, convergence + apart, again, float(t), float(w))

        def value(t: NDArray[np.int64], w: NDArray[np.int64], a: Any, b: Any) -> Any:
            rows = np.array([row(int(x), int(y)) for x, y in zip(t, w)])
            size, square, fixed, again, part, rest = rows.T[:, :, None]
            with np.errstate(over="ignore"):
                k = labellings**2 * np.exp(2 * np.asarray(a) * (1 + _ROOM) + spent)
            far = again * k + 4 * leak / beta
            noise = size / (b * rest) + relative(size / (a * part), square)
            return (fixed + noise + far + rounding) * (1 + SLACK)

        return value

    return of
