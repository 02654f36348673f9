"""Self-contained HTML pages about a rule, a distribution, a plan, an audit or a comparison."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
