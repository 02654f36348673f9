"""Runners of the sections of ``realizable_to_agnostic.json`` about votes and the prediction service."""

from __future__ import annotations

from fractions import Fraction
from math import isclose
from typing import Any

from privpac.composition import zcdp_epsilon
from privpac.data import Integers, UserData
from privpac.methods.prediction.reduction_privacy import theorem_a
from privpac.methods.prediction.relabel import Relabelling
from privpac.methods.prediction.session import vote_law
from privpac.methods.prediction.voters import transcript_epsilon, transcript_law, vote_gamma, vote_rho, wrong_answer
from privpac.rules import Intervals, Points, Thresholds
from privpac.rules.base import ConceptClass
from vector_runners import agrees

__all__ = ["RUNNERS"]


def run_votes(case: dict[str, Any]) -> None:
    r = case["r"]
    laws = [vote_law(ones, r, base=case["g"]) for ones in range(r + 1)]
    assert [law.prob_exact(1) for law in laws] == [Fraction(p) for p in case["prob1"]]
    # The worst ratio of neighbouring answers is e**eps_v, exactly.
    ratios = [
        laws[k].prob_exact(bit) / laws[j].prob_exact(bit)
        for k in range(r + 1)
        for j in (k - 1, k + 1)
        if 0 <= j <= r
        for bit in (0, 1)
    ]
    assert max(ratios) == Fraction(case["exp_eps"])
    gamma = vote_gamma(case["eps_target"], r)
    expected = Fraction(case["gamma_for_target"])
    assert gamma <= expected * (1 + Fraction(1, 10**25))
    assert isclose(gamma, expected, rel_tol=1e-12)
    assert isclose(wrong_answer(case["mean_wrong"], gamma, r), Fraction(case["error_bound"]), rel_tol=1e-12)


def run_service_accounting(case: dict[str, Any]) -> None:
    k, gamma, inner = case["k"], Fraction(case["gamma"]), Fraction(case["delta_inner"])
    assert k * vote_rho(gamma) == Fraction(case["rho"])
    assert k * 2 * gamma == Fraction(case["eps_basic_2gamma"])
    zcdp = zcdp_epsilon(k * vote_rho(gamma), inner, form="optimal")
    assert isclose(zcdp, float(case["eps_zcdp"]), rel_tol=1e-9)
    split = (Fraction(case["t"], case["n"]), case["a"], case["b"])
    assert agrees(theorem_a(*split, k * 2 * gamma)[0], case["eps_out_basic"], digits=12)
    epsilon, delta = theorem_a(*split, zcdp, inner)
    assert isclose(epsilon, float(case["eps_out_zcdp"]), rel_tol=1e-9)
    assert delta == Fraction(case["delta_out_zcdp"])
    # The library takes the smaller line; the pure one with many voters approaches 2 gamma from below.
    best = transcript_epsilon(k, gamma, 1 << 20, inner)
    assert best <= min(zcdp, 2 * k * gamma)
    assert isclose(best, min(zcdp, 2 * k * gamma), rel_tol=1e-9)


def _concept(case: dict[str, Any]) -> ConceptClass:
    domain = Integers(0, case["N"] - 1)
    known = {
        "thresholds": Thresholds(domain),
        "intervals": Intervals(domain),
        "points": Points(domain, zero=case.get("zero", False)),
    }
    return known[case["cls"]]


def run_service_transcript_reuse(case: dict[str, Any]) -> None:
    data = UserData.from_users([[tuple(record)] for record in case["S"]], features={"x": Integers(0, case["N"] - 1)})
    relabelling = Relabelling(
        _concept(case),
        case["A"],
        case["B"],
        base=Fraction(case["rho"]),
        split_size=case["t"],
        public_n_users=len(case["S"]),
        neighbours="replace",  # type: ignore[arg-type]
        users="one",
    )
    law = transcript_law(relabelling, data, case["queries"], voters=case["r"], base=case["g"])
    expected = {text: Fraction(p) for text, p in case["law"]}
    assert sum(expected.values()) == 1
    assert {text: law.prob_exact(text) for text in expected} == expected


RUNNERS = {
    "votes": run_votes,
    "service_accounting": run_service_accounting,
    "service_transcript_reuse": run_service_transcript_reuse,
}
