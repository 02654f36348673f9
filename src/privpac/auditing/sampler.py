"""Does a sampler draw from the law that was decided?

An exact audit decides laws; what people get is drawn.  So it draws as well, on a few datasets, and compares.

*A false alarm has probability at most* :data:`FALSE_ALARM`.  On each of ``D`` datasets the law is a list of ``C`` cells
(what a release shows, with its probability) and the count of a cell in ``N`` independent draws is binomial.  A count
is an alarm if its upper or its lower tail is below ``FALSE_ALARM/(2 C D)``: a union bound over both tails of all
cells, whatever the law.  What has probability 0 and is drawn is an alarm of its own, false with probability 0.

*What it cannot show.*  A sampler that errs on other datasets, or by less than so many draws can tell, passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from attrs import frozen

from privpac.special import binom

FALSE_ALARM = 1e-7
"""How often draws from the right law are called wrong, all cells and datasets together."""

_OUTWARD = 1e-9
"""Far above the rounding of a probability that is a sum of a few thousand floats."""


@frozen(slots=False)
class SamplerCheck:
    """What was drawn: ``draws`` on each of ``datasets``, none with a ``reason`` why; ``differs`` says what was seen
    where the draws do not follow the law, and is empty where they may."""

    draws: int = 0
    datasets: int = 0
    differs: str = ""
    reason: str = ""

    @property
    def looked(self) -> bool:
        return self.datasets > 0

    @property
    def holds(self) -> bool:
        """False only if draws were seen that the law does not explain."""
        return not self.differs

    def __str__(self) -> str:
        if not self.looked:
            return f"not looked at: {self.reason}"
        verdict = f"does not draw from the law: {self.differs}" if self.differs else "draws as the law says"
        return (
            f"{verdict}; {self.draws:,} draws on each of {self.datasets} datasets, a false alarm with probability at "
            f"most {FALSE_ALARM:g}"
        )

    def to_dict(self) -> dict[str, object]:
        return {
            "looked_at": self.looked,
            "holds": self.holds if self.looked else None,
            "draws": self.draws,
            "datasets": self.datasets,
            "false_alarm": FALSE_ALARM if self.looked else None,
            "differs": self.differs,
            "reason": self.reason,
        }


def compare_draws(trials: Sequence[tuple[Sequence[Hashable], Mapping[Hashable, float]]]) -> str:
    """What the first alarm is, in words; empty if there is none.  A trial: the draws on one dataset, and its law.

    >>> compare_draws([(["heads", "tails"] * 500, {"heads": 0.5, "tails": 0.5})])
    ''
    >>> compare_draws([(["heads"] * 1000, {"heads": 0.5, "tails": 0.5})])
    "'heads' was drawn 1,000 times of 1,000 and has probability 0.5"
    """
    for draws, law in trials:
        counts, n = Counter(draws), len(draws)
        strange = next((cell for cell in counts if not law.get(cell)), None)
        if strange is not None:
            return f"{_named(strange)} was drawn and has probability 0"
        least = FALSE_ALARM / (2 * len(law) * len(trials))
        for cell, probability in law.items():
            above = binom.sf(counts[cell] - 1, n, min(1.0, probability * (1 + _OUTWARD)))
            below = binom.cdf(counts[cell], n, probability * (1 - _OUTWARD))
            if min(above, below) < least:
                times = f"{counts[cell]:,} times of {n:,}"
                return f"{_named(cell)} was drawn {times} and has probability {probability:.3g}"
    return ""


def _named(cell: Hashable) -> str:
    """A cell in a few words: (outcome, what is shown) of a release without the usual outcome."""
    if isinstance(cell, tuple) and len(cell) == 2 and cell[0] == "released":
        cell = cell[1]
    text = repr(cell)
    return text if len(text) <= 80 else text[:77] + "..."
