"""Distributions learned from users: selection among candidates, covers, histograms, means and covariances.

Everything here is pure user-level differential privacy in the central model.  Names are resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "AveragedHistogram": "averaged",
    "ClippedHistogram": "histogram",
    "CoarseToFineCovariance": "covariance",
    "CoarseToFineGaussian": "covariance",
    "CoarseToFineMean": "means",
    "CoarseToFineVariance": "means",
    "CoverLearner": "cover_learner",
    "Density": "candidates",
    "Discrete": "families",
    "DiscreteCover": "covers",
    "DiscreteDistribution": "results",
    "Distribution": "results",
    "FamilyDistribution": "results",
    "Gaussian": "families",
    "GaussianDistribution": "results",
    "HistogramDistribution": "results",
    "HypothesisSelector": "selector",
    "Independent": "families",
    "NamedCandidate": "results",
    "ProductDistribution": "results",
    "scheffe_probability": "crossings",
    "scheffe_range": "comparison",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'privpac.distributions' has no attribute {name!r}")
    value = getattr(import_module(f"privpac.distributions.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
