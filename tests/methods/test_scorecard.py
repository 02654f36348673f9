"""The scorecard from end to end: promise, engines, edges, words, files, chances, bad input."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from attrs import evolve

import privpac as pp
from privpac.data import Categories, Floats, Integers, Missing, Texts, UserData
from privpac.errors import IncompatibleGuarantees, ModelFileError, ParameterError, SchemaError, TooLargeError
from privpac.guarantee import Neighbours
from privpac.mechanisms.gaussian import SMOOTHING
from privpac.methods.private_ranges import GAUSSIAN
from privpac.methods.scorecard import (
    CalibrationPass,
    CountPass,
    ScorecardLearner,
    calibration_from,
    pack_answers,
    passes_over,
)
from privpac.methods.scorecard_odds import log_odds, shrink
from privpac.parameters import DEFAULT_LEVELS
from privpac.result import Released
from privpac.rules.chances import is_above
from privpac.rules.kernels.shares import user_tables
from privpac.rules.scorecards import (
    CalibrationBin,
    Scorecard,
    Scorecards,
    calibration_bins_of,
    calibration_edges,
    chance_of,
)
from privpac.rules.wide_columns import binned
from privpac.testing import SeededRng, insecure_randomness

DELTA = "1e-6"
COLUMNS = {"a": Integers(0, 99), "b": Integers(0, 9), "c": Categories(["x", "y", "z"]), "d": Integers(0, 1)}


def frame(users: int = 400, records: int = 4, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    n = users * records
    a, b, c, d = rng.integers(0, 100, n), rng.integers(0, 10, n), rng.integers(0, 3, n), rng.integers(0, 2, n)
    score = (a - 50) / 20 + (b - 5) / 4 + (c == 1) - d + rng.normal(0, 1, n)
    return pl.DataFrame(
        {
            "who": np.repeat(np.arange(users), records),
            "a": a,
            "b": b,
            "c": np.array(["x", "y", "z"])[c],
            "d": d,
            "y": (score > 0).astype(np.int8),
        }
    )


def held(table: pl.DataFrame, **more: Any) -> UserData:
    return UserData.from_frame(table, user="who", features=COLUMNS, label="y", **more)


def learned(data: Any, seed: str = "scorecard", **options: Any) -> Released:
    learner = ScorecardLearner(
        options.pop("scorecard", Scorecards()), epsilon=options.pop("epsilon", 1), delta=DELTA, **options
    )
    with insecure_randomness():
        return learner.learn(data, rng=SeededRng(seed))


# Private ranges

WIDE = COLUMNS | {"a": Integers(0, 10**6)}
"""The same table, one column declared ten thousand times too wide."""


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_private_ranges_put_bins_where_values_lie(neighbours: Neighbours) -> None:
    data = UserData.from_frame(frame(2000), user="who", features=WIDE, label="y")
    options = {"epsilon": 4, "public_n_users": 2000, "neighbours": neighbours}
    plain, found = (learned(data, scorecard=Scorecards(zoom=zoom), **options) for zoom in (None, "private"))
    assert (plain.guarantee, plain.parameters["rho"]) == (found.guarantee, found.parameters["rho"])
    assert "private_ranges" not in plain.parameters
    assert found.parameters["private_ranges"] == 1
    edges = {column.name: column.edges for column in found.value.columns}
    assert sum(edge < 100 for edge in edges["a"]) >= 4
    assert sum(edge < 100 for edge in plain.value.columns[0].edges) == 0
    assert edges["b"] == plain.value.columns[1].edges, "ten values have bins of their own"


def test_a_search_takes_its_share_first_and_leaves_the_rest() -> None:
    learner = ScorecardLearner(Scorecards(WIDE, zoom="private"), 1, delta=DELTA, public_n_users=1000, calibrate="1/10")
    search = learner.search(learner.scorecard)
    assert search is not None
    assert search.columns == ("a",)
    budget = learner.budget(4, search=search)
    assert sum(budget.parts) == learner.rho * Fraction(17, 20)
    assert sum(budget.parts) + (GAUSSIAN * search.eta) ** 2 / 2 <= learner.rho
    assert sum(learner.budget(4).parts) == learner.rho


@pytest.mark.parametrize(
    ("columns", "options", "more"),
    [
        (WIDE, {}, {}),  # the number of people is not declared
        (WIDE, {"public_n_users": 50}, {}),
        (WIDE, {"public_n_users": 1000}, {"cuts": {"a": [10, 20]}}),
        (WIDE, {"public_n_users": 1000}, {"zoom": None}),
        (COLUMNS | {"a": Integers(0, 10**6, typical=(0, 100))}, {"public_n_users": 1000}, {}),
        (COLUMNS | {"a": Integers(0, 31)}, {"public_n_users": 1000}, {}),
    ],
)
def test_a_search_that_finds_nothing_costs_nothing(
    columns: dict[str, Any], options: dict[str, Any], more: dict[str, Any]
) -> None:
    learner = ScorecardLearner(Scorecards(columns, **({"zoom": "private"} | more)), 1, delta=DELTA, **options)
    assert learner.search(learner.scorecard) is None


def test_a_search_that_is_skipped_is_told_and_changes_nothing() -> None:
    data = held(frame(40), on_invalid="clamp")
    plain, skipped = (learned(data, scorecard=Scorecards(zoom=zoom)) for zoom in (None, "private"))
    assert "private_ranges" not in skipped.parameters
    assert skipped.value.to_dict() == plain.value.to_dict()
    with pytest.raises(ParameterError, match="zoom must be 'private' or None"):
        Scorecards(zoom="auto")


def test_a_scorecard_in_private_ranges_is_stored_and_read_back(tmp_path: Path) -> None:
    data = UserData.from_frame(frame(1000), user="who", features=WIDE, label="y")
    found = learned(data, scorecard=Scorecards(zoom="private"), epsilon=4, public_n_users=1000)
    path = tmp_path / "rule.json"
    found.save(path)
    assert pp.load(path).value == found.value


# Promise


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize("unit", ["user", "item"])
def test_the_promise_is_known_before_any_data(neighbours: str, unit: str) -> None:
    learner = ScorecardLearner(Scorecards(COLUMNS), epsilon="1/2", delta=DELTA, neighbours=neighbours, unit=unit)
    promised = learner.guarantee
    assert (promised.epsilon, promised.delta) == (Fraction(1, 2), Fraction(1, 10**6))
    assert promised.rho == learner.rho == sum(learner.budget(4).parts)
    assert (promised.neighbours, promised.unit) == (neighbours, unit)
    assert learner.budget(4).bought is (neighbours == "add-remove")
    assert not evolve(learner, public_n_users=50).budget(4).bought


def test_it_learns() -> None:
    """Far better than the better constant on people it has not seen; a seeded run."""
    test = frame(seed=9)
    truth = test["y"].to_numpy()
    constant = min(truth.mean(), 1 - truth.mean())
    for neighbours in ("add-remove", "replace"):
        rule = learned(held(frame(800)), neighbours=neighbours, epsilon=2)
        assert (rule.predict(test) != truth).mean() < 0.5 * constant


def test_no_law_is_offered() -> None:
    with pytest.raises(TooLargeError, match="thousands of noisy integers"):
        ScorecardLearner(Scorecards(), epsilon=1, delta=DELTA).law(held(frame(5)))


def test_the_released_parameters_are_public_or_paid_for() -> None:
    bought, declared = learned(held(frame(50))), learned(held(frame(50)), public_n_users=60)
    known = {"class", "columns", "steps", "clip", "rho"}
    assert set(bought.parameters) == known | {"noisy_n_users"}
    assert set(declared.parameters) == known | {"public_n_users"}
    assert declared.parameters["public_n_users"] == 60
    assert learned(held(frame(50)), neighbours="replace").parameters["public_n_users"] == 50


# The same integers everywhere


def test_order_of_rows_and_users_does_not_matter() -> None:
    table = frame(120)
    shuffled = table.sample(fraction=1, shuffle=True, seed=4)
    assert learned(held(table)) == learned(held(shuffled))
    again = table.with_columns(who=(table["who"] * 7919) % 1009)
    assert learned(held(table)).value == learned(held(again)).value


@pytest.mark.parametrize("calibrate", [0, "1/10"])
def test_streamed_users_give_the_same_card(tmp_path: Path, calibrate: Any) -> None:
    table = frame(150).sample(fraction=1, shuffle=True, seed=1)
    for i in range(3):
        table[i * 200 : (i + 1) * 200].write_parquet(tmp_path / f"{i}.parquet")
    streamed = pp.scan(tmp_path, user="who", features=COLUMNS, label="y", chunk_rows=64, progress=False)
    assert learned(streamed, calibrate=calibrate) == learned(held(table), calibrate=calibrate)


class Far:
    """Users that are folded pass by pass, as on a cluster."""

    distributed = True

    def __init__(self, users: Any) -> None:
        self.users, self.folds = users, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.users, name)

    def bind(self, domains: Any, on_invalid: Any = None) -> Far:
        self.users = self.users.bind(domains, on_invalid)
        return self

    def fold(self, kernel: Any) -> Any:
        self.folds += 1
        whole = self.users
        half = whole.n_users // 2
        parts = [whole.take(np.arange(half)), whole.take(np.arange(half, whole.n_users))]
        return kernel.merge(kernel.merge(kernel.zero(), kernel.chunk(parts[0])), kernel.chunk(parts[1]))


def test_pass_by_pass_gives_the_same_card() -> None:
    far = Far(held(frame(80)))
    assert learned(far) == learned(held(frame(80)))
    assert far.folds == 43  # count, centre, norm, 40 steps


def test_users_without_records_change_nothing_but_the_count() -> None:
    people = [[(3, 1), (9, 1)], [(2, 0)], [(7, 1), (1, 0)]]
    with_empty = [*people, [], []]
    features = {"x": Integers(0, 9)}
    data = [UserData.from_users(users, features=features) for users in (people, with_empty)]
    first, second = (learned(users, public_n_users=4) for users in data)
    assert first == second
    counts = [passes_over(Scorecards(features).binned, users) for users in data]
    assert [run(CountPass()) for run in counts] == [[3], [5]]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_no_users_and_one_user(neighbours: str) -> None:
    for users in (0, 1):
        found = learned(held(frame(users)), neighbours=neighbours)
        assert set(found.predict(frame(5)).tolist()) <= {0, 1}


def test_one_user_with_many_records_is_one_user() -> None:
    big = frame(1, 60_000)
    assert learned(held(big), public_n_users=10).value.top == 20


def test_max_records() -> None:
    rule = learned(held(frame(30, 9)), max_records=2)
    assert rule.parameters["max_records"] == 2


# Columns


def test_missing_values_have_points_of_their_own() -> None:
    table = frame(300).with_columns(a=pl.when(pl.col("b") > 6).then(None).otherwise(pl.col("a")))
    features = {**COLUMNS, "a": Missing(Integers(0, 99), "own")}
    data = UserData.from_frame(table, user="who", features=features, label="y")
    rule = learned(data, epsilon=4)
    assert rule.value.columns[0].has_missing
    assert len(rule.predict(table)) == len(table)
    also = UserData.from_frame(table, user="who", features=["a", "b", "c", "d"], label="y")
    asked = learned(also, scorecard=Scorecards(COLUMNS, missing=["a"]), epsilon=4)
    assert asked.value == rule.value
    with pytest.raises(SchemaError, match="missing"):
        learned(also, scorecard=Scorecards(COLUMNS))
    with pytest.raises(SchemaError, match="missing"):
        learned(held(frame(20))).predict(table)


def test_listed_cuts_and_floats() -> None:
    table = frame(40).with_columns(a=pl.col("a") / 7)
    columns = {"a": Floats(), "b": Integers(0, 9)}
    data = UserData.from_frame(table, user="who", features=columns, label="y")
    with pytest.raises(ParameterError, match="cuts"):
        learned(data, scorecard=Scorecards(columns))
    with pytest.raises(ParameterError, match="cuts"):
        learned(data)  # found when the data name their columns, before anything is spent
    rule = learned(data, scorecard=Scorecards(columns, cuts={"a": [1.5, 3, 7.25]})).value
    assert [len(points) for points in rule.points] == [4, 10]


def test_more_than_256_bins() -> None:
    data = UserData.from_users([[(i % 1000, i % 2)] for i in range(500)], features={"x": Integers(0, 999)})
    rule = learned(data, scorecard=Scorecards(cuts=400)).value
    assert len(rule.points[0]) == 401


# The scorecard


def scorecard() -> Scorecard:
    columns = binned(
        {"age": Missing(Integers(0, 99), "own"), "ward": Categories(["n", "s"]), "idle": Integers(0, 3)}, 3
    )
    return Scorecard(columns, ((0, 4, 4, 20, 7), (0, 3), (0, 0, 0, 0)), 9, 20, "ill")


def test_printed_as_clinicians_print_one() -> None:
    assert str(scorecard()).splitlines() == [
        "ill when the points exceed 9",
        "  age   ≤ 24: 0 · ≤ 74: 4 · > 74: 20 · missing: 7",
        "  ward  n: 0 · s: 3",
        "  no points: idle",
    ]


def test_what_is_printed_is_what_is_predicted() -> None:
    rows = {"age": [0, 24, 25, 74, 75, None, None], "ward": list("nsssnns"), "idle": [0] * 7}
    points = [0, 3, 7, 7, 20, 7, 10]
    found = scorecard().totals(scorecard().encode(pl.DataFrame(rows)))
    assert found.tolist() == points
    assert scorecard().predict(pl.DataFrame(rows)).tolist() == [int(p > 9) for p in points]


def test_constant_cards() -> None:
    flat = ((0,) * 5, (0,) * 2, (0,) * 4)
    for threshold, said in ((-1, "always"), (0, "never")):
        constant = evolve(scorecard(), points=flat, threshold=threshold)
        assert constant.condition() == said
        assert constant.picture == "none"
        assert str(constant) == f"ill {said}, whatever the points"
        rows = pl.DataFrame({"age": [3, None], "ward": ["n", "s"], "idle": [1, 2]})
        assert constant.predict(rows).tolist() == [int(said == "always")] * 2
    assert evolve(scorecard(), threshold=23).condition() == "never"
    assert evolve(scorecard(), threshold=-3).condition() == "always"


def test_files(tmp_path: Path) -> None:
    rule = learned(held(frame(60)), calibrate="1/4")
    rule.save(tmp_path / "scorecard.json")
    again = pp.load(tmp_path / "scorecard.json")
    assert again == rule
    assert (again.value.predict_proba(frame(3)) == rule.value.predict_proba(frame(3))).all()


@pytest.mark.parametrize(
    "change",
    [
        {"points": [[0]]},
        {"points": [[0, 4, 4, 21, 7], [0, 3], [0, 0, 0, 0]]},
        {"points": [[0, 4, 4, -1, 7], [0, 3], [0, 0, 0, 0]]},
        {"points": [[0, 4, 4, True, 7], [0, 3], [0, 0, 0, 0]]},
        {"points": [[0, 4, 4, 1.5, 7], [0, 3], [0, 0, 0, 0]]},
        {"threshold": "9"},
        {"top": 10**9},
        {"columns": []},
        {"calibration": [[3, "1/2", "0", "1"]]},
        {"calibration": [[23, "2", "0", "1"]]},
    ],
)
def test_damaged_files_are_refused(change: dict[str, Any]) -> None:
    whole = Released(scorecard(), None)
    assert Released.from_json(whole.to_json()).value == scorecard()
    body = json.loads(whole.to_json())
    body["value"] |= change
    with pytest.raises(ModelFileError):
        Released.from_json(json.dumps(body))


# Chances


@pytest.mark.parametrize(
    ("most", "wanted"), [(59, (11, 23, 35, 47, 59)), (3, (0, 1, 2, 3)), (0, (0,)), (6, (0, 1, 3, 4, 6))]
)
def test_bands(most: int, wanted: tuple[int, ...]) -> None:
    assert calibration_edges(most, 5) == wanted
    assert [int(b) for b in calibration_bins_of(np.arange(most + 1), wanted)] == [
        next(g for g, last in enumerate(wanted) if p <= last) for p in range(most + 1)
    ]


def test_calibrated_chances_rise_and_their_intervals_hold() -> None:
    """Noise intervals of 95 % each: over 40 seeded runs of 5 bins at least 150 of 200 hold (false alarm < 1e-9)."""
    data = held(frame(300))
    concept, bound = Scorecards().bind(data)
    assert isinstance(concept, Scorecards)
    packed, held_in, bins = pack_answers(concept.binned, bound), 0, 0
    for run in range(40):
        rule = learned(data, str(run), calibrate="1/2", epsilon=3).value
        exact = CalibrationPass(rule).over(packed)
        rates = [each_bin.rate for each_bin in rule.calibration]
        assert rates == sorted(rates)
        for each_bin, zero, one in zip(rule.calibration, exact[::2].tolist(), exact[1::2].tolist()):
            if zero + one:
                bins += 1
                held_in += float(each_bin.low) <= one / (zero + one) <= float(each_bin.high)
    assert held_in >= 0.75 * bins
    assert bins > 100


def test_rates_of_noisy_sums() -> None:
    found = calibration_from((1, 3, 5), [100, 0, 50, 50, 0, 100], Fraction(1, 100))
    assert [each_bin.rate for each_bin in found] == [0, Fraction(1, 2), 1]
    pooled = calibration_from((1, 3, 5), [0, 100, 50, 50, -7, -9], Fraction(1, 100))
    assert [each_bin.rate for each_bin in pooled] == [Fraction(3, 4)] * 3
    nothing = calibration_from((1, 3), [-5, -5, -5, -5], Fraction(10**8))
    assert [(each_bin.low, each_bin.high) for each_bin in nothing] == [(0, 1), (0, 1)]


def test_rounded_votes_do_not_hide_the_rate_of_a_band_seldom_seen() -> None:
    """2000 records each, one of either label in the last bin: largest remainders give label 0 all of its votes."""
    cells = np.array([0] * 1998 + [8, 9], np.uint8)
    votes = user_tables(np.array([0, 2000], np.int64), cells, 10, DEFAULT_LEVELS, True, -1)
    assert votes[8:].tolist() == [1, 0]
    last = calibration_from((1, 2, 3, 4, 5), (100_000 * votes).tolist(), Fraction(10**6))[-1]
    assert last.low <= Fraction(1, 2) <= last.high
    often = calibration_from((1, 2), [84_000, 0, 42_000, 42_000], Fraction(10**4))[-1]
    assert often.high - often.low < Fraction(1, 20)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_votes_of_a_calibration_move_by_what_the_noise_is_made_for(neighbours: str) -> None:
    concept, bound = Scorecards().bind(held(frame(60, 3)))
    assert isinstance(concept, Scorecards)
    rule = learned(held(frame(60))).value
    each = np.array([CalibrationPass(rule).over(pack_answers(concept.binned, bound.take([i]))) for i in range(60)])
    assert (each >= 0).all()
    assert (each.sum(axis=1) == 840).all()
    assert ((each[:, None] - each[None]) ** 2).sum(axis=2).max() <= 2 * 840**2
    budget = ScorecardLearner(Scorecards(), epsilon=1, delta=DELTA, calibrate="1/10", neighbours=neighbours).budget(4)
    moved = (1 if neighbours == "add-remove" else 2) * 840**2
    assert budget.calibration_variance == Fraction(moved) / (2 * budget.calibration) + SMOOTHING


def test_an_earlier_card_without_a_calibration_has_no_chances() -> None:
    with pytest.raises(ParameterError, match="calibrate"):
        scorecard().predict_proba([[1, 0, 0]])
    calibrated = evolve(
        scorecard(),
        calibration=(
            CalibrationBin(10, Fraction(1, 5), Fraction(0), Fraction(1)),
            CalibrationBin(23, Fraction(1), Fraction(1, 2), Fraction(1)),
        ),
    )
    rows = pl.DataFrame({"age": [3, 99], "ward": ["n", "s"], "idle": [1, 2]})
    assert calibrated.predict_proba(rows).tolist() == [[0.8, 0.2], [0.0, 1.0]]
    assert "0–10: 20% (0% to 100%)" in str(calibrated)


@pytest.mark.parametrize(("points", "threshold"), [(((0, 7, 20, 3, 0), (0, 5), (0, 1, 2, 2)), 11), (None, None)])
def test_log_odds_are_above_zero_exactly_above_the_threshold(points: Any, threshold: Any) -> None:
    """Every sum of points; and a learned scorecard, whose chances say what it says."""
    if points is None:
        rule = learned(held(frame(200))).value
    else:
        odds = log_odds(65000, largest=10**12, least=-575 * 10**9, steps=40, top=20)
        rule = evolve(scorecard(), points=points, threshold=threshold, log_odds=odds)
    assert rule.log_odds is not None
    for total in range(rule.most + 1):
        assert (rule.log_odds.of(total) > 0) == (total > rule.threshold) == (rule.chance(total) > 0.5)
    table = frame(100) if points is None else pl.DataFrame({"age": [3, None, 99], "ward": [*"nsn"], "idle": [0, 1, 2]})
    chances, said = rule.predict_proba(table), rule.predict(table)
    assert (chances.sum(axis=1) == 1).all()
    assert ((chances[:, 1] > 0.5) == said).all()
    assert ((rule.decision_function(table) > 0) == said).all()
    assert (rule.predict(table, threshold="1/2") == said).all()
    assert (rule.predict(table, threshold=0) == 1).all()
    assert not rule.predict(table, threshold=1).any()
    for bad in (-1, 2, float("nan"), "x"):
        with pytest.raises((ParameterError, ValueError), match=r"threshold"):
            rule.predict(table, threshold=bad)


def test_a_threshold_is_compared_as_an_exact_number() -> None:
    """1/3 is below the double nearest to it or above: a chance equal to a double is above a rational below it only."""
    for third in (Fraction(1, 3), Fraction(2, 3)):
        chances = np.array([[1 - float(third), float(third)]])
        assert is_above(chances, third).tolist() == [int(Fraction(float(third)) > third)]
    assert is_above(np.array([[0.9, 0.1]]), Fraction(1, 10)).tolist() == [1]  # the double 0.1 is above 1/10
    assert is_above(np.array([[0.5, 0.5]]), Fraction(1, 2)).tolist() == [0]


def test_chances_are_on_the_side_of_their_log_odds_however_small_these_are() -> None:
    for tiny in (1e-300, 1e-17, 5e-324):
        assert chance_of(-tiny) < 0.5 < chance_of(tiny)
    assert (chance_of(0.0), chance_of(1e5), chance_of(-1e5)) == (0.5, 1.0, 0.0)


def test_the_sign_needs_the_least_shrinkage() -> None:
    """Noise beyond 10**10 would round the factor to 0, and every chance to 1/2."""
    assert shrink(Fraction(10**11)) == 1
    assert log_odds(shrink(Fraction(10**30)), largest=5, least=-3, steps=2, top=20).of(20) > 0


@pytest.mark.parametrize(
    "change",
    [
        {"log_odds": ["1", "-3"]},
        {"log_odds": ["-1", "3"]},
        {"log_odds": [f"{1 << 70}", f"-{9 << 70}"]},
        {"weights": [[1]]},
        {"weights": [[1, 1, 1, 1, 0], [1, 1], [1, 1, 1, 1]]},
    ],
)
def test_damaged_scores_are_refused(change: dict[str, Any]) -> None:
    body = json.loads(Released(scorecard(), None).to_json())
    assert not {"log_odds", "weights"} & body["value"].keys()  # as files of earlier versions
    body["value"] |= change
    with pytest.raises(ModelFileError):
        Released.from_json(json.dumps(body))


def test_bands_are_nested_and_have_the_threshold_among_them() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        points = tuple(tuple(rng.integers(0, 21, width).tolist()) for width in (5, 2, 4))
        weights = tuple(tuple(rng.integers(1, 9000, width).tolist()) for width in (5, 2, 4))
        most = sum(map(max, points))
        rule = evolve(scorecard(), points=points, threshold=int(rng.integers(-1, most + 1)), weights=weights)
        mass = [0] * (most + 1)
        for (a, u), (b, v), (c, w) in product(*(list(zip(p, ws)) for p, ws in zip(points, weights))):
            mass[a + b + c] += u * v * w
        assert rule.mass == mass
        finer: set[int] = set(rule.bands(16))
        for count in (16, 8, 4, 2):
            bands = rule.bands(count)
            assert list(bands) == sorted(set(bands))
            assert bands[-1] == most
            assert len(bands) <= count
            assert set(bands) <= finer
            assert rule.threshold in bands or not 0 <= rule.threshold < most
            finer = set(bands)
    with pytest.raises(ParameterError, match="2, 4, 8 or 16"):
        rule.bands(3)


# Bad input


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"delta": 0}, "delta > 0"),
        ({"delta": 1}, "delta"),
        ({"epsilon": 0}, "epsilon"),
        ({"public_n_users": 0}, "public_n_users"),
        ({"calibrate": 1}, "calibrate"),
        ({"calibrate": "-1/10"}, "calibrate"),
        ({"neighbours": "both"}, "neighbours"),
        ({"max_records": 0}, "max_records"),
    ],
)
def test_bad_parameters(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        ScorecardLearner(Scorecards(COLUMNS), **({"epsilon": 1, "delta": DELTA} | options))


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 0},
        {"top": 0},
        {"top": 10**6},
        {"cuts": 0},
        {"cuts": {"zz": 3}},
        {"missing": "drop"},
        {"missing": ["zz"]},
    ],
)
def test_bad_cards(options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        Scorecards(COLUMNS, **options)


def test_columns_that_cannot_be_on_a_card() -> None:
    with pytest.raises(ParameterError, match="one value"):
        Scorecards({"x": Integers(3, 3)})
    with pytest.raises(ParameterError, match="open vocabulary"):
        Scorecards({"x": Texts()})


def test_other_classes_and_data_are_refused() -> None:
    with pytest.raises(ParameterError, match="Scorecards"):
        ScorecardLearner(pp.Stumps(COLUMNS), epsilon=1, delta=DELTA)
    with pytest.raises(TypeError, match="UserData"):
        learned([[1]])
    with pytest.raises(IncompatibleGuarantees):
        learned(held(frame(3)), unit="item")
    with pytest.raises(ParameterError, match="labels"):
        learned(UserData.from_frame(frame(3), user="who", features=COLUMNS, label=None))


def test_scoring_card_by_card_is_refused() -> None:
    concept = Scorecards(COLUMNS)
    assert not concept.scored
    with pytest.raises(TooLargeError):
        concept.decode(0)
    with pytest.raises(TooLargeError):
        concept.predictions({}, 0)
    assert concept.size > 20**30
