"""Learn decision rules from people's data while protecting each person, not each row.

Names are resolved on first use, so that the light parts (``privpac.agreement``, ``privpac.protocols.client``)
import nothing but the standard library and numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "AddressTree": "concepts",
    "AgnosticReduction": "learners",
    "AgreementLearner": "learners",
    "BOTTOM": "law",
    "BranchThresholds": "concepts",
    "BudgetLedger": "ledger",
    "Categories": "data",
    "Conjunctions": "concepts",
    "Dates": "data",
    "DecisionLists": "concepts",
    "DeletionStability": "learners",
    "Disjunctions": "concepts",
    "FiniteClass": "concepts",
    "Floats": "data",
    "FriendlyMean": "learners",
    "Grid": "data",
    "Guarantee": "guarantee",
    "Halfspaces": "concepts",
    "Integers": "data",
    "Intervals": "concepts",
    "Law": "law",
    "LocalProtocol": "protocols",
    "Parities": "concepts",
    "PathTree": "concepts",
    "Points": "concepts",
    "PrefixTree": "concepts",
    "RealizableSelection": "learners",
    "Rectangles": "concepts",
    "RegretSelection": "learners",
    "Released": "api",
    "ShuffleProtocol": "protocols",
    "StarTree": "concepts",
    "Stumps": "concepts",
    "Taxonomy": "concepts",
    "Texts": "data",
    "Thresholds": "concepts",
    "TreeLearner": "learners",
    "TrimmedMean": "learners",
    "TrimmedSelection": "learners",
    "TwoVoices": "learners",
    "UserData": "data",
    "VC1Tree": "concepts",
    "VotePredictor": "learners",
    "audit": "",
    "bounds": "",
    "from_spark": "api_engines",
    "learn": "api",
    "learn_distribution": "api_distributions",
    "load": "api",
    "parse_tree": "concepts",
    "plan": "planning",
    "release": "ledger",
    "scan": "api_engines",
    "select_distribution": "api_distributions",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'privpac' has no attribute {name!r}")
    value = getattr(import_module(f"privpac.{home}"), name) if home else import_module(f"privpac.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
