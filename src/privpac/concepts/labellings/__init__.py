"""Labellings of a few points by a class, one module per shape of class."""
