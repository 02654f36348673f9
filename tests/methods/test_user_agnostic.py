"""The user-level agnostic learner and selection through representations."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privpac.data import Integers, UserData
from privpac.errors import ParameterError, TooLargeError
from privpac.law import Law
from privpac.law.blocks import BlockLaw
from privpac.methods.realizable import RealizableSelection
from privpac.papers.pure_agnostic.counting import RobustTolerance, UserAgnosticLearner, plan_user_agnostic
from privpac.papers.pure_agnostic.representations import HashedPoints
from privpac.papers.pure_agnostic.surrogate_selection import SurrogateSelection
from privpac.rules.cuts import Thresholds
from privpac.rules.enumerated import FiniteClass
from privpac.rules.points import Points
from privpac.special import robust_t

DOMAIN = Integers(0, 9)
PEOPLE = UserData.from_users([[(3, 0), (8, 1)], [(2, 0)], [(9, 1), (5, 1)], []], features={"x": DOMAIN})


def noisy(n: int, m: int, bits: int, noise: float, seed: int) -> tuple[UserData, int]:
    """n users with m records each: x uniform on 2**bits values, 1 iff in the upper half, labels flipped with
    probability noise."""
    rng, half = np.random.default_rng(seed), 1 << (bits - 1)
    x = rng.integers(0, 1 << bits, n * m, dtype=np.uint64)
    y = ((x >= np.uint64(half)) ^ (rng.random(n * m) < noise)).astype(np.uint8)
    users = np.repeat(np.arange(n), m)
    return UserData.from_arrays(x[:, None], y, users, features={"x": Integers(0, (1 << bits) - 1)}), half


def excess(law: Law, best: int, size: int, noise: float) -> tuple[float, float]:
    """Mean excess error under a law over cuts, and the probability that it is above 0.1 (in doubles)."""
    assert isinstance(law, BlockLaw)
    assert law.eta is not None
    first = np.array([float(law.low(i)) for i in range(len(law))]) / size
    count = np.array([float(law.count(i)) for i in range(len(law))]) / size
    mass = np.exp(-float(law.eta) * (law.score - law.best)) * count
    low, high = np.abs(first - best / size), np.abs(first + count - best / size)
    across = (first < best / size) & (first + count > best / size)
    apart = np.where(across, (low**2 + high**2) / (2 * count), (low + high) / 2) * (1 - 2 * noise)
    worst = np.maximum(low, high) * (1 - 2 * noise)
    return float((mass * apart).sum() / mass.sum()), float(mass[worst > 0.1].sum() / mass.sum())


# Where the tolerance comes from


def test_a_given_tolerance_costs_nothing() -> None:
    learner = UserAgnosticLearner(Thresholds(), epsilon=1, tolerance={0: 0, 2: 1})
    assert not learner.estimates
    assert learner.epsilon_rest == 1
    assert learner.law(PEOPLE).satisfies(
        RealizableSelection(Thresholds(), epsilon=1, tolerance={0: 0, 2: 1}).law(PEOPLE), 0
    )


def test_public_knowledge_of_the_noise_costs_nothing() -> None:
    learner = UserAgnosticLearner(Thresholds(), epsilon=1, noise=("1/5", "1/20"), alpha="1/10")
    assert not learner.estimates
    table = learner.tolerance_given(None)
    assert isinstance(table, RobustTolerance)
    assert [table(m) for m in (0, 1, 5, 40)] == [robust_t(m, "1/5", "1/20", "1/10") for m in (0, 1, 5, 40)]


@pytest.mark.parametrize("public", [{"max_records": 1}, {"sizes": (0, 1)}, {"sizes": (1,)}, {"records_per_user": 1}])
def test_one_record_per_user_needs_no_estimate(public: dict[str, Any]) -> None:
    learner = UserAgnosticLearner(Thresholds(), epsilon=1, **public)
    assert not learner.estimates
    assert learner.tolerance_given(None) == 0
    assert learner.guarantee.rho == Fraction(1, 8)


def test_item_level_data_need_no_estimate() -> None:
    items = UserData.from_arrays([[1], [8]], [0, 1], features={"x": DOMAIN})
    learner = UserAgnosticLearner(Thresholds(), epsilon=1, unit="item")
    assert not learner.estimates
    assert learner.learn(items).guarantee == learner.guarantee


def test_an_estimate_with_one_outcome_costs_nothing() -> None:
    learner = UserAgnosticLearner(Thresholds(), epsilon=1, radius="3/4")
    assert learner.estimate_learner.law(PEOPLE).satisfies(
        learner.estimate_learner.law(UserData.from_users([], features=PEOPLE.features)), 0
    )
    assert (learner.epsilon_estimate, learner.epsilon_rest) == (0, 1)
    assert learner.learn(PEOPLE).guarantee == learner.guarantee
    assert UserAgnosticLearner(Thresholds(), epsilon=1, radius="3/4", estimator="bisect").epsilon_estimate > 0


def test_tolerances_of_long_users_are_those_of_the_certificate() -> None:
    """The certificate is for t(m) itself, also where a user holds more records than anyone lists."""
    table = RobustTolerance(Fraction(1, 5), Fraction(1, 20), Fraction(1, 10))
    assert [table(m) for m in (5000, 60_001)] == [robust_t(m, "1/5", "1/20", "1/10") for m in (5000, 60_001)]
    assert table(1 << 40) == table(1 << 20) << 20


def test_the_budget_is_split_and_shown() -> None:
    learner = UserAgnosticLearner(Thresholds(), epsilon=1, records_per_user=4)
    assert (learner.epsilon_estimate, learner.epsilon_rest, learner.estimate_radius) == (
        Fraction(1, 4),
        Fraction(3, 4),
        Fraction(1, 4),
    )
    assert learner.guarantee.rho == Fraction(1, 16) / 8 + Fraction(9, 16) / 8
    assert "1/4" in " ".join(learner.guarantee.derivation)
    shown = learner.learn(PEOPLE).parameters
    assert 0 <= shown["best_error (private)"] <= 1
    assert {"class", "size", "alpha", "radius", "epsilon_estimate"} < set(shown)


@pytest.mark.parametrize(
    ("m", "radius"), [(1, "1/2"), (2, "1/4"), (4, "1/4"), (5, "1/8"), (16, "1/8"), (64, "1/16"), (10**9, "1/256")]
)
def test_the_default_radius_follows_the_public_number_of_records(m: int, radius: str) -> None:
    assert UserAgnosticLearner(Thresholds(), epsilon=1, records_per_user=m).estimate_radius == Fraction(radius)


def test_the_default_radius_without_public_knowledge() -> None:
    assert UserAgnosticLearner(Thresholds(), epsilon=1).estimate_radius == Fraction(1, 8)
    assert UserAgnosticLearner(Thresholds(), epsilon=1, max_records=64).estimate_radius == Fraction(1, 16)


def test_no_number_of_records_is_refused() -> None:
    table = RobustTolerance(Fraction(1, 4), Fraction(1, 16), Fraction(1, 10))
    assert [table(m) for m in (1000, 4096)] == [robust_t(m, "1/4", "1/16", "1/10") for m in (1000, 4096)]
    for m in (4097, 5000, 1 << 30):
        assert 0.2 < table(m) / m < 0.4


# Laws


def test_the_joint_law_averages_to_the_law_of_the_rule() -> None:
    learner = UserAgnosticLearner(Thresholds(), epsilon=2, radius="1/4", alpha="1/8")
    joint, rule = learner.law(PEOPLE), learner.rule_law(PEOPLE)
    assert float(joint.map(lambda pair: pair[1]).total_variation(rule)) == pytest.approx(0, abs=1e-25)
    estimates = learner.estimate_learner.law(PEOPLE)
    assert float(joint.map(lambda pair: pair[0]).total_variation(estimates)) == pytest.approx(0, abs=1e-25)
    value = next(iter(estimates.support()))
    given = learner.law(PEOPLE, given=value)
    ratio = joint.prob_float((value, 3)) / estimates.prob_float(value)
    assert ratio == pytest.approx(given.prob_float(3))


def test_a_joint_law_over_many_rules_is_refused_and_the_marginal_is_not() -> None:
    wide = UserData.from_users([[(3, 0), (2**63, 1)], [(2, 0)]], features={"x": Integers(0, 2**64 - 1)})
    learner = UserAgnosticLearner(Thresholds(), epsilon=1, radius="1/4")
    with pytest.raises(TooLargeError, match="rule_law"):
        learner.law(wide)
    law = learner.rule_law(wide)
    total = sum(law.prob_float(c.start) * (c.stop - c.start) for c in law.support() if isinstance(c, range))
    assert total == pytest.approx(1)
    assert sum(c.stop - c.start for c in law.support() if isinstance(c, range)) == 2**64 + 1


@pytest.mark.parametrize("users", [[], [[]], [[], []]])
def test_without_records_the_rule_is_uniform(users: list[Any]) -> None:
    data = UserData.from_users(users, features={"x": DOMAIN})
    for learner in (
        SurrogateSelection(Thresholds(), epsilon=1),
        UserAgnosticLearner(Thresholds(), epsilon=1, tolerance=0),
    ):
        assert {learner.law(data).prob_exact(cut) for cut in range(11)} == {Fraction(1, 11)}
    UserAgnosticLearner(Thresholds(), epsilon=1).learn(data)


def test_given_is_refused_where_nothing_is_estimated() -> None:
    with pytest.raises(ParameterError, match="given"):
        UserAgnosticLearner(Thresholds(), epsilon=1, tolerance=0).law(PEOPLE, given="1/4")


# Through representations


def test_a_fixed_public_seed_fixes_the_set() -> None:
    wide = Integers(0, 2**64 - 1)
    few = HashedPoints(wide, alpha=Fraction(1, 10), beta=Fraction(1, 20))
    one, two = (
        SurrogateSelection(Points(wide), epsilon=1, representation=few, public_seed=bytes(32)) for _ in range(2)
    )
    assert one.hypotheses == two.hypotheses
    assert SurrogateSelection(Points(wide), epsilon=1, representation=few).hypotheses != one.hypotheses
    people = UserData.from_users([[(7, 1), (9, 0)], [(7, 1)]], features={"x": wide})
    released = one.learn(people)
    assert released.parameters["public_seed"] == bytes(32).hex()
    assert released.parameters["size"] == few.copies * few.buckets
    assert type(released).from_json(released.to_json()).value == released.value


def test_changed_parameters_keep_or_redraw_the_set() -> None:
    wide = Integers(0, 2**64 - 1)
    few = HashedPoints(wide, alpha=Fraction(1, 10), beta=Fraction(1, 20))
    one = SurrogateSelection(Points(wide), epsilon=1, representation=few, public_seed=bytes(32))
    assert one.with_(epsilon=2).hypotheses == one.hypotheses
    assert one.with_(public_seed=bytes(31) + b"1").hypotheses != one.hypotheses
    assert one.with_(representation=None).proper


def test_a_set_for_another_domain_is_refused_before_anything_is_spent() -> None:
    few = HashedPoints(Integers(0, 5), alpha=Fraction(1, 10), beta=Fraction(1, 20))
    learner = SurrogateSelection(Points(DOMAIN), epsilon=1, representation=few)
    with pytest.raises(ParameterError, match="domain"):
        learner.bind(PEOPLE)
    with pytest.raises(ParameterError, match="forgive"):
        SurrogateSelection(Points(), epsilon=1, hypotheses=learner.hypotheses, forgiven=1).bind(
            UserData.from_users([[(1, 0)]], features={"x": Integers(0, 5)})
        )


def test_an_improper_learner_keeps_a_third_of_alpha() -> None:
    wide = Integers(0, 2**64 - 1)
    few = HashedPoints(wide, alpha=Fraction(1, 10), beta=Fraction(1, 20))
    learner = UserAgnosticLearner(Points(wide), epsilon=1, alpha="3/10", representation=few)
    assert not learner.proper
    assert learner.compared_alpha == Fraction(1, 5)
    people = UserData.from_users([[(7, 1), (9, 0)], [(7, 1)]], features={"x": wide})
    assert learner.learn(people).parameters["score"] == "union"


def test_a_finite_class_works_too() -> None:
    odd = FiniteClass(np.array([[0, 1, 0, 1], [1, 1, 0, 0]]), Integers(0, 3), "x")
    data = UserData.from_users([[(1, 1), (2, 0)], [(3, 1)]] * 20, features={"x": Integers(0, 3)})
    assert UserAgnosticLearner(odd, epsilon=1, tolerance=0).law(data).mode == 0


# Accuracy


def test_excess_error_falls_with_records_per_user() -> None:
    means = []
    for m, t in ((1, 0), (4, 1), (16, 4)):
        runs = [noisy(100, m, 40, 0.2, seed) for seed in range(6)]
        laws = [
            SurrogateSelection(Thresholds(), epsilon=1, neighbours="replace", tolerance=t).law(data) for data, _ in runs
        ]
        means.append(np.mean([excess(law, best, 1 << 40, 0.2)[0] for law, (_, best) in zip(laws, runs)]))
    assert means[0] > means[1] > means[2]
    assert means[2] < 0.02


def test_the_certified_number_of_users_is_enough() -> None:
    """Expected failure at the certified n is far below beta; the law is exact, the estimate included."""
    plan = plan_user_agnostic(
        log_size=np.log(2.0**40 + 1),
        dimension=1,
        records_per_user=16,
        alpha="1/10",
        beta="1/20",
        epsilon=1,
        neighbours="replace",
    )
    assert plan.n_users is not None
    data, best = noisy(plan.n_users, 16, 40, 0.2, 3)
    learner = UserAgnosticLearner(
        Thresholds(),
        epsilon=1,
        neighbours="replace",
        sizes=(16,),
        radius=Fraction(1, 1 << plan["j"]),
        estimator="bisect",
    )
    estimates, bound = learner.estimate_learner.law(data), learner.bind(data)
    likely = {v: p for v in estimates.support() if (p := estimates.prob_float(v)) > 1e-6}
    assert sum(p for v, p in likely.items() if abs(v - Fraction(1, 5)) <= learner.estimate_radius) > 0.95  # type: ignore[operator]
    failure = sum(p * excess(learner.given_law(bound, v), best, 1 << 40, 0.2)[1] for v, p in likely.items())  # type: ignore[arg-type]
    assert failure < 0.05 - 1e-4


# Bad input


@pytest.mark.parametrize(
    "bad",
    [
        {"alpha": 0},
        {"alpha": 1},
        {"share": 0},
        {"share": 1},
        {"tolerance": "best"},
        {"tolerance": -1},
        {"estimator": "guess"},
        {"noise": ("1/2", 2)},
        {"noise": ("1/2", "1/8"), "tolerance": 1},
        {"radius": 0},
        {"records_per_user": 0},
        {"score": "product"},
        {"epsilon": float("inf")},
    ],
)
def test_bad_values_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        UserAgnosticLearner(Thresholds(), **({"epsilon": 1} | bad))


@pytest.mark.parametrize(
    "bad",
    [
        {"tolerance": 1.5},
        {"noise": 0.2},
        {"representation": 3},
        {"hypotheses": [1]},
        {"concept": "cuts"},
        {"records_per_user": "4"},
    ],
)
def test_bad_types_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        UserAgnosticLearner(**({"concept": Thresholds(), "epsilon": 1} | bad))
