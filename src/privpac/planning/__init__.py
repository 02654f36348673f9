"""How many users do I need, and which method?  From public numbers only."""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
