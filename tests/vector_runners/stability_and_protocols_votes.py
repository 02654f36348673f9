"""Runners of the sections of ``stability_and_protocols.json`` about private plurality."""

from __future__ import annotations

from fractions import Fraction
from math import isclose
from typing import Any

from privpac.law import BOTTOM, Law
from privpac.mechanisms.randomized_response import keep_probability
from privpac.mechanisms.votes import GapSelection, StableHistogram, gap_law, histogram_law, plurality_law, vote_decay
from privpac.methods.agreement.plurality import (
    lower_agreement_packing,
    lower_agreement_representation,
    records_list,
    records_representation,
    users_histogram,
    users_local,
    users_plurality,
    users_shuffle,
)

__all__ = ["RUNNERS"]


def run_histogram_plan(case: dict[str, Any]) -> None:
    shape = {"delta": case["delta"], "neighbours": case["neighbours"]}
    select = StableHistogram(case["eps"], **shape)
    assert select.q == Fraction(case["q"])
    assert case["K"] == select.K
    assert case["K_gap"] == GapSelection(case["eps"], **shape).K


def _same(law: Law, case: dict[str, Any]) -> None:
    for item in [*case["counts"], "null"]:
        assert law.prob_exact(BOTTOM if item == "null" else item) == Fraction(case["law"].get(item, "0"))


def run_law_histogram(case: dict[str, Any]) -> None:
    _same(histogram_law(case["counts"], case["q"], case["K"]), case)


def run_law_gap(case: dict[str, Any]) -> None:
    _same(gap_law(case["counts"], case["q"], case["K"], case["neighbours"]), case)


def run_law_em(case: dict[str, Any]) -> None:
    universe = int(case["U"])
    law = plurality_law({int(item): count for item, count in case["counts"].items()}, case["B"], universe)
    for item, expected in case["occupied"].items():
        assert law.prob_exact(int(item)) == Fraction(expected)
    assert 1 - sum(law.prob_exact(int(item)) for item in case["occupied"]) == Fraction(case["rest_total"])


def run_planning(case: dict[str, Any]) -> None:
    near = {"rel_tol": case["rtol"]}
    for c in case["alg3"]:
        gamma, m = records_representation(c["H"], alpha=str(c["alpha"]), beta=str(c["beta"]))
        assert isclose(gamma, c["gamma"], **near)
        assert isclose(m, c["m"], **near)
    for c in case["alg1"]:
        gamma, k = records_list(c["L"], eta=str(c["eta"]), beta=str(c["beta"]))
        assert isclose(gamma, c["gamma"], **near)
        assert isclose(k, c["k"], **near)
    for c in case["users"]:
        _users(c)
    for c in case["lower"]:
        _lower(c)
    for c in case["shuffle"]:
        assert users_shuffle(str(c["r"]), str(c["p"]), c["U1"], beta=str(c["beta"])).n_users == c["n"]


def _users(c: dict[str, Any]) -> None:
    epsilon, beta = str(c["eps"]), str(c["beta"])
    if "K" in c:
        select = StableHistogram(epsilon, delta=str(c["delta"]), neighbours=c["neighbours"])
        assert c["K"] == select.K
        assert users_histogram(select.K, beta=beta).n_users == c["n_histogram"]
    for name, expected in c.items():
        if name.startswith("n_em_U"):
            base = 1 / vote_decay(epsilon, c["neighbours"])
            assert users_plurality(base, int(name.removeprefix("n_em_U")), beta=beta).n_users == expected
        if name.startswith("n_local_U"):
            assert (
                users_local(keep_probability(epsilon), int(name.removeprefix("n_local_U")), beta=beta).n_users
                == expected
            )


def _lower(c: dict[str, Any]) -> None:
    common = {"epsilon": str(c["eps"]), "beta": str(c["beta"])}
    for name, expected in c.items():
        head, _, last = name.rpartition("_")
        size = 2 ** int(last[2:]) if last.startswith("2^") else int(last) if last.isdigit() else 0
        if head == "prdim":
            assert lower_agreement_representation(size, delta=str(c["delta"]), **common).n_users == expected
        if head == "packing":
            assert lower_agreement_packing(size, delta=str(c["delta"]), **common).n_users == expected
        if head == "pure_packing":
            assert lower_agreement_packing(size, **common).n_users == expected


RUNNERS = {
    "histogram_plan": run_histogram_plan,
    "law_histogram": run_law_histogram,
    "law_gap": run_law_gap,
    "law_em": run_law_em,
    "planning": run_planning,
}
