"""Plans of small trees: all three questions, and the run that a row speaks of."""

from __future__ import annotations

from fractions import Fraction

import pytest

import privpac as pp
from privpac.data import Integers
from privpac.errors import ParameterError
from privpac.learners.wide.small_tree import SmallTreeLearner

TREES = pp.SmallTrees({f"x{j}": Integers(0, 15) for j in range(10)})


def test_users_accuracy_and_epsilon() -> None:
    users = pp.plan(TREES, epsilon=1, alpha="0.1", records_per_user=(1, 16, 64))
    right, any_ = users.row("small tree, some tree is right"), users.row("small tree")
    assert all(n is not None and abs(n - 330) <= 2 for n in right.n_users)
    assert all(n is not None and abs(n - 4160) <= 10 for n in any_.n_users)
    noisy = pp.plan(TREES, epsilon=1, alpha="0.1", records_per_user=16, noise="0.05", setting="agnostic")
    assert [abs(n - 770) <= 1 for row in noisy.rows for n in row.n_users if n is not None] == [True]
    accuracy = pp.plan(TREES, n_users=330, epsilon=1, records_per_user=16, setting="realizable")
    assert Fraction(9, 100) < accuracy.rows[0].values[0] <= Fraction(101, 1000)
    epsilon = pp.plan(TREES, n_users=330, alpha="0.1", records_per_user=16, setting="realizable")
    assert Fraction(9, 10) < epsilon.rows[0].values[0] <= Fraction(11, 10)
    replaced = pp.plan(TREES, epsilon=2, alpha="0.1", records_per_user=16, neighbours="replace", setting="realizable")
    assert (
        replaced.rows[0].n_users
        == pp.plan(TREES, epsilon=1, alpha="0.1", records_per_user=16, setting="realizable").rows[0].n_users
    )


def test_a_row_says_what_to_run() -> None:
    plan = pp.plan(TREES, epsilon=1, alpha="0.1", records_per_user=16)
    assert plan.recommendation.method == "small-tree"
    learner = plan.learner("small tree")
    assert isinstance(learner, SmallTreeLearner)
    assert learner.epsilon == 1
    assert "--rule small-tree" in plan.command("small tree")
    assert "150 questions about 10 columns" in str(plan)
    assert plan.to_dict()


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(ParameterError, match="is not known for small trees"):
        pp.plan(TREES, epsilon=1, people="differ")
    with pytest.raises(ParameterError, match="no columns yet"):
        pp.plan(pp.SmallTrees(), epsilon=1)
