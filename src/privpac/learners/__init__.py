"""Private learners: parameters in, a guarantee before any data, one exact draw out."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
