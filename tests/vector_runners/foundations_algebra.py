"""Runner of the ``algebra`` section of ``foundations.json``: conversions, amplification and composition of guarantees.

Rationals are equal; a value named ``*_up`` is at least the printed one and at most that times ``1 + 2**-50``; the
optimal delta is printed with 40 digits, truncated, and ours is rounded up to 64 bits, so the same window applies.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from privpac.composition import compose_advanced, compose_basic, compose_optimal, compose_zcdp
from privpac.guarantee import Guarantee

__all__ = ["run_algebra"]

# The last printed digit of a truncated or rounded value may lie on either side of the true one.
_PRINTED = Fraction(1, 10**28)
_SLACK = Fraction(1, 2**50)


def _rounded_up(value: Fraction, printed: str) -> None:
    exact = Fraction(printed)
    assert exact * (1 - _PRINTED) <= value <= exact * (1 + _SLACK), f"{float(value)!r} is not {printed} rounded up"


def _base(case: dict[str, Any], neighbours: str) -> Guarantee:
    return Guarantee(case["epsilon"], case["delta"], unit="user", neighbours=neighbours)


def _group(case: dict[str, Any]) -> None:
    for neighbours in ("replace", "add-remove"):
        out = _base(case, neighbours).group(case["g"])
        assert out.epsilon == Fraction(case["out_epsilon"])
        assert out.neighbours == neighbours
        _rounded_up(out.delta, case["out_delta_up"])


def _to_replace(case: dict[str, Any]) -> None:
    out = _base(case, "add-remove").to_replace()
    assert out.epsilon == Fraction(case["out_epsilon"])
    assert out.neighbours == "replace"
    _rounded_up(out.delta, case["out_delta_up"])


def _subsample(case: dict[str, Any]) -> None:
    for scheme, neighbours in (("without-replacement", "replace"), ("poisson", "add-remove")):
        out = _base(case, neighbours).subsample(case["q"], scheme)
        _rounded_up(out.epsilon, case["out_epsilon_up"])
        assert out.delta == Fraction(case["out_delta"])


def _compose(case: dict[str, Any]) -> None:
    parts = [Guarantee(e, unit="user", neighbours="replace") for e in case["epsilons"]]
    assert compose_basic(parts).epsilon == Fraction(case["basic_epsilon"])
    _rounded_up(compose_advanced(parts, case["delta_slack"]).epsilon, case["advanced_epsilon_up"])
    _rounded_up(compose_zcdp(parts, case["delta_slack"]).epsilon, case["filter_epsilon_up"])
    assert max(
        compose_advanced(parts, case["delta_slack"]).delta, compose_zcdp(parts, case["delta_slack"]).delta
    ) <= Fraction(case["delta_slack"])


def _optimal(case: dict[str, Any]) -> None:
    parts = [Guarantee(case["eps"], unit="user", neighbours="replace")] * case["k"]
    _rounded_up(compose_optimal(parts, case["at_epsilon"]), case["delta"])


_RUNNERS: dict[str, Callable[[dict[str, Any]], None]] = {
    "group": _group,
    "add-remove->replace": _to_replace,
    "subsample": _subsample,
    "compose": _compose,
    "optimal-homogeneous": _optimal,
}


def run_algebra(case: dict[str, Any]) -> None:
    """Assert that the library reproduces one case; an operation without a runner is an error, not a pass."""
    _RUNNERS[case["op"]](case)
