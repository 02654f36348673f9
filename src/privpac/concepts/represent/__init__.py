"""Small sets of rules that stand in for a class."""
