"""Negative binomial noise: the device's integer sampler, the urn, and the calibration against the literal double
sum."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from flint import arb
from scipy.stats import nbinom

from privpac.device.randomizers import Mass, sample_noise, sample_total
from privpac.errors import ParameterError
from privpac.exact import as_arb, precision
from privpac.protocols.calibrate import calibrate, delta_one, delta_two, noise_mass
from privpac.testing import SeededRng, WordRng, insecure_randomness

SHAPES = [
    (Fraction(1, 300), Fraction(29447, 65536)),
    (Fraction(45), Fraction(1, 2)),
    (Fraction(7, 3), Fraction(9, 10)),
    (Fraction(400), Fraction(3, 7)),
]


@pytest.mark.parametrize("shape", SHAPES, ids=["sliver", "whole", "steep", "many"])
def test_enclosures_hold_the_mass_and_are_narrow(shape: tuple[Fraction, Fraction]) -> None:
    x, p = shape
    with precision(2000):
        f = ((1 - as_arb(p)).log() * as_arb(x)).exp()
        for bits in (900, 1200):
            mass, value, total = Mass(x, p, bits), f, f
            for k in range(60):
                scaled = value * arb(2) ** bits
                assert arb(mass.f[0]) <= scaled <= arb(mass.f[1])
                assert arb(mass.sum[0]) <= total * arb(2) ** bits <= arb(mass.sum[1])
                assert mass.sum[1] - mass.sum[0] <= 1 << (bits - 128)
                value = value * as_arb(p * (k + x) / (k + 1))
                total += value
                mass.step(k)


def test_a_list_of_words_fixes_the_draw() -> None:
    # F(0) = (1/2)**1: the first bit of U decides between 0 and more.
    with insecure_randomness():
        for first, expected in ((0, 0), ((1 << 63) + 5, 1), ((3 << 62) + 5, 2)):
            assert sample_total(Fraction(1), Fraction(1, 2), WordRng([first] + [0] * 8)) == expected


@pytest.mark.parametrize("shape", SHAPES[1:3], ids=["whole", "steep"])
def test_draws_follow_the_law(shape: tuple[Fraction, Fraction]) -> None:
    x, p = shape
    with insecure_randomness():
        rng = SeededRng(7)
        drawn = np.array([sample_total(x, p, rng) for _ in range(2000)])
    for k in (int(nbinom.ppf(q, float(x), 1 - float(p))) for q in (0.1, 0.5, 0.9)):
        # Six standard deviations: false alarm below 2e-9 each.
        assert abs(np.mean(drawn <= k) - nbinom.cdf(k, float(x), 1 - float(p))) <= 6 * 0.5 / 2000**0.5


def _rising(x: Fraction, k: int) -> Fraction:
    out = Fraction(1)
    for i in range(k):
        out *= x + i
    return out


def test_the_urn_gives_independent_buckets() -> None:
    """Given the total, counts of independent NB(s, p) buckets are Dirichlet-multinomial; so is the urn, exactly."""
    buckets, s, total = 3, Fraction(1, 4), 4
    law: dict[tuple[int, ...], Fraction] = {}

    def grow(out: list[int], share: Fraction) -> None:
        if len(out) == total:
            key = tuple(out.count(b) for b in range(buckets))
            law[key] = law.get(key, Fraction(0)) + share
            return
        whole = buckets * s + len(out)
        for b in range(buckets):
            grow([*out, b], share * (buckets * s / whole / buckets + Fraction(out.count(b)) / whole))

    grow([], Fraction(1))
    norm = _rising(buckets * s, total)
    for counts in product(range(total + 1), repeat=buckets):
        if sum(counts) == total:
            expected, left = Fraction(1), total
            for c in counts:
                expected *= comb(left, c) * _rising(s, c)
                left -= c
            assert law[counts] == expected / norm


def test_noise_lands_in_the_buckets() -> None:
    with insecure_randomness():
        rng = SeededRng(3)
        drawn = [sample_noise(5, Fraction(1, 3), Fraction(1, 2), rng) for _ in range(600)]
    assert {b for out in drawn for b in out} == set(range(5))
    # Mean 5/3 messages, variance 10/3: six standard deviations of the average.
    assert abs(np.mean([len(out) for out in drawn]) - 5 / 3) <= 6 * (10 / 3 / 600) ** 0.5


@pytest.mark.parametrize(
    "wrong",
    [(Fraction(0), Fraction(1, 2)), (Fraction(1), Fraction(1)), (Fraction(1 << 30), Fraction(1, 2)), (1.0, 0.5)],
)
def test_bad_noise_is_refused(wrong: tuple[Fraction, Fraction]) -> None:
    with pytest.raises(ParameterError):
        sample_total(*wrong, WordRng([0] * 8))


# Calibration


@pytest.mark.parametrize(("r", "p", "epsilon"), [("5/2", "1/2", "1/2"), ("176/10", "76/100", "2"), ("6", "1/4", "1")])
def test_two_buckets_against_the_literal_double_sum(r: str, p: str, epsilon: str) -> None:
    last = 220
    with precision(256):
        f = [as_arb((b.lo + b.hi) / 2) for b in noise_mass(r, p, last)]
        factor, total = as_arb(Fraction(epsilon)).exp(), arb(0)
        for a in range(last):
            for b in range(last):
                gap = (f[a - 1] if a else arb(0)) * f[b] - factor * f[a] * (f[b - 1] if b else arb(0))
                total += gap if gap > 0 else arb(0)
        found = delta_two(r, p, epsilon)
        assert abs(float(found) - float(total)) <= 1e-9 * float(total)  # the double sum stops at 220
    assert found.lo <= found.hi


def test_calibration_is_the_least_on_its_grid() -> None:
    noise = calibrate("1/2", "1e-4")
    assert noise.delta == delta_two(noise.r, noise.p, "1/2").hi <= Fraction(1, 10**4)
    assert delta_two(noise.r - Fraction(1, 1 << 16), noise.p, "1/2").hi > Fraction(1, 10**4)


def test_more_noise_is_more_private() -> None:
    values = [delta_two(r, "1/2", 1).hi for r in (2, 4, 8, 16)]
    assert values == sorted(values, reverse=True)


def test_a_user_who_takes_noise_along_breaks_the_promise() -> None:
    """Negative control: with few users, removing one (message and noise) is far from private; only replace is
    stated."""
    n, noise = 5, calibrate("1/2", "1e-6")
    share = noise.r / n
    with_user, without = ([float(b) for b in noise_mass(r, noise.p, 400)] for r in (noise.r, noise.r - share))
    shifted = [0.0, *with_user[:-1]]
    gone = sum(max(0.0, a - np.exp(0.5) * b) for a, b in zip(without, shifted))
    assert gone > 1e-2
    assert delta_one(noise.r, noise.p, "1/2")[0].hi < Fraction(1, 100)


@pytest.mark.parametrize("wrong", ["0", "-1", "1", "nan"])
def test_bad_parameters(wrong: str) -> None:
    with pytest.raises(ParameterError):
        calibrate(1, wrong)
    with pytest.raises(ParameterError):
        delta_two(5, wrong, 1)
