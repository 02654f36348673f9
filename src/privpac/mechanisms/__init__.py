"""Mechanisms: from integer scores to an exact law, with a guarantee known before any data are seen."""

from privpac.mechanisms.choosing import ChoosingMechanism, choosing_law, choosing_sample
from privpac.mechanisms.exponential import ExponentialMechanism, range_sensitivity
from privpac.mechanisms.gaussian import DiscreteGaussian, discrete_gaussian
from privpac.mechanisms.interior_point import InteriorPoint, PrefixInteriorPoint, plan_interior_point
from privpac.mechanisms.laplace import Laplace, discrete_laplace
from privpac.mechanisms.noise import Change, Noise
from privpac.mechanisms.randomized_response import RandomizedResponse
from privpac.mechanisms.rank import RankMechanism, rank_law, rank_window
from privpac.mechanisms.release_test import ReleaseTest, pass_curve, smallest_K
from privpac.mechanisms.stable_weights import StableWeights
from privpac.mechanisms.truncated_laplace import TruncatedLaplace

__all__ = [
    "Change",
    "ChoosingMechanism",
    "ExponentialMechanism",
    "DiscreteGaussian",
    "InteriorPoint",
    "Laplace",
    "Noise",
    "PrefixInteriorPoint",
    "RandomizedResponse",
    "RankMechanism",
    "ReleaseTest",
    "StableWeights",
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
