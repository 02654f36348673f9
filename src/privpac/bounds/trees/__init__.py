"""The private tree learner: what it certifies and how to plan it."""
