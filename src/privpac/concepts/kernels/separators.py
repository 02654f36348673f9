"""The mistakes of linear separators with integer weights.

For one weight vector the rules are thresholds on one integer, so a user's mistakes come from a histogram over
thresholds and a suffix sum: O(records x vectors + size) per user.  The own minimum is over the whole class.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privpac.concepts.kernels.grouped import tally
from privpac.concepts.kernels.narrow import MOST_RECORDS, charge, extremes, holds, settle
from privpac.data.jit import jit

__all__ = ["scores_of_users"]


@jit
def _mistakes(row: Any, rules: Any, weights: Any, start: int, end: int, ones: int, m: int) -> None:
    """A user's mistakes by every rule, in the type of ``row``."""
    points, factors, least_threshold, begins, scale = rules
    row[0], row[1] = row.dtype.type(ones), row.dtype.type(m - ones)
    row[2:] = 0
    for v in range(len(factors)):
        # Thresholds begin .. begin + q - 1 say 1, with q = clamp(ceil(total / scale) - least threshold).
        begin, stop = begins[v], begins[v + 1]
        for k in range(start, end):
            total = np.int64(0)
            for j in range(points.shape[1]):
                total += factors[v, j] * points[k, j]
            if scale != 1:
                total = -((-total) // scale)
            q = min(total - least_threshold[v], stop - begin)
            if q > 0:
                row[begin + q - 1] += row.dtype.type(weights[k])
        run = row[0]
        for h in range(stop - 1, begin - 1, -1):
            run = row.dtype.type(run + row[h])
            row[h] = run


@jit
def scores_of_users(
    first: int,
    last: int,
    scores: Any,
    groups: Any,
    offset: Any,
    cap: Any,
    levels: int,
    uses_minimum: bool,
    own: Any,
    rules: Any,
) -> None:
    """Add the contributions of the distinct users ``first..last - 1``."""
    starts, ends, _, weights, ones, sizes, times = groups
    row, bytes_row = np.empty(scores.shape[1], dtype=np.int32), np.empty(scores.shape[1], dtype=np.uint8)
    values, held = np.empty(MOST_RECORDS + 1, dtype=np.int64), holds(len(cap), scores.shape[1])
    elsewhere = np.zeros(len(cap), dtype=np.int64)
    for i in range(first, last):
        m = sizes[i]
        if m <= MOST_RECORDS:
            _mistakes(bytes_row, rules, weights, starts[i], ends[i], ones[i], m)
            own[0, i], own[1, i] = extremes(bytes_row)
            least = own[0, i] if uses_minimum else np.int64(0)
            charge(bytes_row, least, m, offset[i], cap[:, i], levels, times[i], elsewhere, values, held, scores)
        else:
            if len(values) <= m:
                values = np.empty(2 * m + 1, dtype=np.int64)
            _mistakes(row, rules, weights, starts[i], ends[i], ones[i], m)
            own[0, i], own[1, i] = extremes(row)
            least = own[0, i] if uses_minimum else np.int64(0)
            tally(row, least, m, offset[i], cap[:, i], levels, times[i], values, scores)
    settle(held, scores)
