"""The statistical audit: leaks are caught, true claims are not refuted, and the bound is what the binomial law says.

Confidence is 1 - 1e-7 wherever a true claim must stand, so such a test fails by chance with probability below 1e-6;
mechanisms draw from seeded generators, so a run that passes once passes always.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from math import comb, exp, inf, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.auditing import StatisticalAudit, audit_statistical, detectable
from privpac.auditing.statistical import MAX_RUNS, _bounds, choose, clopper_pearson, read_output
from privpac.errors import ParameterError, TooLargeError
from privpac.rng import Rng
from privpac.testing import SeededRng, insecure_randomness

SURE = "0.9999999"


def laplace(scale: float, seed: int = 1) -> Callable[[Any], float]:
    rng = np.random.default_rng(seed)
    return lambda data: sum(data) + rng.laplace(0, scale)


def geometric(epsilon: float, seed: int = 1) -> Callable[[Any], int]:
    rng, p = np.random.default_rng(seed), 1 - exp(-epsilon)
    return lambda data: int(sum(data) + rng.geometric(p) - rng.geometric(p))


# The bound


@given(st.integers(1, 60), st.data(), st.sampled_from([0.3, 0.025, 1e-4, 1e-8]))
def test_clopper_pearson_is_wrong_no_more_often_than_it_says(trials: int, data: st.DataObject, tail: float) -> None:
    hits = data.draw(st.integers(0, trials))
    low, high = (float(x) for x in clopper_pearson(hits, trials, tail))
    assert 0 <= low <= hits / trials <= high <= 1

    def chance(counts: range, p: float) -> float:
        return sum(comb(trials, i) * p**i * (1 - p) ** (trials - i) for i in counts)

    # At the ends the observed count is just as unlikely as the tail allows, and not much less.
    if hits > 0:
        assert tail * 0.999 <= chance(range(hits, trials + 1), low) <= tail
    if hits < trials:
        below = chance(range(hits + 1), high)
        assert below <= tail
        assert below >= tail * 0.999 or high > 0.99


def test_bounds_cover_the_truth_as_often_as_promised() -> None:
    """All counts of 40 runs at p = 0.3: the bounds miss with exact probability at most ``tail`` each."""
    low, high = clopper_pearson(np.arange(41), 40, 0.05)
    law = np.array([comb(40, k) * 0.3**k * 0.7 ** (40 - k) for k in range(41)])
    assert law[low > 0.3].sum() <= 0.05
    assert law[high < 0.3].sum() <= 0.05


def test_detectable_is_what_a_perfect_leak_gives() -> None:
    found = audit_statistical(sum, [((1,), ())], neighbours="add-remove", runs=2000, epsilon=3)
    assert found.epsilon_lower == found.detectable == detectable(1000, "0.999")
    assert detectable(1000, "0.999") < detectable(10_000, "0.999")
    assert detectable(1000, "0.999", "0.5") < detectable(1000, "0.999")


# Leaks are caught


@pytest.mark.parametrize("mechanism", [laplace(1.0), geometric(1.0)], ids=["laplace", "geometric"])
def test_noise_calibrated_for_add_remove_is_caught_under_replace(mechanism: Callable[[Any], Any]) -> None:
    """Values in -1..1: removing one moves the sum by 1, replacing one by 2."""
    claim: dict[str, Any] = {"epsilon": 1, "runs": 20_000, "confidence": SURE}
    leaky = audit_statistical(mechanism, [((0, 1), (0, -1))], neighbours="replace", **claim)
    assert leaky.verdict == "violates the claim"
    assert not leaky
    assert 1 < leaky.epsilon_lower <= 2
    fair = audit_statistical(mechanism, [((0, 1), (0,)), ((0, -1), (0,))], neighbours="add-remove", **claim)
    assert fair.verdict == "consistent with the claim"
    assert fair
    assert 0.7 < fair.epsilon_lower <= 1


def test_the_worst_pair_is_found_and_printed() -> None:
    pairs = [((0, 1), (0, 0)), ((0, 3), (0, 0)), ((1, 1), (0, 1))]
    found = audit_statistical(laplace(1.0), pairs, neighbours="replace", epsilon=1, runs=8000, confidence=SURE)
    assert set(found.worst) == {(0, 3), (0, 0)}
    assert "(0, 3)" in found.explain()
    assert "violates" in found.explain()
    assert found.pairs == 3


def test_a_rare_output_that_only_one_side_has_is_caught_beyond_delta() -> None:
    rng = np.random.default_rng(5)

    def shames(data: tuple[int, ...]) -> str:
        return f"found {data[0]}" if data and rng.random() < 0.02 else "nothing"

    claim: dict[str, Any] = {"neighbours": "add-remove", "epsilon": 1, "runs": 40_000, "confidence": SURE}
    assert not audit_statistical(shames, [((7,), ())], delta="1e-3", **claim)
    found = audit_statistical(shames, [((7,), ())], delta="1e-3", **claim)
    assert found.event == "the output is found 7"
    assert found.hits[1] == 0
    assert audit_statistical(shames, [((7,), ())], delta="0.03", **claim)


def test_a_leak_in_one_coordinate_is_found() -> None:
    rng = np.random.default_rng(6)

    def mechanism(data: tuple[int, ...]) -> Any:
        return np.array([rng.random(), sum(data) + rng.laplace(0, 0.2), rng.random()])

    found = audit_statistical(mechanism, [((1,), (0,))], neighbours="replace", epsilon=1, runs=4000, confidence=SURE)
    assert not found
    assert found.event.startswith("coordinate 1 is")


def test_an_exception_is_an_output() -> None:
    def fails(data: tuple[int, ...]) -> int:
        if sum(data) > 1:
            raise OverflowError("too many")
        return 0

    found = audit_statistical(fails, [((1, 1), (1, 0))], neighbours="replace", epsilon=1, runs=400)
    assert not found
    assert "raised OverflowError" in {label for label, _, _ in found.cells}


def test_noise_from_the_given_generator_is_used() -> None:
    def respond(data: tuple[int, ...], rng: Rng) -> int:
        return data[0] if rng.below(4) else 1 - data[0]

    with insecure_randomness():
        told: dict[str, Any] = {"neighbours": "replace", "runs": 20_000, "confidence": SURE}
        found = audit_statistical(respond, [((0,), (1,))], rng=SeededRng(3), epsilon=Fraction(11, 10), **told)
        again = audit_statistical(respond, [((0,), (1,))], rng=SeededRng(3), epsilon=Fraction(11, 10), **told)
    assert found == again
    assert found.holds
    assert 0.9 < found.epsilon_lower <= log(3)


# True claims stand


@settings(max_examples=15, deadline=None)
@given(st.floats(0.2, 3), st.integers(0, 10**6))
def test_randomised_response_is_never_charged_more_than_its_epsilon(epsilon: float, seed: int) -> None:
    rng, keep = np.random.default_rng(seed), exp(epsilon) / (1 + exp(epsilon))

    def mechanism(data: tuple[int, ...]) -> int:
        return data[0] ^ int(rng.random() > keep)

    claim: dict[str, Any] = {
        "neighbours": "replace",
        "epsilon": round(epsilon + 1e-6, 9),
        "runs": 1000,
        "confidence": "0.99999999",
    }
    assert audit_statistical(mechanism, [((0,), (1,))], **claim)


def test_looking_at_many_pairs_and_events_raises_no_false_alarm() -> None:
    """Pure noise with 40 outcomes on 3 pairs, 100 audits at confidence 0.9: more than 35 false alarms have probability
    below 1e-9.

    The best of many events flatters itself on the runs that chose it, in nearly every audit; fresh runs do not.
    """
    rng = np.random.default_rng(11)
    pairs = [((0,), (1,)), ((0,), (2,)), ((1,), (2,))]
    flattered, alarms = 0, 0

    def noise(_: Any) -> int:
        return int(rng.integers(40))

    for _ in range(100):
        seen: list[Counter[Any]] = [Counter(noise(()) for _ in range(200)) for _ in range(3)]
        chosen = choose(seen, [(0, 1), (0, 2), (1, 2)], lambda here, there: _bounds(here, there, 200, 0.05, 0.0))
        flattered += chosen.bound > 0
        alarms += not audit_statistical(noise, pairs, neighbours="replace", epsilon=0, runs=400, confidence="0.9")
    assert flattered > 90
    assert alarms <= 35


# Outputs


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (np.int64(3), 3),
        (np.array([1.5, 2.0]), (1.5, 2.0)),
        ([1, [2, 3]], (1, (2, 3))),
        ({1, 2}, frozenset({1, 2})),
        (float("nan"), "nan"),
        (Decimal("0.5"), Fraction(1, 2)),
        (None, None),
        ("text", "text"),
        (inf, inf),
    ],
    ids=["numpy", "array", "nested", "set", "nan", "decimal", "none", "text", "inf"],
)
def test_outputs_of_many_kinds_are_read(value: Any, read: Any) -> None:
    assert read_output(value) == read


def test_an_output_that_cannot_be_counted_is_refused_with_the_way_out() -> None:
    with pytest.raises(TypeError, match="output="):
        audit_statistical(lambda data: {"n": len(data)}, [((1,), ())], neighbours="add-remove", runs=100)
    found = audit_statistical(
        lambda data: {"n": len(data)}, [((1,), ())], neighbours="add-remove", runs=100, output=lambda out: out["n"]
    )
    assert found.epsilon_lower > 1


@given(
    st.lists(st.one_of(st.floats(), st.integers(), st.text(max_size=2)), min_size=1, max_size=200),
    st.floats(),
    st.text(),
)
def test_every_output_has_one_cell_seen_or_not(values: list[Any], number: float, text: str) -> None:
    seen = [Counter(map(read_output, values)), Counter(map(read_output, values[:1] * len(values)))]
    chosen = choose(seen, [(0, 1)], lambda here, there: (here - there).astype(float))
    view = chosen.view
    for value in (*values, number, text, None, (1, 2)):
        assert 0 <= view.cell(read_output(value)) < view.size
    assert view.counts(seen[0]).sum() == len(values)
    assert sum(map(len, view.groups())) == view.size
    assert chosen.words.startswith(view.name)


def test_datasets_of_any_type_can_be_a_pair() -> None:
    x, y = np.array([[1.0, 2.0]]), np.array([[1.0, 3.0]])
    found = audit_statistical(lambda data: float(data.sum()), [(x, y)], neighbours="replace", epsilon=1, runs=100)
    assert isinstance(found, StatisticalAudit)
    assert not found
    assert {id(data) for data in found.worst} == {id(x), id(y)}


# Other libraries


def test_a_mechanism_of_opendp_is_audited() -> None:
    dp: Any = pytest.importorskip("opendp.prelude", reason="opendp is not installed")
    dp.enable_features("contrib")
    space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    noise = (
        dp.m.make_geometric(*space, scale=1.0)
        if hasattr(dp.m, "make_geometric")
        else dp.m.make_laplace(*space, scale=1.0)
    )
    claim: dict[str, Any] = {"epsilon": 1, "confidence": SURE}
    assert audit_statistical(lambda data: noise(sum(data)), [((1,), ())], neighbours="add-remove", runs=1000, **claim)
    assert not audit_statistical(
        lambda data: noise(sum(data)), [((1,), (-1,))], neighbours="replace", runs=4000, **claim
    )


def test_a_mechanism_of_diffprivlib_is_audited() -> None:
    mechanisms: Any = pytest.importorskip("diffprivlib.mechanisms", reason="diffprivlib is not installed")
    noise = mechanisms.Laplace(epsilon=1, sensitivity=1)
    claim: dict[str, Any] = {"epsilon": 1, "runs": 6000, "confidence": SURE}
    assert audit_statistical(lambda data: noise.randomise(sum(data)), [((1,), ())], neighbours="add-remove", **claim)
    assert not audit_statistical(
        lambda data: noise.randomise(sum(data)), [((1,), (-1,))], neighbours="replace", **claim
    )


# Bad input


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"epsilon": -1}, ParameterError),
        ({"epsilon": float("nan")}, ParameterError),
        ({"delta": 1}, ParameterError),
        ({"delta": -1}, ParameterError),
        ({"runs": 0}, ParameterError),
        ({"runs": 1e4}, TypeError),
        ({"runs": MAX_RUNS + 1}, ParameterError),
        ({"runs": MAX_RUNS}, TooLargeError),
        ({"confidence": 1}, ParameterError),
        ({"confidence": 0}, ParameterError),
        ({"neighbours": "swap"}, ParameterError),
        ({"rng": np.random.default_rng(1)}, TypeError),
        ({"pairs": []}, ParameterError),
        ({"pairs": [(1, 2, 3)]}, TypeError),
        ({"mechanism": 3}, TypeError),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value.__name__,
)
def test_bad_input_is_refused(change: dict[str, Any], error: type[Exception]) -> None:
    good: dict[str, Any] = {"mechanism": sum, "pairs": [((1,), ())], "neighbours": "add-remove", "runs": 100}
    with pytest.raises(error):
        audit_statistical(**{**good, **change})


def test_a_mechanism_that_always_fails_is_no_evidence() -> None:
    def fails(data: Any) -> int:
        raise ValueError("needs a frame")

    with pytest.raises(ParameterError, match="needs a frame"):
        audit_statistical(fails, [((1,), ())], neighbours="add-remove", runs=100)
