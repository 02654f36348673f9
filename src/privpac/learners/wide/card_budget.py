"""The budget of a points card: one zCDP ``rho``, its shares, and the noise of every release.

| release | share | moves by at most, squared (add-remove / replace) |
|---|---|---|
| calibration (asked for) | a declared share of all, taken first | ``840**2`` / ``2 * 840**2`` |
| number of users (bought under add-remove unless declared) | 1/16 of the rest | 1 / public |
| centre | 15 % of what is left then | ``R**2`` / ``4 R**2`` |
| norm | 2 % | ``B0**2`` / ``B0**2``, both norms being in ``0..B0`` |
| each of T steps | 83 % / T | ``C**2`` / ``4 C**2`` |

The shares are fixed before any data; the variance of a step follows the released clip size, which is the same number
for both neighbours, so every step costs its share whatever that size turned out to be, and the shares add up (adaptive
composition of zCDP).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from privpac.guarantee import Neighbours
from privpac.learners.wide.card_arithmetic import centre_clip, norm_cap

__all__ = ["CALIBRATION_LEVELS", "CardBudget"]

CALIBRATION_LEVELS = 840


@dataclass(frozen=True)
class CardBudget:
    """The shares of one card.

    ``rho`` is what the card may spend in all, the calibration included; ``bought``: the number of users is paid for.
    """

    rho: Fraction
    columns: int
    steps: int
    neighbours: Neighbours
    bought: bool
    calibrate: Fraction = Fraction(0)

    @property
    def calibration(self) -> Fraction:
        return self.rho * self.calibrate

    @property
    def count(self) -> Fraction:
        return (self.rho - self.calibration) / 16 if self.bought else Fraction(0)

    @property
    def rest(self) -> Fraction:
        """What centre, norm and steps share."""
        return self.rho - self.calibration - self.count

    @property
    def centre(self) -> Fraction:
        return 3 * self.rest / 20

    @property
    def norm(self) -> Fraction:
        return self.rest / 50

    @property
    def step(self) -> Fraction:
        return 83 * self.rest / (100 * self.steps)

    @property
    def parts(self) -> tuple[Fraction, ...]:
        """Every release's share, in the order they are made; they add up to ``rho``."""
        return (self.calibration, self.count, self.centre, self.norm, *([self.step] * self.steps))

    @property
    def _doubled(self) -> int:
        """A replaced user moves a vector from one end of a ball to the other: twice as far, four times squared."""
        return 1 if self.neighbours is Neighbours.ADD_REMOVE else 4

    @property
    def count_variance(self) -> Fraction | None:
        return 1 / (2 * self.count) if self.count else None

    @property
    def centre_variance(self) -> Fraction:
        return self._doubled * centre_clip(self.columns) ** 2 / (2 * self.centre)

    @property
    def norm_variance(self) -> Fraction:
        """The same under both relations: two norms in ``0..B0`` are at most ``B0`` apart."""
        return norm_cap(self.columns) ** 2 / (2 * self.norm)

    def step_variance(self, clip: int) -> Fraction:
        """For the released clip size."""
        return self._doubled * clip**2 / (2 * self.step)

    @property
    def calibration_variance(self) -> Fraction | None:
        """Two non-negative vectors of sum 840 are at most ``840 sqrt(2)`` apart."""
        moved = 1 if self.neighbours is Neighbours.ADD_REMOVE else 2
        return moved * CALIBRATION_LEVELS**2 / (2 * self.calibration) if self.calibration else None
