"""Clipped histograms: mass functions on many values, in time linear in the data.

*One stage.*  Noisy counts of at most ``M`` records per user, cut off at 0 and normalised.

*Two stages.*  The first gives ``phat``; the second estimates how far each user's counts are from ``m_i phat``,
coordinate by coordinate, cut off at ``tau_j`` (the size a user's own luck can have):

    A: C_j = sum_i c_ij;  Chat_j = C_j + DLap(f M / eps_A);  Nhat = max(1, sum_j max(Chat_j, 0));  phat_j = max(Chat_j,
    0) / Nhat B: a_j = floor(A0 phat_j), A0 = 2^16;  tau_j as below;  R_j = ceil(sqrt tau_j);  b_j = ceil(f (sum R) R_j
    / eps_B)
       G_j = sum_i clip(A0 c_ij - m_i a_j, -tau_j, tau_j) + DLap(b_j);   p_j = a_j / A0 + G_j / (A0 Nhat), cut off at 0,
       normalised

**Guarantee.**  ``eps_A + eps_B`` per user, with ``f = 1`` under add-remove and 2 under replace.  A: one user's counts
have L1 norm at most M, two users' differ by at most 2 M.  B: coordinate j moves by at most ``f tau_j``, so the loss is
at most ``sum f tau_j / b_j <= eps_B sum tau_j / (R_j sum R) <= eps_B`` because ``tau_j <= R_j^2``; its parameters are
functions of A's *output*, so adaptive composition applies.  Several columns share the budget equally (basic
composition).

**Accuracy.**  Privacy costs about ``k / (eps n)`` in total variation with one stage, ``k^1.5 / (eps n sqrt M)`` with
two: a factor ``min(sqrt k, sqrt m)`` above the best known inefficient method.  Two stages pay off when ``M >= 16 k ln
200``, the public rule of ``stages="auto"``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.data import UserData
from privpac.data.jit import jit
from privpac.distributions.base import Sum
from privpac.distributions.cells import Partition
from privpac.distributions.masses import ColumnMasses, published
from privpac.errors import ParameterError
from privpac.exact import root_up
from privpac.guarantee import Guarantee
from privpac.mechanisms.laplace import discrete_laplace
from privpac.parameters import named, probability

if TYPE_CHECKING:
    from privpac.data import Users
    from privpac.rng import Rng

__all__ = ["ClippedHistogram", "clipped_deviations", "deviation_scales"]

Ints = NDArray[np.int64]
A0 = 1 << 16
"""Units of a mass in the second stage."""

LUCK = math.log(200)


@jit
def _deviations(offsets: Ints, cells: Ints, scaled: Ints, clip: Ints, a0: int) -> tuple[Ints, Ints]:
    """Corrections for the cells a user has records in, over what ``c = 0`` would give; and how many users have m
    records."""
    out, count = np.zeros(scaled.size, np.int64), np.zeros(scaled.size, np.int64)
    most = 0
    for user in range(offsets.size - 1):
        most = max(most, offsets[user + 1] - offsets[user])
    users = np.zeros(most + 1, np.int64)
    for user in range(offsets.size - 1):
        first, last = offsets[user], offsets[user + 1]
        m = last - first
        users[m] += 1
        for i in range(first, last):
            count[cells[i]] += 1
        for i in range(first, last):
            j = cells[i]
            if count[j] > 0:
                value = a0 * count[j] - m * scaled[j]
                out[j] += min(max(value, -clip[j]), clip[j]) + min(m * scaled[j], clip[j])
                count[j] = 0
    return out, users


def clipped_deviations(users: UserData, cells: Partition, scaled: Ints, clip: Ints, a0: int = A0) -> Ints:
    """``sum_i clip(a0 c_ij - m_i a_j, -tau_j, tau_j)`` for every cell."""
    out, sizes = _deviations(users.offsets, cells.index(users), scaled, clip, a0)
    for m in np.flatnonzero(sizes[1:]) + 1:
        out -= sizes[m] * np.minimum(m * scaled, clip)
    return out


def deviation_scales(clip: Ints, factor: int, epsilon: Fraction) -> list[int]:
    """The noise scales ``b_j`` of the second stage."""
    roots = [root_up(t) for t in clip.tolist()]
    total = sum(roots)
    return [math.ceil(factor * total * root / epsilon) for root in roots]


@frozen(slots=False, field_transformer=named)
class ClippedHistogram(ColumnMasses):
    """A mass function (or histogram, with ``bins``) for each column.

    ``max_records`` is the public cap M on a user's records.  Values outside the outermost ``bins`` edges fall into the
    end bins.

    Parameters
    ----------
    stages : {"auto", 1, 2}
        In how many steps a column is released (public).
    first_share : number
        The first step's part of epsilon (public); default 1/2.

    >>> from privpac.data import Integers
    >>> learner = ClippedHistogram(1, max_records=4)
    >>> str(learner.guarantee), learner.stages_for(1000)
    ('(1, 0)-DP per user, add-remove', 1)
    """

    stages: int | str = field(default="auto", kw_only=True)
    first_share: Fraction = field(default=Fraction(1, 2), kw_only=True, converter=probability)

    named: ClassVar[str] = "clipped histogram"

    def __attrs_post_init__(self) -> None:
        if self.cap is None:
            raise ParameterError(
                "max_records must be declared: it is the public bound on a user's influence on the counts; "
                "an AveragedHistogram (method='average') needs none"
            )
        if self.stages not in (1, 2, "auto") or isinstance(self.stages, bool):
            raise ParameterError(f"stages must be 1, 2 or 'auto', got {str(self.stages)[:20]!r}")

    @property
    def guarantee(self) -> Guarantee:
        how = (
            "noisy counts, then clipped deviations from them where two stages are used; columns share the budget "
            "equally",
        )
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, derivation=how)

    def stages_for(self, cells: int) -> int:
        """One or two stages for so many values: the public rule."""
        if self.stages != "auto":
            return int(self.stages)
        assert self.cap is not None
        return 2 if self.cap >= 16 * cells * LUCK else 1

    def _public(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        stages = {name: self.stages_for(size) for name, size in sizes.items()}
        return {"max_records": self.cap, "stages": next(iter(stages.values())) if len(stages) == 1 else stages}

    def _weights(self, users: Users, cells: Partition, epsilon: Fraction, rng: Rng) -> tuple[int, ...]:
        two = self.stages_for(cells.size) == 2
        first = epsilon * self.first_share if two else epsilon
        kept = self._counts(users, cells, first, rng)
        if not two:
            return published(kept)
        total = max(1, sum(kept))
        scaled = np.array([A0 * count // total for count in kept], dtype=np.int64)
        clip = self.clips(kept, total, first)
        sums = users.fold(Sum((cells.size,), lambda part: clipped_deviations(part, cells, scaled, clip)))
        scales = deviation_scales(clip, self.factor, epsilon - first)
        noisy = [value + discrete_laplace(Fraction(1, scale), rng) for value, scale in zip(sums.tolist(), scales)]
        return published([max(0, a * total + g) for a, g in zip(scaled.tolist(), noisy)])

    def _counts(self, users: Users, cells: Partition, epsilon: Fraction, rng: Rng) -> list[int]:
        """Noisy counts, cut off at 0."""
        assert self.cap is not None
        true = users.fold(
            Sum((cells.size,), lambda part: np.bincount(cells.index(part), minlength=cells.size).astype(np.int64))
        )
        eta = epsilon / (self.factor * self.cap)
        return [max(0, count + discrete_laplace(eta, rng)) for count in true.tolist()]

    def clips(self, kept: list[int], total: int, epsilon: Fraction) -> Ints:
        """``tau_j = ceil(A0 (sqrt(2 M (phat_j + dl) l) + l/3 + M dl))`` from the first stage's output; any would be
        private."""
        assert self.cap is not None
        m = float(self.cap)
        # Beyond 2**40 every clip is at its limit; as a rational nothing overflows, whatever epsilon is.
        dl = float(min(Fraction(2 * self.factor * self.cap) / (epsilon * total), Fraction(1 << 40)))
        likely = np.array([count / total for count in kept])
        spread = np.sqrt(2 * m * (likely + dl) * LUCK) + LUCK / 3 + m * dl
        # |A0 c - m a| never exceeds A0 M, so a larger clip would only add noise.
        return np.asarray(np.ceil(np.clip(A0 * spread, 1.0, A0 * m)).astype(np.int64))
