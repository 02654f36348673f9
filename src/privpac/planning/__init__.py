"""How many users do I need, and which method?  From public numbers only."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
