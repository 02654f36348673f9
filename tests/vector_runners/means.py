"""Vectors of ``means.json``: so far the votes of people for the quantile of their own records (spec 21 §10)."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

from privpac.data import Categories, Integers, UserData
from privpac.distributions.quantiles.ranks import WeightedValues

__all__ = ["RUNNERS"]


def quantile_own_votes(case: dict[str, Any]) -> None:
    for codes, q, linear, votes in case["values"]:
        domain = Integers(0, 99) if linear else Categories([f"{code:02}" for code in range(100)])
        assert domain.linear is linear
        people = UserData.from_users([[domain.value(code) for code in codes]], features={"x": domain}, labelled=False)
        found = WeightedValues("x", "own", 2, Fraction(q), domain.linear).chunk(people)
        wanted: Counter[int] = Counter()
        for code, count in votes:
            wanted[code] += count
        assert dict(zip(found.codes.tolist(), found.weights.tolist())) == wanted


RUNNERS = {"quantile_own_votes": quantile_own_votes}
