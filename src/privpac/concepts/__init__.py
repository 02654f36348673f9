"""Concept classes: finite lists of rules over public domains, and how users are folded into their scores.

Names are resolved on first use, so that one class does not load the kernels of all the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "AddressTree": "trees",
    "BranchThresholds": "trees",
    "ConceptClass": "base",
    "Conjunctions": "boolean",
    "DecisionLists": "lists",
    "Disjunctions": "boolean",
    "Exceeds": "statistics",
    "FiniteClass": "finite",
    "Halfspaces": "halfspaces",
    "Intervals": "intervals",
    "Labellings": "labellings",
    "Mean": "statistics",
    "Parities": "parities",
    "PathTree": "trees",
    "Points": "points",
    "PrefixTree": "trees",
    "Profile": "profile",
    "Rectangles": "rectangles",
    "Regret": "statistics",
    "Rule": "base",
    "StarTree": "trees",
    "Stumps": "stumps",
    "Taxonomy": "trees",
    "Thresholds": "thresholds",
    "TreeNodes": "trees",
    "TreeRule": "trees",
    "VC1Tree": "trees",
    "Voices": "voices",
    "glue": "trees",
    "graft": "trees",
    "parse_tree": "trees",
    "part_node": "trees",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'privpac.concepts' has no attribute {name!r}")
    value = getattr(import_module(f"privpac.concepts.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
