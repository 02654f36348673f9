"""Methods side by side on people whose records are public or made up: populations, contenders, and what each costs."""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
