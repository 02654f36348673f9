"""Estimators that follow scikit-learn's conventions."""

from privpac.sklearn.classifier import PrivateRuleClassifier
from privpac.sklearn.density import PrivateGaussian, PrivateHistogram
from privpac.sklearn.quantiles import PrivateQuantileTransformer
from privpac.sklearn.search import PrivateSearchCV

__all__ = [
    "PrivateGaussian",
    "PrivateHistogram",
    "PrivateQuantileTransformer",
    "PrivateRuleClassifier",
    "PrivateSearchCV",
]
