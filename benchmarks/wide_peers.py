"""Other people's methods on the tables of ``wide.py``, each made to protect a *person*.

* **DP-SGD**: logistic regression by noisy gradients.  A person's gradients are averaged, shortened to ``clip``, summed
  over people sampled with probability ``sampling``, and Gaussian noise is added: ``(epsilon, delta)`` per person under
  add-remove by the accountant of dp-accounting (privacy loss distributions of the sampled Gaussian).
* **diffprivlib** and **DP-EBM** protect a row and get one random row of each person (``peers/wide_models.py``).

All of them, and ours, get the number of people.  Noise is drawn in floating point from seeded generators.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from noisy_gradients import NoisyGradients
from wide_tables import Wide

import privpac as pp
from privpac.data.domains import values_of

__all__ = ["FIXED", "SETTINGS", "descend", "encoded", "in_peers"]

FIXED = "300 steps, clip 0.1"
SETTINGS = {
    FIXED: NoisyGradients(300, 0.1, 30.0),
    "200 steps, clip 0.1, slower": NoisyGradients(200, 0.1, 5.0),
    "50 steps, clip 1, gentle": NoisyGradients(50, 1.0, 0.3),
    "50 steps, clip 1": NoisyGradients(50, 1.0, 2.0),
    "100 steps, clip 0.3": NoisyGradients(100, 0.3, 2.0),
    "200 steps on a fifth, clip 0.3": NoisyGradients(200, 0.3, 1.0, 0.2),
}
"""The first is what ``privpac compare`` runs; six people who know the method might choose these."""


def encoded(table: Wide) -> tuple[Any, Any, Any, Any]:
    """Numbers in -1..1, categories as 0/1, one more 0/1 column where values are missing; and the bare codes with the
    number of them and whether they are names."""
    wide, bare, widths, nominal = [], [], [], []
    for name, domain in table.domains.items():
        values, series = values_of(domain), table.frame[name]
        holes = series.isna().to_numpy()
        if isinstance(values, pp.Categories):
            codes = series.map({value: i for i, value in enumerate(values.values)}).fillna(-1).to_numpy().astype(int)
            wide += [(codes == c).astype(float) for c in range(values.size)]
        else:
            codes = series.fillna(0).to_numpy().astype(int)
            wide.append(np.where(holes, 0.0, 2 * codes / (values.size - 1) - 1))
        if holes.any():
            wide.append(holes.astype(float))
        bare.append(codes)
        widths.append(values.size)
        nominal.append(isinstance(values, pp.Categories))
    return np.column_stack(wide), np.column_stack(bare), np.array(widths), np.array(nominal)


def descend(x: Any, y: Any, person: Any, how: NoisyGradients, noise: Any, rng: np.random.Generator) -> Any:
    """A row of weights, intercept last, for every noise multiplier; rows of ``x`` are sorted by ``person`` 0..n-1."""
    n, starts = int(person[-1]) + 1, np.flatnonzero(np.diff(person, prepend=-1))
    rows = np.column_stack([x, np.ones(len(x))])
    share = 1 / np.bincount(person)[person]
    weights = np.zeros((len(noise), rows.shape[1]))
    total, counted = np.zeros_like(weights), 0
    for step in range(how.steps):
        taken = rng.random(n) < how.sampling if how.sampling < 1 else None
        off = (0.5 * (1 + np.tanh(rows @ weights.T / 2)) - y[:, None]) * share[:, None]
        moved = np.empty_like(weights)
        for k in range(len(noise)):
            mean = np.add.reduceat(rows * off[:, [k]], starts, axis=0)
            length = np.sqrt(np.einsum("ij,ij->i", mean, mean))
            scale = np.minimum(1, how.clip / np.maximum(length, 1e-300))  # the clip is the sensitivity
            moved[k] = (scale if taken is None else scale * taken) @ mean
        moved += (noise * how.clip)[:, None] * rng.standard_normal(moved.shape)
        weights = weights - how.rate * moved / (how.sampling * n)
        if 2 * step >= how.steps - 1:
            total, counted = total + weights, counted + 1
    return total / counted


def in_peers(python: str, job: dict[str, Any]) -> dict[str, Any]:
    """The answer of the other environment: predictions by ``model/set/epsilon/draw``."""
    script = Path(__file__).parent / "peers" / "wide_models.py"
    with TemporaryDirectory() as folder:
        asked, told = Path(folder) / "job.npz", Path(folder) / "answer.npz"
        np.savez(asked, **job)
        subprocess.run([python, str(script), str(asked), str(told)], check=True)
        with np.load(told) as found:
            return {name: found[name] for name in found.files}
