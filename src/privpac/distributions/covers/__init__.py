"""Finite covers of families of distributions, and selection from them."""
