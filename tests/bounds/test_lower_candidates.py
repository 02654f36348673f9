"""Lower bounds for selection never exceed what the best private selection, found by linear programming, needs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import privpac.bounds
import privpac.lower_bounds as module
from privpac.errors import ParameterError
from privpac.lower_bounds import gilbert_varshamov, lower_selection


def best_success(laws: list[list[float]], n: int, epsilon: float) -> float:
    """The largest worst-case success of any epsilon-DP (replace) selection from n users of one record.

    Averaging over orders costs nothing, so a selection is a table over how often each value occurs.
    """
    if n == 0:
        return 1 / len(laws)
    k, values = len(laws), len(laws[0])
    states = [h for h in itertools.product(range(n + 1), repeat=values) if sum(h) == n]
    at = {h: i for i, h in enumerate(states)}
    rows, size = [], len(states) * k + 1
    for h in states:
        for a, b in itertools.permutations(range(values), 2):
            if h[a]:
                g = list(h)
                g[a], g[b] = g[a] - 1, g[b] + 1
                for j in range(k):
                    row = np.zeros(size)
                    row[at[h] * k + j], row[at[tuple(g)] * k + j] = 1, -math.exp(epsilon)
                    rows.append(row)
    for j, law in enumerate(laws):
        row = np.zeros(size)
        row[-1] = 1
        for h in states:
            row[at[h] * k + j] = -math.factorial(n) * math.prod(p**c / math.factorial(c) for p, c in zip(law, h))
        rows.append(row)
    one = np.zeros((len(states), size))
    for i in range(len(states)):
        one[i, i * k : (i + 1) * k] = 1
    goal = np.zeros(size)
    goal[-1] = -1
    found = linprog(
        goal, A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=one, b_eq=np.ones(len(states)), bounds=(0, 1)
    )
    return float(-found.fun)


def needed(laws: list[list[float]], epsilon: float, success: float, most: int) -> int:
    """The least number of users that will do, or ``most`` if none below."""
    return next((n for n in range(most) if best_success(laws, n, epsilon) >= success - 1e-9), most)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(("alpha", "success"), [(0.2, 0.55), (0.5, 0.55), (0.5, 2 / 3), (0.9, 2 / 3), (0.9, 0.9)])
def test_two_candidates_cannot_be_told_apart_with_fewer_users(epsilon: float, alpha: float, success: float) -> None:
    a = alpha * (1 + 1e-9)
    coins, spikes = [[(1 + a) / 2, (1 - a) / 2], [(1 - a) / 2, (1 + a) / 2]], [[1 - a, a, 0.0], [1 - a, 0.0, a]]
    bound = lower_selection(2, alpha=alpha, epsilon=epsilon, records_per_user=1, success=success).n_users
    assert bound is not None
    # Hard instances of the bound itself: the best selection of either needs no fewer users than the larger of the two
    # says.
    assert bound <= max(needed(coins, epsilon, success, 10), needed(spikes, epsilon, success, 6))


def test_three_candidates_cannot_be_told_apart_with_fewer_users() -> None:
    for alpha, epsilon, success in ((0.9, 1.0, 0.6), (0.5, 3.0, 0.5), (0.9, 3.0, 0.8)):
        spikes = [[1 - alpha if i == 0 else alpha if i == j else 0.0 for i in range(4)] for j in (1, 2, 3)]
        bound = lower_selection(3, alpha=alpha, epsilon=epsilon, records_per_user=1, success=success).n_users
        assert bound is not None
        assert 0 < bound <= needed(spikes, epsilon, success, 5)


def test_a_guess_is_never_excluded() -> None:
    for k in (1, 2, 7, 1000):
        given: dict[str, Any] = {"alpha": "0.01", "epsilon": "0.01", "records_per_user": 1}
        assert lower_selection(k, success=0.99 / k if k > 1 else 0.999, **given).n_users == 0


@pytest.mark.parametrize("k", [2, 3, 4, 5, 16])
def test_the_codes_exist(k: int) -> None:
    """Lexicographic codes of the length and distance used."""
    length = 2 * math.ceil(math.log2(k))
    distance = round(length / module._stretch(k))
    assert gilbert_varshamov(length, distance) >= k
    words: list[int] = []
    for word in range(1 << length):
        if all((word ^ other).bit_count() >= distance for other in words):
            words.append(word)
    assert len(words) >= k


def test_numbers_at_the_ends() -> None:
    given: dict[str, Any] = {"epsilon": 1, "records_per_user": 4}
    assert lower_selection(9, alpha="0.9999999999999", **given).n_users == 0  # nothing is further apart than 1
    tiny = lower_selection(9, alpha="1e-30", **given).n_users
    assert tiny is not None
    assert tiny > 1 << 60
    both = [
        lower_selection(64, alpha="0.1", neighbours=way, epsilon=epsilon, records_per_user=1).n_users
        for way, epsilon in (("replace", 2), ("add-remove", 1))
    ]
    assert both[0] == both[1]
    for wrong in (
        {"alpha": 0},
        {"alpha": 1},
        {"alpha": "1e-50"},
        {"candidates": 0},
        {"records_per_user": 0},
        {"epsilon": 0},
    ):
        asked: dict[str, Any] = {"candidates": 3, "alpha": "0.1", **given} | wrong
        with pytest.raises(ParameterError):
            lower_selection(asked.pop("candidates"), **asked)


def test_the_function_is_found_in_its_room_after_its_module_was_imported() -> None:
    assert privpac.bounds.lower_selection is lower_selection
