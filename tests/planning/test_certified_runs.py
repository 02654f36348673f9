"""Certified rows of distributions, agreement, medians and the reduction: the plan builds their learners, and these keep
the promise."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

import privpac as pp
from privpac.data import Floats
from privpac.device.tasks import Task
from privpac.errors import ParameterError
from privpac.papers.realizable_to_agnostic.reduction import NamedReduction
from privpac.testing import SeededRng, insecure_randomness

RELATIONS = ("add-remove", "replace")
RUNS, ALARM = 40, 1e-6


def _kept(fails: Callable[[int], bool], beta: float, runs: int = RUNS) -> None:
    """More failures than all but a share ``ALARM`` of experiments have where each fails with probability ``beta``: a
    false promise."""
    assert sum(fails(i) for i in range(runs)) <= binom.isf(ALARM, runs, beta)


def _learned(learner: Any, data: pp.UserData, seed: int) -> Any:
    with insecure_randomness(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return learner.learn(data, rng=SeededRng(seed)).value


def _people(values: Any, m: int, domain: Any, labels: Any = None) -> pp.UserData:
    return pp.UserData.from_arrays(values, labels, np.repeat(np.arange(len(values) // m), m), features={"x": domain})


# Distributions


FAMILIES: dict[str, dict[str, Any]] = {
    "histogram": {"bins": 6},
    "discrete": {"values": 3},
    "product": {"values": 2, "columns": 2},
    "gaussian": {"radius": 10},
}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_learners_of_distributions_have_the_certified_parameters(family: str, relation: str) -> None:
    plan = pp.plan(
        family, epsilon=1, alpha="0.3", beta="0.1", records_per_user=(1, 9), neighbours=relation, **FAMILIES[family]
    )
    built = 0
    for row in plan.rows:
        for m, certificate in zip(plan.records_per_user, getattr(row, "certificates", ())):
            if row.kind != "certified" or certificate is None or certificate.n_users is None:
                continue
            learner = plan.learner(row, records_per_user=m)
            assert (learner.guarantee.epsilon, str(learner.neighbours)) == (1, relation)
            assert certificate.parameters
            for name, value in certificate.parameters.items():
                assert getattr(learner, name) == value, (row.method, name)
            built += 1
            if row.method == "selection from a cover":  # the number of its own certificate, with the clip spelled out
                again = learner.certificate_for(dict(plan.asked.target.domains))
                assert again.n_users == certificate.n_users
    assert built >= 2


def test_the_row_says_what_is_not_the_default() -> None:
    """One stage where the learner would take two, and fewer records declared than there are."""
    clipped = pp.plan("histogram", bins=2, epsilon=1, records_per_user=1000).learner("clipped histogram, one stage")
    assert (clipped.max_records, clipped.stages, clipped.stages_for(2)) == (1000, 1, 1)
    assert type(clipped)(1, max_records=1000).stages_for(2) == 2
    plan = pp.plan("gaussian", radius=10**6, epsilon=1, alpha="0.4", records_per_user=1000)
    told = plan.row("coarse-to-fine mean").certificates[0]["records_per_user"]
    assert told < 1000
    assert plan.learner("coarse-to-fine mean").records_per_user == told


def test_inverse_plans_build_the_learner_of_the_value_they_found() -> None:
    plan = pp.plan("discrete", values=3, n_users=400, alpha="0.3", records_per_user=4)
    for row in plan.rows:
        if row.kind == "certified":
            assert plan.learner(row).epsilon == row.values[0]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("m", [1, 8])
@pytest.mark.parametrize("row", ["averaged histogram", "clipped histogram, one stage"])
def test_certified_histograms_keep_the_promise(row: str, m: int, relation: str) -> None:
    """All cells equally likely, where luck and noise are largest."""
    k, alpha, beta = 6, 0.15, 0.05
    plan = pp.plan("histogram", bins=k, epsilon=1, alpha="0.15", beta="0.05", records_per_user=m, neighbours=relation)
    learner, (n,) = plan.learner(row), plan.row(row).n_users

    def fails(i: int) -> bool:
        data = _people(np.random.default_rng([3, m, i]).integers(0, k, n * m), m, pp.Integers(0, k - 1))
        return bool(np.abs(_learned(learner, data, i).probabilities - 1 / k).sum() / 2 > alpha)

    _kept(fails, beta)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("m", [1, 9])
def test_the_certified_mean_keeps_the_promise(m: int, relation: str) -> None:
    """A mean that is not on the learner's grid, near the end of the range."""
    mean, alpha = 9.1, 0.15
    plan = pp.plan("gaussian", radius=10, epsilon=1, alpha="0.15", beta="0.05", records_per_user=m, neighbours=relation)
    learner, (n,) = plan.learner("coarse-to-fine mean"), plan.row("coarse-to-fine mean").n_users

    def fails(i: int) -> bool:
        data = _people(np.random.default_rng([5, m, i]).normal(mean, 1, n * m), m, Floats())
        away = abs(float(np.ravel(_learned(learner, data, i).mean)[0]) - mean)
        return bool(2 * ndtr(away / 2) - 1 > alpha)

    _kept(fails, 0.05)


def test_selection_needs_its_candidates_to_be_built() -> None:
    shape: dict[str, Any] = {"epsilon": 1, "alpha": "0.2", "records_per_user": 4}
    unknown = pp.plan("selection", k=5, **shape)
    with pytest.raises(ParameterError, match="plan with candidates="):
        unknown.learner("hypothesis selection")
    assert unknown.command("hypothesis selection").startswith(
        "privpac select TABLE.parquet --user USER --feature COLUMN=LO:HI --candidate"
    )
    candidates = {"even": [1, 1, 1, 1], "odd": [1, 1, 3, 3]}
    known = pp.plan("selection", candidates=candidates, domains={"x": pp.Integers(0, 3)}, **shape)
    learner, (certificate,) = known.learner("hypothesis selection"), known.row("hypothesis selection").certificates
    for name, value in certificate.parameters.items():
        assert getattr(learner, name) == value, name
    assert learner.certificate_for({"x": pp.Integers(0, 3)}).n_users == certificate.n_users
    assert "--candidate even=LAW --candidate odd=LAW" in known.command("hypothesis selection")


# Agreement

CUTS = pp.Thresholds(pp.Integers(0, 99), "age")
AGREED = "central agreement, if 9 in 10 users agree"


@pytest.mark.slow
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_certified_agreement_keeps_the_promise(delta: str, relation: str) -> None:
    """Nine in ten people name one rule, all others another one: the exact probability that the first is not
    released."""
    plan = pp.plan(CUTS, model="central", epsilon=1, delta=delta, beta="0.05", records_per_user=64, neighbours=relation)
    learner, (certificate,) = plan.learner(AGREED), plan.row(AGREED).certificates
    n = certificate.n_users
    if learner._histogram is not None:
        assert certificate["K"] == learner._histogram.K
    assert (learner.epsilon, learner.delta, str(learner.neighbours)) == (1, Fraction(delta), relation)
    x = np.arange(0, 96, 1.5).astype(int)

    def held(cut: int, users: int) -> list[list[tuple[int, int]]]:
        return [[(int(v), int(v > cut)) for v in x]] * users

    def law(first: int) -> Any:
        return learner.law(
            pp.UserData.from_users(held(20, first) + held(70, n - first), features={"age": pp.Integers(0, 99)})
        )

    wanted = law(n).mode
    assert law(0).mode != wanted
    failing = sum(float(binom.pmf(c, n, 0.9)) * (1 - float(law(c).prob(wanted))) for c in range(n // 2, n + 1))
    assert failing + float(binom.cdf(n // 2 - 1, n, 0.9)) <= 0.05


def test_certified_agreement_races_as_fast_as_certified() -> None:
    goal: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "alpha": "0.4", "beta": "0.2", "records_per_user": 10**8}
    plan = pp.plan(CUTS, model="central", **goal)
    fast = dict(plan.asked.target.stability.task.parameters)
    assert dict(plan.learner("central agreement").task) == fast != {}
    assert dict(plan.learner(AGREED).task) == {}
    assert f"--set task=Gamma:{fast['Gamma']}" in plan.command("central agreement")
    shuffled = pp.plan(CUTS, model="shuffle", **goal)
    assert dict(shuffled.learner("shuffle agreement").task) == fast
    # A kind by its name alone gets columns of the right sizes.
    assert pp.plan(Task("point", (7,)), model="central", **goal).learner("central agreement").concept.sizes == (7,)


@pytest.mark.parametrize("size", [100, 5000])
@pytest.mark.parametrize("m", [16, 200])
def test_protocols_are_those_of_the_certificate(size: int, m: int) -> None:
    cuts = pp.Thresholds(pp.Integers(0, size - 1), "age")
    plan = pp.plan(cuts, model="shuffle", epsilon=1, delta="1e-6", records_per_user=m)
    row = "shuffle agreement, if 9 in 10 users agree"
    (certificate,), run = plan.row(row).certificates, plan.learner(row)
    select = run._select
    assert (run.epsilon, run.n_min, run.n_max) == (certificate["epsilon"], certificate.n_users, certificate["n_max"])
    assert (select.r, select.p, select.width) == (certificate["r"], certificate["p"], certificate["width"])
    # Below the protocol's usual least number of records nobody would say anything.
    assert run.min_records == min(m, 60)
    local = pp.plan(cuts, model="local", epsilon=1, records_per_user=m).learner(
        "local agreement, if 9 in 10 users agree"
    )
    assert (local.epsilon, local.min_records, str(local.guarantee.model)) == (1, min(m, 60), "local")


def test_a_shuffled_run_admits_all_the_people_there_are() -> None:
    plan = pp.plan(CUTS, model="shuffle", epsilon=1, delta="1e-6", n_users=5000, records_per_user=16)
    run = plan.learner("shuffle agreement, if 9 in 10 users agree")
    assert (run.n_min, run.n_max) == (5000, 8192)
    certificate = plan.asked.target.shuffled(5000)
    assert (run._select.r, run._select.p) == (certificate["r"], certificate["p"])
    assert certificate.n_users <= 5000


def test_a_shuffled_run_of_the_certified_size_names_the_rule() -> None:
    """The certified number of people who all agree: at most the failures that beta allows."""
    plan = pp.plan(CUTS, model="shuffle", epsilon=1, delta="1e-6", records_per_user=32)
    row = "shuffle agreement, if 9 in 10 users agree"
    run, (n,) = plan.learner(row), plan.row(row).n_users
    people = pp.UserData.from_users(
        [[(v, int(v > 50)) for v in range(0, 96, 3)]] * n, features={"age": pp.Integers(0, 99)}
    )

    def fails(i: int) -> bool:
        with insecure_randomness():
            return bool(run.simulate(people, SeededRng(i)).outcome != "released")

    _kept(fails, 0.05, 10)


# Medians


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_certified_median_keeps_the_promise(relation: str) -> None:
    """Ten neighbouring numbers of a thousand: hardly any answer is right."""
    plan = pp.plan(
        "median", domain=pp.Integers(0, 999), epsilon=1, alpha="0.1", beta="0.05", delta="1e-6", neighbours=relation
    )
    for row in ("median, best number of hidden walks", "median by the exponential mechanism"):
        (n, *_), point = plan.row(row).n_users, plan.learner(row)
        assert (point.size, point.beta, str(point.neighbours)) == (
            plan.row(row).certificates[0]["window"],
            Fraction(1, 20),
            relation,
        )
        assert point.guarantee.delta == (0 if not point.reductions else Fraction(1, 10**6))
    numbers = sorted(np.random.default_rng(3).integers(500, 510, n).tolist())

    def fails(i: int) -> bool:
        with insecure_randomness():
            answer = plan.learner("median by the exponential mechanism").sample(numbers, SeededRng(i))
        return bool(min(sum(v <= answer for v in numbers), sum(v >= answer for v in numbers)) < (0.5 - 0.1) * n)

    _kept(fails, 0.05)
    with pytest.raises(
        ParameterError, match=r"no command runs this row; in Python: plan.learner\('median by .*'\).sample"
    ):
        plan.command("median by the exponential mechanism")


# The reduction


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_certified_reduction_keeps_the_promise(relation: str) -> None:
    """Two atoms, the labels of each nearly a coin, so that a wrong rule is just bad enough to count."""
    alpha, beta, m = 0.4, 0.1, 2
    cuts = pp.Thresholds(pp.Integers(0, 15), "x")
    goal: dict[str, Any] = {
        "alpha": "0.4",
        "beta": "0.1",
        "records_per_user": (1, m),
        "neighbours": relation,
        "setting": "agnostic",
    }
    plan = pp.plan(cuts, epsilon=2, every_method=True, **goal)
    certificate, learner = (
        plan.row("agnostic reduction").certificates[1],
        plan.learner("agnostic reduction", records_per_user=m),
    )
    n = certificate.n_users
    assert (float(learner.relabelling.a), float(learner.relabelling.b)) == (certificate["a"], certificate["b"])
    assert (learner.levels, learner.users, learner.inner.epsilon) == (
        certificate["levels"],
        certificate["users"],
        certificate["eps_A"],
    )
    assert learner.split_size == certificate["split_size"] or learner.split_rate == Fraction(
        certificate["split_size"], n
    )
    assert learner.guarantee.epsilon <= 2

    def fails(i: int) -> bool:
        rng = np.random.default_rng([11, i])
        top = rng.random(n * m) < 0.5
        labels = rng.random(n * m) < np.where(
            top, 0.5 - alpha * 1.01, 0.5 + alpha * 1.01
        )  # no cut says 1 below and 0 above
        data = _people(np.where(top, 15, 0), m, pp.Integers(0, 15), labels)
        says = _learned(learner, data, i).predict(np.array([0, 15]))
        wrong = [
            0.5 + alpha * 1.01 if says[0] == 0 else 0.5 - alpha * 1.01,
            0.5 + alpha * 1.01 if says[1] == 1 else 0.5 - alpha * 1.01,
        ]
        return sum(wrong) / 2 - 0.5 > alpha  # always saying 1, or 0, is wrong half of the time

    _kept(fails, beta, 12)
    command = plan.command("agnostic reduction", records_per_user=m)
    assert f"--method reduction --people {n}" in command
    # What the command runs is the learner of the row.
    given = dict(word.split("=") for word in command.split() if word.startswith(("beta=", "inner_epsilon=")))
    named = NamedReduction(cuts, 2, relation, public_n_users=n, **given).reduction
    assert (named.relabelling, named.inner.guarantee) == (learner.relabelling, learner.inner.guarantee)


def test_all_certified_rows_of_all_plans_have_a_run() -> None:
    """Or nothing is certified there."""
    plans = [pp.plan(family, epsilon=1, alpha="0.3", records_per_user=4, **shape) for family, shape in FAMILIES.items()]
    plans += [
        pp.plan("median", bits=8, epsilon=1, records_per_user=4),
        pp.plan("selection", k=3, epsilon=1, records_per_user=4),
    ]
    plans += [
        pp.plan(CUTS, model=model, epsilon=1, delta="1e-6", records_per_user=4)
        for model in ("central", "local", "shuffle")
    ]
    plans += [pp.plan(CUTS, epsilon=1, alpha="0.3", records_per_user=4, every_method=True)]
    for plan in plans:
        certified = {row.method for row in plan.rows if row.kind == "certified" and row.n_users[0] is not None}
        assert set(plan.runs["4"]) == certified
        for run in plan.runs["4"].values():
            assert (run["command"] or "").startswith("privpac ") or run["note"].startswith(
                "no command runs this row; in Python: "
            )
            assert not math.isnan(run["n_users"])
