"""Compiled folds over sorted records."""
