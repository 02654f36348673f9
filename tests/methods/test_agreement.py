"""Learning by agreement: planted rules are found with the users of the table, and the edges of the data are
ordinary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpac.data import Categories, Integers, UserData
from privpac.device.correlated_sampling import rate
from privpac.device.tasks import KINDS, Task
from privpac.errors import ModelFileError, ParameterError, PrivpacError, TooLargeError
from privpac.law import BOTTOM
from privpac.mechanisms.votes import StableHistogram
from privpac.methods.agreement.agreement_learner import AgreedRule, AgreedRules, AgreementLearner, kind_of
from privpac.methods.agreement.plurality import users_histogram, users_plurality
from privpac.result import Released
from privpac.rules import Conjunctions, DecisionLists, Disjunctions, Parities, Points, Rectangles, Stumps, Thresholds
from privpac.testing import SeededRng, insecure_randomness

SEED = b"a public seed of thirty-two byte"
AGE = {"age": Integers(0, 99)}
BITS = {name: Integers(0, 1) for name in "abcd"}


def people(n: int, m: int, features: Any, label: Any, seed: int = 1) -> UserData:
    """Users with ``m`` records each, uniform codes, labels from a rule on codes."""
    sizes = [domain.size for domain in features.values()]
    codes = np.random.default_rng(seed).integers(0, sizes, (n, m, len(sizes)))
    values = [domain.value for domain in features.values()]
    return UserData.from_users(
        [[(*(v(int(c)) for v, c in zip(values, row)), int(label(row))) for row in user] for user in codes],
        features=features,
    )


def error(released: Released, features: Any, label: Any) -> float:
    sizes = [domain.size for domain in features.values()]
    table = np.stack([axis.ravel() for axis in np.meshgrid(*map(np.arange, sizes), indexing="ij")], axis=1)
    codes = {name: table[:, j].astype(np.uint64) for j, name in enumerate(features)}
    return float(np.mean(released.value.predict_codes(codes) != [label(row) for row in table]))


PAIR = {name: Integers(0, 1) for name in "ab"}
MIXED = {"site": Categories(["north", "south", "west"], ordered=True), "age": Integers(0, 9)}
PLANTED: dict[str, tuple[Any, Any, Any, Any, float]] = {
    "threshold": (Thresholds(), AGE, lambda r: r[0] >= 41, {"Gamma": rate(40)}, 0.2),
    "below": (Thresholds(direction="below"), AGE, lambda r: r[0] < 41, {"Gamma": rate(40)}, 0.2),
    "stump": (
        Stumps({"site": MIXED["site"], "age": MIXED["age"]}),
        MIXED,
        lambda r: r[1] >= 6,
        {"Gamma": rate(60)},
        0.15,
    ),
    "point": (Points(), {"k": Integers(0, 4)}, lambda r: r[0] == 3, {"Gamma": rate(60)}, 0.01),
    "parity": (Parities(BITS), BITS, lambda r: (r[0] + r[2]) % 2, {"Gamma": rate(60)}, 0.01),
    "conjunction": (Conjunctions(BITS), BITS, lambda r: r[0] and not r[1], {"grid": 20}, 0.01),
    "disjunction": (Disjunctions(BITS), BITS, lambda r: r[0] or not r[1], {"grid": 20}, 0.01),
    "decision-list": (
        AgreedRules("decision-list", BITS),
        BITS,
        lambda r: r[1] if r[0] else r[2],
        {"Gamma": rate(60)},
        0.26,
    ),
    "naive-bayes": (AgreedRules("naive-bayes", PAIR), PAIR, lambda r: r[0], {"grid": 3}, 0.26),
    "lists of a class": (DecisionLists(BITS, length=2), BITS, lambda r: r[0] and not r[1], {"Gamma": rate(60)}, 0.26),
    "halfspace": (AgreedRules("halfspace", BITS), BITS, lambda r: r[0] + r[1] + r[2] >= 2, {}, 0.26),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_rules_are_found_by_few_users_with_many_records(name: str) -> None:
    concept, features, label, task, worst = PLANTED[name]
    learner = AgreementLearner(concept, 1, delta="1e-6", task=task, seed=SEED)
    released = learner.learn(people(60, 400, features, label))
    assert released.outcome == "released"
    assert error(released, features, label) <= worst
    again = Released.from_json(released.to_json())
    assert again.value == released.value
    assert again.value.condition() == released.value.condition()
    assert str(released.guarantee) == "(1, 1e-06)-DP per user, add-remove"


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_users_of_the_table_suffice(relation: str) -> None:
    """All users hold the same records: the share is 1, and the certified number at 0.9 more than suffices."""
    rows = [(x, int(x >= 41)) for x in range(100)]
    select = StableHistogram(1, delta="1e-6", neighbours=relation)
    n = users_histogram(select.K, beta="0.1", named=2).n_users
    assert n == {"add-remove": 47, "replace": 81}[relation]
    learner = AgreementLearner(Thresholds(), 1, neighbours=relation, delta="1e-6", seed=SEED)
    law = learner.law(UserData.from_users([rows] * n, features=AGE))
    assert float(law.prob(law.mode)) > 1 - 1e-6
    pure = AgreementLearner(Thresholds(), 1, neighbours=relation, seed=SEED)
    base = 2.718281 if relation == "add-remove" else 1.648721
    few = users_plurality(str(base), 101, beta="0.1", clear="1/20").n_users
    assert few is not None
    law = pure.law(UserData.from_users([rows] * few, features=AGE))
    assert float(law.prob(law.mode)) > 1 - 0.1 / 3


def test_votes_gather_with_records() -> None:
    """The share of the most voted item rises with the records of each user (averaged over seeds)."""
    shares = []
    for m in (10, 50, 250):
        found = []
        for i in range(6):
            data = people(30, m, AGE, lambda r: r[0] >= 41, seed=100 + i)
            learner = AgreementLearner(Thresholds(), 1, delta="1e-6", task={"Gamma": rate(20)}, seed=bytes([i]) * 32)
            votes = learner._votes(learner.bind(data))
            found.append(max(votes.values()) / 30)
        shares.append(np.mean(found))
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] > 0.7


def test_law_is_sampled_and_seeded_results_promise_nothing() -> None:
    data = people(6, 50, AGE, lambda r: r[0] >= 41)
    learner = AgreementLearner(Thresholds(), 1, delta="1e-2", seed=SEED)
    law = learner.law(data)
    assert sum(law.prob_exact(u) for u in (*range(101), BOTTOM)) == 1
    with insecure_randomness():
        first, second = (learner.learn(data, rng=SeededRng(5)) for _ in range(2))
    assert first.value == second.value
    assert first.guarantee is None


def test_no_users_and_users_with_nothing_to_say() -> None:
    learner = AgreementLearner(Thresholds(), 1, delta="1e-6", min_records=5)
    for users in ([], [[]], [[(3, 1)] * 4] * 200):
        released = learner.learn(UserData.from_users(users, features=AGE))
        assert released.outcome == "default"
        assert released.value.condition() == "never"
    pure = AgreementLearner(Thresholds(), 1)
    assert pure.law(UserData.from_users([], features=AGE)).prob(BOTTOM).lo >= 1 - pure.beta


def test_unequal_users_are_read_up_to_their_cap() -> None:
    rows = [(x, int(x >= 41)) for x in range(100)]
    learner = AgreementLearner(Thresholds(), 1, delta="1e-6", max_records=100, seed=SEED)
    long = learner.law(UserData.from_users([rows + [(0, 1)] * 5000] * 50, features=AGE))
    short = learner.law(UserData.from_users([rows] * 50, features=AGE))
    assert long.mode == short.mode


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": "nan"},
        {"delta": 1},
        {"delta": -1},
        {"seed": b"short"},
        {"seed": "text"},
        {"min_records": 0},
        {"task": {"speed": 1}},
        {"task": {"Gamma": "60"}},
        {"concept": Rectangles()},
        {"concept": Thresholds(direction="both")},
        {"concept": Points(zero=True)},
        {"concept": DecisionLists(["age"], negations=False)},
    ],
)
def test_bad_parameters(bad: dict[str, Any]) -> None:
    given = {"concept": Thresholds(), "epsilon": 1, "delta": "1e-6"} | bad
    with pytest.raises((ParameterError, TypeError)):
        AgreementLearner(**given).learn(UserData.from_users([[(1, 1)]], features=AGE))


# Rules named by their kind


def test_rules_too_rich_to_score_are_refused_by_other_methods() -> None:
    rules = AgreedRules("naive-bayes", MIXED)
    assert kind_of(rules) == "naive-bayes"
    assert rules.size > 1 << 20
    for use in (
        lambda: rules.decode(0),
        rules.empty_profile,
        lambda: rules.predictions({}, 0),
        lambda: rules.dichotomies({}),
    ):
        with pytest.raises(TooLargeError, match="agreement"):
            use()
    with pytest.raises(ParameterError, match="one of"):
        AgreedRules("oracle", MIXED)
    with pytest.raises(ParameterError):
        kind_of(Rectangles(AGE))


def test_names_are_filled_in_by_the_data() -> None:
    rules = AgreedRules("stump", ["site", "age"])
    learner = AgreementLearner(rules, 1, delta="1e-6", seed=SEED)
    released = learner.learn(people(60, 300, MIXED, lambda r: r[1] >= 6))
    assert released.outcome == "released"
    assert list(released.value.features) == ["site", "age"]


def test_every_default_is_a_rule_and_speaks() -> None:
    wide = {"age": Integers(0, 99)}
    for kind in KINDS:
        features = wide if kind in ("threshold", "threshold-below", "point", "hashed-point", "interval") else BITS
        task = Task(kind, tuple(domain.size for domain in features.values()))
        rule = AgreedRule(kind, _frozen(features), task.default)
        assert rule.condition()
        codes = {name: np.zeros(1, dtype=np.uint64) for name in features}
        assert rule.predict_codes(codes).shape == (1,)
        if kind not in ("threshold-below", "point", "naive-bayes"):
            assert rule.condition() == "never", kind


def _frozen(features: Any) -> Any:
    from privpac.rules.base import Frozen

    return Frozen(tuple(features.items()))


def test_damaged_rules_are_refused() -> None:
    with pytest.raises(ParameterError):
        AgreedRule("threshold", _frozen(AGE), b"\xff")
    released = AgreementLearner(Thresholds(), 1, delta="1e-6").learn(UserData.from_users([], features=AGE))
    with pytest.raises(ModelFileError):
        Released.from_json(released.to_json().replace('"item": "64"', '"item": "zz"'))


@pytest.mark.parametrize(
    "bad",
    [("oracle", (3,)), ("threshold", ()), ("threshold", (0,)), ("parity", (3,)), ("threshold", (2, 2)), (["x"], (2,))],
)
def test_tasks_are_checked(bad: Any) -> None:
    with pytest.raises((PrivpacError, TypeError)):
        Task(*bad)
