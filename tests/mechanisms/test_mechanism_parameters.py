"""Bad parameters of every mechanism, tried on purpose; and what is fixed before any data."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import attrs
import pytest

from privpac.errors import ParameterError
from privpac.mechanisms import (
    ChoosingMechanism,
    ExponentialMechanism,
    Laplace,
    RandomizedResponse,
    TruncatedLaplace,
    range_sensitivity,
)
from privpac.papers.noisy_min import NoisyMin
from privpac.papers.two_stage_choosing import TwoStageChoosing

GOOD: dict[Callable[..., Any], dict[str, Any]] = {
    ExponentialMechanism: {"epsilon": 1, "range_sensitivity": 2, "unit": "user", "neighbours": "replace"},
    NoisyMin: {"epsilon": 1, "range_sensitivity": 2, "unit": "user", "neighbours": "replace"},
    Laplace: {"epsilon": 1, "sensitivity": 2, "unit": "item", "neighbours": "add-remove"},
    TruncatedLaplace: {"epsilon": 1, "delta": "1e-6", "unit": "user", "neighbours": "replace"},
    RandomizedResponse: {"epsilon": 1, "k": 3, "unit": "user", "neighbours": "replace"},
    ChoosingMechanism: {"epsilon": 1, "delta": "1e-6", "growth": 2, "neighbours": "add-remove", "unit": "user"},
    TwoStageChoosing: {"epsilon": 1, "delta": "1e-6", "growth": 2, "neighbours": "add-remove", "unit": "user"},
}
MECHANISMS = list(GOOD)
ZERO_IS_UNIFORM = (ExponentialMechanism, NoisyMin, RandomizedResponse)


def build(mechanism: Callable[..., Any], **changes: Any) -> Any:
    return mechanism(**(GOOD[mechanism] | changes))


def holders(name: str) -> list[Callable[..., Any]]:
    return [mechanism for mechanism in MECHANISMS if name in GOOD[mechanism]]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (-1, ParameterError),
        ("-1/2", ParameterError),
        (float("nan"), ParameterError),
        (float("inf"), ParameterError),
        ("one", ParameterError),
        (10**30, ParameterError),
        (10_001, ParameterError),
        (True, TypeError),
        ([1], TypeError),
        (1j, TypeError),
    ],
)
def test_bad_epsilon(mechanism: Callable[..., Any], value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="epsilon"):
        build(mechanism, epsilon=value)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_zero_epsilon_only_where_a_law_remains(mechanism: Callable[..., Any]) -> None:
    if mechanism in ZERO_IS_UNIFORM:
        assert build(mechanism, epsilon=0).guarantee.epsilon == 0
    else:
        with pytest.raises(ParameterError, match="epsilon must be > 0"):
            build(mechanism, epsilon=0)


@pytest.mark.parametrize("mechanism", holders("delta"))
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, ParameterError),
        (1, ParameterError),
        (-1, ParameterError),
        (2, ParameterError),
        (float("nan"), ParameterError),
        (None, TypeError),
    ],
)
def test_bad_delta(mechanism: Callable[..., Any], value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="delta"):
        build(mechanism, delta=value)


@pytest.mark.parametrize("name", ["range_sensitivity", "sensitivity", "k", "growth"])
@pytest.mark.parametrize(
    ("value", "error"),
    [
        (0, ParameterError),
        (-3, ParameterError),
        (1.5, TypeError),
        (float("nan"), TypeError),
        ("2", TypeError),
        (True, TypeError),
        (None, TypeError),
    ],
)
def test_bad_integers(name: str, value: Any, error: type[Exception]) -> None:
    for mechanism in holders(name):
        with pytest.raises(error, match=name):
            build(mechanism, **{name: value})


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["unit", "neighbours"])
def test_tags_are_required_and_checked(mechanism: Callable[..., Any], name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        build(mechanism, **{name: "people"})
    with pytest.raises(TypeError, match=name):
        build(mechanism, **{name: None})
    with pytest.raises(TypeError, match=name):
        mechanism(**{key: value for key, value in GOOD[mechanism].items() if key != name})


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_parameters_are_exact_frozen_and_known_before_data(mechanism: Callable[..., Any]) -> None:
    built = build(mechanism, epsilon=0.1)
    assert built.epsilon == built.guarantee.epsilon == Fraction(1, 10)
    assert (built.guarantee.unit, built.guarantee.neighbours) == (
        GOOD[mechanism]["unit"],
        GOOD[mechanism]["neighbours"],
    )
    assert built == build(mechanism, epsilon="1/10")
    assert hash(built) == hash(build(mechanism, epsilon="1/10"))
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        built.epsilon = 2


def test_huge_integers_are_fine() -> None:
    assert build(ExponentialMechanism, range_sensitivity=10**30).sample([0, 5]) in (0, 1)
    assert build(NoisyMin, range_sensitivity=10**30).sample([0, 5]) in (0, 1)
    assert build(ChoosingMechanism, growth=10**30).law({"a": 1}).prob_exact("a") > 0
    assert build(RandomizedResponse, k=10**30).law(7).prob(7).lo > 0


def test_seeds_and_foreign_generators_are_refused() -> None:
    import random

    uses: list[Callable[[Any], Any]] = [
        lambda rng: build(ExponentialMechanism).sample([0, 1], rng),
        lambda rng: build(NoisyMin).sample([0, 1], rng),
        lambda rng: build(Laplace).sample(3, rng),
        lambda rng: build(TruncatedLaplace).sample(3, rng),
        lambda rng: build(RandomizedResponse).sample(1, rng),
        lambda rng: build(ChoosingMechanism).sample({"a": 1}, rng),
        lambda rng: build(TwoStageChoosing).sample({"a": 1}, rng),
    ]
    for use in uses:
        for rng in (7, random.Random(7)):
            with pytest.raises(TypeError, match="rng"):
                use(rng)
        use(None)


# Sensitivity


def test_range_sensitivity_halves_only_for_monotone_steps() -> None:
    assert range_sensitivity(3, False, "add-remove") == range_sensitivity(3, False, "replace") == 6
    assert range_sensitivity(3, True, "add-remove") == 3
    with pytest.raises(ParameterError, match="monotone"):
        range_sensitivity(3, True, "replace")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0, True, "add-remove"), ParameterError),
        ((-1, True, "add-remove"), ParameterError),
        ((1.0, True, "add-remove"), TypeError),
        ((1, 1, "add-remove"), TypeError),
        ((1, True, "swap"), ParameterError),
        ((1, True, None), TypeError),
    ],
)
def test_bad_sensitivities(arguments: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        range_sensitivity(*arguments)


def test_exponential_excess_covers_all_but_beta() -> None:
    mechanism = build(ExponentialMechanism)
    reach = mechanism.excess(100, "0.05")
    law = mechanism.law([0] + [reach + 1] * 99)
    assert 1 - law.prob(0).lo <= Fraction(5, 100)
    for size, beta in ((0, "0.1"), (10, 0), (10, 1), (10, float("nan"))):
        with pytest.raises(ParameterError):
            mechanism.excess(size, beta)
    with pytest.raises(ParameterError, match="eta"):
        build(ExponentialMechanism, epsilon=0).excess(10, "0.1")
