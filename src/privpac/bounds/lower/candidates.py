"""Users below which no private selection among ``k`` candidate distributions can be right for all of them.

Candidates pairwise just over ``alpha`` apart leave one right answer each, so the packing and Fano bounds of
:mod:`privpac.bounds.lower.general` apply to any method that names one of the candidates.

* *Spikes*: a share ``alpha`` of the records names the candidate, the rest is the same for all.  Two users' records
  differ with probability at most ``1 - (1 - alpha)**m``.
* *Tilts*: ``N`` pairs of values, each tilted by a bias ``a`` one way or the other along a binary code of ``k`` words at
  distance ``dmin`` or more; distances are at least ``a dmin/N``, the divergence per record at most ``a ln((1 + a)/(1 -
  a))``.  Two candidates need no code.
"""

from __future__ import annotations

import math

from privpac.bounds.certificate import Certificate
from privpac.bounds.lower.general import STRICT, gilbert_varshamov, lower_fano, lower_packing, lower_two_points, tilted
from privpac.exact import Rational, rational
from privpac.guarantee import Neighbours, positive_int

__all__ = ["lower_selection"]

_MAX_CODE = 256


def lower_selection(
    candidates: int,
    *,
    alpha: Rational,
    epsilon: Rational,
    records_per_user: int,
    success: Rational = "2/3",
    neighbours: Neighbours | str = Neighbours.REPLACE,
) -> Certificate:
    """The largest of the bounds for the worst ``candidates``, one of which is the truth.

    >>> lower_selection(1000, alpha="0.05", epsilon=1, records_per_user=4, success="0.95").n_users
    83
    """
    k, m, apart = (
        positive_int(candidates, "candidates"),
        positive_int(records_per_user, "records_per_user"),
        float(rational(alpha, "alpha", minimum="1e-40", below=1)) * STRICT,
    )
    private = {"epsilon": epsilon, "success": success, "neighbours": neighbours}
    users: list[int | None] = [0]
    if k > 1 and apart < 1:
        users.append(lower_packing(k, -math.expm1(m * math.log1p(-apart)), **private).n_users)  # type: ignore[arg-type]
        users.append(lower_two_points(tilted(apart, 1)[1], records_per_user=m, success=success).n_users)
        bias = apart * _stretch(k)
        if bias < 1:
            users.append(lower_fano(k, tilted(bias, 1)[1], records_per_user=m, success=success).n_users)
            users.append(lower_packing(k, tilted(bias, m)[0], **private).n_users)  # type: ignore[arg-type]
    return Certificate.lower(
        max(n for n in users if n is not None), "selection", f"the worst {k} candidates", records_per_user=m
    )


def _stretch(k: int) -> float:
    """``N/dmin`` of a code of ``k`` words, of the length that is twice what counting needs; infinite where none is
    tried."""
    length = 2 * math.ceil(math.log2(k))
    if length > _MAX_CODE:
        return math.inf
    distance = max((d for d in range(1, length + 1) if gilbert_varshamov(length, d) >= k), default=0)
    return length / distance if distance else math.inf
