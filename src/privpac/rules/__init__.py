"""Concept classes: finite lists of rules over public domains, and how users are folded into their scores.

Names are resolved on first use, so that one class does not load the kernels of all the others.
"""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
