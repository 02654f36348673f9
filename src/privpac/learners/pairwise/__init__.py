"""Clipped pairwise selection: rules compared two by two."""
