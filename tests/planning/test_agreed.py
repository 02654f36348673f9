"""Plans for agreement: the protocols' own noise, records as a requirement, certificates that hold in all three
models."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from scipy.stats import binom

from privpac.bounds import users_local, users_shuffle
from privpac.data import Floats, Integers
from privpac.device.correlated_sampling import rate
from privpac.device.tasks import Task
from privpac.errors import InfeasibleError, ParameterError
from privpac.mechanisms.votes import PureSelection, StableHistogram, vote_decay
from privpac.methods.agreement.plurality import CLEAR, plan_race, silent_votes, users_local_chunks, users_shuffle_chunks
from privpac.protocols import LocalProtocol, ShuffleProtocol
from privpac.protocols.agreement_plan import AgreementTarget, agreement_target
from privpac.protocols.analyzer import decode_counts, decode_reports
from privpac.rules import Conjunctions, DecisionLists, Halfspaces, Parities, Points, Rectangles, Stumps, Thresholds
from privpac.testing import SeededRng, insecure_randomness

VECTORS = Path(__file__).parents[1] / "vectors" / "stability_and_protocols.json"
MODELS: list[tuple[str, Any]] = [("central", 0), ("central", "1e-6"), ("local", 0), ("shuffle", "1e-6")]
IDS = ["pure", "central", "local", "shuffle"]
AGREED = "if 9 in 10 users agree"


def users(target: AgreementTarget, m: int = 1) -> Any:
    return next(method.certify(m).n_users for method in target.methods() if AGREED in method.name)


def cuts(size: int) -> Task:
    """Thresholds with so many rules."""
    return Task("threshold", (size - 1,))


# Numbers of the specification and of the protocols


def test_planned_users_are_those_of_the_vectors_or_the_few_more_from_which_on_they_hold() -> None:
    """A majority of an even number fails more often than that of the odd one before it: plans ask for a number that
    lasts."""
    planning = json.loads(VECTORS.read_text())["planning"]
    for case in planning["users"]:
        asked: dict[str, Any] = {"epsilon": str(case["eps"]), "beta": str(case["beta"])}
        if "n_local_U1024" in case:
            assert users(agreement_target(cuts(1024), model="local", **asked)) in range(
                case["n_local_U1024"], case["n_local_U1024"] + 5
            )
            continue
        asked["neighbours"] = case["neighbours"]
        assert users(agreement_target(cuts(1024), delta=str(case["delta"]), **asked)) in (
            case["n_histogram"],
            case["n_histogram"] + 2,
        )
        # The vectors are of a plurality that always answers; one that abstains needs a few users more.
        assert case["n_em_U1024"] < users(agreement_target(cuts(1024), **asked)) <= 1.4 * case["n_em_U1024"]
    for case in planning["lower"]:
        asked = {"epsilon": str(case["eps"]), "beta": str(case["beta"]), "alpha": "0.2"}
        target = agreement_target(cuts(1024), delta=str(case["delta"]), **asked)
        assert target.lower(1).n_users == case["packing_1024"]
        known = agreement_target(Task("naive-bayes", (2,)), delta=str(case["delta"]), dimension=10, **asked)
        assert known.lower(1).n_users == case["prdim_10"]
        assert agreement_target(Task("parity", (2,) * 20), **asked).lower(1).n_users == case["pure_packing_2^20"]


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [("threshold", (99,)), ("threshold", (2**64,)), ("conjunction", (2,) * 12)],
    ids=["few", "all", "mask"],
)
def test_local_plans_use_the_noise_and_the_chunks_of_the_protocol(kind: str, sizes: tuple[int, ...]) -> None:
    target = agreement_target(Task(kind, sizes), model="local", epsilon="0.8", beta="0.1")
    run = LocalProtocol(kind, {f"x{i}": Integers(0, size - 1) for i, size in enumerate(sizes)}, Fraction(4, 5))
    select = run.manifest.local
    if select.chunks == 1:
        assert users(target) == users_local(select.keep, 1 << select.bits, beta="0.1", clear=run.beta).n_users
    else:
        assert (
            users(target)
            == users_local_chunks(select.keep, select.bits, select.width, beta="0.1", clear=run.beta).n_users
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "sizes"),
    [("threshold", (99,)), ("threshold", (2**64,)), ("halfspace", (2,) * 10)],
    ids=["few", "all", "vector"],
)
def test_shuffle_plans_use_the_noise_and_the_chunks_of_the_protocol(kind: str, sizes: tuple[int, ...]) -> None:
    target = agreement_target(Task(kind, sizes), model="shuffle", epsilon=2, delta="1e-6", beta="0.1")
    found = target.users(1)
    assert found.n_users is not None
    features = {f"x{i}": Integers(0, size - 1) for i, size in enumerate(sizes)}
    run = ShuffleProtocol(
        kind, features, Fraction(2), delta=Fraction("1e-6"), n_min=found.n_users, n_max=found["n_max"]
    )
    select = run.manifest.shuffle
    assert (select.r, select.p, select.width) == (found["r"], found["p"], found["width"])
    if select.width == 0:
        again = users_shuffle(select.r, select.p, select.buckets, beta="0.1", clear=run.beta)
    else:
        again = users_shuffle_chunks(
            select.r, select.p, target.task.learner.universe.bits, select.width, beta="0.1", clear=run.beta
        )
    assert again.n_users == found.n_users


def test_one_chunk_is_the_plurality_without_chunks() -> None:
    assert (
        users_shuffle_chunks("45.3", "0.449", 10, 10, beta="0.1").n_users
        == users_shuffle("45.3", "0.449", 1025, beta="0.1").n_users
    )
    exact, hoeffding = (
        users_local_chunks("0.73", 10, 10, beta="0.1").n_users,
        users_local("0.73", 1024, beta="0.1").n_users,
    )
    assert exact is not None
    assert hoeffding is not None
    assert 0.8 * hoeffding < exact < hoeffding  # exact tails of the votes ask for fewer users than Hoeffding's


# Certificates hold


def chance(n: int, c: Any) -> Any:
    """Nine in ten users, each by itself, name the item."""
    return binom.pmf(c, n, 0.9)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_central_selections_fail_rarely_at_the_certified_number_of_users(neighbours: str) -> None:
    """Exact: over the votes' binomial law and the selector's own law; all others name one other item, the worst case
    for both."""
    for delta in (0, "1e-6"):
        target = agreement_target(cuts(8), epsilon=2, delta=delta, beta="0.1", neighbours=neighbours)
        n = users(target)
        select: Any
        if delta:
            select = StableHistogram(2, delta=delta, neighbours=neighbours, named=2)
        else:
            silent = silent_votes(1 / vote_decay(2, neighbours), 8, CLEAR)
            select = PureSelection(2, universe=8, neighbours=neighbours, abstain=silent)
        missed = sum(
            chance(n, c) * (1 - float(select.law({3: c, 5: n - c} if c < n else {3: n}).prob(3)))
            for c in range(1, n + 1)
        )
        assert missed + chance(n, 0) <= 0.1 / 3


def test_fewer_users_than_certified_miss_the_bound() -> None:
    for model, delta in MODELS:
        target = agreement_target(cuts(64), model=model, epsilon=1, delta=delta, beta="0.1")
        assert users(evolve(target, beta=Fraction(1, 1000))) > users(target)
    # At n - 1 the histogram's own condition fails: Pr[2 Bin(n, 0.9) - n < 2K + 1] > beta/3.
    target = agreement_target(cuts(64), epsilon=1, delta="1e-6", beta="0.1")
    n, K = users(target), StableHistogram(1, delta="1e-6").K
    assert binom.cdf((n + 2 * K + 2) // 2 - 1, n, 0.9) <= 0.1 / 3 < binom.cdf((n - 1 + 2 * K + 2) // 2 - 1, n - 1, 0.9)


def test_one_user_fewer_misses_the_condition_of_the_pure_plurality() -> None:
    base, n = (
        float(1 / vote_decay(1, "replace")),
        users(agreement_target(cuts(1024), epsilon=1, beta="0.1", neighbours="replace")),
    )
    silent = silent_votes(1 / vote_decay(1, "replace"), 1024, CLEAR)

    def failure(number: int) -> float:
        c = np.arange(number + 1)
        return float(chance(number, c) @ np.minimum(1, (1023 + base ** (number - c) + base**silent) / base**c))

    assert failure(n) <= 0.1 / 3 < min(failure(k) for k in range(1, n))


FAILURE, RUNS, MOST = "0.001", 45, 4
"""45 runs that fail with probability 0.001 or less fail more than 4 times with probability below 1e-8."""


@pytest.mark.parametrize("rules", [64, 1 << 24], ids=["one transform", "chunks"])
def test_local_reports_of_the_certified_number_of_users_fail_rarely(rules: int) -> None:
    target = agreement_target(cuts(rules), model="local", epsilon=4, beta=FAILURE)
    select = LocalProtocol("threshold", {"x": Integers(0, rules - 2)}, Fraction(4)).manifest.local
    item, other = rules // 3, rules // 5

    def failures(n: int) -> int:
        wrong = 0
        for seed in range(RUNS):
            named = np.random.default_rng(seed).random(n) < 0.9
            with insecure_randomness():
                rng = SeededRng(seed)
                reports = [select.report(item if right else other, rng) for right in named.tolist()]
            wrong += decode_reports(select, reports, 0.05) != item
        return wrong

    assert failures(users(target)) <= MOST
    assert failures(users(target) // 24) > MOST  # few users do fail, so the test can


@pytest.mark.parametrize("rules", [64, 1 << 24], ids=["buckets", "chunks"])
def test_shuffled_counts_of_the_certified_number_of_users_fail_rarely(rules: int) -> None:
    found = agreement_target(cuts(rules), model="shuffle", epsilon=2, delta="1e-6", beta=FAILURE).users(1)
    certified = found.n_users
    assert certified is not None

    def failures(n: int) -> int:
        run = ShuffleProtocol(
            "threshold",
            {"x": Integers(0, rules - 2)},
            Fraction(2),
            delta=Fraction("1e-6"),
            n_min=certified,
            n_max=found["n_max"],
        )
        select, wrong = run.manifest.shuffle, 0
        item, other = rules // 3, rules // 5
        for seed in range(RUNS):
            draw = np.random.default_rng(seed)
            counts = draw.negative_binomial(float(select.r), 1 - float(select.p), size=select.buckets)
            for right, chunk in zip((draw.random(n) < 0.9).tolist(), draw.integers(select.chunks, size=n).tolist()):
                counts[select.places(item if right else other)[chunk]] += 1
            wrong += decode_counts(select, counts.tolist(), certified, 0.05) != item
        return wrong

    assert failures(certified) <= MOST
    assert failures(certified // 4) > MOST


# Records are a requirement


def test_below_the_records_of_agreement_nothing_is_certified_and_the_row_says_how_many() -> None:
    task = Task("threshold", (3,))
    target = agreement_target(task, epsilon=1, delta="1e-6", alpha="0.5", beta="0.2")
    needed = plan_race(4, "0.5", "0.2").records
    certify = target.methods()[0].certify
    with pytest.raises(InfeasibleError, match=f"needs {needed:,} records per user for agreement"):
        certify(needed - 1)
    assert certify(needed).n_users == users(target)
    assert dict(target.stability.task.parameters)["Gamma"] == plan_race(4, "0.5", "0.2").Gamma
    with pytest.raises(InfeasibleError, match="not within 10\\^9 records of each person"):
        agreement_target(cuts(1 << 16), epsilon=1, alpha="0.05").methods()[0].certify(1 << 30)


def test_queries_need_the_records_of_their_grid() -> None:
    target = agreement_target(Task("conjunction", (2, 2)), epsilon=1, alpha="1/2", beta="1/2")
    assert dict(target.stability.task.parameters)["grid"] == 8
    assert target.stability.records == (30 * 4 * 8) ** 2  # (30 q I (1/2) / beta)^2
    coarse = agreement_target(Task("conjunction", (2, 2), (("grid", 5),)), epsilon=1, alpha="1/2", beta="1/2")
    with pytest.raises(InfeasibleError, match="take 8"):
        _ = coarse.stability


def test_a_faster_race_than_needed_asks_for_more_records_and_a_slower_one_is_refused() -> None:
    least = plan_race(4, "0.5", "0.2")
    fast = agreement_target(Task("threshold", (3,), (("Gamma", 2 * least.Gamma),)), epsilon=1, alpha="0.5", beta="0.2")
    assert math.isclose(fast.stability.records, 4 * least.records, rel_tol=1e-6)
    slow = agreement_target(Task("threshold", (3,), (("Gamma", rate(1)),)), epsilon=1, alpha="0.5", beta="0.2")
    with pytest.raises(InfeasibleError, match="too slow"):
        _ = slow.stability


def test_kinds_without_proved_accuracy_have_the_conditional_row_only_and_a_note() -> None:
    for task in (Task("halfspace", (2, 2)), Task("naive-bayes", (3, 2)), Task("decision-list", (2, 2, 2))):
        target = agreement_target(task, epsilon=1, delta="1e-6")
        names = [method.name for method in target.methods() if method.kind == "certified"]
        assert names == [f"central agreement, {AGREED}"]
        assert "no accuracy is proved" in target.note
    assert "no accuracy" not in agreement_target(cuts(9), epsilon=1).note
    agnostic = agreement_target(Task("conjunction", (2, 2)), epsilon=1).methods("agnostic")
    assert all(AGREED in method.name for method in agnostic if method.kind == "certified")


def test_the_recommendation_says_what_must_be_measured_and_what_is_missing() -> None:
    target = agreement_target(cuts(1024), epsilon=1, delta="1e-6", beta="0.1")
    chosen = target.advice(None, 16)
    assert chosen.method == "agreement"
    assert "47 users" in chosen.reason
    assert "measure first" in chosen.reason
    assert "without a model" in chosen.reason
    assert "more than the 44 there are" in target.advice(44, 16).reason
    assert "there are" not in target.advice(47, 16).reason
    local = agreement_target(cuts(1024), model="local", epsilon=1, beta="0.1").advice(None, 16)
    assert "without a model" not in local.reason
    none = agreement_target(cuts(1024), model="shuffle", epsilon=1, delta="1e-16").advice(None, 16)
    assert "no number of users" in none.reason


# Shape of the numbers


@pytest.mark.slow
@pytest.mark.parametrize(("model", "delta"), MODELS, ids=IDS)
def test_lower_bounds_stay_below_and_easier_wishes_need_fewer_users(model: str, delta: Any) -> None:
    tasks = [
        cuts(1024),
        cuts(1 << 40),
        Task("point", (50,)),
        Task("stump", (9, 9)),
        Task("parity", (2,) * 12),
        Task("conjunction", (2,) * 16),
    ]
    tasks += [Task("disjunction", (2,) * 16), Task("halfspace", (2,) * 5)]
    for task in tasks[:4] if model == "shuffle" else tasks:
        before = None
        for epsilon in ("0.5", 1, 2, 8):
            target = agreement_target(task, model=model, epsilon=epsilon, delta=delta, alpha="0.1", beta="0.1")
            n = users(target)
            assert (target.lower(4).n_users or 0) <= n
            assert before is None or n <= before
            before = n


def test_the_packing_of_conjunctions_grows_as_alpha_falls() -> None:
    found = [
        agreement_target(Task("conjunction", (2,) * 20), epsilon=1, alpha=alpha).tasks
        for alpha in ("0.6", "0.3", "0.1", "0.02")
    ]
    assert found == sorted(found)
    assert found[0] == 1
    assert found[-1] == 1 << 20  # alpha < 1/(2 d): only the conjunction itself will do
    assert agreement_target(Task("parity", (2,) * 5), epsilon=1, alpha="0.3").tasks == 1


@pytest.mark.parametrize(
    ("concept", "kind", "sizes"),
    [
        (Thresholds(Integers(0, 99)), "threshold", (100,)),
        (Thresholds(Floats(), direction="below"), "threshold-below", (1 << 64,)),
        (Points(Integers(1, 6)), "point", (6,)),
        (Stumps({"a": Integers(0, 3), "b": Integers(0, 4)}), "stump", (4, 5)),
        (Parities({"a": Integers(0, 1), "b": Integers(0, 1)}), "parity", (2, 2)),
        (Conjunctions({"a": Integers(0, 1), "b": Integers(0, 1)}), "conjunction", (2, 2)),
        (Halfspaces({"a": Integers(0, 3)}), "halfspace", (4,)),
    ],
    ids=["cuts", "below", "points", "stumps", "parities", "conjunctions", "halfspaces"],
)
def test_classes_of_rules_are_planned_as_their_tasks(concept: Any, kind: str, sizes: tuple[int, ...]) -> None:
    target = agreement_target(concept, epsilon=1, delta="1e-6")
    assert (target.task.kind, target.task.sizes) == (kind, sizes)
    assert users(target) == users(agreement_target(Task(kind, sizes), epsilon=1, delta="1e-6"))
    lists = agreement_target(DecisionLists({"a": Integers(0, 1), "b": Integers(0, 1)}, length=2), epsilon=1)
    assert dict(lists.task.parameters) == {"stages": 2}


# Bad input


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"model": "cloud"}, "model"),
        ({"model": "shuffle"}, "delta > 0"),
        ({"model": "local", "neighbours": "add-remove"}, "replace"),
        ({"model": "shuffle", "delta": "1e-6", "neighbours": "add-remove"}, "replace"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": 500}, "epsilon"),
        ({"delta": 1}, "delta"),
        ({"alpha": 0}, "alpha"),
        ({"beta": 1}, "beta"),
        ({"beta": float("nan")}, "beta"),
        ({"dimension": -1}, "dimension"),
        ({"what": Rectangles({"x": Integers(0, 9)})}, "cannot be learned by agreement"),
        ({"what": Thresholds()}, "needs the domain"),
    ],
    ids=range(13),
)
def test_bad_wishes_are_refused(wrong: dict[str, Any], said: str) -> None:
    asked: dict[str, Any] = {"what": cuts(9), "epsilon": 1} | wrong
    with pytest.raises(ParameterError, match=said):
        agreement_target(asked.pop("what"), **asked)


def test_what_is_no_class_of_rules_is_refused() -> None:
    with pytest.raises(TypeError, match="Task"):
        agreement_target("threshold", epsilon=1)  # type: ignore[arg-type]
