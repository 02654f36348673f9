"""A whole run of a scorecard: what is drawn, in which order and with which variance; and, with the noise given, the
same scorecard as the definition followed line by line in plain Python."""

from __future__ import annotations

import random
from fractions import Fraction
from math import floor, isqrt
from typing import Any

import pytest
from scorecard_reference import clip, gradient, mean, near, norm

from privpac.data import Categories, Integers, UserData
from privpac.guarantee import Neighbours
from privpac.methods import scorecard as learner_module
from privpac.methods.scorecard import CALIBRATION_BINS, ScorecardLearner
from privpac.rules.scorecards import CodeShape, Scorecards, U, code_rows
from privpac.testing import SeededRng, insecure_randomness

COLUMNS = {"a": Integers(0, 9), "b": Categories(["u", "v", "w"]), "c": Integers(0, 1)}
SHAPES = [CodeShape(True, 4), CodeShape(False, 3), CodeShape(True, 2)]


def people(seed: int, users: int, labels: int = 2) -> list[list[tuple[Any, ...]]]:
    rng = random.Random(seed)

    def record() -> tuple[Any, ...]:
        return (rng.randrange(10), rng.choice("uvw"), rng.randrange(2), rng.randrange(labels))

    return [[record() for _ in range(rng.randrange(5))] for _ in range(users)]


def coded(user: list[tuple[Any, ...]]) -> list[tuple[tuple[int, ...], int]]:
    """The bins of four equal parts of 0..9 begin at 3, 5 and 8."""
    return [((sum(a >= cut for cut in (3, 5, 8)), "uvw".index(b), c), y) for a, b, c, y in user]


class Told:
    """Noise that is written down and given by a seed, in place of the exact draws."""

    def __init__(self, seed: int, size: int = 3000) -> None:
        self.rng, self.size = random.Random(seed), size
        self.asked: list[tuple[Fraction, int]] = []

    def one(self, variance: Fraction, rng: Any) -> int:
        self.asked.append((variance, 1))
        return self.rng.randrange(-5, 6)

    def many(self, variance: Fraction, size: int, rng: Any) -> list[int]:
        self.asked.append((variance, size))
        return [self.rng.randrange(-self.size, self.size + 1) for _ in range(size)]


def reference(
    users: list[list[tuple[Any, ...]]], learner: ScorecardLearner, told: Told, answers: tuple[int, ...] = (1,)
) -> tuple[list[tuple[list[list[int]], int]], int, list[int]]:
    """Points and threshold of each scorecard, number of users and clips."""
    data, steps, top = [coded(user) for user in users], learner.scorecard.steps, learner.scorecard.top
    rho = learner.rho
    replaced = learner.neighbours is Neighbours.REPLACE
    kappa = 4 if replaced else 1
    count = Fraction(0)
    n = len(users)
    if learner.public_n_users is not None:
        n = learner.public_n_users
    elif not replaced:
        count = rho / 16
        n = len(users) + told.one(1 / (2 * count) + 4, None)
    n = min(max(n, 1), 2**40)
    rest, d = rho - count, len(SHAPES)
    width = sum(shape.width for shape in SHAPES)
    longest, most = isqrt(U * U * d), isqrt(U * U * (1 + d)) // 2
    variance = kappa * Fraction(longest**2) / (2 * (3 * rest / 20)) + 4
    sums = [sum(column) for column in zip([0] * width, *(clip(mean(SHAPES, user), longest) for user in data))]
    noisy = [v + more for v, more in zip(sums, told.many(variance, width, None))]
    spread = Fraction(9, 100) * (n * U) ** 2
    shrunk = [min(max(Fraction(v, n), Fraction(-U)), Fraction(U)) * spread / (spread + variance) for v in noisy]
    centre = [floor(c + Fraction(1, 2)) for c in shrunk]
    start, own = [0] * (width + 1), rest / len(answers)
    asked = [[[(codes, int(y == answer)) for codes, y in user] for user in data] for answer in answers]
    terms = [sum(norm(gradient(SHAPES, user, start, centre), most) for user in one) for one in asked]
    longer = told.many(Fraction(most**2) / (2 * (own / 50)) + 4, len(answers), None)
    sizes = []
    for term, more in zip(terms, longer):
        sixth = Fraction(59049) * own * max(10 * (term + more), n * U) ** 6 / (242 * 200**6 * n**4)
        sizes.append(next(x for x in range(409, 2 * most + 1) if (x + 1) ** 6 > sixth or x == 2 * most))
    time = min(max(isqrt(floor(18 * n * n * own / 25)), 6), 200)
    weights, totals = [start for _ in answers], [start for _ in answers]
    for step in range(1, steps + 1):
        for k, (one, size) in enumerate(zip(asked, sizes)):
            w = weights[k]
            each = (clip(gradient(SHAPES, user, w, centre), size) for user in one)
            sums = [sum(column) for column in zip(start, *each)]
            noise = told.many(kappa * Fraction(size**2) / (2 * (83 * own / (100 * steps))) + 4, width + 1, None)
            moved = [near(time * 4096 * (v + more), steps * n) for v, more in zip(sums, noise)]
            weights[k] = [min(max(a - b, -(2**30)), 2**30) for a, b in zip(w, moved)]
            if step > steps - (steps + 1) // 2:
                totals[k] = [a + b for a, b in zip(totals[k], weights[k])]
    scorecards = []
    for total in totals:
        scores, at = [], 1
        for shape in SHAPES:
            rows = code_rows(shape)
            scores.append([sum(total[at + k] * z for k, z in enumerate(row)) for row in rows])
            at += shape.width
        b = total[0] * U - sum(x * c for x, c in zip(total[1:], centre)) + sum(map(min, scores))
        scorecards.append(([[f - min(column) for f in column] for column in scores], b))
    largest = max(f for above, _ in scorecards for column in above for f in column)
    whole = [[[near(top * f, largest) for f in column] for column in above] for above, _ in scorecards]
    return [(points, floor(Fraction(-top * b, largest))) for points, (_, b) in zip(whole, scorecards)], n, sizes


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "options", [{}, {"neighbours": "replace"}, {"public_n_users": 7}, {"public_n_users": 400, "neighbours": "replace"}]
)
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_run_follows_the_definition(
    seed: int, options: dict[str, Any], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = people(seed, 5 * seed)
    learner = ScorecardLearner(Scorecards(cuts=3, steps=steps, top=20), epsilon=1 + seed, delta="1e-6", **options)
    expected, told = Told(seed, 10**seed), Told(seed, 10**seed)
    ((points, threshold),), n, (size,) = reference(users, learner, expected)
    monkeypatch.setattr(learner_module, "discrete_gaussian", told.one)
    monkeypatch.setattr(learner_module, "gaussian_noise", told.many)
    with insecure_randomness():
        found = learner.learn(UserData.from_users(users, features=COLUMNS), rng=SeededRng(1))
    assert [list(column) for column in found.value.points] == points
    assert found.value.threshold == threshold
    assert found.parameters["clip"] == size
    assert found.parameters.get("noisy_n_users", found.parameters.get("public_n_users")) == n
    assert told.asked == expected.asked


@pytest.mark.parametrize("labels", [3, 4])
@pytest.mark.parametrize("options", [{}, {"neighbours": "replace"}, {"public_n_users": 90}])
def test_cards_of_several_labels_follow_it_side_by_side(
    labels: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One scorecard against the rest for each label: number of people and centre once, the rest of the budget split."""
    users = people(labels, 20, labels)
    learner = ScorecardLearner(Scorecards(cuts=3, steps=5, top=20), epsilon=3, delta="1e-6", **options)
    expected, told = Told(labels), Told(labels)
    scorecards, n, sizes = reference(users, learner, expected, tuple(range(labels)))
    monkeypatch.setattr(learner_module, "discrete_gaussian", told.one)
    monkeypatch.setattr(learner_module, "gaussian_noise", told.many)
    data = UserData.from_users(users, features=COLUMNS, classes=list(range(labels)))
    with insecure_randomness():
        found = learner.learn(data, rng=SeededRng(1))
    assert [
        ([list(c) for c in scorecard.points], scorecard.threshold) for scorecard in found.value.scorecards
    ] == scorecards
    assert list(found.parameters["clip"]) == sizes
    assert found.parameters.get("noisy_n_users", found.parameters.get("public_n_users")) == n
    assert told.asked == expected.asked
    budget = learner.budget(3, labels)
    assert sum(budget.parts) == learner.rho
    assert len(budget.parts) == 2 + labels * (2 + 5)


@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_every_draw_has_the_variance_of_its_share(neighbours: Neighbours, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count, centre, norm, 40 steps, calibration: in this order, and nothing else is drawn."""
    told = Told(3)
    monkeypatch.setattr(learner_module, "discrete_gaussian", told.one)
    monkeypatch.setattr(learner_module, "gaussian_noise", told.many)
    learner = ScorecardLearner(Scorecards(cuts=3), epsilon=1, delta="1e-6", neighbours=neighbours, calibrate="1/10")
    with insecure_randomness():
        found = learner.learn(UserData.from_users(people(2, 30), features=COLUMNS), rng=SeededRng(1))
    budget = learner.budget(3)
    width, step = 3 + 3 + 1, budget.step_variance(found.parameters["clip"])
    wanted = [(budget.centre_variance, width), (budget.norm_variance, 1), *([(step, width + 1)] * 40)]
    wanted = [*([(budget.count_variance, 1)] if budget.bought else []), *wanted]
    assert told.asked == [*wanted, (budget.calibration_variance, 2 * CALIBRATION_BINS)]
    assert sum(budget.parts) == learner.rho
