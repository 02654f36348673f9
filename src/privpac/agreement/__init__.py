"""Agreement: many users turn their own records into the same item with the help of public randomness.

One user in, one item out.  Everything is integer arithmetic on the standard library and numpy, so that a device can run
it and every device gets the same bits.  A private selection among the users' items (elsewhere) is what protects them;
see ``learner``.

Names are resolved on first use; import from the modules themselves where a type checker should see signatures.
"""

from importlib import import_module
from typing import Any

import lazy_loader

_own, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
_IN_RESEARCH = {"stable_hypothesis", "tournament_blocks", "tournament_lists"}
_IN_RESEARCH |= {"race_disagreement", "stream_disagreement", "stream_sample", "total_variation"}


def __getattr__(name: str) -> Any:
    """A name of this room, or one of :mod:`privpac.research` that stood here before."""
    return getattr(import_module("privpac.research"), name) if name in _IN_RESEARCH else _own(name)
