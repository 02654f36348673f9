"""Warm a worker up before it takes its first request.

The first query of a process is slow for reasons that have nothing to do with it: compiled kernels are loaded (or, on a
new machine, compiled), the laws of all vote counts are made, and the interpreter lock is held meanwhile, so that every
other request waits as well. A worker does that work once before it listens.  The queries are made up from the public
schema; their votes are counted and every coin is tossed once, whatever the voters say, and all of it is thrown away:
**nothing is answered, counted or written**.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from privpac.methods.prediction.session import PredictionSession
from privpac.rng import secret_rng
from privpac.serve.schema import columns

_SAMPLES: tuple[Any, ...] = (0, 0.5, "0", "2000-01-01", True)
"""One value for every way JSON can write one; the others of a domain go the same way through the code."""


def warm_up(session: PredictionSession) -> None:
    """Run everything a query runs, except the ledger's write."""
    rng = secret_rng(None)
    for coin in session._coins:
        coin.toss(rng.word(), rng)
    known = {name: domain.value(domain.value_range()[0]) for name, domain in session.features.items()}
    spoken = {name: value if isinstance(value, (bool, int, float)) else str(value) for name, value in known.items()}
    for record in (spoken, *(dict.fromkeys(spoken, sample) for sample in _SAMPLES)):
        with suppress(Exception):  # not every domain takes every kind of value
            codes = columns(session, [record])
            for epoch in range(len(session._voters)):
                session._count(epoch, codes)
    session.used()
