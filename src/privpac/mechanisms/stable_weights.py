"""Noisy weights of items that nobody can list: only items that somebody holds are touched, and few people's never show.

Every person adds positive integers to at most ``values`` items of any universe, ``levels`` in all.  An item of weight
``s > 0`` gets discrete Laplace noise ``Z`` of rate ``eta = epsilon/(f levels)`` (``f`` = 1 under add-remove, 2 under
replace) and is shown with ``s + Z`` if that is at least ``threshold``; items that nobody holds get none.

**Guarantee.**  ``(epsilon, delta)``. With ``x = e**-eta`` and ``threshold > levels``, an item that one person alone
holds, with weight ``v``, is shown with probability ``p(v) = x**(threshold - v)/(1 + x)``. Take neighbours P and Q.
*Items held in both* move by the person's weights, and showing is post-processing: their loss is ``eta`` per unit.
*Items of P alone*: not shown, they are likelier under Q; shown, they are impossible there, and that any of them is
shown has probability ``1 - prod (1 - p(v_j))``: all of delta is this event. *Items of Q alone* are not shown under P,
so under Q they must be missing: their loss is ``-ln(1 - p(v))``, at most ``eta v`` if ``1 - x**v >= p(v)``. Both
sides summed, no loss exceeds ``eta`` times the weights that moved, ``f levels`` in all.

*The worst person, exactly.*  ``-ln(1 - p(v)) = sum p(v)**i/i`` is convex in ``v``, so among ``k`` items of weights at
least 1 and sum ``levels`` the weights ``levels - k + 1, 1, ..., 1`` are the worst, and the sum is convex in ``k``: the
worst is ``k = 1`` or ``k = values``.  ``1 - x**v - p(v)`` is concave in ``v``: it is least at ``v = 1`` or ``levels``.
``threshold`` is the least integer for which these four numbers, enclosed by balls, are all surely small enough.

*Drawing.*  Items below the threshold are shown with probability ``p``: the first 64 bits of a uniform number decide
almost all of them at once, and where they might not, more bits are drawn against a ball.  Shown, their excess over the
threshold is geometric (the noise has no memory).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, Self

import numpy as np
from attrs import field, frozen
from flint import arb

from privpac.arrays import Ints
from privpac.bisection import least
from privpac.errors import InfeasibleError, ParameterError, TooLargeError
from privpac.exact import ExpSum, as_arb, precision
from privpac.guarantee import Guarantee, Neighbours
from privpac.law.blocks import FiniteLaw
from privpac.law.numbers import Denominator, Number, Quotient
from privpac.mechanisms.exponential import Protected
from privpac.mechanisms.laplace import discrete_laplace, geometric, upper_tail
from privpac.mechanisms.noise import Change
from privpac.parameters import bounds, named, privacy, probability, whole
from privpac.rng import Rng, secret_rng

MAX_WEIGHT_LEVELS = 1 << 30
_BITS = 256
_LAW_WORK = 1 << 16
_Shown = tuple[tuple[Hashable, int], ...]
_SURE = 1e-9
"""More than floating point loses of a probability here: exponents stay below 750, so relative errors below 1e-12."""


@frozen(slots=False, field_transformer=named)
class StableWeights(Protected):
    """Show the noisy weights of the items that enough people hold.

    >>> few = StableWeights(1, "1e-6", levels=1, values=1, unit="user", neighbours="add-remove")
    >>> few.threshold, few.law({"c": 2}, few.threshold + 1).prob(()).hi > 0.99
    (15, True)
    """

    epsilon: Fraction = field(converter=privacy)
    delta: Fraction = field(converter=probability)
    levels: int = field(kw_only=True, converter=whole, metadata=bounds(maximum=MAX_WEIGHT_LEVELS))
    values: int = field(kw_only=True, converter=whole, metadata=bounds(maximum=MAX_WEIGHT_LEVELS))

    def __attrs_post_init__(self) -> None:
        if self.values > self.levels:
            raise ParameterError(f"a person has {self.levels} steps to give, which do not reach {self.values} values")
        self.threshold  # noqa: B018  # out of reach is said here, before any data

    @classmethod
    def within(cls, budget: Guarantee, change: Change, parts: int) -> Self:
        """For each of ``parts`` vectors, an equal part of epsilon and delta; ``change`` says how many items a person
        adds to."""
        if change.cells is None:
            raise ParameterError("weights of items that nobody can list need a bound on the items of one person")
        return cls(
            budget.epsilon / parts,
            budget.delta / parts,
            levels=change.steps,
            values=change.cells,
            unit=budget.unit,
            neighbours=budget.neighbours,
        )

    @cached_property
    def eta(self) -> Fraction:
        return self.epsilon / (self.levels * (1 if self.neighbours is Neighbours.ADD_REMOVE else 2))

    @cached_property
    def threshold(self) -> int:
        """The least weight that is shown."""
        found = least(self._enough, start=self.levels + 1)
        if found is None:
            raise InfeasibleError("epsilon and delta leave no threshold below 2**60; raise one of them")
        return found

    def _enough(self, threshold: int) -> bool:
        """Whether delta surely pays for showing one person's own items, and epsilon for their absence."""
        with precision(_BITS):
            x, one = (-as_arb(self.eta)).exp(), arb(1)

            def seen(v: int) -> arb:
                return (-as_arb(self.eta * (threshold - v))).exp() / (1 + x)

            for k in (1, self.values):
                shown = one - (one - seen(self.levels - k + 1)) * (one - seen(1)) ** (k - 1)
                if not shown <= as_arb(self.delta):
                    return False
            return all(bool(one - (-as_arb(self.eta * v)).exp() >= seen(v)) for v in (1, self.levels))

    @property
    def guarantee(self) -> Guarantee:
        how = ("items that one person alone holds are shown with probability at most delta in all",)
        return Guarantee(self.epsilon, self.delta, unit=self.unit, neighbours=self.neighbours, derivation=how)

    # Law and draws

    def law(self, weights: Mapping[Any, int], most: int) -> FiniteLaw:
        """The law of what is shown, as tuples of (item, noisy weight), noisy weights above ``most`` counted as it.

        Counting them so is post-processing; privacy is decided on laws like this.
        """
        held = sorted((item, int(weight)) for item, weight in weights.items() if weight > 0)
        steps = most - self.threshold + 2
        if steps < 2:
            raise ParameterError(f"most must be at least the threshold {self.threshold}, got {most}")
        if steps ** len(held) > _LAW_WORK:
            raise TooLargeError(f"the law of {len(held)} items has too many outcomes to be listed; draw with sample()")
        z = Denominator(1 + ExpSum.exp(-self.eta))
        alone: list[list[tuple[_Shown, Number]]] = []
        for item, weight in held:
            # Symmetry: Pr[noise <= j] = Pr[noise >= -j].
            outcomes: list[tuple[_Shown, Number]] = [((), upper_tail(self.eta, weight - self.threshold + 1, z))]
            for value in range(self.threshold, most):
                j = abs(value - weight)
                mass = Quotient.of(ExpSum.exp(-self.eta * j) - ExpSum.exp(-self.eta * (j + 1)), z)
                outcomes.append((((item, value),), mass))
            outcomes.append((((item, most),), upper_tail(self.eta, most - weight, z)))
            alone.append(outcomes)
        atoms: dict[Hashable, Number] = {}
        for chosen in product(*alone):
            mass_of_all: Number = Quotient.of(1)
            for _, number in chosen:
                mass_of_all = mass_of_all * number
            atoms[tuple(part for shown, _ in chosen for part in shown)] = mass_of_all
        return FiniteLaw([], atoms)

    def sample(self, weights: Ints, rng: Rng | None = None) -> tuple[Ints, list[int]]:
        """Which of the positive weights are shown, and their noisy values."""
        source = secret_rng(rng)
        missing = self.threshold - weights
        small = np.flatnonzero(missing > 0)
        words = source.words(len(small))
        eta = float(self.eta)
        # Never below p * 2**64: an item whose first word lies above is not shown, whatever its further bits are.
        above = np.exp(np.maximum(-eta * missing[small], -745.0)) / (1 + math.exp(-eta)) * (1 + _SURE) * 2.0**64 + 2
        maybe = words.astype(np.float64) * (1 - 2.0**-50) <= above
        first = dict(zip(small[maybe].tolist(), words[maybe].tolist()))
        shown: list[int] = []
        values: list[int] = []
        for at in np.union1d(small[maybe], np.flatnonzero(missing <= 0)).tolist():
            lacking = int(missing[at])
            if lacking <= 0:
                noise = discrete_laplace(self.eta, source)
                if noise >= lacking:
                    shown.append(at)
                    values.append(int(weights[at]) + noise)
            elif self._below_tail(lacking, first[at], source):
                shown.append(at)
                values.append(self.threshold + geometric(self.eta, source))
        return np.array(shown, np.int64), values

    def _below_tail(self, t: int, u: int, rng: Rng) -> bool:
        """Whether a uniform number that begins with the 64 bits ``u`` is below ``x**t/(1 + x)``."""
        bits = 64
        while True:
            with precision(bits + 128):
                tail = (-as_arb(self.eta * t)).exp() / (1 + (-as_arb(self.eta)).exp()) * (arb(2) ** bits)
                if tail >= u + 1:
                    return True
                if tail <= u:
                    return False
            u, bits = (u << 64) | rng.bits(64), bits + 64
