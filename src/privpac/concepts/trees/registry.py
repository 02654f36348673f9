"""Kinds of trees, by which they are saved and rebuilt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from privpac.concepts import trees
from privpac.errors import ParameterError

if TYPE_CHECKING:
    from privpac.concepts.trees.base import VC1Tree

__all__ = ["register_tree", "tree_class"]

_T = TypeVar("_T", bound="type[VC1Tree]")
_trees: dict[str, type[VC1Tree]] = {}


def register_tree(cls: _T) -> _T:
    """Class decorator: trees of this class are saved under their ``kind``."""
    _trees[cls.kind] = cls
    return cls


def tree_class(kind: Any) -> type[VC1Tree]:
    """The trees of this package register themselves when they are first used."""
    if kind not in _trees:
        for name in dir(trees):
            getattr(trees, name)
    if kind not in _trees:
        raise ParameterError(f"a stored tree needs a kind among {', '.join(_trees)}, got {str(kind)[:60]!r}")
    return _trees[kind]
