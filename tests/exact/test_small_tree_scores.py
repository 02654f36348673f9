"""One person moves the votes against every small tree by at most ``levels``, all in one direction: with missing values
as an answer of their own and with more than two labels, too."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from privpac.data import Domain, Integers, Missing, UserData
from privpac.methods.small_tree import SmallTreeLearner
from privpac.rules.small_trees import SmallTrees

LEVELS = 720720


@pytest.mark.parametrize("classes", [None, ("a", "b", "c")])
@pytest.mark.parametrize("column", [Integers(0, 2), Missing(Integers(0, 2), "own")])
def test_votes_against_a_tree_lie_between_none_and_all(classes: tuple[str, ...] | None, column: Domain) -> None:
    coins = np.random.default_rng(18)
    values: list[Any] = [0, 1, 2, *([None] if isinstance(column, Missing) else [])]
    labels: tuple[Any, ...] = classes or (0, 1)
    learner = SmallTreeLearner(SmallTrees(classes=classes), 1)
    told: dict[str, Any] = {} if classes is None else {"classes": list(classes)}
    types = {"who": pl.Int64, "x": pl.Int64, "z": pl.Int64, "y": pl.Int64 if classes is None else pl.String}

    def law(table: pl.DataFrame) -> Any:
        features: dict[str, Domain] = {"x": column, "z": Integers(0, 1)}
        return learner.law(UserData.from_frame(table, user="who", features=features, label="y", **told))

    for _ in range(4):
        rows = [
            (who, values[coins.integers(len(values))], int(coins.integers(2)), labels[coins.integers(len(labels))])
            for who in range(3)
            for _ in range(coins.choice([1, 2, 3, 7, 11]))
        ]
        table = pl.DataFrame(rows, schema=types, orient="row")
        with_them, without = law(table), law(table.filter(pl.col("who") != 1))
        trees = coins.integers(with_them.shape.size, size=400).tolist()
        moved = [with_them.score(tree) - without.score(tree) for tree in trees]
        assert min(moved) >= 0
        assert max(moved) <= LEVELS
