"""The budget of a points card: one ``rho``, its shares, and the noise of every release.

| release | share | moves by at most, squared (add-remove / replace) |
|---|---|---|
| calibration (asked for) | a declared share of all, taken first | ``840**2`` / ``2 * 840**2`` |
| number of users (bought under add-remove unless declared) | 1/16 of the rest | 1 / public |
| centre | 15 % of what is left then | ``R**2`` / ``4 R**2`` |
| norm | 2 % | ``B0**2`` / ``B0**2``, both norms being in ``0..B0`` |
| each of T steps | 83 % / T | ``C**2`` / ``4 C**2`` |

With more than two labels there are ``k`` cards, one against the rest for each: number of users and centre do not look
at labels and are released once; every other share is split evenly among the cards.

The shares are fixed before any data; the variance of a step follows the released clip size, which is the same number
for both neighbours, so every step costs its share whatever that size turned out to be, and the shares add up
(:mod:`privpac.mechanisms.gaussian_privacy`; as zCDP too).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from privpac.guarantee import Neighbours
from privpac.learners.wide.card_arithmetic import centre_clip, norm_cap
from privpac.parameters import DEFAULT_LEVELS

__all__ = ["CardBudget"]


@dataclass(frozen=True)
class CardBudget:
    """The shares of one card.

    ``rho`` is what the cards may spend in all, the calibration included; ``bought``: the number of users is paid for;
    ``smoothing`` is added to every variance.
    """

    rho: Fraction
    columns: int
    steps: int
    neighbours: Neighbours
    bought: bool
    calibrate: Fraction = Fraction(0)
    cards: int = 1
    smoothing: int = 0

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
    def own(self) -> Fraction:
        """What sets clip and training time of one card: the rest, as if it were one of ``cards`` tables of its own."""
        return self.rest / self.cards

    @property
    def norm(self) -> Fraction:
        """Of one card."""
        return self.own / 50

    @property
    def step(self) -> Fraction:
        """Of one step of one card."""
        return 83 * self.own / (100 * self.steps)

    @property
    def parts(self) -> tuple[Fraction, ...]:
        """Every release's share; they add up to ``rho``."""
        each = [self.calibration / self.cards, self.norm, *([self.step] * self.steps)]
        return (self.count, self.centre, *(each * self.cards))

    @property
    def _doubled(self) -> int:
        """A replaced user moves a vector from one end of a ball to the other: twice as far, four times squared."""
        return 1 if self.neighbours is Neighbours.ADD_REMOVE else 4

    def _variance(self, moved: int, share: Fraction) -> Fraction:
        """Of noise that hides a move of this square at this share."""
        return moved / (2 * share) + self.smoothing

    @property
    def count_variance(self) -> Fraction | None:
        return self._variance(1, self.count) if self.count else None

    @property
    def centre_variance(self) -> Fraction:
        return self._variance(self._doubled * centre_clip(self.columns) ** 2, self.centre)

    @property
    def norm_variance(self) -> Fraction:
        """The same under both relations: two norms in ``0..B0`` are at most ``B0`` apart."""
        return self._variance(norm_cap(self.columns) ** 2, self.norm)

    def step_variance(self, clip: int) -> Fraction:
        """For the released clip size."""
        return self._variance(self._doubled * clip**2, self.step)

    @property
    def calibration_variance(self) -> Fraction | None:
        """Of one card.  Two non-negative vectors of sum 840 are at most ``840 sqrt(2)`` apart."""
        moved = 1 if self.neighbours is Neighbours.ADD_REMOVE else 2
        return self._variance(moved * DEFAULT_LEVELS**2, self.calibration / self.cards) if self.calibration else None
