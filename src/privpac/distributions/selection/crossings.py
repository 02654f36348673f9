"""Where one density overtakes another: the cuts of Scheffé sets on the line.

``W = {z : P(z) > Q(z)}`` is a union of intervals between cuts.  Two normals: roots of ``A x^2 + B x + C`` with ``A =
1/(2 s2^2) - 1/(2 s1^2)``, ``B = m1/s1^2 - m2/s2^2``, ``C = m2^2/(2 s2^2) - m1^2/(2 s1^2) + ln(s2/s1)``; the midpoint,
exactly, if ``s1 = s2``.  Other laws: changes of sign of the difference of log densities over both laws' quantiles, down
to 1e-15 in the tails, located by bisection.  All of it is public; a missed double root costs accuracy, never privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.distributions.selection.candidates import Candidate, Counts, Joint, LineLaw, check_terms
from privpac.errors import ParameterError, TooLargeError

__all__ = ["integer_range", "line_cuts", "normal_cuts", "spread"]

Floats64 = NDArray[np.float64]
_LEVELS = 4096
_STEPS = 64
MAX_PAIRS = 50_000
MAX_INTEGERS = 1 << 20


def normal_cuts(m1: Fraction, s1: Fraction, m2: Fraction, s2: Fraction) -> list[Fraction]:
    """Where two normal densities cross."""
    if s1 == s2:
        return [] if m1 == m2 else [(m1 + m2) / 2]
    a = float(1 / (2 * s2**2) - 1 / (2 * s1**2))
    b = float(m1 / s1**2 - m2 / s2**2)
    c = float(m2**2 / (2 * s2**2) - m1**2 / (2 * s1**2)) + math.log(s2 / s1)
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    far = -(b + math.copysign(root, b)) / 2
    roots = [far / a, c / far] if far != 0 else [0.0]
    return sorted(Fraction(x) for x in roots if math.isfinite(x))


def _grid(candidate: Candidate) -> Floats64:
    """Quantiles in steps of 1/4096 and, in both tails, in quarter powers of ten down to 1e-15; listed breaks
    besides."""
    if isinstance(candidate, Joint):
        support = candidate.density.support
        if support is None or not all(math.isfinite(end) for end in support) or support[0] >= support[1]:
            raise ParameterError(
                f"{candidate.name} needs a finite support=(lo, hi) to be compared without bins; or give bins="
            )
        return np.linspace(support[0], support[1], _LEVELS + 1)
    tails = 10.0 ** -np.arange(4, 15.01, 0.25)
    levels = np.concatenate([tails, np.arange(1, _LEVELS) / _LEVELS])
    points = [candidate.quantiles(levels)]
    if isinstance(candidate, LineLaw):
        points += [
            np.asarray(candidate.law.isf(tails)),
            np.array([*candidate.law.support(), candidate.law.mean()], dtype=np.float64),
        ]
    breaks = getattr(candidate, "edges", ())
    points.append(np.array([float(edge) for edge in breaks]))
    every = np.concatenate(points)
    return np.unique(every[np.isfinite(every)])


def _signs(mine: Floats64, theirs: Floats64) -> NDArray[np.int8]:
    """1 where ``mine`` is larger, -1 where it is smaller, 0 for ties: equal, both -inf, or NaN."""
    return (mine > theirs).astype(np.int8) - (mine < theirs).astype(np.int8)


def line_cuts(candidates: Sequence[Candidate]) -> list[Fraction]:
    """The cuts of all pairs of continuous laws, increasing."""
    size = len(candidates)
    if size * (size - 1) // 2 > MAX_PAIRS:
        raise TooLargeError(f"{size} candidates have more than {MAX_PAIRS} pairs to intersect one by one; give bins=")
    found: set[Fraction] = set()
    rest: list[tuple[int, int]] = []
    for i in range(size):
        for j in range(i):
            p, r = candidates[i], candidates[j]
            if isinstance(p, LineLaw) and isinstance(r, LineLaw) and p.normal is not None and r.normal is not None:
                found.update(normal_cuts(*p.normal, *r.normal))
            else:
                rest.append((i, j))
    found.update(Fraction(x) for x in _brackets_to_cuts(candidates, rest))
    return sorted(found)


def _brackets_to_cuts(candidates: Sequence[Candidate], pairs: list[tuple[int, int]]) -> list[float]:
    involved = sorted({i for pair in pairs for i in pair})
    grids = {i: _grid(candidates[i]) for i in involved}
    lows, highs, first, second, kept = [], [], [], [], []
    for i, j in pairs:
        grid = np.union1d(grids[i], grids[j])
        signs = _signs(candidates[i].log_density(grid[:, None]), candidates[j].log_density(grid[:, None]))
        at = np.flatnonzero(signs[1:] != signs[:-1])
        lows.append(grid[at])
        highs.append(grid[at + 1])
        kept.append(signs[at])
        first.append(np.full(len(at), i))
        second.append(np.full(len(at), j))
    if not lows:
        return []
    lo, hi, sign = np.concatenate(lows), np.concatenate(highs), np.concatenate(kept)
    who = np.concatenate(first), np.concatenate(second)
    for _ in range(_STEPS):
        # All brackets of all pairs at once: one evaluation of each candidate per step.
        middle = lo / 2 + hi / 2
        values = []
        for role in who:
            out = np.empty(len(middle))
            for i in involved:
                mine = role == i
                if mine.any():
                    out[mine] = candidates[i].log_density(middle[mine][:, None])
            values.append(out)
        same = _signs(*values) == sign
        lo, hi = np.where(same, middle, lo), np.where(same, hi, middle)
    return [float(x) for x in hi]


def spread(candidates: Sequence[Candidate]) -> float:
    """The smallest distance between a candidate's quartiles: how far outside the last cut the tails are looked at."""
    widths = []
    for candidate in candidates:
        points = _grid(candidate) if isinstance(candidate, Joint) else candidate.quantiles(np.array([0.25, 0.75]))
        widths.append(float(points[-1] - points[0]))
    return max(min(widths), 1e-300)


def integer_range(candidates: Sequence[Candidate]) -> tuple[int, int]:
    """Integers outside which no candidate has more than 1e-12 on either side."""
    laws: list[Any] = []
    for candidate in candidates:
        if isinstance(candidate, Counts):
            check_terms(candidate.law, candidate.name)
            laws.append(candidate.law)
    lo = min(math.floor(law.ppf(1e-12)) for law in laws)
    hi = max(math.ceil(law.isf(1e-12)) for law in laws)
    if hi - lo > MAX_INTEGERS:
        raise TooLargeError(f"the candidates spread over {hi - lo} integers, more than {MAX_INTEGERS}; give bins=")
    return lo, hi
