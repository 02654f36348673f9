"""How good is it?  Private tables of right and wrong, intervals that hold, and how far from the best a rule can be."""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
