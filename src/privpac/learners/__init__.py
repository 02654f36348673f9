"""Private learners: parameters in, a guarantee before any data, one exact draw out."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "AgnosticReduction": "reduction",
    "AgreedRules": "agreed_class",
    "AgreementLearner": "agreement",
    "CapSelection": "cap",
    "DeletionStability": "deletion",
    "EmpiricalLearner": "reduction",
    "FriendlyMean": "means",
    "GroupPrivacy": "baselines",
    "MeanVector": "means",
    "MinimumError": "minimum_error",
    "OneRecordPerUser": "baselines",
    "PairwiseSelection": "pairwise",
    "PredictionSession": "prediction",
    "PrivateCompare": "minimum_error",
    "PrivateMedian": "median",
    "RealizableSelection": "realizable",
    "RegretSelection": "regret",
    "Relabelling": "relabel",
    "SurrogateSelection": "surrogate",
    "ThresholdLearner": "thresholds",
    "ThresholdSearch": "search",
    "TransformChoice": "transform",
    "TreeLearner": "tree",
    "TrimDesign": "transform",
    "TrimmedMean": "means",
    "TrimmedSelection": "trimmed",
    "TwoVoices": "voices",
    "UserAgnosticLearner": "agnostic",
    "VotePredictor": "prediction",
    "WithFallback": "fallback",
    "choose_transform": "transform",
    "design_trim": "transform",
    "group_privacy": "baselines",
    "literal_users": "transform",
    "one_record_per_user": "baselines",
    "private_cap": "cap",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'privpac.learners' has no attribute {name!r}")
    value = getattr(import_module(f"privpac.learners.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
