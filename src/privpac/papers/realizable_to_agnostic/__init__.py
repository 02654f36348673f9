"""From learners for clean labels to learners for any labels: the reduction as a learner.  What it shares with
prediction (the relabelling, its privacy) is in ``methods.prediction``."""
