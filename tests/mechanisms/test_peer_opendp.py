"""Cross-checks against OpenDP's samplers (an extra; skipped by name where it is not installed).

Their draws, which cannot be seeded, are tested against our exact laws by chi-square: each test raises a false alarm
with probability 1e-7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from scipy.stats import chi2

from privpac.law import Law
from privpac.mechanisms import ExponentialMechanism, Laplace
from privpac.papers.noisy_min import NoisyMin

dp: Any = pytest.importorskip("opendp.prelude", reason="opendp is not installed")
DRAWS = 5000


def agrees(drawn: Iterable[int], law: Law, values: range) -> bool:
    counts = Counter(drawn)
    expected = {v: DRAWS * float(law.prob(v)) for v in values}
    assert min(expected.values()) >= 5
    assert set(counts) <= set(values)
    return bool(chi2.sf(sum((counts[v] - e) ** 2 / e for v, e in expected.items()), len(values) - 1) > 1e-7)


def test_laplace_draws_follow_our_law() -> None:
    dp.enable_features("contrib")
    peer = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale=2.0)
    law = Laplace("1/2", 1, unit="user", neighbours="add-remove").law(3, bounds=(-3, 9))
    assert agrees((min(max(peer(3), -3), 9) for _ in range(DRAWS)), law, range(-3, 10))


@pytest.mark.parametrize(
    ("measure", "mechanism", "other"),
    [("max", NoisyMin, ExponentialMechanism), ("zcdp", ExponentialMechanism, NoisyMin)],
)
def test_noisy_min_draws_follow_our_laws(measure: str, mechanism: Any, other: Any) -> None:
    """Permute-and-flip for pure privacy, the exponential mechanism for zCDP; each is told apart from the other."""
    dp.enable_features("contrib")
    output = dp.max_divergence() if measure == "max" else dp.zero_concentrated_divergence()
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.linf_distance(T=int)
    peer = dp.m.make_noisy_max(*space, output, scale=2.0, negate=True)
    scores = [0, 3, 3, 3]  # 5000 draws tell the two laws apart by seven standard deviations
    drawn = [peer(scores) for _ in range(DRAWS)]
    assert agrees(drawn, mechanism("1/2", 1, unit="user", neighbours="add-remove").law(scores), range(4))
    assert not agrees(drawn, other("1/2", 1, unit="user", neighbours="add-remove").law(scores), range(4))
