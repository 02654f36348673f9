"""Correlated sampling: public clocks, and races between candidates."""
