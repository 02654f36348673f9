"""Classes of VC dimension 1 as trees: thresholds, points, branches, paths, addresses, taxonomies and explicit tables.

Names are resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "AddressTree": "addresses",
    "BranchThresholds": "branches",
    "ExplicitTree": "explicit",
    "PartNodes": "parts",
    "PathTree": "implicit",
    "PrefixTree": "prefix",
    "StarTree": "implicit",
    "Taxonomy": "taxonomy",
    "TreeNodes": "nodes",
    "TreeRule": "rule",
    "VC1Tree": "base",
    "glue": "combine",
    "graft": "combine",
    "parse_tree": "named",
    "part_node": "base",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'privpac.concepts.trees' has no attribute {name!r}")
    value = getattr(import_module(f"privpac.concepts.trees.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
