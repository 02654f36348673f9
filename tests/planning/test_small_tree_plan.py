"""Plans of small trees: all three questions, and the run that a row speaks of."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import privpac as pp
from privpac.data import Integers
from privpac.errors import ParameterError
from privpac.methods.base import Bound
from privpac.methods.small_tree import SmallTreeLearner
from privpac.methods.small_tree_plan import LeafGains, TreeModel, _codes, mean_gain
from privpac.testing import SeededRng, insecure_randomness

TREES = pp.SmallTrees({f"x{j}": Integers(0, 15) for j in range(10)})


def test_users_accuracy_and_epsilon() -> None:
    users = pp.plan(TREES, epsilon=1, alpha="0.1", records_per_user=(1, 16, 64))
    right, any_ = users.row("small tree, some tree is right"), users.row("small tree")
    assert all(n is not None and abs(n - 330) <= 2 for n in right.n_users)
    assert all(n is not None and abs(n - 4142) <= 2 for n in any_.n_users)
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
    assert "150 questions about 10 columns" in plan.asked.target.shown["class"]
    assert plan.to_dict()


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(ParameterError, match="is not known for small trees"):
        pp.plan(TREES, epsilon=1, people="differ")
    with pytest.raises(ParameterError, match="no columns yet"):
        pp.plan(pp.SmallTrees(), epsilon=1)


# Predictions

SMALL = {
    "one column": pp.SmallTrees({"a": Integers(0, 4)}),
    "one question": pp.SmallTrees({"a": Integers(0, 1)}),
    "two columns": pp.SmallTrees({"a": Integers(0, 2), "b": pp.Categories(["x", "y", "z"])}),
    "missing": pp.SmallTrees({"a": pp.Missing(Integers(0, 1), "own"), "b": Integers(0, 1), "c": Integers(0, 1)}),
    "depth 1": pp.SmallTrees({"a": Integers(0, 5), "b": Integers(0, 5)}, depth=1),
    "three labels": pp.SmallTrees({"a": Integers(0, 1), "b": Integers(0, 1)}, classes=["p", "q", "r"]),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_mean_over_the_law_is_that_of_all_trees(name: str) -> None:
    """Every tree by itself, from the law that is sampled, and its error on every combination of bins."""
    concept, noise = SMALL[name], Fraction(1, 5)
    model = TreeModel(concept, noise)
    data = model.draw(3, 40, 3)
    law = SmallTreeLearner(concept, 2)._law(Bound(concept, data, "1"))
    predicted = model.excess(LeafGains.of(law.cells, float(law.rate)))
    # All combinations of bins, equally likely, with the truth's label.
    grids = np.meshgrid(*(np.arange(column.width) for column in concept.binned), indexing="ij")
    bins = [grid.ravel() for grid in grids]
    truth = model._named([holds[bins[j]] for j, holds in model._asked])
    codes = {c.name: _codes(c)[b] for c, b in zip(concept.binned, bins)}
    lost = 1 - float(noise) - float(noise) / (concept.labels - 1)
    mean = 0.0
    for tree in range(concept.size):
        wrong = float(np.mean(concept.predictions(codes, tree) != truth))
        mean += float(law.prob(tree)) * lost * wrong
    assert predicted == pytest.approx(mean, rel=1e-9, abs=1e-12)


def test_predictions_stand_beside_certificates_and_repeat() -> None:
    trees = pp.SmallTrees({f"x{j}": Integers(0, 2) for j in range(3)})
    plan = pp.plan(trees, epsilon=2, alpha="0.15", records_per_user=(1, 8))
    assert plan.quick
    predicted = {row.method: row for row in plan.predicted}
    for row in plan.rows:
        same = predicted[row.method]
        assert all(0 < few < many for few, many in zip(same.values, row.values))
        assert same.standard_error <= 0.0501 or "public number" in same.note
    assert [row.values for row in pp.plan(trees, epsilon=2, alpha="0.15", records_per_user=(1, 8)).predicted] == [
        row.values for row in plan.predicted
    ]
    assert "typical" in str(plan)
    only = pp.plan(trees, epsilon=1, n_users=60, records_per_user=4, model_noise="0.3").predicted
    assert [row.method for row in only] == ["small tree"]
    assert "wrong with probability 0.3" in only[0].assumption
    other = pp.plan(trees, n_users=200, alpha="0.05", records_per_user=4, setting="realizable").predicted
    assert 0 < other[0].values[0] < 1


def test_what_is_predicted_is_what_runs_do() -> None:
    """The real learner, drawn with seeded coins, on people of the model."""
    concept, noise = pp.SmallTrees({f"x{j}": Integers(0, 3) for j in range(3)}), Fraction(1, 10)
    model, learner = TreeModel(concept, noise), SmallTreeLearner(concept, 1)
    fresh = model.draw(999, 4000, 1)
    truth = model._named([holds[fresh.codes[f"x{j}"].astype(int)] for j, holds in model._asked])
    errors = []
    with insecure_randomness():
        for i in range(60):
            rule = learner.learn(model.draw(i, 60, 2), rng=SeededRng(i)).value
            errors.append(0.8 * float(np.mean(rule.predict_codes(fresh.codes) != truth)))
    rate = float(learner.vote_rate)
    predicted = np.mean([model.excess(LeafGains.of(concept.cells(model.draw(i, 60, 2)), rate)) for i in range(60)])
    assert abs(np.mean(errors) - predicted) < 5 * np.std(errors) / 60**0.5 + 0.01


def test_a_sharp_law_is_the_truth() -> None:
    model = TreeModel(TREES, Fraction(0))
    gains = model.population
    assert model.best == pytest.approx(0.5)
    assert mean_gain(TREES, LeafGains(*(0 * part for part in gains)), gains) < 0.01
