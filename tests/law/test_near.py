"""Drawing from step functions near the best score first: the draws of the whole law, coin by coin, also where the
filter cannot tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privpac.law import Law
from privpac.law.blocks import whole_law
from privpac.law.sampling import Filter, sample_steps
from privpac.testing import SeededRng, insecure_randomness

ETA = "1/10"


def steps(seed: int, spread: int, blocks: int = 200, end: int = (1 << 64) + 5) -> list[Any]:
    rng = np.random.default_rng(seed)
    out, offset = [], 0
    for _ in range(3):
        starts = np.unique(np.append(np.uint64(0), rng.integers(0, 1 << 64, blocks, dtype=np.uint64)))
        out.append((offset, starts, end, rng.integers(0, spread, len(starts)), int(rng.integers(0, 50))))
        offset += end + 1
    return out


def whole(parts: list[Any]) -> Law:
    return Law.from_steps([(offset, starts, end, scores + more) for offset, starts, end, scores, more in parts], ETA)


@pytest.mark.parametrize("spread", [1, 40, 3000, 10**6])
@pytest.mark.parametrize("fallback", [False, True])
def test_the_same_coins_draw_the_same_value(spread: int, fallback: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if fallback:
        monkeypatch.setattr(Filter, "accept", lambda self, u: None)
    for seed in range(3):
        parts = steps(seed, spread, 20 if fallback else 200)
        law = whole(parts)
        for coin in range(5 if fallback else 60):
            with insecure_randomness():
                assert sample_steps(parts, ETA, SeededRng(coin), lambda p=parts: whole_law(p, ETA)) == law.sample(
                    SeededRng(coin)
                )


def test_values_of_every_block_are_reached() -> None:
    """Blocks of few values and the last one beyond 2**64: all of the near ones come up, none of the far ones."""
    starts, scores = np.array([0, 3, 4, 6], dtype=np.uint64), np.array([0, 50_000, 1, 0])
    parts = [(0, starts, 7, scores, 0), (8, np.zeros(1, dtype=np.uint64), 1, np.array([0]), 2)]
    with insecure_randomness():
        rng = SeededRng(5)
        seen = {sample_steps(parts, ETA, rng, lambda: whole_law(parts, ETA)) for _ in range(400)}
    assert seen == {0, 1, 2, 4, 5, 6, 7, 8, 9}
