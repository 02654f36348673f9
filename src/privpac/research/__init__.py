"""Results of the papers that serve proofs and comparisons, not data: importable, tested, behind no front door."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
