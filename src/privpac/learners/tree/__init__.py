"""Learning classes of VC dimension 1: one node of a public tree."""
