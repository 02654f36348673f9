"""Classes of VC dimension 1: one node of a public tree.  Read ``tree_learner`` first, then ``tree_sample_size``."""
