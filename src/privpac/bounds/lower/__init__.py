"""Lower bounds: what no private learner can do."""
