"""Self-contained HTML pages about a rule, a distribution, a plan, an audit or a comparison."""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
