"""What an audit found, for people and for programs: the bound, the verdict and the pair of datasets behind them.

An audit prints datasets, so they must be made up or declared public; nothing here may be given a private table.
"""

from __future__ import annotations

from fractions import Fraction
from io import StringIO
from math import inf
from typing import Any

from attrs import evolve, frozen

from privpac.auditing.exact import ExactAudit
from privpac.auditing.sampler import SamplerCheck
from privpac.auditing.statistical import CONSISTENT, VIOLATES, StatisticalAudit
from privpac.guarantee import Neighbours

MISDRAWN = "draws differ from the law"
_LONGEST = 400
# The exact audit rounds the least epsilon up, by one part in a million at most; a lower bound is that much smaller.
_ROUNDED = 1 - Fraction(1, 1 << 19)


@frozen(slots=False)
class AuditOutcome:
    """One outcome, or a few alike, with its probability on each dataset of the worst pair (measured shares if
    statistical)."""

    label: str
    first: float
    second: float


@frozen(slots=False)
class Audit:
    """The result of ``pp.audit``: true if nothing speaks against the claim.

    ``result`` holds the details: an :class:`ExactAudit`, which is a decision over every pair of its universe, or a
    :class:`StatisticalAudit`, which is evidence.  ``claimed`` is False when no epsilon was claimed and only a bound was
    asked for.  ``sampler`` says whether the draws were compared with the law that was decided; None for a statistical
    audit, which looks at nothing but draws.
    """

    subject: str
    result: ExactAudit | StatisticalAudit
    claimed: bool
    universe: str
    outcomes: tuple[AuditOutcome, ...] = ()
    sampler: SamplerCheck | None = None

    @property
    def method(self) -> str:
        return "exact" if isinstance(self.result, ExactAudit) else "statistical"

    @property
    def holds(self) -> bool:
        return (not self.claimed or self.result.holds) and not self.misdrawn

    @property
    def misdrawn(self) -> bool:
        """Whether draws were seen that the law does not explain: then what was decided is not what is released."""
        return self.sampler is not None and not self.sampler.holds

    def __bool__(self) -> bool:
        return self.holds

    @property
    def verdict(self) -> str:
        """``consistent with the claim``, ``violates the claim``, ``draws differ from the law`` or ``no claim``."""
        if self.claimed and not self.result.holds:
            return VIOLATES
        return MISDRAWN if self.misdrawn else CONSISTENT if self.claimed else "no claim"

    @property
    def epsilon(self) -> Fraction | None:
        """The claim."""
        return self.result.epsilon if self.claimed else None

    @property
    def delta(self) -> Fraction:
        return self.result.delta

    @property
    def neighbours(self) -> Neighbours:
        return self.result.neighbours

    @property
    def epsilon_lower(self) -> float:
        """No mechanism that behaves like this one has a smaller epsilon at ``delta``, but for ``1 - confidence``."""
        if isinstance(self.result, StatisticalAudit):
            return self.result.epsilon_lower
        found = self.result.epsilon_found
        return inf if isinstance(found, float) else float(found * _ROUNDED)

    @property
    def confidence(self) -> Fraction:
        """1 for a decision."""
        return self.result.confidence if isinstance(self.result, StatisticalAudit) else Fraction(1)

    @property
    def pairs(self) -> int:
        """Pairs of neighbours, each in both orders."""
        return self.result.pairs if isinstance(self.result, StatisticalAudit) else self.result.pairs // 2

    @property
    def worst(self) -> tuple[Any, Any]:
        """The pair of datasets that shows the bound, in this order."""
        return self.result.worst

    # For people

    def found(self) -> str:
        """The bound in one sentence."""
        bound = (
            "no finite epsilon holds" if self.epsilon_lower == inf else f"epsilon is at least {self.epsilon_lower:.4g}"
        )
        if isinstance(self.result, StatisticalAudit):
            return f"{bound}, with confidence {float(self.confidence):.9g}"
        return f"{bound}, and no more is needed on these datasets" if self.epsilon_lower < inf else bound

    def notes(self) -> tuple[str, ...]:
        """What follows, what does not, and what to do."""
        if self.misdrawn:
            line = f"What is released is not what was decided: the sampler {self.sampler}."
            return (*evolve(self, sampler=None).notes(), line)
        if self.claimed and not self.holds:
            sure = (
                ""
                if self.method == "exact"
                else f" (a false alarm with probability at most {float(1 - self.confidence):.3g})"
            )
            return (
                f"The two datasets shown are neighbours, and their outputs differ by more than the claim allows{sure}.",
            )
        if isinstance(self.result, ExactAudit):
            unseen = self.sampler is not None and not self.sampler.looked
            only = ("The sampler was not looked at: this is about the law, not about what is drawn.",)
            return (
                "Decided exactly for every pair of these datasets; nothing is said about larger ones.",
                *(only if unseen else ()),
            )
        out = ["Runs can refute a claim, never prove it: another pair, another event or more runs might."]
        if self.claimed and self.result.epsilon is not None and self.result.epsilon >= Fraction(self.result.detectable):
            out.append(
                f"{self.result.trials} measured runs cannot show more than {self.result.detectable:.3g}: give more "
                "runs to test this claim."
            )
        return tuple(out)

    def rows(self) -> tuple[tuple[str, str], ...]:
        """Name and value of everything but the datasets."""
        claim = (
            "none"
            if self.epsilon is None
            else f"({float(self.epsilon):g}, {float(self.delta):g})-DP, {self.neighbours.value}"
        )
        out = [("audited", self.subject), ("claim", claim), ("found", self.found()), ("verdict", self.verdict)]
        if self.epsilon is None:
            out[1:2] = [("at delta", f"{float(self.delta):g}, {self.neighbours.value}")]
        out += [
            (
                "method",
                "exact decision" if self.method == "exact" else "statistical: membership games, Clopper-Pearson bounds",
            )
        ]
        out += [("datasets", self.universe), ("neighbouring pairs", f"{self.pairs:,}, in both orders")]
        if self.sampler is not None:
            out += [("sampler", str(self.sampler))]
        if isinstance(self.result, StatisticalAudit):
            each = self.result.trials
            out += [
                ("runs on each dataset", f"{each:,} to choose, {each:,} to measure the chosen pair"),
                ("event", self.result.event),
                (
                    "happened",
                    f"{self.result.hits[0]:,} times on the first dataset, {self.result.hits[1]:,} times on the second",
                ),
            ]
        return tuple(out)

    def table(self) -> Any:
        """A rich table for the terminal."""
        from rich.table import Table
        from rich.text import Text

        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, style="dim")
        table.add_column(overflow="fold")
        style = "bold red" if not self.holds else "bold green" if self.claimed else "bold"
        for name, value in self.rows():
            table.add_row(name, Text(value, style=style if name == "verdict" else ""))
        for name, data in zip(("first dataset", "second dataset"), self.worst):
            table.add_row(name, Text(shown_data(data)))
        return table

    def __str__(self) -> str:
        from rich.console import Console

        out = Console(file=StringIO(), width=110, force_terminal=False, highlight=False)
        out.print(self.table())
        for line in self.notes():
            out.print(line, markup=False)
        return "\n".join(line.rstrip() for line in out.file.getvalue().splitlines())  # type: ignore[attr-defined]

    # For programs

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON; rationals as text, datasets as lists."""
        out: dict[str, object] = {
            "audited": self.subject,
            "method": self.method,
            "verdict": self.verdict,
            "epsilon": None if self.epsilon is None else str(self.epsilon),
            "delta": str(self.delta),
            "neighbours": self.neighbours.value,
            "epsilon_lower": self.epsilon_lower if self.epsilon_lower < inf else "inf",
            "confidence": str(self.confidence),
            "pairs": self.pairs,
            "universe": self.universe,
            "worst": [_plain(data) for data in self.worst],
            "outcomes": [[outcome.label, outcome.first, outcome.second] for outcome in self.outcomes],
            "sampler": None if self.sampler is None else self.sampler.to_dict(),
        }
        if isinstance(self.result, StatisticalAudit):
            r = self.result
            out |= {
                "runs": r.runs,
                "event": r.event,
                "hits": list(r.hits),
                "trials": r.trials,
                "detectable": r.detectable,
            }
        return out


def _plain(data: object) -> object:
    """A dataset as JSON has it; what JSON cannot hold as text."""
    if isinstance(data, (list, tuple)):
        return [_plain(part) for part in data]
    return data if data is None or isinstance(data, (bool, int, float, str)) else repr(data)[:_LONGEST]


def shown_data(data: object) -> str:
    """A dataset in one line, not too long a one."""
    text = "no users" if isinstance(data, tuple) and not data else repr(data)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
