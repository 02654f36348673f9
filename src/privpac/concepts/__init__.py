"""Concept classes: finite lists of rules over public domains, and how users are folded into their scores.

Names are resolved on first use, so that one class does not load the kernels of all the others.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
