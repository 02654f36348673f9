"""Runners of ``littlestone_and_separators.json``: reduction trees, list learners, ellipsoids, rounded separators,
k-decision lists.

Rows are texts of 0 and 1, functions are packed truth tables in hexadecimal, big integers are decimal texts.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from privpac.device.decision_lists import KDecisionList, conjunction_tests, count_tests
from privpac.device.items import Records, distinct
from privpac.device.littlestone import (
    Reduction,
    ReductionList,
    Rows,
    accuracy_order,
    cutoffs,
    depths,
    error_levels,
    list_bound,
    race_lists,
)
from privpac.device.separators import Ellipsoid, RoundedSeparator, SQEllipsoid, constants, normalise, plan_ellipsoid
from privpac.device.statistical_queries import RoundedAnswers
from privpac.papers.correlated_sampling import stable_hypothesis
from privpac.rng import derive

__all__ = ["RUNNERS"]

Case = Any


def seed_of(file: Any) -> bytes:
    return bytes.fromhex(file["seed"])


def hexes(items: Any) -> list[str]:
    return sorted(item.hex() for item in items)


def line_records(sample: Any) -> Records:
    return Records(np.array([x for x, _ in sample], dtype=np.int64), np.array([y for _, y in sample], dtype=np.int64))


def table_records(sample: Any, drop_last: bool = False) -> tuple[Records, Any]:
    """Distinct records; ``drop_last`` takes the constant column away, which the learner adds itself."""
    x = np.array([row for row, _ in sample], dtype=np.int64)
    if drop_last:
        assert set(x[:, -1].tolist()) == {1}
        x = x[:, :-1]
    return distinct(Records(x, np.array([y for _, y in sample], dtype=np.int64)))


# Constants


def run_accuracy_order(case: Case) -> None:
    assert accuracy_order(case["v"], Fraction(case["rho"])) == case["q"]


def run_depths(case: Case) -> None:
    assert list(depths(case["d"], case["q"])) == case["depths"]
    assert list_bound(case["d"], case["q"], case.get("size")) == int(case["list_bound"])


def run_cutoffs(case: Case) -> None:
    levels = error_levels(case["d"], case["alpha"], case["rho"])
    assert levels == tuple(Fraction(level) for level in case["levels"])
    cuts, tail = cutoffs(levels, case["m"])
    assert list(cuts) == case["cutoffs"]
    assert abs(float(tail) / case["tail_sum"] - 1) <= case.get("rtol", 1e-8)


# Reduction


def run_reduction(case: Case) -> None:
    rows = Rows(case["rows"])
    search, mask = Reduction(rows), rows.mask(case["members"])
    assert search.dimension(mask) == case["ldim"]
    assert rows.packed(search.soa(mask)).hex() == case["soa"]
    r = search.value(mask, case["k"])
    assert r == case["r"]
    leaves = search.tree(mask, case["k"], r)
    found = sorted(([list(step) for step in leaf.path], leaf.dimension) for leaf in leaves)
    assert found == sorted((leaf["path"], leaf["ldim"]) for leaf in case["leaves"])
    assert hexes({rows.packed(search.soa(leaf.mask)) for leaf in leaves if leaf.dimension == r}) == sorted(case["list"])


def run_list_learner(case: Case) -> None:
    learner = ReductionList(Rows(case["rows"]), tuple(case["depths"]), tuple(case["cutoffs"]))
    records = line_records(case["sample"])
    levels = learner.levels(records)
    assert len(levels) == len(case["levels"])
    for (r, items), expected in zip(levels, case["levels"]):
        assert hexes(items) == sorted((expected or {}).get("list", []))
        if items:
            assert r == expected["r"]
    assert hexes(learner.candidates(records)) == sorted(case["union"])


def run_stable_hypothesis(case: Case) -> None:
    rows = Rows(case["rows"])
    target = int.from_bytes(bytes.fromhex(case["target"]), "little")
    found = stable_hypothesis(
        rows,
        [Fraction(w) for w in case["weights"]],
        target,
        [Fraction(e) for e in case["levels"]],
        case["depths"],
        case["q"],
    )
    assert list(found.values) == case["values"]
    assert (found.level, found.dimension) == (case["level"], case["r"])
    assert found.item.hex() == case["hypothesis"]
    assert found.error == Fraction(case["error"])


def run_alg1_lists(case: Case, file: Any) -> None:
    learner = ReductionList(Rows(case["rows"]), tuple(case["depths"]), tuple(case["cutoffs"]))
    lists = [learner.candidates(line_records(sample)) for sample in case["sub_samples"]]
    winner = race_lists(derive(seed_of(file), "alg1l", case["index"]), lists, Fraction(case["tau"]), int(case["Gamma"]))
    assert (None if winner is None else winner.hex()) == case["winner"]


# Separators


def run_plan_ellipsoid(case: Case) -> None:
    plan = plan_ellipsoid(case["D"], case["alpha"], case.get("X", case.get("bound")))
    assert plan._asdict() == {
        "grid": case["I"],
        "theta2": case["theta2"],
        "stop": case["stop"],
        "radius": int(case["R"]),
        "steps": case["T"],
        "queries": case["q"],
    }


def run_ellipsoid_step(case: Case) -> None:
    D, expected, found = case["D"], case["constants"], constants(case["D"])
    assert [getattr(found, name) for name in ("cut_a", "cut_b", "slab_a", "slab_b")] == [
        expected[name] for name in ("cut_a", "cut_b", "slab_a", "slab_b")
    ]
    assert list(found.shift) == expected["shift"]
    assert normalise(case["moves"][0][1]) == case["normalised_first"]
    body = Ellipsoid(D, case["radius"])
    for name, direction in case["moves"]:
        {"cut": body.cut, "slab": body.slab}[name](direction)
    assert body.centre == [int(c) for c in case["centre"]]
    assert body.shape == [[int(entry) for entry in row] for row in case["shape"]]
    rows = np.array([case["x"]] * 2, dtype=object)
    units = body.directions(rows, np.array([1, -1]))
    assert units.tolist() == [case["unit_plus"], case["unit_minus"]]


def run_sq_ellipsoid(case: Case, file: Any) -> None:
    params = case["params"]
    records, weights = table_records(case["sample"], drop_last=True)
    largest = max(1, int(np.abs(records.x).max(initial=0)))
    learner = SQEllipsoid(
        case["D"] - 1,
        params["theta2"],
        params["stop"],
        int(params["R"]),
        params["T"],
        None if largest == 1 else largest,
        grid=params["I"],
    )
    answers = RoundedAnswers(seed_of(file), learner.label, learner.grid, weights)
    run = learner.run(records, answers)
    assert answers.given == case["answers"]
    assert run.centre == [int(c) for c in case["centre"]]
    assert (run.steps, run.status) == (case["steps"], case["status"])


def run_rounded_svm(case: Case, file: Any) -> None:
    records, weights = table_records(case["sample"], drop_last=True)
    bound = max(1, int(np.abs(records.x).max(initial=0)))
    learner = RoundedSeparator(
        records.x.shape[1], case["lambda"], case["stages"], None if bound == 1 else bound, grid=case["I"]
    )
    assert learner.trail(records, RoundedAnswers(seed_of(file), learner.label, learner.grid, weights)) == case["trail"]
    rule = learner.decode(learner.learn(records, RoundedAnswers(seed_of(file), learner.label, learner.grid, weights)))
    assert rule is not None
    assert list(rule.weights) == case["weights"]


# k-decision lists


def run_conjunctions(case: Case) -> None:
    assert count_tests(case["d"], case["k"]) == case["count"]
    if "tests" in case:
        assert [list(test) for test in conjunction_tests(case["d"], case["k"])] == case["tests"]


def run_sq_kdl(case: Case, file: Any) -> None:
    records, weights = table_records(case["sample"])
    learner = KDecisionList(case["d"], case["k"], case["theta"], case["stop"], grid=case["I"])
    answers = RoundedAnswers(seed_of(file), learner.label, learner.grid, weights)
    assert [list(rule) for rule in learner.rules(records, answers)] == case["rules"]
    assert answers.given == case["answers"]
    rule = learner.decode(learner.learn(records, RoundedAnswers(seed_of(file), learner.label, learner.grid, weights)))
    assert rule is not None
    assert rule.default == case["default"]


RUNNERS = {
    "accuracy_order": run_accuracy_order,
    "depths": run_depths,
    "cutoffs": run_cutoffs,
    "reduction": run_reduction,
    "list_learner": run_list_learner,
    "stable_hypothesis": run_stable_hypothesis,
    "alg1_lists": run_alg1_lists,
    "plan_ellipsoid": run_plan_ellipsoid,
    "ellipsoid_step": run_ellipsoid_step,
    "sq_ellipsoid": run_sq_ellipsoid,
    "rounded_svm": run_rounded_svm,
    "conjunctions": run_conjunctions,
    "sq_kdl": run_sq_kdl,
}
