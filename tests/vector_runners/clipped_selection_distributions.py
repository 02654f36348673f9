"""Runners of the distribution kinds of ``clipped_selection.json``: selection, covers, histograms, coarse to fine."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import stats

from privpac.data import Domain, Grid, Integers, UserData
from privpac.distributions.cells import CodeCells
from privpac.distributions.gaussian import Quantities, cell_law, cell_scores, fine_sum
from privpac.distributions.histogram import clipped_deviations, deviation_scales
from privpac.distributions.selection.comparison import scheffe_probability
from privpac.distributions.selection.selector import HypothesisSelector
from privpac.guarantee import Neighbours
from privpac.law import Law
from privpac.mechanisms import ExponentialMechanism, Laplace
from privpac.papers.few_examples_per_user.covers import DiscreteCover, LocationCover, round_to_cover

__all__ = ["RUNNERS"]


def _users(users: Sequence[Sequence[Any]], domain: Domain, cap: int | None = None) -> UserData:
    data = UserData.from_users(users, features={"x": domain}, labelled=False)
    return data if cap is None else data.max_records(cap, rule="first")


def _close(value: Any, printed: str, rtol: str = "1e-25") -> None:
    exact = Fraction(printed)
    for end in (value.lo, value.hi):
        assert abs(end - exact) <= exact * Fraction(rtol)


def _same_law(law: Law, printed: Sequence[str]) -> None:
    for i, text in enumerate(printed):
        _close(law.prob(i), text)


def run_scheffe_discrete(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    domain = Integers(0, len(given["candidates"][0]) - 1)
    users = _users(given["users"], domain)
    selector = HypothesisSelector(
        given["candidates"],
        given["epsilon"],
        candidates_are="public",
        tau=given["tau"],
        resolution=given["L"],
        max_records=given["cap"],
        neighbours=given["neighbours"],
    )
    bound = selector.bind(users)
    assert bound.plan.q.tolist() == expected["q"]
    assert selector.range_of(bound.plan) == expected["rho"]
    assert bound.plan.scores(bound.users, selector.top).tolist() == expected["scores"]
    law = selector.law(users)
    assert law.eta == Fraction(expected["lambda"])  # type: ignore[attr-defined]
    _same_law(law, expected["law"])


def run_gauss1d_grid(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    domain = Grid(-1000, 1000, "0.000001")
    # Values are decimals; a wrong grid would be refused as off the grid when the data are bound.
    data = _users([[float(Fraction(value)) for value in user] for user in given["users"]], domain)
    cover = LocationCover(
        "x", domain, Fraction(given["mu0"]), Fraction(given["step"]), given["G"], Fraction(1), given["L"]
    )
    assert cover.q_by_distance.tolist() == expected["q_by_distance"]
    top = given["L"] * given["tau"]
    assert cover.range(top, given.get("cap"), given["neighbours"]) == expected["rho"]
    scores = cover.scores(data, top)
    assert scores.tolist() == expected["scores"]
    select = ExponentialMechanism(given["epsilon"], expected["rho"], unit="user", neighbours=given["neighbours"])
    assert select.eta == Fraction(expected["lambda"])
    _same_law(select.law(scores), expected["law"])


def _distribution(given: dict[str, Any]) -> Any:
    if "norm" in given:
        return stats.norm(*given["norm"])
    if "laplace_scale" in given:
        return stats.laplace(scale=given["laplace_scale"])
    if "gamma_shape" in given:
        return stats.gamma(given["gamma_shape"], scale=given["scale"])
    return stats.expon(scale=given["expon_scale"])


def run_scheffe_probability(case: dict[str, Any]) -> None:
    expected = case["expected"]
    mine, theirs = scheffe_probability(_distribution(case["input"]["P"]), _distribution(case["input"]["Q"]))
    assert abs(mine - float(expected["P_of_W"])) <= expected["atol"]
    if "Q_of_W" in expected:
        assert abs(theirs - float(expected["Q_of_W"])) <= expected["atol"]


def run_discrete_cover(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    domain = Integers(0, given["k"] - 1)
    cover = DiscreteCover("x", domain, given["N"])
    assert given["L"] == cover.unit
    assert cover.size == expected["size"]
    assert cover.radius == Fraction(expected["tv_radius"])
    assert list(cover.composition(0)) == expected["first"]
    top = given["L"] * given["tau"]
    scores = cover.scores(_users(given["users"], domain, given["cap"]), top)
    assert scores.tolist() == expected["scores"]
    select = ExponentialMechanism(
        given["epsilon"],
        cover.range(top, given["cap"], given["neighbours"]),
        unit="user",
        neighbours=given["neighbours"],
    )
    assert select.eta == Fraction(expected["lambda"])
    law = select.law(scores)
    best = sorted((law.prob(i) for i in range(cover.size)), key=lambda ball: ball.lo, reverse=True)
    for ball, printed in zip(best, expected["law_top3"], strict=False):
        _close(ball, printed)


def run_round_to_cover(case: dict[str, Any]) -> None:
    assert list(round_to_cover(case["input"]["pmf"], case["input"]["N"])) == case["expected"]["counts"]


def run_clipped_histogram_b(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    users = _users(given["users"], Integers(0, given["k"] - 1), given["cap"])
    clip = np.array(given["taus"], dtype=np.int64)
    sums = clipped_deviations(users, CodeCells("x", given["k"]), np.array(given["a"], dtype=np.int64), clip, given["A"])
    assert sums.tolist() == expected["sums"]
    factor = 2 if given["neighbours"] == "replace" else 1
    assert deviation_scales(clip, factor, Fraction(given["epsilon"])) == expected["scales"]


def run_discrete_laplace(case: dict[str, Any]) -> None:
    given = case["input"]
    wide = max(abs(z) for z in given["z"]) + 1
    law = Laplace(1 / Fraction(given["scale"]), 1, unit="user", neighbours="add-remove").law(0, bounds=(-wide, wide))
    for z, printed in zip(given["z"], case["expected"]["pmf"], strict=True):
        _close(law.prob(z), printed)


def run_coarse_to_fine(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    data = Quantities(np.array([y for y in given["y"] if y is not None], dtype=np.int64), len(given["y"]))
    first, last = given["j_min"], given["j_max"]
    places, scores = cell_scores(data, given["cell"], first, last)
    assert np.repeat(scores, np.diff(np.append(places, last - first + 1))).tolist() == expected["scores"]
    law = cell_law(data, given["cell"], (first, last), Fraction(given["epsilon1"]), Neighbours(given["neighbours"]))
    assert law.eta == Fraction(expected["lambda"])  # type: ignore[attr-defined]
    _same_law(law, expected["law"])
    assert fine_sum(data, given["center"], given["tau"]) == expected["fine_sum"]


RUNNERS = {
    "scheffe_discrete": run_scheffe_discrete,
    "gauss1d_grid": run_gauss1d_grid,
    "pw_normal": run_scheffe_probability,
    "pw_mixed": run_scheffe_probability,
    "discrete_cover": run_discrete_cover,
    "round_to_cover": run_round_to_cover,
    "clipped_histogram_B": run_clipped_histogram_b,
    "discrete_laplace": run_discrete_laplace,
    "coarse_to_fine": run_coarse_to_fine,
}
