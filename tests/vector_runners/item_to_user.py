"""Runners of ``item_to_user.json``: pass curves, deletion stability, trimmed and friendly scores, and the
calculators."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from privpac.bounds import (
    amplify,
    deamplify,
    group_privacy,
    lddp_approx,
    lddp_pure,
    spg_pure,
    subsample_size,
    triangle,
    width_iid,
)
from privpac.errors import InfeasibleError
from privpac.law import BOTTOM, Law
from privpac.mechanisms import ReleaseTest, TruncatedLaplace, pass_curve, smallest_K
from privpac.methods import choose_transform
from privpac.methods.means import friendly_sensitivity, friends
from privpac.methods.trimmed import distance_of, spreads, trimmed_sums
from privpac.papers.few_examples_per_user.deletion import RetainedLaws, deletion_law

__all__ = ["RUNNERS"]

TAGS: dict[str, Any] = {"unit": "user", "neighbours": "replace"}


def near(found: Any, expected: Any) -> bool:
    """Floats to 1e-9 relative; pairs entry by entry."""
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(near, found, expected))
    return math.isclose(found, expected, rel_tol=1e-9, abs_tol=0 if expected else 1e-300)


# Calculators


def calculator(compute: Callable[..., Any], *names: str) -> Callable[[dict[str, Any]], None]:
    """A runner that reads every field of the input, in this order."""

    def run(case: dict[str, Any]) -> None:
        given = case["input"]
        assert set(given) == set(names)
        assert near(compute(*(given[name] for name in names)), case["expected"])

    return run


def run_choose_transform(case: dict[str, Any]) -> None:
    given = {
        ("failure" if name in ("beta_bottom", "beta_bot") else name): value for name, value in case["input"].items()
    }
    if case["expected"]["choice"] not in ("group", "clip", "trim"):
        with pytest.raises(InfeasibleError):
            choose_transform(**given)
        return
    found = choose_transform(**given)
    assert found.choice == case["expected"]["choice"]
    for name, value in found.predicted.items():
        expected = case["expected"]["predicted"].get(name)
        assert math.isinf(value) if expected is None or math.isinf(float(expected)) else near(value, float(expected))


# Noise and pass curves


def run_tdlap(case: dict[str, Any]) -> None:
    base, kappa = Fraction(case["input"]["a"]), case["input"]["kappa"]
    expected = [Fraction(p) for p in case["expected"]]
    law = TruncatedLaplace(None, expected[0], base=base, kappa=kappa, **TAGS).law()
    assert [law.prob_exact(v) for v in range(2 * kappa + 1)] == expected


def run_kappa(case: dict[str, Any]) -> None:
    noise = TruncatedLaplace(None, Fraction(case["input"]["delta"]), base=Fraction(case["input"]["a"]), **TAGS)
    assert {"exact": noise.kappa, "paper": noise.certified_kappa} == case["expected"]


def run_pass_curve(case: dict[str, Any]) -> None:
    given = case["input"]
    curve = pass_curve(Fraction(given["a"]), Fraction(given["delta"]), given["K"])
    assert list(curve) == [Fraction(b) for b in case["expected"]]


def run_smallest_K(case: dict[str, Any]) -> None:
    given = case["input"]
    assert smallest_K(Fraction(given["a"]), Fraction(given["delta"]), Fraction(given["beta"])) == case["expected"]


def release_test(given: dict[str, Any]) -> ReleaseTest:
    return ReleaseTest(None, Fraction(given["dR"]), base=Fraction(given["aR"]), ladder=given["K"], **TAGS)


# Deletion stability


def run_delstab(case: dict[str, Any]) -> None:
    given = case["input"]
    users, table = given["users"], given["table"]
    assert len(users) == given["n"]

    def law_of(kept: tuple[int, ...]) -> Law:
        rows = [table[str(users[i])] for i in kept]
        values = {value for row in rows for value in row}
        return Law.from_weights(
            {value: sum((Fraction(row.get(value, 0)) for row in rows), Fraction(0)) for value in values}
        )

    retained = RetainedLaws(given["n"], given["t"], law_of, Fraction(given["aS"]), Fraction(given["dS"]))
    law = deletion_law(retained, release_test(given))
    expected = {key: Fraction(p) for key, p in case["expected"].items()}
    assert sum(expected.values()) == 1
    for key, p in expected.items():
        assert law.prob_exact(BOTTOM if key == "bottom" else key) == p


# Trimmed and friendly scores


def run_trimmed_em(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    columns = np.sort(np.array(given["users"], dtype=np.int64), axis=0)
    assert columns.min() >= 0
    assert columns.max() <= given["C"]
    sums, wide = trimmed_sums(columns, given["t"]), spreads(columns, given["t"], given["K"])
    reach = int(np.searchsorted(wide, given["w"], side="right")) - 1
    distance = distance_of(reach, given["K"])
    assert sums.tolist() == expected["trimmed_sums"]
    assert distance == expected["rho"]
    prior = given.get("prior") or [1] * len(sums)
    starts = np.concatenate([[0], np.cumsum(np.array(prior, dtype=object))]).tolist()
    answer = Law.from_blocks(starts[:-1], [a - 1 for a in starts[1:]], sums, base=Fraction(given["g"]))
    law = release_test(given).law(distance, answer)
    masses = {str(h): law.prob_exact(start) * prior[h] for h, start in enumerate(starts[:-1])} | {
        "bottom": law.prob_exact(BOTTOM)
    }
    assert {key: p for key, p in masses.items() if p} == {
        key: Fraction(p) for key, p in expected["law"].items() if Fraction(p)
    }


def run_order_statistics(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    column = np.sort(np.array(given["column"], dtype=np.int64))[:, None]
    wide = spreads(column, given["t"], given["K"])
    assert trimmed_sums(column, given["t"]).tolist() == [expected["trimmed_sum"]]
    assert wide.tolist() == expected["spread"]
    reach = [int(np.searchsorted(wide, w, side="right")) - 1 for w in range(given["C"] + 1)]
    assert [distance_of(r, given["K"]) for r in reach] == expected["rho_by_width"]


def run_friendly_mean(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    vectors = np.array(given["users"], dtype=np.int64)
    vectors = vectors[:, None] if vectors.ndim == 1 else vectors
    found = friends(vectors, given["w"], given["K"], given["D"], given["norm"])
    assert found.degrees.tolist() == expected["degrees"]
    assert found.weights.tolist() == expected["weights"]
    assert found.distance == expected["rho"]
    assert (None if found.mean is None else list(found.mean)) == (
        None if expected["mean"] is None else [Fraction(value) for value in expected["mean"]]
    )
    moved = friendly_sensitivity(Fraction(given["w"]), len(vectors), given["K"], given["D"])
    assert moved == Fraction(expected["sensitivity"])


RUNNERS: dict[str, Callable[..., None]] = {
    "amplify": calculator(amplify, "epsilon", "delta", "k", "n"),
    "choose_transform": run_choose_transform,
    "deamplify": calculator(deamplify, "epsilon", "delta", "k", "n"),
    "delstab": run_delstab,
    "friendly_mean": run_friendly_mean,
    "group_privacy": calculator(group_privacy, "epsilon", "delta", "k"),
    "kappa": run_kappa,
    "lddp_approx": calculator(lddp_approx, "epsilon_item", "delta_item", "n", "m", "t", "beta"),
    "lddp_pure": calculator(lddp_pure, "epsilon_item", "n", "m", "t", "delta", "beta"),
    "order_statistics": run_order_statistics,
    "pass_curve": run_pass_curve,
    "smallest_K": run_smallest_K,
    "spg_pure": calculator(spg_pure, "epsilon_item", "N", "delta", "beta"),
    "subsample_size": calculator(subsample_size, "epsilon_base", "n_base", "epsilon_target"),
    "tdlap": run_tdlap,
    "triangle": calculator(triangle, "e1", "d1", "e2", "d2"),
    "trimmed_em": run_trimmed_em,
    "width_iid": calculator(width_iid, "n", "m", "t", "K", "H", "beta", "ps"),
}
