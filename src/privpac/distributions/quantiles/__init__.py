"""Private quantiles of a column: one number, several, or with an interval that holds.  Read ``ranks`` first: the score
and its proof; ``learner`` is the release, ``result`` what is published.

Names are resolved on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
