"""What a person is told before anything is sent: who sees what, what it costs, and whom that trusts.  Standard library
only."""

from __future__ import annotations

from privpac.protocols.manifest import Manifest

__all__ = ["told"]

_SEES = {
    "local": (
        "The collector sees that you took part{sealed}. The message is private by itself: whoever reads it, alone or "
        "with everybody else, learns almost nothing about your records."
    ),
    "shuffle": (
        "The shuffler sees that you took part and how many messages you sent{sealed}. The analyzer sees everybody's "
        "messages mixed, without names. This holds while shuffler and analyzer do not work together and at least "
        "{n_min} honest people take part."
    ),
    "central": (
        "The collector sees that you took part{sealed}. The analyzer reads the rule that your records lead to, without "
        "noise, and must be trusted with it; the promise is about what the analyzer publishes."
    ),
}


def told(manifest: Manifest) -> str:
    """The promise in words a person can read."""
    sealed = "; the content is sealed to the analyzer" if manifest.analyzer is not None else " and can read the message"
    n_min = manifest.shuffle.n_min if manifest.protocol == "shuffle" else 0
    small = f", delta = {manifest.delta}" if manifest.delta else ""
    cost = f"This run costs epsilon = {manifest.epsilon}{small} of your total."
    return f"{_SEES[manifest.protocol].format(sealed=sealed, n_min=n_min)} {cost}"
