"""Comparing candidates record by record, for several columns without bins.

Whether a record is in a Scheffé set must be a function of the record *alone*: batched linear algebra may round the same
row differently in different company.  Normal laws are therefore evaluated by one scalar loop of additions and
multiplications per record, other densities by one call per distinct record.  ``P(W)`` is ``Phi(distance / 2)`` for two
normals of one covariance, else a Monte-Carlo mean from public coins: its error, at most ``sqrt(ln(2 K^2 / eta) / (2
S))`` except with probability ``eta``, costs accuracy, never privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privpac.data import Domain, UserData
from privpac.data.jit import jit
from privpac.distributions.cells import values_of
from privpac.distributions.parametric import uniforms
from privpac.distributions.selection.candidates import Candidate, Joint, LineLaw, Normal, Product
from privpac.distributions.selection.comparison import CandidateComparison
from privpac.distributions.selection.kernels import density_sums
from privpac.errors import ParameterError
from privpac.rng import PublicCoins, derive
from privpac.special import ndtr, ndtri

__all__ = ["DensityComparison", "monte_carlo", "points_of"]

Floats64 = NDArray[np.float64]
_BLOCK = 1 << 15


@jit
def _quadratic(points: Floats64, means: Floats64, inverses: Floats64, constants: Floats64) -> Floats64:
    out = np.empty((points.shape[0], means.shape[0]))
    dimension = points.shape[1]
    for i in range(points.shape[0]):
        for k in range(means.shape[0]):
            form = 0.0
            for a in range(dimension):
                for b in range(dimension):
                    form += (points[i, a] - means[k, a]) * inverses[k, a, b] * (points[i, b] - means[k, b])
            out[i, k] = constants[k] - 0.5 * form
    return out


def points_of(users: UserData, domains: Mapping[str, Domain]) -> Floats64:
    """Records as rows of numbers."""
    return np.column_stack([values_of(domain, users.codes[name]) for name, domain in domains.items()])


@dataclass(frozen=True, eq=False)
class DensityComparison(CandidateComparison):
    """Sets decided at the records themselves."""

    candidates: tuple[Candidate, ...]
    domains: Mapping[str, Domain]

    @property
    def known(self) -> bool:
        return _one_covariance(self.candidates) is not None

    def chunk(self, users: UserData, top: int) -> NDArray[np.int64]:
        out = np.zeros(self.q.shape, np.int64)
        if not users.n_records:
            return out
        points, offsets = points_of(users, self.domains), users.offsets
        # Blocks of whole users, so that the matrix of densities stays small.
        ends = np.searchsorted(offsets, np.arange(0, users.n_records, _BLOCK))
        bounds = np.unique(np.concatenate([[0], ends, [users.n_users]]))
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist()):
            block = offsets[first : last + 1]
            density = self.log_density(points[block[0] : block[-1]])
            out += density_sums(block, density, self.q, self.unit, top)
        return out

    def log_density(self, points: Floats64) -> Floats64:
        """One column for each candidate; every row depends on that row alone."""
        normals = _normals(self.candidates)
        if normals is not None:
            return normals(points)
        distinct, places = np.unique(points, axis=0, return_inverse=True)
        rows = [[float(candidate.log_density(row[None, :])[0]) for candidate in self.candidates] for row in distinct]
        return np.asarray(np.array(rows)[places.reshape(-1)])


def _normals(candidates: Sequence[Candidate]) -> Callable[[Floats64], Floats64] | None:
    """Log densities of all candidates at once if they are normal laws."""
    normals = [candidate for candidate in candidates if isinstance(candidate, Normal)]
    if len(normals) < len(candidates):
        return None
    forms = [candidate.quadratic for candidate in normals]
    means, inverses = np.stack([candidate.mean for candidate in normals]), np.stack([form for form, _ in forms])
    constants = np.array([constant for _, constant in forms])
    return lambda points: np.asarray(_quadratic(points, means, inverses, constants))


# The probabilities of the sets


def monte_carlo(candidates: Sequence[Candidate], dimension: int, samples: int, public_seed: bytes) -> Floats64:
    """``P(W_{PQ})`` for all pairs."""
    exact = _one_covariance(candidates)
    if exact is not None:
        return exact
    coins = PublicCoins(public_seed, "P(W)")
    u = uniforms(samples * dimension, coins).reshape(samples, dimension)
    seed = int.from_bytes(derive(public_seed, "P(W) samples")[:4], "little")
    out, normals = np.zeros((len(candidates), len(candidates))), _normals(candidates)
    for p, candidate in enumerate(candidates):
        drawn = _drawn(candidate, u, seed)
        for start in range(0, samples, _BLOCK):
            rows = np.ascontiguousarray(drawn[start : start + _BLOCK])
            if normals is not None:
                density = normals(rows)
                out[p] += np.count_nonzero(density[:, p : p + 1] > density, axis=0)
                continue
            own = candidate.log_density(rows)
            for r, other in enumerate(candidates):
                if r != p:
                    out[p, r] += np.count_nonzero(own > other.log_density(rows))
    return out / samples


def _one_covariance(candidates: Sequence[Candidate]) -> Floats64 | None:
    normals = [candidate for candidate in candidates if isinstance(candidate, Normal)]
    if len(normals) < len(candidates) or any(not np.array_equal(c.covariance, normals[0].covariance) for c in normals):
        return None
    root = np.linalg.cholesky(normals[0].covariance)
    scaled = np.linalg.solve(root, np.stack([c.mean for c in normals]).T).T
    distance = np.sqrt(((scaled[:, None, :] - scaled[None, :, :]) ** 2).sum(axis=2))
    return np.where(distance > 0, np.asarray(ndtr(distance / 2)), 0.0)


def _drawn(candidate: Candidate, u: Floats64, seed: int) -> Floats64:
    if isinstance(candidate, Normal):
        return np.asarray(ndtri(u) @ np.linalg.cholesky(candidate.covariance).T + candidate.mean)
    if isinstance(candidate, Product) and all(isinstance(part, LineLaw) for part in candidate.parts):
        return np.column_stack([part.quantiles(u[:, i]) for i, part in enumerate(candidate.parts)])
    if isinstance(candidate, LineLaw):
        return candidate.quantiles(u[:, 0])[:, None]
    if isinstance(candidate, Joint) and candidate.density.sample is not None:
        rows = np.asarray(candidate.density.sample(len(u), seed), dtype=np.float64)
        if rows.size != u.size:
            raise ParameterError(
                f"sample(size, seed) of {candidate.name} must return {len(u)} rows of {u.shape[1]} numbers"
            )
        return rows.reshape(u.shape)
    raise ParameterError(
        f"{candidate.name} can neither be integrated nor sampled: give Density(..., sample=...), or bins="
    )
