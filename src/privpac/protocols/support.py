"""How many people named the released rule: an estimate, an interval, and a lower bound of their share.

Nothing is spent on it: local and shuffled messages were private before they were counted, and a stable histogram's
noisy count is covered by its guarantee.  The interval holds with probability ``confidence`` over the noise, for
whichever item won, if the clients are honest.

- *Local, one chunk.*  The sum of signs of ``n`` reports is within ``sqrt(2 n ln(2 U/beta))`` of its mean for all ``U``
  values at once (Hoeffding), and the mean is ``(2 keep - 1)`` times the people.  *Chunks.*  Those who report a chunk
  are drawn from all without replacement; the same inequality applies, since a mean of products over draws without
  replacement is at most the power of the mean (Maclaurin).  A person who shares every part of the item shares the item,
  so the share is at least ``1 - sum (1 - share_k)`` and at most the least ``share_k``.
- *Shuffled, one bucket per item.*  The count less a quantile of the noise, all buckets at once.  *Chunks.*  A person
  reports each chunk with probability ``1/chunks``: the count is binomial in the number who share the value.
- *Central, stable histogram.*  The noise is at most ``K``: the interval is certain.  A pure selection tells no count.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from privpac.bisection import least
from privpac.protocols.hadamard import ChunkedHadamard
from privpac.protocols.shuffle import ShuffleSelection
from privpac.special import binom, nbinom

__all__ = ["CONFIDENCE", "Support", "support_central", "support_local", "support_shuffled"]

CONFIDENCE = Fraction(19, 20)
"""That of the intervals, unless certain."""


@dataclass(frozen=True)
class Support:
    """``low`` to ``high`` people named the rule; of ``people`` in all, where that number may be shown."""

    estimate: float
    low: int
    high: int
    people: int | None
    confidence: Fraction = CONFIDENCE

    @property
    def share(self) -> Fraction | None:
        """At least this share of the people named the rule, with probability ``confidence``."""
        return Fraction(self.low, self.people) if self.people else None

    def among(self, people: int) -> Support:
        """The same where everybody knows that ``people`` took part: nobody else can have named the rule.

        >>> print(support_central(504, 14, None).among(500))
        named by about 500 people (490 to 500, certain): at least 98 % of 500
        """
        return _within(self.estimate, self.low, self.high, people, self.confidence)

    def __str__(self) -> str:
        sure = "certain" if self.confidence == 1 else f"{float(self.confidence):.0%} confidence"
        said = f"named by about {self.estimate:.0f} people ({self.low} to {self.high}, {sure})"
        return said if self.share is None else f"{said}: at least {_percent(self.share)} % of {self.people}"


def _percent(share: Fraction) -> str:
    return f"{math.floor(1000 * share) / 10:g}"


def _within(estimate: float, low: float, high: float, people: int | None, confidence: Fraction = CONFIDENCE) -> Support:
    """Rounded outwards to whole people."""
    most = math.inf if people is None else people
    floor = int(min(most, max(0, math.ceil(low - 1e-6))))
    ceiling = int(max(floor, min(most, math.floor(high + 1e-6))))
    return Support(min(max(estimate, floor), ceiling), floor, ceiling, people, confidence)


def support_local(select: ChunkedHadamard, sums: Sequence[int], reports: Sequence[int]) -> Support:
    """From the sum of signs of the winner's value in every chunk, and the reports of every chunk."""
    people, chunks = sum(reports), select.chunks
    values = sum(2 << select.width_of(chunk) for chunk in range(chunks))  # two sides each
    slack, scale = math.log(values / float(1 - CONFIDENCE)), 1 / float(2 * select.keep - 1)
    shares = []
    for total, n in zip(sums, reports):
        off = scale * math.sqrt(2 * slack / n) if n else math.inf
        middle = scale * total / n if n else 0.0
        shares.append((middle, max(0.0, middle - off), min(1.0, middle + off)))
    low = 1 - sum(1 - share[1] for share in shares)
    return _within(people * min(share[0] for share in shares), people * low, people * min(s[2] for s in shares), people)


def support_shuffled(select: ShuffleSelection, counts: Sequence[int], clients: int) -> Support:
    """From the counts of the winner's buckets."""
    noise, p, side = float(select.share * clients), float(select.p), float(1 - CONFIDENCE) / (2 * select.buckets)
    most, fewest = int(nbinom.isf(side / 2, noise, 1 - p)), max(0, int(nbinom.ppf(side / 2, noise, 1 - p)))
    mean, sign = noise * p / (1 - p), 1 if select.direction == "over" else -1
    found = []
    for count in counts:
        # "under" counts what is missing: there the noise lowers a count.
        ends = (count - most, count - fewest) if sign > 0 else (count + fewest, count + most)
        real = count - sign * mean
        if select.chunks > 1:
            ends = (_fewest(max(0, ends[0]), select.chunks, side / 2), _most(ends[1], select.chunks, side / 2, clients))
            real *= select.chunks
        found.append((real, *ends))
    low = clients - sum(clients - max(0, entry[1]) for entry in found)
    return _within(min(entry[0] for entry in found), low, min(entry[2] for entry in found), clients)


def _fewest(seen: int, chunks: int, failure: float) -> int:
    """People of whom so many or more report one chunk with probability above ``failure``; fewer are refuted."""
    if seen <= 0:
        return 0
    return least(lambda m: bool(binom.sf(seen - 1, m, 1 / chunks) > failure), start=seen, limit=1 << 41) or seen


def _most(seen: int, chunks: int, failure: float, people: int) -> int:
    """The most people of whom so few report one chunk with probability above ``failure``."""
    more = least(
        lambda m: bool(binom.cdf(max(seen, 0), m, 1 / chunks) <= failure), start=max(seen, 0) + 1, limit=1 << 41
    )
    return people if more is None else more - 1


def support_central(noisy: int, K: int, people: int | None) -> Support:
    """From a stable histogram's noisy count."""
    return _within(noisy, noisy - K, noisy + K, people, Fraction(1))
