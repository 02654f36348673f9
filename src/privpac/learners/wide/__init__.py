"""Learners for wide tables: small trees from one exact law (``small_tree``) and points cards (``card``, with its
arithmetic, kernels and budget beside it)."""
