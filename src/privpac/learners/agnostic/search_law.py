"""The exact law of the threshold search on a small domain, by dynamic programming over intervals of cuts.

States are the intervals ``(l, r)`` still open before a round.  Each probability is a sum over paths of products of
quotients of exponentials; it is kept as a ball at any precision (the whole table is recomputed when a finer one is
asked for), so decisions are rigorous and never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import flint
from flint import arb

from privpac.concepts.profile import Profile
from privpac.exact import exp_ball
from privpac.law.finite import FiniteLaw
from privpac.law.numbers import Enclosed, Number

__all__ = ["BRANCHES", "branch_scores", "search_law"]

BRANCHES = ("em", "dlap")
Interval = tuple[int, int]


def branch_scores(least: Callable[[int, int], int], lower: int, middle: int, upper: int) -> dict[str, int]:
    """Scores of the ways to go on; an empty side is absent."""
    out = {"mid": least(middle, middle)}
    if lower < middle:
        out["left"] = least(lower, middle - 1)
    if middle < upper:
        out["right"] = least(middle + 1, upper)
    return out


# Three noisy values, the least wins


class _LaplaceNoise:
    """Discrete Laplace noise with ``x = e**-rate``: mass and upper tail as sums of ``coefficient * x**(slope * d)``."""

    def __init__(self, rate: Fraction) -> None:
        self.rate, self.x = rate, exp_ball(-rate)
        self.scale = (1 - self.x) / (1 + self.x)

    def power(self, k: int) -> arb:
        return exp_ball(-self.rate * k)

    def mass(self, k: int) -> arb:
        return self.scale * self.power(abs(k))

    def tail(self, k: int) -> arb:
        """``Pr[noise >= k]``."""
        return self.power(k) / (1 + self.x) if k >= 1 else 1 - self.power(1 - k) / (1 + self.x)

    def below(self, terms: Sequence[tuple[arb, int]], more: Sequence[tuple[arb, int]]) -> list[tuple[arb, int]]:
        """The product of two such sums."""
        return [(a * b, i + j) for a, i in terms for b, j in more]

    def geometric(self, terms: Sequence[tuple[arb, int]]) -> arb:
        """The sum over d >= 0."""
        return sum((a / (1 - self.power(i)) for a, i in terms), arb(0))


def _first_wins(noise: _LaplaceNoise, own: int, others: Sequence[tuple[int, int]]) -> arb:
    """``Pr[value at own + noise = v, and every other value >= v + strict]``, summed over v; ``others``: (score,
    strict)."""
    centres = [own, *(score for score, _ in others)]
    low, high = min(centres) - 1, max(centres) + 1
    total = arb(0)
    for v in range(low + 1, high):
        term = noise.mass(v - own)
        for score, strict in others:
            term *= noise.tail(v + strict - score)
        total += term
    # v = low - d: every factor is 1 or a multiple of x**d below its centre.
    down = [(noise.mass(low - own), 1)]
    up = [(noise.mass(high - own), 1)]
    for score, strict in others:
        down = noise.below(down, [(arb(1), 0), (-noise.power(1 + score - low - strict) / (1 + noise.x), 1)])
        up = noise.below(up, [(noise.tail(high + strict - score), 1)])
    return total + noise.geometric(down) + noise.geometric(up)


def _noisy_branch(scores: dict[str, int], rate: Fraction) -> dict[str, arb]:
    noise = _LaplaceNoise(rate)
    sides = [name for name in ("left", "right") if name in scores]
    out = {"mid": _first_wins(noise, scores["mid"], [(scores[side], 1) for side in sides])}
    if len(sides) == 2:
        # Left wins: below right, and not above the middle (a tie with the middle is not "mid").
        out["left"] = _first_wins(noise, scores["left"], [(scores["right"], 1), (scores["mid"], 0)])
        out["right"] = 1 - out["mid"] - out["left"]
    else:
        out[sides[0]] = 1 - out["mid"]
    return out


def _selected(scores: Sequence[int], rate: Fraction) -> list[arb]:
    """The exponential law over a short list."""
    best = min(scores)
    weights = [exp_ball(-rate * (score - best)) for score in scores]
    total = sum(weights, arb(0))
    return [weight / total for weight in weights]


# All paths


@dataclass
class _Paths:
    """The integer scores met on the way, and the table of probabilities at each precision asked for."""

    counts: Sequence[int]
    median: Callable[[int, int, int], Profile]
    rounds: int
    median_rate: Fraction
    branch: str
    branch_rate: Fraction
    _medians: dict[tuple[int, int, int], list[int]] = field(default_factory=dict, init=False)
    _tables: dict[int, list[arb]] = field(default_factory=dict, init=False)

    def _least(self, first: int, last: int) -> int:
        return min(self.counts[first : last + 1])

    def _scores(self, lower: int, upper: int, k: int) -> list[int]:
        if (lower, upper, k) not in self._medians:
            blocks = self.median(lower, upper, k).blocks()
            self._medians[lower, upper, k] = [score for first, last, score in blocks for _ in range(first, last + 1)]
        return self._medians[lower, upper, k]

    def _ways(self, lower: int, middle: int, upper: int) -> dict[str, arb]:
        scores = branch_scores(self._least, lower, middle, upper)
        if self.branch == "dlap":
            return _noisy_branch(scores, self.branch_rate)
        return dict(zip(scores, _selected(list(scores.values()), self.branch_rate)))

    def table(self) -> list[arb]:
        bits = flint.ctx.prec
        if bits not in self._tables:
            self._tables[bits] = self._compute()
        return self._tables[bits]

    def _compute(self) -> list[arb]:
        out = [arb(0) for _ in self.counts]
        ways: dict[tuple[int, int, int], dict[str, arb]] = {}
        open_: dict[Interval, arb] = {(0, len(self.counts) - 1): arb(1)}
        for k in range(self.rounds):
            after: dict[Interval, arb] = {}
            for (lower, upper), mass in open_.items():
                if lower == upper:
                    out[lower] += mass
                    continue
                for middle, share in enumerate(_selected(self._scores(lower, upper, k), self.median_rate), lower):
                    key = (lower, middle, upper)
                    if key not in ways:
                        ways[key] = self._ways(*key)
                    for way, part in ways[key].items():
                        if way == "mid":
                            out[middle] += mass * share * part
                        else:
                            rest = (lower, middle - 1) if way == "left" else (middle + 1, upper)
                            after[rest] = after.get(rest, arb(0)) + mass * share * part
            open_ = after
        for (lower, _), mass in open_.items():
            out[lower] += mass
        return out


def search_law(
    counts: Sequence[int],
    median: Callable[[int, int, int], Profile],
    *,
    rounds: int,
    median_rate: Fraction,
    branch: str,
    branch_rate: Fraction,
) -> FiniteLaw:
    """The law over cuts; ``counts[u]`` are users with too many mistakes, ``median(l, r, k)`` the scores of round k's
    middle cut."""
    paths = _Paths(counts, median, rounds, median_rate, branch, branch_rate)

    def prob(cut: int) -> arb:
        return paths.table()[cut]

    cells: list[tuple[range, Number]] = [
        (range(cut, cut + 1), Enclosed(partial(prob, cut))) for cut in range(len(counts))
    ]
    return FiniteLaw(cells, {})
