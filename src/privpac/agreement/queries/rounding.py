"""Shared-offset rounding, and answers to statistical queries.

A number ``u`` is rounded to ``floor(I u + theta) / I`` with a public uniform offset ``theta``: the error is below
``1/I``, and two users with ``u`` and ``u'`` differ with probability exactly ``min(1, I |u - u'|)``, better than any
coupling of the two-point laws through their total variation.

**Sample reuse is free.**  All queries are asked on the same records, adaptive or not.  The ideal run (true means in
place of sample means) asks its i-th query as a function of the public offsets of the earlier ones only, hence
independently of the records; the first disagreement with it at step i means that query i *of the ideal run* is rounded
differently.  The union bound over q queries of width ``w`` gives ``Pr[item differs] <= q I (w/2) / sqrt(m)``.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.agreement.races.words import derive, integer, le64, rational, word_named
from privpac.errors import ParameterError

__all__ = ["RoundedAnswers", "query_records", "round_shared", "sqrt_up"]


def round_shared(s: int, M: int, I: int, word: int) -> int:  # noqa: E741
    """``floor(I * s/M + word / 2**64)``, the floor also of negative numbers.

    >>> [round_shared(-1, 3, 10, word) for word in (0, 2**63)]
    [-4, -3]
    """
    return (I * s * (1 << 64) + word * M) // (M << 64)


class RoundedAnswers:
    """Rounded answers to the statistical queries of one user, counted from 0 in asking order.

    ``weights`` are the multiplicities of the user's distinct records; a query gives an integer in ``-scale..scale`` for
    each.
    """

    def __init__(self, seed: bytes, label: str, grid: int, weights: NDArray[np.int64]) -> None:
        self._key = derive(seed, label)
        self._grid = integer("grid", grid, 1)
        self._weights = weights
        self._total = int(weights.sum())
        if self._total < 1:
            raise ParameterError("statistical queries need at least one record; a user without records sends none")
        self.given: list[int] = []

    @property
    def records(self) -> int:
        """How many records the user has."""
        return self._total

    @property
    def weights(self) -> NDArray[np.int64]:
        """How often each distinct record occurs."""
        return self._weights

    def ask(self, values: NDArray[Any], scale: int = 1) -> int:
        """The rounded mean of a query, in units of ``1/grid``.

        The caller bounds ``|values| <= scale``; int64 sums are exact below 2**63, object arrays always.
        """
        return self.answer(int(values @ self._weights), scale)

    def answer(self, total: int, scale: int = 1) -> int:
        """The same from the sum of the query over the records."""
        return self.round(self._grid * total, self._total * scale)

    def round(self, top: int, bottom: int) -> int:
        """``top/bottom`` rounded with the next public offset; ``bottom`` is positive."""
        found = round_shared(top, bottom, 1, word_named(self._key, le64(len(self.given))))
        self.given.append(found)
        return found


def query_records(queries: int, grid: int, beta: Any, width: Any = 1) -> int:
    """Records per user at which the item differs from the ideal run's with probability at most ``beta/30``, over seeds
    and records.

    ``ceil((30 q I (w/2) / beta)**2)``: certified and large; what is needed in practice is found by simulation.
    """
    queries, grid = integer("queries", queries, 0), integer("grid", grid, 1)
    failure, spread = rational("beta", beta), rational("width", width)
    if not 0 < failure < 1:
        raise ParameterError(f"beta must be between 0 and 1, got {beta}")
    square: Fraction = (30 * queries * grid * spread / (2 * failure)) ** 2
    return -(-square.numerator // square.denominator)


def sqrt_up(value: Fraction, unit: int) -> Fraction:
    """The least multiple of ``1/unit`` that is at least the square root of ``value``."""
    scaled = value * unit * unit
    whole = -(-scaled.numerator // scaled.denominator)
    root = isqrt(whole)
    return Fraction(root + (root * root < whole), unit)
