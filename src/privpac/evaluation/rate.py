"""A number with its two intervals, and how shares are said in words."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from privpac.evaluation.intervals import Range

__all__ = ["MeasuredRate", "percent", "points", "sure"]


@dataclass(frozen=True)
class MeasuredRate:
    """A number with its two intervals; ``like`` is None where other people are not covered."""

    value: float
    these: Range
    like: Range | None

    @property
    def shown(self) -> Range:
        """The interval that matters most: of people like these where there is one."""
        return self.like or self.these

    @property
    def interval(self) -> str:
        """That interval in words."""
        return f"{percent(self.shown.lo, self._fine)} to {percent(self.shown.hi, self._fine)}"

    @property
    def measured(self) -> str:
        """The number itself in words."""
        return percent(self.value, self._fine)

    @property
    def _fine(self) -> bool:
        return self.shown.hi - self.shown.lo < 0.03

    def __str__(self) -> str:
        return f"{self.measured} ({self.interval})"


def percent(x: float, fine: bool = False) -> str:
    """A share in per cent, with a digit more where it is small, or ``fine`` and neither nothing nor all."""
    digits = 0.0005 <= abs(x) < (0.9995 if fine else 0.0995)
    return f"{100 * x:.1f} %" if digits else f"{100 * x:.0f} %"


def sure(confidence: Fraction) -> str:
    """A confidence in words."""
    return f"{100 * float(confidence):g} % sure"


def points(x: float) -> str:
    """A difference of shares in points."""
    return f"{100 * x:.1f} points" if x < 0.0995 else f"{100 * x:.0f} points"
