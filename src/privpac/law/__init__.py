"""Exact finite laws: what mechanisms return, what audits read, what is sampled."""

from privpac.exact import Ball
from privpac.law.blocks import BOTTOM, Law

__all__ = ["BOTTOM", "Ball", "Law"]
