"""Private order statistics: a point of an ordered domain of any size whose rank lies between two public ones.

For values ``y`` in ``0..d`` and public ranks ``1 <= hi <= K + 1`` the score of a point ``z`` is ``u(z) = min(#{y >= z}
- hi, K - #{y > z})``, non-negative iff ``z`` lies between the (K+1)-th and the hi-th largest value, and ``Pr[z]`` is
proportional to ``r**u(z)``.

**Guarantee.** With ``r = base(epsilon/2)`` the law is ``(epsilon, 0)``-DP for replacing one value **and** for adding or
removing one: each count moves by at most 1, so ``|u - u'| <= 1`` everywhere and a probability changes by at most
``r**2``.  ``hi`` and ``K`` are constants, not shares of the number of values, which therefore stays private.

**Accuracy.** With ``opt = floor((K + 1 - hi)/2)`` and at least ``opt + hi`` values some ``z`` has ``u >= opt``, so
``Pr[u(z) < 0] <= d r**-(opt + 1)``.

Scores change only at a value or right after it: at most ``2t + 1`` blocks for ``t`` values, whether ``d`` is 2**64 or
2**1000.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from attrs import field, frozen

from privpac.arrays import Array
from privpac.errors import ParameterError
from privpac.exact import Rational, dyadic_base, rational
from privpac.guarantee import Guarantee, positive_int
from privpac.law.blocks import BlockLaw, Law
from privpac.mechanisms.exponential import Protected
from privpac.parameters import bounds, named, privacy, whole
from privpac.rng import Rng


def clipped(values: object, top: int) -> list[int]:
    """Values as Python ints, each moved into ``0..top`` looking at nothing but itself."""
    if hasattr(values, "__array__") and not isinstance(values, np.generic):
        array = np.asarray(values)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iuO"):
            raise TypeError(
                f"values must be a one-dimensional array of integers, got {array.dtype} of shape {array.shape}"
            )
        values = array.tolist()
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)):
        raise TypeError(f"values must be a list, tuple or array of integers, got {type(values).__name__}")
    return [min(max(v if type(v) is int else _integer(v), 0), top) for v in values]


def _integer(value: object) -> int:
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(
            f"values must be integers, found {type(value).__name__}; map other types to integer codes of a public "
            "domain first"
        )
    return int(value.__index__())


def positive_base(exponent: Fraction, name: str) -> Fraction:
    """``base(exponent)``; refused where rounding down leaves 1, a law that ignores the data."""
    base = dyadic_base(exponent)
    if base == 1:
        raise ParameterError(
            f"{name} is too small: its base rounds down to 1, so the data would have no influence; use at least 1e-8"
        )
    return base


def rank_window(values: object, hi: int, K: int, d: int) -> list[int]:
    """The values of ranks ``hi..K+1``, largest first, padded with 0: always ``K + 2 - hi`` of them.

    Adding, removing or replacing one value replaces at most one element: ``#{window >= z}`` is ``#{y >= z} - (hi - 1)``
    cut to ``0..K+2-hi``, and ``#{y >= z}`` moves by one, in one direction, on one interval of ``z``.

    >>> rank_window([3, 4, 2], 3, 5, 6)
    [2, 0, 0, 0]
    """
    first, last, top = _ranks(hi, K, d)
    held = sorted(clipped(values, top), reverse=True)[first - 1 : last + 1]
    return held + [0] * (last + 2 - first - len(held))


def _ranks(hi: int, K: int, d: int) -> tuple[int, int, int]:
    first = positive_int(hi, "hi")
    return first, positive_int(K, "K", minimum=first - 1), positive_int(d, "d", minimum=0)


def rank_law(values: object, hi: int, K: int, d: int, base: Rational) -> BlockLaw:
    """The law over ``0..d``, weights ``base**u``; scores of the law are ``-u`` (minimised), so all probabilities are
    rational.

    >>> law = rank_law([1, 0, 0, 0, 0, 1], 2, 1, 1, "363/256")
    >>> law.prob_exact(0), law.prob_exact(1)
    (Fraction(256, 619), Fraction(363, 619))
    """
    first, last, top = _ranks(hi, K, d)
    r = rational(base, "base", minimum=1)
    kind: type = np.uint64 if top < 1 << 64 else object
    y = np.sort(_ints(clipped(values, top), kind))
    one = np.uint64(1) if kind is not object else 1
    # A score can change only at a value and right behind it.
    starts = np.unique(np.concatenate([_ints([0], kind), y, y[y < _ints([top], kind)[0]] + one]))
    at_least = len(y) - np.searchsorted(y, starts, side="left")
    above = len(y) - np.searchsorted(y, starts, side="right")
    score = -np.minimum(at_least - first, last - above)
    ends = np.concatenate([starts[1:] - one, _ints([top], kind)])
    law = Law.from_blocks(starts, ends, score, base=r, domain=(0, top))
    assert isinstance(law, BlockLaw)
    return law


def _ints(values: list[int], kind: type) -> Array:
    """An array; object arrays are filled, not parsed, so that integers of any size stay Python ints."""
    out: Array = np.empty(len(values), dtype=kind)
    out[:] = values
    return out


@frozen(slots=False, field_transformer=named)
class RankMechanism(Protected):
    """A private order statistic: a point between the (K+1)-th and the hi-th largest of any number of values in
    ``0..d``.

    >>> median = RankMechanism(1, hi=40, K=60, d=2**64 - 1, unit="user", neighbours="add-remove")
    >>> str(median.guarantee), median.base == dyadic_base("1/2"), median.opt
    ('(1, 0)-DP per user, add-remove', True, 10)

    ====================  ==================================================
    no values             every count is 0: the uniform law, no error
    values outside 0..d   moved to the nearest end, one by one
    ``d = 0``             the constant 0
    ====================  ==================================================
    """

    epsilon: Fraction = field(converter=privacy)
    hi: int = field(kw_only=True, converter=whole)
    K: int = field(kw_only=True, converter=whole, metadata=bounds(minimum=0))
    d: int = field(kw_only=True, repr=False, converter=whole, metadata=bounds(minimum=0))

    def __attrs_post_init__(self) -> None:
        _ranks(self.hi, self.K, self.d)
        positive_base(self.epsilon / 2, "epsilon")

    @property
    def base(self) -> Fraction:
        """``r``: scores move by at most 1 in both directions, so half of epsilon for each unit of score."""
        return dyadic_base(self.epsilon / 2)

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, unit=self.unit, neighbours=self.neighbours, rho=self.epsilon**2 / 8)

    @property
    def opt(self) -> int:
        """The score that some point reaches once there are ``opt + hi`` values."""
        return (self.K + 1 - self.hi) // 2

    def law(self, values: object) -> BlockLaw:
        return rank_law(values, self.hi, self.K, self.d, self.base)

    def sample(self, values: object, rng: Rng | None = None) -> int:
        """One exact draw from :meth:`law`."""
        return int(self.law(values).sample(rng))
