"""Mechanisms: from integer scores to an exact law, with a guarantee known before any data are seen."""

from privpac.mechanisms.certificate import ReleaseTest, pass_curve, smallest_K
from privpac.mechanisms.choosing import ChoosingKind, ChoosingMechanism, choosing_law, choosing_sample
from privpac.mechanisms.exponential import ExponentialMechanism
from privpac.mechanisms.gaussian import DiscreteGaussian, discrete_gaussian
from privpac.mechanisms.interior_point import InteriorPoint, plan_interior_point
from privpac.mechanisms.laplace import Laplace, discrete_laplace
from privpac.mechanisms.prefix_point import PrefixInteriorPoint
from privpac.mechanisms.randomized_response import RandomizedResponse
from privpac.mechanisms.rank import RankMechanism, rank_law, rank_window
from privpac.mechanisms.sensitivity import range_sensitivity
from privpac.mechanisms.truncated_laplace import TruncatedLaplace

__all__ = [
    "ChoosingKind",
    "ChoosingMechanism",
    "ExponentialMechanism",
    "DiscreteGaussian",
    "InteriorPoint",
    "Laplace",
    "PrefixInteriorPoint",
    "RandomizedResponse",
    "RankMechanism",
    "ReleaseTest",
    "TruncatedLaplace",
    "choosing_law",
    "choosing_sample",
    "discrete_gaussian",
    "discrete_laplace",
    "pass_curve",
    "plan_interior_point",
    "range_sensitivity",
    "rank_law",
    "rank_window",
    "smallest_K",
]
