"""How the tree learner divides epsilon, delta and its ranks: from public numbers only.

``Split.of`` fills in what was left out so that, with enough users, the depth misses its ranks with probability at most
``beta/3`` and ``hi`` votes are not followed with probability at most ``beta/3``; ``epsilon1`` is the multiple of
``epsilon/20`` with the least ``K``.

Selectors of the depth:

* ``exponential``: the rank law, pure; about ``(4/epsilon) ln(height)`` ranks.
* ``interior``, ``prefix``: an interior point of the window of ranks ``hi..K+1``, by hidden walks or by random pairs
  (:class:`~privpac.mechanisms.interior_point.InteriorPoint`); one replaced, added or removed part replaces one element
  of the window.  They take a share of delta and need fewer ranks on trees of more than about 2**140 levels.
* ``auto``: the one with fewer ranks, ties to the rank law.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction

from attrs import field, frozen

from privpac.bounds.trees.learner import TreeBudget
from privpac.errors import AccuracyWarning, InfeasibleError, ParameterError
from privpac.mechanisms.interior_point import InteriorPoint
from privpac.mechanisms.rank import positive_base
from privpac.parameters import bounds, fraction_or_none, named, one_word_of, whole_or_none

__all__ = ["SELECTORS", "Ranks", "Split"]

SELECTORS = ("auto", "exponential", "interior", "prefix")
_GRID = 20
_LONG = 100
"""Heights of at most this many bits are always searched by the rank law in ``auto``."""


@frozen(slots=False, field_transformer=named)
class Ranks:
    """How a depth is chosen.  All public; what is left out follows from public numbers.

    Parameters
    ----------
    selector : {"auto", "exponential", "interior", "prefix"}
        The mechanism; ``"auto"`` takes the one with fewer ranks.
    epsilon1 : number, optional
        What the depth spends; the votes for a node get the rest.
    hi, K : int, optional
        The depth lies between those of the ``hi``-th and the ``K + 1``-st deepest node.
    """

    selector: str = field(default="auto", validator=one_word_of(SELECTORS))
    epsilon1: Fraction | None = field(default=None, converter=fraction_or_none, metadata=bounds(above=0))
    hi: int | None = field(default=None, converter=whole_or_none)
    K: int | None = field(default=None, converter=whole_or_none, metadata=bounds(minimum=0))

    @property
    def given(self) -> bool:
        """Whether a rank is set."""
        return self.hi is not None or self.K is not None


@dataclass(frozen=True)
class Split:
    """What each draw spends, and the ranks."""

    selector: str
    epsilon1: Fraction
    epsilon2: Fraction
    delta1: Fraction
    delta2: Fraction
    hi: int
    K: int
    point: InteriorPoint | None

    @property
    def delta(self) -> Fraction:
        return self.delta1 + self.delta2

    @staticmethod
    def of(
        height: int,
        width: int | None,
        epsilon: Fraction,
        delta: Fraction,
        beta: Fraction,
        selector: str,
        *,
        one_way: bool,
        epsilon1: Fraction | None,
        hi: int | None,
        K: int | None,
    ) -> Split:
        if height == 0:
            return Split("exponential", Fraction(0), Fraction(0), Fraction(0), Fraction(0), 1, 0, None)
        ask = _SplitQuestion(height, width, epsilon, delta, beta, one_way, hi, K)
        if hi is not None and K is not None and hi > K + 1:
            raise ParameterError(f"hi must be at most K + 1, got hi = {hi} and K = {K}")
        if width != 1 and epsilon1 is not None and epsilon1 >= epsilon:
            raise ParameterError("epsilon1 must leave something for the votes: it must be below epsilon")
        plain = ask.exponential(epsilon1) if selector in ("auto", "exponential") else None
        if selector == "exponential" or (selector == "auto" and (delta == 0 or height.bit_length() <= _LONG)):
            assert plain is not None
            return plain
        if selector != "auto":
            return ask.windowed(selector, epsilon1)
        assert plain is not None
        short = ask.windowed("interior", epsilon1)
        return short if short.K + 2 - short.hi < plain.K + 2 - plain.hi else plain


@dataclass(frozen=True)
class _SplitQuestion:
    height: int
    width: int | None
    epsilon: Fraction
    delta: Fraction
    beta: Fraction
    one_way: bool
    hi: int | None
    K: int | None

    def _budget(self, epsilon1: Fraction, delta2: Fraction) -> TreeBudget:
        epsilon2 = Fraction(0) if self.width == 1 else self.epsilon - epsilon1
        positive_base(epsilon1 / 2, "epsilon1")
        if self.width != 1:
            positive_base(epsilon2 / (1 if self.one_way else 2), "epsilon2 (what is left of epsilon)")
        return TreeBudget(self.height, self.width, epsilon1, epsilon2, delta2, self.one_way)

    def _votes(self, budget: TreeBudget) -> int:
        return budget.votes(float(self.beta) / 3) if self.hi is None else self.hi

    def exponential(self, epsilon1: Fraction | None) -> Split:
        """The rank law, with the share of epsilon that needs the smallest ``K``."""
        delta2 = Fraction(0) if self.width == 1 else self.delta
        if self.width == 1:
            shares = [self.epsilon if epsilon1 is None else epsilon1]
        else:
            shares = [self.epsilon * i / _GRID for i in range(1, _GRID)] if epsilon1 is None else [epsilon1]
        found: list[Split] = []
        for share in shares:
            try:
                budget = self._budget(share, delta2)
            except ParameterError:
                if len(shares) == 1:
                    raise
                continue
            hi = self._votes(budget)
            if self.K is not None:
                hi = min(hi, self.K + 1)
            K = 2 * budget.steps(float(self.beta) / 3) + hi - 1 if self.K is None else self.K
            spent = (share, Fraction(0) if self.width == 1 else self.epsilon - share)
            found.append(Split("exponential", *spent, Fraction(0), delta2, hi, K, None))
        if not found:
            raise InfeasibleError(
                "epsilon is too small, or delta too large for it, however it is split; use a larger epsilon, a smaller "
                "delta"
            )
        # With given ranks every share has the same K, and the even split is taken.
        return min(found, key=lambda split: (split.K, abs(2 * split.epsilon1 - self.epsilon)))

    def windowed(self, selector: str, epsilon1: Fraction | None) -> Split:
        """An interior point of the window of ranks; half of epsilon and delta for it, all where naming a depth names
        the node."""
        share = epsilon1 if epsilon1 is not None else self.epsilon if self.width == 1 else self.epsilon / 2
        delta1 = self.delta if self.width == 1 else self.delta / 2
        delta2 = self.delta - delta1
        hi = self._votes(self._budget(share, delta2))
        size = None if self.K is None else self.K + 2 - hi
        if size is not None and size < 1:
            raise ParameterError(f"K must be at least hi - 1 = {hi - 1}, got {self.K}")
        engine, levels = "pairs" if selector == "prefix" else "walk", 1 if self.delta > 0 else 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)  # said by the learner, for the number of users
            point = InteriorPoint(
                share, delta1, top=self.height, beta=self.beta / 3, size=size, levels=levels, engine=engine, hi=hi
            )
        spent = (share, Fraction(0) if self.width == 1 else self.epsilon - share)
        return Split(selector, *spent, delta1, delta2, hi, hi + point.size - 2, point)
