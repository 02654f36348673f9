"""Classes of VC dimension 1 as trees: thresholds, points, branches, paths, addresses, taxonomies and explicit tables.

Names are resolved on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
