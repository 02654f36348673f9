"""Stable learners by statistical queries with rounded answers."""
