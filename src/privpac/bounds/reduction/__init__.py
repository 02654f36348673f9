"""The realizable-to-agnostic reduction: privacy, accuracy and plans."""
