"""More people never hurt: with four times the users the mean excess error is no larger, but for a hair.

Models with noise, with users who differ, and with unequal numbers of records; the excess is the mean over the exact law
of the output, on data from fixed seeds.  Every method has a line in the table, and so has every learner that releases
something else.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import privpac.methods
from privpac.data import Integers, UserData
from privpac.errors import AccuracyWarning
from privpac.guarantee import Neighbours, Unit
from privpac.methods.agreement.agreement_learner import AgreementLearner
from privpac.methods.base import Learner
from privpac.methods.hierarchy.tree_learner import TreeLearner
from privpac.methods.registry import METHODS, build_learner
from privpac.methods.scorecard import ScorecardLearner
from privpac.methods.small_tree import SmallTreeLearner
from privpac.papers.pure_agnostic.representations import HashedPoints
from privpac.papers.pure_agnostic.surrogate_selection import SurrogateSelection
from privpac.rules import PathTree, Points, Scorecards, SmallTrees, Thresholds
from privpac.testing import SeededRng, insecure_randomness

Floats = NDArray[np.float64]
Made = tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]


def labelled(rng: np.random.Generator, values: int, cuts: Any, sizes: NDArray[np.int64], noise: float) -> Made:
    users = np.repeat(np.arange(len(sizes)), sizes)
    x = rng.integers(0, values, size=len(users))
    return x, (x >= np.asarray(cuts)[users]) ^ (rng.random(len(users)) < noise), users


def one_law(rng: np.random.Generator, values: int, n: int) -> Made:
    return labelled(rng, values, np.full(n, values // 2), np.full(n, 8), 0.1)


def differing(rng: np.random.Generator, values: int, n: int) -> Made:
    return labelled(rng, values, rng.integers(values * 5 // 16, values * 11 // 16 + 1, size=n), np.full(n, 8), 0.05)


def unequal(rng: np.random.Generator, values: int, n: int) -> Made:
    return labelled(rng, values, np.full(n, values // 2), rng.choice([1, 2, 4, 16, 64], size=n), 0.1)


def excess_of(model: str, values: int) -> Floats:
    """Of every cut, over the whole population."""
    cut = np.arange(values + 1)
    if model != "differing":
        return np.asarray(0.8 * np.abs(cut - values // 2) / values)
    own = np.mean([0.9 * np.abs(cut - c) / values for c in range(values * 5 // 16, values * 11 // 16 + 1)], axis=0)
    return np.asarray(own - own.min())


MODELS: dict[str, Callable[[np.random.Generator, int, int], Made]] = {
    "one law": one_law,
    "differing": differing,
    "unequal": unequal,
}

OPTIONS: dict[str, dict[str, Any]] = {
    "hybrid": {},
    "regret": {},
    "mean": {},
    "realizable": {},
    "agnostic": {"records_per_user": 8},
    "direct": {"noise": ("1/10", "1/20")},
    "search": {"noise": ("1/10", "1/20")},
    "pairwise": {"records_per_user": 8},
}
"""Methods whose exact law is taken, with what they need."""

VALUES = {"search": 16}
"""The search has an exact law by dynamic programming: few values."""

CUTS = Thresholds(Integers(0, 63), "x")


def trimmed(model: str) -> Any:
    common = {
        "concept": CUTS,
        "epsilon": Fraction(1),
        "neighbours": Neighbours.REPLACE,
        "unit": Unit.USER,
        "max_records": None,
    }
    return build_learner("trimmed", common, {"delta": "1e-6", "records_per_user": 8})


OTHERS: dict[str, Callable[[str], Any]] = {
    "trimmed": trimmed,
    "agreement": lambda model: AgreementLearner(CUTS, Fraction(1), delta=Fraction(1, 10**6), seed=bytes(32)),
    "tree": lambda model: TreeLearner(
        PathTree(Integers(0, 63), "x", "above"), Fraction(1), Fraction(1, 10**6), mode="erm"
    ),
}
"""Methods with an outcome besides the cuts, which costs as much as the worst of them."""

FEWEST = {"trimmed": 200}
"""Fewer are refused: their number is public."""

EXCEPTIONS: dict[tuple[str, str], str] = {
    (
        "trimmed",
        "unequal",
    ): "8 records each are declared and some people hold one: their shares scatter beyond the width, which with more "
    "people is noticed (nothing is released from 800 on: excess .4, against .035 with 200)"
}
"""Known not to keep the rule.  Each must go on failing: one that does not is no exception any more."""

NO_RULES: dict[str, str] = {
    "CapSelection": "a number of records",
    "PrivateMedian": "a median cut of given records",
    "MinimumError": "an estimate of the least error",
    "PrivateCompare": "one comparison of that estimate",
    "TrimmedMean": "a mean vector",
    "FriendlyMean": "a mean vector",
    "OneRecordPerUser": "wraps an item-level learner",
    "GroupPrivacy": "wraps an item-level learner",
    "DeletionStability": "wraps an item-level algorithm",
    "WithFallback": "wraps two learners",
    "AgnosticReduction": "draws inner learners and has no law: tests/methods/test_reduction.py",
    "EmpiricalLearner": "the inner learner of the reduction",
    "NamedReduction": "the reduction by name",
    "ItemAlgorithm": "wraps an item-level algorithm",
    "SurrogateSelection": "see `surrogate`",
    "ThresholdSearch": "see `search`",
}


def mean_excess(method: str, model: str, n: int, sets: int) -> float:
    values = VALUES.get(method, 64)
    domain, excess, found = Integers(0, values - 1), excess_of(model, values), []
    common = {"concept": Thresholds(domain, "x"), "epsilon": Fraction(1), "neighbours": Neighbours.ADD_REMOVE}
    learner: Any = build_learner(method, common | {"unit": Unit.USER, "max_records": None}, OPTIONS[method])
    for seed in range(sets):
        x, y, users = MODELS[model](np.random.default_rng([seed, n]), values, n)
        data = UserData.from_arrays(x[:, None], y, users, features={"x": domain})
        if hasattr(learner, "rule_law"):
            law = learner.rule_law(data)
        else:  # the clip of the regret learner follows a count, which is close to the truth
            law = learner.law(data, given=n) if method == "regret" else learner.law(data)
        found.append(sum(law.prob_float(cut) * excess[cut] for cut in range(values + 1)))
    return float(np.mean(found))


def other_excess(method: str, model: str, n: int, sets: int) -> float:
    excess, learner, found = excess_of(model, 64), OTHERS[method](model), []
    for seed in range(sets):
        x, y, users = MODELS[model](np.random.default_rng([seed, n]), 64, n)
        data = UserData.from_arrays(x[:, None], y, users, features={"x": Integers(0, 63)})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccuracyWarning)
            law = (learner.law(data, given=n) if method == "tree" else learner.law(data)).as_finite()
        cost = [excess[v] if isinstance(v, int) and v <= 64 else excess.max() for v in law.values()]
        found.append(sum(law.prob_float(v) * price for v, price in zip(law.values(), cost)))
    return float(np.mean(found))


def no_worse(numbers: list[float]) -> bool:
    return all(later <= 1.15 * earlier + 0.002 for earlier, later in pairwise(numbers))


def in_short(method: str, model: str) -> bool:
    """Every method on one law, the default on every model; the rest of the table takes long."""
    return model == "one law" or method == "hybrid" or (method, model) in EXCEPTIONS


def table(methods: Any) -> list[Any]:
    """All methods with all models."""
    return [
        pytest.param(method, model, marks=[] if in_short(method, model) else pytest.mark.slow)
        for method in methods
        for model in MODELS
    ]


@pytest.mark.parametrize(("method", "model"), table(OPTIONS))
def test_more_people_never_hurt(method: str, model: str) -> None:
    numbers = [mean_excess(method, model, n, 3) for n in (50, 200, 800)]
    assert no_worse(numbers), numbers


@pytest.mark.slow
@pytest.mark.parametrize(("method", "model"), table(OTHERS))
def test_more_people_never_hurt_the_other_methods(method: str, model: str) -> None:
    # Whether people agree is luck with few of them: one or two data sets say little about the mean (0.20, 0.24 and
    # 0.01 with one each).
    sets = {50: 12, 200: 8, 800: 2} if method == "agreement" else {50: 2, 200: 2, 800: 2}
    numbers = [other_excess(method, model, n, sets[n]) for n in (50, 200, 800) if n >= FEWEST.get(method, 0)]
    assert no_worse(numbers) != ((method, model) in EXCEPTIONS), numbers


@pytest.mark.parametrize("model", ["one law", "differing", "unequal"])
def test_more_people_never_hurt_stand_ins_of_points(model: str) -> None:
    """``surrogate``: half of the records hold 7, which is labelled 1; where people differ one in five means another
    value."""
    values, numbers = Integers(0, 63), []
    stand_ins = HashedPoints(values, Fraction(1, 10), Fraction(1, 20))
    learner = SurrogateSelection(Points(values, "x"), Fraction(1), representation=stand_ins, public_seed=bytes(32))
    for n in (50, 200, 800):
        found = []
        for seed in range(3):
            rng = np.random.default_rng([seed, n])
            sizes = rng.choice([1, 2, 4, 16, 64], size=n) if model == "unequal" else np.full(n, 8)
            users = np.repeat(np.arange(n), sizes)
            mine = np.where(rng.random(n) < (0.2 if model == "differing" else 0.0), 9, 7)[users]
            x = np.where(rng.random(len(users)) < 0.5, 7, rng.integers(0, 64, size=len(users)))
            data = UserData.from_arrays(
                x[:, None], (x == mine) ^ (rng.random(len(users)) < 0.1), users, features={"x": values}
            )
            law, rules = learner.law(data), learner._rules(learner.bind(data))
            said = np.array([rules.decode(i).predict(np.arange(64)) for i in range(rules.size)])
            mass = np.full(64, 0.5 / 64)
            mass[7] += 0.5
            errors = (said != (np.arange(64) == 7)) @ mass
            found.append(sum(law.prob_float(i) * float(errors[i] - errors.min()) for i in range(rules.size)))
        numbers.append(float(np.mean(found)))
    assert no_worse(numbers), numbers


WIDE: dict[str, Any] = {
    "small-tree": SmallTreeLearner(SmallTrees(depth=1), Fraction(1)),
    "scorecard": ScorecardLearner(Scorecards(steps=10), Fraction(1), delta="1e-6"),
}
"""Learners of wide tables, here on one column; the scorecard has no law and is drawn with seeded coins."""


def wide_excess(method: str, model: str, n: int, sets: int) -> float:
    """Over the best cut, for people drawn anew."""
    learner, found, domain = WIDE[method], [], Integers(0, 63)
    x, y, users = MODELS[model](np.random.default_rng([99, 99]), 64, 4000)
    weights = 1 / np.bincount(users)[users] / 4000
    best = min(float(((x >= cut) != y) @ weights) for cut in range(65))
    for seed in range(sets):
        held = MODELS[model](np.random.default_rng([seed, n]), 64, n)
        data = UserData.from_arrays(held[0][:, None], held[1], held[2], features={"x": domain})
        if method == "scorecard":
            with insecure_randomness():
                drawn = [(1.0, learner.learn(data, rng=SeededRng(seed)).value)]
        else:
            bound, law = learner.bind(data), learner.law(data)
            drawn = [(float(law.prob(i)), bound.concept.decode(i)) for i in range(bound.concept.size)]
        wrong = sum(p * float((rule.predict(x[:, None]) != y) @ weights) for p, rule in drawn)
        found.append(max(0.0, wrong - best))
    return float(np.mean(found))


@pytest.mark.slow
@pytest.mark.parametrize(("method", "model"), table(WIDE))
def test_more_people_never_hurt_wide_tables(method: str, model: str) -> None:
    numbers = [wide_excess(method, model, n, {"small-tree": 3, "scorecard": 12}[method]) for n in (50, 200, 800)]
    assert no_worse(numbers), numbers


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("method", [name for name in OPTIONS if name not in ("pairwise", "search")])
def test_more_people_never_hurt_up_to_twenty_thousand(method: str, model: str) -> None:
    numbers = [
        mean_excess(method, model, n, sets)
        for n, sets in ((50, 12), (200, 12), (800, 8), (3200, 4), (12800, 3), (20000, 2))
    ]
    assert no_worse(numbers), numbers


def concrete(base: type[Any]) -> set[str]:
    """Learners of the room that can be made."""
    found = set()
    for kind in base.__subclasses__():
        found |= concrete(kind)
        if not getattr(kind, "__abstractmethods__", None) and kind.__module__.startswith("privpac.methods"):
            found.add(kind.__name__)
    return found


def test_no_method_and_no_learner_is_forgotten() -> None:
    assert set(OPTIONS) | set(OTHERS) | {"surrogate", "reduction", "small-tree", "scorecard"} == set(METHODS)
    assert {method for method, _ in EXCEPTIONS} <= set(OTHERS)
    for name in privpac.methods.__all__:
        getattr(privpac.methods, name)  # names are resolved on first use
    listed = {METHODS[name].learner for name in METHODS} | set(NO_RULES)
    assert concrete(Learner) - listed == set()


def test_the_rule_can_be_broken() -> None:
    assert not no_worse([0.01, 0.02])
    assert no_worse([0.01, 0.0134, 0.0])
