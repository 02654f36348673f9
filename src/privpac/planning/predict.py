"""What a learner is predicted to do on a stated model: the exact law on simulated data, never the mechanism's own draws.

The standard model for cut-offs: x uniform on the domain, the best cut in its middle, every label wrong with probability
``noise``.  A prediction is not a certificate: it holds for the model it names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privpac.concepts.thresholds import Thresholds
from privpac.data import Integers, UserData
from privpac.guarantee import positive_int
from privpac.law.blocks import BlockLaw

__all__ = ["Prediction", "predict_excess", "uniform_noisy_users"]

POINTS = 1 << 20
"""Simulated codes; the law over a larger domain has the same blocks, only wider."""


@dataclass(frozen=True)
class Prediction:
    """Mean excess error over simulated data sets, with its Monte-Carlo error."""

    excess: float
    error: float
    model: str

    def __str__(self) -> str:
        return f"predicted excess error {self.excess:.4f} ± {self.error:.4f} ({self.model})"


def uniform_noisy_users(n_users: int, records_per_user: int, noise: float, rng: np.random.Generator) -> UserData:
    """Users of the standard model on ``POINTS`` codes."""
    x = rng.integers(0, POINTS, n_users * records_per_user)
    y = (x >= POINTS // 2) ^ (rng.random(len(x)) < noise)
    ids = np.repeat(np.arange(n_users), records_per_user)
    return UserData.from_arrays(x[:, None], y, ids, features={"x": Integers(0, POINTS - 1)})


def _block_table(law: BlockLaw) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """First cut, last cut and probability of each block, as doubles."""
    cells = [(cell.start, cell.stop - 1, score) for cell, score in law.blocks if isinstance(cell, range)]
    table = np.array(cells, dtype=np.float64)
    eta = float(law.eta) if law.eta is not None else 0.0
    weight = (table[:, 1] - table[:, 0] + 1) * np.exp(-eta * (table[:, 2] - table[:, 2].min()))
    return table[:, 0], table[:, 1], weight / weight.sum()


def _distance(first: NDArray[np.float64], last: NDArray[np.float64], best: float) -> NDArray[np.float64]:
    """Mean of ``|cut - best|`` over each block."""
    a, b = first - best, last - best
    across = (a < 0) & (b > 0)
    return np.where(across, (a**2 + b**2) / (2 * np.maximum(b - a, 1)), np.abs(a + b) / 2)


def predict_excess(learner: Any, *, n_users: int, records_per_user: int, noise: float = 0.2, repeats: int = 6, seed: int = 0) -> Prediction:
    """Mean excess error of a learner of cut-offs on the standard model; ``learner`` must have a law over cuts."""
    n, m = positive_int(n_users, "n_users"), positive_int(records_per_user, "records_per_user")
    rng = np.random.default_rng(seed)
    twin = learner.with_(concept=Thresholds(Integers(0, POINTS - 1), "x"))
    found = []
    for _ in range(repeats):
        users = uniform_noisy_users(n, m, noise, rng)
        law = twin.law(users, given=n) if getattr(twin, "needs_count", False) else twin.law(users)
        first, last, share = _block_table(law)
        found.append(float(share @ _distance(first, last, POINTS // 2)) / POINTS * (1 - 2 * noise))
    spread = float(np.std(found, ddof=1)) / len(found) ** 0.5 if len(found) > 1 else float("nan")
    return Prediction(float(np.mean(found)), spread, f"x uniform, label noise {noise}, {n} users with {m} records")
