"""The reduction with inner learners outside the class: the steps of Theorem D by enumeration, and its certificate."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import pytest

import privpac as pp
from privpac.errors import AccuracyWarning, ParameterError
from privpac.guarantee import Neighbours
from privpac.methods import SurrogateSelection
from privpac.methods.prediction.service_sample_size import certify_reduction, selection_error
from privpac.papers.realizable_to_agnostic.reduction import improper_objective

POINTS = range(3)
RULES = [tuple(int(x >= cut) for x in POINTS) for cut in range(4)]
EVERYTHING = list(product((0, 1), repeat=3))


def labellings(xs: tuple[int, ...], losses: tuple[int, ...], a: float, b: float) -> dict[tuple[int, ...], float]:
    """The relabelling law of T."""
    found: dict[tuple[int, ...], float] = {}
    for rule in RULES:
        h = tuple(rule[x] for x in xs)
        scores = [
            a * sum(f[x] != label for x, label in zip(xs, h)) + b * loss for f, loss in zip(RULES, losses, strict=True)
        ]
        found[h] = math.exp(-min(scores))
    total = sum(found.values())
    return {h: weight / total for h, weight in found.items()}


def inner(xs: tuple[int, ...], h: tuple[int, ...], epsilon: float) -> dict[tuple[int, ...], float]:
    """Any function of the points, by its mistakes: epsilon-DP under replace, and it remembers."""
    weights = {g: math.exp(-epsilon / 2 * sum(g[x] != y for x, y in zip(xs, h, strict=True))) for g in EVERYTHING}
    total = sum(weights.values())
    return {g: weight / total for g, weight in weights.items()}


def consistent(xs: tuple[int, ...], labels: tuple[int, ...]) -> tuple[int, ...]:
    return next(rule for rule in RULES if all(rule[x] == y for x, y in zip(xs, labels, strict=True)))


def both_sides(mass: tuple[float, ...], v: tuple[int, ...], u: int, losses: Any, a: float, b: float, eps: float) -> Any:
    """``E P(g != h')`` and ``E dis_U(g, h')`` for one V, over all U."""
    fresh = seen = 0.0
    for us in product(POINTS, repeat=u):
        weight = math.prod(mass[x] for x in us)
        xs = (*v, *us)
        for h, chance in labellings(xs, losses, a, b).items():
            other = consistent(v, h[: len(v)])
            for g, drawn in inner(xs, h, eps).items():
                share = weight * chance * drawn
                fresh += share * sum(mass[x] * (g[x] != other[x]) for x in POINTS)
                seen += share * sum(g[x] != other[x] for x in us) / u
    return fresh, seen


@pytest.mark.parametrize("mass", [(1 / 3, 1 / 3, 1 / 3), (0.8, 0.1, 0.1), (0.05, 0.05, 0.9)])
@pytest.mark.parametrize(("a", "eps"), [(0.05, 0.5), (0.5, 1.0), (0.05, 4.0)])
def test_what_a_private_learner_gets_wrong_on_fresh_records_it_gets_wrong_on_its_own(
    mass: tuple[float, ...], a: float, eps: float
) -> None:
    k, remembered = 4 * math.exp(2 * a + eps), False
    for v in product(POINTS, repeat=2):
        for losses in ((0, 1, 1, 2), (3, 0, 2, 1)):
            fresh, seen = both_sides(mass, v, 2, losses, a, 0.7, eps)
            assert fresh <= k * seen
            remembered = remembered or fresh > seen * 1.01
    assert remembered or eps < 4  # without the factor it would be false


@pytest.mark.parametrize("t", [2, 4, 5, 6])
def test_a_rule_that_agrees_on_half_differs_on_few_of_the_others(t: int) -> None:
    """Step 2, over every split; points of a line, so that labellings are many."""
    cuts = [tuple(int(x >= cut) for x in range(t)) for cut in range(t + 1)]
    size = -(-t // 2)
    for h in cuts:
        total = 0
        splits = list(combinations(range(t), size))
        for v in splits:
            agree = [c for c in cuts if all(c[i] == h[i] for i in v)]
            total += max(sum(x != y for x, y in zip(c, h, strict=True)) for c in agree)
        assert Fraction(total, len(splits)) <= math.log2(len(cuts)) + 2


def promised(epsilon: Any = 2, neighbours: str = "add-remove", n: int | None = None, alpha: Any = "0.2") -> Any:
    def growth(t: int) -> float:
        return math.log(min(t + 1, 101))

    error = selection_error(math.log(101), neighbours)
    made = improper_objective(
        beta=0.05, log_growth=growth, inner_error=error, neighbours=Neighbours(neighbours), levels=840
    )
    told: dict[str, Any] = {"log_growth": growth, "inner_error": error, "levels": 840, "neighbours": neighbours}
    return certify_reduction(alpha=alpha, beta="0.05", epsilon=epsilon, n_users=n, objective=made, **told)


@pytest.mark.slow
def test_leaving_the_class_is_certified_and_costs_a_factor() -> None:
    found = promised()
    assert found.n_users is not None
    assert found.n_users > 50_000
    assert "any inner learner" in found.assumption
    assert promised(n=2 * found.n_users).certified
    assert not promised(n=found.n_users // 2).certified
    numbers = [promised(epsilon, "replace").n_users for epsilon in (1, 2, 8)]
    assert numbers == sorted(numbers, reverse=True)
    wider = [promised(alpha=alpha).n_users for alpha in ("0.1", "0.2", "0.5")]
    assert wider == sorted(wider, reverse=True)


def test_so_few_people_that_nothing_is_promised_are_never_certified() -> None:
    """16 people were, at epsilon 8: the noise stood in for the promise."""
    for epsilon, alpha in ((8, "0.3"), (50, "0.8")):
        error = selection_error(math.log(3))
        told: dict[str, Any] = {"log_growth": lambda n: math.log(n + 1), "inner_error": error, "levels": 840}
        found = certify_reduction(alpha=alpha, beta="0.3", epsilon=epsilon, **told)
        assert found.n_users is not None
        assert found.n_users > 300
        assert not certify_reduction(alpha=alpha, beta="0.3", epsilon=epsilon, n_users=16, **told).certified


def test_a_selection_from_stand_ins_is_not_taken_for_a_proper_learner() -> None:
    few = pp.Points(pp.Integers(0, 99))
    improper = SurrogateSelection(few, "1/4", representation="hashed", public_seed=bytes(32))
    with pytest.raises(ParameterError, match="inner_error"):
        pp.AgnosticReduction.for_target(improper, epsilon=1, public_n_users=10_000, alpha="0.2")

    def small(t: int, epsilon: float, failure: float) -> float:
        return (math.log(200) - math.log(failure)) / (epsilon * t)

    told: dict[str, Any] = {"epsilon": 1, "alpha": "0.2", "inner_error": small}
    with pytest.warns(AccuracyWarning, match="users certify it"):
        made = pp.AgnosticReduction.for_target(improper, public_n_users=10_000, **told)
    assert made.guarantee.epsilon <= 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", AccuracyWarning)
        pp.AgnosticReduction.for_target(improper, public_n_users=4_000_000, **told)
