"""Certificates of the selection learners."""
