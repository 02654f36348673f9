"""Estimators that follow scikit-learn's conventions."""

from privpac.sklearn.classifier import PrivateRuleClassifier
from privpac.sklearn.density import PrivateGaussian, PrivateHistogram

__all__ = ["PrivateGaussian", "PrivateHistogram", "PrivateRuleClassifier"]
