"""The law of a walk, tails included, against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from privpac.methods.regret import walks

shares = st.fractions(min_value=0, max_value=1, max_denominator=50)


def exact_law(m: int, plus: Fraction, minus: Fraction) -> dict[int, Fraction]:
    law = {0: Fraction(1)}
    for _ in range(m):
        grown: dict[int, Fraction] = {}
        for w, p in law.items():
            for step, share in ((1, plus), (-1, minus), (0, 1 - plus - minus)):
                grown[w + step] = grown.get(w + step, Fraction(0)) + p * share
        law = grown
    return law


@given(st.integers(1, 12), shares, shares)
@settings(max_examples=60)
def test_walk_law_is_accurate_relative_to_each_probability(m: int, plus: Fraction, minus: Fraction) -> None:
    if plus + minus > 1:
        plus, minus = 1 - plus, 1 - minus
    law = walks(m, np.array([float(plus)]), np.array([float(minus)]))
    exact = exact_law(m, plus, minus)
    for w in range(-m, m + 1):
        found = law.up[0, w] if w >= 0 else law.down[0, -w - 1]
        p = exact.get(w, Fraction(0))
        assert math.isclose(math.exp(found), float(p), rel_tol=1e-10 if plus + minus < 1 else 1e-9, abs_tol=1e-11)


def test_tails_do_not_underflow_and_sum_to_one() -> None:
    law = walks(2000, np.array([0.02]), np.array([0.001]))
    assert np.isfinite(law.up).all()
    assert np.isfinite(law.down).all()
    assert law.down[0, -1] < -10_000
    assert math.isclose(float(np.exp(law.up).sum() + np.exp(law.down).sum()), 1.0, rel_tol=1e-12)
    assert math.isclose(law.down[0, -1], 2000 * math.log(0.001), rel_tol=1e-9)
