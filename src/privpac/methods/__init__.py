"""Private learners: parameters in, a guarantee before any data, one exact draw out."""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
