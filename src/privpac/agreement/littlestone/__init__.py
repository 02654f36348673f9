"""Stable learners for classes of small Littlestone dimension."""
