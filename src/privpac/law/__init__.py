"""Exact finite laws: what mechanisms return, what audits read, what is sampled."""

from privpac.exact import Ball
from privpac.law import blocks as finite
from privpac.law import build, divergence
from privpac.law.blocks import BOTTOM, Law, hand_over

__all__ = ["BOTTOM", "Ball", "Law"]

hand_over(build=build, divergence=divergence, finite=finite)
