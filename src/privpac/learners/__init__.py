"""Private learners: parameters in, a guarantee before any data, one exact draw out."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "CapSelection": "cap",
    "GroupPrivacy": "baselines",
    "MinimumError": "minimum_error",
    "OneRecordPerUser": "baselines",
    "PairwiseSelection": "pairwise",
    "PrivateCompare": "minimum_error",
    "PrivateMedian": "median",
    "RealizableSelection": "realizable",
    "RegretSelection": "regret",
    "SurrogateSelection": "surrogate",
    "ThresholdLearner": "thresholds",
    "ThresholdSearch": "search",
    "UserAgnosticLearner": "agnostic",
    "group_privacy": "baselines",
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
