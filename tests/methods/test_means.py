"""Means of crowds: exact steps, weights by definition, releases close to the truth, and honest silence."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.data import Categories, Floats, Grid, Integers, UserData
from privpac.errors import (
    IncompatibleGuarantees,
    InfeasibleError,
    ModelFileError,
    ParameterError,
    SchemaError,
    TooLargeError,
)
from privpac.methods import FriendlyMean, MeanVector, TrimmedMean
from privpac.methods.means import MAX_USERS, friendly_sensitivity, friends
from privpac.result import NoRelease, Released
from privpac.testing import SeededRng, insecure_randomness


def people(users: Any, **features: Any) -> UserData:
    return UserData.from_users(users, features=features or {"x": Integers(0, 100)}, labelled=False)


# Steps


@given(st.lists(st.lists(st.integers(0, (1 << 64) - 1), max_size=4), min_size=1, max_size=5), st.integers(1, 1000))
@settings(deadline=None, max_examples=60)
def test_means_are_rounded_in_exact_integers(users: list[list[int]], levels: int) -> None:
    learner = TrimmedMean(1, "0.1", width=1, levels=levels, ladder=0, trim=1)
    bound = super(TrimmedMean, learner).bind(people(users, x=Integers(0, (1 << 64) - 1)))
    expected = [
        levels // 2 if not user else int(Fraction(levels * sum(user), len(user) * ((1 << 64) - 1)) + Fraction(1, 2))
        for user in users
    ]
    assert learner.vectors(bound)[:, 0].tolist() == expected


def test_steps_go_back_to_values() -> None:
    learner = TrimmedMean(1, "0.1", width=1, levels=10, ladder=0, trim=1)
    bound = learner.bind(people([[0.5]] * 3, x=Grid(-1, 1, 0.5)))
    assert learner.published(bound, [Fraction(10)]).values == (1,)
    assert learner.published(bound, [Fraction(5, 2)])["x"] == -0.5


# Trimmed means


def test_a_trimmed_mean_is_close_and_ignores_a_few_outliers() -> None:
    users = [[40 + i % 3, 42] for i in range(200)] + [[0], [100], []]
    with insecure_randomness():
        found = TrimmedMean(8, "1e-4", width=5, levels=500).learn(people(users), rng=SeededRng(1))
    assert found.outcome == "released"
    assert abs(found.value["x"] - 41.5) < 0.3
    assert "mean of x = 41" in str(found)
    assert Released.from_json(found.to_json()) == found


def test_two_columns_share_the_noise_and_either_can_silence_both() -> None:
    features = {"a": Integers(0, 9), "b": Integers(0, 90)}
    learner = TrimmedMean(8, "1e-3", width={"a": 1, "b": 5}, levels=90, share="1/2")
    calm = people([[(4, 50)]] * 60, **features)
    wild = people([[(4, 0)], [(4, 90)]] * 30, **features)
    assert learner.widths(learner.bind(calm)) == [11, 6]
    with insecure_randomness():
        some, none = learner.learn(calm, rng=SeededRng(1)), learner.learn(wild, rng=SeededRng(1))
    assert some.value.features == ("a", "b")
    assert none.value is NoRelease
    assert none.parameters == some.parameters
    with pytest.raises(ParameterError, match="no entry for column 'b'"):
        TrimmedMean(8, "1e-3", width={"a": 1}).bind(calm)


def test_laws_of_several_columns_are_products() -> None:
    learner = TrimmedMean(6, "0.1", width=1, levels=1, ladder=0, trim=1)
    law = learner.law(people([[(1, 0, 1)]] * 3, a=Integers(0, 1), b=Integers(0, 1), c=Integers(0, 1)))
    assert max([(1, 0, 1), (0, 0, 0), (1, 1, 1)], key=law.prob_float) == (1, 0, 1)


# Friendly means


@given(st.integers(0, 10**6), st.sampled_from(["l1", "l2", "linf"]))
@settings(deadline=None, max_examples=60)
def test_friends_are_the_definition(seed: int, norm: str) -> None:
    rng = random.Random(seed)
    n, ladder, width = rng.randrange(4, 12), rng.randrange(1, 3), Fraction(rng.randrange(0, 9), 2)
    crowd = rng.randrange(ladder, ladder + 3)
    vectors = [tuple(rng.choice([0, 1, 1, 2, 5]) for _ in range(3)) for _ in range(n)]

    def apart(u: Any, v: Any) -> Any:
        gaps = [abs(a - b) for a, b in zip(u, v)]
        return {"l1": sum(gaps), "l2": sqrt(sum(g * g for g in gaps)), "linf": max(gaps)}[norm]

    degrees = [sum(apart(u, v) > float(width) for v in vectors) for u in vectors]
    weights = [min(crowd, max(0, 2 * crowd - degree)) for degree in degrees]
    found = friends(np.array(vectors), width, ladder, crowd, norm)
    assert found.degrees.tolist() == degrees
    assert found.weights.tolist() == weights
    assert found.distance == next(
        (j for j in range(ladder + 1) if sum(degree > crowd - (ladder - j) for degree in degrees) <= j), ladder + 1
    )
    if sum(weights):
        assert found.mean == tuple(
            Fraction(sum(w * v[c] for w, v in zip(weights, vectors)), sum(weights)) for c in range(3)
        )
    else:
        assert found.mean is None


@given(st.integers(0, 10**6))
@settings(deadline=None, max_examples=80)
def test_a_replaced_user_moves_the_mean_by_no_more_than_the_sensitivity(seed: int) -> None:
    rng = random.Random(seed)
    ladder = rng.randrange(1, 3)
    crowd = rng.randrange(ladder, ladder + 2)
    n, width = 4 * crowd + rng.randrange(3), rng.randrange(1, 4)
    vectors = [[rng.randrange(3), rng.randrange(3)] if rng.random() < 0.9 else [9, 9] for _ in range(n)]
    found = []
    for own in ([0, 0], [2, 2], [9, 9], [4, 0]):
        found.append(friends(np.array([*vectors[:-1], own]), width, ladder, crowd))
    bound = friendly_sensitivity(Fraction(width), n, ladder, crowd)
    for x, y in combinations(found, 2):
        assert abs(x.distance - y.distance) <= 1
        if max(x.distance, y.distance) <= ladder:
            assert x.mean is not None
            assert y.mean is not None
            assert sum((a - b) ** 2 for a, b in zip(x.mean, y.mean)) <= bound**2


def test_a_friendly_mean_is_close_in_several_columns() -> None:
    rng = np.random.default_rng(2)
    rows = rng.integers(40, 60, (150, 4, 3)).tolist()
    data = people(
        [[tuple(record) for record in user] for user in rows],
        a=Integers(0, 100),
        b=Integers(0, 100),
        c=Integers(0, 100),
    )
    learner = FriendlyMean(8, "1e-3", width="0.4", levels=1000)
    with insecure_randomness():
        found = learner.learn(data, rng=SeededRng(1))
        spread_out = people(
            [[(0, 0, 0)], [(99, 99, 99)]] * 75, a=Integers(0, 100), b=Integers(0, 100), c=Integers(0, 100)
        )
        none = learner.learn(spread_out, rng=SeededRng(1))
    assert found.outcome == "released"
    assert all(abs(found.value[name] - 49.5) < 4 for name in "abc")
    assert none.outcome == "none"
    assert set(none.parameters) == set(found.parameters)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_released_grid_moves_as_promised(norm: str, d: int) -> None:
    """``S >= factor * Delta / g + d`` up to its rounding down, the factor being the norm's distance from L1."""
    learner = FriendlyMean(2, "0.1", width="0.2", levels=50, ladder=1, norm=norm)
    moved, (g, total) = learner.sensitivity(20, d), learner.grid(20, d)
    factor = {"l1": 1, "l2": sqrt(d), "linf": d}[norm]
    assert total == int(factor * float(moved / g) + 1e-9) + d


# Files and bad input


def test_mean_vectors_are_saved_and_damaged_files_refused() -> None:
    vector = MeanVector(("a",), (Fraction(1, 3),))
    saved = Released(vector, None).to_json()
    assert Released.from_json(saved).value == vector
    with pytest.raises(ModelFileError):
        Released.from_json(saved.replace('"a"', '"a", "b"'))
    with pytest.raises(ParameterError):
        MeanVector(("a", "b"), (Fraction(1),))


def test_public_failures_come_before_any_data_are_read() -> None:
    small = people([[1]] * 10)
    with pytest.raises(InfeasibleError, match="needs more than"):
        TrimmedMean(1, "1e-6", width=1).bind(small)
    with pytest.raises(InfeasibleError, match="needs at least"):
        FriendlyMean(1, "1e-6", width=1).bind(small)
    with pytest.raises(TooLargeError, match="TrimmedMean"):
        FriendlyMean(1, "1e-6", width=1, ladder=1).bind(people([[1]] * (MAX_USERS + 1)))
    for odd in (Categories(["a", "b"]), Floats()):
        with pytest.raises(ParameterError, match="evenly spaced"):
            TrimmedMean(8, "0.1", width=1).bind(people([["a"] if isinstance(odd, Categories) else [1.0]] * 9, x=odd))
    with pytest.raises(SchemaError, match="not among the features"):
        TrimmedMean(8, "0.1", width=1, features="y").bind(small)
    with pytest.raises(IncompatibleGuarantees):
        TrimmedMean(8, "0.1", width=1, unit="item").bind(small)
    with pytest.raises(TypeError, match="UserData"):
        TrimmedMean(8, "0.1", width=1).learn([1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "changes", "match"),
    [
        (TrimmedMean, {"width": 0}, "width"),
        (TrimmedMean, {"width": float("nan")}, "width"),
        (TrimmedMean, {"delta": 0}, "delta"),
        (TrimmedMean, {"ladder": 3, "trim": 3}, "trim must exceed"),
        (TrimmedMean, {"levels": 0}, "levels"),
        (TrimmedMean, {"features": []}, "features"),
        (TrimmedMean, {"max_records": 0}, "max_records"),
        (TrimmedMean, {"neighbours": "add-remove"}, "slots"),
        (FriendlyMean, {"ladder": 0}, "ladder"),
        (FriendlyMean, {"ladder": 3, "crowd": 2}, "crowd"),
        (FriendlyMean, {"norm": "l3"}, "norm"),
        (FriendlyMean, {"spacing": 0}, "spacing"),
        (FriendlyMean, {"share": 0}, "share"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value)[:24],
)
def test_bad_parameters_are_refused(kind: Any, changes: dict[str, Any], match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        kind(**({"epsilon": 1, "delta": "0.1", "width": 1} | changes))
