"""What one user adds to one rule: a whole number between 0 and ``levels``, whatever the user's records are."""

from __future__ import annotations

import numpy as np

from privpac.data.jit import jit

__all__ = ["change_type", "contribution"]


@jit
def contribution(mistakes: int, minimum: int, offset: int, cap: int, levels: int) -> int:
    """One user's contribution to one rule."""
    # The value lies in 0..levels: this bound is the sensitivity.
    excess = mistakes - minimum - offset
    if excess <= 0:
        return 0
    if excess >= cap:
        return levels
    return levels * excess // cap


def change_type(levels: int) -> type[np.int16] | type[np.int32] | type[np.int64]:
    """A type that holds every difference of two contributions; small ones travel several in a word."""
    if levels < 1 << 15:
        return np.int16
    return np.int32 if levels < 1 << 31 else np.int64
