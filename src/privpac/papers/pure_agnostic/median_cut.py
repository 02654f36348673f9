"""A private middle of an interval of cuts, as seen by most users.

Among the cuts ``u`` in ``l..r`` choose one with few users on either side: ``L(u)`` counts users with more than ``s(m)``
records strictly between ``l`` and ``u``, ``R(u)`` users with more than ``s(m)`` records strictly between ``u`` and
``r``, and the score is ``max(L, R)``.  ``s`` separates a share of ``level/2`` of the records from one of ``theta *
level`` best.  If at most ``level`` of the mass lies in ``(l, r]``, then with enough users at most ``theta * level`` is
left on either side of the chosen cut (Li, Wang and Ye, *Improved Bounds*, Lemma 5.1).  Labels are not read.

``region="disagreement"`` counts the points on which two cuts of a remaining interval can differ; ``"closed"`` is the
paper's ``[l, u-1]`` and ``[u+1, r]``.

**Guarantee.**  ``(epsilon, 0)`` per user: each user adds 0 or 1 to ``L`` and to ``R`` at every cut, hence at most 1 to
their maximum (range rule).  ``s`` is a public function of the number of records.

Kernel: from a user's sorted records two places say all: where the user joins ``L`` and where the user leaves ``R``. O(n
log m + n log n) for n users on any domain; places are kept relative to ``l + 1`` so that 2**64 + 1 cuts fit in 64 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privpac.binomial import MAX_RECORDS, cross
from privpac.data.jit import jit
from privpac.data.threads import spread, user_spans
from privpac.errors import ParameterError
from privpac.guarantee import positive_int
from privpac.law import Law
from privpac.methods.base import Bound, Selection
from privpac.parameters import bounds, fraction, named, one_word_of, whole, whole_or_none
from privpac.result import Released
from privpac.rng import Rng
from privpac.rules.base import ConceptClass
from privpac.rules.kernels.cuts import sort_within_users
from privpac.rules.profile import Profile, Step

if TYPE_CHECKING:
    from privpac.data import UserData, Users

__all__ = ["REGIONS", "MedianKernel", "PrivateMedian", "median_tolerance", "require_cuts", "require_direction"]

REGIONS = ("disagreement", "closed")
Codes = NDArray[np.uint64]


@lru_cache(maxsize=1 << 16)
def median_tolerance(m: int, level: Fraction, theta: Fraction) -> int:
    """``s(m)``: records of a user that may lie on one side for free."""
    if m > MAX_RECORDS:
        # No data-dependent refusal: beyond the search limit the same share of the records is forgiven.
        return cross(MAX_RECORDS, level / 2, theta * level) * m // MAX_RECORDS
    return cross(m, level / 2, theta * level)


def require_cuts(concept: Any) -> str:
    """The direction of the cuts of one column; another class of rules is a wrong parameter, anything else a wrong
    type."""
    found = concept.cut_direction if isinstance(concept, ConceptClass) else None
    if found is None:
        kind = ParameterError if isinstance(concept, ConceptClass) else TypeError
        raise kind(
            f"concept must be Thresholds (cut-offs of one column), got {type(concept).__name__}; use another learner "
            "for it"
        )
    return found


def require_direction(concept: Any) -> None:
    """Medians and searches run over the cuts of one direction."""
    if require_cuts(concept) == "both":
        raise ParameterError("cuts in both directions have no middle; choose direction='above' or 'below'")


# Places where users join L and leave R


@jit
def _first_at_least(key: Any, a: int, b: int, code: Any) -> int:
    while a < b:
        middle = (a + b) // 2
        if key[middle] < code:
            a = middle + 1
        else:
            b = middle
    return a


@jit
def _places(
    key: Any,
    offsets: Any,
    start: int,
    stop: int,
    s: Any,
    low: Any,
    first: Any,
    last: Any,
    closed: bool,
    rise: Any,
    drop: Any,
) -> Any:
    """Rises and drops relative to the cut ``low + 1``; returns how many of each were written at ``start`` on.

    ``first`` is the least code that counts on the left, ``last = r - 1`` the greatest on the right.
    """
    rises, drops = start, start
    one = np.uint64(1)
    for u in range(start, stop):
        a, b = offsets[u], offsets[u + 1]
        at = _first_at_least(key, a, b, first) + s[u]
        # More than s records up to key[at]: counted for cuts >= key[at] + 2, if such a cut is <= r.
        if at < b and key[at] < last:
            rise[rises] = key[at] + one - low
            rises += 1
        end = b if last == ~np.uint64(0) else _first_at_least(key, a, b, last + one)
        at = end - 1 - s[u]
        # More than s records from key[at] on: counted for cuts < key[at] (closed: <= key[at]).
        if at >= a:
            if closed and key[at] >= low:
                drop[drops] = key[at] - low
                drops += 1
            elif not closed and key[at] > low:
                drop[drops] = key[at] - low - one
                drops += 1
    return rises, drops


@jit
def _merge(rise: Any, drop: Any, place: Any, score: Any) -> int:
    """Steps of ``max(L, R)`` over sorted rises and drops, from place 0 on; later only changes are written."""
    i, j, n = 0, 0, 0
    shown = len(drop)
    if (len(rise) == 0 or rise[0] > 0) and (len(drop) == 0 or drop[0] > 0):
        place[0], score[0] = 0, shown
        n = 1
    while i < len(rise) or j < len(drop):
        at = rise[i] if j == len(drop) or (i < len(rise) and rise[i] < drop[j]) else drop[j]
        while i < len(rise) and rise[i] == at:
            i += 1
        while j < len(drop) and drop[j] == at:
            j += 1
        now = max(i, len(drop) - j)
        if now != shown or n == 0:
            place[n], score[n] = at, now
            shown = now
            n += 1
    return n


class MedianPlaces(NamedTuple):
    """Places of all users so far, in any order."""

    rise: Codes
    drop: Codes


@dataclass(frozen=True)
class MedianKernel:
    """Collects the places of users for one interval of cuts ``lower..upper``, ``lower < upper``."""

    column: str
    lower: int
    upper: int
    level: Fraction
    theta: Fraction
    region: str
    presorted: bool = False

    def zero(self) -> MedianPlaces:
        return MedianPlaces(np.empty(0, np.uint64), np.empty(0, np.uint64))

    def chunk(self, users: UserData) -> MedianPlaces:
        key, offsets = users.codes[self.column], users.offsets
        if not self.presorted:
            key, _ = sort_within_users(key, np.zeros(len(key), np.uint8), offsets)
        distinct, place = np.unique(users.sizes, return_inverse=True)
        s = np.array([median_tolerance(m, self.level, self.theta) for m in distinct.tolist()], dtype=np.int64)[place]
        closed = self.region == "closed"
        first = max(self.lower, 1) - 1 if closed else self.lower
        ends = np.uint64(self.lower), np.uint64(first), np.uint64(self.upper - 1)
        rise, drop = np.empty(users.n_users, np.uint64), np.empty(users.n_users, np.uint64)
        spans = user_spans(offsets)
        found = spread(lambda a, b: _places(key, offsets, a, b, s, *ends, closed, rise, drop), spans)
        if not spans:
            return self.zero()
        rises = [rise[a:i] for (a, _), (i, _) in zip(spans, found)]
        drops = [drop[a:j] for (a, _), (_, j) in zip(spans, found)]
        return MedianPlaces(np.concatenate(rises), np.concatenate(drops))

    def merge(self, a: MedianPlaces, b: MedianPlaces) -> MedianPlaces:
        return MedianPlaces(np.concatenate([a.rise, b.rise]), np.concatenate([a.drop, b.drop]))

    def profile(self, places: MedianPlaces) -> Profile:
        """Scores of the cuts ``lower..upper``."""
        rise, drop = np.sort(places.rise), np.sort(places.drop)
        at, score = np.empty(len(rise) + len(drop) + 1, np.uint64), np.empty(len(rise) + len(drop) + 1, np.int64)
        n = _merge(rise, drop, at, score)
        # No one is left of the first cut, and everyone who ever leaves R is right of it.
        start = Step(self.lower, np.zeros(1, np.uint64), 0, np.array([len(drop)], dtype=np.int64))
        return Profile((start, Step(self.lower + 1, at[:n], self.upper - self.lower - 1, score[:n])))


@frozen(slots=False, field_transformer=named)
class PrivateMedian(Selection):
    """A cut in ``lower..upper`` (by default all cuts) with few users' records on either side.

    Parameters
    ----------
    lower, upper : int, optional
        The cuts to choose from (public); default: all.
    level, theta : number
        The share of the records that is left, and how much of it a side may hold (public).
    region : str
        Which records count (public).

    >>> from privpac.data import Integers, UserData
    >>> people = UserData.from_users([[(2, 0), (3, 1)], [(3, 0), (4, 1)], [(3, 1)]], features={"x": Integers(0, 9)})
    >>> from privpac.rules import Thresholds
    >>> PrivateMedian(Thresholds(), epsilon=8).law(people).mode
    3
    """

    lower: int = field(default=0, converter=whole, metadata=bounds(minimum=0))
    upper: int | None = field(default=None, converter=whole_or_none, metadata=bounds(minimum=0))
    level: Fraction = field(default=Fraction(1), converter=fraction, metadata=bounds(above=0, maximum=1))
    theta: Fraction = field(default=Fraction(2, 3), converter=fraction, metadata=bounds(above=Fraction(1, 2), below=1))
    region: str = field(default="disagreement", validator=one_word_of(REGIONS))

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        require_direction(self.concept)
        if self.upper is not None:
            positive_int(self.upper, "upper", minimum=self.lower)

    def tolerance(self, m: int) -> int:
        """Records of a user with ``m`` records that may lie on one side for free (public)."""
        return median_tolerance(positive_int(m, "m", minimum=0), self.level, self.theta)

    def bind(self, data: Users) -> Bound:
        bound = super().bind(data)
        top = bound.concept.size - 1
        if self.lower > top or (self.upper is not None and self.upper > top):
            raise ParameterError(f"lower and upper are cuts 0..{top} of the domain, got {self.lower} and {self.upper}")
        return bound

    def profile(self, data: Users) -> Profile:
        """Scores of the cuts (private: for the curator and for audits)."""
        return self._profile(self.bind(data))

    def _profile(self, bound: Bound) -> Profile:
        upper = bound.concept.size - 1 if self.upper is None else self.upper
        if self.lower == upper:
            return Profile((Step(upper, np.zeros(1, np.uint64), 0, np.zeros(1, np.int64)),))
        (column,) = bound.concept.declared()
        assert column is not None
        kernel = MedianKernel(column, self.lower, upper, self.level, self.theta, self.region)
        return kernel.profile(bound.users.fold(kernel))

    def law(self, data: Users) -> Law:
        """The law over cuts."""
        return self._law(self.bind(data))

    def _law(self, bound: Bound) -> Law:
        return self._profile(bound).law(self.rate(self.epsilon, 1))

    def draw(self, bound: Bound, rng: Rng) -> Released:
        return self.release_rule(
            bound, self._law(bound), rng, {"level": self.level, "region": self.region}, "private median"
        )
