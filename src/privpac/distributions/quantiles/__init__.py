"""Private quantiles of a column: one number, several, or with an interval that holds.  Read ``ranks`` first: the score
and its proof; ``learner`` is the release, ``result`` what is published.

Names are resolved on first use.
"""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
