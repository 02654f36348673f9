"""Distributions learned from users: selection among candidates, covers, histograms, means and covariances.

Everything here is pure user-level differential privacy in the central model.  Names are resolved on first use.
"""

from privpac.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
