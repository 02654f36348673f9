"""Selection from a class of rules: one score for every rule, one exact draw."""
