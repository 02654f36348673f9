"""Estimators that follow scikit-learn's conventions."""

from privpac.sklearn.classifier import PrivateRuleClassifier

__all__ = ["PrivateRuleClassifier"]
