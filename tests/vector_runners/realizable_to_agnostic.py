"""Runners of ``realizable_to_agnostic.json``: relabelling scores and laws, guarantees and their inverses, the
transformation.

Points are codes 0..N-1 here as there; with ``points`` a record is the feature vector of its point.  Laws are exact
fractions.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from attrs import frozen

from privpac.data import Integers, UserData
from privpac.exact import as_arb, up
from privpac.guarantee import Guarantee
from privpac.law import Law
from privpac.methods.prediction.reduction_privacy import (
    empirical_size,
    inner_budget,
    solve_b,
    theorem_a,
    theorem_b,
    theorem_c,
)
from privpac.papers.realizable_to_agnostic.reduction import AgnosticReduction, EmpiricalLearner
from privpac.rules.base import ConceptClass, Labellings, Loss
from privpac.rules.cuts import Thresholds
from privpac.rules.enumerated import FiniteClass
from privpac.rules.intervals import Intervals, range_labellings
from privpac.rules.points import Points
from privpac.rules.profile import Statistic
from privpac.rules.stumps import Stumps

__all__ = ["RUNNERS"]


def near(value: Fraction, printed: str, relative: str = "1e-12") -> bool:
    expected = Fraction(printed)
    return abs(value - expected) <= Fraction(relative) * abs(expected)


def class_of(case: dict[str, Any]) -> tuple[ConceptClass, int]:
    """The class itself where the library has it, and the number of feature columns."""
    name, n = case["cls"], case["N"]
    if name == "stumps":
        width = len(case["points"][0])
        tops = [max(point[j] for point in case["points"]) for j in range(width)]
        return Stumps({f"x{j}": Integers(0, top) for j, top in enumerate(tops)}), width
    domain = Integers(0, n - 1)
    if name == "thresholds":
        return Thresholds(domain, "x"), 1
    if name == "points":
        return Points(domain, "x", zero=bool(case.get("zero", False))), 1
    if name == "intervals":
        return Intervals(domain, "x"), 1
    return FiniteClass(
        np.array([[int(bit) for bit in rule] for rule in case["concepts"]], dtype=np.uint8), domain, "x"
    ), 1


def features_of(concept: ConceptClass) -> dict[str, Any]:
    return {str(name): domain for name, domain in concept.declared().items()}


def record(case: dict[str, Any], width: int, x: int, y: int) -> tuple[int, ...]:
    return (*(case["points"][x] if width > 1 or ("points" in case and case["cls"] == "stumps") else (x,)), y)


def listed_of(case: dict[str, Any], concept: ConceptClass, width: int) -> Labellings:
    features = features_of(concept)
    rest = UserData.from_users([[record(case, width, x, y)] for x, y in case["W"]], features=features)
    points = [record(case, width, x, 0)[:-1] for x in case["T"]]
    codes = {name: np.array([p[j] for p in points], dtype=np.uint64) for j, name in enumerate(features)}
    return concept.labellings(codes, rest, case["A"], case["B"])


def run_relabel(case: dict[str, Any]) -> None:
    concept, width = class_of(case)
    table = FiniteClass(
        np.array([[int(bit) for bit in rule] for rule in case["concepts"]], dtype=np.uint8),
        Integers(0, case["N"] - 1),
        "x",
    )
    for each, columns in ((concept, width), (table, 0)):
        listed = listed_of(case | {"cls": case["cls"] if columns else "finite"}, each, columns)
        law = Law.from_blocks(score=listed.scores, base=Fraction(case["rho"]))
        found = {
            "".join(map(str, listed.labels(i))): (int(listed.scores[i]), law.prob_exact(i)) for i in range(listed.count)
        }
        assert len(found) == listed.count
        assert found == {bits: (q, Fraction(p)) for bits, q, p in case["rows"]}


def run_large_domain_scores(case: dict[str, Any]) -> None:
    domain, A, B = Integers(0, case["N"] - 1), case["A"], case["B"]
    points = np.array(case["T"], dtype=np.uint64)
    rank = np.unique(points, return_inverse=True)[1]
    rest = UserData.from_users([[(x, y)] for x, y in case["W"]], features={"x": domain})
    cuts = Thresholds(domain, "x").labellings({"x": points}, rest, A, B)
    assert cuts.scores.tolist() == case["thresholds_by_distinct_zeros"]
    for i in range(cuts.count):
        assert np.array_equal(cuts.labels(i), rank >= i)
    assert rest.labels is not None
    ranges = range_labellings(points, rest.codes["x"], rest.labels, A, B)
    found = {ranges.labels(i).tobytes(): int(ranges.scores[i]) for i in range(ranges.count)}
    expected = {}
    for ends, q in case["intervals"]:
        low, high = (0, 0) if ends is None else ends
        expected[((rank >= low) & (rank < high)).astype(np.uint8).tobytes()] = q
    assert found == expected


@frozen(slots=False)
class Exponential:
    """Every rule with weight ``sigma ** -mistakes``, mistakes counted over all records."""

    concept: ConceptClass
    sigma: Fraction
    neighbours: str
    symmetric: bool = True

    @property
    def guarantee(self) -> Guarantee:
        one = up(lambda: as_arb(self.sigma).log())
        return Guarantee(one if self.neighbours == "add-remove" else 2 * one, unit="item", neighbours=self.neighbours)

    def law(self, data: UserData) -> Law:
        concept, users = self.concept.bind(data)
        statistic: Statistic = Loss(1)
        assert int(data.sizes.max(initial=0)) <= 1
        return users.fold(concept.kernel(statistic)).law(base=self.sigma)


def bits_of(concept: ConceptClass, n: int, rule: int) -> str:
    return "".join(map(str, concept.predictions({"x": np.arange(n, dtype=np.uint64)}, rule)))


def same_law(law: Law, concept: ConceptClass, n: int, expected: list[list[str]]) -> None:
    found: dict[str, Fraction] = {}
    for rule in range(concept.size):
        bits = bits_of(concept, n, rule)
        found[bits] = found.get(bits, Fraction(0)) + law.prob_exact(rule)
    printed = {bits: Fraction(p) for bits, p in expected}
    assert {bits: p for bits, p in found.items() if p} == {bits: p for bits, p in printed.items() if p}


def same_exponential(epsilon: Fraction, printed: str) -> None:
    assert near(up(lambda: as_arb(epsilon).exp()), printed)


def run_agnostic_law(case: dict[str, Any]) -> None:
    concept, _ = class_of(case)
    poisson = "poisson_q" in case
    relation = "add-remove" if poisson else "replace"
    inner = Exponential(concept, Fraction(case["sigma"]), relation)
    same_exponential(inner.guarantee.epsilon, case["exp_eps_inner_addremove" if poisson else "exp_eps_inner"])
    shape: dict[str, Any] = (
        {"split_rate": case["poisson_q"]} if poisson else {"split_size": case["t"], "public_n_users": len(case["S"])}
    )
    shape |= {"base": case["rho"], "neighbours": relation, "unit": "item"}
    learner = AgnosticReduction(inner, case["A"], case["B"], **shape)
    same_exponential(learner.guarantee.epsilon, case["exp_eps_out_addremove" if poisson else "exp_eps_out"])
    data = UserData.from_arrays(
        np.array([x for x, _ in case["S"]]),
        np.array([y for _, y in case["S"]]),
        features={"x": Integers(0, case["N"] - 1)},
    )
    same_law(learner.law(data), concept, case["N"], case["law"])


def run_user_hybrid(case: dict[str, Any]) -> None:
    assert case["loss"] == "floor(M*wrong/m_i)"
    concept, _ = class_of(case)
    data = UserData.from_users(
        [[tuple(r) for r in user] for user in case["users"]], features={"x": Integers(0, case["N"] - 1)}
    )
    learner = AgnosticReduction(
        Exponential(concept, Fraction(case["sigma"]), "replace"),
        case["A"],
        case["B"],
        base=case["rho"],
        split_size=case["t"],
        public_n_users=len(case["users"]),
        neighbours="replace",  # type: ignore[arg-type]
        levels=case["M"],
    )
    same_exponential(learner.guarantee.epsilon, case["exp_eps_out"])
    same_law(learner.law(data), concept, case["N"], case["law"])


def run_empirical_law(case: dict[str, Any]) -> None:
    concept, _ = class_of(case)
    data = UserData.from_users([[(x, y)] for x, y in case["S"]], features={"x": Integers(0, case["N"] - 1)})
    learner = EmpiricalLearner(Exponential(concept, Fraction(case["sigma"]), "replace"), case["m"], len(case["S"]))
    same_law(learner.law(data), concept, case["N"], case["law"])


def run_guarantee(case: dict[str, Any]) -> None:
    q = Fraction(case["t"], case["n"])
    shape = (q, case["a"], case["b"], case["eps_inner"], case["delta_inner"], case["G"])
    epsilon, delta = theorem_a(*shape)
    assert near(epsilon, case["eps_replace"])
    assert near(delta, case["delta_replace"])
    assert near(theorem_b(*shape)[0], case["eps_addremove_poisson"])


def run_solve_b(case: dict[str, Any]) -> None:
    q, labellings_per_unit = Fraction(case["t"], case["n"]), case.get("G", 2)
    b = solve_b(q, case["a"], case["eps_inner"], case["eps"], labellings_per_unit)
    assert (b is None) == (case["b"] is None)
    if b is None:
        return
    assert near(b, case["b"])
    spent = inner_budget(q, case["a"], case["b_used"], case["eps"], G=labellings_per_unit)
    expected = case["eps_inner_max_at_b_used"]
    assert (spent is None) == (expected is None)
    assert spent is None or near(spent[0], expected)


def run_with_replacement(case: dict[str, Any]) -> None:
    epsilon, delta = theorem_c(case["m"], case["n"], case["eps"], case["delta"])
    assert near(epsilon, case["eps_out"])
    assert near(delta, case["delta_out"])
    assert empirical_size(case["m"], case["eps"], case["target"]) == case["min_n_for_target"]


RUNNERS = {
    "relabel": run_relabel,
    "large_domain_scores": run_large_domain_scores,
    "agnostic_law": run_agnostic_law,
    "guarantee": run_guarantee,
    "solve_b": run_solve_b,
    "with_replacement": run_with_replacement,
    "empirical_law": run_empirical_law,
    "user_hybrid": run_user_hybrid,
}
