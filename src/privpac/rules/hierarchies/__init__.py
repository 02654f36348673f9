"""Classes of VC dimension 1 as trees: thresholds, points, branches, paths, addresses, taxonomies and explicit tables.

Names are resolved on first use.
"""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
