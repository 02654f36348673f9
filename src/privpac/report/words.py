"""What pages call the public numbers of a release, and its promise in lines."""

from __future__ import annotations

import warnings

from privpac.errors import WeakGuaranteeWarning
from privpac.guarantee import Guarantee

__all__ = ["WORDS", "promise_lines"]

WORDS = {
    "class": "class of rules",
    "size": "number of rules",
    "levels": "steps of a user's vote",
    "noisy_n_users": "number of users (noisy)",
    "public_n_users": "number of users (public)",
    "epsilon_count": "epsilon spent on that number",
    "max_records": "records read per user, at most",
    "tau": "clip of a user's regret, in records",
    "tolerance": "mistakes forgiven per user",
    "columns": "columns of the card",
    "steps": "steps of the descent",
    "clip": "clip of a user's gradient, in 1/4096",
    "rho": "spent in all, as zCDP",
    "depth": "questions one after the other, at most",
    "price in nats": "price of the rule, in nats",
    "mode": "how a user's records name a node",
    "hi": "users at least as deep as the node, at least",
    "K": "users deeper than the node, at most",
    "epsilon1": "epsilon spent on the depth",
    "epsilon2": "epsilon spent on the node",
}


def promise_lines(guarantee: Guarantee | None) -> list[str]:
    """A guarantee in words, after its own first line."""
    if guarantee is None:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakGuaranteeWarning)  # said at the top already
        return guarantee.explain().splitlines()[1:]
