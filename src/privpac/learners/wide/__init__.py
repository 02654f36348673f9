"""Learners for wide tables: points cards (``card``, with its arithmetic and budget beside it)."""
