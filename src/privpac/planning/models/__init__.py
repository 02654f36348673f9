"""Stated models of people, and what methods are predicted to do on them: simulations with public seeds, nothing
certified."""
