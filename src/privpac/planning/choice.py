"""A method and the reason for it: what a recommendation is, wherever it comes from."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Choice"]

_BASES = {
    "": "{}",
    "predicted": "a simulation says so (not a certificate): {}",
    "unpredicted": "it is the default, with {}",
    "default": "it is {}",
    "least": "it has {}",
}
"""What a reason rests on, and how it continues "because": nothing said, a prediction, the default where there is no
prediction or in general, the least certified number."""


@dataclass(frozen=True)
class Choice:
    """A method, the reason for it, and what that rests on.

    >>> print(Choice("voices", "the default: nothing is declared", "default"))
    voices: the default: nothing is declared
    >>> Choice("voices", "the default: nothing is declared", "default").because
    'it is the default: nothing is declared'
    """

    method: str
    reason: str
    basis: str = ""

    def __str__(self) -> str:
        return f"{self.method}: {self.reason}"

    @property
    def because(self) -> str:
        """The reason as the end of a sentence."""
        return _BASES[self.basis].format(self.reason)
