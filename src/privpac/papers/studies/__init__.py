"""Results of the papers that serve proofs and comparisons, not data: importable, tested, behind no front door."""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
