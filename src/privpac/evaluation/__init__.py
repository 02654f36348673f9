"""How good is it?  Private tables of right and wrong, intervals that hold, and how far from the best a rule can be."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
