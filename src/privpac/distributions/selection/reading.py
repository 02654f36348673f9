"""Reading one candidate, whatever it was written as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privpac.distributions.results import (
    DiscreteDistribution,
    FamilyDistribution,
    GaussianDistribution,
    HistogramDistribution,
    ProductDistribution,
)
from privpac.distributions.selection.candidates import (
    MAX_CANDIDATES,
    Candidate,
    Counts,
    Density,
    Histogram,
    Joint,
    LineLaw,
    Normal,
    Pmf,
    Product,
    weights_of,
)
from privpac.errors import ParameterError, TooLargeError
from privpac.exact import rational

__all__ = ["read_candidate", "read_candidates"]


def read_candidate(value: Any, name: str) -> Candidate:
    """One candidate; unknown types are refused with the list of known ones."""
    if isinstance(value, Candidate):
        return value
    if isinstance(value, DiscreteDistribution):
        return Pmf(weights_of(value.weights, name), name)
    if isinstance(value, HistogramDistribution):
        return Histogram(value.edges, weights_of(value.weights, name), name)
    if isinstance(value, GaussianDistribution):
        return _gaussian(np.array(value.mean), np.array(value.covariance), name)
    if isinstance(value, FamilyDistribution):
        return _frozen(value._frozen, name)
    if isinstance(value, ProductDistribution):
        return Product(tuple(read_candidate(part, name) for part in value.parts), name)
    if isinstance(value, Density):
        return Joint(value, value.name if value.name != "density" else name)
    if isinstance(value, Mapping):
        return Pmf(dict(zip(value, weights_of(list(value.values()), name))), name)
    return _foreign(value, name)


def _foreign(value: Any, name: str) -> Candidate:
    from scipy import stats

    dist = getattr(value, "dist", None)
    if isinstance(dist, (stats.rv_continuous, stats.rv_discrete)):
        return _frozen(value, name)
    if hasattr(value, "cov_object") and hasattr(value, "logpdf"):
        return _gaussian(np.atleast_1d(value.mean), np.atleast_2d(value.cov), name)
    if isinstance(value, np.ndarray) or (isinstance(value, Sequence) and not isinstance(value, (str, bytes))):
        array = np.asarray(value, dtype=object)
        return Pmf(weights_of(array.ravel().tolist(), name), name)
    if isinstance(value, (stats.rv_continuous, stats.rv_discrete)) or type(value).__module__.startswith("scipy.stats"):
        raise TypeError(f"{name} is a scipy.stats distribution without parameters; freeze it, as in stats.norm(0, 1)")
    if callable(value):
        function = value

        def log_of(x: Any) -> Any:
            return np.log(np.asarray(function(x), dtype=np.float64))

        return Joint(Density(log_of), name)
    raise TypeError(
        f"{name} must be a list of weights, a mapping of values to weights, a frozen scipy.stats distribution, a "
        "released "
        f"distribution, a Density or a function, got {type(value).__name__}"
    )


def _frozen(law: Any, name: str) -> Candidate:
    from scipy import stats

    if np.ndim(law.mean()) != 0:
        raise ParameterError(f"{name} has arrays as parameters; list one candidate for each of them")
    if isinstance(law.dist, stats.rv_discrete):
        return Counts(law, name)
    if not np.isfinite(law.ppf(0.5)):
        raise ParameterError(f"{name} has invalid parameters for {law.dist.name!r}")
    normal = (rational(float(law.mean())), rational(float(law.std()))) if law.dist.name == "norm" else None
    return LineLaw(law, name, normal)


def _gaussian(mean: Any, covariance: Any, name: str) -> Candidate:
    if len(mean) == 1:
        from scipy import stats

        return _frozen(stats.norm(float(mean[0]), float(np.sqrt(covariance[0, 0]))), name)
    GaussianDistribution(tuple(map(str, range(len(mean)))), tuple(mean), tuple(map(tuple, covariance)))
    return Normal(np.asarray(mean, dtype=np.float64), np.asarray(covariance, dtype=np.float64), name)


def read_candidates(given: Any) -> tuple[Candidate, ...]:
    """Candidates from a list, or from a mapping of names to candidates."""
    if isinstance(given, Mapping):
        listed = [read_candidate(value, str(name)) for name, value in given.items()]
    elif isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise TypeError(f"candidates must be a list or a mapping of distributions, got {type(given).__name__}")
    else:
        listed = [read_candidate(value, f"candidate {i}") for i, value in enumerate(given)]
    if not listed:
        raise ParameterError("candidates must hold at least one distribution, got none")
    if len(listed) > MAX_CANDIDATES:
        raise TooLargeError(
            f"at most {MAX_CANDIDATES} candidates are compared pairwise, got {len(listed)}; list fewer, or use "
            "CoverLearner"
        )
    return tuple(listed)
