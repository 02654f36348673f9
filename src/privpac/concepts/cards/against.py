"""Points cards for more than two labels: one for each label against the rest, all in the same points.

The answer is the label whose points are furthest above its threshold, or least below it; the first of them in the
declared order where several are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import Rule
from privpac.concepts.cards.card import Card
from privpac.data import Domain
from privpac.errors import ParameterError
from privpac.released import register

__all__ = ["Cards"]


@register("points-cards")
@dataclass(frozen=True, repr=False)
class Cards(Rule):
    """A card for each label, named by the card's own ``label``."""

    cards: tuple[Card, ...]
    label: str = "1"

    def __post_init__(self) -> None:
        if len(self.cards) < 2 or len(set(self.names)) < len(self.cards):
            raise ParameterError("cards for several labels are two or more, each of a label of its own")
        if any(card.columns != self.cards[0].columns or card.top != self.cards[0].top for card in self.cards):
            raise ParameterError("cards for several labels have the same columns and the same top")
        if len({bool(card.bands) for card in self.cards}) > 1:
            raise ParameterError("either all cards for several labels are calibrated, or none")

    @property
    def names(self) -> tuple[str, ...]:
        """The labels."""
        return tuple(card.label for card in self.cards)

    @property
    def features(self) -> Mapping[str, Domain]:
        return self.cards[0].features

    @property
    def reads(self) -> tuple[str, ...]:
        read = {name for card in self.cards for name in card.reads}
        return tuple(name for name in self.features if name in read)

    @property
    def bands(self) -> tuple[Any, ...]:
        """Of all cards; empty without a calibration."""
        return tuple(band for card in self.cards for band in card.bands)

    # Predicting

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        """The place of the label."""
        above = np.stack([card.totals(codes) - card.threshold for card in self.cards], axis=1)
        said: NDArray[np.int8] = np.argmax(above, axis=1).astype(np.int8)
        return said

    def predict(self, X: Any) -> Any:
        """The names of the labels."""
        return np.array(self.names)[super().predict(X)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """For each row the chances of the labels, in their order: each card's rate, and all of them made to add up to
        1; alike where all are 0."""
        if not self.bands:
            raise ParameterError(
                "these cards were learned without a calibration, so they have no chances; learn with calibrate='1/10'"
            )
        codes = self.encode(X)
        rates = np.stack([card.rates(codes) for card in self.cards], axis=1)
        whole = rates.sum(axis=1, keepdims=True)
        return np.where(whole > 0, rates / np.where(whole > 0, whole, 1), 1 / len(self.cards))

    # Words

    @property
    def _constant(self) -> str | None:
        """The label that is named whatever the answers are."""
        for card in self.cards:
            others = [other.most - other.threshold for other in self.cards if other is not card]
            if card.least - card.threshold > max(others):
                return card.label
        return None

    def condition(self) -> str:
        return self._constant or "the label whose points are furthest above its threshold"

    def __str__(self) -> str:
        said = f"{self.label}: {self.condition()}"
        if self._constant:
            return f"{said}, whatever the points"
        return "\n".join(
            [
                said,
                *(line for card in self.cards for line in (f" {card.label}, threshold {card.threshold}", *card.rows())),
            ]
        )

    @property
    def picture(self) -> Literal["domain", "regions", "card", "none"]:
        return "none" if self._constant else "card"

    # Storage

    def to_dict(self) -> dict[str, Any]:
        return {"cards": [card.to_dict() for card in self.cards], "label": self.label}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(tuple(Card.from_dict(card) for card in values["cards"]), str(values["label"]))
