"""Protocols over data that stay with the people, on the side of those who ask: the run and its manifest, the collector,
the shuffler, the analyzer, and how much noise a shuffled run needs.

What a device runs stands in :mod:`privpac.device`, which nothing here is needed for.  Read ``protocol`` first.  Names
are resolved on first use.
"""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
