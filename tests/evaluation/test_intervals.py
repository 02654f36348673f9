"""Intervals: exact tails against convolution, coverage against laws of people, and what the words say."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

import privpac as pp
from privpac.errors import ParameterError
from privpac.evaluation import BestErrorBound, Evaluation, excess_bound, plan_evaluation
from privpac.evaluation.intervals import Range, kl_range, laplace_tail, noise_reach, ratio, working_bits
from privpac.exact import precision
from privpac.guarantee import Neighbours


@pytest.mark.parametrize("eta", [Fraction(1, 3), Fraction(1, 20), Fraction(2)])
def test_tails_of_sums_of_noises_equal_the_convolution(eta: Fraction) -> None:
    x = math.exp(-float(eta))
    one = (1 - x) / (1 + x) * x ** np.abs(np.arange(-2000, 2001))
    law = np.array([1.0])
    for k in range(1, 5):
        law = np.convolve(law, one)
        middle = len(law) // 2
        with precision(working_bits(eta, k)):
            for t in (1, 2, 9, 60):
                expected = law[middle + t :].sum()
                assert float(laplace_tail(eta, k, t)) == pytest.approx(expected, rel=1e-8, abs=1e-13)
        reach = noise_reach(eta, k, Fraction(1, 20))
        assert 2 * law[middle + reach + 1 :].sum() <= 0.05 + 1e-12
        assert reach == 0 or 2 * law[middle + reach :].sum() > 0.05 - 1e-12


@given(st.integers(1, 400), st.floats(0.01, 0.99), st.sampled_from([0.2, 0.05, 0.001]))
@settings(max_examples=80, deadline=None)
def test_the_people_interval_covers_for_coins(n: int, p: float, beta: float) -> None:
    """0/1 values are the worst ones: exact coverage over the binomial law."""
    missed = sum(float(binom.pmf(w, n, p)) for w in range(n + 1) if p not in kl_range(Range(w / n, w / n), n, beta))
    assert missed <= beta


def test_ranges_and_ratios_at_their_ends() -> None:
    assert ratio(Range(-3, -1), Range(-2, 0)) == Range(0.0, 1.0)
    assert ratio(Range(1, 2), Range(0, 2)) == Range(1 / 3, 1.0)
    assert kl_range(Range(0.3, 0.4), 0.5, 0.05) == Range(0.0, 1.0)
    wide = kl_range(Range(0.0, 1.0), 10, 0.05)
    assert (wide.lo, wide.hi) == (0.0, 1.0)


def measured(sums: tuple[int, ...], **changes: Any) -> Evaluation:
    given: dict[str, Any] = {
        "cells": "table" if len(sums) == 4 else "error",
        "weight": "user",
        "levels": 840,
        "noise": Fraction(1, 840),
        "neighbours": Neighbours.ADD_REMOVE,
        "confidence": Fraction(19, 20),
    }
    return Evaluation(sums, **(given | changes))


RATES = ("error", "constant", "lift", "sensitivity", "specificity", "precision", "balanced_accuracy", "base_rate")


def truth_of(cells: np.ndarray) -> dict[str, float]:
    tn, fp, fn, tp = cells / cells.sum()
    known = {
        "error": fp + fn,
        "base_rate": tp + fn,
        "constant": min(tp + fn, tn + fp),
        "sensitivity": tp / (tp + fn),
        "specificity": tn / (tn + fp),
        "precision": tp / (tp + fp),
    }
    lift = known["constant"] - known["error"]
    return known | {"lift": lift, "balanced_accuracy": (known["sensitivity"] + known["specificity"]) / 2}


@pytest.mark.parametrize(("n", "epsilon"), [(20, "1"), (150, "0.3"), pytest.param(1500, "1", marks=pytest.mark.slow)])
@pytest.mark.parametrize("weight", ["user", "record"])
def test_coverage_of_both_intervals(n: int, epsilon: str, weight: Any) -> None:
    """People who differ (each has an error rate of their own) with 1 to 8 records; 60 datasets: an interval that
    covered with probability .95 would miss more than 14 of 60 with probability below 1e-6."""
    from privpac.evaluation.evaluator import Evaluator
    from privpac.testing import SeededRng, insecure_randomness

    rng, coins = np.random.default_rng(n), SeededRng(n)
    features = {"said": pp.Integers(0, 1)}
    missed = dict.fromkeys([(rate, kind) for rate in RATES for kind in ("these", "like")], 0)

    def draw(count: int) -> tuple[list[Any], np.ndarray]:
        users, cells = [], np.zeros(4)
        sizes = rng.integers(1, 9, count)
        rates, base = rng.beta(0.5, 2.0, count), rng.beta(2.0, 3.0, count)
        for m, e, b in zip(sizes, rates, base):
            labels = (rng.random(m) < b).astype(int)
            said = labels ^ (rng.random(m) < e)
            found = np.bincount(2 * labels + said, minlength=4)
            cells += found / m if weight == "user" else found
            users.append(list(zip(said.tolist(), labels.tolist())))
        return users, cells

    population = truth_of(draw(60_000)[1])
    learner = Evaluator("said", epsilon, weight=weight, max_records=8 if weight == "record" else None)
    for _ in range(60):
        users, cells = draw(n)
        bound = learner.bind(pp.UserData.from_users(users, features=features))
        with insecure_randomness():
            found = learner.draw(bound, coins).value
        here = truth_of(cells)
        for rate in RATES:
            shown = getattr(found, rate)
            missed[rate, "these"] += here[rate] not in shown.sample.widened(1e-9)
            missed[rate, "like"] += population[rate] not in shown.population.widened(2e-3)
    assert max(missed.values()) <= 14, missed


def test_more_people_and_more_budget_never_widen_the_plan() -> None:
    widths = [plan_evaluation(n, epsilon=1).population for n in (10, 50, 200, 1000, 10**5)]
    assert widths == sorted(widths, reverse=True)
    widths = [plan_evaluation(500, epsilon=e).population for e in ("0.1", "0.3", 1, 3)]
    assert widths == sorted(widths, reverse=True)
    needed = plan_evaluation(epsilon=1, half_width="0.03")
    assert needed.population <= 0.03 < plan_evaluation(needed.n_users - 1, epsilon=1).population
    one_of_them = plan_evaluation(1000, epsilon=1, cells="error", neighbours="replace")
    assert one_of_them.sample < plan_evaluation(1000, epsilon=1, cells="error").sample
    with pytest.raises(ParameterError):
        plan_evaluation(epsilon=1)


def test_words_and_edges() -> None:
    nothing = measured((0, 0, 0, 0))
    assert nothing.error.population == Range(0.0, 1.0)
    assert nothing.better_than_constant is None
    assert "people are too few to tell which is better" in str(nothing)
    assert nothing.notes() == (
        "too few people to tell whether it is better than a constant: the gain is between -100 and 100 points",
    )
    some = measured((840 * 60, 840 * 8, 840 * 8, 840 * 24))
    assert some.better_than_constant is None
    assert "; about 140 people would tell if it is as measured" in some.notes()[0]
    assert measured(tuple(x * 134 // 100 for x in some.sums)).better_than_constant
    constant = measured((840 * 2000, 0, 840 * 200, 0))
    assert constant.better_than_constant is False
    assert "always saying no would be wrong for 9.1 %, and it is no better than a constant" in str(constant)
    assert constant.notes() == ("no better than a constant",)
    worse = measured((840 * 600, 840 * 200, 840 * 100, 840 * 100))
    assert worse.better_than_constant is False
    assert worse.notes() == ("worse than a constant",)
    good = measured((840 * 700, 840 * 30, 840 * 30, 840 * 240))
    assert good.better_than_constant
    assert str(good).startswith("wrong for 6.0 % of a person's records (")
    assert "always saying no would be wrong for 27 %" in str(good)
    same = evolve(good, same_people=True)
    assert same.error.population is None
    assert any("learned from" in line for line in same.notes())
    assert same.error_at_most() == 1.0
    with pytest.raises(ParameterError, match="four cells"):
        _ = measured((5, 5)).lift
    negative = measured((-900, -5, 3, -70))
    assert all(0 <= rate.sample.lo <= rate.sample.hi <= 1 for name, rate in negative.rates.items() if name != "lift")
    known = measured((84_000,), people=1000, neighbours=Neighbours.REPLACE)
    assert known.error.value == pytest.approx(0.1)


def test_saved_and_loaded(tmp_path: Any) -> None:
    data = pp.UserData.from_users([[(3, 0), (8, 1)]] * 50, features={"x": pp.Integers(0, 9)})
    for released in (
        pp.evaluate(lambda t: t["x"] > 5, data, epsilon=1),
        pp.evaluate(lambda t: t["x"] > 5, data, epsilon=1, cells="error", neighbours="replace"),
        pp.best_error(data, pp.Thresholds(), epsilon=1),
    ):
        released.save(tmp_path / "r.json")
        assert pp.load(tmp_path / "r.json") == released


# The least error, and how far from it


def test_the_floor_holds_for_every_rule_and_the_excess_for_the_released_one() -> None:
    """Labels wrong with probability .1 at every x: the least error is .1, and a cut at 70 instead of 50 costs .16."""
    from privpac.evaluation.best_error import BestErrorLearner
    from privpac.evaluation.evaluator import Evaluator
    from privpac.testing import SeededRng, insecure_randomness

    rng, coins = np.random.default_rng(0), SeededRng(0)
    failed = {"floor": 0, "law": 0, "excess": 0}
    for _ in range(40):
        x = rng.integers(0, 100, (400, 4))
        y = (x > 49) ^ (rng.random(x.shape) < 0.1)
        users = [list(zip(a.tolist(), b.astype(int).tolist())) for a, b in zip(x, y)]
        data = pp.UserData.from_users(users, features={"x": pp.Integers(0, 99)})
        floor = BestErrorLearner(pp.Thresholds(), 1)
        table = Evaluator(lambda t: t["x"] > 69, 1, rowwise=True)
        with insecure_randomness():
            low = floor.draw(floor.bind(data), coins).value
            found = table.draw(table.bind(data), coins).value
        failed["floor"] += low.lower() > 0.1
        failed["law"] += low.lower(4) > 0.1
        failed["excess"] += excess_bound(found, low) < 0.16
        assert excess_bound(found, low) < 0.35
    assert max(failed.values()) <= 10, failed


def test_nobody_and_nothing_known() -> None:
    empty = pp.UserData.from_users([], features={"x": pp.Integers(0, 9)})
    bound = pp.best_error(empty, pp.Thresholds(), epsilon=1).value
    assert bound.lower() == 0.0
    assert 0 <= bound.value <= 1
    found = pp.evaluate(lambda t: t["x"] > 5, empty, epsilon=1).value
    assert excess_bound(found, bound) == 1.0
    tight = BestErrorBound(84_000, 1000, 840, Fraction(1, 840), None, Fraction(19, 20))
    assert 0.07 < tight.lower() < tight.lower(16) < 0.1


def test_the_least_sum_moves_by_at_most_levels() -> None:
    """Every dataset of at most two users over two values: one user more, or another one, against the price paid."""
    from itertools import combinations_with_replacement, product

    from privpac.evaluation.best_error import MeanError

    concept = pp.Thresholds(pp.Integers(0, 2), feature="x")
    records = list(product((0, 1, 2), (0, 1)))
    users = [u for k in range(3) for u in combinations_with_replacement(records, k)]

    def least(*held: Any) -> int:
        data = pp.UserData.from_users([list(u) for u in held], features={"x": pp.Integers(0, 2)})
        bound, ready = concept.bind(data)
        return int(ready.fold(bound.kernel(MeanError(2))).least)

    one = {u: least(u) for u in users}
    assert max(abs(a - b) for a in one.values() for b in one.values()) <= 2
    for u, v in combinations_with_replacement(users, 2):
        assert 0 <= least(u, v) - one[u] <= 2


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), max_size=6), max_size=6),
    st.sampled_from([1, 3, 840]),
)
@settings(max_examples=60, deadline=None)
def test_the_least_sum_is_that_of_plain_counting(users: list[list[tuple[int, int]]], levels: int) -> None:
    from privpac.evaluation.best_error import MeanError

    data = pp.UserData.from_users(users, features={"x": pp.Integers(0, 4)})
    for concept in (pp.Thresholds(direction="both"), pp.Intervals(), pp.Points()):
        bound, ready = concept.bind(data)
        every = [bound.predictions({"x": np.arange(5, dtype=np.uint64)}, h) for h in range(bound.size)]
        sums = [sum(levels * sum(r[x] != y for x, y in u) // len(u) for u in users if u) for r in every]
        assert ready.fold(bound.kernel(MeanError(levels))).least == min(sums)


def test_the_least_sum_of_small_trees_is_that_of_all_of_them() -> None:
    from privpac.evaluation.best_error import least_sum, steps_of

    rng = np.random.default_rng(4)
    features = {"a": pp.Integers(0, 2), "b": pp.Integers(0, 1)}
    for _ in range(5):
        users = [
            [tuple(map(int, (rng.integers(3), rng.integers(2), rng.integers(2)))) for _ in range(rng.integers(0, 5))]
            for _ in range(12)
        ]
        data = pp.UserData.from_users(users, features=features)
        bound, ready = pp.SmallTrees().bind(data)
        levels = steps_of(bound, 840)
        said = bound.table({"a": ready.codes["a"], "b": ready.codes["b"]}, 0, bound.size).T
        who = np.repeat(np.arange(len(users)), [len(u) for u in users])
        votes = np.array([levels // max(1, len(u)) for u in users])[who]
        assert least_sum(bound, ready, levels) == int(((said != ready.labels) * votes).sum(axis=1).min())


def test_the_excess_is_what_the_formula_expects() -> None:
    """Error .1, epsilon 1, a fifth evaluates, a quarter of epsilon certifies.  Boxes of means gave .29, .11 and .041
    for any people, .17, .053 and .016 for records of one law."""
    for n, any_people, one_law in ((500, 0.207, 0.138), (2_000, 0.088, 0.044), (10_000, 0.0345, 0.013)):
        learn, rest = 4 * n // 5, n // 5
        wrong = rest * 84
        found = measured((rest * 420 - wrong // 2, wrong // 2, wrong // 2, rest * 420 - wrong // 2))
        spent = Fraction(1, 4)
        least = BestErrorBound(learn * 84, learn, 840, spent * Fraction(4, 5) / 840, spent / 5, Fraction(19, 20))
        assert excess_bound(found, least) == pytest.approx(any_people, rel=0.05)
        assert excess_bound(found, least, records_per_user=16) == pytest.approx(one_law, rel=0.08)


def test_the_floor_holds_where_people_differ_and_on_hard_laws() -> None:
    """Half of the people follow one rule and half its opposite: every rule is wrong for half.  And a single deciding
    person in k: the least error is 1/k of those who disagree.  300 bounds that hold with probability .95 fail more than
    38 times with probability below 1e-6."""
    from privpac.evaluation.best_error import BestErrorLearner
    from privpac.testing import SeededRng, insecure_randomness

    rng, coins = np.random.default_rng(9), SeededRng(9)
    for share, least in ((0.5, 0.5), (0.05, 0.05)):
        failed = 0
        for _ in range(150):
            against = rng.random(120) < share
            users = [[(0, int(a)), (9, int(not a))] for a in against]
            data = pp.UserData.from_users(users, features={"x": pp.Integers(0, 9)})
            learner = BestErrorLearner(pp.Thresholds(direction="both"), 1)
            with insecure_randomness():
                failed += learner.draw(learner.bind(data), coins).value.lower() > least
        assert failed <= 24, share


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=7), min_size=1, max_size=12),
    st.sampled_from([7, 840]),
    st.sampled_from([Fraction(1, 10), Fraction(1), Fraction(3)]),
    st.lists(st.floats(-1, 1), min_size=4, max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_whatever_the_noise_does_within_its_reach_the_truth_is_inside(
    users: list[list[int]], levels: int, epsilon: Fraction, push: list[float]
) -> None:
    """A refuter: every interval for the people measured holds for any table, any rounding, and any noise that stays
    within a quarter of the reach of one noise, so that no form of up to four cells leaves its own."""
    from privpac.rules.kernels.shares import user_tables

    offsets = np.concatenate([[0], np.cumsum([len(u) for u in users])]).astype(np.int64)
    cells = np.array([c for u in users for c in u], np.uint8)
    sums = user_tables(offsets, cells, 4, levels, True, -1)
    reach = noise_reach(epsilon / levels, 1, Fraction(1, 20) / 2)
    noisy = tuple(int(s) + int(reach / 4 * p) for s, p in zip(sums, push))
    found = measured(noisy, levels=levels, noise=epsilon / levels)
    shares = sum(np.bincount(u, minlength=4) / len(u) for u in users)
    with np.errstate(invalid="ignore", divide="ignore"):
        truth = truth_of(np.asarray(shares, float))
    for name, value in truth.items():
        if np.isfinite(value):
            assert value in getattr(found, name).sample.widened(1e-9), name
