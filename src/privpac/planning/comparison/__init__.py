"""Methods side by side on people whose records are public or made up: populations, contenders, and what each costs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
