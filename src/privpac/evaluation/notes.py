"""Warnings that cost nothing: what is known anyway says that a result means little."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["few_people"]

_FACTOR = 2


def few_people(people: float, size: Any, epsilon: float) -> tuple[str, ...]:
    """A sentence where so few people choose among so many rules that chance decides.

    An exponential law over ``k`` rules draws one whose error is above the least by ``ln(k) / (epsilon n)`` or so; from
    one half on the draw says nothing.  ``people`` and ``epsilon`` (per person added or removed) are public or released;
    ``size`` is the number of rules, anything else where that is not known.
    """
    bits = math.log(size) if isinstance(size, int) and size > 0 else 0.0
    if max(people, 0.0) * epsilon >= _FACTOR * bits:
        return ()
    needed = math.ceil(_FACTOR * bits / epsilon) if epsilon > 0 else None
    more = "" if needed is None else f"; {needed:,} people are the least that such a choice needs"
    return (
        f"very few people (about {max(0, round(people)):,}) for so many rules: chance decides which one is released"
        f"{more}",
    )
