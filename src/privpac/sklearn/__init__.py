"""Estimators that follow scikit-learn's conventions (extra ``[sklearn]``)."""

from privpac.lazy import attach_stub, need

need("sklearn", "privpac.sklearn")

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
