"""Region tables: the curve, its area, calibration, thresholds chosen afterwards, chances and files."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import privpac as pp
from privpac.api.learn import learner_for
from privpac.errors import ParameterError
from privpac.evaluation.evaluator import Evaluator, RegionKernel, TableKernel
from privpac.evaluation.intervals import noise_reach
from privpac.evaluation.ranking import RankedSums
from privpac.evaluation.results import Evaluation
from privpac.evaluation.together import EvaluatedLearner
from privpac.methods.registry import default_rules
from privpac.methods.small_tree import SmallTreeLearner
from privpac.result import Released
from privpac.rules.chances import Regions, chances_of_regions

LEVELS = 720_720
FEATURES = {"x": pp.Integers(0, 9), "z": pp.Integers(0, 9)}


def table(n: int = 400, seed: int = 1) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.integers(0, 10, n), rng.integers(0, 10, n)
    return pl.DataFrame({"who": np.arange(n) // 2, "x": x, "z": z, "y": (x + z + rng.normal(0, 3, n) > 9).astype(int)})


def people(n: int = 400) -> pp.UserData:
    return pp.UserData.from_frame(table(n), user="who", features=FEATURES, label="y")


def found(rows: list[tuple[int, int]], noise: Fraction = Fraction(1, LEVELS), fixed: bool = True) -> Evaluation:
    count = len(rows)
    own = (0,) * (count - count // 2) + (1,) * (count // 2)
    regions = Regions(tuple(map(str, range(count))), own, tuple(range(count)) if fixed else ())
    sums = [LEVELS * value for row in rows for value in row]
    return Evaluation(sums, "table", "user", LEVELS, noise, "add-remove", Fraction(19, 20), regions=regions)


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        rows = tuple((int(a), int(b)) for a, b in rng.integers(0, 9, (4, 2)))
        zeros = [g for g, (zero, _) in enumerate(rows) for _ in range(zero)]
        ones = [g for g, (_, one) in enumerate(rows) for _ in range(one)]
        if zeros and ones:
            won = sum(Fraction(int(h < g) * 2 + int(h == g), 2) for h, g in product(zeros, ones))
            assert RankedSums(rows, Fraction(1)).auc == won / (len(zeros) * len(ones))


def test_edges_never_fail() -> None:
    nothing = found([(0, 0)] * 4)
    assert nothing.auc.value == 0.5
    assert (nothing.auc.sample.lo, nothing.auc.sample.hi) == (0, 1)
    assert all(len(row) == 3 for row in nothing.roc())
    assert {float(chance) for row in nothing.chances for chance in row} == {256 / 513, 257 / 513}
    alone = Evaluation(
        (5, 7), "table", "user", 1, Fraction(1), "add-remove", Fraction(19, 20), regions=Regions(("all",), (1,), (0,))
    )
    assert (alone.auc.value, alone.auc.sample.lo, alone.auc.sample.hi) == (0.5, 0.5, 0.5)
    assert alone.best().above == -1
    assert found([(5, 0), (7, 0)]).auc.value == 0.5
    with pytest.raises(ParameterError, match="all four cells"):
        _ = Evaluation((5, 7), "error", "user", 1, Fraction(1), "add-remove", Fraction(19, 20)).auc
    with pytest.raises(ParameterError, match="cost_fp"):
        nothing.best(cost_fp=-1)
    with pytest.raises(ParameterError, match="-1 to 3"):
        nothing.at(4)


LAWS: list[list[tuple[int, int]]] = [
    [(60, 10), (30, 20), (20, 40), (5, 60)],
    [(10, 10)] * 4,
    [(100, 1), (80, 0), (60, 3), (40, 4)],
    [(0, 90), (0, 60), (90, 0), (60, 0)],
    [(3, 1), (2, 2), (1, 3), (0, 1)],
]


@pytest.mark.parametrize("rows", LAWS)
@pytest.mark.parametrize("fixed", [True, False])
def test_intervals_hold_for_the_people_measured(rows: list[tuple[int, int]], fixed: bool) -> None:
    """95 % each; 300 seeded draws of the noise, at most 40 misses (false alarm below 1e-6 at 5 %)."""
    rng, misses, curve_misses = np.random.default_rng(7), 0, 0
    exact = RankedSums(tuple((LEVELS * a, LEVELS * b) for a, b in rows), Fraction(1, LEVELS))
    p = 1 - np.exp(-1 / LEVELS)
    for _ in range(300):
        noise = rng.geometric(p, (4, 2)) - rng.geometric(p, (4, 2))
        noisy = tuple((a + int(u), b + int(v)) for (a, b), (u, v) in zip(exact.rows, noise))
        drawn = RankedSums(noisy, exact.noise, fixed)
        lo, hi = drawn.sample(Fraction(1, 20))
        misses += not lo <= exact.auc <= hi
        reach = noise_reach(exact.noise, 2, Fraction(1, 20) / drawn.thresholds)
        curve_misses += any(abs(int(noise[g:, 0].sum())) > 4 * reach for g in range(4))
    assert misses <= 40
    assert curve_misses <= 40


def test_a_threshold_chosen_by_looking_needs_simultaneous_intervals() -> None:
    """The noise of the cost at the cheapest of 17 thresholds leaves the pointwise reach in more than 5 % of draws, and
    the simultaneous one in fewer (16 bands, a flat law; 4,000 draws, 8 % and 5 % are 5 standard errors apart)."""
    rng, bands, beta = np.random.default_rng(11), 16, Fraction(1, 20)
    eta = Fraction(3, 10 * LEVELS)
    pointwise, together = noise_reach(eta, bands, beta), noise_reach(eta, bands, beta / (bands + 1))
    p = 1 - np.exp(-float(eta))
    noise = rng.geometric(p, (4000, bands, 2)) - rng.geometric(p, (4000, bands, 2))
    outside = beyond = 0
    for drawn in noise.tolist():
        rows = tuple((5 * LEVELS + int(a), 5 * LEVELS + int(b)) for a, b in drawn)
        above, cost = RankedSums(rows, eta).cheapest(Fraction(1), Fraction(1))
        exact = 5 * LEVELS * bands
        outside += abs(int(cost) - exact) > pointwise
        beyond += abs(int(cost) - exact) > together
        assert -1 <= above < bands
    assert outside > 0.065 * len(noise)
    assert beyond < 0.05 * len(noise)


def test_rates_are_those_of_the_rules_own_labels() -> None:
    """Regions merged to the 2x2 table: the same rates; the rule's own threshold is the evaluation itself."""
    fine = found([(60, 10), (30, 20), (20, 40), (5, 60)])
    plain = Evaluation(
        [LEVELS * v for v in (90, 25, 30, 100)], "table", "user", LEVELS, fine.noise, "add-remove", Fraction(19, 20)
    )
    assert {name: rate.value for name, rate in fine.rates.items()} == {
        name: rate.value for name, rate in plain.rates.items()
    }
    assert fine.error.sample.lo < plain.error.sample.lo  # more noises
    assert fine.at(1) is fine
    assert fine.at(2).sensitivity.value == 60 / 130
    assert fine.at(-1).sensitivity.value == 1
    assert fine.best(1, 100).above == -1
    assert fine.best(100, 1).above == 3
    assert fine.best(0, 0).above == 3  # ties go to the larger


def test_chances_say_what_the_rule_says() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        labels, count = int(rng.integers(2, 5)), int(rng.integers(1, 5))
        own = rng.integers(0, labels, count).tolist()
        sums = rng.integers(-(10**7), 10**8, labels * count).tolist()
        for row, label in zip(chances_of_regions(sums, own, Fraction(1, LEVELS), labels), own):
            assert sum(row) == 1
            assert all(chance >= 0 for chance in row)
            assert all(row[label] > chance for y, chance in enumerate(row) if y != label)


RULES: dict[str, tuple[Any, dict[str, Any]]] = {
    "card": (pp.Scorecards(), {"delta": "1e-6", "public_n_users": 200}),
    "tree": (pp.SmallTrees(), {}),
    "calibrated": (pp.SmallTrees(), {"calibrate": "1/5"}),
    "stump": ("stump", {}),
}


@pytest.mark.parametrize("name", RULES)
def test_every_rule_that_was_evaluated_has_chances(name: str) -> None:
    rule, options = RULES[name]
    released = pp.learn(people(), rule, epsilon=4, evaluate="1/3", **options)
    assert released.guarantee is not None
    assert released.guarantee.epsilon == 4
    again = Released.from_json(released.to_json())
    assert again == released
    chances, said = again.predict_proba(table()), again.predict(table())
    assert np.allclose(chances.sum(axis=1), 1)
    assert ((chances[:, 1] > 0.5) == said).all()
    assert ((again.decision_function(table()) > 0) == said).all()
    assert (again.predict(table(), threshold="1/2") == said).all()
    curve = again.roc()
    assert [row.above for row in curve] == list(range(-1, len(curve) - 1))
    assert 0 <= again.evaluation.auc.sample.lo <= again.evaluation.auc.value <= again.evaluation.auc.sample.hi <= 1
    assert again.evaluation.auc.population.lo <= again.evaluation.auc.sample.lo
    if name in ("card", "calibrated"):
        assert all(0 <= row.chance <= 1 for row in again.evaluation.calibration())
    else:
        with pytest.raises(ParameterError, match="calibrate="):
            again.evaluation.calibration()


def test_without_an_evaluation_there_are_no_chances() -> None:
    released = pp.learn(people(), pp.SmallTrees(), epsilon=1)
    assert not released.has_chances
    for ask in (released.predict_proba, released.decision_function, lambda X: released.predict(X, threshold="1/3")):
        with pytest.raises(ParameterError, match="evaluate='1/5'"):
            ask(table())
    with pytest.raises(ParameterError, match="evaluate='1/5'"):
        released.roc()


def test_a_tree_that_is_calibrated() -> None:
    released = pp.learn(people(), pp.SmallTrees(), epsilon=8, calibrate="1/5")
    assert released.guarantee is not None
    assert released.guarantee.epsilon == 8
    assert any("chances" in line for line in released.warnings)
    tree = released.value
    assert Released.from_json(released.to_json()).value == tree
    assert ((tree.predict_proba(table())[:, 1] > 0.5) == tree.predict(table())).all()
    with pytest.raises(pp.errors.TooLargeError, match="calibrate"):
        SmallTreeLearner(pp.SmallTrees(), 1, calibrate="1/5").law(people())
    with pytest.raises(ParameterError, match="evaluate="):
        pp.learn(people(), "stump", epsilon=1, calibrate="1/5")


def test_shares_of_a_tree_that_is_calibrated_and_certified_add_up() -> None:
    """calibrate=1/4 and certify=1/2 leave a quarter of epsilon to the tree."""
    learner = learner_for(pp.SmallTrees(), epsilon=1, evaluate="1/2", certify="1/2", calibrate="1/4")
    assert isinstance(learner, EvaluatedLearner)
    tree = learner.learner
    assert isinstance(tree, SmallTreeLearner)
    assert (tree.epsilon, tree.leaf_rate * LEVELS, tree.vote_rate * LEVELS) == (Fraction(1, 2), *[Fraction(1, 4)] * 2)
    with pytest.raises(ParameterError, match="below 1"):
        learner_for(pp.SmallTrees(), epsilon=1, evaluate="1/2", certify="1/2", calibrate="1/2")


def test_leaves_have_what_the_tree_says() -> None:
    """Every tree of a class: the region of a record has the tree's own label; no region is out of reach."""
    features = {"x": pp.Integers(0, 3), "z": pp.Integers(0, 1)}
    every = [[(x, z, 0)] for x in range(4) for z in (0, 1)]
    concept, bound = pp.SmallTrees(features).bind(pp.UserData.from_users(every, features=features))
    rng = np.random.default_rng(2)
    for tree in rng.integers(0, concept.size, 400).tolist():
        rule = concept.decode(tree)
        regions, places = rule.regions(), rule.region_codes(bound.codes)
        assert (np.array(regions.own)[places] == rule.predict_codes(bound.codes)).all()
        assert set(places.tolist()) == set(range(len(regions.own)))
        assert len(set(regions.names)) == len(regions.own)


@pytest.mark.parametrize("name", ["card", "tree"])
def test_engines_count_the_same_regions(name: str, tmp_path: Path) -> None:
    """Memory, streaming and the 2x2 table of spec 17 before noise."""
    rule, options = RULES[name]
    fitted = pp.learn(people(), rule, epsilon=4, **options).value
    table().sort("who").write_parquet(tmp_path / "t.parquet")
    stream = pp.scan(tmp_path / "t.parquet", user="who", features=FEATURES, label="y", chunk_rows=64, spill=tmp_path)
    evaluator = Evaluator(fitted, 1)
    sums = []
    for users in (people(), stream):
        bound = evaluator.bind(users)
        kernel = evaluator._kernel(bound.predictor, evaluator._regions(bound.predictor))
        assert isinstance(kernel, RegionKernel)
        sums.append(bound.users.fold(kernel).tolist())
        flat = bound.users.fold(TableKernel(bound.predictor, "table", "user", LEVELS, moments=True)).tolist()
        merged = [0] * 4
        for g, own in enumerate(kernel.regions.own):
            for label in (0, 1):
                merged[2 * label + own] += sums[-1][2 * g + label]
        assert [*merged, *sums[-1][2 * len(kernel.regions.own) :]] == flat
    assert sums[0] == sums[1]


def test_a_wide_table_without_a_delta_says_what_one_would_bring() -> None:
    columns = {f"x{j}": pp.Integers(0, 9) for j in range(6)}
    assert "a delta such as" in default_rules(columns, epsilon=1, public_n_users=500).reason
    for told in ({"public_n_users": 499}, {}, {"public_n_users": 500, "neighbours": "replace"}):
        assert "a delta such as" not in default_rules(columns, epsilon=1, **told).reason
    assert default_rules(columns, epsilon=1, delta="1e-6", public_n_users=500).method == "scorecard"
    for width, said in ((6, True), (4, False)):
        concept = pp.SmallTrees(dict(list(columns.items())[:width]), cuts=3)
        chosen = pp.plan(concept, epsilon=1).recommendation
        assert chosen is not None
        assert ("a delta such as" in chosen.reason) == said
