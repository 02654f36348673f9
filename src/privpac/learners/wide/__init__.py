"""Learners for wide tables: small trees from one exact law (``small_tree``, with its law in ``tree_law``)."""
