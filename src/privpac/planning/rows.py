"""One line of a plan with its numbers, whichever of the three questions it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from privpac.bounds.certificate import Certificate

__all__ = ["PlanRow", "written"]

_TINY = Fraction(1, 10**6)


@dataclass(frozen=True)
class PlanRow:
    """One method: a number for each number of records per user, None where there is none.

    ``quantity`` says what the ``values`` are: "users" needed, or the least "alpha" or "epsilon" for so many users.
    ``kind``: "certified" (enough), "lower bound" (less is not) or "predicted" (on the model that ``assumption`` names).
    """

    method: str
    kind: str
    assumption: str
    values: tuple[Any, ...]
    note: str = ""
    states: str = ""
    """Of a prediction: what is so at these numbers (a mean, not a probability)."""
    standard_error: float | None = None
    """Of a prediction, as a share; 0 where every comparison was clear."""
    quantity: str = "users"
    key: str = field(default="", repr=False, compare=False)
    """The method itself: rows on several assumptions share it."""
    certificates: tuple[Certificate | None, ...] = field(default=(), compare=False, repr=False)
    """Of numbers of users; those of a least value are made again at the value found."""

    @property
    def n_users(self) -> tuple[int | None, ...]:
        """The values, where they are numbers of users."""
        return self.values if self.quantity == "users" else ()

    def to_dict(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"method": self.method, "kind": self.kind, "assumption": self.assumption}
        if self.quantity == "users":
            shown |= {"n_users": list(self.values), "note": self.note}
        else:
            shown |= {"values": [None if value is None else float(value) for value in self.values]}
        if self.standard_error is None:
            return shown
        return {**shown, "note": self.note, "states": self.states, "standard_error": self.standard_error}

    def words(self) -> str:
        """What the row rests on, in a line."""
        said = [*([f"assumes {self.assumption}"] if self.assumption else []), *([self.note] if self.note else [])]
        return f"{self.method}: {'; '.join(said)}" if said else self.method

    def cells(self) -> list[str]:
        """The numbers as they are printed."""
        return ["-" if value is None else written(value, self.quantity) for value in self.values]


def written(value: Any, quantity: str) -> str:
    """A number as it is printed."""
    if quantity == "users":
        return f"{round(value):,}"
    return f"{float(value):.3g}" if value >= _TINY else "< 1e-6"
