"""Runners of the mechanism sections of ``foundations.json``; each takes one entry and asserts.

Printed probabilities are truncated towards zero, so ours (rigorous balls) must lie within 1e-38 of them, relative.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from privpac.exact import Ball
from privpac.law import BOTTOM
from privpac.mechanisms import Laplace, RandomizedResponse, TruncatedLaplace
from privpac.papers.noisy_min import NoisyMin
from privpac.papers.two_stage_choosing import TwoStageChoosing

__all__ = ["run_choosing_two_stage", "run_clamped_laplace", "run_krr", "run_permute_and_flip", "run_tdlap"]

_PRINTED = Fraction(1, 10**38)


def _close(ball: Ball, printed: str, times: int = 1) -> None:
    exact = Fraction(printed)
    for end in (ball.lo * times, ball.hi * times):
        assert abs(end - exact) <= exact * _PRINTED, f"{float(end)!r} is not {printed}"


def run_permute_and_flip(case: dict[str, Any]) -> None:
    """Mass of every labelled block under the noisy minimum."""
    choice = NoisyMin(case["eta"], 1, unit="user", neighbours="add-remove")
    law = choice.law(case["scores"], counts=case["mult"])
    for i, (printed, count) in enumerate(zip(case["block_prob"], case["mult"], strict=True)):
        assert all(law.prob((i, at)) == law.prob((i, 0)) for at in range(count))
        _close(law.prob((i, 0)), printed, count)


def run_clamped_laplace(case: dict[str, Any]) -> None:
    """The noisy value clamped to ``lo..hi``."""
    lo, hi = case["lo"], case["hi"]
    law = Laplace(case["eta"], 1, unit="user", neighbours="add-remove").law(case["value"], bounds=(lo, hi))
    for k, printed in zip(range(lo, hi + 1), case["prob"], strict=True):
        _close(law.prob(k), printed)


def run_tdlap(case: dict[str, Any]) -> None:
    """The least half-width and the mass that falls out, there and one below."""
    noise = TruncatedLaplace(case["eps"], case["delta"], unit="user", neighbours="replace")
    assert noise.kappa == case["smallest_kappa"]
    _close(noise.edge(), case["p0"])
    _close(noise.law().prob(0), case["p0"])
    if case["p0_kappa_minus_1"] is None:
        assert noise.kappa == 1
    else:
        _close(noise.edge(noise.kappa - 1), case["p0_kappa_minus_1"])


def run_krr(case: dict[str, Any]) -> None:
    """Both probabilities of randomised response, from every true value."""
    answer = RandomizedResponse(case["eps"], case["k"], unit="user", neighbours="replace")
    for true in range(case["k"]):
        law = answer.law(true)
        for reported in range(case["k"]):
            _close(law.prob(reported), case["p_true" if reported == true else "p_other"])


def run_choosing_two_stage(case: dict[str, Any]) -> None:
    """The test-then-select law at given rates and threshold, and its exact delta."""
    delta = Fraction(case["delta_star"]) * (1 + _PRINTED)
    choose = TwoStageChoosing(
        case["epsilon"],
        delta,
        case["k"],
        "add-remove",
        unit="user",
        epsilon1=case["eps1"],
        eta2=case["eta2"],
        T=case["T"],
    )
    law = choose.law(case["scores_maximised"])
    for candidate, printed in enumerate(case["prob"]):
        _close(law.prob(candidate), printed)
    _close(law.prob(BOTTOM), case["prob_bot"])
    _close(choose.delta_star(), case["delta_star"])
    assert choose.worst_count() == case["argmax_m"]
    assert choose.guarantee.epsilon == Fraction(case["epsilon"])
