"""Bins from public declarations: edges, or a number of equal bins over a declared range."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from privpac.data import Domain, Grid, Integers
from privpac.errors import ParameterError
from privpac.exact import rational
from privpac.guarantee import positive_int

__all__ = ["edges_of", "equal_bins"]

MAX_BINS = 1 << 16


def equal_bins(domain: Domain | None, count: int, ends: tuple[Any, Any] | None = None) -> tuple[Fraction, ...]:
    """Edges of ``count`` equal bins between the declared ends, by default those of a bounded domain of numbers.

    >>> from privpac.data import Integers
    >>> [int(edge) for edge in equal_bins(Integers(0, 23), 4)]
    [0, 6, 12, 18, 24]
    """
    positive_int(count, "bins", maximum=MAX_BINS)
    if ends is not None:
        low, high = rational(ends[0], "the lower end of the range"), rational(ends[1], "the upper end of the range")
    elif isinstance(domain, Integers):
        low, high = Fraction(domain.lo), Fraction(domain.hi) + 1
    elif isinstance(domain, Grid):
        low, high = rational(domain.lo), rational(domain.hi) + rational(domain.step)
    else:
        raise ParameterError("a number of bins needs a column declared with Integers or Grid; give the edges instead")
    if low >= high:
        raise ParameterError(f"a range of bins must increase, got {float(low):g} to {float(high):g}")
    return tuple(low + (high - low) * i / count for i in range(count + 1))


def edges_of(bins: Any, domains: Mapping[str, Domain | None], features: Any) -> Any:
    """Bins with numbers of them replaced by edges."""
    if isinstance(bins, Mapping):
        return {
            name: equal_bins(domains.get(name), edges) if _is_count(edges) else edges for name, edges in bins.items()
        }
    if not _is_count(bins):
        return bins
    named = list(domains) if features is None else [features] if isinstance(features, str) else list(features)
    return (
        equal_bins(domains.get(named[0]), bins)
        if len(named) == 1
        else {name: equal_bins(domains.get(name), bins) for name in named}
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
