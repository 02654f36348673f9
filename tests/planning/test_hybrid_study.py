"""The forms that were tried beside hybrid selection: each keeps its guarantee, and the laws are those of the
library."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import privpac as pp
from privpac.papers.noisy_min import NoisyMin
from privpac.rules.profile import DEFAULT_LEVELS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CUTS = pp.Thresholds(pp.Integers(0, 4), "x")
SIZES, USERS = (0, 1, 2, 3, 5, 9, 17, 30, 80), (1, 3, 20, 120)


@pytest.fixture(scope="module")
def study() -> Iterator[ModuleType]:
    known = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("hybrid_study")
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in {"hybrid_study", "hybrid", "open_questions", "open_tables", "generative", "common"} - known:
            sys.modules.pop(name, None)


def _people(rng: np.random.Generator, n: int) -> list[list[tuple[int, int]]]:
    """Users of all sizes, some of whose labels are all the same."""
    users = []
    for m in rng.choice(SIZES, n):
        labels = rng.integers(0, 2, m) if rng.random() < 0.6 else np.full(m, rng.integers(0, 2))
        users.append([(int(x), int(y)) for x, y in zip(rng.integers(0, 5, m), labels)])
    return users


def _seen(study: ModuleType, users: list[list[tuple[int, int]]]) -> Any:
    return study.Seen(CUTS, pp.UserData.from_users(users, features={"x": CUTS.domain}))


def _moves(study: ModuleType, scores: dict[str, Any]) -> dict[str, tuple[float, float]]:
    """The least and the most by which one more user raises a score, for each way to score."""
    rng = np.random.default_rng(0)
    moves = dict.fromkeys(scores, (0.0, 0.0))
    for n in USERS:
        people = _people(rng, n)
        before = _seen(study, people)
        for one in _people(rng, 6):
            after = _seen(study, [*people, one])
            for epsilon in (Fraction(1), Fraction(5)):
                for name, score in scores.items():
                    moved = np.concatenate(score(study.Case(after, epsilon))) - np.concatenate(
                        score(study.Case(before, epsilon))
                    )
                    low, high = moves[name]
                    moves[name] = min(low, float(moved.min())), max(high, float(moved.max()))
    return moves


@pytest.mark.slow
def test_one_user_moves_every_score_of_every_form_within_one_vote(study: ModuleType) -> None:
    moves = _moves(study, {form.name: form.scores for form in study.forms()})
    assert all(low >= 0 and high <= DEFAULT_LEVELS for low, high in moves.values()), moves


def test_a_third_score_that_pays_without_room_would_be_caught(study: ModuleType) -> None:
    moves = _moves(
        study, {"optimism twice": lambda case: [case.seen.weighed(4, 1) + 2 * case.paid(case.seen.optimism, 1)]}
    )
    assert moves["optimism twice"][1] > DEFAULT_LEVELS


def test_the_integral_is_the_law_of_permute_and_flip(study: ModuleType) -> None:
    rng = np.random.default_rng(1)
    for k, top in ((5, 10), (40, 3), (3, 50), (300, 40)):
        scores = rng.integers(0, top, k)
        law = NoisyMin("1/2", 1, unit="user", neighbours="add-remove").law(scores.tolist())
        found = study.raced(scores.astype(float), 0.5)
        assert found == pytest.approx([float(law.prob(i)) for i in range(k)], abs=1e-12)
        # What the certificates of hybrid selection needs of a law: no candidate is likelier than its distance to any
        # other allows.
        assert np.all(found[:, None] <= np.exp(-0.5 * (scores[:, None] - scores[None, :])) * (1 + 1e-9))
        assert np.all(
            found[:, None]
            <= np.where(scores[:, None] >= scores, np.exp(-0.5 * (scores[:, None] - scores)) * found, 1) + 1e-12
        )


def test_hybrid_selection_among_the_forms_is_the_default(study: ModuleType) -> None:
    people = _people(np.random.default_rng(2), 40)
    law = pp.HybridSelection(CUTS, 1).rule_law(pp.UserData.from_users(people, features={"x": CUTS.domain}))
    found = study.drawn(study.forms()[0], study.Case(_seen(study, people), Fraction(1)))
    assert found == pytest.approx([float(law.prob(h)) for h in range(CUTS.size)], abs=1e-12)
