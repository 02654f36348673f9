"""The rule of a tree's node: ``f(x) XOR [node(x) is v or above it]``; points the tree does not know get the base
label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.base import Rule, columns_of
from privpac.concepts.trees.base import Node, VC1Tree
from privpac.concepts.trees.columns import Column, raw_columns, user_columns
from privpac.data import Domain, Texts, UserData
from privpac.errors import ParameterError
from privpac.released import register

__all__ = ["TreeRule"]


@register("branch")
@dataclass(frozen=True)
class TreeRule(Rule):
    """1 on the path from the root to ``node`` (XOR the base labels)."""

    tree: VC1Tree
    node: Node
    label: str = "1"

    def __post_init__(self) -> None:
        if not isinstance(self.tree, VC1Tree):
            raise TypeError(f"tree must be a VC1Tree, got {type(self.tree).__name__}")
        object.__setattr__(self, "node", self.tree.unpack(self.tree.pack(self.node)))

    @property
    def features(self) -> Mapping[str, Domain]:
        return self.tree.columns

    def predict_codes(self, codes: Mapping[str, NDArray[np.uint64]]) -> NDArray[np.int8]:
        columns = self.tree.columns
        if any(isinstance(domain, Texts) for domain in columns.values()):
            raise ParameterError(
                "codes of an open vocabulary mean nothing outside their data set; use predict or predict_users"
            )
        return self._predict({name: Column(codes[name], domain, None) for name, domain in columns.items()})

    def predict(self, X: Any) -> NDArray[np.int8]:
        return self._predict(raw_columns(columns_of(X, self.features, self.reads)))

    def predict_users(self, users: UserData) -> NDArray[np.int8]:
        """0/1 for every record of bound users."""
        return self._predict(user_columns(users, self.tree.columns))

    def _predict(self, columns: Mapping[str, Column]) -> NDArray[np.int8]:
        places = self.tree.places(columns)
        on_path = np.zeros(len(places.depth) + 1, dtype=np.int8)  # the last entry, index -1, is for unknown points
        for i in np.unique(places.at[places.at > 0]).tolist():
            on_path[i] = self.tree.is_ancestor(places.name(i), self.node)
        flipped = on_path[places.at]
        return flipped if places.base is None else flipped ^ places.base.astype(np.int8)

    def condition(self) -> str:
        return self.tree.condition(self.node)

    def to_dict(self) -> dict[str, Any]:
        return {"tree": self.tree.to_dict(), "node": self.tree.pack(self.node), "label": self.label}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        tree = VC1Tree.from_dict(values["tree"])
        return cls(tree, tree.unpack(values["node"]), values["label"])
