"""From candidates, declared domains and ``bins`` to the comparison of all pairs.

=======================================  =======================================================================
situation                                how sets and probabilities are found
=======================================  =======================================================================
small domains, masses of values          exact masses of values
``bins=`` edges, a number, ``"auto"``    integer masses of bins summing to 2**40 (exact for rational candidates)
normals; continuous laws (no bins)       crossing points; distribution functions between them
laws on the integers (no bins)           masses of the integers that hold all but 1e-12
several columns (no bins)                densities at the records; Monte Carlo from public coins
masses against densities (no bins)       refused: they have no common scale
=======================================  =======================================================================

Binning never increases a total variation distance; ``"auto"`` places at most 4096 edges at the candidates' own
quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain, Floats
from privpac.distributions.cells import CodeCells, LineCells, Partition, ProductCells, is_numeric, read_edges
from privpac.distributions.selection.candidates import Candidate, Counts, Histogram, Joint, Normal
from privpac.distributions.selection.comparison import (
    CandidateComparison,
    RankComparison,
    Ranked,
    integer_sets,
    line_sets,
    ranked_by_masses,
)
from privpac.distributions.selection.pointwise import DensityComparison, monte_carlo
from privpac.errors import ParameterError
from privpac.guarantee import positive_int

__all__ = ["compare", "read_bins"]

SMALL = 1 << 16
AUTO_EDGES = 4096
Bins = Any


def read_bins(bins: Bins) -> Bins:
    """``None``, ``"auto"``, a number of bins, edges, or a mapping of columns to numbers and edges."""
    if bins is None or (isinstance(bins, str) and bins == "auto"):
        return bins
    if isinstance(bins, str):
        raise ParameterError(f"bins must be 'auto', None, a number or edges, got {bins[:40]!r}")
    if isinstance(bins, Mapping):
        return {name: read_bins(given) for name, given in bins.items()}
    if isinstance(bins, int) and not isinstance(bins, bool):
        return positive_int(bins, "bins", minimum=2, maximum=SMALL)
    return read_edges(bins)


def compare(
    candidates: Sequence[Candidate],
    domains: Mapping[str, Domain],
    bins: Bins,
    unit: int,
    samples: int,
    public_seed: bytes,
) -> CandidateComparison:
    """The comparison of all pairs on these columns."""
    if len(domains) == 1:
        ((feature, domain),) = domains.items()
        ranked = _one_column(
            candidates, feature, domain, bins[feature] if isinstance(bins, Mapping) and feature in bins else bins
        )
    else:
        ranked = _columns(candidates, domains, bins)
    if ranked is not None:
        return RankComparison.of(ranked, unit)
    without = [name for name, domain in domains.items() if not is_numeric(domain)]
    if without or any(candidate.measure != "line" for candidate in candidates):
        raise ParameterError(
            "densities at records need numeric columns and candidates that are densities; give bins= otherwise"
        )
    dimensions = {len(candidate.mean) for candidate in candidates if isinstance(candidate, Normal)} - {len(domains)}
    if dimensions:
        raise ParameterError(
            f"normal candidates of {sorted(dimensions)} columns cannot describe {len(domains)} columns"
        )
    likely = monte_carlo(candidates, len(domains), samples, public_seed)
    q = np.floor(likely * unit + 0.5).astype(np.int64)
    return DensityComparison(q, unit, tuple(candidates), dict(domains))


# One column


def _one_column(candidates: Sequence[Candidate], feature: str, domain: Domain, bins: Bins) -> Ranked | None:
    kinds = {candidate.measure for candidate in candidates}
    small = domain.size <= SMALL
    if bins is None or bins == "auto":
        if kinds == {"values"} and (small or not all(isinstance(c, Counts) for c in candidates)):
            return _values(candidates, {feature: domain})
        if (
            small
            and not isinstance(domain, Floats)
            and all(isinstance(c, Joint) and c.density.cdf is None for c in candidates)
        ):
            return _values(candidates, {feature: domain})
    if not is_numeric(domain):
        raise ParameterError(f"column {feature!r} has {domain.describe()}: candidates must be masses of its values")
    if bins is None:
        return _without_bins(candidates, feature, domain, kinds)
    edges = (
        _auto_edges(candidates, AUTO_EDGES if bins == "auto" else bins - 1)
        if bins == "auto" or isinstance(bins, int)
        else bins
    )
    return ranked_by_masses(
        LineCells.at_edges(feature, domain, edges), [c.edge_masses(edges, domain) for c in candidates]
    )


def _without_bins(candidates: Sequence[Candidate], feature: str, domain: Domain, kinds: set[str]) -> Ranked | None:
    if len(kinds) > 1:
        raise ParameterError(
            "masses of values and densities have no common scale (their distance is 1); give bins= to compare them"
        )
    if kinds == {"values"}:
        return integer_sets(candidates, feature, domain)
    if all(isinstance(candidate, Histogram) for candidate in candidates):
        edges = sorted(
            {edge for candidate in candidates if isinstance(candidate, Histogram) for edge in candidate.edges}
        )
        return ranked_by_masses(
            LineCells.at_edges(feature, domain, edges), [c.edge_masses(edges, domain) for c in candidates]
        )
    if any(isinstance(candidate, Joint) and candidate.density.cdf is None for candidate in candidates):
        return None
    return line_sets(candidates, feature, domain)


def _auto_edges(candidates: Sequence[Candidate], most: int) -> tuple[Fraction, ...]:
    """Edges at the candidates' own quantiles: every candidate puts little mass in every bin."""
    each = max(1, most // len(candidates))
    levels = np.arange(1, each + 1) / (each + 1)
    points = np.concatenate([_quantiles(candidate, levels) for candidate in candidates])
    edges = sorted({Fraction(float(x)) for x in points if math.isfinite(x)})
    if not edges:
        raise ParameterError("the candidates have no finite quantiles to place bins by; give the edges as bins=[...]")
    if len(edges) > most:
        edges = [edges[i * len(edges) // most] for i in range(most)]
    return tuple(edges)


def _quantiles(candidate: Candidate, levels: NDArray[np.float64]) -> NDArray[np.float64]:
    if isinstance(candidate, Joint) and candidate.density.support is not None:
        lo, hi = candidate.density.support
        return np.asarray(lo + (hi - lo) * levels)
    return candidate.quantiles(levels)


# Masses of values, and several columns


def _values(candidates: Sequence[Candidate], domains: Mapping[str, Domain]) -> Ranked:
    cells: list[Partition] = [CodeCells(name, domain.size) for name, domain in domains.items()]
    partition = cells[0] if len(cells) == 1 else ProductCells(tuple(cells))
    return ranked_by_masses(partition, [candidate.value_masses(domains) for candidate in candidates])


def _columns(candidates: Sequence[Candidate], domains: Mapping[str, Domain], bins: Bins) -> Ranked | None:
    if isinstance(bins, Mapping) or not (bins is None or bins == "auto"):
        return _boxes(candidates, domains, bins)
    size = math.prod(domain.size for domain in domains.values())
    kinds = {candidate.measure for candidate in candidates}
    if kinds == {"values"} or (size <= SMALL and kinds == {"line"} and all(isinstance(c, Joint) for c in candidates)):
        return _values(candidates, domains)
    if len(kinds) > 1:
        raise ParameterError(
            "masses of values and densities have no common scale (their distance is 1); give bins= to compare them"
        )
    return None


def _boxes(candidates: Sequence[Candidate], domains: Mapping[str, Domain], bins: Bins) -> Ranked:
    """Boxes of edges, the outer ones reaching to the domain's ends; masses by density at the middle times volume."""
    if not isinstance(bins, Mapping) or set(bins) != set(domains):
        raise ParameterError(f"several columns need bins={{column: edges}} for each of {list(domains)}")
    cells: list[Partition] = []
    middles, widths = [], []
    for name, domain in domains.items():
        edges = bins[name]
        if not isinstance(edges, tuple) or len(edges) < 2:
            raise ParameterError(
                f"column {name!r} needs at least two edges, from the lowest to the highest value of interest"
            )
        cells.append(LineCells.at_edges(name, domain, edges[1:-1]))
        ends = list(pairwise(float(edge) for edge in edges))
        middles.append(np.array([(a + b) / 2 for a, b in ends]))
        widths.append(np.array([b - a for a, b in ends]))
    points = np.stack([axis.ravel() for axis in np.meshgrid(*middles, indexing="ij")], axis=1)
    volume = np.prod(np.stack([axis.ravel() for axis in np.meshgrid(*widths, indexing="ij")], axis=1), axis=1)
    rows = [np.nan_to_num(np.exp(candidate.log_density(points)), posinf=0.0) * volume for candidate in candidates]
    return ranked_by_masses(ProductCells(tuple(cells)), rows)
